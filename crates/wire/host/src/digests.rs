//! The digests of HASHBYTES.

use tdekit_key_crypto::NamedDigest;
use tdekit_wire_tsql::{Digest, Error};

use crate::Result;

pub(crate) fn digest(digest: Digest, bytes: &[u8]) -> Result<Vec<u8>> {
    let named = match digest {
        Digest::Md5 => NamedDigest::Md5,
        Digest::Sha1 => NamedDigest::Sha1,
        Digest::Sha256 => NamedDigest::Sha256,
        Digest::Sha512 => NamedDigest::Sha512,
    };
    // a FIPS build has no MD5
    named.of(bytes).map_err(|error| Error::feature(format!("HASHBYTES with {digest:?}: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The digests of "abc" in the standards' examples begin with these bytes.
    #[test]
    fn each_digest_is_the_one_of_its_name() {
        for (wanted, length, first) in [
            (Digest::Md5, 16, 0x9001_5098_u32),
            (Digest::Sha1, 20, 0xa999_3e36),
            (Digest::Sha256, 32, 0xba78_16bf),
            (Digest::Sha512, 64, 0xddaf_35a1),
        ] {
            let made = digest(wanted, b"abc").unwrap();
            assert_eq!((made.len(), made.get(..4)), (length, Some(&first.to_be_bytes()[..])));
        }
    }
}
