//! Backup, restore, verify and inspect: the pipeline around tdekit's media sets.
//!
//! [`backup`] takes a consistent snapshot of a database (or any stream of bytes) to one or more
//! [`Target`]s; [`Media`] opens what is there, lists its sets without a key, verifies and restores
//! them. The bytes are described in `docs/format/media.md` and are `backup-media`'s part.

mod backup;
mod catalog;
mod control;
mod error;
mod info;
mod keys;
mod media;
mod options;
mod sink;
mod target;

pub use backup::{BackupOutcome, add_recipients, backup, sign};
pub use catalog::{
    CATALOG_FILE_NAME, Catalog, CatalogDevice, CatalogEncryptor, CatalogFilter, CatalogSet,
    CatalogUse, date_of_ms,
};
pub use control::{Progress, Run};
pub use error::RunError;
pub use info::{Finding, Recipient, SetInfo, SetKind, SignatureInfo, SourceKind};
pub use keys::{CertificateNames, Sign, UnwrapSecret, WrapSecret};
pub use media::{Media, RestoreOutcome, VerifyReport};
pub use options::{
    BackupJob, Compression, DatabaseSource, Encryption, Labels, Layout, Mode, Source, StreamSource,
};
pub use sink::{FileSink, PageSink};
pub use target::{Append, FileMedia, FileTarget, MediaSource, Place, Target};
