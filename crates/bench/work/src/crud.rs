//! Loops of the crud experiment: read the control parameters, then a read of a Card, an update of a
//! Vendor or an insert of a Purchase, on random rows, each in a separate transaction.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tdekit_sqlite_client::{Bound, Connection, SqliteError, Statement};
use tdekit_system_use::wall_ns;

use crate::latency::Latencies;
use crate::measure::{Cost, Meter};
use crate::texts::{business_name, card_number, city, secure_string, zip_code};

/// Number of different texts to write; too many for a processor's cache lines, few enough to stay
/// in memory.
const TEXTS: usize = 1024;

/// Loops of the CRUD experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrudRequest {
    /// Row of the control table.
    pub control: i64,
    /// Number of loops.
    pub loops: u64,
    /// Number of rows in each table.
    pub rows: u64,
    /// Of the random numbers.
    pub seed: u64,
    /// Interval between the due times of two loops; none if they follow each other directly.
    pub interval_ns: Option<u64>,
}

/// The prepared statements, which correspond to the source's stored procedures.
pub struct Crud {
    control: Statement,
    read_card: Statement,
    update_vendor: Statement,
    insert_purchase: Statement,
    insert_vendor: Statement,
    insert_card: Statement,
    texts: Texts,
}

/// Texts that live as long as the worker, so that binding copies nothing.
struct Texts {
    names: Vec<&'static str>,
    cities: Vec<&'static str>,
    zip_codes: Vec<&'static str>,
    secure: Vec<&'static str>,
}

impl Texts {
    fn make() -> Self {
        let mut rng = Rng::with_seed(0x7465_7874);
        let mut many = |make: fn(&mut Rng) -> String| -> Vec<&'static str> {
            (0..TEXTS).map(|_| &*make(&mut rng).leak()).collect()
        };
        Self {
            names: many(business_name),
            cities: many(city),
            zip_codes: many(zip_code),
            secure: many(secure_string),
        }
    }
}

