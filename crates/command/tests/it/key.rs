//! `tdekit key` as a user runs it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::common::{CHEAP, Place, Run};

#[test]
fn init_and_status_with_each_way_to_give_a_secret() {
    let mut place = Place::empty();
    let password_file = place.secret_file("password", b"secret\n");
    let password_file = password_file.to_str().unwrap();
    let hex_key = "00ff".repeat(16);
    type Way<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let ways: [Way<'_>; 6] = [
        (&[], &[("TDEKIT_PASSWORD", "secret")], "password"),
        (&[], &[("TDEKIT_PASSWORD_FILE", password_file)], "password"),
        (&["--password-file", password_file], &[], "password"),
        (&["--key-file", "key", "--generate-key-file"], &[], "key file"),
        (&["--key-file", "key"], &[], "key file"),
        (&[], &[("TDEKIT_KEY", &hex_key)], "key file"),
    ];
    for (args, variables, kind) in ways {
        for name in ["TDEKIT_PASSWORD", "TDEKIT_PASSWORD_FILE", "TDEKIT_KEY"] {
            let value = variables.iter().find(|(known, _)| *known == name);
            place.set(name, value.map_or("", |(_, value)| value));
        }
        let _ = fs::remove_dir_all(place.home());
        let made = place.ok([&["key", "init"], &CHEAP[..], args].concat());
        assert!(made.out.contains("Made the key store"), "{made:?}");
        assert!(!format!("{made:?}").contains("secret"), "{made:?}");
        let args: Vec<_> = args.iter().filter(|arg| **arg != "--generate-key-file").collect();
        let mut verify: Vec<&str> = vec!["key", "status", "--json", "--verify"];
        verify.extend(args);
        let status = place.json(verify);
        assert_eq!(status["master_key"]["opened_with"][0]["kind"], kind);
        assert_eq!((&status["verified"], &status["sequence"]), (&true.into(), &1.into()));
    }
    let mode = fs::metadata(place.path("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_configuration_file_names_the_secret() {
    let place = Place::empty();
    fs::create_dir(place.home()).unwrap();
    fs::write(place.home().join("config.toml"), "[unlock]\nkey_file = \"key\"\n").unwrap();
    let key = place.home().join("key");
    place.ok(["--key-file", key.to_str().unwrap(), "key", "init", "--generate-key-file"]);
    place.ok(["key", "status", "--verify"]);
    let told = place.fails(2, ["key", "init", "--generate-key-file"]);
    assert!(told.contains("--key-file"), "{told}");
    fs::write(place.home().join("config.toml"), "[unlock]\nkeyfile = \"key\"\n").unwrap();
    assert!(place.fails(2, ["key", "status", "--verify"]).contains("config.toml"));
}

#[test]
fn what_is_missing_or_wrong_is_said_with_its_code() {
    let mut place = Place::empty();
    let missing = place.fails(3, ["key", "status"]);
    assert!(missing.contains("no key store") && missing.contains("hint: make one"), "{missing}");
    assert!(place.fails(3, ["key", "init"]).contains("no password or key"));
    place.set("TDEKIT_PASSWORD", "secret");
    place.ok([&["key", "init"], &CHEAP[..]].concat());
    assert!(place.fails(1, ["key", "init"]).contains("already"));

    place.set("TDEKIT_PASSWORD", "Secret");
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("wrong password"));
    assert!(place.fails(3, ["cert", "create", "A"]).contains("wrong password"));
    place.set("TDEKIT_PASSWORD", "");
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("nothing is configured"));
    place.ok(["key", "status"]);
    let key = place.secret_file("key", &[7; 32]);
    place.set("TDEKIT_KEY_FILE", key.to_str().unwrap());
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("not with a key file"));

    let open = place.path("open");
    fs::write(&open, "secret").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = place.fails(3, ["key", "status", "--verify", "--password-file", "open"]);
    assert!(refused.contains("mode 0644") && refused.contains("hint: chmod 600"), "{refused}");
    assert_eq!(place.run(["key", "stat"]).code, 2);
    assert_eq!(place.run(["key", "init", "--argon2-memory", "7"]).code, 2);
    let elsewhere = ["--store", "/proc/nowhere", "key", "init", "--password-file", "open2"];
    place.secret_file("open2", b"x");
    assert!(place.fails(7, elsewhere).contains("/proc/nowhere"));
}

