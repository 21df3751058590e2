//! `cargo xtask fips`: a build on AWS-LC's FIPS module, and the proof that it uses no other
//! cryptography.
//!
//! Cargo allows one version of aws-lc-rs in a workspace, and the newest one uses a module that is
//! not validated. So the FIPS build has a separate manifest and lock file: a tree of links below
//! the target directory to all of the workspace's files except those two.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::MetadataCommand;
use clap::Subcommand;

use crate::process::{cargo, output, root, run, shown, target_dir};
use crate::tally::Tally;

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";
/// The lock file of the FIPS build, below the root.
const OWN_LOCK: &str = "packages/fips/Cargo.lock";
/// Packages of the FIPS build. The plugin's ciphers are not approved (`docs/crypto.md`).
const SHIPPED: [&str; 4] = ["tdekit", "tdekit-serve", "tdekit-sqlite-vfs", "tdekit-sqlite-preload"];

/// The dependencies that differ, by name. aws-lc-rs 1.18 and newer use AWS-LC-FIPS 4.x.
const DEPENDENCIES: [(&str, &str); 5] = [
    (
        "aws-lc-rs",
        concat!(
            r#"{ version = "=1.17.3", default-features = false, "#,
            r#"features = ["alloc", "fips", "legacy-des"] }"#
        ),
    ),
    (
        "aws-lc-sys",
        r#"{ package = "aws-lc-fips-sys", version = "=0.13.17", default-features = false }"#,
    ),
    (
        "rcgen",
        r#"{ version = "0.14", default-features = false, features = ["aws_lc_rs", "fips"] }"#,
    ),
    (
        "rustls",
        concat!(
            r#"{ version = "0.23", default-features = false, "#,
            r#"features = ["aws_lc_rs", "fips", "std", "tls12"] }"#
        ),
    ),
    ("tdekit-key-crypto", r#"{ path = "crates/key/crypto", features = ["fips"] }"#),
];

/// Packages that have older versions in the FIPS build, as newer ones need a newer aws-lc-rs, and
/// one that is left out.
#[cfg(test)]
const OLDER: [&str; 6] =
    ["aws-lc-rs", "aws-lc-sys", "rcgen", "rustls", "rustls-webpki", "untrusted"];

/// What is done with the FIPS build.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Build the command, the extension and the preloaded library in release.
    Build,
    /// Build for development, and prove: known answers, what is refused, what the status says.
    Test,
    /// Lay the lock file of the FIPS build anew, after a change of Cargo.lock.
    Lock,
}

/// Executes `action`.
///
/// # Errors
/// When the tree cannot be created, a build fails, or the proof fails.
pub(crate) fn fips(action: &Action) -> Result<()> {
    match action {
        Action::Build => build(true).map(drop),
        Action::Test => test()?.close(),
        Action::Lock => lock(),
    }
}

/// Runs the proof.
///
/// # Errors
/// When the tree cannot be created. Later failures are in the tally.
pub(crate) fn test() -> Result<Tally> {
    let mut tally = Tally::default();
    let tree = tree(&root().join(OWN_LOCK))?;
    take_over(&target_dir().join("debug"), &built_dir().join("debug"))?;
    let tests = |which: &[&str]| {
        let mut tests = in_tree(&tree, "test");
        let of = ["--quiet", "--package", "tdekit-key-crypto", "--features", "fips"];
        run(tests.args(of).args(which))
    };
    // The vectors of the module's algorithms: Wycheproof's take long, and test the ordinary
    // library.
    let known_answers =
        tests(&["--lib"]).and_then(|()| tests(&["--test", "it", "--", "known_answers::"]));
    let steps = [
        ("the crate of ciphers", known_answers),
        ("the programs", build(false).and_then(|built| prove(&built))),
    ];
    for (name, result) in steps {
        match result {
            Ok(()) => tally.passed += 1,
            Err(error) => tally.fail(format!("fips: {name}"), &format!("{error:#}")),
        }
    }
    Ok(tally)
}

