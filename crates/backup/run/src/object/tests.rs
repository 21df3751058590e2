//! Targets and media on a store in memory, which completes uploads without a condition, as Google
//! and Azure do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result as StoreResult,
};

use super::access::Client;
use super::connect::Connection;
use super::{ObjectFault, ObjectMedia, ObjectOptions, ObjectTarget};
use crate::{AppendAt, MediaSource, RunError, Target};

const ADDRESS: &str = "s3://bucket/dir/shop.bak";
const KEY: &str = "dir/shop.bak";
/// Ends each record, as a trailer does.
const TRAILER: &[u8] = b"the trailer of a record";
/// More than two pieces.
const LARGE: usize = 12 << 20;

#[derive(Clone)]
struct Bucket {
    store: Arc<InMemory>,
    client: Client,
}

impl Bucket {
    fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let options = ObjectOptions { piece_bytes: 5 << 20, ..ObjectOptions::default() };
        let connection = Connection {
            store: Arc::clone(&store) as _,
            list: None,
            only_new: None,
            keeps_conditions: true,
            locks: None,
        };
        let client = Client::with(ADDRESS, Path::from(KEY), connection, &options).unwrap();
        Self { store, client }
    }

    fn target(&self) -> ObjectTarget {
        ObjectTarget::with(self.client.clone())
    }

    fn media(&self) -> Result<ObjectMedia, RunError> {
        ObjectMedia::of(self.client.clone(), self.client.parts()?)
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let payload = PutPayload::from(bytes.to_vec());
        self.client.runtime.block_on(self.store.put(&Path::from(key), payload)).unwrap();
    }

    fn keys(&self) -> Vec<String> {
        use futures_util::TryStreamExt;
        let listed = self.store.list(None).map_ok(|object| object.location.to_string());
        let mut keys: Vec<_> =
            self.client.runtime.block_on(listed.try_collect::<Vec<_>>()).unwrap();
        keys.sort();
        keys
    }
}

/// Returns bytes that differ everywhere.
fn bytes(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(length as u64);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

fn append(target: &mut ObjectTarget, place: AppendAt, bytes: &[u8]) -> Result<(), RunError> {
    target.open()?;
    let mut append = target.append(place)?;
    for chunk in bytes.chunks(1_000_001) {
        append.write(chunk)?;
    }
    append.sync()?;
    append.publish(TRAILER)
}

const NEW: AppendAt = AppendAt::New { replace: false };

fn behind(part: u32) -> AppendAt {
    AppendAt::Behind { part, end: 0 }
}

fn read_all(media: &ObjectMedia, part: u32) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(media.part_len(part).unwrap()).unwrap()];
    for (at, chunk) in bytes.chunks_mut(700_001).enumerate() {
        media.read_at(part, at as u64 * 700_001, chunk).unwrap();
    }
    bytes
}

#[test]
fn what_is_written_is_read() {
    for length in [0, 1, 5 << 20, (5 << 20) - TRAILER.len(), (5 << 20) + 1, LARGE] {
        let bucket = Bucket::new();
        let written = bytes(length);
        append(&mut bucket.target(), NEW, &written).unwrap();
        let media = bucket.media().unwrap();
        assert_eq!((media.parts(), media.name().as_str()), (1, ADDRESS));
        let read = read_all(&media, 0);
        assert!(read == [written.as_slice(), TRAILER].concat(), "{length}");
        assert_eq!(bucket.keys(), [KEY], "{length}");
    }
}

#[test]
fn appends_are_parts_and_other_names_are_none() {
    let bucket = Bucket::new();
    for other in
        ["dir/shop.bak.1", "dir/shop.bak2", "dir/shop.bak.0002.old", "dir/shop", "shop.bak"]
    {
        bucket.put(other, b"other");
    }
    append(&mut bucket.target(), NEW, b"first").unwrap();
    append(&mut bucket.target(), behind(0), b"second").unwrap();
    append(&mut bucket.target(), behind(1), &bytes(LARGE)).unwrap();
    let media = bucket.media().unwrap();
    assert_eq!(media.parts(), 3);
    assert_eq!(read_all(&media, 1), [b"second", TRAILER].concat());
    let past = append(&mut bucket.target(), behind(3), b"gap");
    assert!(matches!(past, Err(RunError::NoPart { part: 3, .. })), "{past:?}");
    let again = append(&mut bucket.target(), behind(1), b"again");
    assert!(matches!(again, Err(RunError::NoPart { .. })), "{again:?}");
}

