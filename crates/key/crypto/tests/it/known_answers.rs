//! Known answers from standards, for the constructions of this crate and for the library parts
//! below.

use crate::common::{Hex, vectors};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use serde::Deserialize;
use shake::digest::{ExtendableOutput, Update, XofReader};
use tdekit_key_crypto::password::{PasswordParams, derive_key};
use tdekit_key_crypto::triple_des::{open_segment, seal_segment};
use tdekit_key_crypto::wrap::{unwrap_key, wrap_key};
use tdekit_key_crypto::{
    Algorithm, CryptoError, OnlineKey, PageFingerprint, PrivateKey, PublicKey, SealingKey,
    WideBlockKey, blake3, hkdf_sha256, hmac_sha256, sha1_thumbprint, sha256, verify_hmac_sha256,
};

#[derive(Deserialize)]
struct Sealed {
    #[serde(default)]
    algorithm: String,
    key: Hex,
    nonce: Hex,
    aad: Hex,
    pt: Hex,
    ct: Hex,
    tag: Hex,
}

/// Seals and opens a vector through the crate's own interface.
fn check_sealing(algorithm: Algorithm, v: &Sealed) {
    let mut key = SealingKey::new(algorithm, &v.key).unwrap();
    let nonce = v.nonce[..].try_into().unwrap();
    let mut ciphertext = vec![0; v.pt.len()];
    let tag = key.seal(nonce, &v.aad, &v.pt, &mut ciphertext).unwrap();
    assert_eq!(hex::encode(&ciphertext), hex::encode(&*v.ct), "{algorithm}");
    assert_eq!(hex::encode(tag), hex::encode(&*v.tag), "{algorithm}");
    let mut plaintext = vec![0; v.ct.len()];
    key.open(nonce, &v.aad, &v.ct, v.tag[..].try_into().unwrap(), &mut plaintext).unwrap();
    assert_eq!(plaintext, v.pt[..]);
}

#[test]
fn aes_256_is_xaes_256_gcm() {
    for v in vectors::<Sealed>("c2sp-xaes-256-gcm.json") {
        check_sealing(Algorithm::Aes256, &v);
    }
}

#[test]
fn a_key_is_wrapped_for_an_ec_certificate() {
    #[derive(Deserialize)]
    struct Wrapped {
        pkcs8: Hex,
        key: Hex,
        blob: Hex,
    }
    for v in vectors::<Wrapped>("tdekit-ecdh-wrap.json") {
        let own = PrivateKey::from_pkcs8(&v.pkcs8).unwrap();
        assert_eq!(own.unwrap(&v.blob).unwrap().expose(), &*v.key);
        let public = PublicKey::from_spki(&own.spki()).unwrap();
        let again = own.unwrap(&public.wrap(&v.key).unwrap()).unwrap();
        assert_eq!(again.expose(), &*v.key);
    }
}

fn accumulated(iterations: u32) {
    #[derive(Deserialize)]
    struct Accumulated {
        iterations: u32,
        shake128: Hex,
    }
    let mut input = shake::Shake128::default().finalize_xof();
    let mut digest = shake::Shake128::default();
    let mut draw = |len: usize| {
        let mut bytes = vec![0; len];
        input.read(&mut bytes);
        bytes
    };
    for _ in 0..iterations {
        let (key, nonce) = (draw(32), draw(24));
        let len = draw(1)[0].into();
        let plaintext = draw(len);
        let len = draw(1)[0].into();
        let aad = draw(len);
        let mut key = SealingKey::new(Algorithm::Aes256, &key).unwrap();
        let nonce = nonce[..].try_into().unwrap();
        let mut ciphertext = vec![0; plaintext.len()];
        let tag = key.seal(nonce, &aad, &plaintext, &mut ciphertext).unwrap();
        let mut opened = vec![0; plaintext.len()];
        key.open(nonce, &aad, &ciphertext, &tag, &mut opened).unwrap();
        assert_eq!(opened, plaintext);
        digest.update(&ciphertext);
        digest.update(&tag);
    }
    let mut result = [0; 32];
    digest.finalize_xof().read(&mut result);
    let expected = vectors::<Accumulated>("c2sp-xaes-256-gcm-accumulated.json")
        .into_iter()
        .find(|v| v.iterations == iterations)
        .unwrap();
    assert_eq!(hex::encode(result), hex::encode(&*expected.shake128));
}

