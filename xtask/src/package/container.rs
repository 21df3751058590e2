//! The container: the lines of its Containerfile, executed in a root of Debian's packages.
//!
//! No image registry is contacted, and no engine is needed: the work of an engine for each line is
//! done with `chroot`, which is enough to prove the lines and the resulting programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::deb::debian_arch;
use super::debian_root::{Root, as_root};
use crate::process::{kill_tree, output, root, run, run_quietly, shown};

const FILE: &str = "packages/container/Containerfile";
const PASSWORD: &str = "only for this proof 1";
const KEY_FILE: &str = "/data/unlock.key";
/// Time limit for a server to stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Executes the Containerfile with `packages` as its directory, then serves an encrypted database
/// and runs a bench as its user, within its volume.
///
/// # Errors
/// When a line is not understood or fails, or the container does not do what it should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    let text = fs::read_to_string(root().join(FILE)).context(FILE)?;
    let lines = parse(&text)?;
    let place = Root::fresh("container", &[])?;
    let mut image = Image::default();
    for line in &lines {
        image.carry_out(line, &place, packages).with_context(|| format!("{FILE}: {line:?}"))?;
    }
    ensure!(image.volumes == ["/data"], "the volumes are {:?}", image.volumes);
    let uid = output(image.start(&place, &["id", "-u"], &[])?.as_mut())?;
    ensure!(uid != "0" && image.user == format!("{uid}:{uid}"), "it runs as {uid}");
    let mut elsewhere = image.start(&place, &["touch", "/usr/lib/tdekit/by-the-user"], &[])?;
    ensure!(output(&mut elsewhere).is_err(), "its user writes outside of the volume");
    serve(&image, &place)?;
    let mut bench = image.tdekit(&place, &["bench", "--quick", "--size", "4M"], &[])?;
    run_quietly(&mut bench).context("the bench")?;
    println!("container: ok");
    Ok(())
}

/// Serves from the volume, as the container does by default, and creates an encrypted database.
fn serve(image: &Image, place: &Root) -> Result<()> {
    let key = [format!("TDEKIT_KEY_FILE={KEY_FILE}")];
    let words = ["key", "init", "--key-file", KEY_FILE, "--generate-key-file"];
    run_quietly(&mut image.tdekit(place, &words, &[])?)?;
    run_quietly(&mut image.tdekit(place, &["cert", "create", "AppCert"], &key)?)?;
    let login = [format!("TDEKIT_LOGIN_PASSWORD={PASSWORD}")];
    run_quietly(&mut image.tdekit(place, &["serve", "login", "add", "sa"], &login)?)?;
    // A free port of this machine: the proof shares its network.
    let words: Vec<_> = image.command.iter().map(|word| word.replace(":1433", ":0")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let server = Served::start(image.tdekit(place, &words, &key)?)?;
    server.sql("CREATE DATABASE app")?;
    server.sql(
        "USE app; CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 \
         ENCRYPTION BY SERVER CERTIFICATE AppCert",
    )?;
    server.sql("ALTER DATABASE app SET ENCRYPTION ON")?;
    server.wait_until_encrypted()?;
    server.sql(
        "USE app; CREATE TABLE dbo.t (name nvarchar(99)); \
         INSERT INTO dbo.t VALUES (N'a name that no raw file may show')",
    )?;
    let count = server.sql("USE app; SELECT 'rows ' + CAST(count(*) AS varchar(9)) FROM dbo.t")?;
    ensure!(count.contains("rows 1"), "the server answers {count}");
    server.stop()?;
    let volume = place.outside("/data/databases");
    let mut shown = as_root("grep")?;
    shown.args(["--recursive", "--files-with-matches", "--text", "a name that no raw"]).arg(volume);
    ensure!(output(&mut shown).is_err(), "the volume shows what the database holds");
    Ok(())
}

/// A line of a Containerfile, of the kinds used in ours.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    From(String),
    Arg(String),
    Run { bind: Option<String>, script: String },
    Env(String),
    Workdir(String),
    Volume(String),
    Expose(String),
    User(String),
    Entrypoint(Vec<String>),
    Cmd(Vec<String>),
}

