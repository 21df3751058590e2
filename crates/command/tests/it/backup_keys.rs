//! Keys of backup sets: wrong ones, files instead of a store, added ones, signatures, expiry.

use std::fs;
use std::path::Path;

use crate::common::{Place, openssl};
use crate::databases::{Dir, encrypt, fill, is_encrypted, is_plain, one, open, place};
use rusqlite::Connection;
use tdekit_key_crypto::pem::{self, PemKey};
use tdekit_key_crypto::x509::self_signed;
use tdekit_key_store::now_seconds;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(database: &Path, media: &Path, more: &[&str]) {
    place().ok([&["backup", text(database), "--to", text(media)], more].concat());
}

/// A machine without a key store.
fn elsewhere() -> Place {
    let mut place = Place::empty();
    place.set("TDEKIT_BACKUP_PASSWORD", "backup");
    place
}

fn rows(path: &Path) -> i64 {
    one(&Connection::open(path).unwrap(), "SELECT count(*) FROM t")
}

#[test]
fn a_set_opens_elsewhere_with_its_certificates_files_only() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 500);
    backup(&path, &media, &["--certificate", "Second"]);
    let (c, k) = (dir.path("c.pem"), dir.path("k.pem"));
    place().ok(["cert", "backup", "Second", "--out", text(&c), "--key-out", text(&k)]);
    let away = elsewhere();
    let to = away.path("r.db");
    let restore = ["restore", text(&media), "--to", text(&to)];
    let told = away.fails(3, restore);
    assert!(told.contains("key store"), "{told}");
    away.ok([&restore[..], &["--certificate-file", text(&c), "--key-file", text(&k)]].concat());
    assert_eq!(rows(&to), 500);
    let again = [&restore[..], &["--replace", "--database", "app.db"]].concat();
    let p12 = place().path("Second.p12");
    away.ok([&again[..], &["--pkcs12", text(&p12)]].concat());
    // A key that openssl decrypted needs no password.
    openssl(
        away.path("").as_path(),
        &["pkcs8", "-in", text(&k), "-passin", "pass:backup", "-out", "plain.pem"],
    );
    let mut away = away;
    away.set("TDEKIT_BACKUP_PASSWORD", "");
    let plain = away.path("plain.pem");
    let files = ["--certificate-file", text(&c), "--private-key", text(&plain)];
    away.ok([&again[..], &files].concat());
    away.ok([&["verify", text(&media)], &files[..]].concat());
    assert_eq!(rows(&to), 500);
    // Of another certificate.
    away.set("TDEKIT_BACKUP_PASSWORD", "backup");
    let other = place().path("AppCert.p12");
    let wrong = [&again[..], &["--pkcs12", text(&other)]].concat();
    let told = away.fails(3, wrong);
    assert!(told.contains("0x"), "{told}");
    away.fails(3, [&again[..], &["--certificate-file", text(&c)]].concat());
    away.set("TDEKIT_BACKUP_PASSWORD", "wrong");
    away.fails(3, [&again[..], &["--pkcs12", text(&p12)]].concat());
    assert_eq!(rows(&to), 500);
}

#[test]
fn one_command_restores_an_encrypted_database_on_a_new_machine() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 200);
    encrypt(&path, &[]);
    backup(&path, &media, &[]);
    let p12 = place().path("AppCert.p12");
    let mut away = elsewhere();
    let to = away.path("r.db");
    let restore = ["restore", text(&media), "--to", text(&to)];
    // Nothing is given: the error names what would open the set.
    let told = away.fails(3, restore);
    assert!(told.contains("AppCert (0x") && told.contains("--pkcs12 FILE"), "{told}");
    // There is no secret for the new key store.
    let with_key = [&restore[..], &["--pkcs12", text(&p12)]].concat();
    let told = away.fails(3, &with_key);
    for part in ["AppCert (0x", "TDEKIT_PASSWORD", "tdekit cert restore AppCert", "--plain"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!to.exists() && !away.store_file().exists());
    let plain = away.path("plain.db");
    let in_the_clear = ["restore", text(&media), "--to", text(&plain), "--pkcs12", text(&p12)];
    away.ok([&in_the_clear[..], &["--plain"]].concat());
    assert!(is_plain(&plain) && rows(&plain) == 200 && !away.store_file().exists());
    // One command results in a database that opens, encrypted with the given certificate.
    away.set("TDEKIT_PASSWORD", "of the new machine");
    let run = away.ok(&with_key);
    assert!(run.err.contains("Made the key store") && run.err.contains("AppCert (0x"), "{run:?}");
    assert!(is_encrypted(&to) && away.store_file().exists());
    // The key store that exists now is used, and needs no files.
    let second = away.path("second.db");
    away.ok(["restore", text(&media), "--to", text(&second)]);
    for restored in [&to, &second] {
        away.ok(["decrypt", text(restored)]);
        assert_eq!(rows(restored), 200);
    }
    // A key store with another certificate gets this one too, or is used by name.
    let mut other = Place::with_store();
    other.set("TDEKIT_BACKUP_PASSWORD", "backup");
    other.ok(["cert", "create", "Here"]);
    let to = other.path("r.db");
    let restore = ["restore", text(&media), "--to", text(&to), "--pkcs12", text(&p12)];
    let run = other.ok([&restore[..], &["--certificate", "Here"]].concat());
    assert!(run.err.contains("certificate Here used for encrypting"), "{run:?}");
    assert!(is_encrypted(&to));
    let told = other.fails(1, [&restore[..], &["--replace"]].concat());
    assert!(told.contains("--database 'app.db'"), "{told}");
    let run = other.ok([&restore[..], &["--replace", "--database", "app.db"]].concat());
    assert!(run.err.contains("Restored certificate AppCert"), "{run:?}");
    assert!(is_encrypted(&to));
    other.ok(["decrypt", text(&to)]);
    assert_eq!(rows(&to), 200);
}

