//! The real sysbench: running it, and parsing its output.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tdekit_private_mariadb::find_program;
use tdekit_system_use::{Moment, Use, die_with_parent, wait};

use super::client::by_number;
use super::ground::{Load, Measured};
use crate::address::Password;
use crate::command::{failed, last_lines, last_words};
use crate::error::{BenchError, Result};
use crate::numbers::{float, whole};
use crate::plan::OltpPlan;
use crate::process::{next_line, read_lines};
use crate::server_options::CLIENT_PASSWORD_VARIABLE;
use tdekit_bench_work::Percentiles;

const PROGRAM: &str = "sysbench";
/// Errors after which a transaction is repeated: deadlock, changed row, lock wait; and a duplicate,
/// which two threads cause that delete and insert the same row.
const IGNORED_ERRORS: &str = "1213,1020,1205,1062";
/// The line that it prints when every thread has connected and prepared its statements.
const STARTED: &str = "Threads started!";
/// The first line that it prints after the last transaction.
const ENDED: [&str; 2] = ["Latency histogram", "SQL statistics:"];

/// The program, and its connection to a server.
#[derive(Clone)]
pub(super) struct Sysbench {
    program: PathBuf,
    /// Its working directory and its password; none on a server's socket.
    place: Option<(PathBuf, Option<Password>)>,
    connection: Vec<String>,
    tables: u32,
    rows: u64,
    rate: Option<u64>,
}

impl Sysbench {
    /// Finds the program. `connection` holds its connection options.
    pub(super) fn find(plan: &OltpPlan, connection: Vec<String>) -> Result<Self> {
        let program = find_program(PROGRAM).ok_or_else(|| BenchError::ToolMissing {
            name: PROGRAM.to_owned(),
            remedy: "apt-get install sysbench".to_owned(),
        })?;
        let (tables, rows, rate) = (plan.tables, plan.rows, plan.rate);
        Ok(Self { program, place: None, connection, tables, rows, rate })
    }

    /// The same for an existing server: run in a directory, to which names among its options are
    /// relative, and with a password.
    pub(super) fn on_server(self, directory: &Path, password: Option<Password>) -> Self {
        Self { place: Some((directory.to_owned(), password)), ..self }
    }

    /// Returns its own name and version.
    pub(super) fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").stdin(Stdio::null()).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let words = text.unwrap_or_default();
        words.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, script: &str, action: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.connection)
            .arg(script)
            .arg("--db-driver=mysql")
            .arg(format!("--tables={}", self.tables))
            .arg(format!("--table-size={}", self.rows))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal reaches the driver alone.
            .process_group(0);
        if let Some((directory, password)) = &self.place {
            // Only this user can see a process's environment; sysbench's option file does not
            // support all characters of a password.
            command.current_dir(directory).env_remove(CLIENT_PASSWORD_VARIABLE);
            let password = password.as_ref().map(|password| password.as_str());
            command.envs(password.map(|password| (CLIENT_PASSWORD_VARIABLE, password)));
        }
        // `run` and the like come last.
        command.arg(action);
        command
    }

    /// Creates and fills the tables, by the same statements for the same seed.
    pub(super) fn prepare(&self, seed: u64) -> Result<()> {
        let mut command = self.command("oltp_read_write", "prepare");
        command.args(["--threads=1", "--rand-type=uniform"]).arg(format!("--rand-seed={seed}"));
        run(&mut command, None).map(drop)
    }

    /// Runs a block; `server` is the process whose CPU and I/O are read, if known.
    pub(super) fn run(&self, load: Load, server: Option<u32>) -> Result<Measured> {
        let mut command = self.command(load.workload.name(), "run");
        command
            .arg(format!("--threads={}", load.threads))
            .arg(format!("--time={}", load.seconds.max(1.0)))
            .args(["--events=0", "--rand-type=uniform", "--histogram=on", "--percentile=99"])
            .arg(format!("--mysql-ignore-errors={IGNORED_ERRORS}"))
            .arg(format!("--rand-seed={}", load.seed))
            .args(self.rate.map(|rate| format!("--rate={rate}")));
        if let Some(selects) = load.selects {
            command.args(["--skip-trx=on", "--range-selects=off"]);
            command.arg(format!("--point-selects={selects}"));
        }
        let own = Use::of_this_process();
        let ran = run(&mut command, server)?;
        let own = Use::of_this_process().since(&own);
        let mut measured = parse(&ran.text).ok_or_else(|| {
            let detail = format!("it gave no result: {}", last_lines(&ran.text));
            BenchError::mismatch(PROGRAM, detail)
        })?;
        measured.engine = ran.engine;
        measured.client_cpu_ns = ran.client_cpu_ns;
        measured.own_cpu_ns = own.cpu_ns;
        Ok(measured)
    }
}

struct Ran {
    text: String,
    /// The server's resource usage between the first and the last transaction.
    engine: Use,
    client_cpu_ns: u64,
}