#[test]
fn damage_is_told_from_a_newer_version() {
    let place = Place::with_store();
    let bytes = fs::read(place.store_file()).unwrap();
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    fs::write(place.store_file(), &damaged).unwrap();
    assert!(place.fails(4, ["key", "status"]).contains("damaged: digest"));
    let mut newer = bytes.clone();
    newer[16] = 3;
    fs::write(place.store_file(), &newer).unwrap();
    assert!(place.fails(4, ["key", "status"]).contains("format version 3"));
    fs::write(place.store_file(), &bytes[..50]).unwrap();
    place.fails(4, ["cert", "list"]);
    let mut forged = bytes.clone();
    *forged.last_mut().unwrap() ^= 1;
    fs::write(place.store_file(), &forged).unwrap();
    place.ok(["key", "status"]);
    assert!(place.fails(4, ["key", "status", "--verify"]).contains("MAC"));
}

#[test]
fn rotation_of_master_key_and_secret() {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let id = |place: &Place| {
        place.json(["key", "status", "--json", "--verify"])["master_key"]["id"].clone()
    };
    let first = id(&place);
    place.ok(["key", "rotate"]);
    let second = id(&place);
    assert_ne!(first, second);

    place.secret_file("new", b"another");
    place.ok(["key", "rotate", "--password-only", "--new-password-file", "new"]);
    place.fails(3, ["key", "status", "--verify"]);
    place.set("TDEKIT_PASSWORD", "another");
    assert_eq!(id(&place), second);
    let status = place.json(["key", "status", "--json"]);
    let cost = &status["master_key"]["opened_with"][0]["argon2"];
    assert_eq!((&cost["memory_mib"], &cost["passes"]), (&8.into(), &1.into()));

    let both = ["key", "rotate", "--new-password-file", "new", "--new-key-file", "key"];
    assert_eq!(place.run(both).code, 2);
    assert!(place.fails(3, ["key", "rotate", "--password-only"]).contains("no new password"));
    place.ok(["key", "rotate", "--new-key-file", "key", "--generate-key-file"]);
    place.fails(3, ["key", "status", "--verify"]);
    place.ok(["key", "status", "--verify", "--key-file", "key"]);
    // The key file exists: it is not made again, and nothing changes.
    let again =
        ["key", "rotate", "--key-file", "key", "--new-key-file", "key", "--generate-key-file"];
    place.fails(1, again);
    place.ok(["key", "status", "--verify", "--key-file", "key"]);
}

