//! Prompts: a signal ends them, and what is known to fail fails before them.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Place, tdekit};
use crate::databases::fill;

/// A place with a store, an encrypted database `app.db` and a plain one, and no password at hand.
fn place() -> Place {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    for name in ["app.db", "plain.db"] {
        fill(&place.path(name), 10);
    }
    place.ok(["encrypt", "app.db", "--certificate", "AppCert"]);
    place.ok(["backup", "app.db", "--to", "app.bak"]);
    place.set("TDEKIT_PASSWORD", "");
    place
}

/// Returns the process that runs the command with `argument` as its last one.
fn process(argument: &str) -> Option<Pid> {
    let is_it = |directory: &Path| {
        let line = fs::read(directory.join("cmdline")).unwrap_or_default();
        let last = line.split(|byte| *byte == 0).rfind(|part| !part.is_empty());
        last == Some(argument.as_bytes())
            && fs::read_link(directory.join("exe")).is_ok_and(|exe| exe == tdekit())
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = all.into_iter().find(|directory| is_it(directory))?;
    Pid::from_raw(found.file_name()?.to_str()?.parse().ok()?)
}

#[test]
fn a_signal_ends_a_prompt_and_gives_the_terminal_back() {
    let place = place();
    let media = place.path("signal.bak");
    let line = format!(
        "{} backup app.db --to {}; echo code $?; stty -a",
        tdekit().display(),
        media.display()
    );
    // Any command of the place, for its directory and variables; `script` gives it a terminal.
    let command = place.command(["-qefc", &line, "/dev/null"]);
    let mut script = std::process::Command::new("script");
    script.args(command.get_args()).current_dir(command.get_current_dir().unwrap()).env_clear();
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap());
    }
    script.env("PATH", std::env::var_os("PATH").unwrap());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut shown = String::new();
    let mut part = [0; 1024];
    while !shown.contains("Password of the key store: ") {
        let len = out.read(&mut part).unwrap();
        assert!(len > 0, "{shown}");
        shown.push_str(&String::from_utf8_lossy(&part[..len]));
    }
    let pid = process(media.to_str().unwrap()).unwrap();
    // The prompt is shown before the echo is off.
    thread::sleep(Duration::from_millis(200));
    kill_process(pid, Signal::TERM).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(Instant::now() < end, "{rest}");
    child.wait().unwrap();
    assert!(rest.contains("code 130"), "{rest}");
    assert!(rest.split_whitespace().any(|word| word == "echo"), "{rest}");
    assert!(!media.exists());
}

#[test]
fn what_is_known_to_fail_asks_for_no_password() {
    let place = place();
    for (words, code, told) in [
        ("encrypt nosuch.db --certificate AppCert", 7, "nosuch.db"),
        ("encrypt app.db --certificate AppCert", 1, "is encrypted already"),
        ("decrypt plain.db", 1, "is not encrypted"),
        ("rotate plain.db", 1, "is not encrypted"),
        ("rewrap plain.db", 1, "is not encrypted"),
        ("rotate nosuch.db", 7, "nosuch.db"),
        ("restore app.bak --to plain.db", 1, "plain.db exists"),
    ] {
        let err = place.fails(code, words.split(' '));
        assert!(err.contains(told), "{words}: {err}");
    }
}
