//! Sealed pages: ciphertext, then nonce, tag, key version and flags in the reserved bytes.

use tdekit_key_crypto::{NONCE_LEN, NonceSource, TAG_LEN};

use crate::aad::{Kind, place};
use crate::keys::{KeyRing, Purpose};
use crate::layout::{array, le32};
use crate::{FileKeys, PageError, PageSize, RESERVE_LEN};

/// Seals and opens the pages of one file for one handle.
pub struct PageCodec {
    ring: KeyRing,
    nonces: NonceSource,
}

/// The reserved bytes of a sealed page, parsed.
struct Reserve {
    nonce: [u8; NONCE_LEN],
    tag: [u8; TAG_LEN],
    key_version: u32,
    flags: u32,
}

impl PageCodec {
    /// A codec for the pages of the file that `keys` belong to.
    pub fn new(keys: FileKeys) -> Self {
        Self { ring: KeyRing::new(keys, Purpose::Page), nonces: NonceSource::new() }
    }

    /// The keys of the file.
    pub fn keys(&self) -> &FileKeys {
        self.ring.file()
    }

    /// Replaces the keys by others of the same file: a version was added or dropped.
    pub fn set_keys(&mut self, keys: FileKeys) {
        self.ring.set_file(keys);
    }

    /// Seals `plain` (a whole page whose last `RESERVE_LEN` bytes are zero) into `sealed`, of the
    /// same length, as page `page` under the current key.
    pub fn seal(&mut self, page: u32, plain: &[u8], sealed: &mut [u8]) -> Result<(), PageError> {
        let size = PageSize::of(plain)?;
        if sealed.len() != plain.len() {
            return Err(PageError::Size { size: sealed.len() as u64, what: "a sealed page" });
        }
        let (content, reserve) = plain.split_at(size.usable());
        if reserve.iter().any(|&b| b != 0) {
            return Err(PageError::ReserveInUse { page });
        }
        let nonce = self.nonces.next()?;
        let version = self.ring.file().current;
        let aad = self.aad(page, version, 0, size)?;
        let (ciphertext, trailer) = sealed.split_at_mut(size.usable());
        let tag = self.ring.get(version)?.seal(&nonce, &aad, content, ciphertext)?;
        trailer[..NONCE_LEN].copy_from_slice(&nonce);
        trailer[NONCE_LEN..40].copy_from_slice(&tag);
        trailer[40..44].copy_from_slice(&version.to_le_bytes());
        trailer[44..].copy_from_slice(&[0; 4]);
        Ok(())
    }

    /// Opens `sealed` as page `page` into `plain`, of the same length, and zeroes the reserved
    /// bytes. After a failure, `plain` has no unauthenticated byte.
    pub fn open(&mut self, page: u32, sealed: &[u8], plain: &mut [u8]) -> Result<(), PageError> {
        let size = PageSize::of(sealed)?;
        if sealed.len() != plain.len() {
            return Err(PageError::Size { size: plain.len() as u64, what: "a page buffer" });
        }
        let (ciphertext, trailer) = sealed.split_at(size.usable());
        let (content, reserve) = plain.split_at_mut(size.usable());
        reserve.fill(0);
        let Some(seal) = Reserve::parse(trailer).filter(|s| s.flags == 0) else {
            content.fill(0);
            return Err(PageError::Page { page });
        };
        let opened = self.aad(page, seal.key_version, seal.flags, size).and_then(|aad| {
            let key = self.ring.get(seal.key_version)?;
            Ok(key.open(&seal.nonce, &aad, ciphertext, &seal.tag, content)?)
        });
        opened.map_err(|_| {
            content.fill(0);
            PageError::Page { page }
        })
    }

    fn aad(
        &self,
        page: u32,
        version: u32,
        flags: u32,
        size: PageSize,
    ) -> Result<[u8; 32], PageError> {
        let file = self.ring.file();
        let algorithm = file.algorithm(version)?;
        Ok(place(&file.file_id, page, version, flags, algorithm, Kind::Page, size.log2()))
    }
}

/// Returns the seal of a page: its reserved bytes, which are unique to one sealing of one page.
pub fn seal_of(sealed: &[u8]) -> Option<&[u8; RESERVE_LEN]> {
    sealed.last_chunk::<RESERVE_LEN>()
}

/// Returns the key version that a sealed page names; it is not authenticated before the page opens.
pub fn key_version(sealed: &[u8]) -> Option<u32> {
    seal_of(sealed).map(|seal| le32(seal, 40))
}

