//! `tdekit audit log`: its output, its checks, and its exit codes.

use std::fs;
use std::process::Command;

use crate::common::{CHEAP, Place};

fn with_keys() -> Place {
    let mut here = Place::empty();
    here.set("TDEKIT_PASSWORD", "secret-words");
    here.set("TDEKIT_BACKUP_PASSWORD", "backup-words");
    here.ok(["key", "init", CHEAP[0], CHEAP[1]]);
    here.ok(["cert", "create", "AppCert"]);
    here
}

#[test]
fn it_tells_what_happened_and_proves_it() {
    let here = with_keys();
    let p12 = here.path("AppCert.p12");
    here.ok(["cert", "backup", "AppCert", "--pkcs12", p12.to_str().unwrap()]);
    let shown = here.ok(["audit", "log"]).out;
    assert!(shown.contains("exported") && shown.contains("not verified"), "{shown}");
    let proved = here.ok(["audit", "log", "--verify"]).out;
    assert!(proved.contains("5 entries, whole and untampered."), "{proved}");
    let json: serde_json::Value =
        serde_json::from_str(&here.ok(["audit", "log", "--verify", "--json"]).out).unwrap();
    assert_eq!((&json["verified"], &json["faults"]), (&true.into(), &serde_json::json!([])));
    let actions: Vec<_> =
        json["entries"].as_array().unwrap().iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["created", "added", "created", "exported", "backed-up"]);
    assert!(json["entries"][0]["program"].as_str().unwrap().ends_with("tdekit"));
    for secret in ["secret-words", "backup-words"] {
        assert!(!json.to_string().contains(secret));
    }
}

#[test]
fn a_log_that_was_touched_is_told_with_an_exit_code_in_text_and_json() {
    let here = with_keys();
    let log = here.home().join("audit.log");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("AppCert", "AppKurt")).unwrap();
    here.ok(["audit", "log"]);
    for words in [&["audit", "log", "--verify"][..], &["audit", "log", "--verify", "--json"]] {
        let run = here.run(words);
        assert_eq!(run.code, 4, "{run:?}");
        let told = run.err;
        assert!(told.contains("the audit log is not whole: 1 fault(s)"), "{told}");
    }
    // The same digits, but not the line that was written.
    fs::write(&log, [text[..64].to_uppercase().as_str(), &text[64..]].concat()).unwrap();
    assert_eq!(here.run(["audit", "log", "--verify"]).code, 4);
    fs::remove_file(&log).unwrap();
    assert!(here.fails(4, ["audit", "log", "--verify"]).contains("there is no log"));
    // Does not block on a pipe.
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    for words in [&["audit", "log", "--verify"][..], &["cert", "create", "OtherCert"]] {
        assert!(here.fails(7, words).contains("it is not an ordinary file"), "{words:?}");
    }
    fs::remove_file(&log).unwrap();
    fs::write(&log, "nonsense\n").unwrap();
    assert_eq!(here.run(["audit", "log"]).code, 4);
    assert_eq!(here.run(["audit", "log", "--verify"]).code, 4);
}

#[test]
fn a_restore_that_keeps_the_store_tells_what_opens_it_no_more() {
    let here = with_keys();
    let text = |name: &str| here.path(name).to_str().unwrap().to_owned();
    here.ok(["key", "backup", "--out", &text("key.bak"), CHEAP[0], CHEAP[1]]);
    here.ok(["key", "provider", "add", "key-file", &text("new.key"), "--generate"]);
    let run = here.ok(["key", "restore", "--in", &text("key.bak"), CHEAP[0], CHEAP[1]]);
    assert!(run.err.contains("opens it no more") && run.err.contains("key file"), "{run:?}");
}
