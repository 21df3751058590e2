//! A record of what SQLite gets and gives back, for the comparison of two builds: see
//! `examples/compare.rs`. Builds without debug assertions have none.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use rusqlite::Row;
use rusqlite::types::{Value as Stored, ValueRef};

use crate::render::kernels::Kernels;

/// Names the directory, in which each thread has a file of its own name.
const VARIABLE: &str = "TSQL_TRACE";

/// Maximum length of a field; of a longer one follows its hash.
const MOST_BYTES: usize = 4000;

fn directory() -> Option<&'static PathBuf> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIRECTORY.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from)).as_ref()
}

/// One statement, which is written when it ends: text, parameters, kernels and rows in one line.
pub(crate) struct Trace {
    head: String,
    rows: String,
}

impl Trace {
    /// Returns a record if records are kept.
    pub(crate) fn begin(text: &str, params: &[Stored], kernels: &Kernels) -> Option<Trace> {
        directory()?;
        let (text, order, ids) = renumbered(text);
        let mut values = String::new();
        for number in order {
            let value = number.checked_sub(1).and_then(|at| params.get(at));
            let _ = write!(values, "{value:?};");
        }
        let mut called = String::new();
        for id in ids {
            let kernel = kernels.find(id);
            let shown = kernel.map(|kernel| format!("{:?} {:?}", kernel.expr, kernel.args));
            let _ = write!(called, "{};", shown.unwrap_or_default().replace("Bound {", "Scalar {"));
        }
        let head = format!("{}\t{}\t{}", short(&text), short(&values), short(&called));
        Some(Trace { head, rows: String::new() })
    }

    /// Records a text that has neither parameters of T-SQL nor kernels.
    pub(crate) fn note(text: &str) {
        if directory().is_some() {
            drop(Trace { head: format!("{}\t\t", short(text)), rows: String::new() });
        }
    }

    pub(crate) fn row(&mut self, row: &Row<'_>) {
        let columns = row.as_ref().column_count();
        for at in 0..columns {
            let _ = match row.get_ref(at) {
                Ok(ValueRef::Text(text)) => {
                    write!(self.rows, "{:?},", String::from_utf8_lossy(text))
                }
                other => write!(self.rows, "{other:?},"),
            };
        }
        self.rows.push(';');
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let Some(directory) = directory() else { return };
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("-").replace("::", ".");
        let file = OpenOptions::new().create(true).append(true).open(directory.join(name));
        if let Ok(mut file) = file {
            let line = format!("{}\t{}\n", self.head, short(&self.rows));
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn short(text: &str) -> String {
    let plain = text.replace(['\n', '\t', '\r'], " ");
    if plain.len() <= MOST_BYTES {
        return plain;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in plain.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let head: String = plain.chars().take(MOST_BYTES / 4).collect();
    format!("{head}..{} bytes {hash:016x}", plain.len())
}

/// Numbers parameters and kernels by their first use. Returns the text, the numbers of the
/// parameters and the ids of the kernels that it had.
fn renumbered(text: &str) -> (String, Vec<usize>, Vec<i64>) {
    let (mut made, mut rest) = (String::with_capacity(text.len()), text);
    let (mut params, mut kernels) = (Places::default(), Places::default());
    while let Some(at) = rest.find(['?', 't']) {
        let (before, from) = rest.split_at(at);
        made.push_str(before);
        let starts = ["?", "tsql_eval(", "tsql_eval_each(", "t"];
        let start = starts.iter().find(|start| from.starts_with(**start)).unwrap_or(&"");
        made.push_str(start);
        rest = &from[start.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if *start != "t"
            && let Ok(number) = rest[..digits].parse::<usize>()
        {
            let places = if *start == "?" { &mut params } else { &mut kernels };
            let _ = write!(made, "{}", places.place(number));
            rest = &rest[digits..];
        }
    }
    made.push_str(rest);
    let ids = kernels.order.iter().filter_map(|id| i64::try_from(*id).ok()).collect();
    (made, params.order, ids)
}

#[derive(Default)]
struct Places {
    known: HashMap<usize, usize>,
    order: Vec<usize>,
}

impl Places {
    fn place(&mut self, number: usize) -> usize {
        let next = self.order.len() + 1;
        let place = *self.known.entry(number).or_insert(next);
        if place == next {
            self.order.push(number);
        }
        place
    }
}
