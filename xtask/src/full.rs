//! `.ci/full`: the last full run of each suite, with its commit and duration.
//!
//! `make test-all` writes it, and it is committed: a landing must run in full every suite affected
//! by later changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process::{output, root};

/// The file, from the root.
const FILE: &str = ".ci/full";
const HEAD: &str = "# The last full run of each suite. `make test-all` writes this file.\n\n";

/// The last full runs, by the suite's name.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct FullRuns(BTreeMap<String, FullRun>);

/// A full run in which every test passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullRun {
    /// The commit that was tested.
    pub(crate) commit: String,
    /// Duration in seconds.
    pub(crate) seconds: u64,
}

impl FullRuns {
    /// Reads the file; a missing one counts as empty.
    ///
    /// # Errors
    /// When it cannot be read, or is invalid.
    pub(crate) fn read() -> Result<Self> {
        match fs::read_to_string(path()) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("read {FILE}")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("read {FILE}")),
        }
    }

    /// The last run of a suite.
    pub(crate) fn of(&self, suite: &str) -> Option<&FullRun> {
        self.0.get(suite)
    }

    /// Records a run, and writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn record(&mut self, suite: &str, run: FullRun) -> Result<()> {
        self.0.insert(suite.to_owned(), run);
        let text = format!("{HEAD}{}", toml::to_string(self).context("write the full runs")?);
        fs::write(path(), text).with_context(|| format!("write {FILE}"))
    }
}

fn path() -> PathBuf {
    root().join(FILE)
}

/// Returns the commit of the tree; none if files differ from it, other than [`FILE`].
///
/// # Errors
/// When git fails.
pub(crate) fn commit_of_tree() -> Result<Option<String>> {
    let git = |words: &[&str]| output(Command::new("git").current_dir(root()).args(words));
    let changed = git(&["status", "--porcelain", "--", ".", &format!(":(exclude){FILE}")])?;
    if changed.is_empty() { git(&["rev-parse", "HEAD"]).map(Some) } else { Ok(None) }
}

/// Returns the number of commits in `range`; the maximum if git does not know the range.
pub(crate) fn commits(range: &str) -> u64 {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["rev-list", "--count", range]);
    output(&mut git).ok().and_then(|count| count.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_as_they_are_written() {
        let run = FullRun { commit: "c0ffee".to_owned(), seconds: 97 };
        let runs = FullRuns([("sqlite".to_owned(), run.clone())].into());
        let text = toml::to_string(&runs).unwrap();
        assert_eq!(text, "[sqlite]\ncommit = \"c0ffee\"\nseconds = 97\n");
        let read: FullRuns = toml::from_str(&text).unwrap();
        assert_eq!((read.of("sqlite"), read.of("key")), (Some(&run), None));
        assert!(toml::from_str::<FullRuns>("[sqlite]\ncommit = 1\n").is_err());
    }
}
