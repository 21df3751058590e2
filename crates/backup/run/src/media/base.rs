//! The set on which a differential set, or a log backup, is based.

use tdekit_backup_media::payload::{MAP_PAGES_PER_BLOCK, PageMapBlock};
use tdekit_backup_media::{Base, BlockKind};
use tdekit_key_crypto::SecretBytes;

use super::Media;
use super::list::Volumes;
use super::opened::{BlockReader, OpenSet};
use crate::error::At;
use crate::feed::Print;
use crate::{
    Finding, FindingReport, OwnSets, RunError, SetInfo, SetKind, SourceKind, UnwrapSecret,
};

/// A base whose page map can be read.
pub(crate) struct OpenBase<'a> {
    set: OpenSet<'a>,
    pub(crate) base: Base,
    pub(crate) map_key: SecretBytes,
    map: PageMap,
    /// The file or object of its media set, if that is another one than the new set's.
    pub(crate) elsewhere: Option<String>,
}

/// The database of a new set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    /// File id of an encrypted database, otherwise zeros.
    pub(crate) database_id: &'a [u8; 16],
    /// Its path, if a database with another file id may be the same one.
    pub(crate) path: Option<&'a str>,
    /// When it was made: sets begun before then are of another one of its name.
    pub(crate) made_ms: Option<i64>,
    /// The sets of its own, if they are known: then it is by these, and not by its name.
    pub(crate) own: Option<&'a OwnSets>,
}

impl Wanted<'_> {
    /// Compares by file id and name. A restored database gets a new file id: at the same path it is
    /// the same one, as a plain one is.
    pub(crate) fn is_of(&self, set: &SetInfo) -> bool {
        let encrypted = |id: &[u8; 16]| *id != [0; 16];
        if let Some(own) = self.own {
            let same_form = encrypted(&set.database_id) == encrypted(self.database_id);
            return same_form && own.has(&set.set_id);
        }
        let both = encrypted(&set.database_id) && encrypted(self.database_id);
        let same = set.database_id == *self.database_id
            || both && self.path.is_some_and(|path| set.path == path);
        let is_older = self.made_ms.is_some_and(|made_ms| set.begun_ms < made_ms);
        same && set.database_name == self.name && !is_older
    }
}

/// Returns the base of a set, in one of the media sets: in its own one it comes before it.
pub(super) fn of<'a>(all: &[&'a Media], set: &SetInfo) -> Option<&'a SetInfo> {
    let base = set.base?;
    let is_own = |media: &Media| {
        media.sets().iter().any(|it| (it.set_id, it.ordinal) == (set.set_id, set.ordinal))
    };
    all.iter().find_map(|media| {
        let own = is_own(media);
        let is_base = |it: &&SetInfo| it.set_id == base && (!own || it.ordinal < set.ordinal);
        media.sets().iter().find(is_base)
    })
}

/// Returns a set and those that it stands on, the first one first.
pub(super) fn chain<'a>(all: &[&'a Media], set: &'a SetInfo) -> Vec<&'a SetInfo> {
    // Headers that somebody wrote may name each other in a circle.
    let most = all.iter().map(|media| media.sets().len()).sum();
    let sets = std::iter::successors(Some(set), |set| of(all, set));
    let mut chain: Vec<&SetInfo> = sets.take(most).collect();
    chain.reverse();
    chain
}

/// Returns the last full set of a media set on which a differential one of this database could be
/// based; for a log backup the last full set or log backup.
pub(crate) fn candidate<'a>(
    media: &'a Media,
    wanted: Wanted<'_>,
    log: bool,
) -> Option<&'a SetInfo> {
    let base = |set: &&SetInfo| {
        set.source == SourceKind::Database
            && (set.kind == SetKind::Full || log && set.is_log_backup())
            && !set.copy_only
            && !set.is_of_archive()
            && set.damage.is_none()
            && wanted.is_of(set)
    };
    media.sets().iter().rev().find(base)
}

/// Returns the reason why a set of an archive is no base: it has no fingerprints of pages.
pub(crate) fn of_archive(position: u32, name: &str) -> String {
    format!("set {position} of {name} belongs to an archive, and has no page map")
}

/// Finds the base of a differential set or of a log backup: in the first media set that has one.
/// The others may have what that one stands on.
pub(crate) fn find<'a>(
    all: &[&'a Media],
    wanted: Wanted<'_>,
    log: bool,
) -> Result<(&'a Media, &'a SetInfo), RunError> {
    let none = |reason: String| RunError::NoBase { reason };
    let found = all.iter().find_map(|media| Some((*media, candidate(media, wanted, log)?)));
    let (media, found) = found.ok_or_else(|| match all.is_empty() {
        true => none("the media set is new".to_owned()),
        false => none(no_full_set(all, wanted)),
    })?;
    if log {
        refuse_broken(all, media, found)?;
    }
    match found.page_map {
        true => Ok((media, found)),
        false => Err(none(format!("set {} has no page map", found.position))),
    }
}

/// Returns the reason why none of these media sets has a base of the database.
fn no_full_set(all: &[&Media], wanted: Wanted<'_>) -> String {
    let is_archived = |set: &&SetInfo| set.is_of_archive() && wanted.is_of(set);
    let found = all.iter().find_map(|media| Some((media, media.sets().iter().find(is_archived)?)));
    match found {
        Some((media, set)) => {
            of_archive(set.position, &media.names().into_iter().next().unwrap_or_default())
        }
        None => {
            let mut sets = all.iter().flat_map(|media| media.sets());
            let is_of_file = |set: &&SetInfo| {
                set.source == SourceKind::Database
                    && wanted.path.is_some_and(|path| set.path == path)
                    && set.database_name != wanted.name
            };
            let none = format!("the media set has no full set of database {:?}", wanted.name);
            let is_named = |set: &SetInfo| {
                set.source == SourceKind::Database && set.database_name == wanted.name
            };
            if wanted.own.is_some() && sets.clone().any(is_named) {
                return format!("{none}; {OF_OTHERS}");
            }
            match sets.find(is_of_file) {
                Some(set) => format!("{none}; {}", by_another_name(&set.database_name)),
                None => none,
            }
        }
    }
}

