//! Crashes between the steps of a write: the store always opens as the old or the new one.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::disk::Step;
use crate::workplace::is_workplace;
use crate::{
    AuditAction, AuditDatabase, CertificateBackup, KeyStore, NewCertificate, PasswordParams,
    SecretBytes, StoreError, Unlock, Unlocked, WrappedDek, now_seconds,
};

const STEPS: [Step; 5] =
    [Step::Created, Step::Written, Step::Synced, Step::Renamed, Step::DirectorySynced];

fn key(byte: u8) -> Unlock {
    let key = SecretBytes::from_slice(&[byte; 32]).unwrap();
    Unlock::Key { key, origin: "test".to_owned() }
}

fn new_certificate(name: &str) -> NewCertificate<'_> {
    let expires_at = now_seconds() + 86_400;
    NewCertificate { name, subject: None, key_type: None, expires_at }
}

/// A store with one certificate and a key that it wrapped.
struct Case {
    dir: TempDir,
    wrapped: WrappedDek,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut store = KeyStore::create(dir.path(), &key(1), PasswordParams::default()).unwrap();
        store.create_certificate(&new_certificate("AppCert")).unwrap();
        let dek = SecretBytes::from_slice(&[42; 32]).unwrap();
        let wrapped = store.wrap_dek("AppCert", &dek).unwrap();
        Self { dir, wrapped }
    }

    fn copy(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        dir
    }
}

fn open(dir: &Path, byte: u8) -> Result<Unlocked, StoreError> {
    KeyStore::open(dir)?.unlock(&key(byte))
}

/// Runs `change` on a copy of the store, stopped after each step in turn, and passes to `check` the
/// directory and whether the rename was reached.
fn crash_after_each_step(
    case: &Case,
    change: impl Fn(&mut Unlocked) -> Result<(), StoreError>,
    check: impl Fn(&Path, bool),
) {
    for (index, last) in STEPS.into_iter().enumerate() {
        let dir = case.copy();
        let mut store = open(dir.path(), 1).unwrap();
        store.set_on_step(Box::new(move |step| match step == last {
            true => Err(io::Error::other("crash")),
            false => Ok(()),
        }));
        assert!(change(&mut store).is_err(), "{last:?} was not reached");
        check(dir.path(), index >= 3);
        // Remains of the crash do not prevent the next write, whatever they are.
        let byte = if open(dir.path(), 1).is_ok() { 1 } else { 2 };
        let mut store = open(dir.path(), byte).unwrap();
        store.change_secret(&key(3), PasswordParams::default()).unwrap();
        let dek = open(dir.path(), 3).unwrap();
        let dek = dek.unwrap_dek(std::slice::from_ref(&case.wrapped)).unwrap();
        assert_eq!(dek.expose(), [42; 32]);
        let left = |entry: io::Result<std::fs::DirEntry>| is_workplace(&entry.unwrap().path());
        assert!(!std::fs::read_dir(dir.path()).unwrap().any(left), "{last:?}");
    }
}

#[test]
fn master_key_rotation_can_be_killed_at_any_point() {
    let case = Case::new();
    let before = KeyStore::open(case.dir.path()).unwrap().file().master_key.id;
    crash_after_each_step(
        &case,
        |store| store.rotate_master_key(&key(2), PasswordParams::default()),
        |dir, renamed| {
            let (now, gone) = if renamed { (2, 1) } else { (1, 2) };
            let store = open(dir, now).unwrap();
            assert_eq!(store.store().file().master_key.id == before, !renamed);
            let dek = store.unwrap_dek(std::slice::from_ref(&case.wrapped)).unwrap();
            assert_eq!(dek.expose(), [42; 32]);
            assert!(matches!(open(dir, gone), Err(StoreError::WrongKey { .. })));
        },
    );
}

