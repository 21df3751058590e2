//! SQL logins: names and verifiers derived from their passwords (Argon2id), in a separate file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::password::{PARAMS_LEN, PasswordParams, SALT_LEN, derive_key};
use tdekit_key_crypto::{hmac_sha256, random_bytes, verify_hmac_sha256};

use crate::error::EndpointError;
use crate::tls::{refuse_foreign, refuse_open_directory, write_private};

/// Version of the file format. Version 1 has neither `sid` nor `sysadmin`: each of its logins is a
/// member of sysadmin.
const VERSION: u32 = 2;
const KEY_BYTES: usize = 32;
const SID_BYTES: usize = 16;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Minimum length of a new password.
const MIN_PASSWORD_CHARS: usize = 8;
/// Maximum length of a password in LOGIN7, in UTF-16 units.
const MAX_PASSWORD_UNITS: usize = 128;
/// The text whose MAC, under the key derived from the password, is the verifier.
const LABEL: &[u8] = b"tdekit login 1";

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    logins: Vec<Entry>,
}

/// A stored login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    name: String,
    /// Identifier, in hex: a login that is made again under the same name has another one.
    #[serde(default)]
    sid: String,
    /// Not None once the list is read.
    #[serde(default)]
    sysadmin: Option<bool>,
    params: [u8; PARAMS_LEN],
    salt: [u8; SALT_LEN],
    verifier: [u8; 32],
}

/// A login's name and rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFacts {
    /// Its name.
    pub name: String,
    /// Its identifier, in hex.
    pub sid: String,
    /// True for a member of sysadmin.
    pub sysadmin: bool,
}

/// The list of logins of an endpoint.
#[derive(Debug, Clone)]
pub struct Logins {
    path: PathBuf,
    entries: Vec<Entry>,
}

