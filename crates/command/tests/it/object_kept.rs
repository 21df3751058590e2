//! How an object store keeps what commands write, and how they reach it: locks, storage classes, a
//! private certificate authority.

use std::net::TcpListener;
use std::process::Command;

use crate::common::{Place, openssl};
use crate::databases::{Dir, create};
use crate::s3_of_test::{OwnServer, endpoint, variable, variables};

/// Returns a store whose commands use the tests' server; `None` without one.
fn place(test: &str) -> Option<Place> {
    let endpoint = endpoint(test)?;
    let mut place = Place::with_store();
    for (name, value) in variables(&endpoint) {
        place.set(name, &value);
    }
    place.ok(["cert", "create", "C"]);
    let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)";
    drop(create(&place.path("app.db"), sql));
    Some(place)
}

/// Sends a request without a body, and returns the headers of the answer.
fn ask(method: &[&str], name: &str, headers: &[&str]) -> String {
    let user = format!("{}:{}", variable("KEY_ID"), variable("SECRET"));
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user]);
    for header in headers {
        curl.args(["--header", header]);
    }
    let address = format!("{}/{name}", variable("ENDPOINT"));
    let output = curl.args(method).arg(address).output().unwrap();
    assert!(output.status.success(), "{method:?} {name}: {output:?}");
    String::from_utf8(output.stdout).unwrap().to_ascii_lowercase()
}

#[test]
fn what_is_locked_stays_and_prune_names_it() {
    let Some(place) = place("kept") else { return };
    let bucket = format!("kept-{}", std::process::id());
    ask(&["--request", "PUT"], &bucket, &["x-amz-bucket-object-lock-enabled: true"]);
    let media = |name: &str| format!("s3://{bucket}/media/{name}");
    let lock = ["--object-lock", "1", "--storage-class", "STANDARD_IA"];
    for name in ["a.bak", "b.bak"] {
        let to = media(name);
        let backup = ["backup", "app.db", "--to", &to, "--certificate", "C"];
        place.ok([&backup[..], &lock].concat());
    }
    // The signature is an object of its own.
    for part in ["a.bak", "a.bak.0001"] {
        let head = ask(&["--head"], &format!("{bucket}/media/{part}"), &[]);
        assert!(head.contains("x-amz-object-lock-mode: governance"), "{head}");
        assert!(head.contains("x-amz-storage-class: standard_ia"), "{head}");
    }
    let strict = [&lock[..], &["--object-lock-mode", "compliance"]].concat();
    let (from, to) = (media("b.bak"), format!("s3://{bucket}/copy.bak"));
    place.ok([&["copy", &from, &to], &strict[..]].concat());
    let head = ask(&["--head"], &format!("{bucket}/copy.bak"), &[]);
    assert!(head.contains("x-amz-object-lock-mode: compliance"), "{head}");

    let prune = ["prune", &media(""), "--keep-last", "1"].map(str::to_owned);
    let run = place.run(&prune);
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.err.contains("a.bak.0001") && run.err.contains("lock of the object"), "{run:?}");
    for name in ["a.bak", "b.bak"] {
        place.ok(["verify", &media(name)]);
    }

    let archive = format!("s3://{bucket}/archive");
    let replicate = ["replicate", "app.db", "--to", &archive, "--certificate", "C", "--once"];
    place.ok([&replicate[..], &lock].concat());
    let object = format!("{bucket}/archive/0000000000000001.tdekit");
    let head = ask(&["--head"], &object, &[]);
    assert!(head.contains("x-amz-object-lock-mode: governance"), "{head}");
    let config = place.path("replicate.toml");
    std::fs::write(
        &config,
        format!(
            "to = 's3://{bucket}/{{name}}'\ncertificates = ['C']\nobject_lock = 2\n\
             [[database]]\npath = 'two.db'\n"
        ),
    )
    .unwrap();
    let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)";
    drop(create(&place.path("two.db"), sql));
    place.ok(["replicate", "--config", config.to_str().unwrap(), "--once"]);
    let head = ask(&["--head"], &format!("{bucket}/two/0000000000000001.tdekit"), &[]);
    assert!(head.contains("x-amz-object-lock-mode: governance"), "{head}");
    place.ok(["restore", &archive, "--at", "latest", "--to", "r.db"]);
}

#[test]
fn a_lock_where_there_is_none_is_refused() {
    let Some(place) = place("unkept") else { return };
    let lock = ["--object-lock", "1"];
    let backup = ["backup", "app.db", "--certificate", "C", "--to"];
    let address = format!("s3://{}/unkept-{}.bak", variable("BUCKET"), std::process::id());
    let run = place.run([&backup[..], &[&address], &lock].concat());
    assert!(run.code != 0 && run.err.contains("must have been made for locks"), "{run:?}");
    place.fails(7, ["verify", &address]);
    for to in ["app.bak", "gs://bucket/app.bak"] {
        let told = place.fails(2, [&backup[..], &[to], &lock].concat());
        assert!(told.contains("lock"), "{told}");
    }
    let told = place.fails(2, ["replicate", "app.db", "--to", "dir", "--once", lock[0], lock[1]]);
    assert!(told.contains("lock") && !place.path("dir").exists(), "{told}");
}

#[test]
fn a_store_with_a_private_authority_is_reached_with_its_file_alone() {
    let Some(mut place) = place("authority") else { return };
    let dir = Dir::new();
    let request =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = |name: &str| {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
        let files = ["-keyout", &key, "-out", &certificate, "-subj", &format!("/CN={name}")];
        openssl(&dir.path(""), &[&request[..], &files].concat());
    };
    authority("ca");
    authority("other");
    let names = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1"];
    let files = ["-keyout", "s.key", "-out", "s.pem", "-subj", "/CN=s"];
    let own = ["-addext", "basicConstraints=critical,CA:FALSE"];
    openssl(&dir.path(""), &[&request[..], &files, &names, &own].concat());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let more = [
        format!("-s3.port.https={port}"),
        format!("-s3.cert.file={}", dir.path("s.pem").display()),
        format!("-s3.key.file={}", dir.path("s.key").display()),
    ];
    let _server = OwnServer::start_with(&dir, &more).unwrap();
    place.set("AWS_ENDPOINT_URL", &format!("https://127.0.0.1:{port}"));
    place.set("AWS_ALLOW_HTTP", "false");
    let to = format!("s3://{}/private.bak", variable("BUCKET"));
    let backup = ["backup", "app.db", "--certificate", "C", "--to", &to];
    for file in ["", "other.pem"] {
        let path =
            if file.is_empty() { String::new() } else { dir.path(file).display().to_string() };
        place.set("AWS_CA_BUNDLE", &path);
        let told = place.fails(2, backup);
        assert!(told.contains("certificate is not accepted"), "{told}");
    }
    place.set("AWS_CA_BUNDLE", dir.path("ca.pem").to_str().unwrap());
    place.ok(backup);
    place.ok(["verify", &to]);
    place.ok(["restore", &to, "--to", "restored.db"]);
    place.set("AWS_CA_BUNDLE", dir.path("none.pem").to_str().unwrap());
    let told = place.fails(2, ["verify", &to]);
    assert!(told.contains("none.pem (AWS_CA_BUNDLE): there is no such file"), "{told}");
}
