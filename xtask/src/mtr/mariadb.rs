//! MariaDB: the suite `encryption` with the plugin in place of `file_key_management`.
//!
//! The suite and the server remain in the packages' directories. Below the target directory a tree
//! of links is created, with a copy of the encryption suite whose one include file loads our
//! plugin, and a plugin directory that contains it. docs/mariadb-mtr.md explains the differences.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{PASSWORD, Suite, command, link_all, tdekit};
use crate::process::output;

/// The package's own program.
pub(crate) const RUNNER: &str = "/usr/share/mysql/mysql-test/mariadb-test-run.pl";
const SUITE: &str = "/usr/share/mysql/mysql-test";
const PLUGINS: &str = "/usr/lib/mysql/plugin";

/// Makes the suite in the directory `base`.
pub(super) fn prepare(base: &Path, stock: bool) -> Result<Suite> {
    if !Path::new(RUNNER).is_file() {
        bail!("{RUNNER} is missing: `cargo xtask setup` installs mariadb-test");
    }
    let directory = link_tree(base)?;
    if !stock {
        install(base, &directory, &command()?)?;
    }
    Ok(Suite {
        directory,
        runner: "mariadb-test-run.pl",
        name: "encryption",
        options: &["--parallel=2", "--testcase-timeout=5", "--suite-timeout=120"],
        differs: "xtask/mtr-differs.txt",
    })
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
