//! A key in a hardware token, through PKCS#11 (OASIS, version 2.40 and newer).
//!
//! The token wraps and unwraps one small secret with a key that never leaves it: AES-GCM with a
//! nonce of 12 bytes and a tag of 16, or RSA-OAEP. The module is code that this process loads and
//! runs: its path must come from a place that nobody else can write.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;

use crate::{CryptoError, SecretBytes, random_bytes};

/// Length of the nonce in front of an AES-GCM ciphertext.
const IV_LEN: usize = 12;
const TAG_BITS: u64 = 128;
/// Maximum length of a secret: it fits OAEP under RSA of 2048 bits.
const MAX_SECRET_LEN: usize = 64;

/// The mechanism by which a token wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenWrap {
    /// AES-GCM: nonce (12 bytes), ciphertext, tag (16).
    AesGcm,
    /// RSAES-OAEP, SHA-256 for digest and MGF1, empty label.
    RsaOaepSha256,
    /// RSAES-OAEP, SHA-1 for digest and MGF1, empty label: for tokens that support nothing else.
    RsaOaepSha1,
}

/// A token whose user is logged in. The session ends with it.
pub struct Token {
    session: Session,
    label: String,
}

impl Token {
    /// Logs in to the token with this label. The module is loaded once and stays loaded.
    ///
    /// A wrong PIN is tried only once: tokens lock themselves after a few attempts.
    ///
    /// # Errors
    /// `TokenModule`, `TokenMissing`, `TokenPin`, `Token`.
    pub fn open(module: &Path, label: &str, pin: &SecretBytes) -> Result<Self, CryptoError> {
        let pkcs11 = started(module)?;
        let failed = |operation| {
            move |error: Error| CryptoError::Token {
                token: label.to_owned(),
                operation,
                reason: words(&error),
            }
        };
        let slots = pkcs11.get_slots_with_initialized_token().map_err(failed("be found"))?;
        let is_named = |slot: &_| {
            pkcs11.get_token_info(*slot).is_ok_and(|info| info.label().trim_end() == label)
        };
        let slot = slots.into_iter().find(is_named).ok_or_else(|| CryptoError::TokenMissing {
            module: module.display().to_string(),
            token: label.to_owned(),
        })?;
        let session = pkcs11.open_rw_session(slot).map_err(failed("open a session"))?;
        let refused = |reason| CryptoError::TokenPin { token: label.to_owned(), reason };
        let text = std::str::from_utf8(pin.expose()).map_err(|_| refused("the PIN is no text"))?;
        match session.login(UserType::User, Some(&AuthPin::new(text.into()))) {
            // The program that loaded us may have logged in already.
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => {}
            Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinLenRange, _)) => {
                return Err(refused("wrong PIN"));
            }
            Err(Error::Pkcs11(RvError::PinLocked, _)) => return Err(refused("its PIN is locked")),
            Err(Error::Pkcs11(RvError::PinExpired, _)) => {
                return Err(refused("its PIN has expired"));
            }
            Err(error) => return Err(failed("log in")(error)),
        }
        Ok(Self { session, label: label.to_owned() })
    }

    /// Generates an AES-256 key in the token. It cannot be read or extracted.
    ///
    /// # Errors
    /// `TokenKey` where a key with this label exists, `Token`.
    pub fn generate(&self, key: &str) -> Result<(), CryptoError> {
        let named = [Attribute::Label(key.as_bytes().to_vec())];
        let there = self.session.find_objects(&named).map_err(self.failed("look for its keys"))?;
        if !there.is_empty() {
            let (token, key) = (self.label.clone(), key.to_owned());
            let (operation, count, wanted) = ("making a new one", there.len(), 0);
            return Err(CryptoError::TokenKey { token, key, operation, count, wanted });
        }
        let template = [
            Attribute::Label(key.as_bytes().to_vec()),
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::Encrypt(true),
            Attribute::Decrypt(true),
            Attribute::ValueLen(32_u64.into()),
        ];
        let made = self.session.generate_key(&Mechanism::AesKeyGen, &template);
        made.map(drop).map_err(self.failed("make a key"))
    }

    /// Wraps a secret of at most 64 bytes with the AES or RSA key of this label, and unwraps it
    /// again, so that the result is known to open. AES binds `aad`; RSA does not.
    ///
    /// # Errors
    /// `TokenKey` where there is no such key or several; `Token`, `Length`, `Random`.
    pub fn wrap(
        &self,
        key: &str,
        secret: &SecretBytes,
        aad: &[u8],
    ) -> Result<(TokenWrap, Vec<u8>), CryptoError> {
        if secret.len() > MAX_SECRET_LEN {
            let (what, actual) = ("a secret for a token", secret.len());
            return Err(CryptoError::Length { what, min: 1, max: MAX_SECRET_LEN, actual });
        }
        let (how, blob) = match self.find(key, ObjectClass::SECRET_KEY, KeyType::AES)?.as_slice() {
            [aes] => (TokenWrap::AesGcm, self.wrap_by_aes(*aes, secret, aad)?),
            [] => self.wrap_by_rsa(key, secret)?,
            several => return Err(self.wrong_count(key, "wrapping", several.len())),
        };
        if !self.unwrap(key, how, &blob, aad)?.ct_eq(secret.expose()) {
            return Err(CryptoError::Token {
                token: self.label.clone(),
                operation: "unwrap what it wrapped",
                reason: "it gives another secret".to_owned(),
            });
        }
        Ok((how, blob))
    }

    /// Unwraps the output of [`Self::wrap`].
    ///
    /// # Errors
    /// `TokenKey` where there is no such key or several; `TokenUnwrap` where the label belongs to a
    /// different key now; `Token`, `Malformed`, `Memory`.
    pub fn unwrap(
        &self,
        key: &str,
        how: TokenWrap,
        blob: &[u8],
        aad: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        let (class, kind) = match how {
            TokenWrap::AesGcm => (ObjectClass::SECRET_KEY, KeyType::AES),
            _ => (ObjectClass::PRIVATE_KEY, KeyType::RSA),
        };
        let handle = match self.find(key, class, kind)?.as_slice() {
            [one] => *one,
            other => return Err(self.wrong_count(key, "unwrapping", other.len())),
        };
        let plain = match how {
            TokenWrap::AesGcm => {
                let Some((iv, sealed)) = blob.split_first_chunk::<IV_LEN>() else {
                    let (what, reason) = ("wrapped secret", "too short".to_owned());
                    return Err(CryptoError::Malformed { what, reason });
                };
                let mut iv = *iv;
                let gcm = self.gcm(&mut iv, aad)?;
                self.session.decrypt(&Mechanism::AesGcm(gcm), handle, sealed)
            }
            TokenWrap::RsaOaepSha256 | TokenWrap::RsaOaepSha1 => {
                self.session.decrypt(&Mechanism::RsaPkcsOaep(oaep(how)), handle, blob)
            }
        };
        let mut plain = plain.map_err(|error| self.not_unwrapped(key, error))?;
        let secret = SecretBytes::from_slice(&plain);
        zeroize::Zeroize::zeroize(&mut plain);
        secret
    }

    fn wrap_by_aes(
        &self,
        key: ObjectHandle,
        secret: &SecretBytes,
        aad: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        let mut iv = [0; IV_LEN];
        random_bytes(&mut iv)?;
        let mut blob = iv.to_vec();
        let gcm = self.gcm(&mut iv, aad)?;
        let sealed = self.session.encrypt(&Mechanism::AesGcm(gcm), key, secret.expose());
        blob.extend(sealed.map_err(self.failed("wrap by AES-GCM"))?);
        Ok(blob)
    }

    fn wrap_by_rsa(
        &self,
        key: &str,
        secret: &SecretBytes,
    ) -> Result<(TokenWrap, Vec<u8>), CryptoError> {
        let public = match self.find(key, ObjectClass::PUBLIC_KEY, KeyType::RSA)?.as_slice() {
            [one] => *one,
            other => return Err(self.wrong_count(key, "wrapping", other.len())),
        };
        let wrap =
            |how| self.session.encrypt(&Mechanism::RsaPkcsOaep(oaep(how)), public, secret.expose());
        if let Ok(blob) = wrap(TokenWrap::RsaOaepSha256) {
            return Ok((TokenWrap::RsaOaepSha256, blob));
        }
        let blob = wrap(TokenWrap::RsaOaepSha1).map_err(self.failed("wrap by RSA-OAEP"))?;
        Ok((TokenWrap::RsaOaepSha1, blob))
    }

    fn find(
        &self,
        key: &str,
        class: ObjectClass,
        kind: KeyType,
    ) -> Result<Vec<ObjectHandle>, CryptoError> {
        let wanted = [
            Attribute::Class(class),
            Attribute::KeyType(kind),
            Attribute::Label(key.as_bytes().to_vec()),
        ];
        self.session.find_objects(&wanted).map_err(self.failed("look for its keys"))
    }

    fn gcm<'a>(&self, iv: &'a mut [u8], aad: &'a [u8]) -> Result<GcmParams<'a>, CryptoError> {
        GcmParams::new(iv, aad, TAG_BITS.into()).map_err(self.failed("take the parameters of GCM"))
    }

    fn wrong_count(&self, key: &str, operation: &'static str, count: usize) -> CryptoError {
        let (token, key) = (self.label.clone(), key.to_owned());
        CryptoError::TokenKey { token, key, operation, count, wanted: 1 }
    }

    /// Tokens report a key that does not fit in many ways; SoftHSM returns `GeneralError`. The
    /// remaining errors concern the token itself.
    fn not_unwrapped(&self, key: &str, error: Error) -> CryptoError {
        use RvError::{
            DeviceError, DeviceMemory, DeviceRemoved, HostMemory, SessionClosed,
            SessionHandleInvalid, TokenNotPresent, UserNotLoggedIn,
        };
        match &error {
            Error::Pkcs11(
                HostMemory | DeviceError | DeviceMemory | DeviceRemoved | SessionClosed
                | SessionHandleInvalid | TokenNotPresent | UserNotLoggedIn,
                _,
            ) => self.failed("unwrap the secret")(error),
            Error::Pkcs11(..) => {
                let (token, key) = (self.label.clone(), key.to_owned());
                CryptoError::TokenUnwrap { token, key, reason: words(&error) }
            }
            _ => self.failed("unwrap the secret")(error),
        }
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(Error) -> CryptoError {
        let token = self.label.clone();
        move |error| CryptoError::Token { token, operation, reason: words(&error) }
    }
}

