//! `tdekit bench --target mysql://`: its requirements of a server, its connections, and what ends
//! it early. In the end nothing may be left on the server.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tdekit_faults_mariadb::Rig;
use tdekit_faults_mariadb::pricing::{
    PASSWORD, SHORT, bench, names, ratio, ready, results, results_of, server, state,
};
use tdekit_faults_mariadb::raw;
use tdekit_faults_mariadb::rig::{Run, command, needed};
use tdekit_private_mariadb::{Programs, Server, ServerConfig, find_program, initialise};

/// Runs the bench on a server.
fn on(rig: &Rig, url: &str, words: &[&str]) -> Run {
    let usual = ["--target", url, "--threads", "1", "--rows", "300"];
    // The last two are the length of a block.
    let short = if words.contains(&"--block-time") { &SHORT[..6] } else { &SHORT };
    bench(rig, &[&usual[..], short, words].concat())
}

/// Checks that the run was refused with these words, and a hint if it has one.
#[track_caller]
fn refused(run: &Run, wanted: &[&str]) {
    // A file that cannot be read has a code of its own.
    assert!([1, 7].contains(&run.code), "{run:?}");
    assert!(run.err.lines().any(|line| line.starts_with("error: ")), "{}", run.err);
    for words in wanted {
        assert!(run.err.contains(words), "{words} is missing in {}", run.err);
    }
    assert!(!run.err.contains("panicked") && !run.err.contains(PASSWORD), "{}", run.err);
}

fn url(user: &str, port: u16) -> String {
    format!("mysql://{user}@127.0.0.1:{port}/app")
}

fn with_password(rig: &mut Rig, password: &str) {
    rig.environment.retain(|(name, _)| name != "TDEKIT_LOGIN_PASSWORD");
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), password.into()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    server.sql("CREATE USER poor@'127.0.0.1'; GRANT SELECT ON app.* TO poor@'127.0.0.1'").unwrap();
    server.sql("RENAME TABLE app.sbtest1 TO app.mine").unwrap();
    let before = state(&server);
    let admin = url("admin", port);
    with_password(&mut rig, "wrong");
    refused(&on(&rig, &admin, &[]), &["Access denied", "error 1045", "--login-password-file"]);
    with_password(&mut rig, PASSWORD);
    for (words, wanted) in [
        (&["--max-size", "10MB", "--rows", "90000"][..], &["--max-size", "fewer --rows"][..]),
        (&["--threads", "1,65"], &["--max-connections", "65 threads"]),
        (&["--threads", "100", "--max-connections", "200"], &["--threads", "the server takes 60"]),
        (&["--trust"], &["TLS", "--plain"]),
        (&["--tls-ca", "/not/there.pem"], &["cannot read /not/there.pem"]),
        (&["--login-password-file", "/not/there"], &["cannot read /not/there"]),
    ] {
        let words: Vec<&str> = [&["--target", &admin], &SHORT[..], words].concat();
        refused(&bench(&rig, &words), wanted);
    }
    let nowhere = on(&rig, "mysql://admin@no-such-host.invalid/app", &["--plain"]);
    refused(&nowhere, &["no-such-host.invalid", "hint: --target"]);
    refused(&on(&rig, "mysql://admin@127.0.0.1:1/app", &[]), &["Can't connect", "hint: "]);
    let missing = url("admin", port).replace("/app", "/nothing");
    refused(&on(&rig, &missing, &[]), &["Unknown database", "hint: "]);
    assert_eq!(state(&server), before);
    // This user may only read: making the first table is refused.
    let poor = url("poor:", port);
    with_password(&mut rig, "");
    refused(
        &on(&rig, &poor, &[]),
        &["CREATE command denied", "error 1142", "hint: the user needs"],
    );
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}

