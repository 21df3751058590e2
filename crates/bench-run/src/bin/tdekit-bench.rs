//! The program behind `tdekit bench`.
//!
//! It prices the command `tdekit` beside it, or what `TDEKIT_COMMAND` names, with the extension
//! that this command names, or `TDEKIT_EXTENSION`. Either may be set to nothing, for a run that
//! needs none, such as `--aa`.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use tdekit_bench_run::{BenchArgs, Tools, cli, worker_main};

/// Tell what encryption costs, on a database of yours or on one made for it
#[derive(Parser)]
#[command(name = "tdekit-bench", bin_name = "tdekit bench", version)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

fn main() -> ExitCode {
    // One side of a bench, started by the bench.
    if env::args_os().nth(1).is_some_and(|word| word == "bench-worker") {
        return worker_main().map_or_else(failed, |()| ExitCode::SUCCESS);
    }
    let cli = Cli::parse();
    let tools = match tools() {
        Ok(tools) => tools,
        Err(error) => return failed(error),
    };
    match cli::run(&cli.args, &tools) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn failed(error: std::io::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

fn tools() -> std::io::Result<Tools> {
    let worker = env::current_exe()?;
    let named = |variable| env::var_os(variable).map(PathBuf::from);
    let beside = |name| worker.with_file_name(name);
    let tdekit = named("TDEKIT_COMMAND").unwrap_or_else(|| beside("tdekit"));
    let extension = named("TDEKIT_EXTENSION")
        .or_else(|| extension_of(&tdekit))
        .unwrap_or_else(|| beside("libtdekit_sqlite.so"));
    Ok(Tools { worker, tdekit, extension })
}

/// The extension that the command names. A bench that needs one says that there is none.
fn extension_of(tdekit: &Path) -> Option<PathBuf> {
    let output = Command::new(tdekit).args(["sqlite", "path"]).output().ok()?;
    let path = output.status.success().then_some(output.stdout)?;
    Some(PathBuf::from(OsStr::from_bytes(path.trim_ascii_end())))
}
