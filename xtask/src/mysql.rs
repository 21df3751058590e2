//! A real MySQL server with a keyring, beside a command.
//!
//! Debian's unstable suite has one. apt fetches and checks the packages with everything they need,
//! down to the C library, with lists and a cache below the target directory; they are unpacked
//! there, and nothing is installed. The server runs by the loader that came with it, listens on
//! loopback, works in a temporary directory and ends with the value that started it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{output, run, run_quietly, target_dir};
use crate::s3_server::die_with_us;

const PACKAGE: &str = "mysql-server-core";
const SUITE: &str = "sid";
/// The database that is there when the server has started, and the variable that names it all.
const DATABASE: &str = "app";
const VARIABLE: &str = "TDEKIT_MYSQL_URL";
/// A server that does not answer for so long will not.
const START_LIMIT: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(100);

/// Runs `words` beside a server, told of it by [`VARIABLE`]. With `keyring` false the server has
/// none, and so encrypts no table.
///
/// # Errors
/// When the server cannot be had, or the command fails.
pub(crate) fn beside_mysql(words: &[String], keyring: bool) -> Result<()> {
    let server = MysqlServer::start(keyring)?;
    let (program, arguments) = words.split_first().context("no command")?;
    // A command line says where the server is only after it has been started.
    let arguments = arguments.iter().map(|word| word.replace("{url}", &server.url));
    run(Command::new(program).args(arguments).env(VARIABLE, &server.url))
}

/// A running server. Dropped, it is killed and its files are removed.
struct MysqlServer {
    child: Child,
    directory: tempfile::TempDir,
    url: String,
}

