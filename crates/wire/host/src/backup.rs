//! `BACKUP DATABASE` and `BACKUP LOG`.

use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use tdekit_backup_run::begun::is_begun_since;
use tdekit_backup_run::database::source::{
    self, Chosen, Database, EncryptionChoice, Wrapping, choose,
};
use tdekit_backup_run::downgrade;
use tdekit_backup_run::elsewhere::{Subject, bases_for};
use tdekit_backup_run::history;
use tdekit_backup_run::inherit::{Inherited, refuse_downgrade};
use tdekit_backup_run::labels::{host, program, user};
use tdekit_backup_run::logged::BackupEntry;
use tdekit_backup_run::needed::{refuse_binary_log, refuse_needed};
use tdekit_backup_run::place::{self, Place, targets_kept};
use tdekit_backup_run::signature::Signer;
use tdekit_backup_run::uses::{forget_uses, known_databases, note_uses, uses_of};
use tdekit_backup_run::{
    BackupJob, BackupOutcome, CertificateNames, Compression, Encryption as Sealed, Labels, Layout,
    Media, Mode, OwnSets, RunError, SetKind, Sign, Source, Storage, UnwrapSecret, backup,
    date_of_ms, sign,
};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::{FileKind, io_error, refuse_lost, resolved_path};
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{Backup, Device, Error, Progress, Recovery};

use super::certificates::warn_of;
use super::databases::{Databases, Found, is_system};
use super::keys::Keys;
use super::noted::Noted;
use super::steer::steer;
use super::{fault, files, kept, noted, targets};

/// Makes a backup set.
pub(crate) fn run(
    (databases, keys, storage): (&Databases, &Keys, &Storage),
    wanted: &Backup,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    check(wanted)?;
    if wanted.log && wanted.database.eq_ignore_ascii_case("master") {
        return Err(ServerError::LogOfMaster {}.into());
    }
    if is_system(&wanted.database) {
        return Err(fault::feature("BACKUP of a system database"));
    }
    // The file is found and opened behind the gate: in between, the name gets no other.
    let (opening, _) = databases.opening(&wanted.database)?;
    let found = databases.find(&wanted.database)?;
    let noted = noted::read(&found.path)?;
    if wanted.log && noted.recovery == Recovery::Simple {
        return Err(ServerError::SimpleRecovery {}.into());
    }
    let places = places(databases, &wanted.devices)?;
    targets::refuse_own((databases, keys), &places)?;
    let choice = choice(wanted, out)?;
    let begun = Instant::now();
    let database = open(&found.path, keys).map_err(|failure| fault::of_run(&failure))?;
    drop(opening);
    let selectors: Vec<_> = wanted.encryption.iter().map(|with| with.certificate.clone()).collect();
    let appends = !(wanted.init || wanted.format);
    let of_command = |failure| fault::of_run(&failure);
    let (path, name, made_ms) = (&*found.path, &*found.name, noted.made_ms);
    let (database_id, own) = (database.source.encrypted_file_id, noted.own.as_ref());
    let subject = Subject { path, name, database_id, made_ms, own };
    let since_ms = noted.logged_since_ms;
    let bases = bases(keys, (wanted, &places), (subject, since_ms), out)?;
    let inherited = match appends {
        true => Inherited::of_chain(&places, &bases).map_err(of_command)?,
        false => None,
    };
    let chosen = choose(
        choice,
        &selectors,
        Some(&database),
        inherited.as_ref(),
        (keys.operator(), || Wrapping::of(keys.open(), keys.operator())),
    )
    .map_err(|failure| not_chosen(&failure, &selectors))?;
    if appends {
        history::refuse_cut(keys.operator(), &places).map_err(of_command)?;
        if chosen.is_none() {
            refuse_downgrade(keys.operator(), &places).map_err(of_command)?;
        }
    }
    let kept = refuse_binary_log(&places);
    if appends {
        kept.map_err(of_command)?;
    } else if let Err(failure) = kept.and_then(|()| refuse_needed(keys.operator(), &places)) {
        // As in SQL Server, whatever is there is replaced.
        out.tell(Told::Own { text: failure.to_string() }.message());
    }
    let replaced = if appends { Vec::new() } else { uses_of(&places) };
    // Files have neither locks nor classes.
    let on_store = places.iter().all(|place| matches!(place, Place::Object(_)));
    let storage = if on_store { storage.clone() } else { Storage::default() };
    let (found, places) = (&found, places.as_slice());
    let job = Job { wanted, found, places, chosen: chosen.as_ref(), keys, storage, noted: &noted };
    let made = steer(wanted.stats_percent, out, |run| job.run((database, bases), run));
    let outcome = made.map_err(|failure| not_made(&failure, wanted, out))?;
    if let Some((chosen, wrapping)) = &chosen {
        let media = (outcome.media_id, places);
        note_uses(keys.operator(), wrapping.store(), &chosen.certificates, media);
        warn_of(keys.operator(), &chosen.certificates, out);
    }
    forget_uses(keys.operator(), &replaced);
    if !wanted.copy_only {
        note_own(databases, (found, &noted), &outcome, out);
    }
    if let Ok(opened) = place::open(places) {
        history::record(keys.operator(), &opened.media, &opened.devices, &[outcome.position]);
    }
    tell(found, &outcome, begun, out);
    Ok(())
}

