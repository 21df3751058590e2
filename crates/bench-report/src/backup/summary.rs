//! From runs to the history's columns, and to what the cipher alone costs.

use std::collections::BTreeMap;

use super::model::{
    Action, BackupMatrix, BackupRun, BackupSummary, Cell, CellRole, CellSummary, PooledRatio,
    compression_words,
};
use crate::format::{fine_percent, interval, percent};
use crate::grid::{Grid, GridCell, Index, Run, Stage, Versus};
use crate::model::{Experiment, Metric};
use crate::stats::staged_estimate;
use crate::summary::measured;

const ACTIONS: [Action; 2] = [Action::Backup, Action::Restore];

/// Computes everything that a report shows from `matrix.runs`.
///
/// A pair is two cells of the same source and target in the same block. The block is the unit of
/// the interval: over several devices its pairs are first put together, since they share its time.
#[must_use]
pub fn summarize_backup(matrix: &BackupMatrix, stage: Stage) -> BackupSummary {
    let grid = grid(matrix);
    let index = Index::of(&grid);
    let ratios = index.comparisons(stage);
    let mut summary = BackupSummary { ratios, ..BackupSummary::default() };
    for cell in &matrix.cells {
        for action in ACTIONS {
            let runs = matrix.runs.iter();
            let own: Vec<&BackupRun> =
                runs.filter(|run| run.cell == cell.id && run.action == action).collect();
            summary.cells.extend(history(&cell.id, action, &own));
        }
    }
    pool(matrix, &index, stage, &mut summary);
    summary
}

/// Metrics whose ratios are computed.
const RATIOS: &[Metric] =
    &[Metric::Elapsed, Metric::Cpu, Metric::User, Metric::System, Metric::Size];

/// The matrix as every experiment is seen: what differs in the cipher alone is a cell with the
/// ciphers as its sides, and a block of the matrix a restart.
pub(crate) fn grid(matrix: &BackupMatrix) -> Grid {
    grid_of(&matrix.cells, &matrix.runs)
}

/// The view of a matrix of which no report is made yet.
#[must_use]
pub fn grid_of(all: &[Cell], runs: &[BackupRun]) -> Grid {
    let mut sides: Vec<(String, String)> = Vec::new();
    let mut cells: Vec<GridCell> = Vec::new();
    let mut versus = Vec::new();
    for cell in all {
        if !sides.iter().any(|(id, _)| id == cell.side()) {
            sides.push((cell.side().to_owned(), cell.side().to_owned()));
        }
        for action in ACTIONS {
            let id = cell.class(action);
            let (from, to) = (&cell.source, &cell.target);
            if !cells.iter().any(|known| known.id == id) {
                let compression = compression_words(&cell.compression);
                let label = format!("{}, {compression}, {from} to {to}", action.label());
                let (experiment, what) = (Experiment::Backup, String::new());
                cells.push(GridCell { experiment, id: id.clone(), label, what });
            }
            if cell.role == CellRole::Encrypted {
                let held = |other: &Cell| Versus {
                    cell: Some(id.clone()),
                    side: cell.side().to_owned(),
                    against: other.side().to_owned(),
                    against_cell: (other.role == CellRole::Peer).then(|| other.class(action)),
                    shown: other.role == CellRole::Base,
                };
                versus.extend(all.iter().filter(|other| is_opponent(cell, other)).map(held));
            }
        }
    }
    let seen = |run: &BackupRun| {
        let cell = all.iter().find(|cell| cell.id == run.cell)?;
        Some(Run {
            cell: cell.class(run.action),
            statement: None,
            side: cell.side().to_owned(),
            restart: run.block,
            pair: 0,
            position: run.position,
            values: measured([
                (Metric::Elapsed, Some(run.elapsed_ns)),
                (Metric::Cpu, Some(run.cpu_ns())),
                (Metric::User, Some(run.user_ns)),
                (Metric::System, Some(run.system_ns)),
                (Metric::PeakMemory, Some(run.peak_memory_bytes)),
                (Metric::DeviceRead, Some(run.device_read_bytes)),
                (Metric::DeviceWrite, Some(run.device_write_bytes)),
                (Metric::Size, Some(run.output_bytes)),
            ]),
        })
    };
    Grid {
        sides,
        cells,
        versus,
        ratios: RATIOS,
        wanted: [Metric::Elapsed, Metric::Cpu],
        heads: (String::new(), Vec::new()),
        runs: runs.iter().filter_map(seen).collect(),
    }
}

