//! Frames as recovery reads them.

use tdekit_sqlite_page::page::{key_version, seal_of};
use tdekit_sqlite_page::wal::{
    FRAME_PREFIX_LEN, FrameHeader, SQLITE_FRAME_HEADER_LEN, prefix_page,
};
use tdekit_sqlite_page::{PageError, PageSize};

use super::WalFile;
use crate::VfsError;
use crate::base::Read;

/// Maximum length of a frame that is searched for a single flipped bit: one takes some 20 ms.
const MAX_SEARCHED_LEN: usize = 5000;
/// The end of a page: its key version and its flags.
const WORD_LEN: usize = 8;
const NO_FLAGS: [u8; 4] = [0; 4];

impl WalFile {
    /// Reads header and page of a frame as recovery does: a frame that was never completely written
    /// reads as zeros, whose checksum ends the log; a damaged one is an error.
    pub(super) fn recover_frame(
        &mut self,
        frame: u32,
        size: PageSize,
        out: &mut [u8],
    ) -> Result<Read, VfsError> {
        if !self.load_frame(frame, size)? {
            out.fill(0);
            return Ok(Read::Short);
        }
        let sealed = std::mem::take(&mut self.sealed);
        let mut opened = self.open_frame(frame, &sealed, out);
        // A frame under an unknown key would look like the log's end.
        if opened.is_err() && self.shared.live.learn()? {
            opened = self.open_frame(frame, &sealed, out);
        }
        let result = match opened {
            Ok(_) => {
                self.read_whole = Some((self.shared.write_transactions.get(), frame));
                Ok(Read::Full)
            }
            Err(error) if self.is_damage(frame, size, &sealed)? => Err(error.into()),
            Err(_) => {
                out.fill(0);
                Ok(Read::Full)
            }
        };
        self.sealed = sealed;
        result
    }

    pub(super) fn open_frame(
        &mut self,
        frame: u32,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<FrameHeader, PageError> {
        let (prefix, page) = sealed.split_at(FRAME_PREFIX_LEN);
        let seal = seal_of(page).ok_or(PageError::Frame { frame })?;
        let header = self.codec().open_frame(frame, prefix, seal)?;
        out[..SQLITE_FRAME_HEADER_LEN].copy_from_slice(&header.sqlite);
        self.shared.try_page(header.page(), page, &mut out[SQLITE_FRAME_HEADER_LEN..])?;
        Ok(header)
    }

    /// Returns true if a frame that does not open was once whole. That is so if a later frame of
    /// this generation was written after it had been synced; and if it is one bit away from
    /// opening, which a torn write never is unless it tore only the last word.
    fn is_damage(&mut self, frame: u32, size: PageSize, sealed: &[u8]) -> Result<bool, VfsError> {
        let mut out = vec![0; SQLITE_FRAME_HEADER_LEN + size.len()];
        if self.is_one_bit_away(frame, sealed, &mut out) {
            return Ok(true);
        }
        for later in frame + 1.. {
            if !self.load_frame(later, size)? {
                return Ok(false);
            }
            let bytes = std::mem::take(&mut self.sealed);
            let header = self.open_frame(later, &bytes, &mut out);
            self.sealed = bytes;
            if let Ok(header) = header {
                if header.salts() != self.salts {
                    return Ok(false);
                }
                if header.durable_before > frame {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the last word, which has few nonzero bits, may be the content before the
    /// frame was written: nothing, or a frame of an older generation, perhaps under an older key. A
    /// sector begins with the last word of every 64th frame.
    fn may_lack_last_word(&self, sealed: &[u8]) -> bool {
        let known = |version| version == 0 || self.shared.live.keys().dek(version).is_ok();
        sealed.ends_with(&NO_FLAGS) && key_version(sealed).is_some_and(known)
    }

    fn is_one_bit_away(&mut self, frame: u32, sealed: &[u8], out: &mut [u8]) -> bool {
        if sealed.len() > MAX_SEARCHED_LEN || sealed.iter().all(|&b| b == 0) {
            return false;
        }
        let mut trial = sealed.to_vec();
        let (_, page) = sealed.split_at(FRAME_PREFIX_LEN);
        // The page is sealed separately from the prefix, so a page that opens leaves the prefix to
        // try.
        let body = &mut out[SQLITE_FRAME_HEADER_LEN..];
        let page_opens = self.shared.try_page(prefix_page(sealed), page, body).is_ok();
        let bits = match (page_opens, self.may_lack_last_word(sealed)) {
            (true, _) => FRAME_PREFIX_LEN * 8,
            (false, true) => (sealed.len() - WORD_LEN) * 8,
            (false, false) => sealed.len() * 8,
        };
        (0..bits).any(|bit| {
            trial[bit / 8] ^= 1 << (bit % 8);
            // The prefix authenticates the page's seal: try the cheap half first.
            let number = prefix_page(&trial);
            let body = &mut out[SQLITE_FRAME_HEADER_LEN..];
            let likely = page_opens
                || self.shared.try_page(number, &trial[FRAME_PREFIX_LEN..], body).is_ok();
            // A frame of an older generation may have been about to be overwritten.
            let opens = likely
                && self
                    .open_frame(frame, &trial, out)
                    .is_ok_and(|header| header.salts() == self.salts || header.salts() == [0; 8]);
            trial[bit / 8] ^= 1 << (bit % 8);
            opens
        })
    }
}
