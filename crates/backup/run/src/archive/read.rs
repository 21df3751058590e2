//! An archive that is read: the chain of objects behind a point, each link checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use tdekit_backup_media::payload::LogEnd;

use super::bound::Beside;
use super::chain::{At, Point};
use super::chains::Chains;
use super::check::{Links, log_ends};
use super::store::{Place, Store};
use super::walk::is_lost;
use crate::error::ArchiveError;
use crate::names::number_of;
use crate::place::is_missing;
use crate::{
    Chain, Media, PageSink, RestoreOutcome, Run, RunError, SetInfo, SetKind, Storage, UnwrapSecret,
};

/// The system's error for a link that leads to itself.
const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();

/// The fault of a plain chain.
const PLAIN: &str = "is plain, and the archive is encrypted";

/// An archive that is read.
pub struct Archive {
    pub(super) store: Store,
    /// Numbers and sizes of the objects.
    pub(super) objects: BTreeMap<u64, u64>,
    /// The chains of these objects, once they were read.
    pub(super) chains: OnceLock<Chains>,
    /// Objects that are left of chains whose removal was begun, and that are not in the list above.
    pub(super) left_out: Vec<(u64, u64)>,
}

/// A chain as its headers tell, which nothing has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChain {
    /// Number of the object with the full set.
    pub first: u64,
    /// Number of the last object.
    pub last: u64,
    /// Bytes of its objects.
    pub bytes: u64,
    /// Time of the full set; of the first readable object without one. Milliseconds since 1970.
    pub begun_ms: i64,
    /// Time at which the last set was written.
    pub finished_ms: i64,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// The host that shipped it.
    pub host: String,
    /// The path of the database.
    pub database: String,
    /// Why it was begun; empty if an older version did.
    pub why: String,
}

/// An object behind the last one up to which everything is whole.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PassedObject {
    /// Number of the object.
    pub number: u64,
    /// Its path or address.
    pub object: String,
    /// Why it is passed over.
    pub reason: String,
}

/// The objects of a chain, up to the one that a point is in. Nothing is verified yet.
pub struct OpenChain {
    at: At,
    /// The full set first.
    medias: Vec<(u64, Media)>,
    /// The object behind, where a time was asked for: it must begin later.
    pub(super) next: Option<(u64, Media)>,
    /// For a point in a full set: the objects and the record beside it.
    pub(super) beside: Beside,
    /// For a restore to a time: what is missing right behind the last object.
    pub(super) hole: Option<Hole>,
    /// For a restore to a time: the foreign object right behind the last one.
    pub(super) refused: Option<ArchiveError>,
}

/// Objects that are missing behind one.
pub(super) struct Hole {
    archive: String,
    first: u64,
    last: u64,
    /// The object behind them, if there is one.
    behind: Option<(u64, Media)>,
    /// The first of them, as users name it.
    object: String,
}

impl Archive {
    /// Lists the objects at a place.
    ///
    /// # Errors
    /// `Empty`; `Io`, those of an object store.
    pub fn open(place: &Place) -> Result<Self, RunError> {
        let store = Store::open(place, None, &Storage::default())?;
        let objects = store.list()?;
        if objects.is_empty() {
            return Err(ArchiveError::Empty { archive: place.shown() }.into());
        }
        Ok(Self { store, objects, chains: OnceLock::new(), left_out: Vec::new() })
    }

    /// Returns the name that users see.
    #[must_use]
    pub fn shown(&self) -> String {
        self.store.place.shown()
    }

    /// Returns the place of an object.
    #[must_use]
    pub fn place_of(&self, number: u64) -> crate::place::Place {
        crate::place::Place::of(&self.store.place.object(number))
    }

    /// Returns the path or address of an object as users see it: a path may not be text.
    #[must_use]
    pub fn object(&self, number: u64) -> String {
        self.store.shown(number)
    }

    /// Returns the numbers of the objects, and their sizes in bytes.
    #[must_use]
    pub fn objects(&self) -> &BTreeMap<u64, u64> {
        &self.objects
    }

