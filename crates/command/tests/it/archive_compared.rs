//! The pages of an archive that a restore on trial compares with the ones that were shipped.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::archive_damage::tried;
use crate::databases::place;
use crate::replicate::{Pair, text};

/// Returns the pages of the frames in a log of pages of 4096 bytes, and the log's salts.
fn frames(pair: &Pair) -> (Vec<u8>, Vec<u32>) {
    let log = fs::read(format!("{}-wal", text(&pair.db))).unwrap();
    let salts = log[16..24].to_vec();
    let frames = log[32..].chunks_exact(24 + 4096).take_while(|frame| frame[8..16] == salts);
    let pages = frames.map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())).collect();
    (salts, pages)
}

/// Ships a full set and log sets. Returns the number of pages in these, each once a set, and the
/// number of log sets.
fn shipped(pair: &Pair) -> (u64, usize) {
    let keep = pair.db();
    let (mut before, mut sum): (Option<(Vec<u8>, usize)>, u64) = (None, 0);
    // The same pages again and again, and others.
    for n in [0, 1, 50, 2, 3] {
        let sql = format!("INSERT INTO t VALUES ({n}, hex(randomblob({n}000)))");
        keep.execute_batch(&sql).unwrap();
        keep.execute_batch("UPDATE t SET text = text || '!' WHERE n < 9").unwrap();
        let (salts, pages) = frames(pair);
        if let Some((known, count)) = before {
            // A log that began anew has nothing that was shipped.
            let count = if salts == known { count } else { 0 };
            let new: BTreeSet<u32> = pages.iter().skip(count).copied().collect();
            sum += new.len() as u64;
        }
        before = Some((salts, pages.len()));
        pair.ship();
    }
    drop(keep);
    (sum, 4)
}

#[test]
fn pages_of_a_chain_are_counted_by_their_checks() {
    let pair = Pair::new(false);
    let (pages, logs) = shipped(&pair);
    assert_eq!(pair.objects(), 1 + logs);
    let report = tried(&pair, 0);
    let sets = report["sets"].as_array().unwrap();
    let of = |object: usize| {
        let name = pair.object(u32::try_from(object).unwrap());
        let is_it = |set: &&Value| set["places"][0] == text(&name);
        sets.iter().find(is_it).unwrap_or_else(|| panic!("{object}: {report}"))
    };
    assert_eq!(sets.len(), 2, "the full set and the end of the chain: {report}");
    assert_eq!(of(1 + logs)["compared_pages"], pages, "{report}");
    assert!(of(1 + logs)["pages"].as_u64().unwrap() > 20, "{report}");
    assert_eq!(of(1)["compared_pages"], Value::Null, "a full set has no fingerprints");
    let run = place().run(["verify", text(&pair.archive), "--restore-test"]);
    let expected = format!("quick_check ok, {pages} pages of its log as they were shipped");
    assert!(run.code == 0 && run.out.contains(&expected), "{run:?}");
    let lines = run.out.lines().filter(|line| line.contains("without fingerprints to compare"));
    assert_eq!(lines.count(), 1, "{run:?}");
}
