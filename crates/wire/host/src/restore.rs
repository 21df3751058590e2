//! `RESTORE DATABASE` and `RESTORE LOG`.
//!
//! Each statement makes the whole database anew: from the set that it names and those that this one
//! stands on, or where these are not at hand any more, from a log backup and the database that was
//! restored from them. So a database that is RESTORING is always as one set says, and a restore
//! that ends in between leaves what was there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tdekit_backup_run::FindingReport;
use tdekit_backup_run::database::ownership::Ownership;
use tdekit_backup_run::database::publish::{Over, destination};
use tdekit_backup_run::database::sink::{DatabaseSink, Wanted};
use tdekit_backup_run::downgrade::{self, Consent};
use tdekit_backup_run::elsewhere::attach_set;
use tdekit_backup_run::history;
use tdekit_backup_run::inherit::certificates_for;
use tdekit_backup_run::logged::key_of;
use tdekit_backup_run::place::{Opened, Place};
use tdekit_backup_run::readings;
use tdekit_backup_run::signature::{is_our_own, refuse_wrong, require_signed};
use tdekit_backup_run::{
    CatalogStatement, Chain, Media, Onto, OwnSets, RunError, SetInfo, SetKind, SourceKind,
    UnwrapSecret, date_of_ms,
};
use tdekit_key_crypto::{Algorithm, Kind};
use tdekit_key_store::{CertificateInfo, StoreError, Unlocked};
use tdekit_sqlite_convert::{CancelledBy, DatabaseError, Form, Watch, find_certificates};
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{Error, Progress, Recovery, Restore, RestoreKind, unix_ms};

use super::backup::{self, places, succeeded};
use super::behind::{self, Ground};
use super::certificates::warn_of;
use super::create::{check_log, new_file, remove_made};
use super::databases::{Databases, Found, is_system};
use super::fault;
use super::keys::Keys;
use super::noted::{self, Noted, RestoredTo, Restoring};
use super::recovery_path;
use super::steer::steer;
use super::stop;

/// Opens the media set of a statement.
pub(crate) fn media(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
) -> Result<(Vec<Place>, Opened), Error> {
    let places = places(databases, &wanted.devices)?;
    let opened = opened(keys, &places)?;
    Ok((places, opened))
}

/// Opens the media at these places.
pub(crate) fn opened(keys: &Keys, places: &[Place]) -> Result<Opened, Error> {
    readings::open_recorded(keys.operator(), places).map_err(|failure| fault::of_run(&failure))
}

/// Returns the set that a statement names: the first one, as in SQL Server, unless FILE is given.
pub(crate) fn set_of<'a>(media: &'a Media, wanted: &Restore) -> Result<&'a SetInfo, Error> {
    let asked = wanted.position.as_deref().unwrap_or("1").trim();
    let position = position_of(wanted);
    let none = || {
        let device = media.names().join(", ");
        Error::from(ServerError::NoSetOn { position: asked.to_owned(), device })
    };
    media.set(Some(position.ok_or_else(none)?)).map_err(|failure| match failure {
        RunError::NoSet { .. } => none(),
        failure => fault::of_run(&failure),
    })
}

fn position_of(wanted: &Restore) -> Option<u32> {
    let asked = wanted.position.as_deref().unwrap_or("1").trim();
    asked.parse().ok().filter(|position| *position > 0)
}

