//! `tdekit mariadb verify`: changes to a server's files are found and named, and a server under
//! load causes no false findings.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tdekit_faults_mariadb::ledger::Writers;
use tdekit_faults_mariadb::page::{PAGE_BYTES, encrypted_index_pages, flip, key_version, mend};
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::{copy_tree, initialise};

/// Makes a rig with our plugin; every test here concerns the command.
pub(super) fn rig() -> Option<Rig> {
    Rig::new().filter(|rig| rig.keeper == Keeper::Tdekit)
}

const TABLE: &str = "test/t.ibd";

/// Every kind of table, deleted rows, and a clean shutdown.
const TABLES: &str = "\
    CREATE DATABASE test; USE test;
    CREATE TABLE t(n INT PRIMARY KEY, v VARCHAR(90), KEY(v));
    CREATE TABLE other_key(n INT PRIMARY KEY, v TEXT) ENCRYPTED=YES ENCRYPTION_KEY_ID=17;
    CREATE TABLE pages(n INT PRIMARY KEY, v TEXT) PAGE_COMPRESSED=1;
    CREATE TABLE packed(n INT PRIMARY KEY, v TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;
    CREATE TABLE blobs(n INT PRIMARY KEY, v LONGBLOB);
    CREATE TABLE places(n INT PRIMARY KEY, v POINT NOT NULL, SPATIAL INDEX(v));
    CREATE TABLE parted(n INT PRIMARY KEY, v INT) PARTITION BY HASH(n) PARTITIONS 3;
    CREATE TABLE logged(n INT PRIMARY KEY, v VARCHAR(90), KEY(v)) ENGINE=Aria TRANSACTIONAL=1;
    CREATE TABLE flat(n INT PRIMARY KEY, v TEXT, KEY(v(20))) ENGINE=Aria TRANSACTIONAL=0;
    SET GLOBAL innodb_checksum_algorithm=crc32;
    CREATE TABLE legacy(n INT PRIMARY KEY, v VARCHAR(90));
    SET GLOBAL innodb_checksum_algorithm=full_crc32;
    INSERT INTO t SELECT seq, CONCAT('value ', seq, REPEAT('z', 40)) FROM seq_1_to_3000;
    INSERT INTO other_key SELECT * FROM t; INSERT INTO pages SELECT n, REPEAT(v, 9) FROM t;
    INSERT INTO packed SELECT * FROM pages; INSERT INTO legacy SELECT * FROM t;
    INSERT INTO blobs SELECT n, REPEAT(v, n % 7 * 90) FROM t WHERE n < 200;
    INSERT INTO places SELECT n, POINT(n, 3) FROM t; INSERT INTO parted SELECT n, n FROM t;
    INSERT INTO logged SELECT * FROM t; INSERT INTO flat SELECT n, REPEAT(v, 99) FROM t;
    DELETE FROM t WHERE n % 5 = 0; DELETE FROM flat WHERE n % 3 = 0;
    SET GLOBAL innodb_fast_shutdown=0";

fn filled(rig: &Rig) -> PathBuf {
    let data = rig.fresh_with_empty_undo("data");
    let server = rig.start(&data, &[]);
    server.sql(TABLES).unwrap();
    // Until the server has encrypted everything that the template left in the clear.
    rig.rotate_and_wait(&server, &[]);
    server.stop().unwrap();
    data
}

/// Runs the command; returns its exit code and its JSON.
pub(super) fn verify(rig: &Rig, data: &Path, more: &[&str]) -> (i32, Value) {
    let words = ["mariadb", "verify", "--json", "--datadir", data.to_str().unwrap()];
    let run = rig.run_tdekit(&[&words[..], more].concat());
    (run.code, serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err)))
}

/// Returns the findings as `file: page: kind`.
pub(super) fn named(report: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for one in report["tablespaces"].as_array().unwrap() {
        for finding in one["findings"].as_array().into_iter().flatten() {
            let file = finding["file"].as_str().or(one["file"].as_str()).unwrap();
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            all.push(format!("{name}: {}: {}", finding["page"], finding["kind"].as_str().unwrap()));
        }
    }
    all
}

