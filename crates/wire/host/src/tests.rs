//! The host as T-SQL calls it, on its own databases and key store.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tdekit_backup_run::Notice;
use tdekit_key_store::StoreAccess;
use tdekit_sqlite_convert::{Rotation, Step, Unwatched, Watch, file_uri, rotate};
use tdekit_wire_tds::{Message, Value};
use tdekit_wire_tsql::{
    AlterDatabase, Backup, BackupEncryption, CertificateBackup, CreateCertificate, Device,
    EncryptionKey, Error, Host, Restore, RestoreKind, Rows, TsqlEngine,
};

use super::*;

/// The keyring is global to the process: one host at a time.
static ONE: Mutex<()> = Mutex::new(());

fn cheap() -> PasswordParams {
    PasswordParams::new(8 << 10, 1, 1).unwrap()
}
const PASSWORD: &str = "p@ssw0rd";

pub(super) struct Served {
    host: Arc<ServeHost>,
    dir: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Served {
    pub(super) fn new() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let host = Arc::new(host_at(&dir.path().join("data"), &dir.path().join("home")));
        Self { host, dir, _one: one }
    }

    pub(super) fn engine(&self) -> TsqlEngine {
        TsqlEngine::new(Arc::clone(&self.host) as _)
    }

    /// A server that is restarted on the same directories.
    pub(super) fn engine_again(&self) -> TsqlEngine {
        let [data, home] = ["data", "home"].map(|name| self.dir.path().join(name));
        TsqlEngine::new(Arc::new(host_at(&data, &home)))
    }

    /// With document B's master key and certificate.
    fn with_certificate() -> Self {
        let served = Self::new();
        served.host.create_master_key(Some(PASSWORD)).unwrap();
        served.host.open_master_key(PASSWORD).unwrap();
        served.certificate("TestCert").unwrap();
        served
    }

    fn certificate(&self, name: &str) -> Result<()> {
        let subject = "EncryptionTesting".to_owned();
        let wanted = CreateCertificate { name: name.to_owned(), subject, ..Default::default() };
        self.host.create_certificate(&wanted)
    }

    /// Makes a database with a table of some rows.
    pub(super) fn database(&self, name: &str) {
        self.host.create_database(name).unwrap();
        let db = self.connect(name);
        db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1), (2), (40)").unwrap();
    }

    fn connect(&self, name: &str) -> Connection {
        Connection::open(self.host.opening(name).unwrap().uri).unwrap()
    }

    pub(super) fn sum(&self, name: &str) -> i64 {
        self.connect(name).query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn backup(&self, wanted: &Backup) -> (Result<()>, Vec<Message>) {
        let mut told = Vec::new();
        let mut out = |message| {
            told.push(message);
            true
        };
        let done = self.host.backup(wanted, Progress::new(&mut out, Arc::default()));
        (done, told)
    }

    fn restore(&self, wanted: &Restore) -> (Result<Option<Rows>>, Vec<Message>) {
        let mut told = Vec::new();
        let mut out = |message| {
            told.push(message);
            true
        };
        let done = self.host.restore(wanted, Progress::new(&mut out, Arc::default()));
        (done, told)
    }

    fn alter(&self, name: &str, change: &AlterDatabase) -> Result<()> {
        silently(|out| self.host.alter_database(name, change, out))
    }

    fn view(&self, name: &str) -> Rows {
        self.host.view(name, 51).unwrap().unwrap()
    }
}

/// Has its key store in a directory, and ignores notices.
pub(super) struct Silent(pub(super) PathBuf);

impl Operator for Silent {
    fn access(&self) -> StoreAccess {
        StoreAccess { dir: Some(self.0.clone()), ..StoreAccess::default() }
    }

