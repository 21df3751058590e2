//! The list of files that certificates open, and the rules for forgetting.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::store_with;
use tdekit_key_store::{KeyStore, StoreError, Unlocked};

const DAY_S: i64 = 24 * 3600;

/// A key store with the certificate `AppCert`, and a directory that is not for temporary files.
struct Bench {
    home: tempfile::TempDir,
    dir: tempfile::TempDir,
    store: Unlocked,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = store_with(home.path(), &["AppCert", "Other"]);
        Self { home, dir, store }
    }

    fn store(&self) -> &KeyStore {
        self.store.store()
    }

    fn sha256(&self, name: &str) -> [u8; 32] {
        self.store().find(name).unwrap().sha256
    }

    /// Records a file with this number as a program that makes it does.
    fn made(&self, number: u64, path: &Path) {
        fs::write(path, "a database").unwrap();
        self.record(number, path);
    }

    fn record(&self, number: u64, path: &Path) {
        let mut file_id = [0; 16];
        file_id[..8].copy_from_slice(&number.to_le_bytes());
        self.store().record_use(&self.sha256("AppCert"), file_id, path).unwrap();
    }

    fn made_and_removed(&self, number: u64, path: &Path) {
        self.made(number, path);
        fs::remove_file(path).unwrap();
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.store().uses().unwrap().into_iter().map(|known| known.path).collect()
    }

    /// Makes all known uses older.
    fn age(&self, by_s: i64) {
        let path = self.home.path().join("uses.json");
        let mut listing: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for known in listing["uses"].as_array_mut().unwrap() {
            let recorded_at = known["recorded_at"].as_i64().unwrap();
            known["recorded_at"] = (recorded_at - by_s).into();
        }
        fs::write(path, listing.to_string()).unwrap();
    }
}

#[test]
fn temporary_databases_do_not_stay_for_ever() {
    let mut bench = Bench::new();
    let last = bench.dir.path().join("app.db");
    for number in 0..300 {
        // As programs do: a directory for a run, or a file.
        if number % 2 == 0 {
            let dir = tempfile::tempdir_in("/tmp").unwrap();
            bench.made(number, &dir.path().join("app.db"));
        } else {
            let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
            bench.record(number, file.path());
        }
    }
    bench.made(1000, &last);
    let paths = bench.paths();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert_eq!(paths[1], last);
    assert!(fs::metadata(bench.home.path().join("uses.json")).unwrap().len() < 1000);
    // A forgotten file may have been moved: dropping the certificate is still refused.
    let mut file_id = [0; 16];
    file_id[..8].copy_from_slice(&1000u64.to_le_bytes());
    bench.store().forget_use(&bench.sha256("AppCert"), file_id, &last).unwrap();
    let sha256 = bench.sha256("AppCert");
    bench.store.mark_backed_up(&sha256).unwrap();
    let refused = bench.store.drop_certificate("AppCert", false).unwrap_err();
    assert!(matches!(refused, StoreError::CertificateInUse { .. }), "{refused}");
}

/// The files that were moved away are forgotten; the listed ones leave the list when they are
/// wrapped for another certificate. The forgotten ones still need this one.
#[test]
fn what_was_forgotten_keeps_its_certificate() {
    let mut bench = Bench::new();
    let sha256 = bench.sha256("AppCert");
    let path = bench.dir.path().join("app.db");
    for number in 0..11 {
        bench.made(number, &path);
        fs::rename(&path, bench.dir.path().join(format!("moved-{number}.db"))).unwrap();
    }
    assert_eq!(bench.store().uses_of(&sha256).unwrap().len(), 10);
    assert_eq!(bench.store().forgotten_uses_of(&sha256).unwrap(), 1);
    assert_eq!(bench.store().forgotten_uses_of(&bench.sha256("Other")).unwrap(), 0);
    for known in bench.store().uses_of(&sha256).unwrap() {
        bench.store().forget_use(&sha256, known.file_id, &known.path).unwrap();
    }
    bench.store.mark_backed_up(&sha256).unwrap();
    let refused = bench.store.drop_certificate("AppCert", false).unwrap_err();
    let files = "AppCert still wraps the keys of 1 file(s) that were moved or deleted";
    assert!(refused.to_string().contains(files), "{refused}");
    bench.store.drop_certificate("AppCert", true).unwrap();
}