/// Each cipher is held against none, and against every peer of the same source and target.
fn is_opponent(cell: &Cell, other: &Cell) -> bool {
    other.source == cell.source
        && other.target == cell.target
        && match other.role {
            CellRole::Base => other.compression == cell.compression,
            CellRole::Encrypted => false,
            CellRole::Peer => true,
        }
}

fn history(cell: &str, action: Action, runs: &[&BackupRun]) -> Option<CellSummary> {
    let mean = |pick: fn(&BackupRun) -> u64| {
        runs.iter().map(|run| float(pick(run))).sum::<f64>() / float(runs.len() as u64)
    };
    Some(CellSummary {
        cell: cell.to_owned(),
        action,
        runs: runs.len() as u64,
        output_bytes: runs.iter().map(|run| run.output_bytes).max()?,
        min_ns: runs.iter().map(|run| run.elapsed_ns).min()?,
        avg_ns: mean(|run| run.elapsed_ns),
        max_ns: runs.iter().map(|run| run.elapsed_ns).max()?,
        user_ns: mean(|run| run.user_ns),
        system_ns: mean(|run| run.system_ns),
        peak_memory_bytes: runs.iter().map(|run| run.peak_memory_bytes).max()?,
    })
}

/// Each cipher against none over all sources and targets.
fn pool(matrix: &BackupMatrix, index: &Index<'_>, stage: Stage, summary: &mut BackupSummary) {
    let compressions: Vec<Option<&str>> =
        matrix.compressions().into_iter().map(Some).chain([None]).collect();
    for cipher in matrix.ciphers() {
        for compression in &compressions {
            let pairs: Vec<(&Cell, &Cell)> = matrix
                .cells
                .iter()
                .filter(|cell| {
                    cell.role == CellRole::Encrypted
                        && cell.cipher == cipher
                        && compression.is_none_or(|name| name == cell.compression)
                })
                .filter_map(|cell| Some((cell, matrix.base_of(cell)?)))
                .collect();
            for action in ACTIONS {
                for metric in RATIOS.iter().copied() {
                    let groups = log_ratios(index, &pairs, action, metric);
                    let Some(found) = staged_estimate(&groups, stage.confidence, stage.first)
                    else {
                        continue;
                    };
                    let found = found.exp();
                    summary.pooled.push(PooledRatio {
                        cipher: cipher.to_owned(),
                        compression: compression.map(str::to_owned),
                        action,
                        metric,
                        ratio: found.center,
                        low: found.interval.map(|(low, _)| low),
                        high: found.interval.map(|(_, high)| high),
                        blocks: found.groups as u64,
                        pairs: found.values as u64,
                    });
                }
            }
        }
    }
}

/// Log ratios of pairs of cells, a group for each block.
fn log_ratios(
    index: &Index<'_>,
    pairs: &[(&Cell, &Cell)],
    action: Action,
    metric: Metric,
) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (cell, against) in pairs {
        let versus = Versus {
            cell: None,
            side: cell.side().to_owned(),
            against: against.side().to_owned(),
            against_cell: None,
            shown: true,
        };
        for (block, ratios) in index.log_ratios((&cell.class(action), None), &versus, metric) {
            groups.entry(block).or_default().extend(ratios);
        }
    }
    groups.into_values().collect()
}

