//! The results of a run, measured and computed, in the format of the JSON document.

use serde::{Deserialize, Serialize};

use crate::model::{Environment, Noise, Settings, Subject, Tool};
use crate::report::Report;

/// Name and version of the JSON document's format. The number is incremented when a reader of the
/// older format would misread the newer one.
pub const SCHEMA: &str = "tdekit-bench/4";

/// A whole run: its circumstances, every measured block, and the summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that took the measurements.
    pub tool: Tool,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Duration of the whole run, including preparation.
    pub duration_s: f64,
    /// Reasons why the run is incomplete; empty if it is complete.
    pub incomplete: Vec<String>,
    /// Facts that reduce the reliability of the figures.
    pub warnings: Vec<String>,
    /// True for base against base (`--aa`): the true overhead is 0 %.
    pub control: bool,
    /// The command line that repeats this run.
    pub command: String,
    /// The machine.
    pub environment: Environment,
    /// Settings shared by all sides.
    pub settings: Settings,
    /// The database measured on.
    pub subject: Subject,
    /// The mixes, operations, scans and a script, which share their sides, if run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<Report>,
    /// The mixes and operations on a SQL Server, if run; never together with `embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Report>,
    /// The backup matrix, if run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Report>,
    /// The OLTP workloads, if run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oltp: Option<Report>,
    /// Messages over TDS, if run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Report>,
    /// Followers of a database, if run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<Report>,
    /// Other work of the machine during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

impl Results {
    /// Returns the reports of all experiments that ran, each with its name in the document.
    pub fn reports(&self) -> impl Iterator<Item = (&'static str, &Report)> {
        let all = [
            ("embedded", &self.embedded),
            (SERVER, &self.server),
            ("oltp", &self.oltp),
            ("messages", &self.messages),
            ("backup", &self.backup),
            ("replicate", &self.replicate),
        ];
        all.into_iter().filter_map(|(name, report)| Some((name, report.as_ref()?)))
    }

    pub(crate) fn reports_mut(&mut self) -> impl Iterator<Item = &mut Report> {
        let Self { embedded, server, oltp, messages, backup, replicate, .. } = self;
        [embedded, server, oltp, messages, backup, replicate].into_iter().flatten()
    }

    /// Returns the report whose classes are the subject of a page's head, with its name in the
    /// document: that of databases in the process, or of a SQL Server.
    #[must_use]
    pub fn classes(&self) -> Option<(&'static str, &Report)> {
        self.reports().find(|(name, _)| is_of_classes(name))
    }
}

/// The place of a SQL Server's report.
const SERVER: &str = "server";

/// Returns true if a report of this name has mixes and operations, which share the sections of a
/// page.
pub(crate) fn is_of_classes(name: &str) -> bool {
    matches!(name, "embedded" | SERVER)
}
