//! The verbs of `tdekit mysql`, as a database administrator types them, against a real server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use component_keyring_tdekit::Config;
use serde_json::Value;
use tdekit_faults_mysql::rig::{command, suite_file};
use tdekit_faults_mysql::{CERTIFICATE, Keys, NAMESPACE, Rig, Run, library};
use tdekit_private_mariadb::Server;

use crate::life::{count, make_rows};

/// Runs the command on a key store, with its key file.
fn run(keys: &Keys, words: &[&str]) -> Run {
    let key_file = keys.key_file.to_str().unwrap();
    run_by(keys, &[&["--key-file", key_file], words].concat())
}

/// As [`run`]; only `words` and the key store's settings say what opens it.
pub(crate) fn run_by(keys: &Keys, words: &[&str]) -> Run {
    let mut command = Command::new(command().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TDEKIT_") {
            command.env_remove(name);
        }
    }
    // `install` writes the file that it was given into the component's configuration.
    let output = command
        .args(words)
        .env("TDEKIT_HOME", &keys.home)
        .env("TDEKIT_MYSQL_COMPONENT", library())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

pub(crate) fn ok(keys: &Keys, words: &[&str]) -> String {
    let done = run(keys, words);
    assert_eq!(done.code, 0, "{words:?}: {}{}", done.out, done.err);
    done.out
}

fn json(keys: &Keys, words: &[&str]) -> Value {
    serde_json::from_str(&ok(keys, words)).unwrap()
}

fn at<'a>(server: &'a Server, socket: &'a str) -> [&'a str; 4] {
    assert!(server.socket().ends_with("s"));
    ["--socket", socket, "--user", "root"]
}

/// The words of `install`, for a server's program in `directory`.
pub(crate) fn install<'a>(program: &'a str, plugins: &'a str, user: &'a str) -> Vec<&'a str> {
    let words = ["mysql", "install", "--certificate", CERTIFICATE, "--namespace", NAMESPACE];
    let places = ["--mysqld", program, "--plugin-dir", plugins, "--server-user", user];
    [&words[..], &places].concat()
}

pub(crate) fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_server_is_installed_shown_rotated_and_left() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let keys = rig.keys("home");
    // A place where the server's program and its plugins have names, and no component yet.
    let programs = rig.with("server", "{}");
    let place = rig.path("server");
    let (manifest, plugins) = (place.join("mysqld.my"), place.join("plugins"));
    let program = place.join("mysqld");
    for name in ["component_keyring_tdekit.so", "component_keyring_tdekit.cnf"] {
        fs::remove_file(plugins.join(name)).unwrap();
    }
    fs::remove_file(&manifest).unwrap();
    let (program, plugin_dir) = (program.to_str().unwrap(), plugins.to_str().unwrap());
    let user = user();
    let words = install(program, plugin_dir, &user);

    fs::write(&manifest, r#"{"components": "file://component_keyring_file"}"#).unwrap();
    let refused = run(&keys, &words);
    assert!(refused.code != 0 && refused.err.contains("other components"), "{}", refused.err);
    assert!(!plugins.join("component_keyring_tdekit.so").exists());
    fs::remove_file(&manifest).unwrap();

    let told = ok(&keys, &words);
    for name in ["component_keyring_tdekit.so", "component_keyring_tdekit.cnf"] {
        assert!(told.contains(name) && plugins.join(name).is_file(), "{told}");
    }
    assert!(told.contains("mysqld.my") && mode(&manifest) == 0o444, "{told}");
    ok(&keys, &words); // again

    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    let socket = server.socket();
    let socket = socket.to_str().unwrap();
    let server_at = at(&server, socket);
    let status = json(&keys, &[&["mysql", "status", "--json"], &server_at[..]].concat());
    let shown = &status["server"];
    assert_eq!(shown["component"], "component_keyring_tdekit");
    assert_eq!(shown["component_status"], "Active");
    assert_eq!(shown["namespace"], NAMESPACE);
    assert_eq!(shown["settings"]["innodb_redo_log_encrypt"], true);
    assert_eq!(shown["master_key_age_days"], 0);
    let clear: Vec<_> = shown["in_the_clear"].as_array().unwrap().iter().collect();
    assert!(clear.iter().all(|name| !["app/t", "mysql"].contains(&name.as_str().unwrap())));
    server.sql("CREATE TABLE app.plain (i INT) ENCRYPTION='N'").unwrap();
    let text = ok(&keys, &[&["mysql", "status"], &server_at[..]].concat());
    assert!(text.contains("app/plain") && text.contains("INNODBKey-"), "{text}");

    let before = json(&keys, &["mysql", "keys", "--json"]);
    let rotated = json(&keys, &[&["mysql", "rotate", "--json"], &server_at[..]].concat());
    let after = json(&keys, &["mysql", "keys", "--json"]);
    let ids = |keys: &Value| -> Vec<String> {
        let keys = keys["namespaces"][0]["keys"].as_array().unwrap();
        keys.iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
    };
    for name in ["innodb_key", "binlog_key"] {
        let id = rotated[name].as_str().unwrap().to_owned();
        assert!(ids(&after).contains(&id) && !ids(&before).contains(&id), "{rotated}");
    }
    assert_eq!(rotated["keys_checked"], true);

    // A certificate that is rotated takes the keys over; the server goes on and reads them again.
    let told = ok(&keys, &["cert", "rotate", CERTIFICATE]);
    assert!(told.contains("named-keys-main.json"), "{told}");
    server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap();
    ok(&keys, &[&["mysql", "rotate"], &server_at[..]].concat());
    ok(&keys, &["mysql", "rewrap", "--certificate", CERTIFICATE, "--namespace", NAMESPACE]);
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();

    let away = [&["mysql", "uninstall", "--mysqld", program, "--plugin-dir", plugin_dir]];
    let words = [&away[0][..], &server_at].concat();
    let refused = run(&keys, &words);
    assert!(refused.code != 0 && refused.err.contains("still needs its keys"), "{}", refused.err);
    assert!(refused.err.contains("hint:") && manifest.is_file(), "{}", refused.err);
    assert_eq!(count(&server), "2");
    server.stop().unwrap();
    assert_eq!(count(&rig.start(&programs, &data)), "2");
}

