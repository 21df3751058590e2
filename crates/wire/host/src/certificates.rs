//! Statements on certificates.

use std::path::{Path, PathBuf};

use tdekit_backup_run::{Notice, Operator};
use tdekit_key_crypto::pem::encode_certificate;
use tdekit_key_store::{
    CertificateBackup as Read, CertificateInfo, KeyStore, KeyType, NewCertificate, StoreError,
    expires_soon, iso8601, now_seconds, read_certificate_file, write_new,
};
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{CertificateBackup, CreateCertificate, Error, Progress};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, PrimitiveDateTime, Time};

use super::databases::Databases;
use super::files::{self, NoPath};
use super::keys::{Keys, no_file, not_written, secret_bytes};
use super::{fault, targets};

/// Default validity of a certificate in days: one year, as in SQL Server.
const DEFAULT_DAYS: i64 = 365;
/// First bytes of Windows' private key files, a format that this program does not support.
const PVK_MAGIC: [u8; 4] = [0x1E, 0xF1, 0xB5, 0xB0];
/// First byte of a certificate or a key in DER: a SEQUENCE.
const DER: u8 = 0x30;

/// `CREATE CERTIFICATE`.
pub(crate) fn create(
    (databases, keys): (&Databases, &Keys),
    wanted: &CreateCertificate,
) -> Result<(), Error> {
    if wanted.encryption_password.is_some() {
        return Err(fault::feature("CREATE CERTIFICATE .. ENCRYPTION BY PASSWORD"));
    }
    if let Some(file) = &wanted.file {
        let backup = read_files(databases, file, wanted)?;
        return keys.change(|store| {
            let made = store.import_certificate(&wanted.name, &backup);
            made.map(drop).map_err(|failure| fault::of_store(&failure))
        });
    }
    if wanted.start_date.is_some() {
        return Err(fault::feature("CREATE CERTIFICATE .. START_DATE"));
    }
    let expires_at = match &wanted.expiry_date {
        None => now_seconds().saturating_add(DEFAULT_DAYS * 86_400),
        Some(text) => seconds_of(text).ok_or(Error::BadDateTime {})?,
    };
    let subject = wanted.subject.strip_prefix("CN=").unwrap_or(&wanted.subject);
    let new = NewCertificate {
        name: &wanted.name,
        subject: Some(subject),
        // As SQL Server makes them.
        key_type: Some(KeyType::Rsa3072),
        expires_at,
    };
    keys.change(|store| {
        store.create_certificate(&new).map(drop).map_err(|failure| fault::of_store(&failure))
    })?;
    keys.note_made(&wanted.name);
    Ok(())
}

/// `BACKUP CERTIFICATE`: the certificate as DER, as SQL Server writes it; the private key as an
/// encrypted PKCS#8 in PEM, because SQL Server's own format is not readable elsewhere.
pub(crate) fn backup(
    (databases, keys): (&Databases, &Keys),
    wanted: &CertificateBackup,
) -> Result<(), Error> {
    if wanted.decryption_password.is_some() {
        return Err(fault::feature("BACKUP CERTIFICATE .. DECRYPTION BY PASSWORD"));
    }
    let of_store = |failure: StoreError| match failure {
        StoreError::CertificateMissing { .. } => fault::no_certificate("find", &wanted.name),
        failure => fault::of_store(&failure),
    };
    if wanted.pfx {
        return backup_pfx((databases, keys), wanted, of_store);
    }
    let file = new_file(databases, &wanted.file)?;
    let key_file = wanted.key_file.as_ref().map(|named| new_file(databases, named)).transpose()?;
    let Some(key_file) = key_file else {
        let store = keys.store()?.ok_or_else(fault::no_master_key)?;
        let der = store.certificate_der(&wanted.name).map_err(of_store)?;
        return write_new(&file, der).map_err(|_| not_written(&file));
    };
    let detail = "PRIVATE KEY needs ENCRYPTION BY PASSWORD.";
    let password = wanted.encryption_password.as_deref();
    let password = password.ok_or(ServerError::BadCombination { detail })?;
    let password = secret_bytes(password)?;
    keys.change(|store| {
        let info = store.store().find(&wanted.name).map_err(of_store)?.clone();
        let pem = store.export_pem(&wanted.name, &password).map_err(of_store)?;
        let der = store.store().certificate_der(&wanted.name).map_err(of_store)?.to_vec();
        let mut written = Written::default();
        written.write(&file, &der)?;
        written.write(&key_file, pem.private_key.as_bytes())?;
        // A copy that does not open is not a backup.
        from_files(&file, &der, Some((&key_file, pem.private_key.as_bytes())), Some(&password))?;
        store.mark_backed_up(&info.sha256).map_err(of_store)?;
        written.keep();
        Ok(())
    })
}

