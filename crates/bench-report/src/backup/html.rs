//! The backup matrix on the page.

use maud::{Markup, html};

use super::heat::{cost, maps, over_base};
use super::model::{
    Action, BackupMatrix, Cell, CellRole, CellSummary, PooledRatio, compression_words,
};
use super::summary::float;
use crate::format::times;
use crate::model::{Comparison, Metric, Results};
use crate::page::cell::{
    As, Found, Ratio, each, ends, find, number, ratio, ratio_cell, text, wide,
};
use crate::page::documents::{BACKUP, provenance};
use crate::published::PUBLISHED_BACKUP;

impl Ratio for PooledRatio {
    fn ratio(&self) -> f64 {
        self.ratio
    }

    fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

/// The section: heat maps, the cipher's cost, the matrix, peers, published figures.
pub(crate) fn section(results: &Results, matrix: &BackupMatrix) -> Markup {
    html! {
        section id="backup" {
            h2 { "Backups: cipher, compression, source, target" }
            (provenance(results, "backup", Some(&BACKUP), &circumstances(matrix)))
            p {
                "Each cell: what the cipher alone costs in elapsed time, against the same backup \
                 without a cipher in the same block, and the mean time. "
                span class="swatch slower s4" {} " slower, "
                span class="swatch faster s4" {} " faster; a framed cell can be told from no cost, \
                 ≈ marks one that cannot."
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

fn circumstances(matrix: &BackupMatrix) -> Markup {
    let part = |source, target| match (source, target) {
        (true, true) => "source and target",
        (true, false) => "source",
        _ => "target",
    };
    html! {
        (text("backup/label", &matrix.label)) ", "
        (number("backup/source_bytes", As::Bytes, float(matrix.source_bytes))) "; devices "
        @for (index, device) in each(&matrix.devices, "backup/devices").enumerate() {
            @if index > 0 { ", " }
            (text(&format!("{}/name", device.at), &device.item.name)) " ("
            (text(&format!("{}/file_system", device.at), &device.item.file_system)) ", "
            (part(device.item.source, device.item.target)) ")"
        }
        "; a run is a process of its own until its output is on the device (fdatasync); "
        @if matrix.cold { "what a run reads was dropped from the system's cache before it" }
        @else { "what a run reads stays in the system's cache" }
    }
}

/// How the matrix was measured.
pub(crate) fn method(matrix: &BackupMatrix) -> Markup {
    html! {
        p {
            "Backups: a block runs the whole matrix once. Sources, targets and compressions follow \
             one another in random order, and within each the ciphers do, directly one after the \
             other. A cipher's cost is the ratio to the run without a cipher of the same \
             compression, source and target in the same block; its interval is Student's t over \
             the blocks. " (number("backup/blocks", As::Count, f64::from(matrix.blocks)))
            " blocks were planned. Costs over all sources and targets are first put together \
             within a block (Hodges-Lehmann), since a block's runs share its time. CPU is that of \
             the command; memory is its largest resident set."
        }
    }
}

fn pooled_ratio<'a>(
    matrix: &'a BackupMatrix,
    (cipher, compression): (&str, Option<&str>),
    action: Action,
    metric: Metric,
) -> Option<Found<'a, PooledRatio>> {
    find(&matrix.summary.pooled, "backup/summary/pooled", |found| {
        found.cipher == cipher
            && found.compression.as_deref() == compression
            && found.action == action
            && found.metric == metric
    })
}

fn pooled(matrix: &BackupMatrix) -> Markup {
    let mut rows: Vec<(&str, Option<&str>)> = Vec::new();
    for compression in matrix.compressions().into_iter().map(Some).chain([None]) {
        rows.extend(matrix.ciphers().into_iter().map(|cipher| (cipher, compression)));
    }
    html! {
        h3 { "What the cipher costs, over all sources and targets" }
        (wide("What the cipher costs", &html! { table {
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
            tbody { @for row in rows {
                @let find = |action, metric| pooled_ratio(matrix, row, action, metric);
                @let cell = |action, metric| ratio_cell(find(action, metric).as_ref());
                @if find(Action::Backup, Metric::Elapsed).is_some() { tr {
                    th scope="row" { span data-fixed { (pooled_words(row.1, row.0)) } }
                    (cell(Action::Backup, Metric::Elapsed))
                    (cell(Action::Backup, Metric::Cpu))
                    td { @match find(Action::Backup, Metric::Size) {
                        Some(found) => (ratio(&found, As::Fine)),
                        None => "–",
                    } }
                    @if matrix.restored {
                        (cell(Action::Restore, Metric::Elapsed))
                        (cell(Action::Restore, Metric::Cpu))
                    }
                } }
            } }
        } }))
    }
}

fn published(matrix: &BackupMatrix) -> Markup {
    html! {
        h3 { "Published figures beside ours" }
        (wide("Published figures beside ours, backups", &html! { table {
            thead { tr {
                th scope="col" { "Published for" }
                th scope="col" { "There" }
                th scope="col" { "Here" }
            } }
            tbody { @for figure in PUBLISHED_BACKUP { tr {
                th scope="row" data-fixed { (figure.what) }
                td data-fixed { (figure.there) }
                td { @match figure.compressed {
                    Some(compressed) => (sizes(matrix, compressed)),
                    None => "in the table above",
                } }
            } } }
        } }))
    }
}

/// Sizes over those without a cipher, a line each.
fn sizes(matrix: &BackupMatrix, compressed: bool) -> Markup {
    let found: Vec<Found<'_, PooledRatio>> = each(&matrix.summary.pooled, "backup/summary/pooled")
        .filter(|found| {
            let compression = found.item.compression.as_ref();
            found.item.action == Action::Backup
                && found.item.metric == Metric::Size
                && compression.is_some_and(|name| (name != "none") == compressed)
        })
        .collect();
    html! {
        @if found.is_empty() { "not measured" }
        @for (index, found) in found.iter().enumerate() {
            @if index > 0 { br; }
            small {
                (text(&format!("{}/cipher", found.at), &found.item.cipher)) " "
                @if let (true, Some(name)) = (compressed, &found.item.compression) {
                    (text(&format!("{}/compression", found.at), name)) " "
                }
            }
            (ratio(found, As::Fine))
        }
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
            "Our time over theirs in the same block, and our CPU over theirs: a factor of one half \
             is half of it. "
            @for (index, tool) in each(&matrix.tools, "backup/tools").enumerate() {
                @if index > 0 { "; " }
                (text(&format!("{}/version", tool.at), &tool.item.version))
            }
            "."
        }
        (wide("Beside other backup tools", &html! { table {
            thead { tr {
                th scope="col" { "Ours" }
                @for peer in &peers { th scope="col" { (peer) } }
            } }
            tbody { @for action in [Action::Backup, Action::Restore] {
                @for cell in matrix.cells.iter().filter(|cell| cell.role == CellRole::Encrypted) {
                    @if matrix.summary.cell(&cell.id, action).is_some() { tr {
                        th scope="row" { span data-fixed { (action.label()) ", " (cell.words()) } }
                        @for peer in &peers { (peer_cell(matrix, cell, peer, action)) }
                    } }
                }
            } }
        } }))
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
        find(&matrix.summary.ratios, "backup/summary/ratios", |found| {
            against.is_some_and(|other| cell.is_over(other, action, metric, found))
        })
    };
    html! {
        td {
            @match (of(Metric::Elapsed), of(Metric::Cpu)) {
                (Some(elapsed), cpu) => {
                    (ratio(&elapsed, As::Times)) br;
                    small {
                        (ends(&elapsed, As::Times)) ", CPU "
                        @match cpu {
                            Some(cpu) => (ratio(&cpu, As::Times)),
                            None => "–",
                        }
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
pub(super) fn bounds(found: &Comparison) -> String {
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} to {}", times(low), times(high)),
        _ => "no interval".to_owned(),
    }
}

fn cells(matrix: &BackupMatrix) -> Markup {
    html! {
        h3 { "The matrix" }
        details {
            summary { "Each cell: size, duration, CPU, memory" }
            (wide("The matrix", &html! { table {
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
                        @let found = find(&matrix.summary.cells, "backup/summary/cells", |found| {
                            found.cell == cell.id && found.action == action
                        });
                        @if let Some(found) = found { (row(matrix, cell, &found)) }
                    }
                } }
            } }))
        }
    }
}

fn row(matrix: &BackupMatrix, cell: &Cell, found: &Found<'_, CellSummary>) -> Markup {
    let value = |field: &str, kind, value| number(&format!("{}/{field}", found.at), kind, value);
    let item = found.item;
    html! {
        tr {
            th scope="row" { span data-fixed { (cell.words()) } }
            td { (item.action.label()) }
            td { (value("runs", As::Count, float(item.runs))) }
            td { (value("output_bytes", As::Bytes, float(item.output_bytes))) }
            td { (value("min_ns", As::Duration, float(item.min_ns))) }
            td { (value("avg_ns", As::Duration, item.avg_ns)) }
            td { (value("max_ns", As::Duration, float(item.max_ns))) }
            td { (value("user_ns", As::Duration, item.user_ns)) }
            td { (value("system_ns", As::Duration, item.system_ns)) }
            td { (value("peak_memory_bytes", As::Bytes, float(item.peak_memory_bytes))) }
            (ratio_cell(cost(matrix, cell, item.action).as_ref()))
            (ratio_cell(over_base(matrix, cell, item.action, Metric::Cpu).as_ref()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::matrix;
    use super::*;
    use crate::format::{bytes, duration};

    fn section(matrix: &BackupMatrix) -> Markup {
        super::section(&crate::json::tests::example(), matrix)
    }

    /// Rows of a table as the texts of their cells.
    fn rows(page: &str, after: &str) -> Vec<Vec<String>> {
        let table = page.split_once(after).unwrap().1.split_once("</table>").unwrap().0;
        let body = table.split_once("<tbody>").unwrap().1;
        body.split("<tr>").skip(1).map(texts).collect()
    }

    /// What stands between the tags, cell by cell.
    fn texts(row: &str) -> Vec<String> {
        let cells = row.split("<t").filter(|cell| cell.starts_with(['d', 'h']));
        cells
            .map(|cell| {
                let pieces = cell.split('<').filter_map(|piece| piece.split_once('>'));
                pieces
                    .map(
                        |(tag, text)| if tag == "br" { " ".to_owned() + text } else { text.into() },
                    )
                    .collect::<String>()
            })
            .collect()
    }

    /// The page without its tags.
    fn words(page: &str) -> String {
        page.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect()
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
        let words = words(&page);
        for wanted in ["+0.03 %", "+0.04 %", "AES_256 zstd +0.020 %", "chart lost"] {
            assert!(words.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn peers_are_shown_as_factors() {
        let page = section(&matrix()).into_string();
        assert!(words(&page).contains("restic 0.14.0."));
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
        matrix.summary = super::super::summarize_backup(&matrix, crate::Stage::fixed(0.95));
        let page = section(&matrix).into_string();
        assert!(page.contains("not run") && page.contains("not measured"));
    }
}
