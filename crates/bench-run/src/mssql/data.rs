//! Tables of the run's databases and their rows, the same in each.

use fastrand::Rng;
use tdekit_bench_report::ThinkTime;

use crate::generate::{Mix, business_name, card_number, city, secure_string, zip_code};

/// Rows of a statement that fills; SQL Server takes 1,000.
const ROWS: u64 = 500;
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

/// Error of the procedures where the control table says stop.
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

/// Indexes, what deleted rows come back from, and procedures: after the rows.
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

/// Each reads the control table first, as the source's do.
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

/// Statements that put `rows` rows into each of the three tables, and a control row for each mix.
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
    let mut rng = Rng::with_seed(seed);
    let pieces = (0..rows).step_by(usize::try_from(ROWS).unwrap_or(1));
    let filled = pieces.flat_map(move |first| {
        let mut values = [const { Vec::new() }; 3];
        for id in first + 1..=rows.min(first + ROWS) {
            let row = Row::new(&mut rng, rows);
            for (table, row) in values.iter_mut().zip(row.tables(id)) {
                table.push(row);
            }
        }
        ["Vendor", "Card", "Purchase"]
            .into_iter()
            .zip(values)
            .map(|(table, rows)| format!("INSERT INTO dbo.{table} VALUES {}", rows.join(", ")))
            .collect::<Vec<_>>()
    });
    control.into_iter().chain(filled)
}

/// Values of a row of each table.
pub(super) struct Row {
    name: String,
    secure: String,
    pub(super) city: String,
    pub(super) zip: String,
    number: i64,
    code: i64,
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
            code: rng.i64(0..1000),
            card: rng.u64(1..=last),
            vendor: rng.u64(1..=last),
            amount: rng.u32(1..100_000),
            date: rng.u32(1_200_000_000..1_300_000_000),
        }
    }

    fn tables(&self, id: u64) -> [String; 3] {
        let Self { name, secure, city, zip, number, code, card, vendor, amount, date } = self;
        [
            format!(
                "({id}, N'{name}', N'{secure}', N'', N'{city}', N'WA', N'{zip}', {date}, {date}, \
                 N'AA')"
            ),
            format!("({id}, {number}, {code}, N'{secure}', {date}, N'AA')"),
            format!("({id}, {card}, {vendor}, {amount}, {date})"),
        ]
    }

    /// A call that loads it.
    pub(super) fn load(&self, control: i64, id: u64) -> String {
        let Self { name, secure, city, zip, number, amount, date, .. } = self;
        // With the key in it, no card is the same as one that is there.
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
        let make = || fill(1_201, 7, (&mixes, None)).collect::<Vec<_>>();
        let one = make();
        assert_eq!(one, make());
        // A control statement, and three tables of 500, 500 and 201 rows.
        assert_eq!(one.len(), 1 + 3 * 3);
        assert!(one[0].starts_with("INSERT INTO dbo.Control VALUES (1, 10, 0, 0, 0, 0, 0, 0)"));
        assert!(one[1].starts_with("INSERT INTO dbo.Vendor VALUES (1, N'"), "{}", one[1]);
        assert_eq!(one[9].matches("), (").count() + 1, 201);
    }

    #[test]
    fn procedures_look_at_the_control_table_first() {
        let all = finish().join("\n");
        assert_eq!(all.matches("IF @Stop <> 0 THROW 50001").count(), 4);
        assert!(!all.contains("@CardID, @VendorID, @Amount, @Date); END\nCREATE PROCEDURE dbo.X"));
    }
}
