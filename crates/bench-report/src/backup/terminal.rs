//! The backup matrix as the terminal shows it.

use super::html::{bounds, pooled_words};
use super::model::{Action, BackupMatrix, Cell, CellRole, PooledRatio};
use super::summary::float;
use crate::format::{bytes, duration, fine_percent, interval, percent, times};
use crate::model::Metric;
use crate::terminal::new_table;

/// The cipher's cost over all devices, the matrix as a backup history gives it, and peers.
pub(crate) fn tables(matrix: &BackupMatrix, confidence: f64) -> String {
    let devices: Vec<String> = matrix
        .devices
        .iter()
        .map(|device| format!("{} ({})", device.name, device.file_system))
        .collect();
    let mut text = format!(
        "\nBackup of {}, {}; devices {}; {} files\n",
        matrix.label,
        bytes(float(matrix.source_bytes)),
        devices.join(", "),
        if matrix.cold { "cold" } else { "warm" },
    );
    text.push_str(&costs(matrix, confidence));
    text.push_str(&history(matrix));
    text.push_str(&peers(matrix));
    text
}

fn words(found: Option<&PooledRatio>) -> String {
    found.map_or_else(
        || "-".to_owned(),
        |found| format!("{} ({})", percent(found.ratio), interval(found.low, found.high)),
    )
}

fn costs(matrix: &BackupMatrix, confidence: f64) -> String {
    let mut header = vec![
        "cost of the cipher".to_owned(),
        format!("backup elapsed ({} %)", confidence * 100.0),
        "backup CPU".to_owned(),
        "size".to_owned(),
    ];
    if matrix.restored {
        header.extend(["restore elapsed".to_owned(), "restore CPU".to_owned()]);
    }
    let mut table = new_table(header);
    for compression in matrix.compressions().into_iter().map(Some).chain([None]) {
        for cipher in matrix.ciphers() {
            let find = |action, metric| matrix.summary.pooled(cipher, compression, action, metric);
            let Some(elapsed) = find(Action::Backup, Metric::Elapsed) else { continue };
            let mut row = vec![
                pooled_words(compression, cipher),
                words(Some(elapsed)),
                words(find(Action::Backup, Metric::Cpu)),
                find(Action::Backup, Metric::Size)
                    .map_or_else(|| "-".to_owned(), |found| fine_percent(found.ratio)),
            ];
            if matrix.restored {
                row.push(words(find(Action::Restore, Metric::Elapsed)));
                row.push(words(find(Action::Restore, Metric::Cpu)));
            }
            table.add_row(row);
        }
    }
    format!("\n{table}\n")
}

fn history(matrix: &BackupMatrix) -> String {
    let header = ["backup", "size", "min", "avg", "max", "CPU", "memory", "restore avg", "CPU"];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for cell in &matrix.cells {
        let Some(backup) = matrix.summary.cell(&cell.id, Action::Backup) else { continue };
        let restore = matrix.summary.cell(&cell.id, Action::Restore);
        let of_restore = |pick: fn(&super::CellSummary) -> f64| {
            restore.map_or_else(|| "-".to_owned(), |found| duration(pick(found)))
        };
        table.add_row(vec![
            cell.words(),
            bytes(float(backup.output_bytes)),
            duration(float(backup.min_ns)),
            duration(backup.avg_ns),
            duration(float(backup.max_ns)),
            duration(backup.user_ns + backup.system_ns),
            bytes(float(backup.peak_memory_bytes)),
            of_restore(|found| found.avg_ns),
            of_restore(|found| found.user_ns + found.system_ns),
        ]);
    }
    format!("\n{table}\n")
}

fn peers(matrix: &BackupMatrix) -> String {
    let others: Vec<&Cell> =
        matrix.cells.iter().filter(|cell| cell.role == CellRole::Peer).collect();
    if others.is_empty() {
        return String::new();
    }
    let header = ["ours over theirs", "elapsed", "CPU", "size"];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for action in [Action::Backup, Action::Restore] {
        for cell in matrix.cells.iter().filter(|cell| cell.role == CellRole::Encrypted) {
            for other in &others {
                let find = |metric| matrix.summary.ratio(cell, other, action, metric);
                let Some(elapsed) = find(Metric::Elapsed) else { continue };
                let factor = |metric| {
                    find(metric).map_or_else(|| "-".to_owned(), |found| times(found.ratio))
                };
                table.add_row(vec![
                    format!("{}: {} / {}", action.label(), cell.words(), other.tool),
                    format!("{} ({})", times(elapsed.ratio), bounds(elapsed)),
                    factor(Metric::Cpu),
                    factor(Metric::Size),
                ]);
            }
        }
    }
    format!("\nBeside other backup tools, in the same blocks:\n{table}\n")
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::matrix;
    use super::*;

    #[test]
    fn tables_show_costs_durations_and_peers() {
        let text = tables(&matrix(), 0.95);
        for wanted in [
            "disk (ext4), memory (ext4); cold files",
            "backup elapsed (95 %)",
            "zstd, AES_256",
            "+19.6 % (+19.6 to +19.6)",
            "+0.020 %",
            "zstd, AES_256, disk to memory",
            "1.21 s",
            "backup: zstd, AES_256, disk to disk / restic",
            "uncompressed, not encrypted, disk to disk",
            "x0.28 (x0.28 to x0.28)",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn nothing_restored_leaves_the_columns_out() {
        let mut matrix = matrix();
        matrix.restored = false;
        matrix.runs.retain(|run| run.action == Action::Backup);
        matrix.summary = super::super::summarize_backup(&matrix, crate::Stage::fixed(0.95));
        let text = tables(&matrix, 0.95);
        assert!(!text.contains("restore elapsed"), "{text}");
    }
}
