//! Binary logs that a server encrypted, read without the server.
//!
//! An encrypted log begins in the clear, up to an event with key version and nonce. For each event
//! after it, the length stays in place; everything else is encrypted.

use std::io::{ErrorKind, Read, Write};

use crate::derive::{Purpose, ServerKey, Use, derive, handle};
use crate::keyring::Keyring;
use crate::stream::StreamKey;
use crate::{PluginError, SYSTEM_KEY_ID};

const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];
const HEADER_LEN: usize = 19;
const TYPE_AT: usize = 4;
const LEN_AT: usize = 9;
const FLAGS_AT: usize = 17;
const CRC_LEN: usize = 4;
/// Maximum length of a server's event: `max_allowed_packet` is at most 1 GiB.
const MAX_EVENT_LEN: usize = (1 << 30) + (1 << 20);

const FORMAT_DESCRIPTION: u8 = 15;
const START_ENCRYPTION: u8 = 164;
/// An event that readers skip, if its flag is set as well.
const IGNORABLE: u8 = 28;
const IGNORABLE_FLAG: u8 = 0x80;
/// The fault of a log whose last event is not whole.
pub(crate) const SHORT: &str =
    "the log ends inside an event, as it does when the server was stopped hard";
/// Scheme, key version, nonce.
const START_LEN: usize = 1 + 4 + NONCE_LEN;
const NONCE_LEN: usize = 12;

/// A summary of the log that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Number of events, including those in the clear.
    pub events: u64,
    /// The version of key 1 that encrypted the log; `None` for a plain one.
    pub key_version: Option<u32>,
}

/// Copies a binary log or relay log, decrypted, to `output`. The event that started its encryption
/// becomes one that readers skip, so that each event keeps its position.
///
/// # Errors
/// [`PluginError::Binlog`] for a file that is not a binary log, is damaged, or is under another
/// key; the whole events before the fault have been written. [`PluginError::NoKey`],
/// [`PluginError::Io`].
pub fn decrypt(
    input: &mut impl Read,
    output: &mut impl Write,
    keyring: &Keyring,
) -> Result<Summary, PluginError> {
    decrypt_with(input, output, &|id, version| keyring.key(id, version))
}

/// Finds a version of a server key, by number and version.
pub type FindKey<'a> = &'a dyn Fn(u32, u32) -> Result<ServerKey, PluginError>;

/// As [`decrypt`], with keys from any source.
///
/// # Errors
/// Those of [`decrypt`], and errors of `find_key`.
pub fn decrypt_with(
    input: &mut impl Read,
    output: &mut impl Write,
    find_key: FindKey<'_>,
) -> Result<Summary, PluginError> {
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|error| short(error, 0))?;
    if magic != MAGIC {
        return Err(PluginError::Binlog { offset: 0, reason: "it is no binary log" });
    }
    output.write_all(&magic)?;
    let mut reader = Reader { offset: MAGIC.len() as u64, checksums: false, start: None };
    let mut events = 0;
    let mut event = Vec::new();
    while reader.read(input, &mut event)? {
        if let Some(start) = &reader.start {
            start.decrypt(&mut event, reader.offset)?;
            reader.check(&event)?;
        }
        match event[TYPE_AT] {
            FORMAT_DESCRIPTION => reader.checksums = has_checksums(&event),
            START_ENCRYPTION => {
                let start = Start::of(&event, find_key, reader.offset)?;
                reader.start.get_or_insert(start);
                reader.make_ignorable(&mut event);
            }
            _ => {}
        }
        output.write_all(&event)?;
        reader.offset += event.len() as u64;
        events += 1;
    }
    output.flush()?;
    Ok(Summary { events, key_version: reader.start.map(|start| start.key_version) })
}

/// Returns true if a binary log or relay log is encrypted.
///
/// # Errors
/// [`PluginError::Binlog`] for a file that is not a binary log; [`PluginError::Io`].
pub fn is_encrypted(input: &mut impl Read) -> Result<bool, PluginError> {
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|error| short(error, 0))?;
    if magic != MAGIC {
        return Err(PluginError::Binlog { offset: 0, reason: "it is no binary log" });
    }
    let reader = Reader { offset: MAGIC.len() as u64, checksums: false, start: None };
    let mut event = Vec::new();
    // The event that starts the encryption is the first after the one that starts the log.
    let has_event = reader.read(input, &mut event)? && reader.read(input, &mut event)?;
    Ok(has_event && event.get(TYPE_AT) == Some(&START_ENCRYPTION))
}

/// Position in a log, and the way to read it.
struct Reader {
    offset: u64,
    /// True if each event ends with a CRC-32 of its bytes.
    checksums: bool,
    start: Option<Start>,
}

impl Reader {
    /// Reads the event at the offset; returns false at the log's end.
    fn read(&self, input: &mut impl Read, event: &mut Vec<u8>) -> Result<bool, PluginError> {
        let refused = |reason| PluginError::Binlog { offset: self.offset, reason };
        event.clear();
        let header = input.by_ref().take(HEADER_LEN as u64).read_to_end(event)?;
        if header == 0 {
            return Ok(false);
        }
        let ends = SHORT;
        let len: [u8; 4] = event
            .get(LEN_AT..LEN_AT + 4)
            .and_then(|len| len.try_into().ok())
            .filter(|_| header == HEADER_LEN)
            .ok_or_else(|| refused(ends))?;
        let len = u32::from_le_bytes(len) as usize;
        if !(HEADER_LEN..=MAX_EVENT_LEN).contains(&len) {
            return Err(refused("an event has a length that none has"));
        }
        let rest = len - HEADER_LEN;
        if input.by_ref().take(rest as u64).read_to_end(event)? < rest {
            return Err(refused(ends));
        }
        Ok(true)
    }

