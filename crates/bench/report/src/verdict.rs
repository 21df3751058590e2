//! The answer of a run in sentences, for the terminal and for the page.

use std::cmp::Ordering;

use crate::answer::answer;
use crate::fact::{DIRECTORY, float};
use crate::figures::{Comparison, HEADLINE, Pooled, Ratio};
use crate::format::{As, bytes, count, percent};
use crate::headline::GROUPS;
use crate::layout::Of;
use crate::model::{Class, Experiment, Metric, Role, Side};
use crate::piece::{Found, Piece, all, each};
use crate::report::Report;
use crate::results::Results;
use crate::shown::Shown;

/// The answer for a control run.
pub(crate) const CONTROL: &str = "Base against base, a control: the true overhead is 0 %; what is \
     found is the method's own error.";
/// The answer if there is none.
pub(crate) const NOTHING: &str = "Nothing was compared";

/// Returns the cost of encryption in one plain sentence, then exactly, one sentence for each side.
/// Empty if nothing was compared.
pub(crate) fn answers(results: &Results) -> Vec<Piece> {
    let of = |(name, report): (&'static str, &Report)| {
        let shown = Shown::of(name, report);
        match report.experiment {
            Experiment::Oltp => of_threads(&shown),
            Experiment::Messages => of_messages(&shown),
            Experiment::Backup => of_backups(&shown, &results.settings.algorithm),
            Experiment::Replicate => of_followers(&shown),
            _ => of_headline(&shown),
        }
    };
    answer(results).into_iter().chain(results.reports().flat_map(of)).collect()
}

/// Returns the answers, and conclusions from single classes, for a terminal.
pub(crate) fn verdict(results: &Results) -> Vec<String> {
    let mut sentences: Vec<String> = answers(results).iter().map(Piece::words).collect();
    if sentences.is_empty() {
        sentences.push(format!("{NOTHING}."));
    } else if results.control {
        sentences.insert(0, CONTROL.to_owned());
    }
    if let Some((_, report)) = results.classes() {
        sentences.extend(of_groups(report, results.settings.confidence()));
    }
    if let Some(report) = &results.messages {
        sentences.extend(beside_costs(&Shown::of("messages", report)));
    }
    sentences
}

/// Ours first, then a cheaper algorithm, then each peer: elapsed time and CPU over the headline's
/// classes.
fn of_headline(shown: &Shown<'_>) -> Vec<Piece> {
    let sentence = |side: &Side| {
        if shown.report.is_further(&side.id) {
            return cheaper(shown, side);
        }
        let elapsed = shown.headline(side, Metric::Elapsed)?;
        let cpu = shown.headline(side, Metric::Cpu).filter(|_| has_whole_cpu(side));
        let what = elapsed.text("what", &elapsed.item.what);
        Some(all![shown.side(&side.id), " ", costs(&elapsed, cpu), " over ", what, "."])
    };
    shown.report.others().filter_map(sentence).collect()
}

/// Our further algorithm, if it is surely cheaper than the first one over the headline's classes,
/// by elapsed time or CPU, and by neither dearer.
fn cheaper(shown: &Shown<'_>, side: &Side) -> Option<Piece> {
    let first = shown.report.ours()?;
    let over = |metric| shown.over(HEADLINE, metric, (&side.id, &first.id));
    let sure: Vec<Ordering> = [Metric::Elapsed, Metric::Cpu]
        .into_iter()
        .filter_map(|metric| over(metric)?.item.sure())
        .collect();
    if sure.is_empty() || sure.contains(&Ordering::Greater) {
        return None;
    }
    let elapsed = shown.headline(side, Metric::Elapsed)?;
    let cpu = shown.headline(side, Metric::Cpu);
    let costs = costs(&elapsed, cpu);
    Some(all!["Cheaper here: ", shown.cipher(&side.id), " ", costs, "."])
}

/// `costs +10.0 % (+9.0 to +11.0) of elapsed time and +12.0 % (+11.0 to +13.0) of CPU`; what cannot
/// be told has its interval alone.
fn costs(elapsed: &Found<'_, Pooled>, cpu: Option<Found<'_, Pooled>>) -> Piece {
    let of = |found: &Found<'_, Pooled>, what: &str, verb: &str| {
        if !found.item.is_unclear() {
            return all![verb, found.told(), format!(" of {what}")];
        }
        let zero = if found.item.sure().is_none() { " from zero" } else { "" };
        let words = format!("has a cost in {what} that cannot be told{zero} (");
        all![words, found.ends(As::Percent), ")"]
    };
    let verb = if elapsed.item.is_unclear() { "costs " } else { "" };
    let cpu = cpu.map(|cpu| all![" and ", of(&cpu, "CPU", verb)]);
    all![of(elapsed, "elapsed time", "costs "), cpu]
}

