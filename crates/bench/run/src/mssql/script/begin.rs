//! Begin and end of a script, and the databases in between.

use super::super::data;
use super::super::home::{TEMPDB, announcement};
use super::super::names::{
    self, COLD, CREATE_CERTIFICATE, CREATE_OWN_MASTER_KEY, DROP_CERTIFICATE, DROP_MASTER_KEY,
    Database, ENCRYPT, LEAVE, MASTER_KEYS, PAGES, ROOM, SCANNED, SESSION as COUNTERS,
};
use super::record::{Field, SESSION, expression, hashing};
use super::steps::{REMEMBER, Steps, refuse, remember, remembers};
use super::{WARM_ONLY, WHOLE, kind, name};
use crate::command::shell_line;
use crate::plan::Config;

/// Maximum number of characters of a reported fact.
const FACT_CHARACTERS: u32 = 100;
/// Default of the space that a run may use.
const USUAL_BYTES: u64 = 1_000_000_000;
/// Error for a server without enough space.
const TOO_LITTLE: u32 = 50_002;
/// Number of checks of a scan in a second.
const LOOKS: u64 = 5;
const MASTER_KEY: &str = "master key";
const CERTIFICATE: &str = "certificate";

/// Returns the options that reproduce the same script, and with which its output is read.
pub(super) fn options(config: &Config) -> Vec<(&'static str, String)> {
    let basics = &config.given.basics;
    let mut options = vec![
        ("--experiment", "operations".to_owned()),
        ("--rows", config.rows.to_string()),
        ("--restarts", config.restarts.to_string()),
        ("--pairs", config.pairs.to_string()),
        ("--seed", basics.seed.to_string()),
        ("--algorithm", basics.algorithm().to_owned()),
        ("--scan-time", config.mssql.bounds.scan_s.to_string()),
    ];
    let needed = config.mssql.bounds.needed_bytes(config.rows);
    options.extend((needed > USUAL_BYTES).then(|| ("--max-size", needed.to_string())));
    options.extend(basics.aa.then(|| ("--aa", String::new())));
    options.extend(config.mssql.bounds.warm_only.then(|| ("--warm-only", String::new())));
    let directories = config.mssql.bounds.directories.iter();
    options.extend(directories.map(|directory| ("--server-dir", directory.clone())));
    options
}

/// Returns the command line of a script.
pub(super) fn command_line(options: &[(impl AsRef<str>, String)]) -> String {
    let words = ["tdekit", "bench", "mssql-script"].map(str::to_owned).into_iter();
    let given = options.iter().flat_map(|(name, value)| [name.as_ref().to_owned(), value.clone()]);
    shell_line(words.chain(given.filter(|word| !word.is_empty())))
}

