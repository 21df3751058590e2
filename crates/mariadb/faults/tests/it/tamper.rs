//! Bits flipped in files, with corrected checksums: detected or refused, never wrong rows. Separate
//! tests show the cases that the plugin cannot cover.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tdekit_faults_mariadb::page::{
    CHECKSUM_BYTES, CLEAR_BYTES, PAGE_BYTES, encrypted_index_pages, flip,
};
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::{Server, ServerError, copy_tree};

const ROWS: u32 = 1500;
/// The result of `READ` on the unchanged table.
const RIGHT: &str = "1500\t1500";
const READ: &str = concat!(
    "SELECT COUNT(*), SUM(v = CONCAT('value ', n, REPEAT('z', 40))) ",
    "FROM test.t FORCE INDEX(PRIMARY)"
);

fn filled(rig: &Rig) -> PathBuf {
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    server
        .sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v VARCHAR(90))")
        .unwrap();
    server
        .sql(&format!(
            "INSERT INTO test.t SELECT seq, CONCAT('value ', seq, REPEAT('z', 40)) \
             FROM test.seq_1_to_{ROWS}"
        ))
        .unwrap();
    server.sql("SET GLOBAL innodb_fast_shutdown=0").unwrap();
    server.stop().unwrap();
    data
}

/// Outcome of reading a table after its file was changed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The rows are the right ones.
    Right,
    /// An error for the statement, or a refusal to start.
    Refused,
    /// Rows that nobody wrote, without an error.
    Wrong(String),
}

/// Starts a server on a copy of `data` after `change`, and reads the table.
fn after(rig: &Rig, data: &Path, change: &dyn Fn(&Path)) -> Outcome {
    let Some(server) = started(rig, data, change) else { return Outcome::Refused };
    let outcome = read(&server, READ);
    server.kill().unwrap();
    outcome
}

