//! `cargo xtask setup`: installs the system packages that are missing, and nothing else.
//!
//! Every [`Need`] is checked before it is installed, so a program from another source (rustup, a
//! language's own installer) is left alone. Runs in containers and CI as root, and through sudo
//! otherwise.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::process::{find_program, output, run};
use crate::setup_services::NoServices;

/// What is to be done with the machine; each holds the needs of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Purpose {
    /// Build the workspace.
    Build,
    /// Run `make test`.
    Test,
    /// Run the suites that a landing may have to run in full.
    Land,
    /// Run every test.
    All,
}

/// How to check for the presence of a need.
enum Probe {
    /// A program on the search path.
    Program(&'static str),
    /// A file.
    File(&'static str),
    /// A shared library that the loader knows.
    Library(&'static str),
    /// The headers of the installed Node.js.
    NodeHeaders,
    /// A module of Python.
    PythonModule(&'static str),
    /// A module of PHP.
    PhpModule(&'static str),
}

/// A requirement of a purpose, and the Debian package that contains it.
struct Need {
    purpose: Purpose,
    probe: Probe,
    package: &'static str,
}

const fn need(purpose: Purpose, probe: Probe, package: &'static str) -> Need {
    Need { purpose, probe, package }
}

/// The file of `proj-data` that `interop` encrypts: views, triggers, 9 MB.
pub(crate) const PROJ_DATABASE: &str = "/usr/share/proj/proj.db";
/// The file of `qtsvg5-doc` that `interop` encrypts: compressed pages as BLOBs.
pub(crate) const QCH_DATABASE: &str = "/usr/share/qt5/doc/qtsvg.qch";

const NEEDS: &[Need] = &[
    need(Purpose::Build, Probe::Program("cc"), "gcc"),
    need(Purpose::Build, Probe::Program("c++"), "g++"),
    need(Purpose::Build, Probe::Program("make"), "make"),
    need(Purpose::Build, Probe::Program("cmake"), "cmake"),
    need(Purpose::Build, Probe::Program("pkg-config"), "pkg-config"),
    need(Purpose::Build, Probe::Program("git"), "git"),
    need(Purpose::Test, Probe::Library("libsqlite3.so.0"), "libsqlite3-0"),
    need(Purpose::Test, Probe::Program("sqlite3"), "sqlite3"),
    need(Purpose::Test, Probe::Program("strace"), "strace"),
    need(Purpose::Test, Probe::Program("python3"), "python3"),
    need(Purpose::Test, Probe::PythonModule("pip"), "python3-pip"),
    need(Purpose::Test, Probe::Program("openssl"), "openssl"),
    need(Purpose::Test, Probe::Program("tsql"), "freetds-bin"),
    // Needed with a Go, Node or Maven of the distribution, which only trust the system's store.
    need(Purpose::Test, Probe::File("/etc/ssl/certs/ca-certificates.crt"), "ca-certificates"),
    need(Purpose::Test, Probe::File("/usr/sbin/mariadbd"), "mariadb-server"),
    need(Purpose::Test, Probe::File("/usr/bin/mariadb-backup"), "mariadb-backup"),
    need(Purpose::Test, Probe::Program("softhsm2-util"), "softhsm2"),
    need(Purpose::Test, Probe::Program("dpkg-source"), "dpkg-dev"),
    need(Purpose::Test, Probe::Program("sysbench"), "sysbench"),
    need(Purpose::Test, Probe::Program("zsh"), "zsh"),
    need(Purpose::Land, Probe::Program("node"), "nodejs"),
    need(Purpose::Land, Probe::Program("npm"), "npm"),
    need(Purpose::Land, Probe::NodeHeaders, "libnode-dev"),
    need(Purpose::Land, Probe::Program("go"), "golang-go"),
    need(Purpose::Land, Probe::Program("javac"), "default-jdk-headless"),
    need(Purpose::Land, Probe::Program("mvn"), "maven"),
    need(Purpose::Land, Probe::Program("chromium"), "chromium"),
    need(Purpose::Land, Probe::File(PROJ_DATABASE), "proj-data"),
    need(Purpose::Land, Probe::File(QCH_DATABASE), "qtsvg5-doc"),
    need(Purpose::Land, Probe::File("/usr/lib/galera/libgalera_smm.so"), "galera-4"),
    need(Purpose::Land, Probe::File("/usr/bin/socat"), "socat"),
    need(Purpose::All, Probe::Program("sqlitebrowser"), "sqlitebrowser"),
    need(Purpose::All, Probe::Program("php"), "php-cli"),
    need(Purpose::All, Probe::PhpModule("sqlite3"), "php-sqlite3"),
    need(Purpose::All, Probe::Program("ruby"), "ruby"),
    need(Purpose::All, Probe::File("/usr/lib/ruby/vendor_ruby/sqlite3.rb"), "ruby-sqlite3"),
    need(Purpose::All, Probe::File(crate::mtr::RUNNER), "mariadb-test"),
    need(Purpose::All, Probe::Program("mmdebstrap"), "mmdebstrap"),
    need(Purpose::All, Probe::Program("tclsh"), "tcl"),
    need(Purpose::All, Probe::File(crate::sqlite_suite::TCL_HEADER), "tcl-dev"),
    need(Purpose::All, Probe::File(crate::sqlite_suite::ZLIB_HEADER), "zlib1g-dev"),
];

impl Probe {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => find_program(name).is_some(),
            Self::File(path) => Path::new(path).is_file(),
            Self::Library(name) => has_library(name),
            Self::NodeHeaders => has_node_headers(),
            Self::PythonModule(name) => {
                output(Command::new("python3").args(["-c", &format!("import {name}")])).is_ok()
            }
            Self::PhpModule(name) => output(Command::new("php").arg("-m"))
                .is_ok_and(|modules| modules.lines().any(|module| module == *name)),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Program(name)
            | Self::File(name)
            | Self::Library(name)
            | Self::PythonModule(name)
            | Self::PhpModule(name) => name,
            Self::NodeHeaders => "Node.js headers",
        }
    }
}

fn has_library(name: &str) -> bool {
    ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|program| output(Command::new(program).arg("-p")).ok())
        .is_some_and(|list| list.lines().any(|line| line.trim_start().starts_with(name)))
}

/// Returns true if native modules can be built without fetching headers.
///
/// A Node.js of the distribution has them in a separate package. Another one has them in its own
/// directory; if it does not, those of the distribution have another version, and node-gyp fetches
/// the right ones.
fn has_node_headers() -> bool {
    let distribution = Path::new("/usr/bin/node");
    let other = find_program("node").is_some_and(|node| node != distribution);
    other || Path::new("/usr/include/node/node.h").is_file()
}

/// Returns the missing packages for `purpose`.
fn missing(purpose: Purpose) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| need.purpose <= purpose && !need.probe.is_there()).collect()
}

