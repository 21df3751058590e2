//! The record of a set: header, blocks, index, trailer, in each family.

use tdekit_backup_media::payload::Metadata;
use tdekit_backup_media::{
    Block, BlockKind, BlockSealer, ContentHash, Family, Id, RecordPlace, SetBuilder, SetHeader,
    SetKeys, SetSecret, Source, TRAILER_LEN, trailer_digest,
};
use tdekit_key_crypto::{SecretBytes, random_bytes};

use super::plan::Plan;
use super::publish::{Unpublished, publish, settle};
use super::record::signature_record;
use super::{Opened, Signable, now_ms};
use crate::error::At;
use crate::feed::{BaseMap, ChangedFeed, FullFeed, StreamFeed};
use crate::media::base::OpenBase;
use crate::output::{Fate, Output, SealedBlock, Written};
use crate::pipeline::{Sealing, seal_all};
use crate::progress::Meter;
use crate::snapshot::Snapshot;
use crate::{Checked, Run, RunError, Sign};

/// A check that may prevent publishing a complete set.
type BeforePublish<'a> = Option<&'a dyn Fn() -> Result<(), RunError>>;

/// A record that is being written.
pub(super) struct Record<'a> {
    set_id: Id,
    header: SetHeader,
    outputs: Vec<Output>,
    keys: Vec<Option<SetKeys>>,
    header_bytes: u64,
    /// Place in the first family; the others differ only in their family-specific values.
    place: RecordPlace,
    signer: Option<&'a dyn Sign>,
    /// Hash of blocks, if the set will be signed.
    hash: Option<ContentHash>,
}

/// The last steps before a set is published.
#[derive(Clone, Copy)]
pub(super) struct Last<'a> {
    /// True to run SQLite's quick_check.
    pub(super) check: bool,
    pub(super) before_publish: BeforePublish<'a>,
}

/// Result of writing.
pub(super) struct Body {
    pub(super) set_id: Id,
    pub(super) trailer_sha256: [u8; 32],
    pub(super) pages: u64,
    pub(super) page_size: u32,
    pub(super) pages_stored: u64,
    pub(super) source_bytes: u64,
    pub(super) payload_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) media_bytes: u64,
    pub(super) finished_ms: i64,
    /// For each family, if the set will be signed.
    pub(super) signable: Vec<Signable>,
    pub(super) checked: Checked,
    pub(super) signed: bool,
}

impl<'r> Record<'r> {
    /// Writes the header to each family, of which `header` has everything but the family. With
    /// `signer`, the signed bytes are returned, and signed if the signature can be published at
    /// once.
    pub(super) fn begin(
        plan: &mut Plan,
        header: SetHeader,
        secret: Option<&SetSecret>,
        signer: Option<&'r dyn Sign>,
    ) -> Result<Self, RunError> {
        let at = At { media: "the new set", position: header.position };
        let hash = signer.map(|_| plan.hash());
        hash.map_or(Ok(()), |hash| hash.check_offered())?;
        let mut set_id = [0; 16];
        random_bytes(&mut set_id)?;
        let media_id = plan.media_id;
        let count = u16::try_from(plan.families.len()).unwrap_or(u16::MAX);
        let (mut outputs, mut keys, mut header_bytes) = (Vec::new(), Vec::new(), 0);
        let mut first = None;
        for (family, index) in plan.families.iter_mut().zip(0..) {
            let (ordinal, previous) = (family.ordinal, family.previous);
            let place = RecordPlace { ordinal, previous, media_id, set_id };
            first.get_or_insert(place);
            let header = SetHeader { family: Family { index, count }, ..header.clone() };
            let encoded = header.encode(&place, secret).map_err(|error| at.error(error))?;
            let builder = SetBuilder::new(&header, &place, &encoded.bytes);
            let builder = builder.map_err(|error| at.error(error))?;
            let mut copies = family.begin()?;
            copies.iter_mut().try_for_each(|copy| copy.write(&encoded.bytes))?;
            header_bytes += encoded.bytes.len() as u64;
            outputs.push(Output::new(copies, builder));
            keys.push(encoded.keys);
        }
        let place = first.ok_or(RunError::Internal("a set of no family"))?;
        Ok(Self { set_id, header, outputs, keys, header_bytes, place, signer, hash })
    }

