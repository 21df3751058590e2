//! Checking a set without restoring it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tdekit_backup_media::payload::{ChangedPages, LogPages, Metadata, PageMapBlock, Pages};
use tdekit_backup_media::{
    BlockKind, ContentDigest, ContentHash, Digest, RecordKind, SetKind, Source,
};
use tdekit_key_crypto::x509;

use super::list::Volumes;
use super::opened::{BlockReader, OpenSet};
use super::{SignatureCheck, VerifyReport};
use crate::error::At;
use crate::output::{Fate, lock};
use crate::pipeline::{run_threads, threads};
use crate::progress::Meter;
use crate::{Run, RunError, SetInfo};

/// Maximum number of damages that are listed individually.
const MAX_DAMAGES: usize = 1000;

/// Blocks and findings, over all threads.
struct Tally {
    next: AtomicU64,
    payload_bytes: AtomicU64,
    healed: AtomicU64,
    differing: AtomicU64,
    lost: AtomicU64,
    damages: Mutex<Vec<(u64, String)>>,
    /// Digests for each hash, by family and block, of the first whole copy; empty if they are not
    /// needed.
    digests: Vec<(ContentHash, Mutex<ByFamily>)>,
}

/// Digests of blocks, by family and block.
type ByFamily = Vec<Vec<Digest>>;
/// Digests of the blocks of a set, for each hash that its signatures have.
pub(super) type Digests = Vec<(ContentHash, ByFamily)>;

/// Checks every block of every copy. The returned digests are those that the signatures were
/// compared with; without `digests` they are empty if there is no signature and no mirror.
pub(super) fn verify(
    set: &OpenSet<'_>,
    info: &SetInfo,
    digests: bool,
    run: &Run<'_>,
) -> Result<(VerifyReport, Digests), RunError> {
    let counts: Vec<u64> =
        set.families.iter().map(|family| family.index.entries.len() as u64).collect();
    let blocks: u64 = counts.iter().sum();
    let mirrored = set.families.iter().any(|family| family.copies.len() > 1);
    let mut hashes: Vec<ContentHash> = Vec::new();
    for hash in info.signatures.iter().map(|signature| signature.hash) {
        if hash.check_offered().is_ok() && !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }
    if hashes.is_empty() && (digests || mirrored) {
        hashes.push(ContentHash::NEW);
    }
    let zeros = |n: &u64| vec![[0; 32]; usize::try_from(*n).unwrap_or(0)];
    let table = |hash| (hash, Mutex::new(counts.iter().map(zeros).collect()));
    let tally = Tally {
        next: AtomicU64::new(0),
        payload_bytes: AtomicU64::new(0),
        healed: AtomicU64::new(0),
        differing: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        damages: Mutex::default(),
        digests: hashes.into_iter().map(table).collect(),
    };
    let meter = Meter::new(run, Some(set.data_bytes()));
    let fate = Fate::default();
    let work = || {
        let mut worker = Worker::new(set)?;
        loop {
            fate.check()?;
            let number = tally.next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = nth_block(&counts, number) else { return Ok(()) };
            worker.check(block, number, &tally, &meter)?;
        }
    };
    run_threads(threads(run), &fate, &work)?;
    let mut report = VerifyReport {
        position: set.position,
        opened: set.readable,
        blocks,
        payload_bytes: tally.payload_bytes.into_inner(),
        healed_blocks: tally.healed.into_inner(),
        differing_blocks: tally.differing.into_inner(),
        lost_blocks: tally.lost.into_inner(),
        ..VerifyReport::default()
    };
    if set.families.iter().any(|family| family.healed) {
        report.damages.push("the index of one mirror is damaged".to_owned());
    }
    let mut damages = std::mem::take(&mut *lock(&tally.damages));
    damages.sort();
    report.damages.extend(damages.into_iter().map(|(_, damage)| damage));
    let take = |(hash, table): (_, Mutex<ByFamily>)| (hash, std::mem::take(&mut *lock(&table)));
    let digests: Digests = tally.digests.into_iter().map(take).collect();
    report.signatures = check_signatures(set, info, &digests);
    if !report.damages.is_empty() || report.signatures.iter().any(|it| it.problem.is_some()) {
        set.note_damage();
    }
    Ok((report, digests))
}

