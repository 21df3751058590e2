//! `tdekit bench --target mssql://` on databases that it creates, against `tdekit serve`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::served::{PASSWORD, Served, eventually, int, ok};
use serde_json::Value;

/// Arguments of a small run.
const SMALL: &str = "--trust --quick --restarts 2 --pairs 1 --rows 600 --processes 2 --loops 10";
const NAMES: &str = "SELECT COUNT(*) FROM sys.databases WHERE name LIKE 'tdekit[_]bench%'";

struct Bench {
    served: Served,
}

impl Bench {
    fn new() -> Self {
        let mut served = Served::new();
        served.place.set("TDEKIT_LOGIN_PASSWORD", PASSWORD);
        Self { served }
    }

    fn command(&self, words: &str) -> Command {
        self.command_at(self.served.address().port(), words)
    }

    fn command_at(&self, port: u16, words: &str) -> Command {
        let target = format!("mssql://sa@localhost:{port}");
        let words = words.split_whitespace().map(str::to_owned);
        let words = ["bench".to_owned(), "--target".to_owned(), target].into_iter().chain(words);
        let mut command = self.served.place.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &str) -> (i32, String, Value) {
        let output = self.command(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let text = fs::read_to_string(self.path("results.json")).unwrap_or_default();
        let results = serde_json::from_str(&text).unwrap_or_default();
        (output.status.code().unwrap_or(-1), said, results)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.served.place.path(name)
    }

    /// Checks that no database of the run is left on the server, and nothing else that the run did
    /// not report.
    fn is_clean(&self, said: &str) {
        assert_eq!(int(&mut self.served.client(), NAMES), 0);
        let certificates = "SELECT COUNT(*) FROM sys.certificates WHERE name LIKE 'tdekit%'";
        let left = int(&mut self.served.client(), certificates) > 0;
        assert_eq!(left, said.contains("certificate tdekit_bench_certificate remains"), "{said}");
        for file in fs::read_dir(self.path("data")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if !name.starts_with("tdekit_bench") {
                continue;
            }
            assert!(said.contains(&format!("backup file {name} remains")), "{name}: {said}");
        }
    }
}

#[test]
#[ignore = "full: a bench on a server"]
fn operations_mixes_and_backups_are_priced_and_nothing_is_left() {
    let bench = Bench::new();
    let words = "--experiment operations --experiment crud --experiment backup --mix 4/3/3 \
                 --cipher AES_256";
    let (code, said, results) = bench.run(&format!("{SMALL} {words}"));
    assert_eq!(code, 0, "{said}");
    let report = &results["server"];
    assert!(report["facts"]["server"].as_str().unwrap().contains("not SQL Server"), "{report}");
    let counters = report["facts"]["counters"].as_str().unwrap();
    assert!(counters.starts_with("sys.dm_exec_query_stats"), "{counters}");
    let runs = report["runs"].as_array().unwrap();
    let count = |cell: &str, whole: bool| {
        runs.iter().filter(|run| run["cell"] == cell && run["statement"].is_null() == whole).count()
    };
    // Two sides, two restarts, one pair each.
    for (cell, statements) in [
        ("operations/select/warm", 10),
        ("operations/insert/cold", 5),
        ("operations/update/warm", 8),
        ("operations/delete/cold", 5),
        ("operations/reindex/warm", 3),
        ("crud/4-3-3", 0),
    ] {
        assert_eq!((count(cell, true), count(cell, false)), (4, 4 * statements), "{cell}");
    }
    let of = |run: &Value, name: &str| run["values"][name].as_f64().unwrap_or(0.0);
    for run in runs.iter().filter(|run| run["cell"] == "operations/select/warm") {
        assert!(of(run, "elapsed") > 0.0 && of(run, "pages_read") > 0.0, "{run}");
        assert!(of(run, "elapsed") <= of(run, "client_elapsed"), "{run}");
    }
    let backups = results["backup"]["runs"].as_array().unwrap();
    // Two ciphers, two compressions, two restarts, each backed up, verified and restored.
    assert_eq!(backups.len(), 2 * 2 * 2 * 3, "{said}");
    let sized = backups.iter().filter(|run| of(run, "size") > 0.0).count();
    assert_eq!(sized, backups.len() / 3);
    assert_eq!(results["backup"]["facts"]["restored"], true);
    bench.is_clean(&said);
    let page = fs::read_to_string(bench.path("report.html")).unwrap();
    for wanted in ["tempdb", "not SQL Server", "RESTORE VERIFYONLY, restored", "id=\"operations\""]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains(PASSWORD) && !said.contains(PASSWORD));
}

#[test]
fn names_that_are_taken_and_bad_logins_are_refused_before_anything_is_made() {
    let mut bench = Bench::new();
    ok(&mut bench.served.client(), "CREATE DATABASE tdekit_bench_encrypted");
    let (code, said, _) = bench.run(&format!("{SMALL} --experiment operations"));
    assert!(code == 1 && said.contains("tdekit_bench_encrypted is there already"), "{said}");
    assert_eq!(int(&mut bench.served.client(), NAMES), 1);
    ok(&mut bench.served.client(), "DROP DATABASE tdekit_bench_encrypted");
    let (code, said, _) = bench.run("--quick --experiment operations");
    assert!(code == 1 && said.contains("error: TLS: the server's certificate"), "{said}");
    assert!(said.contains("hint: --tls-ca FILE") && said.contains("--trust"), "{said}");
    let (code, said, _) = bench.run("--trust --experiment crud --rows 5000000");
    assert!(code == 1 && said.contains("--max-size"), "{said}");
    bench.served.place.set("TDEKIT_LOGIN_PASSWORD", "Not-the-1");
    let (code, said, _) = bench.run(&format!("{SMALL} --experiment operations"));
    assert!(code == 1 && said.contains("18456") && !said.contains("Not-the-1"), "{said}");
    bench.is_clean(&said);
}

