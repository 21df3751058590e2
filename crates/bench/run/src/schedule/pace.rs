//! Use of a run's time: the cells of each restart, and the duration of restarts.
//!
//! The headline is the subject of a run, so its classes have priority: they run in every restart.
//! The others run in as many as the remaining time allows. All of this depends on durations only,
//! never on results.

use std::collections::BTreeMap;
use std::time::Duration;

use tdekit_bench_report::Stopping;

/// Minimum number of restarts of the classes beside the headline: with fewer, intervals are
/// useless.
const LEAST_ALL: u32 = 3;
/// Maximum number of restarts of a run whose length follows from its intervals.
const MOST_RESTARTS: u32 = 5_000;

/// Limits on the length of a run of an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// Its name in a warning.
    pub(crate) what: &'static str,
    pub(crate) restarts: u32,
    pub(crate) pairs: u32,
    /// Time of measuring after which nothing begins.
    pub(crate) max_time: Duration,
    /// Restarts that run regardless of the time limit.
    pub(crate) least: u32,
    /// True if the time limit may end a restart between two cells. They are in random order, so the
    /// omitted ones are not biased.
    pub(crate) by_cell: bool,
    /// Restarts beyond `restarts` continue until this is reached.
    pub(crate) stopping: Option<Stopping>,
}

/// The cells that a restart runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every class.
    All,
    /// The classes of the headline.
    Heads,
    /// Those whose intervals are still too wide.
    Wanting,
}

/// The classes of each restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Number of classes of a whole restart, and of one of the headline alone.
    tasks: (usize, usize),
    /// Number of restarts with every class.
    all: u32,
    /// Number of restarts of the first stage of the headline.
    first: u32,
    /// True if restarts continue after the first stage.
    open: bool,
    /// True if the headline has separate restarts.
    apart: bool,
}

impl Plan {
    /// Returns the plan of a run with this many tasks, and this many of them for the headline.
    pub(super) fn of(length: &Length, tasks: usize, heads: usize) -> Self {
        let first = length.stopping.map_or(length.restarts, |plan| plan.first_restarts);
        let first = first.max(length.restarts);
        let others_wanted = length.stopping.is_some_and(|plan| plan.all_ppm.is_some());
        let apart = first > length.restarts && heads < tasks && heads > 0 && !others_wanted;
        Self {
            tasks: (tasks, heads),
            all: if apart { length.restarts } else { first },
            first,
            open: length.stopping.is_some(),
            apart,
        }
    }

    /// Returns the maximum number of restarts.
    pub(super) fn most(&self) -> u32 {
        if self.open { MOST_RESTARTS } else { self.first }
    }

    /// Returns the restarts of the first stage.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Returns the cells of a restart. The second one runs the headline alone, so that its duration
    /// is known early.
    pub(super) fn kind(&self, number: u32) -> Kind {
        match number {
            1 if self.apart => Kind::Heads,
            number if number < self.all + u32::from(self.apart && number > 1) => Kind::All,
            number if number < self.first => Kind::Heads,
            _ => Kind::Wanting,
        }
    }

    /// Returns the rounds of single tasks in the first stage.
    pub(super) fn steps(&self, pairs: u32) -> u64 {
        let (tasks, heads) = (self.tasks.0 as u64, self.tasks.1 as u64);
        let alone = u64::from(self.first.saturating_sub(self.all));
        u64::from(pairs) * (u64::from(self.all) * tasks + alone * heads)
    }

    /// Returns how long the restarts of the first stage after restart `number` take at this pace.
    pub(super) fn rest(&self, number: u32, pace: &Pace) -> Duration {
        let tasks = |number| match self.kind(number) {
            Kind::All => self.tasks.0,
            Kind::Heads | Kind::Wanting => self.tasks.1,
        };
        (number + 1..self.first).map(|number| pace.expected(tasks(number))).sum()
    }

