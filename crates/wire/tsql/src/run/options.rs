//! SET options of a session.

use crate::value::dateparse::DateText;

/// Options that change the effect of statements.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) nocount: bool,
    /// SET STATISTICS IO and TIME.
    pub(crate) statistics_io: bool,
    pub(crate) statistics_time: bool,
    /// Kept only: it changes nothing while ANSI_WARNINGS is ON.
    pub(crate) arithignore: bool,
    pub(crate) xact_abort: bool,
    pub(crate) quoted_identifier: bool,
    pub(crate) implicit_transactions: bool,
    pub(crate) fmtonly: bool,
    pub(crate) noexec: bool,
    pub(crate) datefirst: i64,
    pub(crate) dateformat: DateText,
    /// Milliseconds; negative waits for ever.
    pub(crate) lock_timeout_ms: i64,
    pub(crate) rowcount: i64,
    pub(crate) textsize: i64,
    pub(crate) isolation: String,
    pub(crate) identity_insert: Option<IdentityInsert>,
}

/// SET IDENTITY_INSERT, while it is ON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdentityInsert {
    /// The table, as statements of SQLite name it.
    pub(crate) sql: String,
    /// Its names of the schema in SQLite, of the database, of itself.
    pub(crate) place: [String; 3],
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nocount: false,
            statistics_io: false,
            statistics_time: false,
            arithignore: false,
            xact_abort: false,
            quoted_identifier: true,
            implicit_transactions: false,
            fmtonly: false,
            noexec: false,
            datefirst: 7,
            dateformat: DateText::default(),
            lock_timeout_ms: -1,
            rowcount: 0,
            textsize: -1,
            isolation: "READ COMMITTED".to_owned(),
            identity_insert: None,
        }
    }
}
