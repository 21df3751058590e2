//! Files that hold a secret: read only when nobody else can read or change them.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tdekit_key_crypto::SecretBytes;

use crate::disk::{open_waiting, read_limited};
use crate::error::StoreError;
use crate::way::way;

/// Most bytes of a password or key file.
const MAX_SECRET_BYTES: usize = 4096;

/// Reads a password: the file's content without the final line end.
///
/// # Errors
/// `InsecureFile` when others can read or change it, `BadSecret` when it has several lines or more
/// than 4096 bytes, `Io`.
pub fn read_password_file(path: &Path) -> Result<SecretBytes, StoreError> {
    let mut password = read_key_file(path)?;
    let content = password.expose();
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let len = line.len();
    if line.iter().any(|byte| matches!(byte, b'\n' | b'\0')) {
        return Err(bad(path, "a password file has one line of text"));
    }
    password.truncate(len);
    Ok(password)
}

/// Reads a key: the file's bytes as they are.
///
/// # Errors
/// `InsecureFile` when others can read or change it, `BadSecret` for more than 4096 bytes, `Io`.
pub fn read_key_file(path: &Path) -> Result<SecretBytes, StoreError> {
    let mut file = open_waiting(path).map_err(StoreError::io("open", path))?;
    let metadata = file.metadata().map_err(StoreError::io("read", path))?;
    // A pipe is not stored on disk; whoever made it decided who reads it.
    if metadata.is_file() {
        check_private(path, &metadata)?;
    }
    let mut secret = SecretBytes::new_zeroed(MAX_SECRET_BYTES + 1)?;
    let mut len = 0;
    while len < secret.len() {
        let rest = secret.expose_mut().get_mut(len..).unwrap_or_default();
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io("read", path)(error)),
        }
    }
    if len > MAX_SECRET_BYTES {
        return Err(bad(path, "a password or key has at most 4096 bytes"));
    }
    secret.truncate(len);
    Ok(secret)
}

/// Refuses a file that others could read or change. As with PostgreSQL's private key, a file owned
/// by root may be readable by its group, which is how services receive secrets.
fn check_private(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
    let mode = metadata.permissions().mode() & 0o7777;
    let readable = if metadata.uid() == 0 { 0o007 } else { 0o077 };
    let insecure = |threat| StoreError::InsecureFile { path: path.to_owned(), mode, threat };
    if mode & readable != 0 {
        return Err(insecure("read"));
    }
    check_not_changeable(path, metadata)?;
    check_place(path).map(drop)
}

/// Checks a file with a secret that another library will read. Refuses it where others could read,
/// change or replace it.
///
/// # Errors
/// `InsecureFile`, `ForeignOwner`, `Io`.
pub fn check_private_file(path: &Path) -> Result<(), StoreError> {
    check_private(path, &fs::metadata(path).map_err(StoreError::io("open", path))?)
}

/// Checks a file that is trusted, such as a library whose code will run here. Refuses it where
/// others could change or replace it.
///
/// # Errors
/// `InsecureFile`, `ForeignOwner`, `Io`.
pub fn check_code_file(path: &Path) -> Result<(), StoreError> {
    check_opened_code(path, &fs::metadata(path).map_err(StoreError::io("open", path))?)
}

/// As [`check_code_file`], of a file that is open and has these facts, such as one that names
/// programs to run.
///
/// # Errors
/// As there; `Io` where the path leads to another file now.
pub fn check_opened_code(path: &Path, opened: &Metadata) -> Result<(), StoreError> {
    check_not_changeable(path, opened)?;
    let places = check_place(path)?;
    // What decides over code that runs as root must be root's, and so must all that leads to it.
    let is_root = rustix::process::geteuid().is_root();
    if let Some((place, facts)) = places.iter().find(|(_, facts)| is_root && facts.uid() != 0) {
        return Err(foreign_owner(place, facts));
    }
    let is_opened = |there: &Metadata| (there.dev(), there.ino()) == (opened.dev(), opened.ino());
    match places.last() {
        Some((_, there)) if is_opened(there) => Ok(()),
        _ => {
            let source = io::Error::other("another file took its place meanwhile");
            Err(StoreError::io("open", path)(source))
        }
    }
}

/// Reads a file of at most `max` bytes that holds a secret beside other data; `None` if there is no
/// file.
///
/// # Errors
/// `InsecureFile` when others can read or change it; `Io`, also for a longer one.
pub fn read_private_file(path: &Path, max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => check_private(path, &metadata)?,
        _ => {}
    }
    read_limited(path, max)
}

/// Refuses a place where others could put another file: a directory or a link on the way to the
/// file. In a directory with the sticky bit, such as `/tmp`, only the owner of a name can replace
/// it. Returns the places, the file last.
fn check_place(path: &Path) -> Result<Vec<(PathBuf, Metadata)>, StoreError> {
    let mut places = Vec::new();
    for place in way(path).map_err(StoreError::io("find", path))? {
        let facts = fs::symlink_metadata(&place).map_err(StoreError::io("examine", &place))?;
        let mode = facts.permissions().mode() & 0o7777;
        let open = facts.is_dir() && mode & 0o022 != 0 && mode & 0o1000 == 0;
        if open {
            return Err(StoreError::InsecureFile { path: place, mode, threat: "change" });
        }
        if is_foreign(&facts) {
            return Err(foreign_owner(&place, &facts));
        }
        places.push((place, facts));
    }
    Ok(places)
}

