//! Prepared keys of AES-GCM (NIST SP 800-38D), in the library that is fastest on this processor.

use std::fmt;
use std::sync::OnceLock;

use crate::fips::IS_FIPS_BUILD;

#[cfg(not(feature = "fips"))]
mod keys;
#[cfg(not(feature = "fips"))]
mod ring;

#[cfg(feature = "fips")]
pub(crate) use crate::aws_lc::GcmContexts as GcmKeys;
#[cfg(not(feature = "fips"))]
pub(crate) use keys::GcmKeys;

/// A library that has AES-GCM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcmLibrary {
    /// AWS-LC: the fastest with AVX-512, and where the processor has no wide AES instructions.
    AwsLc,
    /// ring: the fastest with wide AES instructions (VAES) but without AVX-512, for which AWS-LC
    /// has no code of its own.
    Ring,
}

impl fmt::Display for GcmLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AwsLc => "AWS-LC",
            Self::Ring => "ring",
        })
    }
}

/// Returns the library that seals and opens by AES-128-GCM and AES-256-GCM in this process. It is
/// chosen once, by what the processor has; a FIPS build has AWS-LC only.
#[must_use]
pub fn gcm_library() -> GcmLibrary {
    static CHOSEN: OnceLock<GcmLibrary> = OnceLock::new();
    *CHOSEN.get_or_init(|| match forced() {
        _ if IS_FIPS_BUILD => GcmLibrary::AwsLc,
        Some(library) => library,
        None if has_wide_aes_alone() => GcmLibrary::Ring,
        None => GcmLibrary::AwsLc,
    })
}

/// The library that a test asks for; `None` in a release build.
fn forced() -> Option<GcmLibrary> {
    let name = std::env::var("TDEKIT_TEST_AES_GCM").ok().filter(|_| cfg!(debug_assertions))?;
    [GcmLibrary::AwsLc, GcmLibrary::Ring].into_iter().find(|library| library.to_string() == name)
}

/// Returns true for a processor with instructions for AES on 256 bits, but without AVX-512.
fn has_wide_aes_alone() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("vaes") && has!("vpclmulqdq") && has!("avx2") && !has!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