/// Builds the shipped files, and returns their directory.
fn build(release: bool) -> Result<PathBuf> {
    let tree = tree(&root().join(OWN_LOCK))?;
    let mut build = in_tree(&tree, "build");
    build.args(SHIPPED.iter().flat_map(|package| ["--package", package]));
    if release {
        build.arg("--release");
    } else {
        // The proof runs a few commands once: an optimised build of the workspace's own packages
        // takes longer than they do. Those of others are compiled already.
        for package in own_packages()? {
            build.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
        }
    }
    run(&mut build)?;
    let built = built_dir().join(if release { "release" } else { "debug" });
    for program in ["tdekit", "tdekit-serve", "libtdekit_sqlite.so"] {
        one_library(&built.join(program))?;
    }
    Ok(built)
}

/// The workspace's packages below `crates`, except that of the ciphers, whose known answers were
/// compiled before.
fn own_packages() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    let crates = root().join("crates");
    let ours = metadata.packages.iter().filter(|it| it.manifest_path.starts_with(&crates));
    let names = ours.map(|package| package.name.to_string());
    Ok(names.filter(|name| name != "tdekit-key-crypto").collect())
}

/// Refuses a program that contains the ordinary library, or ring, beside the module.
fn one_library(program: &Path) -> Result<()> {
    let symbols = output(Command::new("nm").arg(program))?;
    let names = || symbols.lines().filter_map(|line| line.split_whitespace().last());
    ensure!(
        names().any(|name| name.starts_with("aws_lc_fips_")),
        "{} holds no FIPS module",
        program.display()
    );
    let is_other = |name: &str| match name.strip_prefix("aws_lc_") {
        Some(rest) => !rest.starts_with("fips_"),
        None => name.starts_with("ring_core_"),
    };
    match names().find(|name| is_other(name)) {
        None => Ok(()),
        Some(name) => bail!("{} holds another library, too: {name}", program.display()),
    }
}

fn lock() -> Result<()> {
    let tree = tree(&root().join(LOCK))?;
    // Packages common to both keep their versions.
    let mut resolve = cargo();
    resolve.current_dir(&tree).args(["metadata", "--format-version", "1"]);
    output(&mut resolve)?;
    let own = root().join(OWN_LOCK);
    fs::create_dir_all(own.parent().context("no directory")?)?;
    fs::copy(tree.join(LOCK), &own).with_context(|| format!("write {}", own.display()))?;
    Ok(())
}

/// Creates the tree of links with the lock file `lock`.
fn tree(lock: &Path) -> Result<PathBuf> {
    let tree = target_dir().join("fips/tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("remove {}", tree.display()))?;
    }
    fs::create_dir_all(&tree).with_context(|| format!("make {}", tree.display()))?;
    for entry in fs::read_dir(root())? {
        let entry = entry?;
        let name = entry.file_name();
        if [".git", "target", MANIFEST, LOCK].iter().any(|own| name == **own) {
            continue;
        }
        symlink(entry.path(), tree.join(&name))
            .with_context(|| format!("link {}", entry.path().display()))?;
    }
    fs::write(tree.join(MANIFEST), manifest(&fs::read_to_string(root().join(MANIFEST))?)?)?;
    fs::copy(lock, tree.join(LOCK)).with_context(|| format!("read {}", lock.display()))?;
    Ok(tree)
}

/// Returns the workspace's manifest with the dependencies of the FIPS build.
fn manifest(text: &str) -> Result<String> {
    let mut replaced = 0;
    let mut lines = String::with_capacity(text.len());
    let mut in_dependencies = false;
    for line in text.lines() {
        if line.starts_with('[') {
            in_dependencies = line == "[workspace.dependencies]";
        }
        let own = line
            .split_once(" = ")
            .filter(|_| in_dependencies)
            .and_then(|(name, _)| DEPENDENCIES.iter().find(|(dependency, _)| *dependency == name));
        match own {
            Some((name, value)) => {
                replaced += 1;
                lines.push_str(name);
                lines.push_str(" = ");
                lines.push_str(value);
            }
            // The module's package is built like the ordinary library's.
            None => {
                lines.push_str(&line.replace(".package.aws-lc-sys]", ".package.aws-lc-fips-sys]"));
            }
        }
        lines.push('\n');
    }
    ensure!(
        replaced == DEPENDENCIES.len(),
        "{replaced} of the {} dependencies of the FIPS build are in {MANIFEST}",
        DEPENDENCIES.len()
    );
    Ok(lines)
}

