//! Orders to a running test, and their effects.

use tdekit_bench_report::ThinkTime;

use crate::control::{Listener, Order};
use crate::generate::Mix;

/// Receives orders. They apply to all later restarts too.
#[derive(Default)]
pub(crate) struct Steering {
    listener: Option<Listener>,
    /// True if the current work has parameters that an order can change.
    pub(crate) has_mixes: bool,
    mix: Option<Mix>,
    think_time: Option<ThinkTime>,
    stopped: bool,
    /// Incremented with each change of a parameter.
    version: u64,
    /// Version of each side's control table.
    applied: Vec<u64>,
    /// Notes for the reader of the results.
    pub(crate) notes: Vec<String>,
    /// Current position of the run, for status queries.
    pub(crate) place: String,
}

impl Steering {
    pub(crate) fn start() -> Self {
        Self { listener: Listener::start(), ..Self::deaf() }
    }

    /// Returns one that receives no orders.
    pub(crate) fn deaf() -> Self {
        Self::default()
    }

    /// Fresh copies have the original control table.
    pub(crate) fn begin_restart(&mut self, sides: usize) {
        self.applied = vec![0; sides];
    }

    /// Processes the pending orders; returns true if a parameter changed or the test must stop.
    pub(crate) fn take_orders(&mut self) -> bool {
        let mut changed = false;
        while let Some(received) = self.listener.as_ref().and_then(Listener::next) {
            let answer = match &received.order {
                Order::Status => Ok(self.place.clone()),
                Order::Stop => {
                    self.stopped = true;
                    changed = true;
                    Ok("stopping; what was measured is kept".to_owned())
                }
                Order::Set { .. } if !self.has_mixes => {
                    Err("it runs no mixes, whose parameters could be changed".to_owned())
                }
                Order::Set { mix, think_time } => {
                    self.mix = mix.or(self.mix);
                    self.think_time = think_time.or(self.think_time);
                    changed = true;
                    Ok(self.note(*mix, *think_time))
                }
            };
            received.answer(&answer);
        }
        self.version += u64::from(changed);
        changed
    }

    fn note(&mut self, mix: Option<Mix>, think_time: Option<ThinkTime>) -> String {
        let mut what = Vec::new();
        if let Some(mix) = mix {
            what.push(format!("the mix {}", mix.id().replace('-', "/")));
        }
        if let Some(think) = think_time {
            what.push(if think.every_loops == 0 {
                "no think time".to_owned()
            } else {
                format!("{} ms of think time every {} loops", think.pause_ms, think.every_loops)
            });
        }
        let what = what.join(" and ");
        self.notes.push(format!("`--control` set {what} in {}.", self.place));
        format!("it goes on with {what}; the pair at hand is measured anew")
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns statements that apply the orders to a side's control table, unless it is up to date.
    /// They must be executed.
    pub(crate) fn statements(&mut self, side: usize) -> Vec<String> {
        let Some(applied) = self.applied.get_mut(side).filter(|at| **at != self.version) else {
            return Vec::new();
        };
        *applied = self.version;
        let mut sets = Vec::new();
        if let Some(mix) = self.mix {
            sets.push(format!(
                "Reads = {}, Updates = {}, Inserts = {}, Loads = {}",
                mix.reads,
                mix.updates,
                mix.inserts,
                u32::from(mix.load)
            ));
        }
        if let Some(think) = self.think_time {
            sets.push(format!("DelayEvery = {}, DelayMs = {}", think.every_loops, think.pause_ms));
        }
        sets.push(format!("Stop = {}", u32::from(self.stopped)));
        vec![format!("UPDATE Control SET {}", sets.join(", "))]
    }

    /// Has the effect of an order.
    #[cfg(test)]
    pub(crate) fn order_mix(&mut self, mix: Mix) {
        self.mix = Some(mix);
        self.version += 1;
    }

    /// Returns the mix that was ordered.
    pub(crate) fn mix(&self) -> Option<Mix> {
        self.mix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_each_side_once_and_each_restart_anew() {
        let mut steering = Steering::deaf();
        steering.begin_restart(2);
        assert!(steering.statements(0).is_empty());
        steering.order_mix("0/5/5".parse().unwrap());
        let [sql] = steering.statements(1).try_into().unwrap();
        assert!(sql.contains("Updates = 5") && sql.contains("Stop = 0"), "{sql}");
        assert!(steering.statements(1).is_empty());
        assert_eq!(steering.statements(0).len(), 1);
        steering.begin_restart(2);
        assert_eq!(steering.statements(0).len(), 1);
    }
}