/// Restores a database into the served directory, from a full set, a differential one, or a log
/// backup.
pub(crate) fn run(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    let name = wanted.database.as_deref().unwrap_or_default();
    if is_system(name) {
        return Err(fault::feature("RESTORE of a system database"));
    }
    let (places, mut opened) = media((databases, keys), wanted)?;
    let there = databases.find_any(name);
    let noted = there.as_ref().map_or_else(|_| Ok(Noted::default()), |it| noted::read(&it.path))?;
    if let (RestoreKind::Log, Some(Restoring::At(to))) = (&wanted.kind, &noted.restoring) {
        attach_set(keys.operator(), &mut opened.media, to.set_id);
    }
    let set = set_of(&opened.media, wanted).inspect_err(|_| {
        let failure = position_of(wanted).and_then(|it| opened.media.set(Some(it)).err());
        let failure = failure.map(|failure| failure.kind());
        readings::record_restore(keys.operator(), (&places, &opened.media), None, failure);
    })?;
    if set.source == SourceKind::Stream {
        return Err(fault::own("The backup set holds a stream of bytes and no database."));
    }
    let log = wanted.kind == RestoreKind::Log;
    refuse_other_kind(log, &opened.media, set)?;
    let ground = match log {
        true => {
            let found = there.as_ref().map_err(|failure| nothing_there(name, failure))?;
            let to = (restored_to(&noted, found)?, recovery_path::full_of(&noted));
            behind::log((&opened.media, keys), set, to)?
        }
        false => behind::database_set(&opened.media, set).inspect_err(|_| {
            let (media, failure) = ((&*places, &opened.media), Some(Kind::Damaged));
            readings::record_restore(keys.operator(), media, Some(set), failure);
        })?,
    };
    let before_stop = stop::before_stop(wanted, set, noted.restoring.as_ref())?;
    let is_new = there.is_err();
    let statement = statement(wanted, set, there.as_ref().map_or(name, |there| &there.name));
    let (path, _taken) = match there {
        Ok(there) => {
            refuse_existing(wanted, set, name, &noted)?;
            let taken = databases.take(&there).ok_or_else(in_use)?;
            (there.path, taken)
        }
        Err(failure) if databases.is_attached(name)? => {
            // REPLACE makes the file anew where it was.
            let lost = databases.lost_file(name)?.filter(|_| wanted.replace).ok_or(failure)?;
            (lost, databases.claim(name).ok_or_else(in_use)?)
        }
        Err(_) => {
            let path = new_place((databases, keys), wanted, set, name)?;
            (path, databases.claim(name).ok_or_else(in_use)?)
        }
    };
    check_moves(databases, wanted, set, &path, out)?;
    // The statement names its set by position: faults elsewhere are reported.
    for finding in FindingReport::all(keys.operator(), &opened.media) {
        out.tell(Told::Own { text: finding.message }.message());
    }
    let begun = Instant::now();
    let work = Work { keys, media: &opened.media, set, places: &places, ground };
    let recovers = wanted.recovery && !before_stop;
    let done = work.noted(&path, (&noted, wanted, recovers), out)?;
    if is_new {
        databases.register(name, &path).inspect_err(|_| remove_made(&path))?;
    }
    record(keys, (&opened, set, ground), &statement, &path);
    warn_of(keys.operator(), &done.certificates, out);
    let (position, pages) = (set.position, done.pages);
    out.tell(Told::Processed { name: name.to_owned(), pages, position }.message());
    if before_stop {
        out.tell(Told::BeforeStop {}.message());
    }
    let verb = if log { "RESTORE LOG" } else { "RESTORE DATABASE" };
    out.tell(succeeded(verb, pages, done.bytes, begun));
    Ok(())
}

/// Fails for a set that the statement does not restore.
fn refuse_other_kind(log: bool, media: &Media, set: &SetInfo) -> Result<(), Error> {
    let verb = match (log, set.kind) {
        (true, SetKind::Log) | (false, SetKind::Full | SetKind::Differential) => return Ok(()),
        (false, SetKind::Log) => "BACKUP LOG",
        (true, SetKind::Full) => "BACKUP DATABASE",
        (true, SetKind::Differential) => "BACKUP DATABASE WITH DIFFERENTIAL",
    };
    let file = media.names().join(", ");
    Err(ServerError::NotForRestore { file, verb }.into())
}

/// Returns the error of `RESTORE LOG` for a database that is not found.
fn nothing_there(name: &str, failure: &Error) -> Error {
    match failure {
        Error::UnknownDatabase { .. } => {
            ServerError::NothingToRestoreOn { name: name.to_owned() }.into()
        }
        failure => failure.clone(),
    }
}

/// Returns the facts of a statement for the history.
fn statement(wanted: &Restore, set: &SetInfo, name: &str) -> CatalogStatement {
    CatalogStatement {
        database_name: name.to_owned(),
        login_name: wanted.login.clone(),
        set_type: CatalogStatement::type_of(set.kind).to_owned(),
        replace: wanted.replace,
        recovery: wanted.recovery,
        stop_date: wanted.stop_at.as_deref().and_then(unix_ms).map(date_of_ms),
        device_count: u32::try_from(wanted.devices.len()).unwrap_or(u32::MAX),
    }
}