    /// After the second restart: leaves the classes beside the headline as many restarts as fit
    /// into the time `left`. Returns a warning if these are fewer than planned.
    pub(super) fn fit(&mut self, number: u32, left: Duration, pace: &Pace) -> Option<String> {
        if !self.apart || number != 1 {
            return None;
        }
        let planned = self.all;
        let (whole, alone) = (pace.expected(self.tasks.0), pace.expected(self.tasks.1));
        // One of each is finished.
        let needed = |all: u32| whole * (all - 1) + alone * (self.first - 1).saturating_sub(all);
        let least = LEAST_ALL.min(planned);
        self.all = (least..=planned).rev().find(|all| needed(*all) <= left).unwrap_or(least);
        (self.all < planned).then(|| {
            format!(
                "The time limit left the classes beside the headline {} of {planned} restarts: \
                 --max-time gives more.",
                self.all
            )
        })
    }
}

/// Durations of restarts, by the number of their tasks.
#[derive(Debug, Default)]
pub(super) struct Pace {
    longest: BTreeMap<usize, Duration>,
}

impl Pace {
    /// Returns an upper bound of the duration of a restart with this many tasks.
    pub(super) fn expected(&self, tasks: usize) -> Duration {
        match self.longest.range(tasks..).next() {
            Some((known, longest)) if *known == tasks => *longest,
            Some((more, longest)) => longest.mul_f64(tasks as f64 / *more as f64),
            None => self.longest.values().next_back().copied().unwrap_or_default(),
        }
    }

    /// Records the duration of a restart with this many tasks.
    pub(super) fn note(&mut self, took: Duration, tasks: usize) {
        let longest = self.longest.entry(tasks).or_default();
        *longest = took.max(*longest);
    }
}

/// Returns the number of pairs in each restart with which all restarts end in the remaining time,
/// at least one. `first` is the duration of the first restart so far, and that of its first pair.
pub(super) fn affordable_pairs(
    length: &Length,
    left: Duration,
    (first, round): (Duration, Duration),
) -> u32 {
    let restarts = f64::from(length.restarts.max(1));
    let fixed = first.saturating_sub(round).as_secs_f64();
    let each = round.as_secs_f64().max(1e-6);
    let most = (left.as_secs_f64() / restarts - fixed) / each;
    (1..=length.pairs).rev().find(|pairs| f64::from(*pairs) <= most).unwrap_or(1)
}

/// The warning of a run that has only this many pairs in each restart.
pub(super) fn fewer_pairs(length: &Length, pairs: u32) -> Option<String> {
    (pairs < length.pairs)
        .then(|| format!("The time limit left {pairs} of {} pairs a restart.", length.pairs))
}

/// The warning of a run that the time limit ended before restart `number`, from 0.
pub(super) fn time_is_up(length: &Length, plan: &Plan, number: u32) -> String {
    if number < plan.first() {
        format!("The time limit ended {} after {number} of {} restarts.", length.what, plan.first())
    } else {
        format!(
            "The time limit ended {} after {number} restarts, before all intervals were as narrow \
             as wanted: --max-time gives more, a quieter machine needs less.",
            length.what
        )
    }
}

