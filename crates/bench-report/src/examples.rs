//! Reports that tests have in common.

use std::collections::BTreeMap;

use crate::index::Stage;
use crate::metric::Metric;
use crate::model::{
    Class, Experiment, Library, Probe, ProbeKind, Results, Role, SCHEMA, Settings, Side, Subject,
    Tool,
};
use crate::report::{Idle, Report, Run, measured};

/// Three restarts of two pairs; encrypted takes 1.1 times as long with 1.2 times the CPU, the
/// peer 3 times the base and 2.5 times its own plain side.
pub(crate) fn example() -> Results {
    let mut results = Results {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "tdekit".to_owned(), version: "0.1.0".to_owned() },
        started: "2026-11-21T06:00:00Z".to_owned(),
        duration_s: 12.5,
        command: "tdekit bench --quick".to_owned(),
        settings: Settings {
            journal_mode: "wal".to_owned(),
            synchronous: "normal".to_owned(),
            page_size_bytes: 4096,
            restarts: 3,
            pairs: 2,
            algorithm: "AES_256".to_owned(),
            confidence_permille: 950,
            seed: 1,
            ..Settings::default()
        },
        subject: Subject {
            label: "generated <Vendor & Card>".to_owned(),
            bytes: 61_000_000,
            ..Subject::default()
        },
        embedded: Some(embedded()),
        ..Results::default()
    };
    crate::summarize(&mut results);
    results
}

/// The report of the example.
pub(crate) fn embedded() -> Report {
    let library = Library { version: "3.40.1".to_owned(), ..Library::default() };
    let side = |id: &str, role| Side { library: library.clone(), ..Side::new(id, id, role) };
    let peer = Side {
        plain: Some("peer-plain".to_owned()),
        ..side("peer", Role::Peer).with_cipher(Some("aes"))
    };
    let sides = vec![
        side("base", Role::Base),
        side("encrypted", Role::Encrypted),
        peer,
        side("peer-plain", Role::PeerPlain),
    ];
    let mut report = Report::new(Experiment::Embedded, sides);
    let (id, label) = ("crud/4-3-3", "mix 4/3/3");
    let mix = cell(Experiment::Crud, (id, label), (400, "loop"), &[]);
    report.cells.push(Class { what: "4 reads, 3 updates, 3 inserts".to_owned(), ..mix });
    for restart in 0..3 {
        let scales = [("base", 100, 100), ("encrypted", 110, 120), ("peer-plain", 120, 120)];
        let scales = scales.into_iter().chain([("peer", 300, 300)]);
        for (pair, (side, elapsed, cpu)) in scales.flat_map(|one| [(0, one), (1, one)]) {
            let level = 1_000_000 + u64::from(restart) * 50_000 + u64::from(pair) * 10_000;
            let values = [
                (Metric::Elapsed, level * elapsed / 100),
                (Metric::Cpu, level * cpu / 100),
                (Metric::User, level * cpu / 200),
                (Metric::System, level * cpu / 200),
                (Metric::PagesRead, 10),
                (Metric::PagesWritten, 20),
                (Metric::DeviceRead, 0),
                (Metric::DeviceWrite, 4096),
                (Metric::VoluntarySwitches, 3),
                (Metric::InvoluntarySwitches, 1),
                (Metric::Instructions, level * 3 * cpu / 100),
            ];
            report.runs.push(run(id, side, (restart, pair), &values));
        }
        let probe = |(side, value): (&str, f64)| Probe {
            kind: ProbeKind::ProcessMemory,
            side: side.to_owned(),
            restart,
            value,
        };
        report.probes.extend([("base", 3e6), ("encrypted", 4e6)].map(probe));
    }
    summarize(&mut report);
    report
}

/// A run of all experiments.
pub(crate) fn whole() -> Results {
    Results {
        backup: Some(backup()),
        oltp: Some(oltp()),
        messages: Some(messages_with_everything()),
        ..example()
    }
}

