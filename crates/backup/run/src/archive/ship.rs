//! Sets on their way to an archive, and the record of them.

mod looks;
mod lost;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tdekit_backup_media::{Base, FullPlace, InArchive, Lineage, LogForm, LogLink, ShippedBehind};
use tdekit_key_crypto::Kind;

use self::lost::{Made, Tries};
use super::batch::{LogBatch, Origin};
use super::chain::Point;
use super::follow::{Event, Settings, Why, is_large};
use super::ground::Found;
use super::known::KnownPages;
use super::lineage::{are_of_one_archive, begin, from_hex, lineage_of, of_database, to_hex};
use super::read::Archive;
use super::source::{Open, Source};
use super::state::{FileStamp, Intent, Shipped, State, StateFile};
use super::store::{Place, Store};
use crate::backup::{Begun, backup_begun};
use crate::error::ArchiveError;
use crate::labels::now_ms;
use crate::output::lock;
use crate::place::is_missing;
use crate::throttle::Throttle;
use crate::{BackupJob, Labels, Media, Run, RunError, SetInfo};

/// Pages in a log set, as far as whole transactions allow.
pub(super) const MAX_PAGES: u64 = 16_384;
/// Interval of looks at the last object on a store. Files are looked at each time.
const LOOK_AT_OBJECT: Duration = Duration::from_secs(60);
/// Interval of notes that nothing is left to ship.
const CURRENT_EVERY_MS: i64 = 10_000;
/// Time for which writers wait at the end.
const END_WAIT: Duration = Duration::from_millis(500);

/// An archive that is written.
pub(super) struct Shipper<'a> {
    store: Store,
    pub(super) open: Open<'a>,
    pub(super) settings: Settings<'a>,
    /// Holds for log sets together.
    throttle: Throttle,
    pub(super) path: PathBuf,
    file: StateFile,
    /// The states of pages behind the last set.
    known: Arc<Mutex<KnownPages>>,
    /// The last number that is in use.
    last: u64,
    tries: Tries,
    /// The object behind which the next full set is shipped, where that is not the last one that
    /// is recorded.
    behind: Option<ShippedBehind>,
    /// The last object as it was when it was looked at last, and when that was.
    seen: Option<(u64, Option<FileStamp>)>,
    looked: Option<Instant>,
}

impl<'a> Shipper<'a> {
    /// Opens the archive and the record, and returns why a new chain must begin, if so.
    pub(super) fn begin(
        place: &Place,
        database: &Path,
        open: Open<'a>,
        settings: Settings<'a>,
    ) -> Result<(Self, Option<Why>), RunError> {
        let file = StateFile::open(database)?;
        let store = Store::open(place, Some(&file.state.claimant), &settings.storage)?;
        let objects = store.list()?;
        let last = objects.last_key_value().map(|(number, bytes)| (*number, *bytes));
        let mut shipper = Self {
            store,
            open,
            throttle: Throttle::new(settings.throttle_bytes_per_s),
            settings,
            path: database.to_owned(),
            file,
            known: Arc::default(),
            last: last.map_or(0, |it| it.0),
            tries: Tries::default(),
            behind: None,
            seen: None,
            looked: None,
        };
        let why = shipper.compare(last, &objects)?;
        Ok((shipper, why))
    }

    /// Returns the number of the last object that was shipped from here.
    pub(super) fn number(&self) -> Option<u64> {
        self.file.state.shipped.as_ref().map(|shipped| shipped.number)
    }

    /// Returns the state as it is recorded.
    pub(super) fn state(&self) -> &State {
        &self.file.state
    }

    /// Makes the record anew where it was removed; ends if another process has made one.
    pub(super) fn keep_record(&mut self) -> Result<(), RunError> {
        self.file.keep(&self.path)
    }

