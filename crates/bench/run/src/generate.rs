//! The database of the crud experiment: Vendor, Card and Purchase with its indexes, and the control
//! table.

use std::path::Path;

use fastrand::Rng;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use tdekit_bench_report::ThinkTime;
use tdekit_bench_work::{business_name, card_number, city, secure_string, zip_code};

use crate::interrupt;

/// A mix of the CRUD experiment: numbers of each kind in `reads + updates + inserts` loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Mix {
    pub(crate) reads: u32,
    pub(crate) updates: u32,
    pub(crate) inserts: u32,
    /// True for the load phase instead: each loop adds a row to every table.
    pub(crate) load: bool,
}

impl Mix {
    /// The load phase.
    pub(crate) const LOAD: Self = Self { reads: 0, updates: 0, inserts: 0, load: true };

    /// Returns sixteen mixes, as many as the document ran, including the three that it names (its
    /// list is an image that is lost): reads in steps of two, the rest updates, both, or inserts.
    fn sixteen() -> Vec<Self> {
        let mut mixes = Vec::new();
        for reads in (0..=10).rev().step_by(2) {
            let writes = 10 - reads;
            let mut updates = vec![writes, writes / 2, 0];
            updates.dedup();
            mixes.extend(updates.into_iter().map(|updates| Self {
                reads,
                updates,
                inserts: writes - updates,
                load: false,
            }));
        }
        mixes
    }

    /// Returns the sixteen, and load.
    pub(crate) fn all() -> Vec<Self> {
        Self::sixteen().into_iter().chain([Self::LOAD]).collect()
    }

    /// Returns the name in class ids: `4-3-3`, `load`.
    pub(crate) fn id(&self) -> String {
        if self.load {
            "load".to_owned()
        } else {
            format!("{}-{}-{}", self.reads, self.updates, self.inserts)
        }
    }

    /// Returns true if a loop may write.
    pub(crate) fn writes(&self) -> bool {
        self.load || self.updates > 0 || self.inserts > 0
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    /// `R/U/I` in parts of ten, or `load`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "load" {
            return Ok(Self::LOAD);
        }
        let parts: Result<Vec<u32>, _> = text.split('/').map(str::parse).collect();
        match parts.as_deref() {
            Ok([reads, updates, inserts])
                if [*reads, *updates, *inserts].iter().all(|part| *part <= 10)
                    && reads + updates + inserts == 10 =>
            {
                Ok(Self { reads: *reads, updates: *updates, inserts: *inserts, load: false })
            }
            _ => Err("expected READS/UPDATES/INSERTS that add up to 10, such as 4/3/3, or `load`"
                .to_owned()),
        }
    }
}

const SCHEMA: &str = "
CREATE TABLE Vendor(
  VendorID INTEGER PRIMARY KEY, BusinessName TEXT NOT NULL, Address1 TEXT NOT NULL,
  Address2 TEXT NOT NULL, City TEXT NOT NULL, State TEXT NOT NULL, ZipCode TEXT NOT NULL,
  DateCreated INTEGER NOT NULL, DateLastUpdated INTEGER NOT NULL, StatusCode TEXT NOT NULL);
CREATE TABLE Card(
  CardID INTEGER PRIMARY KEY, CardNumber INTEGER NOT NULL, SecurityCode INTEGER NOT NULL,
  SecureString TEXT NOT NULL, DateCreated INTEGER NOT NULL, StatusCode TEXT NOT NULL);
CREATE TABLE Purchase(
  PurchaseID INTEGER PRIMARY KEY, CardID INTEGER NOT NULL, VendorID INTEGER NOT NULL,
  Amount INTEGER NOT NULL, DateCreated INTEGER NOT NULL);
CREATE TABLE Control(
  ControlID INTEGER PRIMARY KEY, Reads INTEGER NOT NULL, Updates INTEGER NOT NULL,
  Inserts INTEGER NOT NULL, Loads INTEGER NOT NULL, DelayEvery INTEGER NOT NULL,
  DelayMs INTEGER NOT NULL, Stop INTEGER NOT NULL);";

const INDEXES: &str = "
CREATE INDEX Vendor_BusinessName ON Vendor(BusinessName);
CREATE UNIQUE INDEX Card_CardNumber_SecurityCode ON Card(CardNumber, SecurityCode);
CREATE INDEX Card_SecurityCode_CardNumber ON Card(SecurityCode, CardNumber);
CREATE INDEX Card_SecureString ON Card(SecureString);
CREATE INDEX Purchase_CardID ON Purchase(CardID);
CREATE INDEX Purchase_VendorID ON Purchase(VendorID);";

