//! Targets and media against a real S3 server on loopback.

use std::time::Duration;

use crate::object_common::{Cut, Proxy, TRAILER, server};
use tdekit_backup_run::{
    AppendAt, MediaSource, ObjectFault, ObjectMedia, ObjectOptions, ObjectTarget, RunError, Target,
};

/// Four pieces of 5 MiB.
const LARGE: usize = 18 << 20;
const NEW: AppendAt = AppendAt::New { replace: false };
const BEHIND: AppendAt = AppendAt::Behind { part: 0, end: 0 };

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

fn append(
    address: &str,
    options: &ObjectOptions,
    place: AppendAt,
    bytes: &[u8],
) -> Result<(), RunError> {
    append_with(address, options, place, bytes, TRAILER)
}

/// Trailers of different records differ, as they do in a media set.
fn append_with(
    address: &str,
    options: &ObjectOptions,
    place: AppendAt,
    bytes: &[u8],
    trailer: &[u8],
) -> Result<(), RunError> {
    let mut target = ObjectTarget::new(address, options)?;
    target.open()?;
    let mut append = target.append(place)?;
    for chunk in bytes.chunks(1_000_001) {
        append.write(chunk)?;
    }
    append.sync()?;
    append.publish(trailer)
}

fn read(media: &ObjectMedia, part: u32) -> Result<Vec<u8>, RunError> {
    let mut bytes = vec![0; usize::try_from(media.part_len(part)?).unwrap()];
    let mut offset = 0;
    for chunk in bytes.chunks_mut(1_000_001) {
        media.read_at(part, offset, chunk)?;
        offset += chunk.len() as u64;
    }
    Ok(bytes)
}

fn trailer(writer: u64) -> Vec<u8> {
    format!("the trailer of writer {writer}").into_bytes()
}

fn record(bytes: &[u8]) -> Vec<u8> {
    [bytes, TRAILER].concat()
}

#[test]
fn appends_are_objects_and_read_as_parts() {
    let Some(server) = server("appends") else { return };
    let (address, options) = (server.address("a.bak"), server.options());
    let large = bytes(1, LARGE);
    append(&address, &options, NEW, &large).unwrap();
    append(&address, &options, BEHIND, b"small").unwrap();
    append(&address, &options, AppendAt::Behind { part: 1, end: 0 }, &large).unwrap();
    server.put("a.bak-other", b"other".to_vec());
    assert!(server.get("a.bak").unwrap() == record(&large));
    assert_eq!(server.get("a.bak.0001").unwrap(), record(b"small"));
    let media = ObjectMedia::open(&address, &options).unwrap();
    assert_eq!(media.parts(), 3);
    for (part, written) in [(0, &large[..]), (1, b"small"), (2, &large[..])] {
        assert!(read(&media, part).unwrap() == record(written), "{part}");
    }
    let exists = append(&address, &options, NEW, b"other");
    assert!(matches!(exists, Err(RunError::Exists { .. })), "{exists:?}");
    server.delete("a.bak.0001");
    let gap = ObjectMedia::open(&address, &options);
    assert!(matches!(gap, Err(RunError::NoPart { part: 1, .. })), "{gap:?}");
    assert_eq!(server.unfinished_uploads(), 0);
}

/// A server that checks and then writes, in two steps, accepts two writers at the very same moment.
/// Then the result is one writer's data, whole; and that is the exception: in at least one of a few
/// tries the store refuses the second.
#[test]
fn of_two_writers_one_is_refused() {
    const TRIES: usize = 4;
    let Some(server) = server("two-writers") else { return };
    for length in [10, LARGE] {
        let refused = (0..TRIES).any(|at| two_writers(&server, &format!("{length}-{at}"), length));
        assert!(refused, "of {TRIES} pairs of {length} bytes none was parted");
    }
    assert_eq!(server.unfinished_uploads(), 0);
}