#[test]
fn certificate_changes_can_be_killed_at_any_point() {
    let case = Case::new();
    let count = |dir: &Path| open(dir, 1).unwrap().store().certificates().len();
    crash_after_each_step(
        &case,
        |store| store.create_certificate(&new_certificate("Second")).map(drop),
        |dir, renamed| assert_eq!(count(dir), if renamed { 2 } else { 1 }),
    );
    crash_after_each_step(
        &case,
        |store| store.rotate_certificate(&new_certificate("AppCert")).map(drop),
        |dir, renamed| {
            assert_eq!(count(dir), if renamed { 2 } else { 1 });
            let store = open(dir, 1).unwrap();
            let active = store.store().find("AppCert").unwrap().generation;
            assert_eq!(active, if renamed { 2 } else { 1 });
        },
    );
}

/// Leftovers at the path where an earlier release made its files, whoever put them there.
#[test]
fn a_file_under_the_former_name_is_left_alone() {
    let case = Case::new();
    let (victim, former) = (case.dir.path().join("v"), case.dir.path().join("keystore.tdk.new"));
    std::fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, &former).unwrap();
    let mut store = open(case.dir.path(), 1).unwrap();
    store.rotate_master_key(&key(2), PasswordParams::default()).unwrap();
    assert!(open(case.dir.path(), 2).is_ok());
    assert!(former.is_symlink() && std::fs::read(&victim).unwrap() == b"mine");
}