#[test]
fn aes_256_agrees_with_c2sp_over_10_000_messages() {
    accumulated(10_000);
}

#[test]
#[ignore = "full: a million messages"]
fn aes_256_agrees_with_c2sp_over_1_000_000_messages() {
    accumulated(1_000_000);
}

#[test]
fn blake3_agrees_with_its_designers() {
    #[derive(Deserialize)]
    struct Hashed {
        length: usize,
        digest: Hex,
    }
    let all = vectors::<Hashed>("blake3.json");
    assert_eq!(all.len(), 9);
    for v in all {
        let input: Vec<u8> = (0..251).cycle().take(v.length).collect();
        assert_eq!(blake3(&input), v.digest[..], "{}", v.length);
    }
}

/// All that this crate writes today must open for ever: every algorithm, computed independently.
#[test]
fn every_algorithm_agrees_with_other_libraries() {
    let all = vectors::<Sealed>("tdekit-sealing.json");
    for algorithm in Algorithm::offered().filter(|a| a.seals_pages()) {
        let own: Vec<_> = all.iter().filter(|v| v.algorithm == algorithm.name()).collect();
        assert_eq!(own.len(), 5, "{algorithm}");
        own.into_iter().for_each(|v| check_sealing(algorithm, v));
    }
}

/// The KDF of subkeys: counter mode with the library's CMAC, first against NIST's vectors, then
/// against the subkeys that sealing uses.
#[test]
fn subkeys_are_those_of_nist_sp_800_108() {
    #[derive(Deserialize)]
    struct Kdf {
        prf: String,
        key: Hex,
        fixed: Hex,
        out: Hex,
    }
    let kdf = |key: &[u8], fixed: &[u8], len: usize| {
        let algorithm = match key.len() {
            16 => aws_lc_rs::cmac::AES_128,
            24 => aws_lc_rs::cmac::AES_192,
            _ => aws_lc_rs::cmac::AES_256,
        };
        let key = aws_lc_rs::cmac::Key::new(algorithm, key).unwrap();
        let block = |counter: u16| {
            let message = [&counter.to_be_bytes(), fixed].concat();
            aws_lc_rs::cmac::sign(&key, &message).unwrap().as_ref().to_vec()
        };
        let mut out: Vec<u8> = (1..=4).flat_map(block).collect();
        out.truncate(len);
        out
    };
    for v in vectors::<Kdf>("nist-kbkdf-cmac.json") {
        assert_eq!(kdf(&v.key, &v.fixed, v.out.len()), v.out[..], "{}", v.prf);
    }
    for (algorithm, gcm) in [
        (Algorithm::Aes128, &aead::AES_128_GCM),
        (Algorithm::Aes192, &aead::AES_192_GCM),
        (Algorithm::Aes256, &aead::AES_256_GCM),
    ] {
        let key: Vec<u8> = (0x80..).take(algorithm.key_len()).collect();
        let nonce: [u8; 24] = std::array::from_fn(|at| at as u8);
        let mut ciphertext = [0; 50];
        let mut sealing = SealingKey::new(algorithm, &key).unwrap();
        let tag = sealing.seal(&nonce, b"aad", &[9; 50], &mut ciphertext).unwrap();

        let subkey = kdf(&key, &[b"X\0", &nonce[..12]].concat(), key.len());
        let subkey = LessSafeKey::new(UnboundKey::new(gcm, &subkey).unwrap());
        let iv = Nonce::try_assume_unique_for_key(&nonce[12..]).unwrap();
        let mut expected = [9; 50];
        let expected_tag =
            subkey.seal_in_place_separate_tag(iv, Aad::from(b"aad"), &mut expected).unwrap();
        assert_eq!(ciphertext, expected);
        assert_eq!(tag, expected_tag.as_ref());
    }
}

