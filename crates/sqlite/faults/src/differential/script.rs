//! Random scripts.

use crate::rng::Rng;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// SQL whose rows are compared.
    Sql(String),
    /// SQL whose rows depend on the layout of pages, so they are not compared.
    Quiet(String),
    /// VACUUM to another page size.
    Resize(u32),
    /// Close and open again.
    Reopen,
    /// Open a second connection, read-only or immutable, and read everything.
    ReadOnly {
        /// With `immutable=1`, on a file that nobody writes.
        immutable: bool,
    },
    /// Attach a new or existing database: of the same kind, or plain.
    Attach {
        /// True for a plain one, beside the encrypted main database.
        plain: bool,
    },
    /// Detach it.
    Detach,
    /// Incremental I/O on a BLOB.
    Blob {
        /// Table number.
        table: usize,
        /// Row.
        rowid: i64,
        /// Offset in the BLOB.
        offset: usize,
        /// Bytes to write; empty to read only.
        write: Vec<u8>,
    },
    /// Copy the database to a file through the backup API, some pages at a time, and compare.
    Backup {
        /// Pages per step; -1 for all.
        pages: i32,
    },
    /// Copy the last backup, or an in-memory database, over the main database.
    Restore {
        /// From a database in memory.
        memory: bool,
    },
    /// `VACUUM INTO` a new file, and read it.
    VacuumInto,
}

/// Generates the script for `seed`.
#[must_use]
pub fn script(seed: u64, length: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let page_size = 1024 << rng.below(7);
    let journal = pick(&mut rng, &["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY"]);
    let vacuum = pick(&mut rng, &["NONE", "FULL", "INCREMENTAL"]);
    let mut steps = vec![Step::Sql(format!(
        "PRAGMA page_size={page_size}; PRAGMA auto_vacuum={vacuum}; PRAGMA journal_mode={journal}; \
         PRAGMA cache_size={}",
        4 + rng.below(40)
    ))];
    if rng.percent(30) {
        // From here on SQLite keeps the page size of an empty database.
        steps.push(Step::Sql("BEGIN; CREATE TABLE undone(x); ROLLBACK".into()));
        steps.push(Step::Resize(1024 << rng.below(7)));
    }
    let first = "CREATE TABLE t0(id INTEGER PRIMARY KEY, a, b TEXT, c BLOB)";
    steps.push(Step::Sql(first.into()));
    while steps.len() < length {
        let step = step(&mut rng);
        steps.push(step);
    }
    steps
}

fn step(rng: &mut Rng) -> Step {
    let table = rng.below(3);
    match rng.below(100) {
        0..=24 => Step::Sql(insert(rng, table)),
        25..=34 => Step::Sql(format!(
            "UPDATE t{table} SET b = b || '{}', c = CASE WHEN id % 3 = 0 THEN zeroblob({}) ELSE c \
             END WHERE id % {} = {}; SELECT changes()",
            rng.below(1000),
            rng.below(6000),
            1 + rng.below(9),
            rng.below(5)
        )),
        35..=41 => Step::Sql(format!(
            "DELETE FROM t{table} WHERE id % {} = {}; SELECT changes()",
            1 + rng.below(6),
            rng.below(4)
        )),
        42..=52 => Step::Sql(query(rng, table)),
        53..=66 => Step::Sql(transaction(rng)),
        67..=74 => Step::Sql(schema(rng, table)),
        75..=83 => setting(rng),
        84..=85 => Step::Reopen,
        86 => Step::ReadOnly { immutable: rng.percent(50) },
        87..=88 => Step::Attach { plain: rng.percent(50) },
        89 => Step::Detach,
        90..=93 => {
            let write =
                if rng.percent(60) { rng.bytes(rng.clone().below(300)) } else { Vec::new() };
            let rowid = i64::try_from(1 + rng.below(60)).unwrap_or(1);
            Step::Blob { table, rowid, offset: rng.below(5000), write }
        }
        94..=95 => Step::Backup { pages: *rng.pick(&[-1, 1, 7]).unwrap_or(&-1) },
        96..=97 => Step::Restore { memory: rng.percent(40) },
        _ => Step::VacuumInto,
    }
}