/// Makes the undo tablespaces anew, as docs/mysql.md describes.
fn renew_undo(server: &Server) {
    let empty = |name: &str| {
        server.sql(&format!("ALTER UNDO TABLESPACE {name} SET INACTIVE")).unwrap();
        let state = "SELECT STATE FROM information_schema.INNODB_TABLESPACES WHERE NAME";
        let state = format!("{state} = '{name}'");
        for _ in 0..600 {
            if server.sql(&state).unwrap().trim() == "empty" {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{name} does not become empty");
    };
    server.sql("CREATE UNDO TABLESPACE spare ADD DATAFILE 'spare.ibu'").unwrap();
    for name in ["innodb_undo_001", "innodb_undo_002"] {
        empty(name);
        server.sql(&format!("ALTER UNDO TABLESPACE {name} SET ACTIVE")).unwrap();
    }
    empty("spare");
    server.sql("DROP UNDO TABLESPACE spare").unwrap();
}

#[test]
fn a_decrypted_server_is_left_and_starts_without_the_component() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let keys = rig.keys("home");
    let programs = rig.with("server", &tdekit_faults_mysql::text(&keys.config()));
    let place = rig.path("server");
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    server
        .sql(
            "ALTER TABLE app.t ENCRYPTION='N'; ALTER TABLESPACE mysql ENCRYPTION='N';
             ALTER DATABASE app DEFAULT ENCRYPTION='N'; CREATE DATABASE later ENCRYPTION='Y'",
        )
        .unwrap();
    server.stop().unwrap();
    let server = rig.start_plain(&programs, &data);
    server.sql("RESET BINARY LOGS AND GTIDS").unwrap();
    let socket = server.socket();
    let server_at = at(&server, socket.to_str().unwrap());
    let (program, plugins) = (place.join("mysqld"), place.join("plugins"));
    let words = ["mysql", "uninstall", "--mysqld", program.to_str().unwrap()];
    let places = ["--plugin-dir", plugins.to_str().unwrap()];
    let words = [&words[..], &places, &server_at].concat();
    // The server says that its undo logs are in the clear, and would not start without the keys.
    let clear = "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'";
    assert_eq!(server.sql(clear).unwrap().trim(), "0");
    let refused = run(&keys, &words);
    assert!(refused.code != 0 && refused.err.contains("undo_001"), "{}", refused.err);
    renew_undo(&server);
    // Blocks of the redo log that were encrypted until now are needed up to the next checkpoint,
    // for which the command waits: a server that is killed right behind it starts.
    let insert = "INSERT INTO app.t (text) VALUES ('more')";
    let with_log = |on| format!("SET GLOBAL innodb_redo_log_encrypt={on}; {insert}");
    server.sql(&format!("{}; {}", with_log("ON"), with_log("OFF"))).unwrap();
    server.sql("DELETE FROM app.t WHERE text = 'more'").unwrap();
    server.sql("SET PERSIST_ONLY binlog_encryption=ON").unwrap();
    let refused = run(&keys, &words);
    assert!(refused.code != 0 && refused.err.contains("persisted"), "{}", refused.err);
    assert!(refused.err.contains("the schema later"), "{}", refused.err);
    server.sql("RESET PERSIST; ALTER DATABASE later DEFAULT ENCRYPTION='N'").unwrap();
    let told = ok(&keys, &words);
    assert!(told.contains("Removed") && told.contains("tdekit-keys"), "{told}");
    server.kill().unwrap();
    let server = rig.start_plain(&programs, &data);
    assert_eq!(count(&server), "2");
    let keyrings = "SELECT COUNT(*) FROM performance_schema.keyring_component_status";
    assert_eq!(server.sql(keyrings).unwrap().trim(), "0");
}

/// Returns the exit code, and the findings as `FILE: WHAT`.
fn verified(keys: &Keys, data: &Path, more: &[&str]) -> (i32, Vec<String>, Value) {
    let words = ["mysql", "verify", "--json", "--datadir", data.to_str().unwrap()];
    let done = run(keys, &[&words[..], more].concat());
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    let found = findings.map(|one| format!("{}: {}", text(&one["file"]), text(&one["what"])));
    (done.code, found.collect(), report)
}

/// A spare file in the clear, a redo log without header or key, and one that is gone or elsewhere.
fn is_found_in_the_redo_log(keys: &Keys, data: &Path, log: &Path) {
    let spare = data.join("#innodb_redo/#ib_redo999_tmp");
    let block = [&[0, 0, 0, 7, 0, 90], &[b'x'; 506][..]].concat();
    // Its header is in the clear, as each is.
    fs::write(&spare, [&block.repeat(4)[..], &[0; 512]].concat()).unwrap();
    assert_eq!(verified(keys, data, &["--allow-plain"]).0, 0);
    fs::write(&spare, block.repeat(5)).unwrap();
    let (code, found, _) = verified(keys, data, &["--allow-plain"]);
    assert_eq!((code, found), (4, vec!["#innodb_redo/#ib_redo999_tmp: clear".to_owned()]));
    fs::remove_file(spare).unwrap();
    let whole = fs::read(log).unwrap();
    fs::write(log, "").unwrap();
    let (code, found, _) = verified(keys, data, &["--allow-plain"]);
    assert!(code == 4 && found[0].ends_with(": damaged"), "{found:?}");
    for (at, blocks, what) in [(0, 4, "damaged"), (0, 1, "damaged"), (2, 1, "key")] {
        let mut other = whole.clone();
        other[at * 512..(at + blocks) * 512].fill(0);
        fs::write(log, other).unwrap();
        let (code, found, _) = verified(keys, data, &["--allow-plain"]);
        assert!(code == 4 && found[0].ends_with(what), "{at}: {found:?}");
    }
    fs::write(log, whole).unwrap();
    let (redo, elsewhere) = (data.join("#innodb_redo"), data.with_extension("redo"));
    fs::rename(&redo, &elsewhere).unwrap();
    let (code, found, _) = verified(keys, data, &["--allow-plain"]);
    assert_eq!((code, found), (4, vec!["#innodb_redo: damaged".to_owned()]));
    let named = ["--allow-plain", "--redo-directory", elsewhere.to_str().unwrap()];
    assert_eq!(verified(keys, data, &named).0, 0);
    fs::rename(&elsewhere, &redo).unwrap();
}

/// A binary log within its header, a table within its last page, and a directory for a table.
fn is_damaged_when_cut(keys: &Keys, data: &Path) {
    let cut = |name: &str, len: usize| {
        let path = data.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..len]).unwrap();
        let (code, found, _) = verified(keys, data, &["--allow-plain"]);
        assert_eq!((code, found), (4, vec![format!("{name}: damaged")]), "{len}");
        fs::write(&path, whole).unwrap();
    };
    cut("bin.000001", 5);
    cut("bin.000001", 300);
    cut("app/t.ibd", fs::read(data.join("app/t.ibd")).unwrap().len() - 100);
    let odd = data.join("app/odd.ibd");
    fs::create_dir(&odd).unwrap();
    let (code, found, _) = verified(keys, data, &["--allow-plain"]);
    assert_eq!((code, found), (4, vec!["app/odd.ibd: damaged".to_owned()]));
    fs::remove_dir(odd).unwrap();
}

