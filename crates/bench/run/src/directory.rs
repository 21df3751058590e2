//! A directory that its user encrypts another way, as a peer: the same plain database on it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tdekit_bench_report::{DIRECTORY, Facts};
use tdekit_system_use::{Sealing, Storage};

use crate::error::{BenchError, Result};
use crate::private;

/// Longest label, in bytes.
const LONGEST: usize = 32;

/// A directory and its name in reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryPeer {
    path: PathBuf,
    pub(crate) label: String,
}

impl std::str::FromStr for DirectoryPeer {
    type Err = String;

    /// `PATH[=LABEL]`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, label) = match text.rsplit_once('=') {
            Some((path, label)) if is_label(label) => (path, label.to_owned()),
            Some((_, label)) if !label.contains('/') => {
                let reason = "a label has 1 to 32 letters, digits, `-`, `_` and `.`";
                return Err(format!("`{label}`: {reason}"));
            }
            _ => (text, label_of(Path::new(text))),
        };
        match path {
            "" => Err("expected directory:PATH, or directory:PATH=LABEL".to_owned()),
            path => Ok(Self { path: path.into(), label }),
        }
    }
}

fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits)
}

/// Returns the name of a directory that has none, by its path.
fn label_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if is_label(&name) { name } else { "directory".to_owned() }
}

impl DirectoryPeer {
    /// Creates the run's directory in it.
    ///
    /// # Errors
    /// If it does not exist, is no directory, or may not be written to.
    pub(crate) fn open(&self) -> Result<private::Directory> {
        if self.path.is_file() {
            let source = std::io::ErrorKind::NotADirectory.into();
            return Err(BenchError::file("--peer directory: cannot use", &self.path)(source));
        }
        private::run_directory(&self.path)
    }

    /// Returns its circumstances.
    pub(crate) fn facts(&self) -> Facts {
        let found = Storage::of(&self.path);
        let sealing = found.as_ref().and_then(|found| found.sealing.as_ref());
        let name = || sealing.map_or_else(|| UNSEEN.to_owned(), Sealing::name);
        let facts = [
            (DIRECTORY, Some(self.path.to_string_lossy().into_owned())),
            ("encrypted_by", found.as_ref().map(|_| name())),
            ("kernel_cipher", sealing.and_then(Sealing::driver)),
            ("file_system", found.as_ref().map(|found| found.file_system.clone())),
            ("device", found.as_ref().and_then(|found| found.device.clone())),
        ];
        let known = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?.into()));
        facts.into_iter().filter_map(known).collect()
    }

    /// Returns what a reader of its figures must know, beside a run in the directory `base`.
    pub(crate) fn doubts(&self, base: &Path) -> Vec<String> {
        let (own, ordinary) = (Storage::of(&self.path), Storage::of(base));
        let of = |found: &Option<Storage>| found.as_ref().and_then(|found| found.sealing.clone());
        let same = device(&self.path).is_some_and(|own| device(base) == Some(own));
        let (own, ordinary) = (of(&own), of(&ordinary));
        let label = &self.label;
        let mut doubts = vec![format!(
            "CPU on {label} is that of the bench's processes: what the kernel or a file system's \
             process encrypts for them is not in it. Elapsed time has all of it."
        )];
        if same && own == ordinary {
            doubts.push(format!(
                "{label} is on the same file system as the other sides' copies, so nothing differs \
                 that could cost: --dir names an ordinary directory for those."
            ));
        } else if let Some(sealing) = ordinary {
            doubts.push(format!(
                "The other sides' copies are encrypted too, by {}: --dir names an ordinary \
                 directory for them.",
                sealing.name()
            ));
        }
        if let Some(driver) = own.and_then(|sealing| sealing.driver()).filter(|name| is_slow(name))
        {
            doubts.push(format!(
                "The kernel encrypts {label} by {driver}, without the processor's instructions for \
                 AES: another kernel or machine may be much faster."
            ));
        }
        doubts
    }
}

/// Where nothing is seen, a disk, a host or ZFS may encrypt all the same.
const UNSEEN: &str = "nothing that can be seen from here";

fn device(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|state| state.dev())
}

/// Returns true for drivers of the kernel that compute AES by ordinary instructions.
fn is_slow(driver: &str) -> bool {
    ["generic", "fixed-time"].iter().any(|name| driver.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_may_have_a_label() {
        let of = |text: &str| {
            text.parse::<DirectoryPeer>()
                .map(|found| (found.path.display().to_string(), found.label))
        };
        let both = |path: &str, label: &str| Ok((path.to_owned(), label.to_owned()));
        assert_eq!(of("/mnt/vault"), both("/mnt/vault", "vault"));
        assert_eq!(of("/mnt/vault=LUKS"), both("/mnt/vault", "LUKS"));
        assert_eq!(of("/mnt/a=b/c"), both("/mnt/a=b/c", "c"));
        assert_eq!(of("/mnt/it's"), both("/mnt/it's", "directory"));
        for bad in ["", "=x", "/mnt/vault=", "/mnt/vault=a b"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_written_to_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [place.path().join("missing"), file, PathBuf::from("/proc")] {
            let peer = DirectoryPeer { path: path.clone(), label: "x".to_owned() };
            let error = peer.open().unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn an_ordinary_directory_beside_is_told() {
        let place = tempfile::tempdir().unwrap();
        let peer: DirectoryPeer = place.path().to_str().unwrap().parse().unwrap();
        let told = peer.doubts(place.path()).join(" ");
        assert!(told.contains("on the same file system"), "{told}");
        let told = peer.doubts(Path::new("/proc")).join(" ");
        assert!(!told.contains("same file system") && told.contains("CPU on"), "{told}");
        let facts = peer.facts();
        assert!(facts.contains_key("file_system") && facts.contains_key("encrypted_by"));
    }

    #[test]
    fn a_kernel_without_instructions_for_aes_is_slow() {
        assert!(is_slow("xts(ecb(aes-generic))") && is_slow("xts(ecb(aes-fixed-time))"));
        assert!(!is_slow("xts-aes-vaes-avx512") && !is_slow("xts-aes-aesni"));
    }
}