/// Installs the packages for `purpose` that the machine lacks.
///
/// # Errors
/// When something is missing and cannot be installed from here; the error names it.
pub(crate) fn setup(purpose: Purpose) -> Result<()> {
    let needs = missing(purpose);
    if needs.is_empty() {
        eprintln!("setup: everything is there");
        return Ok(());
    }
    for need in &needs {
        eprintln!("setup: missing: {} (package {})", need.probe.name(), need.package);
    }
    let packages: Vec<_> = needs.iter().map(|need| need.package).collect();
    install(&packages)
        .with_context(|| format!("install these yourself, then again: {}", packages.join(" ")))?;
    let still = missing(purpose);
    if still.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = still.iter().map(|need| need.probe.name()).collect();
    bail!("still missing after the installation: {}", names.join(", "))
}

fn install(packages: &[&str]) -> Result<()> {
    if find_program("apt-get").is_none() {
        bail!("this system has no apt-get");
    }
    let root = output(Command::new("id").arg("-u"))? == "0";
    if !root && find_program("sudo").is_none() {
        bail!("not root, and sudo is not installed");
    }
    let _no_services = NoServices::forbid(root)?;
    run(apt_get(root).arg("update"))?;
    run(apt_get(root).args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get(root: bool) -> Command {
    let mut command = if root {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        // Without a terminal there can be no password prompt: fail at once instead of waiting.
        if !std::io::stderr().is_terminal() {
            sudo.arg("--non-interactive");
        }
        sudo.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_tell_present_from_absent() {
        assert!(Probe::Program("cargo").is_there() || Probe::Program("sh").is_there());
        assert!(!Probe::Program("no-such-program-of-tdekit").is_there());
        assert!(Probe::Library("libc.so.6").is_there());
        assert!(!Probe::Library("libno-such-library-of-tdekit.so").is_there());
        assert!(!Probe::File("a file that is not there").is_there());
        assert!(!Probe::PythonModule("no_such_module_of_tdekit").is_there());
    }

    #[test]
    fn a_purpose_holds_the_needs_of_those_before_it() {
        let count = |purpose| NEEDS.iter().filter(|need| need.purpose <= purpose).count();
        assert!(0 < count(Purpose::Build));
        assert!(count(Purpose::Build) < count(Purpose::Test));
        assert!(count(Purpose::Test) < count(Purpose::Land));
        assert_eq!(count(Purpose::All), NEEDS.len());
    }
}
