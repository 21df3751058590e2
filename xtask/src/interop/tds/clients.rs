//! The clients in `tests/interop/tds-*`: installing and starting them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::drivers::{copy_sources, source};
use crate::process::{cargo, run, run_quietly};

/// The folder of FreeTDS, which also creates the databases for all others.
pub(in super::super) const FREETDS: &str = "tds-freetds";
const PYTHON: &str = "tds-python";
const NODE: &str = "tds-node";
const GO: &str = "tds-go";
const JAVA: &str = "tds-java";
const RUST: &str = "tds-rust";

const JAVA_SOURCES: [&str; 7] = [
    "Client.java",
    "Types.java",
    "Work.java",
    "Migrate.java",
    "FlywayShop.java",
    "HibernateShop.java",
    "LiquibaseShop.java",
];

/// Python's programs: the same work through each driver, and tools of migration.
const DRIVE: &str = "client.py";
const MIGRATE: &str = "migrate.py";

/// Time limit of a client, in seconds.
const LIMIT: &str = "300";

/// One client of SQL Server.
pub(in super::super) struct Client {
    /// The name on the command line.
    pub(in super::super) name: &'static str,
    /// Its folder in `tests/interop/`, and in the build directory.
    pub(super) source: &'static str,
    /// Supported encryption modes of the connection.
    pub(super) modes: &'static [&'static str],
    /// Installs it into the given directory.
    pub(super) prepare: fn(&Path) -> Result<()>,
    /// Its command line, up to the server; takes the directory of its build.
    start: fn(&Path) -> Command,
}

impl Client {
    /// The command line without the arguments about the server.
    pub(super) fn command(&self, build: &Path) -> Command {
        (self.start)(build)
    }
}

/// Nothing encrypted, the login alone, everything.
const WITHIN: &[&str] = &["off", "login", "on"];
/// The driver's minimum, everything, and TLS from the start.
const STRICT: &[&str] = &["off", "on", "strict"];
/// Everything: for tools that leave the connection to a driver that runs in all modes.
const ON: &[&str] = &["on"];
/// Nothing encrypted, the login alone, everything, and TLS from the start.
const ALL: &[&str] = &["off", "login", "on", "strict"];

pub(in super::super) const CLIENTS: &[Client] = &[
    client(FREETDS, FREETDS, WITHIN, nothing, |_| freetds("client.bash")),
    client("tds-pytds", PYTHON, WITHIN, prepare_python, |build| python(build, DRIVE, "pytds")),
    client("tds-pymssql", PYTHON, WITHIN, prepare_python, |build| python(build, DRIVE, "pymssql")),
    client("tds-pyodbc", PYTHON, STRICT, prepare_python, |build| python(build, DRIVE, "pyodbc")),
    client("tds-mssql-python", PYTHON, STRICT, prepare_python, |build| {
        python(build, DRIVE, "mssql-python")
    }),
    client("tds-sqlalchemy", PYTHON, ALL, prepare_python, |build| {
        python(build, DRIVE, "sqlalchemy")
    }),
    client(GO, GO, WITHIN, prepare_go, go),
    client(JAVA, JAVA, STRICT, prepare_java, |build| java(build, &["Client"])),
    client(NODE, NODE, STRICT, prepare_node, |build| node(build, "client.js", &[])),
    client(RUST, RUST, ALL, prepare_rust, rust),
    client("tds-scripts", FREETDS, ON, nothing, |_| freetds("scripts.bash")),
    client("tds-django", PYTHON, ON, prepare_python, |build| python(build, MIGRATE, "django")),
    client("tds-alembic", PYTHON, ON, prepare_python, |build| python(build, MIGRATE, "alembic")),
    client("tds-pandas", PYTHON, ON, prepare_python, |build| python(build, MIGRATE, "pandas")),
    client("tds-knex", NODE, ON, prepare_node, |build| node(build, "migrate.js", &["knex"])),
    client("tds-sequelize", NODE, ON, prepare_node, |build| {
        node(build, "migrate.js", &["sequelize"])
    }),
    client("tds-typeorm", NODE, ON, prepare_node, |build| node(build, "migrate.js", &["typeorm"])),
    client("tds-flyway", JAVA, ON, prepare_java, |build| java(build, &["Migrate", "flyway"])),
    client("tds-liquibase", JAVA, ON, prepare_java, |build| java(build, &["Migrate", "liquibase"])),
    client("tds-hibernate", JAVA, ON, prepare_java, |build| java(build, &["Migrate", "hibernate"])),
];

