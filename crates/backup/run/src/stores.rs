//! Media sets at addresses on an object store, in a build with the feature `object-stores`.

use std::sync::Arc;

use crate::found::{Below, Expected, State};
#[cfg(feature = "object-stores")]
use crate::object::{PATIENCE, Prefix};
use crate::target::Objects;
use crate::{MediaSource, RunError, Storage, Target};
#[cfg(feature = "object-stores")]
use crate::{ObjectMedia, ObjectOptions, ObjectTarget, is_object_address};

/// Returns the sink that writes to `address`; `expected_bytes` is the expected maximum, 0 if
/// unknown.
///
/// # Errors
/// `Option` for an address of an unknown store, `Object` for one without credentials.
#[cfg(feature = "object-stores")]
pub(crate) fn target(
    address: &str,
    expected_bytes: u64,
    storage: &Storage,
) -> Result<Box<dyn Target>, RunError> {
    known(address)?;
    let storage = storage.clone();
    let options = ObjectOptions { expected_bytes, storage, ..ObjectOptions::default() };
    Ok(Box::new(ObjectTarget::new(address, &options)?))
}

/// Returns the source that reads from `address`.
///
/// # Errors
/// As [`target`]; those of the store.
#[cfg(feature = "object-stores")]
pub(crate) fn source(address: &str) -> Result<Arc<dyn MediaSource>, RunError> {
    known(address)?;
    Ok(Arc::new(ObjectMedia::open(address, &ObjectOptions::default())?))
}

/// As [`source`]; a request is made again no longer than one of an archive.
///
/// # Errors
/// As [`source`].
#[cfg(feature = "object-stores")]
pub(crate) fn source_briefly(address: &str) -> Result<Arc<dyn MediaSource>, RunError> {
    known(address)?;
    let options = ObjectOptions { patience: PATIENCE, ..ObjectOptions::default() };
    Ok(Arc::new(ObjectMedia::open(address, &options)?))
}

/// Returns the objects under a prefix; `claimant` is what its writer's claims are recognized by.
///
/// # Errors
/// As [`target`].
#[cfg(feature = "object-stores")]
pub(crate) fn objects(
    address: &str,
    claimant: Option<&str>,
    storage: &Storage,
) -> Result<Arc<dyn Objects>, RunError> {
    known(address)?;
    Ok(Arc::new(Prefix::new(address, claimant, storage)?))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn objects(
    address: &str,
    _: Option<&str>,
    _: &Storage,
) -> Result<Arc<dyn Objects>, RunError> {
    Err(absent(address))
}

/// Returns true if an address is a prefix of addresses and not the address of a media set.
#[cfg(feature = "object-stores")]
pub(crate) fn is_prefix(address: &str) -> bool {
    crate::object::is_prefix(address)
}

/// Finds the media sets whose address begins with `prefix`.
///
/// # Errors
/// As [`source`].
#[cfg(feature = "object-stores")]
pub(crate) fn media_below(prefix: &str) -> Result<Vec<Below>, RunError> {
    known(prefix)?;
    crate::object::media_below(prefix, &ObjectOptions::default())
}

/// Returns the state of the media set at `address`.
///
/// # Errors
/// As [`source`].
#[cfg(feature = "object-stores")]
pub(crate) fn state(address: &str, expected: &Expected) -> Result<State, RunError> {
    known(address)?;
    crate::object::state(address, expected, &ObjectOptions::default())
}

/// Removes the media set at `address`.
///
/// # Errors
/// As [`source`], and `ChangedMeanwhile`.
#[cfg(feature = "object-stores")]
pub(crate) fn remove(address: &str, expected: &Expected) -> Result<(), RunError> {
    known(address)?;
    crate::object::remove(address, expected, &ObjectOptions::default())
}

#[cfg(feature = "object-stores")]
fn known(address: &str) -> Result<(), RunError> {
    if is_object_address(address) {
        return Ok(());
    }
    Err(RunError::Option { what: "address", reason: format!("no store is known for {address}") })
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn target(address: &str, _: u64, _: &Storage) -> Result<Box<dyn Target>, RunError> {
    Err(absent(address))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn source(address: &str) -> Result<Arc<dyn MediaSource>, RunError> {
    Err(absent(address))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn source_briefly(address: &str) -> Result<Arc<dyn MediaSource>, RunError> {
    Err(absent(address))
}

/// Returns false: this build has no object stores.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn is_prefix(_: &str) -> bool {
    false
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn media_below(prefix: &str) -> Result<Vec<Below>, RunError> {
    Err(absent(prefix))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn state(address: &str, _: &Expected) -> Result<State, RunError> {
    Err(absent(address))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn remove(address: &str, _: &Expected) -> Result<(), RunError> {
    Err(absent(address))
}

#[cfg(not(feature = "object-stores"))]
fn absent(address: &str) -> RunError {
    let reason = format!("{address}: this build has no object stores (feature object-stores)");
    RunError::Option { what: "address", reason }
}
