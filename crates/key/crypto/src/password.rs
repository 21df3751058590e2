//! Keys from passwords: Argon2id (RFC 9106).

use argon2::{Algorithm, Argon2, Error, Params, Version};

use crate::{CryptoError, SecretBytes, fips};

/// Length of a salt in bytes.
pub const SALT_LEN: usize = 16;

/// Length of stored parameters in bytes.
pub const PARAMS_LEN: usize = 16;

/// The cost of guessing a password. Stored beside the salt, and bounded when read, so that a
/// hostile file cannot consume all memory or hours of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordParams {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Default for PasswordParams {
    /// 64 MiB, 3 passes, 1 lane.
    fn default() -> Self {
        Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 }
    }
}

impl PasswordParams {
    /// Minimum and maximum memory, in KiB.
    pub const MEMORY_KIB: (u32, u32) = (8 * 1024, 1024 * 1024);
    /// Minimum and maximum number of passes.
    pub const PASSES: (u32, u32) = (1, 64);
    /// Minimum and maximum number of lanes.
    pub const LANES: (u32, u32) = (1, 16);

    /// Identifier of Argon2id version 0x13 in stored parameters.
    const ARGON2ID: u32 = 1;

    /// Makes parameters and checks their bounds.
    ///
    /// # Errors
    /// [`CryptoError::Parameter`] for a parameter out of bounds.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, CryptoError> {
        check("password memory in KiB", memory_kib, Self::MEMORY_KIB)?;
        check("password passes", passes, Self::PASSES)?;
        check("password lanes", lanes, Self::LANES)?;
        Ok(Self { memory_kib, passes, lanes })
    }

    /// Memory in KiB.
    #[must_use]
    pub fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory.
    #[must_use]
    pub fn passes(self) -> u32 {
        self.passes
    }

    /// Lanes.
    #[must_use]
    pub fn lanes(self) -> u32 {
        self.lanes
    }

    /// Returns the stored form: function (1 = Argon2id), memory in KiB, passes, lanes; each a
    /// little-endian `u32`.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PARAMS_LEN] {
        let mut bytes = [0; PARAMS_LEN];
        let words = [Self::ARGON2ID, self.memory_kib, self.passes, self.lanes];
        for (field, word) in bytes.chunks_exact_mut(4).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads and checks the stored form.
    ///
    /// # Errors
    /// [`CryptoError::Parameter`] for an unknown function or a cost out of bounds.
    pub fn from_bytes(bytes: &[u8; PARAMS_LEN]) -> Result<Self, CryptoError> {
        let [a, b, c, d] = [0, 4, 8, 12]
            .map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        check("password function", a, (Self::ARGON2ID, Self::ARGON2ID))?;
        Self::new(b, c, d)
    }
}

/// Derives a key of `len` bytes from a password.
///
/// # Errors
/// [`CryptoError::Length`] for a key shorter than 16 or longer than 64 bytes;
/// [`CryptoError::Memory`].
pub fn derive_key(
    password: &[u8],
    salt: &[u8; SALT_LEN],
    params: PasswordParams,
    len: usize,
) -> Result<SecretBytes, CryptoError> {
    if !(16..=64).contains(&len) {
        return Err(CryptoError::Length { what: "derived key", min: 16, max: 64, actual: len });
    }
    fips::not_approved("Argon2id")?;
    let failed = |_| CryptoError::Library { operation: "derive a key from a password" };
    let memory_bytes = params.memory_kib as usize * 1024;
    let params = Params::new(params.memory_kib, params.passes, params.lanes, Some(len));
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.map_err(failed)?);
    let mut key = SecretBytes::new_zeroed(len)?;
    argon2.hash_password_into(password, salt, key.expose_mut()).map_err(|error| match error {
        Error::OutOfMemory => CryptoError::Memory { len: memory_bytes, os_error: libc::ENOMEM },
        other => failed(other),
    })?;
    Ok(key)
}

fn check(what: &'static str, actual: u32, (min, max): (u32, u32)) -> Result<(), CryptoError> {
    if (min..=max).contains(&actual) {
        return Ok(());
    }
    let (min, max, actual) = (min.into(), max.into(), actual.into());
    Err(CryptoError::Parameter { what, min, max, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_costs_are_bounded() {
        let stored = |words: [u32; 4]| -> [u8; PARAMS_LEN] {
            let mut bytes = [0; PARAMS_LEN];
            for (field, word) in bytes.chunks_exact_mut(4).zip(words) {
                field.copy_from_slice(&word.to_le_bytes());
            }
            bytes
        };
        let default = PasswordParams::default();
        assert_eq!(default.to_bytes(), stored([1, 65536, 3, 1]));
        assert_eq!(PasswordParams::from_bytes(&stored([1, 65536, 3, 1])), Ok(default));
        for bad in [
            [0, 65536, 3, 1],
            [2, 65536, 3, 1],
            [1, 8191, 3, 1],
            [1, 1024 * 1024 + 1, 3, 1],
            [1, u32::MAX, 3, 1],
            [1, 65536, 0, 1],
            [1, 65536, 65, 1],
            [1, 65536, 3, 0],
            [1, 65536, 3, 17],
        ] {
            let read = PasswordParams::from_bytes(&stored(bad));
            assert!(matches!(read, Err(CryptoError::Parameter { .. })), "{bad:?}");
        }
    }

    #[test]
    fn keys_have_bounded_lengths() {
        let params = PasswordParams::new(8192, 1, 1).unwrap();
        for len in [0, 15, 65, usize::MAX] {
            let key = derive_key(b"password", &[0; SALT_LEN], params, len);
            assert!(matches!(key, Err(CryptoError::Length { actual, .. }) if actual == len));
        }
    }
}
