//! FFI: AES keys of AWS-LC kept in secret pages.
//!
//! The safe wrapper keeps key schedules on the heap and leaves copies of them on the stack when it
//! moves them, where a core dump finds them. Here AWS-LC writes them straight into
//! [`SecretPages`], which also saves an allocation for each subkey.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::memory::SecretPages;
use crate::{Algorithm, CryptoError};
use aws_lc_sys as lc;

const BLOCK_LEN: usize = 16;
/// Length of AES-GCM's tags in bytes.
pub(crate) const TAG_LEN: usize = 16;
/// Length of AES-GCM's IVs in bytes.
pub(crate) const IV_LEN: usize = 12;

/// A schedule of AES for encryption, with a work area of secret bytes beside it.
///
/// Layout of the pages: the schedule, padding up to [`WORK_AT`], the work area.
pub(crate) struct AesKey {
    pages: SecretPages,
}

const WORK_AT: usize = 256;
const _: () = assert!(size_of::<lc::AES_KEY>() <= WORK_AT && align_of::<lc::AES_KEY>() <= 4096);

impl AesKey {
    /// Expands a key of 16, 24 or 32 bytes and adds a zeroed work area.
    pub(crate) fn new(key: &[u8], work_len: usize) -> Result<Self, CryptoError> {
        let mut pages = SecretPages::new(WORK_AT.saturating_add(work_len))?;
        let schedule = pages.as_mut_slice().as_mut_ptr().cast::<lc::AES_KEY>();
        // SAFETY: `schedule` is page-aligned and has room for an AES_KEY (asserted above), and
        // `key` is valid for the number of bits passed; AWS-LC refuses other numbers than AES has.
        let status = unsafe { lc::AES_set_encrypt_key(key.as_ptr(), bits(key)?, schedule) };
        if status == 0 { Ok(Self { pages }) } else { Err(unusable_key()) }
    }

    /// The work area.
    pub(crate) fn work(&self) -> &[u8] {
        &self.pages.as_slice()[WORK_AT..]
    }

    /// The work area, writable.
    pub(crate) fn work_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_slice()[WORK_AT..]
    }

    /// Encrypts each whole block in a part of the work area, in place.
    pub(crate) fn encrypt_work(&mut self, part: Range<usize>) {
        let (schedule, work) = self.pages.as_mut_slice().split_at_mut(WORK_AT);
        let schedule = schedule.as_ptr().cast::<lc::AES_KEY>();
        for block in work[part].chunks_exact_mut(BLOCK_LEN) {
            // SAFETY: `new` filled the schedule; `block` is one block, and AES_encrypt works in
            // place.
            unsafe { lc::AES_encrypt(block.as_ptr(), block.as_mut_ptr(), schedule) };
        }
    }

    /// Encrypts one block.
    #[inline]
    pub(crate) fn encrypt_block(&self, mut block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
        let schedule = self.pages.as_slice().as_ptr().cast::<lc::AES_KEY>();
        // SAFETY: `new` filled the schedule; AES_encrypt works in place on one block.
        unsafe { lc::AES_encrypt(block.as_ptr(), block.as_mut_ptr(), schedule) };
        block
    }

    /// Counter mode on the next bytes of a stream. The counter is big-endian, of 128 bits; `used`
    /// counts the bytes of `keystream` that are used up, 0 for none or all.
    #[inline]
    pub(crate) fn ctr(
        &self,
        counter: &mut [u8; BLOCK_LEN],
        keystream: &mut [u8; BLOCK_LEN],
        used: &mut u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        crate::sealing::check_lengths(input, output)?;
        if *used as usize >= BLOCK_LEN {
            return Err(CryptoError::Library { operation: "continue a stream" });
        }
        let schedule = self.pages.as_slice().as_ptr().cast::<lc::AES_KEY>();
        // SAFETY: `new` filled the schedule; input and output are slices of the length passed, the
        // two blocks arrays of a block, and `used` is below a block's length (checked above), as
        // AWS-LC asserts.
        unsafe {
            lc::AES_ctr128_encrypt(
                input.as_ptr(),
                output.as_mut_ptr(),
                input.len(),
                schedule,
                counter.as_mut_ptr(),
                keystream.as_mut_ptr(),
                used,
            );
        }
        Ok(())
    }

    /// Wraps `key` into `out` by KWP (NIST SP 800-38F) and returns the length written.
    pub(crate) fn wrap(&self, key: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        let mut len = 0;
        let schedule = self.pages.as_slice().as_ptr().cast::<lc::AES_KEY>();
        // SAFETY: `new` filled the schedule; the buffers are slices passed with their lengths, and
        // AWS-LC writes no more than `out.len()`.
        let status = unsafe {
            let (to, from) = (out.as_mut_ptr(), key.as_ptr());
            lc::AES_wrap_key_padded(schedule, to, &raw mut len, out.len(), from, key.len())
        };
        if status == 1 { Ok(len) } else { Err(CryptoError::Library { operation: "wrap a key" }) }
    }
}