/// Copies `data` and applies a change.
pub(super) fn changed(rig: &Rig, data: &Path, change: impl FnOnce(&Path)) -> PathBuf {
    let copy = rig.path("changed");
    let _ = std::fs::remove_dir_all(&copy);
    copy_tree(data, &copy).unwrap();
    change(&copy);
    copy
}

pub(super) fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

pub(super) fn page(bytes: &mut [u8], number: usize) -> &mut [u8] {
    &mut bytes[number * PAGE_BYTES..(number + 1) * PAGE_BYTES]
}

#[test]
fn pages_that_say_they_are_not_encrypted_are_named() {
    let Some(rig) = rig() else { return };
    let data = filled(&rig);
    let (code, report) = verify(&rig, &data, &[]);
    assert_eq!((code, named(&report)), (0, vec![]), "{report:#}");
    assert!(report["pages_checked"].as_u64().unwrap() > 1000, "{report:#}");
    let told = report["not_checked"].to_string();
    for what in ["PAGE_COMPRESSED", "doublewrite", "ib_logfile0", "tables of Aria in mysql and sys"]
    {
        assert!(told.contains(what), "{what}: {told}");
    }

    // Two leaf pages in the clear, with right checksums: the server accepts them.
    let leaves = encrypted_index_pages(&data.join(TABLE));
    // Not those at the end: the deleted rows emptied some of them.
    let (one, two) = (leaves[3], leaves[4]);
    let forged = changed(&rig, &data, |copy| {
        rewrite(&copy.join(TABLE), |bytes| {
            for number in [one, two] {
                let page = page(bytes, number);
                page[..4].fill(0);
                let lsn: [u8; 4] = page[20..24].try_into().unwrap();
                page[PAGE_BYTES - 8..PAGE_BYTES - 4].copy_from_slice(&lsn);
                mend(page);
            }
        });
    });
    let (code, report) = verify(&rig, &forged, &[]);
    let mut expected = vec![format!("t.ibd: {two}: clear"), format!("t.ibd: {one}: clear")];
    let mut found = named(&report);
    expected.sort();
    found.sort();
    assert_eq!((code, found), (4, expected));
    assert_eq!(report["clean"], false);
    let words = ["mariadb", "verify", "--datadir", forged.to_str().unwrap()];
    let run = rig.run_tdekit(&words);
    assert_eq!(run.code, 4, "{}", run.err);
    for number in [one, two] {
        assert!(run.out.contains(&format!("t.ibd: page {number}: ")), "{}", run.out);
    }
    // A page in the clear is found without a key.
    let (code, report) = verify(&rig, &forged, &["--checksums-only"]);
    assert_eq!((code, named(&report).len()), (4, 2));
    assert!(report["not_checked"].to_string().contains("--checksums-only"));
}

type Change = fn(&Path, usize, usize);

/// The changes to a table's last leaf page, with the help of another one, and their names.
const CHANGES: [(&str, &str, Change); 7] = [
    ("a bit", "t.ibd: LAST: checksum", |data, last, _| {
        flip(&data.join(TABLE), last, 5000, 4, false);
    }),
    ("a bit with its checksum", "t.ibd: LAST: refused", |data, last, _| {
        flip(&data.join(TABLE), last, 5000, 4, true);
    }),
    ("a page in another one's place", "t.ibd: LAST: refused", |data, last, other| {
        rewrite(&data.join(TABLE), |bytes| {
            let from = page(bytes, other).to_vec();
            let to = page(bytes, last);
            to[16..].copy_from_slice(&from[16..]);
            mend(to);
        });
    }),
    ("a page as it is in another place", "t.ibd: LAST: place", |data, last, other| {
        rewrite(&data.join(TABLE), |bytes| {
            let from = page(bytes, other).to_vec();
            page(bytes, last).copy_from_slice(&from);
        });
    }),
    ("a version that there is not", "t.ibd: LAST: no-key", |data, last, _| {
        rewrite(&data.join(TABLE), |bytes| {
            let page = page(bytes, last);
            page[..4].copy_from_slice(&77_u32.to_be_bytes());
            mend(page);
        });
    }),
    ("a bit of an older format", "legacy.ibd: 4: checksum", |data, _, _| {
        rewrite(&data.join("test/legacy.ibd"), |bytes| page(bytes, 4)[5000] ^= 1);
    }),
    ("a bit of Aria", "logged.MAD: 1: refused", |data, _, _| {
        rewrite(&data.join("test/logged.MAD"), |bytes| bytes[8192 + 4000] ^= 1);
    }),
];