/// All of these words stand in a text.
#[track_caller]
pub(crate) fn holds<const N: usize>(text: &str, all: [&str; N]) {
    for wanted in all {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
}

/// Computes the summary anew, of a run of a fixed length.
pub(crate) fn summarize(report: &mut Report) {
    report.summary = crate::summary::summary(report, Stage::fixed(0.95));
}

pub(crate) fn cell(
    experiment: Experiment,
    (id, label): (&str, &str),
    (operations, unit): (u64, &str),
    axes: &[(&str, &str)],
) -> Class {
    Class {
        id: id.to_owned(),
        experiment,
        label: label.to_owned(),
        what: String::new(),
        operations,
        unit: unit.to_owned(),
        axes: axes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

pub(crate) fn run(
    cell: &str,
    side: &str,
    (restart, pair): (u32, u32),
    values: &[(Metric, u64)],
) -> Run {
    Run {
        cell: cell.to_owned(),
        statement: None,
        side: side.to_owned(),
        restart,
        pair,
        position: 0,
        values: measured(values.iter().map(|(metric, value)| (*metric, Some(*value)))),
    }
}

/// Three blocks. Times of a block grow with its number; AES_256 takes 1.1 times as long to the disk
/// and 1.3 times to memory, with twice the CPU and 0.02 % more bytes; the other tool takes 4 times
/// as long as none.
pub(crate) fn backup() -> Report {
    let sides = vec![
        Side::new("none", "none", Role::Base),
        Side::new("AES_256", "AES_256", Role::Encrypted).with_cipher(Some("AES_256")),
        Side::new("restic", "restic", Role::Reference),
    ];
    let mut report = Report::new(Experiment::Backup, sides);
    report.set("label", "generated <db>");
    report.set("source_bytes", 200_000_000_u64);
    report.set("cold", true);
    report.set("restored", true);
    report.set("restarts", 3_u32);
    let device = ("disk".to_owned(), "ext4, source and target".to_owned());
    report.settings = BTreeMap::from([device]);
    for action in ["backup", "restore"] {
        for target in ["disk", "memory"] {
            for compression in ["none", "zstd"] {
                let id = format!("{action}/{compression}/disk/{target}");
                let words = crate::index::compression_words(compression);
                let label = format!("{action}, {words}, disk to {target}");
                let axes = [
                    ("action", action),
                    ("compression", compression),
                    ("source", "disk"),
                    ("target", target),
                ];
                report.cells.push(cell(Experiment::Backup, (&id, &label), (1, action), &axes));
                for block in 0..3 {
                    for side in ["none", "AES_256"] {
                        report.runs.push(backup_run(&id, (side, target), block));
                    }
                }
            }
        }
        let id = format!("{action}/restic/disk/disk");
        let axes = [("action", action), ("tool", "restic"), ("source", "disk"), ("target", "disk")];
        report.cells.push(cell(Experiment::Backup, (&id, &id), (1, action), &axes));
        report.runs.extend((0..3).map(|block| backup_run(&id, ("restic", "disk"), block)));
    }
    summarize(&mut report);
    report
}

fn backup_run(cell: &str, (side, target): (&str, &str), block: u32) -> Run {
    let level = 1_000_000_000 + u64::from(block) * 100_000_000;
    let encrypted = side == "AES_256";
    let percent = match (side, target) {
        ("none", _) => 100,
        ("AES_256", "disk") => 110,
        ("AES_256", _) => 130,
        _ => 400,
    };
    let cpu_ns = if encrypted { 2 } else { 1 } * level / 2;
    let size = if cell.contains("/zstd/") { 100_000_000 } else { 200_000_000 };
    let values = [
        (Metric::Elapsed, level * percent / 100),
        (Metric::Cpu, cpu_ns),
        (Metric::User, cpu_ns / 2),
        (Metric::System, cpu_ns / 2),
        (Metric::PeakMemory, 20_000_000),
        (Metric::Size, if encrypted { size + size / 5000 } else { size }),
    ];
    run(cell, side, (block, 0), &values)
}

/// Three restarts of two pairs. At 1 thread the encrypted side does 0.96 of the transactions with
/// 1.05 times the CPU each, at 8 threads 0.99 and 1.10; the peer 0.80 and 1.25 in both.
pub(crate) fn oltp() -> Report {
    let sides = vec![
        Side::new("base", "base", Role::Base),
        Side::new("tdekit", "tdekit", Role::Encrypted).with_cipher(Some("AES")),
        Side::new("peer", "peer", Role::Peer).with_cipher(Some("AES")),
    ];
    let mut report = Report::new(Experiment::Oltp, sides);
    report.set("engine", "MariaDB 10.11.19");
    report.set("driver", "sysbench 1.0.20");
    report.set("tables", 4_u32);
    report.set("rows", 150_000_u64);
    report.set("data_bytes", 150_000_000_u64);
    report.settings =
        BTreeMap::from([("innodb_buffer_pool_size".to_owned(), "67108864".to_owned())]);
    for (threads, words) in [("1", "1 thread"), ("8", "8 threads")] {
        let (id, label) =
            (format!("oltp_read_write/{threads}"), format!("oltp_read_write, {words}"));
        let axes = [("workload", "oltp_read_write"), ("threads", threads)];
        report.cells.push(cell(Experiment::Oltp, (&id, &label), (0, "transaction"), &axes));
        for (restart, pair) in (0..3_u32).flat_map(|one| [(one, 0), (one, 1)]) {
            let level = 10_000 + u64::from(restart) * 400 + u64::from(pair) * 100;
            let ours = if threads == "1" { (96, 105) } else { (99, 110) };
            for (side, (speed, cpu)) in
                [("base", (100, 100)), ("tdekit", ours), ("peer", (80, 125))]
            {
                let done = level * speed / 100;
                let values = [
                    (Metric::Transactions, done),
                    (Metric::Queries, done * 20),
                    (Metric::Elapsed, 2_000_000_000),
                    (Metric::Cpu, done * 1_000 * cpu),
                    (Metric::ClientCpu, 100_000_000),
                    (Metric::OwnCpu, 2_000_000),
                    (Metric::DeviceRead, 16_384 * done),
                    (Metric::MedianLatency, 1_000_000),
                    (Metric::P95Latency, 2_000_000),
                    (Metric::TailLatency, 3_000_000),
                ];
                report.runs.push(run(&id, side, (restart, pair), &values));
            }
        }
    }
    summarize(&mut report);
    report
}

fn message(cell: &str, side: &str, place: (u32, u32), scale: (u64, u64, u64)) -> Run {
    let level = 1_000_000 + u64::from(place.0) * 30_000 + u64::from(place.1) * 7000;
    let values = [
        (Metric::Elapsed, level * scale.0 / 100),
        (Metric::ServerCpu, level * scale.1 / 100),
        (Metric::ServerSwitches, scale.2 + 10),
        (Metric::Packets, 1000),
        (Metric::Bytes, 4_096_000),
        (Metric::WireBytes, 4_120_000),
        (Metric::ClientCpu, level / 2),
        (Metric::ClientSwitches, 100),
    ];
    run(cell, side, place, &values)
}

/// Three restarts of two pairs: encrypted takes 1.1 times as long, 1.25 times the server's CPU and
/// 20 times its context switches.
pub(crate) fn messages() -> Report {
    let mut on = Side::new("on", "on", Role::Encrypted).with_cipher(Some("TLS_ECDHE_AES"));
    on.facts.insert("protocol".to_owned(), "TLSv1.2".into());
    let mut report =
        Report::new(Experiment::Messages, vec![Side::new("off", "off", Role::Base), on]);
    report.set("server", "tdekit 16.0.1");
    report.set("server_process", "tdekit");
    let name = ("loop", "message loop");
    report.cells.push(cell(Experiment::Messages, name, (1000, "step"), &[]));
    for place in (0..3_u32).flat_map(|one| [(one, 0), (one, 1)]) {
        report.runs.push(message("loop", "off", place, (100, 100, 90)));
        report.runs.push(message("loop", "on", place, (110, 125, 1990)));
    }
    summarize(&mut report);
    report
}

/// With a cell that SQLite does directly in half the CPU, and connections that wait.
pub(crate) fn messages_with_everything() -> Report {
    let mut report = messages();
    report.sides.push(Side::new("direct", "in-process", Role::Reference));
    let name = ("points", "point selects");
    report.cells.push(cell(Experiment::Messages, name, (500, "select"), &[]));
    for restart in 0..3 {
        report.runs.push(message("points", "off", (restart, 0), (100, 100, 90)));
        report.runs.push(message("points", "on", (restart, 0), (110, 125, 90)));
        let mut direct = message("points", "direct", (restart, 0), (50, 50, 0));
        direct.values.retain(|metric, _| {
            matches!(metric, Metric::Elapsed | Metric::ServerCpu | Metric::ServerSwitches)
        });
        report.runs.push(direct);
    }
    report.idle.push(Idle {
        side: "on".to_owned(),
        connections: 1000,
        before_bytes: 20_000_000,
        after_bytes: 50_000_000,
        peak_bytes: 60_000_000,
        threads: 5,
        opened_ns: 2_000_000_000,
    });
    summarize(&mut report);
    report
}
