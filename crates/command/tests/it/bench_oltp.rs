//! `tdekit bench --experiment oltp`: sysbench's workloads on SQLite with the extension that was
//! built with this test.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;

use crate::common::Place;
use serde_json::Value;

#[test]
fn an_extension_that_is_missing_is_told() {
    let mut place = Place::empty();
    let missing = place.path("not there.so").display().to_string();
    place.set("TDEKIT_EXTENSION", &missing);
    let told = place.fails(1, ["bench", "--quick", "--sqlite-library", "bundled"]);
    assert!(told.contains(&missing) && told.contains("hint: "), "{told}");
}

#[test]
#[ignore = "full: a bench"]
fn oltp_workloads_are_priced_on_sqlite() {
    let mut place = Place::empty();
    let name = format!("{DLL_PREFIX}tdekit_sqlite{DLL_SUFFIX}");
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let built = [deps.join(&name), deps.parent().unwrap().join(&name)];
    let extension = built.iter().find(|path| path.is_file()).unwrap();
    place.set("TDEKIT_EXTENSION", extension.to_str().unwrap());
    fs::create_dir(place.path("work")).unwrap();
    let run = place.ok([
        "bench",
        "--experiment",
        "oltp",
        "--sqlite-library",
        "bundled",
        "--workload",
        "oltp_read_write,full_scan",
        "--threads",
        "1,2",
        "--tables",
        "1",
        "--rows",
        "500",
        "--restarts",
        "1",
        "--block-time",
        "1",
        "--dir",
        "work",
    ]);
    assert!(run.out.contains("oltp_read_write, 2 threads"), "{}", run.out);
    assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0);
    let text = fs::read_to_string(place.path("results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["incomplete"].as_array().map(Vec::len), Some(0), "{}", run.out);
    let oltp = &results["oltp"];
    assert_eq!(oltp["sides"][1]["cipher"], "AES_256");
    let ratios = oltp["summary"]["comparisons"].as_array().unwrap();
    for cell in ["oltp_read_write/1", "oltp_read_write/2", "full_scan/1"] {
        for metric in ["throughput", "cpu_each"] {
            let found = ratios.iter().find(|found| {
                found["class"] == cell && found["side"] == "tdekit" && found["metric"] == metric
            });
            assert!(found.is_some_and(|found| found["ratio"].as_f64() > Some(0.0)), "{cell}");
        }
    }
}