/// Starts a server on a copy of `data` after `change`; `None` if it refused to start.
fn started(rig: &Rig, data: &Path, change: &dyn Fn(&Path)) -> Option<Server> {
    let copy = rig.path("tampered");
    let _ = std::fs::remove_dir_all(&copy);
    let _ = std::fs::remove_file(copy.with_extension("err"));
    copy_tree(data, &copy).unwrap();
    change(&copy);
    match rig.try_start(&copy, &[]) {
        Ok(server) => Some(server),
        Err(ServerError::Ended { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a statement that returns `RIGHT` for the unchanged table.
fn read(server: &Server, sql: &str) -> Outcome {
    match server.sql(sql) {
        Ok(rows) if rows.trim() == RIGHT => Outcome::Right,
        Ok(rows) => Outcome::Wrong(rows),
        Err(_) => Outcome::Refused,
    }
}

fn table(data: &Path) -> PathBuf {
    data.join("test/t.ibd")
}

/// Every encrypted page of the index, one flipped bit each, at offsets spread over the sealed part.
#[test]
fn a_flipped_bit_in_a_page_with_a_mended_checksum_is_refused() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let data = filled(&rig);
    let pages = encrypted_index_pages(&table(&data));
    assert!(pages.len() > 4, "{pages:?}");
    let sealed = PAGE_BYTES - CHECKSUM_BYTES - CLEAR_BYTES;
    for (turn, number) in pages.iter().enumerate().take(6) {
        let offset = CLEAR_BYTES + (turn * 2741 + 977) % sealed;
        let bits = 1 << (turn % 8);
        let outcome = after(&rig, &data, &|data| flip(&table(data), *number, offset, bits, true));
        assert_eq!(outcome, Outcome::Refused, "page {number}, byte {offset}");
    }
    // The last sealed bytes: the end LSN, half of the authenticating data.
    let number = pages[pages.len() / 2];
    for offset in [CLEAR_BYTES, PAGE_BYTES - CHECKSUM_BYTES - 1] {
        let outcome = after(&rig, &data, &|data| flip(&table(data), number, offset, 1, true));
        assert_eq!(outcome, Outcome::Refused, "page {number}, byte {offset}");
    }
}

/// The numbers in docs/mariadb.md: they depend on when the server reads the page.
#[test]
#[ignore = "full: several restarts"]
fn a_refused_page_gives_the_documented_errors() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let data = filled(&rig);
    let pages = encrypted_index_pages(&table(&data));
    let (root, leaf) = (pages[0], pages[pages.len() - 1]);
    for (number, error) in [(leaf, "ERROR 1296"), (root, "ERROR 1877")] {
        let server = started(&rig, &data, &|data| flip(&table(data), number, 5000, 4, true));
        let server = server.unwrap();
        let told = server.sql(READ).unwrap_err().to_string();
        assert!(told.contains(error), "page {number}: {told}");
        let place = format!("page {number} of tablespace");
        assert!(server.log().contains(&place), "{}", server.log());
        assert_eq!(server.sql("SELECT 1").unwrap().trim(), "1", "the server goes on");
        server.kill().unwrap();
    }
}

/// A page of the system tablespace that the server needs at its start. It refuses the page and
/// crashes, with its own plugin, too; but that one accepts a changed page with a correct checksum.
#[test]
#[ignore = "full: several restarts"]
fn a_refused_page_of_the_dictionary_ends_the_server_with_any_plugin() {
    const DICTIONARY: usize = 8;
    let own = Keeper::FileKeyManagement("AES_CTR");
    for (keeper, mended) in [(Keeper::Tdekit, false), (Keeper::Tdekit, true), (own, false)] {
        let Some(rig) = Rig::with(keeper) else { return };
        let data = filled(&rig);
        let change = |data: &Path| flip(&data.join("ibdata1"), DICTIONARY, 5000, 4, mended);
        assert!(started(&rig, &data, &change).is_none(), "{keeper:?} {mended}");
        let log = std::fs::read_to_string(Server::log_path(&rig.path("tampered"))).unwrap();
        assert!(log.contains("page number=8] in file ./ibdata1 looks corrupted"), "{log}");
        assert!(log.contains("got signal 11"), "{log}");
    }
}

/// A leaf page in place of another one of the same file, with the right checksum and page number.
#[test]
fn a_page_in_another_ones_place_is_refused() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let data = filled(&rig);
    let pages = encrypted_index_pages(&table(&data));
    let (from, to) = (pages[pages.len() - 2], pages[pages.len() - 1]);
    let outcome = after(&rig, &data, &|data| {
        let mut bytes = std::fs::read(table(data)).unwrap();
        let page = bytes[from * PAGE_BYTES..(from + 1) * PAGE_BYTES].to_vec();
        // Number and neighbours of the place stay: they are in clear text.
        let target = &mut bytes[to * PAGE_BYTES..(to + 1) * PAGE_BYTES];
        target[16..].copy_from_slice(&page[16..]);
        tdekit_faults_mariadb::page::mend(target);
        std::fs::write(table(data), bytes).unwrap();
    });
    assert_eq!(outcome, Outcome::Refused);
}

/// Without correction, the checksum itself reveals it, with any plugin.
#[test]
fn a_flipped_bit_without_a_mended_checksum_is_refused() {
    let Some(rig) = Rig::new() else { return };
    let data = filled(&rig);
    let number = *encrypted_index_pages(&table(&data)).last().unwrap();
    let outcome = after(&rig, &data, &|data| flip(&table(data), number, 5000, 4, false));
    assert_eq!(outcome, Outcome::Refused);
}

/// The server's own plugin accepts this, so the suite would catch it: with `AES_CTR` exactly the
/// chosen bit of a value changes, and nothing notices.
#[test]
fn file_key_management_lets_a_chosen_bit_through() {
    let Some(rig) = Rig::with(Keeper::FileKeyManagement("AES_CTR")) else { return };
    let data = filled(&rig);
    let pages = encrypted_index_pages(&table(&data));
    let wrong = pages.iter().rev().take(3).any(|number| {
        // Bytes in the middle of a leaf belong to some row's value.
        let outcome = after(&rig, &data, &|data| flip(&table(data), *number, 6000, 1, true));
        matches!(outcome, Outcome::Wrong(_))
    });
    assert!(wrong, "no chosen bit came through: this suite could not see one");
}

/// Not covered: the 26 bytes in clear text, here the pointer to the next page: the server does not
/// pass it to the plugin. The server's own checks of the tree find it: `ERROR 1034` for a scan and
/// for rows there; the others are read, and the server continues.
#[test]
#[ignore = "full: what is not covered"]
fn not_covered_the_clear_header_of_a_page_is_not_authenticated() {
    let Some(rig) = Rig::new() else { return };
    let data = filled(&rig);
    let pages = encrypted_index_pages(&table(&data));
    const NEXT_PAGE_AT: usize = 12;
    let number = pages[pages.len() - 2];
    let server = started(&rig, &data, &|data| {
        flip(&table(data), number, NEXT_PAGE_AT + 3, 0x40, true);
    });
    let server = server.unwrap();
    let by_key = |rows: RangeInclusive<u32>| {
        let each =
            |n| format!("SELECT v = CONCAT('value ', n, REPEAT('z', 40)) FROM test.t WHERE n={n}");
        server.sql(&rows.map(each).collect::<Vec<_>>().join(";"))
    };
    let error = by_key(1..=ROWS).unwrap_err().to_string();
    assert!(error.contains("ERROR 1034"), "{error}");
    let edge = (1..=ROWS).find(|n| error.contains(&format!("n={n}\n"))).unwrap();
    let found = by_key(1..=edge - 1).unwrap();
    assert_eq!(found.lines().filter(|line| *line == "1").count(), (1..edge).count());
    assert!(edge > ROWS / 2, "rows of the pages before it: {edge}");
    assert_eq!(read(&server, READ), Outcome::Refused);
    assert_eq!(server.sql("SELECT 1").unwrap().trim(), "1", "the server goes on");
    server.kill().unwrap();
}

/// Not covered: an older version of a whole page, valid at its time and place.
#[test]
#[ignore = "full: what is not covered"]
fn not_covered_an_old_page_in_its_own_place_is_taken() {
    let Some(rig) = Rig::new() else { return };
    let data = filled(&rig);
    let old = std::fs::read(table(&data)).unwrap();
    let server = rig.start(&data, &[]);
    server.sql("UPDATE test.t SET v = CONCAT('newer ', n) WHERE n BETWEEN 700 AND 720").unwrap();
    server.sql("SET GLOBAL innodb_fast_shutdown=0").unwrap();
    server.stop().unwrap();
    let new = std::fs::read(table(&data)).unwrap();
    let changed: Vec<usize> = encrypted_index_pages(&table(&data))
        .into_iter()
        .filter(|number| {
            let range = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
            old.get(range.clone()) != new.get(range)
        })
        .collect();
    assert!(!changed.is_empty());
    let outcome = after(&rig, &data, &|data| {
        let mut bytes = new.clone();
        for number in &changed {
            let range = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
            bytes[range.clone()].copy_from_slice(&old[range]);
        }
        std::fs::write(table(data), bytes).unwrap();
    });
    // The old rows are back, as after a restore of the whole file: only an anchor outside of it
    // could reveal that.
    assert_eq!(outcome, Outcome::Right, "the table's first state");
}

/// Bits flipped all over the redo log of a killed server: it refuses, or recovers to rows that were
/// written, some of the last ones lost as with a torn log; never rows that nobody wrote.
#[test]
fn a_flipped_bit_in_the_redo_log_gives_no_wrong_rows() {
    let Some(rig) = Rig::new() else { return };
    let data = rig.fresh("data");
    // Only the log reaches the disk, not the tablespace.
    let options = ["innodb-max-dirty-pages-pct=99", "innodb-max-dirty-pages-pct-lwm=98"];
    let server = rig.start(&data, &options);
    server
        .sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v VARCHAR(90))")
        .unwrap();
    let log = data.join("ib_logfile0");
    let before = std::fs::read(&log).unwrap();
    for part in 0..15 {
        let (first, last) = (part * 100 + 1, part * 100 + 100);
        server
            .sql(&format!(
                "INSERT INTO test.t SELECT seq, CONCAT('value ', seq, REPEAT('z', 40)) \
                 FROM test.seq_{first}_to_{last}"
            ))
            .unwrap();
    }
    server.kill().unwrap();
    let after_load = std::fs::read(&log).unwrap();
    // Positions of the inserts' records.
    let changed: Vec<usize> =
        (0..after_load.len()).filter(|at| before.get(*at) != after_load.get(*at)).collect();
    assert!(changed.len() > 50_000, "{} bytes of log", changed.len());
    for share in [15, 50, 85] {
        let at = changed[changed.len() * share / 100];
        let outcome = after(&rig, &data, &|data| {
            let path = data.join("ib_logfile0");
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[at] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
        });
        if let Outcome::Wrong(rows) = &outcome {
            // Fewer rows, each of them right.
            let numbers: Vec<&str> = rows.split_whitespace().collect();
            assert!(
                numbers.len() == 2 && (numbers[0] == numbers[1] || numbers == ["0", "NULL"]),
                "byte {at}: {rows}"
            );
        }
    }
}