#[test]
fn flipped_bits_and_exchanged_pages_are_named() {
    let Some(rig) = rig() else { return };
    let data = filled(&rig);
    let leaves = encrypted_index_pages(&data.join(TABLE));
    let (last, other) = (leaves[leaves.len() - 1], leaves[leaves.len() - 2]);
    for (what, expected, change) in CHANGES {
        let copy = changed(&rig, &data, |copy| change(copy, last, other));
        let (code, report) = verify(&rig, &copy, &[]);
        let expected = expected.replace("LAST", &last.to_string());
        assert_eq!((code, named(&report)), (4, vec![expected]), "{what}");
    }
}

/// The first page is in the clear: its statements on encryption are not trusted.
#[test]
#[ignore = "full: damages that flipped bits stand for"]
fn a_tablespace_that_says_it_is_not_encrypted_is_named() {
    let Some(rig) = rig() else { return };
    let data = filled(&rig);
    // All pages in the clear, as a server without encryption would write them.
    let plain = changed(&rig, &data, |copy| {
        rewrite(&copy.join("test/other_key.ibd"), |bytes| {
            let first = page(bytes, 0);
            let at = first.windows(6).position(|six| six == b"s\x0e\x0cREt").unwrap();
            first[at..at + 33].fill(0);
            mend(first);
        });
    });
    let (code, report) = verify(&rig, &plain, &[]);
    let found = named(&report);
    assert_eq!(code, 4);
    assert!(found.contains(&"other_key.ibd: null: not-encrypted".to_owned()), "{found:?}");
    assert!(found.iter().any(|one| one.ends_with("no-encryption-data")), "{found:?}");
    // Truncated, and not a tablespace at all.
    let cut = changed(&rig, &data, |copy| {
        rewrite(&copy.join("test/t.ibd"), |bytes| bytes.truncate(6 * PAGE_BYTES));
        std::fs::write(copy.join("test/blobs.ibd"), vec![0; 4 * PAGE_BYTES]).unwrap();
    });
    let (code, report) = verify(&rig, &cut, &[]);
    assert_eq!(code, 4);
    assert_eq!(named(&report), ["blobs.ibd: null: first-page", "t.ibd: null: truncated"]);

    // Pages that cannot be checked are not reported as right.
    let (code, report) = verify(&rig, &data, &["--sample", "2"]);
    assert_eq!(code, 0, "{:?}", named(&report));
    assert!(report["not_checked"].to_string().contains("which the sample left out"));
    assert!(report["pages_checked"].as_u64() < report["pages"].as_u64());
    let none = rig.path("nothing");
    std::fs::create_dir(&none).unwrap();
    let words = ["mariadb", "verify", "--datadir"];
    assert_eq!(rig.run_tdekit(&[&words[..], &[none.to_str().unwrap()]].concat()).code, 1);
    let words = ["--store", none.to_str().unwrap(), "mariadb", "verify", "--datadir"];
    let run = rig.run_tdekit(&[&words[..], &[data.to_str().unwrap()]].concat());
    assert_eq!(run.code, 3, "{}", run.err);
}

