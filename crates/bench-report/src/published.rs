//! Figures that others published, to be set beside ours. Their sources are the report's documents.

use crate::format::count;

/// What the source prints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Printed {
    /// CPU in ms, reads, writes and duration, encrypted and plain.
    Table([u32; 4], [u32; 4]),
    /// Elapsed time, encrypted over plain.
    Elapsed(f64),
}

/// One published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Published {
    /// The operation measured there.
    pub(crate) operation: &'static str,
    /// Our classes that do the same kind of work.
    pub(crate) classes: &'static [&'static str],
    pub(crate) printed: Printed,
}

const fn table(
    operation: &'static str,
    classes: &'static [&'static str],
    encrypted: [u32; 4],
    plain: [u32; 4],
) -> Published {
    Published { operation, classes, printed: Printed::Table(encrypted, plain) }
}

/// The figures, in the order of the report.
pub(crate) const PUBLISHED: [Published; 8] = [
    table(
        "10 SELECT",
        &["operations/select/cold", "operations/select/warm"],
        [7390, 121_576, 18, 26_037_103],
        [3062, 121_397, 1, 23_409_175],
    ),
    table(
        "5 INSERT",
        &["operations/insert/cold", "operations/insert/warm"],
        [125, 784, 16, 1_509_177],
        [32, 798, 16, 1_254_881],
    ),
    table(
        "8 UPDATE",
        &["operations/update/cold", "operations/update/warm"],
        [500, 2181, 31, 1_376_947],
        [108, 2215, 24, 1_080_074],
    ),
    table(
        "5 DELETE",
        &["operations/delete/cold", "operations/delete/warm"],
        [502, 2380, 30, 1_271_479],
        [63, 2417, 29, 708_979],
    ),
    table(
        "rebuild of every index",
        &["operations/reindex/cold", "operations/reindex/warm"],
        [14_936, 347_345, 46_028, 21_898],
        [7420, 347_116, 46_190, 17_133],
    ),
    table(
        "full backup, compressed",
        &["operations/backup-compressed/warm"],
        [234, 319, 14, 57_264],
        [195, 298, 13, 51_632],
    ),
    table(
        "full backup, not compressed",
        &["operations/backup-plain/warm"],
        [203, 319, 14, 70_384],
        [171, 300, 13, 55_714],
    ),
    Published {
        operation: "OLTP mixes, mean",
        classes: &["crud/10-0-0", "crud/4-3-3", "crud/0-5-5"],
        printed: Printed::Elapsed(1.0636),
    },
];

impl Published {
    /// Elapsed time, encrypted over plain.
    pub(crate) fn elapsed_ratio(&self) -> f64 {
        match self.printed {
            Printed::Table([.., above], [.., below]) => f64::from(above) / f64::from(below),
            Printed::Elapsed(ratio) => ratio,
        }
    }

    /// CPU, encrypted over plain; none where the source gives no figure.
    pub(crate) fn cpu_ratio(&self) -> Option<f64> {
        match self.printed {
            Printed::Table([above, ..], [below, ..]) => Some(f64::from(above) / f64::from(below)),
            Printed::Elapsed(_) => None,
        }
    }

    /// A row of the source's table: the operation, then CPU, reads, writes and duration, encrypted
    /// and plain. Durations of statements have no unit there that fits their size.
    pub(crate) fn row(&self) -> Option<(&'static str, Vec<String>)> {
        let Printed::Table(encrypted, plain) = self.printed else { return None };
        let operation = self.operation.trim_start_matches(|one: char| !one.is_alphabetic());
        let timed = if operation == self.operation { " ms" } else { "" };
        let amount = |value: u32| match value {
            ..10_000 => value.to_string(),
            _ => count(value.into()),
        };
        let words = |values: [u32; 4]| {
            values.into_iter().zip([" ms", "", "", timed]).map(|(one, unit)| amount(one) + unit)
        };
        Some((operation, [encrypted, plain].into_iter().flat_map(words).collect()))
    }
}

/// Published figures on backups: the quantity, the figure as the source gives it, and whether it is
/// the size of compressed backups or of others; none for durations.
pub(crate) const PUBLISHED_BACKUP: [(&str, &str, Option<bool>); 3] = [
    ("size, not compressed, encrypted over not encrypted", "+0.03 %", Some(false)),
    ("size, compressed, encrypted over not encrypted", "a further +0.04 %", Some(true)),
    ("duration, encrypted over not encrypted", "chart lost", None),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The ratios as the collection of published figures prints them.
    #[test]
    fn ratios_agree_with_the_collection() {
        let expected = [
            (1.112, Some(2.413)),
            (1.203, Some(3.906)),
            (1.275, Some(4.630)),
            (1.793, Some(7.968)),
            (1.278, Some(2.013)),
            (1.109, Some(1.200)),
            (1.263, Some(1.187)),
            (1.0636, None),
        ];
        for (figure, (elapsed, cpu)) in PUBLISHED.iter().zip(expected) {
            assert!((figure.elapsed_ratio() - elapsed).abs() < 6e-4, "{figure:?}");
            match (figure.cpu_ratio(), cpu) {
                (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 6e-4, "{figure:?}"),
                (found, wanted) => assert_eq!(found, wanted, "{figure:?}"),
            }
        }
    }

    #[test]
    fn rows_are_those_of_the_source() {
        let row = |index: usize| PUBLISHED[index].row().map(|(name, all)| (name, all.join(" ")));
        let statement = "7390 ms 121,576 18 26,037,103 3062 ms 121,397 1 23,409,175";
        assert_eq!(row(0), Some(("SELECT", statement.to_owned())));
        let rebuild = "14,936 ms 347,345 46,028 21,898 ms 7420 ms 347,116 46,190 17,133 ms";
        assert_eq!(row(4), Some(("rebuild of every index", rebuild.to_owned())));
        assert_eq!(row(7), None);
    }
}
