//! The output files of a run.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_bench_report::{JsonError, Results, blocks_csv, html, ratios_csv, terminal, to_json};

use super::newest;
use crate::error::{BenchError, Result};
use crate::private;

/// Paths of a document and its page.
pub(super) struct Files {
    pub(super) json: PathBuf,
    pub(super) html: PathBuf,
    /// Short names, each with the one of these files to which it will link.
    pub(super) short: Vec<(PathBuf, PathBuf)>,
}

/// The beginning of a document, with its schema.
const SCHEMA_BYTES: u64 = 64;
/// The schema of results, without its version.
const RESULTS: &str = "\"tdekit-bench/";

/// Kinds of files that a bench writes, by their first bytes.
#[derive(Clone, Copy)]
enum Written {
    Document,
    /// A document other than the results of a run, which is not replaced by one.
    Reckoned,
    Page,
    Table,
}

impl Written {
    fn begin(self) -> &'static str {
        match self {
            Self::Document | Self::Reckoned => "{\n",
            Self::Page => "<!",
            Self::Table => "experiment,",
        }
    }
}

impl Files {
    /// Returns the given paths, else files of this name.
    pub(super) fn new(json: Option<&Path>, html: Option<&Path>, name: &str) -> Self {
        let named = |given: Option<&Path>, extension: &str| {
            given.map_or_else(|| Path::new(name).with_extension(extension), Path::to_owned)
        };
        Self { json: named(json, "json"), html: named(html, "html"), short: Vec::new() }
    }

    /// As [`Self::check`], for a document that is made from results, and replaces none.
    pub(super) fn check_reckoned(&self) -> Result<()> {
        check_writable(&self.json, Written::Reckoned)?;
        check_writable(&self.html, Written::Page)
    }

    /// Fails before long work if an output could not be written after it.
    pub(super) fn check(&self) -> Result<()> {
        check_writable(&self.json, Written::Document)?;
        check_writable(&self.html, Written::Page)
    }

    /// Writes both, and prints the table unless the document is printed.
    pub(super) fn leave(&self, document: &str, page: &str, table: &str) -> Result<()> {
        let json = write_or_print(&self.json, document)?;
        if json {
            print(table)?;
        }
        let html = write_or_print(&self.html, page)?;
        for (short, own) in &self.short {
            let kind = if *own == self.html { Written::Page } else { Written::Document };
            let is_other = short.is_file() && !short.is_symlink() && !fits(short, kind)?;
            if is_other {
                eprintln!("note: {} is yours; this run is in {}", short.display(), own.display());
            } else if let Err(error) = newest::lead(short, own) {
                eprintln!("note: {} does not lead to {}: {error}", short.display(), own.display());
            }
        }
        if json && html {
            let (page, figures) = (self.html.display(), self.json.display());
            print(&format!("\nReport: {page}; figures: {figures}\n"))?;
        }
        Ok(())
    }

    /// Writes the files and prints nothing: for unfinished work.
    pub(super) fn keep(&self, document: &str, page: &str) -> Result<()> {
        for (path, text) in [(&self.json, document), (&self.html, page)] {
            if !is_stdout(path) {
                replace(path, text)?;
            }
        }
        Ok(())
    }
}

/// A document as text, ending in a newline.
pub(super) fn pretty(document: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(document).map_err(JsonError::from)?;
    text.push('\n');
    Ok(text)
}

/// Paths of the reports of a run.
pub(super) struct Reports {
    pub(super) files: Files,
    pub(super) csv: Option<PathBuf>,
    pub(super) csv_blocks: Option<PathBuf>,
}

impl Reports {
    /// Fails before the long run if a report could not be written after it, or if two of them, or
    /// one and the file `input`, have the same name.
    pub(super) fn check(&self, input: Option<&Path>) -> Result<()> {
        self.files.check()?;
        let all = [Some(&self.files.json), Some(&self.files.html)];
        let all = all.into_iter().chain([self.csv.as_ref(), self.csv_blocks.as_ref()]).flatten();
        let mut seen: Vec<PathBuf> = input.map(leads_to).into_iter().collect();
        for path in all.filter(|path| takes_one(path)) {
            let place = leads_to(path);
            if seen.contains(&place) {
                let reason = format!("{} is another file of this run", path.display());
                return Err(BenchError::option("--json, --html, --csv", reason));
            }
            seen.push(place);
        }
        [self.csv.as_ref(), self.csv_blocks.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|path| check_writable(path, Written::Table))
    }

    /// Prints the table, writes the documents.
    pub(super) fn write(&self, results: &Results) -> Result<()> {
        if let Some(path) = &self.csv {
            write_or_print(path, &ratios_csv(results))?;
        }
        if let Some(path) = &self.csv_blocks {
            write_or_print(path, &blocks_csv(results))?;
        }
        self.files.leave(&to_json(results)?, &html(results)?, &terminal(results))
    }
}

