//! Bytes written sequentially, past the page cache if the file system allows it.
//!
//! Fresh memory in the page cache costs more than sealing: bytes are collected in aligned buffers
//! that threads write with `O_DIRECT`. Unaligned bytes (the first and last) are written the usual
//! way, and so is what fits into the first buffer, by the caller: for a small set, threads and
//! more buffers would cost more than the bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::fs::OFlags;

use crate::RunError;
use crate::buffer::{ALIGN, ALIGN_OFFSET, Aligned, is_aligned};

/// Bytes of a buffer.
const STAGE_LEN: usize = 1 << 20;
/// Buffers of a writer: one being filled, two being written, one waiting.
const STAGES: usize = 4;
const THREADS: usize = 2;

/// Writes bytes at ascending offsets of a file.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Offset of the next byte.
    end: u64,
    stage: Option<Stage>,
    /// The only buffer, while it is empty and there are no threads.
    spare: Option<Stage>,
    /// From the first full buffer on.
    threads: Option<Threads>,
}

/// The threads, and the buffers on their way to and from them.
struct Threads {
    full: Option<Sender<Stage>>,
    free: Receiver<Stage>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    file: File,
    /// Opened when the threads start.
    direct: OnceLock<Option<File>>,
    error: Mutex<Option<io::Error>>,
}

/// A buffer for the bytes of the file from `offset` on, a multiple of [`ALIGN`]; those from `from`
/// to `to` must be written.
struct Stage {
    bytes: Aligned,
    offset: u64,
    from: usize,
    to: usize,
}

impl Writer {
    /// Appends to `file` from `end` on; `path` names it now.
    pub(super) fn new(file: &File, path: &Path, end: u64) -> Result<Self, RunError> {
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            file: file.try_clone().map_err(RunError::io("write", path))?,
            direct: OnceLock::new(),
            error: Mutex::new(None),
        });
        Ok(Self { shared, end, stage: None, spare: None, threads: None })
    }

    /// Returns the offset of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next bytes.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunError> {
        while !bytes.is_empty() {
            let mut stage = match self.stage.take() {
                Some(stage) => stage,
                None => self.begin_stage()?,
            };
            let n = bytes.len().min(STAGE_LEN - stage.to);
            let (now, later) = bytes.split_at(n);
            stage.bytes[stage.to..stage.to + n].copy_from_slice(now);
            stage.to += n;
            self.end += n as u64;
            bytes = later;
            if stage.to == STAGE_LEN {
                self.send(stage)?;
            } else {
                self.stage = Some(stage);
            }
        }
        Ok(())
    }

    /// Waits until all bytes so far are in the file, and durable.
    pub(super) fn sync(&mut self) -> Result<(), RunError> {
        self.settle()?;
        self.shared.file.sync_data().map_err(RunError::io("sync", &self.shared.path))
    }

    /// Waits until all bytes so far are in the file.
    pub(super) fn settle(&mut self) -> Result<(), RunError> {
        if let Some(stage) = self.stage.take() {
            self.send(stage)?;
        }
        if let Some(threads) = &self.threads {
            threads.settle()?;
        }
        self.shared.check()
    }

    fn begin_stage(&mut self) -> Result<Stage, RunError> {
        self.shared.check()?;
        let mut stage = match &self.threads {
            Some(threads) => threads.take()?,
            None => self.spare.take().unwrap_or_else(Stage::new),
        };
        let head = self.end % ALIGN_OFFSET;
        stage.offset = self.end - head;
        stage.from = usize::try_from(head).unwrap_or(0);
        stage.to = stage.from;
        Ok(stage)
    }

    /// Sends a buffer to the threads, which start with the first full one. Before that, the caller
    /// writes it.
    fn send(&mut self, stage: Stage) -> Result<(), RunError> {
        if self.threads.is_none() && stage.to < STAGE_LEN {
            self.shared.take(&stage);
            self.spare = Some(stage);
            return Ok(());
        }
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => Threads::start(&self.shared)?,
        };
        self.threads.insert(threads).send(stage)
    }
}

impl Threads {
    fn start(shared: &Arc<Shared>) -> Result<Self, RunError> {
        shared.direct.get_or_init(|| open_direct(&shared.file, &shared.path));
        let (full, stages) = channel::<Stage>();
        let (done, free) = channel();
        let stages = Arc::new(Mutex::new(stages));
        // The first one is with the caller.
        for _ in 1..STAGES {
            // The receiver is in scope.
            let _ = done.send(Stage::new());
        }
        let mut handles = Vec::new();
        for _ in 0..THREADS {
            let (own, stages, done) = (Arc::clone(shared), Arc::clone(&stages), done.clone());
            let thread = thread::Builder::new().name("tdekit-write".to_owned());
            let thread = thread.spawn(move || own.run(&stages, &done));
            handles.push(thread.map_err(RunError::io("write", &shared.path))?);
        }
        Ok(Self { full: Some(full), free, handles })
    }

    fn take(&self) -> Result<Stage, RunError> {
        self.free.recv().map_err(|_| RunError::Internal("a writer ended"))
    }

    fn send(&self, stage: Stage) -> Result<(), RunError> {
        let sent = self.full.as_ref().map(|full| full.send(stage));
        sent.and_then(Result::ok).ok_or(RunError::Internal("a writer ended"))
    }

