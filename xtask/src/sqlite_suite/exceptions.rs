//! Tests that are known to fail, and files that cannot be run, each with its reason.

use anyhow::{Context, Result, bail};

/// The reason of tests that also fail without encryption.
const STOCK: &str = "stock";

/// Start of the line of a file that is not run.
const NOT_RUN: &str = "not-run";
/// Start of the line of a file that may be stopped before its end.
const SLOW: &str = "slow";

/// A reason, the tests that fail because of it, and the files that it prevents from running or from
/// finishing.
struct Reason {
    name: String,
    entries: Vec<Entry>,
    not_run: Vec<String>,
    slow: Vec<String>,
}

struct Entry {
    file: String,
    test: String,
}

/// The list.
pub(super) struct Exceptions(Vec<Reason>);

/// An entry of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) reason: &'a str,
    pub(super) file: &'a str,
    pub(super) test: &'a str,
}

impl Exceptions {
    /// Reads the list: a line `[name] text` begins a reason, lines `FILE TEST...`, whose names may
    /// hold `*`, `not-run FILE...` and `slow FILE...` follow it.
    ///
    /// # Errors
    /// When a line is neither.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut reasons: Vec<Reason> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((name, why)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) {
                if why.trim().is_empty() {
                    bail!("line {}: the reason {name} has no text", at + 1);
                }
                reasons.push(Reason {
                    name: name.to_owned(),
                    entries: Vec::new(),
                    not_run: Vec::new(),
                    slow: Vec::new(),
                });
                continue;
            }
            let reason =
                reasons.last_mut().with_context(|| format!("line {}: no reason", at + 1))?;
            let mut words = line.split_whitespace();
            let file = words.next().unwrap_or_default();
            let tests: Vec<_> = words.collect();
            if tests.is_empty() {
                bail!("line {}: {file} without the names of tests", at + 1);
            }
            let files = match file {
                NOT_RUN => Some(&mut reason.not_run),
                SLOW => Some(&mut reason.slow),
                _ => None,
            };
            if let Some(files) = files {
                files.extend(tests.into_iter().map(str::to_owned));
                continue;
            }
            let entry = |test: &str| Entry { file: file.to_owned(), test: test.to_owned() };
            reason.entries.extend(tests.into_iter().map(entry));
        }
        Ok(Self(reasons))
    }

    /// Only tests that fail without encryption.
    pub(super) fn of_stock(self) -> Self {
        Self(self.0.into_iter().filter(|reason| reason.name == STOCK).collect())
    }

    fn all(&self) -> impl Iterator<Item = Found<'_>> {
        self.0.iter().flat_map(|reason| {
            reason.entries.iter().map(|entry| Found {
                reason: &reason.name,
                file: &entry.file,
                test: &entry.test,
            })
        })
    }

    /// The entry that covers a failed test.
    pub(super) fn of(&self, file: &str, test: &str) -> Option<Found<'_>> {
        self.all().find(|found| matches(found.file, file) && matches(found.test, test))
    }

    /// Returns the reason why `file` is not run.
    pub(super) fn not_run(&self, file: &str) -> Option<&str> {
        let keeps = |reason: &&Reason| reason.not_run.iter().any(|name| name == file);
        self.0.iter().find(keeps).map(|reason| reason.name.as_str())
    }

    /// Returns true if `file` may be stopped before its end.
    pub(super) fn is_slow(&self, file: &str) -> bool {
        self.0.iter().any(|reason| reason.slow.iter().any(|name| name == file))
    }

    /// Returns the names in the list that are not in `files`.
    pub(super) fn unknown(&self, files: &[String]) -> Vec<&str> {
        let whole = self.0.iter().flat_map(|reason| reason.not_run.iter().chain(&reason.slow));
        let whole = whole.map(String::as_str);
        let mut names: Vec<_> = self.all().map(|found| found.file).chain(whole).collect();
        names.retain(|name| !files.iter().any(|file| matches(name, file)));
        names.dedup();
        names
    }

    /// The entries for `file`.
    pub(super) fn of_file(&self, file: &str) -> impl Iterator<Item = Found<'_>> {
        self.all().filter(move |found| matches(found.file, file))
    }
}

/// Returns true if `name` matches `pattern`, in which `*` matches anything.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(begin) else { return false };
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.into_iter().any(|at| matches(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match() {
        assert!(matches("wal-1.2", "wal-1.2") && !matches("wal-1.2", "wal-1.20"));
        assert!(matches("wal-*", "wal-1") && matches("*-1", "wal-1") && matches("*", ""));
        assert!(matches("a*b*c", "aXbYc") && !matches("a*b*c", "aXbY"));
    }

    #[test]
    fn a_list_is_read_with_its_reasons() {
        let text = "# text\n[bytes] Reads the file.\na.test a-1 a-2.*\n\n\
                    [stock] Fails anyway.\nb.test b-*\n";
        let list = Exceptions::read(text).unwrap();
        assert_eq!(list.of("a.test", "a-2.1").unwrap().reason, "bytes");
        assert_eq!(list.of("b.test", "b-9").unwrap().reason, "stock");
        assert!(list.of("a.test", "a-3").is_none() && list.of("b.test", "a-1").is_none());
        assert_eq!(list.of_file("a.test").count(), 2);
        let stock = list.of_stock();
        assert!(stock.of("a.test", "a-1").is_none() && stock.of("b.test", "b-1").is_some());
    }

    #[test]
    fn files_that_are_not_run_have_their_reason() {
        let text = "[page-512] Waits.\nnot-run a.test\nb.test b-1\n";
        let list = Exceptions::read(text).unwrap();
        assert_eq!((list.not_run("a.test"), list.not_run("b.test")), (Some("page-512"), None));
        assert!(list.of("a.test", "a-1").is_none() && list.of("b.test", "b-1").is_some());
        let files = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(list.unknown(&files(&["a.test", "b.test", "c.test"])).is_empty());
        assert_eq!(list.unknown(&files(&["b.test"])), ["a.test"]);
        assert_eq!(list.unknown(&files(&["a.test"])), ["b.test"]);
        assert_eq!(list.of_stock().not_run("a.test"), None);
        assert!(Exceptions::read("[page-512] Waits.\nnot-run\n").is_err());
    }

    #[test]
    fn slow_files_are_named_whole() {
        let list = Exceptions::read("[slow] Takes hours.\nslow a.test b.test\n").unwrap();
        assert!(list.is_slow("b.test") && !list.is_slow("c.test"));
        assert!(list.not_run("a.test").is_none() && list.of("a.test", "a-1").is_none());
        assert_eq!(list.unknown(&["a.test".to_owned()]), ["b.test"]);
    }

    #[test]
    fn lines_without_a_reason_or_a_test_are_refused() {
        for text in ["a.test a-1\n", "[bytes] Reads.\na.test\n", "[bytes]\na.test a-1\n"] {
            assert!(Exceptions::read(text).is_err(), "{text}");
        }
    }
}
