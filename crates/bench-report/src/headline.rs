//! What a run is about: the mean over the classes that stand for its work.

use crate::model::{Class, Experiment};

/// Classes that stand for the work of a run, and what they are together: the user's own statements,
/// else the mixes (without the load phase), else the derived statements with warm files, else all.
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
    let statements = of(&|class| {
        ["select", "insert", "update", "delete"]
            .iter()
            .any(|name| class.id == format!("operations/{name}/warm"))
    });
    if !statements.is_empty() {
        return ("statements on your tables, files in the system's cache".to_owned(), statements);
    }
    let all = of(&|_| true);
    match all.as_slice() {
        [one] => (one.label.clone(), all),
        _ => (format!("{} classes", all.len()), all),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::tests::example;
    use crate::model::{Metric, Results, Sample, Stopping};
    use crate::summary::sides_report;

    #[test]
    fn the_headline_is_the_mean_over_the_mixes() {
        let mut results = example();
        let mut other = results.classes[0].clone();
        other.id = "crud/0-5-5".to_owned();
        results.classes.push(other);
        let more: Vec<Sample> = results
            .samples
            .iter()
            // The third restart lacks the second mix, and is left out.
            .filter(|sample| sample.restart < 2)
            .map(|sample| {
                let mut sample = sample.clone();
                sample.class = "crud/0-5-5".to_owned();
                if sample.side == "encrypted" {
                    sample.elapsed_ns = sample.elapsed_ns / 110 * 130;
                }
                sample
            })
            .collect();
        results.samples.extend(more);
        crate::summarize(&mut results);
        let found = results.summary.headline(Metric::Elapsed, "encrypted", "base").unwrap();
        let wanted = (1.1_f64.ln() + 1.3_f64.ln()) / 2.0;
        assert!((found.ratio.ln() - wanted).abs() < 1e-4, "{}", found.ratio);
        assert_eq!((found.restarts, found.cells.len()), (2, 2));
    }

    #[test]
    fn what_is_too_wide_goes_on() {
        let mut results = example();
        let stopping = Stopping {
            first_restarts: 2,
            headline_ppm: 20_000,
            all_ppm: Some(10_000),
            reached: false,
        };
        let wide = |results: &Results| {
            let sides = sides_report(&results.sides, &results.classes, &results.samples);
            sides.too_wide(&stopping, 0.95)
        };
        assert_eq!(wide(&results), Vec::<String>::new());
        let noisy = results.samples.iter_mut().find(|sample| sample.side == "encrypted").unwrap();
        noisy.cpu_ns *= 2;
        assert_eq!(wide(&results), ["crud/4-3-3"]);
        // A class that a side takes no part in is not waited for.
        let mut without = results.clone();
        without.samples.retain(|sample| sample.side != "encrypted");
        assert_eq!(wide(&without), Vec::<String>::new());
        // One restart gives no interval, so all goes on.
        results.samples.retain(|sample| sample.restart == 0);
        assert_eq!(wide(&results), ["crud/4-3-3"]);
    }
}
