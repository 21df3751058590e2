//! The client's messages: packets, PRELOGIN, LOGIN7, batches.

use zeroize::Zeroizing;

use crate::error::TdsError;

/// Length of a packet's header.
pub(crate) const HEADER_BYTES: usize = 8;
/// Kinds of packets.
pub(crate) const BATCH: u8 = 1;
pub(crate) const RPC: u8 = 3;
pub(crate) const RESPONSE: u8 = 4;
pub(crate) const LOGIN: u8 = 16;
pub(crate) const PRELOGIN: u8 = 18;
/// The last packet of its message.
pub(crate) const END: u8 = 1;

/// Encryption values of PRELOGIN.
pub(crate) const ENCRYPT_OFF: u8 = 0;
pub(crate) const ENCRYPT_ON: u8 = 1;
pub(crate) const ENCRYPT_NOT_SUPPORTED: u8 = 2;
pub(crate) const ENCRYPT_REQUIRED: u8 = 3;

pub(crate) const TDS_7_4: u32 = 0x7400_0004;
pub(crate) const TDS_8_0: u32 = 0x0800_0000;

const OPTION_VERSION: u8 = 0;
const OPTION_ENCRYPTION: u8 = 1;
const OPTION_INSTANCE: u8 = 2;
const OPTION_THREAD: u8 = 3;
const OPTION_MARS: u8 = 4;
const OPTION_END: u8 = 0xFF;
const MOST_OPTIONS: usize = 32;

const LOGIN_FIXED_BYTES: usize = 94;
/// Maximum length of a name or password, in UTF-16 units.
const MOST_UNITS: usize = 128;

/// Splits a message into packets of at most `packet_bytes`.
pub(crate) fn packets(kind: u8, payload: &[u8], packet_bytes: u16) -> Zeroizing<Vec<u8>> {
    let room = usize::from(packet_bytes).saturating_sub(HEADER_BYTES).max(1);
    let count = payload.len().div_ceil(room).max(1);
    let mut out = Zeroizing::new(Vec::with_capacity(payload.len() + count * HEADER_BYTES));
    for number in 0..count {
        let start = number * room;
        let part = payload.get(start..payload.len().min(start + room)).unwrap_or_default();
        let length = u16::try_from(part.len() + HEADER_BYTES).unwrap_or(u16::MAX);
        let [high, low] = length.to_be_bytes();
        let status = if number + 1 == count { END } else { 0 };
        let id = number.wrapping_add(1).to_le_bytes()[0];
        out.extend_from_slice(&[kind, status, high, low, 0, 0, id, 0]);
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a client's PRELOGIN.
pub(crate) fn prelogin(encryption: u8) -> Vec<u8> {
    let options: [(u8, &[u8]); 5] = [
        (OPTION_VERSION, &[1, 0, 0, 0, 0, 0]),
        (OPTION_ENCRYPTION, &[encryption]),
        (OPTION_INSTANCE, &[0]),
        (OPTION_THREAD, &[0; 4]),
        (OPTION_MARS, &[0]),
    ];
    let mut offset = options.len() * 5 + 1;
    let mut out = Vec::new();
    for (option, value) in options {
        let place = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        out.push(option);
        out.extend_from_slice(&place(offset));
        out.extend_from_slice(&place(value.len()));
        offset += value.len();
    }
    out.push(OPTION_END);
    out.extend(options.iter().flat_map(|(_, value)| value.iter()));
    out
}

/// Returns the encryption value in the server's PRELOGIN.
pub(crate) fn answered_encryption(payload: &[u8]) -> Result<u8, TdsError> {
    let broken = |what: &str| TdsError::Protocol { what: format!("its PRELOGIN {what}") };
    for option in payload.chunks(5).take(MOST_OPTIONS) {
        match option {
            [OPTION_END, ..] => return Err(broken("says nothing about encryption")),
            [OPTION_ENCRYPTION, a, b, c, d] => {
                let offset = usize::from(u16::from_be_bytes([*a, *b]));
                let value = match u16::from_be_bytes([*c, *d]) {
                    0 => None,
                    _ => payload.get(offset),
                };
                return value.copied().ok_or_else(|| broken("points outside of itself"));
            }
            [_, _, _, _, _] => {}
            _ => return Err(broken("does not end")),
        }
    }
    Err(broken("does not end"))
}

/// The content of LOGIN7.
pub(crate) struct LoginFrame<'a> {
    pub(crate) version: u32,
    pub(crate) packet_bytes: u16,
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) server: &'a str,
    pub(crate) database: &'a str,
}