/// Writes the introduction for the reader.
pub(super) fn header(steps: &mut Steps, config: &Config, options: &[(&'static str, String)]) {
    let text = &mut steps.text;
    text.comment(&format!(
        "What encryption costs on this SQL Server: a script of tdekit {}, made by\n  {}\n\
         Run it as it is, and bring back its output, which `tdekit bench import` reads:\n  \
         sqlcmd -S SERVER -i run.sql -o result.txt\n  tdekit bench import result.txt\n\
         Not with -b: an error ends the work then, but not the script, which drops what it made.\n",
        config.version,
        command_line(options)
    ));
    text.comment(&announcement(config, "this server", 1));
    text.comment(
        "Where one of these names is there already, it makes nothing. It needs a login of the role \
         sysadmin.\n\
         Two files of these databases' names lie among the server's backups meanwhile. In the end \
         they are removed, as far as the server lets xp_delete_file: look whether they are gone.\n\
         Where the session is ended from outside, these remove what is left, each where it is \
         there:",
    );
    for database in databases(config) {
        text.comment(&format!("  {};", database.drop()));
    }
    for database in databases(config) {
        for path in config.mssql.bounds.backup_files(database.name()).iter().take(1) {
            text.comment(&format!("  {};", names::delete_file(path)));
        }
    }
    if !config.given.basics.aa {
        text.comment(&format!("  {LEAVE}; {DROP_CERTIFICATE};"));
        text.comment(&format!("  {DROP_MASTER_KEY}; -- only where there was none before"));
    }
}

/// Returns the databases of the script, base first.
pub(super) fn databases(config: &Config) -> [Database; 2] {
    let second = if config.given.basics.aa { Database::Control } else { Database::Encrypted };
    [Database::Base, second]
}

/// Writes the part that records the server's properties and permissions, and stops if an object is
/// in the way.
pub(super) fn begin(steps: &mut Steps, config: &Config) {
    steps.text.part("What the server is");
    let rest = "LEFT(REPLACE(REPLACE(REPLACE(@v, CHAR(13), ''), CHAR(9), ' '), CHAR(10), ' ')";
    for (named, sql) in [
        (name::VERSION, "LEFT(@@VERSION, CHARINDEX(CHAR(10), @@VERSION + CHAR(10)) - 1)"),
        (name::EDITION, "SERVERPROPERTY('Edition')"),
        (name::PRODUCT, "SERVERPROPERTY('ProductVersion')"),
    ] {
        let read = format!("DECLARE @v varchar(800) = CONVERT(varchar(800), {sql})");
        let short = format!("SET @v = RTRIM({rest}, {FACT_CHARACTERS}))");
        let hashed = hashing("@v", "@h", "@i");
        let told = [Field::of(named), Field::Word { variable: "@v", hash: "@h" }];
        steps.record(&[&read, &short, &lines(&hashed)], kind::FACT, &told);
    }
    let ours = "DECLARE @v bigint = CASE WHEN @@VERSION LIKE '%tdekit%' THEN 1 ELSE 0 END";
    steps.record(&[ours], kind::FACT, &[Field::of(name::OURS), Field::Number("@v".to_owned())]);

    steps.text.part("Whether the names are free, and the room is there");
    let taken = [names::taken_databases(), names::taken_certificate()];
    let taken = taken.map(|sql| format!("EXISTS ({sql})")).join(" OR ");
    let words = "tdekit: a database or a certificate of these names is there already. A run that \
                 was ended may have left it, and the head of the script has what drops it.";
    steps.must(&lines(&format!("IF {taken} {}", refuse(words))));
    let needed = config.mssql.bounds.needed_bytes(config.rows);
    let words = format!("tdekit: the server has less room than the {needed} bytes that it takes.");
    // As a separate text, since not every server has the view.
    let looked = format!("IF ({ROOM}) < {needed} THROW {TOO_LITTLE}, N'too little', 1");
    steps.must(&lines(&format!(
        "BEGIN TRY EXEC (N'{}'); END TRY BEGIN CATCH IF ERROR_NUMBER() = {TOO_LITTLE} {} \
         ELSE PRINT N'tdekit: whether there is room is not told'; END CATCH",
        looked.replace('\'', "''"),
        refuse(&words)
    )));

    steps.text.part("What the login may");
    let tried = format!("SELECT @n = COUNT(*) FROM ({}) AS q", names::query_stats("none"));
    let tried = format!("DECLARE @n int; {tried}");
    may(steps, name::STATISTICS, &tried, None);
    if !config.given.basics.aa {
        let looked = "DECLARE @n int; SELECT @n = COUNT(*) FROM sys.dm_database_encryption_keys";
        may(steps, name::SCAN, looked, None);
    }
    if !config.mssql.bounds.warm_only {
        may(steps, name::COLD, &COLD.join("; "), Some(WARM_ONLY));
    }
}

/// Returns a statement split into lines.
fn lines(sql: &str) -> String {
    sql.replace("; ", ";\n")
}

/// Tries a statement, and reports the result.
fn may(steps: &mut Steps, named: &str, sql: &str, otherwise: Option<&str>) {
    let otherwise = otherwise.map_or_else(String::new, |what| format!("{}; ", remember(what)));
    let tried = format!(
        "DECLARE @e bigint = 0; BEGIN TRY {sql}; END TRY BEGIN CATCH SET @e = ERROR_NUMBER(); \
         {otherwise}END CATCH"
    );
    let told = [Field::of(named), Field::Number("@e".to_owned())];
    steps.record(&[&lines(&tried)], kind::MAY, &told);
}

/// Records the session, and its settings.
pub(super) fn settle(steps: &mut Steps) {
    steps.text.part("How the session is set, and what it remembers");
    steps.text.batch("SET NOCOUNT ON; SET QUOTED_IDENTIFIER ON; SET NOEXEC OFF");
    steps.text.batch(LEAVE);
    steps.must(REMEMBER);
}

/// Keys under which a database is encrypted.
pub(super) fn keys(steps: &mut Steps) {
    steps.text.part("Keys; the master key only where there is none");
    steps.must(&lines(&format!(
        "IF ({MASTER_KEYS}) = 0 BEGIN {}; {CREATE_OWN_MASTER_KEY}; END",
        remember(MASTER_KEY)
    )));
    steps.must(&lines(&format!("{}; {CREATE_CERTIFICATE}", remember(CERTIFICATE))));
}

/// Recreates a database, with the rows for `seed`.
pub(super) fn make(
    steps: &mut Steps,
    config: &Config,
    database: Database,
    (seed, first): (u64, bool),
) {
    let named = database.name();
    steps.text.part(&format!("The database {named}, anew"));
    steps.text.batch(LEAVE);
    if first {
        steps.must(&remember(named));
    } else {
        steps.must(&dropping(database));
    }
    steps.must(&database.create());
    steps.must(&database.r#use());
    for sql in data::statements(config.rows, seed, (&[], None)) {
        steps.must(&sql);
    }
    steps.must(&lines(&marking()));
    steps.must(&lines(&counting()));
    if database == Database::Encrypted {
        encrypt(steps, config);
    }
    let (wanted, is) = (u32::from(database == Database::Encrypted), database.is_encrypted());
    let words = format!("tdekit: is_encrypted of {named} is not {wanted}.");
    steps.must(&format!("IF ISNULL(({is}), 9) <> {wanted} {}", refuse(&words)));
    if database == Database::Base && first {
        let read = format!("DECLARE @p bigint = ISNULL(({}), 0)", PAGES[1]);
        steps.record(&[&read], kind::PAGES, &[Field::Number("@p".to_owned())]);
    }
}

/// Encrypts the database, and waits until its scan is finished.
fn encrypt(steps: &mut Steps, config: &Config) {
    steps.must(&names::create_database_key(config.given.basics.algorithm()));
    steps.text.batch(LEAVE);
    steps.must(ENCRYPT);
    let state = |column: &str| {
        format!(
            "SELECT CONVERT(int, {column}) FROM sys.dm_database_encryption_keys \
             WHERE database_id = DB_ID(N'{}')",
            Database::Encrypted.name()
        )
    };
    let (scan, percent) = (state("encryption_state"), state("percent_complete"));
    let limit_s = config.mssql.bounds.scan_s;
    let limit = limit_s * LOOKS;
    steps.must(&lines(&format!(
        "DECLARE @left int = {limit}, @scan int = 0, @percent int = 0; \
         BEGIN TRY WHILE @left > 0 AND @scan <> {SCANNED} BEGIN \
         SELECT @scan = ISNULL(({scan}), 0), @percent = ISNULL(({percent}), 0); \
         IF @scan <> {SCANNED} WAITFOR DELAY '00:00:00.200'; SET @left -= 1; END; END TRY \
         BEGIN CATCH SET @scan = {SCANNED}; PRINT N'tdekit: the scan may not be looked at'; \
         END CATCH; IF @scan <> {SCANNED} RAISERROR(N'tdekit: encrypting takes longer than \
         {limit_s} s, and is at %d percent.', 16, 1, @percent)"
    )));
}

/// The procedure that reports the session's counters.
fn marking() -> String {
    let fields = ["@c", "@a", "@w", "@f", "@e", "@t"].map(|one| Field::Number(one.to_owned()));
    format!(
        "CREATE PROCEDURE dbo.Mark @n bigint AS BEGIN SET NOCOUNT ON; {SESSION}; \
         DECLARE @c bigint, @a bigint, @w bigint, @f bigint, @e bigint, @t bigint; \
         SELECT @c = q.cpu, @a = q.asked, @w = q.written, @f = q.fetched, @e = q.elapsed \
         FROM ({COUNTERS}) AS q; \
         SET @t = DATEDIFF_BIG(microsecond, '20200101', SYSUTCDATETIME()); \
         SELECT {}; END",
        expression("@n", kind::MARK, &fields)
    )
}

/// The procedure that reports the server's counters by the text of statements. The plans of the
/// whole server are searched once.
fn counting() -> String {
    let columns = ["cpu", "asked", "written", "fetched", "elapsed", "executions"];
    let of = |name: &str| Field::Number(format!("c.{name}"));
    let fields = ["i", "executions", "cpu", "asked", "written", "fetched", "elapsed"].map(of);
    let told = expression("@n", kind::COUNT, &fields);
    let each = |shown: fn(&str) -> String| columns.map(shown).join(", ");
    let declared = each(|name| format!("{name} bigint"));
    let sums = each(|name| format!("ISNULL(SUM(q.{name}), 0) AS {name}"));
    let indexes = (0..10).map(|index| format!("({index})")).collect::<Vec<_>>().join(", ");
    let found = names::query_stats_like("N'%/*tdekit ' + @tag + N' %'");
    format!(
        "CREATE PROCEDURE dbo.Counts @n bigint, @tag nvarchar(60), @count int AS BEGIN \
         SET NOCOUNT ON; {SESSION}; DECLARE @q TABLE (tag nvarchar(60), {declared}); \
         BEGIN TRY INSERT INTO @q (tag, {}) {found}; END TRY BEGIN CATCH \
         PRINT N'tdekit: sys.dm_exec_query_stats may not be read'; END CATCH; \
         SELECT {told} FROM (SELECT v.i AS i, {sums} FROM (VALUES {indexes}) AS v (i) \
         LEFT JOIN @q AS q ON q.tag LIKE N'/*tdekit ' + @tag + N' ' + \
         RIGHT('0' + CONVERT(varchar(2), v.i), 2) + N' %' WHERE v.i < @count GROUP BY v.i) AS c \
         ORDER BY c.i; END",
        columns.join(", ")
    )
}

/// Drops a database, even if it is in use.
fn dropping(database: Database) -> String {
    let (drop, take) = (database.drop(), database.take());
    format!("BEGIN TRY {drop}; END TRY BEGIN CATCH EXEC (N'{take}'); {drop}; END CATCH")
}

/// Drops everything, and reports what remains.
pub(super) fn end(
    steps: &mut Steps,
    config: &Config,
    ((all, cold), files): ((u64, u64), &[String]),
) {
    let measured = steps.last();
    steps.text.batch(&remember(WHOLE));
    steps.text.part("The end, after failures too: all that was made is dropped");
    steps.text.batch("SET NOEXEC OFF");
    steps.text.batch(LEAVE);
    for database in databases(config).into_iter().rev() {
        let named = database.name();
        let there = format!("DB_ID(N'{named}') IS NOT NULL");
        let forget = format!("BEGIN TRY {}; END TRY BEGIN CATCH", database.forget_history());
        let forget = format!("{forget} PRINT N'tdekit: the history of backups is kept'; END CATCH");
        let drop = format!("{}; {forget}", dropping(database));
        remove(steps, (named, named, &database.drop()), (&drop, Some(&there)));
    }
    for path in files {
        let file = format!("file {path}");
        let told = (file.as_str(), file.as_str(), "delete the file");
        remove(steps, told, (&names::delete_file(path), None));
    }
    if !config.given.basics.aa {
        let there = format!("EXISTS ({})", names::taken_certificate());
        let told = (CERTIFICATE, names::CERTIFICATE, DROP_CERTIFICATE);
        remove(steps, told, (DROP_CERTIFICATE, Some(&there)));
        let there = format!("({MASTER_KEYS}) > 0");
        let told = (MASTER_KEY, MASTER_KEY, DROP_MASTER_KEY);
        remove(steps, told, (DROP_MASTER_KEY, Some(&there)));
    }
    let whole = format!("DECLARE @w bigint = CASE WHEN {} THEN 1 ELSE 0 END", remembers(WHOLE));
    let mut told = vec![Field::Number("@w".to_owned())];
    told.extend([all, cold, measured, steps.last() + 1].map(Field::of));
    steps.record(&[&whole], kind::END, &told);
    steps.text.batch("DROP TABLE #tdekit");
    steps.text.comment(&format!("{TEMPDB} A start of the server ends that."));
}

/// Removes a recorded object, and reports if it remains: if it exists afterwards, or, if that is
/// unknown, if its removal failed.
fn remove(
    steps: &mut Steps,
    (remembered, shown, how): (&str, &str, &str),
    (sql, there): (&str, Option<&str>),
) {
    let (is_made, is_there) = (remembers(remembered), there.unwrap_or("1 = 1"));
    let removed = format!(
        "DECLARE @l bigint = 0; IF {is_made} AND {is_there} BEGIN BEGIN TRY {sql}; END TRY \
         BEGIN CATCH SET @l = 1; PRINT ERROR_MESSAGE(); END CATCH; END"
    );
    let looked =
        there.map(|there| format!("SET @l = CASE WHEN {is_made} AND {there} THEN 1 ELSE 0 END"));
    let removed = lines(&removed);
    let before: Vec<&str> = std::iter::once(removed.as_str()).chain(looked.as_deref()).collect();
    let told = [Field::of(shown), Field::of(how), Field::Number("@l".to_owned())];
    steps.record(&before, kind::LEFT, &told);
}
