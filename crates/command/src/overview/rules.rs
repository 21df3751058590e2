//! The rules of the overview: maximum ages, and the severity of findings.

use serde::Serialize;
use tdekit_key_store::{OverviewConfig, StoreError};
use tdekit_sqlite_convert::Breach;

use crate::when::parse_age;

const DEFAULT_KEY_AGE: &str = "1y";
const DEFAULT_BACKUP_AGE: &str = "7d";
const DEFAULT_VERIFY_AGE: &str = "30d";

/// Severity of a row or a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// In order.
    Good,
    /// An action is due.
    Warning,
    /// In the clear, lost, or out of reach.
    Bad,
}

impl Level {
    /// Returns the mark before a row.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Good => "✔",
            Self::Warning => "!",
            Self::Bad => "✗",
        }
    }
}

/// The earliest allowed times, seconds since 1970, and the ages as given.
#[derive(Debug, Serialize)]
pub(crate) struct Rules {
    pub(crate) max_key_age: String,
    pub(crate) max_backup_age: String,
    pub(crate) max_verify_age: String,
    #[serde(skip)]
    pub(crate) oldest_key: i64,
    #[serde(skip)]
    pub(crate) oldest_backup: i64,
    #[serde(skip)]
    pub(crate) oldest_verify: i64,
}

/// Ages as given on the command line.
#[derive(Debug, Default)]
pub(crate) struct Ages<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) backup: Option<&'a str>,
    pub(crate) verify: Option<&'a str>,
}

impl Rules {
    /// Takes the ages of the command line, or of the configuration, or the defaults.
    ///
    /// # Errors
    /// `InvalidValue`.
    pub(crate) fn new(given: &Ages<'_>, config: &OverviewConfig) -> Result<Self, StoreError> {
        let age = |given: Option<&str>, configured: &Option<String>, usual: &str| {
            let text = given.or(configured.as_deref()).unwrap_or(usual).to_owned();
            match parse_age(&text) {
                Ok(moment) => Ok((text, moment)),
                Err(_) => Err(StoreError::InvalidValue {
                    what: "age",
                    value: text,
                    reason: "is not like 1y, 90d or 36h",
                }),
            }
        };
        let (max_key_age, oldest_key) = age(given.key, &config.max_key_age, DEFAULT_KEY_AGE)?;
        let (max_backup_age, oldest_backup) =
            age(given.backup, &config.max_backup_age, DEFAULT_BACKUP_AGE)?;
        let (max_verify_age, oldest_verify) =
            age(given.verify, &config.max_verify_age, DEFAULT_VERIFY_AGE)?;
        Ok(Self {
            max_key_age,
            max_backup_age,
            max_verify_age,
            oldest_key,
            oldest_backup,
            oldest_verify,
        })
    }
}

/// The name of the finding where the history cannot be read.
pub(crate) const HISTORY: &str = "history";

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Its name, for programs: those of `tdekit audit`, and `backup-missing`, `backup-age`,
    /// `backup-plain`, `verify-missing`, `verify-age`, `verify-failed`, `verify-absent`,
    /// `archive-wrong`, `replicate-failed`, `replicate-stopped`, `doctor`, `history`,
    /// `server-keys`, `data-gone`.
    pub(crate) what: &'static str,
    /// The same in words.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(level: Level, what: &'static str, message: impl Into<String>) -> Self {
        Self { level, what, message: message.into() }
    }
}

impl From<Breach> for Finding {
    fn from(breach: Breach) -> Self {
        let level = match breach.what {
            "key-age"
            | "key-change"
            | "header"
            | "certificate-not-backed-up"
            | "not-a-database" => Level::Warning,
            _ => Level::Bad,
        };
        Self { level, what: breach.what, message: breach.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_counts_before_the_configuration() {
        let config = OverviewConfig {
            max_key_age: Some("2y".to_owned()),
            max_backup_age: Some("3d".to_owned()),
            ..OverviewConfig::default()
        };
        let rules = Rules::new(&Ages { key: Some("90d"), ..Ages::default() }, &config).unwrap();
        let ages = [&rules.max_key_age, &rules.max_backup_age, &rules.max_verify_age];
        assert_eq!(ages, ["90d", "3d", DEFAULT_VERIFY_AGE]);
        assert!(rules.oldest_key < rules.oldest_backup);
        let wrong = OverviewConfig { max_key_age: Some("old".to_owned()), ..config };
        assert!(Rules::new(&Ages::default(), &wrong).is_err());
    }
}
