use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tdekit_sqlite_client::{Library, Value};

use super::*;
use crate::job::{LibraryChoice, OperationCosts, Reply, Request};
use crate::worker::serve;
use tdekit_bench_work::Cost;

/// Contained in every text column; must never appear in a plan's SQL, words or notes.
const SECRET: &str = "planted7marker";

/// A schema with many difficult features.
const ODD: &str = r#"
CREATE TABLE "we""ird ta'ble"("a ""b" INTEGER PRIMARY KEY, "c'd" TEXT, [e f] REAL, "select" BLOB);
CREATE INDEX "i ""x" ON "we""ird ta'ble"("c'd");
CREATE TABLE pairs(k TEXT, n INTEGER, v TEXT, PRIMARY KEY(k, n)) WITHOUT ROWID;
CREATE INDEX pairs_v ON pairs(v);
CREATE TABLE parent(id INTEGER PRIMARY KEY AUTOINCREMENT, code TEXT UNIQUE NOT NULL, title TEXT);
CREATE TABLE child(
  id INTEGER PRIMARY KEY, parent_id INTEGER NOT NULL REFERENCES parent(id),
  amount INTEGER CHECK (amount >= 0), twice INTEGER AS (amount * 2) VIRTUAL,
  half REAL AS (amount / 2.0) STORED, note TEXT CHECK (length(note) < 40));
CREATE INDEX child_parent ON child(parent_id);
CREATE INDEX child_big ON child(amount) WHERE amount > 50;
CREATE INDEX child_lower ON child(lower(note));
CREATE TABLE guarded(id INTEGER PRIMARY KEY, v TEXT);
CREATE TRIGGER guarded_insert BEFORE INSERT ON guarded
  BEGIN SELECT raise(ABORT, 'no inserts here'); END;
CREATE TABLE audit(what TEXT);
CREATE TABLE watched(id INTEGER PRIMARY KEY, v TEXT);
CREATE TRIGGER watched_update AFTER UPDATE ON watched
  BEGIN INSERT INTO audit VALUES ('update ' || new.id); END;
CREATE TABLE hides(rowid TEXT, v TEXT);
CREATE TABLE hides_all(rowid TEXT, _rowid_ TEXT, oid TEXT);
CREATE TABLE no_key(v TEXT, w TEXT);
CREATE TABLE exact(id INTEGER PRIMARY KEY, v INT, w TEXT) STRICT;
CREATE TABLE tagged(tag BLOB PRIMARY KEY, v TEXT);
CREATE TABLE one_row(id INTEGER PRIMARY KEY, v TEXT);
CREATE TABLE empty(id INTEGER PRIMARY KEY);
CREATE VIEW seen AS SELECT * FROM child;
CREATE VIRTUAL TABLE words USING fts5(body);
"#;

fn odd_database(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(ODD).unwrap();
    connection
        .execute_batch(&format!(
            r#"
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
            INSERT INTO "we""ird ta'ble" SELECT i, '{SECRET}' || i % 40,
               i / 3.0, randomblob(9) FROM n;
            INSERT INTO pairs SELECT "c'd", "a ""b", '{SECRET}' || "e f" FROM "we""ird ta'ble";
            INSERT INTO parent SELECT "a ""b", '{SECRET}-' || "a ""b", 't' FROM "we""ird ta'ble"
              WHERE "a ""b" <= 20;
            INSERT INTO child(id, parent_id, amount, note)
              SELECT "a ""b" * 7, 1 + "a ""b" % 20, "a ""b" % 100, 'n{SECRET}'
               FROM "we""ird ta'ble";
            INSERT INTO guarded SELECT "a ""b", "c'd" FROM "we""ird ta'ble" WHERE 0;
            INSERT INTO watched SELECT "a ""b", "c'd" FROM "we""ird ta'ble";
            INSERT INTO hides SELECT "c'd", "c'd" FROM "we""ird ta'ble";
            INSERT INTO hides_all SELECT "c'd", "c'd", "c'd" FROM "we""ird ta'ble";
            INSERT INTO no_key SELECT "c'd", 'x' FROM "we""ird ta'ble";
            INSERT INTO exact SELECT "a ""b", "a ""b" * 10, "c'd" FROM "we""ird ta'ble";
            INSERT INTO tagged SELECT randomblob(16), "c'd" FROM "we""ird ta'ble";
            INSERT INTO one_row VALUES (1, '{SECRET}');
            INSERT INTO words SELECT "c'd" FROM "we""ird ta'ble";
            -- Values that JSON does not hold as they are.
            INSERT INTO no_key VALUES (CAST(x'ff00fe' AS TEXT), 9e999);
            DROP TRIGGER guarded_insert;
            INSERT INTO guarded SELECT id, v FROM watched;
            CREATE TRIGGER guarded_insert BEFORE INSERT ON guarded
              BEGIN SELECT raise(ABORT, 'no inserts here'); END;
            VACUUM;
            "#
        ))
        .unwrap();
}

fn ask(requests: &[Request]) -> Vec<serde_json::Value> {
    let lines: Vec<String> =
        requests.iter().map(|request| serde_json::to_string(request).unwrap()).collect();
    let mut output = Vec::new();
    serve(std::io::Cursor::new(lines.join("\n")), &mut output).unwrap();
    String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Reply>(line).unwrap().unwrap())
        .collect()
}

/// Rehearses statements.
fn rehearse(path: &Path, statements: Vec<Planned>) -> Vec<Rehearsal> {
    let mut requests = opening(path);
    requests.push(Request::Rehearse { statements });
    serde_json::from_value(ask(&requests).pop().unwrap()).unwrap()
}

