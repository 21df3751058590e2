//! Databases made by others: from Debian packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::shell::{same_content, same_text, sql, sql_through};
use super::store::Store;
use super::{empty, output};
use crate::setup::{PROJ_DATABASE, QCH_DATABASE};
use crate::shipped::extension_path;

/// A database that a package installs.
pub(super) struct Package {
    pub(super) name: &'static str,
    path: &'static str,
    /// A query over more than one table.
    query: &'static str,
}

pub(super) const PACKAGES: &[Package] = &[
    Package {
        name: "proj-data",
        path: PROJ_DATABASE,
        query: "SELECT type, count(*), max(name) FROM crs_view GROUP BY type ORDER BY type",
    },
    Package {
        name: "qtsvg5-doc",
        path: QCH_DATABASE,
        query: "SELECT f.Name, f.Title, length(d.Data), hex(substr(d.Data, 1, 16))
                FROM FileNameTable f JOIN FileDataTable d ON d.Id = f.FileId ORDER BY f.Name",
    },
];

/// Encrypts a copy of the package's database, queries it with the stock shell, and decrypts it: at
/// each step its content equals the original's.
///
/// # Errors
/// When a step fails or anything differs.
pub(super) fn roundtrip(package: &Package, top: &Path, store: &Store) -> Result<()> {
    let original = Path::new(package.path);
    let directory = top.join(package.name);
    empty(&directory)?;
    let copy = directory.join("copy.db");
    std::fs::copy(original, &copy).with_context(|| format!("copy {}", package.path))?;
    store.encrypt(&copy)?;

    match output(&mut sql(&copy, ".schema")) {
        Err(error) if format!("{error:#}").contains("file is not a database") => {}
        Err(error) => return Err(error).context("the shell without the extension"),
        Ok(_) => bail!("the shell reads the encrypted database without the extension"),
    }
    let through = |script: &str| {
        let mut command: Command = sql_through(&extension_path(), &copy, script);
        store.give_to(&mut command);
        output(&mut command)
    };
    same_text(&through("PRAGMA integrity_check")?, "ok")?;
    let answer = output(&mut sql(original, package.query))?;
    if answer.lines().count() < 2 {
        bail!("the query finds nothing to compare: {answer}");
    }
    same_text(&through(package.query)?, &answer).context(package.query)?;
    same_text(&through(".dump")?, &output(&mut sql(original, ".dump"))?).context(".dump")?;

    store.decrypt(&copy)?;
    same_content(original, &copy).context("the decrypted copy, and the original")?;
    println!("{}: ok ({})", package.name, package.path);
    Ok(())
}