    /// Writes all blocks, index and trailer, and publishes the record.
    pub(super) fn write(
        self,
        source: Opened,
        base: Option<&OpenBase<'_>>,
        map_key: Option<SecretBytes>,
        (run, last): (&Run<'_>, Last<'_>),
    ) -> Result<Body, RunError> {
        let (meter, fate) = (Meter::new(run, source.bytes()), Fate::default());
        let families = u16::try_from(self.outputs.len()).unwrap_or(u16::MAX);
        let pages_stored = match &source {
            Opened::Database(snapshot) => match base {
                None => {
                    let shape = (families, self.header.pages_per_block(), map_key.is_some());
                    let feed = FullFeed::new(snapshot, shape, &meter, &fate);
                    self.seal_all(&feed, map_key.as_ref(), (run, &meter, &fate))?;
                    snapshot.pages().into()
                }
                Some(base) => {
                    let load = |group| base.prints(group);
                    let base_map = BaseMap::new(base.pages(), &load);
                    let shape = (families, self.header.block_size, self.header.has_page_map);
                    let feed = ChangedFeed::new(snapshot, base_map, shape, &meter, &fate);
                    self.seal_all(&feed, map_key.as_ref(), (run, &meter, &fate))?;
                    feed.changed_pages()
                }
            },
            Opened::Log(batch) => {
                let feed = batch.feed(self.header.block_size, &meter);
                self.seal_all(&*feed, None, (run, &meter, &fate))?;
                batch.pages_stored()
            }
            Opened::Stream(_) => 0,
        };
        let (snapshot, source_bytes) = match source {
            Opened::Database(snapshot) => (Some(snapshot), meter.total_bytes()),
            Opened::Log(_) => (None, meter.total_bytes()),
            Opened::Stream(reader) => {
                let block_len = usize::try_from(self.header.block_size).unwrap_or(usize::MAX);
                let feed = StreamFeed::new(reader, families, block_len, &meter);
                self.seal_all(&feed, None, (run, &meter, &fate))?;
                (None, meter.done_bytes())
            }
        };
        let map_key = map_key.filter(|_| self.header.has_page_map);
        let metadata = metadata(snapshot.as_deref(), map_key);
        let mut body = self.finish(&metadata, snapshot.as_deref(), (run, last))?;
        (body.pages_stored, body.source_bytes) = (pages_stored, source_bytes);
        Ok(body)
    }

    fn sealing<'a>(&'a self, map_key: Option<&'a SecretBytes>) -> Sealing<'a> {
        let payload_len = self.header.block_rules().max_payload_len(BlockKind::Data);
        Sealing {
            set_id: self.set_id,
            compression: self.header.compression,
            keys: &self.keys,
            payload_len: usize::try_from(payload_len).unwrap_or(usize::MAX),
            map_key,
            nice: self.header.source != Source::Stream,
            hash: self.hash,
            at: self.at(),
        }
    }

    fn seal_all(
        &self,
        feed: &dyn crate::feed::Feed,
        map_key: Option<&SecretBytes>,
        context: (&Run<'_>, &Meter<'_>, &Fate),
    ) -> Result<(), RunError> {
        seal_all(feed, &self.outputs, &self.sealing(map_key), context)
    }

