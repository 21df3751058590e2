//! Several key stores in one process: what each opens, what it does not open, and what stays in
//! memory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::{CERTIFICATE, home, one, setup};
use rusqlite::Connection;
use tdekit_key_store::{
    Binding, KeyStore, NewCertificate, PasswordParams, Protector, ProtectorKind, Provider,
    SecretBytes, StoreError, Unlock, Unlocked, WrappedDek, now_seconds,
};
use tdekit_sqlite_page::header::read_all_slots;
use tempfile::TempDir;

/// A key store with one certificate, `Cert`, beside its databases.
struct Tenant {
    dir: TempDir,
    unlocked: Unlocked,
}

impl Tenant {
    /// Its own configuration opens it, unless `key_file` of another tenant does.
    fn new(key_file: Option<&Path>) -> Self {
        let dir = TempDir::new().unwrap();
        let store = dir.path().join("store");
        let own = dir.path().join("key");
        if key_file.is_none() {
            tdekit_key_store::generate_key_file(&own).unwrap();
        }
        let secret = Unlock::KeyFile(key_file.unwrap_or(&own).to_owned());
        let mut unlocked = KeyStore::create(&store, &secret, PasswordParams::default()).unwrap();
        let expires_at = now_seconds() + 86_400;
        let key_type = None;
        let new = NewCertificate { name: "Cert", subject: None, key_type, expires_at };
        unlocked.create_certificate(&new).unwrap();
        if key_file.is_none() {
            fs::write(store.join("config.toml"), "[unlock]\nkey_file = \"../key\"\n").unwrap();
        }
        Self { dir, unlocked }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn uri(&self, path: &Path, more: &str) -> String {
        let store = self.path("store");
        format!("file:{}?tdekit_home={}{more}", path.display(), store.display())
    }

    /// Makes a database with one row.
    fn make(&self, name: &str) -> Connection {
        let db = self.open(&self.path(name), "&tdekit_certificate=Cert").unwrap();
        db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES('a secret')").unwrap();
        db
    }

    fn open(&self, path: &Path, more: &str) -> rusqlite::Result<Connection> {
        setup();
        Connection::open(self.uri(path, more))
    }

    fn dek(&self, name: &str) -> SecretBytes {
        let header = read_all_slots(&fs::read(self.path(name)).unwrap()).unwrap().remove(0);
        let recipients = &header.deks[0].recipients;
        let wrapped: Vec<_> =
            recipients.iter().map(|bytes| WrappedDek::decode(bytes).unwrap().0).collect();
        self.unlocked.unwrap_dek(&wrapped).unwrap()
    }
}

fn count(db: &Connection) -> i64 {
    one(db, "SELECT count(*) FROM t")
}

/// Returns the message that the thread gets for a failed opening.
fn why(result: rusqlite::Result<Connection>) -> String {
    let refused = result.expect_err("the database opened");
    assert_eq!(refused.sqlite_error().unwrap().extended_code, rusqlite::ffi::SQLITE_AUTH);
    one(&Connection::open_in_memory().unwrap(), "SELECT tdekit_last_error()")
}

#[test]
fn a_database_opens_by_its_own_store_alone() {
    let (a, b) = (Tenant::new(None), Tenant::new(None));
    let open = a.make("a.db");
    drop(b.make("b.db"));
    // While one tenant has it open, another still cannot open it.
    let by_other = why(b.open(&a.path("a.db"), ""));
    let store = b.path("store").display().to_string();
    assert!(by_other.contains(&store) && by_other.contains("certificate"), "{by_other}");
    let by_default = why(Connection::open(a.path("a.db")));
    assert!(by_default.contains("certificate") && !by_default.contains("tdekit_home"));
    assert_eq!(count(&open), 1);
    drop(open);
    assert_eq!(count(&a.open(&a.path("a.db"), "").unwrap()), 1);
    // A tenant's store does not open those of the environment either.
    let path = a.path("default.db");
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
    let default = Connection::open(uri).unwrap();
    default.execute_batch("CREATE TABLE t(x)").unwrap();
    why(a.open(&path, ""));
    // The environment's store under its own name is the environment's.
    let named = format!("file:{}?tdekit_home={}/.", path.display(), home().0.display());
    assert_eq!(count(&Connection::open(named).unwrap()), 0);
}

#[test]
fn statements_copy_from_store_to_store() {
    let (a, b) = (Tenant::new(None), Tenant::new(None));
    let db = a.make("a.db");
    let target = b.uri(&b.path("b.db"), "&tdekit_certificate=Cert");
    db.execute("ATTACH ?1 AS b", [target]).unwrap();
    db.execute_batch("CREATE TABLE b.t AS SELECT * FROM t").unwrap();
    db.execute("VACUUM INTO ?1", [b.uri(&b.path("into.db"), "&tdekit_certificate=Cert")]).unwrap();
    // If nothing is named, a copy uses the store of its source.
    db.execute("VACUUM INTO ?1", [a.path("copy.db").to_str().unwrap()]).unwrap();
    drop(db);
    for (tenant, other, name) in [(&b, &a, "b.db"), (&b, &a, "into.db"), (&a, &b, "copy.db")] {
        assert_eq!(count(&tenant.open(&tenant.path(name), "").unwrap()), 1, "{name}");
        why(other.open(&tenant.path(name), ""));
        why(Connection::open(tenant.path(name)));
    }
}

#[test]
fn the_environment_opens_no_store_that_is_named() {
    let tenant = Tenant::new(Some(&home().1));
    // Wrapping needs no secret.
    drop(tenant.make("a.db"));
    let told = why(tenant.open(&tenant.path("a.db"), ""));
    assert!(told.contains("nothing is configured") && told.contains("config.toml"), "{told}");
    let nowhere = format!("file:{}?tdekit_home=/nowhere", tenant.path("a.db").display());
    assert!(why(Connection::open(nowhere)).contains("/nowhere"));
}

#[test]
fn a_new_database_of_a_named_store_does_not_become_plain() {
    let tenant = Tenant::new(None);
    let path = tenant.path("a.db");
    let db = tenant.open(&path, "").unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap_err();
    let told: String = one(&db, "SELECT tdekit_last_error()");
    assert!(told.contains("tdekit_certificate"), "{told}");
    drop(db);
    assert!(!path.exists());
    let db = tenant.open(&path, "&tdekit=plain").unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    drop(db);
    assert_eq!(count(&tenant.open(&path, "").unwrap()), 0);
    let db = tenant.open(&tenant.path("fresh.db"), "&tdekit_certificate=Cert&tdekit_freshness=on");
    db.unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    assert_eq!(fs::read_dir(tenant.path("store/anchors")).unwrap().count(), 1);
}

#[test]
fn a_store_is_opened_once_and_until_its_last_database_closes() {
    let tenant = Tenant::new(None);
    drop(tenant.make("second.db"));
    let first = tenant.make("first.db");
    // From here on nothing opens the store again.
    fs::rename(tenant.path("key"), tenant.path("away")).unwrap();
    let second = tenant.open(&tenant.path("second.db"), "").unwrap();
    drop(first);
    assert_eq!(count(&tenant.open(&tenant.path("first.db"), "").unwrap()), 1);
    drop(second);
    let told = why(tenant.open(&tenant.path("first.db"), ""));
    assert!(told.contains("key"), "{told}");
}

/// Records the master key instead of sealing it.
struct Spy(Arc<Mutex<Vec<u8>>>);

impl Provider for Spy {
    fn kind(&self) -> ProtectorKind {
        ProtectorKind::Other(99)
    }

    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError> {
        *self.0.lock().unwrap() = master_key.expose().to_vec();
        let (kind, id, created_at) = (self.kind(), binding.protector_id, binding.created_at);
        Ok(Protector { kind, id, created_at, params: vec![0], sealed: vec![0] })
    }

