//! Random statements: each gets an answer or an error of its own, never one of SQLite's. Under
//! `examples/compare.rs` they show that two builds give the same rows.

use crate::common::{Server, run};

/// Number of statements; with another seed each time. `TSQL_RANDOM` sets another number.
const STATEMENTS: u64 = 1500;

/// Number of those that SQLite refuses: an aggregate over a column of the surrounding query within
/// another, a change of a table that an outer join may leave without a row.
const REFUSED: usize = 88;

const TABLES: &[(&str, &[&str])] =
    &[("a", &["id", "n", "t", "u", "d", "w"]), ("b", &["id", "n", "t", "m", "f", "x"])];
const NUMBERS: &[&str] = &["id", "n"];
const TEXTS: &[&str] = &["t", "u"];

/// A generator of statements of one seed.
struct Made {
    random: fastrand::Rng,
    /// Aliases in scope, each with the number of its table.
    scope: Vec<(String, usize)>,
    aliases: usize,
    depth: usize,
}

impl Made {
    fn new(seed: u64) -> Made {
        let random = fastrand::Rng::with_seed(seed);
        Made { random, scope: Vec::new(), aliases: 0, depth: 0 }
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.random.usize(..items.len())]
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.u32(..of) == 0
    }

    /// A column among these, of a table in scope that has it.
    fn column(&mut self, names: &[&str]) -> Option<String> {
        let all: Vec<(String, &str)> = self
            .scope
            .iter()
            .flat_map(|(alias, table)| {
                let columns = TABLES[*table].1.iter().filter(|name| names.contains(name));
                columns.map(move |name| (alias.clone(), *name))
            })
            .collect();
        let (alias, name) = all.get(self.random.usize(..all.len().max(1)))?;
        Some(format!("{alias}.{name}"))
    }

    fn number(&mut self) -> String {
        self.depth += 1;
        let deep = self.depth > 4;
        let made = match self.random.u32(..if deep { 5 } else { 16 }) {
            0 | 1 => self.column(NUMBERS).unwrap_or_else(|| "7".to_owned()),
            2 => self.random.i32(-3..9).to_string(),
            3 => "@i".to_owned(),
            4 => self.column(&["d", "m", "f"]).unwrap_or_else(|| "1.5".to_owned()),
            5 | 6 => {
                let op = self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.number(), self.number())
            }
            7 => format!("LEN({})", self.text()),
            8 => format!("CAST({} AS bigint)", self.number()),
            9 => format!("COALESCE({}, {})", self.number(), self.number()),
            10 => {
                format!("CASE WHEN {} THEN {} ELSE 0 END", self.condition(), self.number())
            }
            11 => format!("NULLIF({}, {})", self.number(), self.number()),
            12 => format!("ABS({})", self.number()),
            13 => {
                let (from, ..) = self.from(false);
                let value = self.number();
                self.scope.pop();
                let which = self.pick(&["MAX", "MIN", "SUM", "AVG", "COUNT"]);
                format!("(SELECT {which}({value}) FROM {from})")
            }
            14 => {
                let (from, ..) = self.from(false);
                let value = self.number();
                self.scope.pop();
                format!("(SELECT TOP 1 {value} FROM {from} ORDER BY 1)")
            }
            _ => format!("DATEPART(year, {})", self.date()),
        };
        self.depth -= 1;
        made
    }

    fn date(&mut self) -> String {
        match self.column(&["w"]) {
            Some(column) if self.chance(2) => column,
            _ => "CAST('2024-02-29' AS datetime)".to_owned(),
        }
    }

    fn text(&mut self) -> String {
        self.depth += 1;
        let deep = self.depth > 4;
        let made = match self.random.u32(..if deep { 4 } else { 10 }) {
            0 | 1 => self.column(TEXTS).unwrap_or_else(|| "'q'".to_owned()),
            2 => self.pick(&["'abc'", "N'ä'", "'%'", "''", "'B'"]).to_owned(),
            3 => "@s".to_owned(),
            4 => format!("({} + {})", self.text(), self.text()),
            5 => format!("UPPER({})", self.text()),
            6 => format!("SUBSTRING({}, {}, 2)", self.text(), self.random.u32(1..3)),
            7 => format!("CAST({} AS varchar(30))", self.number()),
            8 => format!("ISNULL({}, 'none')", self.text()),
            _ => format!("REPLACE({}, 'a', {})", self.text(), self.text()),
        };
        self.depth -= 1;
        made
    }

    fn condition(&mut self) -> String {
        self.depth += 1;
        let deep = self.depth > 3;
        let made = match self.random.u32(..if deep { 6 } else { 11 }) {
            0 | 1 => {
                let op = self.pick(&["=", "<>", "<", ">="]);
                format!("{} {op} {}", self.number(), self.number())
            }
            2 => format!("{} = {}", self.text(), self.text()),
            3 => {
                let pattern = self.pick(&["'a%'", "@s", "@s + '%'", "'%b'", "'a!%%' ESCAPE '!'"]);
                let not = self.pick(&["", "NOT "]);
                format!("{} {not}LIKE {pattern}", self.text())
            }
            4 => format!("{} IS NOT NULL", self.number()),
            5 => format!("{} IN ({}, 1, {})", self.number(), self.number(), self.number()),
            6 => format!("({} AND {})", self.condition(), self.condition()),
            7 => format!("({} OR NOT ({}))", self.condition(), self.condition()),
            8 => format!("{} BETWEEN {} AND {}", self.number(), self.number(), self.number()),
            9 => {
                let (from, ..) = self.from(false);
                let filter = self.condition();
                self.scope.pop();
                format!("EXISTS (SELECT 1 FROM {from} WHERE {filter})")
            }
            _ => {
                let left = self.text();
                let (from, ..) = self.from(false);
                let value = self.column(TEXTS).unwrap_or_else(|| "'x'".to_owned());
                self.scope.pop();
                format!("{left} IN (SELECT {value} FROM {from})")
            }
        };
        self.depth -= 1;
        made
    }

    /// One table, or several that are joined: its text, and the number of aliases it adds.
    fn from(&mut self, joins: bool) -> (String, usize) {
        let mut text = self.source();
        let mut count = 1;
        while joins && count < 4 && self.chance(2) {
            let kind = self.pick(&[
                "JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "CROSS JOIN",
                ",",
                "CROSS APPLY",
                "OUTER APPLY",
            ]);
            count += 1;
            if kind.ends_with("APPLY") {
                self.aliases += 1;
                let alias = format!("s{}", self.aliases);
                let value = self.text();
                text = format!("{text} {kind} STRING_SPLIT({value}, 'b') AS {alias}");
                count -= 1;
                continue;
            }
            let right = self.source();
            text = match kind {
                "CROSS JOIN" | "," => format!("{text} {kind} {right}"),
                _ => {
                    let new = self.scope[self.scope.len() - 1].0.clone();
                    let old = self.scope[self.scope.len() - 2].0.clone();
                    format!("{text} {kind} {right} ON {new}.id = {old}.n")
                }
            };
        }
        (text, count)
    }

    fn source(&mut self) -> String {
        self.aliases += 1;
        let alias = format!("r{}", self.aliases);
        let table = self.random.usize(..TABLES.len());
        let (name, columns) = TABLES[table];
        let text = match self.random.u32(..8) {
            0 => format!("(SELECT * FROM {name}) AS {alias}"),
            1 => format!("(SELECT TOP 3 {} FROM {name} ORDER BY id) AS {alias}", columns.join(",")),
            2 if table == 0 => format!("va AS {alias}"),
            _ => format!("{name} AS {alias}"),
        };
        self.scope.push((alias, table));
        text
    }

    fn select(&mut self) -> String {
        let (from, count) = self.from(true);
        let made = match self.random.u32(..6) {
            0 => self.grouped(&from),
            1 => {
                let key = self.column(NUMBERS).unwrap_or_else(|| "1".to_owned());
                let call = self.pick(&[
                    "ROW_NUMBER()",
                    "RANK()",
                    "NTILE(2)",
                    "LAG(@i, 1, 0)",
                    "FIRST_VALUE(@s)",
                    "CUME_DIST()",
                ]);
                let value = self.number();
                let by = self.column(TEXTS).unwrap_or_else(|| "1".to_owned());
                format!(
                    "SELECT {call} OVER (PARTITION BY {by} ORDER BY {key}) AS r, SUM({value}) OVER \
                     (ORDER BY {key} ROWS UNBOUNDED PRECEDING) AS s FROM {from} ORDER BY 1, 2"
                )
            }
            _ => {
                let items = [self.number(), self.text(), self.number()];
                let filter = self.condition();
                let head = self.pick(&[
                    "SELECT",
                    "SELECT DISTINCT",
                    "SELECT TOP (3)",
                    "SELECT TOP 40 PERCENT",
                    "SELECT TOP 2 WITH TIES",
                ]);
                let tail = if head == "SELECT" && self.chance(3) {
                    " OFFSET 1 ROWS FETCH NEXT 3 ROWS ONLY"
                } else {
                    ""
                };
                format!(
                    "{head} {} AS p, {} AS q, {} AS r FROM {from} WHERE {filter} ORDER BY 1, q, r \
                     DESC{tail}",
                    items[0], items[1], items[2]
                )
            }
        };
        self.scope.truncate(self.scope.len() - count);
        made
    }

    fn grouped(&mut self, from: &str) -> String {
        let (key, value) = (self.text(), self.number());
        let which = self.pick(&["SUM", "AVG", "MIN", "COUNT", "STDEV", "COUNT_BIG"]);
        let distinct = self.pick(&["", "DISTINCT "]);
        format!(
            "SELECT {key} AS k, {which}({distinct}{value}) AS v, COUNT(*) * 2 AS c, \
             STRING_AGG('x', ',') AS j FROM {from} GROUP BY {key} HAVING {which}({value}) IS NOT \
             NULL ORDER BY k, COUNT(*)"
        )
    }

    fn assignment(&mut self) -> String {
        self.scope.push(("a".to_owned(), 0));
        let values = (self.number(), self.text(), self.condition());
        self.scope.pop();
        format!(
            "SELECT @i = {}, @s = LEFT({}, 20) FROM a WHERE {}; SELECT @i, @s",
            values.0, values.1, values.2
        )
    }

    fn statement(&mut self) -> String {
        match self.random.u32(..14) {
            0 => {
                let op = self.pick(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
                let numbers = [self.number(), self.number()];
                format!(
                    "SELECT n, t FROM a {op} SELECT {}, 'abc' FROM b UNION ALL SELECT NULL, {} \
                     ORDER BY 1, 2",
                    numbers[0], numbers[1]
                )
            }
            1 => {
                let inner = self.select().replace(" ORDER BY 1, 2", "");
                let inner = inner.split(" ORDER BY").next().unwrap_or_default().to_owned();
                format!("WITH c AS ({inner}) SELECT COUNT(*) AS n FROM c")
            }
            2 => {
                let step = self.random.u32(1..3);
                format!(
                    "WITH c(i, s) AS (SELECT 1, CAST('x' AS varchar(20)) UNION ALL SELECT i + \
                     {step}, CAST(s + 'y' AS varchar(20)) FROM c WHERE i < 6) SELECT c.i, c.s, a.t \
                     FROM c LEFT JOIN a ON a.id = c.i ORDER BY 1"
                )
            }
            3 => {
                self.scope.push(("a".to_owned(), 0));
                let values = (self.number(), self.text(), self.condition());
                self.scope.pop();
                let top = self.pick(&["", "TOP (2) "]);
                let output = self.pick(&["", "", " OUTPUT deleted.n, inserted.t + 'z' AS z"]);
                format!(
                    "UPDATE {top}a SET n = {}, t = LEFT({}, 20){output} WHERE {}",
                    values.0, values.1, values.2
                )
            }
            4 => {
                self.scope = vec![("y".to_owned(), 1), ("x".to_owned(), 0)];
                let (value, filter) = (self.number(), self.condition());
                self.scope.clear();
                let set = self.pick(&["x.n =", "@i = n =", "n +="]);
                format!(
                    "UPDATE x SET {set} {value} FROM a AS x JOIN b y ON y.n = x.n WHERE {filter}"
                )
            }
            5 => {
                self.scope.push(("b".to_owned(), 1));
                let filter = self.condition();
                self.scope.pop();
                let output = self.pick(&["", " OUTPUT deleted.id, deleted.t"]);
                let top = self.pick(&["", "TOP (1) "]);
                format!("DELETE {top}FROM b{output} WHERE {filter}")
            }
            6 => {
                let values = (self.number(), self.text(), self.number());
                let output = self.pick(&["", " OUTPUT inserted.id, inserted.n * 2 AS e"]);
                format!(
                    "INSERT INTO a (n, t){output} VALUES ({}, LEFT({}, 20)), ({}, NULL), (NULL, \
                     DEFAULT)",
                    values.0, values.1, values.2
                )
            }
            7 => {
                self.scope.push(("a".to_owned(), 0));
                let values = (self.number(), self.text(), self.condition());
                self.scope.pop();
                format!(
                    "INSERT INTO b (n, t) SELECT TOP 2 {}, LEFT({}, 20) FROM a WHERE {} ORDER BY \
                     a.id",
                    values.0, values.1, values.2
                )
            }
            8 => self.assignment(),
            _ => self.select(),
        }
    }
}

