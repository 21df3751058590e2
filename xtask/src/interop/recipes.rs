//! Recipes of docs/recipes.md: object mappers and tools that create, write and read an encrypted
//! database.
//!
//! One program for each language runs one tool at a time: `TOOL write DATABASE` creates a table
//! with the tool's own means and writes 100 rows, `TOOL read DATABASE` prints their number and sum.
//! All checks are here, the same for each.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::programs::{binary, build_go, java_class};
use super::shell::sql;
use super::store::{Store, forget_tdekit};
use super::{MARKER, empty};
use crate::drivers::{NODE_HELPER, build_java, copy_sources, install_node, install_python, source};
use crate::process::{captured, output, root, run_quietly, shown};
use crate::shipped::{directory, preload_path};

/// The recipes of one language.
pub(super) struct Recipes {
    /// The name on the command line, and the folder in `tests/interop/`.
    pub(super) name: &'static str,
    /// The tools, one recipe each.
    pub(super) tools: &'static [&'static str],
    /// Installs them into the given directory.
    pub(super) prepare: fn(&Path) -> Result<()>,
    /// The program's command line; takes the directory of its preparation.
    start: fn(&Path) -> Command,
}

pub(super) const RECIPES: &[Recipes] = &[
    Recipes {
        name: PYTHON,
        tools: &["django", "sqlalchemy", "alembic", "peewee", "pandas", "datasette"],
        prepare: prepare_python,
        start: python,
    },
    Recipes {
        name: NODE,
        tools: &["drizzle", "knex", "typeorm", "prisma-adapter", "sequelize"],
        prepare: prepare_node,
        start: node,
    },
    Recipes {
        name: GO,
        tools: &["gorm", "sqlx"],
        prepare: |build| build_go(GO, build),
        start: |build| Command::new(binary(build)),
    },
    Recipes {
        name: JAVA,
        tools: &["hikari", "hibernate", "jooq", "jdbc"],
        prepare: |build| build_java(JAVA, build),
        start: |build| java_class(build, "Recipes"),
    },
    Recipes { name: PHP, tools: &["sqlite3", "pdo"], prepare: |_| Ok(()), start: php },
    Recipes { name: RUBY, tools: &["sqlite3"], prepare: |_| Ok(()), start: ruby },
    Recipes { name: DESKTOP, tools: &["db-browser"], prepare: |_| Ok(()), start: desktop },
];

const PYTHON: &str = "recipes-python";
const NODE: &str = "recipes-node";
const GO: &str = "recipes-go";
const JAVA: &str = "recipes-java";
const PHP: &str = "recipes-php";
const RUBY: &str = "recipes-ruby";
const DESKTOP: &str = "recipes-desktop";

/// A reader's output for the rows.
const READ: &str = "100 5050";

/// Creates a database with `tool` that is encrypted from the start, and checks it from all sides.
///
/// # Errors
/// When the tool fails or reads different data; when the file is plain, shows a row, or opens with
/// another password or without the extension.
pub(super) fn check(recipes: &Recipes, tool: &str, top: &Path, store: &Store) -> Result<()> {
    let directory = top.join(recipes.name).join(tool);
    empty(&directory)?;
    let database = directory.join("app.db");
    let command = |work: &str| {
        let mut command = (recipes.start)(&top.join("build").join(recipes.name));
        forget_tdekit(&mut command);
        store.give_to(&mut command);
        command.env("INTEROP_MARKER", MARKER).args([tool, work]).arg(&database);
        command
    };
    run_quietly(store.encrypt_new(&mut command("write")))?;
    store.expect_encrypted(&database)?;
    expect_hidden(&directory)?;
    let read = output(&mut command("read")).context("read in a second process")?;
    ensure!(read == READ, "a second process reads `{read}`, not `{READ}`");

    let mut denied = command("read");
    expect_refused(denied.env("TDEKIT_PASSWORD", "wrong"), "wrong password for the key store")?;
    expect_refused(&mut sql(&database, "SELECT * FROM sqlite_master"), "file is not a database")?;
    expect_hidden(&directory)?;

    // Shows that the search above would find a row, and that the file is an ordinary database.
    store.decrypt(&database)?;
    ensure!(!showing(&directory)?.is_empty(), "no file of the decrypted database shows a row");
    let checked = output(&mut sql(&database, "PRAGMA integrity_check"))?;
    ensure!(checked == "ok", "integrity_check of the decrypted database: {checked}");
    Ok(())
}

