//! The top of the stack: plain SQLite on `crash`, or the encrypting VFS on `crash`.

use std::fmt;
use std::path::Path;

use tdekit_sqlite_client::file_uri;

use crate::error::Result;
use crate::ffi::db::Db;
use crate::ffi::{crash_vfs, tdekit};

/// The layer under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// SQLite, crash, unix: checks the harness.
    Plain,
    /// A plain database on the layers of [`Self::Tdekit`]: tests the effect of a loaded extension
    /// on it.
    Beside,
    /// SQLite, tdekit, crash, unix.
    Tdekit,
    /// As [`Self::Tdekit`], with freshness: the anchor is beside the database, so that it is
    /// recorded.
    Fresh,
}

impl Top {
    /// Returns the name of the VFS to open databases with; registers it at the first call.
    ///
    /// # Errors
    /// [`crate::error::Error::Setup`] when it cannot be registered.
    pub fn vfs(self) -> Result<&'static str> {
        // Both in every process: the second changes the environment, which no thread may read then.
        tdekit::install()?;
        match self {
            Self::Plain => crash_vfs::install(),
            Self::Beside | Self::Tdekit | Self::Fresh => Ok(tdekit_sqlite::VFS_NAME),
        }
    }

    /// Returns the URI of `path`, with `parameters` such as `immutable=1&mode=ro`.
    #[must_use]
    pub fn uri(self, path: &Path, parameters: &str) -> String {
        let mut uri = file_uri(path);
        if !parameters.is_empty() {
            uri.push('?');
            uri.push_str(parameters);
        }
        uri
    }

    /// Opens the database at `path`; a new one is of this layer's kind.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open(self, path: &Path) -> Result<Db> {
        Db::open(&self.new_uri(path), Some(self.vfs()?), true)
    }

    /// Returns the URI that opens a database, or makes one of this layer's kind; also for ATTACH.
    #[must_use]
    pub fn new_uri(self, path: &Path) -> String {
        match self {
            Self::Plain | Self::Beside => self.uri(path, ""),
            Self::Tdekit => self.uri(path, &format!("tdekit_certificate={}", tdekit::CERTIFICATE)),
            Self::Fresh => {
                let certificate = tdekit::CERTIFICATE;
                let directory = path.parent().unwrap_or(Path::new(".")).display();
                let parameters = format!(
                    "tdekit_certificate={certificate}&tdekit_freshness=on&\
                     tdekit_anchors={directory}"
                );
                self.uri(path, &parameters)
            }
        }
    }

    /// Returns the layout of the log's file: bytes before the first frame, and bytes of each frame.
    #[must_use]
    pub fn log_layout(self, page_size: usize) -> (usize, usize) {
        match self {
            // SQLite's file format, 4.1.
            Self::Plain | Self::Beside => (32, 24 + page_size),
            // docs/format/page.md.
            Self::Tdekit | Self::Fresh => (1024, 72 + page_size),
        }
    }

    /// Returns true if the layer promises that every byte on disk is sealed.
    #[must_use]
    pub fn seals(self) -> bool {
        match self {
            Self::Plain | Self::Beside => false,
            Self::Tdekit | Self::Fresh => true,
        }
    }
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Beside => "beside",
            Self::Tdekit => "tdekit",
            Self::Fresh => "fresh",
        })
    }
}
