//! Options of runs on a SQL Server, and their defaults.

use std::time::Duration;

use clap::Args;
use tdekit_tds_client::Login;

use crate::error::Result;
use crate::server_options::ServerOptions;

/// Default of the maximum number of concurrent connections.
const MAX_CONNECTIONS: u32 = 16;
/// Space for a row in a database: three tables, their indexes, a copy of one and the log.
const ROW_BYTES: u64 = 2_000;

/// What a run may take of a SQL Server, driven from here or by a script.
#[derive(Debug, Clone, Args)]
pub(crate) struct Bounds {
    /// Never empty a SQL Server's buffers, which belong to all of its databases: no cold classes.
    #[arg(long)]
    pub(crate) warm_only: bool,
    /// Seconds that encrypting the run's database may take on a SQL Server, at most. A run whose
    /// database is not encrypted then is ended.
    #[arg(long = "scan-time", value_name = "SECONDS", default_value_t = 3_600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) scan_s: u64,
    /// A directory on the SQL Server for the run's backups. May be repeated. Default: the server's
    /// own.
    #[arg(long = "server-dir", value_name = "DIR", value_parser = server_directory)]
    pub(crate) directories: Vec<String>,
}

/// A run on a SQL Server: options, and from [`MssqlPlan::filled`] on where it is.
#[derive(Clone, Args)]
#[command(next_help_heading = "Options of --target mssql://")]
pub(crate) struct MssqlPlan {
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// With --aa: so many thousandths more loops of the second database's mixes than are counted.
    #[arg(long, hide = true, value_name = "PER_MILLE")]
    pub(crate) inject: Option<u64>,
    /// Where to go.
    #[arg(skip)]
    pub(crate) login: Option<Login>,
    /// Connections of the mixes.
    #[arg(skip)]
    pub(crate) connections: u32,
}

/// Parses a path that is used in a statement.
fn server_directory(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('\'') || text.chars().any(char::is_control) {
        return Err("expected a directory, without quotes".to_owned());
    }
    Ok(text.trim_end_matches(['/', '\\']).to_owned())
}

/// Without the password.
impl std::fmt::Debug for MssqlPlan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MssqlPlan").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl MssqlPlan {
    /// Returns the maximum number of concurrent connections of a run: two databases have as many
    /// each, and one more for everything else.
    pub(crate) fn at_a_time(&self) -> u32 {
        2 * (self.connections + 1)
    }

    /// Returns the plan with every default filled in.
    pub(crate) fn filled(
        &self,
        login: Option<Login>,
        server: &ServerOptions,
        (processes, rows): (u32, u64),
    ) -> Result<Self> {
        // Each of two databases has as many, and one more for everything else.
        let most = (server.max_connections(MAX_CONNECTIONS) / 2).saturating_sub(1).max(1);
        let found = Self { login, connections: processes.min(most), ..self.clone() };
        if found.login.is_some() || server.dry_run {
            server.room.check(rows, found.bounds.needed_bytes(rows))?;
        }
        Ok(found)
    }
}

impl Bounds {
    /// Returns the time limit of an encryption scan.
    pub(crate) fn scan_time(&self) -> Duration {
        Duration::from_secs(self.scan_s)
    }

    /// Returns the approximate space that the run needs on the server: two databases, and a backup
    /// of each.
    pub(crate) fn needed_bytes(&self, rows: u64) -> u64 {
        rows.saturating_mul(ROW_BYTES).saturating_mul(3).saturating_add(64 << 20)
    }

    /// Returns a backup's path on the server, by directory.
    pub(crate) fn backup_files(&self, name: &str) -> Vec<String> {
        let file = format!("{name}.bak");
        let of = |directory: &String| {
            let parted = if directory.contains('\\') { '\\' } else { '/' };
            format!("{directory}{parted}{file}")
        };
        if self.directories.is_empty() {
            return vec![file];
        }
        self.directories.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::parsed;

    #[derive(Args)]
    struct Words {
        #[command(flatten)]
        server: ServerOptions,
        #[command(flatten)]
        plan: MssqlPlan,
    }

    fn plan(words: &[&str], rows: u64) -> Result<MssqlPlan, String> {
        let words = [&["--dry-run"], words].concat();
        let words: Words = parsed(&words).map_err(|error| error.to_string())?;
        let found = words.plan.filled(None, &words.server, (10, rows));
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn the_load_is_bounded() {
        assert_eq!(plan(&[], 20_000).unwrap().connections, 7);
        assert_eq!(plan(&["--max-connections", "100"], 20_000).unwrap().connections, 10);
        assert_eq!(plan(&["--max-connections", "4"], 20_000).unwrap().connections, 1);
        assert!(plan(&["--max-size", "10MB"], 20_000).unwrap_err().contains("--max-size"));
        assert!(plan(&[], 10_000_000).is_err());
    }

    #[test]
    fn backups_lie_where_the_server_is_told() {
        assert_eq!(plan(&[], 10).unwrap().bounds.backup_files("x"), ["x.bak"]);
        let words = ["--server-dir", "/var/opt/b/", "--server-dir", "D:\\b"];
        let files = plan(&words, 10).unwrap().bounds.backup_files("x");
        assert_eq!(files, ["/var/opt/b/x.bak", "D:\\b\\x.bak"]);
        assert!(plan(&["--server-dir", "a'b"], 10).is_err());
    }
}
