//! `tdekit init`: a key store, a certificate with its backup, and encrypted databases in one go.
//! Each step is a command of its own as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tdekit_console::session::{self, Ask};
use tdekit_console::{ConsoleError, GlobalArgs, output};
use tdekit_key_store::{
    KeyStore, PasswordParams, SecretBytes, StoreError, Unlock, open_ordinary, read_password_file,
};
use tdekit_sqlite_convert::{DatabaseError, FileKind, read_area};

use crate::commands::cert::{self, CreateArgs};
use crate::commands::encrypt::{self, EncryptArgs, refuse_encrypted};
use crate::commands::key::shown;
use crate::error::CommandError;

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Databases to encrypt
    database: Vec<PathBuf>,
    /// Name of the certificate
    #[arg(long, value_name = "NAME", default_value = "AppCert")]
    certificate: String,
    /// PKCS#12 file for the backup of the certificate and its key; it must not exist [default:
    /// NAME.p12]
    #[arg(long, value_name = "FILE")]
    pkcs12: Option<PathBuf>,
    /// File with the password of the backup [default: $TDEKIT_BACKUP_PASSWORD, else the key
    /// store's own password, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
}

/// Runs the command. What can be refused is refused before anything is made.
pub(crate) fn run(args: &InitArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    if cfg!(not(feature = "certificate-files")) {
        let (what, feature) = ("backups of certificates", "certificate-files");
        return Err(ConsoleError::NotBuilt { what, feature }.into());
    }
    let dir = session::store_dir(global)?;
    match KeyStore::open(&dir) {
        Err(StoreError::Missing { .. }) => {}
        Ok(store) => return Err(StoreError::AlreadyExists { path: store.path() }.into()),
        Err(error) => return Err(error.into()),
    }
    let backup = match &args.pkcs12 {
        Some(path) => path.clone(),
        None => format!("{}.p12", args.certificate).into(),
    };
    if backup.symlink_metadata().is_ok() {
        let reason = format!("{} is there already; --pkcs12 names another file", backup.display());
        return Err(CommandError::Nothing { reason });
    }
    for database in &args.database {
        std::fs::metadata(database)
            .map_err(|source| CommandError::io("examine", database.clone(), source))?;
        refuse_encrypted(database)?;
        refuse_other(database)?;
    }
    // The same limits as for each of the steps, before the first.
    CreateArgs::named(&args.certificate)?.new_certificate()?;
    let place = backup.parent().filter(|parent| !parent.as_os_str().is_empty());
    let place = place.unwrap_or(Path::new("."));
    std::fs::metadata(place).map_err(|source| CommandError::io("use", place, source))?;
    let secret = session::secret_to_set(global)?;
    let password = args.backup_password(&secret)?;
    let mut store = KeyStore::create(&dir, &secret, PasswordParams::default())?;
    output::line(format_args!("Made the key store {}", store.store().path().display()))?;
    output::line(format_args!("It is opened with {}.", shown(&secret)))?;
    let name = &args.certificate;
    let info = store.create_certificate(&CreateArgs::named(name)?.new_certificate()?)?;
    cert::back_up_pkcs12(&mut store, &info, &backup, &password)?;
    output::line(format_args!("Made certificate {name}; its backup is {}", backup.display()))?;
    let word = output::shell_word(name);
    output::line(
        "  Keep that file and its password elsewhere: they open your data without this \
                  machine.",
    )?;
    let unlocked = Arc::new(store);
    if args.database.is_empty() {
        return Ok(output::line(format_args!("Next: tdekit encrypt app.db --certificate {word}"))?);
    }
    encrypt::run_with(&EncryptArgs::new(args.database.clone(), name.clone()), &unlocked)
        .inspect_err(|_| {
            output::warning(format_args!(
                "key store and certificate are made; go on with tdekit encrypt DATABASE \
                 --certificate {word}"
            ));
        })?;
    let first = args.database.first().map(|path| output::shell_path(path)).unwrap_or_default();
    output::line(format_args!("Next: tdekit backup {first} --to MEDIA --certificate {word}"))?;
    Ok(output::line("      tdekit overview DIRECTORY    shows how all databases stand")?)
}

/// Refuses a file that is not a database.
fn refuse_other(path: &Path) -> Result<(), CommandError> {
    let area = open_ordinary(path).and_then(|file| read_area(&file));
    let area = area.map_err(|source| CommandError::io("read", path, source))?;
    match FileKind::of(&area) {
        FileKind::Other => Err(DatabaseError::NotADatabase { path: path.to_owned() }.into()),
        FileKind::Plain | FileKind::Encrypted | FileKind::Empty => Ok(()),
    }
}

impl InitArgs {
    fn backup_password(&self, secret: &Unlock) -> Result<SecretBytes, CommandError> {
        let named = std::env::var_os("TDEKIT_BACKUP_PASSWORD").is_some_and(|it| !it.is_empty());
        match secret {
            _ if named || self.backup_password_file.is_some() => {}
            Unlock::Password(password) => {
                return Ok(password.try_clone().map_err(StoreError::Crypto)?);
            }
            // A pipe can be read only once.
            Unlock::PasswordFile(path) if path.is_file() => return Ok(read_password_file(path)?),
            _ => {}
        }
        Ok(session::backup_password(self.backup_password_file.as_deref(), Ask::New)?)
    }
}