    /// Returns false if the last object is not there any more, or another one is in its place: what
    /// follows it could not be restored. Objects on a store are looked at from time to time.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub(super) fn is_last_there(&mut self) -> Result<bool, RunError> {
        let Some(shipped) = &self.file.state.shipped else { return Ok(true) };
        let number = shipped.number;
        let stamp = match self.store.stamp(number) {
            Err(RunError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return if self.store.is_there() { Ok(false) } else { self.store.refuse_gone() };
            }
            stamp => stamp?,
        };
        let is_due = match stamp {
            Some(_) => self.seen != Some((number, stamp)),
            None => self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AT_OBJECT),
        };
        if !is_due {
            return Ok(true);
        }
        self.looked = Some(Instant::now());
        let ids = self.store.now(number).and_then(|media| {
            let set_id = media.only_info()?.set_id;
            Ok((hex::encode(set_id), hex::encode(media.only_digest()?)))
        });
        let found = match ids {
            Ok((set_id, digest)) => {
                (&set_id, &digest) == (&shipped.set_id, &shipped.trailer_sha256)
            }
            Err(error) if is_missing(&error) => false,
            Err(error) if matches!(error.kind(), Kind::Io | Kind::Busy | Kind::Key) => {
                return Err(error);
            }
            Err(_) => false,
        };
        if found {
            self.seen = Some((number, stamp));
        }
        Ok(found)
    }

    /// Records that the archive has everything that was committed up to a time, which follows a
    /// clock that was set back.
    pub(super) fn is_current(&mut self, at_ms: i64) {
        if at_ms == 0 {
            return;
        }
        let at_ms = at_ms.min(now_ms());
        let state = &mut self.file.state;
        let known = state.current_ms.unwrap_or(0);
        let (first, shipped) = (known == 0, state.shipped.as_ref().map_or(0, |it| it.shipped_ms));
        let is_new = shipped > known && shipped <= at_ms;
        let is_old = at_ms < known || at_ms.saturating_sub(known) >= CURRENT_EVERY_MS;
        let due = first || is_new || is_old;
        if !due && state.error.is_none() {
            return;
        }
        (state.current_ms, state.error) = (Some(at_ms), None);
        // It is for `status`: what was shipped is recorded already.
        let _ = self.file.write();
    }

    /// Records that everything is shipped but what the log, which is empty, may hold later: a later
    /// process can go on as long as nothing of that is copied into the main file.
    pub(super) fn note_empty_log(&mut self, source: &mut Source) {
        let stamp = source.stamp_of_empty_log();
        if stamp.is_none() || stamp == self.file.state.clean {
            return;
        }
        self.file.state.clean = stamp;
        // Without it, a later process begins a new chain.
        let _ = self.file.write();
    }

    /// Compares the record with the archive's last object.
    fn compare(
        &mut self,
        last: Option<(u64, u64)>,
        objects: &BTreeMap<u64, u64>,
    ) -> Result<Option<Why>, RunError> {
        let archive = self.store.place.recorded();
        let known = self.file.state.archive == archive;
        if !known {
            let claimant = std::mem::take(&mut self.file.state.claimant);
            self.file.state = State::of(archive);
            self.file.state.claimant = claimant;
        }
        let Some((number, bytes)) = last else {
            let gone = self.file.state.shipped.as_ref();
            self.last = gone.map_or(0, |gone| gone.number);
            return Ok(Some(if gone.is_some() { Why::Archive } else { Why::First }));
        };
        let media = match Media::open(vec![self.store.source(number, bytes)?]) {
            Err(error) if matches!(error.kind(), Kind::Io | Kind::Busy | Kind::Refused) => {
                return Err(error);
            }
            media => media,
        };
        let info = media.as_ref().ok().and_then(|media| media.only_info().ok());
        let seals = self.settings.encryption.is_some();
        let mixed = info.is_some_and(|info| info.algorithm.is_some() != seals);
        let (has, wanted) = if seals { ("plain", "encrypted") } else { ("encrypted", "plain") };
        let archive = self.store.place.shown();
        let is_mixed = ArchiveError::OtherEncryption { archive, has, wanted };
        if let Some((info, media)) = info.zip(media.as_ref().ok()) {
            self.adopt(number, info, media)?;
            let shipped = self.file.state.shipped.as_ref();
            if shipped
                .is_some_and(|it| (it.number, &it.set_id) == (number, &hex::encode(info.set_id)))
            {
                return match mixed {
                    true => Err(is_mixed.into()),
                    false => Ok(None),
                };
            }
        }
        let ours = match info {
            Some(info) => self.is_ours(info),
            // The record, or the objects before it, show whose an archive is whose end is damaged.
            None => self.file.state.shipped.is_some() || self.is_ours_by_headers()?,
        };
        if mixed && (ours || self.settings.take_over) {
            return Err(is_mixed.into());
        }
        if ours || self.settings.take_over {
            return self.go_behind((number, info)).map(Some);
        }
        Err(ArchiveError::Foreign {
            archive: self.store.place.shown(),
            objects: objects.len(),
            database: info.map_or_else(|| "unknown".to_owned(), |info| info.path.clone()),
            host: info.map_or_else(|| "unknown".to_owned(), |info| info.host.clone()),
        }
        .into())
    }

    /// Prepares a chain behind the last object of the archive, which is another one than the record
    /// says, or there is no record. Returns why the chain begins.
    ///
    /// An object of another archive in the place of the last one, or one that the record
    /// contradicts, changes nothing: the lineage goes on, and the full set says behind which object
    /// it was shipped. Behind others a new lineage begins.
    fn go_behind(&mut self, (number, info): (u64, Option<&SetInfo>)) -> Result<Why, RunError> {
        let shipped = self.file.state.shipped.clone();
        let recorded = shipped.as_ref().map_or(0, |shipped| shipped.number);
        self.last = number.max(recorded);
        let archive = Archive::open(&self.store.place)?;
        // With `--take-over`, the chain goes on behind a branch too.
        let is_taken = self.settings.take_over && archive.is_of_branch(number);
        let is_foreign = |own: &Lineage, last: &Lineage| {
            !are_of_one_archive(own, last) || (archive.is_foreign(number) && !is_taken)
        };
        let goes_on = match (self.lineage(), info.map(lineage_of)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some(last)) => {
                let is_gone = own == last && recorded > number;
                is_gone || (shipped.is_some() && is_foreign(&own, &last))
            }
        };
        if goes_on {
            return Ok(Why::Archive);
        }
        let (lineage, behind) = match info.filter(|_| self.settings.take_over) {
            Some(info) => (Some(lineage_of(info)), Some(number)),
            None => archive.end(),
        };
        let known = [lineage, archive.lineage(), self.lineage()];
        let ids = known.iter().flatten().flat_map(|lineage| lineage.ids().iter().copied());
        self.file.state.lineage = to_hex(&begin(ids)?);
        self.behind = behind.and_then(|number| archive.behind(number));
        // Objects that were lost stay recorded until the full set behind them says so.
        self.file.state.shipped = shipped.clone().filter(|shipped| shipped.number > number);
        Ok(if shipped.is_some() { Why::Archive } else { Why::NoRecord })
    }

    /// Returns the lineage of what was shipped; `None` if nothing was.
    fn lineage(&self) -> Option<Lineage> {
        let Labels { host, path, .. } = &self.settings.labels;
        let is_older = || self.file.state.shipped.is_some();
        let lineage = from_hex(&self.file.state.lineage);
        lineage.or_else(|| is_older().then(|| of_database(host, path)))
    }

    /// Returns the place of the next set in the archive.
    fn place(&mut self, full: Option<FullPlace>) -> Result<InArchive, RunError> {
        let lineage = match self.lineage() {
            Some(lineage) => lineage,
            None => begin([])?,
        };
        self.file.state.lineage = to_hex(&lineage);
        Ok(InArchive { lineage, full })
    }

    /// Returns true if a set was shipped from this host and path.
    fn is_ours(&self, info: &SetInfo) -> bool {
        let Settings { labels, .. } = &self.settings;
        (&info.host, &info.path) == (&labels.host, &labels.path)
    }

    /// Returns true if the last object whose header can be read was shipped from this host and
    /// path.
    fn is_ours_by_headers(&self) -> Result<bool, RunError> {
        let archive = Archive::open(&self.store.place)?;
        let (_, last) = archive.end();
        Ok(last.and_then(|last| archive.header(last)).is_some_and(|info| self.is_ours(&info)))
    }

    /// Takes an object for shipped that was about to be, if it is that one. Returns false if not.
    fn adopt(&mut self, number: u64, info: &SetInfo, media: &Media) -> Result<bool, RunError> {
        let Some(intent) = &self.file.state.intent else { return Ok(false) };
        let before = self.file.state.shipped.as_ref();
        let follows = match (&info.log, before) {
            (None, _) => intent.transactions == 0 && intent.then.first == number,
            (Some(link), Some(before)) => {
                link.transactions == intent.transactions
                    && hex::encode(link.before.set_id) == before.set_id
                    && hex::encode(link.before.trailer_sha256) == before.trailer_sha256
            }
            (Some(_), None) => false,
        };
        let same = follows
            && intent.then.number == number
            && intent.begun_ms == info.begun_ms
            && self.is_ours(info);
        if !same {
            return Ok(false);
        }
        let mut then = intent.then.clone();
        then.set_id = hex::encode(info.set_id);
        then.trailer_sha256 = hex::encode(media.only_digest()?);
        if info.log.is_none() {
            then.chain.clone_from(&then.set_id);
        }
        self.shipped(then);
        Ok(true)
    }

    /// Goes on with the chain. Returns why it cannot: something may be missing.
    pub(super) fn resume(&mut self, source: &mut Source) -> Result<Option<Why>, RunError> {
        let clean = self.file.state.clean.take();
        let Some(shipped) = &self.file.state.shipped else { return Ok(Some(Why::Absence)) };
        if !shipped.has_log() {
            return Ok(Some(Why::Mode));
        }
        let (ground, page_1) = (self.file.state.ground, self.file.state.page_1_sha256.as_deref());
        if source.is_rejected(shipped, (ground, page_1))? {
            return Ok(Some(Why::Overwritten));
        }
        let resumed = source.resume(shipped, (clean, ground))?;
        self.note_ground(source);
        // Later writes change the file that the stamp stands for.
        self.file.write()?;
        Ok((!resumed).then_some(Why::Absence))
    }

    /// Takes the main file as it is into the record.
    fn note_ground(&mut self, source: &mut Source) {
        self.file.state.ground = Some(source.stamp_below());
        source.page_1_noted = source.page_1_sha256();
        self.file.state.page_1_sha256.clone_from(&source.page_1_noted);
        self.file.state.file_id = source.encrypted_file_id().map(hex::encode).unwrap_or_default();
    }

    /// Returns why the chain should have a successor.
    pub(super) fn due(&self) -> Option<Why> {
        let shipped = self.file.state.shipped.as_ref()?;
        let age = now_ms().saturating_sub(shipped.snapshot_ms);
        let limit = i64::try_from(self.settings.snapshot_every.as_millis()).unwrap_or(i64::MAX);
        if age >= limit {
            return Some(Why::Age);
        }
        is_large(shipped.full_bytes, shipped.log_bytes).then_some(Why::Size)
    }

    /// Ships all transactions that wait.
    pub(super) fn ship(
        &mut self,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        while !source.pending.transactions.is_empty() {
            self.ship_set(source, MAX_PAGES, tell)?;
        }
        Ok(())
    }

    /// Ships the first of the transactions that wait, with up to `most` pages as far as whole
    /// transactions allow.
    pub(super) fn ship_set(
        &mut self,
        source: &mut Source,
        most: u64,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let Some(before) = self.file.state.shipped.clone() else {
            return Err(RunError::Internal("a log set without a chain"));
        };
        let (mut pages, mut transactions) = (0, Vec::new());
        for transaction in &source.pending.transactions {
            pages += transaction.pages.len() as u64;
            if !transactions.is_empty() && pages > most {
                break;
            }
            transactions.push(Arc::clone(transaction));
        }
        let count = u32::try_from(transactions.len()).unwrap_or(u32::MAX);
        let Some(last) = transactions.last().cloned() else { return Ok(()) };
        let link = link_behind(&before, count)?;
        let number = link.number;
        lock(&self.known).begin(link.before.set_id, source.page_size());
        let everything = transactions.len() == source.pending.transactions.len();
        let end = if everything { source.pending.position } else { last.end };
        let then = Shipped {
            number,
            time_ms: last.time_ms,
            salts: hex::encode(end.salts),
            frames: end.frames,
            frame_sha256: source.frame_sha256(end.frames),
            ..before
        };
        let begun_ms = transactions.first().map_or(0, |first| first.time_ms);
        let batch = LogBatch {
            origin: Origin::Log(Arc::clone(&source.keeper)),
            known: Arc::clone(&self.known),
            transactions,
            link,
            page_size: source.page_size(),
            zeroed: source.zeroed(),
            encrypted_file_id: source.encrypted_file_id(),
        };
        let intent = Intent { begun_ms, transactions: count, then };
        self.note_ground(source);
        let place = self.place(None)?;
        let (bytes, count, time_ms) =
            match self.publish(intent, Begun::Log(Box::new(batch), place), None)? {
                Made::This { bytes } => (bytes, count, last.time_ms),
                Made::Earlier { bytes, intent } => {
                    (bytes, intent.transactions, intent.then.time_ms)
                }
            };
        let count_here = usize::try_from(count).unwrap_or(0);
        let waiting = &mut source.pending.transactions;
        waiting.drain(..count_here.min(waiting.len()));
        let end = Point { number, transaction: count, time_ms };
        tell(Event::Log { end, bytes });
        Ok(())
    }

    /// Begins a new chain with a full set.
    pub(super) fn begin_chain(
        &mut self,
        source: &mut Source,
        why: &Why,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        self.described(why, |shipper| shipper.begin_behind(source, tell))
    }

    fn begin_behind(
        &mut self,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let (last_ms, behind) = self.end_before()?;
        let asked_ms = now_ms();
        let (snapshot, time_ms) = source.snapshot(last_ms)?;
        let number = self.last.saturating_add(1);
        let (pages, position) = (snapshot.pages(), source.pending.position);
        let then = Shipped {
            number,
            first: number,
            time_ms,
            snapshot_ms: time_ms,
            page_size: source.page_size(),
            file: source.file(),
            salts: hex::encode(position.salts),
            frames: position.frames,
            frame_sha256: source.frame_sha256(position.frames),
            ..Shipped::default()
        };
        let intent = Intent { begun_ms: time_ms, transactions: 0, then };
        self.note_ground(source);
        self.file.state.clean = None;
        let place = self.place(Some(FullPlace { number, behind }))?;
        let from = Begun::Snapshot(Box::new(snapshot), time_ms, place);
        let path = source.path().to_owned();
        let cell = RefCell::new(&mut *source);
        let look = || match cell.borrow_mut().look()? {
            Found::Sound => Ok(()),
            _ => {
                let reason = "another one was written over it".to_owned();
                Err(RunError::SourceChanged { path: path.clone(), reason })
            }
        };
        let Made::This { bytes } = self.publish(intent, from, Some(&look))? else {
            // What was committed since that one was begun may not be in the log any more.
            return self.begin_behind(source, tell);
        };
        // Its own time is no earlier than that of the last transaction, whatever the clock says.
        self.is_current(asked_ms);
        tell(Event::Full { number, bytes, pages: pages.into() });
        Ok(())
    }

    /// Begins a chain, whose sets say why. Where that fails, the chain that there is may go on.
    fn described(
        &mut self,
        why: &Why,
        begin: impl FnOnce(&mut Self) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let before = std::mem::replace(&mut self.settings.labels.description, why.to_string());
        let begun = begin(self);
        if begun.is_err() {
            self.settings.labels.description = before;
        }
        begun
    }

    /// Returns the time of the last transaction before a new chain, and the object behind which its
    /// full set is shipped.
    fn end_before(&self) -> Result<(i64, Option<ShippedBehind>), RunError> {
        let shipped = self.file.state.shipped.as_ref();
        let behind = match (self.behind, shipped) {
            (None, Some(shipped)) => Some(behind_of(shipped)?),
            (behind, _) => behind,
        };
        Ok((shipped.map_or(0, |it| it.time_ms), behind))
    }

    /// Makes an object, and records it.
    fn publish(
        &mut self,
        intent: Intent,
        from: Begun,
        before_publish: Option<&dyn Fn() -> Result<(), RunError>>,
    ) -> Result<Made, RunError> {
        self.keep_record()?;
        let (number, is_full) = (intent.then.number, intent.transactions == 0);
        let mut then = intent.then.clone();
        self.tries.begin(&intent);
        self.file.state.intent = Some(intent);
        self.file.write()?;
        let job = BackupJob {
            page_map: false,
            check: is_full,
            before_publish,
            compression: self.settings.compression,
            encryption: self.settings.encryption,
            signer: self.settings.signer,
            labels: self.settings.labels.clone(),
            ..BackupJob::begun()
        };
        // A log set is small, and nearly in the archive.
        let cancel = is_full.then_some(self.settings.stop);
        let throttle_bytes_per_s = self.settings.throttle_bytes_per_s;
        let threads = usize::from(!is_full);
        // A process that ends does not keep to the limit.
        let lift = Some(self.settings.stop);
        let run = Run { threads, cancel, throttle_bytes_per_s, lift, ..Run::default() };
        if let Begun::Log(batch, _) = &from {
            // A run throttles from its second block on: small sets would go at once.
            let bytes = batch.pages_stored().saturating_mul(u64::from(batch.page_size()));
            self.throttle.take(bytes, &run)?;
        }
        let mut target = self.store.target(number)?;
        if is_full {
            target.cancel_by(self.settings.stop);
        }
        let made = match backup_begun(job, Some(from), vec![target], &run) {
            // An answer may have been lost: then the object is ours.
            Err(RunError::Exists { .. }) => return self.taken(number),
            made => made?,
        };
        if !is_full {
            lock(&self.known).shipped(made.set_id);
        }
        then.set_id = hex::encode(made.set_id);
        then.trailer_sha256 = hex::encode(made.trailer_sha256);
        if is_full {
            then.chain.clone_from(&then.set_id);
            then.full_bytes = made.media_bytes;
        } else {
            then.log_bytes = then.log_bytes.saturating_add(made.media_bytes);
        }
        self.shipped(then);
        Ok(Made::This { bytes: made.media_bytes })
    }

    /// Takes an object for shipped, which it is: its transactions are not shipped again.
    fn shipped(&mut self, then: Shipped) {
        self.last = then.number;
        self.behind = None;
        self.tries.end();
        let state = &mut self.file.state;
        let sealed = Some(self.settings.encryption.is_some());
        state.shipped = Some(Shipped { shipped_ms: now_ms(), sealed, ..then });
        // Frames of the log are shipped now: it is read from there on.
        (state.intent, state.error, state.clean) = (None, None, None);
        // One that cannot be written has the intent, by which a later process knows the object. The
        // next object is not shipped before it can be.
        let _ = self.file.write();
    }

    /// Records a failure, for `status`.
    pub(super) fn failed(&mut self, error: &RunError) {
        self.file.state.error = Some(error.to_string());
        // Of a clock that was set back since: nobody knows when that was by the clock now.
        self.file.state.current_ms = self.file.state.current_by(now_ms());
        // The failure itself is reported; another one of the record would be the next.
        let _ = self.file.write();
    }

    /// Records that everything is shipped, if no writer is at work: then a later process can go on
    /// even if the log is gone.
    pub(super) fn end(&mut self, source: &mut Source) -> Result<(), RunError> {
        if self.file.state.shipped.is_none() || source.exclude_writers(END_WAIT).is_err() {
            return Ok(());
        }
        let stamp = source.stamp();
        // Transactions read under the exclusion would be lost: with a stamp there are none.
        if let Ok(Some(stamp)) = &stamp {
            self.file.state.clean = Some(*stamp);
            self.note_ground(source);
            self.file.write()?;
        }
        source.admit_writers()?;
        stamp.map(drop)
    }
}

fn behind_of(shipped: &Shipped) -> Result<ShippedBehind, RunError> {
    let set_id = digest(&shipped.set_id)?;
    let set = Base { set_id, trailer_sha256: digest(&shipped.trailer_sha256)? };
    Ok(ShippedBehind { number: shipped.number, first: shipped.first, set })
}

/// Returns the place of a log set of so many transactions behind what was shipped last.
fn link_behind(before: &Shipped, transactions: u32) -> Result<LogLink, RunError> {
    Ok(LogLink {
        before: Base {
            set_id: digest(&before.set_id)?,
            trailer_sha256: digest(&before.trailer_sha256)?,
        },
        chain: digest(&before.chain)?,
        number: before.number.saturating_add(1),
        first: before.first,
        transactions,
        form: LogForm::Changes,
    })
}

fn digest<const N: usize>(text: &str) -> Result<[u8; N], RunError> {
    let mut out = [0; N];
    hex::decode_to_slice(text, &mut out).map_err(|_| RunError::Internal("a digest of no form"))?;
    Ok(out)
}
