//! The answer in one sentence that needs no statistics: a terminal's first line, a page's heading.

use crate::figures::{HEADLINE, Ratio};
use crate::format::{NO_INTERVAL, TOO_WIDE, too_wide};
use crate::model::{Experiment, Metric, Results, Role, Side};
use crate::piece::{As, Found, Piece, all, each};
use crate::report::Report;
use crate::shown::Shown;

/// Returns the cost of the first experiment that ran; none if it has none, and for a control run.
pub(crate) fn answer(results: &Results) -> Option<Piece> {
    let (name, report) = results.reports().next().filter(|_| !results.control)?;
    let shown = Shown::of(name, report);
    let side = subject(report, &results.settings.algorithm)?;
    let pair = (side.id.as_str(), report.plain(side)?.id.as_str());
    let over = |id, metric, what| {
        let found = shown.over(id, metric, pair)?;
        // A median has no interval, but a least and a largest cell.
        let (ends, of) = match found.item.ends() {
            None if found.item.restarts == 0 => {
                let span = [("least", found.item.least), ("most", found.item.most)];
                (Some(span), " by workload and threads")
            }
            ends => (ends, ""),
        };
        Some(sentence(with(&shown, side), &found, (metric, what), (ends, of)))
    };
    match report.experiment {
        Experiment::Oltp if shown.layout.wanted[0] == Metric::Throughput => {
            over("all", Metric::Throughput, "throughput")
        }
        Experiment::Oltp => over("all", shown.layout.wanted[0], shown.layout.wanted[0].label()),
        Experiment::Backup => over("backup/all", Metric::Elapsed, "a backup's time"),
        Experiment::Messages => {
            let cell = &report.cells.first()?.id;
            let found = shown.comparison(cell, Metric::Elapsed, pair)?;
            let ends = found.item.ends();
            let names = all!["Encryption of connections, ", shown.names(cell, &[pair.0]), ","];
            Some(sentence(names, &found, (Metric::Elapsed, "elapsed time"), (ends, "")))
        }
        _ => over(HEADLINE, Metric::Elapsed, "elapsed time"),
    }
}

/// Returns the side to report: the one with the run's algorithm, otherwise the first.
fn subject<'a>(report: &'a Report, algorithm: &str) -> Option<&'a Side> {
    let sides = || report.sides.iter().filter(|side| side.role == Role::Encrypted);
    sides().find(|side| side.cipher.as_deref() == Some(algorithm)).or(sides().next())
}

/// `Encryption with AES_256`.
fn with(shown: &Shown<'_>, side: &Side) -> Piece {
    let found = each(&shown.report.sides, &shown.place("sides")).find(|one| one.item.id == side.id);
    let cipher = found.zip(side.cipher.as_ref()).map(|(found, name)| found.text("cipher", name));
    all!["Encryption", cipher.map(|cipher| all![" with ", cipher])]
}

/// `Encryption with AES_256 costs 15 % of elapsed time here (12 to 18 %).`
fn sentence<T: Ratio>(
    subject: Piece,
    found: &Found<'_, T>,
    (metric, what): (Metric, &str),
    (ends, of): (Option<[(&'static str, f64); 2]>, &str),
) -> Piece {
    let ratio = found.item.ratio();
    let (kinds, dearer) = match metric.info().lower_is_better {
        true => ([As::Cost, As::BareCost], ratio > 1.0),
        false => ([As::Loss, As::BareLoss], ratio < 1.0),
    };
    let cost = Piece::Whole(Box::new(found.number("ratio", kinds[0], ratio)));
    let span = match ends {
        None => NO_INTERVAL.into(),
        Some(ends) if too_wide(ends.map(|(_, end)| end)) => TOO_WIDE.into(),
        Some([low, high]) => {
            let [low, high] = if kinds[0] == As::Loss { [high, low] } else { [low, high] };
            let [low, high] = [(low, kinds[1]), (high, kinds[0])]
                .map(|((field, end), kind)| found.number(field, kind, end));
            all![Piece::span([low, high]), of]
        }
    };
    let unsure = found.item.ends().is_some() && found.item.sure().is_none();
    if unsure {
        let verb = " has a cost here that cannot be told from zero: ";
        return all![subject, verb, cost, format!(" of {what} ("), span, ")."];
    }
    match dearer {
        true => all![subject, " costs ", cost, format!(" of {what} here ("), span, ")."],
        false => all![subject, " costs nothing here: ", cost, format!(" of {what} ("), span, ")."],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, whole};

    fn said(results: &Results) -> String {
        answer(results).map(|found| found.words()).unwrap_or_default()
    }

    fn with_headline(ratio: f64, ends: Option<[f64; 2]>) -> Results {
        let mut results = example();
        let report = results.embedded.as_mut().unwrap();
        report.sides[1].cipher = Some("AES_256".to_owned());
        for found in &mut report.summary.pooled {
            found.ratio = ratio;
            (found.low, found.high) = ends.map(|[low, high]| (low, high)).unzip();
        }
        results
    }

    #[test]
    fn a_cost_is_one_plain_sentence() {
        let results = with_headline(1.1523, Some([1.12, 1.181]));
        let wanted = "Encryption with AES_256 costs 15 % of elapsed time here (12 to 18 %).";
        assert_eq!(said(&results), wanted);
        assert_eq!(said(&Results { control: true, ..results }), "");
    }

    #[test]
    fn no_cost_and_an_unknown_one_are_not_called_a_cost() {
        let unsure = said(&with_headline(1.03, Some([0.94, 1.17])));
        assert!(unsure.contains("cannot be told from zero: 3.0 % of elapsed time (-6.0 to 17 %)"));
        let none = said(&with_headline(0.96, Some([0.94, 0.98])));
        assert!(none.contains("costs nothing here: -4.0 % of elapsed time"), "{none}");
        assert!(
            said(&with_headline(1.5, None)).contains("costs 50 % of elapsed time here (no int")
        );
    }

    #[test]
    fn each_experiment_alone_has_one() {
        let all = Results { embedded: None, ..whole() };
        assert_eq!(
            said(&all),
            "Encryption with AES costs 2.5 % of throughput here \
             (1.0 to 4.0 % by workload and threads)."
        );
        let messages = said(&Results { oltp: None, ..all.clone() });
        assert!(messages.starts_with("Encryption of connections, message loop, on, costs 10 % of"));
        let backup = said(&Results { oltp: None, messages: None, ..all });
        assert!(backup.contains("with AES_256 costs 20 % of a backup's time here"), "{backup}");
    }
}
