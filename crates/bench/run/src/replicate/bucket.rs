//! Archives in a bucket of an S3 server, by the client that the command has, too.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::{Builder, Runtime};

use super::archives::{Objects, is_finished, is_new};
use crate::error::{BenchError, Result};
use crate::plan::BucketAddress;

/// A server other than Amazon's, the first one that is set.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const VIRTUAL: &str = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST";

/// A bucket, and the place in it that is this run's.
pub(super) struct Store {
    client: AmazonS3,
    runtime: Runtime,
    bucket: String,
    /// Without a slash at its end.
    place: String,
    endpoint: Option<String>,
    /// What Litestream does not take from the environment: `?endpoint=...`, or nothing.
    query: String,
}

/// The objects of one archive. Dropping it removes them.
pub(super) struct Prefix {
    store: Arc<Store>,
    name: String,
}

impl Store {
    /// Makes a client with these variables of an environment, and lists the run's place.
    ///
    /// # Errors
    /// `Store` where the variables do not fit, or the server refuses.
    pub(super) fn open(
        address: &BucketAddress,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self> {
        let variables: Vec<_> = variables
            .filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty())
            .collect();
        let of = |name: &str| variables.iter().find(|(own, _)| own == name).map(|(_, v)| v.clone());
        let mut builder = AmazonS3Builder::new();
        for (name, value) in &variables {
            // Most variables of that beginning are other programs'.
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        let shown = format!("s3://{}", address.bucket);
        let client = builder.with_bucket_name(&address.bucket).build().map_err(refusal(&shown))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(BenchError::start("a thread for requests"))?;
        let endpoint = ENDPOINTS.iter().find_map(|name| of(name));
        let region = REGIONS.iter().find_map(|name| of(name));
        let own = format!("tdekit-bench-{:016x}", fastrand::u64(..));
        let place = match address.prefix.as_str() {
            "" => own,
            prefix => format!("{prefix}/{own}"),
        };
        let query = query(endpoint.as_deref(), region.as_deref(), of(VIRTUAL).as_deref());
        let bucket = address.bucket.clone();
        let store = Self { client, runtime, bucket, place, endpoint, query };
        // A wrong key or bucket shows before anything is made.
        store.list(&store.place, None)?;
        Ok(store)
    }

    pub(super) fn prefix(this: &Arc<Self>, trial: &str) -> Prefix {
        Prefix { store: Arc::clone(this), name: format!("{}/{trial}", this.place) }
    }

    /// Returns the bucket and its server for readers.
    pub(super) fn shown(&self) -> String {
        let server = self.endpoint.as_deref().unwrap_or("Amazon S3");
        format!("the bucket {} of {server}", self.bucket)
    }

    /// Returns the objects below a prefix, behind the name `after`.
    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ObjectMeta>> {
        let path = Path::from(prefix);
        let found = match after {
            Some(after) => self.client.list_with_offset(Some(&path), &Path::from(after)),
            None => self.client.list(Some(&path)),
        };
        let found = self.runtime.block_on(found.try_collect());
        found.map_err(refusal(&format!("s3://{}/{prefix}", self.bucket)))
    }

    fn remove(&self, prefix: &str) -> Result<()> {
        let names = self.list(prefix, None)?.into_iter().map(|object| Ok(object.location));
        let removed = self.client.delete_stream(stream::iter(names.collect::<Vec<_>>()).boxed());
        let removed: Result<Vec<_>, _> = self.runtime.block_on(removed.try_collect());
        removed.map(drop).map_err(refusal(&format!("s3://{}/{prefix}", self.bucket)))
    }
}

impl Prefix {
    pub(super) fn address(&self) -> String {
        format!("s3://{}/{}", self.store.bucket, self.name)
    }

    pub(super) fn url(&self) -> String {
        format!("{}{}", self.address(), self.store.query)
    }

    pub(super) fn objects(&self) -> Result<Objects> {
        let beginning = format!("{}/", self.name);
        let named = self.store.list(&self.name, None)?.into_iter().filter_map(|object| {
            let name = object.location.as_ref().strip_prefix(&beginning)?;
            is_finished(name).then(|| (name.to_owned(), object.size))
        });
        Ok(named.collect())
    }