#[test]
fn what_is_in_the_clear_on_the_disk_is_found() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let (keys, others) = (rig.keys("home"), rig.keys("other"));
    let programs = rig.with("server", &tdekit_faults_mysql::text(&keys.config()));
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    server
        .sql("ALTER TABLESPACE mysql ENCRYPTION='Y'; CREATE TABLE app.p (i INT) ENCRYPTION='N'")
        .unwrap();
    renew_undo(&server);
    server.stop().unwrap();
    // The doublewrite buffer and spare files of the redo log still have what was there before.
    let (code, mut found, report) = verified(&keys, &data, &[]);
    let is_spare = |one: &String| one.starts_with("#innodb_redo/") && one.ends_with("_tmp: clear");
    found.retain(|one| !is_spare(one));
    for entry in fs::read_dir(data.join("#innodb_redo")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with("_tmp") {
            fs::remove_file(path).unwrap();
        }
    }
    let wanted = ["app/p.ibd: plain", "sys/sys_config.ibd: plain", "#ib_16384_0.dblwr: clear"];
    assert_eq!((code, &found.iter().map(String::as_str).collect::<Vec<_>>()[..]), (4, &wanted[..]));
    assert_eq!(report["clean"], false);
    fs::remove_file(data.join("#ib_16384_0.dblwr")).unwrap();
    let (code, found, report) = verified(&keys, &data, &["--allow-plain"]);
    assert_eq!((code, found.len()), (0, 0), "{report}");
    let table = data.join("app/t.ibd");
    let of = |name: &str| {
        let files = report["files"].as_array().unwrap();
        files.iter().find(|file| file["file"] == name).unwrap().clone()
    };
    assert!(of("app/t.ibd")["master_key"].as_str().unwrap().starts_with("INNODBKey-"));
    assert!(of("app/t.ibd")["pages_encrypted"].as_u64().unwrap() > 3, "{report}");
    assert!(of("bin.000001")["encrypted"].as_bool().unwrap(), "{report}");
    let redo = report["files"].as_array().unwrap().iter().find(|file| file["kind"] == "redo log");
    let redo = redo.unwrap();
    assert!(redo["master_key"].as_str().unwrap().starts_with("INNODBKey-"), "{redo}");
    is_found_in_the_redo_log(&keys, &data, &data.join(redo["file"].as_str().unwrap()));
    is_damaged_when_cut(&keys, &data);
    // The keys of another store.
    let (code, found, _) = verified(&others, &data, &["--allow-plain"]);
    assert!(code == 4 && found.contains(&"app/t.ibd: key".to_owned()), "{found:?}");
    assert!(found.iter().any(|one| one.contains("#ib_redo") && one.ends_with(": key")));
    // A page in the clear, as it was before: of the table, and of the doublewrite buffer.
    let whole = fs::read(&table).unwrap();
    let mut changed = whole.clone();
    changed[4 * 16_384 + 24..4 * 16_384 + 26].copy_from_slice(&17_855_u16.to_be_bytes());
    fs::write(&table, &changed).unwrap();
    let (code, found, report) = verified(&keys, &data, &["--allow-plain"]);
    assert_eq!((code, found), (4, vec!["app/t.ibd: clear".to_owned()]), "{report}");
    assert!(report["findings"][0]["message"].as_str().unwrap().ends_with("page 4"), "{report}");
    fs::write(&table, &whole).unwrap();
    let copies = data.join("#ib_16384_9.dblwr");
    fs::write(&copies, &changed[4 * 16_384..5 * 16_384]).unwrap();
    let (_, found, _) = verified(&keys, &data, &["--allow-plain"]);
    assert_eq!(found, ["#ib_16384_9.dblwr: clear"]);
    fs::remove_file(copies).unwrap();
    // Emptied, overwritten, cut in the first page and at the end of a page.
    let short = whole[..5 * 16_384].to_vec();
    for bytes in [Vec::new(), b"text".repeat(9000), whole[..600].to_vec(), short] {
        fs::write(&table, bytes).unwrap();
        let (code, found, report) = verified(&keys, &data, &["--allow-plain"]);
        assert_eq!((code, found), (4, vec!["app/t.ibd: damaged".to_owned()]), "{report}");
    }
}

