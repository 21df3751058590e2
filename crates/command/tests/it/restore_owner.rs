//! Owner and permissions of restored files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::common::Place;
use crate::databases::fill;

/// Returns user, group and permissions.
fn of(place: &Place, name: &str) -> (u32, u32, u32) {
    let facts = fs::metadata(place.path(name)).unwrap();
    (facts.uid(), facts.gid(), facts.mode() & 0o7777)
}

#[test]
fn restored_files_have_the_owner_and_the_mode_that_were_named() {
    let place = Place::with_store();
    place.ok(["cert", "create", "C"]);
    fill(&place.path("app.db"), 100);
    place.ok(["backup", "app.db", "--to", "a.bak", "--certificate", "C"]);
    place.ok(["backup", "--stdin", "--name", "log", "--to", "s.bak"]);
    let own = of(&place, "a.bak");
    let to = |name| ["restore", "a.bak", "--to", name];
    place.ok(to("1.db"));
    assert_eq!(of(&place, "1.db"), (own.0, own.1, 0o600));
    place.ok([&to("2.db")[..], &["--mode", "0640"]].concat());
    assert_eq!(of(&place, "2.db"), (own.0, own.1, 0o640));
    place.ok([&to("3.db")[..], &["--mode", "0640", "--certificate", "C"]].concat());
    assert_eq!(of(&place, "3.db"), (own.0, own.1, 0o640));
    place.ok(["restore", "s.bak", "--to", "log", "--mode", "644"]);
    assert_eq!(of(&place, "log"), (own.0, own.1, 0o644));
    // A replaced file keeps its own, where nothing else was named.
    let app = ["restore", "a.bak", "--to", "app.db", "--replace"];
    fs::set_permissions(place.path("app.db"), Permissions::from_mode(0o660)).unwrap();
    place.ok(app);
    assert_eq!(of(&place, "app.db").2, 0o660);
    place.ok([&app[..], &["--mode", "0400"]].concat());
    assert_eq!(of(&place, "app.db").2, 0o400);
    place.fails(2, [&to("4.db")[..], &["--owner", "nobody-of-this-name"]].concat());
    for no_number in ["1234:4294967295", "4294967295:2345"] {
        place.fails(2, [&to("4.db")[..], &["--owner", no_number]].concat());
        assert!(!place.path("4.db").exists());
    }
    place.fails(2, [&to("4.db")[..], &["--mode", "4755"]].concat());
    place.fails(2, ["restore", "s.bak", "--to", "-", "--mode", "600"]);
    if own.0 != 0 {
        // The system's refusal comes before the name.
        assert!(place.fails(7, [&to("4.db")[..], &["--owner", "0:0"]].concat()).contains("owner"));
        assert!(!place.path("4.db").exists());
        return;
    }
    place.ok([&to("5.db")[..], &["--owner", "4711:4712", "--mode", "0640"]].concat());
    assert_eq!(of(&place, "5.db"), (4711, 4712, 0o640));
    // Root restores for whom the directory belongs to.
    fs::create_dir(place.path("theirs")).unwrap();
    chown(place.path("theirs"), Some(4711), Some(4712)).unwrap();
    place.ok(to("theirs/a.db"));
    assert_eq!(of(&place, "theirs/a.db"), (4711, 4712, 0o600));
    place.ok(["restore", "s.bak", "--to", "theirs/log"]);
    assert_eq!(of(&place, "theirs/log"), (4711, 4712, 0o600));
    place.ok([&to("theirs/b.db")[..], &["--owner", "root"]].concat());
    assert_eq!(of(&place, "theirs/b.db"), (0, 0, 0o600));
    chown(place.path("app.db"), Some(4711), Some(4712)).unwrap();
    place.ok(app);
    assert_eq!(of(&place, "app.db"), (4711, 4712, 0o400));
}

#[test]
fn an_option_that_nothing_would_heed_is_refused() {
    let place = Place::with_store();
    fill(&place.path("app.db"), 10);
    place.ok(["replicate", "app.db", "--to", "ar", "--once"]);
    let to = ["restore", "ar", "--to", "o.db"];
    for at in [&["--at", "latest"][..], &[]] {
        place.fails(2, [&to[..], at, &["--every", "5s"]].concat());
        assert!(!place.path("o.db").exists());
    }
    let backup = ["backup", "app.db", "--to", "a.bak"];
    place.fails(2, [&backup[..], &["--threads", "0"]].concat());
    place.ok([&backup[..], &["--threads", "1"]].concat());
    for words in [&["verify", "a.bak"][..], &["copy", "a.bak", "--to", "b.bak"], &to] {
        let said = place.fails(2, [words, &["--threads", "0"]].concat());
        assert!(said.contains("at least 1"), "{said}");
    }
    let keep = ["replicate", "app.db", "--to", "ar", "--once", "--keep", "100000d"];
    assert!(place.fails(2, keep).contains("10,000 days at most"));
}
