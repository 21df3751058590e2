//! What a trial measures: its writers, commits one by one, restores.

use std::time::Duration;

use tdekit_bench_report::{Class, Experiment};

use super::writers::Load;
use crate::experiment::class;
use crate::plan::Config;

pub(super) const PACED: &str = "replicate/paced";
pub(super) const WRITE: &str = "replicate/write";
pub(super) const SAFE: &str = "replicate/safe";
pub(super) const RESTORE: &str = "replicate/restore";
pub(super) const CHECKED: &str = "replicate/checked";

const WRITERS: u32 = 2;
/// Commits that are watched one by one: with `--quick`, and by default.
const PROBES: (u32, u32) = (5, 20);

/// How much is done in a trial.
pub(super) struct Plan {
    full: u32,
    paced: u32,
    per_second: u64,
    pub(super) probes: u32,
}

impl Plan {
    pub(super) fn of(config: &Config) -> Self {
        let of = &config.replicate;
        let probes = config.given.basics.by_quick(PROBES);
        let each = |all: u32| all.div_ceil(WRITERS);
        Self { full: each(of.full), paced: each(of.paced), per_second: of.per_second, probes }
    }

    /// Returns the writers in their order, each with the cell of its figures: first those at a
    /// rate, as long as the follower has nothing to catch up with.
    pub(super) fn loads(&self) -> Vec<(&'static str, Load)> {
        let interval = Duration::from_secs(1) * WRITERS;
        let interval = interval.div_f64(crate::numbers::float(self.per_second.max(1)));
        let load = |transactions, interval| Load { writers: WRITERS, transactions, interval };
        let all = [
            (PACED, load(self.paced, interval.max(Duration::from_nanos(1)))),
            (WRITE, load(self.full, Duration::ZERO)),
        ];
        all.into_iter().filter(|(_, load)| load.transactions > 0).collect()
    }

    /// Returns the number of transactions of a trial.
    pub(super) fn transactions(&self) -> u64 {
        u64::from(self.full + self.paced) * u64::from(WRITERS) + u64::from(self.probes)
    }

    pub(super) fn cells(&self) -> Vec<Class> {
        let cell =
            |id, label, what: String, sized| class(Experiment::Replicate, (id, label), what, sized);
        let log = format!(
            "the last state, to a new file, from a full set and {} transactions",
            self.transactions()
        );
        let writers = self.loads().into_iter().map(|(id, load)| match id {
            WRITE => {
                let what = format!(
                    "{WRITERS} writers without a pause, {} transactions each",
                    load.transactions
                );
                let all = u64::from(load.transactions) * u64::from(WRITERS);
                cell(id, "writers, full", what, (all, "transaction"))
            }
            // Without a number of operations: the rate is the same on all sides.
            _ => cell(
                id,
                "writers, paced",
                format!(
                    "{WRITERS} writers, {} transactions each, {} a second together; their time is \
                     that in transactions",
                    load.transactions, self.per_second
                ),
                (0, "transaction"),
            ),
        });
        let others = [
            cell(
                SAFE,
                "commit to archive",
                format!("{} commits, each until its object is in the archive", self.probes),
                (self.probes.into(), "commit"),
            ),
            cell(RESTORE, "restore", log, (1, "restore")),
            cell(
                CHECKED,
                "restore, checked",
                "the same, and SQLite's integrity_check of it".to_owned(),
                (1, "restore"),
            ),
        ];
        writers.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::config_of;

    fn plan(words: &[&str]) -> Plan {
        Plan::of(&config_of(&[&["--experiment", "replicate"], words].concat()).unwrap())
    }

    #[test]
    fn writers_at_a_rate_come_first_and_either_can_be_left_out() {
        let usual = plan(&["--rate", "500"]);
        let loads = usual.loads();
        assert_eq!(loads.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [PACED, WRITE]);
        assert_eq!(loads[0].1.interval, Duration::from_millis(4), "of each of two");
        assert_eq!((loads[0].1.transactions, loads[1].1.transactions), (5_000, 20_000));
        assert!(loads[1].1.interval.is_zero());
        assert_eq!(usual.transactions(), 50_020);
        let ids: Vec<_> = usual.cells().into_iter().map(|cell| cell.id).collect();
        assert_eq!(ids, [PACED, WRITE, SAFE, RESTORE, CHECKED]);
        let day = plan(&["--transactions", "0", "--paced-transactions", "86400"]);
        let cells = day.cells();
        assert_eq!(cells.iter().filter(|cell| cell.label.starts_with("writers")).count(), 1);
        assert!(cells[2].what.contains("86420 transactions"), "{}", cells[2].what);
    }
}
