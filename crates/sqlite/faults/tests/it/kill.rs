//! Real processes on one database: killed at random, racing, forked.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tdekit_faults_sqlite::crowd::{self, Acks, collect};
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::rng::Rng;
use tdekit_faults_sqlite::top::Top;

const WRITERS: i64 = 3;
const LONG_MS: u64 = 600_000;

fn child(top: Top, job: &str, path: &Path, modes: (&str, &str), writer: i64, ms: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_faults-child"))
        .args([&top.to_string(), job, path.to_str().unwrap(), modes.0, modes.1])
        .args([writer.to_string(), ms.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a transaction was acknowledged: a busy machine starts processes slowly.
fn wait_for_work(acks: &Arc<Mutex<Acks>>, before: u64) {
    let start = Instant::now();
    while acks.lock().unwrap().count == before && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed_writers(top: Top, modes: (&str, &str), page_size: u32) {
    let directory = scratch().unwrap();
    let path = directory.path().join("crowd.db");
    crowd::create(top, &path, modes.0, page_size).unwrap();
    let mut rng = Rng::new(u64::from(page_size) + modes.0.len() as u64);
    let acks = Arc::new(Mutex::new(Acks::default()));
    let mut hot = 0;
    let rounds = by_form(3, 8, 200);
    for round in 0..rounds {
        let before = acks.lock().unwrap().count;
        let mut children: Vec<Child> =
            (1..=WRITERS).map(|n| child(top, "write", &path, modes, n, LONG_MS)).collect();
        let readers: Vec<_> = children.iter_mut().map(|child| collect(child, &acks)).collect();
        wait_for_work(&acks, before);
        std::thread::sleep(Duration::from_millis(rng.below(150) as u64));
        for child in &mut children {
            child.kill().unwrap();
            // One after the other: the others must recover while it runs.
            std::thread::sleep(Duration::from_millis(rng.below(12) as u64));
        }
        let mut said = Vec::new();
        for child in children {
            let ended = child.wait_with_output().unwrap();
            said.push(String::from_utf8_lossy(&ended.stderr).into_owned());
        }
        for reader in readers {
            reader.unwrap().join().unwrap();
        }
        let journal = PathBuf::from(format!("{}-journal", path.display()));
        hot += u64::from(journal.metadata().is_ok_and(|m| m.len() > 0));
        let found =
            crowd::verify(top, &path, &Acks::list(&acks)).map_err(|error| error.to_string());
        let silent = said.iter().all(String::is_empty);
        assert!(silent && found.is_ok(), "{top} {modes:?} round {round}: {said:?}, then {found:?}");
    }
    let commits = acks.lock().unwrap().count;
    println!(
        "{top} {modes:?} page {page_size}: {rounds} kills, {commits} commits, {hot} journals left"
    );
    assert!(commits > rounds);
}

#[test]
fn plain_killed() {
    killed_writers(Top::Plain, ("WAL", "NORMAL"), 4096);
}

#[test]
fn killed_with_a_log() {
    killed_writers(Top::Tdekit, ("WAL", "NORMAL"), 4096);
    killed_writers(Top::Tdekit, ("WAL", "FULL"), 1024);
}

#[test]
fn killed_with_a_journal() {
    killed_writers(Top::Tdekit, ("DELETE", "FULL"), 4096);
    killed_writers(Top::Tdekit, ("TRUNCATE", "NORMAL"), 4096);
    killed_writers(Top::Tdekit, ("PERSIST", "OFF"), 1024);
}

#[test]
fn killed_with_freshness() {
    killed_writers(Top::Fresh, ("WAL", "NORMAL"), 4096);
    killed_writers(Top::Fresh, ("WAL", "FULL"), 1024);
    killed_writers(Top::Fresh, ("DELETE", "FULL"), 4096);
    killed_writers(Top::Fresh, ("TRUNCATE", "NORMAL"), 4096);
    killed_writers(Top::Fresh, ("PERSIST", "OFF"), 1024);
}

/// Writers, long readers, and a connection that checkpoints in every mode, in processes and threads
/// at once.
fn crowded(top: Top, journal: &'static str) {
    let directory = scratch().unwrap();
    let path = directory.path().join("crowd.db");
    crowd::create(top, &path, journal, 4096).unwrap();
    let ms = by_form(1_000, 2_000, 60_000);
    let modes = (journal, "NORMAL");
    let mut children = vec![
        child(top, "write", &path, modes, 1, ms),
        child(top, "read", &path, modes, 0, ms),
        child(top, "read", &path, modes, 0, ms),
    ];
    if journal == "WAL" {
        children.push(child(top, "checkpoint", &path, modes, 0, ms));
    }
    let time = Duration::from_millis(ms);
    let threads: Vec<_> = [2, 3]
        .map(|writer| {
            let path: PathBuf = path.clone();
            std::thread::spawn(move || {
                let mut acks = Vec::new();
                crowd::write(top, &path, modes, writer, time, &mut acks).unwrap();
                let text = String::from_utf8(acks).unwrap();
                let last = text.lines().last().unwrap().split(' ').nth(1).unwrap();
                (writer, last.parse::<i64>().unwrap())
            })
        })
        .into_iter()
        .collect();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || crowd::read(top, &path, journal, time).unwrap())
    };
    let mut acks = BTreeMap::new();
    for mut child in children {
        // Read before waiting: a full pipe would block the child.
        let mut output = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut output).unwrap();
        for line in output.lines().filter_map(|line| line.strip_prefix("1 ")) {
            acks.insert(1, line.parse::<i64>().unwrap());
        }
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{top} {journal}: {said}");
    }
    for thread in threads {
        let (writer, n) = thread.join().unwrap();
        acks.insert(writer, n);
    }
    let snapshots = reader.join().unwrap();
    let list: Vec<_> = acks.iter().map(|(&writer, &n)| (writer, n)).collect();
    println!("{top} {journal}: {list:?} (writer, commits), {snapshots} snapshots in a thread");
    assert!(list.len() == 3 && snapshots > 0);
    crowd::verify(top, &path, &list).unwrap();
}

#[test]
fn plain_crowd() {
    crowded(Top::Plain, "WAL");
}

#[test]
fn crowd_with_a_log() {
    crowded(Top::Tdekit, "WAL");
}

#[test]
fn crowd_with_a_journal() {
    crowded(Top::Tdekit, "DELETE");
}

#[test]
fn crowd_with_freshness() {
    crowded(Top::Fresh, "WAL");
    crowded(Top::Fresh, "DELETE");
}

/// Returns the seals of all pages of the database at `path`: nonce and tag, globally unique.
fn seals(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    bytes[16384..].chunks_exact(4096).map(|page| page[4096 - 48..4096 - 24].to_vec()).collect()
}

#[test]
fn both_sides_of_a_fork_write_and_share_no_nonce() {
    for journal in ["WAL", "DELETE"] {
        let directory = scratch().unwrap();
        let path = directory.path().join("fork.db");
        crowd::create(Top::Tdekit, &path, journal, 4096).unwrap();
        let child = child(Top::Tdekit, "fork", &path, (journal, "NORMAL"), 0, 0);
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        crowd::verify(Top::Tdekit, &path, &[(1, 1), (2, 1)]).unwrap();
        let (mut all, mut count) = (HashSet::new(), 0);
        for side in ["parent", "child"] {
            let own = PathBuf::from(format!("{}-{side}", path.display()));
            crowd::verify(Top::Tdekit, &own, &[(1, 1)]).unwrap();
            // The file's id, too, is drawn after the fork.
            let id = std::fs::read(&own).unwrap()[32..48].to_vec();
            for seal in seals(&own).into_iter().chain([id]) {
                all.insert(seal);
                count += 1;
            }
        }
        println!("{journal}: {count} nonces and file ids on both sides of a fork");
        assert_eq!(all.len(), count);
        assert!(count > 20);
    }
}