impl LoginFrame<'_> {
    /// Encodes the message. The password in it is scrambled, which does not protect it.
    pub(crate) fn encode(&self) -> Result<Zeroizing<Vec<u8>>, TdsError> {
        let text = |what: &'static str, text: &str| {
            let units: Vec<u16> = text.encode_utf16().collect();
            if units.len() > MOST_UNITS {
                let reason = format!("the {what} is longer than {MOST_UNITS} characters");
                return Err(TdsError::Target { reason });
            }
            let bytes = units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>();
            Ok(Zeroizing::new(bytes))
        };
        let mut password = text("password", self.password)?;
        for byte in password.iter_mut() {
            *byte = byte.rotate_left(4) ^ 0xA5;
        }
        // Host, user, password, program, server, extension, library, language, database.
        let fields = [
            text("host", "")?,
            text("user", self.user)?,
            password,
            text("program", "tdekit bench")?,
            text("server", self.server)?,
            text("extension", "")?,
            text("library", "tdekit bench")?,
            text("language", "")?,
            text("database", self.database)?,
        ];
        let mut out = Zeroizing::new(vec![0; LOGIN_FIXED_BYTES]);
        put(&mut out, 4, &self.version.to_le_bytes());
        put(&mut out, 8, &u32::from(self.packet_bytes).to_le_bytes());
        put(&mut out, 12, &[1, 0, 0, 0]);
        put(&mut out, 16, &std::process::id().to_le_bytes());
        // USE and the language are reported; ODBC's settings.
        put(&mut out, 24, &[0xE0, 0x03]);
        let mut at = 36;
        for field in &fields {
            let offset = u16::try_from(out.len()).unwrap_or(u16::MAX);
            let units = u16::try_from(field.len() / 2).unwrap_or(u16::MAX);
            put(&mut out, at, &offset.to_le_bytes());
            put(&mut out, at + 2, &units.to_le_bytes());
            out.extend_from_slice(field);
            at += 4;
        }
        let end = u16::try_from(out.len()).unwrap_or(u16::MAX).to_le_bytes();
        // No integrated login, no attached file, no new password: empty, at the end.
        for empty in [78, 82, 86] {
            put(&mut out, empty, &end);
        }
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        put(&mut out, 0, &length.to_le_bytes());
        Ok(out)
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Encodes a batch outside of a transaction.
pub(crate) fn batch(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADERS_BYTES + text.len() * 2);
    put_headers(&mut out);
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    out
}

/// Length of the output of [`put_headers`].
pub(crate) const HEADERS_BYTES: usize = 22;

/// Appends the bytes before a request outside of a transaction: all headers, 22 bytes; one header
/// of 18: kind 2, no transaction, one request.
pub(crate) fn put_headers(out: &mut Vec<u8>) {
    out.extend_from_slice(&22_u32.to_le_bytes());
    out.extend_from_slice(&18_u32.to_le_bytes());
    out.extend_from_slice(&2_u16.to_le_bytes());
    out.extend_from_slice(&0_u64.to_le_bytes());
    out.extend_from_slice(&1_u32.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_and_the_last_packet_says_so() {
        let cut = packets(BATCH, &[7; 1020], 512);
        // 504 bytes fit after the header in a packet of 512.
        assert_eq!((cut.len(), cut[0], cut[1], &cut[2..4]), (1020 + 24, BATCH, 0, &[2, 0][..]));
        assert_eq!(cut[512 + 1], 0);
        assert_eq!(&cut[1024..1032], [BATCH, END, 0, 20, 0, 0, 3, 0]);
        assert_eq!(packets(BATCH, &[], 512).as_slice(), [BATCH, END, 0, 8, 0, 0, 1, 0]);
    }

    #[test]
    fn what_prelogin_says_is_found_and_lies_are_refused() {
        assert_eq!(answered_encryption(&prelogin(ENCRYPT_REQUIRED)).unwrap(), 3);
        for bad in [
            &[][..],
            &[OPTION_END][..],
            &[OPTION_ENCRYPTION, 0, 200, 0, 1, OPTION_END][..],
            &[OPTION_ENCRYPTION, 0, 6, 0, 0, OPTION_END, 1][..],
            &[OPTION_VERSION, 0, 1][..],
            &[0; 500][..],
        ] {
            assert!(matches!(answered_encryption(bad), Err(TdsError::Protocol { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_login_has_its_fields_where_they_are_said_to_be() {
        let frame = LoginFrame {
            version: TDS_7_4,
            packet_bytes: 8000,
            user: "sa",
            password: "p",
            server: "localhost",
            database: "",
        };
        let bytes = frame.encode().unwrap();
        assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        let field = |at: usize| {
            let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            bytes[number(at)..number(at) + number(at + 2) * 2].to_vec()
        };
        assert_eq!(field(40), [b's', 0, b'a', 0]);
        // 0x70 with its halves swapped is 0x07, and 0x07 ^ 0xA5 is 0xA2.
        assert_eq!(field(44), [0xA2, 0xA5]);
        let long = LoginFrame { user: &"x".repeat(129), ..frame };
        assert!(matches!(long.encode(), Err(TdsError::Target { .. })));
    }
}
