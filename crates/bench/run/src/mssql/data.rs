//! Tables of the run's databases and their rows, the same in each.

use fastrand::Rng;
use tdekit_bench_report::ThinkTime;

use crate::generate::Mix;
use tdekit_bench_work::{business_name, card_number, city, secure_string, zip_code};

/// Rows of a statement that fills: the range of four digits.
const ROWS: u64 = 10_000;
/// 2^31 - 1. A value modulo it is an int, and its squares fit into a bigint.
const PRIME: u64 = 2_147_483_647;
/// Primitive roots of it: with each, a row's key yields a number that no other key yields.
const ROOTS: [u64; 12] = [
    48_271,
    69_621,
    16_807,
    39_373,
    630_360_016,
    742_938_285,
    950_706_376,
    1_226_874_159,
    62_089_911,
    1_343_714_438,
    397_204_094,
    2_027_812_808,
];
const VENDOR: &str = "VendorID int NOT NULL PRIMARY KEY, BusinessName nvarchar(40) NOT NULL, \
    Address1 nvarchar(40) NOT NULL, Address2 nvarchar(40) NOT NULL, City nvarchar(30) NOT NULL, \
    State nvarchar(2) NOT NULL, ZipCode nvarchar(5) NOT NULL, DateCreated int NOT NULL, \
    DateUpdated int NOT NULL, Status nvarchar(2) NOT NULL";
const CARD: &str = "CardID int NOT NULL PRIMARY KEY, CardNumber bigint NOT NULL, \
    SecurityCode int NOT NULL, SecureString nvarchar(36) NOT NULL, DateCreated int NOT NULL, \
    Status nvarchar(2) NOT NULL";
const PURCHASE: &str = "PurchaseID int NOT NULL PRIMARY KEY, CardID int NOT NULL, \
    VendorID int NOT NULL, Amount int NOT NULL, DateCreated int NOT NULL";
const CONTROL: &str = "ControlID int NOT NULL PRIMARY KEY, Reads int NOT NULL, \
    Updates int NOT NULL, Inserts int NOT NULL, Loads int NOT NULL, DelayEvery int NOT NULL, \
    DelayMs int NOT NULL, Stop int NOT NULL";

/// Error raised by the procedures if the control table requests a stop.
pub(super) const STOPPED: i32 = 50_001;

/// Tables.
pub(super) fn tables() -> Vec<String> {
    [
        ("Vendor", VENDOR),
        ("Card", CARD),
        ("Purchase", PURCHASE),
        ("PurchaseKept", PURCHASE),
        ("Control", CONTROL),
    ]
    .map(|(name, columns)| format!("CREATE TABLE dbo.{name} ({columns})"))
    .into()
}

/// Indexes, a copy from which deleted rows are restored, and procedures: after the rows.
pub(super) fn finish() -> Vec<String> {
    let mut all: Vec<String> = [
        "CREATE INDEX Vendor_BusinessName ON dbo.Vendor (BusinessName)",
        "CREATE UNIQUE INDEX Card_Number_Code ON dbo.Card (CardNumber, SecurityCode)",
        "CREATE INDEX Card_Code_Number ON dbo.Card (SecurityCode, CardNumber)",
        "CREATE INDEX Card_SecureString ON dbo.Card (SecureString)",
        "CREATE INDEX Purchase_CardID ON dbo.Purchase (CardID)",
        "CREATE INDEX Purchase_VendorID ON dbo.Purchase (VendorID)",
        "INSERT INTO dbo.PurchaseKept (PurchaseID, CardID, VendorID, Amount, DateCreated) \
         SELECT PurchaseID, CardID, VendorID, Amount, DateCreated FROM dbo.Purchase",
    ]
    .map(str::to_owned)
    .into();
    all.extend(procedures());
    all
}