    /// Waits until all buffers were written, and sends them through the threads again, so that they
    /// return as free ones.
    fn settle(&self) -> Result<(), RunError> {
        let idle: Vec<_> = (0..STAGES).map(|_| self.take()).collect::<Result<_, _>>()?;
        for mut stage in idle {
            (stage.from, stage.to) = (0, 0);
            self.send(stage)?;
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.full = None;
        for thread in self.handles.drain(..) {
            // A thread that panicked has written nothing more.
            let _ = thread.join();
        }
    }
}

impl Stage {
    fn new() -> Self {
        Self { bytes: Aligned::new(STAGE_LEN), offset: 0, from: 0, to: 0 }
    }
}

impl Shared {
    fn run(&self, stages: &Mutex<Receiver<Stage>>, done: &Sender<Stage>) {
        loop {
            let next = stages.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(stage) = next else { return };
            self.take(&stage);
            if done.send(stage).is_err() {
                return;
            }
        }
    }

    /// Writes a buffer, and keeps the first failure.
    fn take(&self, stage: &Stage) {
        if stage.from < stage.to
            && self.check_quietly()
            && let Err(error) = self.write(stage)
        {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn check_quietly(&self) -> bool {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the first failure, to every caller.
    fn check(&self) -> Result<(), RunError> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match &*error {
            None => Ok(()),
            Some(error) => {
                let again = match error.raw_os_error() {
                    Some(number) => io::Error::from_raw_os_error(number),
                    None => io::Error::from(error.kind()),
                };
                Err(RunError::io("write", &self.path)(again))
            }
        }
    }

    fn write(&self, stage: &Stage) -> io::Result<()> {
        let Some(direct) = self.direct.get().and_then(Option::as_ref) else {
            let bytes = &stage.bytes[stage.from..stage.to];
            return self.file.write_all_at(bytes, stage.offset + stage.from as u64);
        };
        // The start of the first whole page of the file, and the end of the last one, within the
        // buffer.
        let first = stage.from.next_multiple_of(ALIGN).min(stage.to);
        let last = first.max(stage.to - stage.to % ALIGN);
        for (from, to) in [(stage.from, first), (first, last), (last, stage.to)] {
            write_at(
                (&self.file, Some(direct)),
                &stage.bytes[from..to],
                stage.offset + from as u64,
            )?;
        }
        Ok(())
    }
}

/// Writes past the page cache if there is a file for that and the bytes are aligned.
pub(super) fn write_at(
    (file, direct): (&File, Option<&File>),
    bytes: &[u8],
    offset: u64,
) -> io::Result<()> {
    if let Some(direct) = direct.filter(|_| !bytes.is_empty() && is_aligned(bytes, offset)) {
        match direct.write_all_at(bytes, offset) {
            // The file system accepts the flag but not the write.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            other => return other,
        }
    }
    file.write_all_at(bytes, offset)
}

/// Opens the file once more for direct I/O, if its file system supports that; `path` is its name.
pub(super) fn open_direct(file: &File, path: &Path) -> Option<File> {
    const FLAGS: OFlags = OFlags::DIRECT.union(OFlags::NONBLOCK);
    let flags = FLAGS.bits().cast_signed();
    let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
    // The name may refer to another file by now.
    let (own, there) = (file.metadata().ok()?, direct.metadata().ok()?);
    ((own.dev(), own.ino()) == (there.dev(), there.ino())).then_some(direct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_where_they_belong_whatever_their_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text: Vec<u8> = (0..5_000_001_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        for (begin, piece) in [(0, 700_001), (96, 1 << 20), (4095, 3), (8192, 5_000_001)] {
            let begin_bytes = &text[..begin];
            std::fs::write(&path, begin_bytes).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let mut writer = Writer::new(&file, &path, begin as u64).unwrap();
            let end = if piece == 3 { begin + 10_000 } else { text.len() };
            for bytes in text[begin..end].chunks(piece) {
                writer.write(bytes).unwrap();
            }
            writer.sync().unwrap();
            writer.write(b"trailer").unwrap();
            writer.sync().unwrap();
            let found = std::fs::read(&path).unwrap();
            assert_eq!(found.len(), end + 7);
            assert!(found[..end] == text[..end] && &found[end..] == b"trailer", "{begin} {piece}");
        }
    }

    /// Without threads at first, whose start takes over a buffer that was written in part.
    #[test]
    fn bytes_stand_where_they_belong_if_pieces_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text: Vec<u8> = (0..3_000_001_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut writer = Writer::new(&file, &path, 0).unwrap();
        for (at, bytes) in text.chunks(300_007).enumerate() {
            writer.write(bytes).unwrap();
            if at < 4 {
                writer.settle().unwrap();
                assert_eq!(std::fs::metadata(&path).unwrap().len(), writer.end());
                assert!(writer.threads.is_none());
            }
        }
        assert!(writer.threads.is_some());
        writer.sync().unwrap();
        assert!(std::fs::read(&path).unwrap() == text);
    }

    #[test]
    fn another_file_under_the_name_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("f"), dir.path().join("moved"));
        let file = File::create_new(&path).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::write(&path, "another").unwrap();
        let mut writer = Writer::new(&file, &path, 0).unwrap();
        writer.write(&vec![7; 2 << 20]).unwrap();
        writer.sync().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"another");
        assert!(std::fs::read(&moved).unwrap() == vec![7; 2 << 20]);
    }

    #[test]
    fn a_failed_write_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "").unwrap();
        let read_only = File::open(&path).unwrap();
        let mut writer = Writer::new(&read_only, Path::new("/nowhere"), 0).unwrap();
        writer.write(b"abc").unwrap();
        assert!(matches!(writer.sync(), Err(RunError::Io { action: "write", .. })));
    }
}
