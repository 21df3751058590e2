//! A part being sent to a store: uploaded in pieces, published by one request.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, MultipartId, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload,
};
use tokio::task::JoinHandle;

use super::ObjectFault;
use super::access::{Access, Client, Tries};
use super::pieces::Pieces;
use crate::{Append, RunError};

/// Maximum time for removing uploaded data.
const ABORT_PATIENCE: Duration = Duration::from_secs(20);
/// A store may take long to assemble an object's pieces, or to copy it.
const LONG_TRY: Duration = Duration::from_mins(30);
/// Maximum delay until a cancelled upload is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// The object that an upload makes.
pub(super) struct Goal {
    /// Number of the part.
    pub(super) part: u32,
    /// True if an object may exist there; it is replaced.
    pub(super) replaces: bool,
    /// Parts of the replaced media set, which are deleted as well.
    pub(super) followers: Vec<Path>,
}

/// Bytes being sent to an object, which exists only after it was published.
pub(super) struct Upload {
    client: Client,
    goal: Goal,
    /// The key of the final object.
    key: Path,
    pieces: Pieces,
    /// The piece being filled.
    filling: Vec<u8>,
    total_bytes: u64,
    begun: Option<Begun>,
    stage: Stage,
    /// When set to true from elsewhere, ends an upload that is not being published.
    cancel: Option<&'static AtomicBool>,
}

/// An upload that the store knows of.
struct Begun {
    /// The key under which it is made.
    key: Path,
    id: Arc<MultipartId>,
    coming: VecDeque<JoinHandle<Result<PartId, ObjectFault>>>,
    done: Vec<PartId>,
    /// True if the pieces were assembled, so that the upload no longer exists.
    completed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Published,
    Failed,
}

impl Upload {
    pub(super) fn new(client: Client, goal: Goal, cancel: Option<&'static AtomicBool>) -> Self {
        let key = client.access.part_key(goal.part);
        let pieces = Pieces::new(&client.access.options);
        let filling = Vec::new();
        let (total_bytes, begun, stage) = (0, None, Stage::Open);
        Self { client, goal, key, pieces, filling, total_bytes, begun, stage, cancel }
    }

