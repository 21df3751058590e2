//! Several protectors of one master key, each of which opens the store alone.

use tdekit_key_crypto::password::PasswordParams;

use crate::error::StoreError;
use crate::file::{MAX_PROTECTORS, Protector};
use crate::provider::{Binding, Unlock, password_cost};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;

/// Minimum number of digits that identify a protector.
const MIN_ID_DIGITS: usize = 4;

impl KeyStore {
    /// Returns the only protector whose identifier begins with these hexadecimal digits, at least
    /// 4.
    ///
    /// # Errors
    /// `InvalidValue` for digits that match no protector or several.
    pub fn protector(&self, id: &str) -> Result<&Protector, StoreError> {
        Ok(named(&self.file().master_key.protectors, id)?.1)
    }
}

impl Unlocked {
    /// Adds `secret` to the secrets that open the store. The master key stays. `cost` is the cost
    /// of guessing a password.
    ///
    /// # Errors
    /// `AgentOnlyOpens`; `InvalidValue` when the store has 16 protectors; `BadSecret`,
    /// `InsecureFile`, `Locked`, `MasterKeyChanged`, `Io`.
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

    /// Removes one protector, identified by its identifier or the first digits of it (hexadecimal,
    /// at least 4).
    ///
    /// A different protector must have opened this store, which proves that it still opens
    /// afterwards.
    ///
    /// # Errors
    /// `InvalidValue` for the last protector, for the protector that opened the store, and for
    /// digits that match no protector or several; `Locked`, `MasterKeyChanged`, `Io`.
    pub fn remove_protector(&mut self, id: &str) -> Result<Protector, StoreError> {
        self.refuse_agent()?;
        let opened_by = self.opened_by();
        self.update(|file, _| {
            let protectors = &mut file.master_key.protectors;
            let refuse = |reason| Err(refused(id.to_owned(), reason));
            let (at, found) = named(protectors, id)?;
            if protectors.len() == 1 {
                return refuse("is the last one: nothing else opens the key store");
            }
            if opened_by == Some(found.id) {
                return refuse("opened the key store now: open it with another one to remove this");
            }
            Ok(protectors.remove(at))
        })
    }

    /// Seals the master key anew for one protector, identified as for [`Self::remove_protector`],
    /// with the secret that opens it: a key service then wraps with the newest version of its key.
    /// The protector gets a new identifier.
    ///
    /// # Errors
    /// `InvalidValue` where `id` matches no protector, several, or one of another kind than
    /// `secret`; those of opening with `secret`, where the old protector is left unchanged;
    /// `Locked`, `MasterKeyChanged`, `Io`.
    pub fn renew_protector(&mut self, id: &str, secret: &Unlock) -> Result<Protector, StoreError> {
        let old = self.store().protector(id)?.clone();
        let file = self.store().file();
        if old.kind != secret.kind() {
            let reason = "is of another kind than the secret that is configured";
            return Err(refused(id.to_owned(), reason));
        }
        let binding = Binding {
            store_id: file.store_id,
            master_key_id: file.master_key.id,
            protector_id: old.id,
            created_at: old.created_at,
        };
        // A secret of the right kind need not be the secret of this protector.
        let cost = password_cost(&old).unwrap_or_default();
        let opened = secret.with_provider(cost, |provider| provider.open(&old, &binding))?;
        if !self.is_master_key(&opened) {
            return Err(StoreError::MasterKeyChanged);
        }
        let new = self.protector(secret, cost)?;
        self.update(|file, _| {
            let mut all = file.master_key.protectors.iter_mut();
            match all.find(|protector| protector.id == old.id) {
                Some(place) => place.clone_from(&new),
                None => return Err(refused(id.to_owned(), "was removed meanwhile")),
            }
            Ok(new)
        })
    }
}

/// Returns the only protector whose identifier begins with these hexadecimal digits, and its index.
fn named<'a>(protectors: &'a [Protector], id: &str) -> Result<(usize, &'a Protector), StoreError> {
    let digits = id.to_ascii_lowercase();
    let refuse = |reason| Err(refused(id.to_owned(), reason));
    if digits.len() < MIN_ID_DIGITS {
        return refuse("needs at least 4 digits of the identifier");
    }
    let named = |protector: &Protector| hex::encode(protector.id).starts_with(&digits);
    let mut matching = (0..).zip(protectors).filter(|(_, found)| named(found));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => refuse("the key store has no such provider"),
        (Some(_), Some(_)) => refuse("names several: give more digits"),
    }
}

fn refused(value: String, reason: &'static str) -> StoreError {
    StoreError::InvalidValue { what: "provider", value, reason }
}
