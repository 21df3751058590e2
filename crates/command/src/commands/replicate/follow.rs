//! Following one database.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tdekit_backup_run::archive::{
    ArchiveError, ArchivePlace, Event, Follower, Gate, Settings, Why,
};
use tdekit_backup_run::database::source::{
    Chosen, Database, EncryptionChoice, Wrapping, choose, look, open as open_database,
};
use tdekit_backup_run::labels::{host, now_ms, program, user};
use tdekit_backup_run::place::{Place, open_briefly};
use tdekit_backup_run::retention::Rules;
use tdekit_backup_run::signature::Signer;
use tdekit_backup_run::uses::note_uses;
use tdekit_backup_run::{
    CertificateNames, Compression, Encryption, Labels, Notice, Operator, RunError, Sign, Storage,
    date_of_ms, downgrade, history,
};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_store::{KeyStore, Unlocked};
use tdekit_sqlite_convert::FileKind;

use crate::backup::report::size;
use crate::error::CommandError;
use crate::open::{open_store_for, open_store_unasked_for};
use crate::progress::stop_flag;
use crate::when::length_text;

/// A database to follow, and how.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) database: PathBuf,
    pub(super) to: OsString,
    pub(super) certificates: Vec<String>,
    pub(super) encryption: Option<EncryptionChoice>,
    pub(super) every: Duration,
    pub(super) differential_every: Duration,
    pub(super) snapshot_every: Duration,
    pub(super) log_limit: u64,
    pub(super) throttle: Option<u64>,
    pub(super) storage: Storage,
    pub(super) exec: Option<OsString>,
    /// The rules by which the archive is pruned; without one, it is not.
    pub(super) keep: Rules,
    pub(super) compression: Compression,
    pub(super) sign: Option<String>,
    pub(super) no_sign: bool,
    pub(super) take_over: bool,
}

/// A follower that has ended, for the next one.
#[derive(Default)]
pub(super) struct Begun {
    /// Why a new chain begins; a database for which one does is opened without a prompt.
    pub(super) due: Option<Why>,
    /// True if it opened the database and the archive.
    pub(super) runs: bool,
}

/// State that the followers of one process share.
pub(super) struct Shared<'a> {
    pub(super) global: &'a GlobalArgs,
    /// The key store, once one of them opened it, and whether it may be older than a key.
    unlocked: Mutex<(Option<Arc<Unlocked>>, bool)>,
    /// Device and inode of the file that each follows.
    files: Mutex<Vec<Option<(u64, u64)>>>,
    gate: Gate,
}

impl<'a> Shared<'a> {
    /// Prepares for so many databases.
    pub(super) fn new(global: &'a GlobalArgs, databases: usize) -> Self {
        let (unlocked, files) = (Mutex::default(), Mutex::new(vec![None; databases]));
        Self { global, unlocked, files, gate: Gate::default() }
    }

    /// Has the key store opened anew: what is newer is not in the one that was opened.
    pub(super) fn renew_keys(&self) {
        lock(&self.unlocked).1 = true;
    }

    /// Opens the key store, which may prompt when the process begins.
    fn unlock(&self, database: &Path, asks: bool) -> Result<Arc<Unlocked>, CommandError> {
        let mut known = lock(&self.unlocked);
        let unlocked = match &*known {
            (Some(unlocked), false) => return Ok(Arc::clone(unlocked)),
            // A password that was asked for is not at hand: then the old one has to do.
            (Some(unlocked), true) => open_store_unasked_for(database, self.global)
                .unwrap_or_else(|_| Arc::clone(unlocked)),
            (None, _) if asks => open_store_for(database, self.global)?,
            (None, _) => open_store_unasked_for(database, self.global)?,
        };
        *known = (Some(Arc::clone(&unlocked)), false);
        Ok(unlocked)
    }

    /// Opens the key store for wrapping, which never prompts.
    fn wrapping(&self) -> Result<Wrapping, RunError> {
        let mut known = lock(&self.unlocked);
        if let (Some(unlocked), false) = &*known {
            return Ok(Wrapping::Unlocked(Arc::clone(unlocked)));
        }
        match (Wrapping::open(self.global), &known.0) {
            (Ok(Wrapping::Unlocked(unlocked)), _) => {
                *known = (Some(Arc::clone(&unlocked)), false);
                Ok(Wrapping::Unlocked(unlocked))
            }
            (_, Some(unlocked)) => Ok(Wrapping::Unlocked(Arc::clone(unlocked))),
            (wrapping, None) => wrapping,
        }
    }

