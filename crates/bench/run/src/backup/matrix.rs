//! The cells of the matrix, and their groups.

use tdekit_bench_report::{Axes, Class, Experiment, Role, Side};

use crate::backup_tools::PeerTool;
use crate::experiment::{axes, class};
use crate::plan::backup::BackupPlan;

/// How a cell is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    /// Our command, with a cipher or without.
    Tdekit {
        cipher: Option<String>,
        compression: String,
    },
    Peer(&'static PeerTool),
}

/// A kind of backup from a source to a target: a side of two cells, of its backup and its restore.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// Its cipher, or the other tool.
    pub(super) side: String,
    pub(super) role: Role,
    /// Compression, or the other tool again; source and target, by their names.
    what: String,
    route: String,
    axes: Axes,
    pub(super) method: Method,
    /// Numbers of places.
    pub(super) source: usize,
    pub(super) target: usize,
}

/// The action of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Database to backup.
    Backup,
    /// Backup to database.
    Restore,
}

impl Action {
    pub(super) const ALL: [Self; 2] = [Self::Backup, Self::Restore];

    fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

impl Task {
    /// Returns the cell of one of its actions.
    pub(super) fn cell(&self, action: Action) -> String {
        format!("{}/{}/{}", action.name(), self.what, self.route)
    }

    /// Returns the same as described in reports.
    pub(super) fn class(&self, action: Action) -> Class {
        let axis = |name: &str| self.axes.get(name).cloned().unwrap_or_default();
        let what = if self.what == NONE { "uncompressed" } else { &self.what };
        let name = action.name();
        let label = format!("{name}, {what}, {} to {}", axis("source"), axis("target"));
        let names = (self.cell(action), label);
        let mut class = class(Experiment::Backup, names, String::new(), (1, name));
        class.axes.clone_from(&self.axes);
        class.axes.insert("action".to_owned(), name.to_owned());
        class
    }

    /// Returns its name in errors and progress messages.
    pub(super) fn name(&self) -> String {
        format!("{}/{}/{}", self.side, self.what, self.route)
    }
}

/// Returns the sides of a matrix, base first.
pub(super) fn sides(tasks: &[Task]) -> Vec<Side> {
    let mut sides: Vec<Side> = Vec::new();
    for task in tasks {
        if !sides.iter().any(|known| known.id == task.side) {
            let (cipher, options) = match &task.method {
                Method::Tdekit { cipher, .. } => (cipher.as_deref(), None),
                Method::Peer(tool) => {
                    let (cipher, compression) = tool.makes;
                    let options = format!("compression {compression}");
                    (Some(cipher).filter(|cipher| *cipher != NONE), Some(options))
                }
            };
            let mut side = Side::new(&task.side, &task.side, task.role).with_cipher(cipher);
            if let Some(options) = options {
                side.facts.insert("options".to_owned(), options.into());
            }
            sides.push(side);
        }
    }
    sides
}

/// Returns the cells of a matrix: its backups, and if `restored` their restores.
pub(super) fn classes(tasks: &[Task], restored: bool) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for action in Action::ALL.into_iter().filter(|action| restored || *action == Action::Backup) {
        for class in tasks.iter().map(|task| task.class(action)) {
            if !classes.iter().any(|known| known.id == class.id) {
                classes.push(class);
            }
        }
    }
    classes
}

const NONE: &str = "none";
/// The cipher of a control run: none, a second time.
const CONTROL: &str = "none again";

/// Returns every cell, route by route; within a route by compression, with peers last.
pub(super) fn tasks(
    plan: &BackupPlan,
    sources: &[(usize, &str)],
    targets: &[(usize, &str)],
    control: bool,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (source, source_name) in sources.iter().copied() {
        for (target, target_name) in targets.iter().copied() {
            let mut push = |side: &str, role, (axis, what): (&str, &str), method| {
                tasks.push(Task {
                    side: side.to_owned(),
                    role,
                    what: what.to_owned(),
                    route: format!("{source_name}/{target_name}"),
                    axes: axes([("source", source_name), ("target", target_name), (axis, what)]),
                    method,
                    source,
                    target,
                });
            };
            for compression in &plan.compressions {
                let ours = |cipher: Option<&String>| Method::Tdekit {
                    cipher: cipher.cloned(),
                    compression: compression.clone(),
                };
                let axis = ("compression", compression.as_str());
                push(NONE, Role::Base, axis, ours(None));
                if control {
                    push(CONTROL, Role::Encrypted, axis, ours(None));
                    continue;
                }
                for cipher in &plan.ciphers {
                    push(cipher, Role::Encrypted, axis, ours(Some(cipher)));
                }
            }
            for tool in &plan.peers {
                push(tool.name, Role::Reference, ("tool", tool.name), Method::Peer(tool));
            }
        }
    }
    tasks
}