/// A copy of a file has its id. What is done to one of them says nothing of the other.
#[test]
fn a_copy_and_its_original_are_two_files() {
    let bench = Bench::new();
    let sha256 = bench.sha256("AppCert");
    let [original, copy, link] = ["a.db", "b.db", "c.db"].map(|name| bench.dir.path().join(name));
    bench.made(1, &original);
    bench.made(1, &copy);
    assert_eq!(bench.paths(), [original.clone(), copy.clone()]);
    let file_id = bench.store().uses().unwrap()[0].file_id;
    bench.store().forget_use(&sha256, file_id, &copy).unwrap();
    assert_eq!(bench.paths(), std::slice::from_ref(&original));
    // Nothing was recorded of this one.
    bench.store().forget_use(&sha256, file_id, &copy).unwrap();
    bench.store().forget_path(file_id, &copy).unwrap();
    assert_eq!(bench.paths(), std::slice::from_ref(&original));
    // Another name of the same file.
    std::os::unix::fs::symlink(&original, &link).unwrap();
    bench.store().forget_use(&sha256, file_id, &link).unwrap();
    assert!(bench.paths().is_empty());
    // A moved file has one place.
    bench.made(1, &original);
    fs::rename(&original, &copy).unwrap();
    bench.record(1, &copy);
    assert_eq!(bench.paths(), std::slice::from_ref(&copy));
    // What was at a path before the file that is decrypted may be elsewhere.
    bench.made(2, &copy);
    bench.store().forget_path(file_id, &copy).unwrap();
    assert!(bench.paths().is_empty());
    assert_eq!(bench.store().forgotten_uses_of(&sha256).unwrap(), 1);
}

#[test]
fn lists_of_both_versions_are_read() {
    let bench = Bench::new();
    for (version, forgotten) in [(1, 0), (4, 3)] {
        let fixture = format!("../../../tests/fixtures/{version}/keystore/uses.json");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
        fs::copy(fixture, bench.home.path().join("uses.json")).unwrap();
        let uses = bench.store().uses().unwrap();
        assert_eq!((uses.len(), uses[0].path.as_path()), (1, Path::new("/data/app.db")));
        let sha256 = uses[0].sha256;
        assert_eq!(bench.store().forgotten_uses_of(&sha256).unwrap(), forgotten);
    }
}

#[test]
fn what_somebody_would_miss_stays_known() {
    let bench = Bench::new();
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    let volume = bench.dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    let lost = temporary.path().join("lost.db");
    let on_volume = volume.join("mounted.db");
    let other_use = bench.dir.path().join("other.db");
    bench.store().record_use(&bench.sha256("Other"), [9; 16], &other_use).unwrap();
    bench.made_and_removed(1, &lost);
    bench.made_and_removed(2, &on_volume);
    // A directory that nobody can read.
    let unreadable = bench.dir.path().join("file").join("below.db");
    fs::write(bench.dir.path().join("file"), "").unwrap();
    bench.record(3, &unreadable);
    bench.record(4, Path::new("s3://bucket/app.bak"));
    bench.record(5, Path::new("/nowhere/app.db"));
    fs::remove_dir(&volume).unwrap();
    for number in 10..60 {
        bench.made(number, &bench.dir.path().join(format!("{number}.db")));
    }
    let paths = bench.paths();
    for known in [&lost, &on_volume, &unreadable, &other_use] {
        assert!(paths.contains(known), "{} is forgotten", known.display());
    }
    assert_eq!(paths.len(), 6 + 50);
    // A file is known to be missing only if its directory was searched.
    let missing: Vec<_> = bench
        .store()
        .uses()
        .unwrap()
        .into_iter()
        .filter_map(|known| known.is_missing().then_some(known.path))
        .collect();
    assert_eq!(missing, [other_use, lost]);
}

#[test]
fn of_many_that_a_directory_lost_within_days_a_hundred_stay() {
    let bench = Bench::new();
    let at = |number: u64| bench.dir.path().join(format!("{number}.db"));
    (0..120).for_each(|number| bench.made(number, &at(number)));
    assert_eq!(bench.paths().len(), 120, "what is there stays");
    // A volume with many databases is replaced by another one at the same mount point: they are
    // older.
    bench.age(40 * DAY_S);
    (0..120).for_each(|number| fs::remove_file(at(number)).unwrap());
    bench.made(1000, &at(1000));
    assert_eq!(bench.paths().len(), 121);
    (1001..1300).for_each(|number| bench.made_and_removed(number, &at(number)));
    bench.made(2000, &at(2000));
    let paths = bench.paths();
    assert_eq!(paths.len(), 120 + 1 + 100 + 1);
    for known in [at(0), at(1000), at(1299), at(2000)] {
        assert!(paths.contains(&known), "{} is forgotten", known.display());
    }
    assert!(!paths.contains(&at(1001)));
}

#[test]
fn of_the_files_of_one_path_the_newest_stay() {
    let bench = Bench::new();
    let (path, moved) = (bench.dir.path().join("app.db"), bench.dir.path().join("moved.db"));
    bench.store().record_use(&bench.sha256("Other"), [9; 16], &path).unwrap();
    (0..50).for_each(|number| bench.made_and_removed(number, &path));
    let known = bench.store().uses().unwrap();
    let ids: Vec<_> = known.iter().map(|known| known.file_id[0]).collect();
    assert_eq!(ids, [9, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49]);
    assert_eq!(known[0].sha256, bench.sha256("Other"));
    // A file that is found under another name is known under that name only.
    bench.made(49, &moved);
    let paths = bench.paths();
    assert_eq!((paths.len(), paths.last()), (11, Some(&moved)));
}
