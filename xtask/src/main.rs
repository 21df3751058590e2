//! The workspace's own commands, which `make` calls; see README.md.

mod attack;
mod book;
mod check;
mod crate_tests;
mod directory;
mod documents;
mod drivers;
mod fips;
mod full;
mod fuzz;
mod interop;
mod mtr;
mod mysql;
mod package;
mod plane;
mod process;
mod reach;
mod room;
mod s3_server;
mod setup;
mod setup_services;
mod shipped;
mod sqlite_suite;
mod suite;
mod tally;
mod tiers;
mod times;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::interop::Choice;
use crate::plane::Plane;
use crate::s3_server::S3Server;
use crate::setup::Purpose;
use crate::suite::Suite;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The workspace's own commands")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the system packages that are missing.
    Setup {
        /// What is to be done with the machine.
        #[arg(long, value_enum, default_value = "test")]
        purpose: Purpose,
    },
    /// Format, rules, lints, documents and unit tests; every warning is an error.
    Check {
        /// Leave the tests out, for when they run next anyway.
        #[arg(long)]
        no_tests: bool,
    },
    /// The rules of ARCHITECTURE.md that a compiler does not know.
    Tidy,
    /// Build all that is shipped in release.
    Build,
    /// Set up, build, and run the short form of every test, README's commands, and one real client
    /// an interface.
    Test {
        /// Only the crates' own tests of one plane, without set-up or servers.
        plane: Option<Plane>,
        /// Everything in its full form; what passes is recorded in .ci/full.
        #[arg(long, conflicts_with = "plane")]
        all: bool,
        /// With --all: only this suite; may be given repeatedly.
        #[arg(long, value_name = "SUITE", value_parser = suite::named, requires = "all")]
        only: Vec<Suite>,
    },
    /// Run in full the suites that have changed since their last full run, as far as the time of
    /// a landing goes.
    Land {
        /// How many seconds the landing has taken before.
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        spent: u64,
    },
    /// Run the interop programs against an encrypted database, and the packages' databases.
    Interop {
        /// Only the one with this name.
        name: Option<String>,
        /// Without encryption: checks the programs themselves.
        #[arg(long)]
        plain: bool,
        /// Run the programs in this directory and build none.
        #[arg(long)]
        built: Option<PathBuf>,
    },
    /// Attack the command's verdicts: damage what stands around each part, stop commands midway.
    Attack {
        /// For how long, such as 90s, 10m or 1h.
        #[arg(long = "for", default_value = "10m", value_name = "TIME")]
        time: String,
        /// Only attacks whose names hold this.
        #[arg(long)]
        only: Option<String>,
        /// Attack the programs in this directory and build none.
        #[arg(long)]
        built: Option<PathBuf>,
    },
    /// Run every command of README.md and docs/*.md as it is written, in an empty home.
    Documents {
        /// Only the one with this name, such as `backup.md`.
        name: Option<String>,
        /// Run the programs in this directory and build none.
        #[arg(long)]
        built: Option<PathBuf>,
    },
    /// Run a command beside the S3 server of the tests, told of it by the environment.
    S3 {
        /// Also set what clients of S3 take, such as AWS_ENDPOINT_URL: for commands, not for tests.
        #[arg(long)]
        client: bool,
        /// The command, such as `cargo test -p tdekit-backup-run`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command beside a MySQL server with a keyring, of Debian's unstable suite, which is
    /// unpacked and not installed. `{url}` in the command is its address, as is TDEKIT_MYSQL_URL.
    Mysql {
        /// Without a keyring: the server encrypts no table.
        #[arg(long)]
        without_keyring: bool,
        /// The command, such as `tdekit bench --target {url}`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Run the encryption suite of Debian's mariadb-test, or MySQL's of keyrings, with our library
    /// in the place of the server's own, and tell what differs from what is known.
    Mtr(mtr::Arguments),
    /// Make a book of the documents, with a search, in `target/book`.
    Book,
    /// Make packages of the shipped programs, or make them and prove each in an empty environment.
    Package(package::Arguments),
    /// Run SQLite's own tests with every database encrypted, and tell what differs from what is
    /// known.
    SqliteSuite(sqlite_suite::Arguments),
    /// Build on AWS-LC's FIPS module, or prove such a build.
    Fips {
        /// What is done.
        #[command(subcommand)]
        action: fips::Action,
    },
    /// Fuzz one target, or each in turn; needs nightly Rust and cargo-fuzz.
    Fuzz {
        /// The target's name.
        target: Option<String>,
        /// How long each target runs.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    match process::find_root().and_then(|_| run(task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup { purpose } => setup::setup(purpose),
        Task::Check { no_tests } => check::check(!no_tests),
        Task::Tidy => check::tidy(),
        Task::Build => {
            setup::setup(Purpose::Build)?;
            shipped::release().map(|built| println!("built: {}", built.display()))
        }
        Task::Test { all: true, only, .. } => tiers::all(&only),
        Task::Test { plane: None, .. } => tiers::test(),
        Task::Test { plane: Some(plane), .. } => tiers::plane(plane),
        Task::Land { spent } => tiers::land(Duration::from_secs(spent)),
        Task::Interop { name, plain, built } => {
            if !plain {
                shipped::use_built(built.as_deref())?;
            }
            let choice = name.as_deref().map_or(Choice::All, Choice::Named);
            interop::interop(choice, plain)?.close()
        }
        Task::Attack { time, only, built } => {
            shipped::use_built(built.as_deref())?;
            attack::attack(&time, only.as_deref())
        }
        Task::Documents { name, built } => {
            shipped::use_built(built.as_deref())?;
            documents::documents(name.as_deref())?.close()
        }
        Task::S3 { client, command } => beside_s3(&command, client),
        Task::Mysql { without_keyring, command } => mysql::beside_mysql(&command, !without_keyring),
        Task::Mtr(arguments) => mtr::mtr(&arguments),
        Task::Book => book::make().map(|to| println!("{}", to.join("index.html").display())),
        Task::Package(arguments) => package::package(&arguments),
        Task::SqliteSuite(arguments) => sqlite_suite::sqlite_suite(&arguments),
        Task::Fips { action } => fips::fips(&action),
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
    }
}

fn beside_s3(words: &[String], client: bool) -> Result<()> {
    let server = S3Server::start()?;
    let (program, arguments) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(server.environment());
    if client {
        command.envs(server.client_environment());
    }
    process::run(&mut command)
}
