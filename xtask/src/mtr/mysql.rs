//! MySQL: the suite `component_keyring_file` with the component in its place.
//!
//! Suite and server are Debian's, of its unstable suite, and are unpacked, not installed. Below the
//! target directory a tree of links is created. Its programs are scripts that start the unpacked
//! ones with the loader and the libraries that came with them. Its copy of the suite loads and
//! configures our component, and takes the file of its namespace for the keyring's file: the suite
//! removes that file between tests. docs/mysql-mtr.md explains the differences.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Suite, command, link_all};
use crate::mysql::unpacked_with_suite;
use crate::process::output;

const SUITE: &str = "component_keyring_file";
const COMPONENT: &str = "component_keyring_tdekit";
const LIBRARY: &str = "libcomponent_keyring_tdekit.so";
const CERTIFICATE: &str = "ServerCert";

/// Makes the suite in the directory `base`.
pub(super) fn prepare(base: &Path, stock: bool) -> Result<Suite> {
    let unpacked = unpacked_with_suite()?;
    let directory = link_tree(base, &unpacked)?;
    let component = if stock { SUITE } else { COMPONENT };
    // Tests write what the server loads into its data directory.
    let plugins = base.join("usr/lib/mysql/plugin");
    fs::write(plugins.join(format!("{component}.cnf")), r#"{"read_local_config": true}"#)?;
    let manifest = base.join("usr/sbin/mysqld.my");
    fs::write(&manifest, r#"{"read_local_manifest": true}"#)?;
    // The server warns of a manifest that anybody could write.
    fs::set_permissions(&manifest, fs::Permissions::from_mode(0o444))?;
    if !stock {
        install(base, &directory)?;
    }
    Ok(Suite {
        directory,
        runner: "mysql-test-run.pl",
        name: SUITE,
        options: &["--big-test", "--testcase-timeout=10", "--suite-timeout=120"],
        differs: "xtask/mtr-mysql-differs.txt",
    })
}

/// Creates `base/usr` with links and scripts for everything; real copies of the suite and of the
/// list of plugins. Returns the copy of `mysql-test`.
fn link_tree(base: &Path, unpacked: &Path) -> Result<PathBuf> {
    let (from, usr) = (unpacked.join("usr"), base.join("usr"));
    let (from_suite, suite) = (from.join("lib/mysql-test"), usr.join("lib/mysql-test"));
    for directory in ["bin", "sbin", "elf", "share", "lib/mysql/plugin"] {
        fs::create_dir_all(usr.join(directory))?;
    }
    for directory in ["bin", "suite", "include"] {
        fs::create_dir_all(suite.join(directory))?;
    }
    symlink(from.join("share/mysql"), usr.join("share/mysql"))?;
    link_all(&from.join("lib/mysql/plugin"), &usr.join("lib/mysql/plugin"), &[])?;
    // The runner uses its own location, so it must not be a link.
    let runner = "mysql-test-run.pl";
    link_all(&from_suite, &suite, &["bin", "suite", "include", runner, "mysql-test-run", "mtr"])?;
    fs::copy(from_suite.join(runner), suite.join(runner)).context("copy the runner")?;
    link_all(&from_suite.join("suite"), &suite.join("suite"), &[SUITE])?;
    let copy = from_suite.join("suite").join(SUITE);
    output(Command::new("cp").arg("-r").arg(copy).arg(suite.join("suite")))?;
    link_all(&from_suite.join("include"), &suite.join("include"), &["plugin.defs"])?;
    fs::copy(from_suite.join("include/plugin.defs"), suite.join("include/plugin.defs"))?;
    // The server looks for its manifest and its messages around the name by which it is started.
    symlink(from.join("sbin/mysqld"), usr.join("elf/mysqld"))?;
    symlink(usr.join("sbin/mysqld.my"), usr.join("elf/mysqld.my"))?;
    let loader = loader(unpacked)?;
    start_by(&loader, &usr.join("elf/mysqld"), &usr.join("sbin/mysqld"))?;
    for programs in [from.join("bin"), from_suite.join("bin")] {
        for entry in fs::read_dir(&programs).context("list MySQL's programs")? {
            let program = entry?.path();
            let to = usr.join("bin").join(program.file_name().unwrap_or_default());
            if !to.exists() && is_elf(&program) {
                start_by(&loader, &program.canonicalize()?, &to)?;
            }
        }
    }
    Ok(suite)
}

/// The loader that came with the programs, and its libraries.
fn loader(unpacked: &Path) -> Result<(PathBuf, PathBuf)> {
    let arch = std::env::consts::ARCH;
    let libraries = unpacked.join(format!("usr/lib/{arch}-linux-gnu"));
    let name = match arch {
        "aarch64" => "ld-linux-aarch64.so.1",
        _ => "ld-linux-x86-64.so.2",
    };
    let loader = libraries.join(name);
    ensure!(loader.is_file(), "{} is missing", loader.display());
    Ok((loader, libraries))
}

/// Writes a script that becomes `program`.
fn start_by((loader, libraries): &(PathBuf, PathBuf), program: &Path, script: &Path) -> Result<()> {
    let words = [loader, Path::new("--library-path"), libraries, program];
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    fs::write(script, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    path.is_file() && read.is_ok() && magic == *b"\x7fELF"
}

/// Creates a key store, and has the suite load the component that uses it.
fn install(base: &Path, suite: &Path) -> Result<()> {
    let tdekit = command()?;
    let (home, key) = (base.join("home"), base.join("key"));
    for words in [&["key", "init", "--generate-key-file"][..], &["cert", "create", CERTIFICATE]] {
        let mut command = Command::new(&tdekit);
        output(command.env("TDEKIT_HOME", &home).arg("--key-file").arg(&key).args(words))?;
    }
    let library = tdekit.with_file_name(LIBRARY);
    let installed = base.join("usr/lib/mysql/plugin").join(format!("{COMPONENT}.so"));
    fs::copy(&library, installed).with_context(|| format!("copy {}", library.display()))?;
    edit(&suite.join("include/plugin.defs"), |line| line.replace(SUITE, COMPONENT))?;
    let copy = suite.join("suite").join(SUITE);
    for entry in fs::read_dir(copy.join("inc"))? {
        edit(&entry?.path(), |line| configured(line, &home, &key))?;
    }
    for entry in fs::read_dir(copy.join("r"))? {
        edit(&entry?.path(), |line| line.replace(SUITE, COMPONENT))?;
    }
    Ok(())
}

/// Returns a line of the suite's set-up, with our file and our configuration in place of the
/// keyring's own. Each server has a namespace, which is named by its port.
fn configured(line: &str, home: &Path, key: &Path) -> String {
    let (home, key) = (home.display(), key.display());
    let is_set = |name: &str| line.trim_start().starts_with(&format!("--let {name} = `SELECT"));
    if is_set("KEYRING_FILE_PATH") {
        return format!(
            "--let KEYRING_FILE_PATH = `SELECT CONCAT('{home}/named-keys-mtr', @@port, '.json')`"
        );
    }
    if is_set("KEYRING_CONFIG_CONTENT") {
        let pair = |name: &str, value: &str| format!(r#"\"{name}\": \"{value}\""#);
        let pairs = [
            pair("store", &home.to_string()),
            pair("namespace", "mtr', @@port, '"),
            pair("certificate", CERTIFICATE),
            pair("key_file", &key.to_string()),
        ];
        let pairs = pairs.join(", ");
        return format!("--let KEYRING_CONFIG_CONTENT = `SELECT CONCAT('{{ {pairs} }}')`");
    }
    line.to_owned()
}

fn edit(path: &Path, change: impl Fn(&str) -> String) -> Result<()> {
    // Results of the suite are not all UTF-8.
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
    let text: String = text
        .split_inclusive('\n')
        .map(|line| {
            let end = if line.ends_with('\n') { "\n" } else { "" };
            change(line.trim_end_matches('\n')) + end
        })
        .collect();
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_set_up_names_our_keys() {
        let of = |line| configured(line, Path::new("/home"), Path::new("/key"));
        assert_eq!(
            of("--let KEYRING_FILE_PATH = `SELECT CONCAT( '$MYSQLTEST_VARDIR', '/keyring_file')`"),
            "--let KEYRING_FILE_PATH = `SELECT CONCAT('/home/named-keys-mtr', @@port, '.json')`"
        );
        assert_eq!(
            of(r#"--let KEYRING_CONFIG_CONTENT = `SELECT CONCAT('{ \"path\": \"', 'x','\" }')`"#),
            concat!(
                r#"--let KEYRING_CONFIG_CONTENT = `SELECT CONCAT('{ \"store\": \"/home\", "#,
                r#"\"namespace\": \"mtr', @@port, '\", \"certificate\": \"ServerCert\", "#,
                r#"\"key_file\": \"/key\" }')`"#
            )
        );
        for other in ["--let KEYRING_FILE_PATH = $OTHER", "--let COMPONENT_NAME = `SELECT 1`"] {
            assert_eq!(of(other), other);
        }
    }
}