/// Returns family and index of the n-th block over all families.
fn nth_block(counts: &[u64], mut number: u64) -> Option<(usize, u32)> {
    for (family, count) in counts.iter().enumerate() {
        if number < *count {
            return Some((family, u32::try_from(number).ok()?));
        }
        number -= count;
    }
    None
}

struct Worker<'a> {
    set: &'a OpenSet<'a>,
    reader: BlockReader,
    payload: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(set: &'a OpenSet<'a>) -> Result<Self, RunError> {
        Ok(Self { set, reader: BlockReader::new(set)?, payload: Vec::new() })
    }

    fn check(
        &mut self,
        block: (usize, u32),
        number: u64,
        tally: &Tally,
        meter: &Meter<'_>,
    ) -> Result<(), RunError> {
        let entry = *self.set.entry(block).ok_or(RunError::Internal("a block of no entry"))?;
        let bytes = u64::from(entry.payload_len);
        let data_bytes = if entry.kind == BlockKind::Data { bytes } else { 0 };
        meter.take(data_bytes)?;
        let copies = self.set.families.get(block.0).map_or(0, |family| family.copies.len());
        let (mut damages, mut whole, mut first) = (Vec::new(), 0, None);
        for copy in 0..copies {
            match self.check_copy(block, copy) {
                Ok(()) => {
                    whole += 1;
                    let of = |(hash, _): &(ContentHash, _)| hash.of_block(self.reader.raw());
                    let digests: Vec<Digest> = tally.digests.iter().map(of).collect();
                    if first.get_or_insert_with(|| digests.clone()) != &digests {
                        tally.differing.fetch_add(1, Ordering::Relaxed);
                        damages.push(self.differs(block));
                    }
                }
                Err(error @ (RunError::Damaged { .. } | RunError::Tampered { .. })) => {
                    damages.push(error.to_string());
                }
                Err(RunError::ShortRead { media, end }) => {
                    damages.push(RunError::ShortRead { media, end }.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        for (digest, (_, table)) in first.into_iter().flatten().zip(&tally.digests) {
            keep_digest(block, digest, table);
        }
        if whole == 0 {
            tally.lost.fetch_add(1, Ordering::Relaxed);
        }
        if whole > 0 && whole < copies {
            tally.healed.fetch_add(1, Ordering::Relaxed);
        }
        if whole > 0 && entry.kind == BlockKind::Data {
            tally.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let mut all = lock(&tally.damages);
        let room = MAX_DAMAGES.saturating_sub(all.len());
        all.extend(damages.into_iter().take(room).map(|damage| (number, damage)));
        drop(all);
        meter.add(data_bytes, entry.block_len());
        Ok(())
    }

    fn check_copy(&mut self, block: (usize, u32), copy: usize) -> Result<(), RunError> {
        if !self.set.readable {
            return self.reader.check_copy(self.set, block, copy);
        }
        let entry = *self.set.entry(block).ok_or(RunError::Internal("a block of no entry"))?;
        self.payload.resize(usize::try_from(entry.payload_len).unwrap_or(usize::MAX), 0);
        self.reader.read_copy(self.set, block, copy, &mut self.payload)?;
        self.check_payload(block, entry.kind, entry.first_page)
    }

    /// Checks the content of an opened block against its index entry.
    fn check_payload(
        &self,
        block: (usize, u32),
        kind: BlockKind,
        first_page: u32,
    ) -> Result<(), RunError> {
        let name = self.set.families.get(block.0).and_then(|family| family.copies.first());
        let media = name.map_or("", |(volume, _)| &volume.name);
        let at = At { media, position: self.set.position };
        let header = self.set.header;
        let index = u64::from(block.1);
        let first = match (kind, header.source, header.kind) {
            (BlockKind::Metadata, _, _) => Metadata::decode(&self.payload).map(|_| 0),
            (BlockKind::PageMap, _, _) => {
                PageMapBlock::decode(index, &self.payload).map(|map| map.first_page)
            }
            (BlockKind::Data, Source::Stream, _) => Ok(0),
            (BlockKind::Data, Source::Database { page_size, .. }, SetKind::Full) => {
                Pages::decode(index, &self.payload, page_size).map(|pages| pages.first_page)
            }
            (BlockKind::Data, Source::Database { page_size, .. }, SetKind::Log(link)) => {
                let pages = LogPages::decode(index, &self.payload, page_size, link.form);
                pages.map(|_| first_page)
            }
            (
                BlockKind::Data,
                Source::Database { page_size, .. },
                SetKind::Differential(_) | SetKind::LogState(_),
            ) => {
                ChangedPages::decode(index, &self.payload, page_size).map(|pages| pages.bounds().0)
            }
        };
        if first.map_err(|error| at.error(error))? == first_page {
            return Ok(());
        }
        let what = format!("set {}", self.set.position);
        let reason = format!("block {index} does not hold what the index says");
        Err(RunError::Damaged { media: media.to_owned(), what, reason })
    }

    /// Describes a block that opens in both mirrors but differs.
    fn differs(&self, block: (usize, u32)) -> String {
        let (position, index) = (self.set.position, block.1);
        format!("set {position}: mirrors hold different blocks {index}")
    }
}

fn keep_digest((family, index): (usize, u32), digest: Digest, table: &Mutex<ByFamily>) {
    let mut digests = lock(table);
    let Ok(index) = usize::try_from(index) else { return };
    if let Some(place) = digests.get_mut(family).and_then(|family| family.get_mut(index)) {
        *place = digest;
    }
}

/// Checks the MACs of the records that added recipients to a set, if there are keys.
pub(super) fn check_recipients(volumes: &Volumes, set: &OpenSet<'_>) -> Vec<String> {
    let mut damages = Vec::new();
    for (opened, family) in set.families.iter().zip(0_u16..) {
        let Some(keys) = &opened.keys else { continue };
        for ordinal in volumes.ordinals() {
            let Some((header, placed)) = volumes.header(family, ordinal) else { continue };
            if header.kind() != RecordKind::Recipients || header.place.set_id != set.set_id {
                continue;
            }
            let record = &placed.record;
            let checked = keys
                .check_recipients(&record.header_bytes)
                .and_then(|()| keys.check_trailer(&record.trailer_bytes));
            damages.extend(checked.err().map(|error| format!("record {ordinal}: {error}")));
        }
    }
    damages
}

/// Checks each signature against the actual blocks. The caller decides whether to trust its
/// certificate.
fn check_signatures(set: &OpenSet<'_>, info: &SetInfo, digests: &Digests) -> Vec<SignatureCheck> {
    let content = |(hash, table): &(ContentHash, ByFamily)| {
        (*hash, table.iter().map(|digests| content_digest(digests)).collect::<Vec<Digest>>())
    };
    let contents: Vec<_> = digests.iter().map(content).collect();
    let content_of = |hash, family: usize| {
        let of_hash = contents.iter().find(|(each, _)| *each == hash);
        of_hash.and_then(|(_, families)| families.get(family))
    };
    let check = |signature: &crate::SignatureInfo| {
        let family = usize::from(signature.family);
        let trailer = set.families.get(family).and_then(|family| family.copies.first());
        let trailer = trailer.map(|(_, placed)| placed.record.digest());
        let facts = x509::parse(&signature.certificate_der);
        let verifies = facts
            .as_ref()
            .is_ok_and(|facts| facts.public_key.verifies(&signature.message, &signature.signature));
        let problem = if !verifies {
            Some("it does not hold")
        } else if trailer != Some(signature.trailer_sha256) {
            Some("it is on another set")
        } else if signature.hash.check_offered().is_err() {
            Some("it hashes blocks by BLAKE3, which FIPS 140-3 does not approve")
        } else if content_of(signature.hash, family) != Some(&signature.content_sha256) {
            Some("the blocks are not those that were signed")
        } else {
            None
        };
        SignatureCheck {
            family: signature.family,
            signed_ms: signature.signed_ms,
            certificate_der: signature.certificate_der.clone(),
            subject: facts.map(|facts| facts.subject).unwrap_or_default(),
            problem,
        }
    };
    info.signatures.iter().map(check).collect()
}

/// Returns the digest over the digests of a family's blocks.
fn content_digest(digests: &[Digest]) -> Digest {
    let mut content = ContentDigest::new();
    digests.iter().for_each(|digest| content.push(digest));
    content.finish()
}
