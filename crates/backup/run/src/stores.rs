//! Media sets at addresses on an object store, in a build with the feature `object-stores`.

use std::sync::Arc;

use crate::archive::Objects;
#[cfg(feature = "object-stores")]
use crate::object::Prefix;
use crate::{MediaSource, RunError, Target};
#[cfg(feature = "object-stores")]
use crate::{ObjectMedia, ObjectOptions, ObjectTarget, is_object_address};

/// Returns the sink that writes to `address`; `expected_bytes` is the expected maximum, 0 if
/// unknown.
///
/// # Errors
/// `Option` for an address of an unknown store, `Object` for one without credentials.
#[cfg(feature = "object-stores")]
pub(crate) fn target(address: &str, expected_bytes: u64) -> Result<Box<dyn Target>, RunError> {
    known(address)?;
    let options = ObjectOptions { expected_bytes, ..ObjectOptions::default() };
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

/// Returns the objects under a prefix.
///
/// # Errors
/// As [`target`].
#[cfg(feature = "object-stores")]
pub(crate) fn objects(address: &str) -> Result<Arc<dyn Objects>, RunError> {
    known(address)?;
    Ok(Arc::new(Prefix::new(address)?))
}

/// Refuses the address: this build has no object stores.
///
/// # Errors
/// `Option`, always.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn objects(address: &str) -> Result<Arc<dyn Objects>, RunError> {
    Err(absent(address))
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
pub(crate) fn target(address: &str, _: u64) -> Result<Box<dyn Target>, RunError> {
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

#[cfg(not(feature = "object-stores"))]
fn absent(address: &str) -> RunError {
    let reason = format!("{address}: this build has no object stores (feature object-stores)");
    RunError::Option { what: "address", reason }
}
