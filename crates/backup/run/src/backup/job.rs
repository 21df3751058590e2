//! A backup to make, with all its options.

use std::fmt;

use crate::keys::{Sign, UnwrapSecret};
use crate::options::{Compression, Encryption, Labels, Layout, Mode, Source};
use crate::{Media, OwnSets, RunError};

/// A backup to make.
pub struct BackupJob<'a> {
    /// The source of a backup; `None` for what an archive has begun itself.
    pub source: Option<Source>,
    /// The layout of the set on several targets.
    pub layout: Layout,
    /// The treatment of existing files at the targets.
    pub mode: Mode,
    /// True for a set of the pages that changed since the last full set that is not copy-only, of
    /// the same media set or of [`Self::bases`].
    pub differential: bool,
    /// True for a log backup: the pages that changed since the last full set, or log backup, there
    /// that is not copy-only.
    pub log: bool,
    /// True if the set must not be a base of later differential ones.
    pub copy_only: bool,
    /// True if a full set gets the page map that a differential one needs.
    pub page_map: bool,
    /// True if SQLite's quick_check of the pages read must pass before the set becomes valid.
    pub check: bool,
    /// Compression.
    pub compression: Compression,
    /// Encryption; `None` writes plaintext.
    pub encryption: Option<Encryption<'a>>,
    /// Other media sets: those in which the base of a differential set or of a log backup is looked
    /// for if the targets have none, and those that it stands on.
    pub bases: Vec<Media>,
    /// When the database was made, milliseconds since 1970, if that is known: sets begun before
    /// then are of another database of its name, and no base.
    pub made_ms: Option<i64>,
    /// The sets of the database's own, if they are known: no other one is a base.
    pub own: Option<OwnSets>,
    /// Opens the base of a differential set or of a log backup, if that is encrypted.
    pub base_keys: Option<&'a dyn UnwrapSecret>,
    /// True if an encrypted set may join plain ones in a media set, and the reverse.
    pub allow_mixed: bool,
    /// The signer of the set. If its signature cannot be published with it, the outcome has the
    /// data that [`crate::sign`] needs.
    pub signer: Option<&'a dyn Sign>,
    /// Milliseconds since 1970 after which the set may be discarded; 0 for never.
    pub expires_ms: i64,
    /// Texts.
    pub labels: Labels,
    /// Called once the set is whole, before it becomes valid; an error prevents that.
    pub before_publish: Option<&'a dyn Fn() -> Result<(), RunError>>,
}

impl<'a> BackupJob<'a> {
    /// Makes a full set, compressed with zstd level 1, not encrypted, on new media.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source: Some(source), ..Self::begun() }
    }

    /// As [`Self::new`], for a source that was begun already.
    pub(crate) fn begun() -> Self {
        Self {
            source: None,
            layout: Layout::default(),
            mode: Mode::default(),
            differential: false,
            log: false,
            copy_only: false,
            page_map: true,
            check: true,
            compression: Compression::Zstd { level: 1 },
            encryption: None,
            bases: Vec::new(),
            made_ms: None,
            own: None,
            base_keys: None,
            allow_mixed: false,
            signer: None,
            expires_ms: 0,
            labels: Labels::default(),
            before_publish: None,
        }
    }
}

impl fmt::Debug for BackupJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupJob")
            .field("layout", &self.layout)
            .field("mode", &self.mode)
            .field("differential", &self.differential)
            .field("log", &self.log)
            .field("compression", &self.compression)
            .field("algorithm", &self.encryption.map(|encryption| encryption.algorithm))
            .finish_non_exhaustive()
    }
}