const fn client(
    name: &'static str,
    source: &'static str,
    modes: &'static [&'static str],
    prepare: fn(&Path) -> Result<()>,
    start: fn(&Path) -> Command,
) -> Client {
    Client { name, source, modes, prepare, start }
}

/// Returns a command that is ended when it exceeds the time limit.
pub(super) fn bounded(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--verbose", "--kill-after=10", LIMIT]).arg(program);
    command
}

fn nothing(_build: &Path) -> Result<()> {
    Ok(())
}

fn freetds(program: &str) -> Command {
    let mut command = bounded("bash");
    command.arg(source(FREETDS).join(program));
    command
}

/// Installs the packages of `tests/interop/tds-python`, once for each list of requirements.
fn prepare_python(build: &Path) -> Result<()> {
    let requirements = source(PYTHON).join("requirements.txt");
    let wanted = fs::read_to_string(&requirements).context("read the requirements")?;
    once(build, &wanted, |build| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--only-binary", ":all:", "--target"]).arg(build.join("site"));
        run_quietly(pip.arg("--requirement").arg(&requirements))
    })
}

fn python(build: &Path, program: &str, name: &str) -> Command {
    let mut command = bounded("python3");
    command.env("PYTHONPATH", build.join("site")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(source(PYTHON).join(program)).arg(name);
    command
}

fn prepare_node(build: &Path) -> Result<()> {
    copy_sources(NODE, build)?;
    let wanted = fs::read_to_string(build.join("package-lock.json")).context("read the lock")?;
    let stamp = build.join("node_modules/.installed");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(build);
    run_quietly(&mut install)?;
    fs::write(&stamp, wanted).context("write the stamp of the installation")
}

fn node(build: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = bounded("node");
    command.arg(build.join(program)).args(arguments);
    command
}

fn prepare_go(build: &Path) -> Result<()> {
    fs::create_dir_all(build).with_context(|| format!("make {}", build.display()))?;
    let mut command = Command::new("go");
    command.args(["build", "-buildvcs=false", "-o"]).arg(build.join("client")).arg(".");
    run(command.env("CGO_ENABLED", "0").current_dir(source(GO)))
}

fn go(build: &Path) -> Command {
    bounded(build.join("client"))
}

fn prepare_java(build: &Path) -> Result<()> {
    copy_sources(JAVA, build)?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never"]);
    maven.args(["dependency:copy-dependencies", "-DoutputDirectory=lib"]);
    run_quietly(maven.current_dir(build))?;
    let mut javac = Command::new("javac");
    javac.args(["-encoding", "UTF-8", "-classpath", "lib/*", "-d", "classes"]);
    run(javac.args(JAVA_SOURCES).current_dir(build))
}

/// The folder itself is among the classes: tools read their files from there.
fn java(build: &Path, program: &[&str]) -> Command {
    let mut command = bounded("java");
    let classes = [build.join("classes"), build.join("lib/*"), build.to_path_buf()];
    let classes = classes.map(PathBuf::into_os_string).join(":".as_ref());
    command.arg("-classpath").arg(classes).args(program);
    command
}

/// Builds `tests/interop/tds-rust`, a package outside of the workspace.
fn prepare_rust(build: &Path) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--locked", "--manifest-path"]);
    command.arg(source(RUST).join("Cargo.toml")).arg("--target-dir").arg(build);
    run(&mut command)
}

fn rust(build: &Path) -> Command {
    bounded(build.join("debug/tdekit-interop-tds"))
}

/// Runs `install` on the emptied `build` unless that was done already for `wanted`.
fn once(build: &Path, wanted: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let stamp = build.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    super::super::empty(build)?;
    install(build)?;
    fs::write(&stamp, wanted).context("write the stamp of the installation")
}
