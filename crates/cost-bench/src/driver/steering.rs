//! Orders to a running test, and what became of them.

use tdekit_cost_report::{Class, ThinkTime};

use super::classes::{self, Task, Work};
use crate::config::Config;
use crate::control::{Listener, Order};
use crate::generate::Mix;

/// Takes orders. What was ordered holds for all later restarts too.
pub(super) struct Steering {
    listener: Option<Listener>,
    mix: Option<Mix>,
    think_time: Option<ThinkTime>,
    stopped: bool,
    /// Rises with each change of a parameter.
    version: u64,
    /// Version that each side's control table is at.
    applied: Vec<u64>,
    /// Classes that an order brought.
    brought: Vec<Class>,
    /// What a reader must know of the run.
    pub(super) notes: Vec<String>,
    /// Where the run stands, for whoever asks.
    pub(super) place: String,
}

impl Steering {
    pub(super) fn start() -> Self {
        Self { listener: Listener::start(), ..Self::deaf() }
    }

    /// Hears nothing.
    pub(super) fn deaf() -> Self {
        Self {
            listener: None,
            mix: None,
            think_time: None,
            stopped: false,
            version: 0,
            applied: Vec::new(),
            brought: Vec::new(),
            notes: Vec::new(),
            place: String::new(),
        }
    }

    /// Fresh copies hold the control table as it was made.
    pub(super) fn begin_restart(&mut self, sides: usize) {
        self.applied = vec![0; sides];
    }

    /// Takes the orders that have come; true when a parameter changed or the test is to stop.
    pub(super) fn take_orders(&mut self, has_mixes: bool) -> bool {
        let mut changed = false;
        while let Some(received) = self.listener.as_ref().and_then(Listener::next) {
            let answer = match &received.order {
                Order::Status => Ok(self.place.clone()),
                Order::Stop => {
                    self.stopped = true;
                    changed = true;
                    Ok("stopping; what was measured is kept".to_owned())
                }
                Order::Set { .. } if !has_mixes => {
                    Err("it runs no mixes, whose parameters could be changed".to_owned())
                }
                Order::Set { mix, think_time } => {
                    self.mix = mix.or(self.mix);
                    self.think_time = think_time.or(self.think_time);
                    changed = true;
                    Ok(self.note(*mix, *think_time))
                }
            };
            received.answer(answer);
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

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Statements that bring a side's control table to what was ordered, unless it is there. They
    /// must be run.
    pub(super) fn statements(&mut self, side: usize) -> Vec<String> {
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

    /// The tasks as ordered: another mix takes the place of all mixes.
    pub(super) fn tasks(&mut self, config: &Config, tasks: &[Task]) -> Vec<Task> {
        let Some(mix) = self.mix else { return tasks.to_vec() };
        let (mixes, mut now): (Vec<Task>, Vec<Task>) =
            tasks.iter().cloned().partition(|task| matches!(task.work, Work::Crud { .. }));
        let id = classes::crud_id(&mix);
        let own = mixes.iter().find(|task| task.class.id == id).cloned();
        let least = mixes.iter().filter_map(|task| match task.work {
            Work::Crud { loops, .. } => Some(loops),
            _ => None,
        });
        let brought = || least.min().map(|loops| classes::crud_task(config, &mix, (1, loops)));
        if let Some(task) = own.clone().or_else(brought) {
            if own.is_none() && !self.brought.contains(&task.class) {
                self.brought.push(task.class.clone());
            }
            now.push(task);
        }
        now
    }

    /// Classes that an order brought beside the run's own.
    pub(super) fn brought(&self) -> &[Class] {
        &self.brought
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
        steering.mix = Some("0/5/5".parse().unwrap());
        steering.version = 1;
        let [sql] = steering.statements(1).try_into().unwrap();
        assert!(sql.contains("Updates = 5") && sql.contains("Stop = 0"), "{sql}");
        assert!(steering.statements(1).is_empty());
        assert_eq!(steering.statements(0).len(), 1);
        steering.begin_restart(2);
        assert_eq!(steering.statements(0).len(), 1);
    }

    #[test]
    fn another_mix_takes_the_place_of_all() {
        let config = crate::cli::tests::config();
        let tasks = classes::crud(&config, &[10, 20, 30, 40]);
        let mut steering = Steering::deaf();
        assert_eq!(steering.tasks(&config, &tasks).len(), 4);
        steering.mix = Some("0/5/5".parse().unwrap());
        let [own] = steering.tasks(&config, &tasks).try_into().unwrap_or_else(|_| panic!());
        assert_eq!(own.class.operations, tasks[2].class.operations);
        assert!(steering.brought().is_empty());
        steering.mix = Some("2/4/4".parse().unwrap());
        let [new] = steering.tasks(&config, &tasks).try_into().unwrap_or_else(|_| panic!());
        assert_eq!(new.class.id, "crud/2-4-4");
        steering.tasks(&config, &tasks);
        assert_eq!(steering.brought().len(), 1);
    }
}
