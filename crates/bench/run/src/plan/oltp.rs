//! Options of the OLTP workloads, and their defaults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tdekit_private_mariadb::Programs;

use tdekit_bench_work::Workload;

use super::given::{Given, each_once};
use crate::address::{Protocol, ServerUrl};
use crate::directory::DirectoryPeer;
use crate::error::{BenchError, NO_MYSQL, Result};
use crate::peers::{Peer, PeerLibrary};
use crate::server_options::{ServerOptions, Trust};

/// Threads of the source are 1, 8, 16, 32, 64, 128, 256; the default keeps the run short.
const THREADS: [u32; 3] = [1, 8, 32];
// Below: with `--quick`, and by default.
/// Rows of each table: together some 150 MB, more than twice the default buffer pool.
const ROWS: (u64, u64) = (20_000, 150_000);
const RESTARTS: (u32, u32) = (2, 4);
/// Seconds of measuring; preparing comes on top.
const MAX_TIME_S: (u64, u64) = (20, 220);
/// Blocks are as long as the time allows, within these limits.
const BLOCK_S: std::ops::RangeInclusive<f64> = 1.0..=10.0;
/// Default of the maximum number of connections to an existing server.
const MAX_CONNECTIONS: u32 = 64;
/// Size of a row of sysbench's tables with its index, on disk, in bytes.
pub(crate) const ROW_BYTES: u64 = 270;
/// Approximate size of a run's logs.
const LOG_BYTES: u64 = 64 << 20;
/// Environment variable with the directory of a MySQL server.
const MYSQL_VARIABLE: &str = "TDEKIT_MYSQL_DIR";
/// Its usual installation directories.
const MYSQL_PLACES: [&str; 2] = ["/usr", "/usr/local/mysql"];
/// Overhead of a block besides its duration: connecting, preparing statements, ending.
const BLOCK_EXTRA_S: f64 = 0.5;

/// The workloads to run: options, and from [`OltpPlan::filled`] on every default.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of --experiment oltp")]
pub(crate) struct OltpPlan {
    /// The target: `sqlite`; `mariadb`, private servers started from the system's packages; or
    /// a server that is there, `mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE`, or one that speaks
    /// SQL Server's protocol, `mssql://USER[:PASSWORD]@HOST[:PORT][/DATABASE]`; see
    /// --login-password-file.
    #[arg(long, default_value = "sqlite", value_parser = TargetParser)]
    pub(crate) target: OltpTarget,
    /// A workload of sysbench, `full_scan` (a cold scan of every table) or `all`. May be repeated,
    /// or parted by commas. Default: point select, read write, write only, update index.
    #[arg(long, value_delimiter = ',', value_parser = workloads())]
    workload: Vec<Workloads>,
    #[arg(skip)]
    pub(crate) workloads: Vec<Workload>,
    /// Threads, or on SQLite processes, parted by commas. Default: 1,8,32.
    #[arg(long, value_delimiter = ',', default_values_t = THREADS, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) threads: Vec<u32>,
    /// Tables, of --rows rows each. Default: 4 of 150,000 rows, with --quick of 20,000.
    #[arg(long, default_value_t = 4, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) tables: u32,
    #[arg(skip)]
    pub(crate) rows: u64,
    /// Length of a block. Default: what --max-time allows, 1 to 10.
    #[arg(long = "block-time", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    block_s: Option<u32>,
    /// Buffer pool of the servers, MiB. Default: 64, with --quick 16.
    #[arg(long = "buffer-pool", value_name = "MIB", default_value = "64",
          default_value_if("quick", "true", "16"), hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(5..=1_000_000))]
    pub(crate) buffer_pool_mib: u32,
    /// Write a binary log, on the encrypted sides an encrypted one.
    #[arg(long)]
    pub(crate) binlog: bool,
    /// A further option of all private servers, such as `innodb-io-capacity=2000`. May be repeated.
    #[arg(long = "server-option", value_name = "NAME=VALUE", value_parser = server_option)]
    pub(crate) server_options: Vec<String>,
    /// Key plugins of MariaDB, by the cipher.
    #[arg(skip)]
    pub(crate) plugins: Vec<&'static str>,
    #[arg(skip)]
    pub(crate) mysql: Option<MysqlPeer>,
    /// Base against base again.
    #[arg(skip)]
    pub(crate) control: bool,
    /// So many thousandths more statements of the second side's transactions than are counted.
    #[arg(skip)]
    pub(crate) inject: Option<u64>,
    /// Whose certificate a server that is there may have; none for plain connections.
    #[arg(skip)]
    pub(crate) trust: Option<Trust>,
    /// Transactions a second, all threads together, where they follow a schedule.
    #[arg(skip)]
    pub(crate) rate: Option<u64>,
    #[arg(skip)]
    pub(crate) restarts: u32,
    #[arg(skip)]
    pub(crate) pairs: u32,
    #[arg(skip)]
    pub(crate) max_time: Duration,
}

