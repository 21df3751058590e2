//! FFI: the library's version and mode, and the refusals of a build with the feature `fips`.
//!
//! The feature is for builds on AWS-LC's FIPS module, which `cargo xtask fips` makes. It refuses
//! what FIPS 140-3 does not approve. NIST's list is the authority on which modules are validated.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::OnceLock;

use crate::CryptoError;
use aws_lc_sys as lc;

/// True if this build has the feature `fips`.
pub const IS_FIPS_BUILD: bool = cfg!(feature = "fips");

/// The cryptographic library, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Name and version, such as `AWS-LC FIPS 3.0.0`.
    pub version: String,
    /// True for a FIPS module, which passed its self-tests when it was loaded.
    pub is_fips_module: bool,
}

/// Asks the library for its version and mode.
#[must_use]
pub fn library() -> Library {
    const OPENSSL_VERSION: i32 = 0;
    // SAFETY: no precondition; the result is a string constant of the library, NUL-terminated.
    let version = unsafe { CStr::from_ptr(lc::OpenSSL_version(OPENSSL_VERSION)) };
    // "OpenSSL 1.1.1 (compatible; AWS-LC FIPS 3.0.0)"
    let version = version.to_string_lossy();
    let version = version.rsplit_once("; ").map_or(&*version, |(_, version)| version);
    let version = version.trim_end_matches(')').to_owned();
    // SAFETY: no precondition.
    let mode = unsafe { lc::FIPS_mode() };
    Library { version, is_fips_module: mode == 1 }
}

/// Refuses `what` in a FIPS build.
///
/// # Errors
/// [`CryptoError::NotApproved`].
pub const fn not_approved(what: &'static str) -> Result<(), CryptoError> {
    if IS_FIPS_BUILD { Err(CryptoError::NotApproved { what }) } else { Ok(()) }
}

/// Refuses to work in a FIPS build whose library is not a FIPS module.
///
/// # Errors
/// [`CryptoError::NoFipsModule`].
pub(crate) fn check_module() -> Result<(), CryptoError> {
    static IS_MODULE: OnceLock<bool> = OnceLock::new();
    if !IS_FIPS_BUILD || *IS_MODULE.get_or_init(|| library().is_fips_module) {
        return Ok(());
    }
    Err(CryptoError::NoFipsModule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fips_build_has_a_module_and_others_refuse_nothing() {
        let library = library();
        assert!(library.version.starts_with("AWS-LC"), "{library:?}");
        assert_eq!(library.is_fips_module, IS_FIPS_BUILD, "{library:?}");
        assert_eq!(check_module(), Ok(()));
        assert_eq!(not_approved("x").is_err(), IS_FIPS_BUILD);
    }
}