#[test]
fn a_dry_run_needs_no_server() {
    let Some(rig) = ready() else { return };
    let run = on(&rig, "mysql://me@127.0.0.1:1/app", &["--dry-run"]);
    assert_eq!(run.code, 0, "{}", run.err);
    for wanted in ["-- On mysql://me@127.0.0.1:1/app", "CREATE DATABASE", "ENCRYPTION='Y'"] {
        assert!(run.out.contains(wanted), "{wanted} is missing in {}", run.out);
    }
    assert!(!rig.path("results.json").exists());
}

#[test]
#[ignore = "full: a bench on a server"]
fn the_load_is_told_and_follows_a_rate() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    with_password(&mut rig, PASSWORD);
    let before = state(&server);
    let run = on(&rig, &url("admin", port), &["--rate", "40", "--block-time", "2"]);
    let told = "It needs some 67 MB there and up to one connection, and gives the server 40";
    assert!(run.err.contains(told), "{}", run.err);
    let oltp = results_of(&rig, run);
    assert_eq!(oltp["facts"]["rate_per_s"], 40.0);
    for run in oltp["runs"].as_array().unwrap() {
        let of = |name: &str| run["values"][name].as_f64().unwrap();
        let rate = of("transactions") * 1e9 / of("elapsed");
        assert!((15.0..90.0).contains(&rate), "{rate}");
    }
    let cell = "oltp_read_write/1";
    assert_eq!(ratio(&oltp, cell, "encrypted", "throughput"), None);
    assert!(ratio(&oltp, cell, "encrypted", "median_latency").is_some());
    assert!(oltp["limits"].to_string().contains("throughput is the same and tells nothing"));
    let page = std::fs::read_to_string(rig.path("report.html")).unwrap();
    assert!(page.contains("--rate: every side is given 40 transactions a second"));
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}

