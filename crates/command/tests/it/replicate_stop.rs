//! Signals that end `replicate`: a full set that is due is put off, the first one is given up, and
//! a second signal leaves the log to the next process.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::place;
use crate::replicate::{Pair, WaitBy, text, wait_for};
use crate::replicate_times::{LARGE_ROW, between, end, follow_slowly, makes, record};

const SOON: [&str; 2] = ["--snapshot-every", "1s"];

/// Returns the number of whole chains.
fn chains(pair: &Pair) -> usize {
    let verified = place().json(["verify", text(&pair.archive), "--json"]);
    assert_eq!(verified["verdict"], "whole", "{verified}");
    verified["chains"].as_array().unwrap().len()
}

#[test]
fn a_full_set_that_is_due_is_left_to_the_next_process() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        keep.execute_batch(LARGE_ROW).unwrap();
        pair.ship();
        pair.add(1);
        let follower = follow_slowly(&pair, &SOON);
        wait_for(|| pair.object(2).exists() && makes(&pair, 0));
        pair.add(2);
        let at = between();
        pair.add(3);
        assert!(makes(&pair, 0), "the full set was not slow");
        let ended = end(follower);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.err.contains("the last full set is old"), "{ended:?}");
        assert_eq!(ended.err.matches("is left to the next process").count(), 1, "{ended:?}");
        assert_eq!((pair.objects(), chains(&pair)), (3, 1));
        assert_eq!(pair.restored(&at), [0, 1, 2]);
        assert_eq!(pair.restored("latest"), [0, 1, 2, 3]);
        // The next one goes on with the chain, and makes the full set.
        pair.add(4);
        let next = pair.once(&SOON);
        assert!(next.code == 0 && next.err.contains("goes on behind object 3"), "{next:?}");
        assert!(next.err.contains("the last full set is old"), "{next:?}");
        assert_eq!((pair.objects(), chains(&pair)), (5, 2));
        assert_eq!(pair.restored("4"), [0, 1, 2, 3, 4]);
        assert_eq!(pair.restored("latest"), [0, 1, 2, 3, 4]);
        drop(keep);
    }
}

/// No chain can do without it: what was committed is left to the next process.
#[test]
fn the_first_full_set_is_given_up() {
    let pair = Pair::new(false);
    let keep = pair.db();
    keep.execute_batch(LARGE_ROW).unwrap();
    let follower = follow_slowly(&pair, &SOON);
    wait_for(|| makes(&pair, 0));
    pair.add(1);
    let ended = end(follower);
    assert!(ended.code == 1 && ended.err.contains("cancelled"), "{ended:?}");
    assert!(!ended.err.contains("next process"), "{ended:?}");
    assert_eq!(pair.objects(), 0);
    assert!(pair.ship().contains("the archive is empty"));
    assert_eq!(pair.restored("latest"), [0, 1]);
    drop(keep);
}

/// It ends a process that waits, here for a writer before a full set. The log has everything.
#[test]
fn a_second_signal_ends_at_once_and_the_chain_goes_on() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    pair.add(1);
    let writer = pair.db();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut follower = follow_slowly(&pair, &SOON);
    wait_for(|| pair.object(2).exists());
    sleep(Duration::from_millis(300));
    signal(follower.id(), "TERM");
    sleep(Duration::from_millis(300));
    assert_eq!(follower.try_wait().unwrap(), None, "it did not wait");
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(3)));
    assert_eq!(ended.code, 130, "{ended:?}");
    writer.execute_batch("INSERT INTO t VALUES (2, 'two'); COMMIT").unwrap();
    assert!(pair.ship().contains("goes on behind object 2"));
    assert_eq!((pair.objects(), chains(&pair)), (3, 1));
    assert_eq!(pair.restored("latest"), [1, 2]);
    drop(keep);
}

/// A set of 45 seconds, which had begun.
#[test]
fn the_throttle_is_lifted_when_the_process_ends() {
    let pair = Pair::new(false);
    let keep = pair.db();
    let follower = follow_slowly(&pair, &[]);
    wait_for(|| pair.object(1).exists());
    keep.execute_batch("INSERT INTO t VALUES (0, randomblob(9000000))").unwrap();
    wait_for(|| record(&pair).contains("\"intent\":{"));
    pair.add(1);
    sleep(Duration::from_millis(500));
    assert!(!pair.object(2).exists(), "the set was not slow");
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{ended:?}");
    // The transaction that started the log anew may have a set of its own.
    assert!((3..=4).contains(&pair.objects()), "{ended:?}");
    assert_eq!(pair.restored("latest"), [0, 1]);
    drop(keep);
}

/// Starts an S3 server without objects that begins uploads, and takes no piece of one: it does not
/// answer then. Returns its address, and the number of pieces that came.
fn start_hanging_store() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let pieces = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pieces);
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            spawn(move || answer(stream, &counted));
        }
    });
    (address, pieces)
}

/// Answers the requests of a connection until a piece comes.
fn answer(stream: TcpStream, pieces: &AtomicUsize) -> Option<()> {
    let (mut lines, mut out) = (BufReader::new(stream.try_clone().ok()?).lines(), stream);
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        const NOTHING: &str =
            "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        let (status, body) = match request.split(' ').next()? {
            "GET" => ("200 OK", NOTHING),
            "POST" => ("200 OK", "<Result><UploadId>1</UploadId></Result>"),
            "HEAD" => ("404 Not Found", ""),
            "DELETE" => ("204 No Content", ""),
            _ => {
                pieces.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(120));
                return None;
            }
        };
        let length = body.len();
        write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    }
}

#[test]
fn a_full_set_on_its_way_to_a_store_that_hangs_is_given_up() {
    let pair = Pair::new(false);
    let keep = pair.db();
    // More than a piece.
    keep.execute_batch("INSERT INTO t VALUES (0, randomblob(10000000))").unwrap();
    let (endpoint, pieces) = start_hanging_store();
    let words = ["replicate", text(&pair.db), "--to", "s3://bucket/archive", "--no-sign"];
    let mut follower = place()
        .command(words)
        .envs([("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true")])
        .envs([("AWS_ACCESS_KEY_ID", "user"), ("AWS_SECRET_ACCESS_KEY", "secret")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| pieces.load(Ordering::Relaxed) > 0);
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(10)));
    assert!(ended.code == 1 && ended.err.contains("error: cancelled"), "{ended:?}");
    drop(keep);
}
