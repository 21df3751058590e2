//! The media sets below a prefix of names, and the removal of one.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use tdekit_backup_media::{MEDIA_HEADER_LEN, MediaHeader};

use super::ObjectOptions;
use super::access::{Access, Client, HEADS_AT_ONCE, Part};
use super::address::{is_work, part_of};
use crate::found::{Below, Expected, State, decode};
use crate::{ObjectFault, RunError};

/// Finds the media sets whose address begins with `prefix`, which ends with a slash, and the other
/// objects there.
///
/// # Errors
/// [`RunError::Object`].
pub(crate) fn media_below(prefix: &str, options: &ObjectOptions) -> Result<Vec<Below>, RunError> {
    let client = Client::below(prefix, options)?;
    let access = &client.access;
    let found = client.runtime.block_on(async {
        let listed = access.first_tries().make(|| access.list_below()).await;
        let listed = listed.map_err(|fault| access.error("list", 0, fault))?;
        let headers = futures_util::stream::iter(listed)
            .map(|object| async move {
                let key = object.location.clone();
                let head = access.header(&Part::from(object)).await;
                let head = head.map_err(|fault| RunError::Object {
                    action: "read",
                    address: access.address_of(&key),
                    fault,
                })?;
                Ok::<_, RunError>((key, head))
            })
            .buffered(HEADS_AT_ONCE);
        headers.try_collect::<Vec<_>>().await
    })?;
    Ok(media_of(access, found))
}

/// Returns the objects, without the later parts of media sets.
fn media_of(access: &Access, found: Vec<(Path, Vec<u8>)>) -> Vec<Below> {
    let mut media: Vec<(Path, String, Result<MediaHeader, RunError>)> = Vec::new();
    let (mut parts, mut others) = (Vec::new(), Vec::new());
    for (key, head) in found {
        let address = access.address_of(&key);
        match decode(&head, &address) {
            Ok(None) => others.push((address, Ok(None))),
            Ok(Some(header)) if header.part > 0 => parts.push((key, address, header)),
            Ok(Some(header)) => media.push((key, address, Ok(header))),
            Err(error) => media.push((key, address, Err(error))),
        }
    }
    // Later parts belong to the first, which is opened with them.
    let bases: BTreeMap<&str, &Path> = media.iter().map(|(key, ..)| (key.as_ref(), key)).collect();
    parts.retain(|(key, _, header): &(Path, String, MediaHeader)| {
        let base = key.as_ref().rsplit_once('.').and_then(|(base, _)| bases.get(base));
        base.is_none_or(|base| part_of(base, key) != Some(header.part))
    });
    drop(bases);
    let media = media.into_iter().map(|(_, address, header)| (address, header.map(Some)));
    let mut media: Vec<Below> = media.chain(others).collect();
    media.extend(parts.into_iter().map(|(_, address, _)| {
        let error = RunError::NoPart { media: address.clone(), part: 0 };
        (address, Err(error))
    }));
    media
}

/// Returns the state of the media set at an address.
///
/// # Errors
/// [`RunError::Object`].
pub(crate) fn state(
    address: &str,
    expected: &Expected,
    options: &ObjectOptions,
) -> Result<State, RunError> {
    let client = Client::new(address, options)?;
    let found = client.runtime.block_on(client.access.look(expected));
    found.map(|(state, _)| state).map_err(|fault| client.access.error("read", 0, fault))
}

/// Removes the media set at an address: its last part first, since a lock ends later there than for
/// the others, then the first, without which no reader takes the rest for a media set.
///
/// # Errors
/// [`RunError::Object`] for the object that could not be removed, `ChangedMeanwhile`.
pub(crate) fn remove(
    address: &str,
    expected: &Expected,
    options: &ObjectOptions,
) -> Result<(), RunError> {
    let client = Client::new(address, options)?;
    let access = &client.access;
    client.runtime.block_on(async {
        let looked = access.look(expected).await;
        let (state, mut parts) = looked.map_err(|fault| access.error("read", 0, fault))?;
        if matches!(state, State::Grown | State::Foreign) {
            return Err(RunError::ChangedMeanwhile { media: address.to_owned() });
        }
        let last = parts.pop_last();
        for (part, key) in last.into_iter().chain(parts) {
            access.delete_seen(&key).await.map_err(|fault| access.error("remove", part, fault))?;
        }
        Ok(())
    })
}

