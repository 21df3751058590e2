//! The documents that experiments follow, and what they published.

use maud::{Markup, Render, html};

use super::book::Book;
use crate::format::percent;
use crate::model::{Metric, Results};
use crate::piece::{As, Piece, all, text};
use crate::published::{PUBLISHED, Published};
use crate::table::Table;

/// A document, in the words of the report.
pub(super) struct Document {
    /// Author, title, place and time.
    pub(super) citation: &'static str,
    /// The machine and software of the source.
    pub(super) environment: &'static str,
    /// How it measured.
    pub(super) method: &'static str,
    /// The source's result.
    pub(super) result: &'static str,
}

/// Of the operations.
pub(super) const OPERATIONS: Document = Document {
    citation: "Ben Snaidero, SQL Server Transparent Data Encryption (TDE) Performance Comparison, \
               MSSQLTips, 2012",
    environment: "SQL Server 2008, a database of 3 GB",
    method: "buffer cache emptied before each statement (DBCC DROPCLEANBUFFERS), each script run 3 \
             times with and then without encryption, averages, SQL Profiler",
    result: "statements: duration about +10 %, CPU about +60 %; backups: duration +10 to +20 %",
};

/// Of the backup matrix.
pub(super) const BACKUP: Document = Document {
    citation: "Aaron Bertrand, SQL Server 2014: Native backup encryption, SQLPerformance, 2013",
    environment: "SQL Server 2014 CTP2, data file of 1,553,408 KB, one hard disk and one SSD",
    method: "4 ciphers and none, with and without compression, from and to HDD and SSD: 40 \
             backups, each run 10 times; size and duration from the backup history",
    result: "size +0.03 %, compressed a further +0.04 %; the chart of durations is lost",
};

/// Of the OLTP workloads.
pub(super) const OLTP: Document = Document {
    citation: "RDS for MySQL, report on the performance of transparent data encryption (TDE)",
    environment: "MySQL 8.0.28 as a cloud service, 4 cores with 16 GB and 8 cores with 32 GB, \
                  local SSDs, 41 GB of data",
    method: "sysbench's OLTP scripts on 128 tables, 1 to 256 threads, 60 s each, an instance \
             without and one with TDE",
    result: "throughput up to -20 % with few threads, less than -5 % with many; worst for \
             oltp_write_only and oltp_update_index; CPU +0.06 to +4.22 points (4 cores), +0.12 to \
             +2.86 (8 cores)",
};

/// Of messages.
pub(super) const MESSAGES: Document = Document {
    citation: "Nenad Noveljic, Excessive Context Switching due to TDS Encryption, \
               6 September 2018",
    environment: "SQL Server 2014 and 2017",
    method: "a T-SQL loop of 100,000,000 steps, a message for each, over an encrypted and a plain \
             connection; elapsed time, CPU, waits, context switches of the instance",
    result: "2014: elapsed time +60 %, CPU +39 %, 1,273,235 context switches instead of 1,117; \
             2017: +6 %, +3 %, as many context switches",
};

/// Of the crud mixes.
pub(super) const MIXES: Document = Document {
    citation: "Rob Garrison, Performance Testing SQL 2008's Transparent Data Encryption, Database \
               Journal, 20 April 2009",
    environment: "SQL Server 2008 on 4 dual-core AMD processors, 16 GB, direct-attached SCSI disks",
    method: "10 processes of 100,000 loops, a delay of 1 s every 1,000; Vendor, Card and Purchase \
             of 100,000 rows each; 16 mixes of reads, updates and inserts, base and then encrypted",
    result: "elapsed time +6.36 % on the mean of 16 mixes; no clear difference in CPU",
};

/// Document, there, here, and how to run it again.
pub(super) fn provenance(
    results: &Results,
    name: &str,
    document: Option<&Document>,
    here: &impl Render,
) -> Markup {
    html! {
        dl class="provenance" {
            @if let Some(document) = document {
                div { dt { "Follows" } dd data-fixed { (document.citation) } }
                div { dt { "There" } dd data-fixed { (document.environment) } }
                div { dt { "How, there" } dd data-fixed { (document.method) } }
                div { dt { "Found there" } dd data-fixed { (document.result) } }
            }
            div { dt { "How, here" } dd { (here) } }
            div { dt { "Run it again" } dd { (rerun(results, name)) } }
        }
    }
}

/// The command that repeats one experiment: the run's own with its seed, and the experiment where
/// the run had not been told one.
fn rerun(results: &Results, name: &str) -> Markup {
    let missing = |option: &str| !results.command.split(' ').any(|word| word.starts_with(option));
    html! {
        code class="command" {
            (text("command", &results.command))
            @if missing("--experiment") { " --experiment " (name) }
            @if missing("--seed") {
                " --seed " (text("settings/seed", &results.settings.seed.to_string()))
            }
        }
    }
}

/// Published figures beside ours, those whose classes begin so.
pub(super) fn beside(book: &Book<'_>, start: &str) -> Markup {
    let of_start = |figure: &&Published| figure.classes.iter().any(|one| one.starts_with(start));
    let rows = PUBLISHED.iter().filter(of_start).map(|figure| {
        vec![
            figure.operation.into(),
            percent(figure.elapsed_ratio()).into(),
            ours(book, figure, Metric::Elapsed),
            figure.cpu_ratio().map_or_else(|| "none given".to_owned(), percent).into(),
            ours(book, figure, Metric::Cpu),
        ]
    });
    let name = format!("Published figures beside ours, {}", start.trim_end_matches('/'));
    let head = ["Published for", "Elapsed there", "Elapsed here", "CPU there", "CPU here"];
    html! {
        h3 { "Published figures beside ours" }
        p class="quiet" {
            "Other software, machines and years: what readers have come to expect, not a race."
        }
        (Table::new(name, head, rows))
    }
}

/// Our classes of the same kind of work, a line each.
fn ours(book: &Book<'_>, figure: &Published, metric: Metric) -> Piece {
    let of = |id: &&str| {
        let class = book.shown.cells(id).into_iter().find(|class| class.item.id == **id)?;
        let found = book.overhead(class.item, metric)?;
        let label = class.text("label", &class.item.label).small();
        Some(all![found.ratio(As::Percent), " ", label])
    };
    Piece::lines(figure.classes.iter().filter_map(of))
}
