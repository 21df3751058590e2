//! Names of the objects that a run creates on a server, and the statements that create, query and
//! drop them.

use crate::plan::Config;

/// The certificate used for encryption by the run.
pub(super) const CERTIFICATE: &str = "tdekit_bench_certificate";
/// Backups of the matrix.
pub(super) const BACKUP: &str = "tdekit_bench_backup";

/// A database of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Base,
    /// Under transparent data encryption.
    Encrypted,
    /// A second plain one, of a control run.
    Control,
    /// The database into which backups are restored.
    Restored,
}

impl Database {
    pub(super) const ALL: [Self; 4] = [Self::Base, Self::Encrypted, Self::Control, Self::Restored];

    /// Returns those that a run fills: a matrix of backups needs only the plain one.
    pub(super) fn of_run(config: &Config) -> Vec<Self> {
        let second = if config.given.basics.aa { Self::Control } else { Self::Encrypted };
        let sides = config.experiments.operations || config.experiments.crud;
        std::iter::once(Self::Base).chain(sides.then_some(second)).collect()
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Encrypted => "encrypted",
            Self::Control => "control",
            Self::Restored => "restored",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Base => "tdekit_bench_base",
            Self::Encrypted => "tdekit_bench_encrypted",
            Self::Control => "tdekit_bench_control",
            Self::Restored => "tdekit_bench_restored",
        }
    }

    pub(super) fn create(self) -> String {
        format!("CREATE DATABASE {}", self.name())
    }

    pub(super) fn drop(self) -> String {
        format!("DROP DATABASE {}", self.name())
    }

    /// Returns a statement that ends the sessions of others, after a refused DROP.
    pub(super) fn take(self) -> String {
        format!("ALTER DATABASE {} SET SINGLE_USER WITH ROLLBACK IMMEDIATE", self.name())
    }

    pub(super) fn r#use(self) -> String {
        format!("USE {}", self.name())
    }

    pub(super) fn forget_history(self) -> String {
        format!(
            "EXEC msdb.dbo.sp_delete_database_backuphistory @database_name = N'{}'",
            self.name()
        )
    }

    /// Returns a query for its encryption, as 0 or 1.
    pub(super) fn is_encrypted(self) -> String {
        let name = self.name();
        format!("SELECT CONVERT(int, is_encrypted) FROM sys.databases WHERE name = N'{name}'")
    }
}

pub(super) const LEAVE: &str = "USE master";
pub(super) const FACTS: &str = "SELECT CONVERT(nvarchar(400), @@VERSION), \
    CONVERT(nvarchar(200), SERVERPROPERTY('Edition')), \
    CONVERT(nvarchar(200), SERVERPROPERTY('ProductVersion'))";
pub(super) const ROOM: &str = "SELECT CONVERT(bigint, MIN(v.available_bytes)) \
    FROM sys.master_files AS f CROSS APPLY sys.dm_os_volume_stats(f.database_id, f.file_id) AS v \
    WHERE f.database_id = 1";
pub(super) const MASTER_KEYS: &str =
    "SELECT COUNT(*) FROM master.sys.symmetric_keys WHERE name = N'##MS_DatabaseMasterKey##'";
/// Databases with a key: name, state and percent of the scan.
pub(super) const STATES: &str = "SELECT CONVERT(nvarchar(128), DB_NAME(database_id)), \
    CONVERT(int, encryption_state), CONVERT(int, percent_complete) \
    FROM sys.dm_database_encryption_keys";
/// This session's CPU (ms), logical reads, writes, reads and elapsed time (ms).
pub(super) const SESSION: &str = "SELECT CONVERT(bigint, cpu_time) AS cpu, \
    CONVERT(bigint, logical_reads) AS asked, CONVERT(bigint, writes) AS written, \
    CONVERT(bigint, reads) AS fetched, CONVERT(bigint, total_elapsed_time) AS elapsed \
    FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