/// Two writers append at once. Returns true if one was refused.
fn two_writers(server: &crate::object_common::Server, name: &str, length: usize) -> bool {
    let (address, options) = (server.address(name), server.options());
    append(&address, &options, NEW, b"first").unwrap();
    let results = std::thread::scope(|scope| {
        let writers = [1, 2].map(|seed| {
            let (address, options) = (&address, &options);
            scope.spawn(move || {
                append_with(address, options, BEHIND, &bytes(seed, length), &trailer(seed))
            })
        });
        writers.map(|writer| writer.join().unwrap())
    });
    // A writer that starts after the other has ended learns that its place is not the last.
    for refused in results.iter().filter_map(|result| result.as_ref().err()) {
        let is_known = matches!(refused, RunError::Exists { .. } | RunError::NoPart { .. });
        assert!(is_known, "{results:?}");
    }
    let winners: Vec<_> = (1..).zip(&results).filter(|(_, result)| result.is_ok()).collect();
    assert!(!winners.is_empty(), "{results:?}");
    let part = server.get(&format!("{name}.0001")).unwrap();
    let is_whole = |&(seed, _): &(u64, _)| part == [bytes(seed, length), trailer(seed)].concat();
    assert!(winners.iter().any(is_whole), "{name}");
    assert!(server.get(&format!("{name}.0002")).is_none());
    winners.len() == 1
}

