//! `BACKUP DATABASE`.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use tdekit_backup_run::{
    BackupJob, BackupOutcome, CertificateNames, Compression, DatabaseSource, Encryption as Sealed,
    Labels, Layout, Mode, RunError, SetKind, Source, UnwrapSecret, backup,
};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::StoreError;
use tdekit_sqlite::keyring;
use tdekit_sqlite_convert::{
    DatabaseError, FileKind, certificates_of, file_uri, io_error, open_header, register,
};
use tdekit_wire_tsql::{Backup, Device, Error, Progress};

use super::certificates::warn_of;
use super::databases::{Databases, Found, is_system};
use super::keys::Keys;
use super::steer::steer;
use super::{fault, files, kept};
use crate::backup::downgrade;
use crate::backup::history;
use crate::backup::inherit::{Inherited, refuse_downgrade};
use crate::backup::labels::{host, program, user};
use crate::backup::place::{self, Place, targets};
use crate::backup::source::{Chosen, Database, Wrapping, choose};
use crate::backup::value::EncryptionChoice;
use crate::commands::backup::note_uses;
use crate::error::CommandError;

/// Makes a backup set.
pub(crate) fn run(
    (databases, keys): (&Databases, &Keys),
    wanted: &Backup,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    check(wanted)?;
    if is_system(&wanted.database) {
        return Err(fault::feature("BACKUP of a system database"));
    }
    let found = databases.find(&wanted.database)?;
    let places = places(databases.dir(), &wanted.devices)?;
    let choice = choice(wanted, out)?;
    let begun = Instant::now();
    let opening = databases.opening(&found.name)?;
    let database = open(&found.path, keys).map_err(|failure| fault::of_command(&failure))?;
    drop(opening);
    let selectors: Vec<_> = wanted.encryption.iter().map(|with| with.certificate.clone()).collect();
    let appends = !(wanted.init || wanted.format);
    let of_command = |failure| fault::of_command(&failure);
    let inherited = match appends {
        true => Inherited::of(&places).map_err(of_command)?,
        false => None,
    };
    let chosen = choose(choice, &selectors, Some(&database), inherited.as_ref(), || wrapping(keys))
        .map_err(|failure| not_chosen(&failure, &selectors))?;
    if appends {
        history::refuse_cut(keys.global(), &places).map_err(of_command)?;
        if chosen.is_none() {
            refuse_downgrade(keys.global(), &places).map_err(of_command)?;
        }
    }
    let replaced = if wanted.init || wanted.format { uses_of(&places) } else { Vec::new() };
    let job = Job { wanted, found: &found, places: &places, chosen: chosen.as_ref(), keys };
    let made = steer(wanted.stats_percent, out, |run| job.run(database, run));
    let outcome = made.map_err(|failure| not_made(&failure, wanted))?;
    if let Some((chosen, wrapping)) = &chosen {
        note_uses(wrapping.store(), &chosen.certificates, outcome.media_id, &places);
        warn_of(&chosen.certificates, out);
    }
    forget(keys, &replaced);
    if let Ok(opened) = place::open(&places) {
        history::record(keys.global(), &opened.media, &opened.devices, &[outcome.position]);
    }
    tell(&found, &outcome, begun, out);
    Ok(())
}

/// The places that devices name.
///
/// # Errors
/// 3201 for a path of Windows or an address that no store is known for.
pub(crate) fn places(base: &Path, devices: &[Device<String>]) -> Result<Vec<Place>, Error> {
    let place = |device: &Device<String>| match device {
        Device::Disk(path) => files::resolve(base, path)
            .map(Place::File)
            .ok_or_else(|| fault::device(path, &std::io::Error::from_raw_os_error(20))),
        Device::Url(address) => match Place::of(address.as_ref()) {
            object @ Place::Object(_) => Ok(object),
            _ => Err(fault::device(address, &std::io::ErrorKind::NotFound.into())),
        },
    };
    devices.iter().map(place).collect()
}