    /// Returns true if a chain is encrypted, according to headers; also where none can be read.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub fn is_encrypted(&self) -> Result<bool, RunError> {
        let chains = self.chains()?;
        Ok(chains.is_empty() || chains.iter().any(|chain| chain.encrypted))
    }

    /// Opens the object with this number as a media set.
    ///
    /// # Errors
    /// `MissingObject`; those of [`Media::open`].
    pub fn media(&self, number: u64) -> Result<Media, RunError> {
        let Some(bytes) = self.objects.get(&number) else {
            return Err(ArchiveError::MissingObject { object: self.object(number) }.into());
        };
        let opened = self.store.source(number, *bytes).and_then(|source| Media::open(vec![source]));
        opened.map_err(|error| match error {
            // It went since it was listed, or is a link that leads nowhere.
            error if is_missing(&error) => {
                ArchiveError::MissingObject { object: self.object(number) }.into()
            }
            RunError::NotMedia { .. } => {
                self.misplaced(number, "is not a media set of tdekit".to_owned())
            }
            RunError::Io { source, .. } if source.raw_os_error() == Some(LOOP) => {
                self.misplaced(number, "is a link that leads to itself".to_owned())
            }
            error => error,
        })
    }

    /// Returns the chains, the oldest first, by the headers of their first and last objects. Those
    /// whose header cannot be read are passed over.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub fn chains(&self) -> Result<Vec<HeldChain>, RunError> {
        let mut chains = Vec::new();
        let mut below = u64::MAX;
        while let Some((number, _)) = self.objects.range(..below).next_back() {
            let last = *number;
            below = last;
            let Ok(media) = self.media(last) else { continue };
            let (Ok(info), Ok(first)) = (media.only_info(), self.first_of(last, &media)) else {
                continue;
            };
            let full = self.media(first);
            let full = full.as_ref().ok().and_then(|full| full.only_info().ok());
            chains.push(HeldChain {
                first,
                last,
                bytes: self.objects.range(first..=last).map(|(_, bytes)| *bytes).sum(),
                begun_ms: full.unwrap_or(info).begun_ms,
                finished_ms: info.finished_ms,
                encrypted: info.algorithm.is_some(),
                host: info.host.clone(),
                database: info.path.clone(),
                why: full.map(|full| full.description.clone()).unwrap_or_default(),
            });
            below = first;
        }
        chains.reverse();
        Ok(chains)
    }

    /// Finds the objects that a point needs, by their headers.
    ///
    /// # Errors
    /// `MissingObject`, `LacksShipped`, `Misplaced`, `TooEarly`, `NoTransaction`; those of
    /// [`Media::open`].
    pub fn chain(&self, at: At) -> Result<OpenChain, RunError> {
        let number = self.number_of(at)?;
        if matches!(at, At::Time(_) | At::Transaction(..)) {
            self.refuse_branch(number)?;
        }
        if let At::Time(_) = at {
            return self.chain_by_time(number, at);
        }
        let chain = self.chain_of(number, at)?;
        if at == At::Latest
            && let Some(unlike) = self.unlike_record()?
        {
            return Err(unlike.fault.into());
        }
        Ok(chain)
    }

    pub(super) fn hole(&self, first: u64, last: u64) -> Hole {
        let behind = last.saturating_add(1);
        // One that cannot be read says nothing of what was before it.
        let behind = self.media(behind).ok().map(|media| (behind, media));
        Hole { archive: self.shown(), first, last, behind, object: self.object(first) }
    }

    /// Returns the error that objects of an older chain are missing in front of the full set `by`,
    /// which was shipped behind them.
    pub(super) fn lost(&self, (first, last): (u64, u64), by: u64) -> ArchiveError {
        ArchiveError::Lost { object: self.object(first), first, last, by }
    }

    /// Returns the places of the objects, as the history has them.
    pub(crate) fn recorded_objects(&self) -> BTreeSet<String> {
        let recorded = |number: &u64| {
            let place = crate::place::Place::of(self.object(*number).as_ref());
            Some(place.recorded()?.to_string_lossy().into_owned())
        };
        self.objects.keys().filter_map(recorded).collect()
    }

    /// Returns the number of the object that errors name so; `None` for what is none of this
    /// archive.
    #[must_use]
    pub(crate) fn number_of_object(&self, object: &str) -> Option<u64> {
        let number = number_of(object.rsplit('/').next()?)?;
        (self.object(number) == object).then_some(number)
    }

    /// Returns the number of the object that a point is in.
    ///
    /// # Errors
    /// As [`Self::chain`].
    pub(super) fn number_of(&self, at: At) -> Result<u64, RunError> {
        let last = self.objects.last_key_value().map_or(0, |(number, _)| *number);
        match at {
            At::Latest | At::LatestGood => Ok(last),
            At::Transaction(number, _) if self.objects.contains_key(&number) => Ok(number),
            At::Transaction(number, _) if self.is_lost(number) => {
                Err(ArchiveError::MissingObject { object: self.object(number) }.into())
            }
            At::Transaction(number, transaction) => {
                if let Some(unlike) = self.unlike_record()?
                    && (last + 1..=unlike.last).contains(&number)
                {
                    return Err(unlike.fault.into());
                }
                let suffix = transaction.map(|it| format!(".{it}")).unwrap_or_default();
                let (archive, transaction) = (self.shown(), format!("{number}{suffix}"));
                Err(ArchiveError::NoTransaction { archive, transaction }.into())
            }
            At::Time(time_ms) => match self.at_time(time_ms)? {
                Some(number) => Ok(number),
                None => Err(self.too_early()?.into()),
            },
        }
    }

    /// Returns true if objects before and behind a number are there, or the first one that is there
    /// is of a chain that has it.
    fn is_lost(&self, number: u64) -> bool {
        let Some(first) = self.objects.keys().next().copied() else { return false };
        if first < number {
            return self.objects.keys().next_back().is_some_and(|last| *last > number);
        }
        let of = self.media(first).and_then(|media| self.first_of(first, &media));
        of.is_ok_and(|of| (of..first).contains(&number))
    }

    /// Opens the chain of an object, up to it.
    pub(super) fn chain_of(&self, number: u64, at: At) -> Result<OpenChain, RunError> {
        let media = self.media(number)?;
        let first = self.first_of(number, &media)?;
        let mut medias = Vec::new();
        for number in first..number {
            medias.push((number, self.media(number)?));
        }
        medias.push((number, media));
        let full = medias.first().and_then(|(_, full)| full.only_info().ok());
        let is_alone = medias.len() == 1;
        let beside = full.map(|full| self.beside(first, full, is_alone)).unwrap_or_default();
        Ok(OpenChain { at, medias, next: None, beside, hole: None, refused: None })
    }

    /// Checks headers, MACs and links of the chain of an object, up to it.
    pub(super) fn links_up_to(
        &self,
        number: u64,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Links, RunError> {
        let mut links = Links::default();
        for (number, media) in self.chain_of(number, At::Latest)?.medias {
            links.add((number, &object_of(&media)), &media, keys)?;
        }
        Ok(links)
    }

    /// Returns the number of the full set that the chain of an object begins with.
    pub(super) fn first_of(&self, number: u64, media: &Media) -> Result<u64, RunError> {
        let info = media.only_info()?;
        match info.log {
            None => Ok(number),
            Some(link) if link.number == number => Ok(link.first),
            Some(link) => Err(self.misplaced(number, format!("is object {}", link.number))),
        }
    }

    /// Refuses a plain object of an archive that has encrypted ones: anybody can make one.
    ///
    /// # Errors
    /// `Misplaced`.
    pub(super) fn refuse_plain(&self, number: u64, info: &SetInfo) -> Result<(), RunError> {
        match info.algorithm {
            Some(_) => Ok(()),
            None => Err(self.misplaced(number, PLAIN.to_owned())),
        }
    }

    fn misplaced(&self, number: u64, reason: String) -> RunError {
        ArchiveError::Misplaced { object: self.object(number), reason }.into()
    }

    /// Returns the error that the archive begins later than a time.
    fn too_early(&self) -> Result<ArchiveError, RunError> {
        let number = self.objects.keys().next().copied().unwrap_or(0);
        let time_ms = self.media(number)?.only_info()?.begun_ms;
        let first = Point { number, transaction: 0, time_ms }.to_string();
        Ok(ArchiveError::TooEarly { archive: self.shown(), first })
    }
}