#[test]
fn a_certificate_that_is_added_opens_the_old_sets_and_nothing_is_copied() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 5000);
    backup(&path, &media, &["--certificate", "AppCert"]);
    backup(&path, &media, &["--certificate", "AppCert", "--append"]);
    let before = fs::read(&media).unwrap();
    let p12 = place().path("Second.p12");
    let away = elsewhere();
    let verify = ["verify", text(&media), "--pkcs12", text(&p12)];
    away.fails(3, verify);
    let add = ["backup-key", "add", text(&media), "--certificate", "Second"];
    let run = place().ok([&add[..], &["--position", "1"]].concat());
    assert!(run.out.contains("Set 1: opened by 0x"), "{run:?}");
    away.ok([&verify[..], &["--position", "1"]].concat());
    away.fails(3, [&verify[..], &["--position", "2"]].concat());
    let run = place().ok(add);
    assert!(run.out.contains("Set 1: opened by them already") && run.out.contains("Set 2: "));
    away.ok(verify);
    let after = fs::read(&media).unwrap();
    assert!(after.starts_with(&before) && after.len() < before.len() + 5000);
    // Later sets are chained to the added record.
    backup(&path, &media, &["--certificate", "AppCert", "--append"]);
    place().ok(["verify", text(&media)]);
    let report = place().json(["inspect", text(&media), "--json"]);
    let names = |set: usize| {
        let encryptors = report["sets"][set]["encryptors"].as_array().unwrap();
        encryptors.iter().map(|each| each["certificate_name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["AppCert", "Second"]);
    assert_eq!(names(2), ["AppCert"]);
    let plain = dir.path("plain.bak");
    backup(&path, &plain, &[]);
    place().fails(2, ["backup-key", "add", text(&plain), "--certificate", "Second"]);
}

#[test]
fn a_signature_tells_who_made_a_set() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 2000);
    backup(&path, &media, &["--certificate", "AppCert", "--sign", "Second"]);
    let run = place().ok(["verify", text(&media), "--signed-by", "Second"]);
    assert!(run.out.contains("signed") && run.out.contains("by Second, 0x"), "{run:?}");
    let told = place().fails(
        3,
        ["restore", text(&media), "--to", text(&dir.path("no.db")), "--signed-by", "AppCert"],
    );
    assert!(told.contains("no signature by certificate AppCert"), "{told}");
    assert!(!dir.path("no.db").exists());
    let to = dir.path("r.db");
    place().ok(["restore", text(&media), "--to", text(&to), "--signed-by", "Second"]);
    assert_eq!(rows(&to), 2000);
    backup(&path, &media, &["--certificate", "AppCert", "--append"]);
    assert_eq!(place().run(["verify", text(&media), "--signed-by", "Second"]).code, 3);
    // By default, the set's own certificate signs it.
    place().ok(["verify", text(&media), "--position", "2", "--signed-by", "AppCert"]);
    // A plain set is signed as well: whoever changes a block cannot sign it again.
    let plain = dir.path("plain.bak");
    backup(&path, &plain, &["--sign", "Second", "--compression", "none"]);
    place().ok(["verify", text(&plain), "--signed-by", "Second", "--checksums-only"]);
    place().fails(3, ["backup", text(&path), "--to", text(&dir.path("x")), "--sign", "Nobody"]);
    assert!(!dir.path("x").exists());
}

