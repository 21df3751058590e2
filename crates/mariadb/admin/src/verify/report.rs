//! The report of a check of a server's files, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use tdekit_mariadb::datafile::{Fault, Unopened};

/// Maximum number of faults of one tablespace or table that are listed; the others are counted.
const MAX_NAMED: usize = 1000;

/// The whole check.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The data directory.
    pub data_directory: String,
    /// True if the checked parts have no fault.
    pub clean: bool,
    /// Number of findings.
    pub findings: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of checked pages: all, unless a sample was requested.
    pub pages_checked: u64,
    /// Number of index trees whose pages were compared with each other.
    pub trees_checked: u64,
    /// Number of known trees that were not completely compared; `not_checked` has the reasons.
    pub trees_not_checked: u64,
    /// True if pages were opened with their keys.
    pub opened_with_keys: bool,
    /// The checked tablespaces.
    pub tablespaces: Vec<Tablespace>,
    /// The parts that were not checked, one sentence each.
    pub not_checked: Vec<String>,
}

/// A tablespace of InnoDB, or a table of Aria.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Tablespace {
    /// The first file.
    pub file: String,
    /// `InnoDB` or `Aria`.
    pub engine: &'static str,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<u32>,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// The key's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<u32>,
    /// For InnoDB, the minimum version of all pages according to its first page; 0 while the server
    /// still encrypts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_key_version: Option<u32>,
    /// Number of pages.
    pub pages: u64,
    /// Number of checked pages.
    pub pages_checked: u64,
    /// Number of index trees whose pages were compared with each other.
    #[serde(skip_serializing_if = "is_zero")]
    pub trees_checked: u64,
    /// Trees that were not compared, by reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trees_not_checked: Vec<TreesLeft>,
    /// Encrypted pages by key version.
    pub versions: BTreeMap<u32, Pages>,
    /// Number of pages that consist only of zeros.
    pub empty: u64,
    /// Number of pages of the doublewrite buffer.
    #[serde(skip_serializing_if = "is_zero")]
    pub doublewrite: u64,
    /// Number of encrypted pages for which it is unknown whether they open.
    #[serde(skip_serializing_if = "is_zero")]
    pub unopened: u64,
    /// Number of pages in the clear that are free according to the allocation map, if they are
    /// allowed.
    #[serde(skip_serializing_if = "is_zero")]
    pub unused_clear: u64,
    /// Number of findings; the first 1000 are in `findings`.
    pub finding_count: u64,
    /// The first findings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Reason why it was not completely checked, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<&'static str>,
}

/// Pages under one key version.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Pages {
    /// Number of pages in use.
    pub used: u64,
    /// Number of pages that are free according to the allocation map: nothing re-encrypts them.
    pub unused: u64,
}

/// Trees that were not completely compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreesLeft {
    /// The reason.
    pub why: &'static str,
    /// Their number; `None` if unread pages may belong to any number of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trees: Option<u64>,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The page, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The file, if it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The kind, for programs.
    pub kind: &'static str,
    /// The fault, for people.
    pub text: String,
}

impl Finding {
    /// Makes the finding of a page's fault.
    pub(super) fn of(page: u32, fault: Fault) -> Self {
        let (kind, text) = match fault {
            Fault::Checksum => ("checksum", "its checksum is wrong".to_owned()),
            Fault::Number { says } => ("place", format!("it says that it is page {says}")),
            Fault::Compression => {
                ("compression", "it says that it is compressed, which it cannot be".to_owned())
            }
            Fault::NoKey { version } => {
                ("no-key", format!("the key store has no version {version} of its key"))
            }
            Fault::Refused { version } => (
                "refused",
                format!(
                    "it does not open under version {version} of its key: damaged, changed, or of \
                     another place"
                ),
            ),
            Fault::NoCryptData { version } => (
                "no-encryption-data",
                format!(
                    "it is encrypted (version {version}), and the first page does not tell how"
                ),
            ),
        };
        Self { page: Some(page), file: None, kind, text }
    }

    /// Makes the finding of a page that claims to be unencrypted.
    pub(super) fn clear(page: u32, used: bool) -> Self {
        let (kind, text) = match used {
            true => ("clear", "it is in the clear (key version 0)"),
            false => {
                ("unused-clear", "it is in the clear (key version 0), and in no use by the map")
            }
        };
        Self { page: Some(page), file: None, kind, text: text.to_owned() }
    }

    /// Makes the finding of a page that is inconsistent with others.
    pub(super) fn of_tree(page: u32, kind: &'static str, text: String) -> Self {
        Self { page: Some(page), file: None, kind, text }
    }

    /// Makes a finding about the whole unit.
    pub(super) fn whole(kind: &'static str, text: impl Into<String>) -> Self {
        Self { page: None, file: None, kind, text: text.into() }
    }
}

impl Tablespace {
    pub(super) fn find(&mut self, finding: Finding) {
        self.finding_count += 1;
        if self.findings.len() < MAX_NAMED {
            self.findings.push(finding);
        }
    }

    /// Counts an encrypted page.
    pub(super) fn encrypted_page(&mut self, version: u32, used: bool, why: Option<Unopened>) {
        let pages = self.versions.entry(version).or_default();
        *(if used { &mut pages.used } else { &mut pages.unused }) += 1;
        self.unopened += u64::from(why.is_some());
    }

    /// Formats the versions for people: `1: 5, 3: 812`.
    #[must_use]
    pub fn versions_shown(&self) -> String {
        let each = self.versions.iter().map(|(version, pages)| match pages.unused {
            0 => format!("{version}: {}", pages.used),
            unused => format!("{version}: {} (and {unused} unused)", pages.used),
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
