//! The verdict on a run: outcomes compared with the list of exceptions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::exceptions::{Exceptions, Found};
use super::run::{Broken, Outcome};

/// The verdict on a run.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// Number of files that ran.
    pub(super) files: usize,
    /// Requested files that were not run, with the reason for each.
    pub(super) not_run: BTreeMap<String, String>,
    /// Files that were stopped before their end as the list allows, with the number of tests that
    /// each ran.
    pub(super) stopped: BTreeMap<String, u64>,
    /// Number of files that completed without a failure.
    pub(super) clean: usize,
    /// Number of tests that ran.
    pub(super) tests: u64,
    /// Number of failed tests, listed or not.
    pub(super) failures: usize,
    /// Number of files that fail for each reason of the list.
    pub(super) files_by_reason: BTreeMap<String, usize>,
    /// Number of files that left a plain database.
    pub(super) plain: usize,
    /// Unexpected outcomes, one on each line.
    pub(super) unexpected: Vec<String>,
}

/// Compares `outcomes` with the list.
pub(super) fn judge(
    outcomes: &[Outcome],
    not_run: BTreeMap<String, String>,
    list: &Exceptions,
) -> Verdict {
    let mut files_by_reason = BTreeMap::new();
    let mut unexpected = Vec::new();
    let mut stopped = BTreeMap::new();
    for outcome in outcomes {
        let file = &outcome.file;
        match &outcome.broken {
            Some(Broken::Signal(signal)) => {
                unexpected.push(format!("{file}: ended by signal {signal}"));
            }
            Some(Broken::TimedOut) if list.is_slow(file) => {
                stopped.insert(file.clone(), outcome.tests);
            }
            Some(Broken::TimedOut) => unexpected.push(format!("{file}: took too long")),
            None => {}
        }
        let found: Vec<(&String, Option<Found<'_>>)> =
            outcome.failed.iter().map(|test| (test, list.of(file, test))).collect();
        let unlisted = found.iter().filter(|(_, entry)| entry.is_none());
        unexpected.extend(unlisted.map(|(test, _)| format!("{file}: {test} failed")));
        let mut reasons: Vec<&str> =
            found.iter().filter_map(|(_, entry)| entry.map(|entry| entry.reason)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            *files_by_reason.entry(reason.to_owned()).or_insert(0) += 1;
        }
        // A stopped file gives no information on the tests that it did not reach.
        let idle = list
            .of_file(file)
            .filter(|_| outcome.broken.is_none())
            .filter(|entry| !found.iter().any(|(_, used)| used.as_ref() == Some(entry)));
        unexpected.extend(idle.map(|entry| {
            let Found { reason, file, test } = entry;
            format!("{file}: {test} is listed ({reason}) and passes: take it off the list")
        }));
    }
    Verdict {
        files: outcomes.len(),
        not_run,
        stopped,
        clean: outcomes.iter().filter(|outcome| outcome.is_clean()).count(),
        tests: outcomes.iter().map(|outcome| outcome.tests).sum(),
        failures: outcomes.iter().map(|outcome| outcome.failed.len()).sum(),
        files_by_reason,
        plain: outcomes.iter().filter(|outcome| !outcome.plain.is_empty()).count(),
        unexpected,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn outcome(file: &str, failed: &[&str], broken: Option<Broken>) -> Outcome {
        let failed = failed.iter().map(ToString::to_string).collect();
        let (tests, plain, seconds) = (9, BTreeSet::new(), 0.0);
        Outcome { file: file.to_owned(), tests, failed, broken, plain, seconds }
    }

    #[test]
    fn what_is_listed_must_fail_and_nothing_else() {
        let list = Exceptions::read("[bytes] Reads the file.\na.test a-1 a-2*\n").unwrap();
        let unexpected = |outcomes: &[Outcome]| judge(outcomes, BTreeMap::new(), &list).unexpected;
        assert!(unexpected(&[outcome("a.test", &["a-1", "a-2.1"], None)]).is_empty());
        assert_eq!(unexpected(&[outcome("a.test", &["a-1", "a-2", "a-3"], None)]).len(), 1);
        let passes = unexpected(&[outcome("a.test", &["a-1"], None)]);
        assert_eq!(passes, ["a.test: a-2* is listed (bytes) and passes: take it off the list"]);
        // A file that did not run gives no information on its entries.
        assert!(unexpected(&[outcome("b.test", &[], None)]).is_empty());
    }

    #[test]
    fn what_is_slow_may_be_stopped_and_must_not_fail() {
        let list = "[slow] Takes hours.\nslow a.test\n[bytes] Reads.\na.test a-1\n";
        let list = Exceptions::read(list).unwrap();
        let judged = |file, failed: &[&str], broken| {
            judge(&[outcome(file, failed, broken)], BTreeMap::new(), &list)
        };
        let stopped = judged("a.test", &[], Some(Broken::TimedOut));
        assert_eq!((stopped.unexpected.len(), stopped.clean), (0, 0));
        assert_eq!(stopped.stopped, BTreeMap::from([("a.test".to_owned(), 9)]));
        assert_eq!(judged("a.test", &["a-2"], Some(Broken::TimedOut)).unexpected.len(), 1);
        assert_eq!(judged("a.test", &["a-1"], Some(Broken::Signal(11))).unexpected.len(), 1);
        assert_eq!(judged("b.test", &[], Some(Broken::TimedOut)).unexpected.len(), 1);
        assert!(judged("a.test", &["a-1"], None).unexpected.is_empty());
    }

    #[test]
    fn a_crash_is_never_listed() {
        let list = Exceptions::read("[bytes] Reads the file.\na.test *\n").unwrap();
        for broken in [Broken::Signal(11), Broken::TimedOut] {
            let outcomes = [outcome("a.test", &["(script)"], Some(broken))];
            let verdict = judge(&outcomes, BTreeMap::new(), &list);
            assert_eq!((verdict.unexpected.len(), verdict.clean), (1, 0));
        }
    }
}
