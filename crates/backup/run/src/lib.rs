//! Backup, restore, verify and inspect: the pipeline around tdekit's media sets.
//!
//! [`backup`] takes a consistent snapshot of a database (or any stream of bytes) to one or more
//! [`Target`]s; [`Media`] opens existing sets, lists them without a key, verifies and restores
//! them. The bytes are specified in `docs/format/media.md` and implemented by `backup-media`.

pub mod archive;
mod backup;
pub mod begun;
mod buffer;
mod catalog;
pub mod choose;
mod control;
pub mod copy;
pub mod database;
mod discover;
pub mod downgrade;
pub mod elsewhere;
mod error;
mod fault;
mod feed;
mod file;
mod finding;
mod found;
pub mod history;
mod info;
pub mod inherit;
pub mod input;
mod keys;
pub mod labels;
pub mod logged;
mod media;
mod moved;
mod names;
pub mod needed;
#[cfg(feature = "object-stores")]
mod object;
mod operator;
mod options;
mod output;
mod own;
mod pipeline;
pub mod place;
mod progress;
pub mod readings;
mod remove;
pub mod rescan;
pub mod retention;
pub mod signature;
mod sink;
mod snapshot;
mod stores;
pub mod stream;
mod target;
mod throttle;
pub mod trial;
pub mod uses;

pub use backup::{BackupJob, BackupOutcome, Signable, add_recipients, backup, sign};
pub use catalog::{
    CATALOG_FILE_NAME, Catalog, CatalogDevice, CatalogEncryptor, CatalogFilter, CatalogRestore,
    CatalogSet, CatalogStatement, CatalogUse, Check, CheckedKind, LastCheck, NewestBackup, Undated,
    date_of_ms,
};
pub use control::{Progress, Run};
pub use discover::{MediaSets, Root, Unreadable};
pub use error::RunError;
pub use fault::ObjectFault;
pub use file::{FileMedia, FileSink, FileTarget};
pub use finding::FindingReport;
pub use info::{Finding, SetInfo, SetKind, SignatureInfo, SourceKind};
pub use keys::{CertificateNames, Keys, Sign, UnwrapSecret, WrapSecret};
pub use media::{Chain, Media, NoBaseHere, Onto, RestoreOutcome, SignatureCheck, VerifyReport};
#[cfg(feature = "object-stores")]
pub use object::{ObjectMedia, ObjectOptions, ObjectTarget, is_object_address};
pub use operator::{Notice, Operator};
pub use options::{
    Compression, DatabaseSource, Encryption, Labels, Layout, Mode, ObjectLock, Source, Storage,
    StreamSource,
};
pub use own::{MOST_CHANGES, MOST_FULL, OwnSets};
pub use sink::PageSink;
pub use snapshot::Checked;
pub use target::{Append, AppendAt, MediaSource, Target};
pub use tdekit_backup_media::Recipient;
