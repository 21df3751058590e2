//! The source of the distribution's own `sqlite3` package.
//!
//! apt fetches and checks it, with lists and a cache below the target directory: the system's own
//! configuration is read and never changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output, run_quietly};

const APT: &str = "/etc/apt";

/// Fetches and unpacks the source of the library that is installed; one that is there is kept.
///
/// # Errors
/// When apt knows no such source, or it does not unpack.
pub(super) fn fetch(base: &Path) -> Result<PathBuf> {
    let mut query = Command::new("dpkg-query");
    let version = output(query.args(["-W", "-f", "${source:Version}", "libsqlite3-0"]))?;
    let unpacked = base.join(format!("sqlite3-{version}"));
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    let apt = base.join("apt");
    let options = private_options(&apt)?;
    run_quietly(apt_get(&options).args(["--quiet", "update"]))?;
    let downloads = base.join("downloads");
    let _ = fs::remove_dir_all(&downloads);
    fs::create_dir_all(&downloads)?;
    let wanted = format!("sqlite3={version}");
    let mut source = apt_get(&options);
    source.current_dir(&downloads).args(["--quiet", "source", "--download-only", &wanted]);
    run_quietly(&mut source)?;
    let description = only_one(&downloads, "dsc")?;
    let unfinished = base.join("unpacking");
    let _ = fs::remove_dir_all(&unfinished);
    let mut unpack = Command::new("dpkg-source");
    // apt has checked its hash against the signed list of sources.
    unpack.args(["--no-check", "--extract"]).arg(description).arg(&unfinished);
    run_quietly(&mut unpack)?;
    fs::rename(&unfinished, &unpacked)?;
    Ok(unpacked)
}

fn apt_get(options: &[String]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(options.iter().flat_map(|option| ["-o", option]));
    command
}

/// A directory of apt's own kind with the system's archives as sources of source packages.
fn private_options(apt: &Path) -> Result<Vec<String>> {
    let (parts, lists, cache) = (apt.join("parts"), apt.join("lists"), apt.join("cache"));
    for directory in [&parts, &lists.join("partial"), &cache.join("archives/partial")] {
        fs::create_dir_all(directory)?;
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
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.file_name().context("a name")?;
        fs::write(parts.join(name), convert(&text))?;
        written += 1;
    }
    if written == 0 {
        bail!("{APT} names no archive");
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

/// Lines `deb URI ...` as `deb-src URI ...`; no others.
fn of_lines(text: &str) -> String {
    let sources = text.lines().filter_map(|line| line.trim_start().strip_prefix("deb "));
    sources.map(|rest| format!("deb-src {rest}\n")).collect()
}

/// Stanzas of deb822 as those of source packages.
fn of_stanzas(text: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((field, _)) if field.eq_ignore_ascii_case("types") => "Types: deb-src\n".to_owned(),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn only_one(directory: &Path, extension: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut found = entries.filter(|path| path.extension().is_some_and(|e| e == extension));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => bail!("not exactly one .{extension} in {}", directory.display()),
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
}
