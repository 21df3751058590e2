//! The requests on a media set's objects, each retried while that may help.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use tokio::runtime::Runtime;

use super::address::{Address, part_key, part_of};
use super::connect::{Connection, connect};
use super::{ObjectFault, ObjectOptions};
use crate::RunError;

/// First and maximum wait between tries.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Time for which the very first request is retried.
const FIRST_PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for one try of a request that transfers little.
const SHORT_TRY: Duration = Duration::from_secs(60);
/// Slowest assumed line: it determines the additional time for a request that transfers much.
const SLOWEST_BYTES_PER_S: u64 = 64 << 10;
/// Number of concurrent requests for object metadata.
pub(super) const HEADS_AT_ONCE: usize = 8;

/// The objects of one media set.
pub(super) struct Access {
    address: String,
    pub(super) key: Path,
    pub(super) connection: Connection,
    pub(super) options: ObjectOptions,
}

/// Access from outside the threads that make the requests. Those use only the [`Access`]: the
/// runtime must not end on a thread of its own.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) access: Arc<Access>,
    pub(super) runtime: Arc<Runtime>,
}

/// A part as it exists on the store.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) key: Path,
    pub(super) bytes: u64,
    pub(super) etag: Option<String>,
}

impl Client {
    pub(super) fn new(address: &str, options: &ObjectOptions) -> Result<Self, RunError> {
        let fault = |fault| RunError::Object { action: "use", address: address.to_owned(), fault };
        let parsed = Address::parse(address).map_err(fault)?;
        let connection = connect(&parsed, options).map_err(fault)?;
        Self::with(address, parsed.key, connection, options)
    }

    /// As [`Self::new`], for all objects whose address begins with a prefix.
    pub(super) fn below(prefix: &str, options: &ObjectOptions) -> Result<Self, RunError> {
        let fault = |fault| RunError::Object { action: "use", address: prefix.to_owned(), fault };
        let parsed = Address::parse_prefix(prefix).map_err(fault)?;
        let connection = connect(&parsed, options).map_err(fault)?;
        Self::with(prefix, parsed.key, connection, options)
    }

    pub(super) fn with(
        address: &str,
        key: Path,
        connection: Connection,
        options: &ObjectOptions,
    ) -> Result<Self, RunError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tdekit-object")
            .enable_all()
            .build()
            .map_err(RunError::io("start threads for", address.as_ref()))?;
        let address = address.to_owned();
        let access = Access { address, key, connection, options: options.clone() };
        Ok(Self { access: Arc::new(access), runtime: Arc::new(runtime) })
    }

    /// Returns the media set's parts, without a gap; none if nothing exists.
    pub(super) fn parts(&self) -> Result<Vec<Part>, RunError> {
        self.runtime.block_on(self.access.parts())
    }
}

impl Access {
    pub(super) fn new(
        address: String,
        key: Path,
        connection: Connection,
        options: ObjectOptions,
    ) -> Self {
        Self { address, key, connection, options }
    }

    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    /// Returns the address of a part, for messages.
    pub(super) fn part_address(&self, part: u32) -> String {
        match part {
            0 => self.address.clone(),
            _ => format!("{}.{part:04}", self.address),
        }
    }

    pub(super) fn error(&self, action: &'static str, part: u32, fault: ObjectFault) -> RunError {
        let address = self.part_address(part);
        match fault {
            ObjectFault::Exists => RunError::Exists { path: address.into() },
            ObjectFault::Cancelled => RunError::Cancelled,
            fault => RunError::Object { action, address, fault },
        }
    }

    async fn parts(&self) -> Result<Vec<Part>, RunError> {
        let found = self.first_tries().make(|| self.list()).await;
        let found = found.map_err(|fault| self.error("list", 0, fault))?;
        if let Some((part, _)) = (0..).zip(found.keys()).find(|(due, part)| due != *part) {
            return Err(RunError::NoPart { media: self.address(), part });
        }
        let parts = futures_util::stream::iter(found)
            .map(|(part, key)| async move {
                let head = || async { self.connection.store.head(&key).await };
                let found = self.tries(0).make(head).await;
                found.map(Part::from).map_err(|fault| self.error("read", part, fault))
            })
            .buffered(HEADS_AT_ONCE);
        parts.try_collect().await
    }

