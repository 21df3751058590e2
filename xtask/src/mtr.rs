//! `cargo xtask mtr`: the encryption suite of Debian's mariadb-test with the plugin in place of
//! file_key_management.
//!
//! The suite and the server remain in the packages' directories. Below the target directory a tree
//! of links is created, with a copy of the encryption suite whose one include file loads our
//! plugin, and a plugin directory that contains it. docs/mariadb-mtr.md explains the differences;
//! `xtask/mtr-differs.txt` has the same list for this program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{output, root, shown, target_dir};
use crate::shipped;

/// The package's own program.
pub(crate) const RUNNER: &str = "/usr/share/mysql/mysql-test/mariadb-test-run.pl";
const SUITE: &str = "/usr/share/mysql/mysql-test";
const PLUGINS: &str = "/usr/lib/mysql/plugin";
/// Tests whose outcome differs, each with the reason.
const DIFFERS: &str = "xtask/mtr-differs.txt";
const PASSWORD: &str = "only for the suite";

/// Runs the suite, or the named tests.
///
/// # Errors
/// When it cannot be run, or a test fails that is not known to differ, or passes although it is.
pub(crate) fn mtr(tests: &[String], stock: bool) -> Result<()> {
    if !Path::new(RUNNER).is_file() {
        bail!("{RUNNER} is missing: `cargo xtask setup` installs mariadb-test");
    }
    let base = target_dir().join("mtr");
    if base.exists() {
        fs::remove_dir_all(&base).context("remove the last run's tree")?;
    }
    let suite = link_tree(&base)?;
    if !stock {
        install(&base, &suite, &command()?)?;
    }
    let outcomes = run_suite(&base, &suite, tests)?;
    let known = if stock { Vec::new() } else { known_differences()? };
    judge(&outcomes, &known, tests.is_empty())
}

/// Creates `base/usr` with links to everything; a real copy of the encryption suite. Returns the
/// copy of `mysql-test`.
fn link_tree(base: &Path) -> Result<PathBuf> {
    let usr = base.join("usr");
    let suite = usr.join("share/mysql/mysql-test");
    for directory in [suite.join("suite"), usr.join("lib/mysql/plugin")] {
        fs::create_dir_all(&directory)?;
    }
    for name in ["bin", "sbin"] {
        symlink(Path::new("/usr").join(name), usr.join(name))?;
    }
    link_all(Path::new("/usr/share/mysql"), &usr.join("share/mysql"), &["mysql-test"])?;
    link_all(Path::new(SUITE), &suite, &["suite"])?;
    link_all(&Path::new(SUITE).join("suite"), &suite.join("suite"), &["encryption"])?;
    link_all(Path::new(PLUGINS), &usr.join("lib/mysql/plugin"), &[])?;
    // It uses its own location, so it must not be a link.
    let runner = suite.join("mariadb-test-run.pl");
    fs::remove_file(&runner)?;
    fs::copy(RUNNER, &runner)?;
    let copy = Path::new(SUITE).join("suite/encryption");
    output(Command::new("cp").arg("-r").arg(copy).arg(suite.join("suite")))?;
    Ok(suite)
}