#[test]
fn library_aes_gcm_agrees_with_nist() {
    #[derive(Deserialize)]
    struct Gcm {
        key: Hex,
        iv: Hex,
        aad: Hex,
        pt: Hex,
        ct: Hex,
        tag: Hex,
        valid: bool,
    }
    for v in vectors::<Gcm>("nist-aes-gcm.json") {
        let algorithm = match v.key.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            _ => &aead::AES_256_GCM,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &v.key).unwrap());
        let iv = || Nonce::try_assume_unique_for_key(&v.iv).unwrap();
        let mut plaintext = vec![0; v.ct.len()];
        let opened =
            key.open_separate_gather(iv(), Aad::from(&*v.aad), &v.ct, &v.tag, &mut plaintext);
        assert_eq!(opened.is_ok(), v.valid);
        if v.valid {
            assert_eq!(plaintext, v.pt[..]);
            let mut ciphertext = v.pt.to_vec();
            let aad = Aad::from(&*v.aad);
            let tag = key.seal_in_place_separate_tag(iv(), aad, &mut ciphertext).unwrap();
            assert_eq!((&ciphertext[..], tag.as_ref()), (&*v.ct, &*v.tag));
        }
    }
}

#[test]
fn key_wrap_agrees_with_nist() {
    #[derive(Deserialize)]
    struct Kwp {
        key: Hex,
        pt: Hex,
        ct: Hex,
        valid: bool,
    }
    for v in vectors::<Kwp>("nist-aes-kwp.json") {
        let unwrapped = unwrap_key(&v.key, &v.ct);
        if v.valid {
            assert_eq!(unwrapped.unwrap().expose(), &*v.pt);
            assert_eq!(wrap_key(&v.key, &v.pt).unwrap(), v.ct[..]);
        } else {
            assert_eq!(unwrapped.err(), Some(CryptoError::Authentication));
        }
    }
}

#[test]
#[allow(deprecated)] // the library marks 3DES as legacy, as we do
fn library_triple_des_agrees_with_nist() {
    #[derive(Deserialize)]
    struct Tdes {
        key: Hex,
        iv: Hex,
        pt: Hex,
        ct: Hex,
    }
    let key = |bytes: &[u8]| {
        UnboundCipherKey::new(&aws_lc_rs::cipher::DES_EDE3_FOR_LEGACY_USE_ONLY, bytes).unwrap()
    };
    for v in vectors::<Tdes>("nist-tdes-cbc.json") {
        let iv = || FixedLength::<8>::try_from(&*v.iv).unwrap();
        let mut bytes = v.pt.to_vec();
        let encrypting = EncryptingKey::cbc(key(&v.key)).unwrap();
        encrypting.less_safe_encrypt(&mut bytes, EncryptionContext::Iv64(iv())).unwrap();
        assert_eq!(bytes, v.ct[..]);
        let decrypting = DecryptingKey::cbc(key(&v.key)).unwrap();
        decrypting.decrypt(&mut bytes, DecryptionContext::Iv64(iv())).unwrap();
        assert_eq!(bytes, v.pt[..]);
    }
}

#[test]
#[cfg_attr(feature = "fips", ignore = "not approved")]
fn triple_des_segments_agree_with_openssl_and_refuse_changes() {
    #[derive(Deserialize)]
    struct Segment {
        key: Hex,
        nonce: Hex,
        aad: Hex,
        pt: Hex,
        sealed: Hex,
    }
    for v in vectors::<Segment>("tdekit-triple-des.json") {
        let nonce = v.nonce[..].try_into().unwrap();
        assert_eq!(seal_segment(&v.key, nonce, &v.aad, &v.pt).unwrap(), v.sealed[..]);
        assert_eq!(open_segment(&v.key, nonce, &v.aad, &v.sealed).unwrap(), v.pt[..]);
        let refused = Err(CryptoError::Authentication);
        for bit in 0..v.sealed.len() * 8 {
            let mut flipped = v.sealed.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open_segment(&v.key, nonce, &v.aad, &flipped), refused, "bit {bit}");
        }
        let longer = [&v.aad, &[0][..]].concat();
        assert_eq!(open_segment(&v.key, nonce, &longer, &v.sealed), refused);
        assert_eq!(open_segment(&v.key, &[1; 24], &v.aad, &v.sealed), refused);
        assert_eq!(open_segment(&[1; 24], nonce, &v.aad, &v.sealed), refused);
    }
}

