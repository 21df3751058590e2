//! When commits were seen, in a bounded number of marks.
//!
//! A mark is the end of a log and the time at which a look found it there: everything before it was
//! committed by then. A transaction has the time of the first mark that it lies before, which is
//! never earlier than its commit, and later by no more than the time between two looks. Where marks
//! are many, some are merged into the next one: their transactions get a later time.

use std::sync::Mutex;

use super::keeper::{Index, Keeper};
use crate::labels::now_ms;
use crate::output::lock;

/// Most marks that are kept, 1 MiB of them: those of eleven minutes in which each look finds
/// commits.
const MOST: usize = 1 << 16;
/// First time within which marks are merged once there are too many.
const FIRST_STEP_MS: i64 = 20;

/// The marks of one log.
#[derive(Debug)]
pub(super) struct Marks {
    salts: [u8; 8],
    /// Frames that have no mark any more: their transactions were read.
    read: u32,
    /// Numbers of frames, and the times at which that many were seen first, both ascending.
    all: Vec<(u32, i64)>,
    /// Marks that follow each other within this time are merged.
    step_ms: i64,
    /// The latest time. Times never fall, whatever the clock does.
    latest_ms: i64,
    most: usize,
}

impl Default for Marks {
    fn default() -> Self {
        Self { salts: [0; 8], read: 0, all: Vec::new(), step_ms: 0, latest_ms: 0, most: MOST }
    }
}

impl Marks {
    /// Takes note that the log with these salts had so many frames at a time.
    fn see(&mut self, salts: [u8; 8], frames: u32, at_ms: i64) {
        if salts != self.salts {
            // The log was started anew.
            let Self { latest_ms, most, .. } = *self;
            *self = Self { salts, latest_ms, most, ..Self::default() };
        }
        if frames <= self.all.last().map_or(self.read, |last| last.0) {
            return;
        }
        self.latest_ms = self.latest_ms.max(at_ms);
        self.put((frames, self.latest_ms));
        while self.all.len() > self.most {
            self.merge();
        }
    }

    /// Adds a mark. It takes the place of the last one if that leaves no longer time than the step
    /// between two marks.
    fn put(&mut self, mark: (u32, i64)) {
        if let [.., (_, before_ms), last] = self.all.as_mut_slice()
            && mark.1 - *before_ms < self.step_ms
        {
            *last = mark;
        } else {
            self.all.push(mark);
        }
    }

    /// Merges marks until half of the most are left.
    fn merge(&mut self) {
        while self.all.len() > self.most / 2 {
            self.step_ms = (self.step_ms * 2).max(FIRST_STEP_MS);
            let all = std::mem::take(&mut self.all);
            all.into_iter().for_each(|mark| self.put(mark));
        }
    }

    /// Returns the time at which so many frames of a log were seen first.
    pub(super) fn time_of(&self, salts: [u8; 8], frames: u32) -> Option<i64> {
        let at = self.all.partition_point(|mark| mark.0 < frames);
        self.all.get(at).filter(|_| salts == self.salts).map(|mark| mark.1)
    }

    /// Drops the marks of frames that were read.
    pub(super) fn read_to(&mut self, salts: [u8; 8], frames: u32) {
        if salts != self.salts {
            return;
        }
        self.read = self.read.max(frames);
        self.all.retain(|mark| mark.0 > frames);
        if self.all.is_empty() {
            (self.all, self.step_ms) = (Vec::new(), 0);
        }
    }
}

/// Reads the index of a log, and notes its end. Looks from several threads are noted in their
/// order.
pub(super) fn look(marks: &Mutex<Marks>, keeper: &mut Keeper) -> Option<Index> {
    let mut marks = lock(marks);
    let index = keeper.index()?;
    // Behind the index: no commit that it shows is later.
    marks.see(index.salts, index.frames, now_ms());
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: [u8; 8] = [1; 8];

    fn few() -> Marks {
        Marks { most: 64, ..Marks::default() }
    }

    #[test]
    fn a_transaction_has_the_time_of_the_first_look_behind_it() {
        let mut marks = few();
        for (frames, at_ms) in [(2, 100), (2, 110), (7, 120), (8, 90), (9, 130)] {
            marks.see(LOG, frames, at_ms);
        }
        let times = [1, 2, 3, 7, 8, 9, 10].map(|frames| marks.time_of(LOG, frames));
        let wanted = [Some(100), Some(100), Some(120), Some(120), Some(120), Some(130), None];
        assert_eq!(times, wanted);
        assert_eq!(marks.time_of([2; 8], 1), None);
        marks.read_to(LOG, 7);
        marks.see(LOG, 7, 200);
        assert_eq!((marks.all.len(), marks.time_of(LOG, 8)), (2, Some(120)));
        // The log was started anew: what was read of the last one says nothing.
        marks.see([2; 8], 1, 50);
        assert_eq!((marks.time_of([2; 8], 1), marks.time_of(LOG, 9)), (Some(130), None));
    }

    /// However many there are: the number is bounded, and times are late by less than the step.
    #[test]
    fn merged_marks_are_never_early_and_late_by_less_than_a_step() {
        for (pause, looks) in [(10, 63), (10, 65), (10, 1000), (10, 100_000), (7, 3000), (0, 500)] {
            let mut marks = few();
            let time = |frames: u32| 1000 + i64::from(frames) * pause;
            for frames in 1..=looks {
                marks.see(LOG, frames, time(frames));
                assert!(marks.all.len() <= 64, "{}", marks.all.len());
            }
            let span = i64::from(looks) * pause;
            assert!(marks.step_ms <= FIRST_STEP_MS.max(span / 8), "{} {span}", marks.step_ms);
            for frames in 1..=looks {
                let late = marks.time_of(LOG, frames).unwrap() - time(frames);
                assert!((0..=marks.step_ms).contains(&late), "{frames} of {looks}: {late}");
            }
            // Everything was read: the next ones are exact again.
            marks.read_to(LOG, looks);
            marks.see(LOG, looks + 1, time(looks) + 3);
            marks.see(LOG, looks + 2, time(looks) + 4);
            marks.see(LOG, looks + 3, time(looks) + 5);
            assert_eq!(marks.time_of(LOG, looks + 2), Some(time(looks) + 4));
        }
    }

    /// Pauses without commits cost no precision before or behind them.
    #[test]
    fn marks_far_from_each_other_stay() {
        let mut marks = few();
        let time = |frames: u32| i64::from(frames) * 10 + i64::from(frames / 50) * 1_000_000;
        for frames in 1..=100 {
            marks.see(LOG, frames, time(frames));
        }
        for frames in 1..=100 {
            let late = marks.time_of(LOG, frames).unwrap() - time(frames);
            assert!((0..100).contains(&late), "{frames}: {late}");
        }
    }
}
