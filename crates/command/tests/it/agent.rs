//! `agent`: processes that open the key store without its password.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Place, Run};

/// A store that `secret` opens, with nothing in the environment, and the password in a file.
fn place() -> (Place, PathBuf) {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    place.set("TDEKIT_PASSWORD", "");
    let sockets = place.path("").to_str().unwrap().to_owned();
    place.set("XDG_RUNTIME_DIR", &sockets);
    let password = place.secret_file("password", b"secret\n");
    (place, password)
}

/// An agent that runs until it is dropped.
struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(place: &Place, words: &[&str]) -> Self {
        let mut command = place.command(["agent"]);
        let mut process = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let socket = line.strip_prefix("TDEKIT_AGENT_SOCK='").unwrap();
        let socket = socket.strip_suffix("'; export TDEKIT_AGENT_SOCK;\n").unwrap().into();
        Self { process, socket }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn with(place: &mut Place, agent: &Agent) {
    place.set("TDEKIT_AGENT_SOCK", agent.socket.to_str().unwrap());
}

#[test]
fn a_command_and_the_stock_shell_open_through_an_agent() {
    let (mut place, password) = place();
    assert!(place.fails(3, ["cert", "create", "Other"]).contains("nothing is configured"));
    let agent = Agent::start(&place, &["--password-file", password.to_str().unwrap()]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(agent.socket.parent().unwrap()), 0o700);
    with(&mut place, &agent);
    place.ok(["cert", "create", "Other"]);
    crate::databases::fill(&place.path("app.db"), 321);
    place.ok(["encrypt", "app.db", "--certificate", "AppCert"]);
    let script = "eval \"$(\"$0\" shell-init bash)\"; sqlite3 app.db 'SELECT count(*) FROM t'";
    let mut shell = Command::new("bash");
    let bin = Path::new(env!("CARGO_BIN_EXE_tdekit"));
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let extension = std::env::current_exe().unwrap().with_file_name(name);
    shell.args(["-c", script]).arg(bin).current_dir(place.path(""));
    shell.env("TDEKIT_HOME", place.home()).env("TDEKIT_AGENT_SOCK", &agent.socket);
    shell.env("TDEKIT_EXTENSION", extension).env_remove("TDEKIT_PASSWORD");
    let path = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", bin.parent().unwrap().display()));
    let run = Run::of(&shell.output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "321\n"), "{run:?}");
    // The agent takes precedence over a password, and only opens.
    place.set("TDEKIT_PASSWORD", "wrong");
    place.ok(["key", "provider", "list"]);
    place.set("TDEKIT_PASSWORD", "");
    let refused = place.fails(3, ["agent", "--", "true"]);
    assert!(refused.contains("nothing is configured"), "{refused}");
}

#[test]
fn an_agent_knows_its_own_store_only() {
    let (mut place, password) = place();
    let agent = Agent::start(&place, &["--password-file", password.to_str().unwrap()]);
    let (mut other, _) = self::place();
    with(&mut other, &agent);
    let refused = other.fails(3, ["cert", "create", "New"]);
    assert!(refused.contains("does not know this key store"), "{refused}");
    assert!(refused.contains("hint: "), "{refused}");
    // Another secret beside it takes precedence.
    other.set("TDEKIT_PASSWORD", "secret");
    other.ok(["cert", "create", "New"]);
    with(&mut place, &agent);
    place.ok(["cert", "create", "New"]);
    // Another password has another salt.
    let new = place.secret_file("new", b"another\n");
    let words = ["key", "provider", "add", "password", "--new-password-file"];
    let words = words.map(str::to_owned).into_iter().chain([new.display().to_string()]);
    let given = ["--password-file".to_owned(), password.display().to_string()];
    place.ok(given.into_iter().chain(words));
    place.ok(["cert", "create", "Newer"]);
    drop(agent);
    let refused = place.fails(3, ["cert", "create", "Newest"]);
    assert!(refused.contains("the agent at "), "{refused}");
}

