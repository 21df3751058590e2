//! FFI: MD5 of AWS-LC, which its safe wrapper does not have.
#![allow(unsafe_code)]

use crate::CryptoError;
use crate::fips::not_approved;
use aws_lc_sys as lc;

/// MD5 (RFC 1321).
///
/// # Errors
/// [`CryptoError::NotApproved`] in a FIPS build.
pub(crate) fn md5(bytes: &[u8]) -> Result<[u8; 16], CryptoError> {
    not_approved("MD5")?;
    let mut out = [0; 16];
    // SAFETY: `bytes` is valid for its length, and `out` has room for a digest of 16 bytes.
    unsafe { lc::MD5(bytes.as_ptr(), bytes.len(), out.as_mut_ptr()) };
    Ok(out)
}