/// Parses one line of an option file.
fn server_option(text: &str) -> Result<String, String> {
    let name = text.split('=').next().unwrap_or("");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(plain) && !text.contains(['\n', '\r']) {
        Ok(text.to_owned())
    } else {
        Err("expected NAME=VALUE on one line".to_owned())
    }
}

/// The engine for the workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OltpTarget {
    Sqlite,
    MariaDb,
    Server(ServerUrl),
    /// For messages only.
    SqlServer(ServerUrl),
}

/// Parses a target, without echoing an invalid one: it may contain a password.
#[derive(Clone)]
struct TargetParser;

impl TypedValueParser for TargetParser {
    type Value = OltpTarget;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<OltpTarget, clap::Error> {
        let text = value.to_str().ok_or_else(|| "expected UTF-8".to_owned());
        text.and_then(str::parse).map_err(|reason| {
            let words = format!("invalid value for '--target <TARGET>': {reason}\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, words).with_cmd(command)
        })
    }
}

impl std::str::FromStr for OltpTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "mariadb" => Ok(Self::MariaDb),
            _ if text.contains("://") => text.parse().map(|url: ServerUrl| match url.protocol {
                Protocol::Mysql => Self::Server(url),
                Protocol::Mssql => Self::SqlServer(url),
            }),
            _ => Err("expected sqlite, mariadb, mysql://USER@HOST/DATABASE or mssql://USER@HOST"
                .to_owned()),
        }
    }
}

/// Workloads unless others are chosen.
const USUAL: [Workload; 4] =
    [Workload::PointSelect, Workload::ReadWrite, Workload::WriteOnly, Workload::UpdateIndex];

/// The value of a `--workload`: one, or all.
type Workloads = Vec<Workload>;

fn workloads() -> impl TypedValueParser<Value = Workloads> {
    let names = Workload::ALL.map(Workload::name).into_iter().chain(["all"]);
    PossibleValuesParser::new(names).map(|name| {
        let named = |workload: &Workload| name == "all" || name == workload.name();
        Workload::ALL.into_iter().filter(named).collect()
    })
}

/// Ciphers of the server's own key plugin, as the plugin's option
/// `file_key_management_encryption_algorithm` names them.
const PLUGIN_CIPHERS: [&str; 2] = ["AES_CBC", "AES_CTR"];

/// The value of a `--peer`: a SQLite library, a key plugin of MariaDB, MySQL, or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnyPeer {
    Library(Peer),
    /// By the cipher.
    Plugins(&'static [&'static str]),
    Mysql(MysqlPeer),
    Directory(DirectoryPeer),
}

/// MySQL's server, in the directory that was named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MysqlPeer {
    root: Option<PathBuf>,
    /// Also with tdekit's keyring component.
    pub(crate) tdekit: bool,
}

impl MysqlPeer {
    /// `mysql`, `mysql:DIR`, `mysql-tdekit`, `mysql-tdekit:DIR`; `None` for anything else.
    fn parse(text: &str) -> Option<Result<Self, String>> {
        let (name, root) = match text.split_once(':') {
            Some((name, root)) => (name, Some(root)),
            None => (text, None),
        };
        let tdekit = match name {
            "mysql" => false,
            "mysql-tdekit" => true,
            _ => return None,
        };
        if root == Some("") {
            return Some(Err(format!("expected {name}:DIR")));
        }
        Some(Ok(Self { root: root.map(PathBuf::from), tdekit }))
    }

