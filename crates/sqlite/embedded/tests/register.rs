//! A program that is linked with SQLite and tdekit, as rusqlite's users build it: each step is a
//! separate process, because a VFS stays registered in the process.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use tdekit_embedded::Secret;
use tdekit_key_store::{
    KeyStore, NewCertificate, PasswordParams, Unlock, generate_key_file, now_seconds,
};

const MARKER: &str = "a name that no raw file may show";
const COUNT: &str = "SELECT count(*) FROM t";

/// Not a test of its own: [`again`] starts it.
#[test]
fn child() {
    let Ok(sql) = std::env::var("PROVE_SQL") else { return };
    if std::env::var_os("PROVE_REGISTER").is_some() {
        tdekit_embedded::register().unwrap();
        tdekit_embedded::register().unwrap();
    }
    let file = std::env::var_os("PROVE_FILE").unwrap();
    let given = std::env::var_os("PROVE_SECRET_FILE").map(|secret| {
        let secret = Path::new(&secret);
        match secret.file_name() == Some("password".as_ref()) {
            true => tdekit_embedded::unlock(&file, Secret::PasswordFile(secret)),
            false => tdekit_embedded::unlock(&file, Secret::KeyFile(secret)),
        }
    });
    let given = match given.transpose() {
        Err(error) => return println!("<{error}>"),
        Ok(given) => given,
    };
    let db = Connection::open(file).unwrap();
    drop(given);
    let outcome = match sql.starts_with("SELECT") {
        true => db.query_row(&sql, (), |row| row.get(0)).map(|count: i64| format!("found {count}")),
        false => db.execute_batch(&sql).map(|()| "done".to_owned()),
    };
    println!("<{}>", outcome.unwrap_or_else(|error| error.to_string()));
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (home, key) in [("store", "key"), ("other", "other.key")] {
            let key = directory.path().join(key);
            generate_key_file(&key).unwrap();
            let home = directory.path().join(home);
            let cost = PasswordParams::default();
            let mut store = KeyStore::create(&home, &Unlock::KeyFile(key), cost).unwrap();
            let (key_type, expires_at) = (None, now_seconds() + 86_400);
            let certificate = NewCertificate { name: "Proof", subject: None, key_type, expires_at };
            store.create_certificate(&certificate).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn again(&self, sql: &str, variables: &[(&str, &Path)]) -> String {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("PROVE_SQL", sql)
            .env("PROVE_FILE", self.path("app.db"))
            .env("TDEKIT_HOME", self.path("store"))
            .env("TDEKIT_KEY_FILE", self.path("key"))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        let answer = said.split_once('<').and_then(|(_, rest)| rest.rsplit_once('>'));
        answer.map_or_else(|| format!("{child:?}"), |(answer, _)| answer.to_owned())
    }
}

#[test]
fn a_linked_program_encrypts_reopens_and_refuses() {
    let place = Place::new();
    let yes = Path::new("1");
    let new = [("PROVE_REGISTER", yes), ("TDEKIT_ENCRYPT_NEW", Path::new("Proof"))];
    let registered = [("PROVE_REGISTER", yes)];
    let many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500)";
    let fill =
        format!("CREATE TABLE t(n INT, v TEXT); INSERT INTO t {many} SELECT i, '{MARKER}' FROM c");
    assert_eq!(place.again(&fill, &new), "done");
    let bytes = fs::read(place.path("app.db")).unwrap();
    assert!(bytes.len() > 16_384);
    assert!(!bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()));
    assert_eq!(place.again(COUNT, &registered), "found 500");
    assert_eq!(place.again(COUNT, &[]), "file is not a database");
    // A secret of the program's own, where the environment names a wrong one or none.
    let (right, other) = (place.path("key"), place.path("other.key"));
    let by = |secret: &Path| {
        let secret = ("PROVE_SECRET_FILE", secret);
        place.again(COUNT, &[registered[0], ("TDEKIT_KEY_FILE", &other), secret])
    };
    assert_eq!(by(&right), "found 500");
    assert!(by(&other).starts_with("tdekit: "), "{}", by(&other));
    let readable = place.path("password");
    fs::write(&readable, "x").unwrap();
    fs::set_permissions(&readable, Permissions::from_mode(0o644)).unwrap();
    // The kind is checked before the file.
    assert!(by(&readable).contains("password"), "{}", by(&readable));
    let (other, key) = (place.path("other"), place.path("other.key"));
    let wrong =
        [("TDEKIT_HOME", other.as_path()), ("TDEKIT_KEY_FILE", key.as_path()), registered[0]];
    assert!(!place.again(COUNT, &wrong).contains("found"));
    let mut bytes = bytes;
    for byte in bytes[16_384..].iter_mut().step_by(1000) {
        *byte ^= 1;
    }
    fs::write(place.path("app.db"), bytes).unwrap();
    assert!(!place.again(COUNT, &registered).contains("found"));
    // A plain database stays plain.
    fs::remove_file(place.path("app.db")).unwrap();
    assert_eq!(place.again(&fill, &registered), "done");
    assert_eq!(place.again(COUNT, &[]), "found 500");
}