fn parse(text: &str) -> Result<Vec<Line>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).with_context(|| format!("not understood: {line}"))).collect()
}

fn parse_line(line: &str) -> Result<Line> {
    let (name, rest) = line.split_once(' ').context("an instruction and its words")?;
    let rest = rest.trim();
    ensure!(!rest.ends_with('\\'), "a line that goes on");
    let text = rest.to_owned();
    Ok(match name {
        "FROM" => Line::From(text),
        "ARG" => Line::Arg(text),
        "RUN" => match rest.strip_prefix("--mount=") {
            None => Line::Run { bind: None, script: text },
            Some(rest) => {
                let (mount, script) = rest.split_once(' ').context("a command")?;
                let target = mount.strip_prefix("type=bind,target=").context("a bind mount")?;
                ensure!(!target.contains(','), "a bind mount of one target");
                Line::Run { bind: Some(target.to_owned()), script: script.trim().to_owned() }
            }
        },
        "ENV" => Line::Env(text),
        "WORKDIR" => Line::Workdir(text),
        "VOLUME" => Line::Volume(text),
        "EXPOSE" => Line::Expose(text),
        "USER" => Line::User(text),
        "ENTRYPOINT" => Line::Entrypoint(serde_json::from_str(rest)?),
        "CMD" => Line::Cmd(serde_json::from_str(rest)?),
        other => bail!("the instruction {other}"),
    })
}

/// Effects of the lines so far, other than files.
#[derive(Default)]
struct Image {
    arguments: Vec<String>,
    variables: Vec<String>,
    directory: String,
    volumes: Vec<String>,
    user: String,
    entry: Vec<String>,
    command: Vec<String>,
}

impl Image {
    fn carry_out(&mut self, line: &Line, place: &Root, packages: &Path) -> Result<()> {
        match line {
            Line::From(image) => {
                let known = "docker.io/library/debian:bookworm-slim";
                ensure!(image == known, "the root is {known}, not {image}");
                let network = fs::canonicalize("/etc/resolv.conf").context("/etc/resolv.conf")?;
                place.add(&network, "etc")?;
            }
            Line::Arg(name) => {
                ensure!(name == "TARGETARCH", "an engine gives no {name}");
                let arch = debian_arch(std::env::consts::ARCH)?;
                self.arguments.push(format!("{name}={arch}"));
            }
            Line::Run { bind, script } => {
                if let Some(target) = bind {
                    place.add(&packages.join("."), target)?;
                }
                let variables: Vec<_> =
                    self.variables.iter().chain(&self.arguments).cloned().collect();
                let mut command = place.command("root", &variables)?;
                let unasked = "DEBIAN_FRONTEND=noninteractive";
                run_quietly(command.args([unasked, "sh", "-c", script]))?;
                if let Some(target) = bind {
                    place.remove(target)?;
                }
            }
            Line::Env(variable) => self.variables.push(variable.clone()),
            Line::Workdir(directory) => self.directory.clone_from(directory),
            Line::Volume(directory) => self.volumes.push(directory.clone()),
            Line::Expose(port) => ensure!(port == "1433", "the port {port}"),
            Line::User(user) => self.user.clone_from(user),
            Line::Entrypoint(words) => self.entry.clone_from(words),
            Line::Cmd(words) => self.command.clone_from(words),
        }
        Ok(())
    }

    /// A program of the container, as its user.
    fn start(&self, place: &Root, words: &[&str], variables: &[String]) -> Result<Box<Command>> {
        let all: Vec<_> = self.variables.iter().chain(variables).cloned().collect();
        let mut command = place.command(&self.user, &all)?;
        command.args(["env", "--chdir", &self.directory]).args(words);
        Ok(Box::new(command))
    }

    /// Returns the container's own program, with `words` for those of CMD.
    fn tdekit(&self, place: &Root, words: &[&str], variables: &[String]) -> Result<Command> {
        let entry = self.entry.iter().map(String::as_str);
        let words: Vec<_> = entry.chain(words.iter().copied()).collect();
        Ok(*self.start(place, &words, variables)?)
    }
}

