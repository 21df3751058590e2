//! `cargo xtask interop`: each language's stock SQLite driver works with an encrypted database.
//!
//! For each program in `tests/interop/`: the same seed twice, once plain and once encrypted; the
//! program runs on both and checks itself; then the encrypted one is decrypted, and both must have
//! the same content. Then databases from Debian packages: encrypted, queried by the stock shell,
//! decrypted. Also backup sets, restored by an independent reader; the bench's report page, read in
//! a browser; clients of SQL Server against `tdekit serve`; the recipes of docs/recipes.md;
//! databases that other programs encrypted, imported; and the packages of the shipped programs,
//! installed from their files.

mod import;
mod media;
mod packages;
mod programs;
mod recipes;
mod refusals;
mod report_page;
mod shell;
mod store;
mod tds;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::directory::empty;
use crate::package::{self, Built};
use crate::process::{output, run, target_dir};
use crate::shipped;
use crate::tally::Tally;
use packages::PACKAGES;
use programs::{PROGRAMS, Program};
use recipes::{RECIPES, Recipes};
use shell::{same_content, sql};
use store::Store;

/// Contained in each seed and in everything that the programs write; it must not appear in raw
/// files.
const MARKER: &str = "marker-7d1f40c2-planted";

/// Proves a package from the directory of all packages.
type Proof = fn(&Path) -> Result<()>;

/// The packages of the shipped programs, and their proofs.
const SHIPPED: [(&str, Proof); 6] = [
    ("python-packages", package::python::prove),
    ("node-packages", package::node::prove),
    ("go-module", package::go::prove),
    ("jar", package::java::prove),
    ("debian-packages", package::deb::prove),
    ("container", package::container::prove),
];

/// Choice of interop programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// All of them.
    All,
    /// The one of this name.
    Named(&'a str),
    /// Stock clients of each language, packages' databases, media, pages, imports.
    Clients,
    /// Clients of SQL Server.
    Wire,
    /// Object mappers and tools.
    Recipes,
    /// The packages of the shipped programs; needs the release build, and creates it.
    Packages,
    /// One real client for each interface: the shell, a driver that needs no compiler, a client of
    /// SQL Server, the second reader of media.
    OneEach,
}

/// The programs of [`Choice::OneEach`].
const ONE_EACH: [&str; 4] = ["sqlite-shell", "python", tds::FREETDS, media::NAME];

impl Choice<'_> {
    /// Returns true if this one of `group` is run.
    fn has(self, group: Choice<'static>, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(wanted) => wanted == name,
            Self::OneEach => ONE_EACH.contains(&name),
            of_group => of_group == group,
        }
    }
}

/// Runs the chosen ones, with the programs of [`crate::shipped`], and counts. With `plain`
/// databases are not encrypted.
///
/// # Errors
/// When there is none of that name, or the key store cannot be made.
pub(crate) fn interop(choice: Choice, plain: bool) -> Result<Tally> {
    let client = |name: &str| choice.has(Choice::Clients, name);
    let programs: Vec<_> = PROGRAMS.iter().filter(|program| client(program.name)).collect();
    let packages: Vec<_> = PACKAGES.iter().filter(|package| client(package.name)).collect();
    let wire = |client: &&tds::Client| choice.has(Choice::Wire, client.name);
    let clients: Vec<_> = tds::CLIENTS.iter().filter(wire).collect();
    let recipes = |recipes: &&Recipes| choice.has(Choice::Recipes, recipes.name);
    let recipes: Vec<_> = RECIPES.iter().filter(recipes).collect();
    let shipped = |(name, _): &&(&str, Proof)| choice.has(Choice::Packages, name);
    let shipped: Vec<_> = SHIPPED.iter().filter(shipped).collect();
    let [media_reader, report_page, imported] =
        [media::NAME, report_page::NAME, import::NAME].map(client);
    let none =
        programs.is_empty() && packages.is_empty() && clients.is_empty() && recipes.is_empty();
    if none && !media_reader && !report_page && shipped.is_empty() && !imported {
        bail!("nothing is called that; there are: {}", names().join(", "));
    }
    let top = target_dir().join("interop");
    let store = if plain { None } else { Some(Store::create(&top.join("store"))?) };
    let mut tally = Tally::default();
    for program in programs {
        let result = roundtrip(program, &top, store.as_ref());
        count(&mut tally, program.name, result);
    }
    if let Some(store) = &store {
        for package in packages {
            let result = packages::roundtrip(package, &top, store);
            count(&mut tally, package.name, result);
        }
        for client in clients {
            count(&mut tally, client.name, tds::check(client, &top));
        }
        for each in recipes {
            follow(&mut tally, each, &top, store);
        }
        if imported {
            let result = import::check(&top.join(import::NAME), store);
            count(&mut tally, import::NAME, result);
        }
        prove_shipped(&mut tally, &shipped);
    }
    if report_page {
        let result = report_page::check(&top.join(report_page::NAME), !plain);
        count(&mut tally, report_page::NAME, result);
    }
    if media_reader {
        count(&mut tally, media::NAME, restore_media(&top.join(media::NAME), store.as_ref()));
    }
    Ok(tally)
}

