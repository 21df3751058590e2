//! Eight processes read, write, checkpoint, vacuum and back up a database whose key changes several
//! times in a row; processes are killed at random, whatever they do.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, scope, sleep};
use std::time::{Duration, Instant};

use crate::common::Place;
use tdekit_faults_sqlite::crowd::{self, Acks, Work, collect};
use tdekit_faults_sqlite::ffi::tdekit::CERTIFICATE;
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::rng::Rng;
use tdekit_faults_sqlite::top::Top;

/// Makes this program a process of the crowd, and names its job.
const JOB: &str = "TDEKIT_TEST_CROWD";
const JOBS: [&str; 7] = ["write", "write", "write", "read", "checkpoint", "vacuum", "backup"];
const ROTATIONS: [&[&str]; 3] = [&[], &["--algorithm", "AEGIS_256X2"], &[]];
/// The exit code of the command if the database is in use.
const IN_USE: i32 = 5;

/// The entry point of this program as a process of the crowd: not a test by itself.
#[test]
fn a_process_of_the_crowd() {
    let Ok(job) = std::env::var(JOB) else { return };
    let words: Vec<_> = job.split('|').collect();
    let [job, path, journal, number, acks] = words[..] else { panic!("{words:?}") };
    let path = Path::new(path);
    let done = match job {
        "create" => crowd::create(Top::Tdekit, path, journal, 4096),
        "verify" => {
            let numbers: Vec<i64> = acks.split_whitespace().map(|n| n.parse().unwrap()).collect();
            let acks: Vec<_> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            crowd::verify(Top::Tdekit, path, &acks)
        }
        job => {
            let modes = (journal, "NORMAL");
            let (writer, time) = (number.parse().unwrap(), Duration::from_secs(24 * 3600));
            let work = Work { top: Top::Tdekit, path, modes, writer, time };
            work.run(job, std::io::stdout().lock())
        }
    };
    if let Err(error) = done {
        eprintln!("error: {job}: {error}");
        std::process::exit(1);
    }
}

/// A database, its key store, and the acknowledged transactions.
struct Crowd {
    place: Place,
    directory: tempfile::TempDir,
    journal: &'static str,
    acks: Arc<Mutex<Acks>>,
    kills: AtomicU64,
}

impl Crowd {
    fn new(journal: &'static str) -> Self {
        let place = Place::with_store();
        place.ok(["cert", "create", CERTIFICATE]);
        place.ok(["cert", "backup", CERTIFICATE, "--pkcs12", "kept.p12"]);
        let (directory, acks) = (scratch().unwrap(), Arc::default());
        let crowd = Self { place, directory, journal, acks, kills: AtomicU64::new(0) };
        crowd.job("create", &crowd.path(), "");
        crowd
    }

