//! Files of keys beside the store: a listing on the first line, and on the second a signature over
//! it by a certificate of the store. Both are JSON.

use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::x509;

use crate::audit::AuditEvent;
use crate::certificate::CertificateInfo;
use crate::disk;
use crate::error::StoreError;
use crate::lock::{self, WriterLock};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;
use crate::wrapped::WrappedDek;

const MAX_BYTES: u64 = 64 << 20;
const MAX_WRAPPED: usize = 16;

/// The fixed facts of one kind of file.
pub(crate) struct SignedFormat {
    /// The part that errors name.
    pub(crate) field: &'static str,
    /// The value of the listing's field `format`.
    pub(crate) format: &'static str,
    /// The newest version that this program reads.
    pub(crate) version: u16,
    /// Precedes the listing in the signed message.
    pub(crate) label: &'static [u8],
}

/// A listing of keys.
pub(crate) trait SignedListing: Sized + PartialEq {
    const FORMAT: SignedFormat;

    /// Reads the first line, whose signature was checked.
    fn decode(payload: &[u8], signer: [u8; 32]) -> Result<Self, StoreError>;

    /// Returns the first line without its line end.
    fn encode(&self) -> Result<Vec<u8>, StoreError>;

    /// Random bytes that identify the file and never change.
    fn file_id(&self) -> [u8; 16];

    /// Counts a write, which this certificate signs.
    fn written_by(&mut self, signer: [u8; 32]);

    /// The wrapped keys of the listing.
    fn wrapped(&self) -> Box<dyn Iterator<Item = &WrappedDek> + '_>;

