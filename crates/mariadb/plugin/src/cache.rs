//! Prepared keys, found without a lock.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tdekit_key_crypto::gcm::GcmKey;
use tdekit_key_crypto::{CryptoError, WideBlockKey};

use crate::PluginError;
use crate::derive::{Purpose, ServerKey, Use, derive};
use crate::keyring::Keyring;
use crate::stream::StreamKey;
use crate::wide;

/// Maximum length of a key that the server passes, in bytes.
pub(crate) const MAX_PASSED_LEN: usize = 32;
/// Number of bytes of an IV on which a key may depend.
pub(crate) const EXTRA_LEN: usize = 4;

const SHARDS: usize = 64;
/// Maximum number of prepared keys in a shard. Each takes some pages of locked memory; a missing
/// key is derived again in a few microseconds.
const MAX_IN_SHARD: usize = 64;

/// The look-up key of a prepared key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) id: u32,
    pub(crate) version: u32,
    pub(crate) of: Use,
    passed_len: u8,
    passed: [u8; MAX_PASSED_LEN],
    extra: [u8; EXTRA_LEN],
}

impl Name {
    /// Makes the name of the key for `of` under the key that the server passed; `extra` matters
    /// only for [`Use::Sealed`].
    pub(crate) fn new(
        id: u32,
        version: u32,
        of: Use,
        passed: &[u8],
        extra: [u8; EXTRA_LEN],
    ) -> Result<Self, PluginError> {
        let call = || PluginError::Call { what: "a key", len: passed.len() };
        let mut bytes = [0; MAX_PASSED_LEN];
        bytes.get_mut(..passed.len()).ok_or_else(call)?.copy_from_slice(passed);
        let passed_len = u8::try_from(passed.len()).map_err(|_| call())?;
        let extra = if of == Use::Sealed { extra } else { [0; EXTRA_LEN] };
        Ok(Self { id, version, of, passed_len, passed: bytes, extra })
    }

    fn purpose(&self) -> Purpose<'_> {
        let passed = &self.passed[..usize::from(self.passed_len)];
        let extra: &[u8] = if self.of == Use::Sealed { &self.extra } else { &[] };
        Purpose { id: self.id, version: self.version, of: self.of, passed, extra }
    }
}

impl Hash for Name {
    /// The server passes the output of a cipher or random bytes, so any 8 of them are well
    /// distributed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut word = [0; 8];
        word.copy_from_slice(&self.passed[..8]);
        let place = u64::from(self.id) << 32 | u64::from(self.version);
        let extra = u64::from(u32::from_le_bytes(self.extra)) << 8 | self.of as u64;
        state.write_u64(u64::from_le_bytes(word) ^ place ^ extra.rotate_left(17));
    }
}

/// A key that is ready for use.
pub(crate) struct Prepared {
    pub(crate) key: Key,
    /// True if messages used this key that cannot be pages of the format `full_crc32`: then it is
    /// not the key of such a tablespace.
    pub(crate) has_records: AtomicBool,
    /// True if it was used since the shard was last evicted.
    used: AtomicBool,
}

/// A key, by its purpose.
pub(crate) enum Key {
    /// Messages in one piece, and the records of the redo log.
    Message { wide: WideBlockKey, records: StreamKey },
    /// Events of binary logs.
    Stream(StreamKey),
    /// Sealed messages.
    Sealed(GcmKey),
}

impl Key {
    fn derive(server_key: &ServerKey, name: &Name) -> Result<Self, CryptoError> {
        let purpose = name.purpose();
        let derivation = server_key.derivation;
        match name.of {
            Use::Message => {
                let wide_len = wide::key_len(derivation);
                let keys = derive(server_key, purpose, wide_len + StreamKey::len(derivation))?;
                let (wide, records) = keys.expose().split_at(wide_len);
                let wide = wide::prepare(derivation, wide)?;
                Ok(Self::Message { wide, records: StreamKey::new(derivation, records)? })
            }
            Use::Stream => {
                let key = derive(server_key, purpose, StreamKey::len(derivation))?;
                Ok(Self::Stream(StreamKey::new(derivation, key.expose())?))
            }
            Use::Sealed | Use::Handle => {
                let key = derive(server_key, purpose, GcmKey::KEY_LEN)?;
                Ok(Self::Sealed(GcmKey::new(key.expose())?))
            }
        }
    }
}

type Shard = HashMap<Name, Arc<Prepared>, Spread>;

/// Prepared keys by name.
pub(crate) struct Cache {
    shards: [ArcSwap<Shard>; SHARDS],
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| ArcSwap::from_pointee(Shard::default())) }
    }

    /// Calls `f` with the key of this name, preparing it first if necessary.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        keyring: &Keyring,
        name: &Name,
        f: impl FnOnce(&Prepared) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let hash = Spread.hash_one(name);
        // The map takes its bucket from the low bits and a check from the high ones.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        if let Some(prepared) = shard.load().get(name) {
            if !prepared.used.load(Ordering::Relaxed) {
                prepared.used.store(true, Ordering::Relaxed);
            }
            return f(prepared);
        }
        let prepared = Self::prepare(shard, keyring, name)?;
        f(&prepared)
    }

    #[cold]
    fn prepare(
        shard: &ArcSwap<Shard>,
        keyring: &Keyring,
        name: &Name,
    ) -> Result<Arc<Prepared>, PluginError> {
        let server_key = keyring.key(name.id, name.version)?;
        let prepared = Arc::new(Prepared {
            key: Key::derive(&server_key, name)?,
            has_records: AtomicBool::new(false),
            used: AtomicBool::new(true),
        });
        shard.rcu(|shard| {
            let mut next = Shard::clone(shard);
            if next.len() >= MAX_IN_SHARD {
                // Second chance: keys that were used since the last eviction stay.
                next.retain(|_, prepared| prepared.used.swap(false, Ordering::Relaxed));
                if next.len() >= MAX_IN_SHARD {
                    next.clear();
                }
            }
            next.insert(*name, Arc::clone(&prepared));
            next
        });
        Ok(prepared)
    }
}

/// A hasher of one word that is already well distributed.
#[derive(Clone, Copy, Default)]
struct Spread;

impl BuildHasher for Spread {
    type Hasher = Word;

    fn build_hasher(&self) -> Word {
        Word(0)
    }
}

struct Word(u64);

impl Hasher for Word {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // The multiplier of Fibonacci hashing; the fold also moves its good high bits down.
        let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
