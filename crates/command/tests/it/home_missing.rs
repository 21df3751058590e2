//! Every command with a named key store that does not exist: only commands that make a key store
//! make it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{CHEAP, Place, Run};
use crate::databases::{create, encrypt, fill, place};

/// The arguments of each command, and its result. It gets as far as it can without a store.
const COMMANDS: &[(&str, &str, i32)] = &[
    ("agent", "-- true", 3),
    ("key status", "", 3),
    ("key rotate", "", 3),
    ("key backup", "--out key.bak", 3),
    ("key provider list", "", 3),
    ("key provider add password", "--new-password-file app.db", 3),
    ("key provider add key-file", "new.key --generate", 3),
    ("key provider add pkcs11", "--module m.so --token t --key k", 3),
    ("key provider add vault", "--address https://127.0.0.1:1 --transit-key k", 3),
    ("key provider add aws-kms", "--key arn:aws:kms:eu-central-1:111122223333:key/0a1b", 3),
    ("key provider rewrap", "0123", 3),
    ("key provider remove", "0123", 3),
    ("cert create", "AppCert", 3),
    ("cert list", "", 3),
    ("cert backup", "AppCert --pkcs12 new.p12", 3),
    ("cert restore", "AppCert --pkcs12 AppCert.p12", 3),
    ("cert rotate", "AppCert", 3),
    ("cert drop", "AppCert --force", 3),
    ("cert forget", "gone.db", 3),
    ("encrypt", "app.db --certificate AppCert", 3),
    ("decrypt", "sealed.db", 3),
    ("import", "app.db --from sqlcipher --to imported.db --certificate AppCert", 3),
    ("status", "app.db", 0),
    ("audit", "app.db", 1),
    ("audit", "sealed.db", 1),
    ("overview", "app.db", 1),
    ("doctor", "app.db", 0),
    ("doctor", "sealed.db", 3),
    ("audit log", "", 3),
    ("audit log", "--verify", 3),
    ("rotate", "sealed.db", 3),
    ("freshness on", "sealed.db", 3),
    ("freshness off", "sealed.db", 3),
    ("freshness accept", "sealed.db", 3),
    ("freshness status", "sealed.db", 3),
    ("rewrap", "sealed.db --certificate AppCert", 3),
    ("backup", "app.db --to new.bak", 0),
    ("replicate", "wal.db --to new.archive --once", 0),
    ("replicate", "--config none.toml --once", 7),
    ("replicate status", "wal.db", 0),
    ("replicate status", "--config none.toml", 7),
    ("restore", "app.bak --to restored.db", 0),
    ("verify", "app.bak", 0),
    ("inspect", "app.bak", 0),
    ("history", "", 0),
    ("history", "--scan .", 3),
    ("copy", "app.bak new.bak", 0),
    ("prune", "app.bak --keep-last 1", 3),
    ("prune", "app.bak --keep-last 1 --dry-run", 0),
    ("backup-key add", "sealed.bak --certificate AppCert", 3),
    ("mariadb install", "--certificate AppCert --plugin-dir . --option-file new.cnf", 3),
    ("mariadb uninstall", "--force --plugin-dir . --option-file none.cnf", 0),
    ("mariadb status", "", 3),
    ("mariadb verify", "--datadir .", 3),
    ("mariadb rotate", "--no-wait", 3),
    ("mariadb key create", "--key-id 10 --certificate AppCert", 3),
    ("mariadb key rewrap", "--certificate AppCert", 3),
    ("mariadb binlog", "app.db", 3),
    ("mariadb archive", "--socket none.sock --to logs --certificate AppCert --once", 3),
    ("mysql install", "--certificate AppCert --plugin-dir . --mysqld app.db", 3),
    ("mysql uninstall", "--force --plugin-dir . --mysqld app.db", 0),
    ("mysql status", "", 3),
    ("mysql rotate", "--socket none.sock", 3),
    ("mysql keys", "", 3),
    ("mysql verify", "--datadir .", 3),
    ("mysql rewrap", "--certificate AppCert", 3),
    ("mysql migrate", "--from keyring_file --file app.db --certificate AppCert", 3),
    ("serve", "app.db --listen 127.0.0.1:0", 2),
    ("serve login add", "sa", 3),
    ("serve login list", "", 0),
    ("serve login remove", "sa", 2),
    ("sqlite path", "", 0),
    ("shell-init", "bash", 0),
    ("completions", "bash", 0),
    ("bench", "peers list", 0),
];

/// Commands that make a key store.
const MAKERS: &[(&str, &str)] = &[
    ("init", "--pkcs12=made.p12"),
    ("key init", "--argon2-memory=8 --argon2-passes=1"),
    ("key restore", "--in master.bak"),
];

