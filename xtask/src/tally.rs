//! Counts of passed and failed tests.

use anyhow::{Result, bail};

/// Maximum length of a failure's output, in lines and in characters of a line.
const ACCOUNT_LINES: usize = 12;
const ACCOUNT_COLUMNS: usize = 240;

/// The tally of a run of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Number of passed tests.
    pub(crate) passed: usize,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
    /// The output of failed tests, a few lines each: shown at the end, where people look in a long
    /// log.
    pub(crate) accounts: Vec<String>,
    /// True while the next lines are the output of one program's failed tests.
    in_accounts: bool,
}

impl Tally {
    /// Adds a failure with a name and its output.
    pub(crate) fn fail(&mut self, name: String, account: &str) {
        self.accounts.push(shortened(&name, account.lines()));
        self.failures.push(name);
    }

    /// Turns failures into an error that names them.
    pub(crate) fn all_passed(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        bail!("{} tests failed: {}", self.failures.len(), self.failures.join(", "))
    }

    /// Prints the failures with their causes, and the closing line.
    ///
    /// # Errors
    /// When there is a failure.
    pub(crate) fn close(&self) -> Result<()> {
        for account in &self.accounts {
            println!("{account}");
        }
        for name in &self.failures {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failures.len());
        if self.failures.is_empty() { Ok(()) } else { bail!("tests failed") }
    }

    /// Adds another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.accounts.extend(other.accounts);
    }

    /// Processes one line of the output of `cargo test`.
    ///
    /// The lines of single tests are counted, so that a test program that crashes before its
    /// summary still shows its results.
    pub(crate) fn add_line(&mut self, line: &str) {
        self.add_account(line);
        let Some(rest) = line.strip_prefix("test ") else { return };
        match rest.rsplit_once(" ... ") {
            Some((_, "ok")) => self.passed += 1,
            Some((name, "FAILED")) => self.failures.push(name.to_owned()),
            _ => {}
        }
    }

    /// A program's failed tests are reported between two lines `failures:`, each after its name;
    /// the second begins a plain list of their names.
    fn add_account(&mut self, line: &str) {
        if line == "failures:" {
            self.in_accounts = !self.in_accounts;
        } else if line.starts_with("test result: ") {
            self.in_accounts = false;
        } else if !self.in_accounts || line.trim().is_empty() {
            // Not the output of a test.
        } else if let Some(name) = line.strip_prefix("---- ") {
            self.accounts.push(shortened(name.trim_end_matches([' ', '-']), [].into_iter()));
        } else if let Some(last) = self.accounts.last_mut()
            && last.lines().count() <= ACCOUNT_LINES
        {
            last.push('\n');
            last.push_str(&shortened_line(line));
        }
    }
}

/// Returns a name, and below it the last lines of its output: the cause is at the end.
fn shortened<'a>(name: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<_> = lines.collect();
    let from = lines.len().saturating_sub(ACCOUNT_LINES);
    let mut account = format!("{name}:");
    for line in &lines[from..] {
        account.push('\n');
        account.push_str(&shortened_line(line));
    }
    account
}

fn shortened_line(line: &str) -> String {
    format!("    {}", line.chars().take(ACCOUNT_COLUMNS).collect::<String>())
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
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.failures, ["page::tests::moved"]);
        assert!(tally.all_passed().unwrap_err().to_string().contains("page::tests::moved"));
        Tally::default().all_passed().unwrap();
    }

    #[test]
    fn what_failed_tests_said_is_kept() {
        let mut tally = Tally::default();
        for line in [
            "test a ... FAILED",
            "",
            "failures:",
            "",
            "---- a stdout ----",
            "thread 'a' panicked at src/a.rs:1:",
            "one is not two",
            "",
            "failures:",
            "    a",
            "",
            "test result: FAILED. 0 passed; 1 failed",
            "a line of another program",
        ] {
            tally.add_line(line);
        }
        let said = "a stdout:\n    thread 'a' panicked at src/a.rs:1:\n    one is not two";
        assert_eq!(tally.accounts, [said]);
    }

    #[test]
    fn of_a_long_account_the_end_is_kept() {
        let mut tally = Tally::default();
        let said: Vec<_> = (0..100).map(|line| format!("{line} {}", "x".repeat(1000))).collect();
        tally.fail("interop java".into(), &said.join("\n"));
        let account = &tally.accounts[0];
        assert!(account.starts_with("interop java:\n    88 x"), "{account}");
        assert!(account.lines().all(|line| line.len() < 300), "{account}");
        assert_eq!(tally.failures, ["interop java"]);
    }
}
