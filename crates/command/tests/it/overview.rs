//! `tdekit overview`: the data about each database, and its violations of rules.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Place, Run};
use crate::databases::{fill, unreadable_below};
use crate::media::records;

/// A place with a store, a certificate that is in a backup, and a directory of databases:
/// encrypted, backed up and verified (`shop`), only encrypted (`hr`), plain with a plain backup
/// (`notes`), and encrypted and then removed (`old`).
fn estate() -> Place {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["cert", "backup", "AppCert", "--pkcs12", "AppCert.p12"]);
    fs::create_dir_all(place.path("srv/below")).unwrap();
    for name in ["srv/shop.db", "srv/below/hr.db", "srv/notes.db", "srv/old.db"] {
        fill(&place.path(name), 50);
    }
    for name in ["srv/shop.db", "srv/below/hr.db", "srv/old.db"] {
        place.ok(["encrypt", name, "--certificate", "AppCert"]);
    }
    place.ok(["backup", "srv/shop.db", "--to", "shop.bak", "--certificate", "AppCert"]);
    place.ok(["verify", "shop.bak"]);
    place.ok(["backup", "srv/notes.db", "--to", "srv/notes.bak"]);
    fs::remove_file(place.path("srv/old.db")).unwrap();
    place
}

fn overview(place: &Place, args: &[&str]) -> Run {
    place.run([&["overview"][..], args].concat())
}

fn json(place: &Place, args: &[&str]) -> (i32, Value) {
    let run = overview(place, &[args, &["--json"]].concat());
    (run.code, serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}")))
}

/// Returns the row of a database.
fn row<'a>(told: &'a Value, name: &str) -> &'a Value {
    let is_it = |row: &&Value| row["path"].as_str().is_some_and(|path| path.ends_with(name));
    told["databases"].as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{told}"))
}

fn findings(row: &Value) -> Vec<&str> {
    let all = row["findings"].as_array().unwrap();
    all.iter().map(|finding| finding["what"].as_str().unwrap()).collect()
}