#[test]
fn a_server_whose_settings_encrypt_nothing_is_found() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let keys = rig.keys("home");
    let programs = rig.with("server", &tdekit_faults_mysql::text(&keys.config()));
    let data = rig.fresh("data");
    let server = rig.start_plain(&programs, &data);
    make_rows(&server);
    server.stop().unwrap();
    let (code, found, report) = verified(&keys, &data, &[]);
    assert_eq!(code, 4, "{report}");
    for file in ["sys/sys_config.ibd", "undo_001", "bin.000001"] {
        assert!(found.contains(&format!("{file}: plain")), "{file}: {found:?}");
    }
    assert!(found.iter().any(|one| one.starts_with("#innodb_redo/#ib_redo")), "{found:?}");
    fs::remove_file(data.join("#ib_16384_0.dblwr")).unwrap();
    let (code, found, _) = verified(&keys, &data, &["--allow-plain"]);
    assert_eq!((code, found.len()), (0, 0), "{found:?}");
    assert_eq!(run(&keys, &["mysql", "verify", "--datadir", "/nowhere"]).code, 7);
}

#[test]
fn keys_move_from_the_servers_own_keyring_and_back() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let keys = rig.keys("home");
    let data = rig.fresh("data");
    let server = rig.start(&rig.with_file_keyring("before"), &data);
    make_rows(&server);
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    let file = rig.path("before").join("keyring");
    let from = ["--certificate", CERTIFICATE, "--from", "component_keyring_file", "--file"];
    let words = [&["mysql", "migrate", "--namespace", "early"][..], &from];
    let early = run(&keys, &[&words.concat()[..], &[file.to_str().unwrap()]].concat());
    let warning = "runs with component_keyring_file";
    assert!(early.code == 0 && early.err.contains(warning), "{early:?}");
    server.stop().unwrap();
    let old = fs::read(&file).unwrap();
    let migrate = ["mysql", "migrate", "--namespace", NAMESPACE];
    let words = [&migrate[..], &from, &[file.to_str().unwrap()]].concat();
    let told = ok(&keys, &words);
    assert!(told.contains("each compared") && fs::read(&file).unwrap() == old, "{told}");
    let stored = fs::read(keys.stored()).unwrap();
    let refused = run(&keys, &words);
    assert!(refused.code != 0 && refused.err.contains("is there already"), "{}", refused.err);
    assert_eq!(fs::read(keys.stored()).unwrap(), stored);

    let server = rig.start(&rig.with("server", &tdekit_faults_mysql::text(&keys.config())), &data);
    assert_eq!(count(&server), "2");
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    server.stop().unwrap();

    let after = rig.with_file_keyring("after");
    let file = rig.path("after").join("keyring");
    let to = ["--to", "component_keyring_file", "--file", file.to_str().unwrap()];
    let words = [&migrate[..], &to].concat();
    ok(&keys, &words);
    assert_eq!(mode(&file), 0o600);
    assert!(run(&keys, &words).err.contains("exists already"));
    assert_eq!(count(&rig.start(&after, &data)), "2");
}