#[test]
fn several_providers_open_the_store() {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let ids = |place: &Place| -> Vec<String> {
        let list = place.json(["key", "provider", "list", "--json"]);
        list.as_array().unwrap().iter().map(|p| p["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = ids(&place);
    assert_eq!(before.len(), 1);
    let last = place.fails(2, ["key", "provider", "remove", &before[0]]);
    assert!(last.contains("is the last one"), "{last}");

    place.ok(["key", "provider", "add", "key-file", "key", "--generate"]);
    place.secret_file("second", b"a second password");
    let add = ["key", "provider", "add", "password", "--new-password-file", "second"];
    place.ok([&add[..], &CHEAP[..]].concat());
    let providers = ids(&place);
    assert_eq!((providers.len(), &providers[0]), (3, &before[0]));
    // Each opens alone, and with all the store's private keys.
    place.ok(["key", "status", "--verify"]);
    place.ok(["key", "status", "--verify", "--key-file", "key"]);
    place.ok(["key", "status", "--verify", "--password-file", "second"]);

    // A change that would drop the others is refused, and writes nothing.
    let kept = fs::read(place.store_file()).unwrap();
    for rotate in [&["key", "rotate"][..], &["key", "rotate", "--password-only"]] {
        let new = ["--new-key-file", "third", "--generate-key-file"];
        let refused = place.run([rotate, &new].concat());
        assert!(refused.code == 1 && refused.err.contains("key provider list"), "{refused:?}");
        assert!(!place.path("third").exists());
    }
    for wrong in ["", &providers[0][..3], "ffffffffffffffffffffffffffffffffff", &providers[0]] {
        place.fails(2, ["key", "provider", "remove", wrong]);
    }
    assert_eq!(fs::read(place.store_file()).unwrap(), kept);

    // The first password is removed with the help of the key file, and no longer opens.
    place.ok(["--key-file", "key", "key", "provider", "remove", &providers[0][..8]]);
    assert_eq!(ids(&place), providers[1..]);
    place.fails(3, ["key", "status", "--verify"]);
    place.set("TDEKIT_PASSWORD", "a second password");
    place.ok(["key", "status", "--verify"]);
    place.ok(["key", "provider", "remove", &providers[1]]);
    place.fails(3, ["--key-file", "key", "key", "status", "--verify"]);
    place.ok(["key", "rotate"]);
}

#[test]
fn a_backup_sets_a_new_password_and_moves_to_another_machine() {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let done = place.ok([&["key", "backup", "--out", "backup"], &CHEAP[..]].concat());
    assert!(done.out.contains("1 certificates"), "{done:?}");
    assert_eq!(place.json(["key", "status", "--json"])["not_backed_up"], serde_json::json!([]));
    assert!(place.fails(1, ["key", "backup", "--out", "backup"]).contains("exists already"));

    place.set("TDEKIT_PASSWORD", "");
    place.secret_file("new", b"fresh");
    let restore =
        ["key", "restore", "--in", "backup", "--new-password-file", "new", CHEAP[0], CHEAP[1]];
    assert!(place.ok(restore).out.contains("it was kept as it is"));
    place.ok(["key", "status", "--verify", "--password-file", "new"]);

    fs::remove_dir_all(place.home()).unwrap();
    place.set("TDEKIT_BACKUP_PASSWORD", "wrong");
    assert!(place.fails(3, restore).contains("wrong password for the backup"));
    assert!(!place.home().exists());
    place.set("TDEKIT_BACKUP_PASSWORD", "backup");
    place.ok(restore);
    let listed = place.json(["cert", "list", "--json", "--verify", "--password-file", "new"]);
    assert_eq!(listed[0]["name"], "AppCert");

    let other = Place::with_store();
    fs::copy(place.path("backup"), other.path("backup")).unwrap();
    assert!(other.fails(1, ["key", "restore", "--in", "backup"]).contains("another key store"));
    let replaced = other.ok(["key", "restore", "--in", "backup", "--replace"]);
    assert!(replaced.out.contains("keystore.tdk.replaced-"), "{replaced:?}");
}

/// A token opens an existing key store.
#[test]
fn a_new_key_store_with_a_token_alone_is_told_how_to_begin() {
    let mut place = Place::empty();
    place.set("TDEKIT_PKCS11_MODULE", "/nowhere/module.so");
    let refused = place.fails(3, ["key", "init"]);
    assert!(refused.contains("no password or key") && refused.contains("provider add pkcs11"));
    assert!(!place.home().exists());
    place.set("TDEKIT_PASSWORD", "secret");
    place.ok(["key", "init", CHEAP[0], CHEAP[1]]);
}

/// Runs the command under a limit that it may not exceed.
fn under(place: &Place, limit: &str, args: &[&str]) -> Run {
    let inner = place.command(args);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = Command::new(if is_root { "setpriv" } else { "env" });
    if is_root {
        command.args(["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]);
    }
    command.args(["bash", "-c", &format!("ulimit {limit} && exec \"$@\""), "bash"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    Run::of(&command.output().unwrap())
}

#[test]
fn keys_that_could_be_swapped_and_too_little_memory_are_said_once() {
    let place = Place::with_store();
    let free = under(&place, "-l 64", &["key", "status", "--verify"]);
    assert!(free.code == 0 && !free.err.contains("RLIMIT_MEMLOCK"), "{free:?}");
    let none = under(&place, "-l 0", &["key", "status", "--verify"]);
    assert_eq!((none.code, none.err.matches("RLIMIT_MEMLOCK").count()), (0, 1), "{none:?}");
    let dear = Place::empty();
    let init = ["key", "init", "--argon2-memory", "512", "--password-file", "password"];
    dear.secret_file("password", b"of a test");
    let short = under(&dear, "-v 400000", &init);
    assert!(short.code == 1 && short.err.contains("no memory: 536870912 bytes"), "{short:?}");
    assert!(!dear.store_file().exists());
}
