//! FFI: AES-256 in the modes that a database server's keyring offers to others, with IVs from the
//! caller. Nothing is authenticated.
//!
//! AWS-LC keeps the key schedule on its heap, and erases it when it frees the context.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::NonNull;

use aws_lc_sys as lc;
use zeroize::Zeroize;

use crate::fips::{check_module, not_approved};
use crate::{CryptoError, SecretBytes, sha256};

const BLOCK_LEN: usize = 16;

/// A mode of AES (NIST SP 800-38A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAesMode {
    /// Cipher block chaining.
    Cbc,
    /// Cipher feedback of 1 bit.
    Cfb1,
    /// Cipher feedback of 8 bits.
    Cfb8,
    /// Cipher feedback of 128 bits.
    Cfb128,
    /// Output feedback.
    Ofb,
}

/// The direction of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From plaintext.
    Encrypt,
    /// To plaintext.
    Decrypt,
}

/// A key of AES-256.
#[derive(Debug)]
pub struct HostAesKey(SecretBytes);

impl HostAesMode {
    /// The mode with this name in lower case; `None` for an unknown one.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "cbc" => Some(Self::Cbc),
            "cfb1" => Some(Self::Cfb1),
            "cfb8" => Some(Self::Cfb8),
            "cfb128" => Some(Self::Cfb128),
            "ofb" => Some(Self::Ofb),
            _ => None,
        }
    }

    /// Maximum length of the ciphertext of `len` bytes, which CBC pads by PKCS#7; `None` if no
    /// buffer has it.
    #[must_use]
    pub fn encrypted_len(self, len: usize) -> Option<usize> {
        match self {
            Self::Cbc => (len - len % BLOCK_LEN).checked_add(BLOCK_LEN),
            Self::Cfb1 | Self::Cfb8 | Self::Cfb128 | Self::Ofb => Some(len),
        }
    }

    fn cipher(self) -> *const lc::EVP_CIPHER {
        // SAFETY: the calls have no precondition and return constants of the library.
        unsafe {
            match self {
                Self::Cbc => lc::EVP_aes_256_cbc(),
                Self::Cfb1 => lc::EVP_aes_256_cfb1(),
                Self::Cfb8 => lc::EVP_aes_256_cfb8(),
                Self::Cfb128 => lc::EVP_aes_256_cfb128(),
                Self::Ofb => lc::EVP_aes_256_ofb(),
            }
        }
    }
}

impl HostAesKey {
    /// The SHA-256 of key material of any length, as MySQL's keyring makes an AES key of it.
    ///
    /// # Errors
    /// [`CryptoError::Memory`].
    pub fn of_material(material: &[u8]) -> Result<Self, CryptoError> {
        let mut digest = sha256(&[material]);
        let key = SecretBytes::from_slice(&digest);
        digest.zeroize();
        key.map(Self)
    }

    /// Encrypts or decrypts `input`. `padded` counts for CBC only: by PKCS#7, or else `input` has
    /// whole blocks.
    ///
    /// # Errors
    /// [`CryptoError::Library`] for an input that is not of whole blocks or not padded, and for one
    /// longer than 2^31 bytes; [`CryptoError::NotApproved`] in a FIPS build for all but CBC;
    /// [`CryptoError::Memory`].
    pub fn apply(
        &self,
        direction: Direction,
        mode: HostAesMode,
        iv: &[u8; BLOCK_LEN],
        padded: bool,
        input: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        if mode != HostAesMode::Cbc {
            not_approved("a feedback mode of AES")?;
        }
        check_module()?;
        let failed = || CryptoError::Library { operation: "encrypt or decrypt by AES" };
        let input_len = c_int::try_from(input.len()).map_err(|_| failed())?;
        let room = input.len().checked_add(2 * BLOCK_LEN).ok_or_else(failed)?;
        let mut output = SecretBytes::new_zeroed(room)?;
        let context = Context::new().ok_or_else(failed)?;
        let encrypt = c_int::from(direction == Direction::Encrypt);
        let (mut begun_len, mut rest_len) = (0, 0);
        let out = output.expose_mut().as_mut_ptr();
        let ctx = context.0.as_ptr();
        // SAFETY: `ctx` is a new context; key and IV have the lengths of AES-256; `out` has room
        // for the input and two more blocks, of which Update and Final together write at most one
        // more block than the input has.
        let done = unsafe {
            let (key, engine) = (self.0.expose().as_ptr(), std::ptr::null_mut());
            lc::EVP_CipherInit_ex(ctx, mode.cipher(), engine, key, iv.as_ptr(), encrypt) == 1
                && lc::EVP_CIPHER_CTX_set_padding(ctx, c_int::from(padded)) == 1
                && lc::EVP_CipherUpdate(ctx, out, &raw mut begun_len, input.as_ptr(), input_len)
                    == 1
                && usize::try_from(begun_len).is_ok_and(|len| {
                    len <= room - BLOCK_LEN
                        && lc::EVP_CipherFinal_ex(ctx, out.add(len), &raw mut rest_len) == 1
                })
        };
        let len = usize::try_from(begun_len).ok().zip(usize::try_from(rest_len).ok());
        match len.map(|(begun, rest)| begun + rest) {
            Some(len) if done && len <= room => {
                output.truncate(len);
                Ok(output)
            }
            _ => Err(failed()),
        }
    }
}

