//! Archives of which not every object can be opened: with one of two certificates, and without a
//! key store.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::archive_damage::{harm_file, name, two_chains};
use crate::common::{Place, Run};
use crate::databases::{Dir, create, place};
use crate::replicate::text;

/// An archive for two certificates, each with a file, in a store of its own.
struct TwoKeys {
    here: Place,
    dir: Dir,
    keep: rusqlite::Connection,
}

impl TwoKeys {
    fn new() -> Self {
        let mut here = Place::with_store();
        here.set("TDEKIT_BACKUP_PASSWORD", "backup");
        let dir = Dir::new();
        for certificate in ["First", "Second"] {
            here.ok(["cert", "create", certificate]);
            let file = dir.path(&format!("{certificate}.p12"));
            here.ok(["cert", "backup", certificate, "--pkcs12", text(&file)]);
        }
        let keep = create(&dir.path("app.db"), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)");
        Self { here, dir, keep }
    }

    /// Two chains, of two objects each.
    fn of_two_chains() -> Self {
        let this = Self::new();
        this.ship("First");
        this.ship("First");
        fs::remove_file(this.dir.path("app.db-replica")).unwrap();
        this.ship("Second");
        this.ship("Second");
        this
    }

    /// One chain, of three objects for the first certificate and two for the second one.
    fn of_one_chain() -> Self {
        let this = Self::new();
        ["First", "First", "First", "Second", "Second"].iter().for_each(|name| this.ship(name));
        this
    }

    fn object(&self, number: u32) -> PathBuf {
        self.dir.path("archive").join(name(number))
    }

    fn restore(&self, given: &str, at: &str) -> Run {
        let to = self.dir.path("r.db");
        let _ = fs::remove_file(&to);
        let run = self.run("restore", given, &["--at", at, "--to", text(&to)]);
        assert_eq!(run.code == 0, to.exists(), "{at}: {run:?}");
        run
    }

    fn ship(&self, certificate: &str) {
        let (db, archive) = (self.dir.path("app.db"), self.dir.path("archive"));
        let words = ["replicate", text(&db), "--to", text(&archive), "--once", "--certificate"];
        self.here.ok([&words[..], &[certificate]].concat());
        self.keep.execute_batch("INSERT INTO t VALUES (hex(randomblob(50000)))").unwrap();
    }

    /// Runs a verb on the archive with the file of one certificate.
    fn run(&self, verb: &str, given: &str, more: &[&str]) -> Run {
        let (file, archive) = (self.dir.path(&format!("{given}.p12")), self.dir.path("archive"));
        self.here.run([&[verb, text(&archive), "--pkcs12", text(&file)][..], more].concat())
    }

    /// Returns a certificate as headers name it.
    fn shown(&self, name: &str) -> String {
        let list = self.here.json(["cert", "list", "--json"]);
        let mut list = list.as_array().unwrap().iter();
        let found = list.find(|it| it["name"] == name).unwrap();
        format!("{name} ({})", found["thumbprint"].as_str().unwrap())
    }
}

