//! One call of the server: started with key and IV, then fed.
//!
//! The arguments at its start determine the cipher:
//!
//! - Padding allowed, so that the output may grow: a temporary file. GCM.
//! - No padding, and the handle itself as key (32 bytes): an event of a binary log or relay log, in
//!   pieces. A stream.
//! - No padding, and a key that the server derived from a handle (16 bytes): either a message in
//!   one piece (a page of InnoDB or Aria, a block of InnoDB's temporary files), which uses a wide
//!   block, or a mini-transaction of the redo log, in pieces, which uses a stream. The first piece
//!   distinguishes them: of a mini-transaction it is at most 256 bytes, and whole blocks of 16
//!   bytes unless there are fewer in all. No page that InnoDB has encrypted has such a length; the
//!   used part of an index page of Aria may, and then uses a stream, too.
//!
//! The key version's derivation determines the wide block and the stream cipher. The server makes
//! the IV of a mini-transaction from the LSN up to which the log is flushed, so all between two
//! flushes share it, and when reading it splits a mini-transaction at other places. The online
//! cipher tolerates both; counter mode, which older versions have, tolerates no repeated IV.

use std::sync::atomic::{AtomicBool, Ordering};

use tdekit_key_crypto::WideBlockKey;
use tdekit_key_crypto::gcm::GcmKey;

use crate::cache::{Cache, EXTRA_LEN, Key, Name, Prepared};
use crate::derive::{HANDLE_LEN, Use};
use crate::keyring::Keyring;
use crate::mark::Mark;
use crate::page::{PageLen, Place, is_page_len};
use crate::stream::{Stream, StreamKey};
use crate::{PluginError, report};

/// Length of an IV in bytes.
pub(crate) const IV_LEN: usize = 16;
/// Number of bytes that sealing adds to a message.
pub(crate) const SEAL_LEN: usize = GcmKey::TAG_LEN;

/// Maximum length of a redo log piece that the server passes, in bytes.
const MAX_LOG_PIECE: usize = 256;

/// `ENCRYPTION_FLAG_ENCRYPT` of the server.
pub(crate) const FLAG_ENCRYPT: i32 = 1;
/// `ENCRYPTION_FLAG_NOPAD` of the server.
pub(crate) const FLAG_NOPAD: i32 = 2;

/// Shared state of all calls.
pub(crate) struct Engine {
    pub(crate) keyring: Keyring,
    pub(crate) cache: Cache,
    pub(crate) page_len: PageLen,
    /// True if the warning about records in counter mode was logged.
    pub(crate) told_counter: AtomicBool,
    pub(crate) mark: Mark,
}

/// A call in progress. Plain data: it needs no cleanup.
pub(crate) struct Call {
    name: Name,
    iv: [u8; IV_LEN],
    encrypt: bool,
    /// Position in a stream; set by its first piece.
    stream: Option<Stream>,
    /// True after the single piece of a message, and after an error.
    done: bool,
}

impl Call {
    /// Starts a call.
    pub(crate) fn begin(
        key: &[u8],
        iv: &[u8],
        flags: i32,
        id: u32,
        version: u32,
    ) -> Result<Self, PluginError> {
        let len = iv.len();
        let iv: [u8; IV_LEN] =
            iv.try_into().map_err(|_| PluginError::Call { what: "an IV", len })?;
        let of = match flags & FLAG_NOPAD != 0 {
            false => Use::Sealed,
            true if key.len() == HANDLE_LEN => Use::Stream,
            true => Use::Message,
        };
        let mut extra = [0; EXTRA_LEN];
        extra.copy_from_slice(&iv[GcmKey::IV_LEN..]);
        let name = Name::new(id, version, of, key, extra)?;
        let encrypt = flags & FLAG_ENCRYPT != 0;
        Ok(Self { name, iv, encrypt, stream: None, done: false })
    }

    /// Returns the maximum length of the output for `input_len` bytes; the server has space for it.
    pub(crate) fn output_len(&self, input_len: usize) -> Result<usize, PluginError> {
        let call = || PluginError::Call { what: "a message", len: input_len };
        let len = match (self.name.of, self.encrypt) {
            (Use::Sealed, true) => input_len.checked_add(SEAL_LEN),
            (Use::Sealed, false) => input_len.checked_sub(SEAL_LEN),
            _ => input_len.checked_add(self.tail_len()),
        };
        len.ok_or_else(call)
    }

    /// Returns the length of the output of [`Self::finish`].
    pub(crate) fn tail_len(&self) -> usize {
        self.stream.as_ref().map_or(0, Stream::tail_len)
    }