    fn tell(&self, _notice: &Notice<'_>) {}
}

fn host_at(data: &Path, home: &Path) -> ServeHost {
    let operator = Arc::new(Silent(home.to_owned()));
    let logins = super::logins::of_sa(data);
    let paths = (data, logins, BTreeMap::new());
    ServeHost::with_cost(paths, operator, Sessions::default(), cheap()).unwrap()
}

/// Runs a verb whose messages do not matter.
fn silently<T>(verb: impl FnOnce(Progress<'_>) -> T) -> T {
    verb(Progress::new(&mut |_| true, Arc::default()))
}

fn to_disk(database: &str, file: &str) -> Backup {
    Backup {
        database: database.to_owned(),
        devices: vec![Device::Disk(file.to_owned())],
        init: false,
        format: false,
        compression: None,
        log: false,
        differential: false,
        copy_only: false,
        checksum: None,
        encryption: None,
        name: None,
        description: None,
        media_name: None,
        media_description: None,
        stats_percent: None,
    }
}

fn sealed(database: &str, file: &str, algorithm: &str) -> Backup {
    let (algorithm, certificate) = (algorithm.to_owned(), "TestCert".to_owned());
    let encryption = Some(BackupEncryption { algorithm, certificate });
    Backup { encryption, init: true, ..to_disk(database, file) }
}

fn from_disk(kind: RestoreKind, database: Option<&str>, file: &str) -> Restore {
    Restore {
        kind,
        database: database.map(str::to_owned),
        devices: vec![Device::Disk(file.to_owned())],
        position: None,
        replace: false,
        recovery: true,
        conflicting: false,
        stop_at: None,
        checksum: None,
        stats_percent: None,
        moves: Vec::new(),
        login: "sa".to_owned(),
    }
}

fn key(algorithm: &str) -> EncryptionKey {
    EncryptionKey {
        algorithm: Some(algorithm.to_owned()),
        certificate: Some("TestCert".to_owned()),
        regenerate: false,
    }
}

fn number<T: std::fmt::Debug>(failed: Result<T>) -> i32 {
    failed.unwrap_err().code().0
}

fn numbers(told: &[Message]) -> Vec<i32> {
    assert!(told.iter().all(|message| !message.is_error()), "{told:?}");
    told.iter().map(|message| message.number).collect()
}

fn column<'a>(rows: &'a Rows, name: &str) -> Vec<&'a Value<'static>> {
    let at = rows.columns.iter().position(|(known, _)| known == name).unwrap();
    rows.rows.iter().map(|row| &row[at]).collect()
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.clone().into_owned(),
        Value::Null => "NULL".to_owned(),
        other => panic!("{other:?} is no text"),
    }
}

fn texts(rows: &Rows, name: &str) -> Vec<String> {
    column(rows, name).into_iter().map(text).collect()
}

#[test]
fn the_master_key_is_made_once_and_opens_by_its_password_only() {
    let served = Served::new();
    let host = &served.host;
    assert_eq!(number(host.open_master_key(PASSWORD)), 15581);
    assert_eq!(number(served.certificate("TestCert")), 15581);
    assert_eq!(number(host.drop_master_key()), 15151);
    assert_eq!(number(host.create_master_key(None)), 40512);
    assert!(served.view("sys.symmetric_keys").rows.is_empty());
    host.create_master_key(Some(PASSWORD)).unwrap();
    assert_eq!(number(host.create_master_key(Some(PASSWORD))), 15578);
    let failed = host.open_master_key("other password").unwrap_err();
    assert_eq!(failed.code(), (15313, 16, 1));
    assert!(!format!("{failed:?}").contains("other password"));
    served.certificate("TestCert").unwrap();
    assert_eq!(number(served.certificate("TestCert")), 15232);
    assert_eq!(number(host.drop_master_key()), 15580);
    let keys = served.view("sys.symmetric_keys");
    assert_eq!(texts(&keys, "name"), ["##MS_DatabaseMasterKey##"]);
    host.close_master_key().unwrap();
    assert_eq!(number(host.close_master_key()), 15315);
    assert_eq!(number(served.certificate("Other")), 15581);
    host.open_master_key(PASSWORD).unwrap();
    served.certificate("Other").unwrap();
    assert_eq!(texts(&served.view("sys.certificates"), "name"), ["TestCert", "Other"]);
}