/// Of an archive with several certificates, and a file with one of them.
#[test]
fn a_chain_whose_key_is_not_here_is_named_and_the_others_are_read() {
    let pair = TwoKeys::of_two_chains();
    for (given, lacking, [first, last]) in
        [("First", "Second", [3, 4]), ("Second", "First", [1, 2])]
    {
        let named = pair.shown(lacking);
        let run = pair.run("verify", given, &["--json"]);
        let found: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &found["verdict"]), (6, &"not_verified".into()), "{run:?}");
        let expected =
            serde_json::json!([{ "first": first, "last": last, "certificates": [named] }]);
        assert_eq!(found["not_opened"], expected, "{run:?}");
        assert!(run.err.contains(&named), "{run:?}");
        let run = pair.run("verify", given, &["--restore-test", "--json"]);
        let found: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &found["verdict"]), (3, &"not_verified".into()), "{run:?}");
        let sets = found["sets"].as_array().unwrap().iter();
        let (tried, not): (Vec<_>, Vec<_>) = sets.partition(|set| set["tried"] == true);
        assert_eq!((tried.len(), not.len()), (2, 2), "{found}");
        assert!(not.iter().all(|set| set["error"].as_str().unwrap().contains(&named)), "{found}");
        let restore = |at: &str| pair.restore(given, at);
        let run = restore(&last.to_string());
        assert!(run.code == 3 && run.err.contains(&named), "{run:?}");
        assert!(run.err.contains(&name(first)), "{run:?}");
        let there = if first == 1 { "4" } else { "2" };
        assert_eq!(restore(there).code, 0);
        // The newest state is not passed over for lack of a key.
        let run = restore("latest-good");
        assert_eq!(run.code, if given == "Second" { 0 } else { 3 }, "{run:?}");
    }
    // Another certificate within a chain: the link to what is not opened is not known.
    pair.ship("First");
    let run = pair.run("verify", "First", &["--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &found["objects"]), (6, &5.into()), "{run:?}");
    assert_eq!(found["findings"], serde_json::json!([]), "{run:?}");
}

/// A missing or damaged object is the answer, whichever key is not here.
#[test]
fn an_object_that_is_wrong_comes_before_a_key_that_is_not_here() {
    let pair = TwoKeys::of_one_chain();
    let run = pair.restore("First", "latest");
    assert!(run.code == 3 && run.err.contains(&name(4)), "{run:?}");
    assert_eq!(pair.restore("First", "latest-good").code, 3);
    for (kind, number) in [("missing", 2), ("flip", 2), ("header", 2), ("missing", 3), ("flip", 3)]
    {
        let whole = fs::read(pair.object(number)).unwrap();
        harm_file(&pair.object(number), kind);
        for given in ["First", "Second"] {
            let run = pair.restore(given, "latest");
            let found = (run.code, run.err.contains(&name(number)));
            assert_eq!(found, (4, true), "{kind} {number} {given}: {run:?}");
        }
        let run = pair.restore("First", "latest-good");
        assert!(run.code == 0 && run.err.contains(&name(number)), "{kind} {number}: {run:?}");
        let run = pair.restore("Second", "latest-good");
        assert!(run.code == 3 && run.err.contains(&name(1)), "{kind} {number}: {run:?}");
        fs::write(pair.object(number), whole).unwrap();
    }
    // It is behind the first one whose key is not here.
    for kind in ["flip", "missing"] {
        let whole = fs::read(pair.object(5)).unwrap();
        harm_file(&pair.object(5), kind);
        let run = pair.restore("First", "5");
        assert!(run.code == 4 && run.err.contains(&name(5)), "{kind}: {run:?}");
        let run = pair.restore("First", "latest-good");
        assert!(run.code == 3 && run.err.contains(&name(4)), "{kind}: {run:?}");
        fs::write(pair.object(5), whole).unwrap();
    }
}

/// Damage shows without a key, and is said in JSON, too.
#[test]
fn an_archive_is_tried_without_a_key_store() {
    let pair = two_chains();
    let keyless = Place::empty();
    let run = |more: &[&str]| {
        let words = ["verify", text(&pair.archive), "--json"];
        let run = keyless.run([&words[..], more].concat());
        let found: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
        (run.code, found, run)
    };
    let (code, found, shown) = run(&["--restore-test"]);
    assert_eq!((code, &found["verdict"]), (3, &"not_verified".into()), "{shown:?}");
    let sets = found["sets"].as_array().unwrap();
    assert!(sets.len() == 4 && sets.iter().all(|set| set["tried"] == false), "{found}");
    // It lists what it did not open.
    let list = place().json(["cert", "list", "--json"]);
    let list = list.as_array().unwrap();
    let thumbprint = &list.iter().find(|it| it["name"] == "AppCert").unwrap()["thumbprint"];
    let certificates = [format!("AppCert ({})", thumbprint.as_str().unwrap())];
    let expected = serde_json::json!([{ "first": 1, "last": 6, "certificates": certificates }]);
    for (more, expected_code) in [(&[][..], 6), (&["--checksums-only"], 0)] {
        let (code, found, shown) = run(more);
        assert_eq!((code, &found["not_opened"]), (expected_code, &expected), "{shown:?}");
        // The reason is said once.
        assert!(!shown.err.contains("no private key at hand"), "{shown:?}");
    }
    harm_file(&pair.object(5), "flip");
    let (code, found, shown) = run(&["--restore-test"]);
    assert_eq!((code, &found["verdict"]), (4, &"damaged".into()), "{shown:?}");
    assert!(found["findings"].to_string().contains(&name(5)), "{found}");
}
