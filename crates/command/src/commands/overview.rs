//! `tdekit overview`: the state of all databases, on one screen.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use tdekit_backup_run::Catalog;
use tdekit_console::{ConsoleError, GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_key_store::{Unlocked, now_seconds, overview_config};

use crate::commands::status::lazy_store;
use crate::error::CommandError;
use crate::overview::cost::Costs;
use crate::overview::estate::{Estate, Sources};
use crate::overview::rules::{Ages, Level, Rules};
use crate::overview::{metrics, page, text};
use crate::when::{parse_age, parse_length};

/// Arguments of `overview`.
#[derive(Debug, Args)]
pub(crate) struct OverviewArgs {
    /// Directories, with all databases in and below them, or databases [default: `paths` of the
    /// table overview in config.toml]
    path: Vec<PathBuf>,
    /// The oldest that a database's key may be [default: 1y]
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_key_age: Option<String>,
    /// The oldest that a database's newest backup may be [default: 7d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_backup_age: Option<String>,
    /// The oldest that the last verification of a backup may be [default: 30d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_verify_age: Option<String>,
    /// Results of `tdekit bench` on these databases; may be given repeatedly
    #[arg(long, value_name = "FILE")]
    costs: Vec<PathBuf>,
    /// Only what is not in order
    #[arg(long)]
    quiet: bool,
    /// Show it again and again, at this interval, until Ctrl-C
    #[arg(long, value_name = "INTERVAL", value_parser = parse_length, num_args = 0..=1,
          default_missing_value = "60s", conflicts_with_all = ["json", "prometheus", "html"])]
    watch: Option<Duration>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["prometheus", "html"])]
    json: bool,
    /// Print metrics, for node_exporter's textfile collector
    #[arg(long, conflicts_with = "html")]
    prometheus: bool,
    /// Print a page for an auditor
    #[arg(long)]
    html: bool,
    /// Write metrics or page into this file, at once or not at all
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Checks an age and keeps its text.
fn age(text: &str) -> Result<String, String> {
    parse_age(text).map(|_| text.to_owned())
}

/// Runs the command. It never prompts, needs no key and changes nothing.
pub(crate) fn run(args: &OverviewArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    if args.output.is_some() && !args.prometheus && !args.html {
        return Err(CommandError::usage("--output goes with --prometheus or --html"));
    }
    let Some(interval) = args.watch else {
        let estate = look(args, global)?;
        show(&estate, args)?;
        return refuse(&estate);
    };
    let (stop, stopped) = mpsc::channel();
    let handler = ctrlc::set_handler(move || {
        let _ended = stop.send(());
    });
    handler.map_err(|error| CommandError::usage(error.to_string()))?;
    loop {
        let estate = look(args, global)?;
        if std::io::stdout().is_terminal() {
            // Clears the screen; the scrollback stays.
            write!(std::io::stdout(), "\x1b[H\x1b[2J")?;
        }
        show(&estate, args)?;
        match stopped.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) if !output::reader_is_gone() => {}
            _ => return refuse(&estate),
        }
    }
}

fn look(args: &OverviewArgs, global: &GlobalArgs) -> Result<Estate, CommandError> {
    let dir = session::store_dir(global)?;
    let config = overview_config(&dir)?;
    let paths = match args.path.is_empty() {
        true => config.paths.clone(),
        false => args.path.clone(),
    };
    if paths.is_empty() {
        return Err(CommandError::usage(
            "name directories or databases, or `paths` under [overview] in config.toml",
        ));
    }
    for path in &paths {
        std::fs::metadata(path)
            .map_err(|error| CommandError::io("examine", path.clone(), error))?;
    }
    // Evidence and metrics are read in other places.
    let paths = match args.html || args.prometheus {
        true => paths.iter().map(std::path::absolute).collect::<Result<_, _>>()?,
        false => paths,
    };
    let ages = Ages {
        key: args.max_key_age.as_deref(),
        backup: args.max_backup_age.as_deref(),
        verify: args.max_verify_age.as_deref(),
    };
    let rules = Rules::new(&ages, &config)?;
    let mut costs = Costs::default();
    let mut missing = Vec::new();
    for path in config.costs.iter().chain(&args.costs) {
        missing.extend(costs.add(path).err());
    }
    // Nothing is opened, so no key is needed or requested.
    let store = lazy_store(global, no_key);
    let catalog = Catalog::open_existing(&dir).map_err(|error| error.to_string());
    let sources = Sources { store: &store, catalog, costs, now: now_seconds() };
    let mut estate = Estate::look(&paths, rules, &sources);
    if estate.databases.is_empty() && estate.servers.is_empty() {
        let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let verb = if named.len() == 1 { "holds" } else { "hold" };
        let reason = format!("{} {verb} no database that tdekit knows", named.join(", "));
        return Err(CommandError::Nothing { reason });
    }
    if !missing.is_empty() {
        estate.level = estate.level.max(Level::Warning);
    }
    estate.not_looked_at.extend(missing);
    Ok(estate)
}

/// The unlocking function for an overview's key store, which always fails.
fn no_key(_: &GlobalArgs) -> Result<Unlocked, ConsoleError> {
    Err(ConsoleError::Usage("an overview opens nothing".to_owned()))
}

fn show(estate: &Estate, args: &OverviewArgs) -> Result<(), CommandError> {
    if args.json {
        return Ok(output::json(estate)?);
    }
    let made = match (args.prometheus, args.html) {
        (true, _) => metrics::of(estate),
        (_, true) => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            page::of(estate, &host, concat!("tdekit ", env!("CARGO_PKG_VERSION")))
        }
        (false, false) => return Ok(text::print(estate, args.quiet)?),
    };
    let begin = if args.html { page::BEGIN } else { metrics::BEGIN };
    metrics::publish(args.output.as_deref(), begin, &made)
}

fn refuse(estate: &Estate) -> Result<(), CommandError> {
    if estate.level == Level::Good {
        return Ok(());
    }
    let rows = estate.databases.iter().map(|row| row.findings.len());
    let servers = estate.servers.iter().map(|server| server.findings.len());
    let findings = rows.chain(servers).sum::<usize>();
    // A key store's list that cannot be read belongs to no row.
    Err(CommandError::Findings {
        kind: Kind::Refused,
        findings: findings + usize::from(estate.list_unread),
        databases: estate.count(Level::Warning) + estate.count(Level::Bad),
    })
}
