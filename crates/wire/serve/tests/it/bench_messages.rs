//! `tdekit bench --experiment messages`: the bench starts this `tdekit serve` and compares
//! encrypted connections with plain ones, or it uses a server that a user started.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::common::Place;
use serde_json::Value;

const PASSWORD: &str = "Only-4-this-test";

fn place() -> Place {
    let mut place = Place::empty();
    // Not loaded by this experiment.
    place.set("TDEKIT_EXTENSION", crate::common::tdekit().to_str().unwrap());
    fs::create_dir(place.path("work")).unwrap();
    place
}

fn messages(place: &Place) -> Value {
    let text = fs::read_to_string(place.path("results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        results["incomplete"].as_array().map(Vec::len),
        Some(0),
        "{}",
        results["incomplete"]
    );
    results["messages"].clone()
}

fn runs(messages: &Value) -> &[Value] {
    messages["runs"].as_array().unwrap()
}

#[test]
fn messages_are_priced_on_a_server_of_its_own() {
    let mut place = place();
    // The bench has a separate key store and ignores the user's keys.
    place.set("TDEKIT_PASSWORD", "the user's");
    let words = "bench --experiment messages --loops 3000 --stream-rows 1000 --packet-size 8000 \
                 --restarts 2 --pairs 1 --dir work";
    let run = place.ok(words.split_whitespace());
    assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0, "files are left");
    assert!(!place.home().exists(), "the user's own store was touched");
    let messages = messages(&place);
    let facts = &messages["facts"];
    assert_eq!((facts["loops"].as_f64(), facts["stream_rows"].as_f64()), (Some(3e3), Some(1024.0)));
    let sides = messages["sides"].as_array().unwrap();
    let of = |name: &'static str| sides.iter().map(move |side| side["facts"][name].as_str());
    assert!(of("mode").eq([Some("off"), Some("on"), Some("strict")]), "{sides:?}");
    assert!(of("protocol").eq([None, Some("TLSv1.2"), Some("TLSv1.3")]), "{sides:?}");
    assert!(sides.iter().all(|side| side["facts"]["packet_bytes"] == 8000.0), "{sides:?}");
    // Three kinds of connections, two batches, two restarts.
    assert_eq!(runs(&messages).len(), 3 * 2 * 2);
    for run in runs(&messages) {
        let number = |name: &str| run["values"][name].as_f64().unwrap_or(0.0);
        let encrypted = run["side"] != "off";
        assert_eq!(number("wire_bytes") > number("bytes"), encrypted, "{run}");
        assert!(run["values"]["server_cpu"].as_f64() > Some(0.0), "{run}");
        // The rows' text alone is 96 bytes each; a message is 13.
        let least = if run["cell"] == "stream" { 1024.0 * 96.0 } else { 3000.0 * 13.0 };
        assert!(number("bytes") > least && number("packets") >= (least / 8000.0).floor(), "{run}");
    }
    for wanted in [
        "message loop, TLS strict",
        "large result, TLS on",
        "SQL Server 2014, encrypted",
        "2.000 for each packet",
    ] {
        assert!(run.out.contains(wanted), "{wanted} is missing in\n{}", run.out);
    }
    let page = fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("id=\"messages\"") && page.contains("1,273,235"));
}

#[test]
#[ignore = "full: a bench on a server"]
fn connects_selects_and_waiting_connections_are_priced() {
    let place = place();
    let words = "bench --experiment messages --part connects,points,idle --mode strict \
                 --connects 20 --selects 300 --idle 40 --quick --restarts 2 --dir work";
    let run = place.ok(words.split_whitespace());
    assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0, "files are left");
    let messages = messages(&place);
    // Selects are also measured in the bench's own process; each cell runs twice.
    assert_eq!(runs(&messages).len(), (2 + 3 + 3) * 2);
    for run in runs(&messages) {
        assert!(run["values"]["elapsed"].as_f64() > Some(0.0), "{run}");
        assert!(run["values"]["server_cpu"].as_f64() > Some(0.0), "{run}");
        let counted = run["cell"] != "connects" && run["side"] != "direct";
        assert_eq!(run["values"]["packets"].as_f64() > Some(0.0), counted, "{run}");
    }
    let all = messages["summary"]["comparisons"].as_array().unwrap();
    let direct = all.iter().filter(|found| found["against"] == "direct");
    let cpu = direct.filter(|found| found["metric"] == "server_cpu").count();
    assert_eq!(cpu, 4, "{all:?}");
    let idle = messages["idle"].as_array().unwrap();
    assert_eq!(idle.len(), 2);
    for found in idle {
        assert_eq!(found["connections"], 40);
        let bytes = |name: &str| found[name].as_u64().unwrap();
        assert!(
            bytes("after_bytes") > bytes("before_bytes") / 2 && bytes("threads") > 1,
            "{found}"
        );
        assert!(bytes("peak_bytes") >= bytes("after_bytes"), "{found}");
    }
    for wanted in ["connections a second", "against SQLite called directly", "40 idle connections"]
    {
        assert!(run.out.contains(wanted), "{wanted} is missing in\n{}", run.out);
    }
}

/// `tdekit serve` as a user starts it. Dropping it stops the server.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(place: &Place) -> Self {
        fs::create_dir(place.path("data")).unwrap();
        let mut command = place.command(["serve", "data", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ")?.rsplit_once(':')?.1.parse().ok());
        Self { child, port: port.unwrap() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_server_that_is_there_is_priced_too() {
    let mut place = place();
    place.set("TDEKIT_PASSWORD", "secret");
    place.ok(["key", "init", crate::common::CHEAP[0], crate::common::CHEAP[1]]);
    place.set("TDEKIT_LOGIN_PASSWORD", PASSWORD);
    place.ok(["serve", "login", "add", "sa"]);
    let served = Served::start(&place);
    let target = format!("mssql://sa@localhost:{}", served.port);
    let words = "--trust --part loop,points --loops 2000 --selects 100 --quick --restarts 2";
    let words = ["bench", "--target", &target].into_iter().chain(words.split_whitespace());
    let run = place.ok(words);
    let found = messages(&place);
    assert_eq!(found["facts"]["target"], target.as_str());
    assert_eq!(found["facts"]["server_process"], "tdekit-serve");
    // The bench cannot open its databases, so nothing is called directly.
    assert!(found["sides"].as_array().unwrap().iter().all(|side| side["role"] != "reference"));
    assert_eq!(runs(&found).len(), 2 * 3 * 2, "{}", run.out);
    assert_eq!(fs::read_dir(place.path("data")).unwrap().count(), 0, "databases were touched");
    // The server refuses a wrong password, and the password is not printed.
    place.set("TDEKIT_LOGIN_PASSWORD", "Not-the-1-it-is");
    let said = place.fails(1, ["bench", "--target", &target, "--trust"]);
    assert!(said.contains("18456") && !said.contains("Not-the-1"), "{said}");
}

#[test]
fn a_target_is_refused_without_a_password_or_for_other_experiments() {
    let place = place();
    let said = place.fails(1, ["bench", "--target", "mssql://sa@127.0.0.1:1"]);
    assert!(said.contains("TDEKIT_LOGIN_PASSWORD"), "{said}");
    let said =
        place.fails(1, ["bench", "--target", "mssql://sa:x@127.0.0.1:1", "--experiment", "scans"]);
    assert!(said.contains("backup and messages run"), "{said}");
    let said = place.fails(1, ["bench", "--target", "mssql://sa:x@127.0.0.1:1"]);
    assert!(said.contains("cannot connect") && !said.contains(":x@"), "{said}");
}