/// Unwraps `wrapped` into `out` by KWP (NIST SP 800-38F) and returns the length written.
pub(crate) fn unwrap(
    wrapping_key: &[u8],
    wrapped: &[u8],
    out: &mut [u8],
) -> Result<usize, CryptoError> {
    let mut pages = SecretPages::new(size_of::<lc::AES_KEY>())?;
    let schedule = pages.as_mut_slice().as_mut_ptr().cast::<lc::AES_KEY>();
    let mut len = 0;
    // SAFETY: as in `AesKey::new` and `AesKey::wrap`, with the schedule for decryption.
    let status = unsafe {
        if lc::AES_set_decrypt_key(wrapping_key.as_ptr(), bits(wrapping_key)?, schedule) != 0 {
            return Err(unusable_key());
        }
        let (to, from) = (out.as_mut_ptr(), wrapped.as_ptr());
        lc::AES_unwrap_key_padded(schedule, to, &raw mut len, out.len(), from, wrapped.len())
    };
    if status == 1 { Ok(len) } else { Err(CryptoError::Authentication) }
}

/// Prepared AES-GCM keys, numbered from 0, in pages that are added as they fill.
pub(crate) struct GcmContexts {
    aead: Aead,
    key_len: usize,
    chunks: Vec<SecretPages>,
    len: usize,
}

const CHUNK_LEN: usize = 4096;
/// Whole cache lines for each context.
const STRIDE: usize = size_of::<lc::EVP_AEAD_CTX>().next_multiple_of(64);
const PER_CHUNK: usize = CHUNK_LEN / STRIDE;
const _: () = assert!(PER_CHUNK > 0 && align_of::<lc::EVP_AEAD_CTX>() <= 64);

/// AWS-LC's description of an AEAD.
#[derive(Clone, Copy)]
struct Aead(*const lc::EVP_AEAD);

// SAFETY: it points to a constant of AWS-LC that is never written after its first use.
unsafe impl Send for Aead {}
// SAFETY: as above.
unsafe impl Sync for Aead {}

impl GcmContexts {
    /// No contexts yet, for AES of the algorithm's key length.
    pub(crate) fn new(algorithm: Algorithm) -> Result<Self, CryptoError> {
        // SAFETY: these functions have no precondition.
        let aead = unsafe {
            match algorithm {
                Algorithm::Aes128 => lc::EVP_aead_aes_128_gcm(),
                Algorithm::Aes192 => lc::EVP_aead_aes_192_gcm(),
                Algorithm::Aes256 => lc::EVP_aead_aes_256_gcm(),
                other => return Err(CryptoError::NotForPages(other)),
            }
        };
        Ok(Self { aead: Aead(aead), key_len: algorithm.key_len(), chunks: Vec::new(), len: 0 })
    }

