//! Signatures on a set: the signed bytes, and the record of a signature.

use tdekit_key_crypto::sha256;

use crate::Digest;
use crate::bytes::{Reader, put_short};
use crate::error::{MediaError, Part};
use crate::frame::{RecordKind, RecordPlace, begin, finish, set_len};
use crate::hash::ContentHash;

/// Maximum length of a certificate in a signature record, in bytes of DER.
pub const MAX_CERTIFICATE_LEN: usize = 16 * 1024;
/// Maximum length of a signature in bytes: RSA of 8192 bits.
pub const MAX_SIGNATURE_LEN: usize = 1024;

const PART: Part = Part::RecordHeader;

/// A signature on an earlier set.
///
/// It covers the whole record of that set: its header and index through the trailer, and its blocks
/// through `content_sha256`. The checksums of an index would not suffice: others than the signer
/// could find other blocks with the same checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureHeader {
    /// Time of the signature, milliseconds since 1970-01-01 UTC.
    pub time_ms: i64,
    /// SHA-256 of the trailer of the signed set.
    pub trailer_sha256: Digest,
    /// The hash of its blocks.
    pub hash: ContentHash,
    /// [`ContentDigest`] of the signed set.
    pub content_sha256: Digest,
    /// The signer's certificate, X.509 DER.
    pub certificate: Vec<u8>,
    /// ECDSA with SHA-384 (DER), or RSASSA-PSS with SHA-256, over [`message`].
    pub signature: Vec<u8>,
}

impl SignatureHeader {
    /// Encodes the header.
    ///
    /// # Errors
    /// [`MediaError::Limit`].
    pub fn encode(&self, place: &RecordPlace) -> Result<Vec<u8>, MediaError> {
        let mut out = begin(RecordKind::Signature, place);
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        out.extend_from_slice(&self.trailer_sha256);
        out.extend_from_slice(&self.content_sha256);
        let what = "a certificate's length";
        put_short(&mut out, PART, what, &self.certificate, MAX_CERTIFICATE_LEN)?;
        put_short(&mut out, PART, "a signature's length", &self.signature, MAX_SIGNATURE_LEN)?;
        if self.hash != ContentHash::Sha256 {
            out.push(self.hash.version());
        }
        set_len(&mut out, 0)?;
        Ok(finish(out, None))
    }

    /// Returns the bytes that are signed, for the set that `place` names.
    #[must_use]
    pub fn message(&self, place: &RecordPlace) -> Vec<u8> {
        message(self.hash, place, &self.trailer_sha256, &self.content_sha256)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        Ok(Self {
            time_ms: reader.i64()?,
            trailer_sha256: reader.array()?,
            content_sha256: reader.array()?,
            certificate: reader.short("a certificate's length", MAX_CERTIFICATE_LEN)?.to_vec(),
            signature: reader.short("a signature's length", MAX_SIGNATURE_LEN)?.to_vec(),
            hash: read_hash(reader)?,
        })
    }
}

/// Reads the version after the last field of version 1.
fn read_hash(reader: &mut Reader<'_>) -> Result<ContentHash, MediaError> {
    if reader.rest_len() == 0 {
        return Ok(ContentHash::Sha256);
    }
    let hash = ContentHash::of_version(reader.u8()?).filter(|hash| *hash != ContentHash::Sha256);
    hash.ok_or(MediaError::malformed(PART, "a signature of a version that is not known"))
}

/// Returns the bytes that are signed, for the set that `place` names.
#[must_use]
pub fn message(
    hash: ContentHash,
    place: &RecordPlace,
    trailer_sha256: &Digest,
    content_sha256: &Digest,
) -> Vec<u8> {
    [hash.label(), &place.media_id, &place.set_id, trailer_sha256, content_sha256].concat()
}

/// The digest of all blocks of a set in one family: SHA-256 over the result of
/// [`ContentHash::of_block`] for each, in order.
#[derive(Debug, Default)]
pub struct ContentDigest(Vec<u8>);

impl ContentDigest {
    /// Starts a digest without blocks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the digest of the next block.
    pub fn push(&mut self, block_digest: &Digest) {
        self.0.extend_from_slice(block_digest);
    }

    /// Returns the digest.
    #[must_use]
    pub fn finish(self) -> Digest {
        sha256(&[&self.0])
    }
}
