//! The interface of the front end to its server: databases, keys, backups, figures.
//!
//! One method for each verb; the options of a statement are in a separate struct. A verb that a
//! host does not implement returns [`crate::Error::NotSupportedFeature`].

mod files;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rusqlite::Connection;
use tdekit_wire_tds::{Message, SqlType, Value};

use crate::error::{Error, Result};
use crate::name::same;
pub use files::{CreateDatabase, DatabaseFile, DatabaseState, Directory, ModifyFile};

/// A database of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// `database_id`: master 1, tempdb 2, model 3, msdb 4, others from 5.
    pub id: i32,
    /// True if encrypted at rest, or being encrypted.
    pub encrypted: bool,
    /// Whether it can be used.
    pub state: DatabaseState,
    /// Its recovery model.
    pub recovery: Recovery,
}

/// A database's file that a session opens, until this is dropped.
pub struct Opening {
    /// The argument of SQLite's ATTACH: an absolute path, or a `file:` URI of one.
    pub uri: String,
    /// Keeps the file from being replaced, where the host can do that.
    pub held: Box<dyn Any>,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// A login of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub name: String,
    /// Its identifier, by which users of databases belong to it. Not empty.
    pub sid: Vec<u8>,
    /// True for a member of the server role sysadmin, who may do everything.
    pub sysadmin: bool,
}

/// The recovery models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Log backups can be made.
    Full,
    /// As `Full`.
    BulkLogged,
    /// There are no log backups.
    #[default]
    Simple,
}

impl Recovery {
    /// Returns the model with this name, regardless of case.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Full, Self::BulkLogged, Self::Simple];
        all.into_iter().find(|model| model.name().eq_ignore_ascii_case(name))
    }

    /// Returns its name, as in `sys.databases.recovery_model_desc`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::BulkLogged => "BULK_LOGGED",
            Self::Simple => "SIMPLE",
        }
    }

    /// Returns its number, as in `sys.databases.recovery_model`.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Full => 1,
            Self::BulkLogged => 2,
            Self::Simple => 3,
        }
    }
}

/// `CREATE CERTIFICATE`: `name` and the options of its WITH.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateCertificate {
    /// The certificate's name.
    pub name: String,
    /// `SUBJECT`.
    pub subject: String,
    /// `EXPIRY_DATE` as written.
    pub expiry_date: Option<String>,
    /// `START_DATE` as written.
    pub start_date: Option<String>,
    /// `FROM FILE`: the certificate is read instead of made.
    pub file: Option<String>,
    /// `WITH PRIVATE KEY (FILE = ..)`.
    pub key_file: Option<String>,
    /// `DECRYPTION BY PASSWORD`.
    pub decryption_password: Option<String>,
    /// `ENCRYPTION BY PASSWORD`: of the private key, in place of the master key.
    pub encryption_password: Option<String>,
    /// `FORMAT = 'PFX'`: the file is a PKCS#12 with the private key.
    pub pfx: bool,
}

/// `BACKUP CERTIFICATE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateBackup {
    /// The certificate's name.
    pub name: String,
    /// `TO FILE`.
    pub file: String,
    /// `PRIVATE KEY (FILE = ..)`.
    pub key_file: Option<String>,
    /// `ENCRYPTION BY PASSWORD`.
    pub encryption_password: Option<String>,
    /// `DECRYPTION BY PASSWORD`.
    pub decryption_password: Option<String>,
    /// `FORMAT = 'PFX'`: one file holds both.
    pub pfx: bool,
}

/// `CREATE DATABASE ENCRYPTION KEY` and `ALTER DATABASE ENCRYPTION KEY`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncryptionKey {
    /// `ALGORITHM`, or None to keep it (ALTER .. ENCRYPTION BY).
    pub algorithm: Option<String>,
    /// `ENCRYPTION BY SERVER CERTIFICATE`.
    pub certificate: Option<String>,
    /// `REGENERATE`.
    pub regenerate: bool,
}

