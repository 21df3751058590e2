//! The source of the distribution's own `sqlite3` package.
//!
//! apt downloads and verifies it, with lists and a cache in a directory of the caller's: the
//! system's own configuration is read and never changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const APT: &str = "/etc/apt";

/// Reason why there is no source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A program of the distribution is missing.
    #[error("cannot start {program}: {source}; the source of SQLite comes by apt and dpkg-source")]
    Missing {
        /// Its name.
        program: String,
        /// Reason why it did not start.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed with {status}: {said}")]
    Failed {
        /// Its name.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its output.
        said: String,
    },
    /// The system's configuration names no archive.
    #[error("{APT} names no archive")]
    NoArchive,
    /// A download is not as expected.
    #[error("not exactly one .{extension} in {directory}")]
    NotOne {
        /// The files' extension.
        extension: &'static str,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, SourceError>;

/// Downloads and unpacks the source of the installed library below `base`; an existing one is kept.
/// Returns its directory.
///
/// # Errors
/// If apt has no such source, or it does not unpack.
pub fn fetch(base: &Path) -> Result<PathBuf> {
    let mut query = Command::new("dpkg-query");
    let version = output(query.args(["-W", "-f", "${source:Version}", "libsqlite3-0"]))?;
    let unpacked = base.join(format!("sqlite3-{version}"));
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    let apt = base.join("apt");
    let options = private_options(&apt)?;
    output(apt_get(&options).args(["--quiet", "update"]))?;
    let downloads = base.join("downloads");
    let _ = fs::remove_dir_all(&downloads);
    make(&downloads)?;
    let wanted = format!("sqlite3={version}");
    let mut source = apt_get(&options);
    source.current_dir(&downloads).args(["--quiet", "source", "--download-only", &wanted]);
    output(&mut source)?;
    let description = only_one(&downloads, "dsc")?;
    let unfinished = base.join("unpacking");
    let _ = fs::remove_dir_all(&unfinished);
    let mut unpack = Command::new("dpkg-source");
    // apt has checked its hash against the signed list of sources.
    unpack.args(["--no-check", "--extract"]).arg(description).arg(&unfinished);
    output(&mut unpack)?;
    fs::rename(&unfinished, &unpacked).map_err(file(&unpacked))?;
    Ok(unpacked)
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    let path = path.to_owned();
    move |source| SourceError::File { path, source }
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(file(directory))
}

/// Runs a command to its end. Returns its output.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = match command.stdin(Stdio::null()).output() {
        Ok(done) => done,
        Err(source) => return Err(SourceError::Missing { program, source }),
    };
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last: Vec<_> = said.lines().rev().take(3).collect();
        let said = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        return Err(SourceError::Failed { program, status: done.status, said });
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn apt_get(options: &[String]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(options.iter().flat_map(|option| ["-o", option]));
    command
}

/// Makes a directory for apt with the system's archives as sources of source packages.
fn private_options(apt: &Path) -> Result<Vec<String>> {
    let (parts, lists, cache) = (apt.join("parts"), apt.join("lists"), apt.join("cache"));
    for directory in [&parts, &lists.join("partial"), &cache.join("archives/partial")] {
        make(directory)?;
    }
    let mut written = 0;
    let list = Path::new(APT).join("sources.list");
    let others = fs::read_dir(Path::new(APT).join("sources.list.d")).into_iter().flatten();
    let others = others.flatten().map(|entry| entry.path());
    for path in std::iter::once(list).chain(others).filter(|path| path.is_file()) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let convert = match extension {
            Some("list") => of_lines,
            Some("sources") => of_stanzas,
            _ => continue,
        };
        let text = fs::read_to_string(&path).map_err(file(&path))?;
        let Some(name) = path.file_name() else { continue };
        let target = parts.join(name);
        fs::write(&target, convert(&text)).map_err(file(&target))?;
        written += 1;
    }
    if written == 0 {
        return Err(SourceError::NoArchive);
    }
    let user = output(Command::new("id").arg("-un"))?;
    Ok(vec![
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}", parts.display()),
        format!("Dir::State::Lists={}", lists.display()),
        format!("Dir::Cache={}", cache.display()),
        format!("APT::Sandbox::User={user}"),
    ])
}

/// Converts lines `deb URI ...` to `deb-src URI ...`; omits others.
fn of_lines(text: &str) -> String {
    let sources = text.lines().filter_map(|line| line.trim_start().strip_prefix("deb "));
    sources.map(|rest| format!("deb-src {rest}\n")).collect()
}

/// Converts stanzas of deb822 to those of source packages.
fn of_stanzas(text: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((field, _)) if field.eq_ignore_ascii_case("types") => "Types: deb-src\n".to_owned(),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn only_one(directory: &Path, extension: &'static str) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).map_err(file(directory))?.flatten();
    let mut found = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(SourceError::NotOne { extension, directory: directory.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_become_sources() {
        let lines = "# text\ndeb [arch=amd64] uri suite main\ndeb-src uri suite main\n";
        assert_eq!(of_lines(lines), "deb-src [arch=amd64] uri suite main\n");
        let stanzas = "Types: deb deb-src\nURIs: uri\n\nTypes: deb\nURIs: other\n";
        let wanted = "Types: deb-src\nURIs: uri\n\nTypes: deb-src\nURIs: other\n";
        assert_eq!(of_stanzas(stanzas), wanted);
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let failed = output(Command::new("sh").args(["-c", "echo no such source >&2; exit 3"]));
        let said = failed.unwrap_err().to_string();
        assert!(said.contains("no such source") && said.contains('3'), "{said}");
        let missing = output(&mut Command::new("no-such-program-4711")).unwrap_err();
        assert!(missing.to_string().contains("no-such-program-4711"));
    }

    #[test]
    fn one_file_of_a_kind_is_found() {
        let directory = tempfile::tempdir().unwrap();
        assert!(only_one(directory.path(), "dsc").is_err());
        fs::write(directory.path().join("a.dsc"), "").unwrap();
        assert!(only_one(directory.path(), "dsc").is_ok());
        fs::write(directory.path().join("b.dsc"), "").unwrap();
        assert!(only_one(directory.path(), "dsc").is_err());
    }
}
