//! Statistics, terminal table, JSON and HTML page of a bench run.
//!
//! Everything here is pure: it takes measured [`Results`], computes a [`Summary`] and renders it.
//! No file, socket, clock or product crate is touched.

mod answer;
mod calibration;
mod compare;
mod csv;
mod each;
#[cfg(test)]
mod examples;
mod fact;
mod figures;
mod first_pairs;
mod format;
mod headline;
mod index;
mod json;
mod layout;
mod metric;
mod model;
mod oltp;
mod page;
mod piece;
mod plot;
mod published;
mod report;
mod results;
mod shown;
pub mod stats;
mod summary;
mod table;
mod terminal;
mod verdict;

pub use calibration::{
    CALIBRATION_SCHEMA, CalibratedInterval, Calibration, CalibrationRow, Truth, calibration_text,
};
pub use compare::{CHANGES_SCHEMA, Change, Changes, ComparedRun, Direction, changes_text, compare};
pub use csv::{blocks_csv, ratios_csv};
pub use fact::{DIRECTORY, Fact, Facts, RATE};
pub use figures::{Comparison, Difference, Pooled, Spread, Summary, Totals};
pub use first_pairs::note_first_pairs;
pub use headline::headline_classes;
pub use json::{JsonError, from_json, to_json};
pub use metric::Metric;
pub use model::{
    Axes, Class, DriverShare, Environment, Experiment, Latency, Library, Noise, Probe, ProbeKind,
    Role, Settings, Side, StatementInfo, Stopping, Subject, ThinkTime, Tool, WarmUp,
};
pub use page::{calibration_html, changes_html, html};
pub use report::{Idle, Report, Run, measured};
pub use results::{Results, SCHEMA};
pub use summary::summarize;
pub use table::fit_to;
pub use terminal::terminal;