/// Pages that a server wrote before it encrypted, and that were not overwritten since.
#[test]
#[ignore = "full: a rotation of all pages"]
fn rows_that_were_deleted_before_the_encryption_are_named() {
    let Some(rig) = rig() else { return };
    let data = rig.fresh("data");
    let off = ["innodb-encrypt-tables=OFF", "innodb-encrypt-log=OFF"];
    let server = rig.start(&data, &off);
    server
        .sql(
            "CREATE DATABASE test; CREATE TABLE test.old(n INT PRIMARY KEY, v VARCHAR(200)); \
             INSERT INTO test.old SELECT seq, REPEAT('secret ', 20) FROM test.seq_1_to_5000",
        )
        .unwrap();
    server.stop().unwrap();
    let server = rig.start(&data, &off);
    server.sql("DELETE FROM test.old WHERE n > 300; SET GLOBAL innodb_fast_shutdown=0").unwrap();
    server.stop().unwrap();
    let (code, report) = verify(&rig, &data, &[]);
    assert_eq!(code, 4);
    assert!(named(&report).contains(&"old.ibd: null: not-encrypted".to_owned()));
    let (code, _) = verify(&rig, &data, &["--allow-plain"]);
    assert_eq!(code, 0);
    let server = rig.start(&data, &[]);
    rig.rotate_and_wait(&server, &[]);
    server.stop().unwrap();
    let (code, report) = verify(&rig, &data, &[]);
    let found = named(&report);
    assert_eq!(code, 4);
    assert!(found.iter().all(|one| one.ends_with("unused-clear")), "{found:?}");
    assert!(found.iter().any(|one| one.starts_with("old.ibd: ")), "{found:?}");
    let (code, report) = verify(&rig, &data, &["--allow-unused"]);
    assert_eq!((code, named(&report)), (0, vec![]));
    assert!(report["not_checked"].to_string().contains("--allow-unused"));
    let server = rig.start(&data, &[]);
    server.sql("ALTER TABLE test.old FORCE; SET GLOBAL innodb_fast_shutdown=0").unwrap();
    server.stop().unwrap();
    let (_, report) = verify(&rig, &data, &[]);
    assert!(!named(&report).iter().any(|one| one.starts_with("old.ibd: ")), "{report:#}");
}

/// The template's undo pages, in the clear, are given up when undo gets separate tablespaces.
const ALLOW: [&str; 1] = ["--allow-unused"];

/// A server that writes, makes and drops tables and rotates keys in the meantime.
#[test]
#[ignore = "full: a server under load"]
fn a_server_under_load_has_no_findings() {
    let Some(rig) = rig() else { return };
    let data = rig.fresh_with_empty_undo("data");
    let options = ["innodb-undo-tablespaces=3", "innodb-buffer-pool-size=8M"];
    let server = rig.start(&data, &options);
    server.sql(TABLES).unwrap();
    rig.rotate_and_wait(&server, &[]);
    let writers = Writers::start(&server, 3);
    for turn in 0..6 {
        server
            .sql(&format!(
                "CREATE TABLE test.new{turn} AS SELECT * FROM test.blobs; \
                 ALTER TABLE test.t FORCE; UPDATE test.logged SET v = CONCAT(n, '!{turn}'); \
                 UPDATE test.other_key SET v = CONCAT(v, {turn}); TRUNCATE TABLE test.parted; \
                 DROP TABLE IF EXISTS test.new{}",
                (turn + 4) % 6
            ))
            .unwrap();
        if turn == 2 {
            rig.rotate(&server);
        }
        let (code, report) = verify(&rig, &data, &ALLOW);
        assert_eq!((code, named(&report)), (0, vec![]), "turn {turn}");
    }
    writers.wait_for(1);
    writers.stop();
    server.stop().unwrap();
    let (code, report) = verify(&rig, &data, &ALLOW);
    assert_eq!((code, named(&report)), (0, vec![]));
}