fn insert(rng: &mut Rng, table: usize) -> String {
    let source = if rng.percent(15) { "side." } else { "" };
    let width = if rng.percent(20) { rng.below(20_000) } else { rng.below(400) };
    format!(
        "INSERT INTO {source}t{table}(a, b, c) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT \
         i + 1 FROM n WHERE i < {}) SELECT i * {} % 97, printf('%.*c-%d', i * 7 % {}, 'x', i), \
         CAST(printf('%.*c', {width}, char(65 + i % 26)) AS BLOB) FROM n",
        1 + rng.below(30),
        1 + rng.below(50),
        1 + rng.below(200),
    )
}

fn query(rng: &mut Rng, table: usize) -> String {
    let other = rng.below(3);
    match rng.below(7) {
        0 => format!("SELECT count(*), sum(a), total(length(c)), max(b) FROM t{table}"),
        1 => format!("SELECT * FROM t{table} ORDER BY c DESC, b, id"),
        2 => format!("SELECT x.id, y.id FROM t{table} x JOIN t{other} y USING(a) ORDER BY 1, 2"),
        3 => format!(
            "SELECT a, group_concat(id) FROM (SELECT * FROM t{table} ORDER BY id) GROUP BY a"
        ),
        4 => format!("SELECT b FROM t{table} UNION SELECT b FROM t{other} ORDER BY 1"),
        5 => format!(
            "SELECT id, quote(substr(c, {}, 40)) FROM t{table} WHERE a BETWEEN {} AND 90 \
             ORDER BY id",
            1 + rng.below(3000),
            rng.below(80)
        ),
        _ => "PRAGMA integrity_check".into(),
    }
}

fn transaction(rng: &mut Rng) -> String {
    let statements = [
        "BEGIN",
        "BEGIN",
        "BEGIN IMMEDIATE",
        "BEGIN EXCLUSIVE",
        "COMMIT",
        "COMMIT",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT one",
        "SAVEPOINT two",
        "ROLLBACK TO one",
        "RELEASE one",
        "ROLLBACK TO two",
    ];
    pick(rng, &statements).into()
}

fn schema(rng: &mut Rng, table: usize) -> String {
    match rng.below(9) {
        0..=2 => format!(
            "CREATE TABLE IF NOT EXISTS t{table}(id INTEGER PRIMARY KEY, a, b TEXT, c BLOB)"
        ),
        3 => format!("CREATE INDEX IF NOT EXISTS i{table} ON t{table}(b, a)"),
        4 => format!("CREATE UNIQUE INDEX IF NOT EXISTS u{table} ON t{table}(a, b, id)"),
        5 => format!("DROP INDEX IF EXISTS i{table}"),
        6 => format!("DROP TABLE IF EXISTS t{table}"),
        7 => format!(
            "CREATE TABLE IF NOT EXISTS side.t{table}(id INTEGER PRIMARY KEY, a, b TEXT, c BLOB)"
        ),
        _ => format!(
            "CREATE TEMP TABLE IF NOT EXISTS w AS SELECT * FROM t{table}; \
             UPDATE temp.w SET a = a + 1; \
             SELECT count(*), total(a) FROM temp.w; DROP TABLE temp.w"
        ),
    }
}

fn setting(rng: &mut Rng) -> Step {
    let journal = pick(rng, &["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY"]);
    let size = 1024_u32 << rng.below(7);
    match rng.below(14) {
        0..=2 => Step::Quiet(format!("PRAGMA journal_mode={journal}")),
        3 => Step::Sql(format!("PRAGMA cache_size={}", 1 + rng.below(60))),
        4 => Step::Quiet("PRAGMA wal_checkpoint(PASSIVE)".into()),
        5 => Step::Quiet("PRAGMA wal_checkpoint(RESTART)".into()),
        6 => Step::Quiet("PRAGMA wal_checkpoint(TRUNCATE)".into()),
        7 => Step::Quiet(format!("PRAGMA incremental_vacuum({})", rng.below(20))),
        8 => Step::Sql("VACUUM".into()),
        9 => Step::Resize(size),
        10 => Step::Sql(format!("PRAGMA auto_vacuum={}; VACUUM", rng.below(3))),
        11 => Step::Sql("PRAGMA locking_mode=EXCLUSIVE".into()),
        12 => Step::Sql("PRAGMA locking_mode=NORMAL".into()),
        _ => Step::Sql(format!(
            "PRAGMA synchronous={}; PRAGMA user_version={}; PRAGMA user_version",
            rng.below(4),
            rng.below(1000)
        )),
    }
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    rng.pick(choices).copied().unwrap_or("")
}