/// The answer in sentences, a compression each, for `algorithm` or, where it was not run, for the
/// last cipher.
pub(crate) fn verdict(matrix: &BackupMatrix, algorithm: &str) -> Vec<String> {
    let ciphers: Vec<&str> =
        matrix.summary.pooled.iter().map(|found| found.cipher.as_str()).collect();
    let Some(cipher) =
        ciphers.iter().find(|cipher| **cipher == algorithm).or(ciphers.last()).copied()
    else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    for compression in matrix.compressions() {
        let find =
            |action, metric| matrix.summary.pooled(cipher, Some(compression), action, metric);
        let words = |found: &PooledRatio| {
            format!("{} ({})", percent(found.ratio), interval(found.low, found.high))
        };
        let (Some(elapsed), Some(cpu), Some(size)) = (
            find(Action::Backup, Metric::Elapsed),
            find(Action::Backup, Metric::Cpu),
            find(Action::Backup, Metric::Size),
        ) else {
            continue;
        };
        let restore = find(Action::Restore, Metric::Elapsed)
            .map_or_else(String::new, |found| format!("; its restore {}", words(found)));
        sentences.push(format!(
            "Backup, {}: {cipher} costs elapsed time {}, CPU {}, size {}{restore}.",
            compression_words(compression),
            words(elapsed),
            words(cpu),
            fine_percent(size.ratio),
        ));
    }
    sentences
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds and bytes stay far below 2^53")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::model::{BackupTool, Device};
    use super::*;

    fn cell(tool: &str, role: CellRole, cipher: &str, compression: &str, target: &str) -> Cell {
        Cell {
            id: format!("{tool}/{cipher}/{compression}/disk/{target}"),
            tool: tool.to_owned(),
            role,
            cipher: cipher.to_owned(),
            compression: compression.to_owned(),
            source: "disk".to_owned(),
            target: target.to_owned(),
        }
    }

    /// Three blocks. Times of a block grow with its number; AES_256 takes 1.1 times as long to the
    /// disk and 1.3 times to memory, with twice the CPU and 0.02 % more bytes; the peer takes 4
    /// times as long as none.
    pub(crate) fn matrix() -> BackupMatrix {
        let device = |name: &str, source| Device {
            name: name.to_owned(),
            file_system: "ext4".to_owned(),
            source,
            target: true,
        };
        let mut cells = Vec::new();
        for target in ["disk", "memory"] {
            for compression in ["none", "zstd"] {
                cells.push(cell("tdekit", CellRole::Base, "none", compression, target));
                cells.push(cell("tdekit", CellRole::Encrypted, "AES_256", compression, target));
            }
        }
        cells.push(cell("restic", CellRole::Peer, "its own", "its own", "disk"));
        let mut runs = Vec::new();
        for block in 0..3 {
            for cell in &cells {
                for action in ACTIONS {
                    runs.push(run(cell, action, block));
                }
            }
        }
        let mut matrix = BackupMatrix {
            label: "generated <db>".to_owned(),
            source_bytes: 200_000_000,
            cold: true,
            restored: true,
            blocks: 3,
            tools: [("tdekit", "tdekit 0.1.0"), ("restic", "restic 0.14.0")]
                .map(|(name, version)| BackupTool {
                    name: name.to_owned(),
                    version: version.to_owned(),
                })
                .to_vec(),
            devices: vec![device("disk", true), device("memory", false)],
            cells,
            runs,
            summary: BackupSummary::default(),
        };
        matrix.summary = summarize_backup(&matrix, crate::Stage::fixed(0.95));
        matrix
    }

    fn run(cell: &Cell, action: Action, block: u32) -> BackupRun {
        let level = 1_000_000_000 + u64::from(block) * 100_000_000;
        let percent = match (cell.role, cell.target.as_str()) {
            (CellRole::Base, _) => 100,
            (CellRole::Encrypted, "disk") => 110,
            (CellRole::Encrypted, _) => 130,
            (CellRole::Peer, _) => 400,
        };
        let encrypted = cell.role == CellRole::Encrypted;
        let cpu_ns = if encrypted { 2 } else { 1 } * level / 2;
        let size = if cell.compression == "zstd" { 100_000_000 } else { 200_000_000 };
        BackupRun {
            cell: cell.id.clone(),
            action,
            block,
            position: 0,
            elapsed_ns: level * percent / 100,
            user_ns: cpu_ns / 2,
            system_ns: cpu_ns / 2,
            peak_memory_bytes: 20_000_000,
            device_read_bytes: 4096,
            device_write_bytes: 4096,
            output_bytes: if encrypted { size + size / 5000 } else { size },
        }
    }

    fn id(cipher: &str, target: &str) -> String {
        format!("tdekit/{cipher}/zstd/disk/{target}")
    }

    fn find<'a>(matrix: &'a BackupMatrix, id: &str) -> &'a Cell {
        matrix.cells.iter().find(|cell| cell.id == id).unwrap()
    }

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-6, "{left} is not {right}");
    }

    #[test]
    fn a_cell_has_the_columns_of_a_history() {
        let matrix = matrix();
        let found = matrix.summary.cell(&id("AES_256", "disk"), Action::Backup).unwrap();
        assert_eq!((found.runs, found.min_ns, found.max_ns), (3, 1_100_000_000, 1_320_000_000));
        close(found.avg_ns, 1_210_000_000.0);
        assert_eq!(found.output_bytes, 100_020_000);
        assert_eq!(found.peak_memory_bytes, 20_000_000);
    }

    /// The drift from block to block is ten times the cost; a pair does not see it.
    #[test]
    fn the_ciphers_cost_comes_from_pairs_of_one_block() {
        let matrix = matrix();
        let (cell, base) =
            (find(&matrix, &id("AES_256", "disk")), find(&matrix, &id("none", "disk")));
        let of = |metric| matrix.summary.ratio(cell, base, Action::Backup, metric).unwrap();
        let elapsed = of(Metric::Elapsed);
        close(elapsed.ratio, 1.1);
        close(elapsed.low.unwrap(), 1.1);
        close(elapsed.high.unwrap(), 1.1);
        assert_eq!(elapsed.restarts, 3);
        close(of(Metric::Cpu).ratio, 2.0);
        close(of(Metric::Size).ratio, 1.0002);
        assert!(matrix.summary.ratio(base, cell, Action::Backup, Metric::Cpu).is_none());
    }

    #[test]
    fn the_interval_is_students_t_over_blocks() {
        let mut matrix = matrix();
        let cell = id("AES_256", "disk");
        for run in matrix.runs.iter_mut().filter(|run| run.cell == cell) {
            run.elapsed_ns = run.elapsed_ns * (110 + 10 * u64::from(run.block)) / 110;
        }
        let summary = summarize_backup(&matrix, crate::Stage::fixed(0.95));
        let (cell, base) = (find(&matrix, &cell), find(&matrix, &id("none", "disk")));
        let found = summary.ratio(cell, base, Action::Backup, Metric::Elapsed).unwrap();
        let logs = [1.1_f64.ln(), 1.2_f64.ln(), 1.3_f64.ln()];
        let mean = logs.iter().sum::<f64>() / 3.0;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 2.0;
        close(found.ratio, mean.exp());
        let half = 4.302_652_73 * (variance / 3.0).sqrt();
        close(found.low.unwrap(), (mean - half).exp());
        close(found.high.unwrap(), (mean + half).exp());
    }

    #[test]
    fn pooling_takes_all_devices_and_no_peer() {
        let matrix = matrix();
        let of = |compression| {
            let metric = Metric::Elapsed;
            matrix.summary.pooled("AES_256", compression, Action::Backup, metric).unwrap()
        };
        let found = of(Some("zstd"));
        close(found.ratio, (1.1_f64 * 1.3).sqrt());
        assert_eq!((found.blocks, found.pairs), (3, 6));
        assert_eq!((of(None).blocks, of(None).pairs), (3, 12));
        assert!(matrix.summary.pooled.iter().all(|found| found.cipher == "AES_256"));
    }

    #[test]
    fn we_are_held_against_peers_of_the_same_devices() {
        let matrix = matrix();
        let peer = "restic/its own/its own/disk/disk";
        let of = |target: &str| {
            let (cell, peer) = (find(&matrix, &id("AES_256", target)), find(&matrix, peer));
            matrix.summary.ratio(cell, peer, Action::Restore, Metric::Elapsed)
        };
        close(of("disk").unwrap().ratio, 1.1 / 4.0);
        assert!(of("memory").is_none());
        assert_eq!(matrix.peers(), ["restic"]);
        assert_eq!(matrix.routes(), [("disk", "disk"), ("disk", "memory")]);
    }

    #[test]
    fn a_lost_half_of_a_pair_is_left_out() {
        let mut matrix = matrix();
        let base = id("none", "disk");
        matrix.runs.retain(|run| run.cell != base || run.block != 1);
        let of = |matrix: &BackupMatrix| {
            let summary = summarize_backup(matrix, crate::Stage::fixed(0.95));
            let (cell, base) = (find(matrix, &id("AES_256", "disk")), find(matrix, &base));
            summary.ratio(cell, base, Action::Backup, Metric::Elapsed).map(|found| found.restarts)
        };
        assert_eq!(of(&matrix), Some(2));
        matrix.runs.retain(|run| run.cell != base);
        assert_eq!(of(&matrix), None);
    }

    #[test]
    fn the_verdict_names_the_default_cipher_and_each_compression() {
        let sentences = verdict(&matrix(), "AES_256");
        assert_eq!(sentences.len(), 2);
        assert!(sentences[1].contains("Backup, zstd: AES_256"), "{sentences:?}");
        assert!(sentences[1].contains("+19.6 %") && sentences[1].contains("+0.020 %"));
        assert!(sentences[1].contains("restore"));
    }
}