/// A change by `ALTER DATABASE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterDatabase {
    /// `SET ENCRYPTION ON`.
    EncryptionOn,
    /// `SET ENCRYPTION OFF`.
    EncryptionOff,
    /// `SET ENCRYPTION SUSPEND`.
    EncryptionSuspend,
    /// `SET ENCRYPTION RESUME`.
    EncryptionResume,
    /// `SET RECOVERY FULL | BULK_LOGGED | SIMPLE`.
    Recovery(String),
    /// Another `SET` option with its value, in upper case.
    Set(String, String),
    /// `MODIFY FILE (..)`.
    ModifyFile(ModifyFile),
}

/// `ENCRYPTION (ALGORITHM = .., SERVER CERTIFICATE = ..)` of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupEncryption {
    /// The algorithm's name.
    pub algorithm: String,
    /// The certificate's name.
    pub certificate: String,
}

/// Target or source of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device<S> {
    /// `DISK = ..`.
    Disk(S),
    /// `URL = ..`.
    Url(S),
}

/// `BACKUP DATABASE` and `BACKUP LOG`. `S` is a string, or the operand that evaluates to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup<S = String> {
    /// The database.
    pub database: S,
    /// `TO`.
    pub devices: Vec<Device<S>>,
    /// `INIT` (true) or `NOINIT`.
    pub init: bool,
    /// `FORMAT` (true) or `NOFORMAT`.
    pub format: bool,
    /// `COMPRESSION` or `NO_COMPRESSION`, if specified.
    pub compression: Option<bool>,
    /// `BACKUP LOG`.
    pub log: bool,
    /// `DIFFERENTIAL`.
    pub differential: bool,
    /// `COPY_ONLY`.
    pub copy_only: bool,
    /// `CHECKSUM`, if specified.
    pub checksum: Option<bool>,
    /// `ENCRYPTION`.
    pub encryption: Option<BackupEncryption>,
    /// `NAME`.
    pub name: Option<S>,
    /// `DESCRIPTION`.
    pub description: Option<S>,
    /// `MEDIANAME`.
    pub media_name: Option<S>,
    /// `MEDIADESCRIPTION`.
    pub media_description: Option<S>,
    /// `STATS`: percent between two progress messages.
    pub stats_percent: Option<u32>,
}

/// The kinds of `RESTORE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreKind {
    /// `RESTORE DATABASE`; without devices it ends a restore.
    Database,
    /// `RESTORE LOG`.
    Log,
    /// `RESTORE HEADERONLY`.
    HeaderOnly,
    /// `RESTORE VERIFYONLY`.
    VerifyOnly,
    /// `RESTORE FILELISTONLY`.
    FileListOnly,
    /// `RESTORE LABELONLY`.
    LabelOnly,
}

/// `RESTORE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore<S = String> {
    /// The kind of `RESTORE`.
    pub kind: RestoreKind,
    /// The database, for [`RestoreKind::Database`] and [`RestoreKind::Log`].
    pub database: Option<S>,
    /// `FROM`.
    pub devices: Vec<Device<S>>,
    /// `FILE`: the backup set's position.
    pub position: Option<S>,
    /// `REPLACE`.
    pub replace: bool,
    /// False with `NORECOVERY`.
    pub recovery: bool,
    /// True if both `RECOVERY` and `NORECOVERY` are specified.
    pub conflicting: bool,
    /// `STOPAT`.
    pub stop_at: Option<S>,
    /// `CHECKSUM`, if specified.
    pub checksum: Option<bool>,
    /// `STATS`.
    pub stats_percent: Option<u32>,
    /// `MOVE .. TO ..`.
    pub moves: Vec<(S, S)>,
    /// The login whose statement it is; empty until it runs.
    pub login: String,
}

/// Rows from a host: columns with name and type, and values of those types.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Names and types.
    pub columns: Vec<(String, SqlType)>,
    /// Values, one for each column.
    pub rows: Vec<Vec<Value<'static>>>,
}

/// Receives progress messages while a verb runs, and reports whether the client has cancelled.
pub struct Progress<'a> {
    tell: &'a mut dyn FnMut(Message) -> bool,
    cancel: Arc<AtomicBool>,
}

