//! Attacks on the redo log by programs without a key. Under keys from before the online cipher both
//! attacks succeed, which shows that they are real attacks.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tdekit_faults_mariadb::redo::{Mini, RedoLog};
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::{Server, ServerError, copy_tree};

const ROWS: u32 = 300;
/// Only the log reaches the disk, not the tablespace.
const LOG_ONLY: [&str; 2] = ["innodb-max-dirty-pages-pct=99", "innodb-max-dirty-pages-pct-lwm=98"];
const BEGINNING: &str = "client ";
const BEFORE: &[u8] = b"balance 0000000100";
const WANTED: &[u8] = b"balance 9999999900";
const READ_BALANCE: &str = "SELECT COUNT(*), COALESCE(SUM(v LIKE '%balance 0000000100%'), 0), \
     COALESCE(SUM(v LIKE '%balance 9999999900%'), 0) FROM test.t FORCE INDEX(PRIMARY)";

/// A row's text: one cannot be guessed from another.
fn text(n: u32) -> String {
    let mut word = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    format!("{BEGINNING}{n:04} {:016x}{:016x}", next(), next())
}

/// Returns the log of a server that was killed after one transaction with many rows.
fn killed_after_a_transaction(rig: &Rig) -> RedoLog {
    let data = rig.fresh("data");
    let server = rig.start(&data, &LOG_ONLY);
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v CHAR(60))").unwrap();
    let rows: String =
        (1..=ROWS).map(|n| format!("INSERT INTO test.t VALUES({n}, '{}');", text(n))).collect();
    server.sql(&format!("BEGIN; {rows} COMMIT")).unwrap();
    server.kill().unwrap();
    RedoLog::read(&data.join("ib_logfile0"))
}

/// Recovers rows from a known one: for mini-transactions with the same IV, the difference of their
/// ciphertexts is taken as the difference of their plaintexts.
fn recovered(log: &RedoLog, known: u32) -> usize {
    let known = text(known);
    let rows: HashSet<String> = (1..=ROWS).map(text).collect();
    let minis = log.minis();
    assert!(minis.len() > ROWS as usize, "{} mini-transactions", minis.len());
    let all: Vec<(&Mini, Vec<u8>)> = minis.iter().map(|mini| (mini, log.content(mini))).collect();
    let mut found = HashSet::new();
    for (mini, content) in &all {
        for (_, other) in all.iter().filter(|(other, _)| other.iv == mini.iv) {
            let guess: Vec<u8> = content.iter().zip(other).map(|(a, b)| a ^ b).collect();
            // Both texts begin alike, so there is no difference there.
            for at in 0..guess.len().saturating_sub(known.len()) {
                let window = &guess[at..at + known.len()];
                if window[..BEGINNING.len()].iter().any(|byte| *byte != 0) {
                    continue;
                }
                let row: Vec<u8> = window.iter().zip(known.bytes()).map(|(a, b)| a ^ b).collect();
                found.extend(String::from_utf8(row).ok().filter(|row| rows.contains(row)));
            }
        }
    }
    found.remove(&known);
    found.len()
}

/// Returns the number of mini-transactions that share their IV with an earlier one, and their
/// total.
fn repeats(log: &RedoLog) -> (usize, usize) {
    let minis = log.minis();
    let ivs: HashSet<&[u8]> = minis.iter().map(|mini| mini.iv.as_slice()).collect();
    (minis.len(), minis.len() - ivs.len())
}

#[test]
fn one_known_row_gives_no_other() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let log = killed_after_a_transaction(&rig);
    let (count, repeated) = repeats(&log);
    eprintln!("{count} mini-transactions, {repeated} under an IV that was there before");
    assert!(repeated > ROWS as usize, "the IVs do not repeat: {repeated} of {count}");
    for known in [1, 150, ROWS] {
        assert_eq!(recovered(&log, known), 0, "from row {known}");
    }
}

#[test]
fn before_the_online_cipher_one_known_row_gave_many() {
    let Some(rig) = Rig::with(Keeper::TdekitBefore) else { return };
    let log = killed_after_a_transaction(&rig);
    let most = [1, 150, ROWS].map(|known| recovered(&log, known)).into_iter().max();
    eprintln!("rows that followed from one: {most:?}");
    assert!(most > Some(50), "{most:?}");
}

/// Returns the data directory of a server that was killed after a row was written, its log, and the
/// mini-transactions with the row, which a plain server's log reveals by its shape, with the offset
/// in each.
fn killed_after_a_row(rig: &Rig) -> (PathBuf, RedoLog, Vec<(Mini, usize)>) {
    let row = "CONCAT('of somebody, ', 'balance 0000000100', ', as it was on Monday')";
    let run = |rig: &Rig| {
        let data = rig.fresh("data");
        let server = rig.start(&data, &LOG_ONLY);
        server
            .sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v CHAR(80))")
            .unwrap();
        server.sql("INSERT INTO test.t VALUES(1, 'a row before')").unwrap();
        server.sql(&format!("INSERT INTO test.t VALUES(2, {row})")).unwrap();
        server.kill().unwrap();
        let log = RedoLog::read(&data.join("ib_logfile0"));
        (data, log)
    };
    let plain = Rig::with(Keeper::Nobody).unwrap();
    let (_, log) = run(&plain);
    let place = |content: &[u8]| content.windows(BEFORE.len()).position(|part| part == BEFORE);
    let minis = log.minis();
    let (shape, offset) = minis
        .iter()
        .rev()
        .find_map(|mini| Some((mini.shape(&log), place(&log.content(mini))?)))
        .unwrap();
    let (data, log) = run(rig);
    let minis: Vec<(Mini, usize)> = log
        .minis()
        .into_iter()
        .filter(|mini| mini.shape(&log) == shape)
        .map(|mini| (mini, offset))
        .collect();
    assert!(!minis.is_empty(), "no mini-transaction of the shape {shape:?}");
    (data, log, minis)
}