    /// Returns true if an object with new transactions is there that is not in `known`. Only names
    /// behind the last known one are asked for: both followers count upwards.
    pub(super) fn has_new(&self, known: &Objects) -> Result<bool> {
        let last = known.keys().rfind(|name| is_new(name));
        let folder = match last.and_then(|name| name.rsplit_once('/')) {
            Some((folder, _)) => format!("{}/{folder}", self.name),
            None => self.name.clone(),
        };
        let after = last.map(|name| format!("{}/{name}", self.name));
        let found = self.store.list(&folder, after.as_deref())?;
        Ok(found.iter().any(|object| {
            let name = object.location.as_ref();
            is_finished(name) && is_new(name)
        }))
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if let Err(error) = self.store.remove(&self.name) {
            eprintln!("error: objects of the run stay in the archive: {error}");
        }
    }
}

fn query(endpoint: Option<&str>, region: Option<&str>, virtual_hosted: Option<&str>) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut words: Vec<String> = Vec::new();
    words.extend(endpoint.map(|it| format!("endpoint={}", encoded(it))));
    words.extend(region.map(|it| format!("region={}", encoded(it))));
    // With an endpoint, Litestream has the bucket in the path unless it is asked not to.
    let outside = virtual_hosted.is_some_and(|it| it.eq_ignore_ascii_case("true"));
    words.extend(outside.then(|| "forcePathStyle=false".to_owned()));
    if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
}

fn refusal(address: &str) -> impl FnOnce(object_store::Error) -> BenchError {
    let address = address.to_owned();
    move |error| BenchError::Store { doing: "cannot use", address, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;

    #[test]
    fn litestream_gets_the_server_in_the_address() {
        assert_eq!(query(None, None, None), "");
        let found = query(Some("http://127.0.0.1:8333"), Some("us-east-1"), None);
        assert_eq!(found, "?endpoint=http%3A%2F%2F127%2E0%2E0%2E1%3A8333&region=us%2Deast%2D1");
        assert_eq!(query(None, None, Some("true")), "?forcePathStyle=false");
    }

    /// Returns the server's bucket; `None` if none was started, which is a failure in CI.
    fn store(secret: Option<&str>) -> Option<Result<Store>> {
        let variable = |name: &str| std::env::var(format!("TDEKIT_TEST_S3_{name}"));
        let Ok(endpoint) = variable("ENDPOINT") else {
            let hint = "no S3 server: run the tests by `make test` or `cargo xtask s3 -- ...`";
            assert!(std::env::var_os("CI").is_none(), "{hint}");
            eprintln!("passed over: {hint}");
            return None;
        };
        let secret = secret.map_or_else(|| variable("SECRET").unwrap(), str::to_owned);
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", variable("KEY_ID").unwrap()),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_PAGER", "another program's".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let bucket = variable("BUCKET").unwrap();
        let address = BucketAddress { bucket, prefix: "bench/units".to_owned() };
        Some(Store::open(&address, variables.into_iter()))
    }

    #[test]
    fn objects_in_a_bucket_are_found_and_removed() {
        let Some(store) = store(None) else { return };
        let store = Arc::new(store.unwrap());
        let put = |archive: &Prefix, name: &str| {
            let path = Path::from(format!("{}/{name}", archive.name));
            let payload = PutPayload::from_static(b"1234567");
            store.runtime.block_on(store.client.put(&path, payload)).unwrap();
        };
        for names in [
            ["0000000000000009.tdekit", "000000000000000a.tdekit", "000000000000000b.tdekit"],
            [
                "0000/0000000000000001-0000000000000001.ltx",
                "0000/0000000000000002-0000000000000002.ltx",
                "0000/0000000000000003-0000000000000003.ltx",
            ],
        ] {
            let archive = Store::prefix(&store, "trial");
            let other = Store::prefix(&store, "trial-2");
            assert!(archive.url().starts_with(&archive.address()) && archive.url().contains('?'));
            put(&other, names[2]);
            assert!(!archive.has_new(&Objects::new()).unwrap());
            put(&archive, names[0]);
            assert!(archive.has_new(&Objects::new()).unwrap());
            put(&archive, names[1]);
            put(&archive, "000000000000000c.tdekit.claim-1");
            put(&archive, "0009/0000000000000001-0000000000000002.ltx");
            let known = archive.objects().unwrap();
            let compacted = "0009/0000000000000001-0000000000000002.ltx";
            let wanted = [names[0], names[1], compacted].map(|name| (name.to_owned(), 7));
            assert_eq!(known, wanted.into());
            assert!(!archive.has_new(&known).unwrap());
            put(&archive, "0009/0000000000000001-0000000000000003.ltx");
            assert!(!archive.has_new(&known).unwrap(), "a compaction");
            put(&archive, names[2]);
            assert!(archive.has_new(&known).unwrap());
            let name = archive.name.clone();
            drop(archive);
            assert_eq!(store.list(&name, None).unwrap(), []);
            assert_eq!(other.objects().unwrap().len(), 1, "another archive's");
        }
    }

    #[test]
    fn a_server_that_refuses_is_named_before_anything_is_made() {
        let Some(refused) = store(Some("wrong")) else { return };
        let error = refused.err().unwrap();
        assert!(matches!(&error, BenchError::Store { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("bench/units") && !said.contains("wrong"), "{said}");
        assert!(error.hint().unwrap().contains("AWS_ACCESS_KEY_ID"));
    }
}