/// Tables `a` and `b`, and the view `va`.
const DEFINITIONS: [&str; 2] = [
    "CREATE TABLE a (id int IDENTITY PRIMARY KEY, n int NULL, t varchar(20) NULL DEFAULT 'd', u \
     nvarchar(30) NULL, d decimal(9,2) NULL, w datetime NULL); CREATE INDEX at ON a (t); CREATE \
     TABLE b (id int IDENTITY PRIMARY KEY, n int NULL, t varchar(20) NULL, m money NULL, f float \
     NULL, x bit NULL)",
    "CREATE VIEW va AS SELECT id, n, t, u, d, w FROM a WHERE id > 1",
];

const ROWS: &str = "DELETE FROM a; DELETE FROM b; INSERT INTO a (n, t, u, d, w) VALUES (1, 'abc', \
    N'ä', 1.5, '2024-01-02'), (2, 'B', N'abc', 2.25, NULL), (3, 'ab', NULL, NULL, \
    '2023-12-31T23:59:59'), (NULL, NULL, N'q', 0, NULL); INSERT INTO b (n, t, m, f, x) VALUES (1, \
    'abc', 3.5, 0.5, 1), (2, 'b b', NULL, 2, 0), (4, 'a%', 1, NULL, NULL)";

fn batch(seed: u64) -> String {
    let statement = Made::new(seed).statement();
    format!("DECLARE @i int = 2, @s varchar(20) = 'a'; {statement}")
}

