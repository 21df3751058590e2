//! Restoring a set on trial: into a file that is sealed under a key of this process alone. It is
//! checked by SQLite, compared with the set's fingerprints, and removed.

use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use rusqlite::{Connection, OpenFlags};
use tdekit_key_crypto::fingerprint::PageFingerprint;
use tdekit_key_store::{StoreError, Workplace};
use tdekit_sqlite::scratch::Scratch;
use tdekit_sqlite_convert::{DatabaseError, file_uri, register};

use crate::archive::{Archive, At};
use crate::database::sink::vfs_error;
use crate::feed::GROUP;
use crate::media::base::OpenBase;
use crate::options::DatabaseSource;
use crate::signature::refuse_wrong;
use crate::snapshot::Snapshot;
use crate::{Checked, Media, PageSink, Run, RunError, SetInfo, SourceKind, UnwrapSecret};

/// Pages that are compared at once; a divisor of those of a map block.
const PAGES_AT_ONCE: u32 = 256;
const _: () = assert!(GROUP.is_multiple_of(PAGES_AT_ONCE));

/// Result of a restore on trial. Anything that is not as it was is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Bytes that were restored.
    pub bytes: u64,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Pages that are equal to those that were backed up, by their fingerprints; of a chain of an
    /// archive those that are equal to the ones that were shipped, by the checks of its log sets:
    /// each page once for each object. `None` without fingerprints or checks.
    pub compared: Option<u64>,
    /// Result of SQLite's quick_check of the restored database; `NotAsked` for a stream.
    pub checked: Checked,
}