/// Returns the result after the text was changed in a copy: number of rows, unchanged rows, rows
/// with the attacker's text. `None` if the server does not start, or refuses the table.
fn after_the_change(rig: &Rig, data: &Path, log: &RedoLog) -> Option<[u32; 3]> {
    let copy = rig.path("tampered");
    let _ = std::fs::remove_dir_all(&copy);
    let _ = std::fs::remove_file(Server::log_path(&copy));
    copy_tree(data, &copy).unwrap();
    std::fs::write(copy.join("ib_logfile0"), &log.bytes).unwrap();
    let server = match rig.try_start(&copy, &[]) {
        Ok(server) => server,
        Err(ServerError::Ended { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let rows = server.sql(READ_BALANCE);
    server.kill().unwrap();
    let numbers = rows.ok()?;
    let mut numbers = numbers.split_whitespace().map(|number| number.parse().unwrap());
    Some(std::array::from_fn(|_| numbers.next().unwrap()))
}

/// Applies the chosen change, as a whole and byte by byte, to every candidate mini-transaction.
fn wanted_rows(rig: &Rig, changes: &[Vec<u8>]) -> (usize, usize, usize) {
    let (data, log, minis) = killed_after_a_row(rig);
    let (mut tried, mut refused, mut wanted) = (0, 0, 0);
    for (mini, offset) in minis.iter().rev().take(2) {
        for change in changes {
            let mut changed = RedoLog::read(&data.join("ib_logfile0"));
            assert_eq!(changed.bytes, log.bytes);
            changed.flip(mini, *offset, change);
            let outcome = after_the_change(rig, &data, &changed);
            eprintln!("{mini:?}, {change:02x?}: {outcome:?}");
            tried += 1;
            refused += usize::from(outcome.is_none());
            wanted += usize::from(outcome.is_some_and(|[_, _, wanted]| wanted > 0));
        }
    }
    (tried, refused, wanted)
}

fn whole_change() -> Vec<u8> {
    BEFORE.iter().zip(WANTED).map(|(a, b)| a ^ b).collect()
}

#[test]
fn a_chosen_change_of_the_log_never_comes_true() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let whole = whole_change();
    // Also with only some of its bytes: none keeps the chosen value.
    let half: Vec<u8> = whole.iter().take(12).copied().collect();
    let last: Vec<u8> =
        whole.iter().enumerate().map(|(at, bits)| if at > 12 { *bits } else { 0 }).collect();
    let (tried, refused, wanted) = wanted_rows(&rig, &[whole, half, last]);
    eprintln!("{tried} tried, {refused} refused, {wanted} with what was wanted");
    assert!(tried >= 3);
    assert_eq!(wanted, 0);
}

#[test]
fn before_the_online_cipher_a_chosen_change_came_true() {
    let Some(rig) = Rig::with(Keeper::TdekitBefore) else { return };
    let (tried, _, wanted) = wanted_rows(&rig, &[whole_change()]);
    assert!(wanted > 0, "none of {tried} came true: this suite could not see one");
}

/// The upgrade in `docs/mariadb.md`: the log continues unchanged until it is restarted.
#[test]
fn a_log_from_before_is_read_and_moves_over_when_it_is_begun_anew() {
    let Some(rig) = Rig::with(Keeper::TdekitBefore) else { return };
    let data = rig.fresh("data");
    let log = || RedoLog::read(&data.join("ib_logfile0"));
    let told = || {
        let said = std::fs::read_to_string(Server::log_path(&data)).unwrap();
        said.matches("in counter mode as before").count()
    };
    let server = rig.start(&data, &LOG_ONLY);
    server
        .sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v VARCHAR(60))")
        .unwrap();
    let rows = |server: &Server, from: u32| {
        let to = from + 99;
        let values = format!("SELECT seq, CONCAT('row ', seq) FROM test.seq_{from}_to_{to}");
        server.sql(&format!("INSERT INTO test.t {values}")).unwrap();
    };
    let check = |server: &Server, count: u32| {
        let sql = "SELECT COUNT(*), SUM(v = CONCAT('row ', n)) FROM test.t";
        assert_eq!(server.sql(sql).unwrap().trim(), format!("{count}\t{count}"));
    };
    rows(&server, 1);
    assert_eq!((log().key_version(), told()), (1, 1), "told once a start");
    server.kill().unwrap();

    let server = rig.start(&data, &LOG_ONLY);
    check(&server, 100);
    rig.rotate(&server);
    rows(&server, 101);
    assert_eq!(log().key_version(), 1, "a new version alone does not change the log");
    server.kill().unwrap();

    let told_before = told();
    let server = rig.start(&data, &["innodb-log-file-size=12M"]);
    check(&server, 200);
    assert_eq!(log().key_version(), 3, "begun anew");
    rows(&server, 201);
    server.kill().unwrap();
    let server = rig.start(&data, &["innodb-log-file-size=12M"]);
    check(&server, 300);
    rows(&server, 301);
    check(&server, 400);
    server.stop().unwrap();
    assert_eq!(told(), told_before, "nothing is written in counter mode any more");
}