/// Each reads the control table first, as in the source.
fn procedures() -> impl Iterator<Item = String> {
    let vendor = "INSERT INTO dbo.Vendor (VendorID, BusinessName, Address1, Address2, City, \
         State, ZipCode, DateCreated, DateUpdated, Status) VALUES (@ID, @Name, @Secure, N'', \
         @City, N'WA', @Zip, @Date, @Date, N'AA');";
    let card = "INSERT INTO dbo.Card (CardID, CardNumber, SecurityCode, SecureString, \
         DateCreated, Status) VALUES (@ID, @Number, @Code, @Secure, @Date, N'AA');";
    let purchase = "INSERT INTO dbo.Purchase (PurchaseID, CardID, VendorID, Amount, \
         DateCreated) VALUES (@ID, @CardID, @VendorID, @Amount, @Date);";
    let load = format!(
        "{vendor} {card} {}",
        purchase.replace("@CardID", "@ID").replace("@VendorID", "@ID")
    );
    [
        (
            "ReadCard",
            "@CardID int",
            "SELECT CardID, CardNumber, SecurityCode, SecureString, DateCreated, Status FROM \
             dbo.Card WHERE CardID = @CardID;"
                .to_owned(),
        ),
        (
            "UpdateVendor",
            "@VendorID int, @City nvarchar(30), @Zip nvarchar(5), @Date int",
            "UPDATE dbo.Vendor SET City = @City, ZipCode = @Zip, DateUpdated = @Date WHERE \
             VendorID = @VendorID;"
                .to_owned(),
        ),
        (
            "InsertPurchase",
            "@ID int, @CardID int, @VendorID int, @Amount int, @Date int",
            purchase.to_owned(),
        ),
        (
            "LoadRow",
            "@ID int, @Name nvarchar(40), @Secure nvarchar(36), @City nvarchar(30), \
             @Zip nvarchar(5), @Number bigint, @Code int, @Amount int, @Date int",
            load,
        ),
    ]
    .into_iter()
    .map(|(name, parameters, work)| {
        format!(
            "CREATE PROCEDURE dbo.{name} @Control int, {parameters} AS BEGIN SET NOCOUNT ON; \
             DECLARE @Stop int; \
             SELECT @Stop = Stop FROM dbo.Control WHERE ControlID = @Control; \
             IF @Stop <> 0 THROW {STOPPED}, N'stopped by the control table', 1; {work} END"
        )
    })
}

/// Returns every statement that fills an empty database, in order.
pub(super) fn statements(
    rows: u64,
    seed: u64,
    mixes: (&[Mix], Option<ThinkTime>),
) -> impl Iterator<Item = String> {
    tables().into_iter().chain(fill(rows, seed, mixes)).chain(finish())
}

/// Returns statements that put `rows` rows into each of the three tables, and a control row for
/// each mix. A row's values are numbers that follow from its key and the seed, by the server's
/// arithmetic: every side has the same, and no statement grows with the number of rows.
pub(super) fn fill(
    rows: u64,
    seed: u64,
    (mixes, think): (&[Mix], Option<ThinkTime>),
) -> impl Iterator<Item = String> {
    let control = (1..).zip(mixes).map(move |(id, mix)| {
        let Mix { reads, updates, inserts, load } = *mix;
        let (every, pause) = think.map_or((0, 0), |think| (think.every_loops, think.pause_ms));
        format!("({id}, {reads}, {updates}, {inserts}, {}, {every}, {pause}, 0)", u32::from(load))
    });
    let control: Vec<String> = control.collect();
    let control = (!control.is_empty())
        .then(|| format!("INSERT INTO dbo.Control VALUES {}", control.join(", ")));
    let offsets = offsets(seed);
    let pieces = (0..rows).step_by(usize::try_from(ROWS).unwrap_or(1));
    let filled = pieces.flat_map(move |first| {
        let keys = (first + 1, rows.min(first + ROWS));
        [vendors(keys, &offsets), cards(keys, &offsets), purchases(keys, rows, &offsets)]
    });
    control.into_iter().chain(filled)
}

