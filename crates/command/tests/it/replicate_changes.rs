//! `replicate` in one process: pages that it shipped before are stored by what changed in them.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::{one, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};

/// Rows, each nearly a page of noise, which no compression makes shorter.
const ROWS: u64 = 60;
const NOISE: u64 = ROWS * 3500;
/// The most that a set takes whose pages stand by their changes.
const FEW: u64 = NOISE / 6;
/// Everything that the rows hold.
const ROWS_SQL: &str = "SELECT coalesce(group_concat(id || ':' || n || ':' || hex(b)), 'none') \
                        FROM big ORDER BY id";

/// A follower, which ships one set for each change that is made behind it.
struct Shipped {
    pair: Pair,
    follower: Child,
    standby: Child,
    /// What the rows held behind each object.
    rows: Vec<String>,
}

impl Drop for Shipped {
    fn drop(&mut self) {
        for child in [&mut self.follower, &mut self.standby] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn follow(pair: &Pair) -> Child {
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let more = ["--certificate", "AppCert", "--no-sign"];
    place().command([&words[..], &more].concat()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Shipped {
    fn new(encrypted: bool) -> Self {
        let pair = Pair::new(encrypted);
        pair.db()
            .execute_batch("CREATE TABLE big(id INTEGER PRIMARY KEY, n INTEGER, b BLOB)")
            .unwrap();
        let follower = follow(&pair);
        wait_for(|| pair.object(1).exists());
        let words = ["restore", text(&pair.archive), "--follow", "--to"];
        let path = pair.dir.path("standby.db");
        let standby = place().command([&words[..], &[text(&path)]].concat());
        let standby = { standby }.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut shipped = Self { pair, follower, standby, rows: Vec::new() };
        shipped.wait();
        shipped
    }

    fn wait(&mut self) {
        let next = u32::try_from(self.rows.len()).unwrap() + 1;
        wait_for(|| self.pair.object(next).exists());
        self.rows.push(one(&self.pair.db(), ROWS_SQL));
    }

    /// Commits a transaction, and returns the bytes of its object.
    fn commit(&mut self, sql: &str) -> u64 {
        self.pair.db().execute_batch(sql).unwrap();
        self.wait();
        let last = u32::try_from(self.rows.len()).unwrap();
        fs::metadata(self.pair.object(last)).unwrap().len()
    }

    /// Ends both, once the standby has everything.
    fn end(&mut self) {
        let path = self.pair.dir.path("standby.db");
        wait_for(|| self.rows.last() == Some(&one(&open(&path), ROWS_SQL)));
        for child in [&mut self.follower, &mut self.standby] {
            signal(child.id(), "TERM");
            let ended = Run::of(&child.wait_with_output_by(Duration::from_secs(20)));
            assert_eq!(ended.code, 0, "{ended:?}");
            assert!(!ended.err.contains("compared"), "{ended:?}");
        }
    }

    fn restores_each(&self) {
        for (rows, number) in self.rows.iter().zip(1..) {
            let (run, to) = self.pair.try_restore(&format!("{number}"));
            assert_eq!(run.code, 0, "{number}: {run:?}");
            assert!(one::<String>(&open(&to), ROWS_SQL) == *rows, "{number}");
        }
        place().ok(["verify", text(&self.pair.archive), "--restore-test"]);
    }
}

#[test]
fn a_page_stands_by_its_changes_only_on_what_this_process_shipped() {
    for encrypted in [false, true] {
        let mut shipped = Shipped::new(encrypted);
        let fill = format!(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS})
             INSERT OR REPLACE INTO big SELECT i, 0, randomblob(3500) FROM c"
        );
        let count = "UPDATE big SET n = n + 1";
        assert!(shipped.commit(&fill) > NOISE);
        for _ in 0..2 {
            let bytes = shipped.commit(count);
            assert!(bytes < FEW, "{bytes}");
        }
        // The database gets shorter and longer again.
        shipped.commit("DELETE FROM big WHERE id > 20");
        shipped.commit("VACUUM");
        shipped.commit(&fill);
        assert!(shipped.commit(count) < FEW);
        // Another process knows nothing of what was shipped.
        shipped.follower.kill().unwrap();
        shipped.follower.wait().unwrap();
        shipped.follower = follow(&shipped.pair);
        assert!(shipped.commit(count) > NOISE);
        assert!(shipped.commit(count) < FEW);
        shipped.end();
        shipped.restores_each();
    }
}