/// Number of other running statements of this program.
pub(super) const OTHERS: &str = "SELECT COUNT(*) FROM sys.dm_exec_requests AS r \
    JOIN sys.dm_exec_sessions AS s ON s.session_id = r.session_id \
    WHERE s.program_name = APP_NAME() AND s.session_id <> @@SPID";
/// Number of pages of a session's current database; not every server and login has both views.
pub(super) const PAGES: [&str; 2] = [
    "SELECT SUM(CONVERT(bigint, size)) FROM sys.database_files",
    "SELECT SUM(CONVERT(bigint, size)) FROM sys.master_files WHERE database_id = DB_ID()",
];
/// Clears the buffers of the whole server.
pub(super) const COLD: [&str; 2] = ["CHECKPOINT", "DBCC DROPCLEANBUFFERS"];
pub(super) const DROP_CERTIFICATE: &str = "DROP CERTIFICATE tdekit_bench_certificate";
pub(super) const DROP_MASTER_KEY: &str = "DROP MASTER KEY";
pub(super) const CREATE_CERTIFICATE: &str =
    "CREATE CERTIFICATE tdekit_bench_certificate WITH SUBJECT = N'tdekit bench'";
/// State of a database whose scan is finished.
pub(super) const SCANNED: i64 = 3;
pub(super) const ENCRYPT: &str = "ALTER DATABASE tdekit_bench_encrypted SET ENCRYPTION ON";

/// Returns a query for those of the run's databases that exist already.
pub(super) fn taken_databases() -> String {
    let names: Vec<String> =
        Database::ALL.iter().map(|database| format!("N'{}'", database.name())).collect();
    let names = names.join(", ");
    format!("SELECT CONVERT(nvarchar(128), name) FROM sys.databases WHERE name IN ({names})")
}

pub(super) fn taken_certificate() -> String {
    format!(
        "SELECT CONVERT(nvarchar(128), name) FROM master.sys.certificates \
         WHERE name = N'{CERTIFICATE}'"
    )
}

pub(super) fn create_master_key(password: &str) -> String {
    format!("CREATE MASTER KEY ENCRYPTION BY PASSWORD = N'{password}'")
}

/// A master key with an unknown password, generated within the server.
pub(super) const CREATE_OWN_MASTER_KEY: &str = "DECLARE @sql nvarchar(400) = \
    N'CREATE MASTER KEY ENCRYPTION BY PASSWORD = N''Aa1-' + CONVERT(nvarchar(36), NEWID()) + \
    CONVERT(nvarchar(36), NEWID()) + N''''; EXEC (@sql)";

/// Executed in the database itself.
pub(super) fn create_database_key(algorithm: &str) -> String {
    format!(
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = {algorithm} \
         ENCRYPTION BY SERVER CERTIFICATE {CERTIFICATE}"
    )
}

/// Returns a query for counters by the text of statements: those that contain a tag with this
/// prefix.
pub(super) fn query_stats(tag: &str) -> String {
    query_stats_like(&format!("N'%/*tdekit {tag} %'"))
}

/// The same, with `pattern` as the expression with which a text is compared.
pub(super) fn query_stats_like(pattern: &str) -> String {
    format!(
        "SELECT CONVERT(nvarchar(60), SUBSTRING(t.text, CHARINDEX(N'/*tdekit ', t.text), 60)) \
         AS tag, CONVERT(bigint, q.total_worker_time) AS cpu, \
         CONVERT(bigint, q.total_logical_reads) AS asked, \
         CONVERT(bigint, q.total_logical_writes) AS written, \
         CONVERT(bigint, q.total_physical_reads) AS fetched, \
         CONVERT(bigint, q.total_elapsed_time) AS elapsed, \
         CONVERT(bigint, q.execution_count) AS executions \
         FROM sys.dm_exec_query_stats AS q CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS t \
         WHERE t.text LIKE {pattern} AND t.text NOT LIKE N'%dm_exec_query_stats%'"
    )
}