    fn path(&self) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join("crowd.db")
    }

    fn process(&self, job: &str, path: &Path, number: usize, acks: &str) -> Child {
        let command = self.place.command([""]);
        let mut process = Command::new(std::env::current_exe().unwrap());
        process
            .args(["--exact", "rotate_crowd::a_process_of_the_crowd", "--nocapture"])
            .env_clear();
        for (name, value) in command.get_envs() {
            process.env(name, value.unwrap());
        }
        let words = [job, path.to_str().unwrap(), self.journal, &number.to_string(), acks];
        process.env(JOB, words.join("|")).stdin(Stdio::null());
        process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a job that ends, in a separate process.
    fn job(&self, job: &str, path: &Path, acks: &str) {
        let output = self.process(job, path, 0, acks).wait_with_output().unwrap();
        assert!(output.status.success(), "{}: {job}: {}", self.journal, said(&output));
    }

    fn verify(&self, path: &Path, acks: &[(i64, i64)]) {
        let words: Vec<_> = acks.iter().map(|(writer, n)| format!("{writer} {n}")).collect();
        self.job("verify", path, &words.join(" "));
    }

    fn start(&self, slot: usize) -> Member {
        // A process that checkpoints a log switches the database to one.
        let job = match JOBS[slot] {
            "checkpoint" if self.journal != "WAL" => "read",
            job => job,
        };
        let mut child = self.process(job, &self.path(), slot, "");
        let reader = Some(collect(&mut child, &self.acks).unwrap());
        Member { child, reader, since: Instant::now() }
    }

    /// Kills one of the seven, and starts a replacement.
    fn kill(&self, members: &mut [Member], slot: usize) {
        let gone = std::mem::replace(&mut members[slot], self.start(slot));
        gone.end(&format!("{} {}", self.journal, JOBS[slot]));
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs the command, killed after a while unless it completes before.
    fn command(&self, args: &[&str], killed_after: Option<Duration>) -> Output {
        let mut command = self.place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(after) = killed_after {
            let end = Instant::now() + after;
            while child.try_wait().unwrap().is_none() && Instant::now() < end {
                sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap();
        self.kills.fetch_add(u64::from(output.status.code().is_none()), Ordering::Relaxed);
        output
    }

    /// Changes the key twice, or three times if there is more time, and more often until the time
    /// is over.
    fn rotate(&self, until: Instant, rng: &mut Rng) -> u32 {
        let (path, mut done, mut begun) = (self.path(), 0, false);
        while done < by_form(2, 3, 3) || begun || Instant::now() < until {
            let args = [&["rotate", path.to_str().unwrap()], ROTATIONS[done as usize % 3]].concat();
            let killed = rng.percent(60).then(|| Duration::from_millis(rng.below(1500) as u64));
            let output = self.command(&args, killed);
            match output.status.code() {
                None => begun = true,
                Some(0) => {
                    (done, begun) = (done + 1, false);
                    self.await_commit();
                }
                _ => panic!("{}: {args:?}: {}", self.journal, said(&output)),
            }
        }
        done
    }

    /// Repeated rotation leaves others no time; then nothing would be tested.
    fn await_commit(&self) {
        let commits = || Acks::list(&self.acks).iter().map(|(_, n)| n).sum::<i64>();
        let (before, since) = (commits(), Instant::now());
        while commits() == before {
            assert!(since.elapsed() < Duration::from_secs(30), "{}: no commit", self.journal);
            sleep(Duration::from_millis(5));
        }
    }

    /// Backs up with the command, and restores the set that it reports.
    fn back_up(&self, rotating: &AtomicU32, rng: &mut Rng) -> u32 {
        let mut restored = 0;
        let (path, set) = (self.path(), self.directory.path().join("set.bak"));
        let copy = self.directory.path().join("restored.db");
        let words = [&path, &set, &copy].map(|path| path.to_str().unwrap());
        while rotating.load(Ordering::Relaxed) > 0 || restored == 0 {
            let acks = Acks::list(&self.acks);
            let killed = rng.percent(30).then(|| Duration::from_millis(rng.below(400) as u64));
            let args = ["backup", words[0], "--to", words[1], "--init", "--replace"];
            let output = self.command(&args, killed);
            match output.status.code() {
                Some(0) => {
                    self.place.ok(["restore", words[1], "--to", words[2]]);
                    self.verify(&copy, &acks);
                    fs::remove_file(&copy).unwrap();
                    restored += 1;
                }
                None | Some(IN_USE) => {}
                _ => panic!("{}: backup: {}", self.journal, said(&output)),
            }
            sleep(Duration::from_millis(50));
        }
        restored
    }

    /// Kills members at random for as long as the key changes; returns the last ones.
    fn kill_at_random(&self, rotating: &AtomicU32, rng: &mut Rng) -> Vec<Member> {
        let mut members: Vec<_> = (0..JOBS.len()).map(|slot| self.start(slot)).collect();
        while rotating.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(50 + rng.below(500) as u64));
            let slot = rng.below(JOBS.len());
            // A process without time to begin would never do anything.
            if members[slot].since.elapsed() > Duration::from_millis(700) {
                self.kill(&mut members, slot);
            }
            for (member, job) in members.iter_mut().zip(JOBS) {
                if member.child.try_wait().unwrap().is_some() {
                    member.child.kill().unwrap();
                    panic!("{} {job} ended by itself", self.journal);
                }
            }
        }
        members
    }
}

/// A process, and the reader of its output.
struct Member {
    child: Child,
    reader: Option<JoinHandle<()>>,
    since: Instant,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    /// Kills it. It must not have reported an error.
    fn end(mut self, what: &str) {
        self.child.kill().unwrap();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        self.reader.take().unwrap().join().unwrap();
        assert!(complaint.is_empty(), "{what}: {complaint}");
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn rotations_under_a_crowd(journal: &'static str) {
    let crowd = Crowd::new(journal);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(by_form(4, 8, 600));
    // Members that are still running: they must be stopped even if a thread panics.
    let rotating = AtomicU32::new(1);
    struct Less<'a>(&'a AtomicU32);
    impl Drop for Less<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let rng = |seed| Rng::new(seed + journal.len() as u64);
    let (rotations, backups) = scope(|scope| {
        let (crowd, rotating) = (&crowd, &rotating);
        let killing = scope.spawn(|| crowd.kill_at_random(rotating, &mut rng(10)));
        let backing_up = scope.spawn(|| crowd.back_up(rotating, &mut rng(20)));
        let rotations = {
            let _less = Less(rotating);
            crowd.rotate(until, &mut rng(30))
        };
        let backups = backing_up.join().unwrap();
        for (member, job) in killing.join().unwrap().into_iter().zip(JOBS) {
            member.end(&format!("{journal} {job}"));
        }
        (rotations, backups)
    });
    let acks = Acks::list(&crowd.acks);
    let kills = crowd.kills.load(Ordering::Relaxed);
    eprintln!(
        "{journal}: {:?}, {rotations} rotations, {backups} backups restored, {kills} kills, \
         (writer, commits): {acks:?}",
        begun.elapsed()
    );
    // SQLite does not share a journal's lock fairly: a process that is killed often may never get
    // it.
    assert!(acks.iter().map(|(_, n)| n).sum::<i64>() > 100, "{acks:?}");
    assert!(kills > 5, "{kills}");
    let path = crowd.path();
    crowd.verify(&path, &acks);
    let told = crowd.place.json(["rotate", "--status", "--json", path.to_str().unwrap()]);
    assert_eq!((&told[0]["state"], &told[0]["pages_left"]), (&"none".into(), &0.into()), "{told}");
    assert_eq!(told[0]["key_versions"].as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn nothing_is_lost_with_a_log() {
    rotations_under_a_crowd("WAL");
}

#[test]
fn nothing_is_lost_with_a_journal() {
    rotations_under_a_crowd("DELETE");
}
