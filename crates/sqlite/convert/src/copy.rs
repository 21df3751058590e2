//! Copying a database with `VACUUM INTO`, even if its schema names functions and collations that
//! only its application has.

use std::cell::RefCell;
use std::cmp::Ordering;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::error::DatabaseError;
use crate::source::Source;
use crate::target::Target;
use crate::watch::{Phase, Watch, go_on, interruptible};
use tdekit_sqlite_client::file_uri;

/// Maximum number of functions that a schema may name and we do not have.
const MAX_UNKNOWN_FUNCTIONS: usize = 1000;

thread_local! {
    /// The names with stand-ins on this thread. SQLite's callback has no user data.
    static STOOD_IN: RefCell<Unknown> = const { RefCell::new(Unknown::none()) };
}

/// Names in a schema that only the application has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Names of collations.
    pub collations: Vec<String>,
    /// Names of functions.
    pub functions: Vec<String>,
}

impl Unknown {
    const fn none() -> Self {
        Self { collations: Vec::new(), functions: Vec::new() }
    }
}

/// Copies `source` into the empty `target`; `parameters` are added to the target's URI.
pub(crate) fn copy(
    source: &Source,
    target: &Target,
    parameters: &str,
    expected_bytes: u64,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    refuse_descending_unknowns(source)?;
    stand_in_for_collations(&source.db).map_err(source.failed("prepare to copy"))?;
    let uri = format!("{}?{parameters}", file_uri(target.path()));
    let _phase = Phase::begin(watch, "copying", Some(expected_bytes));
    vacuum_into(source, target, &uri, watch)
}

/// Returns the names with stand-ins on this thread.
pub(crate) fn unknown_names() -> Unknown {
    STOOD_IN.with_borrow(Clone::clone)
}

/// Registers stand-ins for unknown collations that report that the first entry sorts before the
/// second.
///
/// The copy adopts the order of the original's index, entry by entry, and asks the collation only
/// whether the next entry belongs after the existing ones. It does.
///
/// # Errors
/// Those of SQLite.
pub fn stand_in_for_collations(db: &Connection) -> rusqlite::Result<()> {
    db.collation_needed(|db, name| {
        STOOD_IN.with_borrow_mut(|unknown| unknown.collations.push(name.to_owned()));
        db.create_collation(name, |_, _| Ordering::Less)
    })
}

fn vacuum_into(
    source: &Source,
    target: &Target,
    uri: &str,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    for _ in 0..MAX_UNKNOWN_FUNCTIONS {
        go_on(watch)?;
        let copied_bytes = || target.path().metadata().map_or(0, |copy| copy.len());
        let done = interruptible(&source.db, watch, copied_bytes, || {
            source.db.execute("VACUUM main INTO ?1", [uri])
        });
        let error = match done {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let Some(function) = unknown_function(&error) else {
            return Err(source.failed("copy")(error));
        };
        STOOD_IN.with_borrow_mut(|unknown| unknown.functions.push(function.clone()));
        stand_in_for_function(&source.db, &function).map_err(source.failed("prepare to copy"))?;
        target.empty()?;
    }
    Err(source.failed("copy")(rusqlite::Error::InvalidQuery))
}

/// Registers a stand-in for a function that a constraint, an index or a generated column names. A
/// copy never calls it: values are copied as they are stored.
fn stand_in_for_function(db: &Connection, name: &str) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let unknown = format!("no such function: {name}");
    db.create_scalar_function(name, -1, flags, move |_| -> rusqlite::Result<i64> {
        Err(rusqlite::Error::UserFunctionError(unknown.clone().into()))
    })
}

fn unknown_function(error: &rusqlite::Error) -> Option<String> {
    let (rusqlite::Error::SqliteFailure(_, Some(message))
    | rusqlite::Error::SqlInputError { msg: message, .. }) = error
    else {
        return None;
    };
    message.strip_prefix("no such function: ").map(str::to_owned)
}

/// Refuses an index in descending order by an unknown collation: SQLite reverses the result of its
/// stand-in.
fn refuse_descending_unknowns(source: &Source) -> Result<(), DatabaseError> {
    let sql = "
        SELECT x.coll
        FROM sqlite_schema t, pragma_index_list(t.name) i, pragma_index_xinfo(i.name) x
        WHERE t.type = 'table' AND t.rootpage > 0 AND x.\"desc\" AND x.key
        AND x.coll COLLATE NOCASE NOT IN (SELECT name FROM pragma_collation_list)
        LIMIT 1";
    let unknown = source.db.query_row(sql, [], |row| row.get::<_, String>(0));
    match unknown {
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
        Err(error) => Err(source.failed("read the schema of")(error)),
        Ok(name) => Err(DatabaseError::Collation { path: source.path.clone(), name }),
    }
}
