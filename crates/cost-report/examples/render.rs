//! Renders a results document again: `render results.json report.html`.

use std::process::ExitCode;

use tdekit_cost_report::{from_json, html, summarize, summarize_backup, terminal};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(document), Some(page)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: render RESULTS.json REPORT.html");
        return ExitCode::from(2);
    };
    let render = || -> Result<(), Box<dyn std::error::Error>> {
        let mut results = from_json(&std::fs::read_to_string(&document)?)?;
        results.summary = summarize(&results);
        let confidence = results.settings.confidence();
        if let Some(matrix) = &mut results.backup {
            matrix.summary = summarize_backup(matrix, confidence);
        }
        std::fs::write(&page, html(&results)?)?;
        print!("{}", terminal(&results));
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
