//! The headline of a run: the mean over the classes that represent its work.

use crate::model::{Class, Experiment};

/// Returns the classes that represent the work of a run, and a name for them together: the user's
/// own statements, else the mixes (without the load phase), else the derived statements with warm
/// files, else all.
#[must_use]
pub fn headline_classes(classes: &[Class]) -> (String, Vec<&Class>) {
    let of = |fits: &dyn Fn(&Class) -> bool| -> Vec<&Class> {
        classes.iter().filter(|class| fits(class)).collect()
    };
    let script = of(&|class| class.id == "script/all");
    if !script.is_empty() {
        return ("your statements".to_owned(), script);
    }
    let mixes = of(&|class| class.experiment == Experiment::Crud && class.id != "crud/load");
    if let [first, ..] = mixes.as_slice() {
        let what = if mixes.len() == 1 {
            format!("CRUD {}", first.label)
        } else {
            format!("{} CRUD mixes", mixes.len())
        };
        return (what, mixes);
    }
    let names = ["select", "insert", "update", "delete"];
    let statements =
        of(&|class| names.iter().any(|name| class.id == format!("operations/{name}/warm")));
    if !statements.is_empty() {
        return ("statements on your tables, files in the system's cache".to_owned(), statements);
    }
    let all = of(&|_| true);
    match all.as_slice() {
        [one] => (one.label.clone(), all),
        _ => (format!("{} classes", all.len()), all),
    }
}

/// Classes that are reported together: their name, and a test for membership.
pub(crate) type Group = (&'static str, fn(&Class) -> bool);

/// In the order of the report.
pub(crate) const GROUPS: [Group; 6] = [
    ("Your statements", |class| class.experiment == Experiment::Script),
    ("CRUD mixes, several processes", |class| class.experiment == Experiment::Crud),
    ("Statements, index rebuild, backup", |class| {
        class.experiment == Experiment::Operations && !class.id.ends_with("/cold")
    }),
    ("The same with cold files", |class| {
        class.experiment == Experiment::Operations && class.id.ends_with("/cold")
    }),
    ("Scans and copies", |class| class.experiment == Experiment::Scans),
    ("SQLite's speedtest1", |class| class.experiment == Experiment::Speedtest),
];

#[cfg(test)]
mod tests {
    use crate::examples::summarize;
    use crate::examples::{embedded, two_algorithms};
    use crate::metric::Metric;
    use crate::model::Stopping;
    use crate::report::{Report, Run};

    #[test]
    fn the_headline_is_the_mean_over_the_mixes() {
        let mut report = embedded();
        let mut other = report.cells[0].clone();
        other.id = "crud/0-5-5".to_owned();
        report.cells.push(other);
        // The third restart lacks the second mix, and is left out.
        let more = report.runs.iter().filter(|run| run.restart < 2).map(|run| {
            let mut run = Run { cell: "crud/0-5-5".to_owned(), ..run.clone() };
            if run.side == "encrypted" {
                *run.values.get_mut(&Metric::Elapsed).unwrap() *= 1.3 / 1.1;
            }
            run
        });
        let more: Vec<Run> = more.collect();
        report.runs.extend(more);
        summarize(&mut report);
        let found = report.summary.headline(Metric::Elapsed, "encrypted", "base").unwrap();
        let wanted = (1.1_f64.ln() + 1.3_f64.ln()) / 2.0;
        assert!((found.ratio.ln() - wanted).abs() < 1e-4, "{}", found.ratio);
        assert_eq!((found.restarts, found.cells.len()), (2, 2));
    }

    #[test]
    fn what_is_too_wide_goes_on() {
        let mut report = embedded();
        let stopping = Stopping {
            first_restarts: 2,
            headline_ppm: 20_000,
            all_ppm: Some(10_000),
            reached: false,
        };
        let wide = |report: &Report| report.too_wide(&stopping, 0.95);
        assert_eq!(wide(&report), Vec::<String>::new());
        let noisy = report.runs.iter_mut().find(|run| run.side == "encrypted").unwrap();
        *noisy.values.get_mut(&Metric::Cpu).unwrap() *= 2.0;
        assert_eq!(wide(&report), ["crud/4-3-3"]);
        // A class in which a side does not take part is not waited for.
        let mut without = report.clone();
        without.runs.retain(|run| run.side != "encrypted");
        assert_eq!(wide(&without), Vec::<String>::new());
        // The headline does not wait for a further algorithm; a target of every class does.
        let mut further = two_algorithms(1.0).embedded.unwrap();
        let noisy = further.runs.iter_mut().find(|run| run.side == "second").unwrap();
        *noisy.values.get_mut(&Metric::Cpu).unwrap() *= 2.0;
        assert_eq!(wide(&further), ["crud/4-3-3"]);
        let heads = Stopping { all_ppm: None, ..stopping };
        assert_eq!(further.too_wide(&heads, 0.95), Vec::<String>::new());
        // One restart gives no interval, so everything continues.
        report.runs.retain(|run| run.restart == 0);
        assert_eq!(wide(&report), ["crud/4-3-3"]);
    }
}
