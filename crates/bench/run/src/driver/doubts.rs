//! Doubts about figures, and remedies.

use std::time::Duration;

use tdekit_bench_report::{Environment, Metric, Noise, Report, Results, Run};

/// Minimum load (one minute) over processors for a warning.
const BUSY_LOAD: f64 = 0.5;
/// Minimum share of other programs for a warning.
const BUSY_SHARE: f64 = 0.1;
/// Minimum share of stolen time for a warning.
const STOLEN_SHARE: f64 = 0.01;
/// Minimum ratio of highest to lowest frequency for a warning.
const FREQUENCY_SPREAD: f64 = 1.2;
/// Minimum share of the driver for a warning.
const DRIVER_SHARE: f64 = 0.03;
/// Minimum duration of a block, in steps of the clock.
const STEPS: u32 = 1_000;

/// Returns all facts that reduce the reliability of figures.
pub(super) fn doubts(results: &Results, block_time: Duration) -> Vec<String> {
    let mut doubts = Vec::new();
    doubts.extend(busy(&results.environment));
    // A server on this machine counts as another program, although the run drives it.
    let known = |noise: &Noise| match results.server {
        Some(_) => Noise { others: 0.0, ..*noise },
        None => *noise,
    };
    doubts.extend(results.noise.iter().flat_map(|noise| noisy(&known(noise))));
    doubts.extend(coarse(&results.environment, block_time));
    doubts.extend(results.embedded.iter().flat_map(of_blocks));
    if results.settings.rate_per_s.is_some() {
        doubts.push(
            "Operations came at a fixed rate, so elapsed time says nothing: look at CPU and \
             latency."
                .to_owned(),
        );
    }
    doubts
}

/// Cold files that were warm, first pairs that differ, and a driver with a large share.
fn of_blocks(report: &Report) -> Vec<String> {
    let mut doubts: Vec<String> = warm(&report.runs).into_iter().collect();
    for found in &report.warm_up {
        if let Some((low, high)) = found.first_pair_interval
            && !(low..=high).contains(&1.0)
        {
            doubts.push(format!(
                "The first pairs of {} differ from the later ones by {:+.1} %: its warm-up was too \
                 short. More --pairs make that weigh less.",
                found.class,
                (found.first_pair.unwrap_or(1.0) - 1.0) * 100.0
            ));
        }
    }
    if let Some(most) = report.driver.iter().max_by(|one, other| one.share.total_cmp(&other.share))
        && most.share > DRIVER_SHARE
    {
        doubts.push(format!(
            "The driver takes {:.1} % of the CPU in {}; the true overhead is larger than shown by \
             as large a part of it.",
            most.share * 100.0,
            most.class
        ));
    }
    doubts
}

fn busy(environment: &Environment) -> Option<String> {
    let load: f64 = environment.load_average.parse().unwrap_or(0.0);
    let processors = environment.cpus;
    let most = BUSY_LOAD * f64::from(u32::try_from(processors).unwrap_or(u32::MAX));
    (load > most).then(|| {
        format!(
            "The machine was busy at the start: load average {load} on {processors} processors. \
             Intervals are wider for it; run again when it is quiet."
        )
    })
}

fn noisy(noise: &Noise) -> Vec<String> {
    let mut doubts = Vec::new();
    if noise.others > BUSY_SHARE {
        doubts.push(format!(
            "Other programs took {:.0} % of the processors meanwhile: stop them, or give the run \
             more time (--max-time).",
            noise.others * 100.0
        ));
    }
    if noise.steal > STOLEN_SHARE {
        doubts.push(format!(
            "The host took {:.1} % of the processors' time for other machines: run on a dedicated \
             one, or trust CPU more than elapsed time.",
            noise.steal * 100.0
        ));
    }
    if let Some((low, high)) = noise.frequency_mhz
        && high as f64 > low as f64 * FREQUENCY_SPREAD
    {
        doubts.push(format!(
            "The processors ran at {low} to {high} MHz: a fixed frequency makes intervals narrower \
             (cpupower frequency-set --governor performance)."
        ));
    }
    doubts
}

fn coarse(environment: &Environment, block_time: Duration) -> Option<String> {
    let step = Duration::from_nanos(environment.clock_step_ns);
    (step * STEPS > block_time).then(|| {
        format!(
            "The clock ({}) moves in steps of {} us: short blocks cannot be told apart. Choose a \
             finer clock source, or longer blocks (--loops).",
            environment.clock_source,
            step.as_micros()
        )
    })
}

fn warm(runs: &[Run]) -> Option<String> {
    let mut cold = runs.iter().filter(|run| run.cell.ends_with("select/cold")).peekable();
    let unread = |run: &Run| run.value(Metric::DeviceRead).unwrap_or(0.0) == 0.0;
    (cold.peek().is_some() && cold.filter(|run| run.statement.is_none()).all(unread)).then(|| {
        "The file system kept its cache: the cold classes read nothing from a device. \
         --drop-caches (as root) empties the system's cache, or --dir names a directory on a disk."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_comes_with_a_remedy() {
        let calm = Noise {
            steal: 0.0,
            others: 0.05,
            load_start: 0.1,
            load_end: 0.5,
            frequency_mhz: Some((3000, 3100)),
        };
        assert_eq!(noisy(&calm), Vec::<String>::new());
        let loud = Noise { steal: 0.2, others: 0.4, frequency_mhz: Some((1200, 3600)), ..calm };
        let doubts = noisy(&loud).join(" ");
        for wanted in ["--max-time", "dedicated", "governor performance", "40 %", "20.0 %"] {
            assert!(doubts.contains(wanted), "{wanted} is missing in {doubts}");
        }
    }

    #[test]
    fn a_server_that_is_driven_is_no_noise() {
        let noise =
            Noise { steal: 0.0, others: 0.7, load_start: 0.1, load_end: 0.5, frequency_mhz: None };
        let mut results = Results { noise: Some(noise), ..Results::default() };
        let told = |results: &Results| doubts(results, Duration::from_secs(1)).join(" ");
        assert!(told(&results).contains("Other programs"));
        results.server = Some(Report::default());
        assert!(!told(&results).contains("Other programs"));
    }

    #[test]
    fn a_coarse_clock_is_told() {
        let block = Duration::from_millis(250);
        let mut environment = Environment {
            clock_source: "jiffies".to_owned(),
            clock_step_ns: 40,
            ..Environment::default()
        };
        assert_eq!(coarse(&environment, block), None);
        environment.clock_step_ns = 4_000_000;
        assert!(
            coarse(&environment, block).unwrap().contains("jiffies) moves in steps of 4000 us")
        );
    }
}