/// Returns true if the text went to a file.
fn write_or_print(path: &Path, text: &str) -> Result<bool> {
    if is_stdout(path) { print(text).map(|()| false) } else { replace(path, text).map(|()| true) }
}

/// Returns true if a file is empty, or begins like one of this kind that a bench wrote.
fn fits(path: &Path, kind: Written) -> Result<bool> {
    let mut begin = String::new();
    let found = std::fs::File::open(path).map_err(BenchError::file("cannot read", path))?;
    let read = found.take(SCHEMA_BYTES).read_to_string(&mut begin);
    let is_results = matches!(kind, Written::Reckoned) && begin.contains(RESULTS);
    Ok(read.is_ok() && (begin.is_empty() || begin.starts_with(kind.begin()) && !is_results))
}

/// Returns the file whose log or journal of SQLite, or whose seals, would have this name.
fn database_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let suffixes = ["-wal", "-shm", "-journal", "-seals"];
    let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    let database = path.with_file_name(base);
    database.is_file().then_some(database)
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails before the long run if a report could not be written after it, or would replace a file
/// that is not a report.
fn check_writable(path: &Path, kind: Written) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    if let Some(database) = database_beside(path) {
        let reason = format!(
            "{} has a name that SQLite gives to a file beside {}, and deletes",
            path.display(),
            database.display()
        );
        return Err(BenchError::option("--json, --html, --csv", reason));
    }
    if path.is_file() && !fits(path, kind)? {
        let reason = format!("{} is there, and is not what it would write", path.display());
        return Err(BenchError::option("--json, --html, --csv", reason));
    }
    if path.is_dir() || path.file_name().is_none() {
        let kind = std::io::ErrorKind::IsADirectory;
        return Err(BenchError::file("cannot write", path)(kind.into()));
    }
    tempfile::tempfile_in(private::parent_of(path))
        .map(drop)
        .map_err(BenchError::file("cannot write a report beside", path))
}

pub(super) fn print(text: &str) -> Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(BenchError::file("cannot write to", "standard output"))
}

/// Returns the file to which a name resolves, which may not exist yet.
fn leads_to(path: &Path) -> PathBuf {
    let parent = || Some(private::parent_of(path).canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(parent).unwrap_or_else(|| path.to_owned())
}

/// Returns true if a second text would replace the first.
fn takes_one(path: &Path) -> bool {
    !is_stdout(path) && !is_device(path)
}

/// Returns true for a device, a pipe or a socket.
fn is_device(path: &Path) -> bool {
    let kind = path.metadata().map(|there| there.file_type());
    kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir())
}

/// A link is kept, and its target is written, except for the short name of another run.
fn replace(path: &Path, text: &str) -> Result<()> {
    let led = if newest::leads(path) { path.to_owned() } else { leads_to(path) };
    let path = &led;
    // A device or a pipe receives the text and is not replaced.
    if is_device(path) {
        let written = OpenOptions::new().write(true).open(path);
        let written = written.and_then(|mut there| there.write_all(text.as_bytes()));
        return written.map_err(BenchError::file("cannot write", path));
    }
    private::replace(path, text.as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_texts_go_to_one_file_and_none_over_what_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("input"), "").unwrap();
        std::os::unix::fs::symlink(path("input"), path("link")).unwrap();
        let check = |[json, html]: [&Path; 2]| {
            let (json, html) = (json.to_owned(), html.to_owned());
            let files = Files { json, html, short: Vec::new() };
            Reports { files, csv: None, csv_blocks: None }.check(Some(&path("input")))
        };
        let (null, out) = (Path::new("/dev/null"), Path::new("-"));
        for fits in [[&*path("a"), &*path("b")], [null, null], [out, &path("a")]] {
            check(fits).unwrap();
        }
        for clash in
            [[&*path("a"), &*path("a")], [&path("link"), out], [&path("b"), &path("input")]]
        {
            check(clash).unwrap_err();
        }
        for none in [directory.path(), Path::new(""), Path::new("/"), &path("no/where")] {
            check([none, &path("a")]).unwrap_err();
            check([out, none]).unwrap_err();
        }
        for (text, fits) in [("{\n  \"a\"", true), ("", true), ("SQLite format 3", false)] {
            std::fs::write(path("there"), text).unwrap();
            assert_eq!(check([&path("there"), out]).is_ok(), fits, "{text}");
        }
        std::fs::write(path("there"), b"{\xff").unwrap();
        check([&path("there"), out]).unwrap_err();
        std::fs::write(path("there"), "my notes").unwrap();
        check([out, &path("there")]).unwrap_err();
    }

    #[test]
    fn a_device_stays_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        replace(&path, "text").unwrap();
        assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("/dev/null"));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn reports_replace_older_ones_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        std::fs::write(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
