//! From the shapes of older documents to that of today's. What is computed from measured values is
//! left out: the reader computes it anew.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::index::compression_words;
use crate::model::{Metric, SCHEMA};

type Object = Map<String, Value>;

/// Brings a document of schema 1, 2 or 3 to today's shape: each experiment had a shape of its own,
/// and what is `embedded` now was the document itself. What is no document is left to the reader.
pub(super) fn bring_up(document: &mut Value) {
    let Some(document) = document.as_object_mut() else { return };
    document.insert("schema".to_owned(), json!(SCHEMA));
    if list(document, "sides").next().is_some() {
        let new = embedded(document);
        document.insert("embedded".to_owned(), new);
    }
    for (name, part) in
        [("oltp", oltp as fn(&Object) -> Value), ("messages", messages), ("backup", backup)]
    {
        if let Some(found) = document.get(name).and_then(Value::as_object) {
            let new = part(found);
            document.insert(name.to_owned(), new);
        }
    }
}

fn list<'a>(object: &'a Object, name: &str) -> impl Iterator<Item = &'a Object> {
    let list = object.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

fn words<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The fields of these names.
fn facts(object: &Object, names: &[&str]) -> Object {
    let known = names.iter().filter_map(|name| {
        let value = object.get(*name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    });
    known.collect()
}

/// Of these, and of latencies, a zero says that there is none, where clients were driven.
const NONE_AT_ZERO: [&str; 7] =
    ["cpu_ns", "client_cpu_ns", "own_cpu_ns", "client_switches", "packets", "bytes", "wire_bytes"];

/// Values by metric: most fields had the names of the metrics' columns, those within another one
/// with its name before.
fn values(run: &Object) -> Object {
    let mut fields: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in run {
        let name = match name.strip_prefix("engine_").unwrap_or(name) {
            "logical_reads" => "pages_read",
            "logical_writes" => "pages_written",
            "context_switches" => "server_switches",
            name => name,
        };
        fields.extend(value.as_f64().map(|value| (name.to_owned(), value)));
        for (part, value) in value.as_object().into_iter().flatten() {
            let part = if part == "avg_ns" { "mean_ns" } else { part };
            fields.extend(value.as_f64().map(|value| (format!("{name}_{part}"), value)));
        }
    }
    for (sum, parts) in [
        ("cpu_ns", ["user_ns", "system_ns"]),
        ("server_switches", ["server_voluntary_switches", "server_involuntary_switches"]),
        ("client_switches", ["client_voluntary_switches", "client_involuntary_switches"]),
    ] {
        if let [Some(one), Some(other)] = parts.map(|part| fields.get(part).copied()) {
            fields.entry(sum.to_owned()).or_insert(one + other);
        }
    }
    if run.contains_key("engine_cpu_ns") || run.contains_key("wire_bytes") {
        let none = |name: &str| name.starts_with("latency_") || NONE_AT_ZERO.contains(&name);
        fields.retain(|name, value| *value > 0.0 || !none(name));
    }
    let of =
        |metric: &Metric| Some((metric.name(), json!(fields.get(metric.info().column).copied()?)));
    Metric::EVERY.iter().filter_map(of).collect()
}

/// A run; where it stands is in `old`, its values may be in a part of that.
fn run(old: &Object, cell: &str, side: &str, part: &Object) -> Value {
    let number = |names: [&str; 2]| names.iter().find_map(|name| old.get(*name)).cloned();
    json!({
        "cell": cell,
        "side": side,
        "restart": number(["restart", "block"]),
        "pair": number(["pair", "pair"]).unwrap_or(json!(0)),
        "position": number(["position", "position"]),
        "values": values(part),
    })
}

fn runs_of(old: &Object) -> Vec<Value> {
    let run = |one| run(one, words(one, "cell"), words(one, "side"), one);
    list(old, "runs").map(run).collect()
}

fn report(
    old: &Object,
    (experiment, facts): (&str, Object),
    sides: Vec<Value>,
    (cells, runs): (Vec<Value>, Vec<Value>),
) -> Value {
    json!({
        "experiment": experiment,
        "facts": facts,
        "limits": old.get("limits").cloned().unwrap_or(json!([])),
        "sides": sides,
        "cells": cells,
        "runs": runs,
        "summary": { "comparisons": [], "totals": [], "pooled": [] },
    })
}

fn embedded(old: &Object) -> Value {
    let mut runs = Vec::new();
    for sample in list(old, "samples") {
        let of = |part| run(sample, words(sample, "class"), words(sample, "side"), part);
        runs.push(of(sample));
        for (index, part) in list(sample, "statements").enumerate() {
            let mut share = of(part);
            share["statement"] = json!(index);
            runs.push(share);
        }
    }
    let copied = |name: &str| old.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let parts = (copied("classes"), runs);
    let mut new = report(old, ("embedded", Object::new()), copied("sides"), parts);
    for name in ["statements", "probes", "latencies", "warm_up", "driver"] {
        new[name] = Value::Array(copied(name));
    }
    new
}

fn oltp(old: &Object) -> Value {
    let names =
        ["target", "engine", "driver", "tables", "rows", "data_bytes", "block_s", "restarts"];
    let side = |side: &Object| {
        let mut new = facts(side, &["id", "label", "role", "cipher"]);
        new.entry("cipher").or_insert(Value::Null);
        let options = side.get("options").and_then(Value::as_array);
        let options: Vec<&str> = options.into_iter().flatten().filter_map(Value::as_str).collect();
        if !options.is_empty() {
            new.insert("facts".to_owned(), json!({ "options": options.join(" ") }));
        }
        Value::Object(new)
    };
    let cell = |cell: &Object| {
        let threads = cell.get("threads").and_then(Value::as_u64).unwrap_or(0);
        let workload = words(cell, "workload");
        let plural = if threads == 1 { "" } else { "s" };
        json!({
            "id": words(cell, "id"),
            "experiment": "oltp",
            "label": format!("{workload}, {threads} thread{plural}"),
            "what": "",
            "operations": 0,
            "unit": words(cell, "unit"),
            "axes": { "workload": workload, "threads": threads.to_string() },
        })
    };
    let mut new = report(
        old,
        ("oltp", facts(old, &names)),
        list(old, "sides").map(side).collect(),
        (list(old, "cells").map(cell).collect(), runs_of(old)),
    );
    let settings = list(old, "settings")
        .map(|each| (words(each, "name").to_owned(), json!(words(each, "value"))));
    new["settings"] = Value::Object(settings.collect());
    new
}

fn messages(old: &Object) -> Value {
    let names =
        ["target", "server", "server_process", "loops", "stream_rows", "packet_bytes", "restarts"];
    let side = |side: &Object| {
        let mut new = facts(side, &["id", "label", "role"]);
        if words(side, "mode") == "direct" {
            new.insert("role".to_owned(), json!("reference"));
        }
        new.insert("cipher".to_owned(), side.get("suite").cloned().unwrap_or_default());
        let known = facts(side, &["mode", "protocol", "packet_bytes"]);
        new.insert("facts".to_owned(), Value::Object(known));
        Value::Object(new)
    };
    let cell = |cell: &Object| {
        json!({
            "id": words(cell, "id"),
            "experiment": "messages",
            "label": words(cell, "label"),
            "what": words(cell, "statement"),
            "operations": cell.get("units"),
            "unit": words(cell, "unit"),
        })
    };
    let mut new = report(
        old,
        ("messages", facts(old, &names)),
        list(old, "sides").map(side).collect(),
        (list(old, "cells").map(cell).collect(), runs_of(old)),
    );
    if let Some(idle) = old.get("idle") {
        new["idle"] = idle.clone();
    }
    new
}

/// A cell named a cipher with its compression and devices; now it names what ciphers share, and
/// what was done.
fn backup(old: &Object) -> Value {
    let mut sides: Vec<Value> = Vec::new();
    let mut cells: Vec<Value> = Vec::new();
    for (cell, action) in list(old, "cells").flat_map(|cell| [(cell, "backup"), (cell, "restore")])
    {
        let (id, side) = (cell_id(cell, action), side_of(cell));
        let is_peer = words(cell, "role") == "peer";
        let run = |run: &Object| {
            words(run, "cell") == words(cell, "id") && words(run, "action") == action
        };
        if !list(old, "runs").any(run) {
            continue;
        }
        if !sides.iter().any(|known| known["id"] == side) {
            let cipher = (words(cell, "role") == "encrypted").then_some(side);
            let role = if is_peer { "reference" } else { words(cell, "role") };
            let tool = list(old, "tools").find(|tool| words(tool, "name") == side);
            let version = tool.map(|tool| json!({ "version": words(tool, "version") }));
            sides.push(json!({
                "id": side, "label": side, "role": role, "cipher": cipher,
                "facts": version.unwrap_or(json!({})),
            }));
        }
        if !cells.iter().any(|known| known["id"] == *id) {
            cells.push(backup_cell(cell, action, &id));
        }
    }
    let runs = list(old, "runs").filter_map(|one| {
        let cell = list(old, "cells").find(|cell| words(cell, "id") == words(one, "cell"))?;
        let id = cell_id(cell, words(one, "action"));
        Some(run(one, &id, side_of(cell), one))
    });
    let runs = runs.collect();
    let mut known = facts(old, &["label", "source_bytes", "cold", "restored"]);
    known.insert("restarts".to_owned(), old.get("blocks").cloned().unwrap_or(json!(0)));
    let mut new = report(old, ("backup", known), sides, (cells, runs));
    let settings = list(old, "devices").map(|device| {
        let is = |name: &str| device.get(name) == Some(&Value::Bool(true));
        let part = match (is("source"), is("target")) {
            (true, true) => "source and target",
            (true, false) => "source",
            _ => "target",
        };
        let value = format!("{}, {part}", words(device, "file_system"));
        (words(device, "name").to_owned(), json!(value))
    });
    new["settings"] = Value::Object(settings.collect());
    new
}

/// The tool or cipher, which tells a cell from others of the same compression and devices.
fn side_of(cell: &Object) -> &str {
    words(cell, if words(cell, "role") == "peer" { "tool" } else { "cipher" })
}

/// The dimension that cells of a tool or of a compression share, and its value.
fn what_of(cell: &Object) -> (&str, &str) {
    let name = if words(cell, "role") == "peer" { "tool" } else { "compression" };
    (name, words(cell, name))
}

/// The identifier that cells of one compression and the same devices share.
fn cell_id(cell: &Object, action: &str) -> String {
    let (_, what) = what_of(cell);
    format!("{action}/{what}/{}/{}", words(cell, "source"), words(cell, "target"))
}

fn backup_cell(cell: &Object, action: &str, id: &str) -> Value {
    let (name, what) = what_of(cell);
    let (source, target) = (words(cell, "source"), words(cell, "target"));
    let shown = compression_words(what);
    let mut axes = json!({ "action": action, "source": source, "target": target });
    axes[name] = json!(what);
    json!({
        "id": id,
        "experiment": "backup",
        "label": format!("{action}, {shown}, {source} to {target}"),
        "what": "",
        "operations": 1,
        "unit": action,
        "axes": axes,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::json::from_json;
    use crate::model::{Results, SCHEMA};

    const THREE: &str = include_str!("../../../../../tests/fixtures/results/tdekit-bench-3.json");
    const FOUR: &str = include_str!("../../../../../tests/fixtures/results/tdekit-bench-4.json");

    /// Every ratio and interval as it was written is computed anew from the values.
    #[test]
    fn a_document_of_three_keeps_its_figures() {
        let document: Value = serde_json::from_str(THREE).unwrap();
        assert_eq!(document["schema"], "tdekit-bench/3");
        let read: Results = from_json(THREE).unwrap();
        assert_eq!(read.schema, SCHEMA);
        for (name, at) in [
            ("embedded", "/summary/comparisons"),
            ("oltp", "/oltp/summary/ratios"),
            ("messages", "/messages/summary/ratios"),
            ("backup", "/backup/summary/ratios"),
            ("backup", "/backup/summary/pooled"),
        ] {
            let (_, report) = read.reports().find(|(known, _)| *known == name).unwrap();
            let own = report.summary.comparisons.iter();
            let own = own.map(|one| (&one.side, [Some(one.ratio), one.low, one.high]));
            let pooled = report.summary.pooled.iter();
            let pooled = pooled.map(|one| (&one.side, [Some(one.ratio), one.low, one.high]));
            let new: Vec<_> = own.chain(pooled).collect();
            let old = document.pointer(at).unwrap().as_array().unwrap();
            assert!(!old.is_empty(), "{at}");
            for old in old {
                let then = ["ratio", "low", "high"].map(|field| old[field].as_f64());
                let side = old["side"].as_str();
                let found = new.iter().any(|(known, now)| {
                    let close = |(then, now): (&Option<f64>, &Option<f64>)| match (then, now) {
                        (Some(then), Some(now)) => (then - now).abs() <= 1e-9 * then.abs(),
                        (then, now) => then == now,
                    };
                    side.is_none_or(|side| side == *known) && then.iter().zip(now).all(close)
                });
                assert!(found, "{old}");
            }
        }
    }

    /// The same run as the version of today writes it: cells, sides, values, figures.
    #[test]
    fn a_document_of_four_is_read_as_it_stands() {
        assert!(FOUR.contains("\"schema\": \"tdekit-bench/4\""));
        assert_eq!(from_json(FOUR).unwrap(), from_json(THREE).unwrap());
        let wrong = FOUR.replacen("\"cell\"", "\"class\"", 1);
        assert!(from_json(&wrong).is_err());
    }
}
