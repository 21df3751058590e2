//! The statements that are measured individually: ten SELECT, five INSERT, eight UPDATE, five
//! DELETE, and rebuilds of every index.

use fastrand::Rng;

use crate::job::Operation;

/// Smallest key of rows that a measured INSERT added.
const NEW: u64 = 1_000_000_000;
/// Maximum width of a range of keys from `@a` on.
const RANGE: u64 = 100;
const COPY_VENDOR: &str = "BusinessName, Address1, Address2, City, State, ZipCode, DateCreated, \
                           DateUpdated, Status FROM dbo.Vendor WHERE VendorID";

/// A measured statement.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) operation: Operation,
    /// Within its operation.
    pub(super) index: u32,
    pub(super) what: String,
    /// With the parameters `@a`, a key, and `@b`, a number.
    pub(super) sql: String,
}

/// Every statement, in the order of its operation.
pub(super) fn all() -> Vec<Planned> {
    let mut all = Vec::new();
    let mut push = |operation, statements: Vec<(&str, String)>| {
        all.extend((0..).zip(statements).map(|(index, (what, sql))| Planned {
            operation,
            index,
            what: what.to_owned(),
            sql,
        }));
    };
    push(Operation::Select, owned(&SELECTS));
    push(Operation::Insert, inserts());
    push(Operation::Update, owned(&UPDATES));
    push(Operation::Delete, owned(&DELETES));
    let rebuild = |table: &str| format!("ALTER INDEX ALL ON dbo.{table} REBUILD");
    push(
        Operation::Reindex,
        ["Vendor", "Card", "Purchase"].map(|table| ("all of a table", rebuild(table))).into(),
    );
    all
}

fn owned(statements: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    statements.iter().map(|(what, sql)| (*what, (*sql).to_owned())).collect()
}

const SELECTS: [(&str, &str); 10] = [
    ("a row by its key", "SELECT CardNumber, SecureString FROM dbo.Card WHERE CardID = @a"),
    (
        "rows by an index",
        "SELECT v.VendorID, v.City FROM dbo.Vendor AS v WHERE v.BusinessName = \
         (SELECT n.BusinessName FROM dbo.Vendor AS n WHERE n.VendorID = @a)",
    ),
    (
        "100 rows by key",
        "SELECT VendorID, BusinessName, City FROM dbo.Vendor WHERE VendorID BETWEEN @a AND @a + 99",
    ),
    ("a sum by an index", "SELECT COUNT(*), SUM(Amount) FROM dbo.Purchase WHERE VendorID = @a"),
    (
        "a sum over a table",
        "SELECT COUNT(*), SUM(CONVERT(bigint, Amount)) FROM dbo.Purchase WHERE Amount <> @b",
    ),
    (
        "a search in text",
        "SELECT COUNT(*) FROM dbo.Card WHERE SecureString LIKE N'%abc%' AND CardID <> @a",
    ),
    (
        "groups of a table",
        "SELECT TOP (10) ZipCode, COUNT(*) FROM dbo.Vendor WHERE VendorID <> @a GROUP BY ZipCode \
         ORDER BY COUNT(*) DESC, ZipCode",
    ),
    (
        "a join of three tables",
        "SELECT TOP (100) v.BusinessName, c.CardNumber, p.Amount FROM dbo.Purchase AS p \
         JOIN dbo.Card AS c ON c.CardID = p.CardID JOIN dbo.Vendor AS v \
         ON v.VendorID = p.VendorID WHERE p.PurchaseID >= @a ORDER BY p.PurchaseID",
    ),
    (
        "a sort of a table",
        "SELECT TOP (100) CardID, SecureString FROM dbo.Card WHERE CardID <> @a \
         ORDER BY DateCreated DESC, CardID",
    ),
    (
        "rows without others",
        "SELECT COUNT(*) FROM dbo.Vendor AS v WHERE v.VendorID <> @a AND NOT EXISTS \
         (SELECT 1 FROM dbo.Purchase AS p WHERE p.VendorID = v.VendorID)",
    ),
];

fn inserts() -> Vec<(&'static str, String)> {
    let vendor = |from: &str, wanted: &str| {
        format!(
            "INSERT INTO dbo.Vendor (VendorID, BusinessName, Address1, Address2, City, State, \
             ZipCode, DateCreated, DateUpdated, Status) SELECT {from}, {COPY_VENDOR} {wanted}"
        )
    };
    let purchase = "INSERT INTO dbo.Purchase (PurchaseID, CardID, VendorID, Amount, DateCreated)";
    vec![
        ("a row of three indexes", vendor(&format!("{NEW} + @a"), "= @a")),
        (
            "a row of four indexes",
            format!(
                "INSERT INTO dbo.Card (CardID, CardNumber, SecurityCode, SecureString, \
                 DateCreated, Status) SELECT {NEW} + @a, CardNumber, 1000 + SecurityCode, \
                 SecureString, DateCreated, Status FROM dbo.Card WHERE CardID = @a"
            ),
        ),
        ("a short row", format!("{purchase} VALUES ({NEW} + @a, @a, @a, @b, 1250000000)")),
        (
            "100 short rows",
            format!(
                "{purchase} SELECT 1100000000 + PurchaseID, CardID, VendorID, Amount, DateCreated \
                 FROM dbo.Purchase WHERE PurchaseID BETWEEN @a AND @a + 99"
            ),
        ),
        ("100 rows", vendor("1100000000 + VendorID", "BETWEEN @a AND @a + 99")),
    ]
}

