//! Published figures beside ours: backups and messages.

use maud::{Markup, html};

use crate::model::Metric;
use crate::piece::{As, Piece, all, each};
use crate::published::{PUBLISHED, published_reckoning, published_table};
use crate::shown::Shown;
use crate::table::Table;

/// Bertrand's figures.
pub(super) fn of_backups(shown: &Shown<'_>) -> Markup {
    html! { h3 { "Published figures beside ours" } (backups(shown)) }
}

fn backups(shown: &Shown<'_>) -> Table {
    let rows = PUBLISHED.backups.iter().map(|one| {
        let here = one.compressed.map(|compressed| sizes(shown, compressed));
        let here = here.unwrap_or_else(|| "in the table above".into());
        vec![one.what.as_str().into(), one.there.as_str().into(), here]
    });
    let name = "Published figures beside ours, backups";
    Table::new(name, ["Published for", "There", "Here"], rows)
}

/// Sizes relative to those without a cipher, one on each line.
fn sizes(shown: &Shown<'_>, compressed: bool) -> Piece {
    let at = shown.place("summary/pooled");
    let line = each(&shown.report.summary.pooled, &at).filter_map(|found| {
        let item = found.item;
        let name = item.id.strip_prefix("backup/").filter(|name| *name != "all")?;
        if item.metric != Metric::Size || (name != "none") != compressed {
            return None;
        }
        let [side, what] = [("side", &item.side), ("what", &item.what)]
            .map(|(field, words)| found.text(field, words));
        Some(all![all![side, ", ", what, " "].small(), found.ratio(As::Fine)])
    });
    Piece::lines(line)
}

/// Noveljic's table.
pub(super) fn of_messages() -> Markup {
    html! {
        h3 { "As the source's table" }
        (published_table())
        p class="quiet" data-fixed { (published_reckoning()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{self, holds};

    #[test]
    fn published_sizes_stand_beside_ours() {
        let mut report = examples::backup();
        let words = backups(&Shown::of("backup", &report)).words();
        holds(&words, ["+0.03 %", "+0.04 %", "AES_256, backup, zstd +0.020 %", "chart lost"]);
        report.runs.clear();
        examples::summarize(&mut report);
        assert!(backups(&Shown::of("backup", &report)).words().contains("not measured"));
    }
}
