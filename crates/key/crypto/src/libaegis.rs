//! FFI: AEGIS (RFC 10032) from one buffer to another.
//!
//! The `aegis` crate compiles libaegis and wraps it, but its one-shot functions work in place or
//! allocate. Copying a page first costs half as much as sealing it, so the two functions of
//! libaegis's public interface that take separate buffers are bound here.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::sealing::check_lengths;
use crate::{CryptoError, SecretBytes};

const TAG_LEN: usize = 16;

/// An AEGIS variant with its lengths and libaegis's functions.
struct Variant {
    name: &'static str,
    key_len: usize,
    nonce_len: usize,
    encrypt: unsafe extern "C" fn(
        c: *mut u8,
        mac: *mut u8,
        maclen: usize,
        m: *const u8,
        mlen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int,
    decrypt: unsafe extern "C" fn(
        m: *mut u8,
        c: *const u8,
        clen: usize,
        mac: *const u8,
        maclen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int,
}

/// A key of AEGIS-128X2 (`N` = 16 bytes of nonce) or AEGIS-256X2 (`N` = 32).
pub(crate) struct AegisKey<const N: usize> {
    variant: &'static Variant,
    key: SecretBytes,
}

impl AegisKey<16> {
    /// AEGIS-128X2 under a key of 16 bytes.
    pub(crate) fn aegis_128x2(key: &[u8]) -> Result<Self, CryptoError> {
        // Links libaegis and makes it choose its implementation for this processor.
        let _ = aegis::aegis128x2::Aegis128X2::<TAG_LEN>::new(&[0; 16], &[0; 16]);
        Self::new(&AEGIS_128X2, key)
    }
}

impl AegisKey<32> {
    /// AEGIS-256X2 under a key of 32 bytes.
    pub(crate) fn aegis_256x2(key: &[u8]) -> Result<Self, CryptoError> {
        let _ = aegis::aegis256x2::Aegis256X2::<TAG_LEN>::new(&[0; 32], &[0; 32]);
        Self::new(&AEGIS_256X2, key)
    }
}

impl<const N: usize> AegisKey<N> {
    fn new(variant: &'static Variant, key: &[u8]) -> Result<Self, CryptoError> {
        let (min, max) = (variant.key_len, variant.key_len);
        if key.len() != variant.key_len || N != variant.nonce_len {
            return Err(CryptoError::Length { what: variant.name, min, max, actual: key.len() });
        }
        Ok(Self { variant, key: SecretBytes::from_slice(key)? })
    }

    /// Encrypts into `ciphertext`, of the plaintext's length, and returns the tag.
    pub(crate) fn seal(
        &self,
        nonce: &[u8; N],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_LEN], CryptoError> {
        check_lengths(plaintext, ciphertext)?;
        let mut tag = [0; TAG_LEN];
        // SAFETY: every pointer comes from a slice or array of the length passed with it, key and
        // nonce have the variant's lengths (checked in `new`), and the borrows make input and
        // output disjoint, which libaegis does not even require.
        let status = unsafe {
            (self.variant.encrypt)(
                ciphertext.as_mut_ptr(),
                tag.as_mut_ptr(),
                TAG_LEN,
                plaintext.as_ptr(),
                plaintext.len(),
                aad.as_ptr(),
                aad.len(),
                nonce.as_ptr(),
                self.key.expose().as_ptr(),
            )
        };
        if status == 0 { Ok(tag) } else { Err(CryptoError::Library { operation: "seal" }) }
    }

    /// Decrypts into `plaintext`, of the ciphertext's length, whose content is undefined after a
    /// failure.
    pub(crate) fn open(
        &self,
        nonce: &[u8; N],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        check_lengths(ciphertext, plaintext)?;
        // SAFETY: as in `seal`.
        let status = unsafe {
            (self.variant.decrypt)(
                plaintext.as_mut_ptr(),
                ciphertext.as_ptr(),
                ciphertext.len(),
                tag.as_ptr(),
                TAG_LEN,
                aad.as_ptr(),
                aad.len(),
                nonce.as_ptr(),
                self.key.expose().as_ptr(),
            )
        };
        if status == 0 { Ok(()) } else { Err(CryptoError::Authentication) }
    }
}

static AEGIS_128X2: Variant = Variant {
    name: "AEGIS-128X2 key",
    key_len: 16,
    nonce_len: 16,
    encrypt: aegis128x2_encrypt_detached,
    decrypt: aegis128x2_decrypt_detached,
};

static AEGIS_256X2: Variant = Variant {
    name: "AEGIS-256X2 key",
    key_len: 32,
    nonce_len: 32,
    encrypt: aegis256x2_encrypt_detached,
    decrypt: aegis256x2_decrypt_detached,
};

// Declared as in libaegis's aegis128x2.h and aegis256x2.h.
unsafe extern "C" {
    fn aegis128x2_encrypt_detached(
        c: *mut u8,
        mac: *mut u8,
        maclen: usize,
        m: *const u8,
        mlen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int;
    fn aegis128x2_decrypt_detached(
        m: *mut u8,
        c: *const u8,
        clen: usize,
        mac: *const u8,
        maclen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int;
    fn aegis256x2_encrypt_detached(
        c: *mut u8,
        mac: *mut u8,
        maclen: usize,
        m: *const u8,
        mlen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int;
    fn aegis256x2_decrypt_detached(
        m: *mut u8,
        c: *const u8,
        clen: usize,
        mac: *const u8,
        maclen: usize,
        ad: *const u8,
        adlen: usize,
        npub: *const u8,
        k: *const u8,
    ) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 10032, appendix A, and the refusal of every flipped bit of ciphertext and tag.
    #[test]
    fn agrees_with_rfc_10032() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/vectors/rfc10032-aegis.json");
        let file: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let vectors = file["vectors"].as_array().unwrap();
        assert_eq!(vectors.len(), 4);
        for v in vectors {
            let field = |name: &str| hex::decode(v[name].as_str().unwrap()).unwrap();
            match v["algorithm"].as_str().unwrap() {
                "AEGIS-128X2" => check(&AegisKey::aegis_128x2(&field("key")).unwrap(), field),
                "AEGIS-256X2" => check(&AegisKey::aegis_256x2(&field("key")).unwrap(), field),
                other => panic!("unknown algorithm {other}"),
            }
        }
    }

    fn check<const N: usize>(key: &AegisKey<N>, field: impl Fn(&str) -> Vec<u8>) {
        let nonce = field("nonce").try_into().unwrap();
        let (aad, pt, ct) = (field("aad"), field("pt"), field("ct"));
        let tag: [u8; TAG_LEN] = field("tag").try_into().unwrap();
        let mut out = vec![0; pt.len()];
        assert_eq!(key.seal(&nonce, &aad, &pt, &mut out), Ok(tag));
        assert_eq!(out, ct);
        assert_eq!(key.open(&nonce, &aad, &ct, &tag, &mut out), Ok(()));
        assert_eq!(out, pt);
        for bit in 0..(ct.len() + TAG_LEN) * 8 {
            let (mut ct, mut tag) = (ct.clone(), tag);
            *ct.iter_mut().chain(&mut tag).nth(bit / 8).unwrap() ^= 1 << (bit % 8);
            let opened = key.open(&nonce, &aad, &ct, &tag, &mut out);
            assert_eq!(opened, Err(CryptoError::Authentication));
        }
    }

    #[test]
    fn refuses_wrong_lengths() {
        assert!(AegisKey::aegis_128x2(&[0; 15]).is_err());
        assert!(AegisKey::aegis_256x2(&[0; 16]).is_err());
        let key = AegisKey::aegis_128x2(&[0; 16]).unwrap();
        assert!(key.seal(&[0; 16], b"", &[0; 3], &mut [0; 4]).is_err());
        assert!(key.open(&[0; 16], b"", &[0; 5], &[0; 16], &mut [0; 4]).is_err());
    }
}
