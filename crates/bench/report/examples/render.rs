//! Renders a document again: `render DOCUMENT.json PAGE.html [SHOWN.json]`, of a run, a calibration
//! or a comparison. The last file is the document of the page, with all computed figures recomputed
//! from the measured values.

use std::error::Error;
use std::process::ExitCode;

use serde_json::Value;
use tdekit_bench_report::{
    CALIBRATION_SCHEMA, CHANGES_SCHEMA, Calibration, Changes, calibration_html, calibration_text,
    changes_html, changes_text, from_json, html, summarize, terminal, to_json,
};

/// Page, document and table.
type Shown = (String, String, String);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(document), Some(page)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: render DOCUMENT.json PAGE.html [SHOWN.json]");
        return ExitCode::from(2);
    };
    let mut render = || -> Result<(), Box<dyn Error>> {
        let (shown, document, table) = show(&std::fs::read_to_string(&document)?)?;
        std::fs::write(&page, shown)?;
        if let Some(path) = arguments.next() {
            std::fs::write(path, document)?;
        }
        print!("{table}");
        Ok(())
    };
    match render() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(text: &str) -> Result<Shown, Box<dyn Error>> {
    let document: Value = serde_json::from_str(text)?;
    match document["schema"].as_str() {
        Some(CALIBRATION_SCHEMA) => {
            let mut calibration: Calibration = serde_json::from_value(document)?;
            calibration.summarize();
            let shown = serde_json::to_string_pretty(&calibration)?;
            Ok((calibration_html(&calibration)?, shown, calibration_text(&calibration)))
        }
        Some(CHANGES_SCHEMA) => {
            let changes: Changes = serde_json::from_value(document)?;
            let shown = serde_json::to_string_pretty(&changes)?;
            Ok((changes_html(&changes)?, shown, changes_text(&changes)))
        }
        _ => run(text),
    }
}

fn run(text: &str) -> Result<Shown, Box<dyn Error>> {
    let mut results = from_json(text)?;
    summarize(&mut results);
    Ok((html(&results)?, to_json(&results)?, terminal(&results)))
}
