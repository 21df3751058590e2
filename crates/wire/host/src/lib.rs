//! Statements of T-SQL about keys, backups and databases, implemented with the key store, the
//! backup engine and the databases: the planes do not know each other.
//!
//! `docs/wire-statements.md` describes each statement.

#[cfg(test)]
mod attached;
mod backup;
mod behind;
mod certificates;
mod connections;
mod create;
mod databases;
mod digests;
mod encryption;
mod fault;
mod files;
mod gate;
mod kept;
mod keys;
mod logins;
mod media;
mod noted;
mod recovery_path;
mod restore;
mod rows;
mod scan;
#[cfg(test)]
mod scripts;
mod server_note;
mod steer;
mod stop;
mod storage;
mod switches;
mod targets;
mod tempdb;
#[cfg(test)]
mod tests;
mod views;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use tdekit_backup_run::{Operator, RunError, Storage};
use tdekit_key_store::{PasswordParams, StoreError};
use tdekit_sqlite_convert::{DatabaseError, FileKind, io_error, register};
use tdekit_wire_endpoint::{LoginFile, Sessions};
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::{
    AlterDatabase, Backup, CertificateBackup, CreateCertificate, CreateDatabase, Database,
    DatabaseState, Device, Digest, Directory, EncryptionKey, Error, Host, Login, Opening, Progress,
    Restore, RestoreKind, Rows,
};

use self::databases::{Databases, kind};
use self::encryption::Encryption;
use self::files::Drives;
use self::keys::Keys;

/// The server around T-SQL.
pub struct ServeHost {
    databases: Databases,
    keys: Keys,
    encryption: Encryption,
    sessions: Sessions,
    logins: LoginFile,
    locked: bool,
    storage: Storage,
}

impl ServeHost {
    /// Serves the databases of the directory `path`, or the single database at `path`, to
    /// `sessions` of the logins in the file `logins`. Their statements name files by the letters of
    /// `drives`, too.
    ///
    /// # Errors
    /// `Io` if it does not exist, `DatabaseFile` if the VFS cannot be registered or the file is not
    /// a database, `Store` if the key store's given secret does not open it.
    pub fn new(
        path: &Path,
        (logins, drives): (PathBuf, BTreeMap<char, PathBuf>),
        operator: Arc<dyn Operator>,
        sessions: Sessions,
    ) -> Result<Self, RunError> {
        Self::with_cost((path, logins, drives), operator, sessions, PasswordParams::default())
    }

    fn with_cost(
        (path, logins, drives): (&Path, PathBuf, BTreeMap<char, PathBuf>),
        operator: Arc<dyn Operator>,
        sessions: Sessions,
        cost: PasswordParams,
    ) -> Result<Self, RunError> {
        register().map_err(DatabaseError::sqlite("prepare to serve", path, None))?;
        let drives = Drives::new(drives)?;
        let databases = Databases::new(path, sessions.clone(), drives);
        let databases = databases.map_err(io_error("open", path))?;
        let keys = Keys::new(operator, cost);
        if let Some(path) = databases.damaged_note() {
            return Err(DatabaseError::NotADatabase { path }.into());
        }
        if let Some(file) = databases.only_file().filter(|file| kind(file) == FileKind::Other) {
            return Err(DatabaseError::NotADatabase { path: file.to_owned() }.into());
        }
        // So that encrypted databases open; if nothing opens the store, OPEN MASTER KEY may.
        let encryption = Encryption::default();
        let locked = match keys.open() {
            Ok(unlocked) => {
                encryption.go_on(&databases, &unlocked);
                false
            }
            Err(StoreError::Missing { .. }) => false,
            Err(StoreError::NoProvider { .. }) => true,
            Err(failure) => return Err(failure.into()),
        };
        let (storage, logins) = (Storage::default(), LoginFile::new(logins));
        Ok(Self { databases, keys, encryption, sessions, logins, locked, storage })
    }