    fn open(&self, _: &Protector, _: &Binding) -> Result<SecretBytes, StoreError> {
        Err(StoreError::WrongPassword)
    }
}

/// A stock Python with the extension that executes commands line by line.
struct Python {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start() -> Self {
        let name = format!("libtdekit_sqlite{}", std::env::consts::DLL_SUFFIX);
        let extension = std::env::current_exe().unwrap().with_file_name(name);
        let script = "import sqlite3, sys\n\
            db = sqlite3.connect(':memory:')\n\
            db.enable_load_extension(True)\n\
            db.load_extension(sys.argv[1])\n\
            for line in sys.stdin:\n    exec(line)\n    print('done', flush=True)\n";
        let (store, key_file) = home();
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(extension)
            .env("TDEKIT_HOME", store)
            .env("TDEKIT_KEY_FILE", key_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn run(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{line}");
    }

    /// Opens a database as `name` and reads it.
    fn open(&mut self, name: &str, uri: &str) {
        self.run(&format!("{name} = sqlite3.connect({uri:?}, uri=True)"));
        self.run(&format!("assert {name}.execute('SELECT count(*) FROM t').fetchone() == (1,)"));
    }

    /// Returns true if the bytes are anywhere in its memory.
    fn has(&self, needle: &[u8]) -> bool {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let mut memory = File::open(process.join("mem")).unwrap();
        let maps = fs::read_to_string(process.join("maps")).unwrap();
        let readable = maps
            .lines()
            .filter(|line| line.split(' ').nth(1).is_some_and(|mode| mode.starts_with("rw")));
        readable.into_iter().any(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
            let mut bytes = Vec::new();
            memory.seek(SeekFrom::Start(start)).unwrap();
            // Some special mappings cannot be read.
            let _ = (&mut memory).take(end - start).read_to_end(&mut bytes);
            bytes.windows(needle.len()).any(|window| window == needle)
        })
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_keys_of_a_closed_tenant_leave_memory() {
    let (mut a, b) = (Tenant::new(None), Tenant::new(None));
    drop((a.make("a.db"), a.make("second.db"), b.make("b.db")));
    let master_key = Arc::new(Mutex::new(Vec::new()));
    let spy = Unlock::Provider(Box::new(Spy(master_key.clone())));
    a.unlocked.add_protector(&spy, PasswordParams::default()).unwrap();
    let master_key = master_key.lock().unwrap().clone();
    let (dek_a, second, dek_b) = (a.dek("a.db"), a.dek("second.db"), b.dek("b.db"));
    let (path_a, path_second) = (a.path("a.db"), a.path("second.db"));
    let mut python = Python::start();
    let has = |python: &Python, keys: [&[u8]; 4]| keys.map(|key| python.has(key));
    let keys = [master_key.as_slice(), dek_a.expose(), second.expose(), dek_b.expose()];
    assert_eq!(has(&python, keys), [false; 4]);
    for _ in 0..2 {
        python.open("a", &a.uri(&path_a, ""));
        python.open("again", &a.uri(&path_a, ""));
        python.open("second", &a.uri(&path_second, ""));
        python.open("b", &b.uri(&b.path("b.db"), ""));
        assert_eq!(has(&python, keys), [true; 4]);
        python.run("a.close()");
        assert_eq!(has(&python, keys), [true; 4]);
        python.run("again.close()");
        assert_eq!(has(&python, keys), [true, false, true, true]);
        python.run("second.close()");
        assert_eq!(has(&python, keys), [false, false, false, true]);
        python.run("b.close()");
        assert_eq!(has(&python, keys), [false; 4]);
    }
}

#[test]
fn the_shell_takes_stores_by_uri() {
    let (a, b) = (Tenant::new(None), Tenant::new(None));
    drop((a.make("a.db"), b.make("b.db")));
    let name = format!("libtdekit_sqlite{}", std::env::consts::DLL_SUFFIX);
    let extension = std::env::current_exe().unwrap().with_file_name(name);
    // The connection is older than the VFS.
    let uri = |tenant: &Tenant, path: &Path| tenant.uri(path, "&vfs=tdekit");
    let [uri_a, uri_b] = [uri(&a, &a.path("a.db")), uri(&b, &b.path("b.db"))];
    let wrong = uri(&a, &b.path("b.db"));
    let mut shell = Command::new("sqlite3");
    shell.arg(":memory:").args(["-cmd", &format!(".load {}", extension.display())]);
    shell.arg(format!(
        "ATTACH '{uri_a}' AS a; ATTACH '{uri_b}' AS b; SELECT a.t.x, b.t.x FROM a.t, b.t;"
    ));
    let output = shell.env_remove("TDEKIT_HOME").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, "a secret|a secret\n", "{output:?}");
    let mut shell = Command::new("sqlite3");
    shell.arg(":memory:").args(["-cmd", &format!(".load {}", extension.display())]);
    let output = shell.arg(format!("ATTACH '{wrong}' AS b;")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("authorization denied"), "{output:?}");
}