#[test]
fn a_new_master_key_has_a_new_password() {
    let served = Served::new();
    let host = &served.host;
    assert_eq!(number(host.alter_master_key("another one", false)), 15581);
    host.create_master_key(Some(PASSWORD)).unwrap();
    served.certificate("TestCert").unwrap();
    let ids = |served: &Served| column(&served.view("sys.symmetric_keys"), "key_guid")[0].clone();
    let before = ids(&served);
    host.alter_master_key("another one", false).unwrap();
    assert_ne!(ids(&served), before);
    served.certificate("Next").unwrap();
    host.close_master_key().unwrap();
    assert_eq!(number(host.open_master_key(PASSWORD)), 15313);
    host.open_master_key("another one").unwrap();
    // Data sealed under the old key opens under the new one.
    served.database("a");
    served.backup(&sealed("a", "a.bak", "AES_256")).0.unwrap();
    assert_eq!(number(host.alter_master_key(PASSWORD, true)), 40512);
}

#[test]
fn a_certificate_travels_as_a_pfx() {
    let served = Served::with_certificate();
    let wanted = CertificateBackup {
        name: "TestCert".to_owned(),
        file: "TestCert.pfx".to_owned(),
        encryption_password: Some(PASSWORD.to_owned()),
        pfx: true,
        ..Default::default()
    };
    served.host.backup_certificate(&wanted).unwrap();
    assert_eq!(number(served.host.backup_certificate(&wanted)), 15240);
    let certificates = served.view("sys.certificates");
    assert_ne!(*column(&certificates, "pvt_key_last_backup_date")[0], Value::Null);
    let without = CertificateBackup { encryption_password: None, ..wanted };
    assert_eq!(number(served.host.backup_certificate(&without)), 15233);
    let elsewhere = host_at(&served.path(""), &served.dir.path().join("other home"));
    elsewhere.create_master_key(Some("another one")).unwrap();
    let taken = |password: Option<&str>| CreateCertificate {
        name: "Taken".to_owned(),
        file: Some("TestCert.pfx".to_owned()),
        decryption_password: password.map(str::to_owned),
        pfx: true,
        ..Default::default()
    };
    let create = |password| elsewhere.create_certificate(&taken(password));
    assert_eq!(number(create(None)), 15233);
    assert_eq!(number(create(Some("wrong"))), 15465);
    create(Some(PASSWORD)).unwrap();
    let there = elsewhere.view("sys.certificates", 51).unwrap().unwrap();
    assert_eq!(*column(&there, "thumbprint")[0], *column(&certificates, "thumbprint")[0]);
}

