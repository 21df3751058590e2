//! `replicate --config` of more databases than full sets are made at the same time.

use std::fs;
use std::process::Stdio;

use crate::databases::{Dir, create, place};
use crate::replicate::{text, wait_for};
use crate::replicate_times::end;

/// Those that wait ask again soon, however long the interval is at which they are shipped.
#[test]
fn a_full_set_does_not_wait_for_the_interval() {
    let dir = Dir::new();
    let mut config = "to = 'archives/{name}'\ncertificates = ['AppCert']\nno_sign = true\n\
                      every = '10m'\nthrottle = '1MB'\n"
        .to_owned();
    let names: Vec<_> = (0..6).map(|n| format!("db{n}")).collect();
    for name in &names {
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n); \
                   INSERT INTO t VALUES (randomblob(1500000))";
        drop(create(&dir.path(&format!("{name}.db")), sql));
        config += &format!("[[database]]\npath = '{name}.db'\n");
    }
    fs::create_dir(dir.path("archives")).unwrap();
    let file = dir.path("replicate.toml");
    fs::write(&file, config).unwrap();
    let words = ["replicate", "--config", text(&file)];
    let process = place().command(words).stderr(Stdio::piped()).spawn().unwrap();
    let object = |name: &String| dir.path("archives").join(name).join("0000000000000001.tdekit");
    wait_for(|| names.iter().all(|name| object(name).exists()));
    let ended = end(process);
    assert_eq!(ended.code, 0, "{ended:?}");
    for name in &names {
        place().ok(["verify", text(&dir.path("archives").join(name))]);
    }
}
