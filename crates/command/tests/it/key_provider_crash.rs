//! A provider of the master key that dies, and interrupted changes of providers: the store always
//! opens with its other secret, and open databases continue.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::Place;
use crate::databases::{Dir, fill};
use crate::powercut::{Choice, each_image};
use crate::service::{Answer, Server, TOKEN, Transit, vault};
use serde_json::json;
use tdekit_faults_sqlite::trace::{is_possible, record};
use tdekit_key_store::{KeyStore, SecretBytes, Unlock};

/// A store that the password `secret` opens, with a certificate, and an address of Vault.
fn place(server: &Server) -> Place {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    place.set("VAULT_TOKEN", TOKEN);
    place.set("VAULT_ADDR", &server.url());
    place
}

fn add(place: &Place, server: &Server) -> Command {
    let url = server.url();
    place.command(["key", "provider", "add", "vault", "--address", &url, "--transit-key", "app"])
}

fn opens(place: &Place, unlock: &Unlock) -> bool {
    let store = KeyStore::open(&place.home()).unwrap();
    store.unlock(unlock).and_then(|unlocked| unlocked.check_private_keys()).is_ok()
}

fn id_of(place: &Place, kind: &str) -> String {
    let listed = place.json(["key", "provider", "list", "--json"]);
    let all = listed.as_array().unwrap();
    let found = all.iter().find(|one| one["kind"].as_str().unwrap().contains(kind));
    found.unwrap_or_else(|| panic!("{kind}: {listed}"))["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_change_of_providers_that_is_cut_short_leaves_a_store_that_opens() {
    if !is_possible() {
        return;
    }
    let transit = Transit::new("aes256-gcm96");
    let server = vault("app", &transit);
    let password = || Unlock::Password(SecretBytes::from_slice(b"secret").unwrap());
    for action in ["add", "rewrap", "remove", "remove the password"] {
        let mut place = place(&server);
        if action != "add" {
            assert!(add(&place, &server).output().unwrap().status.success());
        }
        let second = place.path("second.key");
        let key_file = || Unlock::KeyFile(second.clone());
        place.ok(["key", "provider", "add", "key-file", "second.key", "--generate"]);
        let command = match action {
            "add" => add(&place, &server),
            "rewrap" => {
                let id = id_of(&place, "Vault");
                place.set("TDEKIT_VAULT_KEY", "app");
                place.command(["key", "provider", "rewrap", &id, "--key-file", "second.key"])
            }
            "remove" => place.command(["key", "provider", "remove", &id_of(&place, "Vault")]),
            _ => {
                let id = id_of(&place, "password");
                place.command(["key", "provider", "remove", &id, "--key-file", "second.key"])
            }
        };
        let roots = [place.home()];
        let traced = record(&command, &roots, None).unwrap();
        assert!(traced.output.status.success(), "{action}: {:?}", traced.output);
        let (mut before, mut after) = (0, 0);
        let images = each_image(&traced.log, &roots, Choice::of(60), |image| {
            let what = format!("{action}: {}", image.what);
            assert!(opens(&place, &key_file()), "{what}: not by the key file");
            let by_password = opens(&place, &password());
            assert!(by_password || action == "remove the password", "{what}: not by the password");
            let listed = KeyStore::open(&place.home()).unwrap().accepts().len();
            let whole = if action == "add" { [2, 3] } else { [3, 2] };
            let done = match action {
                "rewrap" => listed == 3,
                _ => listed == whole[1],
            };
            assert!(whole.contains(&listed), "{what}: {listed} protectors");
            *(if done { &mut after } else { &mut before }) += 1;
        });
        // The last image is the command's result.
        eprintln!("{action}: {images} images, {before} before, {after} afterwards");
        assert!(images > 8 && after > 0 && (before > 0 || action == "rewrap"), "{action}");
        place.ok(["key", "status", "--verify", "--key-file", "second.key"]);
        place.ok(["audit", "log", "--verify", "--key-file", "second.key"]);
        if action != "remove" {
            place.set("TDEKIT_PASSWORD", "");
            place.set("TDEKIT_VAULT_KEY", "app");
            place.ok(["key", "status", "--verify"]);
        }
    }
}

/// Keeps open a database that it opened through Vault, and executes commands line by line.
const APPLICATION: &str = r#"
import sqlite3, sys
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
db = sqlite3.connect(sys.argv[2], isolation_level=None)
print(db.execute('SELECT count(*) FROM t').fetchone()[0], flush=True)
for line in sys.stdin:
    other = sqlite3.connect(sys.argv[2], isolation_level=None)
    for one in (db, other):
        one.execute("INSERT INTO t(a) VALUES ('after')")
    db.execute('PRAGMA wal_checkpoint')
    print(db.execute('SELECT count(*) FROM t').fetchone()[0], flush=True)
    other.close()
"#;

fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    std::env::current_exe().unwrap().with_file_name(name)
}

#[test]
fn what_is_open_goes_on_when_its_provider_is_gone() {
    let transit = Transit::new("aes256-gcm96");
    let gone = Arc::new(AtomicBool::new(false));
    let (asked_transit, is_gone) = (Arc::clone(&transit), Arc::clone(&gone));
    let server = Server::start(move |asked| match is_gone.load(Ordering::Relaxed) {
        true => Answer::Json(503, json!({ "errors": ["Vault is sealed"] })),
        false => asked_transit.lock().unwrap().answer("app", asked),
    });
    let mut place = place(&server);
    assert!(add(&place, &server).output().unwrap().status.success());
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    place.ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_VAULT_KEY", "app");
    // The extension asks through the command's own program.
    let tdekit = env!("CARGO_BIN_EXE_tdekit");
    let run = place.command(["--version"]);
    let mut application = Command::new("/usr/bin/python3");
    application.args(["-c", APPLICATION]).arg(extension()).arg(&path).env_clear();
    for (name, value) in run.get_envs() {
        application.env(name, value.unwrap());
    }
    application.env("TDEKIT_PROGRAM", tdekit);
    application.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = application.spawn().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = told.next();
    let Some(Ok(first)) = first else {
        panic!("{:?}", child.wait_with_output());
    };
    assert_eq!(first, "100");
    gone.store(true, Ordering::Relaxed);
    let mut input = child.stdin.take().unwrap();
    for rows in ["102", "104", "106"] {
        writeln!(input, "on").unwrap();
        assert_eq!(told.next().unwrap().unwrap(), rows);
    }
    // A new process gets an error, in time; the other secret still opens.
    let begun = Instant::now();
    let refused = place.fails(3, ["key", "status", "--verify"]);
    assert!(refused.contains("Vault is sealed"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let password = place.secret_file("password", b"secret");
    let by_password = ["--password-file", password.to_str().unwrap()];
    place.ok(["key", "status", "--verify", by_password[0], by_password[1]]);
    let doctor = place.run(["doctor", path.to_str().unwrap(), by_password[0], by_password[1]]);
    assert!(doctor.out.contains("6 of 6 pages open"), "{doctor:?}");
    writeln!(input, "on").unwrap();
    assert_eq!(told.next().unwrap().unwrap(), "108");
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The server is back, and everybody can open again.
    gone.store(false, Ordering::Relaxed);
    place.ok(["key", "status", "--verify"]);
    assert!(fs::metadata(&path).unwrap().len() > 0);
}
