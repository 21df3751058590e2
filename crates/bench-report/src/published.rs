//! Figures that others published, to be set beside ours.

/// One published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// The operation measured there.
    pub operation: &'static str,
    /// Our classes that do the same kind of work.
    pub classes: &'static [&'static str],
    /// Elapsed, encrypted over plain.
    pub elapsed_ratio: f64,
    /// CPU, encrypted over plain; none where the source gives no figure.
    pub cpu_ratio: Option<f64>,
    /// Title of the source and what it measured on.
    pub source: &'static str,
}

const OPERATIONS: &str = "Ben Snaidero, performance impact of SQL Server 2008 Transparent Data \
     Encryption: 3 GB database, buffer cache emptied before each statement, averages of 3 runs";
const MIXES: &str = "Rob Garrison, Performance Testing SQL 2008's Transparent Data Encryption, \
     Database Journal, 20 April 2009: 10 processes, 100,000 loops each, mean of 16 mixes";

/// The figures, in the order of the report. Ratios follow from the absolute values that the
/// sources print.
pub const PUBLISHED: &[Published] = &[
    Published {
        operation: "10 SELECT",
        classes: &["operations/select/cold", "operations/select/warm"],
        elapsed_ratio: 26_037_103.0 / 23_409_175.0,
        cpu_ratio: Some(7390.0 / 3062.0),
        source: OPERATIONS,
    },
    Published {
        operation: "5 INSERT",
        classes: &["operations/insert/cold", "operations/insert/warm"],
        elapsed_ratio: 1_509_177.0 / 1_254_881.0,
        cpu_ratio: Some(125.0 / 32.0),
        source: OPERATIONS,
    },
    Published {
        operation: "8 UPDATE",
        classes: &["operations/update/cold", "operations/update/warm"],
        elapsed_ratio: 1_376_947.0 / 1_080_074.0,
        cpu_ratio: Some(500.0 / 108.0),
        source: OPERATIONS,
    },
    Published {
        operation: "5 DELETE",
        classes: &["operations/delete/cold", "operations/delete/warm"],
        elapsed_ratio: 1_271_479.0 / 708_979.0,
        cpu_ratio: Some(502.0 / 63.0),
        source: OPERATIONS,
    },
    Published {
        operation: "rebuild of every index",
        classes: &["operations/reindex/cold", "operations/reindex/warm"],
        elapsed_ratio: 21_898.0 / 17_133.0,
        cpu_ratio: Some(14_936.0 / 7420.0),
        source: OPERATIONS,
    },
    Published {
        operation: "full backup, compressed",
        classes: &["operations/backup-compressed/warm"],
        elapsed_ratio: 57_264.0 / 51_632.0,
        cpu_ratio: Some(234.0 / 195.0),
        source: OPERATIONS,
    },
    Published {
        operation: "full backup, not compressed",
        classes: &["operations/backup-plain/warm"],
        elapsed_ratio: 70_384.0 / 55_714.0,
        cpu_ratio: Some(203.0 / 171.0),
        source: OPERATIONS,
    },
    Published {
        operation: "OLTP mixes, mean",
        classes: &["crud/10-0-0", "crud/4-3-3", "crud/0-5-5"],
        elapsed_ratio: 1.0636,
        cpu_ratio: None,
        source: MIXES,
    },
];

/// One published figure on backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedBackup {
    /// The quantity.
    pub what: &'static str,
    /// The figure as the source gives it.
    pub there: &'static str,
    /// Whether it is the size of compressed backups, or of others; none for durations.
    pub compressed: Option<bool>,
}

/// The source of the figures on backups, with its machine.
pub const PUBLISHED_BACKUP_SOURCE: &str = "Aaron Bertrand, SQL Server 2014: Native backup \
     encryption, SQLPerformance: data file of 1,553,408 KB; none, AES_128, AES_192, AES_256, \
     TRIPLE_DES_3KEY, with and without compression, from and to HDD and SSD, 10 runs each.";

/// The figures on backups, in the order of the report.
pub const PUBLISHED_BACKUP: &[PublishedBackup] = &[
    PublishedBackup {
        what: "size, not compressed, encrypted over not encrypted",
        there: "+0.03 %",
        compressed: Some(false),
    },
    PublishedBackup {
        what: "size, compressed, encrypted over not encrypted",
        there: "a further +0.04 %",
        compressed: Some(true),
    },
    PublishedBackup {
        what: "duration, encrypted over not encrypted",
        there: "chart lost",
        compressed: None,
    },
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
        assert_eq!(PUBLISHED.len(), expected.len());
        for (figure, (elapsed, cpu)) in PUBLISHED.iter().zip(expected) {
            assert!((figure.elapsed_ratio - elapsed).abs() < 6e-4, "{figure:?}");
            match (figure.cpu_ratio, cpu) {
                (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 6e-4, "{figure:?}"),
                (found, wanted) => assert_eq!(found, wanted, "{figure:?}"),
            }
        }
    }
}