    /// Takes the next piece, and returns the length of its output. `output` has the length that
    /// [`Self::output_len`] returned; after an error it is zeroed.
    pub(crate) fn feed(
        &mut self,
        engine: &Engine,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, PluginError> {
        let name = self.name;
        let fed = engine.cache.with(&engine.keyring, &name, |prepared| match &prepared.key {
            _ if self.done => Err(PluginError::Call { what: "a second piece", len: input.len() }),
            Key::Stream(key) => self.next(engine, key, 0, input, output),
            Key::Sealed(key) => {
                self.done = true;
                self.seal_or_open(key, input, output)?;
                Ok(output.len())
            }
            Key::Message { records, .. } if self.stream.is_some() || is_log_piece(input.len()) => {
                if !prepared.has_records.load(Ordering::Relaxed) {
                    prepared.has_records.store(true, Ordering::Relaxed);
                }
                let done = self.next(engine, records, log_lane(input.len()), input, output)?;
                if self.encrypt {
                    engine.mark.prove();
                }
                Ok(done)
            }
            Key::Message { wide, .. } => {
                self.done = true;
                self.message(engine, prepared, wide, input, output)?;
                Ok(output.len())
            }
        });
        if fed.is_err() {
            output.fill(0);
            (self.done, self.stream) = (true, None);
        }
        fed
    }

    /// Writes the bytes held back. `output` has the length that [`Self::tail_len`] returned; after
    /// an error it is zeroed.
    pub(crate) fn finish(&mut self, engine: &Engine, output: &mut [u8]) -> Result<(), PluginError> {
        self.done = true;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let name = self.name;
        let ended = engine.cache.with(&engine.keyring, &name, |prepared| match &prepared.key {
            Key::Stream(key) | Key::Message { records: key, .. } => key.finish(stream, output),
            Key::Sealed(_) => Ok(()),
        });
        if ended.is_err() {
            output.fill(0);
        }
        ended
    }

    /// Processes the next piece of a stream, starting with its first.
    fn next(
        &mut self,
        engine: &Engine,
        key: &StreamKey,
        lane: u64,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, PluginError> {
        if self.encrypt && self.stream.is_none() && matches!(key, StreamKey::Counter(_)) {
            self.tell_counter(engine);
        }
        let stream = self.stream.get_or_insert_with(|| key.begin(&self.iv, self.encrypt, lane));
        let ready = stream.ready_len(input.len());
        let room = output.len();
        let output = output
            .get_mut(..ready)
            .ok_or(PluginError::Call { what: "too little room", len: room })?;
        key.update(stream, input, output)?;
        Ok(ready)
    }

    /// Logs once that logs are still written in counter mode.
    #[cold]
    fn tell_counter(&self, engine: &Engine) {
        if engine.told_counter.swap(true, Ordering::Relaxed) {
            return;
        }
        let (id, version) = (self.name.id, self.name.version);
        report::warning(format_args!(
            "logs are written under version {version} of key {id}, in counter mode as before: who \
             knows one row in the redo log can read others. `tdekit mariadb rotate` makes a \
             version without that; then FLUSH BINARY LOGS, and start the server once with another \
             innodb_log_file_size, which begins the redo log anew"
        ));
    }

    fn seal_or_open(
        &self,
        key: &GcmKey,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), PluginError> {
        let (iv, aad) = self.iv.split_at(GcmKey::IV_LEN);
        let iv = iv.try_into().map_err(|_| PluginError::Call { what: "an IV", len: iv.len() })?;
        let call = |len| PluginError::Call { what: "a sealed message", len };
        if self.encrypt {
            let len = output.len();
            let (body, tag) = output.split_last_chunk_mut().ok_or_else(|| call(len))?;
            *tag = key.seal(iv, aad, input, body)?;
            return Ok(());
        }
        let (body, tag) = input.split_last_chunk().ok_or_else(|| call(input.len()))?;
        key.open(iv, aad, body, tag, output).map_err(|_| PluginError::SealRefused)
    }

    fn message(
        &self,
        engine: &Engine,
        prepared: &Prepared,
        wide: &WideBlockKey,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), PluginError> {
        let has_records = prepared.has_records.load(Ordering::Relaxed);
        if !has_records && !is_page_len(input.len()) {
            prepared.has_records.store(true, Ordering::Relaxed);
        }
        let plaintext: &[u8] = if self.encrypt {
            wide.encrypt(&self.iv, input, output)?;
            input
        } else {
            wide.decrypt(&self.iv, input, output)?;
            output
        };
        if has_records || !is_page_len(input.len()) {
            return Ok(());
        }
        self.check_page(engine, plaintext)
    }

    /// Refuses a full page whose content does not name the place from which it was read.
    fn check_page(&self, engine: &Engine, plaintext: &[u8]) -> Result<(), PluginError> {
        let place = Place::of(&self.iv);
        if place.matches(plaintext) {
            engine.page_len.saw(plaintext.len());
            if !self.encrypt {
                engine.mark.prove();
            }
            return Ok(());
        }
        if !engine.page_len.is_full(plaintext.len()) {
            return Ok(());
        }
        let Place { space, page, .. } = place;
        let (id, version) = (self.name.id, self.name.version);
        if self.encrypt {
            report::warning(format_args!(
                "page {page} of tablespace {space} is written with another place inside it, and \
                 will be refused when it is read"
            ));
            return Ok(());
        }
        Err(PluginError::PageRefused { space, page, id, version })
    }
}

/// Returns true if a first piece of this length starts a mini-transaction of the redo log.
pub(crate) fn is_log_piece(len: usize) -> bool {
    len < WideBlockKey::MIN_LEN
        || (len <= MAX_LOG_PIECE && len.is_multiple_of(WideBlockKey::MIN_LEN))
}

/// Older servers encrypt each record separately, with an IV that the records of one page in a
/// mini-transaction share. A separate lane for each length also reduces how many share a keystream.
fn log_lane(first_len: usize) -> u64 {
    if first_len < WideBlockKey::MIN_LEN { 1 + first_len as u64 } else { 0 }
}
