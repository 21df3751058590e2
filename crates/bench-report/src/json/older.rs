//! From the shapes of older documents to that of today's.

use serde_json::{Map, Value, json};

use crate::model::SCHEMA;

/// Metrics of OLTP workloads that had names of their own.
const OLTP_METRICS: [(&str, &str); 4] = [
    ("cpu", "cpu_each"),
    ("median", "median_latency"),
    ("p95", "p95_latency"),
    ("p99", "tail_latency"),
];

/// Brings a document of schema 1, 2 or 3 to today's shape: the ratios of backups, OLTP workloads
/// and messages become those of the other experiments. What is no document is left to the reader.
pub(super) fn bring_up(document: &mut Value) {
    if let Some(schema) = document.get_mut("schema") {
        *schema = json!(SCHEMA);
    }
    for (part, lists) in [("oltp", &["ratios", "overall"][..]), ("messages", &["ratios", "direct"])]
    {
        for list in lists {
            for found in objects(document, &format!("/{part}/summary/{list}")) {
                rename(found, "cell", "class");
                let metric = found.get("metric").and_then(Value::as_str).unwrap_or_default();
                let name = OLTP_METRICS.iter().find(|(old, _)| part == "oltp" && *old == metric);
                if let Some((_, new)) = name {
                    found.insert("metric".to_owned(), json!(new));
                }
            }
        }
    }
    let cells: Vec<Value> = objects(document, "/backup/cells").map(|cell| json!(cell)).collect();
    for found in objects(document, "/backup/summary/ratios") {
        backup_ratio(found, &cells);
    }
}

fn objects<'a>(
    document: &'a mut Value,
    pointer: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = document.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

/// It named two cells; now it names the one that they share but for their ciphers, and these.
fn backup_ratio(found: &mut Map<String, Value>, cells: &[Value]) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let cell = |id: Option<&Value>| cells.iter().find(|cell| cell.get("id") == id);
    let side = |cell: &Value| {
        let peer = cell.get("role").and_then(Value::as_str) == Some("peer");
        text(cell.get(if peer { "tool" } else { "cipher" }))
    };
    let both = cell(found.get("cell")).zip(cell(found.get("against")));
    if let Some((own, against)) = both {
        let (own_side, against_side) = (side(own), side(against));
        let place = ["compression", "source", "target"].map(|name| text(own.get(name)));
        let class = format!("{}/{}", text(found.get("action")), place.join("/"));
        found.insert("class".to_owned(), json!(class));
        found.insert("side".to_owned(), json!(own_side));
        found.insert("against".to_owned(), json!(against_side));
        let blocks = found.get("blocks").cloned().unwrap_or_default();
        found.insert("pairs".to_owned(), blocks);
    }
    rename(found, "blocks", "restarts");
}

#[cfg(test)]
mod tests {
    use crate::grid::Stage;
    use crate::json::from_json;
    use crate::model::{Comparison, Results, SCHEMA};
    use crate::{summarize, summarize_backup, summarize_messages, summarize_oltp};

    const THREE: &str = include_str!("../../../../tests/fixtures/results/tdekit-bench-3.json");
    const FOUR: &str = include_str!("../../../../tests/fixtures/results/tdekit-bench-4.json");

    /// Every ratio as it was written equals the one computed anew.
    fn equal(then: &[Comparison], now: &[Comparison]) {
        assert!(!then.is_empty() && then.len() == now.len());
        for old in then {
            let same = |new: &&Comparison| {
                let names = |one: &Comparison| {
                    let sides = (one.side.clone(), one.against.clone());
                    (one.class.clone(), one.statement, one.metric, sides)
                };
                names(old) == names(new)
            };
            let new = now.iter().find(same).unwrap_or_else(|| panic!("{old:?}"));
            assert!((old.ratio - new.ratio).abs() < 1e-12 * old.ratio, "{old:?} {new:?}");
            assert_eq!((old.restarts, old.pairs), (new.restarts, new.pairs), "{old:?}");
            for (old, new) in [(old.low, new.low), (old.high, new.high)] {
                assert_eq!(old.is_some(), new.is_some());
                let (old, new) = (old.unwrap_or(1.0), new.unwrap_or(1.0));
                assert!((old - new).abs() < 1e-9 * old, "{old} {new}");
            }
        }
    }

    #[test]
    fn a_document_of_three_keeps_its_figures() {
        assert!(THREE.contains("\"schema\": \"tdekit-bench/3\""));
        let read: Results = from_json(THREE).unwrap();
        assert_eq!(read.schema, SCHEMA);
        let stage = Stage::beside(&read.settings);
        equal(&read.summary.comparisons, &summarize(&read).comparisons);
        let backup = read.backup.as_ref().unwrap();
        equal(&backup.summary.ratios, &summarize_backup(backup, stage).ratios);
        let oltp = read.oltp.as_ref().unwrap();
        equal(&oltp.summary.ratios, &summarize_oltp(oltp, stage).ratios);
        assert_eq!(oltp.summary.overall, summarize_oltp(oltp, stage).overall);
        let messages = read.messages.as_ref().unwrap();
        equal(&messages.summary.ratios, &summarize_messages(messages, stage).ratios);
        assert!(crate::html(&read).unwrap().contains("oltp_read_write"));
    }

    #[test]
    fn a_document_of_four_is_read_as_it_stands() {
        assert!(FOUR.contains("\"schema\": \"tdekit-bench/4\""));
        assert_eq!(from_json(FOUR).unwrap(), from_json(THREE).unwrap());
        let wrong = FOUR.replacen("\"class\"", "\"cell\"", 1);
        assert!(from_json(&wrong).is_err());
    }
}