#[test]
fn a_certificate_is_backed_up_and_taken_elsewhere() {
    let served = Served::with_certificate();
    let wanted = CertificateBackup {
        name: "TestCert".to_owned(),
        file: "TestCert.cert".to_owned(),
        key_file: Some("TestCert.key".to_owned()),
        encryption_password: Some(PASSWORD.to_owned()),
        decryption_password: None,
        pfx: false,
    };
    let backed_up = |served: &Served| {
        let certificates = served.view("sys.certificates");
        *column(&certificates, "pvt_key_last_backup_date")[0] != Value::Null
    };
    assert!(!backed_up(&served));
    served.host.backup_certificate(&wanted).unwrap();
    assert!(backed_up(&served));
    assert_eq!(fs::read(served.path("TestCert.cert")).unwrap()[0], 0x30, "DER, as SQL Server's");
    assert_eq!(number(served.host.backup_certificate(&wanted)), 15240);
    let missing = CertificateBackup { name: "None".to_owned(), ..wanted.clone() };
    assert_eq!(number(served.host.backup_certificate(&missing)), 15151);
    assert_eq!(number(served.host.drop_certificate("None")), 15151);

    let elsewhere = host_at(&served.path(""), &served.dir.path().join("other home"));
    elsewhere.create_master_key(Some("another one")).unwrap();
    let taken = |password: &str, file: &str, key: &str| CreateCertificate {
        name: "Taken".to_owned(),
        file: Some(file.to_owned()),
        key_file: Some(key.to_owned()),
        decryption_password: Some(password.to_owned()),
        ..Default::default()
    };
    let create = |certificate| elsewhere.create_certificate(&certificate);
    assert_eq!(number(create(taken("wrong", "TestCert.cert", "TestCert.key"))), 15465);
    assert_eq!(number(create(taken(PASSWORD, "none.cert", "TestCert.key"))), 15208);
    fs::write(served.path("win.pvk"), b"\x1e\xf1\xb5\xb0\0\0\0\0").unwrap();
    assert_eq!(number(create(taken(PASSWORD, "TestCert.cert", "win.pvk"))), 40512);
    create(taken(PASSWORD, "TestCert.cert", "TestCert.key")).unwrap();
    let thumbprint = |rows: Rows| column(&rows, "thumbprint")[0].clone();
    let there = elsewhere.view("sys.certificates", 51).unwrap().unwrap();
    assert_eq!(thumbprint(there), thumbprint(served.view("sys.certificates")));
}

#[test]
fn document_bs_backups_are_made_and_told_in_the_history() {
    let served = Served::with_certificate();
    served.database("awHDD");
    let mut names = Vec::new();
    for algorithm in ["", "AES_128", "AES_192", "AES_256", "TRIPLE_DES_3KEY"] {
        for compression in [false, true] {
            let name = format!("test-{algorithm}-{compression}");
            let file = format!("{name}.bak");
            let base = match algorithm {
                "" => Backup { init: true, ..to_disk("AWHDD", &file) },
                _ => sealed("AWHDD", &file, algorithm),
            };
            let wanted = Backup {
                compression: Some(compression),
                name: Some(name.clone()),
                stats_percent: Some(10),
                ..base
            };
            for _ in 0..2 {
                let (done, told) = served.backup(&wanted);
                done.unwrap();
                let told = numbers(&told);
                let legacy = i32::from(algorithm == "TRIPLE_DES_3KEY") * 50_000;
                assert!(legacy == 0 || told[0] == legacy);
                assert_eq!(told.contains(&33091), !algorithm.is_empty(), "{told:?}");
                assert!(told.ends_with(&[4035, 3014]), "{told:?}");
                assert!(told.contains(&3211), "{told:?}");
            }
            names.extend([name.clone(), name]);
        }
    }
    let history = served.view("msdb.dbo.backupset");
    assert_eq!(texts(&history, "name"), names);
    assert!(texts(&history, "database_name").iter().all(|name| name == "awHDD"));
    let algorithms = texts(&history, "key_algorithm");
    let of = |algorithm: &str| algorithms.iter().filter(|each| *each == algorithm).count();
    let counts = ["NULL", "AES_128", "AES_192", "AES_256", "TRIPLE_DES_3KEY"].map(of);
    assert_eq!(counts, [4; 5]);
    let certificates = served.view("sys.certificates");
    let thumbprint = column(&certificates, "thumbprint")[0];
    for (algorithm, of_set) in algorithms.iter().zip(column(&history, "encryptor_thumbprint")) {
        assert_eq!(algorithm != "NULL", of_set == thumbprint);
    }
    assert_eq!(served.view("msdb.dbo.backupmediaset").rows.len(), 20);
    let family = served.view("msdb.dbo.backupmediafamily");
    let device = served.path("test-AES_128-true.bak").canonicalize().unwrap();
    let devices = texts(&family, "physical_device_name");
    assert!(devices.contains(&device.to_string_lossy().into_owned()), "{devices:?}");
    // The media sets that were overwritten no longer need the certificate; these do.
    assert_eq!(number(served.host.drop_certificate("TestCert")), 15352);
}