impl MysqlServer {
    fn start(keyring: bool) -> Result<Self> {
        let unpacked = Unpacked::have()?;
        let directory = tempfile::Builder::new().prefix("tdekit-mysql-").tempdir()?;
        let data = directory.path().join("data");
        run_quietly(unpacked.server(&data).arg("--initialize-insecure"))
            .context("make the server's data directory")?;
        if keyring {
            let path = directory.path().join("keyring");
            let config = format!(r#"{{"path": "{}", "read_only": false}}"#, path.display());
            fs::write(data.join("component_keyring_file.cnf"), config)?;
            let manifest = r#"{"components": "file://component_keyring_file"}"#;
            fs::write(data.join("mysqld.my"), manifest)?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = File::create(directory.path().join("log"))?;
        let child = unpacked
            .server(&data)
            .args(["--bind-address=127.0.0.1", "--mysqlx=OFF"])
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", directory.path().join("s").display()))
            .arg(format!("--pid-file={}", directory.path().join("pid").display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start the MySQL server")?;
        let url = format!("mysql://root@127.0.0.1:{port}/{DATABASE}");
        let mut server = Self { child, directory, url };
        server.wait(port)?;
        eprintln!("mysql server: {}", server.url);
        Ok(server)
    }

    /// Waits until the server answers, and makes the database.
    fn wait(&mut self, port: u16) -> Result<()> {
        let begun = Instant::now();
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"]);
        client.arg(format!("--port={port}"));
        client.args(["--execute", &format!("CREATE DATABASE IF NOT EXISTS {DATABASE}")]);
        while output(&mut client).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the MySQL server ended: {status}: {}", self.last_words());
            }
            if begun.elapsed() > START_LIMIT {
                bail!("the MySQL server does not answer: {}", self.last_words());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The end of the server's log.
    fn last_words(&self) -> String {
        let log = fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned()
    }
}

impl Drop for MysqlServer {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The packages, unpacked.
struct Unpacked(PathBuf);

impl Unpacked {
    /// Fetches and unpacks them where that was not done yet.
    fn have() -> Result<Self> {
        let base = target_dir().join("mysql");
        let unpacked = base.join("root");
        if !unpacked.is_dir() {
            let archives = fetch(&base).context("fetch MySQL by apt")?;
            let unfinished = base.join(format!("unfinished-{}", std::process::id()));
            for archive in archives {
                run_quietly(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&unfinished))?;
            }
            // The server reads manifest and configuration from its data directory, where they are.
            let sbin = unfinished.join("usr/sbin/mysqld.my");
            fs::write(sbin, r#"{"read_local_manifest": true}"#)?;
            let plugins = unfinished.join("usr/lib/mysql/plugin/component_keyring_file.cnf");
            fs::write(plugins, r#"{"read_local_config": true}"#)?;
            match fs::rename(&unfinished, &unpacked) {
                // Another run was quicker.
                Err(_) if unpacked.is_dir() => drop(fs::remove_dir_all(&unfinished)),
                result => result.context("name the unpacked server")?,
            }
        }
        Ok(Self(unpacked))
    }

    /// The server on a data directory, by its own loader and with its own files.
    fn server(&self, data: &Path) -> Command {
        let usr = self.0.join("usr");
        let machine = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let libraries = usr.join(&machine);
        let loader = match std::env::consts::ARCH {
            "aarch64" => "ld-linux-aarch64.so.1",
            _ => "ld-linux-x86-64.so.2",
        };
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = die_with_us(&libraries.join(loader));
        command.arg("--library-path").arg(&libraries).arg(usr.join("sbin/mysqld"));
        command.args(["--no-defaults", "--secure-file-priv="]);
        command.arg(option("datadir", data));
        command.arg(option("lc-messages-dir", &usr.join("share/mysql")));
        command.arg(option("character-sets-dir", &usr.join("share/mysql/charsets")));
        command.arg(option("plugin-dir", &usr.join("lib/mysql/plugin")));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }
}

/// Downloads the packages, signatures checked. Returns their paths.
fn fetch(base: &Path) -> Result<Vec<PathBuf>> {
    let apt = base.join("apt");
    let archives = apt.join("cache/archives");
    for directory in [apt.join("lists/partial"), apt.join("none"), archives.join("partial")] {
        fs::create_dir_all(directory)?;
    }
    let (list, status) = (apt.join("sources.list"), apt.join("status"));
    fs::write(&list, source_line()?)?;
    // As on a machine that has nothing yet: the C library comes, too.
    fs::write(&status, "")?;
    let user = output(Command::new("id").arg("-un"))?;
    let option = |name: &str, path: &Path| format!("{name}={}", path.display());
    let options = [
        option("Dir::Etc::SourceList", &list),
        option("Dir::Etc::SourceParts", &apt.join("none")),
        option("Dir::Etc::PreferencesParts", &apt.join("none")),
        option("Dir::State::Lists", &apt.join("lists")),
        option("Dir::State::Status", &status),
        option("Dir::Cache", &apt.join("cache")),
        format!("APT::Sandbox::User={}", user.trim()),
        "Debug::NoLocking=1".to_owned(),
    ];
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.args(options.iter().flat_map(|option| ["-o", option])).arg("--quiet");
        command
    };
    run_quietly(apt_get().arg("update"))?;
    let mut install = apt_get();
    install.args(["install", "--yes", "--download-only", "--no-install-recommends", PACKAGE]);
    run_quietly(&mut install)?;
    let found = fs::read_dir(&archives)?.flatten().map(|entry| entry.path());
    let found: Vec<_> =
        found.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    if found.is_empty() {
        bail!("apt downloaded nothing to {}", archives.display());
    }
    Ok(found)
}

/// The unstable suite of the archive that the system itself is from.
fn source_line() -> Result<String> {
    let etc = Path::new("/etc/apt");
    let parts = fs::read_dir(etc.join("sources.list.d")).into_iter().flatten().flatten();
    let files = std::iter::once(etc.join("sources.list")).chain(parts.map(|entry| entry.path()));
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let found = match path.extension().and_then(|end| end.to_str()) {
            Some("list") => text.lines().find_map(of_line),
            Some("sources") => text.split("\n\n").find_map(of_stanza),
            _ => None,
        };
        if let Some(source) = found {
            return Ok(source);
        }
    }
    bail!("/etc/apt names no archive of Debian")
}

fn of_line(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("deb ")?;
    let uri = rest.split_whitespace().find(|word| word.contains("://"))?;
    unstable(uri, None)
}

fn of_stanza(stanza: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = stanza.lines();
        lines.find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    };
    unstable(field("URIs")?.split_whitespace().next()?, field("Signed-By"))
}

/// `None` for archives of something else, such as of security updates alone.
fn unstable(uri: &str, signed_by: Option<&str>) -> Option<String> {
    let is_debian = uri.trim_end_matches('/').ends_with("/debian");
    let signed = signed_by.map(|key| format!("[signed-by={key}] ")).unwrap_or_default();
    is_debian.then(|| format!("deb {signed}{uri} {SUITE} main\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unstable_suite_of_the_systems_archive_is_named() {
        let line = "deb http://a.example/debian bookworm main contrib";
        assert_eq!(of_line(line).unwrap(), "deb http://a.example/debian sid main\n");
        assert_eq!(of_line("# deb http://a.example/debian bookworm main"), None);
        assert_eq!(of_line("deb http://a.example/debian-security bookworm main"), None);
        let stanza = "Types: deb\n# a remark\nURIs: http://a.example/debian/\nSuites: bookworm\n\
                      Signed-By: /k.gpg\n";
        let wanted = "deb [signed-by=/k.gpg] http://a.example/debian/ sid main\n";
        assert_eq!(of_stanza(stanza).unwrap(), wanted);
        assert_eq!(of_stanza(&stanza.replace("/debian/", "/debian-security/")), None);
    }
}
