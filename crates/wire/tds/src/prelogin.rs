//! PRELOGIN: the versions of client and server, and the choice of encryption. Source: MS-TDS
//! 2.2.6.5.

use crate::error::Error;
use crate::product;
use crate::reader::Reader;

/// Maximum number of options.
const MAX_OPTIONS: usize = 32;

const VERSION: u8 = 0;
const ENCRYPTION: u8 = 1;
const INSTANCE: u8 = 2;
const THREAD_ID: u8 = 3;
const MARS: u8 = 4;
const TRACE_ID: u8 = 5;
const FEDERATED_AUTH: u8 = 6;
const TERMINATOR: u8 = 0xFF;

/// Encryption that one side proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// The login only.
    Off,
    /// Everything.
    On,
    /// Not possible.
    NotSupported,
    /// Everything, or no connection.
    Required,
}

impl Encryption {
    /// Returns the number on the wire.
    pub fn code(self) -> u8 {
        match self {
            Encryption::Off => 0,
            Encryption::On => 1,
            Encryption::NotSupported => 2,
            Encryption::Required => 3,
        }
    }

    /// Reads the number; the bits for a client's certificate are ignored, because it is never used.
    fn from_code(code: u8) -> Result<Self, Error> {
        Ok(match code & 0x7F {
            0 => Encryption::Off,
            1 => Encryption::On,
            2 => Encryption::NotSupported,
            // Clients of TDS 8.0 use 4.
            3 | 4 => Encryption::Required,
            _ => return Err(Error::Invalid { what: "encryption option", value: code.into() }),
        })
    }
}

/// A client's PRELOGIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreLogin {
    /// The proposed encryption; OFF if absent.
    pub encryption: Encryption,
    /// True if the client asks for several concurrent requests on one connection.
    pub mars: bool,
    /// True if the client could log in by a federated token.
    pub federated_auth: bool,
}

impl PreLogin {
    /// Reads a client's PRELOGIN.
    ///
    /// # Errors
    /// A list of options that does not end, or options outside of the message.
    pub fn decode(payload: &[u8]) -> Result<PreLogin, Error> {
        let mut found =
            PreLogin { encryption: Encryption::Off, mars: false, federated_auth: false };
        let mut list = Reader::new(payload);
        for _ in 0..MAX_OPTIONS {
            let option = list.u8("prelogin option")?;
            if option == TERMINATOR {
                return Ok(found);
            }
            let offset = usize::from(list.u16_be("prelogin option")?);
            let length = usize::from(list.u16_be("prelogin option")?);
            let value = payload.get(offset..offset + length).ok_or(Error::Truncated {
                what: "prelogin option",
                need: (offset + length) as u64,
                have: payload.len() as u64,
            })?;
            match (option, value) {
                (ENCRYPTION, [code, ..]) => found.encryption = Encryption::from_code(*code)?,
                (MARS, [mars, ..]) => found.mars = *mars != 0,
                (FEDERATED_AUTH, [_, ..]) => found.federated_auth = true,
                (VERSION | ENCRYPTION | INSTANCE | THREAD_ID | MARS | TRACE_ID, _) => {}
                // Options of later versions are ignored.
                _ => {}
            }
        }
        Err(Error::TooLong {
            what: "prelogin options",
            length: MAX_OPTIONS as u64 + 1,
            limit: MAX_OPTIONS as u64,
        })
    }

    /// Returns the server's answer: its version, `encryption`, one request at a time.
    pub fn answer(&self, encryption: Encryption) -> Vec<u8> {
        let [build_high, build_low] = product::BUILD.to_be_bytes();
        let version = [product::MAJOR, product::MINOR, build_high, build_low, 0, 0];
        let mut options: Vec<(u8, &[u8])> = vec![(VERSION, &version)];
        let encryption = [encryption.code()];
        options.extend([
            (ENCRYPTION, &encryption[..]),
            (INSTANCE, &[0]),
            (THREAD_ID, &[]),
            (MARS, &[0]),
        ]);
        if self.federated_auth {
            options.push((FEDERATED_AUTH, &[0]));
        }
        encode(&options)
    }
}

/// Returns a client's PRELOGIN, for clients in tests.
pub fn encode_client(encryption: Encryption) -> Vec<u8> {
    encode(&[
        (VERSION, &[17, 0, 0, 0, 0, 0]),
        (ENCRYPTION, &[encryption.code()]),
        (INSTANCE, &[0]),
        (THREAD_ID, &[0; 4]),
        (MARS, &[0]),
    ])
}

/// Returns the encryption in the server's answer, for clients in tests.
pub fn answered_encryption(payload: &[u8]) -> Option<Encryption> {
    PreLogin::decode(payload).ok().map(|answer| answer.encryption)
}

fn encode(options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut offset = options.len() * 5 + 1;
    let mut out = Vec::new();
    for (option, value) in options {
        out.push(*option);
        // Both are small constants of this module.
        out.extend_from_slice(&u16::try_from(offset).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        offset += value.len();
    }
    out.push(TERMINATOR);
    for (_, value) in options {
        out.extend_from_slice(value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_client_says() {
        let client = encode_client(Encryption::Required);
        let read = PreLogin::decode(&client).unwrap();
        assert_eq!((read.encryption, read.mars), (Encryption::Required, false));
        let answer = read.answer(Encryption::On);
        assert_eq!(answered_encryption(&answer), Some(Encryption::On));
    }

    #[test]
    fn refuses_options_outside_of_the_message() {
        for bad in
            [&[1, 0, 6, 0, 1][..], &[1, 0, 200, 0, 1, 0xFF], &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]]
        {
            assert!(PreLogin::decode(bad).unwrap_err().is_truncated(), "{bad:?}");
        }
        let endless = [5, 0, 0, 0, 0].repeat(40);
        assert!(matches!(PreLogin::decode(&endless), Err(Error::TooLong { .. })));
        assert!(PreLogin::decode(&[]).is_err());
        assert!(PreLogin::decode(&[1, 0, 6, 0, 1, 0xFF, 9]).is_err(), "no such encryption");
    }
}
