//! `tdekit bench mssql-script` through stock clients against `tdekit serve`, and `bench import`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use crate::common::Run;
use crate::served::{PASSWORD, Served, int, ok};
use serde_json::Value;

const SMALL: &str = "--rows 300 --restarts 2 --pairs 1";
const NAMES: &str = "SELECT COUNT(*) FROM sys.databases WHERE name LIKE 'tdekit[_]bench%'";

struct Bench {
    served: Served,
}

impl Bench {
    fn new() -> Self {
        let mut served = Served::new();
        served.place.set("TDEKIT_LOGIN_PASSWORD", PASSWORD);
        let port = served.address().port();
        let conf = format!(
            "[served]\nhost = localhost\nport = {port}\ntds version = 7.4\nencryption = request\n\
             client charset = UTF-8\n"
        );
        fs::write(served.place.path("freetds.conf"), conf).unwrap();
        Self { served }
    }

    fn bench(&self, words: &str) -> Run {
        let words = words.split_whitespace();
        self.served.place.run(std::iter::once("bench").chain(words))
    }

    fn script(&self, words: &str) -> String {
        let run = self.bench(&format!("mssql-script --experiment operations {SMALL} {words}"));
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
        run.out
    }

    /// Runs a script as FreeTDS's clients do; its output goes to a file of this name.
    fn run(&self, client: &str, script: &str, output: &str) -> String {
        let place = &self.served.place;
        fs::write(place.path("run.sql"), script).unwrap();
        let mut command = Command::new(client);
        command.args(["-S", "served", "-U", "sa", "-P", PASSWORD]);
        command.current_dir(place.path("")).env("FREETDSCONF", place.path("freetds.conf"));
        if client == "bsqldb" {
            command.args(["-i", "run.sql", "-o", output]).stdin(Stdio::null());
        } else {
            command.args(["-o", "q"]).stdin(fs::File::open(place.path("run.sql")).unwrap());
            command.stdout(fs::File::create(place.path(output)).unwrap());
        }
        command.output().unwrap();
        String::from_utf8_lossy(&fs::read(place.path(output)).unwrap()).into_owned()
    }

    fn import(&self, output: &str) -> (Run, Value) {
        let _old = fs::remove_file(self.served.place.path("results.json"));
        fs::write(self.served.place.path("given.txt"), output).unwrap();
        let run = self.bench("import given.txt");
        let text = fs::read_to_string(self.served.place.path("results.json")).unwrap_or_default();
        (run, serde_json::from_str(&text).unwrap_or_default())
    }

    fn refused(&self, output: &str) -> String {
        let (run, results) = self.import(output);
        assert!(run.code == 1 && results.is_null() && run.out.is_empty(), "{run:?}");
        assert!(run.err.contains("error: ") && run.err.contains("hint: "), "{run:?}");
        run.err
    }

    /// Checks that nothing of the script is left on the server but backups, whose removal it
    /// reported.
    fn is_clean(&self) {
        assert_eq!(int(&mut self.served.client(), NAMES), 0);
        let certificates = "SELECT COUNT(*) FROM sys.certificates WHERE name LIKE 'tdekit%'";
        assert_eq!(int(&mut self.served.client(), certificates), 0);
        let files = fs::read_dir(self.served.place.path("data")).unwrap();
        let left = files.filter(|file| {
            file.as_ref().unwrap().file_name().to_string_lossy().starts_with("tdekit_bench")
        });
        assert_eq!(left.count(), 0);
    }
}

