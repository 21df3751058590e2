//! The SQLite library into which programs of this machine load the extension.

use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;
use tdekit_sqlite::host::fault_of;
use tdekit_sqlite_client::Library;

/// Its name for the dynamic loader.
const NAME: &str = "libsqlite3.so.0";

/// The SQLite library that the dynamic loader finds. Programs may bring their own: in those,
/// `tdekit_sqlite_fault()` reports faults.
#[derive(Clone, Debug, Serialize)]
pub struct SystemSqlite {
    /// The name by which it is found.
    pub library: &'static str,
    /// Its version.
    pub version: String,
    /// Its known fault, in words, that an update fixes.
    pub fault: Option<String>,
}

impl SystemSqlite {
    /// Finds the library, if the machine has one.
    pub(crate) fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<SystemSqlite>> = OnceLock::new();
        let find = || {
            let version = Library::shared(Path::new(NAME)).ok()?.version();
            Some(Self { library: NAME, fault: fault_of(&version), version })
        };
        FOUND.get_or_init(find).clone()
    }
}
