//! A recorded command, and the files that a crash at any of its steps could have left.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::collections::HashSet;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tdekit_faults_sqlite::crash::{describe, fingerprint};
use tdekit_faults_sqlite::disk::{Cut, Disk, Loss, State};
use tdekit_faults_sqlite::form::{by_form, exhaustive};
use tdekit_faults_sqlite::record::{Log, Op};
use tdekit_faults_sqlite::rng::Rng;

/// One image of a crash.
pub struct Image {
    /// The message if it is wrong.
    pub what: String,
    /// The last transaction that was acknowledged before.
    pub acked: u32,
    /// The last one that was acknowledged before the last sync of a write-ahead log.
    pub synced: u32,
    /// True for a power cut; otherwise the processes were killed.
    pub power: bool,
}

/// The images of a log that are checked.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Number of operations, evenly over the log: in the short form, and in the long one.
    pub operations: [usize; 2],
    /// Number of additional operations that change names.
    pub names: [usize; 2],
    /// Operations that are always checked.
    pub always: fn(&Op, &Log) -> bool,
    /// The writes that a power cut may lose.
    pub loss: Loss,
}

impl Choice {
    /// Chooses this many operations, and all of them in the long form.
    pub fn of(operations: usize) -> Self {
        Self {
            operations: [operations, usize::MAX],
            names: [usize::MAX; 2],
            always: |_, _| false,
            loss: Loss::Sectors,
        }
    }
}

/// Calls `check` for each distinct image that a kill or a power cut before or within each operation
/// could have left, put in place; returns their number. The short form uses some of them.
pub fn each_image(
    log: &Log,
    roots: &[PathBuf],
    choice: Choice,
    mut check: impl FnMut(&Image),
) -> usize {
    let mut disk = Disk::new(log);
    let mut seen = HashSet::new();
    let (mut acked, mut synced) = (0, 0);
    let images_per_op = by_form(2, 3, 12);
    let form = usize::from(exhaustive());
    let wanted = choice.operations[form] / by_form(2, 1, 1);
    let stride = (log.ops.len() / wanted.max(1)).max(1);
    let all_names = log.ops.iter().filter(|op| changes_names(op)).count();
    let every_name = (all_names / choice.names[form].max(1)).max(1);
    let mut named = 0;
    for index in 0..=log.ops.len() {
        let next = log.ops.get(index);
        let names = next.is_some_and(changes_names);
        named += usize::from(names);
        let after_name = index > 0 && matches!(log.ops[index - 1], Op::Rename { .. });
        let always = next.is_none_or(|op| (choice.always)(op, log));
        if index % stride == 0 || names && named % every_name == 0 || after_name || always {
            let mut rng = Rng::new(index as u64);
            let torn_bytes = match next {
                Some(Op::Write { data, .. }) => (rng.below(data.len() / 8 + 1) * 8) as u64,
                _ => 0,
            };
            let power = (0..images_per_op).map(|n| match n {
                0 | 1 => n,
                _ => rng.word() | 2,
            });
            let cuts: Vec<Cut> = [Cut::Kill { torn_bytes }]
                .into_iter()
                .chain(power.map(|seed| Cut::Power { seed, loss: choice.loss }))
                .collect();
            for cut in cuts {
                let state = disk.crash(cut, next);
                if !seen.insert((fingerprint(&state), acked)) {
                    continue;
                }
                let next = next.map_or("the end".into(), |op| describe(op, log));
                let what = format!("{cut:?} before operation {index} ({next})");
                put(roots, &state);
                let power = matches!(cut, Cut::Power { .. });
                check(&Image { what, acked, synced, power });
            }
        }
        match next {
            Some(Op::Acked(n)) => acked = *n,
            Some(op) => disk.apply(op),
            None => {}
        }
        if let Some(Op::Sync { file, .. }) = next
            && let Some(Some(path)) = log.names.get(file)
            && path.to_string_lossy().ends_with("-wal")
        {
            synced = acked;
        }
    }
    seen.len()
}

fn changes_names(op: &Op) -> bool {
    matches!(
        op,
        Op::Rename { .. } | Op::Delete { .. } | Op::SyncDirectory { .. } | Op::Truncate { .. }
    )
}

/// Makes the files in and below `roots` exactly those of `state`.
fn put(roots: &[PathBuf], state: &State) {
    for root in roots {
        clear(root);
    }
    for (path, content) in &state.files {
        // A workplace is distinguished from others' directories by who may enter it.
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
}

fn clear(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let inner = entry.unwrap().path();
            clear(&inner);
            let _ = fs::remove_dir(&inner);
        }
    } else {
        let _ = fs::remove_file(path);
    }
}
