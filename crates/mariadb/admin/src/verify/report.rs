//! The report of a check of a server's files, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use tdekit_mariadb::datafile::{Fault, Unopened};

/// Faults of one tablespace or table that are named; the others are counted.
const MAX_NAMED: usize = 1000;

/// The whole check.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The data directory.
    pub data_directory: String,
    /// Whether the checked parts have no fault.
    pub clean: bool,
    /// How many findings there are.
    pub findings: u64,
    /// Pages that there are.
    pub pages: u64,
    /// Pages that were looked at: all, unless a sample was asked for.
    pub pages_checked: u64,
    /// Trees of indexes whose pages were compared with each other.
    pub trees_checked: u64,
    /// Trees that are known and were not wholly compared; `not_checked` tells why.
    pub trees_not_checked: u64,
    /// Whether pages were opened under their keys.
    pub opened_with_keys: bool,
    /// The tablespaces that were looked at.
    pub tablespaces: Vec<Tablespace>,
    /// The parts that were not checked, a sentence each.
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
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The key's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<u32>,
    /// In InnoDB the version that its first page tells for all pages at least; 0 while the server
    /// still encrypts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_key_version: Option<u32>,
    /// Pages that there are.
    pub pages: u64,
    /// Pages that were looked at.
    pub pages_checked: u64,
    /// Trees of indexes whose pages were compared with each other.
    #[serde(skip_serializing_if = "is_zero")]
    pub trees_checked: u64,
    /// Those that were not, by the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trees_not_checked: Vec<TreesLeft>,
    /// Encrypted pages by key version.
    pub versions: BTreeMap<u32, Pages>,
    /// Pages without a byte that is not 0.
    pub empty: u64,
    /// Pages of the doublewrite buffer.
    #[serde(skip_serializing_if = "is_zero")]
    pub doublewrite: u64,
    /// Encrypted pages of which nothing tells whether they open.
    #[serde(skip_serializing_if = "is_zero")]
    pub unopened: u64,
    /// Pages in the clear that the allocation map does not give out, where they are allowed.
    #[serde(skip_serializing_if = "is_zero")]
    pub unused_clear: u64,
    /// How many findings there are; the first 1000 are in `findings`.
    pub finding_count: u64,
    /// The first findings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Why the whole of it was not checked, where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<&'static str>,
}

/// Pages under one key version.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Pages {
    /// Those in use.
    pub used: u64,
    /// Those that the allocation map does not give out: nothing encrypts them anew.
    pub unused: u64,
}

/// Trees that were not wholly compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreesLeft {
    /// Why.
    pub why: &'static str,
    /// How many; nothing where pages that were not read may belong to any number of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trees: Option<u64>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The page, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The file, where it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The kind, for programs.
    pub kind: &'static str,
    /// The fault, for people.
    pub text: String,
}

impl Finding {
    /// A fault of a page.
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

    /// A page that says that it is not encrypted.
    pub(super) fn clear(page: u32, used: bool) -> Self {
        let (kind, text) = match used {
            true => ("clear", "it is in the clear (key version 0)"),
            false => {
                ("unused-clear", "it is in the clear (key version 0), and in no use by the map")
            }
        };
        Self { page: Some(page), file: None, kind, text: text.to_owned() }
    }

    /// A page that does not fit the others.
    pub(super) fn of_tree(page: u32, kind: &'static str, text: String) -> Self {
        Self { page: Some(page), file: None, kind, text }
    }

    /// A fault of the whole.
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

    /// Takes note of an encrypted page.
    pub(super) fn encrypted_page(&mut self, version: u32, used: bool, why: Option<Unopened>) {
        let pages = self.versions.entry(version).or_default();
        *(if used { &mut pages.used } else { &mut pages.unused }) += 1;
        self.unopened += u64::from(why.is_some());
    }

    /// The versions for people: `1: 5, 3: 812`.
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
