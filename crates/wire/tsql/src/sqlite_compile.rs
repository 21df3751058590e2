//! Statements of many constants, which SQLite compiles in quadratic time otherwise.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use rusqlite::{CachedStatement, Connection, Result, ffi};

/// Texts of so many bytes may have thousands of constants.
const LONG_BYTES: usize = 32 * 1024;
/// The optimization that computes each constant once a statement, and that compares it with every
/// other for that (`sqlite3ExprCodeRunJustOnce`). Compiling then notices no cancel. The number is
/// SQLite's own, `SQLITE_FactorOutConst` of its `sqliteInt.h`.
const FACTOR_OUT_CONSTANTS: c_uint = 0x8;

/// Compiles a statement.
pub(crate) fn prepare<'c>(connection: &'c Connection, text: &str) -> Result<CachedStatement<'c>> {
    if text.len() < LONG_BYTES {
        return connection.prepare_cached(text);
    }
    without(connection, FACTOR_OUT_CONSTANTS);
    let statement = connection.prepare_cached(text);
    without(connection, 0);
    statement
}

/// Switches optimizations of a connection off, and all others on.
fn without(connection: &Connection, optimizations: c_uint) {
    let control = ffi::SQLITE_TESTCTRL_OPTIMIZATIONS as c_int;
    // SAFETY: this control takes an open connection, which the reference vouches for, and a mask.
    unsafe { ffi::sqlite3_test_control(control, connection.handle(), optimizations) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_the_text_and_not_with_its_square() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        let text = |terms: usize| {
            let terms: Vec<String> = (0..terms).map(|term| format!("a = {term}")).collect();
            // Groups, since SQLite bounds the depth of a tree.
            let groups = terms.chunks(100).map(|group| format!("({})", group.join(" OR ")));
            let groups: Vec<String> = groups.collect();
            format!("EXPLAIN SELECT count(*) FROM t WHERE {}", groups.join(" OR "))
        };
        // A constant that is computed once is a step of its own before the loop over the rows.
        let steps = |compiled: Result<CachedStatement<'_>>| {
            let mut statement = compiled.unwrap();
            let codes = statement.query_map([], |row| row.get::<_, String>(1)).unwrap();
            let codes: Vec<String> = codes.map(Result::unwrap).collect();
            let start = codes.iter().rposition(|code| code == "Transaction").unwrap();
            codes[start..].iter().filter(|code| *code == "Integer").count()
        };
        let (short, long) = (text(10), text(5000));
        assert!(short.len() < LONG_BYTES && long.len() > LONG_BYTES);
        assert_eq!(steps(prepare(&connection, &short)), 10);
        assert_eq!(steps(prepare(&connection, &long)), 0);
        // The next statement is compiled as ever.
        assert_eq!(steps(prepare(&connection, &text(11))), 11);
    }
}
