//! A script as it grows: batches, the records between them, and what ends the work where one fails.
//!
//! `#tdekit` is what the session remembers between batches: the names of things that the script
//! made, and how far it came.

use super::record::{Field, SESSION, expression};
use crate::sql_text::Text;

/// Room for what the script remembers.
pub(super) const REMEMBER: &str = "CREATE TABLE #tdekit (what nvarchar(400) NOT NULL)";
/// From here on nothing is carried out but the end. A batch is looked at by the one behind it,
/// since an error ends its own.
const GUARD: &str =
    "IF @@ERROR <> 0 BEGIN INSERT INTO #tdekit VALUES (N'failed'); SET NOEXEC ON; END";
const FAILED: &str = "failed";

#[derive(Default)]
pub(super) struct Steps {
    pub(super) text: Text,
    last: u64,
}

impl Steps {
    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A batch without which nothing goes on.
    pub(super) fn must(&mut self, batch: &str) {
        self.text.batch(batch);
        self.text.batch(GUARD);
    }

    /// A record of its own batch, behind statements that find what it tells.
    pub(super) fn record(&mut self, before: &[&str], kind: &str, fields: &[Field]) {
        let step = self.next();
        let mut parts: Vec<&str> = vec![SESSION];
        parts.extend(before);
        let parts = parts.join(";\n");
        let told = expression(&step.to_string(), kind, fields);
        self.text.batch(&format!("{parts};\nSELECT {told}"));
    }

    /// From here on nothing is carried out where the script remembers `what`, until [`again`].
    ///
    /// [`again`]: Self::again
    pub(super) fn unless(&mut self, what: &str) {
        self.text.batch(&format!("IF {} SET NOEXEC ON", remembers(what)));
    }

    /// Goes on, unless something failed.
    pub(super) fn again(&mut self) {
        self.text.batch("SET NOEXEC OFF");
        self.text.batch(&format!("IF {} SET NOEXEC ON", remembers(FAILED)));
    }
}

/// Whether the script remembers this.
pub(super) fn remembers(what: &str) -> String {
    format!("EXISTS (SELECT 1 FROM #tdekit WHERE what = N'{what}')")
}

pub(super) fn remember(what: &str) -> String {
    format!("INSERT INTO #tdekit VALUES (N'{what}')")
}

/// What fails the script, and is told.
pub(super) fn refuse(words: &str) -> String {
    let words = words.replace('\'', "''");
    format!("BEGIN RAISERROR(N'{words}', 16, 1); {}; SET NOEXEC ON; END", remember(FAILED))
}
