//! Inputs that a target's parser reads to the end: where the fuzzer and the tests start from.

use tdekit_key_store::{
    CertificateRecord, MasterKeyRecord, Protector, ProtectorKind, StoreFile, WrapMechanism,
    WrappedDek,
};
use tdekit_rest_page::header::{MAGIC, commitment, decode_slot};
use tdekit_rest_page::{DekEntry, Header, PageSize};

use crate::{DIGEST_BYTES, MAC_BYTES, STORE_LENGTH, dek};
use tdekit_key_crypto::Algorithm;

/// A target's name and an input to it.
pub type Seed = (&'static str, Vec<u8>);

/// One seed for each target that does not make its own valid input.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    vec![("keystore", keystore()), ("wrapped_dek", wrapped_dek()), ("header", header())]
}

/// What follows the length field of a store file, up to the digest.
fn keystore() -> Vec<u8> {
    let certificate = |generation, active| CertificateRecord {
        name: "AppCert".into(),
        generation,
        active,
        created_at: 1_700_000_000,
        backed_up_at: active.then_some(1_700_000_100),
        der: vec![generation.to_le_bytes()[0]; 40],
        sealed_private_key: active.then(|| vec![6; 60]),
    };
    let protector = Protector {
        id: [8; 16],
        created_at: 1_700_000_000,
        kind: ProtectorKind::Password,
        params: vec![1; 24],
        sealed: vec![2; 60],
    };
    let file = StoreFile {
        store_id: [1; 16],
        sequence: 5,
        written_at: 1_700_000_200,
        master_key: MasterKeyRecord {
            id: [2; 16],
            created_at: 1_700_000_000,
            protectors: vec![protector],
        },
        certificates: vec![certificate(1, false), certificate(2, true)],
    };
    let bytes = file.encode(|_| Ok([0; MAC_BYTES])).unwrap();
    bytes[STORE_LENGTH.end..bytes.len() - DIGEST_BYTES - MAC_BYTES].to_vec()
}

fn wrapped_dek() -> Vec<u8> {
    let wrapped = WrappedDek {
        mechanism: WrapMechanism::RsaOaepSha256,
        sha256: [1; 32],
        sha1: [2; 20],
        public_key_sha256: [3; 32],
        blob: vec![4; 384],
    };
    wrapped.encode().unwrap()
}

/// The body of a slot behind its magic.
fn header() -> Vec<u8> {
    let entry = |version| DekEntry {
        version,
        created_unix_s: 1_700_000_000,
        commitment: commitment(&dek(), &[4; 16], Algorithm::Aes256).unwrap(),
        recipients: vec![wrapped_dek(), wrapped_dek()],
    };
    let header = Header {
        sequence: 3,
        file_id: [4; 16],
        algorithm: Algorithm::Aes256,
        page_size: PageSize::new(4096).unwrap(),
        current: 2,
        deks: vec![entry(1), entry(2)],
    };
    let slot = header.encode_slot(&dek()).unwrap();
    let (_, length) = decode_slot(&slot).unwrap();
    slot[MAGIC.len()..length].to_vec()
}