#[test]
fn a_gap_is_named() {
    let bucket = Bucket::new();
    bucket.put("dir/shop.bak.0002", b"x");
    let gap = |bucket: &Bucket| match bucket.media() {
        Err(RunError::NoPart { part, .. }) => Some(part),
        _ => None,
    };
    assert_eq!(gap(&bucket), Some(0));
    bucket.put("dir/shop.bak", b"x");
    assert_eq!(gap(&bucket), Some(1));
    assert!(matches!(bucket.target().open(), Err(RunError::NoPart { part: 1, .. })));
    bucket.put("dir/shop.bak.0001", b"x");
    assert_eq!(gap(&bucket), None);
}

#[test]
fn nothing_is_nothing() {
    let bucket = Bucket::new();
    assert!(bucket.target().open().unwrap().is_none());
    let missing = bucket.media();
    assert!(matches!(&missing, Err(RunError::Missing { path }) if path.as_os_str() == ADDRESS));
}

#[test]
fn of_two_writers_one_is_refused() {
    for length in [10, LARGE] {
        let bucket = Bucket::new();
        append(&mut bucket.target(), NEW, b"first").unwrap();
        let mut targets = [bucket.target(), bucket.target()];
        let [mut one, mut two] = targets.each_mut().map(|target| {
            target.open().unwrap();
            let mut append = target.append(behind(0)).unwrap();
            append.write(&bytes(length)).unwrap();
            append
        });
        two.publish(b"trailer two").unwrap();
        let refused = one.publish(b"trailer one");
        assert!(
            matches!(&refused, Err(RunError::Exists { path }) if path.ends_with("shop.bak.0001")),
            "{refused:?}"
        );
        drop((one, two));
        assert_eq!(bucket.keys(), [KEY, "dir/shop.bak.0001"]);
        assert!(read_all(&bucket.media().unwrap(), 1).ends_with(b"trailer two"));
    }
}

/// A store that ignores every condition, and lets all writers wait for each other between their
/// checks and their writes, as an unlucky moment would.
#[derive(Debug)]
struct Careless {
    inner: InMemory,
    writers: usize,
    /// True if no piece of an upload arrives.
    hangs: bool,
    met: tokio::sync::Barrier,
}

