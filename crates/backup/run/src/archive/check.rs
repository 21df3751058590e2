//! Whether objects of an archive belong to their places and follow each other.

use tdekit_backup_media::payload::{LogEnd, LogOrder, LogPages};
use tdekit_key_store::StoreError;

use crate::error::{ArchiveError, At};
use crate::media::opened::{BlockReader, OpenSet};
use crate::{Media, RunError, SetInfo, SetKind, UnwrapSecret};

/// The object before, and the chain that it belongs to.
#[derive(Default, Clone)]
pub(super) struct Links {
    before: Option<Before>,
    /// Why nothing is known of the object before.
    unknown: Unknown,
}

#[derive(Default, Clone, Copy)]
enum Unknown {
    /// There is none.
    #[default]
    None,
    /// It is missing, or something is wrong with it.
    Wrong,
    /// Its key is not here.
    Closed,
}

#[derive(Clone)]
struct Before {
    number: u64,
    set_id: [u8; 16],
    trailer_sha256: [u8; 32],
    /// Number and set id of the full set.
    first: (u64, [u8; 16]),
    page_size: u32,
    database_id: [u8; 16],
    encrypted: bool,
}

impl Links {
    /// Opens the set of the object `number`, whose name is `object`, and checks that it belongs
    /// there and follows the one before. A full set begins a new chain.
    ///
    /// # Errors
    /// `Misplaced`; `KeyNeeded`, `Damaged`, `Tampered`, those of the keys.
    pub(super) fn add<'a>(
        &mut self,
        (number, object): (u64, &str),
        media: &'a Media,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<(&'a SetInfo, OpenSet<'a>), RunError> {
        // By the header, which needs no key: an object of another database may have another one.
        if let Ok(info) = media.only_info() {
            self.place(number, object, info)?;
        }
        let (info, set) = media.only(keys).map_err(|error| match media.only_info() {
            Ok(info) => closed(error, object, info),
            Err(_) => error,
        })?;
        let mut first = self.place(number, object, info)?;
        if first.is_none() {
            let says = set.metadata()?.archive_number;
            refuse_place(number, object, says)?;
            first = Some((number, info.set_id));
        }
        let first = first.ok_or(RunError::Internal("the place of a set"))?;
        self.before = Some(Before {
            number,
            set_id: info.set_id,
            trailer_sha256: media.only_digest()?,
            first,
            page_size: info.page_size,
            database_id: info.database_id,
            encrypted: info.algorithm.is_some(),
        });
        Ok((info, set))
    }

    /// Checks by its header that a set belongs to its place and follows the one before. Returns
    /// number and set id of its full set; `None` for a full set whose header does not have the
    /// number.
    ///
    /// # Errors
    /// `Misplaced`.
    fn place(
        &self,
        number: u64,
        object: &str,
        info: &SetInfo,
    ) -> Result<Option<(u64, [u8; 16])>, RunError> {
        let wrong = |reason| misplaced(object, reason);
        Ok(Some(match (info.kind, info.log, &self.before) {
            (SetKind::Full, ..) => {
                let place = info.archive.as_ref().and_then(|archive| archive.full);
                let Some(place) = place else { return Ok(None) };
                refuse_place(number, object, Some(place.number))?;
                (number, info.set_id)
            }
            (_, Some(link), _) if link.number != number => {
                return Err(wrong(format!("is object {}", link.number)));
            }
            (_, Some(link), None) => match self.unknown {
                Unknown::Closed => (link.first, link.chain),
                Unknown::None => return Err(wrong("has no full set before it".to_owned())),
                Unknown::Wrong => return Err(behind_wrong(object)),
            },
            (_, Some(link), Some(before)) => {
                let follows = before.number.checked_add(1) == Some(number)
                    && link.before.set_id == before.set_id
                    && link.before.trailer_sha256 == before.trailer_sha256
                    && (link.first, link.chain) == before.first;
                if !follows {
                    return Err(wrong(format!("does not follow object {}", before.number)));
                }
                let same = info.page_size == before.page_size
                    && info.database_id == before.database_id
                    && info.algorithm.is_some() == before.encrypted;
                if !same {
                    return Err(wrong("is of another database than the one before".to_owned()));
                }
                before.first
            }
            (SetKind::Differential | SetKind::Log, None, _) => {
                return Err(wrong("is neither a full set nor of a log".to_owned()));
            }
        }))
    }

    /// Returns true if the object before has this set id, in hexadecimal.
    pub(super) fn is_at(&self, set_id: &str) -> bool {
        self.before.as_ref().is_some_and(|before| hex::encode(before.set_id) == set_id)
    }

    /// Forgets the object before, because one is wrong or missing.
    pub(super) fn cut(&mut self) {
        (self.before, self.unknown) = (None, Unknown::Wrong);
    }

    /// Goes on behind an object whose key is not here: nothing is known of it but its header.
    ///
    /// # Errors
    /// `Misplaced` for a set that is not in its place, or does not follow the one before, and for a
    /// log set behind one that is wrong or missing.
    pub(super) fn pass_closed(
        &mut self,
        (number, object): (u64, &str),
        info: &SetInfo,
    ) -> Result<(), RunError> {
        self.place(number, object, info)?;
        (self.before, self.unknown) = (None, Unknown::Closed);
        Ok(())
    }
}