/// Notes that a set is of the database's own. A note of an older version begins to have such sets
/// by a full one: sets before it are known by their names only.
fn note_own(
    databases: &Databases,
    (found, begun): (&Found, &Noted),
    outcome: &BackupOutcome,
    out: &mut Progress<'_>,
) {
    let add = |now: Noted| {
        let is_full = outcome.kind == SetKind::Full;
        // A restore put other sets in place of those, or another database has the name.
        let has = |id: &[u8; 16]| now.own.as_ref().is_some_and(|own| own.has(id));
        let newest = |own: &OwnSets| {
            own.full().last().is_none_or(has) && own.changes().last().is_none_or(has)
        };
        let is_same = begun.own.as_ref().is_none_or(newest) && now.made_ms == begun.made_ms;
        if !is_same || now.own.is_none() && !is_full {
            return None;
        }
        let mut own = now.own.clone().unwrap_or_default();
        own.add(outcome.kind, outcome.set_id);
        Some(Noted { own: Some(own), ..now })
    };
    // Nothing replaces the file meanwhile.
    let opening = databases.opening(&found.name);
    if let Err(failure) = opening.and_then(|_open| noted::change(&found.path, add)) {
        let text = format!(
            "The backup set is whole, and could not be noted beside the database: no differential \
             set or log backup will stand on it. {failure}"
        );
        out.tell(Told::Own { text }.message());
    }
}

/// Returns the media with what a differential set or a log backup stands on.
///
/// # Errors
/// 3035 and 4214 without a base; 4214 where no full or differential set of the database was begun
/// since its recovery model ceased to be simple.
fn bases(
    keys: &Keys,
    (wanted, places): (&Backup, &[Place]),
    (subject, since_ms): (Subject<'_>, Option<i64>),
    out: &mut Progress<'_>,
) -> Result<Vec<Media>, Error> {
    if !wanted.differential && !wanted.log {
        return Ok(Vec::new());
    }
    let operator = keys.operator();
    let bases = bases_for(operator, places, subject, wanted.log)
        .map_err(|failure| not_made(&failure, wanted, out))?;
    let Some(since_ms) = since_ms.filter(|_| wanted.log) else { return Ok(bases) };
    let begun = is_begun_since(operator, (places, &bases), subject, since_ms);
    if begun.map_err(|failure| fault::of_run(&failure))? {
        return Ok(bases);
    }
    let text = format!(
        "The recovery model was SIMPLE until {} (UTC): a full or differential backup since then \
         begins a chain of log backups.",
        date_of_ms(since_ms)
    );
    out.tell(Told::Own { text }.message());
    Err(ServerError::NoLogBase {}.into())
}

/// Returns the places that devices name.
///
/// # Errors
/// 3201 for a path that names no file here, or an address of an unknown store.
pub(crate) fn places(
    databases: &Databases,
    devices: &[Device<String>],
) -> Result<Vec<Place>, Error> {
    let place = |device: &Device<String>| match device {
        Device::Disk(named) => {
            let path = databases.device(named)?;
            files::refuse_odd(&path).map_err(|failure| fault::device(named, &failure))?;
            Ok(Place::File(path))
        }
        Device::Url(address) => match Place::of(address.as_ref()) {
            object @ Place::Object(_) => Ok(object),
            _ => Err(fault::device(address, &std::io::ErrorKind::NotFound.into()).into()),
        },
    };
    devices.iter().map(place).collect()
}

/// Refuses options that no media set or set can have.
fn check(wanted: &Backup) -> Result<(), Error> {
    if wanted.media_name.is_some() || wanted.media_description.is_some() {
        return Err(fault::feature("BACKUP WITH MEDIANAME or MEDIADESCRIPTION"));
    }
    if wanted.log && (wanted.init || wanted.format) {
        return Err(fault::feature(
            "BACKUP LOG WITH INIT or FORMAT (a log backup is appended, or begins new media)",
        ));
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
        out.tell(Told::Own { text: text.to_owned() }.message());
    }
    Ok(Some(EncryptionChoice::Algorithm(algorithm)))
}

/// Opens a database of this process, whose other connections keep their locks.
pub(crate) fn open(path: &Path, keys: &Keys) -> Result<Database, RunError> {
    let area = kept::area(path).map_err(|error| RunError::from(io_error("read", path)(error)))?;
    if FileKind::of(&area) != FileKind::Encrypted {
        let known = known_databases(keys.operator())?;
        let is_known = resolved_path(path).is_some_and(|path| known.contains_key(&path));
        refuse_lost(path, &area, is_known)?;
    }
    source::open(path.to_owned(), &area, || Ok(keys.open()?))
}

/// A backup in progress.
struct Job<'a> {
    wanted: &'a Backup,
    found: &'a Found,
    places: &'a [Place],
    chosen: Option<&'a (Chosen, Wrapping)>,
    keys: &'a Keys,
    storage: Storage,
    /// The note of the database, as it was when it was opened.
    noted: &'a Noted,
}

