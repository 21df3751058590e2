//! Paths in statements, and the drives of Windows' paths.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tdekit_sqlite_convert::{DatabaseError, SIDE_SUFFIXES, io_error, with_suffix};

/// The directories that stand for drive letters (`[serve] drives`), with links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Drives(BTreeMap<char, PathBuf>);

/// Reasons why a path of a statement names no file here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPath {
    /// Empty, with a NUL, relative to a drive, or with backslashes and no drive.
    Malformed,
    /// No directory is mapped to the letter.
    NoDrive(char),
    /// It leads out of the letter's directory.
    Leaves(char),
    /// A database's file would be neither in the served directory nor in that of a drive.
    Elsewhere,
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("The system cannot find the path specified."),
            Self::NoDrive(letter) => write!(
                f,
                "No directory is mapped to the drive {letter}:. The option drives of [serve] in \
                 config.toml maps one."
            ),
            Self::Leaves(letter) => {
                write!(f, "The path leads out of the directory of the drive {letter}:.")
            }
            Self::Elsewhere => f.write_str(
                "A database's file is in the served directory or in that of a drive, as the option \
                 drives of [serve] in config.toml maps it.",
            ),
        }
    }
}

impl Error for NoPath {}

impl NoPath {
    /// Converts it to an error of the system, for messages that show one.
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match self {
            Self::Malformed | Self::NoDrive(_) => io::ErrorKind::NotADirectory,
            Self::Leaves(_) | Self::Elsewhere => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, self)
    }

    /// Returns the reason where a message has no number of the system: empty for a path that is
    /// simply wrong.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Malformed => String::new(),
            Self::NoDrive(_) | Self::Leaves(_) | Self::Elsewhere => format!(" {self}"),
        }
    }
}

impl Drives {
    /// Maps letters, in upper case, to directories that exist.
    ///
    /// # Errors
    /// `Io` for one that does not.
    pub(crate) fn new(given: BTreeMap<char, PathBuf>) -> Result<Self, DatabaseError> {
        let real = |(letter, path): (char, PathBuf)| {
            let open = io_error("map a drive letter to", &path);
            match fs::canonicalize(&path) {
                Ok(root) if root.is_dir() => Ok((letter, root)),
                Ok(_) => Err(open(io::ErrorKind::NotADirectory.into())),
                Err(failure) => Err(open(failure)),
            }
        };
        given.into_iter().map(real).collect::<Result<_, _>>().map(Self)
    }

    /// Resolves a path of a statement: `D:\\x` is in the directory of the letter, and no link or
    /// `..` leads out of it; a relative path is in `base`.
    ///
    /// # Errors
    /// `NoPath`, so that no path of Windows becomes an odd file name.
    pub(crate) fn resolve(&self, base: &Path, named: &str) -> Result<PathBuf, NoPath> {
        if named.is_empty() || named.contains('\0') {
            return Err(NoPath::Malformed);
        }
        match named.split_once(':') {
            Some((drive, rest)) if drive.chars().count() == 1 => {
                let letter = drive.chars().next().filter(char::is_ascii_alphabetic);
                let letter = letter.ok_or(NoPath::Malformed)?.to_ascii_uppercase();
                // A path without a separator is relative to a directory of the drive.
                if !rest.starts_with(['\\', '/']) {
                    return Err(NoPath::Malformed);
                }
                let root = self.0.get(&letter).ok_or(NoPath::NoDrive(letter))?;
                within(root, rest).ok_or(NoPath::Leaves(letter))
            }
            _ if named.contains('\\') => Err(NoPath::Malformed),
            _ => Ok(base.join(named)),
        }
    }

    /// Resolves a path of a database's file, which is in `base` or in the directory of a drive.
    ///
    /// # Errors
    /// As [`Self::resolve`], and `NoPath::Elsewhere`.
    pub(crate) fn confined(&self, base: &Path, named: &str) -> Result<PathBuf, NoPath> {
        let path = self.resolve(base, named)?;
        let roots = std::iter::once(base).chain(self.0.values().map(PathBuf::as_path));
        for root in roots {
            if let Some(rest) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                return within(root, rest).ok_or(NoPath::Elsewhere);
            }
        }
        Err(NoPath::Elsewhere)
    }

    /// Returns a path as statements name it: `D:\\x` within the directory of a drive, else as the
    /// system does.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inner = self.0.iter().filter_map(|(letter, root)| {
            path.strip_prefix(root).ok().map(|rest| (root.components().count(), letter, rest))
        });
        // The deepest directory, and the first letter of it.
        match inner.max_by_key(|(depth, letter, _)| (*depth, std::cmp::Reverse(**letter))) {
            Some((_, letter, rest)) => {
                let parts = rest.components().map(|part| part.as_os_str().to_string_lossy());
                format!("{letter}:\\{}", parts.collect::<Vec<_>>().join("\\"))
            }
            None => path.display().to_string(),
        }
    }
}

/// Refuses a directory, and a pipe and a socket, which would make whoever opens them wait for ever.
/// A file that is not there is none of these.
pub(crate) fn refuse_odd(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(facts) if facts.is_dir() || is_stream(facts.file_type()) => {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        _ => Ok(()),
    }
}