#[test]
fn random_statements_have_answers_or_errors_of_their_own() {
    let server = Server::new();
    let mut session = server.session();
    for text in DEFINITIONS {
        run(&mut *session, text);
    }
    let (mut answered, mut internal) = (0, Vec::new());
    let wanted: Option<u64> =
        std::env::var("TSQL_RANDOM").ok().and_then(|number| number.parse().ok());
    let statements = wanted.unwrap_or(STATEMENTS);
    for seed in 0..statements {
        if seed % 50 == 0 {
            run(&mut *session, ROWS);
        }
        let batch = batch(seed);
        let found = run(&mut *session, &batch);
        let failed = found.iter().find(|line| line.starts_with('!'));
        if let Some(line) = failed.filter(|line| line.starts_with("! 8623/")) {
            internal.push(format!("seed {seed}: {batch}\n{line}"));
        }
        answered += usize::from(failed.is_none());
    }
    // only of these is the number known
    let most = wanted.map_or(REFUSED, |_| usize::MAX);
    assert!(internal.len() <= most, "{}: {}", internal.len(), internal.join("\n"));
    assert!(answered * 2 > usize::try_from(statements).unwrap(), "only {answered} have answers");
}

/// Statements compiled a second, to compare two builds that run in turns.
#[test]
#[ignore = "full: a measurement, not a test"]
fn compiled_statements_per_second() {
    let server = Server::new();
    let mut session = server.session();
    for text in DEFINITIONS {
        run(&mut *session, text);
    }
    run(&mut *session, "SET FMTONLY ON");
    let (start, rounds) = (std::time::Instant::now(), 4);
    for round in 0..rounds {
        for seed in 0..STATEMENTS {
            // the comment makes it another text, which is not found in the cache
            run(&mut *session, &format!("/* {round} */ {}", batch(seed)));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let rate = (rounds * STATEMENTS) as f64 / seconds;
    println!("{rate:.0} statements per second");
}
