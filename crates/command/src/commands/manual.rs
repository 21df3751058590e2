//! `tdekit completions` and `tdekit man-pages`: generated from the command line's definition.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::CommandError;
use tdekit_console::output;

const NAME: &str = "tdekit";

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

/// Arguments of `man-pages`.
#[derive(Debug, Args)]
pub(crate) struct ManPagesArgs {
    /// Directory that the pages go to, which is made
    directory: PathBuf,
}

/// Prints the completions.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CommandError> {
    let script = script_for(args.shell);
    Ok(output::line(String::from_utf8_lossy(&script).trim_end())?)
}

/// Writes one page per command, such as `tdekit-KEY-INIT.1`, and `tdekit.1`.
pub(crate) fn man_pages(args: &ManPagesArgs) -> Result<(), CommandError> {
    let failed = |action| move |source| CommandError::io(action, &args.directory, source);
    fs::create_dir_all(&args.directory).map_err(failed("make"))?;
    let command = Cli::command().name(NAME);
    clap_mangen::generate_to(command, &args.directory).map_err(failed("write pages to"))
}

fn script_for(shell: Completer) -> Vec<u8> {
    let shell = match shell {
        Completer::Bash => Shell::Bash,
        Completer::Zsh => Shell::Zsh,
        Completer::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Completer::value_variants() {
            let script = String::from_utf8(script_for(*shell)).unwrap();
            for command in Cli::command().get_subcommands().filter(|each| !each.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_has_its_page() {
        let dir = tempfile::tempdir().unwrap();
        man_pages(&ManPagesArgs { directory: dir.path().join("man") }).unwrap();
        let page = |name: &str| fs::read_to_string(dir.path().join("man").join(name)).unwrap();
        assert!(page("tdekit.1").starts_with(".ie") && page("tdekit.1").contains(".TH tdekit 1"));
        assert!(page("tdekit-key-init.1").contains("generate"));
        assert!(page("tdekit-serve-login-add.1").contains("NAME"));
        assert!(!dir.path().join("man/tdekit-man-pages.1").exists());
    }
}