    /// Has `BACKUP TO URL` keep its objects in this way.
    #[must_use]
    pub fn keeping(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Returns true if a key store exists that no secret given at the start opens.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Stops background work in an orderly way.
    pub fn stop(&self) {
        self.encryption.scans.stop();
    }

    fn both(&self) -> (&Databases, &Keys) {
        (&self.databases, &self.keys)
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl Host for ServeHost {
    fn databases(&self) -> Result<Vec<Database>> {
        let mut all = self.databases.all()?;
        let sealed = |known: &Database| known.encrypted && known.state.is_online();
        if all.iter().any(sealed) && !self.keys.are_open() {
            all.iter_mut()
                .filter(|known| sealed(known))
                .for_each(|known| known.state = DatabaseState::RecoveryPending);
        }
        Ok(all)
    }

    fn logins(&self) -> Result<Vec<Login>> {
        logins::all(&self.logins)
    }

    fn login(&self, name: &str) -> Result<Option<Login>> {
        logins::named(&self.logins, name)
    }

    fn create_login(&self, name: &str, password: &str) -> Result<()> {
        logins::change(&self.logins, |list| list.add(name, password, false))
    }

    fn alter_login(&self, name: &str, password: &str) -> Result<()> {
        logins::set_password(&self.logins, name, password)
    }

    fn drop_login(&self, name: &str) -> Result<()> {
        logins::remove(&self.logins, name)
    }

    fn set_sysadmin(&self, login: &str, member: bool) -> Result<()> {
        logins::change(&self.logins, |list| list.set_sysadmin(login, member))
    }

    fn kill(&self, spid: u16) -> Result<bool> {
        Ok(self.sessions.kill(spid))
    }

    fn opening(&self, database: &str) -> Result<Opening> {
        let (held, uri) = self.databases.opening(database)?;
        Ok(Opening { uri, held: Box::new(held) })
    }

    fn why_closed(&self, database: &str) -> Option<Error> {
        let path = self.databases.find(database).ok()?.path;
        if kind(&path) == FileKind::Encrypted
            && let Err(failure) = self.keys.open()
        {
            return Some(fault::of_store(&failure));
        }
        encryption::missing_certificate(&path, &self.keys)
            .or_else(|| self.databases.wrong_encoding(database))
    }

    fn view(&self, name: &str, _spid: u16) -> Result<Option<Rows>> {
        let rows = match name {
            "sys.certificates" => views::certificates(&self.keys)?,
            "sys.symmetric_keys" => views::symmetric_keys(&self.keys)?,
            "sys.dm_database_encryption_keys" => {
                views::encryption_keys(&self.databases, &self.encryption)?
            }
            "msdb.dbo.backupset" => views::backupset(&self.keys)?,
            "msdb.dbo.backupmediafamily" => views::media_family(self.both())?,
            "msdb.dbo.backupmediaset" => views::media_set(&self.keys)?,
            "msdb.dbo.restorehistory" => views::restores(&self.keys)?,
            "sys.dm_exec_connections" => match self.sessions.connections() {
                // Without an endpoint's sessions: the front end knows its own.
                none if none.is_empty() => return Ok(None),
                known => connections::connections(&known),
            },
            "sys.master_files" => storage::master_files(&self.databases)?,
            "sys.dm_os_schedulers" => views::schedulers(),
            "sys.dm_os_wait_stats" => views::wait_stats(),
            _ => return Ok(None),
        };
        Ok(Some(rows))
    }

    fn clear_wait_stats(&self) -> Result<()> {
        // Nothing waits for encryption here, so the state is as after clearing.
        Ok(())
    }

    fn drop_clean_buffers(&self) -> Result<()> {
        for found in self.databases.found()? {
            if let Ok(file) = kept::open(&found.path) {
                // Advice only: if the system keeps the pages anyway, they are just read faster.
                let _ = fadvise(&*file, 0, None, Advice::DontNeed);
            }
        }
        Ok(())
    }

    fn create_database(&self, name: &str) -> Result<()> {
        match self.databases.directory(Directory::Data)? {
            None => self.databases.create(name),
            Some(directory) => create::create_in(self.both(), name, &directory),
        }
    }

    fn create_database_on(&self, wanted: &CreateDatabase, mut out: Progress<'_>) -> Result<()> {
        create::create_on(self.both(), wanted, &mut out)
    }

    fn detach_database(&self, name: &str, is_current: &dyn Fn() -> bool) -> Result<()> {
        create::detach(&self.databases, name, is_current)
    }

    fn drop_database(&self, name: &str) -> Result<()> {
        let found = self.databases.find_any(name).ok();
        self.databases.remove(name)?;
        found.map_or(Ok(()), |found| self.keys.forget_file(&found.path))
    }

    fn alter_database(
        &self,
        name: &str,
        change: &AlterDatabase,
        mut out: Progress<'_>,
    ) -> Result<()> {
        self.encryption.alter_database(self.both(), name, change, &mut out)
    }

    fn create_master_key(&self, password: Option<&str>) -> Result<()> {
        let what = "CREATE MASTER KEY without ENCRYPTION BY PASSWORD";
        self.keys.create(password.ok_or_else(|| fault::feature(what))?)
    }

    fn open_master_key(&self, password: &str) -> Result<()> {
        self.keys.open_with(password)
    }

    fn close_master_key(&self) -> Result<()> {
        self.keys.close()
    }

    fn alter_master_key(&self, password: &str, force: bool) -> Result<()> {
        if force {
            return Err(fault::feature("ALTER MASTER KEY FORCE REGENERATE"));
        }
        self.keys.regenerate(password)
    }

    fn backup_master_key(&self, file: &str, password: &str) -> Result<()> {
        let path = certificates::new_file(&self.databases, file)?;
        self.keys.backup(path, password)
    }

    fn drop_master_key(&self) -> Result<()> {
        self.keys.drop_key()
    }

    fn create_certificate(&self, certificate: &CreateCertificate) -> Result<()> {
        certificates::create(self.both(), certificate)
    }

    fn backup_certificate(&self, backup: &CertificateBackup) -> Result<()> {
        certificates::backup(self.both(), backup)
    }

    fn drop_certificate(&self, name: &str) -> Result<()> {
        certificates::remove(&self.keys, name)
    }

    fn create_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        mut out: Progress<'_>,
    ) -> Result<()> {
        self.encryption.create(self.both(), database, key, &mut out)
    }

    fn alter_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        mut out: Progress<'_>,
    ) -> Result<()> {
        self.encryption.alter(self.both(), database, key, &mut out)
    }

    fn drop_encryption_key(&self, database: &str) -> Result<()> {
        self.encryption.drop_key(&self.databases, database)
    }

    fn backup(&self, wanted: &Backup, mut out: Progress<'_>) -> Result<()> {
        backup::run((&self.databases, &self.keys, &self.storage), wanted, &mut out)
    }

    fn databases_on(&self, devices: &[Device<String>]) -> Result<Vec<String>> {
        targets::databases_on(self.both(), devices)
    }

    fn delete_backup_history(&self, database: &str) -> Result<()> {
        storage::delete_history(&self.keys, database)
    }

    fn delete_backup_history_before(&self, oldest_ms: i64) -> Result<()> {
        storage::delete_history_before(&self.keys, oldest_ms)
    }

    fn directory(&self, directory: Directory) -> Result<Option<String>> {
        self.databases.directory(directory)
    }

    fn set_directory(&self, directory: Directory, path: &str) -> Result<()> {
        self.databases.set_directory(directory, path, &self.keys)
    }

    fn digest(&self, digest: Digest, bytes: &[u8]) -> Result<Vec<u8>> {
        digests::digest(digest, bytes)
    }

    fn delete_backup_file(&self, file: &str) -> Result<()> {
        storage::delete_backup(&self.databases, &self.keys, file)
    }

    fn restore(&self, wanted: &Restore, mut out: Progress<'_>) -> Result<Option<Rows>> {
        if wanted.conflicting {
            let (option, with) = ("norecovery", "recovery");
            return Err(ServerError::OptionConflict { option, with }.into());
        }
        match wanted.kind {
            RestoreKind::Database if wanted.devices.is_empty() => {
                restore::recover(&self.databases, wanted).map(|()| None)
            }
            RestoreKind::Database | RestoreKind::Log => {
                restore::run(self.both(), wanted, &mut out).map(|()| None)
            }
            RestoreKind::VerifyOnly => {
                media::verify(&self.databases, &self.keys, wanted, &mut out).map(|()| None)
            }
            RestoreKind::HeaderOnly => media::header(self.both(), wanted).map(Some),
            RestoreKind::FileListOnly => media::file_list(self.both(), wanted).map(Some),
            RestoreKind::LabelOnly => media::label(self.both(), wanted).map(Some),
        }
    }
}