    /// Returns the server: in the directory that was named, else that of the environment, else
    /// where it is installed.
    pub(crate) fn programs(&self) -> Result<Programs> {
        let named = || std::env::var_os(MYSQL_VARIABLE).filter(|value| !value.is_empty());
        if let Some(root) = self.root.clone().or_else(|| named().map(PathBuf::from)) {
            return Ok(Programs::mysql(&root)?);
        }
        let mut found = MYSQL_PLACES.iter().map(|root| Programs::mysql(Path::new(root)));
        found.find_map(std::result::Result::ok).ok_or_else(|| BenchError::ToolMissing {
            name: "MySQL's server".to_owned(),
            remedy: NO_MYSQL.to_owned(),
        })
    }
}

impl std::str::FromStr for AnyPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(peer) = MysqlPeer::parse(text) {
            return peer.map(Self::Mysql);
        }
        if let Some(path) = text.strip_prefix("directory:") {
            return path.parse().map(Self::Directory);
        }
        match text.strip_prefix("file_key_management") {
            Some("") => Ok(Self::Plugins(&PLUGIN_CIPHERS)),
            Some(":cbc") => Ok(Self::Plugins(&PLUGIN_CIPHERS[..1])),
            Some(":ctr") => Ok(Self::Plugins(&PLUGIN_CIPHERS[1..])),
            Some(_) => Err("file_key_management has the ciphers `cbc` and `ctr`".to_owned()),
            None if PeerLibrary::is_named(text) => text.parse().map(Self::Library),
            None => Err(format!(
                "expected one of {}, file_key_management, mysql, mysql-tdekit and directory:PATH",
                PeerLibrary::names()
            )),
        }
    }
}

impl AnyPeer {
    /// Returns the SQLite library, if it is one.
    pub(crate) fn library(&self) -> Option<Peer> {
        match self {
            Self::Library(peer) => Some(peer.clone()),
            Self::Plugins(_) | Self::Mysql(_) | Self::Directory(_) => None,
        }
    }

    /// Returns the directory, if it is one.
    pub(crate) fn directory(&self) -> Option<DirectoryPeer> {
        match self {
            Self::Directory(peer) => Some(peer.clone()),
            _ => None,
        }
    }

    fn plugins(&self) -> &[&'static str] {
        match self {
            Self::Plugins(plugins) => plugins,
            _ => &[],
        }
    }

    fn mysql(&self) -> Option<&MysqlPeer> {
        match self {
            Self::Mysql(peer) => Some(peer),
            _ => None,
        }
    }
}

impl OltpPlan {
    /// Returns true if a server is the target, on which no other experiment runs.
    pub(crate) fn on_server(&self) -> bool {
        self.target != OltpTarget::Sqlite
    }

