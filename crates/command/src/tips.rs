//! Words that are typed for commands of other names, and which commands those are.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The command above, its missing subcommand, and what is meant by it.
const TIPS: &[(&str, &[&str], &[&str])] = &[
    (
        "",
        &["list", "ls"],
        &[
            "`tdekit cert list` lists certificates",
            "`tdekit status .` lists the databases of a directory",
            "`tdekit overview .` shows how databases and their backups stand",
        ],
    ),
    (
        "",
        &["info", "show"],
        &[
            "`tdekit status FILE` shows a database",
            "`tdekit inspect FILE` shows a backup",
            "`tdekit key status` shows the key store",
        ],
    ),
    (
        "",
        &["unlock", "open", "login"],
        &[
            "a program opens the key store by itself: give it TDEKIT_PASSWORD or \
             TDEKIT_PASSWORD_FILE",
            "`tdekit agent` takes the password once, for all that a shell starts",
            "`tdekit shell-init` has sqlite3 and drivers open encrypted databases",
        ],
    ),
    (
        "",
        &["password", "passwd"],
        &[
            "`tdekit key rotate --password-only --change-password` sets another password",
            "`tdekit key provider add password` adds one",
        ],
    ),
    ("", &["create", "new"], &["`tdekit init` makes a key store, a certificate and its backup"]),
    ("key", &["list", "info", "show"], &["`tdekit key status` shows the key store"]),
    ("key", &["create", "new"], &["`tdekit key init` makes a key store"]),
    (
        "key",
        &["unlock", "open"],
        &["a command opens the key store by itself; `tdekit agent` takes the password once"],
    ),
    ("cert", &["info", "show", "status"], &["`tdekit cert list` shows all certificates"]),
    ("cert", &["init", "new"], &["`tdekit cert create NAME` makes a certificate"]),
];

/// Adds to an error of the command line which command may be meant; `words` are the whole line,
/// and `all` has every command.
pub(crate) fn add(error: &mut clap::Error, words: &[OsString], all: &clap::Command) {
    let Some(ContextValue::String(missing)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let names: Vec<_> = words.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let at = names.iter().position(|word| word == missing).unwrap_or(0);
    let above = |command: &str| match command {
        "" => names[..at].iter().all(|word| all.find_subcommand(word).is_none()),
        _ => names[..at].last() == Some(&command),
    };
    let mut known = TIPS.iter().filter(|(command, ..)| above(command));
    let Some((_, _, tips)) = known.find(|(_, of, _)| of.contains(&missing.as_str())) else {
        return;
    };
    let tips = tips.iter().map(|tip| StyledStr::from(*tip)).collect();
    // It is a word that resembles, such as `init` for `info`.
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn said(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut error = Cli::command().try_get_matches_from(&words).unwrap_err();
        add(&mut error, &words, &Cli::command());
        error.to_string()
    }

    #[test]
    fn a_command_of_another_name_is_named() {
        for (line, wanted) in [
            ("tdekit list", "tip: `tdekit cert list` lists certificates"),
            ("tdekit info a.db", "tip: `tdekit status FILE` shows a database"),
            ("tdekit --store list unlock", "tip: `tdekit agent` takes the password once"),
            ("tdekit key list", "tip: `tdekit key status`"),
            ("tdekit cert info", "tip: `tdekit cert list`"),
        ] {
            let said = said(line);
            assert!(said.contains(wanted) && !said.contains("similar"), "{line}: {said}");
        }
        assert!(said("tdekit encrpt").contains("similar subcommand"));
        assert!(!said("tdekit freshness list").contains("tip: `"));
    }

    #[test]
    fn no_tip_is_for_a_command_that_there_is() {
        for (above, words, tips) in TIPS {
            let all = Cli::command();
            let command = match *above {
                "" => &all,
                name => all.find_subcommand(name).unwrap(),
            };
            for word in *words {
                assert!(command.find_subcommand(word).is_none(), "{above} {word}");
            }
            // What a tip names is a command.
            for named in tips.iter().flat_map(|tip| tip.split('`').skip(1).step_by(2)) {
                let mut command = &all;
                for word in named.split(' ').skip(1) {
                    match command.find_subcommand(word) {
                        Some(found) => command = found,
                        None => break,
                    }
                }
                let is_leaf = !command.has_subcommands() || !command.is_subcommand_required_set();
                assert!(is_leaf && command.get_name() != "tdekit", "{named}");
            }
        }
    }
}
