//! `tdekit cert` as a user runs it.

use std::fs;
use std::path::Path;

use crate::common::{Place, openssl};
use tdekit_key_store::{KeyStore, SecretBytes, Unlock, WrappedDek};

fn unwrap(place: &Place, wrapped: &WrappedDek) -> Vec<u8> {
    let password = Unlock::Password(SecretBytes::from_slice(b"secret").unwrap());
    let store = KeyStore::open(&place.home()).unwrap().unlock(&password).unwrap();
    store.unwrap_dek(std::slice::from_ref(wrapped)).unwrap().expose().to_vec()
}

fn wrap(place: &Place, name: &str) -> WrappedDek {
    let dek = SecretBytes::from_slice(&[7; 32]).unwrap();
    KeyStore::open(&place.home()).unwrap().wrap_dek(name, &dek).unwrap()
}

#[test]
fn create_lists_and_warns_until_it_is_backed_up() {
    let place = Place::with_store();
    assert!(place.ok(["cert", "list"]).out.contains("no certificates"));
    let made = place.ok(["cert", "create", "AppCert", "--subject", "My DEK Certificate"]);
    assert!(made.err.contains("warning: The certificate AppCert used for encrypting"), "{made:?}");
    assert!(made.err.contains("has not been backed up"), "{made:?}");
    let args = ["cert", "create", "Big", "--bits", "4096", "--expires", "2040-01-02", "--json"];
    let big = place.json(args);
    assert_eq!(
        (&big["key_bits"], &big["expires_at"]),
        (&4096.into(), &"2040-01-02T00:00:00Z".into())
    );

    let key_of = |name: &str| {
        let listed = place.json(["cert", "list", "--json"]);
        let named = listed.as_array().unwrap().iter().rfind(|it| it["name"] == name).unwrap();
        format!("{} {}", named["key_algorithm"].as_str().unwrap(), named["key_bits"])
    };
    assert_eq!((key_of("AppCert"), key_of("Big")), ("EC 384".to_owned(), "RSA 4096".to_owned()));
    // A rotated certificate keeps the type of its key unless it is given another.
    place.ok(["cert", "create", "Old", "--key-type", "rsa"]);
    place.ok(["cert", "rotate", "Old"]);
    assert_eq!(key_of("Old"), "RSA 3072");
    place.ok(["cert", "rotate", "Old", "--key-type", "ec"]);
    assert_eq!(key_of("Old"), "EC 384");
    place.ok(["cert", "drop", "Old", "--force"]);

    let listed = place.json(["cert", "list", "--json"]);
    let app = &listed[0];
    assert_eq!((&app["subject"], &app["generation"]), (&"CN=My DEK Certificate".into(), &1.into()));
    assert_eq!((&app["backed_up_at"], &app["active"]), (&serde_json::Value::Null, &true.into()));
    let thumbprint = app["thumbprint"].as_str().unwrap();
    assert!(thumbprint.starts_with("0x") && thumbprint.len() == 42);
    assert_eq!(thumbprint[2..], thumbprint[2..].to_uppercase());
    assert!(place.ok(["cert", "list"]).out.contains(thumbprint));

    place.ok(["cert", "backup", thumbprint, "--pkcs12", "a.p12"]);
    let listed = place.json(["cert", "list", "--json", "--verify"]);
    assert!(listed[0]["backed_up_at"].as_str().unwrap().ends_with('Z'));
    let status = place.ok(["key", "status"]);
    assert!(!status.err.contains("AppCert") && status.err.contains("Big"), "{status:?}");
}