/// Returns false for a directory that its user encrypts: what encrypts it has CPU of its own.
fn has_whole_cpu(side: &Side) -> bool {
    !side.facts.contains_key(DIRECTORY)
}

/// Throughput, or at a rate latency, and CPU a transaction over all workloads and threads.
fn of_threads(shown: &Shown<'_>) -> Vec<Piece> {
    let at = shown.place("summary/pooled");
    let sentence = |side: &Side| {
        let of = |metric| {
            let is = |one: &Found<'_, Pooled>| {
                let cost = shown.report.is_cost(one.item);
                cost && (&one.item.side, one.item.metric) == (&side.id, metric)
            };
            each(&shown.report.summary.pooled, &at).find(is)
        };
        let span = |found: &Found<'_, Pooled>| {
            let [middle, least, most] = [
                ("ratio", found.item.ratio),
                ("least", found.item.least),
                ("most", found.item.most),
            ]
            .map(|(field, ratio)| found.number(field, As::Percent, ratio));
            all![Piece::Whole(Box::new(middle)), " (from ", Piece::span([least, most]), ")"]
        };
        let [first, second] = shown.layout.wanted;
        let found = of(first)?;
        let cpu = of(second).filter(|_| has_whole_cpu(side));
        let cpu = cpu.map(|found| all![format!(", {} ", second.label()), span(&found)]);
        let what = found.text("what", &found.item.what);
        let cost = all![format!(": {} ", first.label()), span(&found), cpu];
        Some(all![shown.named(&side.id), cost, " over ", what, "."])
    };
    shown.report.others().filter_map(sentence).collect()
}

/// The cost of each encrypted connection in each cell.
fn of_messages(shown: &Shown<'_>) -> Vec<Piece> {
    let Some(base) = shown.report.base() else { return Vec::new() };
    let sentence = |cell: &Class, side: &Side| {
        let of = |metric| shown.comparison(&cell.id, metric, (&side.id, &base.id));
        let mut costs = vec![all!["elapsed ", of(Metric::Elapsed)?.told()]];
        costs.extend(of(Metric::ServerCpu).map(|one| all!["server CPU ", one.told()]));
        let switches = of(Metric::ServerSwitches);
        costs.extend(switches.map(|one| all!["context switches ", one.ratio(As::Times)]));
        costs.extend(match shown.figure(&cell.id, &side.id, Metric::Throughput, Of::Median) {
            Piece::Nothing => None,
            done => Some(all![done, format!(" {}s a second", cell.unit)]),
        });
        let names = all![shown.names(&cell.id, &[&side.id]), " against plain: "];
        Some(all![names, Piece::parted(costs, ", "), "."])
    };
    let of = |cell| shown.report.others().filter_map(move |side| sentence(cell, side));
    shown.report.cells.iter().flat_map(of).collect()
}

/// What a follower costs writers, and its own figures against those of the other one.
fn of_followers(shown: &Shown<'_>) -> Vec<Piece> {
    let report = shown.report;
    let (Some(base), Some(ours)) = (report.base(), report.ours()) else { return Vec::new() };
    let against = |side: &Side| {
        let of = |cell: &Class| {
            let over = |metric| shown.comparison(&cell.id, metric, (&ours.id, &side.id));
            let wanted = [
                (Metric::Elapsed, "elapsed "),
                (Metric::TailLatency, "p99 "),
                (Metric::Cpu, "follower's CPU "),
                (Metric::Size, "bytes shipped "),
            ];
            let found: Vec<Piece> = wanted
                .into_iter()
                .filter_map(|(metric, name)| Some(all![name, over(metric)?.told()]))
                .collect();
            if found.is_empty() {
                return None;
            }
            let names = all![shown.names(&cell.id, &[&ours.id]), " against "];
            Some(all![names, shown.side(&side.id), ": ", Piece::parted(found, ", "), "."])
        };
        report.cells.iter().filter_map(of).collect::<Vec<_>>()
    };
    let others = report.sides.iter().filter(|side| side.role == Role::Reference);
    std::iter::once(base).chain(others).flat_map(against).collect()
}