#[test]
fn an_agent_changes_nothing_that_opens_the_store() {
    let (mut place, password) = place();
    let agent = Agent::start(&place, &["--password-file", password.to_str().unwrap()]);
    with(&mut place, &agent);
    place.ok(["cert", "create", "Other"]);
    crate::databases::fill(&place.path("app.db"), 3);
    place.ok(["encrypt", "app.db", "--certificate", "AppCert"]);
    place.ok(["backup", "app.db", "--to", "app.bak", "--certificate", "AppCert"]);
    place.ok(["mariadb", "key", "create", "--key-id", "1", "--certificate", "AppCert"]);
    let media = fs::read(place.path("app.bak")).unwrap();
    let other = Place::with_store();
    other.ok(["cert", "create", "Foreign"]);
    other.ok(["cert", "backup", "Foreign", "--out", "other.pem", "--key-out", "other.key"]);
    fs::copy(other.path("other.pem"), place.path("other.pem")).unwrap();
    let new = place.secret_file("new", b"another\n");
    let (before, new) = (fs::read(place.store_file()).unwrap(), new.to_str().unwrap());
    for words in [
        &["key", "provider", "add", "key-file", "new.key", "--generate"][..],
        &["key", "provider", "add", "password", "--new-password-file", new],
        &["key", "provider", "remove", "0000"],
        &["key", "rotate", "--new-password-file", new],
        &["key", "rotate", "--password-only", "--new-password-file", new],
        &["key", "rotate"],
        &["key", "backup", "--out", "copy.tdk", "--backup-password-file", new],
        &["cert", "backup", "AppCert", "--pkcs12", "copy.p12", "--backup-password-file", new],
        &["cert", "drop", "AppCert", "--force"],
        &["cert", "rotate", "AppCert"],
        &["cert", "restore", "Foreign", "--in", "other.pem"],
        &["rewrap", "app.db", "--certificate", "Other"],
        &["mariadb", "key", "rewrap", "--certificate", "Other"],
        &["backup-key", "add", "app.bak", "--certificate", "Other"],
    ] {
        let refused = place.fails(3, words);
        assert!(refused.contains("an agent only opens"), "{words:?} {refused}");
        assert_eq!(fs::read(place.store_file()).unwrap(), before, "{words:?}");
    }
    assert_eq!(fs::read(place.path("app.bak")).unwrap(), media);
    for name in ["new.key", "copy.tdk", "copy.p12"] {
        assert!(!place.path(name).exists(), "{name}");
    }
    // The same certificates open it.
    place.ok(["rewrap", "app.db"]);
    place.ok(["cert", "create", "New"]);
}

#[test]
fn nonsense_and_silence_stop_nobody() {
    let (mut place, password) = place();
    let agent = Agent::start(&place, &["--password-file", password.to_str().unwrap()]);
    let silent: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(&agent.socket).unwrap()).collect();
    let mut wrong = UnixStream::connect(&agent.socket).unwrap();
    wrong.write_all(&[0xff; 4096]).unwrap();
    let mut answer = Vec::new();
    let _ = wrong.read_to_end(&mut answer);
    assert!(answer.is_empty());
    with(&mut place, &agent);
    place.ok(["cert", "create", "New"]);
    drop(silent);
}

#[test]
fn it_ends_with_its_command_and_forgets_in_time() {
    let (mut place, password) = place();
    let file = password.to_str().unwrap();
    let tdekit = env!("CARGO_BIN_EXE_tdekit");
    let run = |place: &Place, words: &[&str], script: &str| {
        let mut command = place.command(["agent", "--password-file", file]);
        let mut shell = std::env::var_os("PATH").unwrap();
        shell.push("");
        command.env("PATH", shell).args(words).args(["--", "sh", "-c", script, tdekit]);
        Run::of(&command.output().unwrap())
    };
    let done = run(&place, &[], "\"$0\" cert create New >&2 && exit 42");
    assert_eq!(done.code, 42, "{done:?}");
    let told = run(&place, &[], "kill -TERM $PPID; exec sleep 60");
    assert_eq!(told.code, 128 + 15, "{told:?}");
    let late = run(&place, &["--timeout", "1s"], "sleep 2; \"$0\" cert create Newer");
    assert!(late.code == 3 && late.err.contains("or no more"), "{late:?}");
    // The password itself is not passed on.
    place.set("TDEKIT_PASSWORD", "secret");
    let hidden = run(&place, &[], "exit ${TDEKIT_PASSWORD:+1}");
    assert_eq!(hidden.code, 0, "{hidden:?}");
    let wrong = place.secret_file("wrong", b"wrong\n");
    let words = ["agent", "--password-file", wrong.to_str().unwrap(), "--", "true"];
    assert!(place.fails(3, words).contains("wrong password"));

    // In the background of a shell, which continues once it has the line.
    let start = format!("'{tdekit}' agent --timeout 60s --password-file '{file}'");
    let script = format!(
        "eval \"$({start} & echo \"kill $!\" >k)\"; '{tdekit}' cert create Shell && exec sh k"
    );
    place.set("TDEKIT_PASSWORD", "");
    let like = place.command(["agent"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path("")).env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = Run::of(&shell.output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    place.set("TDEKIT_PASSWORD", "secret");

    let mut agent = Agent::start(&place, &["--timeout", "1s"]);
    let begun = Instant::now();
    assert!(agent.process.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(!agent.socket.parent().unwrap().exists(), "its directory is left");
}
