//! `tdekit mariadb` without a server: installing, making keys and refusals.

use std::fs;

use crate::common::{CHEAP, Place};

/// Stand-in for the plugin: nothing here loads it.
/// An ELF header without sections, then what the plugin has.
const PLUGIN: &[u8] = b"\x7fELF\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    _maria_plugin_declarations_ tdekit";

/// A store with the certificate `Server`, and a plugin beside it.
fn place() -> Place {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "Server"]);
    fs::write(place.path("libtdekit_mariadb.so"), PLUGIN).unwrap();
    fs::create_dir(place.path("plugins")).unwrap();
    let library = place.path("libtdekit_mariadb.so");
    place.set("TDEKIT_MARIADB_PLUGIN", library.to_str().unwrap());
    place
}

const PLACES: [&str; 4] = ["--plugin-dir", "plugins", "--option-file", "server.cnf"];

/// Leaves the store with the user who runs the test.
fn installed(place: &Place) -> crate::common::Run {
    let me = fs::metadata(place.home()).unwrap();
    let user = std::os::unix::fs::MetadataExt::uid(&me).to_string();
    let args = ["mariadb", "install", "--certificate", "Server", "--server-user", &user];
    place.ok(args.iter().chain(&PLACES))
}

#[test]
fn install_makes_what_the_server_needs_and_uninstall_leaves_the_keys() {
    let place = place();
    let run = installed(&place);
    assert_eq!(fs::read(place.path("plugins/tdekit.so")).unwrap(), PLUGIN);
    let options = fs::read_to_string(place.path("server.cnf")).unwrap();
    assert!(run.out.contains(&options), "{}", run.out);
    for line in [
        "[mariadbd]",
        "plugin-load-add = tdekit",
        &format!("tdekit-key-store = \"{}\"", place.home().display()),
        "innodb-encrypt-tables = FORCE",
        "encrypt-binlog = ON",
    ] {
        assert!(options.lines().any(|one| one == line), "{line}: {options}");
    }
    let keys = fs::read(place.home().join("server-keys.json")).unwrap();
    // Again: keys stay, files replace the old ones.
    let again = installed(&place);
    assert!(!again.out.contains("Made key 1"), "{}", again.out);
    assert_eq!(fs::read(place.home().join("server-keys.json")).unwrap(), keys);

    let told = place.fails(2, ["mariadb", "uninstall"].iter().chain(&PLACES));
    assert!(told.contains("--socket") && place.path("server.cnf").exists(), "{told}");
    place.ok(["mariadb", "uninstall", "--force"].iter().chain(&PLACES));
    assert!(!place.path("plugins/tdekit.so").exists() && !place.path("server.cnf").exists());
    assert_eq!(fs::read(place.home().join("server-keys.json")).unwrap(), keys);

    fs::write(place.path("server.cnf"), "[mariadbd]\n").unwrap();
    let told = place.fails(1, ["mariadb", "uninstall", "--force"].iter().chain(&PLACES));
    assert!(told.contains("was not written by"), "{told}");
}

#[test]
fn keys_are_made_rotated_and_shown() {
    let place = place();
    place.fails(3, ["mariadb", "status"]);
    place.fails(3, ["mariadb", "rotate"]);
    place.ok(["mariadb", "key", "create", "--key-id", "1", "--certificate", "Server"]);
    let told = place.ok(["mariadb", "key", "create", "--key-id", "17"]).out;
    assert!(told.contains("ENCRYPTION_KEY_ID=17"), "{told}");
    let copied = place.ok([&["key", "backup", "--out", "store.backup"][..], &CHEAP].concat());
    let warning = "does not contain MariaDB's keys: copy";
    assert!(copied.err.contains(warning) && copied.err.contains("server-keys.json"), "{copied:?}");
    place.fails(2, ["mariadb", "key", "create", "--key-id", "17"]);
    place.fails(2, ["mariadb", "key", "create", "--key-id", "0"]);
    place.fails(2, ["mariadb", "rotate", "--key-id", "5"]);

    // One more version than the server's age, so that it encrypts pages anew.
    let rotated = place.json(["mariadb", "rotate", "--key-id", "17", "--json"]);
    let key = &rotated["keys"][0];
    let versions =
        (key["key_id"].as_u64(), key["old_version"].as_u64(), key["new_version"].as_u64());
    assert_eq!(versions, (Some(17), Some(1), Some(3)));
    assert_eq!(rotated["re_encrypted"], false);
    let all = place.ok(["mariadb", "rotate", "--rotate-key-age", "0"]).out;
    assert!(
        all.contains("Key 1: version 1 -> 2") && all.contains("Key 17: version 3 -> 4"),
        "{all}"
    );
    place.fails(1, ["mariadb", "rotate", "--rotate-key-age", "1000"]);

    let shown = place.json(["mariadb", "status", "--json"]);
    assert_eq!(shown["keys"][1]["latest_version"], 4);
    assert_eq!(shown["keys"][1]["certificates"][0], "Server (1)");
    let told = place.ok(["cert", "rotate", "Server"]).out;
    assert!(told.contains("Wrapped anew: ") && told.contains("server-keys.json"), "{told}");
    let shown = place.json(["mariadb", "status", "--json"]);
    assert_eq!(shown["keys"][1]["certificates"], serde_json::json!(["Server (2)"]));
    place.ok(["mariadb", "key", "rewrap", "--certificate", "Server"]);
    let shown = place.json(["mariadb", "status", "--json"]);
    assert_eq!(shown["keys"][1]["certificates"], serde_json::json!(["Server (2)"]));
}

#[test]
fn what_cannot_be_done_is_told() {
    let mut place = place();
    let told =
        place.fails(3, ["mariadb", "install", "--certificate", "None"].iter().chain(&PLACES));
    assert!(told.contains("no certificate None"), "{told}");
    place.ok(["mariadb", "key", "create", "--key-id", "1", "--certificate", "Server"]);
    fs::write(place.path("log"), "no binary log").unwrap();
    place.fails(4, ["mariadb", "binlog", "log"]);
    place.fails(7, ["mariadb", "binlog", "none"]);
    assert!(place.run(["mariadb", "rotate", "--socket", "no socket"]).code != 0);
    let missing = place.path("no plugin").display().to_string();
    place.set("TDEKIT_MARIADB_PLUGIN", &missing);
    place.fails(1, ["mariadb", "install", "--certificate", "Server"].iter().chain(&PLACES));
}

#[test]
fn only_the_plugin_is_installed() {
    let mut place = place();
    for (name, content) in [("notes", &b"no library"[..]), ("tdekit", b"\x7fELF, tdekit")] {
        let other = place.path(name);
        fs::write(&other, content).unwrap();
        place.set("TDEKIT_MARIADB_PLUGIN", other.to_str().unwrap());
        let words = ["mariadb", "install", "--certificate", "Server"];
        let told = place.fails(1, words.iter().chain(&PLACES));
        assert!(told.contains("is not the plugin"), "{told}");
        assert!(!place.path("plugins/tdekit.so").exists() && !place.path("server.cnf").exists());
        assert!(!place.home().join("server-keys.json").exists());
    }
}
