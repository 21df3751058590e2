//! `encrypt`, `decrypt` and `rewrap` that are killed: the database is the old or the new one,
//! whole, and the next run succeeds.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tdekit_faults_sqlite::form::by_form;

use crate::databases::{
    Dir, MARKER, create, dump, encrypt, encrypt_args, insert, is_encrypted, open, place,
};

const KILLED: Option<i32> = Some(9);
/// Calls that change files, or make changes durable.
const CALLS: [&str; 16] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "mkdir",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "link",
    "linkat",
    "fchmod",
    "fchown",
];

/// The work that is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Encrypt,
    EncryptAndKeep,
    /// With a log that an application left.
    EncryptWal,
    Decrypt,
    DecryptWal,
}

impl Work {
    /// Makes a new database, and returns its content.
    fn prepare(self, dir: &Dir) -> Vec<String> {
        let live = dir.path("live.db");
        let path = dir.path("app.db");
        match self {
            Self::Encrypt | Self::EncryptAndKeep | Self::Decrypt => {
                let db = create(&path, "PRAGMA application_id = 77");
                insert(&db, 300);
            }
            Self::EncryptWal | Self::DecryptWal => {
                let mode = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0";
                insert(&create(&live, mode), 300);
            }
        }
        if matches!(self, Self::Decrypt) {
            encrypt(&path, &[]);
        }
        if matches!(self, Self::EncryptWal | Self::DecryptWal) {
            if self == Self::DecryptWal {
                encrypt(&live, &[]);
            }
            let db = open(&live);
            db.execute_batch("PRAGMA wal_autocheckpoint = 0; DELETE FROM t WHERE id % 2").unwrap();
            for suffix in ["", "-wal"] {
                let from = dir.path(&format!("live.db{suffix}"));
                fs::copy(from, dir.path(&format!("app.db{suffix}"))).unwrap();
            }
            let content = dump(&db);
            drop(db);
            fs::remove_file(&live).unwrap();
            return content;
        }
        dump(&open(&path))
    }

    fn args(self, path: &Path) -> Vec<OsString> {
        match self {
            Self::Encrypt | Self::EncryptWal => encrypt_args(path, &[]),
            Self::EncryptAndKeep => encrypt_args(path, &["--keep-plain"]),
            Self::Decrypt | Self::DecryptWal => vec!["decrypt".into(), path.into()],
        }
    }

    fn is_done(self, path: &Path) -> bool {
        is_encrypted(path) == !matches!(self, Self::Decrypt | Self::DecryptWal)
    }

    /// After a kill: everything is there, and a second run succeeds and leaves nothing behind.
    fn check(self, dir: &Dir, content: &[String], when: &str) -> bool {
        let path = dir.path("app.db");
        let done = self.is_done(&path);
        // A copy of the result of a crash, recovered by opening it.
        let copy = Dir::new();
        for name in dir.names().iter().filter(|name| name.starts_with("app.db")) {
            fs::copy(dir.path(name), copy.path(name)).unwrap();
        }
        assert_eq!(dump(&open(&copy.path("app.db"))), content, "{self:?} {when}");
        if done && !matches!(self, Self::Decrypt | Self::DecryptWal) {
            let mut told = dir.files_with_marker();
            told.retain(|name| name != "app.db.plain");
            assert!(told.is_empty(), "{self:?} {when}: {told:?}");
        }
        let again = place().run(self.args(&path));
        assert_eq!(again.code, i32::from(done), "{self:?} {when}: {again:?}");
        assert!(self.is_done(&path), "{self:?} {when}");
        assert_eq!(dump(&open(&path)), content, "{self:?} {when}");
        let mut names = dir.names();
        names.retain(|name| name != "app.db.plain" || self != Self::EncryptAndKeep);
        if !done {
            assert_eq!(names, ["app.db"], "{self:?} {when}");
        }
        if self == Self::EncryptAndKeep {
            assert_eq!(dump(&open(&dir.path("app.db.plain"))), content);
        }
        done
    }
}

