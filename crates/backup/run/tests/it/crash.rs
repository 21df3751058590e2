//! Backups and restores that stop at any point: earlier sets stay, nothing partial appears under a
//! final name, and the next run works.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::*;
use tdekit_backup_media::TRAILER_LEN;
use tdekit_backup_run::{
    Append, AppendAt, BackupJob, FileSink, FileTarget, MediaSource, Mode, PageSink, Run, RunError,
    Target, backup,
};

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::new);

/// Files and their content.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// Number of steps that succeed before everything fails.
#[derive(Clone)]
struct Fuse {
    left: Arc<AtomicU32>,
    /// The files at the end of the fuse, if the process is to die there: files that it would clean
    /// up stay.
    left_behind: Arc<Mutex<Option<Files>>>,
    dir: Option<PathBuf>,
}

impl Fuse {
    fn new(steps: u32, dies_in: Option<&Path>) -> Self {
        Self {
            left: Arc::new(AtomicU32::new(steps)),
            left_behind: Arc::default(),
            dir: dies_in.map(Path::to_path_buf),
        }
    }

    fn burn(&self) -> Result<(), RunError> {
        let step = |left: u32| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step) {
            Ok(_) => Ok(()),
            Err(_) => {
                if let Some(dir) = &self.dir {
                    self.left_behind.lock().unwrap().get_or_insert_with(|| files(dir));
                }
                Err(RunError::NoSpace { path: PathBuf::from("fuse") })
            }
        }
    }

    /// Restores the files as they were at the end of the fuse.
    fn die(&self) {
        let Some(dir) = &self.dir else { return };
        let Some(left_behind) = self.left_behind.lock().unwrap().take() else { return };
        for (path, _) in files(dir) {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in left_behind {
            let mut made = fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut made, 0o700);
            made.recursive(true).create(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(path, private).unwrap();
        }
    }
}

fn files(dir: &Path) -> Files {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    // Files being made are in separate directories.
    let within = |path: std::path::PathBuf| match fs::read_dir(&path) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => vec![path],
    };
    let paths = paths.flat_map(within);
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// A file target whose calls consume a fuse.
struct Fused(FileTarget, Fuse);

impl Target for Fused {
    fn name(&self) -> String {
        self.0.name()
    }

    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError> {
        self.0.open()
    }

    fn part_per_record(&self) -> bool {
        false
    }

    fn finish(&mut self, at: u64, trailer: &[u8]) -> Result<(), RunError> {
        self.0.finish(at, trailer)
    }

    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError> {
        self.1.burn()?;
        Ok(Box::new(FusedAppend(self.0.append(place)?, self.1.clone())))
    }
}

struct FusedAppend(Box<dyn Append>, Fuse);

impl Append for FusedAppend {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.write(bytes)
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.sync()
    }

    fn settle(&mut self) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.settle()
    }

    fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    fn prepare(&mut self, trailer: &[u8; TRAILER_LEN]) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.prepare(trailer)
    }

    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.publish(trailer)
    }

    fn withdraw(&mut self) -> Result<(), RunError> {
        self.0.withdraw()
    }
}

fn stream_job(byte: u8) -> BackupJob<'static> {
    let bytes: Vec<u8> = (0..5 << 19).map(|n: u32| n.to_le_bytes()[2] ^ byte).collect();
    BackupJob { encryption: encryption(), mode: Mode::Append, ..BackupJob::new(stream(&bytes)) }
}

/// All sets of media restore to the content that [`stream_job`] with these numbers backed up.
fn holds(paths: &[&Path], expected: &[u8]) {
    let media = open(paths).unwrap();
    assert_eq!(media.sets().len(), expected.len());
    for (position, byte) in (1..).zip(expected) {
        let bytes = restore_bytes(&media, Some(position)).unwrap();
        assert!(bytes.len() == 5 << 19 && bytes[3 << 16] == 3 ^ byte, "{position}");
    }
}

