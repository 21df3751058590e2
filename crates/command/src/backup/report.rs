//! The report of a media set and its sets, as lines and as JSON.

use serde::Serialize;
use tdekit_backup_run::place::Opened;
use tdekit_backup_run::signature::Signature;
use tdekit_backup_run::{
    CatalogDevice, CatalogSet, Compression, Finding, FindingReport, Media, SetInfo, SetKind,
    SourceKind,
};
use tdekit_console::output;
use tdekit_key_store::KeyStore;

use crate::backup::binlogs::DescribedLog;
use crate::error::CommandError;

/// A media set.
#[derive(Debug, Serialize)]
pub(crate) struct MediaReport {
    pub(crate) media_uuid: String,
    /// Always false: only `verify` and `restore` check a header against its MAC.
    pub(crate) verified: bool,
    pub(crate) devices: Vec<CatalogDevice>,
    /// Findings: unfinished tails, damaged records, missing stripes.
    pub(crate) findings: Vec<FindingReport>,
    pub(crate) sets: Vec<SetReport>,
}

/// A set: the columns of the history, and the data that only the media set has.
#[derive(Debug, Serialize)]
pub(crate) struct SetReport {
    #[serde(flatten)]
    pub(crate) set: CatalogSet,
    /// zstd level.
    pub(crate) compression_level: Option<i8>,
    pub(crate) block_size: u32,
    pub(crate) blocks: u64,
    /// Number of files over which it is striped.
    pub(crate) families: u16,
    /// True if a differential set may be based on it.
    pub(crate) has_page_map: bool,
    pub(crate) signatures: Vec<Signature>,
    /// Its place in an archive, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<ArchiveReport>,
    /// The binary log of a MariaDB server that it holds, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) binary_log: Option<DescribedLog>,
    /// A fault of its header, trailer or index.
    pub(crate) damage: Option<String>,
}

/// The place of a set in an archive, by its header.
#[derive(Debug, Serialize)]
pub(crate) struct ArchiveReport {
    /// Number of its object.
    pub(crate) object: u64,
    /// Number of the object before it; `None` in an archive that was empty.
    pub(crate) behind: Option<u64>,
    /// Id of the set before it.
    pub(crate) behind_set_uuid: Option<String>,
    /// The lineages of its writer, hexadecimal, the own one first.
    pub(crate) lineages: Vec<String>,
}

impl ArchiveReport {
    fn of(info: &SetInfo) -> Option<Self> {
        let archive = info.archive.as_ref()?;
        let (object, behind) = match (&archive.full, &info.log) {
            (Some(full), _) => (full.number, full.behind.map(|it| (it.number, it.set.set_id))),
            (None, Some(log)) => (log.number, Some((log.number - 1, log.before.set_id))),
            (None, None) => return None,
        };
        Some(Self {
            object,
            behind: behind.map(|(number, _)| number),
            behind_set_uuid: behind.map(|(_, set_id)| hex::encode(set_id)),
            lineages: archive.lineage.ids().iter().map(hex::encode).collect(),
        })
    }
}

impl MediaReport {
    /// Reports an opened media set; `store` supplies the names of certificates that signed.
    pub(crate) fn of(opened: &Opened, store: Option<&KeyStore>) -> Self {
        let Opened { media, devices } = opened;
        let set = |info| SetReport::of(info, media, devices, store);
        Self {
            media_uuid: hex::encode(media.id()),
            verified: false,
            devices: devices.clone(),
            findings: media.findings().iter().map(FindingReport::of).collect(),
            sets: media.sets().iter().map(set).collect(),
        }
    }
}

impl SetReport {
    /// Reports a set.
    pub(crate) fn of(
        info: &SetInfo,
        media: &Media,
        devices: &[CatalogDevice],
        store: Option<&KeyStore>,
    ) -> Self {
        Self {
            set: CatalogSet::of(info, &media.id(), devices),
            compression_level: match info.compression {
                Compression::Zstd { level } => Some(level),
                Compression::None | Compression::Lz4 => None,
            },
            block_size: info.block_size,
            blocks: info.blocks,
            families: info.families,
            has_page_map: info.page_map,
            signatures: info
                .signatures
                .iter()
                .map(|each| Signature::unchecked(each, store))
                .collect(),
            archive: ArchiveReport::of(info),
            binary_log: DescribedLog::of(info),
            damage: info.damage.clone(),
        }
    }
}

/// Prints warnings for a reader's findings.
pub(crate) fn warn_findings(findings: &[Finding]) {
    warn_reports(&findings.iter().map(FindingReport::of).collect::<Vec<_>>());
}

/// Prints warnings for findings.
pub(crate) fn warn_reports(findings: &[FindingReport]) {
    for finding in findings {
        output::warning(&finding.message);
    }
}

/// Returns `full`, `differential`, `log` or `stream`.
pub(crate) fn kind_of(info: &SetInfo) -> &'static str {
    match (info.source, info.kind) {
        (SourceKind::Stream, _) => "stream",
        (SourceKind::Database, SetKind::Full) => "full",
        (SourceKind::Database, SetKind::Differential) => "differential",
        (SourceKind::Database, SetKind::Log) => "log",
    }
}

/// Returns `none`, `lz4` or `zstd:1`.
pub(crate) fn compression_of(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_owned(),
        Compression::Lz4 => "lz4".to_owned(),
        Compression::Zstd { level } => format!("zstd:{level}"),
    }
}

/// Formats the compression ratio.
pub(crate) fn ratio(payload_bytes: u64, stored_bytes: u64) -> String {
    match stored_bytes {
        0 => "-".to_owned(),
        #[allow(clippy::cast_precision_loss)]
        stored => format!("{:.2}", payload_bytes as f64 / stored as f64),
    }
}

/// Formats bytes in decimal units.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::DecimalBytes(bytes).to_string()
}

/// Prints the certificates of a set, and its signatures.
pub(crate) fn print_keys(position: u32, report: &SetReport) -> Result<(), CommandError> {
    for encryptor in &report.set.encryptors {
        output::row(format_args!(
            "Set {position}: opened by certificate {}, {}",
            encryptor.certificate_name, encryptor.thumbprint
        ))?;
    }
    for signature in &report.signatures {
        output::row(format_args!("Set {position}: {}", signature.line()))?;
    }
    Ok(())
}
