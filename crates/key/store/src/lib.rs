//! The key hierarchy on disk: master key, certificates, wrapped database encryption keys.
//!
//! A [`KeyStore`] is read without a secret and wraps keys; [`KeyStore::unlock`] opens the master
//! key and returns an [`Unlocked`] store, which unwraps keys and makes every change. The format is
//! in `docs/format/keystore.md`.

mod access;
mod audit;
mod audit_log;
mod backup;
mod bytes;
mod certificate;
mod clock;
mod derive;
mod disk;
mod error;
mod file;
mod lock;
mod manage;
mod mark;
mod named_keys;
mod parent;
mod protector_kind;
mod protectors;
mod provider;
mod server_keys;
mod signed_file;
mod store;
#[cfg(test)]
mod tests;
mod transfer;
mod unlocked;
mod unlocking;
mod uses;
mod variables;
mod way;
mod workplace;
mod wrapped;

pub use access::StoreAccess;
pub use audit::{
    AUDIT_VERSION, AuditAction, AuditCertificate, AuditEvent, AuditKey, AuditRecord, AuditSubject,
    MAX_AUDIT_LINE_BYTES,
};
pub use audit_log::{AuditDatabase, AuditFault, AuditReport};
pub use backup::{RestoreOutcome, Restored, restore};
pub use certificate::CertificateInfo;
pub use clock::{expires_soon, iso8601, now_seconds};
pub use disk::give_to_owner_of_directory;
pub use disk::{is_side, open_ordinary, read_limited, read_ordinary, replace_with_mode, write_new};
pub use error::StoreError;
pub use file::{
    AuditAnchor, AuditMark, CertificateRecord, FORMAT_VERSION, MAGIC, MAX_FILE_BYTES,
    MAX_NAME_BYTES, MasterKeyRecord, Protector, StoreFile,
};
pub use manage::{NewCertificate, Rotation};
pub use mark::{MARK_FILE, read_mark, write_mark};
pub use named_keys::{
    FileKey, KeyName, MAX_KEY_NAME_LEN, MAX_NAMED_KEY_LEN, NAMED_KEYS, NamedKey, NamedKeys, NewKey,
    is_key_listing, namespace_of,
};
pub use protector_kind::ProtectorKind;
pub use provider::{
    AGENT_VARIABLE, AgentKey, AgentQuestion, AwsKmsKey, AwsProfile, BackupPolicy, Binding,
    CONFIG_FILE_NAME, KeyService, MIN_KEY_BYTES, OverviewConfig, Pin, Provider, RetentionConfig,
    ServiceAccess, ServiceAnswer, ServiceKeyName, ServiceOperation, ServiceRequest, TokenAccess,
    TokenKey, Unlock, VaultKey, ask_services_by_this_program, backup_policy, check_code_file,
    check_opened_code, check_private_file, generate_key_file, generate_token_key, overview_config,
    password_cost, read_key_file, read_password_file, read_private_file, retention_config,
    serve_drives, service_key, service_unlock, token_key, unlocks_from_configuration,
    unlocks_from_environment,
};
pub use server_keys::{
    FIRST_DERIVATION, NEWEST_DERIVATION, PageCipher, SERVER_KEY_LEN, SERVER_KEYS_FILE_NAME,
    ServerKeyVersion, ServerKeys,
};
pub use store::{HISTORY_FILE_NAME, KeyStore, STORE_FILE_NAME, default_dir, is_history};
pub use tdekit_key_crypto::password::PasswordParams;
pub use tdekit_key_crypto::{KeyType, SecretBytes};
pub use transfer::{CertificateBackup, PemBackup, read_certificate_file};
pub use unlocked::Unlocked;
pub use uses::{USES_FILE_NAME, Use};
pub use variables::{as_header, check_token_file, misspelt_variables, trimmed_variables};
pub use way::led_to;
pub use workplace::{Workplace, is_workplace};
pub use wrapped::{MAX_BLOB_BYTES, WrapMechanism, WrappedDek, thumbprint};