/// Databases and backups of another store.
fn with_files() -> Place {
    let mut here = Place::empty();
    for (name, value) in [
        ("TDEKIT_PASSWORD", "secret"),
        ("TDEKIT_BACKUP_PASSWORD", "backup"),
        ("TDEKIT_LOGIN_PASSWORD", "Login-Password-1"),
    ] {
        here.set(name, value);
    }
    let text = |name: &str| here.path(name).to_str().unwrap().to_owned();
    fill(&here.path("app.db"), 10);
    fill(&here.path("sealed.db"), 10);
    drop(create(&here.path("wal.db"), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    encrypt(&here.path("sealed.db"), &[]);
    place().ok(["backup", &text("app.db"), "--to", &text("app.bak")]);
    place().ok(["backup", &text("sealed.db"), "--to", &text("sealed.bak")]);
    place().ok(["key", "backup", "--out", &text("master.bak"), CHEAP[0], CHEAP[1]]);
    fs::copy(place().path("AppCert.p12"), here.path("AppCert.p12")).unwrap();
    for name in ["libtdekit_mariadb.so", "libtdekit_sqlite.so", "libcomponent_keyring_tdekit.so"] {
        fs::write(here.path(name), b"plugin").unwrap();
    }
    let (plugin, extension) = (text("libtdekit_mariadb.so"), text("libtdekit_sqlite.so"));
    let component = text("libcomponent_keyring_tdekit.so");
    here.set("TDEKIT_MARIADB_PLUGIN", &plugin);
    here.set("TDEKIT_MYSQL_COMPONENT", &component);
    here.set("TDEKIT_EXTENSION", &extension);
    here
}

/// Runs it with the place named by the variable, or by the argument.
fn run(here: &Place, home: &Path, by_argument: bool, words: &str) -> Run {
    // Before the command's name: arguments after `bench` belong to the bench.
    let store = by_argument.then(|| [OsStr::new("--store"), home.as_os_str()]);
    let words = words.split_whitespace().map(OsStr::new);
    let mut command = here.command(store.into_iter().flatten().chain(words));
    if by_argument {
        command.env_remove("TDEKIT_HOME");
    } else {
        command.env("TDEKIT_HOME", home);
    }
    Run::of(&command.output().unwrap())
}

/// Collects the commands without subcommands, as listed by the command's help. `bench` counts as
/// one: it makes its own key stores.
fn leaves(here: &Place, of: &str, found: &mut BTreeSet<String>) {
    let help = here.ok(of.split_whitespace().chain(["--help"])).out;
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !matches!(*name, "" | "help")).collect();
    if names.is_empty() || matches!(of, "serve" | "audit" | "bench" | "replicate") {
        found.insert(of.to_owned());
    }
    for name in names.into_iter().filter(|_| of != "bench") {
        leaves(here, format!("{of} {name}").trim(), found);
    }
}

#[test]
fn a_place_that_is_named_and_missing_is_made_by_what_makes_a_key_store_only() {
    let here = with_files();
    let mut all = BTreeSet::new();
    leaves(&here, "", &mut all);
    let tried = COMMANDS.iter().map(|each| each.0).chain(MAKERS.iter().map(|each| each.0));
    assert_eq!(all, tried.map(str::to_owned).collect());

    let home: PathBuf = here.path("deep").join("home");
    for by_argument in [false, true] {
        for (name, more, code) in COMMANDS {
            let words = format!("{name} {more}");
            let run = run(&here, &home, by_argument, &words);
            assert_eq!(run.code, *code, "{words}: {run:?}");
            assert!(!here.path("deep").exists(), "{words} made it");
            for made in ["new.bak", "restored.db"] {
                assert_eq!(here.path(made).exists(), words.contains(made), "{words}: {run:?}");
                let _ = fs::remove_file(here.path(made));
            }
        }
    }
    for (name, more) in MAKERS {
        let run = run(&here, &home, false, &format!("{name} {more}"));
        assert_eq!(run.code, 0, "{name}: {run:?}");
        assert!(home.join("keystore.tdk").exists());
        fs::remove_dir_all(here.path("deep")).unwrap();
    }
}

#[test]
fn what_cannot_be_kept_there_is_told_with_a_hint() {
    let here = with_files();
    let hint = "hint: make one with `tdekit key init`, or name another directory with --store";
    for words in ["backup app.db --to new.bak", "restore app.bak --to new.db", "verify app.bak"] {
        let run = here.ok(words.split_whitespace());
        let told = "warning: the backup history was not written: there is no key store at";
        assert!(run.err.contains(told) && run.err.contains(hint), "{words}: {run:?}");
    }
    for words in ["serve login add sa", "history --scan .", "encrypt app.db"] {
        assert!(here.fails(3, words.split_whitespace()).contains(hint), "{words}");
    }
}

#[test]
fn the_default_place_is_made_as_it_is_needed() {
    let here = with_files();
    let kept = here.path(".local/share/tdekit");
    for words in ["backup app.db --to new.bak", "serve login add sa"] {
        let mut command = here.command(words.split_whitespace());
        let output = command.env_remove("TDEKIT_HOME").env("HOME", here.path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {:?}", Run::of(&output));
        assert!(kept.is_dir(), "{words}");
        fs::remove_dir_all(&kept).unwrap();
    }
}