/// Class, statement, side, restart, pair, position and names of the values of every block.
fn shape(results: &Value) -> BTreeSet<String> {
    let runs = results["server"]["runs"].as_array().unwrap();
    let of = |run: &Value| {
        let names = ["cell", "statement", "side", "restart", "pair", "position"];
        let place: Vec<String> = names.iter().map(|name| run[*name].to_string()).collect();
        // A time of 0 was too short for the server's clock and is left out.
        let mut values: Vec<&str> =
            run["values"].as_object().unwrap().keys().map(String::as_str).collect();
        values.retain(|name| *name != "cpu");
        format!("{} {}", place.join(" "), values.join(" "))
    };
    runs.iter().map(of).collect()
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_script_gives_the_results_of_a_run() {
    let bench = Bench::new();
    let script = bench.script("");
    let output = bench.run("bsqldb", &script, "result.txt");
    let (run, results) = bench.import(&output);
    assert_eq!(run.code, 0, "{run:?}");
    bench.is_clean();
    let page = fs::read_to_string(bench.served.place.path("report.html")).unwrap();
    for wanted in ["not SQL Server", "tempdb", "A script of tdekit", "id=\"operations\""] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(run.out.contains("10 SELECT, cold"), "{run:?}");
    let target = format!("mssql://sa@localhost:{}", bench.served.address().port());
    let words = format!("--target {target} --trust --experiment operations {SMALL}");
    let live = bench.bench(&format!("{words} --json live.json --html live.html"));
    assert_eq!(live.code, 0, "{live:?}");
    let text = fs::read_to_string(bench.served.place.path("live.json")).unwrap();
    let live: Value = serde_json::from_str(&text).unwrap();
    // The same blocks in the same order, each with the same metrics.
    assert_eq!(shape(&results), shape(&live));
    for field in ["cells", "statements", "sides"] {
        assert_eq!(results["server"][field], live["server"][field], "{field}");
    }
    for field in ["server", "edition", "counters", "rows", "restarts"] {
        let of = |found: &Value| found["server"]["facts"][field].clone();
        assert_eq!(of(&results), of(&live), "{field}");
    }
    assert_eq!(results["subject"]["label"], live["subject"]["label"]);
    let compared = bench.bench("compare live.json results.json --json -");
    assert_eq!(compared.code, 0, "{compared:?}");

    // The same for the habits of other clients: broken lines, UTF-16, quotes.
    let broken: String = output
        .lines()
        .flat_map(|line| {
            let line: Vec<char> = line.chars().collect();
            let parts = line.chunks(80).map(|part| part.iter().collect::<String>() + "\r\n");
            parts.collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(bench.import(&broken).1["server"], results["server"]);
    let printed = bench.bench("import result.txt --json -");
    let printed: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(printed["server"], results["server"]);
    let wide: Vec<u8> =
        std::iter::once(0xFEFF).chain(output.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    fs::write(bench.served.place.path("wide.txt"), wide).unwrap();
    let run = bench.bench("import wide.txt --json wide.json");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
#[ignore = "full: a bench on a server"]
fn what_is_cut_edited_or_of_two_runs_is_refused() {
    let bench = Bench::new();
    let script = bench.script("--warm-only --aa");
    let output = bench.run("tsql", &script, "result.txt");
    let (run, results) = bench.import(&output);
    assert!(run.code == 0 && results["control"] == true, "{run:?}");
    bench.is_clean();
    let records: Vec<&str> = output.lines().filter(|line| line.starts_with("tdekit|")).collect();
    let half = &output[..output.find(records[records.len() / 2]).unwrap()];
    assert!(bench.refused(half).contains("was cut"));
    let mark = records.iter().find(|line| line.contains("|mark|")).unwrap();
    assert!(bench.refused(&output.replace(mark, "")).contains("missing"));
    let edited = mark.replacen("|mark|", "|mark|1", 1);
    assert!(bench.refused(&output.replace(mark, &edited)).contains("was changed"));
    assert!(bench.refused(&(output.clone() + &output)).contains("twice"));
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let other = bench.run("tsql", &script, "other.txt");
    assert!(bench.refused(&(output.clone() + &other)).contains("another run"));
    assert!(bench.refused(&output.replace("tdekit|1|", "tdekit|2|")).contains("version \"2\""));
    assert!(bench.refused("").contains("no record"));
    let large = fs::File::create(bench.served.place.path("large.txt")).unwrap();
    large.set_len(300 << 20).unwrap();
    let run = bench.bench("import large.txt");
    assert!(run.code == 1 && run.err.contains("MiB"), "{run:?}");
    let run = bench.bench("import nothing.txt");
    assert!(run.code == 7 && run.err.contains("nothing.txt"), "{run:?}");
    for (words, wanted) in [
        ("--experiment crud", "only operations"),
        ("--experiment all", "only operations"),
        ("--rows 5000000", "--max-size"),
        ("--restarts 1000 --pairs 100", "MiB"),
    ] {
        let run = bench.bench(&format!("mssql-script {words}"));
        assert!(run.code == 1 && run.err.contains(wanted) && run.out.is_empty(), "{run:?}");
    }
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_script_that_fails_drops_what_it_made_and_tells_where() {
    let bench = Bench::new();
    let script = bench.script("");
    ok(&mut bench.served.client(), "CREATE DATABASE tdekit_bench_control");
    let output = bench.run("tsql", &script, "result.txt");
    assert!(bench.refused(&output).contains("before its first block"));
    // It does not belong to this script.
    assert_eq!(int(&mut bench.served.client(), NAMES), 1);
    ok(&mut bench.served.client(), "DROP DATABASE tdekit_bench_control");
    let nowhere = bench.script("--server-dir /nowhere/at/all");
    let output = bench.run("tsql", &nowhere, "result.txt");
    let (run, _) = bench.import(&output);
    assert!(run.code == 1 && run.err.contains("operations/backup-"), "{run:?}");
    bench.is_clean();
    // Late, so that there is something to keep.
    let guard = script.rfind("GO\nEXEC dbo.Mark").unwrap();
    let failing = format!(
        "{}GO\nSELECT 1 / 0;\nGO\nIF @@ERROR <> 0 BEGIN INSERT INTO #tdekit \
        VALUES (N'failed'); SET NOEXEC ON; END;\n{}",
        &script[..guard],
        &script[guard..]
    );
    let output = bench.run("tsql", &failing, "result.txt");
    let (run, results) = bench.import(&output);
    assert!(run.code == 1 && run.out.contains("incomplete: "), "{run:?}");
    assert!(results["incomplete"][0].as_str().unwrap().contains("stopped"), "{results}");
    assert!(results["server"]["runs"].as_array().unwrap().len() > 200);
    bench.is_clean();
}