/// A full backup that replaces an existing one.
pub(super) fn backup(
    database: Database,
    path: &str,
    compressed: bool,
    cipher: Option<&str>,
) -> String {
    let compression = if compressed { "COMPRESSION" } else { "NO_COMPRESSION" };
    let encryption = cipher.map_or_else(String::new, |cipher| {
        format!(", ENCRYPTION (ALGORITHM = {cipher}, SERVER CERTIFICATE = {CERTIFICATE})")
    });
    let name = database.name();
    format!(
        "BACKUP DATABASE {name} TO DISK = N'{path}' WITH FORMAT, INIT, {compression}{encryption}"
    )
}

pub(super) fn verify(path: &str) -> String {
    format!("RESTORE VERIFYONLY FROM DISK = N'{path}'")
}

/// Files of the plain database: name within it, and path on the server.
pub(super) const FILES: &str = "SELECT CONVERT(nvarchar(128), name), \
    CONVERT(nvarchar(260), physical_name) FROM tdekit_bench_base.sys.database_files";

/// Restores a backup of the plain database as another one, whose files have the paths in `moves`.
pub(super) fn restore(path: &str, moves: &[(String, String)]) -> String {
    let name = Database::Restored.name();
    let quoted = |text: &str| text.replace('\'', "''");
    let moved = moves
        .iter()
        .map(|(file, to)| format!("MOVE N'{}' TO N'{}'", quoted(file), quoted(to)))
        .collect::<Vec<_>>()
        .join(", ");
    let with = if moves.is_empty() { String::new() } else { format!(" WITH {moved}") };
    format!("RESTORE DATABASE {name} FROM DISK = N'{path}'{with}")
}

/// Returns the path of a file of the plain database when restored: beside it, under another name.
pub(super) fn moved(path: &str) -> String {
    let at = path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let (directory, file) = path.split_at(at);
    let (own, other) = (Database::Base.name(), Database::Restored.name());
    match file.contains(own) {
        true => format!("{directory}{}", file.replace(own, other)),
        false => format!("{directory}{other}_{file}"),
    }
}

/// The last backup's size, size on the medium, duration in ms, algorithm and kind of encryptor.
pub(super) fn history(database: Database) -> String {
    format!(
        "SELECT TOP (1) CONVERT(bigint, backup_size), CONVERT(bigint, compressed_backup_size), \
         CONVERT(bigint, DATEDIFF(millisecond, backup_start_date, backup_finish_date)), \
         CONVERT(nvarchar(32), key_algorithm), CONVERT(nvarchar(32), encryptor_type) \
         FROM msdb.dbo.backupset WHERE database_name = N'{}' ORDER BY backup_set_id DESC",
        database.name()
    )
}

/// Removes a backup's file, if the server has the procedure and the login has the permission.
pub(super) fn delete_file(path: &str) -> String {
    format!("EXEC master.sys.xp_delete_file 0, N'{path}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_files_lie_beside_their_own() {
        for (path, wanted) in [
            ("/data/tdekit_bench_base.mdf", "/data/tdekit_bench_restored.mdf"),
            ("D:\\d\\tdekit_bench_base_log.ldf", "D:\\d\\tdekit_bench_restored_log.ldf"),
            ("/tdekit_bench_base/x.mdf", "/tdekit_bench_base/tdekit_bench_restored_x.mdf"),
            ("x", "tdekit_bench_restored_x"),
        ] {
            assert_eq!(moved(path), wanted);
        }
        assert_eq!(
            restore(
                "a.bak",
                &[("it's".to_owned(), "/d/x".to_owned()), ("l".to_owned(), "y".to_owned())]
            ),
            "RESTORE DATABASE tdekit_bench_restored FROM DISK = N'a.bak' WITH MOVE N'it''s' TO \
             N'/d/x', MOVE N'l' TO N'y'"
        );
        assert!(restore("a.bak", &[]).ends_with("N'a.bak'"));
    }
}