/// Waits until a block of the run is in progress: it has a connection, and one of its sets of
/// tables.
fn wait_for_a_block(server: &Server) {
    let begun = Instant::now();
    let busy = "SELECT COUNT(*) FROM information_schema.processlist WHERE db LIKE 'tdekit%'";
    let aside = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE \
                 'tdekit_bench_encrypted%' OR table_name LIKE 'tdekit_bench_plain%'";
    let is = |sql: &str, count: &str| server.sql(sql).unwrap().trim() == count;
    while (!is(aside, "1") || is(busy, "0")) && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
#[ignore = "full: a bench on a server"]
fn ctrl_c_drops_everything() {
    let Some(rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    let before = state(&server);
    let temporary = rig.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut child = Command::new(command().unwrap())
        .args(["bench", "--target", &url("admin", port), "--threads", "2", "--rows", "300"])
        .args(&SHORT[..6])
        .args(["--block-time", "60", "--json", "-", "--html"])
        .arg(rig.path("report.html"))
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .env("TDEKIT_LOGIN_PASSWORD", PASSWORD)
        .env("TMPDIR", &temporary)
        // A separate process group: a terminal sends Ctrl-C to all of it.
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_a_block(&server);
    // The remains of a run that is killed outright.
    assert!(raw::files(&temporary).iter().any(|file| file.ends_with("sysbench.cfg")));
    assert_eq!(raw::holding(&temporary, PASSWORD), [] as [String; 0]);
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(state(&server), before);
    assert!(raw::files(&temporary).is_empty());
    server.stop().unwrap();
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_server_that_is_gone_midway_is_told_with_what_it_keeps() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    with_password(&mut rig, PASSWORD);
    let target = url("admin", port);
    let words = ["--block-time", "20", "--max-time", "60"];
    let run = std::thread::scope(|scope| {
        let running = scope.spawn(|| on(&rig, &target, &words));
        wait_for_a_block(&server);
        server.kill().unwrap();
        running.join().unwrap()
    });
    assert_eq!(run.code, 1, "{run:?}");
    let told = "the run's tables are still on the server";
    assert!(run.err.contains(told) && run.err.contains("DROP DATABASE `tdekit_bench_"), "{run:?}");
    assert!(!run.err.contains("panicked"), "{}", run.err);
}

/// Makes a server's certificate for `names`, and the authority's.
fn certificates(rig: &Rig, names: &str) -> [PathBuf; 3] {
    let directory = rig.path("tls");
    std::fs::create_dir_all(&directory).unwrap();
    let script = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem \
         -subj /CN=bench-authority && \
         openssl req -newkey rsa:2048 -nodes -keyout key.pem -out server.csr -subj /CN=server && \
         printf 'subjectAltName={names}\n' > names && \
         openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
         -extfile names -out cert.pem"
    );
    let done = Command::new("sh").args(["-c", &script]).current_dir(&directory).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    ["ca.pem", "cert.pem", "key.pem"].map(|name| directory.join(name))
}

fn with_tls(rig: &Rig, names: &str) -> (Server, u16, PathBuf) {
    let [authority, certificate, key] = certificates(rig, names);
    let options = [
        format!("ssl-cert={}", certificate.display()),
        format!("ssl-key={}", key.display()),
        // It requires a client certificate, and refuses those of others.
        format!("ssl-ca={}", authority.display()),
    ];
    let options = options.each_ref().map(String::as_str);
    let (server, port) = server(rig, &options);
    server.sql("ALTER USER admin@'127.0.0.1' REQUIRE SSL").unwrap();
    (server, port, authority)
}

#[test]
#[ignore = "full: a bench on a server"]
fn connections_are_tls_to_a_server_that_was_checked() {
    let Some(mut rig) = ready() else { return };
    let Some(_) = needed("openssl") else { return };
    let (server, port, authority) = with_tls(&rig, "IP:127.0.0.1,IP:0.0.0.0");
    with_password(&mut rig, PASSWORD);
    let before = state(&server);
    let (target, authority) = (url("admin", port), authority.to_str().unwrap().to_owned());

    // The user is admitted only through TLS, so every connection of the load had it.
    let oltp = results_of(&rig, on(&rig, &target, &["--tls-ca", &authority]));
    let tls = oltp["facts"]["tls"].as_str().unwrap();
    assert!(tls.starts_with("TLSv1."), "{tls}");
    assert!(!oltp["limits"].to_string().contains("certificate"), "{}", oltp["limits"]);

    let oltp = results_of(&rig, on(&rig, &target, &["--trust"]));
    assert!(oltp["limits"].to_string().contains("--trust: the server's certificate was not"));
    // On loopback TLS is not required, and the user may not connect without it.
    refused(&on(&rig, &target, &[]), &["Access denied"]);

    // None of the system's authorities has signed it.
    let far = target.replace("127.0.0.1", "0.0.0.0");
    refused(&on(&rig, &far, &[]), &["error 2026", "--tls-ca FILE names who vouches"]);
    // With it among the system's roots, both clients connect without an option.
    rig.environment.push(("SSL_CERT_FILE".into(), authority.as_str().into()));
    let oltp = results_of(&rig, on(&rig, &far, &[]));
    assert!(oltp["facts"]["tls"].as_str().unwrap().starts_with("TLSv1."));
    rig.environment.pop();
    let other = rig.path("tls/other.pem");
    let make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -subj \
                /CN=other";
    let made = Command::new("sh").args(["-c", make]).current_dir(rig.path("tls")).output().unwrap();
    assert!(made.status.success());
    refused(&on(&rig, &target, &["--tls-ca", other.to_str().unwrap()]), &["error 2026"]);
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_certificate_for_another_name_is_refused_by_both_clients() {
    let Some(mut rig) = ready() else { return };
    let Some(_) = needed("openssl") else { return };
    let (server, port, authority) = with_tls(&rig, "DNS:elsewhere.example");
    with_password(&mut rig, PASSWORD);
    let before = state(&server);
    let named = ["--tls-ca", authority.to_str().unwrap()];
    refused(&on(&rig, &url("admin", port), &named), &["error 2026", "hint: "]);
    assert_eq!(state(&server), before);
    // Sysbench would not get this far: the server's own answer, for the given host.
    let host = |checked: &str| {
        let directory = authority.parent().unwrap();
        let said = Command::new(find_program("sysbench").unwrap())
            .current_dir(directory)
            .arg(format!("--mysql-host=host=127.0.0.1;ssl-enforce=1;ssl-ca=ca.pem{checked}"))
            .arg(format!("--mysql-port={port}"))
            .args(["--mysql-user=admin", &format!("--mysql-password={PASSWORD}")])
            .args(["--mysql-db=app", "--db-driver=mysql", "--tables=1", "--table-size=10"])
            .args(["oltp_read_write", "cleanup"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
    };
    let checked = host(";ssl-verify-server-cert=1");
    assert!(checked.contains("error 2026"), "{checked}");
    assert!(!host("").contains("error 2026"));
    server.stop().unwrap();
}

#[test]
#[ignore = "full: a bench on a server"]
fn a_password_may_be_typed_and_hold_anything() {
    let Some(rig) = ready() else { return };
    let Some(_) = needed("script") else { return };
    let (server, port) = server(&rig, &[]);
    let password = r#" a#b "c\d;e'f,g "#;
    let quoted = password.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!("ALTER USER admin@'127.0.0.1' IDENTIFIED BY '{quoted}'")).unwrap();
    let file = rig.path("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    let target = url("admin", port);
    results_of(&rig, on(&rig, &target, &["--login-password-file", file.to_str().unwrap()]));

    let line = format!(
        "{} bench --target {target} --threads 1 --rows 300 {} --json {} --html {}",
        command().unwrap().display(),
        SHORT.join(" "),
        rig.path("typed.json").display(),
        rig.path("typed.html").display()
    );
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .env_remove("TDEKIT_LOGIN_PASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    std::io::Write::write_all(&mut input, format!("{password}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("Password for mysql://admin@127.0.0.1:{port}/app: ")), "{said}");
    assert!(output.status.success() && !said.contains("c\\d"), "{said}");
    assert!(!std::fs::read_to_string(rig.path("typed.json")).unwrap().contains("c\\\\d"));
    drop(input);
    server.stop().unwrap();
}

/// Finds MySQL where `cargo xtask mysql -- cargo test` unpacked it.
fn mysql() -> Option<(PathBuf, Programs)> {
    let Some(root) = std::env::var_os("TDEKIT_MYSQL_DIR") else {
        println!("not run: `cargo xtask mysql -- cargo test` unpacks a server and names it");
        return None;
    };
    let root = PathBuf::from(root);
    let programs = Programs::mysql(&root).unwrap();
    Some((root, programs))
}

fn mysql_server(rig: &Rig, programs: &Programs, data: &Path) -> (Server, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    if !data.exists() {
        initialise(programs, data, &[]).unwrap();
    }
    let config = ServerConfig {
        data: data.to_owned(),
        port: Some(port),
        environment: rig.environment.clone(),
        ..ServerConfig::default()
    };
    let server = Server::start(programs, &config).unwrap();
    let sql = format!(
        "CREATE DATABASE app; CREATE USER admin@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; \
         GRANT ALL ON *.* TO admin@'127.0.0.1'"
    );
    server.sql(&sql).unwrap();
    (server, port)
}

/// The server makes its certificate itself, without its own name in it.
#[test]
fn mysql_is_asked_for_a_keyring_and_trusted_when_that_is_said() {
    let Some((_, programs)) = mysql() else { return };
    let Some(mut rig) = ready() else { return };
    with_password(&mut rig, PASSWORD);
    let (server, port) = mysql_server(&rig, &programs, &rig.path("plain"));
    let databases = |server: &Server| server.sql("SHOW DATABASES").unwrap();
    let before = databases(&server);
    refused(&on(&rig, &url("admin", port), &[]), &["has no keyring", "docs/bench-servers.md"]);
    assert_eq!(databases(&server), before);
    server.stop().unwrap();

    let keyed = programs.with_keyring(&rig.path("keys")).unwrap();
    let (server, port) = mysql_server(&rig, &keyed, &rig.path("keyed"));
    let authority = server.data().join("ca.pem");
    let named = ["--tls-ca", authority.to_str().unwrap()];
    refused(&on(&rig, &url("admin", port), &named), &["error 2026", "--trust"]);
    let oltp = results_of(&rig, on(&rig, &url("admin", port), &["--trust"]));
    assert!(oltp["facts"]["tls"].as_str().unwrap().starts_with("TLSv1."));
    assert!(ratio(&oltp, "oltp_read_write/1", "encrypted", "throughput").is_some());
    assert_eq!(databases(&server), before);
    server.stop().unwrap();
}

#[test]
fn mysql_stands_beside_mariadb_against_its_own_plain_tables() {
    let Some((root, _)) = mysql() else { return };
    let Some(rig) = ready() else { return };
    let peer = format!("mysql-tdekit:{}", root.display());
    let work = rig.path("work");
    std::fs::create_dir(&work).unwrap();
    let words = ["--target", "mariadb", "--threads", "1", "--rows", "300", "--peer", &peer];
    let more = ["--peer", "file_key_management:cbc", "--dir", work.to_str().unwrap()];
    let oltp = results(&rig, &[&words[..], &SHORT, &more].concat());
    let sides =
        ["base", "tdekit", "file_key_management:cbc", "mysql-base", "mysql", "mysql-tdekit"];
    assert_eq!(names(&oltp["sides"]), sides);
    for at in [4, 5] {
        let side = &oltp["sides"][at];
        assert_eq!(side["plain"], "mysql-base");
        assert!(side["facts"]["version"].as_str().unwrap().starts_with("MySQL "));
    }
    let pooled = oltp["summary"]["pooled"].as_array().unwrap();
    let mysql = ["mysql", "mysql-tdekit"].map(|side| (side, "mysql-base"));
    for pair in mysql.into_iter().chain([("tdekit", "base"), (sides[2], "base")]) {
        let is = |one: &&Value| one["side"] == pair.0 && one["against"] == pair.1;
        assert!(pooled.iter().any(|one| is(&one)), "{pair:?}");
    }
    let page = std::fs::read_to_string(rig.path("report.html")).unwrap();
    for wanted in ["Side by side, each against its own plain one", "MySQL with its keyring is held"]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "something was left behind");
}

#[test]
fn without_mysql_the_peer_says_how_to_get_it() {
    let Some(rig) = ready() else { return };
    let empty = rig.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let peer = format!("mysql:{}", empty.display());
    let run = bench(&rig, &["--target", "mariadb", "--peer", &peer, "--rows", "300"]);
    refused(&run, &["no MySQL server", "hint: "]);
}

#[test]
#[ignore = "full: a bench on a server"]
fn base_against_base_is_plain_twice_and_may_do_more_on_purpose() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig, &[]);
    with_password(&mut rig, PASSWORD);
    let (before, admin) = (state(&server), url("admin", port));
    let run = on(&rig, &admin, &["--aa"]);
    assert!(run.err.contains("no set encrypted"), "{}", run.err);
    assert_eq!(names(&results_of(&rig, run)["sides"]), ["base", "control"]);
    refused(&on(&rig, &admin, &["--aa", "--inject", "30"]), &["oltp_read_only alone"]);
    let words = ["--target", &admin, "--threads", "1", "--rows", "300", "--aa", "--inject", "100"];
    let words = [&["--workload", "oltp_read_only"], &words[..], &SHORT[2..]].concat();
    let oltp = results(&rig, &words);
    for run in oltp["runs"].as_array().unwrap() {
        let of = |name: &str| run["values"][name].as_f64().unwrap();
        let selects = if run["side"] == "base" { 100.0 } else { 110.0 };
        assert_eq!(of("queries"), selects * of("transactions"), "{run}");
    }
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}
