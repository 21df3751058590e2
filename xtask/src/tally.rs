//! Counting what passed and what failed.

use anyhow::{Result, bail};

/// What a run of tests came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many tests passed.
    pub(crate) passed: usize,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Turns failures into an error that names them.
    pub(crate) fn all_passed(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        bail!("{} tests failed: {}", self.failures.len(), self.failures.join(", "))
    }

    /// Takes in another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
    }

    /// Takes in one line that `cargo test` printed.
    ///
    /// Counted are the lines of single tests, so a test program that dies before its summary
    /// still shows what it had done.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test ") else { return };
        match rest.rsplit_once(" ... ") {
            Some((_, "ok")) => self.passed += 1,
            Some((name, "FAILED")) => self.failures.push(name.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_counted() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test page::tests::opens ... ok",
            "test page::tests::moved ... FAILED",
            "test src/lib.rs - seal (line 4) ... ok",
            "test slow ... ignored",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored",
        ] {
            tally.add_line(line);
        }
        assert_eq!(tally, Tally { passed: 2, failures: vec!["page::tests::moved".into()] });
        assert!(tally.all_passed().unwrap_err().to_string().contains("page::tests::moved"));
        Tally::default().all_passed().unwrap();
    }
}
