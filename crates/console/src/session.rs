//! Opening the key store for a command, and the secrets that commands ask for.

use std::env;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use tdekit_backup_run::Operator;
use tdekit_key_crypto::secrets_are_locked;
use tdekit_key_store::{
    KeyStore, Pin, ProtectorKind, SecretBytes, StoreError, Unlock, Unlocked, read_password_file,
    token_key, unlocks_from_environment,
};

use crate::error::ConsoleError;
use crate::global::GlobalArgs;
use crate::output;
use crate::prompt::secret;
pub use crate::prompt::{Ask, on_terminal, prompt};

/// Returns the directory of the key store.
pub fn store_dir(global: &GlobalArgs) -> Result<PathBuf, ConsoleError> {
    Ok(global.access().dir()?)
}

/// As [`store_dir`], for a command that keeps other things there than keys.
pub fn kept_dir(global: &GlobalArgs) -> Result<PathBuf, ConsoleError> {
    Ok(global.access().kept_dir()?)
}

/// Reads the key store; needs no secret.
pub fn open_store(global: &GlobalArgs) -> Result<KeyStore, ConsoleError> {
    let operator: &dyn Operator = global;
    Ok(operator.open_store()?)
}

/// Reads the key store and opens its master key with a secret from the arguments, the environment,
/// the configuration file or the user at the terminal, in this order.
pub fn open_unlocked_store(global: &GlobalArgs) -> Result<Unlocked, ConsoleError> {
    Ok(open_by_one_of(global, global.access().secrets()?)?.0)
}

/// As [`open_unlocked_store`], for changes of the protectors: an agent is not accepted. Also
/// returns the secret that opened it.
pub fn open_with_secret(global: &GlobalArgs) -> Result<(Unlocked, Unlock), ConsoleError> {
    let mut secrets = global.access().secrets()?;
    let given = secrets.len();
    secrets.retain(|secret| !matches!(secret, Unlock::Agent(_)));
    match secrets.is_empty() && given > 0 && !on_terminal() {
        true => Err(StoreError::AgentOnlyOpens.into()),
        false => open_by_one_of(global, secrets),
    }
}

fn open_by_one_of(
    global: &GlobalArgs,
    secrets: Vec<Unlock>,
) -> Result<(Unlocked, Unlock), ConsoleError> {
    warn_of_swap();
    let store = open_store(global)?;
    let accepts = store.accepts();
    let secret = match store.choose(secrets) {
        Some(secret) => ready(&store, secret)?,
        None if accepts.contains(&ProtectorKind::Password) && on_terminal() => {
            Unlock::Password(prompt("Password of the key store", Ask::Existing)?)
        }
        None => return Err(StoreError::NoProvider { accepts }.into()),
    };
    Ok((store.unlock(&secret)?, secret))
}

/// Returns the secret of one kind from the environment or the configuration file.
pub fn configured_secret(store: &KeyStore, kind: ProtectorKind) -> Result<Unlock, ConsoleError> {
    let secrets = unlocks_from_environment(store.dir())?;
    match secrets.into_iter().find(|secret| secret.kind() == kind) {
        Some(secret) => ready(store, secret),
        None => Err(StoreError::NoProvider { accepts: vec![kind] }.into()),
    }
}

/// Warns once if keys are not locked in memory.
fn warn_of_swap() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        if !secrets_are_locked() {
            output::warning(
                "keys are not locked in memory and could get into swap: RLIMIT_MEMLOCK \
                 (`ulimit -l`) is too small",
            );
        }
    });
}

/// Completes a token's access: its PIN may have to be asked for, and new seals use the key that
/// opens the store.
fn ready(store: &KeyStore, secret: Unlock) -> Result<Unlock, ConsoleError> {
    let Unlock::Token(mut access) = secret else { return Ok(secret) };
    if access.pin.is_none() {
        access.pin = Some(token_pin()?);
    }
    access.new_key = store.file().master_key.protectors.iter().find_map(token_key);
    Ok(Unlock::Token(access))
}

/// As [`open_unlocked_store`], but never prompts.
pub fn open_unlocked_store_unasked(global: &GlobalArgs) -> Result<Unlocked, ConsoleError> {
    warn_of_swap();
    Ok(global.access().unlock(&open_store(global)?)?)
}

