//! The time of one operation without and with encryption, and what was added. The last two follow
//! from the first and the ratio, so the columns of a row agree.

use crate::layout::Of;
use crate::metric::Metric;
use crate::model::Class;
use crate::piece::{Change, Piece, all};
use crate::shown::Shown;

impl Shown<'_> {
    /// Returns the median plain time of one operation, that time with the ratio, and the
    /// difference.
    pub(crate) fn each(&self, cell: &Class, (side, base): (&str, &str)) -> [Piece; 3] {
        let plain = self.figure(&cell.id, base, Metric::Elapsed, Of::Each);
        let Piece::Number(at, kind, value) = &plain else { return Default::default() };
        let ratio = self.comparison(&cell.id, Metric::Elapsed, (side, base));
        let changed = |change: fn(String, f64) -> Change| match &ratio {
            Some(found) => {
                let change = change(format!("{}/ratio", found.at), found.item.ratio);
                Piece::Changed(at.clone(), *kind, *value, change)
            }
            None => Piece::Nothing,
        };
        let [with, more] = [changed(Change::By), changed(Change::More)];
        [all![plain, format!("/{}", cell.unit)], with, more]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    /// The medians of blocks would say another ratio than the pairs do.
    #[test]
    fn columns_agree_with_the_ratio() {
        let mut report = examples::embedded();
        let slow = |run: &&mut crate::report::Run| run.side == "encrypted" && run.restart > 0;
        for run in report.runs.iter_mut().filter(slow) {
            *run.values.get_mut(&Metric::Elapsed).unwrap() *= 1.0 + 0.1 * f64::from(run.pair);
        }
        examples::summarize(&mut report);
        let shown = Shown::of("embedded", &report);
        let [plain, with, more] = shown.each(&report.cells[0], ("encrypted", "base"));
        let ratio = report.summary.comparison("crud/4-3-3", Metric::Elapsed, "encrypted", "base");
        let each = report.summary.totals("crud/4-3-3", "base").unwrap().values[&Metric::Elapsed];
        let (ratio, each) = (ratio.unwrap().ratio, each.each.unwrap());
        let words = |value| crate::format::duration(value);
        assert_eq!(plain.words(), format!("{}/loop", words(each)));
        assert_eq!(with.words(), words(each * ratio));
        assert_eq!(more.words(), format!("+{}", words(each * (ratio - 1.0))));
        let [_, with, more] = shown.each(&report.cells[0], ("none", "base"));
        assert_eq!((with, more), (Piece::Nothing, Piece::Nothing));
    }
}
