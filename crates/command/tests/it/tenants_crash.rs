//! Transactions over the databases of two key stores, interrupted by a kill or a power cut, in each
//! rollback mode: every image opens, each database with its own store, and both or none of them
//! have a transaction.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Place;
use crate::databases::{Dir, create};
use crate::driven::{extension, python_with_extensions};
use crate::powercut::{Choice, Image, each_image};
use rusqlite::Connection;
use tdekit_faults_sqlite::trace::{is_possible, record};

/// A cache so small that pages reach the files before the commit.
const DRIVER: &str = "
import os, sqlite3, sys
extension, told, mode, a, b = sys.argv[1:]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(extension)
db = sqlite3.connect(a, uri=True, isolation_level=None)
db.execute('ATTACH ? AS b', (b,))
for schema in ('main', 'b'):
    db.execute(f'PRAGMA {schema}.journal_mode = {mode}')
    db.execute(f'PRAGMA {schema}.synchronous = EXTRA')
    db.execute(f'PRAGMA {schema}.cache_size = 3')
told = os.open(told, os.O_WRONLY | os.O_CREAT)
for n in range(1, 5):
    db.execute('BEGIN IMMEDIATE')
    for schema in ('main', 'b'):
        db.execute(f'INSERT INTO {schema}.log VALUES (?, randomblob(20000))', (n,))
        db.execute(f'UPDATE {schema}.log SET body = randomblob(9000) WHERE n < ?', (n,))
    db.execute('COMMIT')
    os.write(told, f'{n}\\n'.encode())
";
const OPERATIONS: usize = 60;

/// A key store that its own configuration opens, and a database of it.
struct Tenant {
    place: Place,
    path: PathBuf,
}

impl Tenant {
    fn new(dir: &Dir, name: &str, key: u8) -> Self {
        let place = Place::empty();
        let key = place.secret_file("key", &[key; 32]);
        place.ok(["key", "init", "--key-file", key.to_str().unwrap()]);
        let config = format!("[unlock]\nkey_file = {key:?}\n");
        fs::write(place.home().join("config.toml"), config).unwrap();
        place.ok(["cert", "create", "Cert"]);
        let tenant = Self { place, path: dir.path(name) };
        let new = format!("{}&tdekit_certificate=Cert", tenant.uri());
        create(Path::new(&new), "CREATE TABLE log(n, body)");
        tenant
    }

    fn uri(&self) -> String {
        format!("file:{}?tdekit_home={}", self.path.display(), self.place.home().display())
    }

    /// Returns the last transaction in the database, after its recovery.
    fn last(&self, what: &str) -> u32 {
        let db = Connection::open(self.uri()).unwrap();
        let looked = || -> rusqlite::Result<(String, u32, u32)> {
            let told = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            let rows = db.query_row("SELECT count(*), ifnull(max(n), 0) FROM log", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            Ok((told, rows.0, rows.1))
        };
        let (told, count, last) = looked().unwrap_or_else(|error| {
            let why: Option<String> =
                db.query_row("SELECT tdekit_last_error()", [], |row| row.get(0)).unwrap_or(None);
            panic!("{what}: {}: {error}: {why:?}", self.path.display())
        });
        assert_eq!((told.as_str(), count), ("ok", last), "{what}");
        last
    }
}

fn crashes(mode: &str) {
    if !is_possible() {
        return;
    }
    let Some(python) = python_with_extensions() else { return };
    let dir = Dir::new();
    let [a, b] = [("a.db", 1), ("b.db", 2)].map(|(name, key)| Tenant::new(&dir, name, key));
    let elsewhere = Dir::new();
    let told = elsewhere.path("told");
    let mut driver = Command::new(python);
    driver.args(["-c", DRIVER]).arg(extension()).arg(&told).arg(mode).args([a.uri(), b.uri()]);
    driver.env_remove("TDEKIT_HOME");
    let roots = [dir.path("")];
    let traced = record(&driver, &roots, Some(&told)).unwrap();
    assert!(traced.output.status.success(), "{:?}", traced.output);
    let mut found = BTreeMap::new();
    let mut first_is_a = false;
    let images = each_image(&traced.log, &roots, Choice::of(OPERATIONS), |image: &Image| {
        // The first to open rolls back only its own journal.
        first_is_a = !first_is_a;
        let order = if first_is_a { [&a, &b] } else { [&b, &a] };
        let what = format!("{mode}, a first: {first_is_a}: {}", image.what);
        let last = order.map(|tenant| tenant.last(&what));
        assert_eq!(last[0], last[1], "{what}");
        let legal = image.acked..=image.acked + 1;
        assert!(legal.contains(&last[0]), "{what}: {} of {legal:?}", last[0]);
        *found.entry(last[0]).or_insert(0) += 1;
    });
    eprintln!("{mode}: {} operations, {images} images: {found:?}", traced.log.ops.len());
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{mode}");
}

#[test]
fn a_crash_of_a_transaction_over_two_stores_with_journals_that_are_deleted() {
    crashes("delete");
}

#[test]
#[ignore = "full: journals that are deleted stand for them"]
fn a_crash_of_a_transaction_over_two_stores_with_journals_that_are_truncated() {
    crashes("truncate");
}

#[test]
#[ignore = "full: journals that are deleted stand for them"]
fn a_crash_of_a_transaction_over_two_stores_with_journals_that_are_kept() {
    crashes("persist");
}