    pub(super) async fn list(&self) -> object_store::Result<BTreeMap<u32, Path>> {
        let mut found = BTreeMap::new();
        let mut take = |object: ObjectMeta| {
            if let Some(part) = part_of(&self.key, &object.location) {
                found.insert(part, object.location);
            }
        };
        let Some(list) = &self.connection.list else {
            let parents: Vec<_> = self.key.parts().collect();
            let parent: Path = parents[..parents.len().saturating_sub(1)].iter().cloned().collect();
            let mut objects = self.connection.store.list(Some(&parent));
            while let Some(object) = objects.try_next().await? {
                take(object);
            }
            return Ok(found);
        };
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = list.list_paginated(Some(self.key.as_ref()), options).await?;
            page.result.objects.into_iter().for_each(&mut take);
            match page.page_token {
                Some(token) => page_token = Some(token),
                None => return Ok(found),
            }
        }
    }

    /// Reads bytes of a part as it was when it was listed.
    pub(super) async fn read(
        &self,
        part: &Part,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, ObjectFault> {
        let get = || async {
            let range = Some(GetRange::Bounded(offset..offset.saturating_add(bytes)));
            let options =
                GetOptions { range, if_match: part.etag.clone(), ..GetOptions::default() };
            self.connection.store.get_opts(&part.key, options).await?.bytes().await
        };
        let found = self.tries(bytes).make(get).await?;
        // A store without ETags may have returned another object's bytes, or fewer.
        if found.len() as u64 == bytes { Ok(found.into()) } else { Err(ObjectFault::Changed) }
    }

    /// Returns true if an object has this length and ends with these bytes. No two records have the
    /// same trailer, so it identifies a record.
    pub(super) async fn ends_with(
        &self,
        key: &Path,
        bytes: u64,
        end: &[u8],
    ) -> Result<bool, ObjectFault> {
        let head = || async { self.connection.store.head(key).await };
        let part = match self.tries(0).make(head).await {
            Ok(found) => Part::from(found),
            Err(ObjectFault::NoObject) => return Ok(false),
            Err(fault) => return Err(fault),
        };
        let wanted = end.len() as u64;
        if part.bytes != bytes || bytes < wanted {
            return Ok(false);
        }
        Ok(self.read(&part, bytes - wanted, wanted).await? == end)
    }

    pub(super) async fn exists(&self, key: &Path) -> Result<bool, ObjectFault> {
        let head = || async { self.connection.store.head(key).await };
        match self.tries(0).make(head).await {
            Ok(_) => Ok(true),
            Err(ObjectFault::NoObject) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn delete(&self, key: &Path) -> Result<(), ObjectFault> {
        let delete = || async { self.connection.store.delete(key).await };
        match self.tries(0).make(delete).await {
            // An object that is gone counts as deleted; S3 itself reports that as success.
            Err(ObjectFault::NoObject) => Ok(()),
            result => result,
        }
    }

    /// Returns the retry limits for the very first request.
    pub(super) fn first_tries(&self) -> Tries {
        Tries { patience: self.options.patience.min(FIRST_PATIENCE), try_limit: SHORT_TRY }
    }

    /// Returns the retry limits for a request that transfers this many bytes.
    pub(super) fn tries(&self, bytes: u64) -> Tries {
        let more = Duration::from_secs(bytes / SLOWEST_BYTES_PER_S);
        Tries { patience: self.options.patience, try_limit: SHORT_TRY + more }
    }

    /// Returns the key of a part.
    pub(super) fn part_key(&self, part: u32) -> Path {
        part_key(&self.key, part)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("address", &self.address).finish_non_exhaustive()
    }
}

impl From<ObjectMeta> for Part {
    fn from(meta: ObjectMeta) -> Self {
        Self { key: meta.location, bytes: meta.size, etag: meta.e_tag }
    }
}

/// Time for which a request is retried, and time limit of each try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    pub(super) patience: Duration,
    pub(super) try_limit: Duration,
}

impl Tries {
    /// Makes a request until it succeeds, fails permanently, or its time is over.
    pub(super) async fn make<T, F>(self, request: impl Fn() -> F) -> Result<T, ObjectFault>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let begun = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            let fault = match self.once(request()).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            if !fault.is_transient() || begun.elapsed() + wait > self.patience {
                return Err(fault);
            }
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// As [`Self::make`], for a request that must be carried out only once: after each failure,
    /// checks whether it was carried out although its answer was lost.
    pub(super) async fn make_once<T, F, G>(
        self,
        request: impl Fn() -> F,
        was_done: impl Fn() -> G,
    ) -> Result<(), ObjectFault>
    where
        F: Future<Output = object_store::Result<T>>,
        G: Future<Output = Result<bool, ObjectFault>>,
    {
        let begun = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            let Err(fault) = self.once(request()).await else { return Ok(()) };
            let unclear =
                matches!(fault, ObjectFault::Exists | ObjectFault::Changed | ObjectFault::NoObject);
            if (unclear || fault.is_transient()) && was_done().await? {
                return Ok(());
            }
            match fault {
                ObjectFault::Changed => return Err(ObjectFault::Exists),
                fault if !fault.is_transient() || begun.elapsed() + wait > self.patience => {
                    return Err(fault);
                }
                _ => {}
            }
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn once<T>(
        self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectFault> {
        match tokio::time::timeout(self.try_limit, request).await {
            Ok(result) => result.map_err(|error| ObjectFault::of(&error)),
            Err(_) => Err(ObjectFault::TimedOut { after_s: self.try_limit.as_secs() }),
        }
    }
}

/// Returns half of `wait` to all of it, so that many requests that were refused together do not
/// return together.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    wait / 2 + wait * u32::try_from(random).unwrap_or(0) / 1024
}
