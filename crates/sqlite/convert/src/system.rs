//! The SQLite library that programs of this machine load the extension into.

use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;
use tdekit_sqlite::host::fault_of;
use tdekit_sqlite_client::Library;

/// The name under which the dynamic loader finds it.
const NAME: &str = "libsqlite3.so.0";

/// The SQLite library that the dynamic loader finds. Programs may bring one of their own: in those
/// `tdekit_sqlite_fault()` has the answer.
#[derive(Clone, Debug, Serialize)]
pub struct SystemSqlite {
    /// The name that it is found by.
    pub library: &'static str,
    /// Its version.
    pub version: String,
    /// Its fault that an update mends, in words.
    pub fault: Option<String>,
}

impl SystemSqlite {
    /// The library, where the machine has one.
    pub(crate) fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<SystemSqlite>> = OnceLock::new();
        let find = || {
            let version = Library::shared(Path::new(NAME)).ok()?.version();
            Some(Self { library: NAME, fault: fault_of(&version), version })
        };
        FOUND.get_or_init(find).clone()
    }
}