    /// Prepares a key in a new context and returns its number.
    pub(crate) fn push(&mut self, key: &[u8]) -> Result<usize, CryptoError> {
        if self.len == self.chunks.len() * PER_CHUNK {
            self.chunks.push(SecretPages::new(CHUNK_LEN)?);
        }
        self.len += 1;
        self.set(self.len - 1, key).inspect_err(|_| self.len -= 1)?;
        Ok(self.len - 1)
    }

    /// Prepares a key in an existing context, in the place of its former key.
    pub(crate) fn set(&mut self, at: usize, key: &[u8]) -> Result<(), CryptoError> {
        let aead = self.aead.0;
        if at >= self.len || key.len() != self.key_len {
            return Err(unusable_key());
        }
        let slot = (at % PER_CHUNK) * STRIDE;
        let slot = &mut self.chunks[at / PER_CHUNK].as_mut_slice()[slot..slot + STRIDE];
        // The context of AES-GCM holds no pointer to memory of its own, so wiping it frees it.
        slot.fill(0);
        let context = slot.as_mut_ptr().cast::<lc::EVP_AEAD_CTX>();
        // SAFETY: the slot is large enough and aligned for a context (asserted above) and zeroed,
        // which is AWS-LC's zero state; `key` has the length passed. `SecretPages` never moves.
        let status = unsafe {
            let engine = std::ptr::null_mut();
            lc::EVP_AEAD_CTX_init(context, aead, key.as_ptr(), key.len(), TAG_LEN, engine)
        };
        if status == 1 {
            return Ok(());
        }
        slot.fill(0);
        Err(unusable_key())
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
        let context = self.context(at, plaintext, ciphertext)?;
        let (mut tag, mut tag_len) = ([0; TAG_LEN], 0);
        // SAFETY: `context` is initialised; every other pointer comes from a slice or array of the
        // length passed with it; the borrows keep input and outputs apart.
        let status = unsafe {
            lc::EVP_AEAD_CTX_seal_scatter(
                context,
                ciphertext.as_mut_ptr(),
                tag.as_mut_ptr(),
                &raw mut tag_len,
                TAG_LEN,
                iv.as_ptr(),
                IV_LEN,
                plaintext.as_ptr(),
                plaintext.len(),
                std::ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        if status == 1 && tag_len == TAG_LEN {
            return Ok(tag);
        }
        Err(CryptoError::Library { operation: "seal with AES-GCM" })
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
        let context = self.context(at, ciphertext, plaintext)?;
        // SAFETY: as in `seal`.
        let status = unsafe {
            lc::EVP_AEAD_CTX_open_gather(
                context,
                plaintext.as_mut_ptr(),
                iv.as_ptr(),
                IV_LEN,
                ciphertext.as_ptr(),
                ciphertext.len(),
                tag.as_ptr(),
                TAG_LEN,
                aad.as_ptr(),
                aad.len(),
            )
        };
        if status == 1 { Ok(()) } else { Err(CryptoError::Authentication) }
    }

    /// An initialised context, for buffers of equal length.
    #[inline]
    fn context(
        &self,
        at: usize,
        input: &[u8],
        output: &[u8],
    ) -> Result<*const lc::EVP_AEAD_CTX, CryptoError> {
        crate::sealing::check_lengths(input, output)?;
        let chunk = self.chunks.get(at / PER_CHUNK).ok_or_else(unusable_key)?;
        let slot = (at % PER_CHUNK) * STRIDE;
        let context = chunk.as_slice()[slot..slot + STRIDE].as_ptr().cast::<lc::EVP_AEAD_CTX>();
        // SAFETY: a slot holds a context or zero bytes, both of which are valid contexts to read;
        // only `set` writes there, by `&mut self`.
        if unsafe { (*context).aead.is_null() } {
            return Err(unusable_key());
        }
        Ok(context)
    }
}

fn bits(key: &[u8]) -> Result<u32, CryptoError> {
    key.len().checked_mul(8).and_then(|bits| u32::try_from(bits).ok()).ok_or_else(unusable_key)
}

fn unusable_key() -> CryptoError {
    CryptoError::Library { operation: "prepare an AES key" }
}