fn oaep(how: TokenWrap) -> PkcsOaepParams<'static> {
    let (digest, mgf) = match how {
        TokenWrap::RsaOaepSha1 => (MechanismType::SHA1, PkcsMgfType::MGF1_SHA1),
        _ => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
    };
    PkcsOaepParams::new(digest, mgf, PkcsOaepSource::empty())
}

/// Returns the module, loaded and initialized.
///
/// It is never unloaded or finalized: its threads may still run, and the program that loaded us may
/// use the same module. A child after `fork` initializes it again, as PKCS#11 requires.
fn started(module: &Path) -> Result<Pkcs11, CryptoError> {
    static LOADED: Mutex<Option<HashMap<PathBuf, (u32, Pkcs11)>>> = Mutex::new(None);
    let failed = |error: Error| CryptoError::TokenModule {
        module: module.display().to_string(),
        reason: words(&error),
    };
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let me = std::process::id();
    let pkcs11 = match loaded.get(module) {
        Some((process, pkcs11)) if *process == me => return Ok(pkcs11.clone()),
        Some((_, pkcs11)) => pkcs11.clone(),
        None => Pkcs11::new(module).map_err(failed)?,
    };
    match pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(failed(error)),
    }
    loaded.insert(module.to_owned(), (me, pkcs11.clone()));
    Ok(pkcs11)
}

/// Formats a PKCS#11 answer by its name, which its documents explain, and other errors in words.
fn words(error: &Error) -> String {
    match error {
        Error::Pkcs11(answer, _) => format!("{answer:?}"),
        other => other.to_string(),
    }
}
