//! Stream ciphers, which the derivation of keys determines.
//!
//! Logs under versions of keys from before the online cipher are in counter mode, for as long as
//! there are such logs. The version decides; nothing is found by trial.

use tdekit_key_crypto::{CryptoError, CtrKey, CtrStream, OnlineKey, OnlineStream};

use crate::PluginError;
use crate::derive::Derivation;

/// A prepared key of streams.
pub(crate) enum StreamKey {
    Counter(CtrKey),
    Online(OnlineKey),
}

/// Position in a stream. Plain data, as secret as the plaintext.
pub(crate) enum Stream {
    Counter(CtrStream),
    Online(OnlineStream),
}

impl StreamKey {
    /// Returns the length of a key in bytes.
    pub(crate) const fn len(derivation: Derivation) -> usize {
        match derivation {
            Derivation::Counter => CtrKey::KEY_LEN,
            Derivation::Online | Derivation::Gmac => OnlineKey::KEY_LEN,
        }
    }

    /// Prepares a key of [`Self::len`] bytes.
    pub(crate) fn new(derivation: Derivation, key: &[u8]) -> Result<Self, CryptoError> {
        match derivation {
            Derivation::Counter => CtrKey::new(key).map(Self::Counter),
            Derivation::Online | Derivation::Gmac => OnlineKey::new(key).map(Self::Online),
        }
    }

    /// Starts a stream. Only counter mode has lanes.
    #[inline]
    pub(crate) fn begin(&self, iv: &[u8; 16], encrypts: bool, lane: u64) -> Stream {
        match (self, encrypts) {
            (Self::Counter(key), _) => Stream::Counter(key.stream(iv, lane)),
            (Self::Online(key), true) => Stream::Online(key.encryptor(iv)),
            (Self::Online(key), false) => Stream::Online(key.decryptor(iv)),
        }
    }

    /// Takes the next piece; `output` has the length that [`Stream::ready_len`] returned.
    #[inline]
    pub(crate) fn update(
        &self,
        stream: &mut Stream,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), PluginError> {
        match (self, stream) {
            (Self::Counter(key), Stream::Counter(stream)) => Ok(key.apply(stream, input, output)?),
            (Self::Online(key), Stream::Online(stream)) => Ok(key.update(stream, input, output)?),
            _ => Err(PluginError::Call { what: "another key's stream", len: input.len() }),
        }
    }

    /// Writes the bytes that a stream held back; `output` has the length that [`Stream::tail_len`]
    /// returned.
    #[inline]
    pub(crate) fn finish(&self, stream: &mut Stream, output: &mut [u8]) -> Result<(), PluginError> {
        match (self, stream) {
            (Self::Counter(_), Stream::Counter(_)) => Ok(()),
            (Self::Online(key), Stream::Online(stream)) => Ok(key.finish(stream, output)?),
            _ => Err(PluginError::Call { what: "another key's stream", len: output.len() }),
        }
    }
}

impl Stream {
    /// Returns the length of the output for the next `input_len` bytes.
    #[inline]
    pub(crate) fn ready_len(&self, input_len: usize) -> usize {
        match self {
            Self::Counter(_) => input_len,
            Self::Online(stream) => stream.ready_len(input_len),
        }
    }

    /// Returns the number of bytes held back.
    #[inline]
    pub(crate) fn tail_len(&self) -> usize {
        match self {
            Self::Counter(_) => 0,
            Self::Online(stream) => stream.tail_len(),
        }
    }
}