#[test]
fn digests_agree_with_nist_and_the_rfcs() {
    #[derive(Deserialize)]
    struct Sha {
        hash: String,
        msg: Hex,
        digest: Hex,
    }
    for v in vectors::<Sha>("nist-sha.json") {
        match v.hash.as_str() {
            "SHA-256" => {
                assert_eq!(sha256(&[&v.msg]), v.digest[..]);
                let (head, tail) = v.msg.split_at(v.msg.len() / 3);
                assert_eq!(sha256(&[head, &[], tail]), v.digest[..]);
            }
            "SHA-1" => assert_eq!(sha1_thumbprint(&v.msg), v.digest[..]),
            other => panic!("unknown hash {other}"),
        }
    }

    #[derive(Deserialize)]
    struct Hmac {
        key: Hex,
        msg: Hex,
        tag: Hex,
    }
    for v in vectors::<Hmac>("rfc4231-hmac-sha256.json") {
        let (head, tail) = v.msg.split_at(3);
        assert_eq!(hmac_sha256(&v.key, &[head, tail]), v.tag[..]);
        assert!(verify_hmac_sha256(&v.key, &[&v.msg], &v.tag));
        assert!(!verify_hmac_sha256(&v.key, &[&v.msg], &v.tag[..31]));
        assert!(!verify_hmac_sha256(&v.key, &[&v.msg, &[0]], &v.tag));
    }

    #[derive(Deserialize)]
    struct Hkdf {
        ikm: Hex,
        salt: Hex,
        info: Hex,
        okm: Hex,
    }
    for v in vectors::<Hkdf>("rfc5869-hkdf-sha256.json") {
        let mut okm = vec![0; v.okm.len()];
        hkdf_sha256(&v.ikm, &v.salt, &[&v.info], &mut okm).unwrap();
        assert_eq!(okm, v.okm[..]);
        let (head, tail) = v.info.split_at(v.info.len() / 2);
        hkdf_sha256(&v.ikm, &v.salt, &[head, tail], &mut okm).unwrap();
        assert_eq!(okm, v.okm[..]);
    }
}

#[test]
fn library_argon2id_agrees_with_rfc_9106() {
    #[derive(Deserialize)]
    struct Argon2id {
        password: Hex,
        salt: Hex,
        secret: Hex,
        ad: Hex,
        memory_kib: u32,
        passes: u32,
        lanes: u32,
        out: Hex,
    }
    for v in vectors::<Argon2id>("rfc9106-argon2id.json") {
        let params = argon2::ParamsBuilder::new()
            .m_cost(v.memory_kib)
            .t_cost(v.passes)
            .p_cost(v.lanes)
            .data(argon2::AssociatedData::new(&v.ad).unwrap())
            .output_len(v.out.len())
            .build()
            .unwrap();
        let (algorithm, version) = (argon2::Algorithm::Argon2id, argon2::Version::V0x13);
        let argon2 =
            argon2::Argon2::new_with_secret(&v.secret, algorithm, version, params).unwrap();
        let mut out = vec![0; v.out.len()];
        argon2.hash_password_into(&v.password, &v.salt, &mut out).unwrap();
        assert_eq!(hex::encode(out), hex::encode(&*v.out));
    }
}

#[test]
#[cfg_attr(feature = "fips", ignore = "not approved")]
fn keys_from_passwords_agree_with_the_reference_program() {
    #[derive(Deserialize)]
    struct Password {
        password: Hex,
        salt: Hex,
        memory_kib: u32,
        passes: u32,
        lanes: u32,
        out: Hex,
    }
    let all = vectors::<Password>("tdekit-password.json");
    for v in &all {
        let params = PasswordParams::new(v.memory_kib, v.passes, v.lanes).unwrap();
        assert_eq!(PasswordParams::from_bytes(&params.to_bytes()), Ok(params));
        let salt = v.salt[..].try_into().unwrap();
        let key = derive_key(&v.password, salt, params, v.out.len()).unwrap();
        assert!(key.ct_eq(&v.out));
    }
    let first = PasswordParams::new(all[0].memory_kib, all[0].passes, all[0].lanes);
    assert_eq!(first, Ok(PasswordParams::default()), "the default is among the vectors");
}

