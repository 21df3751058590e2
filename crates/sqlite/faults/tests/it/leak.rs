//! No byte that tdekit writes contains a planted marker; plain SQLite shows it in every kind of
//! file, which proves that the scan finds it.

use tdekit_faults_sqlite::leak;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::top::Top;

#[test]
fn plain_sqlite_shows_the_marker_everywhere() {
    for (journal, kinds) in [
        ("DELETE", ["main", "journal", "temporary", "left"]),
        ("WAL", ["main", "wal", "temporary", "left"]),
    ] {
        let directory = scratch().unwrap();
        let scan = leak::run(Top::Plain, journal, directory.path()).unwrap();
        println!("plain {journal}: {scan:?}");
        for kind in kinds {
            assert!(scan[kind].hits > 0, "{journal} {kind}: {scan:?}");
        }
    }
}

#[test]
fn tdekit_shows_it_nowhere() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"] {
        let directory = scratch().unwrap();
        let scan = leak::run(Top::Tdekit, journal, directory.path()).unwrap();
        println!("tdekit {journal}: {scan:?}");
        assert!(scan["temporary"].bytes > 100_000 && scan["main"].bytes > 100_000, "{scan:?}");
        for (kind, seen) in scan {
            assert_eq!(seen.hits, 0, "{journal} {kind}: {seen:?}");
        }
    }
}
