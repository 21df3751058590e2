//! The workspace's own commands. `make` is a door to them; see README.md.

mod attack;
mod beside;
mod check;
mod crate_tests;
mod documents;
mod fips;
mod fuzz;
mod interop;
mod mtr;
mod mysql;
mod package;
mod plane;
mod process;
mod release;
mod room;
mod s3_server;
mod setup;
mod setup_services;
mod sqlite_suite;
mod tally;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use crate::beside::Beside;
use crate::plane::Plane;
use crate::s3_server::S3Server;
use crate::setup::Purpose;

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
    /// Set up, build, and run every test: the crates' own, attacks, documents, interop programs.
    Test {
        /// Only the crates' own tests of one plane, without set-up or servers.
        plane: Option<Plane>,
    },
    /// Build in release and run `tdekit bench`, on the embedded default or on what is given.
    Bench {
        /// Passed to `tdekit bench`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the interop programs against an encrypted database, and the packages' databases.
    Interop {
        /// Only the one with this name.
        name: Option<String>,
        /// Without encryption: checks the programs themselves.
        #[arg(long)]
        plain: bool,
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
    /// Run the encryption suite of Debian's mariadb-test with the plugin in the place of the
    /// server's own, and tell what differs from what is known.
    Mtr {
        /// Only these tests, such as `encryption.tempfiles`; without any the whole suite.
        tests: Vec<String>,
        /// With the server's own plugin: checks the suite itself.
        #[arg(long)]
        stock: bool,
    },
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
    match run(Arguments::parse().task) {
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
        Task::Tidy => tidy::tidy(),
        Task::Test { plane: None } => test(),
        Task::Test { plane: Some(plane) } => close(&crate_tests::cargo_test_of(plane)?),
        Task::Bench { arguments } => release::bench(&arguments),
        Task::Interop { name, plain } => {
            let tally = interop::interop(name.as_deref(), plain)?;
            close(&tally)
        }
        Task::Attack { time, only, built } => {
            attack::attack(&time, only.as_deref(), built.as_deref())
        }
        Task::Documents { name, built } => {
            close(&documents::documents(name.as_deref(), built.as_deref())?)
        }
        Task::S3 { command } => beside_s3(&command),
        Task::Mysql { without_keyring, command } => mysql::beside_mysql(&command, !without_keyring),
        Task::Mtr { tests, stock } => mtr::mtr(&tests, stock),
        Task::Package(arguments) => package::package(&arguments),
        Task::SqliteSuite(arguments) => sqlite_suite::sqlite_suite(&arguments),
        Task::Fips { action } => fips::fips(&action),
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
    }
}

fn test() -> Result<()> {
    setup::setup(Purpose::Test)?;
    room::for_tests()?;
    release::build()?;
    let server = S3Server::start()?;
    let mut tally = crate_tests::cargo_test(Some(&server))?;
    drop(server);
    tally.add(attack::short()?);
    // Commands and clients run one after the other and leave processors idle; to build does not.
    let fips = Beside::start("fips", &["fips", "test"])?;
    tally.add(documents::documents(None, None)?);
    tally.add(interop::interop(None, false)?);
    tally.add(fips.finish()?);
    close(&tally)
}

fn beside_s3(words: &[String]) -> Result<()> {
    let server = S3Server::start()?;
    let (program, arguments) = words.split_first().context("no command")?;
    process::run(Command::new(program).args(arguments).envs(server.environment()))
}

/// Prints the failures with their causes, and the closing line.
fn close(tally: &tally::Tally) -> Result<()> {
    for account in &tally.accounts {
        println!("{account}");
    }
    for name in &tally.failures {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failures.len());
    if tally.failures.is_empty() { Ok(()) } else { bail!("tests failed") }
}
