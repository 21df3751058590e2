//! The answer in one sentence that needs no statistics: a terminal's first line, a page's heading.

use crate::figures::{HEADLINE, Ratio};
use crate::format::NO_INTERVAL;
use crate::model::{Experiment, Metric, Noise, Role, Side};
use crate::piece::{As, Found, Piece, all, each, number};
use crate::report::Report;
use crate::results::Results;
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
        let subject = with(&shown, side);
        Some(sentence(subject, &found, (metric, what), (ends, of), quiet(results)))
    };
    match report.experiment {
        Experiment::Oltp if shown.layout.wanted[0] == Metric::Throughput => {
            over("all", Metric::Throughput, "throughput")
        }
        Experiment::Oltp => over("all", shown.layout.wanted[0], shown.layout.wanted[0].label()),
        // What a follower costs is not the price of encryption.
        Experiment::Replicate => None,
        Experiment::Backup => over("backup/all", Metric::Elapsed, "a backup's time"),
        Experiment::Messages => {
            let cell = &report.cells.first()?.id;
            let found = shown.comparison(cell, Metric::Elapsed, pair)?;
            let ends = found.item.ends();
            let names = all!["Encryption of connections, ", shown.names(cell, &[pair.0]), ","];
            let what = (Metric::Elapsed, "elapsed time");
            Some(sentence(names, &found, what, (ends, ""), quiet(results)))
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

/// Share of the processors from which on other programs are named as a cause.
const BUSY: f64 = 0.05;

/// Returns what an unclear answer needs: a quiet machine, or a longer run.
fn quiet(results: &Results) -> Option<Piece> {
    let busy = |noise: &&Noise| noise.others.max(noise.steal) >= BUSY;
    let Some(noise) = results.noise.as_ref().filter(busy) else {
        return Some("; a longer run may tell: --precision".into());
    };
    let (who, field, share) = match noise.others >= noise.steal {
        true => ("other programs took ", "others", noise.others),
        false => ("the host took ", "steal", noise.steal),
    };
    let share = number(&format!("noise/{field}"), As::Part, share);
    Some(all!["; ", who, share, " of the processors: run again when it is quiet"])
}

/// `6.0 % faster and 17 % slower`: both ends of an interval, the better one first.
fn between<T: Ratio>(
    found: &Found<'_, T>,
    metric: Metric,
    ends: [(&'static str, f64); 2],
) -> Piece {
    let lower = metric.info().lower_is_better;
    let end = |(field, ratio): (&'static str, f64)| {
        let (kind, slower) = if ratio < 1.0 { (As::Loss, !lower) } else { (As::Cost, lower) };
        let word = if slower { " slower" } else { " faster" };
        all![Piece::Whole(Box::new(found.number(field, kind, ratio))), word]
    };
    let [low, high] = ends.map(end);
    let [better, worse] = if lower { [low, high] } else { [high, low] };
    all![better, " and ", worse]
}

/// `Encryption with AES_256 costs 15 % of elapsed time here (12 to 18 %).`
fn sentence<T: Ratio>(
    subject: Piece,
    found: &Found<'_, T>,
    (metric, what): (Metric, &str),
    (ends, of): (Option<[(&'static str, f64); 2]>, &str),
    quiet: Option<Piece>,
) -> Piece {
    let ratio = found.item.ratio();
    let (kinds, dearer) = match metric.info().lower_is_better {
        true => ([As::Cost, As::BareCost], ratio > 1.0),
        false => ([As::Loss, As::BareLoss], ratio < 1.0),
    };
    if let Some(ends) = found.item.ends().filter(|_| found.item.is_unclear()) {
        let between = between(found, metric, ends);
        let zero = if found.item.sure().is_none() { " from zero" } else { "" };
        let verb = format!(" has a cost in {what} here that cannot be told{zero}: between ");
        return all![subject, verb, between, quiet, "."];
    }
    let cost = Piece::Whole(Box::new(found.number("ratio", kinds[0], ratio)));
    let span = match ends {
        None => NO_INTERVAL.into(),
        Some([low, high]) => {
            let [low, high] = if kinds[0] == As::Loss { [high, low] } else { [low, high] };
            let [low, high] = [(low, kinds[1]), (high, kinds[0])]
                .map(|((field, end), kind)| found.number(field, kind, end));
            all![Piece::span([low, high]), of]
        }
    };
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

    fn noise() -> Noise {
        Noise { steal: 0.0, others: 0.0, load_start: 0.0, load_end: 0.0, frequency_mhz: None }
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
        let mut unsure = with_headline(1.03, Some([0.94, 1.17]));
        let noise = unsure.noise.insert(Noise { others: 0.85, ..noise() });
        noise.steal = 0.0;
        let wanted = "Encryption with AES_256 has a cost in elapsed time here that cannot be told \
                      from zero: between 6.0 % faster and 17 % slower; other programs took 85 % \
                      of the processors: run again when it is quiet.";
        assert_eq!(said(&unsure), wanted);
        unsure.noise = None;
        assert!(said(&unsure).ends_with("17 % slower; a longer run may tell: --precision."));
        let wide = said(&with_headline(3.0, Some([0.2, 45.0])));
        assert!(wide.contains("between 80 % faster and 4400 % slower"), "{wide}");
        let dear = said(&with_headline(3.0, Some([1.2, 45.0])));
        assert!(dear.contains("cannot be told: between 20 % slower and 4400 % slower"), "{dear}");
        for told in [wide, dear] {
            assert!(!told.contains("200 %") && !told.contains("too wide"), "{told}");
        }
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
