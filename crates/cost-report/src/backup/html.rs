//! Experiment B on the page.

use maud::{Markup, html};

use super::heat::{cost, maps};
use super::model::{
    Action, BackupMatrix, BackupMetric, BackupRatio, Cell, CellRole, CellSummary, PooledRatio,
    compression_words,
};
use super::summary::float;
use crate::format::{bytes, duration, fine_percent, interval, percent, times};
use crate::published::{PUBLISHED_BACKUP, PUBLISHED_BACKUP_SOURCE};

/// The section: heat maps, the cipher's cost, the matrix, peers, published figures.
pub(crate) fn section(matrix: &BackupMatrix) -> Markup {
    html! {
        section id="backup" {
            h2 { "Backups: cipher, compression, source, target" }
            p { (circumstances(matrix)) }
            p {
                "Each cell: what the cipher alone costs in elapsed time, against the same backup \
                 without a cipher in the same block, and the mean time. ≈ marks a cost that cannot \
                 be told from 0 %; a framed cell is one that can. The same figures stand in the \
                 tables below."
            }
            (maps(matrix, Action::Backup))
            @if matrix.restored {
                details { summary { "Restores" } (maps(matrix, Action::Restore)) }
            }
            (pooled(matrix))
            (published(matrix))
            (peers(matrix))
            (cells(matrix))
        }
    }
}

fn circumstances(matrix: &BackupMatrix) -> String {
    let devices: Vec<String> = matrix
        .devices
        .iter()
        .map(|device| {
            let part = match (device.source, device.target) {
                (true, true) => "source and target",
                (true, false) => "source",
                _ => "target",
            };
            format!("{} ({}, {part})", device.name, device.file_system)
        })
        .collect();
    let cache = if matrix.cold {
        "what a run reads was dropped from the system's cache before it"
    } else {
        "what a run reads stays in the system's cache"
    };
    format!(
        "{}, {}. Devices: {}. Each run is a process of its own until its output is on the device \
         (fdatasync); {cache}.",
        matrix.label,
        bytes(float(matrix.source_bytes)),
        devices.join(", ")
    )
}

/// How the matrix was measured.
pub(crate) fn method(matrix: &BackupMatrix) -> Markup {
    html! {
        p {
            "Backups: a block runs the whole matrix once. Sources, targets and compressions follow \
             one another in random order, and within each the ciphers do, directly one after the \
             other. A cipher's cost is the ratio to the run without a cipher of the same \
             compression, source and target in the same block; its interval is Student's t over \
             the blocks. " (matrix.blocks) " blocks were planned. Costs over all sources and \
             targets are first put together within a block (Hodges-Lehmann), since a block's runs \
             share its time. CPU is that of the command; memory is its largest resident set."
        }
    }
}

fn pooled(matrix: &BackupMatrix) -> Markup {
    let mut rows: Vec<(&str, Option<&str>)> = Vec::new();
    for compression in matrix.compressions().into_iter().map(Some).chain([None]) {
        rows.extend(matrix.ciphers().into_iter().map(|cipher| (cipher, compression)));
    }
    html! {
        h3 { "What the cipher costs, over all sources and targets" }
        div class="wide" { table {
            thead { tr {
                th scope="col" { "Compression, cipher" }
                th scope="col" { "Backup, elapsed" }
                th scope="col" { "Backup, CPU" }
                th scope="col" { "Size" }
                @if matrix.restored {
                    th scope="col" { "Restore, elapsed" }
                    th scope="col" { "Restore, CPU" }
                }
            } }
            tbody { @for (cipher, compression) in rows {
                @let find = |action, metric| {
                    matrix.summary.pooled(cipher, compression, action, metric)
                };
                @if find(Action::Backup, BackupMetric::Elapsed).is_some() { tr {
                    th scope="row" { (pooled_words(compression, cipher)) }
                    (pooled_cell(find(Action::Backup, BackupMetric::Elapsed)))
                    (pooled_cell(find(Action::Backup, BackupMetric::Cpu)))
                    td { (find(Action::Backup, BackupMetric::Size)
                        .map_or_else(|| "–".to_owned(), |found| fine_percent(found.ratio))) }
                    @if matrix.restored {
                        (pooled_cell(find(Action::Restore, BackupMetric::Elapsed)))
                        (pooled_cell(find(Action::Restore, BackupMetric::Cpu)))
                    }
                } }
            } }
        } }
    }
}

fn pooled_cell(found: Option<&PooledRatio>) -> Markup {
    html! {
        @match found {
            None => td { "–" },
            Some(found) => td {
                (percent(found.ratio)) br;
                small { (interval(found.low, found.high)) }
            },
        }
    }
}

