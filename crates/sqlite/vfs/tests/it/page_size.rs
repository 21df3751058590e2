//! Page sizes that a connection learns after it has opened the file.

use crate::support::{create, one, open};
use rusqlite::Connection;
use tempfile::TempDir;

const SIZES: [u32; 7] = [1024, 2048, 4096, 8192, 16384, 32768, 65536];

fn fill(db: &Connection, page_size: u32, journal: &str, rows: u32) {
    db.execute_batch(&format!("PRAGMA page_size={page_size}")).unwrap();
    let _: String = one(db, &format!("PRAGMA journal_mode={journal}"));
    let rows =
        format!("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n LIMIT {rows})");
    db.execute_batch(&format!("CREATE TABLE t(x, y); {rows} INSERT INTO t SELECT x, x FROM n"))
        .unwrap();
}

/// The header's page size is a guess until a page was written, and SQLite's own is its default.
#[test]
fn a_connection_that_was_there_before_the_database_reads_it() {
    for page_size in SIZES {
        for journal in ["DELETE", "WAL"] {
            for rows in [0, 5, 3000] {
                let dir = TempDir::new().unwrap();
                let path = dir.path().join("a.db");
                let early = open(&path).unwrap();
                // A connection that has read the empty file, and one that wants another page size.
                let reader = create(&path);
                assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM sqlite_schema"), 0);
                let wants = create(&path);
                wants.execute_batch("PRAGMA page_size=2048").unwrap();
                fill(&create(&path), page_size, journal, rows);
                let case = format!("{page_size} {journal} {rows}");
                for (name, db) in [("early", &early), ("reader", &reader), ("wants", &wants)] {
                    let sql = "SELECT count(*) FROM t";
                    let found = db.query_row(sql, [], |row| row.get::<_, u32>(0));
                    assert_eq!(found, Ok(rows), "{case} {name}");
                    assert_eq!(one::<u32>(db, "PRAGMA page_size"), page_size, "{case} {name}");
                    assert_eq!(one::<String>(db, "PRAGMA integrity_check"), "ok");
                    db.execute_batch(
                        "INSERT INTO t VALUES(1, 2); DELETE FROM t WHERE y = 2 AND x = 1",
                    )
                    .unwrap();
                }
            }
        }
    }
}