/// `RESTORE DATABASE d WITH RECOVERY`: a database that was restored is used as it is.
pub(crate) fn recover(databases: &Databases, wanted: &Restore) -> Result<(), Error> {
    let name = wanted.database.as_deref().unwrap_or_default();
    if is_system(name) {
        return Err(fault::feature("RESTORE of a system database"));
    }
    let found = databases.find_any(name)?;
    let _taken = databases.take(&found).ok_or_else(in_use)?;
    let noted = noted::read(&found.path)?;
    match &noted.restoring {
        None => Err(ServerError::IsRecovered {}.into()),
        Some(Restoring::Interrupted) => {
            Err(ServerError::RestoreInterrupted { name: found.name }.into())
        }
        Some(Restoring::At(_)) if !wanted.recovery || wanted.stop_at.is_some() => Ok(()),
        Some(Restoring::At(_)) => noted::write(&found.path, &Noted { restoring: None, ..noted }),
    }
}

/// Returns the set that a database which is RESTORING was restored from.
///
/// # Errors
/// 3117 for a database that is online, 4319 for one of which a restore did not end.
fn restored_to<'a>(noted: &'a Noted, found: &Found) -> Result<&'a RestoredTo, Error> {
    match &noted.restoring {
        None => Err(ServerError::NotRestoring {}.into()),
        Some(Restoring::Interrupted) => {
            Err(ServerError::RestoreInterrupted { name: found.name.clone() }.into())
        }
        Some(Restoring::At(to)) => Ok(to),
    }
}

/// Records the sets of the media that were read, as SQL Server does, and the statement.
fn record(
    keys: &Keys,
    (opened, set, ground): (&Opened, &SetInfo, Ground),
    statement: &CatalogStatement,
    path: &Path,
) {
    let (operator, media) = (keys.operator(), &opened.media);
    let read: Vec<u32> = match ground {
        Ground::Database { .. } => vec![set.position],
        Ground::Media => {
            let own = |it: &&SetInfo| media.media_of(it).id() == media.id();
            media.with_base(set).filter(own).map(|it| it.position).collect()
        }
    };
    history::record(operator, media, &opened.devices, &read);
    history::record_statement(operator, set, statement, path);
}

/// Returns the place of a database that is not there: where MOVE names one, else in the served
/// directory.
fn new_place(
    both: (&Databases, &Keys),
    wanted: &Restore,
    set: &SetInfo,
    name: &str,
) -> Result<PathBuf, Error> {
    let own = both.0.path_for(name)?;
    let data = |(from, _): &&(String, String)| from.eq_ignore_ascii_case(&set.database_name);
    match wanted.moves.iter().find(data) {
        Some((_, to)) if both.0.database_file(to).as_ref() != Ok(&own) => new_file(both, to),
        _ => Ok(own),
    }
}

/// Refuses MOVE of a database that is there to another place than it has. The log stands beside it,
/// wherever a statement would have it.
fn check_moves(
    databases: &Databases,
    wanted: &Restore,
    set: &SetInfo,
    path: &Path,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    for (from, to) in &wanted.moves {
        if from.eq_ignore_ascii_case(&format!("{}_log", set.database_name)) {
            check_log(databases, to)?;
            let text = "MOVE of the log changes nothing: it stands beside the database.";
            out.tell(Told::Own { text: text.to_owned() }.message());
        } else if !from.eq_ignore_ascii_case(&set.database_name) {
            let (logical, name) = (from.clone(), set.database_name.clone());
            return Err(ServerError::NoLogicalFile { logical, name }.into());
        } else if databases.file(to).as_deref() != Ok(path) {
            return Err(fault::feature(&format!(
                "RESTORE WITH MOVE to another file than {}, which the database has",
                databases.shown(path)
            )));
        }
    }
    Ok(())
}