    /// Returns true if it is an existing server.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.target, OltpTarget::Server(_) | OltpTarget::SqlServer(_))
    }

    /// Returns a server with SQL Server's protocol, if one is the target.
    pub(crate) fn sql_server(&self) -> Option<&ServerUrl> {
        match &self.target {
            OltpTarget::SqlServer(url) => Some(url),
            _ => None,
        }
    }

    /// Returns the plan with every default filled in. A run on an existing server is limited to
    /// what `server` permits.
    pub(crate) fn filled(
        &self,
        given: &Given,
        peers: &[AnyPeer],
        server: &ServerOptions,
    ) -> Result<Self> {
        let mut workloads = each_once(self.workload.iter().flatten().copied());
        if workloads.is_empty() {
            workloads = USUAL.to_vec();
        }
        let mut threads = each_once(self.threads.iter().copied());
        threads.sort_unstable();
        let plugins = each_once(peers.iter().flat_map(AnyPeer::plugins).copied());
        let refuse = |option, reason| Err(BenchError::option(option, reason));
        let mysql = peers.iter().find_map(AnyPeer::mysql).cloned();
        if self.target != OltpTarget::MariaDb && (!plugins.is_empty() || mysql.is_some()) {
            return refuse("--peer", "file_key_management and mysql need --target mariadb");
        }
        let embedded = |peer| matches!(peer, &AnyPeer::Library(_) | &AnyPeer::Directory(_));
        if self.on_server() && peers.iter().any(embedded) {
            return refuse(
                "--peer",
                "a SQLite library or a directory cannot be a peer of a server",
            );
        }
        if self.target != OltpTarget::MariaDb && (self.binlog || !self.server_options.is_empty()) {
            return refuse("--server-option", "there is no private server to give it to");
        }
        let mut found = Self {
            workloads,
            threads,
            rows: given.basics.rows.unwrap_or(given.basics.by_quick(ROWS)),
            plugins,
            mysql,
            rate: given.rate,
            control: given.basics.aa,
            restarts: given.first_stage().unwrap_or(given.basics.by_quick(RESTARTS)),
            pairs: given.basics.pairs.unwrap_or(1),
            max_time: given.max_time(MAX_TIME_S),
            ..self.clone()
        };
        found.come_to(server)?;
        Ok(found)
    }

    /// Returns the plan with this many thousandths more work on the second side, if sysbench
    /// supports it: statements of the transaction that has their number as an option.
    ///
    /// # Errors
    /// For other workloads, and for fractions of a hundredth.
    pub(crate) fn injected(self, asked: Option<u64>) -> Result<Self> {
        let by_sysbench = matches!(self.target, OltpTarget::MariaDb | OltpTarget::Server(_));
        let Some(more) = asked.filter(|_| by_sysbench) else { return Ok(self) };
        if self.workloads != [Workload::ReadOnly] || !more.is_multiple_of(10) {
            let reason = "sysbench adds whole hundredths, to --workload oltp_read_only alone";
            return Err(BenchError::option("--inject", reason));
        }
        Ok(Self { inject: Some(more), ..self })
    }

    /// If the target is an existing MySQL server: checks that the run stays within its limits, and
    /// obtains the password.
    fn come_to(&mut self, server: &ServerOptions) -> Result<()> {
        let (most, needed_bytes) = (self.most_threads(), self.needed_bytes());
        let OltpTarget::Server(url) = &mut self.target else { return Ok(()) };
        let allowed = server.max_connections(MAX_CONNECTIONS);
        if most > allowed {
            let reason = format!(
                "{most} threads are as many connections, and {allowed} are allowed: fewer \
                 --threads, or more --max-connections"
            );
            return Err(BenchError::option("--max-connections", reason));
        }
        server.room.check(self.rows, needed_bytes)?;
        self.trust = server.mysql_trust(url);
        // A dry run needs none.
        if !server.dry_run {
            let password = server.password(url)?;
            url.set_password(password)?;
        }
        Ok(())
    }

    /// Returns the maximum number of threads, each of which is a connection.
    pub(crate) fn most_threads(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    /// Returns the approximate space that the run needs on an existing server: two sets of tables,
    /// a table that is being copied, and logs.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let tables = 2 * u64::from(self.tables) + 1;
        let rows = tables.saturating_mul(self.rows).saturating_mul(ROW_BYTES);
        rows.saturating_add(LOG_BYTES)
    }

    /// Returns the duration of a block in seconds, chosen so that all restarts end in the given
    /// time.
    pub(crate) fn block_s(&self, cells: usize, sides: usize) -> f64 {
        if let Some(seconds) = self.block_s {
            return f64::from(seconds);
        }
        let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let blocks = count(cells) * count(sides) * f64::from(self.restarts * self.pairs);
        let each = self.max_time.as_secs_f64() / blocks.max(1.0) - BLOCK_EXTRA_S;
        // Sysbench takes whole seconds.
        each.floor().clamp(*BLOCK_S.start(), *BLOCK_S.end())
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
        plan: OltpPlan,
    }

    fn plan(words: &[&str], peers: &[&str]) -> Result<OltpPlan, String> {
        let peers: Vec<AnyPeer> =
            peers.iter().map(|peer| peer.parse()).collect::<Result<_, String>>()?;
        let words: Words = parsed(words).map_err(|error| error.to_string())?;
        let found = words.plan.filled(&parsed(&[]).unwrap(), &peers, &words.server);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn a_target_that_cannot_be_read_is_not_told() {
        for wrong in ["mysql://b:Secret@h:99999/app", "mysql://b:Secret@h", "mssql:/b:Secret@h"] {
            let told = plan(&["--target", wrong], &[]).unwrap_err();
            assert!(told.contains("--target") && !told.contains("Secret"), "{told}");
        }
    }

    #[test]
    fn the_documents_run_is_one_line() {
        let line = "--target mariadb --workload oltp_read_write --threads 256,1,8,16,32,64,128";
        let words: Vec<&str> = line.split(' ').collect();
        let found = plan(&words, &["file_key_management"]).unwrap();
        assert_eq!(found.threads, [1, 8, 16, 32, 64, 128, 256]);
        assert_eq!(found.workloads, [Workload::ReadWrite]);
        assert_eq!(found.plugins, PLUGIN_CIPHERS);
        assert_eq!(found.buffer_pool_mib, 64);
    }

    #[test]
    fn all_workloads_are_the_eight_and_the_scan() {
        let found = plan(&["--target", "mariadb", "--workload", "all,oltp_insert"], &[]).unwrap();
        assert_eq!(found.workloads.len(), 9);
        assert_eq!(plan(&[], &[]).unwrap().workloads, USUAL);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (words, peers) in [
            (&["--target", "mariadb"][..], &["sqlcipher"][..]),
            (&[][..], &["file_key_management"][..]),
            (&["--target", "mariadb"][..], &["file_key_management:gcm"][..]),
            (&[][..], &["mysql"][..]),
            (&["--target", "mysql://me:p@h/d"][..], &["mysql:/d"][..]),
            (&["--target", "mariadb"][..], &["directory:/tmp"][..]),
            (&[][..], &["directory:"][..]),
            (&["--target", "mariadb"][..], &["mysql:"][..]),
            (&["--target", "mariadb"][..], &["mysql-tdekit:"][..]),
            (&["--target", "mariadb"][..], &["mysql-other"][..]),
            (&["--target", "postgres"][..], &[][..]),
            (&["--workload", "tpcc"][..], &[][..]),
            (&["--threads", "0"][..], &[][..]),
            (&["--binlog"][..], &[][..]),
            (&["--target", "mariadb", "--server-option", "a\nb"][..], &[][..]),
        ] {
            assert!(plan(words, peers).is_err(), "{words:?} {peers:?}");
        }
    }

    #[test]
    fn a_misspelt_peer_is_told_the_known_ones() {
        let told = "sqlcypher".parse::<AnyPeer>().unwrap_err();
        for name in ["sqlcipher", "sqlite3mc-wheel", "file_key_management", "directory:PATH"] {
            assert!(told.contains(name), "{told}");
        }
        let cipher = "sqlite3mc:rot13".parse::<AnyPeer>().unwrap_err();
        assert!(cipher.contains("chacha20"), "{cipher}");
    }

    #[test]
    fn blocks_fill_the_time() {
        let mut found = plan(&["--target", "mariadb"], &[]).unwrap();
        // 12 cells, 2 sides, 4 restarts in 220 s.
        assert!((found.block_s(12, 2) - 1.0).abs() < 1e-9);
        assert!((found.block_s(3, 2) - 8.0).abs() < 1e-9);
        assert!((found.block_s(1, 2) - 10.0).abs() < 1e-9);
        found.block_s = Some(30);
        assert!((found.block_s(12, 2) - 30.0).abs() < 1e-9);
    }
    #[test]
    fn what_a_server_is_asked_for_is_bounded() {
        let on = |words: &str| {
            let words = format!("--target mysql://me:p@h/d {words}");
            plan(&words.split(' ').collect::<Vec<_>>(), &[])
        };
        assert_eq!(on("--threads 64,1").unwrap().most_threads(), 64);
        let refused = on("--threads 1,65").unwrap_err();
        assert!(refused.contains("65 threads are as many connections"), "{refused}");
        assert!(on("--threads 256 --max-connections 256").is_ok());
        // Nine tables' worth of 150,000 rows.
        assert_eq!(on("--tables 4").unwrap().needed_bytes(), 9 * 150_000 * 270 + (64 << 20));
        assert!(on("--tables 20").unwrap_err().contains("--max-size"));
        assert!(on("--tables 20 --max-size 4GB").is_ok());
        // Private servers are limited by the machine alone.
        assert!(plan(&["--target", "mariadb", "--threads", "900"], &[]).is_ok());
    }
}