/// Writes certificate and private key as one PKCS#12, as SQL Server does `WITH FORMAT = 'PFX'`.
fn backup_pfx(
    (databases, keys): (&Databases, &Keys),
    wanted: &CertificateBackup,
    of_store: impl Fn(StoreError) -> Error,
) -> Result<(), Error> {
    let (Some(password), None) = (&wanted.encryption_password, &wanted.key_file) else {
        let detail = "a PFX is one file, and PRIVATE KEY needs ENCRYPTION BY PASSWORD.";
        return Err(ServerError::BadCombination { detail }.into());
    };
    let file = new_file(databases, &wanted.file)?;
    let password = secret_bytes(password)?;
    keys.change(|store| {
        let info = store.store().find(&wanted.name).map_err(&of_store)?.clone();
        let bytes = store.export_pkcs12(&wanted.name, &password).map_err(&of_store)?;
        let mut written = Written::default();
        written.write(&file, &bytes)?;
        // A copy that does not open is not a backup.
        let kept = read_certificate_file(&file).map_err(|_| not_written(&file))?;
        Read::from_pkcs12(&kept, &file, &password).map_err(not_read)?;
        store.mark_backed_up(&info.sha256).map_err(&of_store)?;
        written.keep();
        Ok(())
    })
}

/// Resolves the path of a file that a statement makes, and no database is to be found in.
///
/// # Errors
/// 15240.
pub(crate) fn new_file(databases: &Databases, named: &str) -> Result<PathBuf, Error> {
    let path = databases.file(named).map_err(|why| no_file(named, why))?;
    match targets::is_of_database(databases, &path)? {
        true => Err(not_written(&path)),
        false => Ok(path),
    }
}