/// Returns the secret for a new store.
pub fn secret_to_set(global: &GlobalArgs) -> Result<Unlock, ConsoleError> {
    warn_of_swap();
    let secrets = global.access().secrets()?;
    let has_token = secrets.iter().any(|secret| matches!(secret, Unlock::Token(_)));
    // An agent only opens, and no setting names a token's key.
    let sets = |secret: &Unlock| !matches!(secret, Unlock::Agent(_) | Unlock::Token(_));
    match secrets.into_iter().find(sets) {
        Some(secret) => {
            warn_weak(&secret)?;
            Ok(secret)
        }
        None if on_terminal() => {
            Ok(Unlock::Password(prompt("New password of the key store", Ask::New)?))
        }
        None => Err(ConsoleError::NoSecret {
            what: "password or key for the new key store",
            ways: match has_token {
                true => {
                    "a key store begins with a password or a key file (`--key-file FILE \
                     --generate-key-file`); then `tdekit key provider add pkcs11` adds the token"
                }
                false => "`tdekit --help` lists the ways to give one",
            },
        }),
    }
}

/// Warns of a new password that can be guessed quickly.
pub fn warn_weak(secret: &Unlock) -> Result<(), ConsoleError> {
    match secret {
        Unlock::Password(password) => output::warn_short_password(password),
        // A pipe can be read only once.
        Unlock::PasswordFile(path) if path.is_file() => {
            output::warn_short_password(&read_password_file(path)?);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the password of a backup, from its file, `TDEKIT_BACKUP_PASSWORD` or the terminal.
pub fn backup_password(file: Option<&Path>, ask: Ask) -> Result<SecretBytes, ConsoleError> {
    let missing = ConsoleError::NoSecret {
        what: "password for the backup",
        ways: "give it with --backup-password-file or TDEKIT_BACKUP_PASSWORD, or on a terminal",
    };
    given_secret(file, "TDEKIT_BACKUP_PASSWORD", "Password of the backup", ask, missing)
}

/// Returns the key of a database that another program encrypted, from its file, `TDEKIT_OLD_KEY` or
/// the terminal.
pub fn old_key(file: Option<&Path>) -> Result<SecretBytes, ConsoleError> {
    let missing = ConsoleError::NoSecret {
        what: "key of the old database",
        ways: "give it with --old-key-file or TDEKIT_OLD_KEY, or on a terminal",
    };
    given_secret(file, "TDEKIT_OLD_KEY", "Key of the old database", Ask::Existing, missing)
}

fn given_secret(
    file: Option<&Path>,
    variable: &str,
    question: &str,
    ask: Ask,
    missing: ConsoleError,
) -> Result<SecretBytes, ConsoleError> {
    let warned = |password: SecretBytes| {
        if ask == Ask::New {
            output::warn_short_password(&password);
        }
        password
    };
    if let Some(file) = file {
        return Ok(warned(read_password_file(file)?));
    }
    let value = env::var_os(variable).filter(|value| !value.is_empty());
    if let Some(password) = value {
        return secret(password.into_vec()).map(warned);
    }
    if on_terminal() {
        return prompt(question, ask);
    }
    Err(missing)
}

/// Returns the PIN of a token, from `TDEKIT_PKCS11_PIN`, the file that `TDEKIT_PKCS11_PIN_FILE`
/// names, or the terminal.
pub fn token_pin() -> Result<Pin, ConsoleError> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(pin) = variable("TDEKIT_PKCS11_PIN") {
        return Ok(Pin::Given(secret(pin.into_vec())?));
    }
    if let Some(path) = variable("TDEKIT_PKCS11_PIN_FILE") {
        return Ok(Pin::File(path.into()));
    }
    if on_terminal() {
        return Ok(Pin::Given(prompt("PIN of the token", Ask::Existing)?));
    }
    Err(ConsoleError::NoSecret {
        what: "PIN of the token",
        ways: "give it with TDEKIT_PKCS11_PIN_FILE or TDEKIT_PKCS11_PIN, or on a terminal",
    })
}