/// No server that can be had writes this file any more. The one of MySQL's own tests, which an old
/// server wrote, is read where the suite was fetched; else only what the command itself writes.
#[test]
fn keys_move_through_the_file_of_the_old_plugin() {
    let (Some(rig), Some(_)) = (Rig::new(), command()) else { return };
    let keys = rig.keys("home");
    let data = rig.fresh("data");
    let server = rig.start(&rig.with("server", &tdekit_faults_mysql::text(&keys.config())), &data);
    make_rows(&server);
    server.stop().unwrap();
    let file = rig.path("keyring");
    let words = |direction: &'static str, file: &Path, namespace: &'static str| -> Vec<String> {
        let words = ["mysql", "migrate", direction, "keyring_file", "--namespace", namespace];
        let mut words: Vec<_> = words.map(str::to_owned).into();
        words.extend(["--file".to_owned(), file.display().to_string()]);
        if direction == "--from" {
            words.extend(["--certificate", CERTIFICATE].map(str::to_owned));
        }
        words
    };
    let migrate = |direction, file: &Path, namespace| {
        let words = words(direction, file, namespace);
        run(&keys, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(migrate("--to", &file, NAMESPACE).code, 0);
    assert_eq!(mode(&file), 0o600);
    // As a server leaves it that was killed while it wrote.
    let backup = rig.path("keyring.backup");
    fs::write(&backup, "").unwrap();
    let refused = migrate("--from", &file, "moved");
    assert!(refused.code != 0 && refused.err.contains("did not end"), "{refused:?}");
    fs::remove_file(&backup).unwrap();
    let moved = migrate("--from", &file, "moved");
    assert_eq!(moved.code, 0, "{moved:?}");
    fs::remove_file(data.join("tdekit-keys")).unwrap();
    let config = Config { namespace: "moved".to_owned(), ..keys.config() };
    let server = rig.start(&rig.with("moved", &tdekit_faults_mysql::text(&config)), &data);
    assert_eq!(count(&server), "2");
    server.stop().unwrap();

    // The backup of the store does not contain them.
    let (backup, password) = (rig.path("store.backup"), rig.path("password"));
    fs::write(&password, "of the backup alone\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let [to, by] = [&backup, &password].map(|path| path.to_str().unwrap());
    let done = run(&keys, &["key", "backup", "--out", to, "--backup-password-file", by]);
    assert!(done.code == 0 && done.err.contains("named-keys-moved.json"), "{done:?}");
    let whole = fs::read_to_string(keys.stored()).unwrap();
    fs::write(keys.stored(), whole.replacen("INNODB", "INNODA", 1)).unwrap();
    let damaged = run(&keys, &["mysql", "keys", "--namespace", NAMESPACE]);
    assert!(damaged.code == 4 && damaged.err.contains("copy of the store"), "{damaged:?}");
    fs::write(keys.stored(), whole).unwrap();

    let Some(old) = suite_file("std_data/plugin_keyring_file_data") else { return };
    assert_eq!(migrate("--from", &old, "old").code, 0);
    let shown = json(&keys, &["mysql", "keys", "--namespace", "old", "--json"]);
    let shown = shown["namespaces"][0]["keys"].as_array().unwrap().clone();
    let names: Vec<_> =
        shown.iter().map(|key| (key["id"].clone(), key["len_bytes"].clone())).collect();
    assert_eq!(
        names,
        [("key1".into(), 8.into()), ("key2".into(), 8.into()), ("key3".into(), 16.into())]
    );
}

#[test]
fn what_is_not_there_is_said_with_a_hint() {
    if command().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let keys = Keys::make(place.path(), "home");
    let shown = json(&keys, &["mysql", "keys", "--json"]);
    assert_eq!(shown["namespaces"], Value::Array(Vec::new()));
    let from = ["mysql", "migrate", "--certificate", CERTIFICATE, "--from"];
    let closed = run(
        &keys,
        &[&from[..], &["component_keyring_encrypted_file", "--file", "/nowhere/keyring"]].concat(),
    );
    assert!(closed.code == 1 && closed.err.contains("is not public"), "{closed:?}");
    for words in [
        &["mysql", "rotate"][..],
        &["mysql", "uninstall"],
        &["mysql", "install", "--certificate", CERTIFICATE, "--mysqld", "/nowhere/mysqld"],
        &["mysql", "rewrap", "--certificate", CERTIFICATE],
        &["mysql", "migrate", "--to", "keyring_file", "--file", "/nowhere/keyring"],
        &[&from[..], &["keyring_file", "--file", "/nowhere/keyring"]].concat(),
        &["mysql", "keys", "--namespace", "a/b"],
    ] {
        let refused = run(&keys, words);
        assert!(refused.code > 0 && refused.err.starts_with("error:"), "{words:?}: {refused:?}");
    }
}