#[test]
fn wrong_use_of_create_is_refused() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    assert!(place.fails(1, ["cert", "create", "AppCert"]).contains("already has"));
    place.fails(2, ["cert", "create", "0xAB"]);
    place.fails(2, ["cert", "create", "B", "--subject", &"s".repeat(65)]);
    place.fails(2, ["cert", "create", "B", "--expires", "2020-01-01"]);
    assert_eq!(place.run(["cert", "create", "B", "--expires", "soon"]).code, 2);
    assert_eq!(place.run(["cert", "create", "B", "--bits", "1024"]).code, 2);
    place.fails(2, ["cert", "create", "B", "--key-type", "ec", "--bits", "4096"]);
    assert!(place.fails(3, ["cert", "backup", "B", "--pkcs12", "b"]).contains("no certificate B"));
    assert_eq!(place.json(["cert", "list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_backup_is_opened_by_openssl_and_restored_elsewhere() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let wrapped = wrap(&place, "AppCert");
    place.ok(["cert", "backup", "AppCert", "--out", "c.pem", "--key-out", "k.pem"]);
    place.ok(["cert", "backup", "AppCert", "--pkcs12", "b.p12"]);
    let dir = place.path("");
    let public = openssl(&dir, &["x509", "-in", "c.pem", "-noout", "-pubkey"]);
    let key = ["pkey", "-in", "k.pem", "-passin", "pass:backup", "-pubout"];
    assert_eq!(openssl(&dir, &key), public);
    let p12 = ["pkcs12", "-in", "b.p12", "-passin", "pass:backup", "-nodes"];
    assert!(openssl(&dir, &p12).contains("BEGIN PRIVATE KEY"));

    let pem = ["cert", "restore", "Other", "--in", "c.pem", "--key-in", "k.pem"];
    let pkcs12 = ["cert", "restore", "--pkcs12", "b.p12"];
    for (args, name) in [(&pem[..], "Other"), (&pkcs12[..], "AppCert")] {
        let mut elsewhere = Place::with_store();
        for file in ["c.pem", "k.pem", "b.p12"] {
            fs::copy(place.path(file), elsewhere.path(file)).unwrap();
        }
        elsewhere.set("TDEKIT_BACKUP_PASSWORD", "wrong");
        assert!(elsewhere.fails(3, args).contains("wrong password for the backup"));
        elsewhere.set("TDEKIT_BACKUP_PASSWORD", "backup");
        assert!(elsewhere.ok(args).err.is_empty());
        assert_eq!(unwrap(&elsewhere, &wrapped), [7; 32]);
        assert_eq!(elsewhere.json(["cert", "list", "--json"])[0]["name"], name);
        elsewhere.fails(1, args);
    }

    let public = Place::with_store();
    fs::copy(place.path("c.pem"), public.path("c.pem")).unwrap();
    let restored = public.ok(["cert", "restore", "Public", "--in", "c.pem"]);
    assert!(restored.err.contains("can wrap, and never unwrap"), "{restored:?}");
    assert_eq!(unwrap(&place, &wrap(&public, "Public")), [7; 32]);
    public.fails(3, ["cert", "backup", "Public", "--pkcs12", "x"]);
    fs::write(public.path("bad.pem"), "no certificate").unwrap();
    public.fails(4, ["cert", "restore", "X", "--in", "bad.pem"]);
    public.fails(7, ["cert", "restore", "X", "--in", "missing.pem"]);
}

#[test]
fn a_changed_certificate_is_not_restored() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["cert", "backup", "AppCert", "--out", "c.pem", "--key-out", "k.pem"]);
    let dir = place.path("");
    openssl(&dir, &["x509", "-in", "c.pem", "-outform", "DER", "-out", "c.der"]);
    let der = fs::read(place.path("c.der")).unwrap();
    let elsewhere = Place::with_store();
    fs::copy(place.path("k.pem"), elsewhere.path("k.pem")).unwrap();
    let restore = ["cert", "restore", "AppCert", "--in", "c.pem", "--key-in", "k.pem"];
    // A time in UTC: its tag and length, twelve digits and a Z.
    let is_time =
        |part: &[u8]| part.starts_with(&[0x17, 0x0d]) && part[2..14].iter().all(u8::is_ascii_digit);
    let end = der.windows(15).rposition(is_time).unwrap();
    // The year of its end, its serial number, its signature.
    for at in [end + 3, 16, der.len() - 9] {
        let mut changed = der.clone();
        changed[at] ^= 1;
        fs::write(elsewhere.path("c.der"), &changed).unwrap();
        let words = ["x509", "-inform", "DER", "-in", "c.der", "-out", "c.pem"];
        openssl(&elsewhere.path(""), &words);
        assert!(elsewhere.fails(4, restore).contains("its own signature"), "{at}");
    }
    fs::copy(place.path("c.pem"), elsewhere.path("c.pem")).unwrap();
    elsewhere.ok(restore);
}

#[test]
fn a_certificate_that_did_not_sign_itself_is_restored_only_when_asked() {
    let place = Place::with_store();
    let dir = place.path("");
    let names = |file| ["-keyout", file, "-nodes", "-newkey", "rsa:2048"];
    let authority = ["req", "-x509", "-subj", "/CN=Authority", "-out", "ca.pem"];
    openssl(&dir, &[&authority[..], &names("ca.key")].concat());
    let request = ["req", "-subj", "/CN=App", "-out", "app.csr"];
    openssl(&dir, &[&request[..], &names("app.key")].concat());
    let sign = "x509 -req -in app.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out app.pem";
    openssl(&dir, &sign.split(' ').collect::<Vec<_>>());
    let restore = ["cert", "restore", "App", "--in", "app.pem", "--key-in", "app.key"];
    assert!(place.fails(1, restore).contains("--unverified"));
    assert_eq!(place.json(["cert", "list", "--json"]).as_array().unwrap().len(), 0);
    place.ok([&restore[..], &["--unverified"]].concat());
    place.ok(["cert", "restore", "Authority", "--in", "ca.pem", "--key-in", "ca.key"]);
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_nothing_half_done() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    fs::write(place.path("k.pem"), "mine").unwrap();
    place.fails(1, ["cert", "backup", "AppCert", "--out", "c.pem", "--key-out", "k.pem"]);
    assert!(!place.path("c.pem").exists());
    assert_eq!(fs::read(place.path("k.pem")).unwrap(), b"mine");
    let listed = place.json(["cert", "list", "--json"]);
    assert!(listed[0]["backed_up_at"].is_null());
}