fn ratio_cell(found: Option<&BackupRatio>) -> Markup {
    html! {
        @match found {
            None => td { "–" },
            Some(found) => td {
                (percent(found.ratio)) br;
                small { (interval(found.low, found.high)) }
            },
        }
    }
}

fn published(matrix: &BackupMatrix) -> Markup {
    let sizes = |compressed: bool| {
        let found: Vec<String> = matrix
            .summary
            .pooled
            .iter()
            .filter(|found| {
                found.action == Action::Backup
                    && found.metric == BackupMetric::Size
                    && found.compression.as_ref().is_some_and(|name| (name != "none") == compressed)
            })
            .map(|found| {
                let name = found.compression.as_deref().unwrap_or_default();
                let shown = if compressed { format!(" {name}") } else { String::new() };
                format!("{}{shown} {}", found.cipher, fine_percent(found.ratio))
            })
            .collect();
        if found.is_empty() { "not measured".to_owned() } else { found.join("; ") }
    };
    html! {
        h3 { "Published figures beside ours" }
        div class="wide" { table {
            thead { tr {
                th scope="col" { "Published for" }
                th scope="col" { "There" }
                th scope="col" { "Here" }
            } }
            tbody { @for figure in PUBLISHED_BACKUP { tr {
                th scope="row" { (figure.what) }
                td { (figure.there) }
                td { @match figure.compressed {
                    Some(compressed) => (sizes(compressed)),
                    None => "in the table above",
                } }
            } } }
        } }
        p { small { (PUBLISHED_BACKUP_SOURCE) } }
    }
}

fn peers(matrix: &BackupMatrix) -> Markup {
    let peers = matrix.peers();
    if peers.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Beside other backup tools" }
        p {
            "Our time over theirs in the same block, and our CPU over theirs: x0.50 is half of it. "
            (matrix.tools.iter().map(|tool| tool.version.as_str()).collect::<Vec<_>>().join("; "))
            "."
        }
        div class="wide" { table {
            thead { tr {
                th scope="col" { "Ours" }
                @for peer in &peers { th scope="col" { (peer) } }
            } }
            tbody { @for action in [Action::Backup, Action::Restore] {
                @for cell in matrix.cells.iter().filter(|cell| cell.role == CellRole::Encrypted) {
                    @if matrix.summary.cell(&cell.id, action).is_some() { tr {
                        th scope="row" { (action.label()) ", " (cell.words()) }
                        @for peer in &peers { (peer_cell(matrix, cell, peer, action)) }
                    } }
                }
            } }
        } }
    }
}

fn peer_cell(matrix: &BackupMatrix, cell: &Cell, peer: &str, action: Action) -> Markup {
    let against = matrix.cells.iter().find(|other| {
        other.role == CellRole::Peer
            && other.tool == peer
            && other.source == cell.source
            && other.target == cell.target
    });
    let of = |metric| {
        matrix.summary.ratio(&cell.id, against.map_or("", |cell| &cell.id), action, metric)
    };
    html! {
        td {
            @match (of(BackupMetric::Elapsed), of(BackupMetric::Cpu)) {
                (Some(elapsed), cpu) => {
                    (times(elapsed.ratio)) br;
                    small {
                        (bounds(elapsed)) ", CPU "
                        (cpu.map_or_else(|| "–".to_owned(), |cpu| times(cpu.ratio)))
                    }
                },
                _ => "–",
            }
        }
    }
}

/// What a pooled ratio is of.
pub(super) fn pooled_words(compression: Option<&str>, cipher: &str) -> String {
    format!("{}, {cipher}", compression.map_or("all together", compression_words))
}

/// The interval as factors.
pub(super) fn bounds(found: &BackupRatio) -> String {
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} to {}", times(low), times(high)),
        _ => "no interval".to_owned(),
    }
}

fn cells(matrix: &BackupMatrix) -> Markup {
    html! {
        h3 { "The matrix" }
        details {
            summary { (matrix.cells.len()) " cells: size, duration, CPU, memory" }
            div class="wide" { table {
                thead { tr {
                    th scope="col" { "Cell" }
                    th scope="col" { "What" }
                    th scope="col" { "Runs" }
                    th scope="col" { "Size" }
                    th scope="col" { "Min" }
                    th scope="col" { "Avg" }
                    th scope="col" { "Max" }
                    th scope="col" { "User CPU" }
                    th scope="col" { "System CPU" }
                    th scope="col" { "Memory" }
                    th scope="col" { "Cost, elapsed" }
                    th scope="col" { "Cost, CPU" }
                } }
                tbody { @for cell in &matrix.cells {
                    @for action in [Action::Backup, Action::Restore] {
                        @if let Some(found) = matrix.summary.cell(&cell.id, action) {
                            (row(matrix, cell, found))
                        }
                    }
                } }
            } }
        }
    }
}