/// The warning of a run that the time limit ended within restart `number`, from 0.
pub(super) fn cut_short(length: &Length, number: u32) -> String {
    if number >= length.restarts {
        return format!(
            "The time limit ended {} in restart {}, before all intervals were as narrow as \
             wanted: --max-time gives more.",
            length.what,
            number + 1
        );
    }
    let scarce = if number < 3 {
        " Intervals need two, and are wide with few: --max-time gives more."
    } else {
        ""
    };
    format!(
        "The time limit ended {} in restart {} of {}.{scarce}",
        length.what,
        number + 1,
        length.restarts
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn length() -> Length {
        Length {
            what: "the run",
            restarts: 8,
            pairs: 3,
            max_time: Duration::from_secs(150),
            least: 2,
            by_cell: false,
            stopping: crate::cli::tests::config().stopping,
        }
    }

    fn kinds(plan: &Plan) -> String {
        let name = |number| match plan.kind(number) {
            Kind::All => 'a',
            Kind::Heads => 'h',
            Kind::Wanting => 'w',
        };
        (0..14).map(name).collect()
    }

    #[test]
    fn the_headline_runs_in_every_restart() {
        let length = length();
        let plan = Plan::of(&length, 20, 3);
        assert_eq!(kinds(&plan), "ahaaaaaaahhhww");
        assert_eq!(plan.steps(3), 3 * (8 * 20 + 4 * 3));
        // Nothing beside the headline.
        assert_eq!(kinds(&Plan::of(&length, 3, 3)), "aaaaaaaaaaaaww");
        let mut precise = length;
        precise.stopping = precise.stopping.map(|plan| tdekit_bench_report::Stopping {
            first_restarts: 8,
            all_ppm: Some(10_000),
            ..plan
        });
        assert_eq!(kinds(&Plan::of(&precise, 20, 3)), "aaaaaaaawwwwww");
        let mut fixed = length;
        fixed.stopping = None;
        let plan = Plan::of(&fixed, 20, 3);
        assert_eq!((kinds(&plan), plan.most()), ("aaaaaaaawwwwww".to_owned(), 8));
    }

    #[test]
    fn what_stands_beside_the_headline_gives_way() {
        let length = length();
        let fit = |whole, alone, left| {
            let mut plan = Plan::of(&length, 20, 3);
            let mut pace = Pace::default();
            pace.note(seconds(whole), 20);
            assert_eq!(plan.fit(0, seconds(0.0), &pace), None);
            pace.note(seconds(alone), 3);
            let told = plan.fit(1, seconds(left), &pace);
            assert_eq!(told.is_some(), plan.all < 8, "{told:?}");
            (plan.all, kinds(&plan))
        };
        // Seven whole ones and three others are left.
        assert_eq!(fit(11.0, 5.0, 92.0).0, 8);
        assert_eq!(fit(11.0, 5.0, 91.0).0, 7);
        assert_eq!(fit(20.0, 9.0, 123.0), (4, "ahaaahhhhhhhww".to_owned()));
        assert_eq!(fit(20.0, 9.0, 122.0), (3, "ahaahhhhhhhhww".to_owned()));
        assert_eq!(fit(60.0, 25.0, 65.0).0, 3);
    }

    #[test]
    fn pairs_are_cut_to_the_time_left() {
        let mut length = length();
        length.restarts = 5;
        length.pairs = 4;
        let cut = |left| affordable_pairs(&length, seconds(left), (seconds(3.0), seconds(2.0)));
        // A restart costs 1 s and each pair 2 s.
        assert_eq!(cut(1000.0), 4);
        assert_eq!(cut(5.0 * 9.0), 4);
        assert_eq!(cut(5.0 * 7.0), 3);
        assert_eq!(cut(1.0), 1);
    }

    #[test]
    fn the_rest_is_that_of_the_first_stage() {
        let plan = Plan::of(&length(), 20, 3);
        let mut pace = Pace::default();
        pace.note(seconds(20.0), 20);
        pace.note(seconds(9.0), 3);
        // Of eight whole ones and four of the headline alone.
        assert_eq!(plan.rest(0, &pace), seconds(7.0 * 20.0 + 4.0 * 9.0));
        assert_eq!(plan.rest(10, &pace), seconds(9.0));
        assert_eq!(plan.rest(11, &pace), Duration::ZERO);
        assert_eq!(plan.rest(20, &pace), Duration::ZERO);
    }

    #[test]
    fn fewer_tasks_take_less() {
        let mut pace = Pace::default();
        assert_eq!(pace.expected(9), Duration::ZERO);
        pace.note(seconds(6.0), 12);
        pace.note(seconds(4.0), 12);
        assert_eq!(pace.expected(12), seconds(6.0));
        assert_eq!(pace.expected(15), seconds(6.0));
        assert_eq!(pace.expected(3), seconds(1.5));
        pace.note(seconds(2.0), 3);
        assert_eq!(pace.expected(3), seconds(2.0));
        assert_eq!(pace.expected(12), seconds(6.0));
    }
}