/// A context of the library, freed on drop.
struct Context(NonNull<lc::EVP_CIPHER_CTX>);

impl Context {
    fn new() -> Option<Self> {
        // SAFETY: no precondition; null if there is no memory.
        NonNull::new(unsafe { lc::EVP_CIPHER_CTX_new() }).map(Self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `new` made the context, and nothing else frees it.
        unsafe { lc::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    const IV: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";

    fn key() -> HostAesKey {
        HostAesKey(SecretBytes::from_slice(&hex::decode(KEY).unwrap()).unwrap())
    }

    /// NIST SP 800-38A, F.2.5, F.3.5, F.3.11, F.3.17, F.4.5.
    #[test]
    fn the_standards_examples() {
        let examples = [
            ("cbc", "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"),
            ("cfb1", "9029"),
            ("cfb8", "dc1f1a8520a64db55fcc8ac554844e889700"),
            ("cfb128", "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b"),
            ("ofb", "dc7e84bfda79164b7ecd8486985d38604febdc6740d20b3ac88f6ad82a4fb08d"),
        ];
        for (name, expected) in examples {
            let mode = HostAesMode::of_name(name).unwrap();
            let plain = hex::decode(&PLAIN[..expected.len()]).unwrap();
            let sealed = key().apply(Direction::Encrypt, mode, &IV, false, &plain);
            if mode != HostAesMode::Cbc && crate::fips::IS_FIPS_BUILD {
                assert!(matches!(sealed, Err(CryptoError::NotApproved { .. })));
                continue;
            }
            let sealed = sealed.unwrap();
            assert_eq!(hex::encode(sealed.expose()), expected, "{name}");
            let opened = key().apply(Direction::Decrypt, mode, &IV, false, sealed.expose());
            assert_eq!(opened.unwrap().expose(), plain, "{name}");
        }
        assert!(HostAesMode::of_name("CBC").is_none() && HostAesMode::of_name("ecb").is_none());
    }

    #[test]
    fn padding_is_added_and_checked() {
        for len in [0, 1, 15, 16, 17, 32, 100] {
            let plain = vec![7; len];
            let mode = HostAesMode::Cbc;
            let sealed = key().apply(Direction::Encrypt, mode, &IV, true, &plain).unwrap();
            assert_eq!(Some(sealed.len()), mode.encrypted_len(len));
            let opened = key().apply(Direction::Decrypt, mode, &IV, true, sealed.expose());
            assert_eq!(opened.unwrap().expose(), plain);
            let cut = &sealed.expose()[..sealed.len() - 1];
            assert!(key().apply(Direction::Decrypt, mode, &IV, true, cut).is_err());
        }
        assert!(key().apply(Direction::Encrypt, HostAesMode::Cbc, &IV, false, &[0; 15]).is_err());
        assert_eq!(HostAesMode::Cbc.encrypted_len(usize::MAX), None);
        assert_eq!(HostAesMode::Ofb.encrypted_len(5), Some(5));
    }

    #[test]
    fn material_of_any_length_makes_a_key() {
        let key = HostAesKey::of_material(b"abc").unwrap();
        assert_eq!(key.0.expose(), sha256(&[b"abc"]));
        assert!(!format!("{key:?}").contains("ba7816bf"));
    }
}