fn is_stream(kind: fs::FileType) -> bool {
    kind.is_fifo() || kind.is_socket()
}

/// As [`refuse_odd`], of what SQLite opens beside a database.
pub(crate) fn refuse_odd_sides(database: &Path) -> io::Result<()> {
    SIDE_SUFFIXES.iter().try_for_each(|suffix| refuse_odd(&with_suffix(database, suffix)))
}

/// Returns true for a path that names neither a drive nor the root.
pub(crate) fn is_relative(named: &str) -> bool {
    !named.starts_with('/') && named.chars().nth(1) != Some(':')
}

/// Returns a statement's path of a file in a directory that a statement named.
pub(crate) fn joined(directory: &str, file: &str) -> String {
    let separator = if directory.contains('\\') { '\\' } else { '/' };
    format!("{}{separator}{file}", directory.trim_end_matches(['\\', '/']))
}

/// Returns the path `rest` in `root`, a directory without links in its path; `None` if it leads
/// out. Only `..` and links that are there now are seen: whoever can make links in the directory is
/// trusted with what they lead to.
fn within(root: &Path, rest: &str) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in rest.split(['\\', '/']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let path = parts.iter().fold(root.to_owned(), |path, part| path.join(part));
    let there = path.ancestors().take_while(|path| path.starts_with(root));
    for known in there {
        // A link that leads nowhere is there, too.
        if fs::symlink_metadata(known).is_ok() {
            let real = fs::canonicalize(known).ok().filter(|real| real.starts_with(root))?;
            let rest = path.strip_prefix(known).ok()?;
            return Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn windows_paths_are_not_taken_for_names() {
        let (base, none) = (Path::new("/data"), Drives::default());
        assert_eq!(none.resolve(base, "a.bak"), Ok("/data/a.bak".into()));
        assert_eq!(none.resolve(base, "/b/a.bak"), Ok("/b/a.bak".into()));
        assert_eq!(none.resolve(base, "D:\\backup\\a.bak"), Err(NoPath::NoDrive('D')));
        for named in ["D:a", "a\\b", "", "a\0", "\\\\server\\share\\a", "1:\\a", ":\\a"] {
            assert_eq!(none.resolve(base, named), Err(NoPath::Malformed), "{named}");
        }
    }

    #[test]
    fn a_letter_is_its_directory_and_nothing_outside_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["d/sub", "e", "outside"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("outside/secret"), "").unwrap();
        symlink(root.join("outside"), root.join("d/out")).unwrap();
        symlink(root.join("outside/none"), root.join("d/dangling")).unwrap();
        symlink("sub", root.join("d/in")).unwrap();
        let given = [('D', root.join("d")), ('E', root.join("e")), ('F', root.join("d/sub"))];
        let drives = Drives::new(given.into()).unwrap();
        let resolve = |named: &str| drives.resolve(Path::new("/data"), named);

        assert_eq!(resolve("D:\\sub\\a.bak"), Ok(root.join("d/sub/a.bak")));
        assert_eq!(resolve("d:/sub//./x/../a.bak"), Ok(root.join("d/sub/a.bak")));
        assert_eq!(resolve("D:\\in\\new\\a"), Ok(root.join("d/sub/new/a")));
        assert_eq!(resolve("D:\\"), Ok(root.join("d")));
        assert_eq!(resolve("E:\\a b.mdf"), Ok(root.join("e/a b.mdf")));
        for named in [
            "D:\\..\\outside\\secret",
            "D:\\sub\\..\\..\\x",
            "D:/../d2/x",
            "D:\\out\\secret",
            "D:\\out\\new\\file",
            "D:\\dangling",
            "D:\\dangling\\x",
        ] {
            assert_eq!(resolve(named), Err(NoPath::Leaves('D')), "{named}");
        }
        assert_eq!(resolve("C:\\x"), Err(NoPath::NoDrive('C')));

        assert_eq!(drives.shown(&root.join("d/a/b.mdf")), "D:\\a\\b.mdf");
        assert_eq!(drives.shown(&root.join("d/sub/b.mdf")), "F:\\b.mdf");
        let outside = root.join("outside/secret");
        assert_eq!(drives.shown(&outside), outside.display().to_string());

        let (base, confined) =
            (root.join("e"), |named: &str| drives.confined(&root.join("e"), named));
        assert_eq!(confined("a.db"), Ok(base.join("a.db")));
        assert_eq!(confined("D:\\sub\\a.db"), Ok(root.join("d/sub/a.db")));
        let inside = root.join("d/sub/../a.db").display().to_string();
        assert_eq!(confined(&inside), Ok(root.join("d/a.db")));
        let link = root.join("d/out/secret").display().to_string();
        for named in ["../outside/secret", "/etc/passwd", &link] {
            assert_eq!(confined(named), Err(NoPath::Elsewhere), "{named}");
        }
        assert_eq!(joined("D:\\x\\", "a.mdf"), "D:\\x\\a.mdf");
        assert_eq!(joined("/srv/d", "a.mdf"), "/srv/d/a.mdf");
        assert!(Drives::new([('D', root.join("none"))].into()).is_err());
        assert!(Drives::new([('D', outside)].into()).is_err());
    }
}