/// The reason why sets of the same name are no base.
pub(crate) const OF_OTHERS: &str = "the sets of this name are of another database, or a restore \
                                    left them out";

/// Returns the reason why sets of the same file are no base: they are of a database of another
/// name.
pub(crate) fn by_another_name(name: &str) -> String {
    format!(
        "there are sets of this file as database {name:?}, which begin a chain of their own: \
         `tdekit backup` names a database by its file, BACKUP of T-SQL by its name there"
    )
}

/// Refuses a log backup behind a set that does not stand on whole headers down to a full set, and
/// one behind which a set is missing or cannot be read: that may be a newer one of the database.
fn refuse_broken(all: &[&Media], media: &Media, found: &SetInfo) -> Result<(), RunError> {
    let broken = |reason: String| Err(RunError::NoBase { reason });
    let chain = chain(all, found);
    if let Some(set) = chain.iter().find(|set| set.damage.is_some()) {
        let damage = set.damage.as_deref().unwrap_or_default();
        return broken(format!("set {} is damaged: {damage}", set.position));
    }
    if let Some(first) = chain.first().filter(|set| set.base.is_some()) {
        return broken(format!("the set that set {} stands on is not there", first.position));
    }
    for position in found.position.saturating_add(1)..=media.last {
        let set = media.sets().iter().find(|set| set.position == position);
        match set.map(|set| &set.damage) {
            Some(None) => {}
            Some(Some(damage)) => return broken(format!("set {position} is damaged: {damage}")),
            None => return broken(format!("set {position} is missing, or cannot be read")),
        }
    }
    let behind = |finding: &&Finding| match finding {
        Finding::DamagedRecord { ordinal, .. } => ordinal.is_none_or(|it| it > found.ordinal),
        Finding::BrokenChain { ordinal, .. } => *ordinal > found.ordinal,
        _ => false,
    };
    match media.findings().iter().find(behind) {
        Some(finding) => broken(FindingReport::of(finding).message),
        None => Ok(()),
    }
}

impl<'a> OpenBase<'a> {
    pub(crate) fn open(
        volumes: &'a Volumes,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Self, RunError> {
        let set = OpenSet::open_readable(volumes, info, keys)?;
        let map = PageMap::of(&set);
        let map_key = PageMap::key(&set)?;
        let trailer_sha256 = trailer_digest(&set);
        let base = Base { set_id: set.set_id, trailer_sha256 };
        Ok(Self { set, base, map_key, map, elsewhere: None })
    }

    /// Returns the number of pages of the base.
    pub(crate) fn pages(&self) -> u32 {
        self.set.header.source.pages()
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.set.header.source.page_size()
    }

    /// Returns true if its pages and their fingerprints are sealed.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.set.header.algorithm.is_some()
    }

    pub(crate) fn position(&self) -> u32 {
        self.set.position
    }

    /// Returns the fingerprints of map block `group`.
    pub(crate) fn prints(&self, group: u32) -> Result<Vec<Print>, RunError> {
        self.map.prints(&self.set, group)
    }
}

/// The page map of a set.
pub(crate) struct PageMap {
    /// Indexes of its blocks, in family 0.
    blocks: Vec<u32>,
}

impl PageMap {
    pub(crate) fn of(set: &OpenSet<'_>) -> Self {
        let entries = set.families.first().map_or(&[][..], |first| &first.index.entries);
        let maps = entries.iter().zip(0..).filter(|(entry, _)| entry.kind == BlockKind::PageMap);
        Self { blocks: maps.map(|(_, index)| index).collect() }
    }

    /// Returns the key of the fingerprints.
    pub(crate) fn key(set: &OpenSet<'_>) -> Result<SecretBytes, RunError> {
        let no_key = || RunError::NoBase { reason: format!("set {} has no map key", set.position) };
        set.metadata()?.map_key.ok_or_else(no_key)
    }

    /// Returns the fingerprints of block `group`.
    pub(crate) fn prints(&self, set: &OpenSet<'_>, group: u32) -> Result<Vec<Print>, RunError> {
        let first = u64::from(group) * MAP_PAGES_PER_BLOCK as u64 + 1;
        let foreign = || {
            let reason = format!("the page map of set {} has another shape", set.position);
            RunError::NoBase { reason }
        };
        let at = usize::try_from(group).ok().and_then(|group| self.blocks.get(group));
        let index = *at.ok_or_else(foreign)?;
        let mut payload = Vec::new();
        BlockReader::new(set)?.read(set, (0, index), &mut payload)?;
        let at = At { media: "", position: set.position };
        let map = PageMapBlock::decode(index.into(), &payload).map_err(|error| at.error(error))?;
        if u64::from(map.first_page) != first {
            return Err(foreign());
        }
        Ok(map.fingerprints.to_vec())
    }
}

/// Returns the SHA-256 of a set's trailer in family 0.
pub(super) fn trailer_digest(set: &OpenSet<'_>) -> [u8; 32] {
    let first = set.families.first().and_then(|family| family.copies.first());
    first.map_or([0; 32], |(_, placed)| placed.record.digest())
}
