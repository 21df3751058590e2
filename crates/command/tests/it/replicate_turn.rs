//! A long log that `replicate` starts anew.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::databases::place;
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_times::end;

/// The transaction that starts it anew would be a set of its own.
#[test]
fn a_long_log_is_one_set_where_the_archive_is_quick() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "10m"];
    let words = [&words[..], &["--certificate", "AppCert"]].concat();
    let follower = place().command(words).stderr(Stdio::null()).spawn().unwrap();
    let (mut before, mut sets) = (pair.objects(), Vec::new());
    // How quick it is shows the first set.
    for n in 1..20 {
        let sql = format!("INSERT INTO t VALUES ({n}, randomblob(4000000))");
        keep.execute_batch(&sql).unwrap();
        wait_for(|| pair.objects() > before);
        sleep(Duration::from_millis(700));
        sets.push(pair.objects() - before);
        before = pair.objects();
        if sets.last() == Some(&1) {
            break;
        }
    }
    assert_eq!(sets.last(), Some(&1), "{sets:?}");
    assert_eq!(end(follower).code, 0);
    let wanted: Vec<u32> = (1..=u32::try_from(sets.len()).unwrap()).collect();
    assert_eq!(pair.restored("latest"), wanted);
    drop(keep);
}
