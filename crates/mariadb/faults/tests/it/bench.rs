//! `tdekit bench` on MariaDB: private servers that it starts, and an existing server.

use std::sync::atomic::{AtomicBool, Ordering};

use tdekit_faults_mariadb::pricing::{
    PASSWORD, SHORT, bench, names, ratio, ready, results, results_of, seen_in_a_command_line,
    server, state,
};

#[test]
#[ignore = "full: sysbench on four servers"]
fn private_servers_are_priced_by_the_real_sysbench() {
    let Some(mut rig) = ready() else { return };
    let (work, temporary) = (rig.path("work"), rig.path("tmp"));
    for directory in [&work, &temporary] {
        std::fs::create_dir(directory).unwrap();
    }
    // A server that starts deletes other servers' temporary tables in the same directory.
    rig.environment.push(("TMPDIR".into(), temporary.into()));
    let words = [
        "--target",
        "mariadb",
        "--workload",
        "oltp_read_write,full_scan",
        "--threads",
        "2",
        "--tables",
        "1",
        "--rows",
        "60000",
        "--buffer-pool",
        "8",
        "--restarts",
        "1",
        "--block-time",
        "1",
        "--peer",
        "file_key_management:ctr",
        "--dir",
        work.to_str().unwrap(),
    ];
    let oltp = results(&rig, &words);
    let driver = oltp["facts"]["driver"].as_str().unwrap();
    assert!(driver.starts_with("sysbench 1."), "{driver}");
    assert_eq!(names(&oltp["sides"]), ["base", "tdekit", "file_key_management:ctr"]);
    assert_eq!(names(&oltp["cells"]), ["oltp_read_write/2", "full_scan/1"]);
    for cell in ["oltp_read_write/2", "full_scan/1"] {
        for side in ["tdekit", "file_key_management:ctr"] {
            for metric in ["throughput", "cpu_each"] {
                let found = ratio(&oltp, cell, side, metric);
                assert!(found.is_some_and(|ratio| ratio > 0.0), "{cell} {side} {metric}");
            }
        }
    }
    for run in oltp["runs"].as_array().unwrap() {
        let number = |name: &str| run["values"][name].as_f64().unwrap_or(0.0);
        assert!(number("transactions") > 0.0 && number("cpu") > 0.0, "{run}");
        let scan = run["cell"] == "full_scan/1";
        // More pages than the pool holds: they came from the files.
        assert!(!scan || number("transactions") > 600.0, "{run}");
        assert!(scan || (number("client_cpu") > 0.0 && number("own_cpu") > 0.0), "{run}");
        assert!(number("own_cpu") < number("cpu"), "{run}");
    }
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "something was left behind");
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_server_that_was_there_keeps_its_tables_and_its_password() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), PASSWORD.into()));
    let before = state(&server);
    let own = server.sql("SELECT v FROM app.sbtest1").unwrap();
    let url = format!("mysql://admin@127.0.0.1:{port}/app");
    let words = ["--target", &url, "--threads", "1,2", "--rows", "300"];
    let done = AtomicBool::new(false);
    let (run, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| seen_in_a_command_line(&done));
        let run = bench(&rig, &[&words[..], &SHORT].concat());
        done.store(true, Ordering::SeqCst);
        (run, looking.join().unwrap())
    });
    assert_eq!(seen, None, "the password is in a command line");
    let oltp = results_of(&rig, run);
    assert_eq!(oltp["facts"]["target"], "mysql");
    assert_eq!(names(&oltp["sides"]), ["base", "encrypted"]);
    for cell in ["oltp_read_write/1", "oltp_read_write/2"] {
        assert!(ratio(&oltp, cell, "encrypted", "throughput").is_some(), "{cell}");
        // The server's CPU time cannot be measured from outside, and must not be invented.
        assert_eq!(ratio(&oltp, cell, "encrypted", "cpu_each"), None);
    }
    assert_eq!(state(&server), before);
    assert_eq!(server.sql("SELECT v FROM app.sbtest1").unwrap(), own);

    // A server that encrypts every table cannot be compared with itself.
    server.sql("SET GLOBAL innodb_encrypt_tables='FORCE'").unwrap();
    let words = ["--target", &url, "--threads", "1", "--rows", "300"];
    let oltp = results(&rig, &[&words[..], &SHORT].concat());
    assert_eq!(names(&oltp["sides"]), ["server"]);
    assert_eq!(oltp["summary"]["comparisons"].as_array().unwrap().len(), 0);
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_user_who_may_make_no_database_gets_tables_beside_his_own() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), PASSWORD.into()));
    let url = format!("mysql://small@127.0.0.1:{port}/app");
    let words = ["--target", &url, "--threads", "1", "--rows", "300"];
    let words = [&words[..], &SHORT].concat();
    let before = state(&server);
    let run = bench(&rig, &words);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("holds tables named sbtest*"), "{}", run.err);
    assert_eq!(state(&server), before);

    server.sql("RENAME TABLE app.sbtest1 TO app.mine").unwrap();
    let before = state(&server);
    let oltp = results(&rig, &words);
    let limits = oltp["limits"].to_string();
    assert!(limits.contains("may not make a database"), "{limits}");
    assert!(ratio(&oltp, "oltp_read_write/1", "encrypted", "throughput").is_some());
    assert_eq!(state(&server), before);

    server.stop().unwrap();
}

/// MySQL's own encryption, on the server that `cargo xtask mysql -- cargo test` starts.
#[test]
fn tables_of_mysql_are_priced_and_gone_afterwards() {
    let Ok(url) = std::env::var("TDEKIT_MYSQL_URL") else {
        println!("not run: `cargo xtask mysql -- cargo test` starts a server and names it");
        return;
    };
    let Some(rig) = ready() else { return };
    let words = ["--target", &url, "--threads", "1,2", "--rows", "300"];
    let oltp = results(&rig, &[&words[..], &SHORT].concat());
    let sides: Vec<_> = oltp["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["label"].as_str().unwrap())
        .collect();
    assert_eq!(sides, ["ENCRYPTION='N'", "ENCRYPTION='Y'"]);
    assert!(ratio(&oltp, "oltp_read_write/1", "encrypted", "throughput").is_some());
    let (limits, settings) = (oltp["limits"].to_string(), oltp["settings"].to_string());
    assert!(limits.contains("the redo log in the clear"), "{limits}");
    assert!(settings.contains("component_keyring_file, Active"), "{settings}");
    let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap();
    let mut client = std::process::Command::new("mariadb");
    client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"]);
    client.args([format!("--port={port}").as_str(), "--batch", "--skip-column-names", "--execute"]);
    let left = client.arg("SHOW DATABASES LIKE 'tdekit%'").output().unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
}