/// Runs sysbench to its end, and reads the server's counters when the transactions begin and end.
fn run(command: &mut Command, server: Option<u32>) -> Result<Ran> {
    let mut child = die_with_parent(command).spawn().map_err(BenchError::start(PROGRAM))?;
    let group = Pid::from_child(&child);
    let lines = read_lines(child.stdout.take(), move |line| {
        let mark = line == STARTED || ENDED.iter().any(|end| line.starts_with(end));
        let used = server.filter(|_| mark).map(Moment::of);
        (line, used)
    });
    let errors = child.stderr.take().map(|stderr| std::thread::spawn(|| last_words(stderr)));
    let (mut text, mut marks) = (String::new(), Vec::new());
    let stopped = loop {
        match next_line(&lines, &mut || Ok(())) {
            Ok(Some((line, used))) => {
                marks.extend(used);
                text.push_str(&line);
                text.push('\n');
            }
            Ok(None) => break None,
            Err(stopped) => {
                // It may already have ended.
                let _ = kill_process_group(group, Signal::KILL);
                break Some(stopped);
            }
        }
    };
    let finished = wait(child).map_err(BenchError::start(PROGRAM))?;
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    if !finished.status.success() {
        let said = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
        return Err(by_number(failed(PROGRAM, finished.status, &format!("{text}{said}"))));
    }
    let engine = match marks.as_slice() {
        [first, last, ..] => last.since(first).unwrap_or_default(),
        _ => Use::default(),
    };
    Ok(Ran { text, engine, client_cpu_ns: finished.used.cpu_ns })
}

/// Parses the report of sysbench 1.0.
fn parse(text: &str) -> Option<Measured> {
    let first = |name: &str| {
        let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        rest.split_whitespace().next()
    };
    let number = |name: &str| first(name)?.parse::<u64>().ok();
    let seconds: f64 = first("total time:")?.strip_suffix('s')?.parse().ok()?;
    let milliseconds =
        |name: &str| first(name)?.parse::<f64>().ok().map(|value| nanoseconds(value / 1e3));
    let histogram = histogram(text);
    let at = |share: f64| percentile(&histogram, share);
    Some(Measured {
        transactions: number("transactions:")?,
        queries: number("queries:")?,
        errors: number("ignored errors:").unwrap_or(0),
        elapsed_ns: nanoseconds(seconds),
        latency: Percentiles {
            min_ns: milliseconds("min:")?,
            avg_ns: milliseconds("avg:")?,
            p50_ns: at(0.50),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            max_ns: milliseconds("max:")?,
        },
        ..Measured::default()
    })
}

fn nanoseconds(seconds: f64) -> u64 {
    whole(seconds * 1e9)
}

/// Parses the lines `VALUE |*** COUNT` of the histogram: milliseconds, and the number that took no
/// longer.
fn histogram(text: &str) -> Vec<(f64, u64)> {
    text.lines()
        .skip_while(|line| !line.starts_with("Latency histogram"))
        .skip(1)
        .take_while(|line| !line.starts_with("SQL statistics"))
        .filter_map(|line| {
            let (value, rest) = line.split_once('|')?;
            let count = rest.split_whitespace().next_back()?.parse().ok()?;
            Some((value.trim().parse().ok()?, count))
        })
        .collect()
}

/// Returns the value, in ns, that a share of all counts does not exceed; 0 without counts.
fn percentile(histogram: &[(f64, u64)], share: f64) -> u64 {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let wanted = whole((float(total) * share).ceil());
    let mut sum = 0;
    for (value, count) in histogram {
        sum += count;
        if sum >= wanted && sum > 0 {
            return nanoseconds(value / 1e3);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Threads started!

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.500 |**********************                   40
       1.000 |****************************************  55
       2.000 |**                                       4
      10.000 |                                         1
 
SQL statistics:
    queries performed:
        read:                            1400
        write:                           400
        other:                           200
        total:                           2000
    transactions:                        100    (62.51 per sec.)
    queries:                             2000   (1250.20 per sec.)
    ignored errors:                      3      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          1.6002s
    total number of events:              100

Latency (ms):
         min:                                    0.41
         avg:                                    0.90
         max:                                   10.02
         99th percentile:                        2.00
         sum:                                   90.10
";

    #[test]
    fn its_report_is_read() {
        let found = parse(SAID).unwrap();
        assert_eq!((found.transactions, found.queries, found.errors), (100, 2000, 3));
        assert_eq!(found.elapsed_ns, 1_600_200_000);
        assert_eq!(
            found.latency,
            Percentiles {
                min_ns: 410_000,
                avg_ns: 900_000,
                p50_ns: 1_000_000,
                p95_ns: 1_000_000,
                p99_ns: 2_000_000,
                max_ns: 10_020_000,
            }
        );
    }

    #[test]
    fn half_a_report_is_none() {
        assert!(parse(&SAID[..SAID.len() / 2]).is_none());
        assert!(parse("FATAL: unable to connect").is_none());
    }

    #[test]
    fn percentiles_of_nothing_are_zero() {
        assert_eq!(percentile(&[], 0.99), 0);
        assert_eq!(percentile(&[(1.0, 1)], 0.5), 1_000_000);
    }
}
