//! Renders a results document again: `render RESULTS.json REPORT.html [DOCUMENT.json]`. The last
//! is the document of the page: that of the run, with its summary computed anew.

use std::process::ExitCode;

use tdekit_cost_report::{
    from_json, html, summarize, summarize_backup, summarize_oltp, terminal, to_json,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(document), Some(page)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: render RESULTS.json REPORT.html [DOCUMENT.json]");
        return ExitCode::from(2);
    };
    let mut render = || -> Result<(), Box<dyn std::error::Error>> {
        let mut results = from_json(&std::fs::read_to_string(&document)?)?;
        results.summary = summarize(&results);
        let confidence = results.settings.confidence();
        if let Some(matrix) = &mut results.backup {
            matrix.summary = summarize_backup(matrix, confidence);
        }
        if let Some(report) = &mut results.oltp {
            report.summary = summarize_oltp(report, confidence);
        }
        std::fs::write(&page, html(&results)?)?;
        if let Some(path) = arguments.next() {
            std::fs::write(path, to_json(&results)?)?;
        }
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
