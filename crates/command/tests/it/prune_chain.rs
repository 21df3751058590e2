//! `prune` of an archive that is killed at each removal: what is left of a chain is no loss, and
//! the next run removes it whatever its rules are.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::Value;

use crate::common::Place;
use crate::databases::create;
use crate::prune_objects::{Fate, server};

/// The objects of each chain of an archive. The last chain stays.
const CHAINS: [std::ops::RangeInclusive<u64>; 3] = [1..=4, 5..=9, 10..=12];

/// Ships the chains to an archive.
pub(crate) fn ship(place: &Place, to: &str) -> Connection {
    let db = create(&place.path("app.db"), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)");
    for chain in CHAINS {
        let _ = fs::remove_file(place.path("app.db-replica"));
        for number in chain {
            db.execute_batch(&format!("INSERT INTO t VALUES ({number})")).unwrap();
            place.ok(["replicate", "app.db", "--to", to, "--once"]);
        }
    }
    db
}

/// Returns the numbers of the objects of an archive, by the fates of a dry run.
fn objects(report: &Value, fate: &str) -> Vec<u64> {
    let media = report["media"].as_array().unwrap().iter().filter(|it| it["fate"] == fate);
    let number = |it: &Value| {
        let place = it["places"][0].as_str().unwrap();
        place.rsplit('/').next().unwrap().trim_end_matches(".tdekit").parse::<u64>().unwrap()
    };
    let mut numbers: Vec<u64> = media.map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Checks the archive behind a kill: returns the objects that are left of a chain, of which others
/// are gone.
fn check(place: &Place, archive: &str, what: &str) -> Vec<u64> {
    let dry = ["prune", archive, "--keep", "24h", "--dry-run", "--json"];
    let shown = place.json(dry);
    let (kept, finish) = (objects(&shown, "keep"), objects(&shown, "finish"));
    assert!(objects(&shown, "remove").is_empty(), "{what}: {shown}");
    let verified = place.json(["verify", archive, "--json"]);
    assert_eq!(verified["verdict"], "whole", "{what}: {verified}");
    let left = verified["removal_begun"].as_array().unwrap().iter();
    let left = left.flat_map(|it| it[0].as_u64().unwrap()..=it[1].as_u64().unwrap());
    let left: Vec<u64> = left.collect();
    // An object that went before that was recorded is finished too.
    assert!(left.iter().all(|it| finish.contains(it)), "{what}: {left:?} {shown}");
    assert!(finish.len() <= left.len() + 1, "{what}: {left:?} {finish:?}");
    place.ok(["verify", archive, "--restore-test"]);
    let overview = place.run(["overview", "app.db"]);
    assert!(!overview.out.contains("DAMAGED"), "{what}: {overview:?}");
    let run = place.run(["prune", archive, "--keep", "24h"]);
    assert_eq!(run.code, 0, "{what}: {run:?}");
    let shown = place.json(dry);
    assert_eq!(objects(&shown, "keep"), kept, "{what}: {shown}");
    assert_eq!(shown["media"].as_array().unwrap().len(), kept.len(), "{what}: {shown}");
    for chain in CHAINS {
        let there = chain.clone().filter(|number| kept.contains(number)).count();
        assert!(there == 0 || there == chain.count(), "{what}: {kept:?}");
    }
    let verified = place.json(["verify", archive, "--json"]);
    assert_eq!(verified["verdict"], "whole", "{what}: {verified}");
    assert_eq!(verified["removal_begun"], Value::Array(Vec::new()), "{what}: {verified}");
    for number in kept {
        let to = place.path("restored.db");
        let _ = fs::remove_file(&to);
        place.ok(["restore", archive, "--at", &number.to_string(), "--to", "restored.db"]);
        let rows: u32 = Connection::open(&to)
            .unwrap()
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(u64::from(rows), number, "{what}");
    }
    left
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Runs `prune` under strace, which kills it at the `nth` of its removals. Returns `None` where no
/// process can be traced, and false if it was not killed.
fn kill_at(place: &Place, nth: u32) -> Option<bool> {
    let run = place.command(["prune", "archive", "--keep-last", "1"]);
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=unlink,unlinkat"])
        .args(["-e", &format!("inject=unlink,unlinkat:signal=KILL:when={nth}")])
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(run.get_current_dir().unwrap_or(Path::new(".")))
        .env_clear();
    for (name, value) in run.get_envs() {
        strace.env(name, value.unwrap());
    }
    let Ok(output) = strace.stdin(Stdio::null()).output() else {
        assert!(std::env::var_os("CI").is_none(), "no strace: `cargo xtask setup` installs it");
        return None;
    };
    let is_killed = output.status.signal() == Some(9);
    if !is_killed && !output.status.success() {
        eprintln!("skipped: may not trace a process: {output:?}");
        return None;
    }
    Some(is_killed)
}

#[test]
fn a_chain_whose_removal_was_killed_is_no_loss_and_goes() {
    let place = Place::with_store();
    let keep = ship(&place, "archive");
    place.ok(["verify", "archive"]);
    let (archive, history) = (place.path("archive"), place.home().join("history.db"));
    copy(&archive, &place.path("whole"));
    fs::copy(&history, place.path("whole.db")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for nth in 1.. {
        copy(&place.path("whole"), &archive);
        let _ = fs::remove_file(place.home().join("history.db-journal"));
        fs::copy(place.path("whole.db"), &history).unwrap();
        match kill_at(&place, nth) {
            None => return,
            Some(true) => {
                seen.insert(check(&place, "archive", &format!("at {nth}")));
            }
            Some(false) => break,
        }
    }
    // Each beginning of both chains was left once.
    for chain in [CHAINS[0].clone(), CHAINS[1].clone()] {
        let first = *chain.start();
        for last in chain.take_while(|last| last + 1 < first + 4) {
            assert!(seen.contains(&(first..=last).collect::<Vec<u64>>()), "{last}: {seen:?}");
        }
    }
    drop(keep);
}

/// An object that cannot be removed keeps those that it stands on; where later ones went before,
/// the rest is finished later.
#[test]
fn a_chain_of_which_an_object_cannot_be_removed_is_no_loss() {
    let place = Place::with_store();
    let keep = ship(&place, "archive");
    let object = |number: u64| place.path(&format!("archive/{number:016}.tdekit"));
    for (number, left) in [(9, Vec::new()), (7, vec![5, 6, 7])] {
        let held = fs::File::open(object(number)).unwrap();
        held.lock().unwrap();
        let run = place.run(["prune", "archive", "--keep-last", "1"]);
        assert_eq!(run.code, 5, "{run:?}");
        assert!((5..=number).all(|number| object(number).exists()), "{number}");
        assert!(!object(1).exists() && (10..=12).all(|number| object(number).exists()));
        let verified = place.json(["verify", "archive", "--json"]);
        assert_eq!(verified["verdict"], "whole", "{verified}");
        let dry = place.json(["prune", "archive", "--keep", "24h", "--dry-run", "--json"]);
        assert_eq!(objects(&dry, "finish"), left, "{dry}");
        drop(held);
    }
    check(&place, "archive", "held");
    drop(keep);
}

/// An object that was lost is a loss, also where the history has that its chain was to go.
#[test]
fn what_prune_did_not_take_is_a_loss() {
    let place = Place::with_store();
    let keep = ship(&place, "archive");
    place.ok(["verify", "archive"]);
    let killed = (1..).find_map(|nth| match kill_at(&place, nth) {
        None => Some(false),
        Some(true) if !place.path("archive/0000000000000008.tdekit").exists() => Some(true),
        Some(true) => None,
        Some(false) => panic!("it was not killed in time"),
    });
    if killed != Some(true) {
        return;
    }
    assert_eq!(check_code(&place), 0);
    fs::remove_file(place.path("archive/0000000000000006.tdekit")).unwrap();
    assert_eq!(check_code(&place), 4);
    drop(keep);
}

fn check_code(place: &Place) -> i32 {
    place.run(["verify", "archive"]).code
}

#[test]
fn a_chain_in_a_store_whose_removal_was_killed_is_no_loss_and_goes() {
    let Some((server, place)) = server("prune-chain") else { return };
    let mut seen = 0;
    for (at, arrives) in [(0, false), (0, true), (2, true), (3, false), (4, true), (6, true)] {
        let archive = format!("{}{at}-{arrives}", server.prefix);
        for name in ["app.db", "app.db-wal", "app.db-shm", "app.db-replica"] {
            let _ = fs::remove_file(place.path(name));
        }
        let keep = ship(&place, &archive);
        let mut prune = place.command(["prune", &archive, "--keep-last", "1"]);
        prune.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = prune.spawn().unwrap();
        server.is(Fate::Kill { pid: child.id(), at, arrives });
        assert_eq!(child.wait().unwrap().code(), None, "{at}");
        server.is(Fate::Pass);
        seen += usize::from(!check(&place, &archive, &format!("{at} {arrives}")).is_empty());
        drop(keep);
    }
    assert!(seen >= 4, "{seen}");
}