const UPDATES: [(&str, &str); 8] = [
    ("a row by its key", "UPDATE dbo.Vendor SET DateUpdated = @b WHERE VendorID = @a"),
    ("text of a row", "UPDATE dbo.Vendor SET City = REVERSE(City) WHERE VendorID = @a"),
    (
        "100 rows by key",
        "UPDATE dbo.Vendor SET DateUpdated = @b WHERE VendorID BETWEEN @a AND @a + 99",
    ),
    (
        "an indexed column of 10 rows",
        "UPDATE dbo.Vendor SET BusinessName = REVERSE(BusinessName) \
         WHERE VendorID BETWEEN @a AND @a + 9",
    ),
    (
        "100 rows by cases",
        "UPDATE dbo.Card SET Status = CASE WHEN Status = N'AA' THEN N'BB' ELSE N'AA' END \
         WHERE CardID BETWEEN @a AND @a + 99",
    ),
    (
        "an indexed column of a row",
        "UPDATE dbo.Card SET SecureString = REVERSE(SecureString) WHERE CardID = @a",
    ),
    ("rows by an index", "UPDATE dbo.Purchase SET Amount = @b WHERE VendorID = @a"),
    ("every row of a table", "UPDATE dbo.Purchase SET DateCreated = @b"),
];

const DELETES: [(&str, &str); 5] = [
    ("a row by its key", "DELETE FROM dbo.Purchase WHERE PurchaseID = @a"),
    ("100 rows by key", "DELETE FROM dbo.Purchase WHERE PurchaseID BETWEEN @a AND @a + 99"),
    ("rows by an index", "DELETE FROM dbo.Purchase WHERE VendorID = @a"),
    ("rows by another index", "DELETE FROM dbo.Purchase WHERE CardID = @a"),
    (
        "rows by a query",
        "DELETE FROM dbo.Purchase WHERE PurchaseID IN (SELECT p.PurchaseID \
         FROM dbo.Purchase AS p WHERE p.CardID BETWEEN @a AND @a + 9)",
    ),
];

impl Planned {
    /// Returns the tag that identifies it in the server's counters for a side.
    pub(super) fn tag(&self, run: &str, side: &str) -> String {
        format!("{run} {side} {} {:02}", self.operation.name(), self.index)
    }

    /// The batch that runs it. DDL takes no parameters.
    pub(super) fn batch(&self, tag: &str, values: (u64, u64)) -> String {
        if self.operation == Operation::Reindex {
            return self.sql.clone();
        }
        let text = format!("/*tdekit {tag} */ {}", self.sql).replace('\'', "''");
        let (a, b) = values;
        format!("EXEC sp_executesql N'{text}', N'@a int, @b int', @a = {a}, @b = {b}")
    }
}

/// Returns a key whose range is in the table, and a number.
pub(super) fn values(rng: &mut Rng, rows: u64) -> (u64, u64) {
    (rng.u64(1..=rows.saturating_sub(RANGE).max(1)), rng.u64(1..100_000))
}

/// Returns statements that undo the changes of an operation, outside of the timing.
pub(super) fn undo(operation: Operation) -> Vec<String> {
    let made = |table: &str| format!("DELETE FROM dbo.{table} WHERE {table}ID >= {NEW}");
    match operation {
        Operation::Insert => ["Vendor", "Card", "Purchase"].map(made).into(),
        Operation::Delete => vec![
            "INSERT INTO dbo.Purchase (PurchaseID, CardID, VendorID, Amount, DateCreated) \
             SELECT k.PurchaseID, k.CardID, k.VendorID, k.Amount, k.DateCreated \
             FROM dbo.PurchaseKept AS k WHERE NOT EXISTS (SELECT 1 FROM dbo.Purchase AS p \
             WHERE p.PurchaseID = k.PurchaseID)"
                .to_owned(),
        ],
        Operation::Select | Operation::Update | Operation::Reindex => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_statements_as_the_source_has() {
        let all = all();
        let of = |operation| all.iter().filter(|one| one.operation == operation).count();
        assert_eq!(Operation::ALL.map(of), [10, 5, 8, 5, 3]);
    }

    #[test]
    fn every_batch_carries_its_tag_and_its_quotes() {
        for one in all().iter().filter(|one| one.operation != Operation::Reindex) {
            let batch = one.batch(&one.tag("1a2b", "base"), (7, 9));
            assert!(batch.starts_with("EXEC sp_executesql N'/*tdekit 1a2b base "), "{batch}");
            assert!(batch.ends_with("@a = 7, @b = 9") && batch.matches('\'').count() % 2 == 0);
        }
    }
}
