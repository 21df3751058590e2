//! The manual pages of the bench, which `tdekit man-pages` has written for packages, and the
//! completion of its words in a shell.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Cli;

/// Variable in which a shell's script for `tdekit` names the shell.
const COMPLETE_VARIABLE: &str = "_TDEKIT_COMPLETE";

const PEERS: [&str; 7] = [
    "sqlcipher",
    "sqlite3mc",
    "sqlite3mc-wheel",
    "directory:",
    "file_key_management",
    "mysql",
    "mysql-tdekit",
];

/// What each example does, and its line.
const EXAMPLES: &[(&str, &str)] = &[
    ("What does encryption cost on this database?", "tdekit bench app.db"),
    ("What do my own statements cost?", "tdekit bench app.db --script my.sql"),
    ("In half a minute to a minute, with less certainty", "tdekit bench --quick app.db"),
    ("Has the cost changed since the run before?", "tdekit bench compare"),
    ("Beside SQLCipher", "tdekit bench app.db --peer sqlcipher"),
    ("What does a backup cost?", "tdekit bench --experiment backup"),
];

/// Completes words, or writes the manual pages, if that is asked for. Returns the exit code.
pub(super) fn answer() -> Option<ExitCode> {
    CompleteEnv::with_factory(Cli::command).var(COMPLETE_VARIABLE).complete();
    let mut words = std::env::args_os().skip(1);
    let directory = words.next().filter(|word| word == "man-pages").and(words.next())?;
    Some(match write_pages(Cli::command(), directory.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Returns what a shell completes `--peer` with.
pub(super) fn peer_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| PEERS.into_iter().map(CompletionCandidate::new).collect())
}

/// Writes `tdekit-bench.1` and a page for each command below it into `directory`.
///
/// # Errors
/// When a page cannot be written.
fn write_pages(command: Command, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(&command, true, directory)
}

fn write_page(command: &Command, is_top: bool, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_page(below, false, directory)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut more = Roff::new();
    if is_top {
        more.control("SH", ["EXAMPLES"]);
        for (about, line) in EXAMPLES {
            more.control("TP", []).text([roman(format!("{about}:"))]);
            more.control("nf", []).text([bold(*line)]).control("fi", []);
        }
    }
    more.control("SH", ["SEE ALSO"]);
    let other = if is_top { "tdekit-overview" } else { "tdekit-bench" };
    more.text([bold("tdekit"), roman("(1), "), bold(other), roman("(1)")]);
    more.to_writer(&mut page)?;
    fs::write(directory.join(man.get_filename()), page)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_have_the_options() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(Cli::command(), dir.path()).unwrap();
        let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let bench = page("tdekit-bench.1");
        for wanted in ["\\-\\-experiment", ".SH EXAMPLES", "SEE ALSO", "tdekit bench compare"] {
            assert!(bench.contains(wanted), "{wanted}: {bench}");
        }
        assert!(page("tdekit-bench-compare.1").contains("SEE ALSO"));
        for (_, line) in EXAMPLES {
            let words = line.split(' ').skip(1);
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
        }
    }
}
