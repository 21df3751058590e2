//! Converts plain SQLite databases to encrypted ones and back, imports databases that other
//! programs encrypted, and rewraps keys.
//!
//! The engine does not know the command: it reports its progress to a [`Watch`], asks it whether to
//! continue, and returns a [`DatabaseError`] when it stops. Its parts also serve callers that make
//! a database by other means, such as a restore: the lock on the [`Source`], the [`Target`] that
//! replaces it.

mod at_work;
mod audit;
mod certificates;
mod convert;
mod copy;
mod emptied;
mod error;
mod examine;
mod ffi;
mod foreign;
mod freshness;
mod holders;
mod import;
mod inspect;
mod keep;
mod known;
mod log_locks;
mod log_users;
mod logged;
mod memory;
mod online;
mod origin;
mod pace;
mod path_text;
mod pause;
mod rewrap;
mod rotate;
mod source;
mod status;
mod step;
mod system;
mod target;
mod verify;
mod versions;
mod watch;

pub use at_work::is_key_changing;
pub use audit::{Audited, Breach, Policy, audit};
pub use certificates::find_certificates;
pub use convert::{Converted, Form, Options, convert, copy_encrypted};
pub use copy::{Unknown, stand_in_for_collations};
pub use emptied::refuse_emptied;
pub use error::{CutShort, DatabaseError, io_error, sqlite_kind};
pub use examine::{Examination, Finding, Search, databases_in, examine};
pub use ffi::register;
pub use foreign::{Foreign, Setting};
pub use freshness::{
    Change, Changed, Freshness, change_freshness, check_freshness, forget_freshness, freshness,
};
pub use holders::Holder;
pub use import::{Importable, Imported, import, importable_in};
pub use inspect::{
    FileKind, certificates_of, header_of, open_header, read_area, without_store, wrapped_of,
};
pub use known::{
    Known, is_another, is_over_link, known_of, lost_in, refuse_lost, resolved_path, unread_list,
};
pub use log_locks::is_excluded_by_checkpoint;
pub use log_users::has_log_users;
pub use logged::audited_target;
pub use online::{Online, encrypt_online};
pub use origin::Origin;
pub use path_text::{PathText, path_text};
pub use pause::{
    Progress, State, halted_since, pause, pause_through, progress, resume, resume_through,
};
pub use rewrap::{Rewrapped, rewrap};
pub use rotate::{Rotated, Rotation, rotate};
pub use source::{
    Hold, Source, check_alone, check_pages, database_path, open_file, pass_over_constraints,
    pragma, refuse_odd_sides, require_encrypted,
};
pub use status::{Certificate, Encryption, Lazy, Status, Store, key_change_percent, status};
pub use step::Step;
pub use system::SystemSqlite;
pub use target::{
    SIDE_SUFFIXES, Target, made, remove_side_files, spoil_unlinked, sync_directory, with_suffix,
};
pub use tdekit_sqlite_client::file_uri;
pub use watch::{CancelledBy, Phase, Unwatched, Watch, go_on, interruptible};