#[test]
fn each_database_has_its_state_its_backup_and_what_is_due() {
    let mut place = estate();
    // No key is needed, and none is requested.
    place.set("TDEKIT_PASSWORD", "");
    let (code, told) = json(&place, &["srv"]);
    assert_eq!((code, &told["level"]), (1, &"bad".into()), "{told}");
    let all = told["databases"].as_array().unwrap();
    assert_eq!(all.len(), 4, "{told}");
    let shop = row(&told, "/shop.db");
    assert_eq!((&shop["level"], &shop["state"]), (&"good".into(), &"encrypted".into()), "{shop}");
    assert_eq!((&shop["last_backup"]["full"], &shop["verify_ok"]), (&true.into(), &true.into()));
    assert_eq!(shop["algorithm"], "AES_256");
    let hr = row(&told, "/hr.db");
    assert_eq!((&hr["level"], findings(hr)), (&"warning".into(), vec!["backup-missing"]), "{hr}");
    let notes = row(&told, "/notes.db");
    assert_eq!(notes["state"], "plain");
    assert_eq!(findings(notes), ["plain", "backup-plain", "verify-missing"], "{notes}");
    let old = row(&told, "/old.db");
    assert_eq!((&old["level"], &old["state"]), (&"bad".into(), &"gone".into()), "{old}");
    assert_eq!(findings(old), ["lost", "backup-missing"]);

    let text = overview(&place, &["srv"]);
    for part in ["shop.db", "below/hr.db", "PLAIN", "GONE", "now (full)", "now, not encrypted"] {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    assert!(text.out.contains("Do: tdekit encrypt "), "{}", text.out);
    let quiet = overview(&place, &["srv", "--quiet"]);
    assert!(!quiet.out.contains("shop.db") && quiet.out.contains("hr.db"), "{}", quiet.out);

    let alone = overview(&place, &["srv/shop.db"]);
    assert_eq!(alone.code, 0, "{alone:?}");
    assert_eq!(overview(&place, &["nowhere"]).code, 7);
    assert_eq!(overview(&place, &[]).code, 2);
    assert_eq!(overview(&place, &["srv", "--max-key-age", "old"]).code, 2);
}

#[test]
fn a_removed_database_is_a_finding_until_it_is_forgotten() {
    let place = estate();
    // Media sets are moved away every day, and a missing one is not a missing database.
    place.ok(["backup", "srv/shop.db", "--to", "srv/moved.bak", "--certificate", "AppCert"]);
    fs::rename(place.path("srv/moved.bak"), place.path("moved.bak")).unwrap();
    let lost = |command: &str, list: fn(&Value) -> &Value| {
        let run = place.run([command, "srv", "--json"]);
        let told: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
        let all = list(&told).as_array().unwrap().iter();
        let named = all.filter(|one| one.to_string().contains("\"lost\""));
        (run.code, named.map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let old = fs::canonicalize(place.path("srv")).unwrap().join("old.db").display().to_string();
    assert_eq!(lost("doctor", |told| told), (4, vec![old]));
    let named = vec!["srv/old.db".to_owned()];
    assert_eq!(lost("audit", |told| &told["databases"]), (1, named));
    let text = overview(&place, &["srv"]);
    assert!(text.out.contains("tdekit cert forget srv/old.db"), "{}", text.out);

    place.fails(1, ["cert", "forget", "srv/shop.db"]);
    place.fails(1, ["cert", "forget", "srv/never.db"]);
    let mut forget = place.command(["cert", "forget", "srv/old.db"]);
    let run = Run::of(&forget.env("TDEKIT_PASSWORD", "").output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    place.fails(1, ["cert", "forget", "srv/old.db"]);
    let (_, told) = json(&place, &["srv"]);
    assert_eq!(told["databases"].as_array().unwrap().len(), 3, "{told}");
    // A plain database in place of an encrypted one is a different one.
    fs::rename(place.path("srv/shop.db"), place.path("shop.db")).unwrap();
    fill(&place.path("srv/shop.db"), 50);
    let shop = fs::canonicalize(place.path("srv/shop.db")).unwrap().display().to_string();
    assert_eq!(lost("doctor", |told| told), (4, vec![shop]));
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 4);
    place.fails(4, ["backup", "srv/shop.db", "--to", "plain.bak"]);
    assert!(!place.path("plain.bak").exists());
    let (_, told) = json(&place, &["srv"]);
    let row = row(&told, "/shop.db");
    assert_eq!((&row["state"], &row["level"]), (&"plain".into(), &"bad".into()), "{row}");
    assert!(findings(row).contains(&"lost"), "{row}");
    place.ok(["cert", "forget", "srv/shop.db"]);
    place.ok(["backup", "srv/shop.db", "--to", "plain.bak"]);
    fs::rename(place.path("shop.db"), place.path("srv/shop.db")).unwrap();
    // It may have been moved, so the certificate is still needed.
    place.ok(["decrypt", "srv/shop.db"]);
    place.ok(["decrypt", "srv/below/hr.db"]);
    assert_eq!(place.run(["doctor", "srv"]).code, 0);
    let uses = place.home().join("uses.json");
    assert!(fs::read_to_string(uses).unwrap().contains("\"forgotten\""));
    place.fails(3, ["cert", "drop", "AppCert"]);
}

/// Work on a copy, and files that were at a place before, change nothing of what is known.
#[test]
fn copies_and_earlier_files_of_a_place_are_distinguished() {
    let place = estate();
    fs::copy(place.path("srv/shop.db"), place.path("copy.db")).unwrap();
    place.ok(["decrypt", "copy.db"]);
    place.ok(["cert", "create", "Other"]);
    place.ok(["cert", "backup", "Other", "--pkcs12", "other.p12"]);
    fs::copy(place.path("srv/shop.db"), place.path("copy.db")).unwrap();
    place.ok(["rewrap", "copy.db", "--certificate", "Other"]);
    fs::copy(place.path("shop.bak"), place.path("copy.bak")).unwrap();
    let other = ["--certificate", "Other", "--init", "--replace"];
    place.ok([&["backup", "srv/below/hr.db", "--to", "copy.bak"][..], &other].concat());
    for kept in ["srv/shop.db", "shop.bak"] {
        assert!(place.fails(3, ["cert", "drop", "AppCert"]).contains(kept), "{kept}");
    }
    // A copy that was rotated is a file of its own, also when the original is decrypted.
    fs::copy(place.path("srv/shop.db"), place.path("own.db")).unwrap();
    place.ok(["cert", "create", "Third"]);
    place.ok(["cert", "backup", "Third", "--pkcs12", "third.p12"]);
    place.ok(["rewrap", "own.db", "--certificate", "Third"]);
    fs::copy(place.path("own.db"), place.path("own2.db")).unwrap();
    place.ok(["rotate", "own2.db"]);
    place.ok(["decrypt", "own.db"]);
    assert!(place.fails(3, ["cert", "drop", "Third"]).contains("own2.db"));
    place.ok(["rewrap", "own2.db", "--certificate", "Other"]);
    let rotated = place.json(["cert", "rotate", "Other", "--json"]);
    for wrapped in ["copy.db", "own2.db"] {
        assert!(rotated["wrapped_anew"].to_string().contains(wrapped), "{rotated}");
    }
    // Names that SQLite deletes.
    for suffix in ["-journal", "-wal", "-seals"] {
        let side = format!("own2.db{suffix}");
        place.fails(2, ["cert", "backup", "Other", "--pkcs12", &side]);
        place.fails(2, ["key", "backup", "--out", &side]);
        assert!(!place.path(&side).exists());
    }
    // A list that cannot be read hides what is gone.
    let (uses, list) = (place.home().join("uses.json"), fs::read(place.home().join("uses.json")));
    fs::write(&uses, "{").unwrap();
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 4);
    assert_eq!(place.run(["audit", "srv/shop.db"]).code, 1);
    place.ok(["backup", "srv/shop.db", "--to", "more.bak", "--certificate", "AppCert"]);
    place.fails(4, ["backup", "srv/notes.db", "--to", "notes.bak"]);
    fs::remove_file(&uses).unwrap();
    std::os::unix::fs::symlink("gone", &uses).unwrap();
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 7);
    let run = place.run(["rotate", "copy.db"]);
    assert!(run.code == 0 && run.err.contains("could not note"), "{run:?}");
    fs::remove_file(&uses).unwrap();
    fs::write(&uses, list.unwrap()).unwrap();
    // Another encrypted database in its place.
    let shop = fs::read(place.path("srv/shop.db")).unwrap();
    fs::copy(place.path("srv/below/hr.db"), place.path("srv/shop.db")).unwrap();
    let run = place.run(["doctor", "srv/shop.db"]);
    assert!(run.code == 4 && run.out.contains("is not the encrypted database"), "{run:?}");
    assert_eq!(place.run(["audit", "srv/shop.db"]).code, 1);
    let run = place.run(["backup", "srv/shop.db", "--to", "hr.bak", "--certificate", "AppCert"]);
    assert!(run.code == 0 && run.err.contains("is not the encrypted database"), "{run:?}");
    fs::write(place.path("srv/shop.db"), shop).unwrap();
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 0);
    fs::write(place.path("srv/shop.db"), "").unwrap();
    place.fails(4, ["backup", "srv/shop.db", "--to", "empty.bak"]);
    // Restored, it has another id; decrypted, it is to be plain.
    fs::remove_file(place.path("srv/shop.db")).unwrap();
    place.ok(["restore", "shop.bak", "--to", "srv/shop.db"]);
    place.ok(["decrypt", "srv/shop.db"]);
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 0);
    place.ok(["backup", "srv/shop.db", "--to", "plain.bak"]);
}

