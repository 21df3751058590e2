//! Errors of a key store, as facts with fields.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::{CryptoError, Kind};

use crate::protector_kind::ProtectorKind;

/// An error of the key store. No variant carries a secret.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Neither `TDEKIT_HOME` nor a home directory locates the store.
    #[error("there is no home directory, so the place of the key store is not known")]
    NoHome,
    /// There is no store at this place.
    #[error("there is no key store at {}", .path.display())]
    Missing {
        /// Expected path of the store file.
        path: PathBuf,
    },
    /// The operation would overwrite a store.
    #[error("there is a key store already at {}", .path.display())]
    AlreadyExists {
        /// The existing store file.
        path: PathBuf,
    },
    /// The password does not open the master key.
    #[error("wrong password for the key store")]
    WrongPassword,
    /// The key material does not open the master key.
    #[error("the key from {origin} does not open the key store")]
    WrongKey {
        /// Origin of the key: a file's path or a variable's name.
        origin: String,
    },
    /// No provider of the master key's secret is configured.
    #[error("nothing is configured to open the key store, which needs {}", Listing(.accepts))]
    NoProvider {
        /// The kinds of secret that open the store.
        accepts: Vec<ProtectorKind>,
    },
    /// The store does not use the kind of secret that was given.
    #[error("the key store is opened with {}, not with {offered}", Listing(.accepts))]
    ProviderMismatch {
        /// The kind of secret that was given.
        offered: ProtectorKind,
        /// The kinds of secret that open the store.
        accepts: Vec<ProtectorKind>,
    },
    /// An agent that keeps a password's hash has none that opens the store.
    #[error("the agent at {}: {reason}", .socket.display())]
    Agent {
        /// Its socket.
        socket: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// An agent's answer opened the store, and an operation would change or add a protector.
    #[error("an agent only opens the key store; this needs the password or key itself")]
    AgentOnlyOpens,
    /// A password or key cannot be used as it is.
    #[error("{origin}: {reason}")]
    BadSecret {
        /// Origin of the secret: a file's path or a variable's name.
        origin: String,
        /// The fault, in words.
        reason: &'static str,
    },
    /// A key service failed to wrap or unwrap.
    #[error("{service}: {reason}{}", Others(.others))]
    Service {
        /// The key and its service.
        service: String,
        /// The fault and the attempts, in words.
        reason: String,
        /// The other kinds of secret that open the store.
        others: Vec<ProtectorKind>,
    },
    /// The key that opens the store differs from the configured key of the key service.
    #[error("the key store is opened with the key {stored}, and {configured} is configured")]
    OtherServiceKey {
        /// Name of the configured key.
        configured: String,
        /// Name of the key in the store.
        stored: String,
    },
    /// No program is configured to ask key services.
    #[error(
        "no program is configured to ask {service}: TDEKIT_PROGRAM, or `program` under [unlock], \
         names tdekit by its whole path"
    )]
    NoServiceProgram {
        /// The key and its service.
        service: String,
    },
    /// A file with a secret, or a directory above it, belongs to another user.
    #[error("{} belongs to user {owner}, who could change it", .path.display())]
    ForeignOwner {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others could read or change a file with a secret.
    #[error("{} has mode {mode:04o}: others could {threat} it", .path.display())]
    InsecureFile {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The possible abuse of the file by others: "read" or "change".
        threat: &'static str,
    },
    /// A configuration file in the store's directory is not valid.
    #[error("{}: {reason}", .path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// None of these certificates is in the store.
    #[error("the key store has no certificate {}", .wanted.join(", "))]
    CertificateMissing {
        /// The requested names or thumbprints.
        wanted: Vec<String>,
    },
    /// Certificate files were given that belong to a different certificate.
    #[error(
        "the key was wrapped for {}, not for the certificate that was given, {given}",
        .wanted.join(", ")
    )]
    OtherCertificate {
        /// SHA-1 thumbprint of the certificate that was given.
        given: String,
        /// Thumbprints of the certificates that open it.
        wanted: Vec<String>,
    },
    /// The store has the certificate, but not its private key.
    #[error("the key store has certificate {name} ({thumbprint}) without its private key")]
    PrivateKeyMissing {
        /// The certificate's name.
        name: String,
        /// Its SHA-1 thumbprint.
        thumbprint: String,
    },
    /// The name or thumbprint is in use.
    #[error("the key store already has certificate {name}")]
    CertificateExists {
        /// The name, or name and thumbprint, in use.
        name: String,
    },
    /// The certificate may no longer wrap new keys.
    #[error("certificate {name} expired at {expired_at}")]
    CertificateExpired {
        /// The certificate's name.
        name: String,
        /// End of its validity, ISO 8601.
        expired_at: String,
    },
    /// The certificate still wraps keys of known files.
    #[error("certificate {name} still wraps the keys of {}", InUse(.files, *.forgotten))]
    CertificateInUse {
        /// The certificate's name.
        name: String,
        /// The files, at their last known paths.
        files: Vec<PathBuf>,
        /// Number of files that were not at their last known path and are no longer listed.
        forgotten: u64,
    },
    /// The only copy of a private key would be lost.
    #[error("certificate {name} ({thumbprint}) is in no backup")]
    NotBackedUp {
        /// The certificate's name.
        name: String,
        /// Its SHA-1 thumbprint.
        thumbprint: String,
    },
    /// A certificate or private key cannot be used.
    #[error("{origin}: {reason}")]
    BadCertificate {
        /// Its origin.
        origin: String,
        /// The fault, in words.
        reason: String,
    },
    /// The password of a backup file is wrong.
    #[error("wrong password for the backup {origin}")]
    WrongBackupPassword {
        /// The backup file.
        origin: String,
    },
    /// A private key does not belong to the certificate it came with.
    #[error("the private key does not belong to certificate {thumbprint}")]
    KeyMismatch {
        /// SHA-1 thumbprint of the certificate.
        thumbprint: String,
    },
    /// A name or option of a certificate is not allowed.
    #[error("{what} {value:?}: {reason}")]
    InvalidValue {
        /// The use of the value: "certificate name", "subject".
        what: &'static str,
        /// The value.
        value: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A key was wrapped by a mechanism that this program does not support.
    #[error("the key was wrapped by mechanism {mechanism}, which this program does not know")]
    UnknownMechanism {
        /// Identifier recorded beside the wrapped key.
        mechanism: u16,
    },
    /// A wrapped key, addressed to a certificate of this store, does not open.
    #[error("the key wrapped by certificate {thumbprint} is damaged")]
    WrappedKeyDamaged {
        /// SHA-1 thumbprint of the certificate.
        thumbprint: String,
    },
    /// The store file, a wrapped key or a backup is damaged or was tampered with.
    #[error("the key store is damaged: {field}: {reason}")]
    Corrupt {
        /// The damaged part.
        field: &'static str,
        /// The fault, in words.
        reason: String,
    },
    /// The store was written by a newer program.
    #[error("the key store has format version {found}; this program reads up to {supported}")]
    FutureVersion {
        /// Version in the file.
        found: u16,
        /// Newest version that this program knows.
        supported: u16,
    },
    /// Another process is changing the store.
    #[error("another process{} is changing the key store {}", Holder(.holder), .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Process that holds the lock, where known.
        holder: Option<u32>,
    },
    /// Another process is making the same file.
    #[error("{} is being written by another process", .path.display())]
    BeingWritten {
        /// The file.
        path: PathBuf,
    },
    /// A file exists at the place of the new one.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The master key was changed after this process opened the store.
    #[error("the master key was rotated since the key store was opened")]
    MasterKeyChanged,
    /// The store has several protectors, and the change would keep only one of them.
    #[error("{count} secrets open the key store, and all but one would be lost")]
    SeveralProtectors {
        /// Number of protectors.
        count: usize,
    },
    /// A backup belongs to a different store than the existing one.
    #[error("the backup is of another key store than {}", .path.display())]
    DifferentStore {
        /// The existing store file.
        path: PathBuf,
    },
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The operation that failed: "read", "write", "rename".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An event that must be in the audit log could not be written there.
    #[error("the key store's audit log cannot record it, so it is not done: {error}")]
    NotLogged {
        /// The cause.
        error: Box<StoreError>,
    },
    /// A cryptographic library refused something that should not fail.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl StoreError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoHome | Self::Config { .. } | Self::InvalidValue { .. } => Kind::Usage,
            Self::AlreadyExists { .. }
            | Self::Exists { .. }
            | Self::CertificateExists { .. }
            | Self::DifferentStore { .. }
            | Self::SeveralProtectors { .. } => Kind::Refused,
            Self::Crypto(error) => error.kind(),
            Self::NotLogged { error } => error.kind(),
            Self::Missing { .. }
            | Self::WrongPassword
            | Self::WrongKey { .. }
            | Self::NoProvider { .. }
            | Self::Agent { .. }
            | Self::AgentOnlyOpens
            | Self::ProviderMismatch { .. }
            | Self::BadSecret { .. }
            | Self::Service { .. }
            | Self::OtherServiceKey { .. }
            | Self::NoServiceProgram { .. }
            | Self::InsecureFile { .. }
            | Self::ForeignOwner { .. }
            | Self::CertificateMissing { .. }
            | Self::PrivateKeyMissing { .. }
            | Self::OtherCertificate { .. }
            | Self::CertificateExpired { .. }
            | Self::CertificateInUse { .. }
            | Self::NotBackedUp { .. }
            | Self::WrongBackupPassword { .. }
            | Self::KeyMismatch { .. } => Kind::Key,
            Self::BadCertificate { .. }
            | Self::UnknownMechanism { .. }
            | Self::WrappedKeyDamaged { .. }
            | Self::Corrupt { .. }
            | Self::FutureVersion { .. } => Kind::Damaged,
            Self::Locked { .. } | Self::BeingWritten { .. } | Self::MasterKeyChanged => Kind::Busy,
            Self::Io { .. } => Kind::Io,
        }
    }

    pub(crate) fn corrupt(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Corrupt { field, reason: reason.into() }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

struct Listing<'a>(&'a [ProtectorKind]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " or " };
            write!(f, "{separator}{kind}")?;
        }
        Ok(())
    }
}

struct Others<'a>(&'a [ProtectorKind]);

impl fmt::Display for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            others => write!(f, "; {} opens the key store too", Listing(others)),
        }
    }
}

struct Files<'a>(&'a [PathBuf]);

impl fmt::Display for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        for (index, path) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", path.display())?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Files by name, and the number of files whose name is no longer known.
struct InUse<'a>(&'a [PathBuf], u64);

impl fmt::Display for InUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(files, forgotten) = *self;
        Files(files).fmt(f)?;
        let and = if files.is_empty() { "" } else { ", and of " };
        match forgotten {
            0 => Ok(()),
            count => write!(f, "{and}{count} file(s) that were moved or deleted"),
        }
    }
}

struct Holder<'a>(&'a Option<u32>);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, " (pid {pid})"),
            None => Ok(()),
        }
    }
}
