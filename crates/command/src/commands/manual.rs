//! `tdekit man-pages`: generated from the command line's definition and the examples.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::examples::{self, Entry};
use super::program;
use crate::error::CommandError;

const NAME: &str = "tdekit";

/// Arguments of `man-pages`.
#[derive(Debug, Args)]
pub(crate) struct ManPagesArgs {
    /// Directory that the pages go to, which is made
    directory: PathBuf,
}

/// Writes one page per command of `command`, such as `tdekit-key-init.1`, and `tdekit.1`. The bench
/// writes its own, if it is there.
pub(crate) fn man_pages(args: &ManPagesArgs, command: Command) -> Result<(), CommandError> {
    let failed = |action| move |source| CommandError::io(action, &args.directory, source);
    fs::create_dir_all(&args.directory).map_err(failed("make"))?;
    let mut command = command.name(NAME).disable_help_subcommand(true);
    command.build();
    write_pages(&command, "", &args.directory).map_err(failed("write pages to"))?;
    program::write_pages_of_bench(&env::current_exe()?, &args.directory)
}

/// Writes the page of a command, which is called `path` without `tdekit`, and of those below it.
fn write_pages(command: &Command, path: &str, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, format!("{path} {}", below.get_name()).trim_start(), dir)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    let entry = examples::find(path);
    let mut more = Roff::new();
    if let Some(entry) = entry {
        add_examples(&mut more, entry);
    }
    add_see_also(&mut more, path, entry);
    more.to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    fs::write(dir.join(man.get_filename()), page)
}

fn add_examples(page: &mut Roff, entry: &Entry) {
    page.control("SH", ["EXAMPLES"]);
    for (about, line) in entry.examples {
        page.control("TP", []).text([roman(format!("{about}:"))]);
        page.control("nf", []).text([bold(*line)]).control("fi", []);
    }
}

/// Names the pages of the command above and of those that the entry names.
fn add_see_also(page: &mut Roff, path: &str, entry: Option<&Entry>) {
    let mut above = path.rsplit_once(' ').map_or("", |(above, _)| above);
    let mut pages = Vec::new();
    while !above.is_empty() {
        pages.push(above);
        above = above.rsplit_once(' ').map_or("", |(above, _)| above);
    }
    if !path.is_empty() {
        pages.push("");
    }
    pages.extend(entry.iter().flat_map(|entry| entry.see));
    page.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for (at, other) in pages.iter().enumerate() {
        let name = format!("{NAME} {other}");
        words.push(bold(name.trim_end().replace(' ', "-")));
        words.push(roman(if at + 1 < pages.len() { "(1), " } else { "(1)" }));
    }
    page.text(words);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The visible commands that have none below them, and those that do work beside those.
    fn working(command: &Command, path: &str, found: &mut Vec<String>) {
        let below = || command.get_subcommands().filter(|below| !below.is_hide_set());
        for each in below() {
            working(each, format!("{path} {}", each.get_name()).trim_start(), found);
        }
        if below().next().is_none() || !command.is_subcommand_required_set() {
            found.push(path.to_owned());
        }
    }

    #[test]
    fn every_command_has_examples_that_are_commands() {
        let mut wanted = Vec::new();
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        working(&command, "", &mut wanted);
        wanted.sort();
        let all = || examples::ENTRIES.iter().flat_map(|entries| *entries);
        let mut described: Vec<_> = all().map(|entry| entry.command).collect();
        described.retain(|command| !command.is_empty());
        described.sort_unstable();
        #[cfg(not(feature = "mariadb"))]
        wanted.retain(|command| command != "mariadb");
        #[cfg(not(feature = "mysql"))]
        wanted.retain(|command| command != "mysql");
        assert_eq!(described, wanted);
        for (about, line) in all().flat_map(|entry| entry.examples) {
            let start = line.find("tdekit").unwrap();
            let end = line[start..].find(['(', ')', '&']).map_or(line.len(), |at| start + at);
            let words = line[start..end].split_whitespace();
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{about}: {line}");
        }
    }

    #[test]
    fn every_command_has_its_page() {
        let dir = tempfile::tempdir().unwrap();
        let man = dir.path().join("man");
        man_pages(&ManPagesArgs { directory: man.clone() }, Cli::command()).unwrap();
        let page = |name: &str| fs::read_to_string(man.join(name)).unwrap();
        assert!(page("tdekit.1").starts_with(".ie") && page("tdekit.1").contains(".TH tdekit 1"));
        assert!(page("tdekit-key-init.1").contains("generate"));
        assert!(page("tdekit-serve-login-add.1").contains("NAME"));
        assert!(!man.join("tdekit-man-pages.1").exists());
        let init = page("tdekit-key-init.1");
        assert!(
            init.contains(".SH EXAMPLES") && init.contains("\\fBtdekit key init\\fR"),
            "{init}"
        );
        for entry in fs::read_dir(&man).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let (_, see) = text.split_once(".SH \"SEE ALSO\"\n").expect("no section SEE ALSO");
            let pages = see.lines().next().unwrap().split("(1)").filter(|page| !page.is_empty());
            for name in pages {
                let name = name.trim_matches([',', ' ']).replace("\\fB", "").replace("\\fR", "");
                let name = name.replace("\\-", "-");
                assert!(man.join(format!("{name}.1")).exists(), "{name}");
            }
        }
    }
}