impl<'a> Progress<'a> {
    /// `tell` sends a message, and returns false if the client wants no more. From then on `cancel`
    /// is true as well, even while no message is sent.
    pub fn new(tell: &'a mut dyn FnMut(Message) -> bool, cancel: Arc<AtomicBool>) -> Self {
        Progress { tell, cancel }
    }

    /// Sends a message; returns false to ask the verb to stop.
    pub fn tell(&mut self, message: Message) -> bool {
        (self.tell)(message)
    }

    /// Returns the flag that becomes true when the client cancels: for long-running verbs and their
    /// threads.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

fn not_here<T>(what: &str) -> Result<T> {
    Err(Error::feature(what))
}

/// The server around the front end. Called from many threads.
pub trait Host: Send + Sync {
    /// Returns every database, including `master`.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn databases(&self) -> Result<Vec<Database>>;

    /// Returns every login.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn logins(&self) -> Result<Vec<Login>>;

    /// Returns the login of this name, ignoring case and blanks at the end. Called for each
    /// request.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn login(&self, name: &str) -> Result<Option<Login>> {
        Ok(self.logins()?.into_iter().find(|known| same(&known.name, name)))
    }

    /// `CREATE LOGIN`: a login that is not a member of sysadmin.
    ///
    /// # Errors
    /// 15025 if it exists already, 15116 for a password that is too short or too long.
    fn create_login(&self, name: &str, password: &str) -> Result<()> {
        let _ = (name, password);
        not_here("CREATE LOGIN")
    }

    /// `ALTER LOGIN .. WITH PASSWORD`.
    ///
    /// # Errors
    /// 15007 if it does not exist.
    fn alter_login(&self, name: &str, password: &str) -> Result<()> {
        let _ = (name, password);
        not_here("ALTER LOGIN")
    }

    /// `DROP LOGIN`.
    ///
    /// # Errors
    /// 15007 if it does not exist, 15174 for the last sysadmin.
    fn drop_login(&self, name: &str) -> Result<()> {
        let _ = name;
        not_here("DROP LOGIN")
    }

    /// `ALTER SERVER ROLE sysadmin ADD MEMBER` and `DROP MEMBER`.
    ///
    /// # Errors
    /// 15007 if it does not exist, 15174 for the last sysadmin.
    fn set_sysadmin(&self, login: &str, member: bool) -> Result<()> {
        let _ = (login, member);
        not_here("ALTER SERVER ROLE")
    }

    /// Opens a connection without a file, to which databases are then ATTACHed by
    /// [`Opening::uri`].
    ///
    /// # Errors
    /// If SQLite cannot open one.
    fn connect(&self) -> Result<Connection> {
        use rusqlite::OpenFlags;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(":memory:", flags)
            .map_err(|error| Error::Internal { detail: error.to_string() })
    }

    /// Called before a session opens a database's file; the returned value is dropped once the file
    /// is open. So a host that is about to replace the file knows which sessions are opening it.
    /// The file is the one that the name has now, and keeps it as long: nothing else is opened.
    ///
    /// # Errors
    /// 911 and 945 where the name has no file, 952 while the file is being replaced.
    fn opening(&self, database: &str) -> Result<Opening>;

    /// Returns the reason why a database's file does not open, where the host knows a better one
    /// than SQLite.
    fn why_closed(&self, database: &str) -> Option<Error> {
        let _ = database;
        None
    }

    /// Returns the rows for `SELECT .. FROM` a view that only the server can answer: the name as
    /// `sys.dm_os_wait_stats` or `msdb.dbo.backupset`, in lower case. None for an unknown view.
    ///
    /// # Errors
    /// If the rows cannot be determined.
    fn view(&self, name: &str, spid: u16) -> Result<Option<Rows>> {
        let _ = (name, spid);
        Ok(None)
    }

    /// `DBCC SQLPERF('sys.dm_os_wait_stats', CLEAR)`.
    ///
    /// # Errors
    /// If there are none.
    fn clear_wait_stats(&self) -> Result<()> {
        not_here("DBCC SQLPERF")
    }

    /// `DBCC DROPCLEANBUFFERS`; the front end also empties its own caches.
    ///
    /// # Errors
    /// If the server cannot.
    fn drop_clean_buffers(&self) -> Result<()> {
        not_here("DBCC DROPCLEANBUFFERS")
    }

