//! A media set that is read from a store.

use std::sync::Arc;

use super::ObjectOptions;
use super::access::{Client, Part};
use super::ahead::Ahead;
use crate::{MediaSource, RunError};

/// A media set on an object store that is read: the objects `NAME`, `NAME.0001`, ... as they were
/// when it was opened. An object that is replaced in the meantime is an error, never a mix.
///
/// Credentials and endpoint come from the environment; `docs/object-stores.md` names the
/// variables. Not to be used on a thread of an asynchronous runtime: calls block.
#[derive(Debug)]
pub struct ObjectMedia {
    client: Client,
    parts: Arc<[Part]>,
    ahead: Ahead,
}

impl ObjectMedia {
    /// Opens the media set at an address such as `s3://bucket/name`.
    ///
    /// # Errors
    /// [`RunError::Missing`] if nothing exists there, [`RunError::NoPart`] for a gap between parts,
    /// [`RunError::Object`].
    pub fn open(address: &str, options: &ObjectOptions) -> Result<Self, RunError> {
        let client = Client::new(address, options)?;
        let parts = client.parts()?;
        Self::of(client, parts)
    }

    pub(super) fn of(client: Client, parts: Vec<Part>) -> Result<Self, RunError> {
        if parts.is_empty() {
            return Err(RunError::Missing { path: client.access.address().into() });
        }
        let parts: Arc<[Part]> = parts.into();
        let ahead = Ahead::new(client.clone(), Arc::clone(&parts));
        Ok(Self { client, parts, ahead })
    }

    fn part(&self, part: u32) -> Result<&Part, RunError> {
        let found = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
        found.ok_or_else(|| RunError::NoPart { media: self.name(), part })
    }
}

impl MediaSource for ObjectMedia {
    fn name(&self) -> String {
        self.client.access.address()
    }

    fn parts(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    fn part_len(&self, part: u32) -> Result<u64, RunError> {
        Ok(self.part(part)?.bytes)
    }

    fn read_at(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError> {
        let bytes = self.part(part)?.bytes;
        let end = offset.saturating_add(buf.len() as u64);
        if end > bytes {
            return Err(RunError::ShortRead { media: self.client.access.part_address(part), end });
        }
        let read = self.ahead.read(part, offset, buf);
        read.map_err(|fault| self.client.access.error("read", part, fault))
    }
}
