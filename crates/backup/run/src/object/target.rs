//! A media set on a store that is appended to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::access::{Client, Part};
use super::upload::{Goal, Upload};
use super::{ObjectMedia, ObjectOptions};
use crate::{Append, AppendAt, MediaSource, RunError, Target};

/// A target on an object store. Every append makes a new object.
///
/// Nothing locks a name on an object store: the first to publish a part gets it, and the other
/// fails with [`RunError::Exists`] and leaves nothing behind.
///
/// Credentials and endpoint come from the environment; `docs/object-stores.md` names the
/// variables. Not to be used on a thread of an asynchronous runtime: calls block.
#[derive(Debug)]
pub struct ObjectTarget {
    client: Client,
    /// The parts that existed when the target was opened.
    parts: Option<Vec<Part>>,
    cancel: Option<&'static AtomicBool>,
}

impl ObjectTarget {
    /// Makes a target at an address such as `s3://bucket/name`; no request is made yet.
    ///
    /// # Errors
    /// [`RunError::Object`] for an unusable address or settings.
    pub fn new(address: &str, options: &ObjectOptions) -> Result<Self, RunError> {
        Ok(Self::with(Client::new(address, options)?))
    }

    pub(super) fn with(client: Client) -> Self {
        Self { client, parts: None, cancel: None }
    }
}

impl Target for ObjectTarget {
    fn name(&self) -> String {
        self.client.access.address()
    }

    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError> {
        let parts = self.client.parts()?;
        self.parts = Some(parts.clone());
        if parts.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(ObjectMedia::of(self.client.clone(), parts)?)))
    }

    fn part_per_record(&self) -> bool {
        true
    }

    fn cancel_by(&mut self, cancel: &'static AtomicBool) {
        self.cancel = Some(cancel);
    }

    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError> {
        let parts = match self.parts.take() {
            Some(parts) => parts,
            None => self.client.parts()?,
        };
        let goal = match place {
            AppendAt::New { replace: false } if !parts.is_empty() => {
                return Err(RunError::Exists { path: self.name().into() });
            }
            AppendAt::New { replace } => {
                let replaces = replace && !parts.is_empty();
                let followers = parts.into_iter().skip(1).map(|part| part.key).collect();
                Goal { part: 0, replaces, followers }
            }
            AppendAt::Behind { part, .. } => {
                let next = part.checked_add(1);
                let next = next.filter(|next| parts.len() as u64 == u64::from(*next));
                let next = next.ok_or_else(|| RunError::NoPart { media: self.name(), part })?;
                Goal { part: next, replaces: false, followers: Vec::new() }
            }
        };
        Ok(Box::new(Upload::new(self.client.clone(), goal, self.cancel)))
    }
}
