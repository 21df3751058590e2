//! Where media sets stand: what reads them by range, and what appends to them.

use std::sync::Arc;

use tdekit_backup_media::TRAILER_LEN;

use crate::RunError;

/// One family of a media set, read by range. May be read by several threads at once.
///
/// A file has one part. On an object store each append made a new part; every part begins with a
/// media header.
pub trait MediaSource: Send + Sync {
    /// Path or address, for messages.
    fn name(&self) -> String;

    /// Number of parts, at least 1.
    fn parts(&self) -> u32;

    /// Length of a part in bytes.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::NoPart`].
    fn part_len(&self, part: u32) -> Result<u64, RunError>;

    /// Fills `buf` from `offset` of a part. Callers ask for up to some MiB at once.
    ///
    /// # Errors
    /// [`RunError::Io`]; [`RunError::ShortRead`] when the part ends before `buf` is full.
    fn read_at(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError>;
}

/// Where a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendAt {
    /// A new media set that begins with the bytes that are written first (its media header).
    /// `replace` allows what stands there to be replaced; it goes when the new one is published.
    New {
        /// Whether something may stand there.
        replace: bool,
    },
    /// Behind the last whole record: `end` bytes of the last part are whole, and what follows them
    /// is an unfinished tail.
    Behind {
        /// The last part.
        part: u32,
        /// Its whole bytes.
        end: u64,
    },
}

/// A place that records can be appended to.
pub trait Target: Send {
    /// Path or address, for messages.
    fn name(&self) -> String;

    /// Keeps other writers out until this target is dropped, and gives what stands there; `None`
    /// when there is nothing.
    ///
    /// # Errors
    /// [`RunError::Locked`], [`RunError::Io`].
    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError>;

    /// Whether every append makes a new part, which then begins with a media header of its own.
    fn part_per_record(&self) -> bool;

    /// Writes a trailer where [`Append::prepare`] left it prepared, `at` bytes into the file, and
    /// waits until it is durable.
    ///
    /// # Errors
    /// [`RunError::Internal`] where nothing is ever prepared, [`RunError::Io`].
    fn finish(&mut self, at: u64, trailer: &[u8]) -> Result<(), RunError> {
        let _ = (at, trailer);
        Err(RunError::Internal("a trailer to finish, where none is prepared"))
    }

    /// Begins to append. With [`AppendAt::Behind`] and parts, the new part is the next one.
    ///
    /// # Errors
    /// [`RunError::Exists`], [`RunError::Io`].
    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError>;
}

/// Bytes on their way to a target. Dropped before it is published, it leaves what stood there as
/// it was (an unfinished tail at most).
pub trait Append: Send {
    /// Takes the next bytes. It may block, and may report a failure of earlier bytes.
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError>;

    /// Waits until all bytes so far are durable.
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn sync(&mut self) -> Result<(), RunError>;

    /// Makes the trailer durable so that it does not count yet, where the target can: after a crash
    /// between two [`Self::publish`] of one record, [`Target::finish`] does the rest. Called after
    /// [`Self::sync`].
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn prepare(&mut self, trailer: &[u8; TRAILER_LEN]) -> Result<(), RunError> {
        let _ = trailer;
        Ok(())
    }

    /// In the place of [`Self::sync`] for the only copy of a record: where a crash before
    /// [`Self::publish`] leaves nothing that counts, it need not wait.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn settle(&mut self) -> Result<(), RunError> {
        self.sync()
    }

    /// Whether nobody can see the bytes before [`Self::publish`]: then whole records may follow the
    /// trailer in that call.
    fn is_hidden(&self) -> bool {
        false
    }

    /// Writes the trailer and waits until it is durable; from then on the record counts. Called
    /// once, after [`Self::sync`].
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError>;

    /// Takes back what [`Self::publish`] did, because a mirror failed to do the same.
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn withdraw(&mut self) -> Result<(), RunError>;
}
