//! mariadb-backup of an encrypted server under load: full, incremental, restored.

use std::path::Path;
use std::process::Command;

use tdekit_faults_mariadb::Rig;
use tdekit_faults_mariadb::ledger::{Writers, check};
use tdekit_faults_mariadb::raw::holding;
use tdekit_faults_mariadb::rig::needed;
use tdekit_private_mariadb::Server;

/// Runs mariadb-backup. For `--prepare` it finds the plugin's options in the backup itself;
/// otherwise it reads the same file as the server.
pub(crate) fn mariadb_backup(rig: &Rig, program: &Path, arguments: &[String]) {
    let mut command = Command::new(program);
    let prepares = arguments.iter().any(|word| word == "--prepare");
    match rig.option_file() {
        _ if prepares => &mut command,
        Some(options) => command.arg(format!("--defaults-file={}", options.display())),
        None => command.arg("--no-defaults"),
    };
    if let Some(plugins) = &rig.plugin_directory {
        command.arg(format!("--plugin-dir={}", plugins.display()));
    }
    let output = command
        .args(arguments)
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let end: Vec<&str> = said.lines().rev().take(15).collect();
    assert!(output.status.success(), "mariadb-backup {arguments:?}: {end:#?}");
}

fn back_up(server: &Server, to: &Path, base: Option<&Path>) -> Vec<String> {
    let mut arguments = vec![
        "--backup".to_owned(),
        format!("--socket={}", server.socket().display()),
        "--user=root".to_owned(),
        format!("--datadir={}", server.data().display()),
        format!("--target-dir={}", to.display()),
    ];
    if let Some(base) = base {
        arguments.push(format!("--incremental-basedir={}", base.display()));
    }
    arguments
}

#[test]
#[ignore = "full: two restored servers"]
fn a_full_and_an_incremental_backup_under_load_are_restored() {
    let Some(rig) = Rig::new() else { return };
    let Some(program) = needed("mariadb-backup") else { return };
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    let marker = "PLANTED-backup";
    server.sql("CREATE DATABASE test; CREATE TABLE test.secret(n INT, v TEXT)").unwrap();
    server
        .sql(&format!("INSERT INTO test.secret SELECT seq, '{marker}' FROM test.seq_1_to_500"))
        .unwrap();
    let writers = Writers::start(&server, 2);
    writers.wait_for(200);
    let (full, more) = (rig.path("full"), rig.path("more"));
    mariadb_backup(&rig, &program, &back_up(&server, &full, None));
    writers.wait_for(200);
    let told: Vec<u64> = writers.stop();
    mariadb_backup(&rig, &program, &back_up(&server, &more, Some(&full)));
    server.stop().unwrap();
    for backup in [&full, &more] {
        assert_eq!(holding(backup, marker), Vec::<String>::new());
    }
    let target = format!("--target-dir={}", full.display());
    mariadb_backup(&rig, &program, &["--prepare".to_owned(), target.clone()]);
    let incremental = format!("--incremental-dir={}", more.display());
    mariadb_backup(&rig, &program, &["--prepare".to_owned(), target.clone(), incremental]);
    let restored = rig.path("restored");
    std::fs::create_dir(&restored).unwrap();
    mariadb_backup(
        &rig,
        &program,
        &["--copy-back".to_owned(), target, format!("--datadir={}", restored.display())],
    );
    assert_eq!(holding(&restored, marker), Vec::<String>::new());
    let server = rig.start(&restored, &[]);
    check(&server, &told);
    let found = server.sql("SELECT COUNT(*), SUM(v = 'PLANTED-backup') FROM test.secret").unwrap();
    assert_eq!(found.trim(), "500\t500");
    server.stop().unwrap();
}