#[test]
fn headers_tell_without_a_key_and_verifying_needs_it() {
    let served = Served::with_certificate();
    served.database("a");
    served
        .backup(&Backup { name: Some("first".to_owned()), ..sealed("a", "a.bak", "AES_256") })
        .0
        .unwrap();
    let append = Backup { init: false, differential: true, ..sealed("a", "a.bak", "AES_256") };
    let (done, told) = served.backup(&append);
    done.unwrap();
    assert!(
        told.last().unwrap().text.starts_with("BACKUP DATABASE WITH DIFFERENTIAL successfully")
    );
    served.host.close_master_key().unwrap();
    let header =
        served.restore(&from_disk(RestoreKind::HeaderOnly, None, "a.bak")).0.unwrap().unwrap();
    assert_eq!(texts(&header, "BackupName"), ["first", ""]);
    assert_eq!(texts(&header, "KeyAlgorithm"), ["AES_256", "AES_256"]);
    assert_eq!(texts(&header, "EncryptorType"), ["CERTIFICATE", "CERTIFICATE"]);
    assert_eq!(column(&header, "BackupType"), [&Value::Int(1), &Value::Int(5)]);
    assert_eq!(column(&header, "Position"), [&Value::Int(1), &Value::Int(2)]);
    let sets = column(&header, "BackupSetGUID");
    assert_eq!(*sets[0], *column(&header, "DifferentialBaseGUID")[1]);
    let files = served.restore(&from_disk(RestoreKind::FileListOnly, None, "a.bak")).0.unwrap();
    assert_eq!(texts(&files.unwrap(), "LogicalName"), ["a"]);
    let label = served.restore(&from_disk(RestoreKind::LabelOnly, None, "a.bak")).0.unwrap();
    assert_eq!(column(&label.unwrap(), "FamilyCount"), [&Value::Int(1)]);

    let verify = Restore {
        position: Some("2".to_owned()),
        ..from_disk(RestoreKind::VerifyOnly, None, "a.bak")
    };
    assert_eq!(number(served.restore(&verify).0), 15581);
    served.host.open_master_key(PASSWORD).unwrap();
    let (done, told) = served.restore(&verify);
    done.unwrap();
    assert_eq!(told[0].text, "The backup set on file 2 is valid.");
    let mut bytes = fs::read(served.path("a.bak")).unwrap();
    let middle = bytes.len() / 8;
    bytes[middle] ^= 1;
    fs::write(served.path("b.bak"), bytes).unwrap();
    let damaged = from_disk(RestoreKind::VerifyOnly, None, "b.bak");
    assert!(served.restore(&damaged).0.is_err());
}

#[test]
fn a_set_behind_encrypted_ones_is_encrypted_as_they_are() {
    let served = Served::with_certificate();
    served.database("a");
    served.backup(&sealed("a", "a.bak", "AES_192")).0.unwrap();
    served.backup(&to_disk("a", "a.bak")).0.unwrap();
    served.backup(&Backup { differential: true, ..to_disk("a", "a.bak") }).0.unwrap();
    let header =
        served.restore(&from_disk(RestoreKind::HeaderOnly, None, "a.bak")).0.unwrap().unwrap();
    assert_eq!(texts(&header, "KeyAlgorithm"), ["AES_192"; 3]);
    let thumbprints = column(&header, "EncryptorThumbprint");
    assert!(*thumbprints[0] != Value::Null && thumbprints.iter().all(|it| *it == thumbprints[0]));
    // Somebody replaced them by plain media.
    served.backup(&to_disk("a", "plain.bak")).0.unwrap();
    fs::copy(served.path("plain.bak"), served.path("a.bak")).unwrap();
    let (done, _) = served.backup(&to_disk("a", "a.bak"));
    assert!(done.unwrap_err().to_string().contains("was encrypted when it was last written"));
}

