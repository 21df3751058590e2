//! Every cryptographic primitive that tdekit uses, each from a library.
//!
//! No other crate of the workspace names a cryptographic library. The constructions are in
//! `docs/crypto.md`.

mod aes_gcm;
mod aes_polyval;
pub mod algorithm;
mod aws_lc;
pub mod block;
pub mod ctr;
pub mod digest;
pub mod ec;
pub mod error;
pub mod fingerprint;
pub mod fips;
pub mod fork;
pub mod gcm;
mod gmac_hash;
mod hctr2;
pub mod host_aes;
mod key_pair;
mod kind;
mod libaegis;
mod md5;
mod memory;
pub mod nonce;
pub mod online;
pub mod password;
#[cfg(feature = "certificate-files")]
mod pbes2;
pub mod pem;
pub mod pkcs12;
pub mod rsa;
pub mod sealing;
pub mod secret;
mod subkey;
pub mod tls;
pub mod token;
pub mod triple_des;
pub mod wide_block;
pub mod wrap;
pub mod x509;
mod xctr;

pub use aes_gcm::{GcmLibrary, gcm_library};
pub use algorithm::Algorithm;
pub use block::aes256_block;
pub use ctr::{CtrKey, CtrStream};
pub use digest::{
    NamedDigest, blake3, hkdf_sha256, hmac_sha256, sha1_thumbprint, sha256, verify_hmac_sha256,
};
pub use error::CryptoError;
pub use fingerprint::PageFingerprint;
pub use fork::fork_generation;
pub use key_pair::{KeyAlgorithm, KeyType, PrivateKey, PublicKey};
pub use kind::Kind;
pub use memory::secrets_are_locked;
pub use nonce::{NonceSource, random_bytes};
pub use online::{OnlineKey, OnlineStream};
pub use sealing::{NONCE_LEN, SealingKey, TAG_LEN};
pub use secret::SecretBytes;
pub use wide_block::WideBlockKey;