    /// `CREATE DATABASE`.
    ///
    /// # Errors
    /// 1801 if it exists already, or the file system's error.
    fn create_database(&self, name: &str) -> Result<()> {
        let _ = name;
        not_here("CREATE DATABASE")
    }

    /// `CREATE DATABASE .. ON`, also `FOR ATTACH`.
    ///
    /// # Errors
    /// 1801, 5120, 5123, 5133, 5170, 5171 and the like.
    fn create_database_on(&self, wanted: &CreateDatabase, out: Progress<'_>) -> Result<()> {
        let _ = (wanted, out);
        not_here("CREATE DATABASE .. ON")
    }

    /// `sp_detach_db`: the file stays where it is. `is_current` returns true while the database is
    /// the current one of a session. None enters it while [`Host::opening`] waits.
    ///
    /// # Errors
    /// 911 if it does not exist, 3703 if it is in use.
    fn detach_database(&self, name: &str, is_current: &dyn Fn() -> bool) -> Result<()> {
        let _ = (name, is_current);
        not_here("sp_detach_db")
    }

    /// `DROP DATABASE`.
    ///
    /// # Errors
    /// 3701 if it does not exist, 3702 if it is in use.
    fn drop_database(&self, name: &str) -> Result<()> {
        let _ = name;
        not_here("DROP DATABASE")
    }

    /// `KILL`: cancels the session's request, if one is running, and closes its connection. Returns
    /// false if there is no such session.
    ///
    /// # Errors
    /// If sessions cannot be ended by others.
    fn kill(&self, spid: u16) -> Result<bool> {
        let _ = spid;
        not_here("KILL")
    }

    /// `ALTER DATABASE`.
    ///
    /// # Errors
    /// As SQL Server: 33107 without a database encryption key, and so on.
    fn alter_database(&self, name: &str, change: &AlterDatabase, out: Progress<'_>) -> Result<()> {
        let _ = (name, change, out);
        not_here("ALTER DATABASE")
    }

    /// `CREATE MASTER KEY`.
    ///
    /// # Errors
    /// 15578 if one exists.
    fn create_master_key(&self, password: Option<&str>) -> Result<()> {
        let _ = password;
        not_here("CREATE MASTER KEY")
    }

    /// `OPEN MASTER KEY DECRYPTION BY PASSWORD`.
    ///
    /// # Errors
    /// 15313 if the password is wrong.
    fn open_master_key(&self, password: &str) -> Result<()> {
        let _ = password;
        not_here("OPEN MASTER KEY")
    }

    /// `CLOSE MASTER KEY`.
    ///
    /// # Errors
    /// If none is open.
    fn close_master_key(&self) -> Result<()> {
        not_here("CLOSE MASTER KEY")
    }

    /// `ALTER MASTER KEY REGENERATE WITH ENCRYPTION BY PASSWORD`. FORCE would ignore a certificate
    /// whose private key does not open.
    ///
    /// # Errors
    /// 15581 if none is open.
    fn alter_master_key(&self, password: &str, force: bool) -> Result<()> {
        let _ = (password, force);
        not_here("ALTER MASTER KEY")
    }

    /// `BACKUP MASTER KEY`.
    ///
    /// # Errors
    /// If there is none or the file cannot be written.
    fn backup_master_key(&self, file: &str, password: &str) -> Result<()> {
        let _ = (file, password);
        not_here("BACKUP MASTER KEY")
    }

    /// `DROP MASTER KEY`.
    ///
    /// # Errors
    /// If certificates depend on it.
    fn drop_master_key(&self) -> Result<()> {
        not_here("DROP MASTER KEY")
    }

    /// `CREATE CERTIFICATE`.
    ///
    /// # Errors
    /// 15581 without a master key, 15232 if it exists already.
    fn create_certificate(&self, certificate: &CreateCertificate) -> Result<()> {
        let _ = certificate;
        not_here("CREATE CERTIFICATE")
    }

