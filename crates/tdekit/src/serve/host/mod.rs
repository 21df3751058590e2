//! What T-SQL asks of the server, answered by the key store, the backup engine and the databases:
//! the planes do not know each other.
//!
//! `docs/wire-statements.md` says of each statement what it does here.

mod backup;
mod certificates;
mod databases;
mod encryption;
mod fault;
mod files;
mod kept;
mod keys;
mod media;
mod restore;
mod rows;
#[cfg(test)]
mod scripts;
mod steer;
mod switches;
#[cfg(test)]
mod tests;
mod views;

use std::path::Path;

use rustix::fs::{Advice, fadvise};
use tdekit_key_store::PasswordParams;
use tdekit_wire_tsql::{
    AlterDatabase, Backup, CertificateBackup, CreateCertificate, Database, EncryptionKey, Error,
    Host, Progress, Restore, RestoreKind, Rows,
};

use self::databases::Databases;
use self::encryption::Encryption;
use self::keys::Keys;
use crate::cli::GlobalArgs;
use crate::convert::error::{DatabaseError, io_error};
use crate::convert::ffi::register;
use crate::error::CommandError;

/// The server around T-SQL.
pub(crate) struct ServeHost {
    databases: Databases,
    keys: Keys,
    encryption: Encryption,
}

impl ServeHost {
    /// Serves the databases of the directory `path`, or the one that it names.
    ///
    /// # Errors
    /// `Io` when it is not there, `Database` when the VFS cannot be registered.
    pub(crate) fn new(path: &Path, global: &GlobalArgs) -> Result<Self, CommandError> {
        Self::with_cost(path, global, PasswordParams::default())
    }

    fn with_cost(
        path: &Path,
        global: &GlobalArgs,
        cost: PasswordParams,
    ) -> Result<Self, CommandError> {
        register().map_err(DatabaseError::sqlite("prepare to serve", path, None))?;
        let databases = Databases::new(path).map_err(io_error("open", path))?;
        let keys = Keys::new(global, cost);
        // So that encrypted databases open; where nothing opens the store, OPEN MASTER KEY may.
        let _ = keys.open();
        Ok(Self { databases, keys, encryption: Encryption::default() })
    }

    fn both(&self) -> (&Databases, &Keys) {
        (&self.databases, &self.keys)
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl Host for ServeHost {
    fn databases(&self) -> Result<Vec<Database>> {
        self.databases.all()
    }

    fn view(&self, name: &str, _spid: u16) -> Result<Option<Rows>> {
        let rows = match name {
            "sys.certificates" => views::certificates(&self.keys)?,
            "sys.symmetric_keys" => views::symmetric_keys(&self.keys)?,
            "sys.dm_database_encryption_keys" => {
                views::encryption_keys(&self.databases, &self.encryption)?
            }
            "msdb.dbo.backupset" => views::backupset(&self.keys)?,
            "msdb.dbo.backupmediafamily" => views::media_family(&self.keys)?,
            "msdb.dbo.backupmediaset" => views::media_set(&self.keys)?,
            "sys.dm_os_schedulers" => views::schedulers(),
            "sys.dm_os_wait_stats" => views::wait_stats(),
            _ => return Ok(None),
        };
        Ok(Some(rows))
    }

    fn clear_wait_stats(&self) -> Result<()> {
        // Nothing waits for encryption here, so all is as after clearing.
        Ok(())
    }

    fn drop_clean_buffers(&self) -> Result<()> {
        for found in self.databases.found()? {
            if let Ok(file) = kept::open(&found.path) {
                // Advice: what the system keeps all the same is read faster, and nothing else.
                let _ = fadvise(&*file, 0, None, Advice::DontNeed);
            }
        }
        Ok(())
    }

    fn create_database(&self, name: &str) -> Result<()> {
        self.databases.create(name)
    }

    fn drop_database(&self, name: &str) -> Result<()> {
        self.databases.remove(name)
    }

    fn alter_database(&self, name: &str, change: &AlterDatabase, out: Progress<'_>) -> Result<()> {
        self.encryption.alter_database(self.both(), name, change, out)
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

    fn backup_master_key(&self, file: &str, password: &str) -> Result<()> {
        let path = files::resolve(self.databases.dir(), file);
        let path = path.ok_or_else(|| keys::not_written(Path::new(file)))?;
        self.keys.backup(path, password)
    }

    fn drop_master_key(&self) -> Result<()> {
        self.keys.drop_key()
    }

    fn create_certificate(&self, certificate: &CreateCertificate) -> Result<()> {
        certificates::create(&self.keys, self.databases.dir(), certificate)
    }

    fn backup_certificate(&self, backup: &CertificateBackup) -> Result<()> {
        certificates::backup(&self.keys, self.databases.dir(), backup)
    }

    fn drop_certificate(&self, name: &str) -> Result<()> {
        certificates::remove(&self.keys, name)
    }

    fn create_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        out: Progress<'_>,
    ) -> Result<()> {
        self.encryption.create(self.both(), database, key, out)
    }

    fn alter_encryption_key(
        &self,
        database: &str,
        key: &EncryptionKey,
        out: Progress<'_>,
    ) -> Result<()> {
        self.encryption.alter(self.both(), database, key, out)
    }

    fn drop_encryption_key(&self, database: &str) -> Result<()> {
        self.encryption.drop_key(&self.databases, database)
    }

    fn backup(&self, wanted: &Backup, out: Progress<'_>) -> Result<()> {
        backup::run(self.both(), wanted, out)
    }

    fn restore(&self, wanted: &Restore, out: Progress<'_>) -> Result<Option<Rows>> {
        match wanted.kind {
            RestoreKind::Database => restore::run(self.both(), wanted, out).map(|()| None),
            RestoreKind::VerifyOnly => {
                media::verify(&self.databases, &self.keys, wanted, out).map(|()| None)
            }
            RestoreKind::HeaderOnly => media::header(&self.databases, wanted).map(Some),
            RestoreKind::FileListOnly => media::file_list(&self.databases, wanted).map(Some),
            RestoreKind::LabelOnly => media::label(&self.databases, wanted).map(Some),
        }
    }
}
