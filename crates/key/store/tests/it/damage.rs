//! Damaged and forged store files: an error, never other content and never a panic.

use std::fs;

use crate::common::{key, store_with};
use proptest::prelude::*;
use tdekit_key_store::{
    FORMAT_VERSION, KeyStore, STORE_FILE_NAME, StoreError, StoreFile, Unlocked,
};

struct Sample {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    file: StoreFile,
}

impl Sample {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = store_with(dir.path(), &["AppCert", "Other"]);
        let bytes = fs::read(dir.path().join(STORE_FILE_NAME)).unwrap();
        Self { dir, bytes, file: store.store().file().clone() }
    }

    fn open(&self, bytes: &[u8]) -> Result<Unlocked, StoreError> {
        KeyStore::from_backup(self.dir.path(), bytes.to_vec())?.unlock(&key(1))
    }
}

/// Corrects the digest, as an attacker would.
fn with_right_digest(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = bytes.len() - 64;
    let digest = tdekit_key_crypto::sha256(&[&bytes[..at]]);
    bytes[at..at + 32].copy_from_slice(&digest);
    bytes
}

#[test]
fn every_flipped_bit_is_found() {
    let sample = Sample::new();
    assert_eq!(sample.open(&sample.bytes).unwrap().store().file(), &sample.file);
    let mut only_by_mac = 0;
    for bit in 0..sample.bytes.len() * 8 {
        let mut bytes = sample.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if StoreFile::decode(&bytes).is_ok() {
            only_by_mac += 1;
            assert!(sample.open(&bytes).is_err(), "bit {bit}");
        }
    }
    // The digest covers everything but the MAC's own bits.
    assert_eq!(only_by_mac, 256);
}

#[test]
fn every_flipped_bit_is_found_when_the_digest_is_made_right() {
    let sample = Sample::new();
    let covered = sample.bytes.len() - 64;
    // Every seventh bit reaches each byte, and over the bytes each bit position.
    for bit in (0..covered * 8).step_by(7) {
        let mut bytes = sample.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let bytes = with_right_digest(bytes);
        if StoreFile::decode(&bytes).is_ok() {
            assert!(sample.open(&bytes).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn every_truncation_and_extension_is_found() {
    let sample = Sample::new();
    for len in 0..sample.bytes.len() {
        assert!(StoreFile::decode(&sample.bytes[..len]).is_err(), "{len}");
    }
    let longer = [sample.bytes.as_slice(), &[0]].concat();
    assert!(StoreFile::decode(&longer).is_err());
    assert!(matches!(sample.open(b""), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_future_version_is_named() {
    let sample = Sample::new();
    let mut bytes = sample.bytes.clone();
    bytes[16..18].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    match sample.open(&bytes).unwrap_err() {
        StoreError::FutureVersion { found, supported } => assert_eq!((found, supported), (3, 2)),
        other => panic!("{other}"),
    }
}

/// Parts of one store are not valid in another, nor at another place of the same store.
#[test]
fn swapped_parts_are_found() {
    let (sample, other) = (Sample::new(), Sample::new());
    let forged = |change: &dyn Fn(&mut StoreFile)| {
        let mut file = sample.file.clone();
        change(&mut file);
        let mut mac = [0; 32];
        mac.copy_from_slice(&sample.bytes[sample.bytes.len() - 32..]);
        file.encode(|_| Ok(mac)).unwrap()
    };
    assert!(sample.open(&forged(&|_| ())).is_ok());
    let forgeries = [
        forged(&|file| file.certificates = other.file.certificates.clone()),
        forged(&|file| file.master_key = other.file.master_key.clone()),
        forged(&|file| file.certificates.swap(0, 1)),
        forged(&|file| file.certificates[0].sealed_private_key = None),
        forged(&|file| file.certificates[0].name = "Else".to_owned()),
        forged(&|file| file.sequence += 1),
        forged(&|file| file.store_id[0] ^= 1),
    ];
    for (index, bytes) in forgeries.iter().enumerate() {
        assert!(StoreFile::decode(bytes).is_ok(), "{index} is well formed");
        assert!(sample.open(bytes).is_err(), "{index}");
    }
}

#[test]
fn rules_between_records_are_checked() {
    let sample = Sample::new();
    let broken = |change: &dyn Fn(&mut StoreFile)| {
        let mut file = sample.file.clone();
        change(&mut file);
        file.encode(|_| Ok([0; 32])).is_err()
    };
    assert!(!broken(&|_| ()));
    assert!(broken(&|file| file.master_key.protectors.clear()));
    assert!(broken(&|file| file.certificates[0].generation = 0));
    assert!(broken(&|file| file.certificates[0].active = false));
    assert!(broken(&|file| file.certificates[1].name = file.certificates[0].name.clone()));
    assert!(broken(&|file| file.certificates.push(file.certificates[0].clone())));
    assert!(broken(&|file| file.certificates[0].name = "a\0b".to_owned()));
    assert!(broken(&|file| file.certificates[0].der = vec![0; 20_000]));
    assert!(broken(&|file| file.master_key.protectors[0].sealed = vec![0; 5000]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A file that decodes encodes to the same bytes.
    #[test]
    fn decoding_is_strict(
        at in 64usize..600,
        patch in proptest::collection::vec(any::<u8>(), 1..12),
        cut in 0usize..40,
    ) {
        let sample = shared();
        let mut bytes = sample.bytes.clone();
        for (offset, byte) in patch.iter().enumerate() {
            bytes[at + offset] = *byte;
        }
        bytes.drain(at..at + cut);
        let len = u32::try_from(bytes.len()).unwrap();
        bytes[20..24].copy_from_slice(&len.to_le_bytes());
        let bytes = with_right_digest(bytes);
        if let Ok(file) = StoreFile::decode(&bytes) {
            let mut mac = [0; 32];
            mac.copy_from_slice(&bytes[bytes.len() - 32..]);
            prop_assert_eq!(file.encode(|_| Ok(mac)).unwrap(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut with_magic = tdekit_key_store::MAGIC.to_vec();
        with_magic.extend_from_slice(&bytes);
        prop_assert!(StoreFile::decode(&bytes).is_err());
        prop_assert!(StoreFile::decode(&with_magic).is_err());
    }
}

fn shared() -> &'static Sample {
    static SAMPLE: std::sync::OnceLock<Sample> = std::sync::OnceLock::new();
    SAMPLE.get_or_init(Sample::new)
}
