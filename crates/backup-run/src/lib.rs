//! Backup, restore, verify and inspect: the pipeline around tdekit's media sets.
//!
//! [`backup`] takes a consistent snapshot of a database (or any stream of bytes) to one or more
//! [`Target`]s; [`Media`] opens what is there, lists its sets without a key, verifies and restores
//! them. The bytes are described in `docs/format/media.md` and are `backup-media`'s part.

mod backup;
mod buffer;
mod catalog;
mod control;
mod error;
mod feed;
mod file;
mod info;
mod keys;
mod media;
mod object;
mod options;
mod output;
mod pipeline;
mod progress;
mod sink;
mod snapshot;
mod target;
mod throttle;

pub use backup::{BackupOutcome, add_recipients, backup, sign};
pub use catalog::{
    CATALOG_FILE_NAME, Catalog, CatalogDevice, CatalogEncryptor, CatalogFilter, CatalogSet,
    CatalogUse, date_of_ms,
};
pub use control::{Progress, Run};
pub use error::RunError;
pub use file::{FileMedia, FileSink, FileTarget};
pub use info::{Finding, SetInfo, SetKind, SignatureInfo, SourceKind};
pub use keys::{CertificateNames, Sign, UnwrapSecret, WrapSecret};
pub use media::{Chain, Media, RestoreOutcome, SignatureCheck, VerifyReport};
pub use object::{ObjectFault, ObjectMedia, ObjectOptions, ObjectTarget, is_object_address};
pub use options::{
    BackupJob, Compression, DatabaseSource, Encryption, Labels, Layout, Mode, Source, StreamSource,
};
pub use sink::PageSink;
pub use target::{Append, MediaSource, Place, Target};
pub use tdekit_backup_media::Recipient;
