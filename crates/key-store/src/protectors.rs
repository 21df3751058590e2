//! Several protectors of one master key: each opens the store by itself.

use tdekit_key_crypto::password::PasswordParams;

use crate::error::StoreError;
use crate::file::{MAX_PROTECTORS, Protector};
use crate::provider::Unlock;
use crate::unlocked::Unlocked;

/// Fewest digits of a protector's identifier that name it.
const MIN_ID_DIGITS: usize = 4;

impl Unlocked {
    /// Has `secret` open the store too, beside everything that opens it now. The master key stays.
    /// `cost` is that of guessing a password.
    ///
    /// # Errors
    /// `InvalidValue` when the store has 16 protectors; `BadSecret`, `InsecureFile`, `Locked`,
    /// `MasterKeyChanged`, `Io`.
    pub fn add_protector(
        &mut self,
        secret: &Unlock,
        cost: PasswordParams,
    ) -> Result<Protector, StoreError> {
        let protector = self.protector(secret, cost)?;
        self.update(|file, _| {
            let protectors = &mut file.master_key.protectors;
            if protectors.len() >= MAX_PROTECTORS {
                let reason = "the key store has 16, which is the most";
                return Err(refused(secret.kind().to_string(), reason));
            }
            protectors.push(protector.clone());
            Ok(protector)
        })
    }

    /// Takes away one protector, by its identifier or the first digits of it (hexadecimal, at
    /// least 4).
    ///
    /// Another protector must have opened this store: that proves that it still opens afterwards.
    ///
    /// # Errors
    /// `InvalidValue` for the last protector, for the one that opened the store, and for digits
    /// that name none or several; `Locked`, `MasterKeyChanged`, `Io`.
    pub fn remove_protector(&mut self, id: &str) -> Result<Protector, StoreError> {
        let opened_by = self.opened_by();
        let digits = id.to_ascii_lowercase();
        self.update(|file, _| {
            let protectors = &mut file.master_key.protectors;
            let refuse = |reason| Err(refused(id.to_owned(), reason));
            if digits.len() < MIN_ID_DIGITS {
                return refuse("needs at least 4 digits of the identifier");
            }
            let named = |protector: &Protector| hex::encode(protector.id).starts_with(&digits);
            let mut matching = (0..).zip(protectors.iter()).filter(|(_, found)| named(found));
            let (at, found) = match (matching.next(), matching.next()) {
                (Some(only), None) => only,
                (None, _) => return refuse("the key store has no such provider"),
                (Some(_), Some(_)) => return refuse("names several: give more digits"),
            };
            if protectors.len() == 1 {
                return refuse("is the last one: nothing else opens the key store");
            }
            if opened_by == Some(found.id) {
                return refuse("opened the key store now: open it with another one to remove this");
            }
            Ok(protectors.remove(at))
        })
    }
}

fn refused(value: String, reason: &'static str) -> StoreError {
    StoreError::InvalidValue { what: "provider", value, reason }
}