/// A route and, unless peers run beside, a compression.
type Key<'a> = (&'a str, Option<&'a str>);

/// Returns the numbers of tasks that are compared with one another, and so run without a pause
/// between them: the ciphers of a route and compression; with peers all of a route.
pub(super) fn groups(tasks: &[Task]) -> Vec<Vec<usize>> {
    let together = tasks.iter().any(|task| task.role == Role::Reference);
    let mut groups: Vec<(Key<'_>, Vec<usize>)> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let key = (task.route.as_str(), (!together).then_some(task.what.as_str()));
        match groups.iter_mut().find(|(found, _)| *found == key) {
            Some((_, group)) => group.push(index),
            None => groups.push((key, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::backup::tests::plan;

    fn all(
        peer: &[&str],
        sources: &[&'static str],
        targets: &[&'static str],
        control: bool,
    ) -> Vec<Task> {
        let words = "--cipher AES_256 --cipher AEGIS_128X2 --compression none --compression zstd";
        let words: Vec<&str> = words.split(' ').chain(peer.iter().copied()).collect();
        let numbered =
            |names: &[&'static str]| names.iter().copied().enumerate().collect::<Vec<_>>();
        tasks(&plan(&words).unwrap(), &numbered(sources), &numbered(targets), control)
    }

    #[test]
    fn every_combination_is_a_cell_of_its_own() {
        let tasks = all(&[], &["disk", "memory"], &["hdd"], false);
        assert_eq!(tasks.len(), 3 * 2 * 2);
        let mut ids: Vec<String> = tasks.iter().map(Task::name).collect();
        assert_eq!(ids[1], "AES_256/none/disk/hdd");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 12);
        // Ciphers share a cell: there is one for each action, compression and route.
        assert_eq!(classes(&tasks, true).len(), 2 * 2 * 2);
        assert_eq!(classes(&tasks, false).len(), 2 * 2);
        let names: Vec<String> = sides(&tasks).into_iter().map(|side| side.id).collect();
        assert_eq!(names, ["none", "AES_256", "AEGIS_128X2"]);
        let bases = tasks.iter().filter(|task| task.role == Role::Base).count();
        assert_eq!(bases, 4);
        for task in &tasks {
            let Method::Tdekit { cipher, .. } = &task.method else { panic!() };
            assert_eq!(cipher.as_deref().unwrap_or("none"), task.side);
        }
    }

    #[test]
    fn a_control_run_repeats_the_base() {
        let tasks = all(&[], &["disk"], &["disk"], true);
        assert_eq!(tasks.len(), 4);
        assert!(
            tasks.iter().all(|task| matches!(&task.method, Method::Tdekit { cipher: None, .. }))
        );
    }

    #[test]
    fn what_is_compared_stays_together() {
        let tasks = all(&[], &["disk", "memory"], &["disk"], false);
        let groups = groups(&tasks);
        assert_eq!(groups.len(), 4);
        for group in &groups {
            let route = |index: &usize| {
                let task = &tasks[*index];
                (task.source, task.what.clone())
            };
            assert_eq!(group.len(), 3);
            assert!(group.iter().all(|index| route(index) == route(&group[0])));
        }
        let mut all: Vec<usize> = groups.concat();
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn peers_run_beside_all_of_a_route() {
        let tasks = all(&["--backup-peer", "restic"], &["disk"], &["disk", "hdd"], false);
        assert_eq!(tasks.len(), 2 * (6 + 1));
        assert_eq!(groups(&tasks).iter().map(Vec::len).collect::<Vec<_>>(), [7, 7]);
    }
}