#[test]
fn what_cannot_be_backed_up_or_restored_has_sql_servers_numbers() {
    let served = Served::with_certificate();
    served.database("a");
    served.backup(&to_disk("a", "plain.bak")).0.unwrap();
    fs::write(served.path("text.bak"), "no media ".repeat(1000)).unwrap();
    let append = Backup { init: false, ..sealed("a", "plain.bak", "AES_256") };
    assert_eq!(number(served.backup(&append).0), 3095);
    let fails = |wanted: Backup| number(served.backup(&wanted).0);
    assert_eq!(fails(to_disk("none", "x.bak")), 911);
    assert_eq!(fails(to_disk("master", "x.bak")), 40512);
    assert_eq!(fails(to_disk("a", "D:\\backup\\x.bak")), 3201);
    assert_eq!(fails(to_disk("a", "none/x.bak")), 3201);
    assert_eq!(fails(to_disk("a", "text.bak")), 3241);
    served.database("c");
    assert_eq!(fails(Backup { differential: true, ..to_disk("c", "y.bak") }), 3035);
    assert_eq!(fails(Backup { media_name: Some("m".to_owned()), ..to_disk("a", "y.bak") }), 40512);
    let mut unknown = sealed("a", "x.bak", "AES_256");
    unknown.encryption.as_mut().unwrap().certificate = "None".to_owned();
    assert_eq!(fails(unknown), 15151);
    let fails = |wanted: Restore| number(served.restore(&wanted).0);
    assert_eq!(fails(from_disk(RestoreKind::HeaderOnly, None, "none.bak")), 3201);
    assert_eq!(fails(from_disk(RestoreKind::HeaderOnly, None, "text.bak")), 3241);
    let third = Restore {
        position: Some("3".to_owned()),
        ..from_disk(RestoreKind::VerifyOnly, None, "plain.bak")
    };
    assert_eq!(fails(third), 4038);
    assert_eq!(fails(from_disk(RestoreKind::Database, Some("a"), "plain.bak")), 3159);
    served.database("b");
    assert_eq!(fails(from_disk(RestoreKind::Database, Some("b"), "plain.bak")), 3154);
    let over =
        Restore { replace: true, ..from_disk(RestoreKind::Database, Some("b"), "plain.bak") };
    let open = served.connect("b");
    open.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    assert_eq!(number(served.restore(&over).0), 3101);
    drop(open);
    served.connect("b").execute_batch("DELETE FROM t").unwrap();
    let (done, told) = served.restore(&over);
    done.unwrap();
    assert_eq!(numbers(&told), [4035, 3014]);
    assert_eq!(served.sum("b"), 43);
}

#[test]
fn an_encrypted_backup_is_restored_where_its_certificate_is() {
    let served = Served::with_certificate();
    served.database("a");
    served.backup(&sealed("a", "a.bak", "AES_192")).0.unwrap();
    served
        .host
        .backup_certificate(&CertificateBackup {
            name: "TestCert".to_owned(),
            file: "c.cer".to_owned(),
            key_file: Some("c.key".to_owned()),
            encryption_password: Some(PASSWORD.to_owned()),
            decryption_password: None,
            pfx: false,
        })
        .unwrap();
    let (_, told) = served.backup(&sealed("a", "a.bak", "AES_192"));
    assert_eq!(numbers(&told), [4035, 3014], "no warning: the certificate is backed up");
    let elsewhere = host_at(&served.path(""), &served.dir.path().join("other home"));
    elsewhere.create_master_key(Some("another one")).unwrap();
    let wanted = from_disk(RestoreKind::Database, Some("copy"), "a.bak");
    let failed = silently(|out| elsewhere.restore(&wanted, out)).unwrap_err();
    assert_eq!(failed.code().0, 33111);
    assert!(failed.to_string().contains("thumbprint '0x"), "{failed}");
    assert!(!served.path("copy.db").exists());
    elsewhere
        .create_certificate(&CreateCertificate {
            name: "Taken".to_owned(),
            file: Some("c.cer".to_owned()),
            key_file: Some("c.key".to_owned()),
            decryption_password: Some(PASSWORD.to_owned()),
            ..Default::default()
        })
        .unwrap();
    silently(|out| elsewhere.restore(&wanted, out)).unwrap();
    let copy = Connection::open(file_uri(&served.path("copy.db"))).unwrap();
    let sum: i64 = copy.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 43);
}

