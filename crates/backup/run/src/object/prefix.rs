//! The objects under a prefix, such as those of an archive: each a media set of one part.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::path::Path;

use super::access::{Access, Client, Part};
use super::{ObjectFault, ObjectMedia, ObjectOptions, ObjectTarget};
use crate::target::Objects;
use crate::{MediaSource, RunError, Storage, Target};

/// Time for which a request is retried: who waits for it tries again anyway.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The objects whose names begin with `address` and a slash.
pub(crate) struct Prefix {
    client: Client,
}

impl Prefix {
    /// Takes an address without a slash at its end, and what its writer's claims are recognized by.
    ///
    /// # Errors
    /// [`RunError::Object`] for an unusable address or settings.
    pub(crate) fn new(
        address: &str,
        claimant: Option<&str>,
        storage: &Storage,
    ) -> Result<Self, RunError> {
        let (claimant, storage) = (claimant.map(str::to_owned), storage.clone());
        let options =
            ObjectOptions { patience: PATIENCE, claimant, storage, ..ObjectOptions::default() };
        Ok(Self { client: Client::new(address, &options)? })
    }

    /// Returns a client of one object, with the same connection and threads.
    fn of(&self, name: &str) -> Result<Client, RunError> {
        let access = &self.client.access;
        let address = self.shown(name);
        let key = Path::parse(format!("{}/{name}", access.key)).map_err(|error| {
            let fault = ObjectFault::Configuration { reason: error.to_string() };
            RunError::Object { action: "use", address: address.clone(), fault }
        })?;
        let (connection, options) = (access.connection.clone(), access.options.clone());
        let access = Arc::new(Access::new(address, key, connection, options));
        Ok(Client { access, runtime: Arc::clone(&self.client.runtime) })
    }

    fn part(client: &Client, bytes: u64) -> Part {
        Part { key: client.access.key.clone(), bytes, etag: None }
    }
}

impl Objects for Prefix {
    fn list(&self) -> Result<Vec<(String, u64)>, RunError> {
        let access = &self.client.access;
        let store = &access.connection.store;
        let list = || async {
            let objects = store.list(Some(&access.key));
            objects.try_collect::<Vec<_>>().await
        };
        let found = self.client.runtime.block_on(access.tries(0).make(list));
        let found = found.map_err(|fault| access.error("list", 0, fault))?;
        let beginning = format!("{}/", access.key);
        let named = found.into_iter().filter_map(|object| {
            let name = object.location.as_ref().strip_prefix(&beginning)?;
            Some((name.to_owned(), object.size))
        });
        Ok(named.collect())
    }

    fn fetch(&self, name: &str, bytes: u64) -> Result<Vec<u8>, RunError> {
        let client = self.of(name)?;
        let part = Self::part(&client, bytes);
        let read = client.runtime.block_on(client.access.read(&part, 0, bytes));
        read.map_err(|fault| client.access.error("read", 0, fault))
    }

    fn source(&self, name: &str, bytes: u64) -> Result<Arc<dyn MediaSource>, RunError> {
        let client = self.of(name)?;
        let part = Self::part(&client, bytes);
        Ok(Arc::new(ObjectMedia::of(client, vec![part])?))
    }

    fn now(&self, name: &str) -> Result<Arc<dyn MediaSource>, RunError> {
        let client = self.of(name)?;
        let parts = client.parts()?;
        Ok(Arc::new(ObjectMedia::of(client, parts)?))
    }

    fn target(&self, name: &str) -> Result<Box<dyn Target>, RunError> {
        Ok(Box::new(ObjectTarget::with(self.of(name)?)))
    }

    fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.client.access.address())
    }
}