fn expect_refused(command: &mut Command, message: &str) -> Result<()> {
    let ended = captured(command)?;
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(!ended.status.success(), "`{}` does not fail", shown(command));
    ensure!(said.contains(message), "`{}` does not say `{message}`: {said}", shown(command));
    Ok(())
}

fn expect_hidden(directory: &Path) -> Result<()> {
    match showing(directory)?.first() {
        None => Ok(()),
        Some(path) => bail!("{} shows a row", path.display()),
    }
}

/// Returns the files that show the content of the rows.
fn showing(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        if bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()) {
            found.push(path);
        }
    }
    Ok(found)
}

fn prepare_python(build: &Path) -> Result<()> {
    install_python(PYTHON, build)
}

fn python(build: &Path) -> Command {
    let mut command = Command::new("python3");
    let paths = [build.join("site"), source("python")].map(PathBuf::into_os_string);
    command.env("PYTHONPATH", paths.join(":".as_ref())).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(source(PYTHON).join("recipes.py"));
    command
}

fn prepare_node(build: &Path) -> Result<()> {
    copy_sources(NODE, build)?;
    std::fs::copy(root().join(NODE_HELPER), build.join("tdekit.js")).context("copy the helper")?;
    install_node(build, &["better-sqlite3", "sqlite3"])
}

fn node(build: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(build.join("recipes.js"));
    command
}

fn php(_: &Path) -> Command {
    let mut command = Command::new("php");
    command.arg("-d").arg(format!("sqlite3.extension_dir={}", directory().display()));
    command.arg(source(PHP).join("recipes.php"));
    command
}

fn ruby(_: &Path) -> Command {
    let mut command = Command::new("ruby");
    command.arg(source(RUBY).join("recipes.rb"));
    command
}

fn desktop(_: &Path) -> Command {
    let mut command = Command::new("bash");
    command.env("INTEROP_PRELOAD", preload_path());
    command.arg(source(DESKTOP).join("recipes.bash"));
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Returns the lines of a file's parts between `recipe` and `end`.
    fn parts(text: &str) -> Vec<String> {
        let mut parts = Vec::new();
        let mut open: Option<String> = None;
        for line in text.lines() {
            // A comment: a line of Ruby's may be `end`.
            let comment = line.trim().strip_prefix(['#', '/']).unwrap_or_default();
            match comment.trim_start_matches('/').trim_start() {
                "recipe" => open = Some(String::new()),
                "end" if open.is_some() => parts.extend(open.take()),
                _ => {
                    if let Some(part) = &mut open {
                        part.push_str(line);
                        part.push('\n');
                    }
                }
            }
        }
        assert!(open.is_none(), "a recipe has no end");
        parts
    }

    fn sources(directory: &Path, found: &mut BTreeSet<(String, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path.strip_prefix(root().join("tests/interop")).unwrap();
                let name = name.display().to_string();
                found.extend(parts(&text).into_iter().map(|part| (name.clone(), part)));
            }
        }
    }

    /// Returns the document's blocks, by the file that each names as its source.
    fn blocks(text: &str) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix("<!-- from ") else { continue };
            let name = name.trim_end_matches(" -->").to_owned();
            assert!(lines.next().unwrap().starts_with("```"), "no block behind {name}");
            let block = lines.by_ref().take_while(|line| *line != "```");
            found.insert((name, block.map(|line| line.to_owned() + "\n").collect()));
        }
        found
    }

    #[test]
    fn the_document_shows_the_lines_that_run() {
        let mut run = BTreeSet::new();
        for recipes in RECIPES {
            sources(&source(recipes.name), &mut run);
        }
        let shown = blocks(&fs::read_to_string(root().join("docs/recipes.md")).unwrap());
        assert!(run.len() >= RECIPES.iter().map(|each| each.tools.len()).sum::<usize>() - 1);
        assert_eq!(shown, run);
    }
}
