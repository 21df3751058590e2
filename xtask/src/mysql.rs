//! A real MySQL server with a keyring, beside a command.
//!
//! Debian's unstable suite has one. apt fetches and checks the packages with all dependencies,
//! including the C library, with lists and a cache below the target directory; they are unpacked
//! there, and nothing is installed. The server runs with the loader that came with it, listens on
//! loopback, works in a temporary directory and is stopped when its value is dropped.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tdekit_private_mariadb::{Programs, Server, ServerConfig, initialise};

use crate::process::{output, run, run_quietly, target_dir};

const SERVER: &[&str] = &["mysql-server-core"];
/// The server, its clients and its own tests.
const WITH_SUITE: &[&str] = &["mysql-server-core", "mysql-client-core", "mysql-testsuite"];
const SUITE: &str = "sid";
/// The database that exists when the server has started.
const DATABASE: &str = "app";
/// Variables with the server's URL and its directory, for a command.
const URL_VARIABLE: &str = "TDEKIT_MYSQL_URL";
const DIRECTORY_VARIABLE: &str = "TDEKIT_MYSQL_DIR";

/// Runs `words` beside a server, described by environment variables. With `keyring` false the
/// server has none, and so encrypts no table.
///
/// # Errors
/// When the server is unavailable, or the command fails.
pub(crate) fn beside_mysql(words: &[String], keyring: bool) -> Result<()> {
    let unpacked = unpacked()?;
    let server = MysqlServer::start(&Programs::mysql(&unpacked)?, keyring)?;
    let (program, arguments) = words.split_first().context("no command")?;
    // A command line can name the server only after it has been started.
    let arguments = arguments.iter().map(|word| word.replace("{url}", &server.url));
    let mut command = Command::new(program);
    command.args(arguments).env(URL_VARIABLE, &server.url).env(DIRECTORY_VARIABLE, &unpacked);
    run(&mut command)
}

/// A running server. When dropped, it is killed and its files are removed.
struct MysqlServer {
    url: String,
    // In this order: files are removed after the server.
    _server: Server,
    _directory: tempfile::TempDir,
}

impl MysqlServer {
    fn start(programs: &Programs, keyring: bool) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tdekit-mysql-").tempdir()?;
        let data = directory.path().join("data");
        initialise(programs, &data, &[]).context("make the server's data directory")?;
        let programs = match keyring {
            true => programs.with_keyring(&directory.path().join("keys"))?,
            false => programs.clone(),
        };
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = ServerConfig { data, port: Some(port), ..ServerConfig::default() };
        let server = Server::start(&programs, &config).context("start the MySQL server")?;
        // The server resolves no names, so `localhost` means its socket only.
        server.sql(&format!(
            "CREATE DATABASE {DATABASE}; CREATE USER root@'127.0.0.1'; \
             GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION"
        ))?;
        // The colon means that the user has no password.
        let url = format!("mysql://root:@127.0.0.1:{port}/{DATABASE}");
        eprintln!("mysql server: {url}");
        Ok(Self { url, _server: server, _directory: directory })
    }
}

/// Returns the directory of the packages, which are fetched and unpacked if necessary.
///
/// # Errors
/// When they cannot be fetched.
pub(crate) fn unpacked() -> Result<PathBuf> {
    unpack(&target_dir().join("mysql"), SERVER)
}

/// As [`unpacked`], with the server's own tests.
///
/// # Errors
/// As there.
pub(crate) fn unpacked_with_suite() -> Result<PathBuf> {
    unpack(&target_dir().join("mysql-suite"), WITH_SUITE)
}

fn unpack(base: &Path, packages: &[&str]) -> Result<PathBuf> {
    let unpacked = base.join("root");
    if !unpacked.is_dir() {
        let archives = fetch(base, packages).context("fetch MySQL by apt")?;
        let unfinished = base.join(format!("unfinished-{}", std::process::id()));
        for archive in archives {
            run_quietly(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&unfinished))?;
        }
        match fs::rename(&unfinished, &unpacked) {
            // Another run was faster.
            Err(_) if unpacked.is_dir() => drop(fs::remove_dir_all(&unfinished)),
            result => result.context("name the unpacked server")?,
        }
    }
    Ok(unpacked)
}

/// Downloads the packages, signatures checked. Returns their paths.
fn fetch(base: &Path, packages: &[&str]) -> Result<Vec<PathBuf>> {
    let apt = base.join("apt");
    let archives = apt.join("cache/archives");
    for directory in [apt.join("lists/partial"), apt.join("none"), archives.join("partial")] {
        fs::create_dir_all(directory)?;
    }
    let (list, status) = (apt.join("sources.list"), apt.join("status"));
    fs::write(&list, source_line()?)?;
    // As on an empty machine: the C library is fetched, too.
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
    install.args(["install", "--yes", "--download-only", "--no-install-recommends"]);
    install.args(packages);
    run_quietly(&mut install)?;
    let found = fs::read_dir(&archives)?.flatten().map(|entry| entry.path());
    let found: Vec<_> =
        found.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    if found.is_empty() {
        bail!("apt downloaded nothing to {}", archives.display());
    }
    Ok(found)
}

/// Returns the unstable suite of the archive from which the system was installed.
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

/// `None` for archives of other contents, such as of security updates alone.
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