impl Job<'_> {
    fn run(
        &self,
        (database, bases): (Database, Vec<Media>),
        run: &tdekit_backup_run::Run<'_>,
    ) -> Result<BackupOutcome, RunError> {
        let Job { wanted, found, places, chosen, keys, storage, noted } = self;
        let policy = downgrade::policy(keys.operator())?;
        let signer = match &policy.signed_by {
            Some(name) => Some(Signer::new(keys.open()?, name, keys.operator())?),
            None => Signer::of_sealed(*chosen)?,
        };
        downgrade::refuse_backup(&policy, chosen.is_some(), signer.as_ref())?;
        let names: Vec<_> = chosen
            .iter()
            .flat_map(|(chosen, _)| &chosen.certificates)
            .map(tdekit_key_store::CertificateInfo::thumbprint)
            .collect();
        let recipients =
            chosen.map(|(_, with)| CertificateNames { store: with.store(), names: &names });
        // The set that it stands on may be encrypted.
        let base_keys = match (wanted.differential || wanted.log, database.unlocked.clone()) {
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
        let entry = BackupEntry::of(Some(&database), *chosen, places);
        let log = || entry.as_ref().map_or(Ok(()), |entry| entry.write(keys.operator()));
        let job = BackupJob {
            before_publish: Some(&log),
            layout: if places.len() > 1 { Layout::Stripes } else { Layout::Mirrors },
            mode: if replace { Mode::Replace } else { Mode::Append },
            log: wanted.log,
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
            signer: signer.as_ref().map(|signer| signer as &dyn Sign),
            bases,
            made_ms: noted.made_ms,
            own: noted.own.clone(),
            base_keys: base_keys.as_deref().map(|keys| keys as &dyn UnwrapSecret),
            labels,
            ..BackupJob::new(Source::Database(database.source))
        };
        let expected = std::fs::metadata(&found.path).map_or(0, |file| file.len());
        let outcome = backup(job, targets_kept(places, expected, storage)?, run)?;
        if let Some(signer) = signer.as_ref().filter(|_| !outcome.signed) {
            sign(targets_kept(places, 0, storage)?, &outcome, signer)?;
        }
        Ok(outcome)
    }
}

fn tell(found: &Found, outcome: &BackupOutcome, begun: Instant, out: &mut Progress<'_>) {
    let (name, position, pages) = (&found.name, outcome.position, outcome.pages_stored);
    out.tell(Told::Processed { name: name.clone(), pages, position }.message());
    let verb = match outcome.kind {
        SetKind::Full => "BACKUP DATABASE",
        SetKind::Differential => "BACKUP DATABASE WITH DIFFERENTIAL",
        SetKind::Log => "BACKUP LOG",
    };
    out.tell(succeeded(verb, pages, outcome.source_bytes, begun));
}

/// Makes SQL Server's last message of a backup or a restore.
pub(crate) fn succeeded(
    verb: &'static str,
    pages: u64,
    bytes: u64,
    begun: Instant,
) -> tdekit_wire_tds::Message {
    let elapsed = begun.elapsed().as_secs_f64().max(0.001);
    #[allow(clippy::cast_precision_loss)]
    let rate = bytes as f64 / f64::from(1 << 20) / elapsed;
    Told::Succeeded { verb, pages, elapsed_s: elapsed, rate }.message()
}

fn not_chosen(failure: &RunError, selectors: &[String]) -> Error {
    match failure {
        RunError::Store(StoreError::CertificateMissing { .. } | StoreError::Missing { .. }) => {
            fault::no_certificate("find", &selectors.join(", "))
        }
        failure => fault::of_run(failure),
    }
}

fn not_made(failure: &RunError, wanted: &Backup, out: &mut Progress<'_>) -> Error {
    match failure {
        RunError::NoBase { reason } if wanted.log => {
            let text = format!(
                "A log backup stands on a full backup, or on the log backup before it: {reason}."
            );
            out.tell(Told::Own { text }.message());
            ServerError::NoLogBase {}.into()
        }
        RunError::NoBase { reason } => {
            let text = format!("A differential set stands on a full backup: {reason}.");
            out.tell(Told::Own { text }.message());
            ServerError::NoBase { name: wanted.database.clone() }.into()
        }
        failure => fault::of_run(failure),
    }
}