#[test]
fn fingerprints_are_tags_of_aes_256_gcm() {
    #[derive(Deserialize)]
    struct Fingerprint {
        key: Hex,
        page_shake128: String,
        page_len: usize,
        tag: Hex,
    }
    for v in vectors::<Fingerprint>("tdekit-fingerprint.json") {
        let mut page = vec![0; v.page_len];
        let mut shake = shake::Shake128::default();
        shake.update(v.page_shake128.as_bytes());
        shake.finalize_xof().read(&mut page);
        let tag = PageFingerprint::new(&v.key).unwrap().of(&page).unwrap();
        assert_eq!(hex::encode(tag), hex::encode(&*v.tag));
    }
}

#[test]
#[cfg_attr(feature = "fips", ignore = "not approved")]
fn the_wide_block_is_hctr2() {
    #[derive(Deserialize)]
    struct Hctr2 {
        key: Hex,
        tweak: Hex,
        pt: Hex,
        ct: Hex,
    }
    for v in vectors::<Hctr2>("google-hctr2-aes-256.json") {
        let key = WideBlockKey::hctr2(&v.key).unwrap();
        let mut out = vec![0; v.pt.len()];
        key.encrypt(&v.tweak, &v.pt, &mut out).unwrap();
        assert_eq!(hex::encode(&out), hex::encode(&*v.ct));
        key.decrypt(&v.tweak, &v.ct, &mut out).unwrap();
        assert_eq!(hex::encode(&out), hex::encode(&*v.pt));
    }
}

#[test]
#[cfg_attr(feature = "fips", ignore = "not approved")]
fn the_wide_blocks_of_whole_pages_are_as_documented() {
    check_pages("tdekit-hctr2.json", WideBlockKey::hctr2);
    check_pages("tdekit-gmac-wide-block.json", WideBlockKey::gmac);
}

fn check_pages(file: &str, prepare: fn(&[u8]) -> Result<WideBlockKey, CryptoError>) {
    #[derive(Deserialize)]
    struct Page {
        key: Hex,
        tweak: Hex,
        pt_shake128: String,
        len: usize,
        ct_sha256: Hex,
    }
    for v in vectors::<Page>(file) {
        let mut shake = shake::Shake128::default();
        shake.update(v.pt_shake128.as_bytes());
        let mut page = vec![0; v.len];
        shake.finalize_xof().read(&mut page);
        let key = prepare(&v.key).unwrap();
        let (mut sealed, mut opened) = (vec![0; v.len], vec![0; v.len]);
        key.encrypt(&v.tweak, &page, &mut sealed).unwrap();
        assert_eq!(sha256(&[&sealed]), v.ct_sha256[..], "{file} {}", v.len);
        key.decrypt(&v.tweak, &sealed, &mut opened).unwrap();
        assert_eq!(opened, page);
    }
}

#[test]
#[cfg_attr(feature = "fips", ignore = "not approved")]
fn the_online_cipher_is_what_the_document_says() {
    #[derive(Deserialize)]
    struct Stream {
        key: Hex,
        iv: Hex,
        pt: Hex,
        ct: Hex,
    }
    for v in vectors::<Stream>("tdekit-online.json") {
        let key = OnlineKey::new(&v.key).unwrap();
        let iv = v.iv[..].try_into().unwrap();
        for (mut stream, input, expected) in
            [(key.encryptor(iv), &v.pt, &v.ct), (key.decryptor(iv), &v.ct, &v.pt)]
        {
            let mut out = vec![0; input.len()];
            let (whole, tail) = out.split_at_mut(stream.ready_len(input.len()));
            key.update(&mut stream, input, whole).unwrap();
            key.finish(&mut stream, tail).unwrap();
            assert_eq!(hex::encode(&out), hex::encode(&**expected), "{} bytes", input.len());
        }
    }
}