#[test]
fn a_database_is_encrypted_and_decrypted_as_scripts_do_it() {
    let served = Served::with_certificate();
    served.database("a");
    let host = &served.host;
    let (on, off) = (AlterDatabase::EncryptionOn, AlterDatabase::EncryptionOff);
    let create = |name: &str, key: &EncryptionKey| {
        let mut told = Vec::new();
        let mut out = |message: Message| {
            told.push(message.number);
            true
        };
        let out = Progress::new(&mut out, Arc::default());
        host.create_encryption_key(name, key, out).map(|()| told)
    };
    let is_encrypted = || {
        let all = host.databases().unwrap();
        all.iter().find(|each| each.name == "a").unwrap().encrypted
    };
    let states = || {
        let rows = served.view("sys.dm_database_encryption_keys");
        texts(&rows, "encryption_state_desc")
    };
    assert_eq!(number(served.alter("a", &on)), 33106);
    assert_eq!(number(served.alter("a", &off)), 33108);
    assert_eq!(number(served.alter("none", &on)), 911);
    assert_eq!(number(host.drop_encryption_key("a")), 33104);
    assert_eq!(number(create("master", &key("AES_256"))), 33102);
    assert_eq!(number(create("a", &key("TRIPLE_DES_3KEY"))), 40512);
    let none = EncryptionKey { certificate: Some("None".to_owned()), ..key("AES_256") };
    assert_eq!(number(create("a", &none)), 15151);
    assert!(states().is_empty());
    assert_eq!(create("a", &key("AES_128")).unwrap(), [33091]);
    assert_eq!(number(create("a", &key("AES_128"))), 33103);
    assert_eq!(states(), ["UNENCRYPTED"]);
    let open = served.connect("a");
    assert_eq!(number(served.alter("a", &on)), 5061, "somebody has it open");
    drop(open);
    served.alter("a", &on).unwrap();
    assert!(is_encrypted());
    assert_eq!(states(), ["ENCRYPTED"]);
    assert_eq!(served.sum("a"), 43);
    assert_eq!(number(served.alter("a", &on)), 33107);
    assert_eq!(number(host.drop_encryption_key("a")), 33105);
    assert_eq!(number(create("a", &key("AES_128"))), 33103);
    assert_eq!(number(served.alter("a", &AlterDatabase::EncryptionSuspend)), 50000, "none begun");
    let rows = served.view("sys.dm_database_encryption_keys");
    assert_eq!(texts(&rows, "key_algorithm"), ["AES"]);
    assert_eq!(column(&rows, "key_length"), [&Value::Int(128)]);

    served.certificate("Next").unwrap();
    let next =
        EncryptionKey { algorithm: None, certificate: Some("Next".to_owned()), regenerate: false };
    silently(|out| host.alter_encryption_key("a", &next, out)).unwrap();
    let rows = served.view("sys.dm_database_encryption_keys");
    let certificates = served.view("sys.certificates");
    assert_eq!(*column(&rows, "encryptor_thumbprint")[0], *column(&certificates, "thumbprint")[1]);
    // Encrypted at rest, so its backup is encrypted by default.
    served.backup(&to_disk("a", "a.bak")).0.unwrap();
    assert_eq!(texts(&served.view("msdb.dbo.backupset"), "key_algorithm"), ["AES_256"]);
    let copy = from_disk(RestoreKind::Database, Some("copy"), "a.bak");
    served.restore(&copy).0.unwrap();
    assert_eq!(states(), ["ENCRYPTED", "ENCRYPTED"]);
    assert_eq!(served.sum("copy"), 43);

    served.alter("a", &off).unwrap();
    assert!(!is_encrypted());
    assert_eq!(served.sum("a"), 43);
    host.drop_encryption_key("a").unwrap();
    assert_eq!(states(), ["ENCRYPTED"], "the copy");
    served.alter("a", &AlterDatabase::Recovery("full".to_owned())).unwrap();
    assert_eq!(
        number(served.alter("a", &AlterDatabase::Set("READ_ONLY".into(), String::new()))),
        40512
    );
}