/// The cost in backups of the run's cipher, or of the last one: a sentence for each compression.
fn of_backups(shown: &Shown<'_>, algorithm: &str) -> Vec<Piece> {
    let report = shown.report;
    let pooled = &report.summary.pooled;
    let own = pooled.iter().find(|found| found.side == algorithm);
    let Some((cipher, base)) = own.or(pooled.last()).zip(report.base()) else { return Vec::new() };
    let sentence = |name: &str| {
        let of = |action: &str, metric| {
            shown.over(&format!("{action}/{name}"), metric, (&cipher.side, &base.id))
        };
        let (time, cpu) = (of("backup", Metric::Elapsed)?, of("backup", Metric::Cpu)?);
        let size = of("backup", Metric::Size)?.ratio(As::Fine);
        let restore = of("restore", Metric::Elapsed);
        let restore = restore.map(|one| all!["; of its restore's time ", one.told()]);
        let with = if name == "none" { "without compression" } else { &format!("with {name}") };
        let backup = all![time.told(), format!(" of a backup's time {with}, "), cpu.told()];
        let rest = all![" of its CPU and ", size, " of its size", restore, "."];
        Some(all![time.text("side", &cipher.side), " costs ", backup, rest])
    };
    report.along("compression").into_iter().filter_map(sentence).collect()
}

/// Groups of classes, with the number of ratios that can be distinguished from 0 %.
fn of_groups(report: &Report, confidence: f64) -> Vec<String> {
    let Some((base, side)) = report.base().zip(report.ours()) else { return Vec::new() };
    let pair = (side.id.as_str(), base.id.as_str());
    let mut sentences = Vec::new();
    for (group, fits) in GROUPS {
        // The whole script is the headline, and another mean of its parts another answer.
        if report.cells.iter().any(|class| fits(class) && class.id == "script/all") {
            continue;
        }
        let own = |class: &&Class| fits(class);
        let span = |metric| {
            let of = |class: &Class| report.summary.comparison(&class.id, metric, pair.0, pair.1);
            span(&report.cells.iter().filter(own).filter_map(of).collect::<Vec<_>>())
        };
        if let (Some(elapsed), Some(cpu)) = (span(Metric::Elapsed), span(Metric::Cpu)) {
            sentences.push(format!("{group}: elapsed time {elapsed}, CPU {cpu}."));
        }
    }
    let judged = |one: &&Comparison| {
        let wanted = matches!(one.metric, Metric::Elapsed | Metric::Cpu);
        wanted && one.statement.is_none() && one.pair() == pair
    };
    let whole = || report.summary.comparisons.iter().filter(judged);
    let bounded = whole().filter(|one| one.ends().is_some()).count();
    let told = |side| whole().filter(|one| one.sure() == Some(side)).count();
    let (slower, faster) = (told(Ordering::Greater), told(Ordering::Less));
    let confidence = confidence * 100.0;
    if bounded > 0 {
        sentences.push(format!(
            "Of {bounded} ratios, {slower} are above 0 % and {faster} below it with {confidence} % \
             confidence; the others cannot be told from 0 %."
        ));
    } else if whole().next().is_some() {
        sentences.push("No intervals: they need at least two restarts.".to_owned());
    }
    sentences
}

/// The geometric mean of the ratios, with the minimum and the maximum if there are several.
fn span(ratios: &[&Comparison]) -> Option<String> {
    let mut sorted: Vec<f64> = ratios.iter().map(|found| found.ratio).collect();
    sorted.sort_by(f64::total_cmp);
    let logs: f64 = sorted.iter().map(|ratio| ratio.ln()).sum();
    let mean = percent((logs / float(sorted.len() as u64)).exp());
    match sorted.as_slice() {
        [] => None,
        [_] => Some(mean),
        [low, .., high] => {
            let [low, high] = [low, high].map(|ratio| As::Bare.words(*ratio));
            Some(format!("{mean} (classes from {low} to {high})"))
        }
    }
}