/// What a media set cannot hold, or a set not be.
fn check(wanted: &Backup) -> Result<(), Error> {
    if wanted.media_name.is_some() || wanted.media_description.is_some() {
        return Err(fault::feature("BACKUP WITH MEDIANAME or MEDIADESCRIPTION"));
    }
    if wanted.differential && (wanted.init || wanted.format) {
        return Err(fault::feature(
            "BACKUP WITH DIFFERENTIAL and INIT or FORMAT (a differential set stands behind its \
             base, in the same media set)",
        ));
    }
    Ok(())
}

fn choice(wanted: &Backup, out: &mut Progress<'_>) -> Result<Option<EncryptionChoice>, Error> {
    let Some(with) = &wanted.encryption else { return Ok(None) };
    let algorithm = Algorithm::from_str(&with.algorithm)
        .map_err(|_| Error::NotARecognizedOption { name: with.algorithm.clone() })?;
    if algorithm == Algorithm::TripleDes3Key {
        let text = "TRIPLE_DES_3KEY is legacy: it is a hundred times slower than AES_256 and no \
                    safer.";
        out.tell(fault::told(50_000, text));
    }
    Ok(Some(EncryptionChoice::Algorithm(algorithm)))
}

/// Opens a database of this process, whose other connections keep their locks.
fn open(path: &Path, keys: &Keys) -> Result<Database, CommandError> {
    register().map_err(DatabaseError::sqlite("prepare to open", path, None))?;
    let area = kept::area(path).map_err(io_error("read", path))?;
    let (mut unlocked, mut encrypted) = (None, None);
    match FileKind::of(&area) {
        FileKind::Plain | FileKind::Empty => {}
        FileKind::Encrypted => {
            let store = keys.open()?;
            keyring::set_unlocked(Arc::clone(&store));
            let (header, _) = open_header(path, &area, &store)?;
            unlocked = Some(store);
            encrypted = Some((header.file_id, certificates_of(&header)));
        }
        FileKind::Other => {
            return Err(DatabaseError::NotADatabase { path: path.to_owned() }.into());
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // So that TDEKIT_ENCRYPT_NEW does not reach an empty file.
    let parameters = if encrypted.is_some() { "" } else { "?tdekit=plain" };
    let connection = Connection::open_with_flags(file_uri(path) + parameters, flags)
        .map_err(DatabaseError::sqlite("open", path, None))?;
    let (encrypted_file_id, certificates) = encrypted.unzip();
    let source = DatabaseSource { connection, path: path.to_owned(), encrypted_file_id };
    Ok(Database { source, certificates, unlocked })
}

/// The store that wraps: open where it can be, which rules out certificates of others.
fn wrapping(keys: &Keys) -> Result<Wrapping, CommandError> {
    match keys.open() {
        Ok(unlocked) => Ok(Wrapping::Unlocked(unlocked)),
        Err(CommandError::Store(StoreError::NoProvider { .. })) => {
            Ok(Wrapping::Store(crate::session::open_store(keys.global())?))
        }
        Err(failure) => Err(failure),
    }
}

/// A backup on its way.
struct Job<'a> {
    wanted: &'a Backup,
    found: &'a Found,
    places: &'a [Place],
    chosen: Option<&'a (Chosen, Wrapping)>,
    keys: &'a Keys,
}

impl Job<'_> {
    fn run(
        &self,
        database: Database,
        run: &tdekit_backup_run::Run<'_>,
    ) -> Result<BackupOutcome, CommandError> {
        let Job { wanted, found, places, chosen, keys } = self;
        downgrade::refuse_backup(keys.global(), chosen.is_some(), false)?;
        let names: Vec<_> = chosen
            .iter()
            .flat_map(|(chosen, _)| &chosen.certificates)
            .map(tdekit_key_store::CertificateInfo::thumbprint)
            .collect();
        let recipients =
            chosen.map(|(_, with)| CertificateNames { store: with.store(), names: &names });
        // The base of a differential set may be encrypted.
        let base_keys = match (wanted.differential, database.unlocked.clone()) {
            (true, None) => keys.open().ok(),
            (_, unlocked) => unlocked,
        };
        let labels = Labels {
            set_name: wanted.name.clone().unwrap_or_default(),
            database_name: found.name.clone(),
            path: found.path.to_string_lossy().into_owned(),
            host: host(),
            user: user(),
            description: wanted.description.clone().unwrap_or_default(),
            program: program(),
        };
        let replace = wanted.init || wanted.format;
        let job = BackupJob {
            layout: if places.len() > 1 { Layout::Stripes } else { Layout::Mirrors },
            mode: if replace { Mode::Replace } else { Mode::Append },
            differential: wanted.differential,
            copy_only: wanted.copy_only,
            compression: match wanted.compression {
                Some(true) => Compression::Zstd { level: 1 },
                Some(false) | None => Compression::None,
            },
            encryption: chosen.zip(recipients.as_ref()).map(|((chosen, _), recipients)| Sealed {
                algorithm: chosen.algorithm,
                recipients,
            }),
            base_keys: base_keys.as_deref().map(|keys| keys as &dyn UnwrapSecret),
            labels,
            ..BackupJob::new(Source::Database(database.source))
        };
        let expected = std::fs::metadata(&found.path).map_or(0, |file| file.len());
        Ok(backup(job, targets(places, expected)?, run)?)
    }
}

