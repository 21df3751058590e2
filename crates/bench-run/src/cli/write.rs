//! The files that a run leaves behind.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_bench_report::{JsonError, Results, blocks_csv, html, ratios_csv, terminal, to_json};

use crate::error::{BenchError, Result};
use crate::private;

/// Where a document and its page go.
pub(super) struct Files {
    pub(super) json: PathBuf,
    pub(super) html: PathBuf,
}

impl Files {
    /// As given, else files of this name.
    pub(super) fn new(json: Option<&Path>, html: Option<&Path>, name: &str) -> Self {
        let named = |given: Option<&Path>, extension: &str| {
            given.map_or_else(|| Path::new(name).with_extension(extension), Path::to_owned)
        };
        Self { json: named(json, "json"), html: named(html, "html") }
    }

    /// Fails before long work when one could not be written after it.
    pub(super) fn check(&self) -> Result<()> {
        check_writable(&self.json)?;
        check_writable(&self.html)
    }

    /// Writes both, and prints the table unless the document is printed.
    pub(super) fn leave(&self, document: &str, page: &str, table: &str) -> Result<()> {
        let json = write_or_print(&self.json, document)?;
        if json {
            print(table)?;
        }
        let html = write_or_print(&self.html, page)?;
        if json && html {
            let (page, figures) = (self.html.display(), self.json.display());
            print(&format!("\nReport: {page}; figures: {figures}\n"))?;
        }
        Ok(())
    }

    /// Writes what goes to files and prints nothing: for work that is not done.
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

/// Where the reports of a run go.
pub(super) struct Reports {
    pub(super) files: Files,
    pub(super) csv: Option<PathBuf>,
    pub(super) csv_blocks: Option<PathBuf>,
}

impl Reports {
    /// Fails before the long run when a report could not be written after it.
    pub(super) fn check(&self) -> Result<()> {
        self.files.check()?;
        [self.csv.as_ref(), self.csv_blocks.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|path| check_writable(path))
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

/// True when the text went to a file.
fn write_or_print(path: &Path, text: &str) -> Result<bool> {
    if is_stdout(path) { print(text).map(|()| false) } else { replace(path, text).map(|()| true) }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails before the long run when a report could not be written after it.
fn check_writable(path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
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

fn replace(path: &Path, text: &str) -> Result<()> {
    // A device or a pipe takes the text, and stays what it is.
    let kind = path.metadata().map(|there| there.file_type());
    if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
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