#[cfg(debug_assertions)]
#[test]
fn after_every_step() {
    let steps = [
        "created", "locked", "copied", "checked", "durable", "recorded", "kept", "unlinked",
        "renamed", "settled",
    ];
    let all =
        [Work::Encrypt, Work::DecryptWal, Work::EncryptAndKeep, Work::EncryptWal, Work::Decrypt];
    for &work in &all[..by_form(2, 5, 5)] {
        for step in steps {
            let dir = Dir::new();
            let content = work.prepare(&dir);
            let mut args = work.args(&dir.path("app.db"));
            args.push(format!("--stop-after={step}").into());
            let output = place().command(args).output().unwrap();
            assert_eq!(output.status.signal(), KILLED, "{work:?} {step}: {output:?}");
            let done = work.check(&dir, &content, step);
            assert_eq!(done, ["renamed", "settled"].contains(&step), "{work:?} {step}");
        }
    }
}

/// Runs the command under strace, which kills it at the start of the `nth` of the calls `call`.
fn run_and_kill(args: &[OsString], call: &str, nth: u32) -> Option<Output> {
    let run = place().command(args);
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear();
    for (name, value) in run.get_envs() {
        strace.env(name, value.unwrap());
    }
    strace.stdin(Stdio::null()).output().ok()
}

fn at_every_call(work: Work) {
    let Some(traced) = run_and_kill(&["--version".into()], "fsync", 1000) else {
        assert!(std::env::var_os("CI").is_none(), "no strace: `cargo xtask setup` installs it");
        return eprintln!("skipped: needs strace");
    };
    if !traced.status.success() {
        return eprintln!("skipped: may not trace a process: {traced:?}");
    }
    let mut kills = [0, 0];
    for call in CALLS {
        // Names change a few times; writes and syncs are many and similar.
        let alike = call.contains("write") || call.contains("sync");
        let step = if alike { by_form(11, 1, 1) } else { 1 };
        for nth in (1..).step_by(step) {
            let dir = Dir::new();
            let content = work.prepare(&dir);
            let output = run_and_kill(&work.args(&dir.path("app.db")), call, nth).unwrap();
            if output.status.success() {
                break;
            }
            assert_eq!(output.status.signal(), KILLED, "{work:?} {call} {nth}: {output:?}");
            let done = work.check(&dir, &content, &format!("{call} {nth}"));
            kills[usize::from(done)] += 1;
            assert!(nth < 200, "it never ends");
        }
    }
    eprintln!("{work:?}: {} kills before, {} after the rename", kills[0], kills[1]);
    assert!(kills[0] >= by_form(5, 15, 15) && kills[1] >= 2, "{kills:?}");
}

#[test]
fn at_every_write_and_sync_of_encrypt() {
    at_every_call(Work::Encrypt);
}

#[test]
fn at_every_write_and_sync_of_encrypt_with_a_log() {
    at_every_call(Work::EncryptWal);
}

#[test]
fn at_every_write_and_sync_of_decrypt() {
    at_every_call(Work::Decrypt);
}

#[test]
fn at_every_write_and_sync_of_decrypt_with_a_log() {
    at_every_call(Work::DecryptWal);
}

#[test]
#[ignore = "full: kills at random, half a minute"]
fn at_any_time() {
    let dir = Dir::new();
    let master = dir.path("master.db");
    insert(&create(&master, ""), 40_000);
    let content = dump(&open(&master));
    let path = dir.path("app.db");
    fs::copy(&master, &path).unwrap();
    let begin = Instant::now();
    encrypt(&path, &[]);
    let whole = begin.elapsed();
    for part in 0..24 {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fs::copy(&master, &path).unwrap();
        let mut child = place()
            .command(encrypt_args(&path, &[]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(whole * part / 20);
        child.kill().unwrap();
        child.wait().unwrap();
        Work::Encrypt.check(&dir, &content, &format!("{part}/20 of {whole:?}"));
    }
}

#[test]
fn marker_is_in_what_is_checked() {
    let dir = Dir::new();
    Work::EncryptWal.prepare(&dir);
    assert_eq!(dir.files_with_marker(), ["app.db", "app.db-wal"], "{MARKER}");
}

#[test]
fn time_is_not_wasted() {
    // A killed run's lock does not outlive it: the next one starts at once.
    let dir = Dir::new();
    Work::Encrypt.prepare(&dir);
    let path = dir.path("app.db");
    let mut child = place().command(encrypt_args(&path, &[])).spawn().unwrap();
    thread::sleep(Duration::from_millis(30));
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = Instant::now();
    place().run(encrypt_args(&path, &[]));
    assert!(begin.elapsed() < Duration::from_secs(20) && is_encrypted(&path));
}
