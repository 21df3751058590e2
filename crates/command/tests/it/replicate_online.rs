//! A database is encrypted, and its key changed, while programs write to it and a process follows
//! it: writers are not disturbed, and whatever point is restored holds what was committed by then.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::databases::{encrypt_args, is_encrypted, open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_ledger::{Kind, Ledger, check, end};
use crate::replicate_watch::end as end_follower;

/// Marks a database as one whose key is changed, until its input ends.
const AT_WORK: &str = "import fcntl, struct, sys
database = open(sys.argv[1], 'rb')
mark = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 1 << 62, 1, 0)
fcntl.fcntl(database, 37, mark)
print('marked', flush=True)
sys.stdin.read()
";

/// A process that marks a database.
pub(crate) struct AtWork(Child);

impl AtWork {
    pub(crate) fn begin(path: &Path) -> Self {
        let mut process = Command::new("/usr/bin/python3");
        process.args(["-c", AT_WORK]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "marked\n");
        Self(process)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Runs commands under writers and a follower, and returns the number of chains.
fn under_writers(encrypted: bool, act: impl FnOnce(&Ledger)) -> (usize, String) {
    let mut ledger = Ledger::new(Kind { encrypted, ..Kind::default() });
    ledger.encrypted = true;
    let seed = fastrand::u64(..);
    let follower = ledger.follower();
    ledger.running.push(follower);
    for number in 0..2 {
        let writer = ledger.writer(number);
        ledger.running.push(writer);
    }
    sleep(Duration::from_secs(2));
    act(&ledger);
    sleep(Duration::from_secs(2));
    end(&mut ledger, Duration::from_secs(4));
    assert!(is_encrypted(&ledger.db));
    let said = ledger.said();
    for word in ["error", "warning", "not shipped"] {
        assert!(!said.contains(word), "{said}");
    }
    (check(&ledger, 8, &mut fastrand::Rng::with_seed(seed), seed), said)
}

#[test]
fn a_ledger_that_is_encrypted_meanwhile_is_restored_to_any_point() {
    let (chains, said) = under_writers(false, |ledger| {
        place().ok(encrypt_args(&ledger.db, &["--online"]));
    });
    assert_eq!(said.matches("the database is encrypted now").count(), 1, "{said}");
    assert_eq!(said.matches("new chain: the database was encrypted").count(), 1, "{said}");
    assert_eq!(chains, 2, "{said}");
}

/// Each page is written anew, and shipped like what programs write.
#[test]
fn a_chain_goes_on_while_the_key_is_changed_and_wrapped_anew() {
    let (chains, said) = under_writers(true, |ledger| {
        let db = open(&ledger.db);
        db.busy_timeout(Duration::from_secs(60)).unwrap();
        // So that it takes seconds.
        let more = "CREATE TABLE more AS WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL SELECT x + 1
                    FROM k LIMIT 1500) SELECT randomblob(900) FROM k";
        db.execute_batch(more).unwrap();
        drop(db);
        let db = text(&ledger.db);
        place().ok(["rewrap", db, "--certificate", "AppCert", "--certificate", "Second"]);
        place().ok(["rotate", db, "--algorithm", "AEGIS_256X2"]);
    });
    assert_eq!(chains, 1, "{said}");
}

/// What comes faster than it can be shipped is given up at the limit of the log, once, and the new
/// chain begins behind the change.
#[test]
fn a_log_that_becomes_too_long_while_the_key_is_changed_is_given_up() {
    let pair = Pair::new(true);
    pair.add(1);
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--log-limit", "2MB"];
    let more = ["--certificate", "AppCert", "--no-sign"];
    let mut follower = place().command([&words[..], &more].concat());
    let follower = follower.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    let change = AtWork::begin(&pair.db);
    // It looks each second.
    sleep(Duration::from_millis(1500));
    let db = pair.db();
    db.execute_batch("BEGIN; INSERT INTO t VALUES (2, hex(randomblob(3000000))); COMMIT").unwrap();
    sleep(Duration::from_millis(1500));
    pair.add(3);
    sleep(Duration::from_millis(1500));
    assert_eq!(pair.objects(), 1);
    drop(change);
    wait_for(|| pair.object(2).exists());
    pair.add(4);
    wait_for(|| pair.object(3).exists());
    let said = end_follower(follower);
    assert!(said.contains("the log became too long while the key was changed"), "{said}");
    assert_eq!(said.matches("new chain").count(), 2, "{said}");
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4]);
    drop(db);
}