fn row(matrix: &BackupMatrix, cell: &Cell, found: &CellSummary) -> Markup {
    let cpu = matrix
        .base_of(cell)
        .and_then(|base| matrix.summary.ratio(&cell.id, &base.id, found.action, BackupMetric::Cpu));
    html! {
        tr {
            th scope="row" { (cell.words()) }
            td { (found.action.label()) }
            td { (found.runs) }
            td { (bytes(float(found.output_bytes))) }
            td { (duration(float(found.min_ns))) }
            td { (duration(found.avg_ns)) }
            td { (duration(float(found.max_ns))) }
            td { (duration(found.user_ns)) }
            td { (duration(found.system_ns)) }
            td { (bytes(float(found.peak_memory_bytes))) }
            (ratio_cell(cost(matrix, cell, found.action)))
            (ratio_cell(cpu))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::matrix;
    use super::*;

    /// Rows of a table as the texts of their cells.
    fn rows(page: &str, after: &str) -> Vec<Vec<String>> {
        let table = page.split_once(after).unwrap().1.split_once("</table>").unwrap().0;
        let body = table.split_once("<tbody>").unwrap().1;
        body.split("<tr>").skip(1).map(texts).collect()
    }

    fn texts(row: &str) -> Vec<String> {
        row.replace("<br>", " ")
            .split("</t")
            .filter_map(|cell| {
                let text = cell.split_once('>').filter(|_| cell.contains("<t"))?.1;
                let text = text.rsplit_once("<t").map_or(text, |(_, rest)| rest);
                let text = text.split_once('>').map_or(text, |(_, rest)| rest);
                Some(text.replace("<small>", "").replace("</small>", ""))
            })
            .collect()
    }

    #[test]
    fn the_matrixs_rows_hold_the_summarys_numbers() {
        let matrix = matrix();
        let page = section(&matrix).into_string();
        let rows = rows(&page, "The matrix</h3>");
        assert_eq!(rows.len(), matrix.summary.cells.len());
        let shown: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
        for found in &matrix.summary.cells {
            let cell = matrix.cells.iter().find(|cell| cell.id == found.cell).unwrap();
            let wanted = [
                found.runs.to_string(),
                bytes(float(found.output_bytes)),
                duration(float(found.min_ns)),
                duration(found.avg_ns),
                duration(float(found.max_ns)),
                duration(found.user_ns),
                duration(found.system_ns),
                bytes(float(found.peak_memory_bytes)),
            ];
            let line = format!("{}|{}|{}", cell.words(), found.action.label(), wanted.join("|"));
            assert!(shown.iter().any(|row| row.starts_with(&line)), "{line} not in {shown:#?}");
        }
    }

    #[test]
    fn the_pooled_costs_and_the_published_sizes_are_shown() {
        let matrix = matrix();
        let page = section(&matrix).into_string();
        let found = rows(&page, "over all sources and targets</h3>");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1][0], "zstd, AES_256");
        assert_eq!(found[1][1], "+19.6 % +19.6 to +19.6");
        assert_eq!(found[1][2], "+100 % +100 to +100");
        assert_eq!(found[1][3], "+0.020 %");
        for wanted in ["+0.03 %", "+0.04 %", "AES_256 zstd +0.020 %", "chart lost"] {
            assert!(page.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn peers_are_shown_as_factors() {
        let page = section(&matrix()).into_string();
        assert!(page.contains("restic 0.14.0."));
        let found = rows(&page, "Beside other backup tools</h3>");
        let line =
            found.iter().find(|row| row[0] == "backup, zstd, AES_256, disk to disk").unwrap();
        assert_eq!(line[1], "x0.28 x0.28 to x0.28, CPU x2.00");
        let mut alone = matrix();
        alone.cells.retain(|cell| cell.role != CellRole::Peer);
        assert!(!section(&alone).into_string().contains("other backup tools"));
    }

    #[test]
    fn an_empty_matrix_is_still_a_section() {
        let mut matrix = matrix();
        matrix.runs.clear();
        matrix.summary = super::super::summarize_backup(&matrix, 0.95);
        let page = section(&matrix).into_string();
        assert!(page.contains("not run") && page.contains("not measured"));
    }
}
