//! Writers that record the server's acknowledgements, to be compared with the state after a crash.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tdekit_private_mariadb::Server;

/// The table that writers fill.
pub const CREATE: &str = "CREATE TABLE IF NOT EXISTS test.ledger(\
     writer INT, n INT, body VARCHAR(400), PRIMARY KEY(writer, n), KEY(body)) ENGINE=InnoDB";

/// Returns the text of a row.
fn body(writer: u32, n: u64) -> String {
    format!("row {n} of {writer} ").repeat(8)
}

/// Writers on one server, each a client that inserts one row per transaction, sequentially.
pub struct Writers {
    children: Vec<Child>,
    threads: Vec<JoinHandle<()>>,
    acknowledged: Vec<Arc<AtomicU64>>,
}

impl Writers {
    /// Starts `count` writers, which continue from the table's content.
    pub fn start(server: &Server, count: u32) -> Self {
        server.sql("CREATE DATABASE IF NOT EXISTS test").unwrap();
        server.sql(CREATE).unwrap();
        let mut writers =
            Self { children: Vec::new(), threads: Vec::new(), acknowledged: Vec::new() };
        for writer in 0..count {
            let first = highest(server, writer) + 1;
            let mut child = server
                .client()
                .args(["--unbuffered", "--abort-source-on-error"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let output = BufReader::new(child.stdout.take().unwrap());
            let acknowledged = Arc::new(AtomicU64::new(first - 1));
            let noted = Arc::clone(&acknowledged);
            writers.threads.push(std::thread::spawn(move || {
                for n in first.. {
                    let text = body(writer, n);
                    let sql = format!(
                        "INSERT INTO test.ledger VALUES({writer},{n},'{text}');SELECT {n};\n"
                    );
                    // Ends when the server is gone and the client with it.
                    if input.write_all(sql.as_bytes()).is_err() {
                        break;
                    }
                }
            }));
            writers.threads.push(std::thread::spawn(move || {
                for line in output.lines().map_while(Result::ok) {
                    if let Ok(n) = line.trim().parse() {
                        noted.store(n, Ordering::SeqCst);
                    }
                }
            }));
            writers.children.push(child);
            writers.acknowledged.push(acknowledged);
        }
        writers
    }

    /// Returns the number of rows acknowledged so far by all writers.
    pub fn done(&self) -> u64 {
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Waits until at least `more` further rows were acknowledged.
    pub fn wait_for(&self, more: u64) {
        let (begun, before) = (Instant::now(), self.done());
        while self.done() < before + more {
            assert!(begun.elapsed() < Duration::from_secs(60), "the writers stand still");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the writers; returns what was acknowledged to each of them.
    pub fn stop(mut self) -> Vec<u64> {
        for child in &mut self.children {
            // It may have ended with the server.
            let _ = child.kill();
            let _ = child.wait();
        }
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }
}

fn highest(server: &Server, writer: u32) -> u64 {
    let sql = format!("SELECT COALESCE(MAX(n), 0) FROM test.ledger WHERE writer = {writer}");
    server.sql(&sql).unwrap().trim().parse().unwrap()
}

/// Checks that every acknowledged row is there, at most one more, and every text is right.
pub fn check(server: &Server, acknowledged: &[u64]) {
    for (writer, told) in (0_u32..).zip(acknowledged) {
        let rows = server
            .sql(&format!(
                "SELECT COUNT(*), COALESCE(MAX(n), 0), \
                 COALESCE(SUM(body <> REPEAT(CONCAT('row ', n, ' of ', writer, ' '), 8)), 0) \
                 FROM test.ledger WHERE writer = {writer}"
            ))
            .unwrap();
        let numbers: Vec<u64> = rows.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [count, highest, wrong] = numbers[..] else { panic!("{rows}") };
        assert_eq!(wrong, 0, "writer {writer} has wrong rows");
        assert_eq!(count, highest, "writer {writer} has gaps");
        assert!(highest >= *told, "writer {writer}: {told} were acknowledged, {highest} are there");
    }
    let checked = server.sql("CHECK TABLE test.ledger EXTENDED").unwrap();
    assert!(checked.trim().ends_with("OK"), "{checked}");
}