impl std::fmt::Display for Careless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Careless {
    async fn put_opts(
        &self,
        key: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        if !key.as_ref().contains(".claim-") && self.writers > 1 {
            // All writers that get this far arrive before one writes.
            let wait = self.met.wait();
            let _ = tokio::time::timeout(std::time::Duration::from_millis(300), wait).await;
        }
        let options = PutOptions { mode: PutMode::Overwrite, ..options };
        self.inner.put_opts(key, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(key, options).await
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(key, options).await
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[async_trait::async_trait]
impl MultipartStore for Careless {
    async fn create_multipart(&self, key: &Path) -> StoreResult<MultipartId> {
        self.inner.create_multipart(key).await
    }

    async fn put_part(
        &self,
        key: &Path,
        id: &MultipartId,
        index: usize,
        bytes: PutPayload,
    ) -> StoreResult<PartId> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.inner.put_part(key, id, index, bytes).await
    }

    async fn complete_multipart(
        &self,
        key: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> StoreResult<PutResult> {
        self.inner.complete_multipart(key, id, parts).await
    }

    async fn abort_multipart(&self, key: &Path, id: &MultipartId) -> StoreResult<()> {
        self.inner.abort_multipart(key, id).await
    }
}

/// Makes three writers append at once. Returns the end of the resulting data, and those whose
/// append was acknowledged.
fn append_at_once(keeps_conditions: bool) -> (Vec<u8>, Vec<usize>, Vec<Path>) {
    const WRITERS: usize = 3;
    let met = tokio::sync::Barrier::new(WRITERS);
    let store = Arc::new(Careless { inner: InMemory::new(), writers: WRITERS, hangs: false, met });
    let connection = Connection {
        store: Arc::clone(&store) as _,
        list: None,
        only_new: None,
        keeps_conditions,
        locks: None,
    };
    let options = ObjectOptions::default();
    let clients: Vec<_> = (0..WRITERS)
        .map(|_| Client::with(ADDRESS, Path::from(KEY), connection.clone(), &options).unwrap())
        .collect();
    let told = std::thread::scope(|scope| {
        let runs = clients.iter().enumerate().map(|(number, client)| {
            scope.spawn(move || {
                let mut append = ObjectTarget::with(client.clone()).append(NEW).unwrap();
                append.write(b"a record").unwrap();
                append.publish(format!("trailer {number}").as_bytes()).is_ok()
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    let runtime = &clients[0].runtime;
    let there = runtime.block_on(async {
        match store.inner.get(&Path::from(KEY)).await {
            Ok(found) => found.bytes().await.unwrap().to_vec(),
            Err(_) => Vec::new(),
        }
    });
    use futures_util::TryStreamExt;
    let keys = store.inner.list(None).map_ok(|object| object.location);
    let keys = runtime.block_on(keys.try_collect()).unwrap();
    let done = told.iter().enumerate().filter(|(_, done)| **done).map(|(number, _)| number);
    (there, done.collect(), keys)
}

#[test]
fn on_a_store_without_conditions_nobody_is_told_of_a_set_that_is_gone() {
    let (_, all, _) = append_at_once(true);
    assert!(all.len() > 1, "the test's store keeps conditions: {all:?}");
    for _ in 0..20 {
        let (there, done, keys) = append_at_once(false);
        assert!(done.len() <= 1, "{done:?}");
        for number in done {
            assert!(there.ends_with(format!("trailer {number}").as_bytes()));
        }
        assert!(keys.iter().all(|key| key.as_ref() == KEY), "{keys:?}");
    }
}

#[test]
fn a_claim_keeps_others_out_until_it_is_stale() {
    let bucket = Bucket::new();
    let connection = Connection {
        store: Arc::clone(&bucket.store) as _,
        list: None,
        only_new: None,
        keeps_conditions: false,
        locks: None,
    };
    let options = ObjectOptions::default();
    let client = Client::with(ADDRESS, Path::from(KEY), connection, &options).unwrap();
    bucket.put("dir/shop.bak.claim-0123456789abcdef", b"x");
    bucket.put("dir/shop.bak.0001.claim-0123456789abcdef", b"x");
    let refused = append(&mut ObjectTarget::with(client.clone()), NEW, b"first");
    let claimed = matches!(refused, Err(RunError::Object { fault: ObjectFault::Claimed, .. }));
    assert!(claimed, "{refused:?}");
    let claim = Path::from("dir/shop.bak.claim-0123456789abcdef");
    bucket.client.runtime.block_on(bucket.store.delete(&claim)).unwrap();
    append(&mut ObjectTarget::with(client), NEW, b"first").unwrap();
    assert_eq!(bucket.keys(), [KEY, "dir/shop.bak.0001.claim-0123456789abcdef"]);
}

/// Who makes sure that it is the only one of its name takes over what it left when it was killed.
#[test]
fn a_claimant_takes_its_own_claims_over_and_no_others() {
    for (left, taken) in [("cafe-0123", true), ("beef-0123", false), ("cafe", false)] {
        let bucket = Bucket::new();
        let connection = Connection {
            store: Arc::clone(&bucket.store) as _,
            list: None,
            only_new: None,
            keeps_conditions: false,
            locks: None,
        };
        let claimant = Some("cafe".to_owned());
        let options = ObjectOptions { claimant, ..ObjectOptions::default() };
        let client = Client::with(ADDRESS, Path::from(KEY), connection, &options).unwrap();
        let left = format!("dir/shop.bak.claim-{left}");
        bucket.put(&left, b"x");
        let done = append(&mut ObjectTarget::with(client), NEW, b"first");
        assert_eq!(done.is_ok(), taken, "{left}: {done:?}");
        let keys = bucket.keys();
        assert_eq!(keys, if taken { vec![KEY.to_owned()] } else { vec![left] });
    }
}

/// Whether it waits for room for the next piece, or for all of them.
#[test]
fn an_upload_that_waits_for_a_store_is_cancelled() {
    static CANCEL: AtomicBool = AtomicBool::new(false);
    for pieces in [2, 20] {
        CANCEL.store(false, Ordering::Relaxed);
        let met = tokio::sync::Barrier::new(1);
        let store = Arc::new(Careless { inner: InMemory::new(), writers: 1, hangs: true, met });
        let connection = Connection {
            store: Arc::clone(&store) as _,
            list: None,
            only_new: None,
            keeps_conditions: true,
            locks: None,
        };
        let options = ObjectOptions { piece_bytes: 5 << 20, ..ObjectOptions::default() };
        let client = Client::with(ADDRESS, Path::from(KEY), connection, &options).unwrap();
        let (end, ended) = std::sync::mpsc::channel();
        let upload = std::thread::spawn(move || {
            let mut target = ObjectTarget::with(client);
            target.cancel_by(&CANCEL);
            let mut append = target.append(NEW).unwrap();
            let written = (0..pieces).try_for_each(|_| append.write(&bytes(5 << 20)));
            end.send(written.and_then(|()| append.sync())).unwrap();
        });
        std::thread::sleep(Duration::from_millis(500));
        assert!(!upload.is_finished(), "{pieces}: nothing hung");
        CANCEL.store(true, Ordering::Relaxed);
        let ended = ended.recv_timeout(Duration::from_secs(10)).expect("it goes on");
        assert!(matches!(ended, Err(RunError::Cancelled)), "{pieces}: {ended:?}");
    }
}

#[test]
fn what_is_not_published_leaves_nothing() {
    let bucket = Bucket::new();
    let mut target = bucket.target();
    let mut append = target.append(NEW).unwrap();
    append.write(&bytes(LARGE)).unwrap();
    append.sync().unwrap();
    drop(append);
    assert_eq!(bucket.keys(), [""; 0]);
}

#[test]
fn replacing_takes_the_old_parts_away() {
    let bucket = Bucket::new();
    append(&mut bucket.target(), NEW, b"first").unwrap();
    append(&mut bucket.target(), behind(0), b"second").unwrap();
    let exists = append(&mut bucket.target(), NEW, b"other");
    assert!(matches!(exists, Err(RunError::Exists { .. })), "{exists:?}");
    let mut target = bucket.target();
    let mut append = target.append(AppendAt::New { replace: true }).unwrap();
    append.write(&bytes(LARGE)).unwrap();
    assert_eq!(bucket.keys(), [KEY, "dir/shop.bak.0001"]);
    append.publish(TRAILER).unwrap();
    assert_eq!(bucket.keys(), [KEY]);
    // The replaced file cannot be restored, so the new one stays.
    let kept = append.withdraw();
    assert!(matches!(kept, Err(RunError::Object { fault: ObjectFault::Refused { .. }, .. })));
    assert_eq!(bucket.keys(), [KEY]);
}

#[test]
fn what_was_published_can_be_withdrawn() {
    let bucket = Bucket::new();
    for replace in [false, true] {
        let mut target = bucket.target();
        let mut append = target.append(AppendAt::New { replace }).unwrap();
        append.write(b"first").unwrap();
        append.publish(TRAILER).unwrap();
        assert_eq!(bucket.keys(), [KEY]);
        append.withdraw().unwrap();
        assert_eq!(bucket.keys(), [""; 0]);
        assert!(append.publish(TRAILER).is_err() && append.write(b"more").is_err());
    }
}

#[test]
fn an_object_that_is_exchanged_is_not_mixed() {
    let bucket = Bucket::new();
    append(&mut bucket.target(), NEW, &bytes(LARGE)).unwrap();
    let media = bucket.media().unwrap();
    let mut first = vec![0; 1 << 20];
    media.read_at(0, 0, &mut first).unwrap();
    bucket.put(KEY, &bytes(LARGE + TRAILER.len()));
    let changed = media.read_at(0, 8 << 20, &mut first);
    assert!(
        matches!(changed, Err(RunError::Object { fault: ObjectFault::Changed, .. })),
        "{changed:?}"
    );
}

#[test]
fn reading_past_the_end_is_an_error() {
    let bucket = Bucket::new();
    append(&mut bucket.target(), NEW, b"first").unwrap();
    let media = bucket.media().unwrap();
    let bytes = media.part_len(0).unwrap();
    let mut buf = [0; 2];
    media.read_at(0, bytes - 2, &mut buf).unwrap();
    for offset in [bytes - 1, bytes, u64::MAX] {
        let short = media.read_at(0, offset, &mut buf);
        assert!(matches!(short, Err(RunError::ShortRead { .. })), "{short:?}");
    }
    assert!(matches!(media.read_at(1, 0, &mut buf), Err(RunError::NoPart { part: 1, .. })));
    assert!(matches!(media.part_len(7), Err(RunError::NoPart { part: 7, .. })));
}

#[test]
fn ranges_are_right_in_any_order_from_several_threads() {
    let bucket = Bucket::new();
    let first = bytes(LARGE);
    append(&mut bucket.target(), NEW, &first).unwrap();
    let second = bytes(LARGE / 2);
    append(&mut bucket.target(), behind(0), &second).unwrap();
    let media = bucket.media().unwrap();
    let parts = [first, second];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (media, parts) = (&media, &parts);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut at = 0;
                for _ in 0..200 {
                    let number = random.usize(..2);
                    let part = &parts[number];
                    // Half of the reads continue where the last one ended.
                    let begin = if random.bool() { at } else { random.usize(..part.len()) };
                    let begin = begin.min(part.len());
                    let end = (begin + random.usize(..3 << 20)).min(part.len());
                    let mut buf = vec![0; end - begin];
                    media.read_at(u32::try_from(number).unwrap(), begin as u64, &mut buf).unwrap();
                    assert!(buf == part[begin..end], "{number} {begin}..{end}");
                    at = end;
                }
            });
        }
    });
}

#[test]
fn options_do_not_show_secrets() {
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let secret = named("AWS_SECRET_ACCESS_KEY", "very secret");
    let variables = vec![named("AWS_ACCESS_KEY_ID", "known"), secret];
    let options = ObjectOptions { variables, ..ObjectOptions::default() };
    assert!(!format!("{options:?}").contains("secret"));
    let target = ObjectTarget::new("s3://bucket/name", &options).unwrap();
    assert!(!format!("{target:?}").contains("very"));
}

#[test]
fn settings_that_cannot_be_used_are_told() {
    let with = |name: &str, value: &str| {
        let variables = vec![(name.to_owned(), value.to_owned())];
        let options = ObjectOptions { variables, ..ObjectOptions::default() };
        ObjectTarget::new("s3://bucket/name", &options).unwrap_err().to_string()
    };
    let plain = with("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    assert!(plain.contains("AWS_ALLOW_HTTP=true"), "{plain}");
    let unknown = with("AWS_NO_SUCH_THING", "1");
    assert!(unknown.contains("AWS_NO_SUCH_THING"), "{unknown}");
    let address = ObjectTarget::new("s3://bucket", &ObjectOptions::default()).unwrap_err();
    assert!(address.to_string().contains("s3://bucket/name"), "{address}");
}