impl Reserve {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            nonce: array(bytes, 0)?,
            tag: array(bytes, NONCE_LEN)?,
            key_version: le32(bytes, 40),
            flags: le32(bytes, 44),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tdekit_key_crypto::{Algorithm, SecretBytes};

    use super::*;
    use crate::DekVersion;

    pub(crate) fn keys(algorithm: Algorithm, file: u8) -> FileKeys {
        let dek = Arc::new(SecretBytes::from_slice(&[7; 32]).unwrap());
        let versions = vec![DekVersion { version: 1, algorithm, dek }];
        FileKeys { file_id: [file; 16], current: 1, versions }
    }

    fn page_of(size: usize, seed: u8) -> Vec<u8> {
        let bytes = (0..=255).cycle().take(size);
        let mut page: Vec<u8> = bytes.map(|b: u8| b.wrapping_mul(seed)).collect();
        page[size - RESERVE_LEN..].fill(0);
        page
    }

    #[test]
    fn opens_only_at_its_page_and_in_its_file() {
        for algorithm in Algorithm::all().iter().copied().filter(|a| a.seals_pages()) {
            let mut codec = PageCodec::new(keys(algorithm, 1));
            let plain = page_of(4096, 3);
            let (mut sealed, mut out) = (vec![0; 4096], vec![0; 4096]);
            codec.seal(5, &plain, &mut sealed).unwrap();
            codec.open(5, &sealed, &mut out).unwrap();
            assert_eq!(out, plain);
            assert!(codec.open(6, &sealed, &mut out).is_err());
            assert!(out.iter().all(|&b| b == 0));
            let mut other = PageCodec::new(keys(algorithm, 2));
            assert!(other.open(5, &sealed, &mut out).is_err());
        }
    }

    #[test]
    fn each_key_version_has_its_own_algorithm() {
        let second = |algorithm| {
            let mut both = keys(Algorithm::Aes256, 1);
            let dek = Arc::clone(&both.versions[0].dek);
            both.versions.push(DekVersion { version: 2, algorithm, dek });
            FileKeys { current: 2, ..both }
        };
        let (mut sealed, mut out) = (vec![vec![0; 1024]; 2], vec![0; 1024]);
        let plain = page_of(1024, 3);
        PageCodec::new(keys(Algorithm::Aes256, 1)).seal(5, &plain, &mut sealed[0]).unwrap();
        let mut codec = PageCodec::new(second(Algorithm::Aegis256X2));
        codec.seal(5, &plain, &mut sealed[1]).unwrap();
        for sealed in &sealed {
            codec.open(5, sealed, &mut out).unwrap();
            assert_eq!(out, plain);
        }
        let mut other = PageCodec::new(second(Algorithm::Aes256));
        other.open(5, &sealed[0], &mut out).unwrap();
        assert!(matches!(other.open(5, &sealed[1], &mut out), Err(PageError::Page { page: 5 })));
    }

    #[test]
    fn refuses_data_in_the_reserve() {
        let mut codec = PageCodec::new(keys(Algorithm::Aes256, 1));
        let mut plain = page_of(1024, 3);
        plain[1023] = 1;
        let sealed = codec.seal(2, &plain, &mut vec![0; 1024]);
        assert!(matches!(sealed, Err(PageError::ReserveInUse { page: 2 })));
    }

    #[test]
    fn every_flipped_bit_of_a_page_is_refused() {
        let mut codec = PageCodec::new(keys(Algorithm::Aes256, 1));
        let (mut sealed, mut out) = (vec![0; 1024], vec![0; 1024]);
        codec.seal(1, &page_of(1024, 9), &mut sealed).unwrap();
        for bit in 0..1024 * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert!(codec.open(1, &sealed, &mut out).is_err(), "bit {bit}");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
    }

    proptest! {
        #[test]
        fn round_trip(page in 1u32.., log2 in 10usize..=16, seed: u8) {
            let mut codec = PageCodec::new(keys(Algorithm::Aes256, 1));
            let plain = page_of(1 << log2, seed);
            let (mut sealed, mut out) = (vec![0; 1 << log2], vec![1; 1 << log2]);
            codec.seal(page, &plain, &mut sealed).unwrap();
            codec.open(page, &sealed, &mut out).unwrap();
            prop_assert_eq!(out, plain);
        }
    }
}