#[test]
fn the_later_of_two_open_writers_is_refused_by_the_store() {
    let Some(server) = server("later-writer") else { return };
    let (address, options) = (server.address("a.bak"), server.options());
    append(&address, &options, NEW, b"first").unwrap();
    let mut targets = [1, 2].map(|_| ObjectTarget::new(&address, &options).unwrap());
    let [mut one, mut two] = targets.each_mut().map(|target| {
        target.open().unwrap();
        let mut append = target.append(BEHIND).unwrap();
        append.write(&bytes(3, LARGE)).unwrap();
        append
    });
    two.publish(&trailer(2)).unwrap();
    let refused = one.publish(&trailer(1)).unwrap_err();
    let RunError::Exists { path } = &refused else { panic!("{refused}") };
    assert!(path.ends_with("a.bak.0001"), "{refused}");
    drop((one, two));
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn an_upload_goes_on_after_its_connection_dropped() {
    let Some(server) = server("dropped-upload") else { return };
    let cuts = vec![Cut::Up(3 << 20), Cut::Up(1), Cut::Up(6 << 20), Cut::Down(1)];
    let proxy = Proxy::new(&server, cuts);
    let (address, written) = (server.address("a.bak"), bytes(4, LARGE));
    append(&address, &server.options_by(&proxy.endpoint), NEW, &written).unwrap();
    assert_eq!(proxy.left(), 0);
    assert!(server.get("a.bak").unwrap() == record(&written));
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn a_lost_answer_to_the_publishing_request_is_no_failure() {
    let Some(server) = server("lost-answer") else { return };
    for (name, length, request) in [("s.bak", 10, "PUT "), ("l.bak", LARGE, "?uploadId=")] {
        let written = bytes(5, length);
        let proxy = Proxy::new(&server, Vec::new());
        let options = server.options_by(&proxy.endpoint);
        let mut target = ObjectTarget::new(&server.address(name), &options).unwrap();
        let mut append = target.append(NEW).unwrap();
        append.write(&written).unwrap();
        append.sync().unwrap();
        proxy.cut(vec![Cut::Answer(request)]);
        append.publish(TRAILER).unwrap();
        assert_eq!(proxy.left(), 0);
        assert!(server.get(name).unwrap() == record(&written), "{name}");
    }
}

#[test]
fn a_download_goes_on_after_its_connection_dropped() {
    let Some(server) = server("dropped-download") else { return };
    let written = bytes(6, LARGE);
    append(&server.address("a.bak"), &server.options(), NEW, &written).unwrap();
    let cuts = [1 << 20, 1, 3 << 20, 100_000, 1].map(Cut::Down).to_vec();
    let proxy = Proxy::new(&server, cuts);
    let options = server.options_by(&proxy.endpoint);
    let media = ObjectMedia::open(&server.address("a.bak"), &options).unwrap();
    assert!(read(&media, 0).unwrap() == record(&written));
    assert_eq!(proxy.left(), 0);
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let Some(server) = server("given-up") else { return };
    let mut target = ObjectTarget::new(&server.address("a.bak"), &server.options()).unwrap();
    let mut append = target.append(NEW).unwrap();
    append.write(&bytes(7, LARGE)).unwrap();
    append.sync().unwrap();
    assert_eq!(server.unfinished_uploads(), 1);
    drop(append);
    assert_eq!(server.unfinished_uploads(), 0);
    assert!(server.get("a.bak").is_none());
}

#[test]
fn what_cannot_be_removed_is_told_with_how_to_find_it() {
    let Some(server) = server("leftover") else { return };
    let proxy = Proxy::new(&server, Vec::new());
    let options =
        ObjectOptions { patience: Duration::from_secs(1), ..server.options_by(&proxy.endpoint) };
    let mut target = ObjectTarget::new(&server.address("a.bak"), &options).unwrap();
    let mut append = target.append(NEW).unwrap();
    append.write(&bytes(8, LARGE)).unwrap();
    append.sync().unwrap();
    proxy.cut(vec![Cut::Up(0); 100_000]);
    let failed = append.publish(TRAILER).unwrap_err().to_string();
    assert!(failed.contains("the store cannot be reached"), "{failed}");
    assert!(failed.contains("aws s3api list-multipart-uploads --bucket"), "{failed}");
    assert_eq!(server.unfinished_uploads(), 1);
}

fn fault(result: Result<(), RunError>) -> ObjectFault {
    match result.unwrap_err() {
        RunError::Object { fault, .. } => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn wrong_credentials_and_a_missing_bucket_are_told_at_once() {
    let Some(server) = server("refused") else { return };
    let address = server.address("a.bak");
    let with = |name: &str, value: &str| {
        let mut options = server.options();
        options.variables.push((name.to_owned(), value.to_owned()));
        options
    };
    for (name, code) in [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
    ] {
        let denied = fault(append(&address, &with(name, "wrong"), NEW, b"x"));
        let ObjectFault::Denied { reason } = &denied else { panic!("{denied}") };
        assert!(reason.contains(code), "{reason}");
        let denied = ObjectMedia::open(&address, &with(name, "wrong")).map(drop);
        assert!(matches!(fault(denied), ObjectFault::Denied { .. }));
    }
    let mut reader = server.options();
    reader.variables.extend(server.reader());
    for length in [1, LARGE] {
        let denied = fault(append(&address, &reader, NEW, &bytes(9, length)));
        assert!(matches!(denied, ObjectFault::Denied { .. }), "{denied}");
    }
    let nowhere = "s3://no-such-bucket-of-tdekit/a.bak";
    assert_eq!(fault(append(nowhere, &server.options(), NEW, b"x")), ObjectFault::NoBucket);
    let missing = ObjectMedia::open(&address, &server.options());
    assert!(matches!(missing, Err(RunError::Missing { .. })), "{missing:?}");
}

#[test]
fn a_store_that_is_not_there_is_told_when_patience_ends() {
    let Some(server) = server("nobody") else { return };
    // Bound but not listened on: nothing answers there once it is closed.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let patience = Duration::from_millis(500);
    let options = ObjectOptions { patience, ..server.options_by(&endpoint) };
    let unreachable = fault(append(&server.address("a.bak"), &options, NEW, b"x"));
    assert!(matches!(unreachable, ObjectFault::Unreachable { .. }), "{unreachable}");
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_an_error() {
    let Some(server) = server("replaced") else { return };
    let (address, options) = (server.address("a.bak"), server.options());
    append(&address, &options, NEW, &bytes(10, LARGE)).unwrap();
    let media = ObjectMedia::open(&address, &options).unwrap();
    let mut start = vec![0; 1 << 20];
    media.read_at(0, 0, &mut start).unwrap();
    server.put("a.bak", bytes(11, LARGE + TRAILER.len()));
    let changed = fault(read(&media, 0).map(drop));
    assert_eq!(changed, ObjectFault::Changed);
    let replaced = AppendAt::New { replace: true };
    append(&address, &options, replaced, &bytes(12, LARGE)).unwrap();
    assert!(server.get("a.bak").unwrap() == record(&bytes(12, LARGE)));
}