/// The command reports pages under a new version only if they are.
#[test]
#[ignore = "full: a rotation of all pages"]
fn a_rotation_reaches_every_page_in_use() {
    let Some(rig) = rig() else { return };
    let data = rig.fresh_with_empty_undo("data");
    let server = rig.start(&data, &["innodb-undo-tablespaces=2"]);
    server.sql(TABLES).unwrap();
    let writers = Writers::start(&server, 2);
    writers.wait_for(300);
    writers.stop();
    let told = rig.rotate_and_wait(&server, &[]);
    assert!(told.contains("Every encrypted page"), "{told}");
    let json: Value = serde_json::from_str(&rig.rotate_and_wait(&server, &["--json"])).unwrap();
    assert_eq!((&json["re_encrypted"], &json["files_checked"]), (&true.into(), &true.into()));
    let newest: Vec<(u64, u64)> = json["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["key_id"].as_u64().unwrap(), key["new_version"].as_u64().unwrap()))
        .collect();
    server.stop().unwrap();
    let (code, report) = verify(&rig, &data, &ALLOW);
    assert_eq!(code, 0, "{:?}", named(&report));
    let undo = |one: &&Value| one["file"].as_str().unwrap().contains("/undo00");
    assert_eq!(report["tablespaces"].as_array().unwrap().iter().filter(undo).count(), 2);
    for one in report["tablespaces"].as_array().unwrap() {
        if one["engine"] != "InnoDB" {
            continue;
        }
        let key = newest.iter().find(|(id, _)| one["key_id"] == *id).unwrap();
        for (version, pages) in one["versions"].as_object().unwrap() {
            let version: u64 = version.parse().unwrap();
            assert!(version + 1 >= key.1 || pages["used"] == 0, "{one:#}");
        }
    }
}

/// Page sizes other than the default, in the form of the server's option.
const PAGE_SIZES: [(&str, usize); 4] = [("4k", 4096), ("8k", 8192), ("32k", 32768), ("64k", 65536)];
/// Tables in other directories, in the system tablespace, and of older formats. `FAR` is elsewhere.
const SCATTERED: &str = "\
    CREATE DATABASE test; USE test;
    CREATE TABLE t(n INT PRIMARY KEY, v VARCHAR(90), KEY(v));
    CREATE TABLE other_key(n INT PRIMARY KEY, v TEXT) ENCRYPTED=YES ENCRYPTION_KEY_ID=17;
    CREATE TABLE pages(n INT PRIMARY KEY, v TEXT) PAGE_COMPRESSED=1;
    CREATE TABLE far(n INT PRIMARY KEY, v TEXT) DATA DIRECTORY='FAR';
    CREATE TABLE far_aria(n INT PRIMARY KEY, v TEXT) ENGINE=Aria DATA DIRECTORY='FAR' \
        INDEX DIRECTORY='FAR';
    CREATE TABLE parted(n INT PRIMARY KEY, v TEXT) PARTITION BY RANGE(n)(
        PARTITION low VALUES LESS THAN (900) DATA DIRECTORY='FAR',
        PARTITION high VALUES LESS THAN MAXVALUE);
    SET GLOBAL innodb_checksum_algorithm=crc32;
    CREATE TABLE legacy(n INT PRIMARY KEY, v VARCHAR(90));
    SET GLOBAL innodb_checksum_algorithm=full_crc32;
    SET GLOBAL innodb_file_per_table=OFF;
    CREATE TABLE inside(n INT PRIMARY KEY, v LONGBLOB);
    SET GLOBAL innodb_file_per_table=ON;
    INSERT INTO t SELECT seq, CONCAT('value ', seq, REPEAT('z', 40)) FROM seq_1_to_3000;
    INSERT INTO other_key SELECT * FROM t; INSERT INTO pages SELECT n, REPEAT(v, 9) FROM t;
    INSERT INTO far SELECT * FROM t; INSERT INTO far_aria SELECT * FROM t;
    INSERT INTO parted SELECT * FROM t; INSERT INTO legacy SELECT * FROM t;
    INSERT INTO inside SELECT n, REPEAT(v, 300) FROM t WHERE n < 800;
    SET GLOBAL innodb_fast_shutdown=0";

/// Returns the last encrypted page of a file in the format `full_crc32`.
fn last_encrypted(path: &Path, page_len: usize) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let mut pages = bytes.chunks_exact(page_len);
    let at = pages.rposition(|page| key_version(page) != 0);
    at.unwrap_or_else(|| panic!("{} has no encrypted page", path.display()))
}

