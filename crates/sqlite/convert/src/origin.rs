//! The programs whose databases can be imported.

/// A program whose databases can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// SQLCipher.
    Sqlcipher,
    /// SQLite3 Multiple Ciphers.
    Sqlite3mc,
}

impl Origin {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlcipher => "SQLCipher",
            Self::Sqlite3mc => "SQLite3 Multiple Ciphers",
        }
    }

    /// File names of its library, beginning with those that `tdekit bench peers install` creates.
    pub(crate) fn files(self) -> &'static [&'static str] {
        match self {
            Self::Sqlcipher => &["libsqlcipher.so", "libsqlcipher.so.1", "libsqlcipher.so.0"],
            Self::Sqlite3mc => &["libsqlite3mc.so", "libsqlite3mc-wheel.so", "libsqlite3mc.so.0"],
        }
    }

    /// A query that returns a row only in its library.
    pub(crate) fn probe(self) -> &'static str {
        match self {
            Self::Sqlcipher => "PRAGMA cipher_version",
            Self::Sqlite3mc => "SELECT sqlite3mc_version()",
        }
    }
}
