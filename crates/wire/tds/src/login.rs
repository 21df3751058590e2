//! LOGIN7: the user, the database and the options of a login. Source: MS-TDS 2.2.6.4.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Error;
use crate::reader::{Reader, utf16};

/// TDS 7.3, the oldest supported version.
pub const TDS_7_3A: u32 = 0x730A_0003;
/// TDS 7.3 with compressed NULLs.
pub const TDS_7_3B: u32 = 0x730B_0003;
/// TDS 7.4.
pub const TDS_7_4: u32 = 0x7400_0004;
/// TDS 8.0.
pub const TDS_8_0: u32 = 0x0800_0000;

/// Maximum length of a LOGIN7.
pub const MAX_LOGIN_BYTES: usize = 128 * 1024;
const FIXED_BYTES: usize = 94;
/// Maximum length of a name, in units.
const MAX_NAME_UNITS: u16 = 128;
const MAX_FEATURES: usize = 32;

const INTEGRATED: u8 = 0x80;
const CHANGE_PASSWORD: u8 = 0x01;
const EXTENSION: u8 = 0x10;

/// A feature that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature(pub u8);

impl Feature {
    /// Login by a federated token.
    pub const FEDERATED_AUTH: Feature = Feature(2);
    /// varchar in UTF-8.
    pub const UTF8: Feature = Feature(10);
    const END: u8 = 0xFF;
}

/// A client's LOGIN7.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The version of TDS that it speaks.
    pub version: u32,
    /// The packet size that it asks for, 0 for none.
    pub packet_bytes: u32,
    /// The client's host.
    pub host: String,
    /// The login name.
    pub user: String,
    /// Its password.
    pub password: Zeroizing<String>,
    /// The program's name.
    pub application: String,
    /// The server's name as the client uses it.
    pub server: String,
    /// The client library's name.
    pub library: String,
    /// The language asked for, empty for the default.
    pub language: String,
    /// The database asked for, empty for the default.
    pub database: String,
    /// Logs in by the operating system.
    pub integrated: bool,
    /// Asks to change the password.
    pub change_password: bool,
    /// Features asked for.
    pub features: Vec<Feature>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("version", &format_args!("{:#x}", self.version))
            .field("host", &self.host)
            .field("user", &self.user)
            .field("application", &self.application)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// Reads a LOGIN7 message.
    ///
    /// # Errors
    /// A wrong length, a field outside of the message, a version before 7.3.
    pub fn decode(payload: &[u8]) -> Result<Login, Error> {
        let mut fixed = Reader::new(payload);
        let length = fixed.u32("length of the login")?;
        if length as usize != payload.len() {
            return Err(Error::Invalid { what: "length of the login", value: length.into() });
        }
        if payload.len() > MAX_LOGIN_BYTES {
            let limit = MAX_LOGIN_BYTES as u64;
            return Err(Error::TooLong { what: "login", length: length.into(), limit });
        }
        let version = fixed.u32("version")?;
        if version < TDS_7_3A && version != TDS_8_0 {
            return Err(Error::Unsupported { what: "a version of TDS before 7.3" });
        }
        let packet_bytes = fixed.u32("packet size")?;
        // Version and process of the client, connection.
        fixed.bytes("login", 12)?;
        let _flags1 = fixed.u8("flags")?;
        let flags2 = fixed.u8("flags")?;
        let _kind = fixed.u8("flags")?;
        let flags3 = fixed.u8("flags")?;
        // Time zone, locale.
        fixed.bytes("login", 8)?;
        let mut field = |what| Field::read(&mut fixed, payload, what);
        let host = field("host")?.text(MAX_NAME_UNITS)?;
        let user = field("user")?.text(MAX_NAME_UNITS)?;
        let password = field("password")?.password()?;
        let application = field("application")?.text(MAX_NAME_UNITS)?;
        let server = field("server")?.text(MAX_NAME_UNITS)?;
        let extension = field("extension")?;
        let library = field("library")?.text(MAX_NAME_UNITS)?;
        let language = field("language")?.text(MAX_NAME_UNITS)?;
        let database = field("database")?.text(MAX_NAME_UNITS)?;
        let features = match flags3 & EXTENSION {
            0 => Vec::new(),
            _ => extension.features()?,
        };
        if payload.len() < FIXED_BYTES {
            let (need, have) = (FIXED_BYTES as u64, payload.len() as u64);
            return Err(Error::Truncated { what: "login", need, have });
        }
        Ok(Login {
            version,
            packet_bytes,
            host,
            user,
            password,
            application,
            server,
            library,
            language,
            database,
            integrated: flags2 & INTEGRATED != 0,
            change_password: flags3 & CHANGE_PASSWORD != 0,
            features,
        })
    }

    /// A LOGIN7 message with a login, a password and a database, for clients in tests.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_BYTES];
        let mut at = 36;
        put_at(&mut out, 4, &self.version.to_le_bytes());
        put_at(&mut out, 8, &self.packet_bytes.to_le_bytes());
        let password = hide_password(&self.password);
        let texts = [
            Some(&self.host),
            Some(&self.user),
            None,
            Some(&self.application),
            Some(&self.server),
            Some(&String::new()),
            Some(&self.library),
            Some(&self.language),
            Some(&self.database),
        ]
        .map(|text| match text {
            Some(text) => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            None => password.clone(),
        });
        for bytes in &texts {
            put_field(&mut out, at, bytes);
            at += 4;
        }
        if self.integrated {
            put_at(&mut out, 25, &[INTEGRATED]);
        }
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        put_at(&mut out, 0, &length.to_le_bytes());
        out
    }
}

