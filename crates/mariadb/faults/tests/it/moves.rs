//! A server moves from the server's own encryption plugin to ours and back, according to the
//! document, and `uninstall` refuses at each step that still needs the plugin.

use std::path::Path;
use std::time::Duration;

use tdekit_faults_mariadb::{Keeper, Rig, Run};
use tdekit_private_mariadb::Server;

/// The file name in the format document.
const MARK: &str = "tdekit-keys";
const LOG: [&str; 2] = ["log-bin=binlog", "server-id=1"];
/// The settings of the document before the last restart with a plugin.
const OFF: [&str; 5] = [
    "innodb-encrypt-tables=OFF",
    "innodb-encrypt-log=OFF",
    "aria-encrypt-tables=OFF",
    "encrypt-binlog=OFF",
    "innodb-encrypt-temporary-tables=OFF",
];
const ROWS: &str = "SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t; SELECT v FROM test.a";

fn rows_are_whole(server: &Server) {
    assert_eq!(server.sql(ROWS).unwrap().trim(), "300\t300\nkept");
}

/// Makes a server decrypt its tablespaces, and waits for it.
fn decrypt_tables(server: &Server) {
    server.sql("SET GLOBAL innodb_encrypt_tables = OFF").unwrap();
    let left = "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
                WHERE ENCRYPTION_SCHEME = 1 AND MIN_KEY_VERSION > 0";
    for _ in 0..120 {
        if server.sql(left).unwrap().trim() == "0" {
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    panic!("the tablespaces stay encrypted");
}

/// The last server with a plugin leaves nothing encrypted.
fn write_anew(server: &Server) {
    server.sql("ALTER TABLE test.a FORCE; RESET MASTER").unwrap();
    let own = "SELECT CONCAT('ALTER TABLE `', table_schema, '`.`', table_name, '` FORCE;') \
               FROM information_schema.tables WHERE engine = 'Aria' AND table_schema = 'mysql'";
    for line in server.sql(own).unwrap().lines() {
        server.sql(line).unwrap();
    }
}

fn fill(server: &Server) {
    server
        .sql(
            "CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT);
             INSERT INTO test.t SELECT seq, REPEAT(seq, 20) FROM test.seq_1_to_300;
             CREATE TABLE test.a(v TEXT) ENGINE=Aria; INSERT test.a VALUES ('kept')",
        )
        .unwrap();
}

/// Runs the command with the paths of the rig's installation.
fn run(rig: &Rig, words: &[&str], more: &[&str]) -> Run {
    let (plugins, options) = (rig.path("plugins"), rig.path("tdekit.cnf"));
    let places = ["--plugin-dir", plugins.to_str().unwrap()];
    let options = ["--option-file", options.to_str().unwrap()];
    rig.run_tdekit(&[words, &places, &options, more].concat())
}

fn refused(run: &Run, told: &str) {
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains(told), "{told}: {run:?}");
}

fn log_of(data: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(Server::log_path(data)).unwrap()).into_owned()
}

#[test]
fn a_server_moves_to_the_plugin_and_away_again() {
    let Some(file_keys) = Rig::with(Keeper::FileKeyManagement("AES_CTR")) else { return };
    let Some(ours) = Rig::with(Keeper::Tdekit) else { return };
    let data = file_keys.fresh("data");
    let server = file_keys.start(&data, &LOG);
    fill(&server);
    decrypt_tables(&server);
    server.stop().unwrap();
    let server = file_keys.start(&data, &[&LOG[..], &OFF].concat());
    write_anew(&server);
    rows_are_whole(&server);
    server.stop().unwrap();

    let server = ours.start(&data, &LOG);
    rows_are_whole(&server);
    ours.rotate_and_wait(&server, &[]);
    server.sql("ALTER TABLE test.a FORCE").unwrap();
    assert!(data.join(MARK).exists());
    let uninstall = |server: &Server| {
        let socket = server.socket();
        let named = ["--socket", socket.to_str().unwrap(), "--user", "root"];
        run(&ours, &["mariadb", "uninstall"], &named)
    };
    refused(&uninstall(&server), "encrypted tablespaces");
    decrypt_tables(&server);
    refused(&uninstall(&server), "still encrypts");
    server.stop().unwrap();

    let server = ours.start(&data, &[&LOG[..], &OFF].concat());
    let told = uninstall(&server);
    refused(&told, "binlog.0000");
    assert!(told.err.contains("a.MAI"), "{told:?}");
    write_anew(&server);
    let done = uninstall(&server);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!data.join(MARK).exists());
    rows_are_whole(&server);
    server.stop().unwrap();

    // A server without any plugin, and then with the first again.
    let nobody = Rig::with(Keeper::Nobody).unwrap();
    let server = nobody.start(&data, &LOG);
    rows_are_whole(&server);
    server.stop().unwrap();
    let server = file_keys.start(&data, &LOG);
    rows_are_whole(&server);
    server.stop().unwrap();
}

#[test]
fn data_of_another_key_store_is_named_before_innodb_reads_its_log() {
    let (Some(rig), Some(other)) = (Rig::with(Keeper::Tdekit), Rig::with(Keeper::Tdekit)) else {
        return;
    };
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    fill(&server);
    server.stop().unwrap();
    // Its log is encrypted now, though no page was read back yet.
    let before = log_of(&data).len();
    other.try_start(&data, &[]).unwrap_err();
    let log = log_of(&data)[before..].to_owned();
    assert!(log.contains("written with server keys"), "{log}");
    assert!(!log.contains("innodb_force_recovery"), "{log}");
    let server = rig.start(&data, &[]);
    rows_are_whole(&server);
    server.stop().unwrap();
}

#[test]
fn beside_another_plugin_nothing_is_installed() {
    let Some(rig) = Rig::with(Keeper::Tdekit) else { return };
    let beside = rig.path("50-keys.cnf");
    std::fs::write(&beside, "[mariadbd]\nplugin_load_add = file_key_management\n").unwrap();
    let before = std::fs::read(rig.path("tdekit.cnf")).unwrap();
    let told = run(&rig, &["mariadb", "install"], &["--certificate", "ServerCert"]);
    refused(&told, "file_key_management");
    assert!(told.err.contains("50-keys.cnf") && told.err.contains("hint:"), "{told:?}");
    assert_eq!(std::fs::read(rig.path("tdekit.cnf")).unwrap(), before);
}