#[test]
fn the_key_store_knows_which_media_need_a_certificate() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 100);
    let mut place = Place::with_store();
    place.set("TDEKIT_BACKUP_PASSWORD", "backup");
    place.ok(["cert", "create", "Mine"]);
    let arguments = ["backup", text(&path), "--to", text(&media), "--certificate", "Mine"];
    let used_by = || place.json(["cert", "list", "--json"])[0]["used_by"].clone();
    place.ok(arguments);
    place.ok([&arguments[..], &["--append"]].concat());
    place.ok([&arguments[..], &["--init", "--replace"]].concat());
    assert_eq!(used_by().as_array().unwrap().len(), 1);
    assert_eq!(used_by()[0]["path"], text(&media));
    // A new generation leaves backups with the old one, which still opens them.
    let rotated = place.json(["cert", "rotate", "Mine", "--json"]);
    assert_eq!(rotated["backups"][0]["path"], text(&media));
    assert_eq!(rotated["to_wrap_anew"].as_array().unwrap().len(), 0);
    place.ok(["verify", text(&media)]);
    place.ok([&arguments[..], &["--append"]].concat());
    place.ok(["backup-key", "add", text(&media), "--certificate", "Mine", "--position", "1"]);
    let run = place.ok(["verify", text(&media)]);
    assert_eq!(run.out.matches("every block opened").count(), 2, "{run:?}");
    place.ok(["backup", text(&path), "--to", text(&media), "--init", "--replace"]);
    assert_eq!(used_by().as_array().unwrap().len(), 0);
}

/// Makes the files of a certificate that was valid for a day and expired a day ago, with the key in
/// `short.key`, which the password `backup` opens.
fn expired_twin(place: &Place) {
    let content = pem::decode(&fs::read(place.path("short.key")).unwrap()).unwrap();
    let [PemKey::Encrypted(key)] = &content.keys[..] else { panic!("{content:?}") };
    let key = pem::decrypt_pkcs8(key, b"backup").unwrap();
    let (now, day_s) = (now_seconds(), 86_400);
    let der = self_signed(&key, "Short", now - 2 * day_s, now - day_s).unwrap();
    fs::write(place.path("short.pem"), pem::encode_certificate(&der)).unwrap();
}

#[test]
fn an_expired_certificate_makes_no_new_set_and_still_opens_old_ones() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 100);
    let place = Place::with_store();
    place.ok(["cert", "create", "Short", "--expires", "1d"]);
    let arguments = ["backup", text(&path), "--to", text(&media), "--certificate", "Short"];
    let run = place.ok(arguments);
    assert!(run.err.contains("certificate Short used for encrypting"), "{run:?}");
    assert!(place.fails(3, ["cert", "drop", "Short"]).contains("app.bak"));
    // The same key in its future state, without waiting.
    place.ok(["cert", "backup", "Short", "--out", "valid.pem", "--key-out", "short.key"]);
    expired_twin(&place);
    place.ok(["cert", "drop", "Short", "--force"]);
    place.ok(["cert", "restore", "Short", "--in", "short.pem", "--key-in", "short.key"]);
    assert!(place.fails(3, [&arguments[..], &["--append"]].concat()).contains("expired"));
    let to = dir.path("r.db");
    let run = place.ok(["restore", text(&media), "--to", text(&to)]);
    assert!(run.err.contains("certificate Short expired"), "{run:?}");
    assert_eq!(one::<i64>(&open(&to), "SELECT count(*) FROM t"), 100);
}

#[test]
fn a_set_needs_no_secret_to_be_made_and_one_to_be_opened() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 100);
    let mut place = Place::with_store();
    place.ok(["cert", "create", "Only"]);
    place.set("TDEKIT_PASSWORD", "");
    place.ok(["backup", text(&path), "--to", text(&media), "--certificate", "Only"]);
    let run = place.run(["verify", text(&media)]);
    assert!(run.code == 6 && run.out.contains("not verified"), "{run:?}");
    assert!(run.err.contains("warning: only structure"), "{run:?}");
    place.ok(["verify", text(&media), "--checksums-only"]);
    let to = dir.path("r.db");
    place.fails(3, ["restore", text(&media), "--to", text(&to)]);
    place.set("TDEKIT_PASSWORD", "wrong");
    place.fails(3, ["verify", text(&media)]);
    place.fails(3, ["restore", text(&media), "--to", text(&to)]);
    assert!(!to.exists());
    place.set("TDEKIT_PASSWORD", "secret");
    let run = place.ok(["verify", text(&media)]);
    assert!(run.out.contains("every block opened") && run.err.is_empty(), "{run:?}");
    place.ok(["restore", text(&media), "--to", text(&to)]);
}
