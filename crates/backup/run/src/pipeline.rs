//! Threads that take payloads, compress and seal them, and pass them on in order.

use std::num::NonZero;
use std::thread;

use tdekit_backup_media::payload::MAX_MAP_PAYLOAD_LEN;
use tdekit_backup_media::{Block, BlockKey, BlockSealer, Compression, ContentHash, Id, SetKeys};
use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::fingerprint::PageFingerprint;

use crate::error::At;
use crate::feed::{Feed, Job, Scratch};
use crate::output::{Fate, Output, Pool, SealedBlock};
use crate::progress::Meter;
use crate::{Run, RunError};

/// Settings for sealing the blocks of a set.
pub(crate) struct Sealing<'a> {
    pub(crate) set_id: Id,
    pub(crate) compression: Compression,
    /// One for each family; none if the set is not encrypted.
    pub(crate) keys: &'a [Option<SetKeys>],
    /// Maximum payload of a data block.
    pub(crate) payload_len: usize,
    /// Key of the page map, if the set has one.
    pub(crate) map_key: Option<&'a SecretBytes>,
    /// True if the threads run at low priority.
    pub(crate) nice: bool,
    /// The hash of blocks, if the set will be signed.
    pub(crate) hash: Option<ContentHash>,
    /// The place, for messages.
    pub(crate) at: At<'a>,
}

impl Sealing<'_> {
    /// Returns the buffer length for any sealed block.
    pub(crate) fn room(&self) -> usize {
        BlockSealer::room(self.payload_len.max(MAX_MAP_PAYLOAD_LEN))
    }

    /// Returns the key of each family.
    pub(crate) fn block_keys(&self) -> Result<Vec<BlockKey>, RunError> {
        let key = |(keys, family): (&Option<SetKeys>, u16)| match keys {
            Some(keys) => keys.block_key(),
            None => Ok(BlockKey::plain(self.set_id, family)),
        };
        let keys = self.keys.iter().zip(0..).map(key);
        keys.collect::<Result<_, _>>().map_err(|error| self.at.error(error))
    }
}

/// Returns the number of threads of a run.
pub(crate) fn threads(run: &Run<'_>) -> usize {
    match run.threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads.min(256),
    }
}

/// Runs `work` in this many threads at once. The first error stops all.
pub(crate) fn run_threads(
    threads: usize,
    fate: &Fate,
    work: &(dyn Fn() -> Result<(), RunError> + Sync),
) -> Result<(), RunError> {
    let guarded = || {
        let guard = PanicGuard(fate);
        if let Err(error) = work() {
            fate.fail(error);
        }
        std::mem::forget(guard);
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            let name = "tdekit-block".to_owned();
            if let Err(source) = thread::Builder::new().name(name).spawn_scoped(scope, guarded) {
                fate.fail(RunError::Thread { source });
            }
        }
    });
    fate.result()
}

/// Acts only when dropped by a panic: the other threads must not wait for the lost one.
struct PanicGuard<'a>(&'a Fate);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.fail(RunError::Internal("a thread panicked"));
    }
}

/// Added to the nice value of threads that would otherwise take the processor from the database's
/// writers. If the processor is idle, that costs nothing.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// Lowers the priority of this thread. On Linux each thread has its own nice value.
fn be_nice() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // The backup works without it.
        let now = getpriority_process(None).unwrap_or(0);
        let _ = setpriority_process(None, now.saturating_add(NICER).min(19));
    }
}

/// Seals everything that `feed` produces, into the output of each family.
pub(crate) fn seal_all(
    feed: &dyn Feed,
    outputs: &[Output],
    sealing: &Sealing<'_>,
    (run, meter, fate): (&Run<'_>, &Meter<'_>, &Fate),
) -> Result<(), RunError> {
    let threads = threads(run);
    // One more for each thread: a block that waits for its turn stops no thread.
    let pool = Pool::new(threads * 2 + 1, sealing.room());
    let work = || {
        if sealing.nice {
            be_nice();
        }
        let mut worker = Worker::new(sealing)?;
        loop {
            let buffer = pool.take(fate)?;
            let Some(job) = feed.next(&mut worker.scratch)? else {
                pool.give(buffer);
                return Ok(());
            };
            worker.seal(&job, buffer, outputs, (&pool, meter))?;
            fate.check()?;
        }
    };
    run_threads(threads, fate, &work)
}

struct Worker<'a> {
    sealing: &'a Sealing<'a>,
    sealer: BlockSealer,
    keys: Vec<BlockKey>,
    scratch: Scratch,
}

impl<'a> Worker<'a> {
    fn new(sealing: &'a Sealing<'a>) -> Result<Self, RunError> {
        let sealer = BlockSealer::new(sealing.compression);
        let key = sealing.map_key.map(|key| PageFingerprint::new(key.expose()));
        Ok(Self {
            sealing,
            sealer: sealer.map_err(|error| sealing.at.error(error))?,
            keys: sealing.block_keys()?,
            scratch: Scratch {
                payload: Vec::new(),
                pages: Vec::new(),
                fingerprint: key.transpose()?,
            },
        })
    }

    fn seal(
        &mut self,
        job: &Job,
        mut buffer: Vec<u8>,
        outputs: &[Output],
        (pool, meter): (&Pool, &Meter<'_>),
    ) -> Result<(), RunError> {
        const NO_FAMILY: RunError = RunError::Internal("a block of no family");
        let family = usize::from(job.family);
        let key = self.keys.get_mut(family).ok_or(NO_FAMILY)?;
        let output = outputs.get(family).ok_or(NO_FAMILY)?;
        let payload = &self.scratch.payload;
        let block = Block { kind: job.kind, index: job.index, first_page: job.first_page, payload };
        let entry = self.sealer.seal(key, &block, &mut buffer);
        let entry = entry.map_err(|error| self.sealing.at.error(error))?;
        let stored = entry.block_len();
        let sealed = SealedBlock::new(entry, buffer, self.sealing.hash)?;
        output.submit(job.index, sealed, pool)?;
        meter.add(job.source_bytes, stored);
        Ok(())
    }
}