impl Access {
    /// Lists the objects below the prefix, without those that a writer makes for itself.
    async fn list_below(&self) -> object_store::Result<Vec<ObjectMeta>> {
        let mut found = Vec::new();
        let mut take = |object: ObjectMeta| {
            let is_short = object.size < MEDIA_HEADER_LEN as u64;
            if !is_short && !is_work(&object.location) {
                found.push(object);
            }
        };
        let Some(list) = &self.connection.list else {
            let prefix = Some(&self.key).filter(|key| !key.as_ref().is_empty());
            let mut objects = self.connection.store.list(prefix);
            while let Some(object) = objects.try_next().await? {
                take(object);
            }
            return Ok(found);
        };
        let prefix = match self.key.as_ref() {
            "" => None,
            key => Some(format!("{key}/")),
        };
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = list.list_paginated(prefix.as_deref(), options).await?;
            page.result.objects.into_iter().for_each(&mut take);
            match page.page_token {
                Some(token) => page_token = Some(token),
                None => return Ok(found),
            }
        }
    }

    /// Returns the address of an object in the same bucket.
    fn address_of(&self, key: &Path) -> String {
        let own = self.key.as_ref();
        let address = self.address();
        let bucket = address.trim_end_matches('/');
        let bucket = bucket.strip_suffix(own).unwrap_or(bucket).trim_end_matches('/');
        format!("{bucket}/{key}")
    }

    /// Reads the beginning of an object.
    async fn header(&self, part: &Part) -> Result<Vec<u8>, ObjectFault> {
        self.read(part, 0, MEDIA_HEADER_LEN as u64).await
    }

    /// Compares the objects with what is expected, and returns those that are there.
    async fn look(&self, expected: &Expected) -> Result<(State, BTreeMap<u32, Path>), ObjectFault> {
        let found = self.first_tries().make(|| self.list()).await?;
        let (mut bytes, mut grown) = (0, false);
        for (part, key) in &found {
            let head = || async { self.connection.store.head(key).await };
            let object = match self.tries(0).make(head).await {
                Ok(object) => Part::from(object),
                Err(ObjectFault::NoObject) => continue,
                Err(fault) => return Err(fault),
            };
            bytes += object.bytes;
            let is_ours = object.bytes >= MEDIA_HEADER_LEN as u64 && {
                let header = decode(&self.header(&object).await?, "");
                header.is_ok_and(|header| {
                    header.is_some_and(|header| header.media_id == expected.media_id)
                })
            };
            if !is_ours {
                return Ok((State::Foreign, found));
            }
            grown |= *part >= expected.parts;
        }
        let state = match u32::try_from(found.len()) {
            Ok(0) => State::Gone,
            Ok(count) if count == expected.parts && bytes == expected.bytes => State::Whole,
            Ok(count) if count < expected.parts && !grown => State::Begun,
            _ => State::Grown,
        };
        Ok((state, found))
    }

    /// Deletes an object that no lock keeps, and checks that it is gone: a store may keep what a
    /// lock protects and answer with success.
    async fn delete_seen(&self, key: &Path) -> Result<(), ObjectFault> {
        // On a bucket with versions the deletion would succeed, and only hide it.
        if let Some(until) = self.locked_until(key).await? {
            let reason = format!("a lock of the object keeps it until {until}");
            return Err(ObjectFault::Denied { reason });
        }
        self.delete(key).await?;
        match self.exists(key).await? {
            false => Ok(()),
            true => Err(ObjectFault::Refused {
                reason: "it is still there after it was deleted".to_owned(),
            }),
        }
    }
}