#[test]
fn rotate_and_drop_mind_the_files_that_are_known() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let wrapped = wrap(&place, "AppCert");
    let store = KeyStore::open(&place.home()).unwrap();
    store.record_use(&wrapped.sha256, [1; 16], Path::new("/data/app.db")).unwrap();

    assert!(place.ok(["key", "status"]).err.contains("it opens /data/app.db"));
    let rotated = place.ok(["cert", "rotate", "AppCert"]);
    assert!(rotated.out.contains("generation 2") || rotated.out.contains("Made generation 2"));
    assert!(rotated.out.contains("/data/app.db"), "{rotated:?}");
    let again = place.json(["cert", "rotate", "AppCert", "--json"]);
    assert_eq!(again["to_wrap_anew"][0]["path"], "/data/app.db");
    assert_eq!(unwrap(&place, &wrapped), [7; 32]);
    assert_eq!(unwrap(&place, &wrap(&place, "AppCert")), [7; 32]);
    let listed = place.json(["cert", "list", "--json"]);
    let active: Vec<_> = listed.as_array().unwrap().iter().map(|c| &c["active"]).collect();
    assert_eq!(active, [false, false, true]);
    assert_eq!(listed[0]["used_by"][0]["path"], "/data/app.db");

    let refused = place.fails(3, ["cert", "drop", "AppCert"]);
    assert!(refused.contains("/data/app.db"), "{refused}");
    place.fails(3, ["cert", "drop", &wrapped.thumbprint()]);
    let second = listed[1]["thumbprint"].as_str().unwrap();
    assert!(place.fails(3, ["cert", "drop", second]).contains("in no backup"));
    place.ok(["cert", "backup", second, "--pkcs12", "second.p12"]);
    assert!(place.ok(["cert", "drop", second]).out.contains("generation 2"));
    let dropped = place.ok(["cert", "drop", "AppCert", "--force"]);
    assert_eq!(dropped.out.lines().count(), 2);
    assert!(place.ok(["cert", "list"]).out.contains("no certificates"));
}

#[test]
fn the_warning_names_five_files_and_counts_the_others() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let wrapped = wrap(&place, "AppCert");
    let store = KeyStore::open(&place.home()).unwrap();
    let record = |number: u8, path: &Path| {
        store.record_use(&wrapped.sha256, [number; 16], path).unwrap();
    };
    let kept = |number: u8| place.path(&format!("kept{number}.db"));
    for number in 0..40 {
        // The previous file id, and a file that was removed.
        fs::write(kept(number % 8), "a database").unwrap();
        record(number, &kept(number % 8));
        record(100 + number, &place.path(&format!("gone{number}.db")));
    }
    record(200, Path::new("/nowhere/app.db"));
    let told = place.ok(["key", "status"]).err;
    let named: Vec<_> = told.lines().filter(|line| line.contains("it opens")).collect();
    let expected = ["/nowhere/app.db".to_owned()]
        .into_iter()
        .chain((4..8).rev().map(|number| kept(number).display().to_string()))
        .map(|path| format!("  it opens {path}"));
    assert_eq!(named, expected.collect::<Vec<_>>(), "{told}");
    assert!(told.contains("  and 4 more, which `tdekit cert list --json` names"), "{told}");
    assert!(told.contains("  it opened 40 file(s) that are not where they were"), "{told}");
    assert!(!told.contains("gone"), "{told}");

    // The full output has all of it, and the refusal begins with the existing ones.
    let listed = place.json(["cert", "list", "--json"]);
    assert_eq!(listed[0]["used_by"].as_array().unwrap().len(), 81);
    let refused = place.fails(3, ["cert", "drop", "AppCert"]);
    assert!(refused.contains("kept0.db") && refused.contains("and 44 more"), "{refused}");
    assert!(!refused.contains("gone"), "{refused}");
    let rotated = place.ok(["cert", "rotate", "AppCert"]).out;
    assert!(rotated.contains("/nowhere/app.db"), "{rotated}");
    assert_eq!(rotated.matches("/kept0.db (").count(), 1, "{rotated}");
    assert!(rotated.contains("40 file(s) that older generations open"), "{rotated}");
    assert!(!rotated.contains("gone"), "{rotated}");
}