fn opening(path: &Path) -> Vec<Request> {
    let on_open = ["journal_mode = wal", "synchronous = off", "foreign_keys = on"];
    vec![
        Request::Setup { library: LibraryChoice::Bundled, extension: None },
        Request::Open {
            path: path.to_owned(),
            on_open: on_open.map(|setting| format!("PRAGMA {setting}")).to_vec(),
        },
    ]
}

fn derived_plan(path: &Path) -> (Derived, Vec<Planned>, Vec<String>) {
    let derived = derive(&Connection::open(path).unwrap(), 5).unwrap();
    let scratch = path.with_extension("scratch");
    std::fs::copy(path, &scratch).unwrap();
    let rehearsals = rehearse(&scratch, derived.tried());
    let (plan, notes) = choose(&derived, &rehearsals);
    (derived, plan, notes)
}

/// Returns every row of every table, by table.
fn contents(path: &Path) -> BTreeMap<String, Vec<String>> {
    let connection = Library::bundled().open(path).unwrap();
    assert_eq!(connection.query_text("PRAGMA integrity_check").unwrap().unwrap(), "ok");
    let names = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'";
    let rows = |name: String| {
        let rows = connection.rows(&format!("SELECT * FROM {}", schema::quote(&name))).unwrap();
        let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        (name, rows)
    };
    connection.query_column(names).unwrap().into_iter().map(rows).collect()
}

struct Odd {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

fn odd() -> Odd {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("odd.db");
    odd_database(&path);
    Odd { path, _directory: directory }
}

fn count(plan: &[Planned], operation: Operation) -> usize {
    plan.iter().filter(|planned| planned.operation == operation).count()
}

#[test]
fn an_odd_schema_gives_the_whole_quota() {
    let odd = odd();
    let (derived, plan, notes) = derived_plan(&odd.path);
    let counts = Operation::ALL.map(|operation| count(&plan, operation));
    // Two autoindexes (parent.code, tagged.tag) and five named ones; pairs is its own key.
    assert_eq!(counts, [10, 5, 8, 5, 7], "{notes:#?}");
    assert!(derived.foreign_keys);
    assert!(derived.scans.is_some());
    let all = [derived.notes, notes].concat().join("\n");
    for wanted in [
        "Table hides_all is left out: its columns hide its rowid.",
        "Table empty is left out: it is empty.",
        "Left out: 1 of type view.",
        "Left out: 1 of type virtual.",
        "No insert on guarded: no inserts here",
    ] {
        assert!(all.contains(wanted), "{wanted} is missing in\n{all}");
    }
    let joins = plan.iter().filter(|planned| planned.what.contains("with their parent")).count();
    assert_eq!(joins, 1, "{plan:#?}");
}

#[test]
fn plans_hold_no_value_of_the_data() {
    let odd = odd();
    let (derived, plan, notes) = derived_plan(&odd.path);
    let mut shown = [derived.notes, notes].concat();
    for planned in plan {
        shown.extend([planned.sql, planned.what, planned.table]);
        shown.extend(planned.undo_sql);
    }
    let shown = shown.join("\n");
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn measured_statements_leave_the_data_as_it_was() {
    let odd = odd();
    let (_, plan, _) = derived_plan(&odd.path);
    let mut before = contents(&odd.path);
    let mut requests = opening(&odd.path);
    requests.push(Request::Plan { statements: plan.clone() });
    for cold in [false, true, false] {
        for operation in Operation::ALL {
            requests.push(Request::Operation { operation, cold, drop_all: false, round: 3 });
        }
    }
    let replies = ask(&requests).split_off(requests.len() - 15);
    let costs: Vec<Cost> = replies
        .into_iter()
        .map(|reply| serde_json::from_value::<OperationCosts>(reply).unwrap().0)
        .collect();
    for (cost, operation) in costs.iter().zip(Operation::ALL.iter().cycle()) {
        assert_eq!(cost.statements.len(), count(&plan, *operation));
        assert!(cost.elapsed_ns > 0 && cost.used.cpu_ns > 0 && cost.logical_reads > 0, "{cost:?}");
        assert_eq!(cost.logical_writes > 0, operation.writes(), "{operation:?} {cost:?}");
    }
    let mut after = contents(&odd.path);
    // The trigger's own table and the counter of AUTOINCREMENT are not undone.
    for kept in ["audit", "sqlite_sequence"] {
        before.remove(kept);
        after.remove(kept);
    }
    assert_eq!(before, after);
}

/// A statement whose undo would not restore every row must not be measured.
#[test]
fn a_statement_that_cannot_be_undone_is_dropped() {
    let odd = odd();
    let planned = Planned {
        operation: Operation::Delete,
        table: "watched".to_owned(),
        what: String::new(),
        sql: "DELETE FROM watched WHERE id <= ?1".to_owned(),
        undo_sql: Some("INSERT INTO watched VALUES (?1, ?2)".to_owned()),
        per_block: 1,
        variants: vec![crate::job::Variant {
            parameters: vec![Value::Int(2)],
            undo: vec![vec![Value::Int(1), "x".into()]],
        }],
    };
    let rehearsals = rehearse(&odd.path, vec![planned]);
    let [Some(failure)] = rehearsals[0].failures.as_slice() else { panic!("{rehearsals:?}") };
    assert!(failure.contains("2 rows changed and 1 undone where 1"), "{failure}");
}

#[test]
fn a_database_without_tables_gives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bare.db");
    Connection::open(&path).unwrap().execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
    let derived = derive(&Connection::open(&path).unwrap(), 5).unwrap();
    assert!(derived.candidates.is_empty() && derived.scans.is_none());
    let (plan, notes) = choose(&derived, &[]);
    assert!(plan.is_empty());
    assert!(notes.iter().any(|note| note.contains("No select can be derived")), "{notes:?}");
}