/// Without REPLACE, nothing is overwritten but a database that is RESTORING, by the same one.
fn refuse_existing(
    wanted: &Restore,
    set: &SetInfo,
    name: &str,
    noted: &Noted,
) -> Result<(), Error> {
    // A log backup was judged by the set that it stands on.
    if wanted.replace || wanted.kind == RestoreKind::Log {
        return Ok(());
    }
    let restoring = noted.restoring.as_ref();
    let is_of_same = match restoring {
        None => set.database_name.eq_ignore_ascii_case(name),
        Some(restoring) => {
            behind::is_of_same(set, restoring, name) || recovery_path::stands_on(set, noted)
        }
    };
    let name = name.to_owned();
    match (is_of_same, restoring) {
        (true, Some(_)) => recovery_path::refuse_other_base(set, noted),
        (true, None) => Err(ServerError::NotReplaced { name }.into()),
        (false, _) => Err(ServerError::OtherDatabase { name }.into()),
    }
}

fn in_use() -> Error {
    ServerError::Exclusive {}.into()
}

/// A restore in progress.
struct Work<'a> {
    keys: &'a Keys,
    media: &'a Media,
    set: &'a SetInfo,
    places: &'a [Place],
    ground: Ground,
}

/// A restore that ended without an error.
enum Made {
    Done(Done),
    /// The database was not as [`Ground::Database`] has it: the number of a page.
    Differs(u32),
}

/// Result of a restore.
struct Done {
    pages: u64,
    bytes: u64,
    /// The certificates for which the database is encrypted.
    certificates: Vec<CertificateInfo>,
}