/// Returns a query for the row count of a database's tables, and sums of their contents.
pub(super) fn sums(database: &str) -> String {
    // No sum of these remainders overflows a bigint.
    let one = |table: &str, first: &str, second: &str| {
        format!(
            "SELECT N'{table}' AS name, CONVERT(bigint, COUNT(*)) AS counted, \
             SUM(CONVERT(bigint, {first}) % {PRIME}) AS one, \
             SUM(CONVERT(bigint, {second})) AS other FROM {database}.dbo.{table}"
        )
    };
    [
        one("Vendor", "ZipCode", "DateUpdated"),
        one("Card", "CardNumber", "SecurityCode"),
        one("Purchase", "Amount", "CardID"),
    ]
    .join(" UNION ALL ")
        + " ORDER BY name"
}

/// Numbers that are added before the first remainder, by root.
fn offsets(seed: u64) -> [u64; ROOTS.len()] {
    let mut rng = Rng::with_seed(seed);
    ROOTS.map(|_| rng.u64(0..PRIME))
}

/// Selects keys from the first to the last, each with the unique number `y1`, and the requested
/// numbers `h1`, `h2` and so on.
fn hashed(
    (first, last): (u64, u64),
    offsets: &[u64; ROOTS.len()],
    wanted: impl Iterator<Item = usize> + Clone,
) -> String {
    let digits = (0..10).map(|digit| format!("({digit})")).collect::<Vec<_>>().join(", ");
    let digits = ["a", "b", "c", "d"].map(|name| format!("(VALUES {digits}) AS {name} (n)"));
    let digits = digits.join(" CROSS JOIN ");
    let linear = |at: usize| {
        let (root, offset) = (ROOTS[at - 1], offsets[at - 1]);
        format!("(k.id * {root} + {offset}) % {PRIME} AS y{at}")
    };
    let also_first = std::iter::once(1).chain(wanted.clone().filter(|at| *at != 1));
    let linear = also_first.map(linear).collect::<Vec<_>>().join(", ");
    let squared = |at| format!("(y.y{at} * y.y{at} % {PRIME} * 48271 + {at}) % {PRIME} AS h{at}");
    let squared = wanted.map(squared).collect::<Vec<_>>().join(", ");
    format!(
        "(SELECT y.id, y.y1, {squared} FROM (SELECT k.id, {linear} FROM (SELECT \
         CONVERT(bigint, {first} + a.n + 10 * b.n + 100 * c.n + 1000 * d.n) AS id FROM {digits}) \
         AS k WHERE k.id <= {last}) AS y) AS h"
    )
}

/// Returns eight hexadecimal digits of each of these numbers.
fn hex(numbers: std::ops::RangeInclusive<usize>) -> String {
    let one = |at| format!("CONVERT(varchar(8), CONVERT(binary(4), CONVERT(int, h.h{at})), 2)");
    numbers.map(one).collect::<Vec<_>>().join(" + ")
}

/// Returns the 36 characters of a printed GUID.
fn guid() -> String {
    let dashed = |text: String, at: u32| format!("STUFF({text}, {at}, 0, '-')");
    format!("LOWER({})", [21, 17, 13, 9].into_iter().fold(hex(6..=9), dashed))
}

const DATE: &str = "1200000000 + h.h10 % 100000000";

fn vendors(keys: (u64, u64), offsets: &[u64; ROOTS.len()]) -> String {
    let (name, secure, city) = (hex(1..=5), guid(), hex(11..=12));
    format!(
        "INSERT INTO dbo.Vendor SELECT h.id, LEFT({name}, 12 + h.h10 % 29), {secure}, '', \
         LEFT({city}, 6 + h.h10 % 11), 'WA', RIGHT('0000' + CONVERT(varchar(5), \
         h.h12 % 100000), 5), {DATE}, {DATE}, 'AA' FROM {}",
        hashed(keys, offsets, 1..=12)
    )
}

fn cards(keys: (u64, u64), offsets: &[u64; ROOTS.len()]) -> String {
    let secure = guid();
    // Sixteen digits, unique for each card.
    let number = "CONVERT(bigint, 1000000) * 1000000000 + h.y1 * 4000000 + h.h6 % 4000000";
    format!(
        "INSERT INTO dbo.Card SELECT h.id, {number}, h.h10 % 1000, {secure}, {DATE}, 'AA' FROM {}",
        hashed(keys, offsets, 6..=10)
    )
}

