//! Published figures beside ours: backups and messages.

use maud::{Markup, html};

use super::cell::{As, Found, each, float, ratio, text, wide};
use crate::figures::Pooled;
use crate::format::count;
use crate::model::Metric;
use crate::published::PUBLISHED_BACKUP;
use crate::published_messages::{PUBLISHED_MESSAGES, published_reckoning};
use crate::shown::Shown;

/// Bertrand's figures.
pub(super) fn of_backups(shown: &Shown<'_>) -> Markup {
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
                    Some(compressed) => (sizes(shown, compressed)),
                    None => "in the table above",
                } }
            } } }
        } }))
    }
}

/// Sizes over those without a cipher, a line each.
fn sizes(shown: &Shown<'_>, compressed: bool) -> Markup {
    let at = format!("{}/summary/pooled", shown.at);
    let wanted = |found: &Found<'_, Pooled>| {
        let name = found.item.id.strip_prefix("backup/").filter(|name| *name != "all");
        found.item.metric == Metric::Size && name.is_some_and(|name| (name != "none") == compressed)
    };
    let found: Vec<_> = each(&shown.report.summary.pooled, &at).filter(wanted).collect();
    html! {
        @if found.is_empty() { "not measured" }
        @for (index, found) in found.iter().enumerate() {
            @if index > 0 { br; }
            small {
                (text(&format!("{}/side", found.at), &found.item.side)) ", "
                (text(&format!("{}/what", found.at), &found.item.what)) " "
            }
            (ratio(found, As::Fine))
        }
    }
}

/// Noveljic's table.
pub(super) fn of_messages() -> Markup {
    html! {
        h3 { "As the source's table" }
        div data-fixed {
            (wide("The source's table of messages", &html! { table {
                thead { tr {
                    th scope="col" { "Server" }
                    th scope="col" { "Elapsed" }
                    th scope="col" { "CPU" }
                    th scope="col" { "Waited to encrypt" }
                    th scope="col" { "Context switches" }
                } }
                tbody { @for row in PUBLISHED_MESSAGES { tr {
                    th scope="row" {
                        (row.server) @if row.encrypted { ", encrypted" } @else { ", plain" }
                    }
                    td { (row.elapsed_ms) " ms" }
                    td { (row.cpu_ms) " ms" }
                    td { (row.encrypt_wait_ms) " ms" }
                    td { (count(float(row.switches))) }
                } } }
            } }))
            p class="quiet" { (published_reckoning()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    /// The page without its tags.
    fn words(page: &str) -> String {
        page.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect()
    }

    #[test]
    fn published_sizes_stand_beside_ours() {
        let report = examples::backup();
        let words = words(&of_backups(&Shown::of("backup", &report)).into_string());
        for wanted in ["+0.03 %", "+0.04 %", "AES_256, backup, zstd +0.020 %", "chart lost"] {
            assert!(words.contains(wanted), "{wanted} is missing in {words}");
        }
        let mut empty = examples::backup();
        empty.runs.clear();
        examples::summarize(&mut empty);
        let page = of_backups(&Shown::of("backup", &empty)).into_string();
        assert!(page.contains("not measured"));
    }
}
