//! The commands of docs/mariadb.md that the document leaves to this suite, verbatim except for
//! paths, with the key store as its section on installing leaves it.

use std::path::Path;
use std::process::Command;

use tdekit_faults_mariadb::rig::command;
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::Server;

const DOCUMENT: &str = include_str!("../../../../../docs/mariadb.md");

/// The text before a block that is left to this suite.
const OURS: &str = "<!-- not run: needs the machine's own server; the fault suite `documents` runs";

/// A command, and its section.
struct Step {
    section: &'static str,
    line: &'static str,
}

/// Returns the commands that are left to this suite, and the others.
fn steps() -> (Vec<Step>, Vec<Step>) {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    let (mut section, mut is_ours, mut in_fence) = ("", false, false);
    for line in DOCUMENT.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        } else if line.starts_with(OURS) {
            is_ours = true;
        } else if line.starts_with("```") {
            in_fence = !in_fence;
            is_ours &= in_fence;
        } else if let Some(line) = line.strip_prefix("$ ").filter(|_| in_fence) {
            assert!(!line.ends_with('\\'), "a command of several lines is not read here: {line}");
            if is_ours { &mut ours } else { &mut others }.push(Step { section, line });
        }
    }
    (ours, others)
}

/// Every fenced command is run somewhere: here, or by `cargo xtask documents`, which omits marked
/// commands and runs the rest.
#[test]
fn every_command_is_run_somewhere() {
    let (ours, others) = steps();
    let of = |steps: &[Step]| {
        let mut sections: Vec<_> = steps.iter().map(|step| step.section).collect();
        sections.dedup();
        sections
    };
    assert_eq!(of(&others), ["Install"]);
    assert_eq!(of(&ours), ["Keys", "Rotation", "Verify", "Binary logs"]);
    let marks = DOCUMENT.lines().filter(|line| line.starts_with("<!-- not run")).count();
    assert_eq!(marks, DOCUMENT.lines().filter(|line| line.starts_with(OURS)).count());
    assert_eq!(marks, of(&ours).len(), "a mark without a command behind it");
}

#[test]
fn the_commands_run_as_they_stand() {
    let (Some(mut rig), Some(_)) = (Rig::with(Keeper::Nobody), command()) else { return };
    let (home, key) = (rig.path("home"), rig.path("tdekit.key"));
    let (plugins, options) = (rig.path("plugins"), rig.path("tdekit.cnf"));
    rig.environment = vec![("TDEKIT_HOME".into(), home.into())];
    let key_file = ["--key-file", key.to_str().unwrap()];
    rig.tdekit(&[&["key", "init"], &key_file[..], &["--generate-key-file"]].concat());
    rig.tdekit(&[&key_file[..], &["cert", "create", "ServerCert"]].concat());
    std::fs::create_dir(&plugins).unwrap();
    let user = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let places = ["--plugin-dir", plugins.to_str().unwrap(), "--server-user", user.trim()];
    let option_file = ["--option-file", options.to_str().unwrap()];
    let words = ["mariadb", "install", "--certificate", "ServerCert"];
    rig.tdekit(&[&key_file[..], &words, &places, &option_file].concat());
    rig.use_installed(options.clone(), plugins.clone());

    let data = rig.fresh_with_empty_undo("data");
    let server = rig.start(&data, &["log-bin=binlog", "server-id=1"]);
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY)").unwrap();
    let socket = server.socket();
    // Until the server has encrypted everything that its installation left in the clear.
    let named = ["--socket", socket.to_str().unwrap(), "--user", "root"];
    rig.tdekit(&[&key_file[..], &["mariadb", "rotate"], &named].concat());
    let directory = command().unwrap().parent().unwrap().to_owned();
    for Step { section, line } in steps().0 {
        let line = line
            .replace("/etc/tdekit.key", key.to_str().unwrap())
            .replace("/run/mysqld/mysqld.sock", socket.to_str().unwrap())
            .replace("binlog.000007", "binlog.000001")
            .replace("/srv", rig.directory.path().to_str().unwrap())
            .replace("/var/lib/mysql", data.to_str().unwrap());
        run(&rig, &directory, &line);
        if section == "Keys" {
            let sql = "CREATE TABLE test.k(n INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=17";
            std::thread::sleep(std::time::Duration::from_millis(1200));
            server.sql(sql).unwrap();
        }
    }
    refuses_to_be_uninstalled(&rig, &server, &[&places[..2], &option_file, &named].concat());
    assert!(plugins.join("tdekit.so").exists() && options.exists());
    server.stop().unwrap();
}

/// While the server has encrypted tablespaces, and then while it would make other encrypted files.
fn refuses_to_be_uninstalled(rig: &Rig, server: &Server, places: &[&str]) {
    let uninstall = || {
        let mut command = Command::new(command().unwrap());
        command.args(["mariadb", "uninstall"]).args(places);
        command.envs(rig.environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = uninstall();
    assert!(told.contains("encrypted tablespaces"), "{told}");
    server.sql("DROP DATABASE test; SET GLOBAL innodb_encrypt_tables = OFF").unwrap();
    for _ in 0..120 {
        let told = uninstall();
        if told.contains("innodb_encrypt_log, aria_encrypt_tables, encrypt_binlog") {
            return;
        }
        assert!(told.contains("encrypted tablespaces"), "{told}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("the tablespaces stay encrypted");
}

/// Runs a line in a shell that finds the command under test.
fn run(rig: &Rig, directory: &Path, line: &str) {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", line])
        .current_dir(rig.directory.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", directory.display()))
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}{}", String::from_utf8_lossy(&output.stdout));
}