/// The history is a SQLite database, but not one to be encrypted.
#[test]
fn the_key_stores_own_history_is_no_database_of_the_estate() {
    let place = estate();
    assert!(place.home().join("history.db").is_file());
    let (_, told) = json(&place, &["."]);
    let all = told["databases"].as_array().unwrap();
    assert_eq!(all.len(), 4, "{told}");
    let history = place.home().join("history.db").display().to_string();
    let told = place.fails(2, ["encrypt", &history, "--certificate", "AppCert"]);
    assert!(told.contains("history of a key store"), "{told}");
}

#[test]
fn ages_damage_and_unsaved_certificates_are_told() {
    let place = estate();
    let (code, told) = json(&place, &["srv/shop.db", "--max-backup-age", "0d"]);
    let shop = row(&told, "/shop.db");
    // A backup of this very second is not older than now.
    assert!(code == 0 || findings(shop) == ["backup-age"], "{shop}");
    let config = "[overview]\npaths = [\"../srv/shop.db\"]\nmax_key_age = \"1d\"\n";
    fs::write(place.home().join("config.toml"), config).unwrap();
    assert_eq!(overview(&place, &[]).code, 0);
    fs::write(place.home().join("config.toml"), "[overview]\nmax_key_age = \"soon\"\n").unwrap();
    assert_eq!(overview(&place, &["srv"]).code, 2);
    fs::remove_file(place.home().join("config.toml")).unwrap();

    let media = fs::read(place.path("shop.bak")).unwrap();
    let mut flipped = media.clone();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    fs::write(place.path("shop.bak"), flipped).unwrap();
    assert_eq!(place.run(["verify", "shop.bak"]).code, 4);
    let (code, told) = json(&place, &["srv/shop.db"]);
    let shop = row(&told, "/shop.db");
    assert_eq!((code, findings(shop)), (1, vec!["verify-failed"]), "{shop}");
    assert_eq!(shop["verify_ok"], false);
    fs::write(place.path("shop.bak"), media).unwrap();
    place.ok(["verify", "shop.bak"]);
    assert_eq!(overview(&place, &["srv/shop.db"]).code, 0);

    place.ok(["doctor", "srv/shop.db"]);
    let (_, told) = json(&place, &["srv/shop.db"]);
    assert!(row(&told, "/shop.db")["last_examined_at"].is_i64(), "{told}");
    let database = place.path("srv/shop.db");
    let mut bytes = fs::read(&database).unwrap();
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    fs::write(&database, bytes).unwrap();
    assert_eq!(place.run(["doctor", "srv/shop.db"]).code, 4);
    let (_, told) = json(&place, &["srv/shop.db"]);
    assert_eq!(findings(row(&told, "/shop.db")), ["doctor"], "{told}");

    place.ok(["cert", "create", "Unsaved"]);
    fill(&place.path("srv/new.db"), 50);
    place.ok(["encrypt", "srv/new.db", "--certificate", "Unsaved"]);
    let (_, told) = json(&place, &["srv/new.db"]);
    let new = row(&told, "/new.db");
    assert_eq!(findings(new), ["certificate-not-backed-up", "backup-missing"], "{new}");
    assert_eq!(new["certificates_saved"], false);

    place.ok(["mariadb", "key", "create", "--key-id", "1", "--certificate", "Unsaved"]);
    let of_server = || findings_of_server(&json(&place, &["srv/shop.db"]).1);
    assert_eq!(of_server(), ["certificate-not-backed-up", "verify-missing"]);
    place.ok(["cert", "backup", "Unsaved", "--pkcs12", "Unsaved.p12"]);
    assert_eq!(of_server(), ["verify-missing"]);
}