fn pick(texts: &[&'static str], rng: &mut Rng) -> Bound {
    texts[rng.usize(..texts.len())].into()
}

fn date(rng: &mut Rng) -> Bound {
    rng.i64(1_300_000_000..1_400_000_000).into()
}

/// Sleeps until a loop is due; returns the due time.
fn wait_until_due(due: u64, now: u64) -> u64 {
    if due > now {
        std::thread::sleep(Duration::from_nanos(due - now));
    }
    due
}

impl Crud {
    /// Prepares the statements.
    ///
    /// # Errors
    /// When SQLite refuses one.
    pub fn prepare(connection: &Connection) -> Result<Self, SqliteError> {
        Ok(Self {
            control: connection.prepare(
                "SELECT Reads, Updates, Inserts, Loads, DelayEvery, DelayMs, Stop FROM Control \
                 WHERE ControlID = ?1",
            )?,
            read_card: connection.prepare(
                "SELECT CardID, CardNumber, SecurityCode, SecureString, DateCreated, StatusCode \
                 FROM Card WHERE CardID = ?1",
            )?,
            update_vendor: connection.prepare(
                "UPDATE Vendor SET BusinessName = ?1, City = ?2, ZipCode = ?3, \
                 DateLastUpdated = ?4 WHERE VendorID = ?5",
            )?,
            insert_purchase: connection.prepare(
                "INSERT INTO Purchase(CardID, VendorID, Amount, DateCreated) \
                 VALUES (?1, ?2, ?3, ?4)",
            )?,
            insert_vendor: connection.prepare(
                "INSERT INTO Vendor(BusinessName, Address1, Address2, City, State, ZipCode, \
                 DateCreated, DateLastUpdated, StatusCode) \
                 VALUES (?1, ?2, '', ?3, 'WA', ?4, ?5, ?5, 'AA')",
            )?,
            insert_card: connection.prepare(
                "INSERT INTO Card(CardNumber, SecurityCode, SecureString, DateCreated, StatusCode) \
                 VALUES (?1, ?2, ?3, ?4, 'AA')",
            )?,
            texts: Texts::make(),
        })
    }

    /// Runs the loops, all or until the control table requests a stop: `operations` is their
    /// number.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn run(&self, connection: &Connection, request: &CrudRequest) -> Result<Cost, SqliteError> {
        let mut rng = Rng::with_seed(request.seed);
        let mut latencies = Latencies::new();
        let work = || self.loops(request, &mut rng, &mut latencies);
        let (operations, cost) = Meter::whole(connection, work)?;
        Ok(Cost { operations, latencies: latencies.counts(), ..cost })
    }

    /// Returns the number of loops: all, unless the control table requests a stop.
    fn loops(
        &self,
        request: &CrudRequest,
        rng: &mut Rng,
        latencies: &mut Latencies,
    ) -> Result<u64, SqliteError> {
        let rows = request.rows.max(1).cast_signed();
        // Processes start at different positions of the mix, or all would write at once.
        let mut turn = rng.i64(0..10);
        self.control.bind_integer(1, request.control)?;
        // A loop is timed from the end of the last one, or from its due time, even if the process
        // was late.
        let mut began = wall_ns();
        for done in 0..request.loops {
            if done > 0 {
                let now = wall_ns();
                latencies.record(now - began);
                began = match request.interval_ns {
                    Some(interval) => wait_until_due(began + interval, now),
                    None => now,
                };
            }
            self.control.step()?;
            let [reads, updates, inserts, loads, delay_every, delay_ms, stop] =
                [0, 1, 2, 3, 4, 5, 6].map(|column| self.control.integer(column));
            self.control.reset()?;
            if stop != 0 {
                return Ok(done);
            }
            if delay_every > 0 && done % delay_every.cast_unsigned() == 0 {
                std::thread::sleep(Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)));
                if request.interval_ns.is_none() {
                    // Think time does not belong to any operation's latency.
                    began = wall_ns();
                }
            }
            if loads != 0 {
                self.load(rows, rng)?;
                continue;
            }
            let place = turn % (reads + updates + inserts).max(1);
            turn += 1;
            if place < reads {
                self.read_card.run_with([rng.i64(1..=rows).into()])?;
            } else if place < reads + updates {
                self.update(rows, rng)?;
            } else {
                self.purchase(rows, rng)?;
            }
        }
        if request.loops > 0 {
            latencies.record(wall_ns() - began);
        }
        Ok(request.loops)
    }

    fn update(&self, rows: i64, rng: &mut Rng) -> Result<(), SqliteError> {
        let texts = &self.texts;
        self.update_vendor
            .run_with([
                pick(&texts.names, rng),
                pick(&texts.cities, rng),
                pick(&texts.zip_codes, rng),
                date(rng),
                rng.i64(1..=rows).into(),
            ])
            .map(drop)
    }

    fn purchase(&self, rows: i64, rng: &mut Rng) -> Result<(), SqliteError> {
        let (card, vendor) = (rng.i64(1..=rows), rng.i64(1..=rows));
        let amount = rng.i64(1..100_000);
        self.insert_purchase
            .run_with([card.into(), vendor.into(), amount.into(), date(rng)])
            .map(drop)
    }

    /// The load phase: one row of each table.
    fn load(&self, rows: i64, rng: &mut Rng) -> Result<(), SqliteError> {
        let texts = &self.texts;
        self.insert_vendor.run_with([
            pick(&texts.names, rng),
            pick(&texts.secure, rng),
            pick(&texts.cities, rng),
            pick(&texts.zip_codes, rng),
            date(rng),
        ])?;
        let number = card_number(rng);
        let code = rng.i64(0..1000);
        let secure = pick(&texts.secure, rng);
        self.insert_card.run_with([number.into(), code.into(), secure, date(rng)])?;
        self.purchase(rows, rng)
    }
}
