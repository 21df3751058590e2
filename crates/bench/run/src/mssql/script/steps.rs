//! A script under construction: batches, the records between them, and the end of the work after a
//! failure.
//!
//! `#tdekit` is the state of the session between batches: the names of objects that the script
//! created, and its progress.

use super::record::{Field, SESSION, expression};
use crate::sql_text::Text;

/// Creates the table for the script's state.
pub(super) const REMEMBER: &str = "CREATE TABLE #tdekit (what nvarchar(400) NOT NULL)";
/// From here on only the end is executed. A batch is checked by the next one, since an error ends
/// its own.
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

    /// Adds a batch without which the script cannot continue.
    pub(super) fn must(&mut self, batch: &str) {
        self.text.batch(batch);
        self.text.batch(GUARD);
    }

    /// Adds a record in a separate batch, after statements that determine its contents.
    pub(super) fn record(&mut self, before: &[&str], kind: &str, fields: &[Field]) {
        let step = self.next();
        let mut parts: Vec<&str> = vec![SESSION];
        parts.extend(before);
        let parts = parts.join(";\n");
        let told = expression(&step.to_string(), kind, fields);
        self.text.batch(&format!("{parts};\nSELECT {told}"));
    }

    /// Skips what follows if the script has recorded `what`, until [`again`].
    ///
    /// [`again`]: Self::again
    pub(super) fn unless(&mut self, what: &str) {
        self.text.batch(&format!("IF {} SET NOEXEC ON", remembers(what)));
    }

    /// Continues, unless something failed.
    pub(super) fn again(&mut self) {
        self.text.batch("SET NOEXEC OFF");
        self.text.batch(&format!("IF {} SET NOEXEC ON", remembers(FAILED)));
    }
}

/// Returns the condition that the script has recorded this.
pub(super) fn remembers(what: &str) -> String {
    format!("EXISTS (SELECT 1 FROM #tdekit WHERE what = N'{what}')")
}

pub(super) fn remember(what: &str) -> String {
    format!("INSERT INTO #tdekit VALUES (N'{what}')")
}

/// Returns a statement that fails the script with a message.
pub(super) fn refuse(words: &str) -> String {
    let words = words.replace('\'', "''");
    format!("BEGIN RAISERROR(N'{words}', 16, 1); {}; SET NOEXEC ON; END", remember(FAILED))
}