/// Restores a set, with its base, in a directory of its own in `scratch`, which is removed again.
/// Signatures are checked first.
///
/// # Errors
/// Those of restoring; `Damaged` if quick_check or the comparison finds a fault.
pub fn restore_on_trial(
    media: &Media,
    set: &SetInfo,
    keys: Option<&dyn UnwrapSecret>,
    (scratch, run): (&Path, &Run<'_>),
) -> Result<Trial, RunError> {
    let mut chain = media.chain(Some(set.position), keys)?;
    refuse_wrong(&mut chain, run)?;
    if set.source == SourceKind::Stream {
        let mut counted = Counted(0);
        chain.restore_stream(&mut counted, run)?;
        return Ok(Trial {
            bytes: counted.0,
            pages: 0,
            compared: None,
            checked: Checked::NotAsked,
        });
    }
    let damaged = |reason: String| RunError::Damaged {
        media: media.names().into_iter().next().unwrap_or_default(),
        what: format!("what was restored of set {}", set.position),
        reason,
    };
    let mut sink = TrialSink::new(scratch)?;
    let outcome = chain.restore_database(&mut sink, run)?;
    let (snapshot, checked) = check_structure(&sink, damaged, run)?;
    let compared = match set.page_map {
        true => Some(compare(media, set, keys, (&snapshot, run))?),
        false => None,
    };
    if let Some(Err(page)) = compared {
        return Err(damaged(format!("page {page} is not the one that was backed up")));
    }
    Ok(Trial {
        bytes: outcome.bytes,
        pages: outcome.pages,
        compared: compared.and_then(Result::ok),
        checked,
    })
}

/// Restores an archive's chain, whose last object has this number, object by object: the state of
/// each page behind each of them is checked. Signatures are not.
///
/// # Errors
/// The errors of restoring, which name the first wrong object; `Damaged` if quick_check finds a
/// fault.
pub fn restore_chain_on_trial(
    archive: &Archive,
    last: u64,
    keys: Option<&dyn UnwrapSecret>,
    (scratch, run): (&Path, &Run<'_>),
) -> Result<Trial, RunError> {
    let found = archive.chain(At::Transaction(last, None))?;
    if archive.is_encrypted()? {
        found.refuse_plain()?;
    }
    let mut sink = TrialSink::new(scratch)?;
    let outcome = found.restore_each(keys, &mut sink, run)?;
    let damaged = |reason: String| RunError::Damaged {
        media: archive.object(last),
        what: "what was restored of its chain".to_owned(),
        reason,
    };
    let (_, checked) = check_structure(&sink, damaged, run)?;
    // A log set holds a page at least; older ones have no checks.
    let compared = Some(outcome.compared_pages).filter(|pages| *pages > 0);
    Ok(Trial { bytes: outcome.bytes, pages: outcome.pages, compared, checked })
}

/// Opens what was restored, and has SQLite check its structure.
fn check_structure(
    sink: &TrialSink,
    damaged: impl Fn(String) -> RunError,
    run: &Run<'_>,
) -> Result<(Snapshot, Checked), RunError> {
    let snapshot = sink.open()?;
    match snapshot.check_structure(run) {
        Err(RunError::CorruptSource { problem, .. }) => Err(damaged(problem)),
        checked => checked.map(|checked| (snapshot, checked)),
    }
}

/// Compares all pages with the set's fingerprints. Returns their number, or the first page that
/// differs.
fn compare(
    media: &Media,
    set: &SetInfo,
    keys: Option<&dyn UnwrapSecret>,
    (snapshot, run): (&Snapshot, &Run<'_>),
) -> Result<Result<u64, u32>, RunError> {
    let map = OpenBase::open(media.volumes(), set, keys)?;
    let fingerprint = PageFingerprint::new(map.map_key.expose())?;
    let page_len = snapshot.page_len();
    let (mut first, mut prints) = (1_u32, Vec::new());
    let mut bytes = Vec::new();
    while first <= snapshot.pages() {
        run.check()?;
        let at = (first - 1) % GROUP;
        if at == 0 {
            prints = map.prints((first - 1) / GROUP)?;
        }
        let count = PAGES_AT_ONCE.min(snapshot.pages() - first + 1);
        bytes.resize(page_len.saturating_mul(usize::try_from(count).unwrap_or(usize::MAX)), 0);
        snapshot.read(first, &mut bytes)?;
        let known = prints.iter().skip(usize::try_from(at).unwrap_or(usize::MAX));
        let mut known = known.copied();
        for (number, page) in (first..).zip(bytes.chunks_exact(page_len)) {
            if known.next() != Some(fingerprint.of(page)?) {
                return Ok(Err(number));
            }
        }
        first += count;
    }
    Ok(Ok(u64::from(snapshot.pages())))
}

/// A restored database that only this process can open.
struct TrialSink {
    // Before its directory is removed.
    scratch: OnceLock<Scratch>,
    work: Workplace,
    pages: u32,
}

impl TrialSink {
    /// The directory of a killed run is removed by the next.
    fn new(dir: &Path) -> Result<Self, RunError> {
        register().map_err(DatabaseError::sqlite("prepare to restore", dir, None))?;
        let name = format!("tdekit-restore-test-{}", std::process::id());
        let work = Workplace::beside(&dir.join(name)).map_err(made)?;
        Ok(Self { scratch: OnceLock::new(), work, pages: 0 })
    }

    fn open(&self) -> Result<Snapshot, RunError> {
        let scratch = self.scratch.get().ok_or(RunError::Internal("no pages were restored"))?;
        scratch.set_pages(self.pages);
        let path = self.work.place();
        let uri = format!("{}?{}", file_uri(&path), scratch.parameters());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(uri, flags);
        let connection = opened.map_err(DatabaseError::sqlite("read back", &path, None))?;
        Snapshot::open(DatabaseSource { connection, path, encrypted_file_id: None })
    }
}

impl PageSink for TrialSink {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        self.pages = u32::try_from(pages)
            .map_err(|_| RunError::Internal("SQLite has no database of so many pages"))?;
        if self.scratch.get().is_some() {
            return Ok(());
        }
        let file = self.work.create().map_err(made)?;
        let path = self.work.place();
        let scratch = Scratch::new(file, page_size).map_err(|error| vfs_error(&path, error))?;
        self.scratch.set(scratch).map_err(|_| RunError::Internal("a restore that begins twice"))
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let scratch = self.scratch.get().ok_or(RunError::Internal("pages before their number"))?;
        scratch.write(first, bytes).map_err(|error| vfs_error(&self.work.place(), error))
    }

    fn read(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), RunError> {
        let scratch = self.scratch.get().ok_or(RunError::Internal("pages before their number"))?;
        scratch.read(page, bytes).map_err(|error| vfs_error(&self.work.place(), error))
    }

    fn finish(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

fn made(error: StoreError) -> RunError {
    match error {
        StoreError::Io { action, path, source } => RunError::io(action, &path)(source),
        other => other.into(),
    }
}

/// Counts the bytes of a stream.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