/// Runs an append with a fuse of every length, on copies of the media.
fn every_point(names: &[&str], dies: bool, stripes: bool) {
    let dir = Dir::new();
    let paths: Vec<_> = names.iter().map(|name| dir.path(name)).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let job = |byte| if stripes { striped(stream_job(byte)) } else { stream_job(byte) };
    back_up(job(1), &paths).unwrap();
    back_up(job(2), &paths).unwrap();
    let before: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let (mut done, mut half_published) = (false, 0);
    for steps in 0.. {
        for (path, bytes) in paths.iter().zip(&before) {
            let _ = fs::remove_file(path);
            fs::write(path, bytes).unwrap();
        }
        let fuse = Fuse::new(steps, dies.then_some(dir.0.path()));
        let targets = paths
            .iter()
            .map(|path| Box::new(Fused(FileTarget::new(*path), fuse.clone())) as Box<dyn Target>);
        let run = Run { threads: 2, ..Run::default() };
        let result = backup(job(3), targets.collect(), &run);
        fuse.die();
        done = result.is_ok();
        if done {
            holds(&paths, &[1, 2, 3]);
            break;
        }
        for (path, before) in paths.iter().zip(&before) {
            let now = fs::read(path).unwrap();
            assert!(now.starts_with(before), "{steps}");
            assert!(dies || now == *before, "{steps}: something is left");
        }
        let media = open(&paths).unwrap();
        let sets = media.sets().len();
        assert!(sets == 2 || (dies && sets == 3), "{steps}: {sets}");
        for position in 1..=2 {
            restore_bytes(&media, Some(position)).unwrap();
        }
        drop(media);
        // A set that is valid in only one stripe is completed: nothing published is cut off.
        half_published += u32::from(stripes && sets == 3);
        back_up(job(4), &paths).unwrap();
        holds(&paths, if sets == 2 { &[1, 2, 4] } else { &[1, 2, 3, 4] });
        assert!(open(&paths).unwrap().findings().is_empty());
        if !stripes {
            let first = fs::read(paths[0]).unwrap();
            assert!(paths.iter().all(|path| fs::read(path).unwrap() == first), "{steps}");
        }
        let mut left = names.to_vec();
        left.sort_unstable();
        assert_eq!(dir.names(), left);
    }
    assert!(done);
    assert_eq!(half_published > 0, dies && stripes);
}

#[test]
fn an_append_that_fails_anywhere_changes_nothing() {
    every_point(&["a"], false, false);
    every_point(&["m1", "m2"], false, false);
    every_point(&["s1", "s2"], false, true);
}

#[test]
fn an_append_that_dies_anywhere_leaves_earlier_sets_and_the_next_goes_on() {
    every_point(&["a"], true, false);
    every_point(&["m1", "m2"], true, false);
    every_point(&["s1", "s2"], true, true);
}

#[test]
fn new_media_that_fail_anywhere_leave_nothing_or_the_old() {
    for names in [&["m1", "m2"][..], &["m1"]] {
        for dies in [false, true] {
            for mode in [Mode::Create, Mode::Replace] {
                new_media_at_every_point(names, dies, mode);
            }
        }
    }
}

/// Runs a backup to new media with a fuse of every length.
fn new_media_at_every_point(names: &[&str], dies: bool, mode: Mode) {
    let dir = Dir::new();
    let paths: Vec<_> = names.iter().map(|name| dir.path(name)).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    for steps in 0.. {
        if mode == Mode::Replace {
            for path in &paths {
                let _ = fs::remove_file(path);
            }
            back_up(stream_job(1), &paths).unwrap();
            // The remains of the last one are gone.
            assert_eq!(dir.names(), names, "{steps}");
        }
        let fuse = Fuse::new(steps, dies.then_some(dir.0.path()));
        let targets = paths
            .iter()
            .map(|path| Box::new(Fused(FileTarget::new(*path), fuse.clone())) as Box<dyn Target>);
        let job = BackupJob { mode, signer: Some(&*SIGNER), ..stream_job(2) };
        let result = backup(job, targets.collect(), &Run::default());
        fuse.die();
        if result.is_ok_and(|made| made.signed) {
            holds(&paths, &[2]);
            assert_eq!(open(&paths).unwrap().sets()[0].signatures.len(), 1);
            break;
        }
        let present: Vec<_> = paths.iter().copied().filter(|path| path.exists()).collect();
        if dies {
            // One of two may have been published; no set is there without its signature.
            for path in present {
                let byte = read_byte(path);
                holds(&[path], &[byte]);
                let signatures = open(&[path]).unwrap().sets()[0].signatures.len();
                assert_eq!(signatures, usize::from(byte == 2), "{steps}");
            }
        } else if mode == Mode::Create {
            assert_eq!(dir.names(), [] as [&str; 0], "{steps}");
        } else {
            holds(&paths, &[1]);
            assert_eq!(dir.names(), names, "{steps}");
        }
        for path in &paths {
            let _ = fs::remove_file(path);
        }
    }
}

fn read_byte(path: &Path) -> u8 {
    restore_bytes(&open(&[path]).unwrap(), Some(1)).unwrap()[0]
}

/// A sink that fails after some calls.
struct FusedSink(FileSink, Fuse);

impl PageSink for FusedSink {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.begin(page_size, pages)
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.write(first, bytes)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        self.1.burn()?;
        self.0.finish()
    }
}