impl Logins {
    /// Reads the list; it is empty if there is no file.
    ///
    /// # Errors
    /// [`EndpointError::File`], [`EndpointError::Logins`].
    pub fn open(path: &Path) -> Result<Logins, EndpointError> {
        refuse_foreign(path, 0o022)?;
        refuse_open_directory(path)?;
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Logins { path: path.to_owned(), entries: Vec::new() });
            }
            Err(source) => {
                return Err(EndpointError::File { action: "read", path: path.to_owned(), source });
            }
        };
        let damaged = |reason: String| EndpointError::Logins { path: path.to_owned(), reason };
        let mut file: File =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if !(1..=VERSION).contains(&file.version) {
            return Err(damaged(format!("version {} is not known", file.version)));
        }
        for entry in &file.logins {
            PasswordParams::from_bytes(&entry.params)
                .map_err(|error| damaged(error.to_string()))?;
        }
        for entry in &mut file.logins {
            match file.version {
                1 if !entry.sid.is_empty() || entry.sysadmin.is_some() => {
                    return Err(damaged(format!("{} has what version 1 has not", entry.name)));
                }
                1 => (entry.sid, entry.sysadmin) = (first_sid(&entry.name), Some(true)),
                _ if entry.sid.is_empty() || entry.sysadmin.is_none() => {
                    return Err(damaged(format!("{} has no identifier or no role", entry.name)));
                }
                _ => {}
            }
        }
        for (at, entry) in file.logins.iter().enumerate() {
            let twice = |other: &Entry| same(&other.name, &entry.name) || other.sid == entry.sid;
            if file.logins[..at].iter().any(twice) {
                return Err(damaged(format!("{} or its identifier is there twice", entry.name)));
            }
        }
        Ok(Logins { path: path.to_owned(), entries: file.logins })
    }

    /// Returns the names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    /// Returns the logins, by name.
    pub fn facts(&self) -> Vec<LoginFacts> {
        self.entries.iter().map(Entry::facts).collect()
    }

    /// Returns the login of this name, ignoring case and blanks at the end.
    pub fn named(&self, name: &str) -> Option<LoginFacts> {
        self.find(name).map(Entry::facts)
    }

    /// Adds a member of sysadmin, or sets the password of an existing login, and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::Login`] for an invalid name or password; [`EndpointError::File`].
    pub fn set(&mut self, name: &str, password: &str) -> Result<(), EndpointError> {
        match self.find(name).is_some() {
            true => self.set_password(name, password),
            false => self.add(name, password, true),
        }
    }

    /// Adds a login and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::LoginExists`]; [`EndpointError::Login`] for an invalid name or password;
    /// [`EndpointError::File`].
    pub fn add(&mut self, name: &str, password: &str, sysadmin: bool) -> Result<(), EndpointError> {
        check(name, password)?;
        if self.find(name).is_some() {
            return Err(EndpointError::LoginExists { name: name.to_owned() });
        }
        let made = Entry::new(name, password, PasswordParams::default())?;
        self.entries.push(Entry { sysadmin: Some(sysadmin), ..made });
        self.write()
    }

    /// Sets the password of a login, which keeps its name as it was written, and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::NoLogin`]; [`EndpointError::Login`] for an invalid password;
    /// [`EndpointError::File`].
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<(), EndpointError> {
        check(name, password)?;
        let made = Entry::new(name, password, PasswordParams::default())?;
        let place = self.place(name)?;
        let (name, sid) = (place.name.clone(), place.sid.clone());
        *place = Entry { name, sid, sysadmin: place.sysadmin, ..made };
        self.write()
    }

    /// Makes a login a member of sysadmin, or takes it out, and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::NoLogin`], [`EndpointError::LastSysadmin`], [`EndpointError::File`].
    pub fn set_sysadmin(&mut self, name: &str, sysadmin: bool) -> Result<(), EndpointError> {
        if !sysadmin {
            self.keep_a_sysadmin(name)?;
        }
        self.place(name)?.sysadmin = Some(sysadmin);
        self.write()
    }

    /// Removes a login and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::NoLogin`], [`EndpointError::LastSysadmin`], [`EndpointError::File`].
    pub fn remove(&mut self, name: &str) -> Result<(), EndpointError> {
        self.place(name)?;
        self.keep_a_sysadmin(name)?;
        self.entries.retain(|entry| !same(&entry.name, name));
        self.write()
    }

    fn place(&mut self, name: &str) -> Result<&mut Entry, EndpointError> {
        let found = self.entries.iter_mut().find(|entry| same(&entry.name, name));
        found.ok_or_else(|| EndpointError::NoLogin { name: name.to_owned() })
    }

    /// Fails if nobody but this login is a member of sysadmin: nobody could make another one.
    fn keep_a_sysadmin(&self, name: &str) -> Result<(), EndpointError> {
        let others = || self.entries.iter().any(|own| own.is_sysadmin() && !same(&own.name, name));
        match self.find(name) {
            Some(own) if own.is_sysadmin() && !others() => {
                Err(EndpointError::LastSysadmin { name: own.name.clone() })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| same(&entry.name, name))
    }

    fn write(&mut self) -> Result<(), EndpointError> {
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        let file = File { version: VERSION, logins: self.entries.clone() };
        let bytes = serde_json::to_vec_pretty(&file).map_err(|error| EndpointError::Logins {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        write_private(&self.path, &bytes)
    }
}

/// Returns what names of logins have in common that are the same under the server's collation: case
/// and blanks at the end do not count.
pub(crate) fn folded(name: &str) -> String {
    name.trim_end_matches(' ').to_lowercase()
}

fn same(one: &str, other: &str) -> bool {
    one == other || folded(one) == folded(other)
}

fn check(name: &str, password: &str) -> Result<(), EndpointError> {
    let wrong = |reason| Err(EndpointError::Login { name: name.to_owned(), reason });
    let chars = name.trim_end_matches(' ').chars().count();
    if chars == 0 || chars > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        return wrong("a name has 1 to 128 characters and no control characters");
    }
    if password.chars().count() < MIN_PASSWORD_CHARS {
        return wrong("a password has 8 characters at least");
    }
    if password.encode_utf16().count() > MAX_PASSWORD_UNITS {
        return wrong("a password has 128 characters at most");
    }
    Ok(())
}

/// The identifier of a login of an earlier version's list: the same each time that list is read.
fn first_sid(name: &str) -> String {
    let digest = hmac_sha256(b"tdekit login sid 1", &[name.to_lowercase().as_bytes()]);
    hex_of(&digest[..SID_BYTES])
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Entry {
    fn facts(&self) -> LoginFacts {
        let sysadmin = self.is_sysadmin();
        LoginFacts { name: self.name.clone(), sid: self.sid.clone(), sysadmin }
    }

    fn is_sysadmin(&self) -> bool {
        self.sysadmin == Some(true)
    }

    pub(crate) fn new(
        name: &str,
        password: &str,
        params: PasswordParams,
    ) -> Result<Entry, EndpointError> {
        let (mut salt, mut sid) = ([0; SALT_LEN], [0; SID_BYTES]);
        random_bytes(&mut salt)?;
        random_bytes(&mut sid)?;
        let key = derive_key(password.as_bytes(), &salt, params, KEY_BYTES)?;
        let verifier = hmac_sha256(key.expose(), &[LABEL]);
        let (name, sid, params) = (name.to_owned(), hex_of(&sid), params.to_bytes());
        Ok(Entry { name, sid, sysadmin: Some(false), params, salt, verifier })
    }

    /// Returns true if the password is this login's; takes the time of its parameters.
    pub(crate) fn fits(&self, password: &str) -> Result<bool, EndpointError> {
        let params = PasswordParams::from_bytes(&self.params)?;
        let key = derive_key(password.as_bytes(), &self.salt, params, KEY_BYTES)?;
        Ok(verify_hmac_sha256(key.expose(), &[LABEL], &self.verifier))
    }

    /// Returns a stamp that changes whenever the password is set.
    pub(crate) fn stamp(&self) -> [u8; SALT_LEN] {
        self.salt
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_spelling_and_are_one_without_case_and_blanks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        let mut logins = Logins::open(&path).unwrap();
        logins.set("Sa", "correct horse").unwrap();
        let sid = logins.named("sa").unwrap().sid;
        logins.set("SA  ", "battery staple").unwrap();
        let read = Logins::open(&path).unwrap();
        assert_eq!(read.facts(), [LoginFacts { name: "Sa".to_owned(), sid, sysadmin: true }]);
        assert!(read.find("sA ").unwrap().fits("battery staple").unwrap());
        let again = logins.add("sa ", "correct horse", false).unwrap_err();
        assert!(matches!(again, EndpointError::LoginExists { .. }), "{again}");
        assert!(matches!(
            logins.add("  ", "correct horse", false),
            Err(EndpointError::Login { .. })
        ));
    }

    #[test]
    fn a_list_with_fields_of_another_version_or_a_login_twice_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        let mut logins = Logins::open(&path).unwrap();
        logins.add("ann", "correct horse", false).unwrap();
        logins.add("bob", "correct horse", true).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let sid = |name| logins.named(name).unwrap().sid;
        for text in [
            whole.replace("\"version\": 2", "\"version\": 1"),
            whole.replace("\"ann\"", "\"BOB \""),
            whole.replace(&sid("ann"), &sid("bob")),
        ] {
            assert_ne!(text, whole);
            fs::write(&path, text).unwrap();
            let opened = Logins::open(&path);
            assert!(matches!(opened, Err(EndpointError::Logins { .. })), "{opened:?}");
        }
    }

    #[test]
    fn a_list_that_others_could_replace_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (own, open) = (dir.path().join("own"), dir.path().join("open"));
        for folder in [&own, &open] {
            fs::create_dir(folder).unwrap();
        }
        let path = open.join("logins.json");
        Logins::open(&path).unwrap().add("sa", "correct horse", true).unwrap();
        let link = own.join("logins.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for (mode, refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&path, &link] {
                assert_eq!(Logins::open(path).is_err(), refused, "{mode:o}");
            }
        }
    }

    #[test]
    fn a_list_of_version_1_has_sysadmins_only_and_is_written_as_version_2() {
        let fixture = "../../../tests/fixtures/1/serve/logins.json";
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        write_private(&path, &fs::read(fixture).unwrap()).unwrap();
        let mut logins = Logins::open(&path).unwrap();
        let first = logins.facts();
        let known: Vec<_> =
            first.iter().map(|own| (own.name.as_str(), own.sid.as_str(), own.sysadmin)).collect();
        let ann = ("ann", "301475bb1e6b90469898e0a9f12122e1", true);
        assert_eq!(known, [ann, ("sa", "1ad68456eed9b101eab33e89cd56f395", true)]);
        assert!(logins.find("sa").unwrap().fits("correct horse").unwrap());
        logins.set_sysadmin("ann", false).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\"version\": 2"));
        let read = Logins::open(&path).unwrap();
        let (before, after) = (&first[1], read.named("sa").unwrap());
        assert_eq!((&after.sid, after.sysadmin), (&before.sid, true));
        assert!(read.named("ann").is_some_and(|ann| !ann.sysadmin && ann.sid == first[0].sid));
    }
}
