//! Which cells there are, and which belong together.

use tdekit_bench_report::{Cell, CellRole};

use super::options::BackupPlan;
use super::tools::PeerTool;

/// How a cell is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    /// Our command, with a cipher or without.
    Tdekit {
        cipher: Option<String>,
        compression: String,
    },
    Peer(PeerTool),
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) cell: Cell,
    pub(super) method: Method,
    /// Place in the list of sources.
    pub(super) source: usize,
    /// Place in the list of targets.
    pub(super) target: usize,
}

const OURS: &str = "tdekit";
const NONE: &str = "none";
/// The cipher of a control run: none, once more.
const CONTROL: &str = "none again";

/// Every cell, a route after the other; within a route by compression, and peers last.
pub(super) fn tasks(
    plan: &BackupPlan,
    sources: &[&str],
    targets: &[&str],
    control: bool,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (source, source_name) in sources.iter().enumerate() {
        for (target, target_name) in targets.iter().enumerate() {
            let cell = |tool: &str, role, cipher: &str, compression: &str| Cell {
                id: format!("{tool}/{cipher}/{compression}/{source_name}/{target_name}"),
                tool: tool.to_owned(),
                role,
                cipher: cipher.to_owned(),
                compression: compression.to_owned(),
                source: (*source_name).to_owned(),
                target: (*target_name).to_owned(),
            };
            let mut push = |cell, method| tasks.push(Task { cell, method, source, target });
            for compression in &plan.compressions {
                let ours = |cipher: Option<&String>| Method::Tdekit {
                    cipher: cipher.cloned(),
                    compression: compression.clone(),
                };
                push(cell(OURS, CellRole::Base, NONE, compression), ours(None));
                if control {
                    push(cell(OURS, CellRole::Encrypted, CONTROL, compression), ours(None));
                    continue;
                }
                for cipher in &plan.ciphers {
                    let cell = cell(OURS, CellRole::Encrypted, cipher, compression);
                    push(cell, ours(Some(cipher)));
                }
            }
            for tool in &plan.peers {
                let (cipher, compression) = tool.makes();
                let cell = cell(tool.name(), CellRole::Peer, cipher, compression);
                push(cell, Method::Peer(*tool));
            }
        }
    }
    tasks
}

/// Source, target and, unless peers run beside, compression.
type Key<'a> = (usize, usize, Option<&'a str>);

/// What is compared with one another, and so runs without a pause between: the ciphers of a route
/// and compression; with peers all of a route.
pub(super) fn groups(tasks: &[Task]) -> Vec<Vec<usize>> {
    let together = tasks.iter().any(|task| task.cell.role == CellRole::Peer);
    let mut groups: Vec<(Key<'_>, Vec<usize>)> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let compression = (!together).then_some(task.cell.compression.as_str());
        let key = (task.source, task.target, compression);
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

    fn plan(peers: &[PeerTool]) -> BackupPlan {
        BackupPlan {
            ciphers: vec!["AES_256".to_owned(), "AEGIS_128X2".to_owned()],
            compressions: vec!["none".to_owned(), "zstd".to_owned()],
            targets: Vec::new(),
            sources: Vec::new(),
            size_bytes: 1_000_000,
            blocks: 3,
            cold: true,
            restore: true,
            peers: peers.to_vec(),
        }
    }

    #[test]
    fn every_combination_is_a_cell_of_its_own() {
        let tasks = tasks(&plan(&[]), &["disk", "memory"], &["hdd"], false);
        assert_eq!(tasks.len(), 3 * 2 * 2);
        let mut ids: Vec<&str> = tasks.iter().map(|task| task.cell.id.as_str()).collect();
        assert_eq!(ids[1], "tdekit/AES_256/none/disk/hdd");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 12);
        let bases = tasks.iter().filter(|task| task.cell.role == CellRole::Base).count();
        assert_eq!(bases, 4);
        for task in &tasks {
            let Method::Tdekit { cipher, .. } = &task.method else { panic!() };
            assert_eq!(cipher.as_deref().unwrap_or("none"), task.cell.cipher);
        }
    }

    #[test]
    fn a_control_run_repeats_the_base() {
        let tasks = tasks(&plan(&[]), &["disk"], &["disk"], true);
        assert_eq!(tasks.len(), 4);
        assert!(
            tasks.iter().all(|task| matches!(&task.method, Method::Tdekit { cipher: None, .. }))
        );
    }

    #[test]
    fn what_is_compared_stays_together() {
        let tasks = tasks(&plan(&[]), &["disk", "memory"], &["disk"], false);
        let groups = groups(&tasks);
        assert_eq!(groups.len(), 4);
        for group in &groups {
            let route = |index: &usize| {
                let cell = &tasks[*index].cell;
                (cell.source.clone(), cell.compression.clone())
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
        let tasks = tasks(&plan(&[PeerTool::Restic]), &["disk"], &["disk", "hdd"], false);
        assert_eq!(tasks.len(), 2 * (6 + 1));
        assert_eq!(groups(&tasks).iter().map(Vec::len).collect::<Vec<_>>(), [7, 7]);
    }
}