fn names() -> Vec<&'static str> {
    let names = PROGRAMS.iter().map(|each| each.name);
    let names = names.chain(PACKAGES.iter().map(|each| each.name));
    let names = names.chain(tds::CLIENTS.iter().map(|each| each.name));
    let names = names.chain(RECIPES.iter().map(|each| each.name));
    let names = names.chain(SHIPPED.iter().map(|(name, _)| *name));
    names.chain([media::NAME, report_page::NAME, import::NAME]).collect()
}

/// Follows each recipe of a language, counted separately.
fn follow(tally: &mut Tally, recipes: &Recipes, top: &Path, store: &Store) {
    let top = top.join("recipes");
    if let Err(error) = (recipes.prepare)(&top.join("build").join(recipes.name)) {
        return count(tally, recipes.name, Err(error.context("prepare")));
    }
    for tool in recipes.tools {
        let result = recipes::check(recipes, tool, &top, store);
        count(tally, &format!("{} {tool}", recipes.name), result);
    }
}

/// Builds the packages of the release build, if one is chosen, and proves the chosen ones.
fn prove_shipped(tally: &mut Tally, chosen: &[&(&str, Proof)]) {
    if chosen.is_empty() {
        return;
    }
    let made = shipped::release().and_then(|built| package::make(&[Built::here(built)]));
    let made = match made {
        Ok(made) => made,
        Err(error) => return count(tally, "packages", Err(error)),
    };
    for (name, prove) in chosen {
        count(tally, name, prove(&made));
    }
}

/// Backup sets through the reader in `tests/interop/media-reader`.
fn restore_media(top: &Path, store: Option<&Store>) -> Result<()> {
    let reader = media::Reader::prepare(&top.join("build")).context("prepare the reader")?;
    media::fixtures(&reader, &top.join("fixtures"))?;
    match store {
        Some(store) => media::backups(&reader, top, store),
        None => Ok(()),
    }
}

fn count(tally: &mut Tally, name: &str, result: Result<()>) {
    match result {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            eprintln!("interop {name}: FAILED: {error:#}");
            tally.fail(format!("interop {name}"), &format!("{error:#}"));
        }
    }
}

fn roundtrip(program: &Program, top: &Path, store: Option<&Store>) -> Result<()> {
    let build = top.join(program.source);
    (program.prepare)(&build).with_context(|| format!("prepare {}", program.name))?;

    let plain = seed(&top.join(program.name).join("plain"))?;
    let mut command = program.command(&build, &plain);
    run(command.env("INTEROP_MARKER", MARKER))?;

    let Some(store) = store else { return Ok(()) };
    let sealed = seed(&top.join(program.name).join("sealed"))?;
    store.encrypt(&sealed)?;
    let mut command = program.command(&build, &sealed);
    store.give_to(&mut command);
    run(command.env("INTEROP_MARKER", MARKER))?;
    refusals::check(program, &build, &sealed, store).context("what the driver says")?;

    store.decrypt(&sealed)?;
    same_content(&plain, &sealed).context("the decrypted database, and the same work in plain")?;
    let side = |database: &Path| database.with_file_name("side.db");
    same_content(&side(&plain), &side(&sealed)).context("the attached database")
}

/// Creates `app.db` and the plain `side.db` in `directory`, which is emptied first; returns the
/// path of `app.db`.
fn seed(directory: &Path) -> Result<PathBuf> {
    empty(directory)?;
    let database = directory.join("app.db");
    let script = format!(
        "CREATE TABLE seed(id INTEGER PRIMARY KEY, name TEXT UNIQUE, body BLOB);
         CREATE VIEW seed_view AS SELECT id, length(body) AS bytes FROM seed;
         CREATE TRIGGER seed_stays BEFORE DELETE ON seed
           BEGIN SELECT raise(ABORT, 'seed stays'); END;
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500)
         INSERT INTO seed SELECT i, 'seed '||i||' {MARKER}', CAST(printf('%0200d', i) AS BLOB)
           FROM c;"
    );
    output(&mut sql(&database, &script))?;
    let side = "CREATE TABLE side(id INTEGER PRIMARY KEY, label TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<10)
         INSERT INTO side SELECT i, 'side '||i FROM c;";
    output(&mut sql(&directory.join("side.db"), side))?;
    Ok(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_each_names_what_there_is() {
        for name in ONE_EACH {
            assert!(names().contains(&name), "{name}");
        }
    }

    #[test]
    fn a_choice_takes_its_group_or_its_name() {
        assert!(Choice::All.has(Choice::Wire, "tds-go"));
        assert!(Choice::Wire.has(Choice::Wire, "tds-go"));
        assert!(!Choice::Wire.has(Choice::Clients, "go"));
        assert!(Choice::Named("go").has(Choice::Clients, "go"));
        assert!(!Choice::Named("go").has(Choice::Wire, "tds-go"));
        assert!(!Choice::OneEach.has(Choice::Clients, "go"));
    }
}