    fn fill(&mut self, mut bytes: &[u8]) -> Result<(), ObjectFault> {
        while !bytes.is_empty() {
            let index = self.begun.as_ref().map_or(0, Begun::sent);
            let size = self.pieces.bytes(index).ok_or_else(|| ObjectFault::Refused {
                reason: "a store takes no more than 10,000 pieces".to_owned(),
            })?;
            if self.filling.capacity() == 0 {
                self.filling.try_reserve_exact(size).map_err(|_| ObjectFault::Refused {
                    reason: format!("no memory for a piece of {size} bytes"),
                })?;
            }
            let length = bytes.len().min(size - self.filling.len());
            let (now, later) = bytes.split_at(length);
            self.filling.extend_from_slice(now);
            self.total_bytes += length as u64;
            bytes = later;
            if self.filling.len() == size {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends the filled piece, once fewer pieces than the limit are being sent.
    fn send(&mut self) -> Result<(), ObjectFault> {
        let bytes = std::mem::take(&mut self.filling);
        let at_once = self.pieces.in_flight(bytes.len());
        let access = &self.client.access;
        let begun = match &mut self.begun {
            Some(begun) => begun,
            none => {
                let key = access.uploaded_as(&self.key, self.goal.replaces);
                let store = &access.connection.store;
                let make = || {
                    let attributes = access.attributes();
                    let options = PutMultipartOptions { attributes, ..Default::default() };
                    store.create_multipart_opts(&key, options)
                };
                let create = access.tries(0).make(make);
                let create = unless_cancelled(self.cancel, create);
                let id = Arc::new(self.client.runtime.block_on(create)?);
                let (coming, done) = (VecDeque::new(), Vec::new());
                none.insert(Begun { key, id, coming, done, completed: false })
            }
        };
        let room = unless_cancelled(self.cancel, begun.wait(at_once - 1));
        self.client.runtime.block_on(room)?;
        let index = usize::try_from(begun.sent()).unwrap_or(usize::MAX);
        let (access, key, id) = (Arc::clone(access), begun.key.clone(), Arc::clone(&begun.id));
        let piece = async move {
            let tries = access.tries(bytes.len() as u64);
            let payload = PutPayload::from(bytes);
            let store = &access.connection.store;
            tries.make(|| store.put_part(&key, &id, index, payload.clone())).await
        };
        begun.coming.push_back(self.client.runtime.spawn(piece));
        Ok(())
    }

    fn finish(&mut self, trailer: &[u8]) -> Result<(), ObjectFault> {
        self.fill(trailer)?;
        if self.begun.is_some() && !self.filling.is_empty() {
            self.send()?;
        }
        let runtime = Arc::clone(&self.client.runtime);
        runtime.block_on(async {
            if self.goal.replaces {
                self.make(trailer).await?;
                return self.client.access.check_lock(&self.key).await;
            }
            let access = Arc::clone(&self.client.access);
            let Some(claim) = access.claim(&self.key).await? else {
                return self.make(trailer).await;
            };
            let done = self.make(trailer).await;
            let made = Made { key: &self.key, bytes: self.total_bytes, end: trailer };
            // A set is reported as published only after it was read back.
            let done = match done {
                Ok(()) => access.is_there(&made).await.and_then(|there| match there {
                    true => Ok(()),
                    false => Err(ObjectFault::Exists),
                }),
                refused => refused,
            };
            let done = match done {
                Ok(()) => access.check_lock(&self.key).await,
                refused => refused,
            };
            access.release(&claim).await;
            done
        })
    }

    /// Makes the object.
    async fn make(&mut self, trailer: &[u8]) -> Result<(), ObjectFault> {
        let access = &self.client.access;
        let made = Made { key: &self.key, bytes: self.total_bytes, end: trailer };
        // The store must enforce the condition; this check fails early, and also works on a store
        // that supports no conditions.
        if !self.goal.replaces && access.exists(&self.key).await? {
            return Err(ObjectFault::Exists);
        }
        match &mut self.begun {
            None => {
                let payload = PutPayload::from(std::mem::take(&mut self.filling));
                access.put(&made, payload, self.goal.replaces).await?;
            }
            Some(begun) => {
                begun.wait(0).await?;
                access.complete(&made, begun, self.goal.replaces).await?;
            }
        }
        for follower in self.goal.followers.iter().rev() {
            access.delete(follower).await?;
        }
        Ok(())
    }

    /// Removes the uploaded data, and returns the error to report.
    fn fail(&mut self, action: &'static str, fault: ObjectFault) -> RunError {
        let fault = self.client.access.explained(fault);
        let fault = match self.abandon() {
            Ok(()) => fault,
            Err(_) => {
                let address = self.client.access.part_address(self.goal.part);
                ObjectFault::Leftover { fault: Box::new(fault), hint: hint(&address) }
            }
        };
        self.client.access.error(action, self.goal.part, fault)
    }

    fn abandon(&mut self) -> Result<(), ObjectFault> {
        self.stage = Stage::Failed;
        let Some(begun) = self.begun.take() else { return Ok(()) };
        begun.coming.iter().for_each(JoinHandle::abort);
        let access = &self.client.access;
        let store = &access.connection.store;
        let patience = access.options.patience.min(ABORT_PATIENCE);
        let tries = Tries { patience, try_limit: ABORT_PATIENCE };
        self.client.runtime.block_on(async {
            for piece in begun.coming {
                // Waited for, so that no piece arrives after the upload is gone.
                let _ = piece.await;
            }
            let aborted = match begun.completed {
                true => Ok(()),
                false => tries.make(|| store.abort_multipart(&begun.key, &begun.id)).await,
            };
            if begun.key != self.key {
                let delete = tries.make(|| store.delete(&begun.key)).await;
                if !matches!(delete, Ok(()) | Err(ObjectFault::NoObject)) {
                    return delete;
                }
            }
            match aborted {
                Err(ObjectFault::NoObject) => Ok(()),
                result => result,
            }
        })
    }
}

impl Append for Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        if self.stage != Stage::Open {
            return Err(RunError::Internal("bytes for an upload that has ended"));
        }
        self.fill(bytes).map_err(|fault| self.fail("write", fault))
    }

    /// Sent pieces are then durable. A partial piece is sent with the trailer, before which nothing
    /// is valid.
    fn sync(&mut self) -> Result<(), RunError> {
        let Some(begun) = &mut self.begun else { return Ok(()) };
        let sent = unless_cancelled(self.cancel, begun.wait(0));
        let waited = self.client.runtime.block_on(sent);
        waited.map_err(|fault| self.fail("write", fault))
    }

    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError> {
        if self.stage != Stage::Open {
            return Err(RunError::Internal("an upload is published once"));
        }
        self.finish(trailer).map_err(|fault| self.fail("publish", fault))?;
        self.begun = None;
        self.stage = Stage::Published;
        Ok(())
    }

    fn withdraw(&mut self) -> Result<(), RunError> {
        if self.stage != Stage::Published {
            return Ok(());
        }
        let access = &self.client.access;
        if self.goal.replaces {
            let reason = "what stood there before is gone, so the new one stays".to_owned();
            return Err(access.error("withdraw", self.goal.part, ObjectFault::Refused { reason }));
        }
        let deleted = self.client.runtime.block_on(access.delete(&self.key));
        deleted.map_err(|fault| access.error("withdraw", self.goal.part, fault))?;
        self.stage = Stage::Failed;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.stage == Stage::Open {
            // Nobody is left to report to; docs/object-stores.md describes how to find leftovers.
            let _ = self.abandon();
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Begun {
    fn sent(&self) -> u64 {
        (self.done.len() + self.coming.len()) as u64
    }

    /// Waits until at most `left` pieces are being sent.
    async fn wait(&mut self, left: usize) -> Result<(), ObjectFault> {
        while self.coming.len() > left {
            // One that is waited for stays here until it has ended.
            let Some(piece) = self.coming.front_mut() else { break };
            let ended = piece.await;
            self.coming.pop_front();
            let ended = ended.map_err(|error| ObjectFault::Unreachable {
                reason: format!("the upload of a piece ended: {error}"),
            })?;
            self.done.push(ended?);
        }
        Ok(())
    }
}

/// Waits for requests, or until `cancel` becomes true.
async fn unless_cancelled<T>(
    cancel: Option<&AtomicBool>,
    requests: impl Future<Output = Result<T, ObjectFault>>,
) -> Result<T, ObjectFault> {
    let Some(cancel) = cancel else { return requests.await };
    let cancelled = async {
        while !cancel.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    };
    match select(pin!(requests), pin!(cancelled)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(ObjectFault::Cancelled),
    }
}

/// An object being made, and the data that will identify it.
struct Made<'a> {
    key: &'a Path,
    bytes: u64,
    end: &'a [u8],
}

impl Access {
    /// Returns the key under which an upload is made: its own if completion can be conditional or
    /// need not be; otherwise one beside it, which no reader takes for a part.
    fn uploaded_as(&self, key: &Path, replaces: bool) -> Path {
        if replaces || self.connection.only_new.is_some() {
            return key.clone();
        }
        let random = RandomState::new().hash_one(std::process::id());
        Path::parse(format!("{key}.unfinished-{random:016x}")).unwrap_or_else(|_| key.clone())
    }

    /// Returns the attributes of new objects.
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        if let Some(class) = &self.options.storage.class {
            attributes.insert(Attribute::StorageClass, class.clone().into());
        }
        attributes
    }

    /// Puts a small object with one request.
    async fn put(
        &self,
        made: &Made<'_>,
        payload: PutPayload,
        replaces: bool,
    ) -> Result<(), ObjectFault> {
        let store = &self.connection.store;
        let put = || {
            let mode = if replaces { PutMode::Overwrite } else { PutMode::Create };
            let options = PutOptions { attributes: self.attributes(), ..PutOptions::from(mode) };
            store.put_opts(made.key, payload.clone(), options)
        };
        self.tries(made.bytes).make_once(put, || self.is_there(made)).await
    }

    /// Assembles the object from its pieces.
    async fn complete(
        &self,
        made: &Made<'_>,
        begun: &mut Begun,
        replaces: bool,
    ) -> Result<(), ObjectFault> {
        let store = &self.connection.store;
        if let Some(only_new) = &self.connection.only_new {
            only_new.store(!replaces, Ordering::Release);
        }
        let tries = Tries { try_limit: LONG_TRY, ..self.tries(0) };
        let complete = || store.complete_multipart(&begun.key, &begun.id, begun.done.clone());
        let uploaded = Made { key: &begun.key, ..*made };
        tries.make_once(complete, || self.is_there(&uploaded)).await?;
        begun.completed = true;
        if begun.key == *made.key {
            return Ok(());
        }
        let copy = || store.copy_if_not_exists(&begun.key, made.key);
        tries.make_once(copy, || self.is_there(made)).await?;
        // Azure may still be copying when it answers.
        let there = tries.make(|| async {
            match self.is_there(made).await {
                Ok(true) => Ok(()),
                _ => Err(object_store::Error::Generic {
                    store: "copy",
                    source: "status code: 503: the copy is not there yet".into(),
                }),
            }
        });
        there.await?;
        self.delete(&begun.key).await
    }

    async fn is_there(&self, made: &Made<'_>) -> Result<bool, ObjectFault> {
        self.ends_with(made.key, made.bytes, made.end).await
    }
}

/// Describes how to find the pieces of an upload that was not ended.
fn hint(address: &str) -> String {
    match address.strip_prefix("s3://").and_then(|rest| rest.split_once('/')) {
        Some((bucket, key)) => {
            format!("`aws s3api list-multipart-uploads --bucket {bucket} --prefix {key}` lists it")
        }
        None => format!("look for unfinished uploads of {address}"),
    }
}
