//! `tdekit bench --experiment backup`: the bench runs this very command, as a user does.

use std::fs;

use crate::common::Place;
use serde_json::Value;

fn results(place: &Place) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path("results.json")).unwrap()).unwrap()
}

/// A small matrix of a tiny database: each backup is sealed as requested, each restored database
/// equals the original (the bench checks), and nothing is left behind.
#[test]
fn the_backup_matrix_runs_through_the_command() {
    let mut place = Place::empty();
    // The bench has its own key store, and ignores the user's keys.
    place.set("TDEKIT_PASSWORD", "the user's");
    // This experiment does not load it.
    place.set("TDEKIT_EXTENSION", env!("CARGO_BIN_EXE_tdekit"));
    for name in ["one", "two", "work"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let run = place.ok([
        "bench",
        "--experiment",
        "backup",
        "--cipher",
        "AES_256",
        "--legacy",
        "--compression",
        "none",
        "--compression",
        "zstd",
        "--size",
        "300kB",
        "--restarts",
        "2",
        "--dir",
        "work",
        "--source-device",
        "one=one",
        "--device",
        "two=two",
    ]);
    for name in ["one", "two", "work"] {
        assert_eq!(fs::read_dir(place.path(name)).unwrap().count(), 0, "{name}");
    }
    assert!(!place.home().exists(), "the user's own store was touched");
    let results = results(&place);
    assert_eq!(results["incomplete"].as_array().map(Vec::len), Some(0), "{}", run.out);
    let matrix = &results["backup"];
    // None and two ciphers, two compressions; twice; with restores.
    assert_eq!(matrix["runs"].as_array().unwrap().len(), 3 * 2 * 2 * 2);
    let size = |class: &str, side: &str| {
        let totals = matrix["summary"]["totals"].as_array().unwrap();
        let found = totals.iter().find(|found| found["class"] == class && found["side"] == side);
        found.unwrap()["values"]["size"]["most"].as_f64().unwrap()
    };
    let source = matrix["facts"]["source_bytes"].as_f64().unwrap();
    let plain = size("backup/none/one/two", "none");
    let sealed = size("backup/none/one/two", "AES_256");
    assert!(plain >= source && sealed > plain, "{source}, {plain}, {sealed}");
    assert!(sealed < plain + 8192.0, "{plain}, {sealed}");
    assert!(size("backup/zstd/one/two", "AES_256") < plain);
    let page = fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("Backup from one to two") && page.contains("TRIPLE_DES_3KEY"));
}