impl OpenChain {
    /// Returns the number of the object with the full set.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.medias.first().map_or(0, |(number, _)| *number)
    }

    /// Refuses a plain chain, where others of the archive are encrypted: anybody can make one.
    ///
    /// # Errors
    /// `Misplaced`.
    pub fn refuse_plain(&self) -> Result<(), RunError> {
        match (self.full()?.algorithm, self.medias.first()) {
            (None, Some((_, media))) => {
                let reason = PLAIN.to_owned();
                Err(ArchiveError::Misplaced { object: object_of(media), reason }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns number, name and id of the full set.
    ///
    /// # Errors
    /// The errors of its media set.
    pub(super) fn base(&self) -> Result<(u64, String, [u8; 16]), RunError> {
        let (first, full) =
            self.medias.first().ok_or(RunError::Internal("a chain of no object"))?;
        Ok((*first, object_of(full), full.only_info()?.set_id))
    }

    /// Returns what the header of the full set says. Nothing is verified yet.
    ///
    /// # Errors
    /// The errors of its media set.
    pub fn full(&self) -> Result<&SetInfo, RunError> {
        let (_, media) = self.medias.first().ok_or(RunError::Internal("a chain of no object"))?;
        media.only_info()
    }

    /// Checks headers, MACs and links of all objects, and finds the point in the last one.
    ///
    /// # Errors
    /// `Misplaced`, `NoTransaction`; `KeyNeeded`, `Damaged`, `Tampered`, those of the keys.
    pub fn open(&self, keys: Option<&dyn UnwrapSecret>) -> Result<(Chain<'_>, Point), RunError> {
        self.refuse_foreign_chain()?;
        let mut links = Links::default();
        let mut sets = Vec::with_capacity(self.medias.len());
        for (number, media) in &self.medias {
            sets.push(links.add((*number, &object_of(media)), media, keys)?);
        }
        self.refuse_unbound(keys)?;
        let Some((number, media)) = self.medias.last() else {
            return Err(RunError::Internal("a chain of no object"));
        };
        let last = sets.last().ok_or(RunError::Internal("a chain of no set"))?;
        if last.0.kind == SetKind::Full {
            let point = Point { number: *number, transaction: 0, time_ms: last.0.begun_ms };
            self.refuse_foreign()?;
            self.check_next(&mut links, keys)?;
            self.refuse_hole(point.time_ms, keys)?;
            if let At::Transaction(_, Some(transaction)) = self.at {
                return Err(no_transaction(media, *number, transaction));
            }
            return Ok((Chain::of_archive(sets, None), point));
        }
        let ends = log_ends(&last.1)?;
        let cut = match self.at {
            At::Time(time_ms) => ends.partition_point(|end| end.time_ms <= time_ms),
            At::Transaction(_, Some(transaction)) => {
                usize::try_from(transaction).unwrap_or(usize::MAX)
            }
            At::Latest | At::LatestGood | At::Transaction(_, None) => ends.len(),
        };
        let wanted = u32::try_from(cut).unwrap_or(u32::MAX);
        let Some(end) = cut.checked_sub(1).and_then(|at| ends.get(at)) else {
            return Err(no_transaction(media, *number, wanted));
        };
        self.check_next(&mut links, keys)?;
        let LogEnd { time_ms, pages } = *end;
        if cut == ends.len() {
            self.refuse_foreign()?;
            self.refuse_hole(time_ms, keys)?;
        }
        let point = Point { number: *number, transaction: wanted, time_ms };
        Ok((Chain::of_archive(sets, Some((wanted, pages))), point))
    }

    /// Restores the full set, then each log set upon it: the state of each page behind each object
    /// is checked, where a restore checks those that it writes. `sink` reads what it has written.
    ///
    /// # Errors
    /// The errors of opening and restoring; they name the first object that is wrong.
    pub(crate) fn restore_each(
        &self,
        keys: Option<&dyn UnwrapSecret>,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        let mut links = Links::default();
        let mut outcome: Option<RestoreOutcome> = None;
        for (number, media) in &self.medias {
            let (info, set) = links.add((*number, &object_of(media)), media, keys)?;
            let Some(outcome) = outcome.as_mut() else {
                let full = Chain::of_archive(vec![(info, set)], None);
                outcome = Some(full.restore_database(sink, run)?);
                continue;
            };
            let ends = log_ends(&set)?;
            let Some(end) = ends.last() else {
                return Err(RunError::Internal("a log set of no transaction"));
            };
            let count = u32::try_from(ends.len()).unwrap_or(u32::MAX);
            let pages = end.pages;
            let log = Chain::of_archive(vec![(info, set)], Some((count, pages)));
            outcome.compared_pages += log.replay_log(sink, run)?;
            outcome.pages = pages.into();
            outcome.bytes = u64::from(pages) * u64::from(outcome.page_size);
        }
        outcome.ok_or(RunError::Internal("a chain of no object"))
    }

    /// Fails if a foreign full set is behind the last transaction up to a time: another one in its
    /// place may have begun by then.
    fn refuse_foreign(&self) -> Result<(), RunError> {
        self.refused.clone().map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// Fails if a time was asked for that lies behind the last transaction, and objects are missing
    /// there: they were lost, if the full set behind them was shipped behind this chain.
    fn refuse_hole(&self, last_ms: i64, keys: Option<&dyn UnwrapSecret>) -> Result<(), RunError> {
        let (Some(hole), At::Time(time_ms)) = (&self.hole, self.at) else { return Ok(()) };
        if time_ms <= last_ms {
            return Ok(());
        }
        let Hole { archive, first, last, behind, object } = hole;
        let (archive, object) = (archive.clone(), object.clone());
        let (first, last) = (*first, *last);
        let before = |media: &Media| media.only(keys).ok()?.0.archive.as_ref()?.full?.behind;
        match behind.as_ref().and_then(|(by, media)| Some((*by, before(media)?))) {
            Some((by, behind)) if behind.first == self.first() && is_lost(behind, first) => {
                let last = last.min(behind.number);
                Err(ArchiveError::Lost { object, first, last, by }.into())
            }
            _ => {
                let full = behind.as_ref().and_then(|(_, media)| media.only_info().ok());
                let why = full.filter(|full| full.kind == SetKind::Full);
                let why = why.map(|full| full.description.clone()).unwrap_or_default();
                Err(ArchiveError::Hole { archive, first, last, why }.into())
            }
        }
    }

    /// Returns true if the keys open one of the objects.
    pub(super) fn opens_some(&self, keys: Option<&dyn UnwrapSecret>) -> bool {
        self.medias.iter().any(|(_, media)| media.only(keys).is_ok())
    }

    /// Checks that the object behind begins after the time that was asked for: the headers by which
    /// the point was found were not verified then.
    fn check_next(
        &self,
        links: &mut Links,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<(), RunError> {
        let (Some((number, media)), At::Time(time_ms)) = (&self.next, self.at) else {
            return Ok(());
        };
        let (info, _) = links.add((*number, &object_of(media)), media, keys)?;
        if info.begun_ms > time_ms {
            return Ok(());
        }
        let reason = "begins before the time by which it was passed over".to_owned();
        Err(ArchiveError::Misplaced { object: object_of(media), reason }.into())
    }
}

/// Returns the name of an object.
fn object_of(media: &Media) -> String {
    media.names().into_iter().next().unwrap_or_default()
}

fn no_transaction(media: &Media, number: u64, transaction: u32) -> RunError {
    let transaction = format!("{number}.{transaction}");
    ArchiveError::NoTransaction { archive: object_of(media), transaction }.into()
}
