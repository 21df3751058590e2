//! `RESTORE DATABASE`.

use std::sync::Arc;
use std::time::Instant;

use tdekit_backup_run::FindingReport;
use tdekit_backup_run::database::ownership::Ownership;
use tdekit_backup_run::database::publish::{Over, destination};
use tdekit_backup_run::database::sink::{DatabaseSink, Wanted};
use tdekit_backup_run::downgrade::{self, Consent};
use tdekit_backup_run::history;
use tdekit_backup_run::inherit::certificates_for;
use tdekit_backup_run::logged::key_of;
use tdekit_backup_run::place::{Opened, Place, open};
use tdekit_backup_run::signature::{is_our_own, refuse_wrong, require_signed};
use tdekit_backup_run::{CatalogUse, Chain, Media, RunError, SetInfo, SourceKind, UnwrapSecret};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{CertificateInfo, StoreError, Unlocked};
use tdekit_sqlite_convert::{CancelledBy, DatabaseError, Form, Watch, find_certificates};
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{Error, Progress, Restore};

use super::backup::{places, succeeded};
use super::certificates::warn_of;
use super::databases::{Databases, is_system};
use super::fault;
use super::keys::Keys;
use super::steer::steer;

/// Opens the media set of a statement.
pub(crate) fn media(
    databases: &Databases,
    wanted: &Restore,
) -> Result<(Vec<Place>, Opened), Error> {
    let places = places(databases.dir(), &wanted.devices)?;
    let opened = open(&places).map_err(|failure| fault::of_run(&failure))?;
    Ok((places, opened))
}

/// Returns the set that a statement names: the first one, as in SQL Server, unless FILE is given.
pub(crate) fn set_of<'a>(media: &'a Media, wanted: &Restore) -> Result<&'a SetInfo, Error> {
    let asked = wanted.position.as_deref().unwrap_or("1").trim();
    let position = asked.parse::<u32>().ok().filter(|position| *position > 0);
    let none = || {
        let device = media.names().join(", ");
        Error::from(ServerError::NoSetOn { position: asked.to_owned(), device })
    };
    media.set(Some(position.ok_or_else(none)?)).map_err(|failure| match failure {
        RunError::NoSet { .. } => none(),
        failure => fault::of_run(&failure),
    })
}

/// Restores a database into the served directory.
pub(crate) fn run(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    let name = wanted.database.as_deref().unwrap_or_default();
    check(wanted, name)?;
    let (places, opened) = media(databases, wanted)?;
    let set = set_of(&opened.media, wanted)?;
    if set.source == SourceKind::Stream {
        return Err(fault::own("The backup set holds a stream of bytes and no database."));
    }
    let (path, _taken) = match databases.find(name) {
        Ok(there) => {
            refuse_existing(wanted, set, name)?;
            let taken = databases.take(&there).ok_or_else(in_use)?;
            (there.path, taken)
        }
        Err(_) => (databases.path_for(name)?, databases.claim(name).ok_or_else(in_use)?),
    };
    // The statement names its set by position: faults elsewhere are reported.
    for finding in FindingReport::all(keys.operator(), &opened.media) {
        out.tell(Told::Own { text: finding.message }.message());
    }
    let begun = Instant::now();
    let work = Work { keys, media: &opened.media, set, places: &places };
    let replace = wanted.replace || path.exists();
    let cancel = out.cancel_flag();
    let made = steer(wanted.stats_percent, out, |run| {
        work.run((&path, replace), &CancelledBy(cancel), run)
    });
    let done = made.map_err(|failure| match failure {
        RunError::DatabaseFile(DatabaseError::InUse { .. } | DatabaseError::Converting { .. }) => {
            in_use()
        }
        failure => fault::of_run(&failure),
    })?;
    history::record_use(
        keys.operator(),
        &opened.media,
        set.position,
        CatalogUse::Database,
        Some(&path),
    );
    warn_of(keys.operator(), &done.certificates, out);
    let (position, pages) = (set.position, done.pages);
    out.tell(Told::Processed { name: name.to_owned(), pages, position }.message());
    out.tell(succeeded("RESTORE DATABASE", pages, done.bytes, begun));
    Ok(())
}

fn check(wanted: &Restore, name: &str) -> Result<(), Error> {
    if is_system(name) {
        return Err(fault::feature("RESTORE of a system database"));
    }
    if !wanted.recovery {
        return Err(fault::feature(
            "RESTORE WITH NORECOVERY (a differential set is restored together with its base)",
        ));
    }
    if !wanted.moves.is_empty() {
        return Err(fault::feature(
            "RESTORE WITH MOVE (a database is one file of the served directory)",
        ));
    }
    Ok(())
}

/// Without REPLACE, nothing is overwritten.
fn refuse_existing(wanted: &Restore, set: &SetInfo, name: &str) -> Result<(), Error> {
    if wanted.replace {
        return Ok(());
    }
    if !set.database_name.eq_ignore_ascii_case(name) {
        return Err(ServerError::OtherDatabase { name: name.to_owned() }.into());
    }
    Err(ServerError::NotReplaced { name: name.to_owned() }.into())
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
}

/// Result of a restore.
struct Done {
    pages: u64,
    bytes: u64,
    /// The certificates for which the database is encrypted.
    certificates: Vec<CertificateInfo>,
}

impl Work<'_> {
    fn run(
        &self,
        (path, replace): (&std::path::Path, bool),
        watch: &dyn Watch,
        run: &tdekit_backup_run::Run<'_>,
    ) -> Result<Done, RunError> {
        let over = if replace { Over::Database } else { Over::Nothing };
        let path = destination(path, over)?;
        if self.places.iter().any(|place| place.is_file(&path)) {
            return Err(RunError::OntoMedia { path });
        }
        let base = self.set.base;
        let base = base.and_then(|base| self.media.sets().iter().find(|each| each.set_id == base));
        let sealed =
            [Some(self.set), base].into_iter().flatten().any(|set| set.algorithm.is_some());
        let unlocked = match sealed || self.set.source_encrypted {
            true => Some(self.keys.open()?),
            false => None,
        };
        let form = self.form(&path, unlocked.as_ref())?;
        let keys = unlocked.as_deref().map(|keys| keys as &dyn UnwrapSecret);
        let mut chain = self.media.chain(Some(self.set.position), keys)?;
        self.refuse((&mut chain, unlocked.as_deref()), (&path, &form), run)?;
        let wanted = Wanted {
            path,
            replace,
            form: form.clone(),
            sealable: self.set.source_encrypted,
            ownership: Ownership::default(),
            check: false,
            set_key: key_of(self.set, self.places),
        };
        let mut sink = DatabaseSink::new(wanted, unlocked.clone(), watch)?;
        let restored = chain.restore_database(&mut sink, run);
        let outcome = restored?;
        sink.publish()?;
        let certificates = match form {
            Form::Plain => Vec::new(),
            Form::Encrypted { certificates, .. } => certificates,
        };
        Ok(Done { pages: outcome.pages, bytes: outcome.bytes, certificates })
    }

    /// Refuses what the configuration refuses, to make an encrypted database plain, and to replace
    /// it by a set that anybody can have made: no statement can express that this is wanted.
    fn refuse(
        &self,
        (chain, unlocked): (&mut Chain<'_>, Option<&Unlocked>),
        (path, form): (&std::path::Path, &Form),
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
    fn form(
        &self,
        path: &std::path::Path,
        unlocked: Option<&Arc<Unlocked>>,
    ) -> Result<Form, RunError> {
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
