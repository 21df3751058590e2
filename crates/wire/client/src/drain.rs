//! Splits an answer into packets, and keeps only its end.

use crate::error::TdsError;
use crate::frames::{END, HEADER_BYTES, PRELOGIN, RESPONSE};

/// Number of bytes of an answer's end that are kept: the last tokens of a call, and the bytes
/// before them.
const TAIL_BYTES: usize = 64;
/// Maximum length of an answer that is kept whole.
const MOST_KEPT_BYTES: usize = 1 << 20;

/// The received part of an answer.
#[derive(Debug)]
pub(crate) struct Drain {
    header: [u8; HEADER_BYTES],
    /// Number of received bytes of the header.
    have: usize,
    /// Number of outstanding bytes of the packet's payload.
    left: usize,
    last: bool,
    most_packet_bytes: u16,
    tail: [u8; TAIL_BYTES],
    tail_bytes: usize,
    kept: Option<Vec<u8>>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Drain {
    /// Makes a drain for an answer in packets of at most `most_packet_bytes`.
    pub(crate) fn new(most_packet_bytes: u16) -> Self {
        Self {
            header: [0; HEADER_BYTES],
            have: 0,
            left: 0,
            last: false,
            most_packet_bytes,
            tail: [0; TAIL_BYTES],
            tail_bytes: 0,
            kept: None,
            packets: 0,
            bytes: 0,
        }
    }

    /// As [`Self::new`], but keeps the payload.
    pub(crate) fn keeping(most_packet_bytes: u16) -> Self {
        Self { kept: Some(Vec::new()), ..Self::new(most_packet_bytes) }
    }

    /// Takes bytes; returns true if they end the answer.
    ///
    /// # Errors
    /// If a packet is invalid or longer than negotiated, or bytes follow the end of the answer.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<bool, TdsError> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.last && self.left == 0 && self.have == HEADER_BYTES {
                return Err(broken("bytes follow the end of an answer".to_owned()));
            }
            if self.have == HEADER_BYTES && self.left == 0 {
                self.have = 0;
            }
            if self.have < HEADER_BYTES {
                let count = bytes.len().min(HEADER_BYTES - self.have);
                let (part, rest) = bytes.split_at(count);
                self.header[self.have..self.have + count].copy_from_slice(part);
                self.have += count;
                bytes = rest;
                if self.have == HEADER_BYTES {
                    self.begin()?;
                }
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.left));
            self.put(part)?;
            self.left -= part.len();
            bytes = rest;
        }
        Ok(self.last && self.left == 0 && self.have == HEADER_BYTES)
    }

    fn begin(&mut self) -> Result<(), TdsError> {
        let [kind, status, high, low, ..] = self.header;
        if kind != RESPONSE && kind != PRELOGIN {
            return Err(broken(format!("a packet of kind {kind} within an answer")));
        }
        let length = u16::from_be_bytes([high, low]);
        let payload = usize::from(length).checked_sub(HEADER_BYTES);
        let Some(payload) = payload.filter(|_| length <= self.most_packet_bytes) else {
            let most = self.most_packet_bytes;
            return Err(broken(format!("a packet says {length} bytes, of 8 to {most} agreed")));
        };
        self.left = payload;
        self.last = status & END != 0;
        self.packets += 1;
        Ok(())
    }

    fn put(&mut self, part: &[u8]) -> Result<(), TdsError> {
        if let Some(kept) = &mut self.kept {
            if kept.len() + part.len() > MOST_KEPT_BYTES {
                return Err(broken(format!("an answer is longer than {MOST_KEPT_BYTES} bytes")));
            }
            kept.extend_from_slice(part);
        }
        match part.last_chunk::<TAIL_BYTES>() {
            Some(end) => {
                self.tail = *end;
                self.tail_bytes = TAIL_BYTES;
            }
            None => {
                let stay = self.tail_bytes.min(TAIL_BYTES - part.len());
                self.tail.copy_within(self.tail_bytes - stay..self.tail_bytes, 0);
                self.tail[stay..stay + part.len()].copy_from_slice(part);
                self.tail_bytes = stay + part.len();
            }
        }
        Ok(())
    }

    /// Returns the last bytes of the payload, at most [`TAIL_BYTES`].
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail[..self.tail_bytes]
    }

    /// Returns the payload, if it was kept.
    pub(crate) fn into_payload(self) -> Vec<u8> {
        self.kept.unwrap_or_default()
    }
}

fn broken(what: String) -> TdsError {
    TdsError::Protocol { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::packets;

    fn payload() -> Vec<u8> {
        (0..1500_u32).map(|number| number.to_le_bytes()[0]).collect()
    }

    #[test]
    fn packets_split_anywhere_are_the_same_answer() {
        let framed = packets(RESPONSE, &payload(), 512);
        for size in [1, 2, 7, 8, 9, 63, 64, 65, 511, 512, 513, 5000] {
            let mut drain = Drain::keeping(512);
            let mut done = false;
            for part in framed.chunks(size) {
                assert!(!done, "{size}");
                done = drain.take(part).unwrap();
            }
            assert!(done, "{size}");
            assert_eq!((drain.packets, drain.bytes), (3, 1524), "{size}");
            assert_eq!(drain.tail(), &payload()[1500 - TAIL_BYTES..], "{size}");
            assert_eq!(drain.into_payload(), payload(), "{size}");
        }
    }

    #[test]
    fn a_short_answer_has_a_short_tail() {
        let mut drain = Drain::new(512);
        assert!(drain.take(&packets(RESPONSE, &[1, 2, 3], 512)).unwrap());
        assert_eq!(drain.tail(), [1, 2, 3]);
        let mut drain = Drain::new(512);
        assert!(drain.take(&packets(RESPONSE, &[], 512)).unwrap());
        assert!(drain.tail().is_empty());
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        for (length, most) in [(0_u16, 4096), (7, 4096), (4097, 4096), (32_767, 4096), (513, 512)] {
            let [high, low] = length.to_be_bytes();
            let error = Drain::new(most).take(&[RESPONSE, END, high, low, 0, 0, 1, 0]).unwrap_err();
            assert!(matches!(error, TdsError::Protocol { .. }), "{length}: {error}");
        }
        let other = Drain::new(512).take(&[BATCH_KIND, END, 0, 8, 0, 0, 1, 0]);
        assert!(other.is_err());
        let mut behind = packets(RESPONSE, &[1], 512).to_vec();
        behind.push(RESPONSE);
        assert!(Drain::new(512).take(&behind).unwrap_err().to_string().contains("follow"));
    }

    const BATCH_KIND: u8 = crate::frames::BATCH;

    #[test]
    fn what_is_kept_is_bounded() {
        let framed = packets(RESPONSE, &vec![0; MOST_KEPT_BYTES + 1], 32_767);
        assert!(Drain::keeping(32_767).take(&framed).is_err());
        assert!(Drain::new(32_767).take(&framed).unwrap());
    }
}
