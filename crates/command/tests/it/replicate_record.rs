//! Records beside databases that `replicate` cannot take up: the error and its hint say so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::archive_damage::as_user;
use crate::databases::place;
use crate::replicate::{Pair, text};

#[test]
fn a_record_of_another_user_is_not_replaced_and_the_hint_says_how_it_goes_on() {
    let pair = Pair::new(false);
    let (db, archive) = (text(&pair.db), text(&pair.archive));
    let once = ["replicate", db, "--to", archive, "--once"];
    place().ok(once);
    let record = pair.dir.path("app.db-replica");
    let whole = fs::read(&record).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o000)).unwrap();
    let run = as_user(&once);
    assert!(run.code == 7 && run.err.contains("Permission denied"), "{run:?}");
    assert!(run.err.contains("hint: end each `tdekit replicate`"), "{run:?}");
    let status = as_user(&["replicate", "status", db]);
    assert!(status.code == 4 && status.err.contains("(`chown`, `chmod u+rw`)"), "{status:?}");
    assert!(!status.err.contains("makes it anew"), "{status:?}");
    assert_eq!(fs::read(&record).unwrap(), whole);
    // As the hint says.
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(as_user(&once).code, 0);
}

#[test]
fn each_fault_of_a_record_has_its_own_hint() {
    let pair = Pair::new(false);
    let (db, archive) = (text(&pair.db), text(&pair.archive));
    let once = ["replicate", db, "--to", archive, "--once"];
    place().ok(once);
    let record = pair.dir.path("app.db-replica");
    fs::write(&record, "a backup of something else").unwrap();
    for (code, run) in [(4, place().run(["replicate", "status", db])), (1, place().run(once))] {
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.err.contains("hint: give that file another name"), "{run:?}");
        assert!(!run.err.contains("makes it anew"), "{run:?}");
    }
    fs::write(&record, "{\"version\":1").unwrap();
    let status = place().run(["replicate", "status", db]);
    assert!(status.code == 4 && status.err.contains("makes it anew"), "{status:?}");
    place().ok(once);
    place().ok(["replicate", "status", db]);
}

/// The parent may be the place of a disk that is not mounted.
#[test]
fn only_the_last_directory_of_an_archive_is_made() {
    let pair = Pair::new(false);
    let (db, below) = (text(&pair.db), pair.dir.path("disk/archive"));
    let once = ["replicate", db, "--to", text(&below), "--once"];
    let said = place().fails(7, once);
    assert!(said.contains("disk is not there") && said.contains("hint: make it, or mount"));
    assert!(!pair.dir.path("disk").exists());
    fs::create_dir(pair.dir.path("disk")).unwrap();
    place().ok(once);
    assert_eq!(fs::metadata(&below).unwrap().permissions().mode() & 0o777, 0o700);
}

/// An address without a bucket is no directory.
#[test]
fn an_address_without_a_bucket_is_refused() {
    let pair = Pair::new(false);
    for address in ["s3://", "s3:///", "gs://", "ftp://"] {
        let mut command = place().command(["replicate", text(&pair.db), "--to", address, "--once"]);
        let run =
            crate::common::Run::of(&command.current_dir(pair.dir.path(".")).output().unwrap());
        assert!(run.code == 2 && run.err.contains(address), "{address}: {run:?}");
        assert!(!pair.dir.path(address).exists(), "{address}");
    }
    let left = Command::new("ls").arg(pair.dir.path(".")).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains(':'), "{left:?}");
}