#[test]
fn a_restore_that_fails_anywhere_leaves_what_was_there() {
    let dir = Dir::new();
    let (db, bak, to) = (dir.path("a.db"), dir.path("a.bak"), dir.path("to.db"));
    drop(database(&db, 4096, "delete", 6000));
    back_up(job(&db), &[&bak]).unwrap();
    let media = open(&[&bak]).unwrap();
    for replace in [false, true] {
        for steps in 0.. {
            if replace {
                fs::write(&to, "old").unwrap();
                fs::write(dir.path("to.db-wal"), "old log").unwrap();
            }
            let mut sink = FusedSink(FileSink::new(&to, replace).unwrap(), Fuse::new(steps, None));
            let result = media.restore_database(None, Some(&KEY), &mut sink, &Run::default());
            drop(sink);
            if result.is_ok() {
                assert!(fs::read(&to).unwrap() == fs::read(&db).unwrap());
                assert_eq!(dir.names(), ["a.bak", "a.db", "to.db"]);
                break;
            }
            if replace {
                assert_eq!(fs::read(&to).unwrap(), b"old");
                assert_eq!(dir.names(), ["a.bak", "a.db", "to.db", "to.db-wal"]);
            } else {
                assert_eq!(dir.names(), ["a.bak", "a.db"]);
            }
        }
        let refused = FileSink::new(&to, false);
        assert!(matches!(refused, Err(RunError::Exists { .. })));
        fs::remove_file(&to).unwrap();
    }
    fs::write(dir.path("to.db-wal"), "a stray log").unwrap();
    assert!(matches!(FileSink::new(&to, false), Err(RunError::Exists { .. })));
}

#[test]
fn a_second_writer_is_kept_out() {
    let dir = Dir::new();
    let bak = dir.path("a.bak");
    back_up(stream_job(1), &[&bak]).unwrap();
    let mut first = FileTarget::new(&bak);
    assert!(first.open().unwrap().is_some());
    assert!(matches!(back_up(stream_job(2), &[&bak]), Err(RunError::Locked { .. })));
    drop(first);
    back_up(stream_job(2), &[&bak]).unwrap();
    let mut making = FileTarget::new(dir.path("new"));
    assert!(making.open().unwrap().is_none());
    let append = making.append(AppendAt::New { replace: false }).unwrap();
    assert!(matches!(back_up(stream_job(2), &[&dir.path("new")]), Err(RunError::Locked { .. })));
    drop(append);
    back_up(stream_job(2), &[&dir.path("new")]).unwrap();
}

/// Runs the test `worker` of this program as a separate process.
fn spawn(task: &str, dir: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "crash::worker"]);
    command.env("TDEKIT_TEST_TASK", task).env("TDEKIT_TEST_DIR", dir);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Does something only in a process that another test runs and kills.
#[test]
fn worker() {
    let Ok(task) = std::env::var("TDEKIT_TEST_TASK") else { return };
    let dir = PathBuf::from(std::env::var_os("TDEKIT_TEST_DIR").unwrap());
    let (db, bak) = (dir.join("a.db"), dir.join("a.bak"));
    match task.as_str() {
        "append" => loop {
            back_up(job(&db), &[&bak]).unwrap();
        },
        "restore" => loop {
            let mut sink = FileSink::new(dir.join("to.db"), true).unwrap();
            let media = open(&[&bak]).unwrap();
            media.restore_database(Some(1), Some(&KEY), &mut sink, &Run::default()).unwrap();
        },
        other => panic!("{other}"),
    }
}

#[test]
fn killed_processes_leave_whole_sets_and_whole_databases() {
    let dir = Dir::new();
    let (db, bak, to) = (dir.path("a.db"), dir.path("a.bak"), dir.path("to.db"));
    drop(database(&db, 4096, "wal", 5000));
    let mut sizes = Vec::new();
    // On a busy machine the first ones are killed before they wrote anything.
    for n in 0..60 {
        if n >= 12 && sizes.len() > 1 {
            break;
        }
        let mut child = spawn("append", dir.0.path());
        thread::sleep(Duration::from_millis(120 + n * 31));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(metadata) = fs::metadata(&bak) {
            let media = open(&[&bak]).unwrap();
            for set in media.sets() {
                let report = media.verify(Some(set.position), Some(&KEY), &Run::default()).unwrap();
                assert_eq!(report.damages, Vec::<String>::new());
            }
            sizes.push((media.sets().len(), metadata.len()));
        }
    }
    assert!(sizes.len() > 1 && sizes.is_sorted_by_key(|(sets, _)| *sets), "{sizes:?}");
    back_up(job(&db), &[&bak]).unwrap();
    assert!(open(&[&bak]).unwrap().findings().is_empty());
    let expected = fs::read(&db).unwrap();
    for n in 0..8 {
        let mut child = spawn("restore", dir.0.path());
        thread::sleep(Duration::from_millis(60 + n * 23));
        child.kill().unwrap();
        child.wait().unwrap();
        match fs::read(&to) {
            Ok(bytes) => assert!(bytes == expected),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        }
    }
    drop(FileSink::new(&to, true).unwrap());
    assert!(!dir.names().iter().any(|name| name.ends_with("-new")), "{:?}", dir.names());
}