#[test]
fn databases_have_names_and_numbers() {
    let served = Served::new();
    let host = &served.host;
    fs::write(served.path("text.db"), "no database").unwrap();
    served.database("b");
    served.database("a");
    assert_eq!(number(host.create_database("A")), 1801);
    assert_eq!(number(host.create_database("MASTER")), 1801);
    for bad in ["", ".hidden", "../x", "a\nb"] {
        assert_eq!(number(host.create_database(bad)), 50_000, "{bad:?}");
    }
    let listed = |host: &ServeHost| -> Vec<_> {
        let all = host.databases().unwrap();
        all.into_iter().map(|each| (each.name, each.id)).collect()
    };
    let system = [("master", 1), ("tempdb", 2), ("model", 3), ("msdb", 4)];
    let expected = system.into_iter().chain([("a", 6), ("b", 5)]);
    let expected: Vec<_> = expected.map(|(name, id)| (name.to_owned(), id)).collect();
    assert_eq!(listed(host), expected);
    let open = served.connect("b");
    assert_eq!(number(host.drop_database("b")), 3702);
    drop(open);
    host.drop_database("B").unwrap();
    assert_eq!(number(host.drop_database("b")), 3701);
    assert_eq!(number(host.drop_database("msdb")), 3708);
    assert_eq!(listed(host).len(), 5);

    let alone = host_at(&served.path("a.db"), &served.dir.path().join("home"));
    assert_eq!(listed(&alone)[4], ("a".to_owned(), 5));
    assert_eq!(number(alone.create_database("c")), 40512);
    let failed = Error::UnknownDatabase { name: "c".to_owned() };
    let backup = to_disk("c", "c.bak");
    assert_eq!(silently(|out| alone.backup(&backup, out)), Err(failed));
}

/// Stops a rotation when all pages are sealed anew and the header still has both keys.
#[derive(Default)]
struct StopsWhenSwept(AtomicBool);

impl Watch for StopsWhenSwept {
    fn done(&self, step: Step) {
        if step == Step::Swept {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn stops(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_change_of_the_key_is_shown_while_it_runs() {
    let served = Served::with_certificate();
    served.database("a");
    let key = EncryptionKey {
        algorithm: Some("AES_256".to_owned()),
        certificate: Some("TestCert".to_owned()),
        regenerate: false,
    };
    silently(|out| served.host.create_encryption_key("a", &key, out)).unwrap();
    served.alter("a", &AlterDatabase::EncryptionOn).unwrap();
    let shown = || {
        let rows = served.view("sys.dm_database_encryption_keys");
        let states = ["encryption_state_desc", "encryption_scan_state_desc"];
        let states = states.map(|name| texts(&rows, name).remove(0));
        (states, column(&rows, "percent_complete")[0].clone())
    };
    let complete = (["ENCRYPTED", "COMPLETE"].map(str::to_owned), Value::Float(0.0));
    assert_eq!(shown(), complete);
    let unlocked = served.host.keys.open().unwrap();
    let path = served.path("a.db");
    rotate(&path, &Rotation::default(), &unlocked, &StopsWhenSwept::default()).unwrap_err();
    let aborted = ["KEY_CHANGE_IN_PROGRESS", "ABORTED"].map(str::to_owned);
    assert_eq!(shown(), (aborted, Value::Float(99.0)), "the header has both keys");
    rotate(&path, &Rotation::default(), &unlocked, &Unwatched).unwrap();
    assert_eq!(shown(), complete);
    assert_eq!(served.sum("a"), 43);
}