/// Copies the compiled dependencies of the development build, so that packages common to both
/// builds are compiled once. Cargo identifies each by its version, its features and its profile.
fn take_over(from: &Path, to: &Path) -> Result<()> {
    for part in ["deps", "build", ".fingerprint"] {
        let (from, to) = (from.join(part), to.join(part));
        let Ok(entries) = fs::read_dir(&from) else { continue };
        fs::create_dir_all(&to).with_context(|| format!("make {}", to.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            if is_taken_over(part, &name.to_string_lossy()) && !to.join(&name).exists() {
                names.push(from.join(name));
            }
        }
        for names in names.chunks(500) {
            let mut copy = Command::new("cp");
            // With their times, by which Cargo detects outdated files.
            copy.args(["--archive", "--target-directory"]).arg(&to).args(names);
            output(&mut copy)?;
        }
    }
    Ok(())
}

/// Returns true if a file or directory belongs to a library outside of the workspace.
fn is_taken_over(part: &str, name: &str) -> bool {
    let library = name.strip_prefix("lib");
    let own = ["tdekit", "xtask"].iter().any(|own| library.unwrap_or(name).starts_with(own));
    !own && (part != "deps" || library.is_some())
}

fn in_tree(tree: &Path, command: &str) -> Command {
    let mut command_line = cargo();
    command_line.current_dir(tree).args([command, "--locked"]);
    command_line.env("CARGO_TARGET_DIR", built_dir());
    command_line
}

fn built_dir() -> PathBuf {
    target_dir().join("fips/built")
}

/// Checks that the programs do what they should, and refuse what they should.
fn prove(built: &Path) -> Result<()> {
    let home = tempfile::tempdir()?;
    let at = |name: &str| home.path().join(name);
    let tdekit = |words: &[&str]| {
        let mut command = Command::new(built.join("tdekit"));
        command.env_clear().env("HOME", home.path()).env("TDEKIT_HOME", at("store"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(home.path()).args(words);
        command
    };
    fs::write(at("secret"), "only for this proof\n")?;
    fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600))?;
    let not_approved = "not approved by FIPS 140-3";
    refused(tdekit(&["key", "init", "--password-file", "secret"]), not_approved)?;
    run(&mut tdekit(&["key", "init", "--key-file", "master.key", "--generate-key-file"]))?;
    let tdekit = |words: &[&str]| {
        let mut command = tdekit(words);
        command.env("TDEKIT_KEY_FILE", at("master.key"));
        command
    };
    run(&mut tdekit(&["cert", "create", "AppCert"]))?;
    let made = "CREATE TABLE t(a); INSERT INTO t VALUES ('plain text');";
    run(Command::new("sqlite3").arg(at("app.db")).arg(made))?;
    let mut aegis = tdekit(&["encrypt", "app.db", "--certificate", "AppCert"]);
    aegis.args(["--algorithm", "AEGIS_256X2"]);
    refused(aegis, "possible values: AES_128, AES_192, AES_256")?;
    run(&mut tdekit(&["encrypt", "app.db", "--certificate", "AppCert"]))?;
    run(&mut tdekit(&["rotate", "app.db"]))?;
    let status = output(&mut tdekit(&["status", "app.db"]))?;
    ensure!(status.contains("AWS-LC FIPS"), "status does not name the module: {status}");
    let mut json = tdekit(&["status", "app.db", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&output(&mut json)?)?;
    ensure!(
        json[0]["library"]["fips_module"] == true && json[0]["library"]["fips_build"] == true,
        "status --json does not tell the module: {json}"
    );
    let mut backup = tdekit(&["backup", "app.db", "--to", "app.bak"]);
    run(backup.args(["--certificate", "AppCert"]))?;
    run(&mut tdekit(&["verify", "app.bak"]))?;
    let mut triple = tdekit(&["backup", "app.db", "--to", "triple.bak"]);
    triple.args(["--certificate", "AppCert", "--encryption", "TRIPLE_DES_3KEY"]);
    refused(triple, not_approved)?;
    run(&mut tdekit(&["restore", "app.bak", "--to", "back.db"]))?;
    let mut stock = Command::new("sqlite3");
    stock.env("TDEKIT_HOME", at("store")).env("TDEKIT_KEY_FILE", at("master.key"));
    let extension = built.join("libtdekit_sqlite");
    stock.arg("-cmd").arg(format!(".load {}", extension.display()));
    stock.arg("-cmd").arg(format!(".open {}", at("back.db").display()));
    let read = output(stock.args([":memory:", "SELECT a FROM t"]))?;
    ensure!(read.trim() == "plain text", "the stock sqlite3 reads {read:?}");
    Ok(())
}

/// Runs a command that must fail with `text` in its error, and leave nothing behind.
fn refused(mut command: Command, text: &str) -> Result<()> {
    eprintln!("$ {}", shown(&command));
    let ended = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let error = String::from_utf8_lossy(&ended.stderr);
    ensure!(!ended.status.success(), "`{}` was not refused", shown(&command));
    ensure!(error.contains(text), "`{}` was refused otherwise: {error}", shown(&command));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_each_dependency_that_differs() {
        let own = fs::read_to_string(root().join(MANIFEST)).unwrap();
        let changed = manifest(&own).unwrap();
        assert!(changed.contains(r#"package = "aws-lc-fips-sys""#));
        // A line of the same name in a profile is unchanged.
        assert!(changed.contains("\naws-lc-rs = { opt-level = 1 }\n"));
        for profile in ["dev", "release"] {
            let level = |name| format!("\n[profile.{profile}.package.{name}]\n");
            assert!(changed.contains(&level("aws-lc-fips-sys")), "{profile}");
            assert!(!changed.contains(&level("aws-lc-sys")), "{profile}");
        }
        assert_eq!(own.lines().count(), changed.lines().count());
        assert!(manifest("[workspace]\n").is_err());
    }

    #[test]
    fn of_other_packages_the_libraries_are_taken_over() {
        for (part, name, taken) in [
            ("deps", "libserde-0a.rlib", true),
            ("deps", "serde-0a.d", false),
            ("deps", "libtdekit_key_crypto-0a.rlib", false),
            ("deps", "encrypt_crash-0a", false),
            ("build", "libc-0a", true),
            ("build", "tdekit-0a", false),
            (".fingerprint", "serde-0a", true),
            (".fingerprint", "xtask-0a", false),
        ] {
            assert_eq!(is_taken_over(part, name), taken, "{part}/{name}");
        }
    }

    /// Packages common to both builds have the same version.
    #[test]
    fn the_lock_file_follows_the_workspace() {
        let packages = |path: &str| -> std::collections::BTreeSet<(String, String)> {
            let text = fs::read_to_string(root().join(path)).unwrap();
            let lock: toml::Table = toml::from_str(&text).unwrap();
            let text = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
            let packages = lock["package"].as_array().unwrap().iter();
            packages.map(|package| (text(package, "name"), text(package, "version"))).collect()
        };
        let (own, fips) = (packages(LOCK), packages(OWN_LOCK));
        let missing: Vec<_> =
            own.difference(&fips).filter(|(name, _)| !OLDER.contains(&name.as_str())).collect();
        assert_eq!(missing, [] as [&(String, String); 0], "run `cargo xtask fips lock`");
        assert!(fips.contains(&("aws-lc-rs".to_owned(), "1.17.3".to_owned())));
    }
}
