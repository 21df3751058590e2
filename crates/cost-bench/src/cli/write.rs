//! What a run leaves behind.

use std::io::Write;
use std::path::{Path, PathBuf};

use tdekit_cost_report::{Results, blocks_csv, html, ratios_csv, terminal, to_json};

use crate::error::BenchError;

/// Where the reports of a run go.
pub(super) struct Reports {
    pub(super) json: PathBuf,
    pub(super) html: PathBuf,
    pub(super) csv: Option<PathBuf>,
    pub(super) csv_blocks: Option<PathBuf>,
}

impl Reports {
    /// Fails before the long run when a report could not be written after it.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        [Some(&self.json), Some(&self.html), self.csv.as_ref(), self.csv_blocks.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|path| check_writable(path))
    }

    /// Prints the table, writes the documents.
    pub(super) fn write(&self, results: &Results) -> Result<(), BenchError> {
        let page = html(results)?;
        let json = write_or_print(&self.json, &to_json(results)?)?;
        if json {
            print(&terminal(results))?;
        }
        let html = write_or_print(&self.html, &page)?;
        if let Some(path) = &self.csv {
            write_or_print(path, &ratios_csv(results))?;
        }
        if let Some(path) = &self.csv_blocks {
            write_or_print(path, &blocks_csv(results))?;
        }
        if json && html {
            let (page, figures) = (self.html.display(), self.json.display());
            print(&format!("\nReport: {page}; figures: {figures}\n"))?;
        }
        Ok(())
    }
}

/// True when the text went to a file.
fn write_or_print(path: &Path, text: &str) -> Result<bool, BenchError> {
    if is_stdout(path) { print(text).map(|()| false) } else { replace(path, text).map(|()| true) }
}

pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails before the long run when a report could not be written after it.
pub(super) fn check_writable(path: &Path) -> Result<(), BenchError> {
    if is_stdout(path) {
        return Ok(());
    }
    tempfile::tempfile_in(directory_of(path))
        .map(drop)
        .map_err(BenchError::file("cannot write a report beside", path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

pub(super) fn print(text: &str) -> Result<(), BenchError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(BenchError::file("cannot write to", "standard output"))
}

/// Writes a file so that a failure leaves the one that was there.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory_of(path))?;
        file.write_all(text.as_bytes())?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(BenchError::file("cannot write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

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
