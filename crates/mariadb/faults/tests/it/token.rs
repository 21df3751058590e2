//! A server whose key store only a PKCS#11 token opens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tdekit_faults_mariadb::Rig;
use tdekit_faults_mariadb::rig::needed;
use tdekit_private_mariadb::{Server, ServerError};

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const TOKEN: &str = "tdekit mariadb";
const PIN: &str = "648219";

/// Makes a new token open the rig's key store, through `config.toml` alone.
fn with_token_alone(rig: &mut Rig) -> Option<()> {
    let softhsm = needed("softhsm2-util")?;
    let (conf, tokens, pin) = (rig.path("softhsm2.conf"), rig.path("tokens"), rig.path("pin"));
    fs::create_dir(&tokens).unwrap();
    fs::write(&conf, format!("directories.tokendir = {}\n", tokens.display())).unwrap();
    fs::write(&pin, PIN).unwrap();
    fs::set_permissions(&pin, Permissions::from_mode(0o600)).unwrap();
    rig.environment.push(("SOFTHSM2_CONF".into(), conf.clone().into()));
    let init = ["--init-token", "--free", "--label", TOKEN, "--pin", PIN, "--so-pin", "00000000"];
    let made = Command::new(softhsm).args(init).env("SOFTHSM2_CONF", conf).output().unwrap();
    assert!(made.status.success(), "{made:?}");

    let pin = pin.to_str().unwrap();
    let named = ["--module", MODULE, "--token", TOKEN, "--key", "k", "--generate"];
    let add = [&["key", "provider", "add", "pkcs11", "--pin-file", pin], &named[..]].concat();
    rig.tdekit(&add);
    let listed = rig.run_tdekit(&["key", "provider", "list", "--json"]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed.as_array().unwrap().iter().find(|row| row["kind"] == "password").unwrap();
    let config = rig.keys().join("config.toml");
    let text = format!("[unlock]\npkcs11_module = {MODULE:?}\npkcs11_pin_file = {pin:?}\n");
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o600)).unwrap();
    rig.environment.retain(|(name, _)| name != "TDEKIT_PASSWORD");
    rig.tdekit(&["key", "provider", "remove", id["id"].as_str().unwrap()]);
    Some(())
}

fn rows(server: &Server) -> String {
    let sql = "SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t";
    server.sql(sql).unwrap().trim().to_owned()
}

#[test]
fn a_token_opens_the_server_and_one_that_leaves_closes_nothing() {
    let Some(mut rig) = Rig::new() else { return };
    if with_token_alone(&mut rig).is_none() {
        return;
    }
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT)").unwrap();
    server.sql("INSERT INTO test.t SELECT seq, REPEAT(seq, 20) FROM test.seq_1_to_300").unwrap();
    server.stop().unwrap();

    // The token is removed: the running server reads, writes and makes tables.
    let server = rig.start(&data, &[]);
    let (tokens, away) = (rig.path("tokens"), rig.path("away"));
    fs::rename(&tokens, &away).unwrap();
    fs::create_dir(&tokens).unwrap();
    assert_eq!(rows(&server), "300\t300");
    server.sql("INSERT INTO test.t VALUES (1000, REPEAT(1000, 20))").unwrap();
    server.sql("CREATE TABLE test.u AS SELECT * FROM test.t").unwrap();
    server.stop().unwrap();

    // The next start fails with an error that names the token, and without a crash.
    let before = fs::read(Server::log_path(&data)).unwrap().len();
    match rig.try_start(&data, &[]) {
        Err(ServerError::Ended { status, log }) => {
            assert_eq!(status.signal(), None, "the server crashed: {log}");
        }
        other => panic!("{:?}", other.map(|server| server.log())),
    }
    let log = fs::read(Server::log_path(&data)).unwrap();
    let log = String::from_utf8_lossy(&log[before..]).into_owned();
    assert!(log.contains(&format!("has no token {TOKEN:?}")), "{log}");
    assert!(!log.contains(PIN), "{log}");

    fs::remove_dir(&tokens).unwrap();
    fs::rename(&away, &tokens).unwrap();
    let server = rig.start(&data, &[]);
    assert_eq!(rows(&server), "301\t301");
    assert_eq!(server.sql("SELECT COUNT(*) FROM test.u").unwrap().trim(), "301");
    server.stop().unwrap();
}
