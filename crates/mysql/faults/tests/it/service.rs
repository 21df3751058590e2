//! A key store that Vault opens, under a server: the service is needed at the start only. Vault is
//! the server of the command's tests, which follows its documented interface.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use component_keyring_tdekit::Config;
use serde_json::json;
use tdekit_faults_mysql::rig::command;
use tdekit_faults_mysql::{Keys, text};

use crate::damage::Estate;
use crate::life::count;
use crate::vault::{Answer, Server, TOKEN, Transit};
use crate::verbs::{install, ok, run_by, user};

/// Writes the key store's own settings, which name the service, the file of its token, and the
/// command, which asks it.
fn configure(keys: &Keys, program: &Path, token: &Path, address: &str) {
    let text = format!(
        "[unlock]\nprogram = {program:?}\nservice_timeout_s = 5\n\n\
         [unlock.vault]\naddress = {address:?}\nkey = \"app\"\ntoken_file = {token:?}\n"
    );
    fs::write(keys.home.join("config.toml"), text).unwrap();
}

fn token_file(estate: &Estate) -> PathBuf {
    let path = estate.rig.path("vault.token");
    fs::write(&path, TOKEN).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn a_running_server_goes_on_without_vault_and_a_start_without_it_stops_first() {
    let (Some(program), Some(estate)) = (command(), Estate::new()) else { return };
    let (keys, rig) = (&estate.keys, &estate.rig);
    let away = Arc::new(AtomicBool::new(false));
    let (transit, is_away) = (Transit::new("aes256-gcm96"), Arc::clone(&away));
    let vault = Server::start(move |asked| match is_away.load(Ordering::Relaxed) {
        true => Answer::Json(503, json!({ "errors": ["Vault is sealed"] })),
        false => transit.lock().unwrap().answer("app", asked),
    });
    let token = token_file(&estate);
    let url = vault.url();
    let add = ["key", "provider", "add", "vault", "--address", &url, "--transit-key", "app"];
    ok(keys, &[&add[..], &["--token-file", token.to_str().unwrap()]].concat());
    configure(keys, &program, &token, &url);
    let by_vault = text(&Config { key_file: None, ..keys.config() });

    // `install` opens the store by Vault, too, and names no other secret.
    let (programs, place) = (rig.with("installed", "{}"), rig.path("installed"));
    let (mysqld, plugins) = (place.join("mysqld"), place.join("plugins"));
    fs::remove_file(place.join("mysqld.my")).unwrap();
    fs::remove_file(plugins.join("component_keyring_tdekit.so")).unwrap();
    let user = user();
    let words = install(mysqld.to_str().unwrap(), plugins.to_str().unwrap(), &user);
    let done = run_by(keys, &words);
    assert!(done.code == 0 && !done.out.contains("key_file"), "{done:?}");
    let asked = vault.asked().len();
    let server = rig.start(&programs, &estate.data);
    assert!(vault.asked().len() > asked, "the server asks Vault for its start");
    assert_eq!(count(&server), "2");
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();

    // Away: tables are read and written, new keys are stored, a reload fails and changes nothing.
    away.store(true, Ordering::Relaxed);
    let asked = vault.asked().len();
    server.sql("INSERT INTO app.t (text) VALUES ('while it is away')").unwrap();
    server.sql("CREATE TABLE app.u (i INT) ENCRYPTION='Y'; INSERT INTO app.u VALUES (1)").unwrap();
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    server.sql("ALTER INSTANCE ROTATE BINLOG MASTER KEY").unwrap();
    assert_eq!(vault.asked().len(), asked, "new keys do not need Vault");
    server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap_err();
    assert!(server.log().contains("Vault is sealed"), "{}", server.log());
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    assert_eq!(count(&server), "3");
    server.stop().unwrap();

    estate.is_refused("sealed", &by_vault, "Vault is sealed");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure(keys, &program, &token, &format!("http://{free}"));
    estate.is_refused("gone", &by_vault, "away, tried");
    let (gone, out) = (rig.path("no-command"), estate.rig.path("no.token"));
    configure(keys, &gone, &token, &url);
    estate.is_refused("no-program", &by_vault, "no-command");
    configure(keys, &program, &out, &url);
    estate.is_refused("no-token", &by_vault, "no.token");
    assert!(!server_files_have(&estate, TOKEN), "the token is in a file of the server");

    away.store(false, Ordering::Relaxed);
    configure(keys, &program, &token, &url);
    let server = rig.start(&rig.with("again", &by_vault), &estate.data);
    assert_eq!(count(&server), "3");
    server.stop().unwrap();
}

fn server_files_have(estate: &Estate, text: &str) -> bool {
    let log = tdekit_private_mariadb::Server::log_path(&estate.data);
    let files = crate::life::files(&estate.data).into_iter().chain([log]);
    files.filter(|path| path.is_file()).any(|path| {
        let bytes = fs::read(&path).unwrap();
        crate::life::contains(&bytes, text.as_bytes())
    })
}
