//! `tdekit audit`: violations are reported and change the exit code; nothing is opened.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::databases::{Dir, encrypt, fill, place, unreadable_below};
use serde_json::Value;

/// Returns the exit code, the breaches of each database by its file name, and the report.
fn audit(args: &[&Path]) -> (i32, Vec<(String, Vec<String>)>, Value) {
    let run = place().run([Path::new("audit"), Path::new("--json")].iter().chain(args));
    let told: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let breaches = |one: &Value| {
        let all = one["breaches"].as_array().unwrap();
        all.iter().map(|breach| text(&breach["what"])).collect::<Vec<_>>()
    };
    let name = |one: &Value| {
        let path = text(&one["path"]);
        Path::new(&path).file_name().unwrap().to_string_lossy().into_owned()
    };
    let all = told["databases"].as_array().unwrap();
    let each = all.iter().map(|one| (name(one), breaches(one))).collect();
    (run.code, each, told)
}

fn told(name: &str, breaches: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), breaches.iter().map(|one| (*one).to_owned()).collect())
}

#[test]
fn sound_databases_pass_and_a_plain_one_does_not() {
    let dir = Dir::new();
    fs::create_dir(dir.path("below")).unwrap();
    for name in ["app.db", "below/other.db"] {
        fill(&dir.path(name), 50);
        encrypt(&dir.path(name), &[]);
    }
    fs::write(dir.path("notes.txt"), "no database").unwrap();
    std::os::unix::fs::symlink(dir.path(""), dir.path("below/again")).unwrap();
    let (code, found, report) = audit(&[&dir.path("")]);
    assert_eq!((code, found), (0, vec![told("app.db", &[]), told("other.db", &[])]), "{report}");
    let one = &report["databases"][0];
    assert_eq!((&one["key_age_days"], &report["breached"]), (&0.into(), &0.into()), "{one}");
    assert_eq!(one["encryption"]["algorithm"], "AES_256");
    assert!(one["encryption"]["certificates"][0]["backed_up_at"].is_string(), "{one}");

    fill(&dir.path("plain.db"), 50);
    let (code, found, report) = audit(&[&dir.path("")]);
    assert_eq!((code, &found[2]), (1, &told("plain.db", &["plain"])), "{report}");
    assert_eq!(report["breached"], 1);
    let run = place().run([Path::new("audit"), &dir.path("")]);
    assert!(run.out.contains("plain: it is not encrypted"), "{run:?}");
    assert!(run.err.contains("1 finding(s) in 1 database(s)"), "{run:?}");
}

#[test]
#[ignore = "full: waits for a key to grow old"]
fn a_key_may_be_too_old() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 50);
    encrypt(&path, &[]);
    let (code, _, report) = audit(&[&path, Path::new("--max-key-age"), Path::new("1y")]);
    assert_eq!(code, 0, "{report}");
    assert!(report["oldest_key_allowed"].is_string(), "{report}");
    // The header has whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let (code, found, report) = audit(&[&path, Path::new("--max-key-age"), Path::new("0d")]);
    assert_eq!((code, found), (1, vec![told("app.db", &["key-age"])]), "{report}");
    let run = place().run(["audit", "--max-key-age", "soon", &path.to_string_lossy()]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn certificates_must_be_known_and_backed_up() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 50);
    place().ok(["cert", "create", "Young"]);
    place().ok(["encrypt", &path.to_string_lossy(), "--certificate", "Young"]);
    let (code, found, report) = audit(&[&path]);
    let wanted = vec![told("app.db", &["certificate-not-backed-up"])];
    assert_eq!((code, found), (1, wanted), "{report}");
    let empty = crate::common::Place::empty();
    let run = empty.run([Path::new("audit"), &path]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("cannot be looked up: there is no key store"), "{run:?}");
}

#[test]
fn damaged_headers_and_files_that_are_not_there_are_told() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 50);
    encrypt(&path, &[]);
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (code, found, report) = audit(&[&path]);
    assert_eq!((code, found), (1, vec![told("app.db", &["header"])]), "{report}");
    bytes[8192 + 100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let missing = dir.path("none.db");
    let (code, found, report) = audit(&[&path, &missing]);
    let wanted = vec![told("app.db", &["unreadable"]), told("none.db", &["unreadable"])];
    assert_eq!((code, found), (1, wanted), "{report}");
    fs::remove_file(&path).unwrap();
    let (code, found, report) = audit(&[&dir.path("")]);
    assert_eq!((code, found), (1, vec![told("app.db", &["lost"])]), "{report}");
    let run = place().run([Path::new("audit"), Dir::new().path("").as_path()]);
    assert_eq!(run.code, 1, "a directory without databases: {run:?}");
    assert!(run.err.contains("holds no database"), "{run:?}");
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_audited() {
    let dir = Dir::new();
    fs::create_dir(dir.path("aside")).unwrap();
    unreadable_below(&dir.path("aside"));
    fill(&dir.path("app.db"), 50);
    encrypt(&dir.path("app.db"), &[]);
    let (code, found, report) = audit(&[&dir.path("")]);
    assert_eq!((code, &found[0]), (1, &told("app.db", &[])), "{report}");
    assert_eq!((found.len(), &*found[1].1), (2, &["unreadable".to_owned()][..]), "{report}");
    assert_eq!(report["breached"], 1, "{report}");
    // It may contain databases, so it does not count as an empty directory.
    let (code, found, report) = audit(&[&dir.path("aside")]);
    assert_eq!((code, found.len()), (1, 1), "{report}");
}