    fn at(&self) -> At<'static> {
        At { media: "the new set", position: self.header.position }
    }

    /// Writes the last block, index and trailer of each family.
    fn finish(
        self,
        metadata: &Metadata,
        snapshot: Option<&Snapshot>,
        (run, last): (&Run<'_>, Last<'_>),
    ) -> Result<Body, RunError> {
        let at = self.at();
        let finished_ms = now_ms();
        let mut block_keys = self.sealing(None).block_keys()?;
        let mut sealer =
            BlockSealer::new(self.header.compression).map_err(|error| at.error(error))?;
        let empty = Metadata::default();
        let mut body = Body {
            set_id: self.set_id,
            trailer_sha256: [0; 32],
            pages: self.header.source.pages().into(),
            page_size: self.header.source.page_size(),
            pages_stored: 0,
            source_bytes: 0,
            payload_bytes: 0,
            stored_bytes: 0,
            media_bytes: self.header_bytes,
            finished_ms,
            signable: Vec::new(),
            checked: Checked::default(),
            signed: false,
        };
        let mut written: Vec<Written> = Vec::new();
        for ((output, key), family) in self.outputs.into_iter().zip(&mut block_keys).zip(0_u16..) {
            let mut family_written = output.into_written();
            let metadata = if family == 0 { metadata } else { &empty };
            let payload = metadata.encode().map_err(|error| at.error(error))?;
            let block = Block {
                kind: BlockKind::Metadata,
                index: family_written.builder.next_index(),
                first_page: 0,
                payload: &payload,
            };
            let mut buffer = vec![0; BlockSealer::room(payload.len())];
            let entry = sealer.seal(key, &block, &mut buffer).map_err(|error| at.error(error))?;
            family_written.write(&SealedBlock::new(entry, buffer, self.hash)?)?;
            written.push(family_written);
        }
        let data_blocks = written.iter().map(|family| family.data_blocks).sum();
        let mut unpublished = Vec::new();
        let families = written.len();
        for (mut family, keys) in written.into_iter().zip(&self.keys) {
            body.payload_bytes += family.data_bytes;
            body.stored_bytes += family.stored_bytes;
            let builder = family.builder.finish(data_blocks, finished_ms, keys.as_ref());
            let (index, trailer) = builder.map_err(|error| at.error(error))?;
            for copy in &mut family.copies {
                copy.write(&index)?;
            }
            body.media_bytes += family.stored_bytes + (index.len() + TRAILER_LEN) as u64;
            settle(&mut family.copies, families)?;
            let trailer_sha256 = trailer_digest(&trailer);
            if unpublished.is_empty() {
                body.trailer_sha256 = trailer_sha256;
            }
            if let Some(hash) = self.hash {
                let content_sha256 = family.content.finish();
                body.signable.push(Signable { trailer_sha256, hash, content_sha256 });
            }
            unpublished.push(Unpublished { copies: family.copies, trailer, behind: Vec::new() });
        }
        if let Some(snapshot) = snapshot {
            if last.check {
                body.checked = snapshot.check_structure(run)?;
            }
            snapshot.check()?;
        }
        run.check()?;
        if let (Some(signer), [only], [signable]) =
            (self.signer, &mut unpublished[..], &body.signable[..])
            && only.copies.iter().all(|copy| copy.is_hidden())
        {
            let ordinal = self.place.ordinal.saturating_add(1);
            let place = RecordPlace { ordinal, previous: signable.trailer_sha256, ..self.place };
            only.behind = signature_record(&place, *signable, signer, at)?;
            body.signed = true;
        }
        last.before_publish.map_or(Ok(()), |ask| ask())?;
        publish(unpublished)?;
        Ok(body)
    }
}

fn metadata(snapshot: Option<&Snapshot>, map_key: Option<SecretBytes>) -> Metadata {
    let Some(snapshot) = snapshot else { return Metadata::default() };
    let facts = snapshot.facts();
    Metadata {
        map_key,
        tables: facts.tables.clone(),
        sqlite_version: facts.sqlite_version,
        journal_mode: Some(facts.journal_mode.clone()),
        encoding: Some(facts.encoding.clone()),
        archive_number: None,
    }
}