    /// SHA-256 of each certificate that wraps a key, each once.
    fn certificates(&self) -> Vec<[u8; 32]> {
        let mut all: Vec<_> = self.wrapped().map(|one| one.sha256).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl KeyStore {
    /// Reads a file and checks its signature. `None` if there is no file.
    pub(crate) fn read_signed<T: SignedListing>(
        &self,
        path: &Path,
    ) -> Result<Option<T>, StoreError> {
        match disk::read_ordinary(path, MAX_BYTES)? {
            Some(bytes) => self.decode_signed(&bytes).map(Some),
            None => Ok(None),
        }
    }

    fn decode_signed<T: SignedListing>(&self, bytes: &[u8]) -> Result<T, StoreError> {
        let kind = T::FORMAT;
        let (payload, signed) = kind.split_lines(bytes)?;
        let Head { format, version } = kind.parse_json(payload)?;
        if format != kind.format {
            return Err(kind.corrupt(&format_args!("its format is not {:?}", kind.format)));
        }
        if version > kind.version {
            return Err(StoreError::FutureVersion { found: version, supported: kind.version });
        }
        let signed: Signed = kind.parse_json(signed)?;
        let signer: [u8; 32] = kind.unhex(&signed.certificate)?;
        let info = self.by_sha256(&signer).ok_or_else(|| StoreError::CertificateMissing {
            wanted: vec![signed.certificate.clone()],
        })?;
        let facts = x509::parse(self.der_of(info)?)?;
        let signature = hex::decode(&signed.signature).map_err(|error| kind.corrupt(&error))?;
        if !facts.public_key.verifies(&[kind.label, payload].concat(), &signature) {
            return Err(kind.corrupt("its signature does not hold"));
        }
        T::decode(payload, signer)
    }

    fn der_of(&self, info: &CertificateInfo) -> Result<&[u8], StoreError> {
        let missing = || StoreError::CertificateMissing { wanted: vec![info.thumbprint()] };
        self.record(&info.sha256).map(|record| record.der.as_slice()).ok_or_else(missing)
    }
}

impl Unlocked {
    /// Changes the current file on disk, under the writer lock, and signs it. `change` returns its
    /// result and the entries for the audit log.
    pub(crate) fn change_signed<T: SignedListing, R>(
        &self,
        path: &Path,
        signer: &str,
        new: impl FnOnce() -> Result<T, StoreError>,
        change: impl FnOnce(&mut T) -> Result<(R, Vec<AuditEvent>), StoreError>,
    ) -> Result<(T, R), StoreError> {
        let (listing, result) = {
            let _lock = WriterLock::acquire(self.store().dir(), lock::WAIT)?;
            let mut listing = match self.store().read_signed(path)? {
                Some(listing) => listing,
                None => new()?,
            };
            let (result, events) = change(&mut listing)?;
            self.log_locked(&events)?;
            let info = self.store().find(signer)?;
            listing.written_by(info.sha256);
            let bytes = self.encode_signed(&listing, info)?;
            // Read back before it is written: an unreadable file must not replace a readable one.
            if self.store().decode_signed::<T>(&bytes)? != listing {
                return Err(T::FORMAT.corrupt("it would not be read back as it is"));
            }
            disk::replace(path, &bytes, &disk::go_on)?;
            (listing, result)
        };
        for sha256 in listing.certificates() {
            self.store().record_use(&sha256, listing.file_id(), path)?;
        }
        Ok((listing, result))
    }

    /// Forgets that certificates other than `name_or_thumbprint` wrap keys of a rewrapped file.
    pub(crate) fn forget_stale<T: SignedListing>(
        &self,
        path: &Path,
        name_or_thumbprint: &str,
        before: Option<&T>,
        after: &T,
    ) -> Result<(), StoreError> {
        let current = self.store().find(name_or_thumbprint)?.sha256;
        let stale = before.into_iter().flat_map(T::certificates);
        for sha256 in stale.filter(|sha256| *sha256 != current) {
            self.store().forget_use(&sha256, after.file_id(), path)?;
        }
        Ok(())
    }

    fn encode_signed<T: SignedListing>(
        &self,
        listing: &T,
        info: &CertificateInfo,
    ) -> Result<Vec<u8>, StoreError> {
        let payload = listing.encode()?;
        let message = [T::FORMAT.label, &payload].concat();
        let signature = self.private_key(info)?.sign(&message)?;
        let signed =
            Signed { certificate: hex::encode(info.sha256), signature: hex::encode(signature) };
        Ok([payload.as_slice(), b"\n", &T::FORMAT.to_json(&signed)?, b"\n"].concat())
    }
}

impl SignedFormat {
    pub(crate) fn corrupt(&self, reason: &(impl Display + ?Sized)) -> StoreError {
        StoreError::corrupt(self.field, reason.to_string())
    }

    pub(crate) fn to_json(&self, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
        serde_json::to_vec(value).map_err(|error| self.corrupt(&error))
    }

    pub(crate) fn parse_json<'a, T: Deserialize<'a>>(
        &self,
        bytes: &'a [u8],
    ) -> Result<T, StoreError> {
        serde_json::from_slice(bytes).map_err(|error| self.corrupt(&error))
    }

    pub(crate) fn unhex<const N: usize>(&self, text: &str) -> Result<[u8; N], StoreError> {
        let mut bytes = [0; N];
        hex::decode_to_slice(text, &mut bytes).map_err(|error| self.corrupt(&error))?;
        Ok(bytes)
    }

    /// Reads the wrapped forms of one key, from hexadecimal digits.
    pub(crate) fn unhex_wrapped(&self, all: &[String]) -> Result<Vec<WrappedDek>, StoreError> {
        if all.is_empty() || all.len() > MAX_WRAPPED {
            return Err(self.corrupt("a key is wrapped by none, or by too many certificates"));
        }
        let unhex = |text: &String| -> Result<WrappedDek, StoreError> {
            let bytes = hex::decode(text).map_err(|error| self.corrupt(&error))?;
            match WrappedDek::decode(&bytes)? {
                (wrapped, len) if len == bytes.len() => Ok(wrapped),
                _ => Err(self.corrupt("a wrapped key has bytes too many")),
            }
        };
        all.iter().map(unhex).collect()
    }

    /// Splits the file into its two lines, without their line ends.
    fn split_lines<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), StoreError> {
        let torn = || self.corrupt("it has not two lines");
        let body = bytes.strip_suffix(b"\n").ok_or_else(torn)?;
        let mut lines = body.split(|byte| *byte == b'\n');
        match (lines.next(), lines.next(), lines.next()) {
            (Some(payload), Some(signed), None) => Ok((payload, signed)),
            _ => Err(torn()),
        }
    }
}

/// Returns the wrapped forms of one key in hexadecimal digits.
pub(crate) fn hex_wrapped(all: &[WrappedDek]) -> Result<Vec<String>, StoreError> {
    all.iter().map(|one| Ok(hex::encode(one.encode()?))).collect()
}

/// The fields at the beginning of every version of a format.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u16,
}

/// The second line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    certificate: String,
    signature: String,
}
