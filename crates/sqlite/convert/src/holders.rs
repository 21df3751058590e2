//! Other processes that have a file open. A connection that is not reading or writing holds no
//! lock, so only the system knows of it.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The system's name for the file by which a process shows that its connections follow a database
/// that is encrypted while they have it open.
const FOLLOWS: &str = concat!("/memfd:", "tdekit-follows-1");

/// A process that has a file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its identifier.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// Returns the other processes that have `file` open. Without root's rights only those of the same
/// user are visible; without `/proc`, none.
pub(crate) fn holders_of(file: &Metadata) -> Vec<Holder> {
    let mut holders = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else { return holders };
    for entry in processes.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else { continue };
        if has_open(&entry.path(), file) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            holders.push(Holder { pid, name: name.trim().to_owned() });
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    holders
}

/// Returns those holders that do not have the extension loaded, or have an older one that does not
/// follow a database which is encrypted while they have it open.
pub(crate) fn strangers_of(file: &Metadata) -> Vec<Holder> {
    let mut holders = holders_of(file);
    holders.retain(|holder| !follows(holder.pid));
    holders
}

fn follows(pid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path())
            .is_ok_and(|link| link.to_str().is_some_and(|link| link.starts_with(FOLLOWS)))
    })
}

fn has_open(process: &Path, file: &Metadata) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::metadata(descriptor.path())
            .is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn finds_the_process_that_has_a_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        let file = fs::metadata(&path).unwrap();
        let _own = fs::File::open(&path).unwrap();
        assert_eq!(holders_of(&file), []);
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(fs::File::open(&path).unwrap()))
            .spawn()
            .unwrap();
        let found = holders_of(&file);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [Holder { pid: child.id(), name: "sleep".to_owned() }]);
    }
}
