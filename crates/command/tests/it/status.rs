//! `status`: its output, and its requirements.

use std::fs;

use crate::common::{Place, Run};
use crate::databases::{Dir, create, encrypt, fill, insert, open, place};
use serde_json::{Value, json};

fn status(place: &Place, path: &std::path::Path) -> Value {
    place.json(["status".as_ref(), path.as_os_str(), "--json".as_ref()])[0].clone()
}

#[test]
fn plain_and_empty() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    drop(create(&path, "PRAGMA page_size = 65536; CREATE TABLE t(a)"));
    let mut told = status(place(), &path);
    let library = told.as_object_mut().unwrap().remove("library").unwrap();
    told.as_object_mut().unwrap().remove("sqlite").unwrap();
    assert!(library["version"].as_str().unwrap().starts_with("AWS-LC "), "{library}");
    assert_eq!((&library["fips_build"], &library["fips_module"]), (&json!(false), &json!(false)));
    assert!(["AWS-LC", "ring"].map(Some).contains(&library["aes_gcm"].as_str()), "{library}");
    assert_eq!(
        told,
        json!({
            "path": path, "encryption_state": 1, "encryption_state_desc": "UNENCRYPTED",
            "percent_complete": 0, "page_size": 65536, "encryption": null, "wal_bytes": null,
            "journal_bytes": null, "size_bytes": 131_072, "problem": null
        })
    );
    let empty = dir.path("empty.db");
    fs::write(&empty, "").unwrap();
    assert_eq!(status(place(), &empty)["encryption_state"], 1);
}

/// The library of the system that runs the test; that of Debian 12 has the fault.
#[test]
fn the_library_of_the_system_is_named_with_its_fault() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 1);
    let told = status(place(), &path)["sqlite"].clone();
    assert_eq!(told["library"], "libsqlite3.so.0");
    let version = told["version"].as_str().unwrap();
    let numbers: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    let text = place().ok(["status".as_ref(), path.as_os_str()]).out;
    if numbers.as_slice() < [3, 50, 2].as_slice() {
        let fault = told["fault"].as_str().unwrap();
        assert!(fault.starts_with(&format!("SQLite {version} can lose commits")), "{fault}");
        assert!(text.contains(&format!("libsqlite3.so.0: {fault}")), "{text}");
    } else {
        assert_eq!(told["fault"], Value::Null);
        assert!(!text.contains("libsqlite3.so.0"), "{text}");
    }
}