/// Refuses a file that others could change.
pub(super) fn check_not_changeable(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(StoreError::InsecureFile { path: path.to_owned(), mode, threat: "change" });
    }
    match is_foreign(metadata) {
        true => Err(foreign_owner(path, metadata)),
        false => Ok(()),
    }
}

/// Returns true if a file belongs to neither root nor this process' user.
fn is_foreign(metadata: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    me != 0 && metadata.uid() != me && metadata.uid() != 0
}

fn foreign_owner(path: &Path, metadata: &Metadata) -> StoreError {
    StoreError::ForeignOwner { path: path.to_owned(), owner: metadata.uid() }
}

fn bad(path: &Path, reason: &'static str) -> StoreError {
    StoreError::BadSecret { origin: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &Path, content: &[u8], mode: u32) -> PathBuf {
        let path = dir.join("secret");
        let _ = fs::remove_file(&path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_line_end_is_not_part_of_the_password() {
        let dir = tempfile::tempdir().unwrap();
        for content in [b"two words".as_slice(), b"two words\n", b"two words\r\n"] {
            let path = file(dir.path(), content, 0o600);
            assert_eq!(read_password_file(&path).unwrap().expose(), b"two words");
            assert_eq!(read_key_file(&path).unwrap().expose(), content);
        }
        let two_lines = file(dir.path(), b"one\ntwo\n", 0o600);
        assert!(matches!(read_password_file(&two_lines), Err(StoreError::BadSecret { .. })));
    }

    #[test]
    fn files_that_others_read_or_change_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (mode, expected) in
            [(0o604, "read"), (0o644, "read"), (0o602, "read"), (0o620, "change")]
        {
            // Root may give a group read access: the mode 0620 is then refused for its write bit.
            let path = file(dir.path(), b"secret", mode);
            match read_key_file(&path) {
                Err(StoreError::InsecureFile { threat, .. }) => {
                    assert!(threat == expected || mode == 0o620, "{mode:o} {threat}");
                }
                other => panic!("{mode:o} {other:?}"),
            }
        }
        for mode in [0o600, 0o400] {
            assert!(read_key_file(&file(dir.path(), b"secret", mode)).is_ok());
        }
    }

    #[test]
    fn a_place_where_others_could_put_another_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (open, inner) = (dir.path().join("open"), dir.path().join("open/inner"));
        fs::create_dir_all(&inner).unwrap();
        let secret = file(&inner, b"secret", 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        for (mode, refused) in [(0o755, false), (0o777, true), (0o775, true), (0o1777, false)] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&secret, &link] {
                for found in [
                    read_key_file(path).map(drop),
                    check_code_file(path),
                    read_private_file(path, 100).map(drop),
                ] {
                    let insecure = matches!(found, Err(StoreError::InsecureFile { .. }));
                    assert_eq!(insecure, refused, "{mode:o} {found:?}");
                }
            }
        }
    }

    /// A link that leads to a link in a directory that others can change.
    #[test]
    fn each_link_of_a_way_counts() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        let code = file(dir.path(), b"code", 0o600);
        std::os::unix::fs::symlink(&code, open.join("second")).unwrap();
        let first = dir.path().join("first");
        std::os::unix::fs::symlink(open.join("second"), &first).unwrap();
        for (mode, refused) in [(0o755, false), (0o777, true)] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            for found in [check_code_file(&first), read_key_file(&first).map(drop)] {
                let insecure = matches!(found, Err(StoreError::InsecureFile { .. }));
                assert_eq!(insecure, refused, "{mode:o} {found:?}");
            }
        }
        assert!(check_code_file(&code).is_ok());
    }

    #[test]
    fn the_file_that_was_opened_is_the_one_that_is_judged() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), b"one", 0o600);
        let opened = fs::File::open(&path).unwrap();
        assert!(check_opened_code(&path, &opened.metadata().unwrap()).is_ok());
        let other = dir.path().join("other");
        fs::write(&other, b"two").unwrap();
        fs::rename(&other, &path).unwrap();
        let found = check_opened_code(&path, &opened.metadata().unwrap());
        assert!(matches!(found, Err(StoreError::Io { .. })), "{found:?}");
    }

    /// Only root can give files away.
    #[test]
    fn root_runs_only_what_root_can_change() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
        fs::create_dir_all(&inner).unwrap();
        let code = file(&inner, b"code", 0o600);
        assert!(check_code_file(&code).is_ok());
        for place in [&outer, &inner, &code] {
            std::os::unix::fs::chown(place, Some(65534), None).unwrap();
            let found = check_code_file(&code);
            assert!(matches!(found, Err(StoreError::ForeignOwner { .. })), "{found:?}");
            std::os::unix::fs::chown(place, Some(0), None).unwrap();
        }
    }

    #[test]
    fn length_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_key_file(&file(dir.path(), &[7; 4096], 0o600)).unwrap().len(), 4096);
        assert!(read_key_file(&file(dir.path(), &[7; 4097], 0o600)).is_err());
        assert!(read_key_file(&dir.path().join("none")).is_err());
    }
}