    /// Refuses a file that another follower of this process has: to open and close it once more
    /// would drop the locks of that one.
    fn claim(&self, index: usize, path: &Path) -> Result<(), RunError> {
        let file = fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let mut files = lock(&self.files);
        let mut others = files.iter().enumerate().filter(|(at, _)| *at != index);
        if file.is_some() && others.any(|(_, other)| *other == file) {
            return Err(ArchiveError::FollowedTwice { path: path.to_owned() }.into());
        }
        if let Some(own) = files.get_mut(index) {
            *own = file;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows the database with this index until the process is told to stop; with `once`, ships what
/// is there. `begun` says what a follower before this one has found, and then what this one has.
///
/// # Errors
/// `OtherForm` where the database was encrypted or decrypted meanwhile; all others.
pub(super) fn follow_to_the_end(
    wanted: &Wanted,
    (index, once): (usize, bool),
    begun: &mut Begun,
    shared: &Shared<'_>,
    tell: &mut dyn FnMut(Event),
) -> Result<(), CommandError> {
    let (name, global) = (&wanted.database, shared.global);
    let place = ArchivePlace::of(&wanted.to);
    shared.claim(index, name)?;
    let (path, area) = look(name)?;
    let unlocked = match FileKind::of(&area) {
        FileKind::Encrypted => Some(shared.unlock(name, begun.due.is_none())?),
        _ => None,
    };
    let database = open_with(&path, unlocked.as_ref())?;
    let (operator, wrapping) = (global, || shared.wrapping());
    let (choice, certificates) = (wanted.encryption, &wanted.certificates);
    let chosen = choose(choice, certificates, Some(&database), None, (operator, wrapping))?;
    // Before the file is opened again: closing that would drop the locks of this connection.
    drop(database);
    let policy = downgrade::policy(global)?;
    let signer = wanted.signer(global, &place, policy.signed_by.as_ref(), chosen.as_ref())?;
    downgrade::refuse_backup(&policy, chosen.is_some(), signer.as_ref())?;
    let names: Vec<_> = chosen.iter().flat_map(|(chosen, _)| &chosen.certificates).collect();
    let names: Vec<_> = names.iter().map(|info| info.thumbprint()).collect();
    let recipients = chosen
        .as_ref()
        .map(|(_, wrapping)| CertificateNames { store: wrapping.store(), names: &names });
    let encryption = chosen.as_ref().zip(recipients.as_ref());
    let settings = Settings {
        every: wanted.every,
        differential_every: wanted.differential_every,
        snapshot_every: wanted.snapshot_every,
        max_log_bytes: wanted.log_limit,
        throttle_bytes_per_s: wanted.throttle,
        storage: wanted.storage.clone(),
        compression: wanted.compression,
        encryption: encryption.map(|((chosen, _), recipients)| Encryption {
            algorithm: chosen.algorithm,
            recipients,
        }),
        signer: signer.as_ref().map(|signer| signer as &dyn Sign),
        labels: labels_of(&path),
        due: begun.due.clone().map(|why| as_found(why, unlocked.is_some())),
        take_over: wanted.take_over,
        gate: &shared.gate,
        stop: stop_flag(),
    };
    let open = Box::new(move || {
        shared.claim(index, &path)?;
        open_as_before(&path, unlocked.as_ref())
    });
    let mut follower = Follower::begin(&place, open, settings, tell)?;
    let used = chosen.as_ref().map(|(chosen, wrapping)| (chosen, wrapping.store()));
    if let Some((chosen, store)) = used {
        chosen.certificates.iter().for_each(|info| output::warn_of_certificate(store, info));
    }
    if let (None, Some(shipped)) = (follower.why(), &follower.state().shipped) {
        record(global, &place, shipped.first, used);
    }
    let mut heed = |event: Event| {
        let full = match &event {
            Event::Full { number, .. } => Some(*number),
            _ => None,
        };
        tell(event);
        if let Some(number) = full {
            begun.due = None;
            record(global, &place, number, used);
        }
    };
    begun.runs = true;
    let done = follower.run(once, &mut heed);
    let found = follower.why().filter(|_| done.is_err());
    if let Some(why @ (Why::Replaced | Why::Overwritten | Why::LogGone)) = found {
        begun.due = Some(why.clone());
    }
    Ok(done?)
}

/// Returns the reason for a chain of a database that was encrypted or decrypted, and may have
/// become again what it was before.
fn as_found(why: Why, is_encrypted: bool) -> Why {
    match (why, is_encrypted) {
        (Why::Encrypted, false) | (Why::Decrypted, true) => Why::Replaced,
        (why, _) => why,
    }
}

/// Opens the database at a path.
pub(crate) fn open_with(
    path: &Path,
    unlocked: Option<&Arc<Unlocked>>,
) -> Result<Database, RunError> {
    let (path, area) = look(path)?;
    open_database(path.clone(), &area, || {
        unlocked.cloned().ok_or(RunError::SourceChanged {
            path,
            reason: "it is encrypted now, and was not when the process began".to_owned(),
        })
    })
}

/// Opens the database at a path, if it is encrypted or plain as before, when it was `unlocked`.
fn open_as_before(path: &Path, unlocked: Option<&Arc<Unlocked>>) -> Result<Database, RunError> {
    let (path, area) = look(path)?;
    let is_encrypted = match FileKind::of(&area) {
        FileKind::Encrypted => true,
        FileKind::Plain => false,
        FileKind::Empty | FileKind::Other => unlocked.is_some(),
    };
    let other = || RunError::from(ArchiveError::OtherForm { path: path.clone(), is_encrypted });
    if is_encrypted != unlocked.is_some() {
        return Err(other());
    }
    open_database(path.clone(), &area, || unlocked.cloned().ok_or_else(other))
}

fn labels_of(path: &Path) -> Labels {
    let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Labels {
        database_name: file_name.into_owned(),
        path: path.to_string_lossy().into_owned(),
        host: host(),
        user: user(),
        program: program(),
        ..Labels::default()
    }
}

/// Records a chain's full set in the history, and in the key store the certificates that it needs.
fn record(
    global: &GlobalArgs,
    place: &ArchivePlace,
    number: u64,
    used: Option<(&Chosen, &KeyStore)>,
) {
    let object = [Place::of(&place.object(number))];
    // Meanwhile nobody looks how long the log becomes.
    match open_briefly(&object[0]) {
        Ok(opened) => {
            history::record(global, &opened.media, &opened.devices, &[1]);
            if let Some((chosen, store)) = used {
                let media_id = opened.media.id();
                note_uses(global, store, &chosen.certificates, (media_id, &object));
            }
        }
        Err(error) => Operator::tell(global, &Notice::NotRecorded { error: &error }),
    }
}

impl Wanted {
    fn signer(
        &self,
        global: &GlobalArgs,
        place: &ArchivePlace,
        required: Option<&String>,
        chosen: Option<&(Chosen, Wrapping)>,
    ) -> Result<Option<Signer>, CommandError> {
        if self.no_sign {
            return Ok(None);
        }
        let selector = self.sign.as_ref().or(required);
        if let ArchivePlace::Prefix(_) = place {
            return match selector {
                Some(_) => Err(CommandError::usage(
                    "sets on an object store are not signed: an archive in a directory is",
                )),
                None => Ok(None),
            };
        }
        let Some(selector) = selector else { return Ok(Signer::of_sealed(chosen)?) };
        let unlocked = match chosen {
            Some((_, Wrapping::Unlocked(unlocked))) => Arc::clone(unlocked),
            _ => Arc::new(session::open_unlocked_store(global)?),
        };
        Ok(Some(Signer::new(unlocked, selector, global)?))
    }
}

/// Says what happened; of single sets nothing with `quiet`. Where a process follows several
/// databases, `who` names this one.
pub(super) fn tell(wanted: &Wanted, who: &str, quiet: bool, event: &Event) {
    let at = date_of_ms(now_ms());
    let archive = ArchivePlace::of(&wanted.to).shown();
    let archive = output::single(&archive);
    match event {
        Event::NoLog { mode, every } => output::note(format_args!(
            "{at} {} is in journal mode {mode}, which has no log: what differs is shipped every \
             {}; after `PRAGMA journal_mode = WAL`, each transaction is",
            output::single(&wanted.database.display().to_string()),
            length_text(*every)
        )),
        Event::NewChain(why) => {
            output::note(format_args!("{at} {who}a full set begins a new chain: {why}"));
        }
        Event::PutOff => output::note(format_args!(
            "{at} {who}the full set is left to the next process, and the chain goes on"
        )),
        Event::Full { number, bytes, pages } => output::note(format_args!(
            "{at} {archive}: object {number}, a full set of {pages} pages, {}",
            size(*bytes)
        )),
        Event::Log { end, bytes } if !quiet => {
            output::note(format_args!("{at} {archive}: up to transaction {end}, {}", size(*bytes)))
        }
        Event::Log { .. } | Event::UpToDate => {}
        Event::Failed(error, wait) => output::warning(format_args!(
            "{at} {who}not shipped: {}; again in {:.1} s",
            output::single(&error.to_string()),
            wait.as_secs_f64()
        )),
        Event::StillOpen => output::warning(format_args!(
            "{at} {who}a program has the database open, and sees its log over the new file: stop it"
        )),
        Event::PutAside(log) => output::warning(format_args!(
            "{at} {who}the log of the file that was there before is {} now: it may hold the only \
             copy of what was committed last",
            output::single(&log.display().to_string())
        )),
        Event::Goes(number) => {
            output::note(format_args!("{at} {archive} goes on behind object {number}"));
        }
    }
}
