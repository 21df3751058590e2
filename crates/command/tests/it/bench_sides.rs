//! The sides of a bench: several algorithms of ours in one run.

use std::fs;

use serde_json::Value;

use crate::bench::{Bench, SMALL};

const SHORT: [&str; 4] = ["--restarts", "2", "--pairs", "2"];

fn ids<'a>(results: &'a Value, list: &str) -> Vec<&'a str> {
    let list = results["embedded"][list].as_array().unwrap();
    list.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn two_algorithms_are_two_sides_of_one_run() {
    let bench = Bench::new();
    let both = ["--algorithm", "AES_128", "--algorithm", "AEGIS_256X2"];
    let run = bench.ok(SMALL.iter().chain(&SHORT).chain(&both));
    let results = bench.results();
    assert_eq!(ids(&results, "sides"), ["base", "tdekit", "tdekit-AEGIS_256X2"]);
    let sides = &results["embedded"]["sides"];
    assert_eq!(
        (&sides[1]["cipher"], &sides[2]["cipher"]),
        (&"AES_128".into(), &"AEGIS_256X2".into())
    );
    assert_eq!(results["settings"]["algorithm"], "AES_128");
    for side in ids(&results, "sides") {
        assert_eq!(bench.blocks(&results, "crud/4-3-3", side), 4, "{side}");
    }
    assert!(run.out.contains("tdekit AEGIS_256X2 against plain"), "{run:?}");
    let first = results["verdict"][0].as_str().unwrap();
    assert!(first.starts_with("tdekit AES_128 "), "{first}");
    let pooled = results["embedded"]["summary"]["pooled"].as_array().unwrap();
    let over = |side: &str, against: &str| {
        pooled.iter().any(|one| one["side"] == side && one["against"] == against)
    };
    assert!(over("tdekit-AEGIS_256X2", "base") && over("tdekit-AEGIS_256X2", "tdekit"));
    let page = fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(page.contains("href=\"#peers\""));
}

/// The further side of a run that names nothing takes part in the headline, once a restart.
#[test]
fn a_run_that_names_nothing_has_a_second_algorithm_for_its_headline() {
    let bench = Bench::new();
    bench.app();
    fs::write(bench.path("my.sql"), "SELECT count(*) FROM t;").unwrap();
    bench.ok(["app.db", "--script", "my.sql"].iter().chain(&SHORT));
    let results = bench.results();
    assert_eq!(ids(&results, "sides"), ["base", "tdekit", "tdekit-AEGIS_256X2"]);
    assert_eq!(bench.blocks(&results, "script/all", "tdekit"), 4);
    assert_eq!(bench.blocks(&results, "script/all", "tdekit-AEGIS_256X2"), 2);
    bench.ok(["app.db"].iter().chain(&["--quick", "--restarts", "1"]));
    let results = bench.results();
    assert_eq!(bench.blocks(&results, "operations/select/warm", "tdekit-AEGIS_256X2"), 1);
    for class in ["operations/select/cold", "operations/reindex/warm", "scans/sum"] {
        assert_eq!(bench.blocks(&results, class, "tdekit-AEGIS_256X2"), 0, "{class}");
    }
}