/// Creates the database at `path`, with `rows` rows in each of the three tables and one control row
/// for each mix, numbered from 1, all with the same think time. The file is compact: the result of
/// `VACUUM`.
pub(crate) fn generate(
    path: &Path,
    rows: u64,
    page_size_bytes: u32,
    (mixes, think_time): (&[Mix], Option<ThinkTime>),
    seed: u64,
) -> rusqlite::Result<()> {
    let mut rng = Rng::with_seed(seed);
    let mut connection = Connection::open(path)?;
    interrupt::watch(&mut connection)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {page_size_bytes}; PRAGMA journal_mode = OFF; \
         PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
    ))?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    fill(&transaction, rows, &mut rng)?;
    let mut control =
        transaction.prepare("INSERT INTO Control VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)")?;
    let (every, pause_ms) = think_time.map_or((0, 0), |think| (think.every_loops, think.pause_ms));
    for (id, mix) in (1_i64..).zip(mixes) {
        control.execute(params![
            id,
            mix.reads,
            mix.updates,
            mix.inserts,
            mix.load,
            every.cast_signed(),
            pause_ms.cast_signed()
        ])?;
    }
    drop(control);
    transaction.execute_batch(INDEXES)?;
    transaction.commit()?;
    connection.execute_batch("VACUUM")
}

fn fill(connection: &Connection, rows: u64, rng: &mut Rng) -> rusqlite::Result<()> {
    let mut vendor = connection
        .prepare("INSERT INTO Vendor VALUES (NULL, ?1, ?2, '', ?3, 'WA', ?4, ?5, ?5, 'AA')")?;
    let mut card = connection.prepare("INSERT INTO Card VALUES (NULL, ?1, ?2, ?3, ?4, 'AA')")?;
    let mut purchase = connection.prepare("INSERT INTO Purchase VALUES (NULL, ?1, ?2, ?3, ?4)")?;
    let last = rows.max(1).cast_signed();
    for _ in 0..rows {
        let date = rng.i64(1_200_000_000..1_300_000_000);
        vendor.execute(params![
            business_name(rng),
            secure_string(rng),
            city(rng),
            zip_code(rng),
            date
        ])?;
        card.execute(params![card_number(rng), rng.i64(0..1000), secure_string(rng), date])?;
        purchase.execute(params![
            rng.i64(1..=last),
            rng.i64(1..=last),
            rng.i64(1..100_000),
            date
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_strictly() {
        assert_eq!("4/3/3".parse::<Mix>().unwrap().id(), "4-3-3");
        assert_eq!("load".parse::<Mix>().unwrap().id(), "load");
        for bad in ["", "4/3", "4/3/3/0", "5/5/5", "11/0/-1", "a/b/c", "4294967295/1/10"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
        assert!(!"10/0/0".parse::<Mix>().unwrap().writes());
        assert!("0/5/5".parse::<Mix>().unwrap().writes());
    }

    #[test]
    fn sixteen_mixes_hold_the_named_ones() {
        let mixes = Mix::sixteen();
        assert_eq!(mixes.len(), 16);
        for named in ["10/0/0", "4/3/3", "0/5/5"] {
            assert!(mixes.contains(&named.parse().unwrap()), "{named}");
        }
        assert!(mixes.iter().all(|mix| mix.reads + mix.updates + mix.inserts == 10));
        let mut ids: Vec<String> = mixes.iter().map(Mix::id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 16);
    }

    #[test]
    fn the_database_is_whole_and_repeatable() {
        let directory = tempfile::tempdir().unwrap();
        let mixes: Vec<Mix> = ["10/0/0", "load"].iter().map(|text| text.parse().unwrap()).collect();
        let one = directory.path().join("one.db");
        let two = directory.path().join("two.db");
        let think = Some(ThinkTime { every_loops: 1000, pause_ms: 7 });
        generate(&one, 300, 1024, (&mixes, think), 7).unwrap();
        generate(&two, 300, 1024, (&mixes, think), 7).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
        let connection = Connection::open(&one).unwrap();
        let text =
            |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(number("PRAGMA page_size"), 1024);
        for table in ["Vendor", "Card", "Purchase"] {
            assert_eq!(number(&format!("SELECT count(*) FROM {table}")), 300);
        }
        assert_eq!(number("SELECT Loads FROM Control WHERE ControlID = 2"), 1);
        assert_eq!(number("SELECT sum(DelayEvery * 10 + DelayMs) FROM Control"), 2 * 10_007);
        assert_eq!(number("SELECT count(*) FROM sqlite_schema WHERE type = 'index'"), 6);
    }
}