/// Files in other directories, several files of the system tablespace, and pages of every size.
#[test]
#[ignore = "full: a server for each page size"]
fn every_page_size_and_place_is_looked_at() {
    let Some(rig) = rig() else { return };
    for (size, page_len) in PAGE_SIZES {
        let (data, far) = (rig.path(&format!("data{size}")), rig.path(&format!("far{size}")));
        std::fs::create_dir(&far).unwrap();
        let page_size = format!("innodb-page-size={size}");
        let files = "innodb-data-file-path=ibdata1:12M;ibdata2:12M:autoextend";
        let layout = [page_size.as_str(), files, "innodb-undo-tablespaces=2"];
        initialise(&rig.programs, &data, &layout).unwrap();
        let told = format!("tdekit-page-size={size}");
        // The minimum for the server with its largest pages is 21 MiB.
        let more = [told.as_str(), "innodb-buffer-pool-size=32M"];
        let server = rig.start(&data, &[&layout[..], &more].concat());
        server.sql(&SCATTERED.replace("FAR", far.to_str().unwrap())).unwrap();
        rig.rotate_and_wait(&server, &[]);
        let socket = server.socket();
        let named_server = ["--socket", socket.to_str().unwrap(), "--user", "root"];
        let words = ["mariadb", "verify", "--json", "--allow-unused"];
        let run = rig.run_tdekit(&[&words[..], &named_server].concat());
        assert_eq!(run.code, 0, "{size}: {}{}", run.out, run.err);
        assert!(!run.out.contains("its file is elsewhere"), "{size}: {}", run.out);
        server.stop().unwrap();

        let (code, report) = verify(&rig, &data, &ALLOW);
        assert_eq!((code, named(&report)), (0, vec![]), "{size}: {report:#}");
        let spaces = report["tablespaces"].as_array().unwrap();
        let of = |name: &str| {
            let one = spaces.iter().find(|one| one["file"].as_str().unwrap().ends_with(name));
            one.unwrap_or_else(|| panic!("{size}: {name} was not looked at: {report:#}"))
        };
        for name in ["far.ibd", "#P#low.ibd", "#P#high.ibd", "undo001", "undo002", "far_aria.MAI"] {
            assert!(of(name)["pages_checked"].as_u64().unwrap() > 2, "{size}: {:#}", of(name));
        }
        let len = |name: &str| std::fs::metadata(data.join(name)).unwrap().len();
        let system = (len("ibdata1") + len("ibdata2")) / page_len as u64;
        assert_eq!(of("ibdata1")["pages_checked"], system, "{size}");

        let second = last_encrypted(&data.join("ibdata2"), page_len);
        let low = far.join("test/parted#P#low.ibd");
        let one = last_encrypted(&low, page_len);
        for (path, number) in [(&data.join("ibdata2"), second), (&low, one)] {
            rewrite(path, |bytes| bytes[number * page_len + 1000] ^= 1);
        }
        let behind = usize::try_from(len("ibdata1")).unwrap() / page_len;
        let mut expected = vec![
            format!("ibdata1: {}: checksum", behind + second),
            format!("parted#P#low.ibd: {one}: checksum"),
        ];
        let (code, report) = verify(&rig, &data, &ALLOW);
        let mut found = named(&report);
        expected.sort();
        found.sort();
        assert_eq!((code, found), (4, expected), "{size}");
        std::fs::remove_dir_all(&data).unwrap();
    }
}