    /// `BACKUP CERTIFICATE`.
    ///
    /// # Errors
    /// 15151 if it does not exist.
    fn backup_certificate(&self, backup: &CertificateBackup) -> Result<()> {
        let _ = backup;
        not_here("BACKUP CERTIFICATE")
    }

    /// `DROP CERTIFICATE`.
    ///
    /// # Errors
    /// 15151 if it does not exist; refused while it wraps a known key.
    fn drop_certificate(&self, name: &str) -> Result<()> {
        let _ = name;
        not_here("DROP CERTIFICATE")
    }

    /// `CREATE DATABASE ENCRYPTION KEY` in a database.
    ///
    /// # Errors
    /// 33103 and the like.
    fn create_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        out: Progress<'_>,
    ) -> Result<()> {
        let _ = (database, key, out);
        not_here("CREATE DATABASE ENCRYPTION KEY")
    }

    /// `ALTER DATABASE ENCRYPTION KEY`.
    ///
    /// # Errors
    /// If there is none.
    fn alter_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        out: Progress<'_>,
    ) -> Result<()> {
        let _ = (database, key, out);
        not_here("ALTER DATABASE ENCRYPTION KEY")
    }

    /// `DROP DATABASE ENCRYPTION KEY`.
    ///
    /// # Errors
    /// While the database is encrypted.
    fn drop_encryption_key(&self, database: &str) -> Result<()> {
        let _ = database;
        not_here("DROP DATABASE ENCRYPTION KEY")
    }

    /// `BACKUP DATABASE`.
    ///
    /// # Errors
    /// 3095, 3013 and the like.
    fn backup(&self, backup: &Backup, out: Progress<'_>) -> Result<()> {
        let _ = (backup, out);
        not_here("BACKUP DATABASE")
    }

    /// Returns the names of the databases whose backup sets are on these devices. A device that is
    /// not there has none.
    ///
    /// # Errors
    /// If a device is there and its sets cannot be read.
    fn databases_on(&self, devices: &[Device<String>]) -> Result<Vec<String>> {
        let _ = devices;
        not_here("BACKUP DATABASE")
    }

    /// `sp_delete_database_backuphistory`.
    ///
    /// # Errors
    /// If the history cannot be changed.
    fn delete_backup_history(&self, database: &str) -> Result<()> {
        let _ = database;
        not_here("sp_delete_database_backuphistory")
    }

    /// `sp_delete_backuphistory`: of sets that ended before this time, in milliseconds since 1970.
    ///
    /// # Errors
    /// If the history cannot be changed.
    fn delete_backup_history_before(&self, oldest_ms: i64) -> Result<()> {
        let _ = oldest_ms;
        not_here("sp_delete_backuphistory")
    }

    /// `xp_instance_regread` of a directory; None if it was not set.
    ///
    /// # Errors
    /// If the host cannot read it.
    fn directory(&self, directory: Directory) -> Result<Option<String>> {
        let _ = directory;
        Ok(None)
    }

    /// `xp_instance_regwrite` of a directory; an empty path takes it back.
    ///
    /// # Errors
    /// 22001 if it is not there.
    fn set_directory(&self, directory: Directory, path: &str) -> Result<()> {
        let _ = (directory, path);
        not_here("xp_instance_regwrite")
    }

    /// `xp_delete_file 0`: removes a backup file.
    ///
    /// # Errors
    /// 3241 for a file that is not one.
    fn delete_backup_file(&self, file: &str) -> Result<()> {
        let _ = file;
        not_here("xp_delete_file")
    }

    /// `HASHBYTES`.
    ///
    /// # Errors
    /// For a digest that the host does not have.
    fn digest(&self, digest: Digest, bytes: &[u8]) -> Result<Vec<u8>> {
        let _ = (digest, bytes);
        not_here("HASHBYTES")
    }

    /// `RESTORE`: returns rows for the kinds that have some.
    ///
    /// # Errors
    /// 3201, 3241, 33111 and the like.
    fn restore(&self, restore: &Restore, out: Progress<'_>) -> Result<Option<Rows>> {
        let _ = (restore, out);
        not_here("RESTORE")
    }
}

/// A digest of HASHBYTES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Digest {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

/// A host that every session shares.
pub type SharedHost = Arc<dyn Host>;