/// Links to every entry of `from` except those in `without`.
fn link_all(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let name = entry?.file_name();
        if !without.iter().any(|left_out| name == *left_out) {
            symlink(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// Creates a key store, installs the plugin beside the packages' own, and the include file that
/// loads it.
fn install(base: &Path, suite: &Path, command: &Path) -> Result<()> {
    let home = base.join("home");
    let password = base.join("password");
    fs::write(&password, PASSWORD)?;
    output(Command::new("chmod").arg("600").arg(&password))?;
    for words in [&["key", "init"][..], &["cert", "create", "ServerCert"]] {
        tdekit(command, &home, words)?;
    }
    let plugins = base.join("usr/lib/mysql/plugin");
    let options = base.join("tdekit.cnf");
    let (plugin_dir, option_file) = (plugins.to_string_lossy(), options.to_string_lossy());
    let mut place = vec!["--plugin-dir", &plugin_dir, "--option-file", &option_file];
    let user = output(Command::new("id").arg("-un"))?;
    if user == "root" {
        place.extend(["--server-user", &user]);
    }
    let words = ["mariadb", "install", "--certificate", "ServerCert"];
    tdekit(command, &home, &[&words[..], &place[..]].concat())?;
    // Numbers below 10 are the server's own, so 3 to 9 in the suite are replaced by 23 to 29.
    let shift = r"s/(encryption_key_id`? *=? *'?)([3-9])\b/\12\2/I";
    let copy = suite.join("suite/encryption");
    let mut sed = Command::new("sed");
    sed.args(["-i", "-E", shift]);
    for folder in ["t", "r"] {
        for entry in fs::read_dir(copy.join(folder))? {
            let entry = entry?;
            // These load the other plugin, with its own keys.
            if !entry.file_name().to_string_lossy().starts_with("filekeys") {
                sed.arg(entry.path());
            }
        }
    }
    output(&mut sed)?;
    for number in ["19", "24", "25", "26", "33"] {
        tdekit(command, &home, &["mariadb", "key", "create", "--key-id", number])?;
    }
    let include = suite.join("suite/encryption/include");
    fs::write(
        include.join("have_file_key_management_plugin.combinations"),
        format!(
            "[tdekit]\nplugin-load-add=tdekit\ntdekit-key-store={}\ntdekit-password-file={}\n\
             loose-file-key-management\n",
            home.display(),
            password.display()
        ),
    )?;
    let name = "LOWER(PLUGIN_NAME) LIKE 'tdekit%' AND PLUGIN_TYPE = 'ENCRYPTION'";
    fs::write(
        include.join("have_file_key_management_plugin.inc"),
        format!(
            "if (`SELECT COUNT(*)=0 FROM INFORMATION_SCHEMA.PLUGINS WHERE {name} \
             AND PLUGIN_STATUS='ACTIVE'`)\n{{\n  --skip the plugin is not active\n}}\n"
        ),
    )?;
    Ok(())
}

/// Returns the command: that in `TDEKIT_COMMAND`, else the release build, which is created.
fn command() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("TDEKIT_COMMAND") {
        return Ok(named.into());
    }
    Ok(shipped::release()?.join("tdekit"))
}

fn tdekit(command: &Path, home: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(command);
    command.env("TDEKIT_HOME", home).env("TDEKIT_PASSWORD", PASSWORD).args(words);
    output(&mut command)
}

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Runs the suite and reads its output.
fn run_suite(base: &Path, suite: &Path, tests: &[String]) -> Result<Vec<(String, Outcome)>> {
    let mut command = Command::new("perl");
    command
        .current_dir(suite)
        .arg("mariadb-test-run.pl")
        .arg(format!("--vardir={}", base.join("var").display()))
        .args(["--force", "--max-test-fail=0", "--retry=0", "--parallel=2"])
        .args(["--testcase-timeout=5", "--suite-timeout=120", "--nocheck-testcases"]);
    if tests.is_empty() {
        command.arg("--suite=encryption");
    }
    command.args(tests).stdin(Stdio::null());
    eprintln!("$ {}", shown(&command));
    let output = command.output().context("start perl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    fs::write(base.join("output.txt"), &*output.stdout)?;
    let outcomes: Vec<(String, Outcome)> = text.lines().filter_map(read_line).collect();
    if outcomes.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("the suite ran no test: {}\n{}", text.trim(), errors.trim());
    }
    Ok(outcomes)
}

/// A line such as `encryption.tempfiles 'cbc,innodb'  w1 [ pass ]  1234`: name with combinations.
fn read_line(line: &str) -> Option<(String, Outcome)> {
    let (left, right) = line.split_once(" [ ")?;
    let outcome = match right.split_whitespace().next()? {
        "pass" => Outcome::Passed,
        "fail" => Outcome::Failed,
        "skipped" | "disabled" => Outcome::Skipped,
        _ => return None,
    };
    let mut words = left.split_whitespace();
    let name = words.next().filter(|name| name.contains('.'))?;
    let combination = words.find(|word| word.starts_with('\''));
    let name = combination.map_or(name.to_owned(), |found| format!("{name} {found}"));
    Some((name, outcome))
}

/// Lines `test<TAB>reason`; a test's name without its combinations.
fn known_differences() -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root().join(DIFFERS)).context("read the known differences")?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, reason)| (name.to_owned(), reason.to_owned()))
        .collect())
}

/// Prints every test that did not pass; fails on unknown differences.
fn judge(outcomes: &[(String, Outcome)], known: &[(String, String)], whole: bool) -> Result<()> {
    let count = |wanted| outcomes.iter().filter(|(_, outcome)| *outcome == wanted).count();
    let plain = |name: &str| name.split(' ').next().unwrap_or(name).to_owned();
    let reason = |name: &str| {
        known.iter().find(|(test, _)| *test == plain(name)).map(|(_, reason)| reason.as_str())
    };
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Failed)
        .map(|(name, _)| name.as_str())
        .collect();
    for name in &failed {
        println!("{name}: {}", reason(name).unwrap_or("NOT KNOWN TO DIFFER"));
    }
    println!(
        "{} passed, {} failed, {} skipped by the suite itself",
        count(Outcome::Passed),
        failed.len(),
        count(Outcome::Skipped)
    );
    let mut unknown: Vec<String> =
        failed.iter().filter(|name| reason(name).is_none()).map(ToString::to_string).collect();
    let fails = |test: &str| failed.iter().any(|name| plain(name) == test);
    let ran = |test: &str| {
        outcomes.iter().any(|(name, outcome)| plain(name) == test && *outcome != Outcome::Skipped)
    };
    let mended = known.iter().filter(|(test, _)| whole && ran(test) && !fails(test));
    unknown.extend(mended.map(|(test, _)| format!("{test} (passes now: take it off the list)")));
    if unknown.is_empty() { Ok(()) } else { bail!("unexpected: {}", unknown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_suite_are_read() {
        let read = |line| read_line(line);
        assert_eq!(
            read("encryption.tempfiles 'cbc,innodb'        w2 [ pass ]   1234"),
            Some(("encryption.tempfiles 'cbc,innodb'".to_owned(), Outcome::Passed))
        );
        assert_eq!(
            read("encryption.aria_tiny                     w1 [ skipped ]  Test requires"),
            Some(("encryption.aria_tiny".to_owned(), Outcome::Skipped))
        );
        assert_eq!(read("Completed: All 3 tests were successful."), None);
        assert_eq!(read("worker[1] mysql-test-run: WARNING: [ x ]"), None);
    }

    #[test]
    fn what_is_not_known_is_an_error_both_ways() {
        let outcome = |name: &str, outcome| (name.to_owned(), outcome);
        let known = vec![("encryption.a".to_owned(), "because".to_owned())];
        let failed = [outcome("encryption.a 'x'", Outcome::Failed)];
        assert!(judge(&failed, &known, true).is_ok());
        assert!(judge(&failed, &[], true).is_err());
        let passed = [outcome("encryption.a 'x'", Outcome::Passed)];
        assert!(judge(&passed, &known, true).is_err());
        assert!(judge(&passed, &known, false).is_ok());
        let skipped = [outcome("encryption.a", Outcome::Skipped)];
        assert!(judge(&skipped, &known, true).is_ok());
    }
}
