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

/// Digests that programs ask for by name. Nothing of ours relies on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedDigest {
    /// MD5 (RFC 1321), of which anybody can make collisions.
    Md5,
    /// SHA-1 (FIPS 180-4), of which collisions are known.
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
}

impl NamedDigest {
    /// Returns the digest of bytes.
    ///
    /// # Errors
    /// [`CryptoError::NotApproved`] for MD5 in a FIPS build.
    pub fn of(self, bytes: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let algorithm = match self {
            Self::Md5 => return crate::md5::md5(bytes).map(Vec::from),
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        Ok(digest::digest(algorithm, bytes).as_ref().to_vec())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests of "abc": RFC 1321, appendix A.5, and NIST's examples of FIPS 180-4.
    #[test]
    fn named_digests_are_those_of_the_standards() {
        let of = |digest: NamedDigest| digest.of(b"abc").map(hex::encode);
        let md5 = of(NamedDigest::Md5);
        if crate::fips::IS_FIPS_BUILD {
            assert!(matches!(md5, Err(CryptoError::NotApproved { .. })), "{md5:?}");
        } else {
            assert_eq!(md5.unwrap(), "900150983cd24fb0d6963f7d28e17f72");
        }
        let sha1 = of(NamedDigest::Sha1).unwrap();
        assert_eq!(sha1, "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(of(NamedDigest::Sha256).unwrap(), hex::encode(sha256(&[b"abc"])));
        assert!(of(NamedDigest::Sha256).unwrap().starts_with("ba7816bf8f01cfea414140de5dae2223"));
        let sha512 = of(NamedDigest::Sha512).unwrap();
        assert!(
            sha512.starts_with("ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a")
        );
        assert!(
            sha512.ends_with("2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f")
        );
        let empty = NamedDigest::Sha256.of(b"").unwrap();
        assert_eq!(empty, sha256(&[]));
    }
}