impl Work<'_> {
    /// Restores, and notes that the database is restored: before its file changes, and when it has.
    fn noted(
        &self,
        path: &Path,
        (noted, wanted, recovers): (&Noted, &Restore, bool),
        out: &mut Progress<'_>,
    ) -> Result<Done, Error> {
        let replace = wanted.replace || path.exists();
        let note = |restoring| noted::write(path, &Noted { restoring, ..noted.clone() });
        if !recovers && noted.restoring.is_none() {
            note(Some(Restoring::Interrupted))?;
        }
        let cancel = out.cancel_flag();
        let made = steer(wanted.stats_percent, out, |run| {
            self.run((path, replace), &CancelledBy(cancel), run)
        });
        let (operator, failure) = (self.keys.operator(), made.as_ref().err().map(RunError::kind));
        if failure.is_some() || self.ground == Ground::Media {
            let media = (self.places, self.media);
            readings::record_restore(operator, media, Some(self.set), failure);
        }
        let done = match made {
            Ok(Made::Done(done)) => done,
            Ok(Made::Differs(page)) => return Err(self.ground.differs(path, page)),
            Err(failure) => {
                // The file is as it was.
                note(noted.restoring.clone())?;
                return Err(match failure {
                    RunError::DatabaseFile(
                        DatabaseError::InUse { .. } | DatabaseError::Converting { .. },
                    ) => in_use(),
                    failure => fault::of_run(&failure),
                });
            }
        };
        let (media_id, set) = (self.media.id(), self.set);
        let (set_id, position, time_ms) = (set.set_id, set.position, set.begun_ms);
        let database = Some(noted::name_digest(&set.database_name));
        let to = RestoredTo { media_id, set_id, position, time_ms, database };
        let restoring = (!recovers).then_some(Restoring::At(to));
        // A backup of another database of this name puts that one in its place.
        let made_ms = noted.made_ms.filter(|made_ms| set.begun_ms >= *made_ms);
        let own = Some(self.own_sets(noted));
        // The model is in no set; only under another one than SIMPLE is a log backup made.
        let recovery = match (set.kind, noted.recovery) {
            (SetKind::Log, Recovery::Simple) => Recovery::Full,
            (_, model) => model,
        };
        let noted = Noted { restoring, made_ms, own, recovery, ..noted.clone() };
        noted::write(path, &noted)?;
        Ok(done)
    }

    /// Returns the sets that the restored database is of: those that it was restored from. Sets
    /// that are left out are not among them, so that no later set stands on one.
    fn own_sets(&self, noted: &Noted) -> OwnSets {
        let mut own = match self.ground {
            Ground::Media => OwnSets::default(),
            Ground::Database { .. } => noted.own.clone().unwrap_or_default(),
        };
        for set in self.media.with_base(self.set) {
            own.add(set.kind, set.set_id);
        }
        own
    }

    fn run(
        &self,
        (path, replace): (&Path, bool),
        watch: &dyn Watch,
        run: &tdekit_backup_run::Run<'_>,
    ) -> Result<Made, RunError> {
        let over = if replace { Over::Database } else { Over::Nothing };
        let path = destination(path, over)?;
        if self.places.iter().any(|place| place.is_file(&path)) {
            return Err(RunError::OntoMedia { path });
        }
        let sealed = self.media.with_base(self.set).any(|set| set.algorithm.is_some());
        let unlocked = match sealed || self.set.source_encrypted {
            true => Some(self.keys.open()?),
            false => None,
        };
        let form = self.form(&path, unlocked.as_ref())?;
        let keys = unlocked.as_deref().map(|keys| keys as &dyn UnwrapSecret);
        let mut chain = match self.ground {
            Ground::Media => self.media.chain(Some(self.set.position), keys)?,
            Ground::Database { .. } => self.media.alone(self.set.position, keys)?,
        };
        self.refuse((&mut chain, unlocked.as_deref()), (&path, &form), run)?;
        let wanted = Wanted {
            path: path.clone(),
            replace,
            form: form.clone(),
            sealable: self.set.source_encrypted,
            ownership: Ownership::default(),
            check: false,
            set_key: key_of(self.set, self.places),
        };
        let mut sink = DatabaseSink::new(wanted, unlocked.clone(), watch)?;
        let outcome = match self.ground {
            Ground::Media => chain.restore_database(&mut sink, run)?,
            Ground::Database { .. } => {
                let database = backup::open(&path, self.keys)?;
                match chain.restore_onto(database.source, &mut sink, run)? {
                    Onto::Restored(outcome) => outcome,
                    Onto::Differs { page } => return Ok(Made::Differs(page)),
                }
            }
        };
        sink.publish()?;
        let certificates = match form {
            Form::Plain => Vec::new(),
            Form::Encrypted { certificates, .. } => certificates,
        };
        Ok(Made::Done(Done { pages: outcome.pages, bytes: outcome.bytes, certificates }))
    }

    /// Refuses what the configuration refuses, to make an encrypted database plain, and to replace
    /// it by a set that anybody can have made: no statement can express that this is wanted.
    fn refuse(
        &self,
        (chain, unlocked): (&mut Chain<'_>, Option<&Unlocked>),
        (path, form): (&Path, &Form),
        run: &tdekit_backup_run::Run<'_>,
    ) -> Result<(), RunError> {
        let operator = self.keys.operator();
        let policy = downgrade::policy(operator)?;
        let sets: Vec<&SetInfo> = chain.sets().collect();
        downgrade::refuse_plain(&policy, &sets)?;
        let mut consent = Consent::default();
        if let Some(certificate) = &policy.signed_by {
            let store = operator.open_store().ok();
            require_signed(chain, certificate, store.as_ref(), run)?;
            consent.signed = true;
        } else {
            refuse_wrong(chain, run)?;
        }
        downgrade::refuse(path, form, consent, || match unlocked {
            Some(unlocked) => is_our_own(chain, unlocked, run),
            None => Ok(false),
        })
    }

    /// Returns encrypted if the database was, otherwise plain.
    fn form(&self, path: &Path, unlocked: Option<&Arc<Unlocked>>) -> Result<Form, RunError> {
        let Some(unlocked) = unlocked.filter(|_| self.set.source_encrypted) else {
            return Ok(Form::Plain);
        };
        let selectors = certificates_for(self.set, unlocked.store());
        if selectors.is_empty() {
            let path = path.to_owned();
            let wanted: Vec<_> =
                self.set.recipients.iter().map(|each| each.wrapped.thumbprint()).collect();
            return Err(match wanted.is_empty() {
                true => RunError::NoCertificate { path },
                false => StoreError::CertificateMissing { wanted }.into(),
            });
        }
        let certificates = find_certificates(unlocked, &selectors)?;
        Ok(Form::Encrypted { certificates, algorithm: Algorithm::Aes256 })
    }
}
