//! A process of the kill suite: does one job on one database, until it is done or killed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tdekit_faults_sqlite::crowd::{self, Work};
use tdekit_faults_sqlite::error::{Error, Result};
use tdekit_faults_sqlite::ffi::process::{Side, exit_now, fork, wait};
use tdekit_faults_sqlite::top::Top;

const USAGE: &str = "faults-child plain|tdekit JOB|fork PATH JOURNAL SYNCHRONOUS \
                     WRITER MILLISECONDS";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let [top, job, path, journal, synchronous, writer, time_ms] = arguments else {
        return Err(Error::Setup(USAGE.into()));
    };
    let top = match top.as_str() {
        "plain" => Top::Plain,
        "tdekit" => Top::Tdekit,
        "fresh" => Top::Fresh,
        _ => return Err(Error::Setup(USAGE.into())),
    };
    let number = |text: &str| text.parse().map_err(|_| Error::Setup(USAGE.into()));
    let path = PathBuf::from(path);
    let time = Duration::from_millis(u64::try_from(number(time_ms)?).unwrap_or(0));
    let writer: i64 = number(writer)?;
    if job == "fork" {
        return forked(top, &path, journal);
    }
    let work = Work { top, path: &path, modes: (journal, synchronous), writer, time };
    work.run(job, std::io::stdout().lock())
}

/// Opens the database, forks, and writes in both processes: each to the shared database, and each
/// to a new one of its own (PATH-parent, PATH-child).
fn forked(top: Top, path: &std::path::Path, journal: &str) -> Result<()> {
    // The keys are in memory, and so is any randomness that was drawn ahead.
    crowd::verify(top, path, &[])?;
    let own = |side: &str| PathBuf::from(format!("{}-{side}", path.display()));
    let work = |side: &str, writer: i64| -> Result<()> {
        let time = Duration::from_millis(150);
        crowd::write(top, path, (journal, "NORMAL"), writer, time, std::io::sink())?;
        crowd::create(top, &own(side), journal, 4096)?;
        crowd::write(top, &own(side), (journal, "NORMAL"), 1, time, std::io::sink())
    };
    match fork()? {
        Side::Child => match work("child", 1) {
            Ok(()) => exit_now(0),
            Err(error) => {
                eprintln!("error: in the child: {error}");
                exit_now(1)
            }
        },
        Side::Parent(child) => {
            let mine = work("parent", 2);
            match wait(child)? {
                Some(0) => mine,
                other => Err(Error::Broken(format!("the forked child ended with {other:?}"))),
            }
        }
    }
}