/// A running server of the container. It is killed when dropped.
struct Served {
    child: Child,
    port: String,
}

impl Served {
    fn start(mut command: Command) -> Result<Self> {
        eprintln!("$ {}", shown(&command));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut served = Self { child: child.context("start the server")?, port: String::new() };
        let stdout = served.child.stdout.take().context("the server's standard output")?;
        for line in BufReader::new(stdout).lines() {
            if let Some(address) = line?.strip_prefix("listening on ") {
                served.port = address.rsplit(':').next().unwrap_or_default().to_owned();
                return Ok(served);
            }
        }
        bail!("the server ended before it listened")
    }

    /// One batch, by FreeTDS, which encrypts the login and trusts any certificate.
    fn sql(&self, batch: &str) -> Result<String> {
        let mut command = Command::new("sh");
        command.args(["-c", r#"printf '%s\ngo\nexit\n' "$0" | timeout 60 tsql -o fq "$@" 2>&1"#]);
        command.args([batch, "-H", "127.0.0.1", "-p", &self.port, "-U", "sa", "-P", PASSWORD]);
        let said = output(&mut command)?;
        ensure!(!said.lines().any(is_error), "{batch}: {said}");
        Ok(said)
    }

    fn wait_until_encrypted(&self) -> Result<()> {
        let state = "SELECT 'state ' + CAST(encryption_state AS varchar(2)) \
                     FROM sys.dm_database_encryption_keys WHERE database_id = DB_ID('app')";
        let begun = Instant::now();
        while !self.sql(state)?.contains("state 3") {
            ensure!(begun.elapsed() < STOP_LIMIT, "the database is not encrypted");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Stops the server as an engine stops a container: by SIGTERM to its first process.
    fn stop(mut self) -> Result<()> {
        let unshare = deepest_but(self.child.id(), "unshare")?;
        run(as_root("kill")?.args(["-TERM", &unshare.to_string()]))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the server ended with {status}");
                return Ok(());
            }
            ensure!(begun.elapsed() < STOP_LIMIT, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Returns true if FreeTDS shows an error there; a severity up to 10 is a warning.
fn is_error(line: &str) -> bool {
    let severity = line.split_once("(severity ").and_then(|(_, rest)| rest.split(',').next());
    severity.and_then(|text| text.parse::<u8>().ok()).is_some_and(|severity| severity > 10)
}

/// Returns the process that was started by `unshare`, which is `pid` or its descendant if sudo was
/// used.
fn deepest_but(pid: u32, launcher: &str) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let child = children.split_ascii_whitespace().next().context("no process in the container")?;
    let child: u32 = child.parse()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm"))?;
    if name.trim() == launcher { Ok(child) } else { deepest_but(child, launcher) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_file_is_understood_and_runs_nothing_as_root() {
        let lines = parse(&fs::read_to_string(root().join(FILE)).unwrap()).unwrap();
        let at = |wanted: fn(&Line) -> bool| lines.iter().position(wanted).unwrap();
        let user = at(|line| matches!(line, Line::User(_)));
        assert!(matches!(&lines[user], Line::User(user) if !user.starts_with('0')));
        assert!(user < at(|line| matches!(line, Line::Entrypoint(_))));
        assert!(lines.contains(&Line::Volume("/data".to_owned())));
    }

    #[test]
    fn warnings_are_no_errors() {
        assert!(is_error("Msg 208 (severity 16, state 1) from tdekit Line 1:"));
        assert!(!is_error("Msg 33091 (severity 0, state 1) from tdekit Line 1:"));
        assert!(!is_error("rows 1"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for line in ["COPY a b", "RUN a \\", "RUN --mount=type=cache,target=/x a", "ENTRYPOINT a"] {
            assert!(parse(line).is_err(), "{line}");
        }
        let bind = "RUN --mount=type=bind,target=/p ls /p";
        let expected = Line::Run { bind: Some("/p".to_owned()), script: "ls /p".to_owned() };
        assert_eq!(parse(bind).unwrap(), [expected]);
    }
}
