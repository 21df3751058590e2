//! Making a backup set, and records on earlier sets.

use crate::{
    BackupJob, Finding, Recipient, Run, RunError, SetKind, Sign, Target, UnwrapSecret, WrapSecret,
};

/// What a backup made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupOutcome {
    /// The media set.
    pub media_id: [u8; 16],
    /// The set.
    pub set_id: [u8; 16],
    /// Its position.
    pub position: u32,
    /// Full or differential.
    pub kind: SetKind,
    /// Position of the base of a differential set.
    pub base_position: Option<u32>,
    /// Set id of that base.
    pub base: Option<[u8; 16]>,
    /// Who can open it.
    pub recipients: Vec<Recipient>,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Page size; 0 for a stream.
    pub page_size: u32,
    /// Pages that the set holds: those that changed, for a differential one.
    pub pages_stored: u64,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// Bytes before compression.
    pub payload_bytes: u64,
    /// Bytes of the blocks as stored, over all families.
    pub stored_bytes: u64,
    /// Bytes added to each copy of the media set, over all families.
    pub media_bytes: u64,
    /// When it was begun, milliseconds since 1970.
    pub begun_ms: i64,
    /// When it was finished.
    pub finished_ms: i64,
    /// What was found at the targets: an unfinished tail that was cut off, damaged records.
    pub findings: Vec<Finding>,
}

/// Makes a backup set at one or more targets: all or nothing.
///
/// # Errors
/// Whatever keeps the set from being made; earlier sets at the targets are as they were.
pub fn backup(
    job: BackupJob<'_>,
    targets: Vec<Box<dyn Target>>,
    run: &Run<'_>,
) -> Result<BackupOutcome, RunError> {
    run.check()?;
    drop((job, targets));
    Err(RunError::Internal("not written yet"))
}

/// Appends a recipients record to media sets (all mirrors or all stripes): from then on the new
/// recipients open the set as well. No data is touched.
///
/// # Errors
/// `NoSet`, `KeyNeeded`, `WrongKey`, `Store`, those of the targets.
pub fn add_recipients(
    targets: Vec<Box<dyn Target>>,
    position: Option<u32>,
    keys: &dyn UnwrapSecret,
    recipients: &dyn WrapSecret,
) -> Result<Vec<Recipient>, RunError> {
    drop((
        targets,
        position,
        keys.unwrap_secret(&[]),
        recipients.wrap_secret(&tdekit_key_crypto::SecretBytes::new_zeroed(32)?),
    ));
    Err(RunError::Internal("not written yet"))
}

/// Appends a signature record on a set.
///
/// # Errors
/// `NoSet`, `Store`, those of the targets.
pub fn sign(
    targets: Vec<Box<dyn Target>>,
    position: Option<u32>,
    signer: &dyn Sign,
) -> Result<(), RunError> {
    drop((targets, position, signer.sign(&[])));
    Err(RunError::Internal("not written yet"))
}
