//! `cargo xtask documents`: runs every command of README.md and docs/*.md as written.
//!
//! Each document gets an empty home, an empty directory and one shell on a terminal; its commands
//! run from top to bottom with the built programs on the path. An exit code or an output that
//! differs from the document is a failure.

mod parse;
mod shell;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{root, target_dir};
use crate::s3_server::S3Server;
use crate::shipped;
use crate::tally::Tally;
use parse::{Document, Step, parse};
use shell::Shell;

/// Time limit for a command in the background to report that it is ready.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// A server in the home directory, which ends with the shell. `mariadb_restart` restarts it.
const MARIADB: &str = include_str!("mariadb.bash");

/// Runs every document, or the one called `name`, with the programs of [`shipped`], and counts
/// commands.
///
/// # Errors
/// When there is none of that name, or a document cannot be read.
pub(crate) fn documents(name: Option<&str>) -> Result<Tally> {
    let paths: Vec<_> =
        paths()?.into_iter().filter(|path| name.is_none_or(|name| path.ends_with(name))).collect();
    ensure!(!paths.is_empty(), "no document is called that");
    let programs = shipped::directory();
    let mut tally = Tally::default();
    for path in paths {
        let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {shown}"))?;
        let result =
            parse(&text).and_then(|document| run(&shown, &document, &programs, &mut tally));
        if let Err(error) = result {
            eprintln!("{shown}: FAILED: {error:#}");
            tally.fail(shown, &format!("{error:#}"));
        }
    }
    Ok(tally)
}

fn paths() -> Result<Vec<PathBuf>> {
    let mut paths = vec![root().join("README.md")];
    for entry in std::fs::read_dir(root().join("docs")).context("read docs")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Runs a document's commands; stops at the first failure, as the following ones depend on it.
fn run(name: &str, document: &Document, programs: &Path, tally: &mut Tally) -> Result<()> {
    if document.steps.is_empty() {
        return Ok(());
    }
    let server = if document.with_s3 { Some(S3Server::start()?) } else { None };
    let top = target_dir().join("documents").join(name.replace(['/', '.'], "-"));
    let [home, place, temporary, own] =
        ["home", "place", "tmp", "shell"].map(|part| top.join(part));
    if top.exists() {
        std::fs::remove_dir_all(&top).with_context(|| format!("empty {}", top.display()))?;
    }
    for directory in [&home, &place, &temporary, &own] {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("make {}", directory.display()))?;
    }
    let environment = environment(programs, &home, &temporary, server.as_ref())?;
    let mut shell = Shell::start(&place, &own, &environment)?;
    if document.with_mariadb {
        begin_mariadb(&mut shell)?;
    }
    for step in &document.steps {
        eprintln!("{name}:{}: $ {}", step.line, step.shown);
        run_step(&mut shell, step, &temporary)
            .with_context(|| format!("{name}:{}: `{}`", step.line, step.shown))?;
        tally.passed += 1;
    }
    Ok(())
}

fn run_step(shell: &mut Shell, step: &Step, temporary: &Path) -> Result<()> {
    if let Some(until) = &step.background_until {
        return begin_in_background(shell, step, until, temporary);
    }
    let ended = shell.run(&step.run)?;
    if ended.exit_code != step.exit_code {
        let (code, wanted) = (ended.exit_code, step.exit_code);
        bail!("exit code {code}, not {wanted}: {}", ended.printed);
    }
    let mut lines = ended.printed.lines();
    for wanted in &step.output {
        if !lines.any(|line| is_like(line, wanted)) {
            bail!("`{wanted}` is not in its place in what was printed: {}", ended.printed);
        }
    }
    Ok(())
}

fn begin_in_background(
    shell: &mut Shell,
    step: &Step,
    until: &str,
    temporary: &Path,
) -> Result<()> {
    let log = temporary.join(format!("background-{}", step.line));
    shell.run(&format!("{{ {} ; }} >'{}' 2>&1 </dev/null &", step.run, log.display()))?;
    let begun = Instant::now();
    loop {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if said.contains(until) {
            return Ok(());
        }
        if begun.elapsed() > READY_LIMIT {
            bail!("it did not say `{until}`: {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts a server that the clients of MariaDB find by default.
fn begin_mariadb(shell: &mut Shell) -> Result<()> {
    let ended = shell.run(MARIADB)?;
    ensure!(ended.exit_code == 0, "start MariaDB: {}", ended.printed);
    Ok(())
}

/// Returns true if a line matches the document, where `...` matches anything.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut rest = line.trim();
    let parts: Vec<_> = wanted.trim().split("...").collect();
    for (at, part) in parts.iter().enumerate() {
        let found = match rest.find(part) {
            Some(0) => 0,
            Some(found) if at > 0 => found,
            _ => return false,
        };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty() || wanted.trim().ends_with("...")
}

fn environment(
    programs: &Path,
    home: &Path,
    temporary: &Path,
    server: Option<&S3Server>,
) -> Result<Vec<(&'static str, String)>> {
    let path = std::env::var("PATH").context("read PATH")?;
    let mut environment = vec![
        ("HOME", home.display().to_string()),
        ("PATH", format!("{}:{path}", programs.display())),
        ("TMPDIR", temporary.display().to_string()),
        ("TERM", "xterm".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("USER", std::env::var("USER").unwrap_or_else(|_| "root".to_owned())),
    ];
    if let Some(server) = server {
        environment.extend(server.client_environment());
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_can_be_read() {
        for path in paths().unwrap() {
            let text = std::fs::read_to_string(&path).unwrap();
            parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        }
    }

    #[test]
    fn outputs_are_compared_with_their_gaps() {
        assert!(is_like("12 pages in 3 s", "... pages in ... s"));
        assert!(is_like("whole", "whole"));
        assert!(is_like("a b", "a ..."));
        assert!(!is_like("not whole", "whole"));
        assert!(!is_like("whole or so", "whole"));
    }

    #[test]
    fn what_a_document_does_not_tell_of_is_a_failure() {
        let top = tempfile::tempdir().unwrap();
        let path = [("PATH", std::env::var("PATH").unwrap())];
        let mut shell = Shell::start(top.path(), top.path(), &path).unwrap();
        let mut outcome = |text: &str| {
            let document = parse(text).unwrap();
            run_step(&mut shell, &document.steps[0], top.path())
        };
        outcome("```\n$ (exit 4) # exit code 4\n```").unwrap();
        outcome("```\n$ echo one; echo two\ntwo\n```").unwrap();
        for text in ["```\n$ false\n```", "```\n$ true # exit code 4\n```", "```\n$ echo a\nb\n```"]
        {
            assert!(outcome(text).is_err(), "{text}");
        }
    }
}
