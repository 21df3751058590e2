//! A secret that the program gives for one database: what opens by it, and for how long.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::{CERTIFICATE, alone, home, one, setup};
use rusqlite::Connection;
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock, now_seconds};
use tdekit_key_store::{SecretBytes, generate_key_file};
use tdekit_sqlite::given::{Secret, give};
use tempfile::TempDir;

const PASSWORD: &str = "only for this test";

/// A key store that a password opens, which nothing configures, and a database of it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        setup();
        let place = Self { dir: TempDir::new().unwrap() };
        let secret = Unlock::Password(SecretBytes::from_slice(PASSWORD.as_bytes()).unwrap());
        let cost = PasswordParams::default();
        let mut store = KeyStore::create(&place.path("store"), &secret, cost).unwrap();
        let (key_type, expires_at) = (None, now_seconds() + 86_400);
        let new = NewCertificate { name: "Cert", subject: None, key_type, expires_at };
        store.create_certificate(&new).unwrap();
        let with = place.given("password", PASSWORD).unwrap();
        let made = Connection::open(place.uri() + "&tdekit_certificate=Cert").unwrap();
        made.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
        drop(with);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn uri(&self) -> String {
        let (path, home) = (self.path("a.db"), self.path("store"));
        format!("file:{}?tdekit_home={}", path.display(), home.display())
    }

    /// Returns a connection that holds the secret for the database.
    fn given(&self, kind: &str, secret: &str) -> rusqlite::Result<Connection> {
        let db = Connection::open_in_memory()?;
        let arguments = [&self.uri(), kind, secret];
        db.query_row("SELECT tdekit_unlock(?1, ?2, ?3)", arguments, |_| Ok(()))?;
        Ok(db)
    }

    fn refused(&self, kind: &str, secret: &str) -> String {
        self.given(kind, secret).expect_err("the secret opens the key store").to_string()
    }

    fn rows(&self) -> rusqlite::Result<i64> {
        Connection::open(self.uri()).map(|db| one(&db, "SELECT count(*) FROM t"))
    }
}

#[test]
fn it_opens_the_database_while_it_is_held() {
    let place = Place::new();
    assert!(place.rows().unwrap_err().to_string().contains("only its own config.toml"));
    let with = place.given("password", PASSWORD).unwrap();
    let open = Connection::open(place.uri()).unwrap();
    assert_eq!(one::<i64>(&open, "SELECT count(*) FROM t"), 1);
    // A wrong one for the same database changes nothing for those that hold the right one.
    assert!(place.refused("password", "another").contains("wrong password for the key store"));
    assert_eq!(place.rows().unwrap(), 1);
    let again = place.given("password", PASSWORD).unwrap();
    drop(with);
    assert_eq!(place.rows().unwrap(), 1);
    drop(again);
    // The open connection goes on; a new one needs a secret, although the keys are in memory.
    assert_eq!(one::<i64>(&open, "SELECT count(*) FROM t"), 1);
    assert!(place.rows().is_err());
    open.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    drop(open);
    assert!(place.rows().is_err());
}

#[test]
fn it_opens_nothing_else() {
    let (place, other) = (Place::new(), Place::new());
    let with = place.given("password", PASSWORD).unwrap();
    assert!(other.rows().is_err());
    fs::copy(place.path("a.db"), place.path("b.db")).unwrap();
    let copy = place.uri().replace("a.db", "b.db");
    assert!(Connection::open(copy).is_err());
    // Without the key store's name the database is one of the environment's.
    assert!(Connection::open(place.path("a.db")).is_err());
    // A new database that nobody asked to be encrypted is not made.
    fs::remove_file(place.path("a.db")).unwrap();
    let made = Connection::open(place.uri()).and_then(|db| db.execute_batch("CREATE TABLE t(x)"));
    assert!(made.is_err());
    assert_eq!(fs::metadata(place.path("a.db")).map_or(0, |made| made.len()), 0);
    drop(with);
}

#[test]
fn files_of_secrets_are_checked() {
    let place = Place::new();
    let file = place.path("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let name = file.to_str().unwrap();
    let with = place.given("password_file", name).unwrap();
    assert_eq!(place.rows().unwrap(), 1);
    drop(with);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let said = place.refused("password_file", name);
    assert!(said.contains("password has mode 0644: others could read it"), "{said}");
    let key = place.path("key");
    generate_key_file(&key).unwrap();
    let said = place.refused("key_file", key.to_str().unwrap());
    assert!(said.contains("password"), "{said}");
}

#[test]
fn no_error_shows_an_argument() {
    let place = Place::new();
    for (kind, secret) in [(PASSWORD, "password"), ("passphrase", PASSWORD)] {
        let said = place.refused(kind, secret);
        assert!(said.contains("tdekit_unlock takes") && !said.contains(PASSWORD), "{said}");
    }
    let wrong = "wrong-b07e5c1d";
    assert!(!place.refused("password", wrong).contains(wrong));
    assert!(place.refused("password", "").contains("the password is empty"));
    let db = Connection::open_in_memory().unwrap();
    let null = db.query_row("SELECT tdekit_unlock('a.db', 'password', NULL)", [], |_| Ok(()));
    assert!(null.unwrap_err().to_string().contains("tdekit_unlock takes"));
    // What a database's own schema could run cannot call it.
    db.execute_batch("CREATE VIEW v AS SELECT tdekit_unlock('a.db', 'password', 'x')").unwrap();
    let view = db.query_row("SELECT * FROM v", [], |_| Ok(())).unwrap_err().to_string();
    assert!(view.contains("unsafe use of tdekit_unlock"), "{view}");
}

/// The environment's own key store, by a secret that replaces what is configured there.
#[test]
fn it_goes_before_the_environment() {
    if !alone("given::it_goes_before_the_environment") {
        return;
    }
    let (_, key) = home();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
    Connection::open(uri).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    let moved = dir.path().join("moved");
    fs::rename(&key, &moved).unwrap();
    let elsewhere = dir.path().join("copy.db");
    fs::copy(&path, &elsewhere).unwrap();
    let with = give(elsewhere.as_os_str(), Secret::KeyFile(&moved)).unwrap();
    assert_eq!(one::<i64>(&Connection::open(&elsewhere).unwrap(), "SELECT count(*) FROM t"), 0);
    drop(with);
    assert!(give(elsewhere.as_os_str(), Secret::KeyFile(&key)).is_err());
}