/// Names an object and its certificates, where the error is that no key at hand opens it.
#[must_use]
pub fn closed(error: RunError, object: &str, set: &SetInfo) -> RunError {
    match error {
        RunError::Store(error) if is_other_key(&error) => {
            let (object, certificates) = (object.to_owned(), set.certificates());
            ArchiveError::Closed { object, certificates }.into()
        }
        error => error,
    }
}

/// Returns true if keys are at hand, and none of them is that of a set.
pub(super) fn is_other_key(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::CertificateMissing { .. }
            | StoreError::OtherCertificate { .. }
            | StoreError::PrivateKeyMissing { .. }
    )
}

fn misplaced(object: &str, reason: String) -> RunError {
    ArchiveError::Misplaced { object: object.to_owned(), reason }.into()
}

/// Fails for a full set of another place than `number`.
fn refuse_place(number: u64, object: &str, says: Option<u64>) -> Result<(), RunError> {
    if says == Some(number) {
        return Ok(());
    }
    let says = says.map_or("no archive".to_owned(), |says| format!("object {says}"));
    Err(misplaced(object, format!("is of {says}")))
}

fn behind_wrong(object: &str) -> RunError {
    misplaced(object, "goes on behind an object that is not whole".to_owned())
}

/// Reads a log set, and returns the ends of its transactions.
///
/// # Errors
/// `Damaged`, `Tampered`.
pub(super) fn log_ends(set: &OpenSet<'_>) -> Result<Vec<LogEnd>, RunError> {
    let name = set.families.first().and_then(|family| family.copies.first());
    let media = name.map_or("", |(volume, _)| volume.name.as_str());
    let at = At { media, position: set.position };
    let (page_size, form) = (set.header.source.page_size(), set.log_form());
    let mut reader = BlockReader::new(set)?;
    let (mut payload, mut ends, mut order) = (Vec::new(), Vec::new(), LogOrder::default());
    for number in 0..set.data_blocks() {
        let block = set.data_block(number).ok_or(RunError::Internal("a block of no entry"))?;
        reader.read(set, block, &mut payload)?;
        let index = u64::from(block.1);
        let pages = LogPages::decode(index, &payload, page_size, form);
        for entry in pages.map_err(|error| at.error(error))?.entries() {
            order.add(index, entry).map_err(|error| at.error(error))?;
            ends.extend(entry.end);
        }
    }
    let transactions = set.log_transactions();
    if order.whole() == transactions && transactions.is_some() {
        return Ok(ends);
    }
    let what = format!("set {}", set.position);
    let reason = "its transactions are not those that its header counts".to_owned();
    Err(RunError::Damaged { media: media.to_owned(), what, reason })
}
