//! Other encrypting SQLite libraries: their origins and their key setup.

use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_sqlite_client::weaken_undefined;

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::private;
use crate::subject::files_below;

/// A raw key, so that no key derivation is measured. The databases hold generated or copied data
/// for the duration of a run; the key protects nothing.
const RAW_KEY: &str = "2dd29ca851e7b56e4697b0e1f08507293d761a05ce4d1b628663f411a8086d99";

/// A library that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerLibrary {
    /// SQLCipher 4 from the Python package sqlcipher3-wheels.
    Sqlcipher,
    /// SQLite3 Multiple Ciphers, compiled from the source in the Node package
    /// better-sqlite3-multiple-ciphers.
    Sqlite3mc,
    /// SQLite3 Multiple Ciphers as built in the Python package apsw-sqlite3mc.
    Sqlite3mcWheel,
}

/// A requested peer: library and cipher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) library: PeerLibrary,
    pub(crate) cipher: Option<String>,
}

/// Ciphers of SQLite3 Multiple Ciphers that take a raw key.
const CIPHERS: [&str; 5] = ["aegis", "aes256cbc", "ascon128", "chacha20", "sqlcipher"];

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, cipher) = match text.split_once(':') {
            Some((name, cipher)) => (name, Some(cipher)),
            None => (text, None),
        };
        let library = PeerLibrary::ALL
            .into_iter()
            .find(|library| library.name() == name)
            .ok_or_else(|| format!("`{name}` is none of {}", PeerLibrary::names()))?;
        match (library, cipher) {
            (PeerLibrary::Sqlcipher, Some(_)) => Err("sqlcipher has one cipher".to_owned()),
            (_, Some(cipher)) if !CIPHERS.contains(&cipher) => {
                Err(format!("`{cipher}` is none of {}", CIPHERS.join(", ")))
            }
            _ => Ok(Self { library, cipher: cipher.map(str::to_owned) }),
        }
    }
}

impl Peer {
    /// Returns the cipher by the library's name.
    pub(crate) fn cipher_name(&self) -> String {
        match (self.library, &self.cipher) {
            (PeerLibrary::Sqlcipher, _) => "aes-256-cbc, HMAC-SHA512".to_owned(),
            // The library's own default.
            (_, None) => "chacha20".to_owned(),
            (_, Some(cipher)) => cipher.clone(),
        }
    }

    /// Returns statements that set the key of a fresh connection before any other.
    pub(crate) fn key_pragmas(&self, page_size_bytes: u32) -> Vec<String> {
        match self.library {
            PeerLibrary::Sqlcipher => vec![
                format!("PRAGMA key = \"x'{RAW_KEY}'\""),
                format!("PRAGMA cipher_page_size = {page_size_bytes}"),
            ],
            PeerLibrary::Sqlite3mc | PeerLibrary::Sqlite3mcWheel => vec![
                format!("PRAGMA cipher = '{}'", self.cipher_name()),
                format!("PRAGMA key = 'raw:{RAW_KEY}'"),
            ],
        }
    }

    /// Returns statements that create an encrypted copy at `target` of the connection's plain
    /// database; `None` if the open file itself is to be converted by [`Peer::convert`].
    pub(crate) fn export(&self, target: &Path, page_size_bytes: u32) -> Option<Vec<String>> {
        let target = target.to_string_lossy().replace('\'', "''");
        (self.library == PeerLibrary::Sqlcipher).then(|| {
            vec![
                format!("ATTACH '{target}' AS sealed KEY \"x'{RAW_KEY}'\""),
                format!("PRAGMA sealed.cipher_page_size = {page_size_bytes}"),
                "SELECT sqlcipher_export('sealed')".to_owned(),
                "DETACH sealed".to_owned(),
            ]
        })
    }

    /// Returns statements that encrypt the connection's plain database in place.
    pub(crate) fn convert(&self) -> Vec<String> {
        vec![
            format!("PRAGMA cipher = '{}'", self.cipher_name()),
            format!("PRAGMA rekey = 'raw:{RAW_KEY}'"),
        ]
    }
}