    /// Checks that a decrypted event is valid.
    fn check(&self, event: &[u8]) -> Result<(), PluginError> {
        let refused = || PluginError::Binlog {
            offset: self.offset,
            reason: "an event does not decrypt: it is damaged, or of another key",
        };
        if self.checksums {
            let (body, crc) = event.split_last_chunk::<CRC_LEN>().ok_or_else(refused)?;
            return if crc32(body) == u32::from_le_bytes(*crc) { Ok(()) } else { Err(refused()) };
        }
        // Without a checksum only the type can be checked: there are some 60 among 256.
        match event[TYPE_AT] {
            1..=43 | 160..=171 => Ok(()),
            _ => Err(refused()),
        }
    }

    fn make_ignorable(&self, event: &mut [u8]) {
        event[TYPE_AT] = IGNORABLE;
        event[FLAGS_AT] |= IGNORABLE_FLAG;
        if self.checksums
            && let Some((body, crc)) = event.split_last_chunk_mut::<CRC_LEN>()
        {
            *crc = crc32(body).to_le_bytes();
        }
    }
}

/// Encryption of a log, from its event.
struct Start {
    key: StreamKey,
    key_version: u32,
    nonce: [u8; NONCE_LEN],
}

impl Start {
    fn of(event: &[u8], find_key: FindKey<'_>, offset: u64) -> Result<Self, PluginError> {
        let reason = "the event that begins the encryption is damaged or of another kind";
        let refused = || PluginError::Binlog { offset, reason };
        let body = event.get(HEADER_LEN..HEADER_LEN + START_LEN).ok_or_else(refused)?;
        let (head, nonce) = body.split_last_chunk().ok_or_else(refused)?;
        let &[1, v0, v1, v2, v3] = head else { return Err(refused()) };
        let key_version = u32::from_le_bytes([v0, v1, v2, v3]);
        let (id, version) = (SYSTEM_KEY_ID, key_version);
        let server_key = find_key(id, version)?;
        let handle = handle(&server_key, id, version)?;
        let purpose = Purpose { id, version, of: Use::Stream, passed: handle.expose(), extra: &[] };
        let derivation = server_key.derivation;
        let key = derive(&server_key, purpose, StreamKey::len(derivation))?;
        let key = StreamKey::new(derivation, key.expose())?;
        Ok(Self { key, key_version, nonce: *nonce })
    }

    /// Decrypts an event in place.
    fn decrypt(&self, event: &mut [u8], offset: u64) -> Result<(), PluginError> {
        let mut iv = [0; NONCE_LEN + 4];
        iv[..NONCE_LEN].copy_from_slice(&self.nonce);
        // Logs are shorter than 4 GiB: events store their position in 32 bits.
        let place = u32::try_from(offset)
            .map_err(|_| PluginError::Binlog { offset, reason: "a log is shorter than 4 GiB" })?;
        iv[NONCE_LEN..].copy_from_slice(&place.to_le_bytes());
        let mut len = [0; 4];
        len.copy_from_slice(&event[LEN_AT..LEN_AT + 4]);
        // The length replaces four bytes of ciphertext; these are at the beginning, whose own four
        // bytes of plaintext are in the length's place.
        event.copy_within(..4, LEN_AT);
        let ciphertext = event[4..].to_vec();
        let mut stream = self.key.begin(&iv, false, 0);
        let whole = stream.ready_len(ciphertext.len());
        let (whole, tail) = event[4..].split_at_mut(whole);
        self.key.update(&mut stream, &ciphertext, whole)?;
        self.key.finish(&mut stream, tail)?;
        event.copy_within(LEN_AT..LEN_AT + 4, 0);
        event[LEN_AT..LEN_AT + 4].copy_from_slice(&len);
        Ok(())
    }
}

/// Returns true if the format that an event describes has checksums. The event itself always ends
/// with the kind of checksum and a checksum.
fn has_checksums(event: &[u8]) -> bool {
    const CRC32: u8 = 1;
    event.len().checked_sub(CRC_LEN + 1).and_then(|at| event.get(at)) == Some(&CRC32)
}

/// CRC-32 as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            #[allow(clippy::cast_possible_truncation)] // it is below 256
            let mut word = at as u32;
            let mut bit = 0;
            while bit < 8 {
                word = if word & 1 == 1 { word >> 1 ^ 0xedb8_8320 } else { word >> 1 };
                bit += 1;
            }
            table[at] = word;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| {
        let at = (crc ^ u32::from(*byte)) & 0xff;
        crc >> 8 ^ TABLE[at as usize]
    })
}

fn short(error: std::io::Error, offset: u64) -> PluginError {
    match error.kind() {
        ErrorKind::UnexpectedEof => PluginError::Binlog { offset, reason: "it is no binary log" },
        _ => error.into(),
    }
}