fn findings_of_server(told: &Value) -> Vec<String> {
    let servers = told["servers"].as_array().unwrap();
    servers.iter().flat_map(findings).map(str::to_owned).collect()
}

#[test]
fn metrics_are_prometheus_text_and_the_page_is_whole() {
    let place = estate();
    fs::rename(place.path("srv/notes.db"), place.path("srv/a \"b\\c\nnote.db")).unwrap();
    let run = overview(&place, &["srv", "--prometheus"]);
    assert_eq!(run.code, 1, "{run:?}");
    let lines = run.out.lines().map(|line| Ok(line.to_owned()));
    let parsed = prometheus_parse::Scrape::parse(lines).unwrap();
    let of = |metric: &str, end: &str| {
        let is_it = |sample: &&prometheus_parse::Sample| {
            let path = sample.labels.get("path");
            sample.metric == metric && path.is_some_and(|path| path.ends_with(end))
        };
        let found: Vec<_> = parsed.samples.iter().filter(is_it).collect();
        match found.as_slice() {
            [] => None,
            [one] => match one.value {
                prometheus_parse::Value::Gauge(value) => Some(value),
                ref other => panic!("{other:?}"),
            },
            _ => panic!("{metric} {end}"),
        }
    };
    assert_eq!(of("tdekit_database_encrypted", "shop.db"), Some(1.0));
    assert_eq!(of("tdekit_database_encrypted", "note.db"), Some(0.0));
    assert_eq!(of("tdekit_database_level", "old.db"), Some(2.0));
    assert!(of("tdekit_database_last_backup_timestamp_seconds", "shop.db") > Some(1.7e9));
    assert_eq!(of("tdekit_database_last_backup_timestamp_seconds", "hr.db"), None);
    assert_eq!(of("tdekit_database_verify_ok", "shop.db"), Some(1.0));

    let out = place.path("tdekit.prom");
    let to = out.to_str().unwrap();
    let run = overview(&place, &["srv", "--prometheus", "--output", to]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(fs::read_to_string(&out).unwrap().contains("tdekit_overview_timestamp_seconds"));
    assert_eq!(overview(&place, &["srv", "--output", to]).code, 2);

    let page = overview(&place, &["srv", "--html"]).out;
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    for part in ["2 of 4 databases are encrypted.", "&quot;b\\\\c", "below/hr.db"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Evidence is read elsewhere, and by keyboard.
    let looked_at = format!("<code>{}</code>", place.path("srv").display());
    assert!(page.contains(&looked_at) && page.contains("tabindex=\"0\""), "{page}");
    assert!(!page.contains("<th scope=\"col\"></th>"), "{page}");
}

/// Returns the findings of `srv/shop.db`.
fn findings_of_shop(place: &Place) -> Vec<String> {
    let (_, told) = json(place, &["srv/shop.db"]);
    findings(row(&told, "/shop.db")).into_iter().map(str::to_owned).collect()
}

#[test]
fn every_end_of_a_verification_that_finds_damage_is_kept() {
    let place = estate();
    let media = place.path("shop.bak");
    place.ok(["backup", "srv/shop.db", "--to", "shop.bak", "--append"]);
    place.ok(["verify", "shop.bak"]);
    let whole = fs::read(&media).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    // In the newest set: of a set before an unfinished tail nothing is damaged.
    let cut = whole.len() * 3 / 4;
    let signature = records(&whole).last().unwrap().start;
    for (case, bytes, finding) in [
        // The history knows that it was signed.
        ("the end of its signature", whole[..whole.len() - 100].to_vec(), "verify-failed"),
        ("its signature", whole[..signature].to_vec(), "verify-failed"),
        ("its end is cut off", whole[..cut].to_vec(), "verify-failed"),
        // No media set is there then.
        ("its magic", flipped(3), "verify-absent"),
        ("its header", flipped(40), "verify-failed"),
        ("a header of a set", flipped(200), "verify-failed"),
    ] {
        fs::write(&media, bytes).unwrap();
        assert_eq!(place.run(["verify", "shop.bak"]).code, 4, "{case}");
        assert_eq!(findings_of_shop(&place), [finding], "{case}");
        // Findings about an older set say nothing about the newest.
        fs::write(&media, &whole).unwrap();
        place.ok(["verify", "shop.bak", "--position", "1"]);
        assert_eq!(findings_of_shop(&place), [finding], "{case}");
        place.ok(["verify", "shop.bak"]);
        assert_eq!(findings_of_shop(&place), [""; 0], "{case}");
    }
    fs::remove_file(&media).unwrap();
    assert_eq!(place.run(["verify", "shop.bak"]).code, 7);
    assert_eq!(findings_of_shop(&place), ["verify-absent"]);
    assert!(overview(&place, &["srv/shop.db"]).out.contains("ABSENT"));
    fs::write(&media, flipped(whole.len() / 4 * 3)).unwrap();
    assert_eq!(place.run(["restore", "shop.bak", "--to", "new.db"]).code, 4);
    fs::write(&media, &whole).unwrap();
    place.ok(["restore", "shop.bak", "--to", "new.db"]);
    assert_eq!(findings_of_shop(&place), [""; 0]);
}

#[test]
fn an_overview_replaces_its_own_files_only() {
    let place = estate();
    let keys = place.store_file();
    let before = fs::read(&keys).unwrap();
    for path in [keys.to_str().unwrap(), "srv/shop.db", "srv"] {
        for form in ["--html", "--prometheus"] {
            let run = overview(&place, &["srv", form, "--output", path]);
            assert_eq!(run.code, 2, "{path}: {run:?}");
        }
    }
    assert_eq!(fs::read(&keys).unwrap(), before);
    for form in ["--html", "--prometheus"] {
        for _ in 0..2 {
            let run = overview(&place, &["srv", form, "--output", &form[2..]]);
            assert_eq!(run.code, 1, "{form}: {run:?}");
        }
    }
}

#[test]
fn what_stands_in_the_place_of_a_database_is_not_taken_for_it() {
    let place = estate();
    let shop = place.path("srv/shop.db");
    let kept = fs::read(&shop).unwrap();
    fs::remove_file(&shop).unwrap();
    std::os::unix::fs::symlink("nowhere", &shop).unwrap();
    let (_, told) = json(&place, &["srv"]);
    assert_eq!(row(&told, "/shop.db")["level"], "bad", "{told}");
    fs::remove_file(&shop).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &shop,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let (_, told) = json(&place, &["srv"]);
    let pipe = row(&told, "/shop.db");
    assert_eq!(pipe["level"], "bad", "{pipe}");
    assert!(pipe["last_backup"].is_object(), "{pipe}");
    let run = place.run(["doctor", "srv/shop.db"]);
    assert!(run.code == 4 && run.out.contains("is not a file"), "{run:?}");
    fs::remove_file(&shop).unwrap();
    fs::create_dir(&shop).unwrap();
    let run = place.run(["doctor", "srv/shop.db"]);
    assert!(run.code == 4 && run.out.contains("is not a file"), "{run:?}");
    fs::remove_dir(&shop).unwrap();
    fs::write(&shop, &kept).unwrap();
    place.ok(["doctor", "srv/shop.db"]);
    fs::remove_file(&shop).unwrap();

    // Another database, which was never backed up.
    fs::copy(place.path("srv/below/hr.db"), &shop).unwrap();
    assert_eq!(findings_of_shop(&place), ["lost", "backup-missing"]);
    fs::write(&shop, kept).unwrap();
    assert_eq!(findings_of_shop(&place), [""; 0]);
    fs::write(place.home().join("uses.json"), "{{").unwrap();
    let (code, told) = json(&place, &["srv/shop.db"]);
    assert_eq!((code, told["not_looked_at"].as_array().unwrap().len()), (1, 1), "{told}");
    let run = overview(&place, &["srv/shop.db"]);
    assert!(run.err.contains("1 finding"), "{}", run.err);

    let forged = place.path("srv/a\n \u{2714}  good.db");
    fill(&forged, 10);
    let run = overview(&place, &["srv"]);
    assert!(!run.out.lines().any(|line| line.starts_with(" \u{2714}  good")), "{}", run.out);
    fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(overview(&place, &["empty"]).code, 1);
}

#[test]
fn tables_fit_the_terminal() {
    let mut place = estate();
    let long = format!("srv/{}.db", "a-long-name-".repeat(12));
    fs::rename(place.path("srv/notes.db"), place.path(&long)).unwrap();
    place.set("COLUMNS", "80");
    for args in
        [&["overview", "srv"][..], &["cert", "list"], &["inspect", "shop.bak"], &["history"]]
    {
        let run = place.run(args.iter());
        let is_row = |line: &&str| line.starts_with(' ') && !line.starts_with("    ");
        let table = run.out.lines().filter(is_row);
        let wide = table.filter(|line| line.chars().count() > 80).count();
        assert_eq!(wide, 0, "{args:?}: {}", run.out);
        let all = place.run(args.iter().chain(&["--wide"]));
        assert!(all.out.lines().any(|line| line.chars().count() > 80), "{args:?}: {}", all.out);
    }
    let told = place.run(["cert", "list"]);
    assert!(told.err.contains("Left out for want of room: ") && told.err.contains("--wide"));
}

#[test]
fn what_could_not_be_looked_at_is_named() {
    let place = Place::empty();
    fs::create_dir(place.path("srv")).unwrap();
    fill(&place.path("srv/a.db"), 10);
    unreadable_below(&place.path("srv"));
    let (code, told) = json(&place, &["srv"]);
    assert_eq!(code, 1, "{told}");
    let left = told["not_looked_at"].as_array().unwrap();
    assert!(left.iter().any(|what| what.as_str().unwrap().contains("history")), "{told}");
    let state = &told["databases"].as_array().unwrap().last().unwrap()["state"];
    assert_eq!(state, "unreadable");
    assert!(!Path::new(&place.home()).exists(), "an overview makes nothing");
}

#[test]
fn a_history_that_cannot_be_read_hides_no_database_and_calls_nothing_in_order() {
    let place = Place::with_store();
    fill(&place.path("a.db"), 10);
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["cert", "backup", "AppCert", "--pkcs12", "b.p12"]);
    place.ok(["encrypt", "a.db", "--certificate", "AppCert"]);
    fs::write(Path::new(&place.home()).join("history.db"), "no history").unwrap();
    let (code, told) = json(&place, &["a.db"]);
    let row = &told["databases"][0];
    assert_eq!((code, &row["state"]), (1, &"encrypted".into()), "{told}");
    assert_eq!(row["findings"][0]["what"], "history", "{told}");
    let shown = place.run(["overview", "a.db"]);
    assert!(!shown.out.contains("never") && !shown.out.contains('\u{2714}'), "{shown:?}");
}

#[test]
fn a_row_of_the_history_without_a_date_hides_no_other_and_is_named() {
    let place = estate();
    let newest = |told: &Value| row(told, "/shop.db")["last_backup"]["at"].as_i64();
    let (code, before) = json(&place, &["srv/shop.db"]);
    assert_eq!(code, 0, "{before}");
    let db = rusqlite::Connection::open(place.home().join("history.db")).unwrap();
    let copy = "INSERT INTO backupset SELECT NULL, 'feed', media_uuid, name, description, position,
        type, database_name, database_path, database_guid, server_name, user_name, software_name,
        backup_start_date, 'soon', expiration_date, backup_size, compressed_backup_size,
        compression_algorithm, key_algorithm, encryptor_thumbprint, encryptor_type, is_copy_only,
        is_source_encrypted, is_stream, is_signed, has_backup_checksums, page_size, pages,
        differential_base_guid FROM backupset WHERE database_name = 'shop.db' LIMIT 1";
    assert_eq!(db.execute(copy, []).unwrap(), 1);
    let checks = "INSERT INTO lastcheck VALUES('D', '/elsewhere.db', x'FF', 0, NULL, 'me'),
        ('M', '/data', 'now', 0, NULL, 'me')";
    db.execute(checks, []).unwrap();
    let (code, told) = json(&place, &["srv/shop.db"]);
    assert_eq!((code, newest(&told)), (1, newest(&before)), "{told}");
    assert_eq!(findings(row(&told, "/shop.db")), [""; 0], "{told}");
    for what in
        ["row of feed, of ", "\\\"soon\\\"", "row of /elsewhere.db in lastcheck", "row of /data"]
    {
        assert!(told["not_looked_at"].to_string().contains(what), "{what} {told}");
    }
    let shown = place.run(["history"]);
    assert!(shown.code == 0 && shown.err.contains("row of feed"), "{shown:?}");
    assert!(shown.out.contains("shop.db"), "{shown:?}");
}

/// A link in the place of a known database, and a list of known ones that was emptied.
#[test]
fn links_and_an_emptied_list_hide_no_database() {
    let place = estate();
    let hr = place.path("srv/below/hr.db");
    fs::rename(&hr, place.path("srv/kept.db")).unwrap();
    std::os::unix::fs::symlink("../kept.db", &hr).unwrap();
    let (_, told) = json(&place, &["srv"]);
    assert!(!findings(row(&told, "/hr.db")).contains(&"lost"), "{told}");
    assert_eq!(told["databases"].as_array().unwrap().len(), 4, "{told}");
    for other in ["../notes.db", "../shop.db"] {
        fs::remove_file(&hr).unwrap();
        std::os::unix::fs::symlink(other, &hr).unwrap();
        for looked_at in ["srv", "srv/below", "srv/below/hr.db"] {
            let (code, told) = json(&place, &[looked_at]);
            let hr = row(&told, "/hr.db");
            assert!(code == 1 && findings(hr).contains(&"lost"), "{looked_at} {other} {told}");
        }
        assert_eq!(place.run(["audit", "srv/below"]).code, 1);
        // Its own backups count, not those of the file to which the link leads.
        let shown = place.run(["overview", "srv"]).out;
        let known = hr.canonicalize().unwrap();
        assert!(!shown.contains(&format!("--database {}", known.display())), "{shown}");
        assert_eq!(place.run(["doctor", "srv/below/hr.db"]).code, 4);
    }
    let (_, told) = json(&place, &["srv/shop.db"]);
    assert_eq!(findings(row(&told, "/shop.db")), [""; 0], "{told}");
    fs::remove_file(&hr).unwrap();
    fs::remove_dir(place.path("srv/below")).unwrap();
    fs::create_dir(place.path("aside")).unwrap();
    fs::copy(place.path("srv/notes.db"), place.path("aside/hr.db")).unwrap();
    std::os::unix::fs::symlink("../aside", place.path("srv/below")).unwrap();
    let (code, told) = json(&place, &["srv"]);
    assert!(code == 1 && findings(row(&told, "/hr.db")).contains(&"lost"), "{told}");
    fs::remove_file(place.path("aside/hr.db")).unwrap();
    for verb in ["overview", "audit", "doctor", "status"] {
        let run = place.run([verb, "srv/below"]);
        assert!(run.code != 0 && format!("{run:?}").contains("hr.db"), "{verb} {run:?}");
    }

    fs::remove_file(place.home().join("uses.json")).unwrap();
    let (code, told) = json(&place, &["srv/shop.db"]);
    assert!(code == 1 && told["not_looked_at"].to_string().contains("knows none"), "{told}");
    assert_eq!(place.run(["audit", "srv/shop.db"]).code, 1);
    place.ok(["rewrap", "srv/shop.db"]);
    place.ok(["audit", "srv/shop.db"]);
    let (code, told) = json(&place, &["srv/shop.db"]);
    assert_eq!((code, &told["not_looked_at"]), (0, &serde_json::json!([])), "{told}");
}

#[test]
fn a_servers_lost_keys_and_data_are_told() {
    let place = estate();
    let keys = place.home().join("server-keys.json");
    let look = || {
        let (code, told) = json(&place, &["srv/shop.db"]);
        (code, findings_of_server(&told))
    };
    assert_eq!(look(), (0, vec![]));
    place.ok(["mariadb", "key", "create", "--key-id", "1", "--certificate", "AppCert"]);
    let whole = fs::read(&keys).unwrap();
    fs::write(&keys, &whole[..40]).unwrap();
    let lost = vec!["server-keys".to_owned(), "verify-missing".to_owned()];
    assert_eq!(look(), (1, lost.clone()));
    fs::remove_file(&keys).unwrap();
    assert_eq!(look(), (1, lost));
    fs::write(&keys, whole).unwrap();
    let data = place.path("data");
    let verified = || {
        let db = rusqlite::Connection::open(place.home().join("history.db")).unwrap();
        let row =
            "INSERT OR REPLACE INTO lastcheck VALUES('M', ?1, datetime('now'), 0, NULL, 'me')";
        db.execute(row, [data.to_str().unwrap()]).unwrap();
    };
    verified();
    assert_eq!(look(), (1, vec!["data-gone".to_owned()]));
    fs::create_dir(&data).unwrap();
    assert_eq!(look(), (1, vec!["data-gone".to_owned()]));
    fs::write(data.join("ibdata1"), "").unwrap();
    assert_eq!(look(), (1, vec!["data-gone".to_owned()]));
    // A signature follows.
    let text = fs::read_to_string(&keys).unwrap();
    let mut parts = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let file = parts.next().unwrap().unwrap();
    let id = file["file_id"].as_str().unwrap();
    let mark = data.join("tdekit-keys");
    fs::write(&mark, format!("tdekit server keys {}\n", "07".repeat(16))).unwrap();
    assert_eq!(look(), (1, vec!["data-gone".to_owned()]));
    fs::write(&mark, format!("tdekit server keys {id}\n")).unwrap();
    assert_eq!(look(), (0, vec![]));
    let db = rusqlite::Connection::open(place.home().join("history.db")).unwrap();
    db.execute("UPDATE lastcheck SET check_date = '2090-01-01 00:00:00'", []).unwrap();
    assert_eq!(look(), (1, vec!["verify-age".to_owned()]));
}

#[test]
#[ignore = "full: 10,000 databases"]
fn ten_thousand_databases_are_looked_at() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    fs::create_dir(place.path("srv")).unwrap();
    fill(&place.path("srv/0.db"), 10);
    place.ok(["encrypt", "srv/0.db", "--certificate", "AppCert"]);
    for number in 1..10_000 {
        let path = place.path(&format!("srv/{}", number / 1000));
        fs::create_dir_all(&path).unwrap();
        fs::copy(place.path("srv/0.db"), path.join(format!("{number}.db"))).unwrap();
    }
    let (_, told) = json(&place, &["srv"]);
    assert_eq!(told["databases"].as_array().unwrap().len(), 10_000);
}