/// Sets a limit on the size of files, which stands for any refusal by the file system.
fn limit_files(bytes: u64) {
    let limit = rustix::process::Rlimit { current: Some(bytes), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
}

/// Names the variable with the directory of [`runs_limited`] in its process.
const LIMITED: &str = "TDEKIT_TEST_FULL_DISK";

/// Runs a test of this program in a process of its own, because the limit applies to a whole
/// process and this one has other tests.
fn runs_limited(test: &str, dir: &Path) {
    let ignored = "trap '' XFSZ; exec \"$@\"";
    let done = std::process::Command::new("sh")
        .args(["-c", ignored, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(LIMITED, dir)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
fn a_full_disk_leaves_the_old_store_and_no_litter() {
    if let Some(dir) = std::env::var_os(LIMITED) {
        let dir = Path::new(&dir);
        let mut store = open(dir, 1).unwrap();
        limit_files(0);
        let error = store.rotate_master_key(&key(2), PasswordParams::default()).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        return;
    }
    let case = Case::new();
    runs_limited("tests::a_full_disk_leaves_the_old_store_and_no_litter", case.dir.path());
    let left = |entry: io::Result<std::fs::DirEntry>| is_workplace(&entry.unwrap().path());
    assert!(!std::fs::read_dir(case.dir.path()).unwrap().any(left));
    let mut store = open(case.dir.path(), 1).unwrap();
    store.rotate_master_key(&key(2), PasswordParams::default()).unwrap();
    assert!(open(case.dir.path(), 2).is_ok());
}

/// An operation that cannot be logged must not happen; the log keeps its earlier entries.
#[test]
fn a_full_disk_refuses_what_cannot_be_logged_and_the_log_goes_on() {
    let log =
        |store: &Unlocked| store.log_database(AuditAction::Encrypted, &AuditDatabase::default());
    if let Some(dir) = std::env::var_os(LIMITED) {
        let dir = Path::new(&dir);
        let store = open(dir, 1).unwrap();
        let bytes = std::fs::metadata(dir.join("audit.log")).unwrap().len();
        // No space at all, and space for a part of the line.
        for room in [0, 40] {
            limit_files(bytes + room);
            let error = log(&store).unwrap_err();
            assert!(matches!(error, StoreError::NotLogged { .. }), "{room}: {error}");
        }
        return;
    }
    let case = Case::new();
    let entries = |store: &Unlocked| {
        let report = store.verify_audit_log().unwrap();
        assert_eq!(report.faults, [], "{report:?}");
        report.entries.len()
    };
    let before = entries(&open(case.dir.path(), 1).unwrap());
    let test = "tests::a_full_disk_refuses_what_cannot_be_logged_and_the_log_goes_on";
    runs_limited(test, case.dir.path());
    let store = open(case.dir.path(), 1).unwrap();
    assert_eq!(entries(&store), before);
    assert!(log(&store).unwrap().is_none());
    assert_eq!(entries(&store), before + 1);
    assert_eq!(store.verify_audit_log().unwrap().torn_bytes, 0);
}

#[test]
fn a_reader_sees_what_others_write_and_is_told_of_a_new_master_key() {
    let case = Case::new();
    let mut reader = open(case.dir.path(), 1).unwrap();
    let mut writer = open(case.dir.path(), 1).unwrap();
    writer.create_certificate(&new_certificate("Second")).unwrap();
    let dek = SecretBytes::from_slice(&[9; 32]).unwrap();
    let wrapped = writer.wrap_dek("Second", &dek).unwrap();
    let missing = reader.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap_err();
    match missing {
        StoreError::CertificateMissing { wanted } => assert_eq!(wanted, [wrapped.thumbprint()]),
        other => panic!("{other}"),
    }
    reader.refresh().unwrap();
    assert_eq!(reader.unwrap_dek(&[wrapped]).unwrap().expose(), [9; 32]);

    writer.rotate_master_key(&key(2), PasswordParams::default()).unwrap();
    assert!(matches!(reader.refresh(), Err(StoreError::MasterKeyChanged)));
    let refused = reader.create_certificate(&new_certificate("Third")).unwrap_err();
    assert!(matches!(refused, StoreError::MasterKeyChanged));
    // Keys that are already held still serve.
    assert!(reader.unwrap_dek(std::slice::from_ref(&case.wrapped)).is_ok());
}

#[test]
fn two_writers_do_not_lose_each_others_certificates() {
    let case = Case::new();
    std::thread::scope(|scope| {
        for name in ["A", "B", "C"] {
            let dir = case.dir.path();
            scope.spawn(move || {
                open(dir, 1).unwrap().create_certificate(&new_certificate(name)).unwrap();
            });
        }
    });
    let store = open(case.dir.path(), 1).unwrap();
    let mut names: Vec<_> = store.store().certificates().iter().map(|c| &c.name).collect();
    names.sort();
    assert_eq!(names, ["A", "AppCert", "B", "C"]);
    assert_eq!(store.store().file().sequence, 5);
}

#[test]
fn a_backup_alone_unwraps_for_its_own_certificate() {
    let case = Case::new();
    let mut store = open(case.dir.path(), 1).unwrap();
    store.create_certificate(&new_certificate("Second")).unwrap();
    let password = SecretBytes::from_slice(b"backup").unwrap();
    let origin = Path::new("p12");
    let backup = |name| {
        let bytes = store.export_pkcs12(name, &password).unwrap();
        CertificateBackup::from_pkcs12(&bytes, origin, &password).unwrap()
    };
    let (own, other) = (backup("AppCert"), backup("Second"));
    let dek = SecretBytes::from_slice(&[9; 32]).unwrap();
    let wrapped = [store.wrap_dek("AppCert", &dek).unwrap()];
    assert_eq!(own.unwrap_dek(&wrapped).unwrap().expose(), [9; 32]);
    assert!(own.not_after().unwrap() > now_seconds());
    assert!(matches!(other.unwrap_dek(&wrapped), Err(StoreError::OtherCertificate { wanted, .. })
        if wanted == [wrapped[0].thumbprint()]));
    let mut damaged = wrapped.clone();
    damaged[0].blob[7] ^= 1;
    let refused = own.unwrap_dek(&damaged);
    assert!(matches!(refused, Err(StoreError::WrappedKeyDamaged { .. })));
    let pem = store.export_pem("AppCert", &password).unwrap();
    let public =
        CertificateBackup::from_pem((pem.certificate.as_bytes(), origin), None, None).unwrap();
    assert!(matches!(public.unwrap_dek(&wrapped), Err(StoreError::PrivateKeyMissing { .. })));
}

#[test]
fn a_signature_verifies_by_its_certificate() {
    let case = Case::new();
    let store = open(case.dir.path(), 1).unwrap();
    let signature = store.sign("AppCert", b"message").unwrap();
    let der = store.store().certificate_der("AppCert").unwrap();
    let key = tdekit_key_crypto::x509::parse(der).unwrap().public_key;
    assert!(key.verifies(b"message", &signature) && !key.verifies(b"other", &signature));
    assert!(store.sign("None", b"message").is_err());
}
