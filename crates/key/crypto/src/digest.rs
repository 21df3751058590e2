//! Digests, HMAC and HKDF.

use aws_lc_rs::{digest, hkdf, hmac};

use crate::CryptoError;

/// Longest output of [`hkdf_sha256`], in bytes (RFC 5869: 255 blocks).
pub const HKDF_MAX_LEN: usize = 255 * 32;

/// SHA-256 (FIPS 180-4) of the parts, one after another.
#[must_use]
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    fixed(context.finish().as_ref())
}

/// Unkeyed BLAKE3 with 32 bytes of output: collision-resistant, and several times as fast as
/// SHA-256 on long input, because its tree keeps all lanes of a processor's vectors busy.
#[must_use]
pub fn blake3(bytes: &[u8]) -> [u8; 32] {
    *::blake3::hash(bytes).as_bytes()
}

/// SHA-1 of a certificate, as SQL Server shows its thumbprint. For naming only: never rely on it to
/// distinguish two certificates that someone else chose.
#[must_use]
pub fn sha1_thumbprint(certificate_der: &[u8]) -> [u8; 20] {
    fixed(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate_der).as_ref())
}

/// HMAC-SHA-256 (RFC 2104) of the parts, one after another. The parts are not delimited: the
/// caller's encoding must be unambiguous.
#[must_use]
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    fixed(context.sign().as_ref())
}

/// Returns true if `tag` is the complete HMAC-SHA-256 of the parts. Compares in constant time.
#[must_use]
pub fn verify_hmac_sha256(key: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
    let expected = hmac_sha256(key, parts);
    aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).is_ok()
}

/// HKDF-SHA-256 (RFC 5869), extract and expand. `info` is the concatenation of its parts.
///
/// # Errors
/// [`CryptoError::Length`] when `out` is longer than [`HKDF_MAX_LEN`].
pub fn hkdf_sha256(
    ikm: &[u8],
    salt: &[u8],
    info: &[&[u8]],
    out: &mut [u8],
) -> Result<(), CryptoError> {
    let actual = out.len();
    let too_long =
        || CryptoError::Length { what: "HKDF output", min: 0, max: HKDF_MAX_LEN, actual };
    if actual > HKDF_MAX_LEN {
        return Err(too_long());
    }
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(ikm)
        .expand(info, OutLen(actual))
        .and_then(|okm| okm.fill(out))
        .map_err(|_| too_long())
}

struct OutLen(usize);

impl hkdf::KeyType for OutLen {
    fn len(&self) -> usize {
        self.0
    }
}

/// Copies a digest whose length its algorithm fixes.
fn fixed<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(digest);
    out
}
