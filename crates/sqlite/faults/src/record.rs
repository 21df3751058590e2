//! The totally ordered log of everything that reaches the file system under one directory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{Error, Result};

/// One file from its creation to its deletion; a new file of the same name has a new number.
pub type FileId = u32;

/// One entry of the log.
#[derive(Debug, Clone)]
pub enum Op {
    /// `path` was created as an empty file.
    Create {
        /// The new file.
        file: FileId,
        /// Its name.
        path: PathBuf,
    },
    /// Bytes written at an offset.
    Write {
        /// The file.
        file: FileId,
        /// Byte offset.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The file was truncated or extended to `size` bytes.
    Truncate {
        /// The file.
        file: FileId,
        /// New size in bytes.
        size: u64,
    },
    /// All earlier writes of `file` are durable from here on.
    Sync {
        /// The file.
        file: FileId,
        /// The directory was synced with it, so all earlier names are durable too.
        directory: bool,
    },
    /// `from` was renamed to `to`; an existing `to` was replaced.
    Rename {
        /// The file.
        file: FileId,
        /// Its old name.
        from: PathBuf,
        /// Its new name.
        to: PathBuf,
    },
    /// An empty directory was made.
    MakeDirectory {
        /// Its name.
        path: PathBuf,
    },
    /// All earlier names in the directory are durable from here on.
    SyncDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// `path` was unlinked.
    Delete {
        /// The file.
        file: FileId,
        /// Its name.
        path: PathBuf,
        /// True if the directory was synced afterwards.
        directory: bool,
    },
    /// The workload is about to commit transaction `.0`.
    Begin(u32),
    /// Transaction `.0` was acknowledged.
    Acked(u32),
}

/// A log, and the durable files at its start.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Files at the start: name, number, content.
    pub base: Vec<(PathBuf, FileId, Vec<u8>)>,
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Names of all files that were ever opened; `None` for temporary files without a name.
    pub names: HashMap<FileId, Option<PathBuf>>,
}

/// Calls that a [`FaultPlan`] can make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// xWrite.
    Write,
    /// xSync.
    Sync,
    /// xOpen.
    Open,
    /// xTruncate.
    Truncate,
    /// xDelete.
    Delete,
    /// xRead.
    Read,
}

/// The role of a file in its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The database itself.
    Main,
    /// Its rollback journal.
    Journal,
    /// Its write-ahead log.
    Wal,
    /// A statement journal, which undoes one statement or a savepoint.
    Statement,
    /// A temporary database.
    Temporary,
    /// The rollback journal of a temporary database, or a sorter's runs.
    TemporaryJournal,
    /// A table that exists for one statement.
    Transient,
    /// A list of seals or an anchor of a database with freshness.
    Seals,
    /// A super-journal.
    Super,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 9] = [
        Self::Main,
        Self::Journal,
        Self::Wal,
        Self::Statement,
        Self::Temporary,
        Self::TemporaryJournal,
        Self::Transient,
        Self::Seals,
        Self::Super,
    ];
}

/// Makes one call, or it and all later ones, fail.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    /// The kind of calls that count.
    pub kind: FaultKind,
    /// The role of files that count; `None` for all.
    pub role: Option<Role>,
    /// Counts only writes past a file's end: a full disk still accepts writes to allocated space.
    pub growing: bool,
    /// Index of the failing call, from 0, counted from arming.
    pub nth: u64,
    /// Result code, for example `SQLITE_FULL`.
    pub code: i32,
    /// Later calls of the kind fail too.
    pub sticky: bool,
    /// A failing write still writes this share of its bytes, in percent.
    pub written_percent: u8,
}

/// Records every change under a directory, and makes calls fail on request.
#[derive(Debug, Default)]
pub struct Recorder {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    directory: PathBuf,
    recording: bool,
    log: Log,
    live: HashMap<PathBuf, FileId>,
    next: FileId,
    plan: Option<FaultPlan>,
    seen: u64,
    fired: u64,
    /// Calls by kind and role, since the last count.
    calls: HashMap<(FaultKind, Role), u64>,
    keeps_journals: bool,
}

static ROUTES: Mutex<Vec<(PathBuf, Weak<Recorder>)>> = Mutex::new(Vec::new());

thread_local! {
    /// Temporary files without a name belong to the recorder that is active on their thread.
    static ACTIVE: RefCell<Option<Weak<Recorder>>> = const { RefCell::new(None) };
}

impl Recorder {
    /// Attaches a recorder for every file under `directory`, and for the nameless temporary files
    /// that this thread opens. It records nothing until [`Recorder::begin`].
    #[must_use]
    pub fn attach(directory: &Path) -> Arc<Self> {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let recorder = Arc::new(Self::default());
        recorder.lock().directory.clone_from(&directory);
        let mut routes = ROUTES.lock().unwrap_or_else(PoisonError::into_inner);
        routes.retain(|(_, weak)| weak.strong_count() > 0);
        routes.push((directory, Arc::downgrade(&recorder)));
        recorder.activate();
        recorder
    }

