//! The note of the server in the served directory, `master.db-tsql`: the databases whose files have
//! other places or names than those of the directory, and the directories of the registry.
//!
//! Lines of text, their parts separated by tabs: `tdekit server 1`, then `database`, name and file,
//! and `directory`, name of the value and path. Paths are as statements name them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use tdekit_key_store::{StoreError, Workplace};
use tdekit_wire_tsql::{Directory, Error};

use super::fault;

const FIRST_LINE: &str = "tdekit server 1";
/// Longer files are not ours.
const MAX_LEN: u64 = 1 << 20;

/// The note.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerNote {
    /// Name and file of each attached database, in the order in which they were attached.
    pub(crate) attached: Vec<(String, String)>,
    pub(crate) directories: BTreeMap<Directory, String>,
}

impl ServerNote {
    /// Reads the note. Without one there is nothing in it.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let failed = |what: &str| fault::own(format!("{}: {what}", path.display()));
        let text = match std::fs::metadata(path) {
            Ok(facts) if facts.is_file() && facts.len() <= MAX_LEN => std::fs::read_to_string(path),
            Ok(_) => return Err(failed("it is not the note of a server")),
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => Self::parse(&text).ok_or_else(|| failed("it is not the note of a server")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Replaces the note. With nothing in it there is no file.
    ///
    /// # Errors
    /// Those of the file; a name or a path with control characters.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |what: String| fault::own(format!("{}: {what}", path.display()));
        let names = self.attached.iter().flat_map(|(name, file)| [name, file]);
        if names.chain(self.directories.values()).any(|text| text.contains(char::is_control)) {
            return Err(fault::own("A name or a path with control characters is refused."));
        }
        if *self == Self::default() {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error.to_string())),
                _ => Ok(()),
            };
        }
        let of_store = |error: StoreError| failed(error.to_string());
        let place = Workplace::beside(path).map_err(of_store)?;
        let mut file = place.create().map_err(of_store)?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| failed(error.to_string()))?;
        place.replace().and_then(|()| place.sync_name()).map_err(of_store)
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (name, file) in &self.attached {
            text += &format!("database\t{name}\t{file}\n");
        }
        for (directory, path) in &self.directories {
            text += &format!("directory\t{}\t{path}\n", directory.name());
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut note = Self::default();
        for line in lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["database", name, file] => note.attached.push((name.to_owned(), file.to_owned())),
                ["directory", name, path] => {
                    note.directories.insert(Directory::of(name)?, path.to_owned());
                }
                _ => return None,
            }
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.db-tsql");
        assert_eq!(ServerNote::read(&path), Ok(ServerNote::default()));
        let mut note = ServerNote::default();
        note.attached.push(("aw HDD".to_owned(), "D:\\CTP2 Data\\awHDD.mdf".to_owned()));
        note.directories.insert(Directory::Log, "E:\\".to_owned());
        note.write(&path).unwrap();
        assert_eq!(ServerNote::read(&path), Ok(note.clone()));
        note.attached[0].1.push('\t');
        assert!(note.write(&path).is_err());
        assert_eq!(ServerNote::read(&path).unwrap().attached[0].1, "D:\\CTP2 Data\\awHDD.mdf");
        ServerNote::default().write(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        for wrong in ["", "tdekit server 2\n", "tdekit server 1\ndatabase\tx\n", "\0"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(ServerNote::read(&path).is_err(), "{wrong:?}");
        }
    }
}