/// `DROP CERTIFICATE`.
pub(crate) fn remove(keys: &Keys, name: &str) -> Result<(), Error> {
    // A file that nobody knows cannot need a certificate that was just made.
    let young = keys.was_made_here(name);
    let in_use = |store: &KeyStore| -> Result<bool, StoreError> {
        let named = |info: &&CertificateInfo| info.name.eq_ignore_ascii_case(name);
        for info in store.certificates().iter().filter(named) {
            let sha256 = &info.sha256;
            if !store.uses_of(sha256)?.is_empty() || store.forgotten_uses_of(sha256)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let store = keys.store()?;
    let used =
        store.as_ref().map(in_use).transpose().map_err(|failure| fault::of_store(&failure))?;
    let force = young && used == Some(false);
    keys.change(|store| match store.drop_certificate(name, force) {
        Ok(_) => Ok(()),
        Err(StoreError::CertificateMissing { .. }) => Err(fault::no_certificate("drop", name)),
        Err(failure) => Err(fault::of_store(&failure)),
    })
}

/// Warns of problems with certificates that a statement used: one is in no backup, one expires
/// soon. The operator also gets the second warning.
pub(crate) fn warn_of(
    operator: &dyn Operator,
    certificates: &[CertificateInfo],
    out: &mut Progress<'_>,
) {
    if certificates.iter().any(CertificateInfo::needs_backup) {
        out.tell(Told::NotBackedUp {}.message());
    }
    for info in certificates.iter().filter(|info| info.active) {
        let Some(days) = expires_soon(info.not_after) else { continue };
        operator.tell(&Notice::Expires { name: &info.name, days, not_after: info.not_after });
        let text = format!(
            "Warning: The certificate {} expires in {days} day(s), at {}: it makes no new backups \
             from then on.",
            info.name,
            iso8601(info.not_after)
        );
        out.tell(Told::Own { text }.message());
    }
}

fn read_files(
    databases: &Databases,
    file: &String,
    wanted: &CreateCertificate,
) -> Result<Read, Error> {
    let read = |named: &String| {
        let path = databases.file(named).map_err(no_path)?;
        // A command waits for the writer of a pipe, and nothing would end a statement that does.
        files::refuse_odd(&path).map_err(|_| bad_file())?;
        let bytes = read_certificate_file(&path).map_err(|_| bad_file())?;
        Ok::<_, Error>((path, bytes))
    };
    let (path, certificate) = read(file)?;
    let key = wanted.key_file.as_ref().map(read).transpose()?;
    let password = wanted.decryption_password.as_deref().map(secret_bytes).transpose()?;
    if wanted.pfx {
        let detail = "a PFX needs DECRYPTION BY PASSWORD.";
        let password = password.ok_or(ServerError::BadCombination { detail })?;
        return Read::from_pkcs12(&certificate, &path, &password).map_err(not_read);
    }
    let key = key.as_ref().map(|(path, bytes)| (path.as_path(), bytes.as_slice()));
    from_files(&path, &certificate, key, password.as_ref())
}

fn from_files(
    path: &Path,
    certificate: &[u8],
    key: Option<(&Path, &[u8])>,
    password: Option<&tdekit_key_store::SecretBytes>,
) -> Result<Read, Error> {
    let certificate = match certificate.first() {
        Some(&DER) => encode_certificate(certificate).into_bytes(),
        _ => certificate.to_vec(),
    };
    let key = match key {
        Some((_, bytes)) if bytes.starts_with(&PVK_MAGIC) => {
            return Err(fault::feature(
                "a private key in Windows' PVK form (openssl rsa -inform PVK, then openssl pkcs8 \
                 -topk8, makes a file that is read)",
            ));
        }
        Some((_, bytes)) if bytes.first() == Some(&DER) => {
            return Err(fault::feature(
                "a private key in DER (openssl pkcs8 -inform DER -outform PEM makes a file that is \
                 read)",
            ));
        }
        Some((path, bytes)) => Some((bytes, path)),
        None => None,
    };
    Read::from_pem((&certificate, path), key, password).map_err(not_read)
}

fn not_read(failure: StoreError) -> Error {
    match failure {
        StoreError::BadCertificate { .. } => bad_file(),
        StoreError::BadSecret { .. } => ServerError::WrongKeyPassword {}.into(),
        failure => fault::of_store(&failure),
    }
}

fn bad_file() -> Error {
    ServerError::BadFile { reason: String::new() }.into()
}

fn no_path(why: NoPath) -> Error {
    ServerError::BadFile { reason: why.reason() }.into()
}

/// Parses a date as SQL Server's scripts write it, in UTC; returns seconds since 1970.
fn seconds_of(text: &str) -> Option<i64> {
    const DATES: [&[BorrowedFormatItem<'static>]; 3] = [
        format_description!("[year][month][day]"),
        format_description!("[year]-[month]-[day]"),
        format_description!("[month]/[day]/[year]"),
    ];
    const TIMES: [&[BorrowedFormatItem<'static>]; 2] =
        [format_description!("[hour]:[minute]:[second]"), format_description!("[hour]:[minute]")];
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T']).map_or((text, None), |(d, t)| (d, Some(t)));
    let date = DATES.iter().find_map(|format| Date::parse(date, format).ok())?;
    let time = match time {
        None => Time::MIDNIGHT,
        Some(time) => TIMES.iter().find_map(|format| Time::parse(time.trim(), format).ok())?,
    };
    Some(PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp())
}

/// Files that are removed again unless they are kept.
#[derive(Default)]
struct Written(Vec<PathBuf>);

impl Written {
    fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        write_new(path, bytes).map_err(|_| not_written(path))?;
        self.0.push(path.to_owned());
        Ok(())
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_scripts_write_them() {
        for text in
            ["20360101", "2036-01-01", "01/01/2036", "20360101 00:00", "2036-01-01T00:00:00"]
        {
            assert_eq!(seconds_of(text), Some(2_082_758_400), "{text}");
        }
        assert_eq!((seconds_of("tomorrow"), seconds_of("20361301")), (None, None));
    }
}