fn purchases(keys: (u64, u64), rows: u64, offsets: &[u64; ROOTS.len()]) -> String {
    let last = rows.max(1);
    format!(
        "INSERT INTO dbo.Purchase SELECT h.id, 1 + h.h1 % {last}, 1 + h.h2 % {last}, \
         1 + h.h3 % 99999, {DATE} FROM {}",
        hashed(keys, offsets, [1, 2, 3, 10].into_iter())
    )
}

/// Values of a row for a call of a mix.
pub(super) struct Row {
    name: String,
    secure: String,
    pub(super) city: String,
    pub(super) zip: String,
    number: i64,
    pub(super) card: u64,
    pub(super) vendor: u64,
    pub(super) amount: u32,
    pub(super) date: u32,
}

impl Row {
    pub(super) fn new(rng: &mut Rng, rows: u64) -> Self {
        let last = rows.max(1);
        Self {
            name: business_name(rng),
            secure: secure_string(rng),
            city: city(rng),
            zip: zip_code(rng),
            number: card_number(rng),
            card: rng.u64(1..=last),
            vendor: rng.u64(1..=last),
            amount: rng.u32(1..100_000),
            date: rng.u32(1_200_000_000..1_300_000_000),
        }
    }

    /// Returns a call that loads it.
    pub(super) fn load(&self, control: i64, id: u64) -> String {
        let Self { name, secure, city, zip, number, amount, date, .. } = self;
        // Includes the key, so that no card equals an existing one.
        let code = 10_000 + id;
        format!(
            "EXEC dbo.LoadRow {control}, {id}, N'{name}', N'{secure}', N'{city}', N'{zip}', \
             {number}, {code}, {amount}, {date}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_for_every_side() {
        let mixes: Vec<Mix> = Mix::all();
        let make = |seed| fill(20_001, seed, (&mixes, None)).collect::<Vec<_>>();
        let one = make(7);
        assert_eq!(one, make(7));
        assert_ne!(one[1..], make(8)[1..]);
        // A control statement, and three tables of 10,000, 10,000 and one rows.
        assert_eq!(one.len(), 1 + 3 * 3);
        assert!(one[0].starts_with("INSERT INTO dbo.Control VALUES (1, 10, 0, 0, 0, 0, 0, 0)"));
        assert!(one[1].starts_with("INSERT INTO dbo.Vendor SELECT h.id, "), "{}", one[1]);
        assert!(one[9].contains("20001 + a.n") && one[9].contains("k.id <= 20001"), "{}", one[9]);
        assert!(one.iter().all(|sql| sql.len() < 4_000));
    }

    /// What the statements compute, computed here: no card twice, and numbers that spread.
    #[test]
    fn numbers_of_rows_spread() {
        let offsets = offsets(1);
        let linear = |id: u64, at: usize| (id * ROOTS[at] + offsets[at]) % PRIME;
        let hash = |id, at| {
            let y = linear(id, at);
            (y * y % PRIME * 48_271 + at as u64 + 1) % PRIME
        };
        let most = 1_000_000_000 * ROOTS.into_iter().max().unwrap() + PRIME;
        assert!(most < i64::MAX.unsigned_abs() && PRIME * PRIME < i64::MAX.unsigned_abs());
        let ids = 1..=20_000_u64;
        let cards: std::collections::BTreeSet<u64> = ids.clone().map(|id| linear(id, 0)).collect();
        assert_eq!(cards.len(), 20_000);
        for at in 0..ROOTS.len() {
            let mut tenths = [0_u32; 10];
            for id in ids.clone() {
                tenths[usize::try_from(hash(id, at) % 20_000 / 2_000).unwrap()] += 1;
            }
            assert!(tenths.iter().all(|count| (1_800..2_200).contains(count)), "{at}: {tenths:?}");
        }
    }

    #[test]
    fn procedures_look_at_the_control_table_first() {
        let all = finish().join("\n");
        assert_eq!(all.matches("IF @Stop <> 0 THROW 50001").count(), 4);
        assert!(!all.contains("@CardID, @VendorID, @Amount, @Date); END\nCREATE PROCEDURE dbo.X"));
    }
}
