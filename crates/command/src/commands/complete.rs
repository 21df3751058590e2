//! What completes words in a shell: its script runs this command again, with the words so far.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueEnum, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter,
};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use tdekit_console::output;
use tdekit_key_store::{KeyStore, default_dir};
use tdekit_sqlite_page::header::is_encrypted;

use super::program;
use crate::error::CommandError;

const NAME: &str = "tdekit";
/// Variable in which a shell's script names the shell.
const VARIABLE: &str = "_TDEKIT_COMPLETE";
/// Variable with the number of the word that is completed; fish completes the last one.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// A file of $fpath completes by itself when it is first used.
const ZSH_FIRST_USE: &str = "\
if [ \"$funcstack[1]\" = \"_tdekit\" ]; then
    _clap_dynamic_completer_tdekit \"$@\"
fi
";

/// A shell that completes words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Completer {
    /// For ~/.local/share/bash-completion/completions/tdekit
    Bash,
    /// For _tdekit in a directory of $fpath
    Zsh,
    /// For ~/.config/fish/completions/tdekit.fish
    Fish,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Completer,
}

/// Prints a shell's script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CommandError> {
    Ok(output::line(script_for(args.shell)?.trim_end())?)
}

/// Answers a shell's script about the words of `command`, and ends the process; does nothing in any
/// other process.
pub(crate) fn answer(command: fn() -> Command) {
    if env::var_os(VARIABLE).is_none() {
        return;
    }
    let words: Vec<OsString> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = env::var(INDEX).ok().and_then(|index| index.parse().ok());
    let index: usize = index.unwrap_or(words.len().saturating_sub(1));
    if index > 1 && words.get(1).is_some_and(|word| word == "bench") {
        // Where it is not installed there is nothing to complete.
        let _ = program::complete_bench(&words[2..], (INDEX, index - 1));
    }
    CompleteEnv::with_factory(|| with_values(command())).var(VARIABLE).complete();
}

fn script_for(shell: Completer) -> Result<String, CommandError> {
    let (completer, more): (&dyn EnvCompleter, &str) = match shell {
        Completer::Bash => (&Bash, ""),
        Completer::Zsh => (&Zsh, ZSH_FIRST_USE),
        Completer::Fish => (&Fish, ""),
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned() + more)
}

/// Adds what completes the values of arguments, by their names.
fn with_values(command: Command) -> Command {
    let is_restore = command.get_name() == "restore";
    let complete = |argument: Arg| match argument.get_id().as_str() {
        "certificate" | "sign" | "signed_by" => argument.add(ArgValueCandidates::new(certificates)),
        // That of a restore is a name in the backup.
        "database" if is_restore => argument,
        "database" => {
            let databases = PathCompleter::any().filter(is_database);
            argument.add(ArgValueCompleter::new(databases))
        }
        "media" | "to" => argument.value_hint(ValueHint::AnyPath),
        _ => argument,
    };
    command.mut_args(complete).mut_subcommands(with_values)
}

/// Returns the certificates of the key store that the line names, or of the environment's.
fn certificates() -> Vec<CompletionCandidate> {
    let Some(dir) = store_of(env::args_os()).or_else(|| default_dir().ok()) else {
        return Vec::new();
    };
    let Ok(store) = KeyStore::open(&dir) else { return Vec::new() };
    let mut names: Vec<_> = store.certificates().iter().map(|known| known.name.clone()).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn store_of(words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut words = words.skip_while(|word| word != "--store").skip(1);
    words.next().map(PathBuf::from)
}

/// Returns true for a plain or encrypted SQLite database.
fn is_database(path: &Path) -> bool {
    let mut start = [0; SQLITE_MAGIC.len()];
    let is_file = path.metadata().is_ok_and(|facts| facts.is_file());
    let read = is_file && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    read && (start == SQLITE_MAGIC || is_encrypted(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_runs_the_command() {
        for shell in Completer::value_variants() {
            let script = script_for(*shell).unwrap();
            assert!(script.contains(VARIABLE) && script.contains(" -- "), "{script}");
        }
    }

    #[test]
    fn the_line_names_the_key_store() {
        let of = |line: &str| store_of(line.split(' ').map(OsString::from));
        assert_eq!(of("tdekit -- tdekit --store /k encrypt"), Some(PathBuf::from("/k")));
        assert_eq!(of("tdekit -- tdekit encrypt"), None);
    }

    #[test]
    fn databases_are_known_by_their_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content, wanted) in [
            ("plain.db", SQLITE_MAGIC, true),
            ("sealed", b"tdekit database\0", true),
            ("short.db", b"SQLite", false),
            ("other.db", b"something else here", false),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_database(&path), wanted, "{name}");
        }
        assert!(!is_database(dir.path()));
    }
}
