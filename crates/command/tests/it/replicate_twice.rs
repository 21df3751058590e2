//! A record that cannot be written once an object is in the archive: nothing of that object is
//! shipped a second time, since states of an older time would then lie over newer ones.

use std::fs::{self, File};
use std::process::Command;

use crate::bench::signal;
use crate::databases::{one, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};

#[test]
fn transactions_are_not_shipped_again_where_the_record_cannot_be_written() {
    let pair = Pair::new(false);
    let keep = pair.db();
    keep.execute_batch("CREATE TABLE u(x)").unwrap();
    pair.ship();
    pair.add(1);
    keep.execute_batch("BEGIN; DELETE FROM t; INSERT INTO u VALUES (zeroblob(9000)); COMMIT")
        .unwrap();
    let record = format!("{}-replica", text(&pair.db));
    let (said, trace) = (pair.dir.path("said"), pair.dir.path("trace"));
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let own = place().command([&words[..], &["--certificate", "AppCert"]].concat());
    let mut follower = Command::new("strace");
    follower.args(["-D", "-f", "-o", text(&trace), "-P", &record, "-e", "trace=pwrite64"]);
    // The first is that of the beginning, the second says what is about to be shipped.
    follower.args(["-e", "inject=pwrite64:error=EIO:when=3"]);
    follower.arg(own.get_program()).args(own.get_args()).env_clear();
    follower.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut follower = follower.stderr(File::create(&said).unwrap()).spawn().unwrap();
    wait_for(|| pair.object(2).exists());
    pair.add(2);
    wait_for(|| pair.object(3).exists());
    signal(follower.id(), "TERM");
    let ended = follower.wait_with_output_by(std::time::Duration::from_secs(20));
    let said = fs::read_to_string(&said).unwrap();
    assert!(ended.status.success(), "{said}");
    assert_eq!(fs::read_to_string(&trace).unwrap().matches("INJECTED").count(), 1, "{said}");
    assert_eq!(pair.restored("2.1"), [1]);
    assert_eq!(pair.restored("2"), [0_u32; 0]);
    assert_eq!(pair.restored("3.1"), [2], "{said}");
    assert_eq!(one::<u32>(&open(&pair.dir.path("restored.db")), "SELECT count(*) FROM u"), 1);
    assert_eq!((pair.objects(), pair.restored("latest")), (3, vec![2]), "{said}");
    place().ok(["verify", text(&pair.archive)]);
    drop(keep);
}
