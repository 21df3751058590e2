//! Several writers, writers that are killed, and the prompt on a terminal.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{CHEAP, Place, Run};

#[test]
fn a_second_writer_is_refused_while_the_first_holds_the_lock() {
    let place = Place::with_store();
    let path = place.home().join("keystore.lock");
    fs::write(&path, "4242\n").unwrap();
    let lock = File::open(&path).unwrap();
    lock.lock().unwrap();
    let refused = place.fails(5, ["cert", "create", "A"]);
    assert!(refused.contains("(pid 4242) is changing the key store"), "{refused}");
    place.ok(["key", "status", "--verify"]);
    drop(lock);
    place.ok(["cert", "create", "A"]);
}

#[test]
fn writers_at_once_wait_for_each_other() {
    let place = Place::with_store();
    let running: Vec<_> = ["A", "B", "C", "D"]
        .iter()
        .map(|name| {
            let mut command = place.command(["cert", "create", name]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in running {
        let run = Run::of(&child.wait_with_output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
    }
    let listed = place.json(["cert", "list", "--json", "--verify"]);
    assert_eq!(listed.as_array().unwrap().len(), 4);
}

#[test]
fn a_rotation_killed_at_any_time_leaves_a_store_that_opens() {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let files = [place.secret_file("p0", b"secret"), place.secret_file("p1", b"other")];
    place.set("TDEKIT_PASSWORD", "");
    let opens = |index: usize| {
        let file = files[index].to_str().unwrap();
        place.run(["key", "status", "--verify", "--password-file", file]).code == 0
    };
    let (mut current, mut killed) = (0, 0);
    for millis in 0..40 {
        let (old, new) = (files[current].to_str().unwrap(), files[1 - current].to_str().unwrap());
        let args = ["key", "rotate", "--password-file", old, "--new-password-file", new];
        let mut command = place.command([&args[..], &CHEAP].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(millis * 1500));
        let _ = child.kill();
        killed += i32::from(child.wait().unwrap().code().is_none());
        if !opens(current) {
            current = 1 - current;
            assert!(opens(current), "after {millis}");
        }
    }
    assert!(killed > 5, "only {killed} were killed in time");
}

/// Types `answers` to the prompts of the command on a separate terminal; returns its exit code, and
/// its limit on core dumps while it waited.
fn on_terminal(place: &Place, args: &[&str], answers: &[&str]) -> (i32, String, String) {
    const SCRIPT: &str = r#"
import os, pty, sys, time
home, binary, args, answers = sys.argv[1], sys.argv[2], sys.argv[3].split(), sys.argv[4].split(',')
pid, fd = pty.fork()
if pid == 0:
    os.execve(binary, [binary] + args, {'TDEKIT_HOME': home})
seen, core = b'', ''
for answer in answers:
    while not seen.rstrip().endswith(b':'):
        seen += os.read(fd, 1024)
    core = [l for l in open(f'/proc/{pid}/limits') if 'core' in l][0]
    time.sleep(0.05)
    os.write(fd, answer.encode() + b'\n')
    seen += b'|'
while True:
    try:
        data = os.read(fd, 1024)
    except OSError:
        break
    if not data:
        break
    seen += data
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(code, core.split()[4], seen.decode(), sep='\n')
"#;
    let output = Command::new("python3")
        .args(["-c", SCRIPT, place.home().to_str().unwrap(), env!("CARGO_BIN_EXE_tdekit")])
        .args([args.join(" "), answers.join(",")])
        .output()
        .unwrap();
    let run = Run::of(&output);
    assert_eq!(run.code, 0, "{run:?}");
    let mut lines = run.out.splitn(3, '\n');
    let code = lines.next().unwrap().parse().unwrap();
    (code, lines.next().unwrap().to_owned(), lines.next().unwrap().to_owned())
}

#[test]
fn the_password_is_asked_for_on_a_terminal_twice_when_it_is_set() {
    let place = Place::empty();
    let init = [&["key", "init"], &CHEAP[..]].concat();
    let (code, _, seen) = on_terminal(&place, &init, &["topsecret", "topsecreT"]);
    assert!(code == 3 && seen.contains("the two passwords differ"), "{seen}");
    assert!(!place.store_file().exists());
    let (code, core_limit, seen) = on_terminal(&place, &init, &["topsecret", "topsecret"]);
    assert!(code == 0 && seen.contains("Made the key store"), "{seen}");
    assert!(!seen.contains("topsecret"), "the password was shown: {seen}");
    assert_eq!(core_limit, "0");
    let verify = ["key", "status", "--verify"];
    assert_eq!(on_terminal(&place, &verify, &["topsecret"]).0, 0);
    let (code, _, seen) = on_terminal(&place, &verify, &["wrong"]);
    assert!(code == 3 && seen.contains("wrong password"), "{seen}");
}