#[test]
fn encrypted() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    insert(&create(&path, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL"), 500);
    encrypt(&path, &["--algorithm", "AEGIS_256X2", "--certificate", "Second"]);
    let listed = place().json(["cert", "list", "--json"]);
    let told = status(place(), &path);
    assert_eq!(told["encryption_state"], 3);
    assert_eq!(told["encryption_state_desc"], "ENCRYPTED");
    assert_eq!(told["page_size"], 8192);
    let encryption = &told["encryption"];
    assert_eq!(encryption["algorithm"], "AEGIS_256X2");
    assert_eq!((&encryption["key_version"], &encryption["key_versions"]), (&json!(1), &json!([1])));
    assert_eq!(encryption["encryptor_type"], "CERTIFICATE");
    assert_eq!(
        (&encryption["format_version"], &encryption["freshness"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(encryption["intact_header_slots"], 2);
    assert_eq!(
        (&encryption["key_opens"], &encryption["key_problem"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(encryption["file_id"].as_str().unwrap().len(), 32);
    for (index, name) in crate::databases::CERTIFICATES.iter().enumerate() {
        let certificate = &encryption["certificates"][index];
        assert_eq!(certificate["name"], *name);
        for same in ["thumbprint", "thumbprint_sha256", "backed_up_at", "has_private_key"] {
            assert_eq!(certificate[same], listed[index][same], "{same}");
        }
        assert_eq!((&certificate["generation"], &certificate["active"]), (&json!(1), &json!(true)));
    }
    // Side files are reported while somebody uses the database, and nobody is disturbed.
    let db = open(&path);
    db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t(a) VALUES('x')").unwrap();
    db.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
    let told = status(place(), &path);
    assert!(told["wal_bytes"].as_u64().unwrap() > 8192, "{told}");
    assert_eq!(told["journal_bytes"], Value::Null);
    let text = place().ok(["status".as_ref(), path.as_os_str()]).out;
    for line in ["3 ENCRYPTED", "AEGIS_256X2", "AppCert, 0x", "opens here", "8192", "WAL"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn without_store_key_or_certificate() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    encrypt(&path, &["--page-size", "2048"]);
    let told = |place: &Place| status(place, &path)["encryption"].clone();
    let nothing = told(&Place::empty());
    assert!(nothing["key_problem"].as_str().unwrap().contains("no key store"), "{nothing}");
    assert_eq!(nothing["certificates"][0]["name"], Value::Null);
    assert!(nothing["certificates"][0]["thumbprint"].as_str().unwrap().starts_with("0x"));
    assert_eq!(status(&Place::empty(), &path)["page_size"], 2048);
    let (database, media) = (path.to_str().unwrap(), dir.path("app.bak"));
    for args in [
        &["decrypt", database][..],
        &["backup", database, "--to", media.to_str().unwrap()],
        &["freshness", "on", database],
    ] {
        let told = Place::empty().fails(3, args);
        assert!(told.contains("certificate 0x") && told.contains("cert restore"), "{told}");
    }
    let other = told(&Place::with_store());
    assert!(other["key_problem"].as_str().unwrap().contains("no certificate 0x"), "{other}");
    let with = |variable: &str, value: &str| {
        let mut command = place().command(["status".as_ref(), path.as_os_str(), "--json".as_ref()]);
        let run = Run::of(&command.env(variable, value).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str::<Value>(&run.out).unwrap()[0]["encryption"].clone()
    };
    for (password, problem) in [("guess", "wrong password"), ("", "nothing is configured")] {
        let told = with("TDEKIT_PASSWORD", password);
        assert_eq!(told["key_opens"], false);
        assert!(told["key_problem"].as_str().unwrap().contains(problem), "{told}");
        // The names need no secret.
        assert_eq!(told["certificates"][0]["name"], "AppCert");
    }
}

#[test]
fn damaged_headers() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    encrypt(&path, &[]);
    let whole = fs::read(&path).unwrap();
    for slot in [0, 8192] {
        let mut bytes = whole.clone();
        bytes[slot + 100] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let told = status(place(), &path)["encryption"].clone();
        assert_eq!((&told["intact_header_slots"], &told["key_opens"]), (&json!(1), &json!(true)));
        let text = place().ok(["status".as_ref(), path.as_os_str()]).out;
        assert!(text.contains("one of its two copies is damaged"), "{text}");
    }
    let mut bytes = whole.clone();
    bytes[100] ^= 1;
    bytes[8192 + 100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(place().run(["status".as_ref(), path.as_os_str()]).code, 4);
    fs::write(&path, &whole[..9000]).unwrap();
    let cut = place().run(["status".as_ref(), path.as_os_str()]);
    assert!(cut.code == 4 && cut.err.contains("ends inside the header"), "{cut:?}");
    // A forger of a slot with a correct checksum still lacks the MAC key: the other slot is used,
    // and if there is none, nothing opens.
    let forge = |bytes: &mut [u8]| {
        let length = usize::from(u16::from_le_bytes([bytes[20], bytes[21]]));
        bytes[24] += 100;
        let checksum = tdekit_key_crypto::sha256(&[&bytes[..length]]);
        bytes[length..length + 32].copy_from_slice(&checksum);
    };
    let mut forged = whole;
    forge(&mut forged[..8192]);
    fs::write(&path, &forged).unwrap();
    assert_eq!(status(place(), &path)["encryption"]["key_opens"], true);
    let copy = dir.path("copy.db");
    fs::write(&copy, &forged).unwrap();
    place().ok(["rewrap".as_ref(), copy.as_os_str(), "--certificate=Second".as_ref()]);
    let told = status(place(), &copy)["encryption"].clone();
    assert_eq!(told["certificates"][0]["name"], "Second");
    place().ok(["decrypt".as_ref(), copy.as_os_str()]);
    forge(&mut forged[8192..]);
    fs::write(&path, &forged).unwrap();
    let told = status(place(), &path)["encryption"].clone();
    assert_eq!(told["key_opens"], false);
    assert!(told["key_problem"].as_str().unwrap().contains("does not belong to the key"), "{told}");
    assert_eq!(place().run(["decrypt".as_ref(), path.as_os_str()]).code, 3);
}

#[test]
fn several_and_some_of_them_not_there() {
    let dir = Dir::new();
    let (path, text) = (dir.path("app.db"), dir.path("notes.txt"));
    fill(&path, 10);
    fs::write(&text, "no database at all, only words").unwrap();
    let gone = dir.path("gone.db");
    let args = ["status", "--json"].map(std::ffi::OsStr::new);
    let paths = [&gone, &path, &text].map(|path| path.as_os_str());
    let run = place().run(args.into_iter().chain(paths));
    let listed: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, listed.as_array().unwrap().len()), (7, 3), "{run:?}");
    assert!(listed[0]["error"].as_str().unwrap().contains("cannot open"));
    assert_eq!(listed[1]["encryption_state"], 1);
    assert!(listed[2]["error"].as_str().unwrap().contains("is not a database"));
    let run = place().run(["status".as_ref(), text.as_os_str(), path.as_os_str()]);
    assert!(run.code == 4 && run.out.contains("UNENCRYPTED"), "{run:?}");
}

/// A line on the kinds of processors where it was measured, on no other, and never in JSON.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_aegis_would_save_is_told_where_it_was_measured() {
    use std::arch::is_x86_feature_detected as has;
    let measured = if has!("vaes") { !has!("avx512f") } else { has!("aes") };
    let offered = place().ok(["encrypt", "-h"]).out.contains("AEGIS_256X2");
    let dir = Dir::new();
    for (algorithm, aes) in [("AES_256", true), ("AEGIS_256X2", false)] {
        let path = dir.path(&format!("{algorithm}.db"));
        fill(&path, 10);
        if !aes && !offered {
            continue;
        }
        let said = encrypt(&path, &["--algorithm", algorithm]).out;
        let told = place().ok(["status".as_ref(), path.as_os_str()]).out;
        for text in [said, told] {
            let lines = text.lines().filter(|line| line.contains("This processor has ")).count();
            assert_eq!(lines, usize::from(measured && offered && aes), "{text}");
        }
        let json = place().ok(["status".as_ref(), path.as_os_str(), "--json".as_ref()]).out;
        assert!(!json.contains("processor"), "{json}");
    }
}

/// The key store knows what is not there any more: `status` alone must not say "unencrypted".
#[test]
fn what_the_key_store_knows_and_does_not_find_is_an_error() {
    let dir = Dir::new();
    let below = dir.path("below");
    fs::create_dir(&below).unwrap();
    let path = below.join("app.db");
    fill(&path, 50);
    encrypt(&path, &[]);
    assert_eq!(status(place(), &path)["problem"], Value::Null);
    fs::write(&path, "").unwrap();
    let run = place().run(["status".as_ref(), path.as_os_str()]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.err.contains("is empty, and the key store knows an encrypted file"), "{run:?}");
    assert!(!run.out.contains("is empty, and"), "the reason is printed once: {run:?}");
    let run = place().run(["status".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let told: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, told[0]["problem"].is_string()), (4, true), "{run:?}");
    fs::remove_dir_all(&below).unwrap();
    for (command, code) in [("status", 4), ("doctor", 4), ("audit", 1)] {
        let run = place().run([command.as_ref(), below.as_os_str()]);
        assert_eq!(run.code, code, "{command}: {run:?}");
        assert!(format!("{run:?}").contains("below/app.db"), "{command}: {run:?}");
    }
}
