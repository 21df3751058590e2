//! The crate `tdekit-sqlite` in a separate project, with sqlx.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::at_home;
use crate::directory::empty;
use crate::process::{captured, root, run, shown, target_dir};

const MARKER: &str = "a name that no raw file may show";
const COUNT: &str = "SELECT count(*) FROM t";

/// Builds the project, which takes minutes, and checks that it opens, changes and refuses a
/// database that the packaged command encrypted.
///
/// # Errors
/// When it does not work as it should.
pub(super) fn prove(packages: &Path) -> Result<()> {
    let target = target_dir().join("proofs/rust");
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--locked", "--target-dir"]).arg(&target);
    run(build.current_dir(root().join("packages/rust")))?;
    let program = target.join("debug/tdekit-prove-sqlx");
    let tdekit = super::command(packages)?;
    let home = target_dir().join("proofs/rust-home");
    empty(&home)?;
    let file = home.join("app.db");
    let shows = || -> Result<bool> {
        let bytes = fs::read(&file).context("read the database")?;
        Ok(bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()))
    };
    let say = |program: &Path, words: &[&str]| -> Result<(bool, String)> {
        let mut command = Command::new(program);
        at_home(&mut command, &home);
        let ended = captured(command.args(words))?;
        let said =
            [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        eprintln!("$ {}", shown(&command));
        Ok((ended.status.success(), said.concat()))
    };
    let expect = |way: &str, sql: &str, wanted: &str| -> Result<()> {
        let (_, said) = say(&program, &[way, "app.db", sql])?;
        let right = if wanted.is_empty() { said.is_empty() } else { said.contains(wanted) };
        ensure!(right, "{way} {sql}: {said}");
        Ok(())
    };
    expect("stock", "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)", "")?;
    let many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500)";
    expect("stock", &format!("INSERT INTO t {many} SELECT i, '{MARKER}' FROM c"), "")?;
    ensure!(shows()?, "the plain file shows nothing");
    for words in [
        &["key", "init"][..],
        &["cert", "create", "Proof"],
        &["encrypt", "app.db", "--certificate", "Proof"],
    ] {
        let (done, said) = say(&tdekit, words)?;
        ensure!(done, "{words:?}: {said}");
    }
    expect("register", COUNT, "500\n")?;
    expect("register", &format!("INSERT INTO t VALUES(501, '{MARKER}')"), "")?;
    expect("register", COUNT, "501\n")?;
    ensure!(!shows()?, "the encrypted file shows a row");
    expect("stock", COUNT, "not a database")?;
    let mut bytes = fs::read(&file)?;
    bytes.iter_mut().skip(16_384).step_by(1024).for_each(|byte| *byte ^= 1);
    fs::write(&file, bytes)?;
    let (done, said) = say(&program, &["register", "app.db", COUNT])?;
    ensure!(!done && !said.contains("501\n"), "tampered with: {said}");
    eprintln!("crate with sqlx: ok");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> toml::Table {
        toml::from_str(&fs::read_to_string(root().join(path)).unwrap()).unwrap()
    }

    /// A build with `--locked` fails otherwise.
    #[test]
    fn the_lock_file_has_each_dependency_of_our_packages() {
        let (workspace, lock) = (read("Cargo.toml"), read("packages/rust/Cargo.lock"));
        let named = workspace["workspace"]["dependencies"].as_table().unwrap();
        let mut ours = 0;
        for package in lock["package"].as_array().unwrap() {
            let of = package["name"].as_str().unwrap();
            let Some(path) = named.get(of).and_then(|it| it.get("path")) else { continue };
            ours += 1;
            let manifest = read(&format!("{}/Cargo.toml", path.as_str().unwrap()));
            let locked = package["dependencies"].as_array().unwrap();
            for (name, how) in manifest["dependencies"].as_table().unwrap() {
                let optional = how.get("optional").is_some_and(|it| it.as_bool() == Some(true));
                let is = |it: &toml::Value| it.as_str().unwrap().split(' ').next() == Some(name);
                let hint = "run `cargo metadata` in packages/rust";
                assert!(optional || locked.iter().any(is), "{of} needs {name}: {hint}");
            }
        }
        assert!(ours > 3, "{ours}");
    }
}