fn put_at(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn put_field(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let offset = u16::try_from(out.len()).unwrap_or(u16::MAX);
    let units = u16::try_from(bytes.len() / 2).unwrap_or(u16::MAX);
    put_at(out, at, &offset.to_le_bytes());
    put_at(out, at + 2, &units.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A field of variable length: its offset, and its length in units.
struct Field<'a> {
    what: &'static str,
    payload: &'a [u8],
    offset: u16,
    units: u16,
}

impl<'a> Field<'a> {
    fn read(fixed: &mut Reader<'a>, payload: &'a [u8], what: &'static str) -> Result<Self, Error> {
        let offset = fixed.u16(what)?;
        let units = fixed.u16(what)?;
        Ok(Field { what, payload, offset, units })
    }

    fn bytes(&self, most_units: u16) -> Result<&'a [u8], Error> {
        if self.units > most_units {
            let (length, limit) = (self.units.into(), most_units.into());
            return Err(Error::TooLong { what: self.what, length, limit });
        }
        let start = usize::from(self.offset);
        let end = start + usize::from(self.units) * 2;
        self.payload.get(start..end).ok_or(Error::Truncated {
            what: self.what,
            need: end as u64,
            have: self.payload.len() as u64,
        })
    }

    fn text(&self, most_units: u16) -> Result<String, Error> {
        match self.units {
            // Clients leave an arbitrary offset in an empty field.
            0 => Ok(String::new()),
            _ => utf16(self.what, self.bytes(most_units)?),
        }
    }

    fn password(&self) -> Result<Zeroizing<String>, Error> {
        if self.units == 0 {
            return Ok(Zeroizing::new(String::new()));
        }
        let hidden = self.bytes(MAX_NAME_UNITS)?;
        let shown: Zeroizing<Vec<u8>> =
            Zeroizing::new(hidden.iter().map(|byte| (byte ^ 0xA5).rotate_left(4)).collect());
        Ok(Zeroizing::new(utf16(self.what, &shown)?))
    }

    /// The field holds the offset of the list of features.
    fn features(&self) -> Result<Vec<Feature>, Error> {
        let what = "features";
        let outside = |need: usize| Error::Truncated {
            what,
            need: need as u64,
            have: self.payload.len() as u64,
        };
        let at = usize::from(self.offset);
        let mut pointer = Reader::new(self.payload.get(at..).ok_or_else(|| outside(at))?);
        let start = pointer.u32(what)? as usize;
        let mut list = Reader::new(self.payload.get(start..).ok_or_else(|| outside(start))?);
        let mut features = Vec::new();
        loop {
            let id = list.u8(what)?;
            if id == Feature::END {
                return Ok(features);
            }
            if features.len() == MAX_FEATURES {
                let limit = MAX_FEATURES as u64;
                return Err(Error::TooLong { what, length: limit + 1, limit });
            }
            let length = list.u32(what)?;
            list.bytes(what, length as usize)?;
            features.push(Feature(id));
        }
    }
}

fn hide_password(password: &str) -> Vec<u8> {
    let shown = password.encode_utf16().flat_map(u16::to_le_bytes);
    shown.map(|byte| byte.rotate_left(4) ^ 0xA5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login {
            version: TDS_7_4,
            packet_bytes: 4096,
            host: "host".into(),
            user: "sa".into(),
            password: Zeroizing::new("pÄss".into()),
            application: "program".into(),
            server: "localhost".into(),
            library: "library".into(),
            language: String::new(),
            database: "sales".into(),
            integrated: false,
            change_password: false,
            features: Vec::new(),
        }
    }

    #[test]
    fn what_is_encoded_is_read() {
        assert!(Login::decode(&login().encode()).unwrap() == login());
    }

    #[test]
    fn debug_shows_no_password() {
        assert!(!format!("{:?}", login()).contains("pÄss"));
    }

    #[test]
    fn every_cut_is_refused() {
        let whole = login().encode();
        for length in 0..whole.len() {
            assert!(Login::decode(&whole[..length]).is_err(), "{length}");
            let mut lying = whole[..length].to_vec();
            if length >= 4 {
                lying[..4].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
                assert!(Login::decode(&lying).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn fields_outside_are_refused() {
        for field in (36..72).step_by(4) {
            let mut bytes = login().encode();
            bytes[field..field + 2].copy_from_slice(&[0xFF, 0xFF]);
            bytes[field + 2..field + 4].copy_from_slice(&[1, 0]);
            // The extension is ignored without its flag.
            assert_eq!(Login::decode(&bytes).is_err(), field != 56, "{field}");
            bytes[field + 2..field + 4].copy_from_slice(&[0xFF, 0xFF]);
            assert_eq!(Login::decode(&bytes).is_err(), field != 56, "{field}");
        }
    }

    #[test]
    fn features_are_listed() {
        let mut bytes = login().encode();
        let pointer = bytes.len();
        let list = pointer + 4;
        bytes[27] |= EXTENSION;
        bytes[56..58].copy_from_slice(&u16::try_from(pointer).unwrap().to_le_bytes());
        bytes[58..60].copy_from_slice(&[4, 0]);
        bytes.extend_from_slice(&u32::try_from(list).unwrap().to_le_bytes());
        bytes.extend_from_slice(&[10, 1, 0, 0, 0, 1, 0xFF]);
        let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        bytes[..4].copy_from_slice(&length);
        assert_eq!(Login::decode(&bytes).unwrap().features, [Feature::UTF8]);
        // A feature with a length of 2^32 - 1 bytes.
        bytes[list + 1..list + 5].copy_from_slice(&[0xFF; 4]);
        assert!(Login::decode(&bytes).unwrap_err().is_truncated());
    }

    #[test]
    fn old_versions_are_refused() {
        let mut old = login();
        old.version = 0x7209_0002;
        let unsupported = Login::decode(&old.encode());
        assert!(matches!(unsupported, Err(Error::Unsupported { .. })));
    }
}
