//! Sealed blocks on their way to the copies of a record: written in order, although they arrive in
//! any order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tdekit_backup_media::{BlockKind, ContentDigest, ContentHash, Digest, IndexEntry, SetBuilder};

use crate::{Append, RunError};

/// Interval at which waiting threads check whether the run has failed.
const LOOK: Duration = Duration::from_millis(50);

/// Takes a lock whose data is usable even if a thread panicked: the run fails then anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, or a short time.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait_timeout(guard, LOOK).unwrap_or_else(PoisonError::into_inner).0
}

/// Whether the threads of a run continue, and the first error that stopped them.
#[derive(Default)]
pub(crate) struct Fate {
    failed: AtomicBool,
    error: Mutex<Option<RunError>>,
}

impl Fate {
    /// Stops all threads. Of several errors the first is kept.
    pub(crate) fn fail(&self, error: RunError) {
        lock(&self.error).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns the outcome of the run.
    pub(crate) fn result(&self) -> Result<(), RunError> {
        lock(&self.error).take().map_or(Ok(()), Err)
    }

    /// Returns an error if the run was stopped; [`Self::result`] has the cause.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.failed() { Err(RunError::Cancelled) } else { Ok(()) }
    }
}

/// A bounded number of buffers for sealed blocks.
///
/// A thread takes its buffer *before* it takes the next block, so the block that all others wait
/// for always has one.
pub(crate) struct Pool {
    free: Mutex<Vec<Vec<u8>>>,
    given: Condvar,
}

impl Pool {
    pub(crate) fn new(buffers: usize, len: usize) -> Self {
        let free = Mutex::new((0..buffers).map(|_| vec![0; len]).collect());
        Self { free, given: Condvar::new() }
    }

    pub(crate) fn take(&self, fate: &Fate) -> Result<Vec<u8>, RunError> {
        let mut free = lock(&self.free);
        loop {
            fate.check()?;
            if let Some(buffer) = free.pop() {
                return Ok(buffer);
            }
            free = wait(&self.given, free);
        }
    }

    pub(crate) fn give(&self, buffer: Vec<u8>) {
        lock(&self.free).push(buffer);
        self.given.notify_one();
    }
}

/// Passes items on in order, although they arrive in any order.
pub(crate) struct InOrder<T> {
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    /// Blocks that arrived before their turn.
    ready: BTreeMap<u64, T>,
    /// Number of the next block.
    due: u64,
    /// True while a thread is passing on: it also takes blocks that become ready in the meantime.
    draining: bool,
}

impl<T> InOrder<T> {
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::new(Queue { ready: BTreeMap::new(), due: 0, draining: false }) }
    }

    /// Takes number `number`, and passes it on together with the ready ones after it, unless it is
    /// not its turn or another thread is passing on. Calls of `pass` are sequential.
    pub(crate) fn submit(
        &self,
        number: u64,
        item: T,
        mut pass: impl FnMut(T) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut queue = lock(&self.queue);
        queue.ready.insert(number, item);
        if queue.draining {
            return Ok(());
        }
        queue.draining = true;
        let mut result = Ok(());
        while result.is_ok() {
            let due = queue.due;
            let Some(item) = queue.ready.remove(&due) else { break };
            queue.due += 1;
            drop(queue);
            result = pass(item);
            queue = lock(&self.queue);
        }
        queue.draining = false;
        result
    }
}

/// A sealed block in its buffer.
pub(crate) struct SealedBlock {
    entry: IndexEntry,
    bytes: Vec<u8>,
    /// Digest of the whole block, in a set that will be signed.
    digest: Option<Digest>,
}

impl SealedBlock {
    /// Takes the block at the beginning of `bytes`.
    pub(crate) fn new(
        entry: IndexEntry,
        bytes: Vec<u8>,
        hash: Option<ContentHash>,
    ) -> Result<Self, RunError> {
        let mut block = Self { entry, bytes, digest: None };
        if let Some(hash) = hash {
            block.digest = Some(hash.of_block(block.block()?));
        }
        Ok(block)
    }

    fn block(&self) -> Result<&[u8], RunError> {
        let len = usize::try_from(self.entry.block_len()).unwrap_or(usize::MAX);
        self.bytes.get(..len).ok_or(RunError::Internal("a block exceeds its buffer"))
    }
}

/// The blocks of one record (one family), written to all its copies.
pub(crate) struct Output {
    order: InOrder<SealedBlock>,
    written: Mutex<Written>,
}

/// The content of a record so far.
pub(crate) struct Written {
    /// The copies, which are byte for byte equal.
    pub(crate) copies: Vec<Box<dyn Append>>,
    pub(crate) builder: SetBuilder,
    /// Payload bytes of data blocks.
    pub(crate) data_bytes: u64,
    /// Bytes of blocks, including headers.
    pub(crate) stored_bytes: u64,
    /// Data blocks.
    pub(crate) data_blocks: u64,
    /// Digest of all blocks, in a set that will be signed.
    pub(crate) content: ContentDigest,
}

impl Output {
    /// Makes the output of a record whose header `copies` have taken; `builder` is positioned after
    /// it.
    pub(crate) fn new(copies: Vec<Box<dyn Append>>, builder: SetBuilder) -> Self {
        let written = Written {
            copies,
            builder,
            data_bytes: 0,
            stored_bytes: 0,
            data_blocks: 0,
            content: ContentDigest::new(),
        };
        Self { order: InOrder::new(), written: Mutex::new(written) }
    }

    /// Takes block `index`, and writes the blocks whose turn it is. Buffers return to the pool.
    pub(crate) fn submit(
        &self,
        index: u64,
        block: SealedBlock,
        pool: &Pool,
    ) -> Result<(), RunError> {
        self.order.submit(index, block, |block| {
            let written = lock(&self.written).write(&block);
            pool.give(block.bytes);
            written
        })
    }

    /// Returns the result of writing.
    pub(crate) fn into_written(self) -> Written {
        self.written.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Writes one block.
    pub(crate) fn write(&mut self, block: &SealedBlock) -> Result<(), RunError> {
        self.write_all(block.block()?)?;
        let entry = block.entry;
        if let Some(digest) = &block.digest {
            self.content.push(digest);
        }
        self.stored_bytes += entry.block_len();
        if entry.kind == BlockKind::Data {
            self.data_blocks += 1;
            self.data_bytes += u64::from(entry.payload_len);
        }
        self.builder.push(entry);
        Ok(())
    }

    /// Writes bytes to every copy.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.copies.iter_mut().try_for_each(|copy| copy.write(bytes))
    }
}
