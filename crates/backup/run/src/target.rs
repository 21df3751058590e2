//! Places of media sets: reading by range, appending, and the objects of an archive.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tdekit_backup_media::TRAILER_LEN;

use crate::RunError;

/// One family of a media set, read by range. Several threads may read it at once.
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

    /// Fills `buf` from `offset` of a part. Callers request up to some MiB at once.
    ///
    /// # Errors
    /// [`RunError::Io`]; [`RunError::ShortRead`] if the part ends before `buf` is full.
    fn read_at(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError>;
}

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendAt {
    /// A new media set that begins with the first bytes written (its media header). `replace`
    /// allows replacing an existing one, which is removed when the new one is published.
    New {
        /// True if a media set may exist there.
        replace: bool,
    },
    /// After the last whole record: `end` bytes of the last part are whole, and the bytes after
    /// them are an unfinished tail.
    Behind {
        /// The last part.
        part: u32,
        /// Length of its whole bytes.
        end: u64,
    },
}

/// A place that records can be appended to.
pub trait Target: Send {
    /// Path or address, for messages.
    fn name(&self) -> String;

    /// Excludes other writers until this target is dropped, and returns the existing media; `None`
    /// if there are none.
    ///
    /// # Errors
    /// [`RunError::Locked`], [`RunError::Io`].
    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError>;

    /// Returns true if every append makes a new part, which then begins with a media header of its
    /// own.
    fn part_per_record(&self) -> bool;

    /// Writes a trailer over the one that [`Append::prepare`] prepared, `at` bytes into the file,
    /// and waits until it is durable.
    ///
    /// # Errors
    /// [`RunError::Internal`] if nothing is ever prepared, [`RunError::Io`].
    fn finish(&mut self, at: u64, trailer: &[u8]) -> Result<(), RunError> {
        let _ = (at, trailer);
        Err(RunError::Internal("a trailer to finish, where none is prepared"))
    }

    /// Has appends fail with [`RunError::Cancelled`] once `cancel` becomes true, also while they
    /// wait. What is being published is not cancelled. A place that answers at once ignores it.
    fn cancel_by(&mut self, cancel: &'static AtomicBool) {
        let _ = cancel;
    }

    /// Starts appending. With [`AppendAt::Behind`] and parts, the new part is the next one.
    ///
    /// # Errors
    /// [`RunError::Exists`], [`RunError::Io`].
    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError>;
}

/// Bytes being sent to a target. Dropped before it is published, it leaves the existing media as
/// they were (with an unfinished tail at most).
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

    /// Makes the trailer durable but not yet valid, if the target can: after a crash between two
    /// [`Self::publish`] of one record, [`Target::finish`] does the rest. Called after
    /// [`Self::sync`].
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn prepare(&mut self, trailer: &[u8; TRAILER_LEN]) -> Result<(), RunError> {
        let _ = trailer;
        Ok(())
    }

    /// Called in place of [`Self::sync`] for the only copy of a record: if a crash before
    /// [`Self::publish`] leaves nothing valid, it need not wait.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn settle(&mut self) -> Result<(), RunError> {
        self.sync()
    }

    /// Returns true if nobody can see the bytes before [`Self::publish`]: then whole records may
    /// follow the trailer in that call.
    fn is_hidden(&self) -> bool {
        false
    }

    /// Writes the trailer and waits until it is durable; from then on the record is valid. Called
    /// once, after [`Self::sync`].
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError>;

    /// Undoes [`Self::publish`], because a mirror failed to do the same.
    ///
    /// # Errors
    /// [`RunError::Io`].
    fn withdraw(&mut self) -> Result<(), RunError>;
}

/// The objects of an archive, each a media set of one file.
pub(crate) trait Objects: Send + Sync {
    /// Returns the names and sizes of everything there.
    fn list(&self) -> Result<Vec<(String, u64)>, RunError>;

    /// Returns a whole object.
    fn fetch(&self, name: &str, bytes: u64) -> Result<Vec<u8>, RunError>;

    /// Returns a reader of a large object.
    fn source(&self, name: &str, bytes: u64) -> Result<Arc<dyn MediaSource>, RunError>;

    /// Returns a reader of an object whose size is not known, as it is now.
    fn now(&self, name: &str) -> Result<Arc<dyn MediaSource>, RunError>;

    /// Returns a target for a new object.
    fn target(&self, name: &str) -> Result<Box<dyn Target>, RunError>;

    /// Returns the path or address of an object.
    fn shown(&self, name: &str) -> String;
}