fn tell(found: &Found, outcome: &BackupOutcome, begun: Instant, out: &mut Progress<'_>) {
    let (name, position, pages) = (&found.name, outcome.position, outcome.pages_stored);
    let processed =
        format!("Processed {pages} pages for database '{name}', file '{name}' on file {position}.");
    out.tell(fault::told(4035, processed));
    let verb = match outcome.kind {
        SetKind::Full => "BACKUP DATABASE",
        SetKind::Differential => "BACKUP DATABASE WITH DIFFERENTIAL",
    };
    out.tell(succeeded(verb, pages, outcome.source_bytes, begun));
}

/// SQL Server's last message of a backup or a restore.
pub(crate) fn succeeded(
    verb: &str,
    pages: u64,
    bytes: u64,
    begun: Instant,
) -> tdekit_wire_tds::Message {
    let elapsed = begun.elapsed().as_secs_f64().max(0.001);
    #[allow(clippy::cast_precision_loss)]
    let rate = bytes as f64 / f64::from(1 << 20) / elapsed;
    let text = format!(
        "{verb} successfully processed {pages} pages in {elapsed:.3} seconds ({rate:.3} MB/sec)."
    );
    fault::told(3014, text)
}

fn not_chosen(failure: &CommandError, selectors: &[String]) -> Error {
    match failure {
        CommandError::Store(StoreError::CertificateMissing { .. } | StoreError::Missing { .. }) => {
            fault::no_certificate("find", &selectors.join(", "))
        }
        failure => fault::of_command(failure),
    }
}

fn not_made(failure: &CommandError, wanted: &Backup) -> Error {
    match failure {
        CommandError::Run(RunError::NoBase { .. }) => fault::error(
            3035,
            format!(
                "Cannot perform a differential backup for database \"{}\", because a current \
                 database backup does not exist. Perform a full database backup by reissuing \
                 BACKUP DATABASE, omitting the WITH DIFFERENTIAL option.",
                wanted.database
            ),
        ),
        failure => fault::of_command(failure),
    }
}

/// Which certificates the sets at `places` need, as media id and SHA-256.
fn uses_of(places: &[Place]) -> Vec<([u8; 16], [u8; 32])> {
    let opened = places.iter().filter_map(|each| place::open(std::slice::from_ref(each)).ok());
    let uses = opened.flat_map(|opened| {
        let id = opened.media.id();
        let recipients = opened.media.sets().iter().flat_map(|set| set.recipients.iter());
        recipients.map(|each| (id, each.wrapped.sha256)).collect::<Vec<_>>()
    });
    uses.collect()
}

/// Has the key store forget media sets that were replaced.
fn forget(keys: &Keys, uses: &[([u8; 16], [u8; 32])]) {
    let Ok(Some(store)) = keys.store() else { return };
    for (id, sha256) in uses {
        // It only makes refusals of DROP CERTIFICATE too careful.
        let _ = store.forget_use(sha256, *id);
    }
}
