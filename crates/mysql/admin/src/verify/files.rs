//! The files of a data directory that are checked.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{MysqlError, failed};

/// The files of a server, each kind by name.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Tablespaces of tables, general ones, undo logs, `mysql.ibd`.
    pub(super) tablespaces: Vec<PathBuf>,
    /// The system tablespace.
    pub(super) system: Vec<PathBuf>,
    /// Temporary tablespaces.
    pub(super) temporary: Vec<PathBuf>,
    /// Files of the redo log.
    pub(super) redo: Vec<PathBuf>,
    /// Spare files of the redo log, which may hold what it had before.
    pub(super) spare_redo: Vec<PathBuf>,
    /// Files of the doublewrite buffer.
    pub(super) doublewrite: Vec<PathBuf>,
    /// Binary logs and relay logs.
    pub(super) logs: Vec<PathBuf>,
    /// Lists of binary logs and relay logs.
    pub(super) indexes: Vec<PathBuf>,
    /// Links, which are not followed, though the server follows them.
    pub(super) links: Vec<PathBuf>,
    /// Directories, pipes and others that have a file's name.
    pub(super) not_files: Vec<PathBuf>,
}

/// Searches a data directory and the directories in it. Links are not followed; tables in other
/// directories (`DATA DIRECTORY`) are not found.
///
/// # Errors
/// `Io` for a directory that cannot be read.
pub(super) fn find(data: &Path) -> Result<Files, MysqlError> {
    let mut files = Files::default();
    let mut left = vec![data.to_owned()];
    while let Some(directory) = left.pop() {
        let failed = failed("read", &directory);
        for entry in fs::read_dir(&directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let kind = entry.file_type().map_err(&failed)?;
            let path = entry.path();
            if kind.is_file() {
                if let Some(kind) = files.kind(&path) {
                    kind.push(path);
                }
            } else if kind.is_symlink() {
                files.links.push(path);
            } else {
                // MySQL encodes a dot in a database's name, so its directory has no extension.
                let is_named = path.extension().is_some() || !kind.is_dir();
                if is_named && files.kind(&path).is_some() {
                    files.not_files.push(path.clone());
                }
                if kind.is_dir() {
                    left.push(path);
                }
            }
        }
    }
    for kind in [
        &mut files.tablespaces,
        &mut files.system,
        &mut files.temporary,
        &mut files.redo,
        &mut files.spare_redo,
        &mut files.links,
        &mut files.indexes,
        &mut files.not_files,
        &mut files.doublewrite,
        &mut files.logs,
    ] {
        kind.sort();
    }
    Ok(files)
}

/// Returns the page size in the name of a file of the doublewrite buffer, `#ib_16384_0.dblwr`.
pub(super) fn doublewrite_page_size(path: &Path) -> Option<usize> {
    path.file_name()?.to_str()?.strip_prefix("#ib_")?.split('_').next()?.parse().ok()
}

impl Files {
    /// Returns where a file of this name belongs; `None` if it is not one of those that are read.
    fn kind(&mut self, path: &Path) -> Option<&mut Vec<PathBuf>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let is_spare = |name: &str| name.strip_prefix("#ib_redo").is_some_and(is_number);
        let numbered = |word: &str| name.strip_prefix(word).is_some_and(is_number);
        Some(match extension.as_str() {
            "ibd" | "ibu" => &mut self.tablespaces,
            "ibt" => &mut self.temporary,
            "dblwr" | "bdblwr" => &mut self.doublewrite,
            "index" => &mut self.indexes,
            _ if numbered("undo_") => &mut self.tablespaces,
            _ if numbered("ibdata") => &mut self.system,
            _ if numbered("ibtmp") => &mut self.temporary,
            _ if numbered("#ib_redo") => &mut self.redo,
            _ if name.strip_suffix("_tmp").is_some_and(is_spare) => &mut self.spare_redo,
            // `binlog.000001`, `HOST-relay-bin.000001`, whatever their names are.
            number if number.len() >= 6 && is_number(number) => &mut self.logs,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_file_is_found_once() {
        let dir = tempfile::tempdir().unwrap();
        for inner in ["app", "app/odd.ibd", "undo_007", "#innodb_redo", "#innodb_temp"] {
            fs::create_dir(dir.path().join(inner)).unwrap();
        }
        let all = [
            "app/t.ibd",
            "mysql.ibd",
            "spare.ibu",
            "undo_001",
            "ibdata1",
            "#innodb_temp/temp_1.ibt",
            "ibtmp1",
            "#innodb_redo/#ib_redo7",
            "#innodb_redo/#ib_redo8_tmp",
            "#ib_16384_0.dblwr",
            "bin.000001",
            "bin.index",
            "auto.cnf",
            "app/t.sdi",
        ];
        all.iter().for_each(|name| fs::write(dir.path().join(name), "x").unwrap());
        std::os::unix::fs::symlink("/nowhere", dir.path().join("elsewhere")).unwrap();
        let found = find(dir.path()).unwrap();
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let short = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().to_owned();
            paths.iter().map(|path| short(path).display().to_string()).collect()
        };
        let spaces = ["app/t.ibd", "mysql.ibd", "spare.ibu", "undo_001"];
        assert_eq!(names(&found.tablespaces), spaces);
        assert_eq!(names(&found.system), ["ibdata1"]);
        assert_eq!(names(&found.temporary), ["#innodb_temp/temp_1.ibt", "ibtmp1"]);
        assert_eq!(names(&found.redo), ["#innodb_redo/#ib_redo7"]);
        assert_eq!(names(&found.spare_redo), ["#innodb_redo/#ib_redo8_tmp"]);
        assert_eq!(names(&found.links), ["elsewhere"]);
        assert_eq!(names(&found.logs), ["bin.000001"]);
        assert_eq!(names(&found.indexes), ["bin.index"]);
        assert_eq!(names(&found.not_files), ["app/odd.ibd"]);
        assert_eq!(found.doublewrite.len(), 1);
        assert_eq!(doublewrite_page_size(&found.doublewrite[0]), Some(16_384));
        assert!(find(&dir.path().join("none")).is_err());
    }
}
