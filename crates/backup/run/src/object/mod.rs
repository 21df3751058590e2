//! Media sets on an object store: S3, Google Cloud Storage, Azure.
//!
//! An object cannot be appended to, so each append makes a new part: `NAME`, `NAME.0001`,
//! `NAME.0002`, ... ([`address`]). A part is uploaded in pieces and appears as a whole, with the
//! single request that publishes it, and only if nothing exists yet ([`upload`]): of two writers
//! that append the same part, one is refused. Reading uses ranges of the objects that existed when
//! the media set was opened ([`media`]); each request is retried until its time is over
//! ([`access`]).

mod access;
mod address;
mod ahead;
mod aws_files;
mod below;
mod claim;
mod connect;
mod lock;
mod media;
mod pieces;
mod prefix;
mod s3;
mod said;
mod target;
#[cfg(test)]
mod tests;
mod upload;

use std::fmt;
use std::time::Duration;

use crate::{ObjectFault, Storage};

pub use address::is_object_address;
pub(crate) use address::is_prefix;
pub(crate) use below::{media_below, remove, state};
pub use media::ObjectMedia;
pub(crate) use prefix::{PATIENCE, Prefix};
pub use target::ObjectTarget;

/// Settings for an object store.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Variables such as `AWS_ENDPOINT_URL`, which take precedence over those of the process's
    /// environment. They may contain secrets and are not shown.
    pub variables: Vec<(String, String)>,
    /// Time for which a request is retried while the store cannot be reached or reports that it is
    /// busy. The very first request waits at most half a minute, so that a wrong address or missing
    /// credentials show at once.
    pub patience: Duration,
    /// Expected maximum size of an append; 0 if it is not known. With it a large set is uploaded in
    /// equal pieces; without it they grow as the set does, and so does the memory for them.
    pub expected_bytes: u64,
    /// Bytes of a piece, at least 5 MiB; S3 accepts no smaller ones.
    pub piece_bytes: usize,
    /// Number of pieces being uploaded at once, while the next is filled.
    pub pieces_in_flight: usize,
    /// What the caller's claims on names are recognized by, where it makes sure that no other
    /// process has it: those of one that was killed are then removed at once.
    pub claimant: Option<String>,
    /// How new objects are kept; only S3 has other ways than its own.
    pub storage: Storage,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            variables: Vec::new(),
            patience: Duration::from_mins(10),
            expected_bytes: 0,
            piece_bytes: 8 << 20,
            pieces_in_flight: 2,
            claimant: None,
            storage: Storage::default(),
        }
    }
}

impl fmt::Debug for ObjectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectOptions")
            .field("patience", &self.patience)
            .field("expected_bytes", &self.expected_bytes)
            .field("piece_bytes", &self.piece_bytes)
            .field("pieces_in_flight", &self.pieces_in_flight)
            .finish_non_exhaustive()
    }
}