    /// Records the nameless temporary files that this thread opens from now on.
    pub fn activate(self: &Arc<Self>) {
        ACTIVE.with(|active| *active.borrow_mut() = Some(Arc::downgrade(self)));
    }

    /// Starts a new log; the directory's present content counts as durable.
    ///
    /// # Errors
    /// The file system's, from reading the directory.
    pub fn begin(&self) -> Result<()> {
        let mut inner = self.lock();
        let directory = inner.directory.clone();
        let mut log = Log::default();
        for entry in fs::read_dir(&directory).map_err(Error::io(&directory))? {
            let path = entry.map_err(Error::io(&directory))?.path();
            if path.is_file() && !is_shared_memory(&path) {
                let content = fs::read(&path).map_err(Error::io(&path))?;
                let id = inner.id_of(&path);
                log.names.insert(id, Some(path.clone()));
                log.base.push((path, id, content));
            }
        }
        inner.log = log;
        inner.recording = true;
        Ok(())
    }

    /// Ends the log and returns it.
    #[must_use]
    pub fn take(&self) -> Log {
        let mut inner = self.lock();
        inner.recording = false;
        std::mem::take(&mut inner.log)
    }

    /// Adds a mark of the workload.
    pub fn mark(&self, mark: Op) {
        self.push(mark);
    }

    /// Returns the number of entries so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().log.ops.len()
    }

    /// Returns true while nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes calls fail according to `plan`, counted from now.
    pub fn arm(&self, plan: FaultPlan) {
        let mut inner = self.lock();
        inner.plan = Some(plan);
        inner.seen = 0;
        inner.fired = 0;
    }

    /// Ends the plan; returns the number of calls that it made fail.
    pub fn disarm(&self) -> u64 {
        let mut inner = self.lock();
        inner.plan = None;
        inner.fired
    }

    /// Returns the calls since the last count, by their kind and the file's role.
    pub fn count_calls(&self) -> HashMap<(FaultKind, Role), u64> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Returns the number of calls that the plan has made fail so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.lock().fired
    }

    /// Makes files report that none is deleted while it is open: SQLite then keeps journals open
    /// between transactions.
    pub fn keep_journals_open(&self) {
        self.lock().keeps_journals = true;
    }

    pub(crate) fn keeps_journals(&self) -> bool {
        self.lock().keeps_journals
    }

    /// Forgets the known names, because the directory was made anew.
    pub fn forget_names(&self) {
        self.lock().live.clear();
    }

    pub(crate) fn for_path(path: Option<&Path>) -> Option<Arc<Self>> {
        let Some(path) = path else {
            return ACTIVE.with(|active| active.borrow().as_ref().and_then(Weak::upgrade));
        };
        let routes = ROUTES.lock().unwrap_or_else(PoisonError::into_inner);
        routes.iter().rev().find(|(dir, _)| path.starts_with(dir)).and_then(|(_, r)| r.upgrade())
    }

    pub(crate) fn opened(&self, path: Option<PathBuf>, created: bool) -> FileId {
        let mut inner = self.lock();
        let id = match &path {
            Some(path) if created => {
                inner.live.remove(path);
                inner.id_of(path)
            }
            Some(path) => inner.id_of(path),
            None => inner.fresh(),
        };
        if inner.recording {
            inner.log.names.insert(id, path.clone());
            if let (Some(path), true) = (path, created) {
                inner.log.ops.push(Op::Create { file: id, path });
            }
        }
        id
    }

    pub(crate) fn deleted(&self, path: PathBuf, directory: bool) {
        let mut inner = self.lock();
        if let Some(file) = inner.live.remove(&path)
            && inner.recording
        {
            inner.log.ops.push(Op::Delete { file, path, directory });
        }
    }

    pub(crate) fn push(&self, op: Op) {
        let mut inner = self.lock();
        if inner.recording {
            inner.log.ops.push(op);
        }
    }

    /// Returns the plan if this call must fail: a call on a file with this role, which may make it
    /// grow.
    pub(crate) fn fault(&self, kind: FaultKind, role: Role, grows: bool) -> Option<FaultPlan> {
        let mut inner = self.lock();
        *inner.calls.entry((kind, role)).or_default() += 1;
        let counts = |plan: &FaultPlan| {
            plan.kind == kind && plan.role.is_none_or(|r| r == role) && (grows || !plan.growing)
        };
        let plan = inner.plan.clone().filter(counts)?;
        let now = inner.seen;
        inner.seen += 1;
        let fails = now == plan.nth || (plan.sticky && now > plan.nth);
        if !fails {
            return None;
        }
        inner.fired += 1;
        Some(plan)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fresh(&mut self) -> FileId {
        self.next += 1;
        self.next
    }

    fn id_of(&mut self, path: &Path) -> FileId {
        if let Some(&id) = self.live.get(path) {
            return id;
        }
        let id = self.fresh();
        self.live.insert(path.to_owned(), id);
        id
    }
}

/// The `-shm` file is never durable: SQLite rebuilds it after every crash.
#[must_use]
pub fn is_shared_memory(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-shm")
}