/// Each connection against SQLite called directly, and idle connections.
fn beside_costs(shown: &Shown<'_>) -> Vec<String> {
    let report = shown.report;
    let direct = report.sides.iter().find(|side| side.role == Role::Reference);
    let over_direct = |cell: &Class, side: &Side| {
        let direct = &direct?.id;
        let cpu = shown.comparison(&cell.id, Metric::ServerCpu, (&side.id, direct))?;
        let used = |side: &str| shown.figure(&cell.id, side, Metric::ServerCpu, Of::Each);
        let names = shown.names(&cell.id, &[&side.id]);
        let cost = all![" against SQLite called directly: server CPU ", cpu.ratio(As::Times)];
        let both = all![" (", used(&side.id), " against ", used(direct)];
        Some(all![names, cost, both, format!(" a {}).", cell.unit)])
    };
    let of = |cell| report.sides.iter().filter_map(move |side| over_direct(cell, side));
    let idle = report.idle.iter().map(|found| {
        format!(
            "{} idle connections, {}: {} of memory in the server's process, {} each.",
            count(float(found.connections)),
            found.side,
            bytes(float(found.after_bytes)),
            bytes(found.each_bytes())
        )
    });
    report.cells.iter().flat_map(of).map(|one| one.words()).chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, holds, two_algorithms, whole};
    use crate::fact::RATE;

    #[test]
    fn verdict_names_sides_and_overheads() {
        let mut results = example();
        let sentences = verdict(&results);
        let first = "Encryption costs 10 % of elapsed time here (10 to 10 %).";
        assert_eq!(sentences[0], first);
        assert!(sentences[1].contains("encrypted costs +10.0 % (+10.0 to +10.0)"), "{sentences:?}");
        assert!(sentences[2].contains("peer costs +150 %"), "{sentences:?}");
        assert!(sentences[3].contains("+10.0 %"), "{sentences:?}");
        results.control = true;
        assert!(verdict(&results)[0].contains("true overhead is 0 %"));
        results.embedded = None;
        assert_eq!(verdict(&results), ["Nothing was compared."]);
    }

    #[test]
    fn a_further_algorithm_is_told_where_it_is_cheaper() {
        let sentences = verdict(&two_algorithms(0.92));
        assert!(sentences[1].starts_with("encrypted costs +10.0 %"), "{sentences:?}");
        let wanted = "Cheaper here: AEGIS_256X2 costs +1.2 % (+1.2 to +1.2) of elapsed time and \
                      +10.4 % (+10.4 to +10.4) of CPU.";
        assert_eq!(sentences[2], wanted);
        assert!(sentences[3].starts_with("peer costs"), "{sentences:?}");
        for dear in [1.0, 1.1] {
            let said = verdict(&two_algorithms(dear)).join("\n");
            assert!(!said.contains("AEGIS_256X2") && !said.contains("second"), "{said}");
        }
        let mut unsure = two_algorithms(0.92);
        for found in &mut unsure.embedded.as_mut().unwrap().summary.pooled {
            if found.against == "encrypted" {
                (found.low, found.high) = (Some(0.8), Some(1.1));
            }
        }
        assert!(!verdict(&unsure).join("\n").contains("AEGIS_256X2"));
    }

    #[test]
    fn of_a_directory_no_cpu_is_told() {
        let mut results = example();
        let sides = &mut results.embedded.as_mut().unwrap().sides;
        let peer = sides.iter_mut().find(|side| side.id == "peer").unwrap();
        peer.facts.insert(DIRECTORY.to_owned(), "/mnt/vault".into());
        peer.facts.insert("kernel_cipher".to_owned(), "xts-aes-aesni".into());
        let said = verdict(&results);
        assert!(said[1].contains("of CPU") && said[2].starts_with("peer costs"), "{said:?}");
        assert!(!said[2].contains("CPU"), "{said:?}");
        let wanted = "the kernel's driver xts-aes-aesni";
        assert!(crate::terminal(&results).contains(wanted));
        assert!(crate::html(&results).unwrap().contains("xts-aes-aesni</span>"));
    }

    #[test]
    fn an_interval_that_holds_zero_is_not_a_cost() {
        let mut results = example();
        let pooled = &mut results.embedded.as_mut().unwrap().summary.pooled;
        let elapsed = |one: &&mut Pooled| one.metric == Metric::Elapsed;
        for found in pooled.iter_mut().filter(elapsed) {
            (found.low, found.high) = (Some(0.94), Some(1.17));
        }
        let first = verdict(&results).remove(1);
        assert!(
            first.contains(
                "has a cost in elapsed time that cannot be told from zero (-6.0 to +17.0) and \
                 costs +"
            ),
            "{first}"
        );
    }

    /// The mean of the statements' own ratios would be a second answer beside the whole script's.
    #[test]
    fn a_script_has_one_answer() {
        let mut results = example();
        let report = results.embedded.as_mut().unwrap();
        let count = |results: &Results| {
            let group = |line: &String| line.starts_with("Your statements: ");
            verdict(results).iter().filter(|line| group(line)).count()
        };
        report.cells[0].experiment = Experiment::Script;
        assert_eq!(count(&results), 1);
        let report = results.embedded.as_mut().unwrap();
        let whole = Class { id: "script/all".to_owned(), ..report.cells[0].clone() };
        report.cells.push(whole);
        assert_eq!(count(&results), 0);
    }

    #[test]
    fn every_experiment_has_its_answers() {
        let results = Results { embedded: None, ..whole() };
        assert_eq!(verdict(&Results { oltp: None, ..results.clone() }).len(), 1 + 2 + 2 + 2 + 1);
        let said = verdict(&results).join("\n");
        holds(
            &said,
            [
                "tdekit: throughput -2.5 % (from -4.0 % to -1.0 %), CPU a transaction +7.5 %",
                "peer: throughput -20.0 %",
                "server CPU +25.0 % (+25.0 to +25.0), context switches x20.00",
                "selects a second.",
                "AES_256 costs +19.6 % (+19.6 to +19.6) of a backup's time with zstd, +100 %",
                " of its CPU and +0.020 % of its size; of its restore's time +19.6 %",
                "without compression",
                "point selects, off against SQLite called directly: server CPU x2.00 (2.06 us",
                "1,000 idle connections, on: 50.0 MB of memory in the server's process, 30.0 kB",
            ],
        );
    }

    #[test]
    fn at_a_rate_the_throughput_is_no_answer() {
        let mut results = Results { embedded: None, ..whole() };
        (results.messages, results.backup) = (None, None);
        let oltp = results.oltp.as_mut().unwrap();
        oltp.set(RATE, 100_u32);
        crate::summary::summarize(&mut results);
        let said = verdict(&results).join("\n");
        assert!(said.contains(": median latency ") && !said.contains("throughput"), "{said}");
        let oltp = results.oltp.as_ref().unwrap();
        let all = |metric| oltp.summary.pooled("all", metric, "tdekit", "base").is_some();
        assert!(!all(Metric::Throughput) && all(Metric::P95Latency));
    }

    #[test]
    fn a_peer_with_a_plain_side_of_its_own_is_held_against_it() {
        let mut report = crate::examples::oltp();
        let mut plain = report.base().unwrap().clone();
        (plain.id, plain.label) = ("own".to_owned(), "own plain".to_owned());
        plain.role = Role::PeerPlain;
        report.sides.push(plain);
        report.sides.iter_mut().find(|side| side.id == "peer").unwrap().plain = Some("own".into());
        let mut runs: Vec<_> =
            report.runs.iter().filter(|run| run.side == "base").cloned().collect();
        for run in &mut runs {
            run.side = "own".to_owned();
            // Twice as fast as the base.
            run.values.entry(Metric::Transactions).and_modify(|done| *done *= 2.0);
        }
        report.runs.extend(runs);
        crate::examples::summarize(&mut report);
        let shown = Shown::of("oltp", &report);
        let said: Vec<String> = of_threads(&shown).iter().map(Piece::words).collect();
        assert!(said[1].starts_with("peer against own plain: throughput -60.0 %"), "{said:?}");
        let table = shown.pooled().unwrap().words();
        assert!(table.contains("peer against own plain") && table.contains("-60.0 %"), "{table}");
        assert!(!table.contains("-20.0 %") && !table.contains("+100 %"), "{table}");
    }

    #[test]
    fn sqlite_called_directly_is_a_base_of_its_own() {
        let report = crate::examples::messages_with_everything();
        let direct =
            |side, metric| report.summary.comparison("points", metric, side, "direct").unwrap();
        assert!((direct("off", Metric::ServerCpu).ratio - 2.0).abs() < 1e-4);
        assert!((direct("on", Metric::ServerCpu).ratio - 2.5).abs() < 1e-4);
        // It is not a connection that could cost more than the plain one.
        assert!(report.summary.comparisons.iter().all(|found| found.side != "direct"));
        assert_eq!(report.median("points", "direct", Metric::SwitchesEach), None);
    }
}