impl PeerLibrary {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlcipher, Self::Sqlite3mc, Self::Sqlite3mcWheel];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlcipher => "sqlcipher",
            Self::Sqlite3mc => "sqlite3mc",
            Self::Sqlite3mcWheel => "sqlite3mc-wheel",
        }
    }

    /// Returns true if a requested peer names a library.
    pub(crate) fn is_named(peer: &str) -> bool {
        let name = peer.split(':').next();
        Self::ALL.iter().any(|library| name == Some(library.name()))
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Returns its origin, as shown in reports.
    pub(crate) fn origin(self) -> &'static str {
        match self {
            Self::Sqlcipher => "PyPI sqlcipher3-wheels",
            Self::Sqlite3mc => "npm better-sqlite3-multiple-ciphers, compiled with cc -O2",
            Self::Sqlite3mcWheel => "PyPI apsw-sqlite3mc",
        }
    }

    /// Returns the installed library.
    pub(crate) fn locate(self) -> Result<PathBuf> {
        let path = self.path()?;
        if path.is_file() {
            Ok(path)
        } else {
            let name = self.name();
            Err(BenchError::ToolMissing {
                name: format!("peer library {name}"),
                remedy: format!("tdekit bench peers install {name}"),
            })
        }
    }

    fn path(self) -> Result<PathBuf> {
        Ok(cache_directory()?.join(format!("lib{}.so", self.name())))
    }

    /// Fetches the package with its registry's client and puts the library into the cache.
    pub(crate) fn install(self) -> Result<PathBuf> {
        let target = self.path()?;
        let cache = cache_directory()?;
        private::make(&cache)?;
        let work = tempfile::tempdir_in(&cache)
            .map_err(BenchError::file("cannot create a directory in", &cache))?;
        let built = match self {
            Self::Sqlcipher => {
                pip(work.path(), "sqlcipher3-wheels")?;
                let module = find(work.path(), &|name| {
                    name.starts_with("_sqlite3") && name.ends_with(".so")
                })?;
                weaken_undefined(&module, "Py")
                    .map_err(BenchError::file("cannot change the symbols of", &module))?;
                module
            }
            Self::Sqlite3mcWheel => {
                pip(work.path(), "apsw-sqlite3mc")?;
                find(work.path(), &|name| name == "libsqlite3_tool.so")?
            }
            Self::Sqlite3mc => compile_sqlite3mc(work.path())?,
        };
        std::fs::rename(&built, &target).map_err(BenchError::file("cannot move to", &target))?;
        Ok(target)
    }
}

/// Returns the directory of installed peers: `$TDEKIT_PEERS`, or below the user's cache directory.
pub(crate) fn cache_directory() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("TDEKIT_PEERS") {
        return Ok(path.into());
    }
    let cache = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or_else(|| {
            let reason = "no home directory; TDEKIT_PEERS names a directory for peer libraries";
            BenchError::option("HOME", reason)
        })?;
    Ok(cache.join("tdekit").join("peers"))
}

fn pip(directory: &Path, package: &str) -> Result<()> {
    run(Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--no-compile", "--target"])
        .arg(directory)
        .arg(package))
    .map(drop)
}

/// Options as in Debian's build, as far as they matter here: threads, optimisation, extensions that
/// a database may need.
const COMPILE: &str = "-O2 -fPIC -shared -w -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_COLUMN_METADATA \
     -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS5 \
     -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_RTREE -DSQLITE_USE_URI=1 -DHAVE_USLEEP=1";

fn compile_sqlite3mc(directory: &Path) -> Result<PathBuf> {
    run(Command::new("npm")
        .args(["pack", "--silent", "better-sqlite3-multiple-ciphers", "--pack-destination"])
        .arg(directory))?;
    let archive = find(directory, &|name| name.ends_with(".tgz"))?;
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(directory))?;
    let source = find(directory, &|name| name == "sqlite3.c")?;
    let library = directory.join("built.so");
    run(Command::new("cc").args(COMPILE.split(' ')).arg(source).arg("-o").arg(&library).args([
        "-lm",
        "-lpthread",
        "-ldl",
    ]))?;
    Ok(library)
}

/// Returns the first file below `directory` with a matching name.
fn find(directory: &Path, fits: &dyn Fn(&str) -> bool) -> Result<PathBuf> {
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| fits(&name.to_string_lossy()));
    files_below(directory)?.into_iter().find(named).ok_or_else(|| {
        let none = std::io::ErrorKind::NotFound.into();
        BenchError::file("the package holds no library in", directory)(none)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_strictly() {
        let peer: Peer = "sqlite3mc:aegis".parse().unwrap();
        assert_eq!((peer.library, peer.cipher_name().as_str()), (PeerLibrary::Sqlite3mc, "aegis"));
        assert_eq!("sqlite3mc".parse::<Peer>().unwrap().cipher_name(), "chacha20");
        for bad in ["", "sqlcipher:aes", "sqlite3mc:rot13", "sqlite3mc:aegis'; --", "other"] {
            assert!(bad.parse::<Peer>().is_err(), "{bad}");
        }
    }
}