#[test]
fn a_dry_run_sends_nothing() {
    let mut bench = Bench::new();
    // Nor a login.
    bench.served.place.set("TDEKIT_LOGIN_PASSWORD", "Not-the-1");
    let (code, said, _) = bench.run("--experiment operations --dry-run");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("DROP DATABASE tdekit_bench_encrypted;"), "{said}");
    assert!(!bench.path("results.json").exists());
    bench.is_clean(&said);
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_stopped_run_leaves_nothing_and_a_lost_server_is_told() {
    let bench = Bench::new();
    let words = "--trust --rows 2000 --processes 2 --experiment crud --mix 4/3/3";
    let child = bench.command(words).spawn().unwrap();
    eventually("the run begins", || int(&mut bench.served.client(), NAMES) == 2);
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    bench.is_clean(&said);
    let mut bench = Bench::new();
    let child = bench.command(words).spawn().unwrap();
    eventually("the run begins", || int(&mut bench.served.client(), NAMES) == 2);
    bench.served.kill();
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(code, Some(1), "{said}");
    for wanted in ["connection to the server", "remains on the server", "DROP DATABASE"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

/// A proxy to the server that drops the first answer once `file` exists.
fn lossy(server: SocketAddr, file: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lost = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut asked, mut asking) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ended = std::io::copy(&mut asking, &mut asked);
                let _gone = asked.shutdown(Shutdown::Both);
            });
            let (lost, file) = (lost.clone(), file.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = server.read(&mut buffer) {
                    if file.exists() && !lost.swap(true, Ordering::SeqCst) {
                        break;
                    }
                    if client.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _gone = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    port
}

#[test]
#[ignore = "full: a bench on a server"]
fn what_was_made_without_an_answer_is_dropped() {
    for (name, experiment) in [
        ("tdekit_bench_encrypted.db", "operations"),
        ("tdekit_bench_restored.db", "backup"),
        ("tdekit_bench_backup.bak", "backup"),
    ] {
        let bench = Bench::new();
        let file = bench.path("data").join(name);
        let port = lossy(bench.served.address(), file.clone());
        let words = format!("{SMALL} --experiment {experiment}");
        let output = bench.command_at(port, &words).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("is lost"), "{said}");
        assert!(!said.contains("remains"), "{said}");
        assert!(!file.exists());
        bench.is_clean(&said);
    }
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_file_of_another_is_left_and_not_told_of_as_the_runs() {
    for experiment in ["backup", "operations"] {
        let bench = Bench::new();
        for name in ["backup", "base", "encrypted"] {
            fs::write(bench.path("data").join(format!("tdekit_bench_{name}.bak")), "mine").unwrap();
        }
        let (code, said, _) = bench.run(&format!("{SMALL} --warm-only --experiment {experiment}"));
        assert!(code == 1 && said.contains("3241"), "{said}");
        assert!(!said.contains("remains"), "{said}");
        let file = bench.path("data").join("tdekit_bench_backup.bak");
        assert_eq!(fs::read_to_string(file).unwrap(), "mine");
        let (code, said, _) =
            bench.run(&format!("{SMALL} --experiment backup --server-dir /none/there"));
        assert!(code == 1 && said.contains("hint: --server-dir"), "{said}");
        assert_eq!(int(&mut bench.served.client(), NAMES), 0);
    }
}

/// However far a backup had come, no file is left, and none is reported that does not exist.
#[test]
#[ignore = "full: a bench on a server"]
fn a_stopped_backup_leaves_no_file_and_tells_of_none() {
    let words = "--trust --rows 4000 --restarts 50 --experiment backup --cipher AES_256";
    let begins: [(&str, u64); 3] = [
        ("tdekit_bench_base.db", 0),
        ("tdekit_bench_backup.bak", 0),
        ("tdekit_bench_backup.bak", 300),
    ];
    for (name, later_ms) in begins {
        let bench = Bench::new();
        let file = bench.path("data").join(name);
        let child = bench.command(words).spawn().unwrap();
        eventually("the run begins", || file.exists());
        std::thread::sleep(Duration::from_millis(later_ms));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let code = output.status.code();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(matches!(code, Some(1 | 130)), "{code:?}: {said}");
        assert!(!said.contains("remains"), "{said}");
        bench.is_clean(&said);
    }
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_server_that_encrypts_nothing_gives_load_figures() {
    let mut bench = Bench::new();
    // Its key store exists and is locked.
    bench.served.terminate();
    bench.served.place.set("TDEKIT_PASSWORD", "");
    bench.served.start();
    let words = format!("{SMALL} --experiment crud --experiment backup --mix 4/3/3");
    let (code, said, results) = bench.run(&words);
    assert_eq!(code, 0, "{said}");
    for (report, wanted) in [("server", "no overhead"), ("backup", "No encrypted backups")] {
        let limits = results[report]["limits"].to_string();
        assert!(limits.contains(wanted) && limits.contains("Msg "), "{limits}");
        assert_eq!(results[report]["sides"].as_array().unwrap().len(), 1);
    }
    bench.is_clean(&said);
}
