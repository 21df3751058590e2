//! Media sets in memory: a writer, and a reader that accepts only what was written.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses a part of it

use std::collections::BTreeMap;

use tdekit_backup_media::payload::{
    ChangedPages, ChangedPagesBuilder, LogEntry, LogOrder, LogPage, LogPages, LogPagesBuilder,
    Metadata, Overlay, PageMapBlock, Pages, put_page_map, put_pages_head,
};
use tdekit_backup_media::*;
use tdekit_key_crypto::{Algorithm, PageFingerprint, SecretBytes};
use tdekit_key_store::{WrapMechanism, WrappedDek};

pub(crate) const PAGE: usize = 512;
const PAGE_SIZE: u32 = 512;
pub(crate) const MEDIA_ID: Id = [0xA1; 16];
const MAP_KEY: [u8; 32] = [0x5C; 32];

/// The content of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Stream(Vec<u8>),
    Full(Vec<u8>),
    /// Of a differential set, or with `log` of a log backup.
    Changed {
        pages: u32,
        changed: Vec<(u32, Vec<u8>)>,
        base: Base,
        log: bool,
    },
    Log {
        pages: u32,
        logged: Vec<(LogEntry, Vec<u8>)>,
        link: LogLink,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) content: Content,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) compression: Compression,
    pub(crate) page_map: bool,
    pub(crate) block_size: u32,
    pub(crate) family: Family,
    /// The whole database, if the page map must describe it.
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) recipients: Vec<Recipient>,
}

impl Spec {
    pub(crate) fn new(
        content: Content,
        algorithm: Option<Algorithm>,
        compression: Compression,
    ) -> Self {
        let page_map = content.page_size() > 0 && !matches!(content, Content::Log { .. });
        let family = Family::SINGLE;
        let recipients = algorithm.map(|_| recipient("Cert")).into_iter().collect();
        Self {
            content,
            algorithm,
            compression,
            page_map,
            block_size: 4096,
            family,
            state: None,
            recipients,
        }
    }
}

impl Content {
    fn page_size(&self) -> u32 {
        if matches!(self, Self::Stream(_)) { 0 } else { PAGE_SIZE }
    }

    fn source(&self) -> Source {
        let pages = match self {
            Self::Stream(_) => return Source::Stream,
            Self::Full(bytes) => u32::try_from(bytes.len() / PAGE).unwrap(),
            Self::Changed { pages, .. } | Self::Log { pages, .. } => *pages,
        };
        Source::Database { page_size: PAGE_SIZE, pages }
    }

    /// Returns all data payloads with their first page.
    fn payloads(&self, block_size: u32) -> Vec<(u32, Vec<u8>)> {
        let block = block_size as usize;
        match self {
            Self::Stream(bytes) => bytes.chunks(block).map(|piece| (0, piece.to_vec())).collect(),
            Self::Full(bytes) => (bytes.chunks(block).enumerate())
                .map(|(at, pages)| {
                    let first = u32::try_from(1 + at * block / PAGE).unwrap();
                    (first, [&put_pages_head(first), pages].concat())
                })
                .collect(),
            Self::Changed { changed, .. } => {
                let mut builder = ChangedPagesBuilder::new(block_size, PAGE_SIZE);
                let (mut payloads, mut out) = (Vec::new(), Vec::new());
                for (number, page) in changed {
                    builder.push(*number, page).unwrap();
                    if builder.is_full() {
                        let first = builder.finish(&mut out);
                        payloads.push((first, out.clone()));
                    }
                }
                if !builder.is_empty() {
                    payloads.push((builder.finish(&mut out), out.clone()));
                }
                payloads
            }
            Self::Log { logged, .. } => {
                let mut builder = LogPagesBuilder::new(block_size, PAGE_SIZE);
                let (mut payloads, mut out) = (Vec::new(), Vec::new());
                let (mut transaction, mut first) = (1, 1);
                let mut states = BTreeMap::new();
                for (entry, page) in logged {
                    let state = states.insert(entry.page, page).map(|state| &state[..]);
                    builder.push(*entry, state, page).unwrap();
                    transaction += u32::from(entry.end.is_some());
                    if builder.is_full() {
                        builder.finish(&mut out);
                        payloads.push((first, out.clone()));
                        first = transaction;
                    }
                }
                if !builder.is_empty() {
                    builder.finish(&mut out);
                    payloads.push((first, out.clone()));
                }
                payloads
            }
        }
    }
}

pub(crate) fn secret() -> SetSecret {
    SetSecret::from_unwrapped(SecretBytes::from_slice(&[0x77; 32]).unwrap()).unwrap()
}

pub(crate) fn recipient(name: &str) -> Recipient {
    let wrapped = WrappedDek {
        mechanism: WrapMechanism::RsaOaepSha256,
        sha256: [1; 32],
        sha1: [2; 20],
        public_key_sha256: [3; 32],
        blob: vec![4; 8],
    };
    Recipient { name: name.into(), wrapped }
}

pub(crate) fn header(spec: &Spec, position: u32) -> SetHeader {
    let kind = match &spec.content {
        Content::Changed { base, log: false, .. } => SetKind::Differential(*base),
        Content::Changed { base, log: true, .. } => SetKind::LogState(*base),
        Content::Log { link, .. } => SetKind::Log(*link),
        _ => SetKind::Full,
    };
    SetHeader {
        position,
        kind,
        source: spec.content.source(),
        compression: spec.compression,
        algorithm: spec.algorithm,
        copy_only: false,
        source_encrypted: true,
        has_page_map: spec.page_map,
        family: spec.family,
        block_size: spec.block_size,
        begun_ms: 1_700_000_000_000,
        expires_ms: 0,
        database_id: [9; 16],
        archive: None,
        texts: SetTexts { name: "nightly".into(), database: "app".into(), ..SetTexts::default() },
        recipients: spec.recipients.clone(),
    }
}

pub(crate) fn media_header(family: Family) -> MediaHeader {
    MediaHeader {
        media_id: MEDIA_ID,
        family,
        part: 0,
        made_ms: 1_700_000_000_000,
        hash: ContentHash::NEW,
        holds: Holds::Backups,
    }
}

pub(crate) fn new_media() -> Vec<u8> {
    media_header(Family::SINGLE).encode().unwrap().to_vec()
}

/// Scans a file that is whole in memory.
pub(crate) fn scan(media: &[u8]) -> Result<Scanned, MediaError> {
    let mut scan = Scan::new(media.len() as u64);
    while let Some(range) = scan.wanted() {
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert!(range.len() <= 1024 * 1024);
        scan.feed(&media[range])?;
    }
    scan.finish()
}

/// Returns the place of the next record.
pub(crate) fn next_place(media: &[u8], set_id: Id) -> RecordPlace {
    let scanned = scan(media).unwrap();
    assert_eq!(scanned.append_at(), Some(media.len() as u64));
    let (previous, ordinal) = scanned.next_link();
    RecordPlace { ordinal, previous, media_id: MEDIA_ID, set_id }
}

/// Appends a set; its id is `id` sixteen times.
pub(crate) fn append(media: &mut Vec<u8>, spec: &Spec, id: u8) {
    let position = next_place(media, [id; 16]).ordinal;
    append_with(media, spec, id, position, &secret());
}

/// Appends a set with this secret, and returns its keys.
pub(crate) fn append_with(
    media: &mut Vec<u8>,
    spec: &Spec,
    id: u8,
    position: u32,
    secret: &SetSecret,
) -> Option<SetKeys> {
    let place = next_place(media, [id; 16]);
    let set = header(spec, position);
    let encoded = set.encode(&place, spec.algorithm.map(|_| secret)).unwrap();
    let mut key = match &encoded.keys {
        Some(keys) => keys.block_key().unwrap(),
        None => BlockKey::plain(place.set_id, spec.family.index),
    };
    let mut builder = SetBuilder::new(&set, &place, &encoded.bytes).unwrap();
    let mut sealer = BlockSealer::new(spec.compression).unwrap();
    let start = media.len();
    media.extend_from_slice(&encoded.bytes);
    let mut put = |kind, first_page, payload: &[u8]| {
        let mut out = vec![0xEE; BlockSealer::room(payload.len())];
        let block = Block { kind, index: builder.next_index(), first_page, payload };
        let entry = sealer.seal(&mut key, &block, &mut out).unwrap();
        out.truncate(usize::try_from(entry.block_len()).unwrap());
        assert_eq!(builder.push(entry), (media.len() - start) as u64);
        media.extend_from_slice(&out);
    };
    let payloads = spec.content.payloads(spec.block_size);
    let data_blocks = payloads.len() as u64;
    let own = payloads
        .iter()
        .zip(0..)
        .filter(|(_, number)| Family::of_block(*number, spec.family.count) == spec.family.index);
    for ((first_page, payload), _) in own {
        put(BlockKind::Data, *first_page, payload);
    }
    let mut metadata = Metadata::default();
    if spec.page_map && spec.family.index == 0 {
        metadata.map_key = Some(SecretBytes::from_slice(&MAP_KEY).unwrap());
        metadata.tables = vec!["t".into()];
        let pages = spec.content.source().pages() as usize;
        let fingerprint = PageFingerprint::new(&MAP_KEY).unwrap();
        let state = spec.state.clone().unwrap_or_else(|| vec![0; pages * PAGE]);
        let map: Vec<_> = state.chunks(PAGE).map(|page| fingerprint.of(page).unwrap()).collect();
        if !map.is_empty() {
            let mut payload = Vec::new();
            put_page_map(1, &map, &mut payload).unwrap();
            put(BlockKind::PageMap, 1, &payload);
        }
    }
    put(BlockKind::Metadata, 0, &metadata.encode().unwrap());
    let (index, trailer) =
        builder.finish(data_blocks, 1_700_000_001_000, encoded.keys.as_ref()).unwrap();
    media.extend_from_slice(&index);
    media.extend_from_slice(&trailer);
    encoded.keys
}

/// Reads one set as `restore` would, checking everything.
pub(crate) fn read_set(media: &[u8], record: &Record) -> Result<Content, MediaError> {
    read_set_with(media, record, &secret())
}

/// As [`read_set`], with this secret.
pub(crate) fn read_set_with(
    media: &[u8],
    record: &Record,
    secret: &SetSecret,
) -> Result<Content, MediaError> {
    let place;
    let set = match &record.header {
        Ok(header) => {
            place = header.place;
            header.as_set().unwrap()
        }
        Err(_) => return Err(MediaError::NotMedia),
    };
    let mut key = match set.algorithm {
        Some(_) => {
            let keys = SetKeys::of_set(&record.header_bytes, secret)?;
            keys.check_trailer(&record.trailer_bytes)?;
            keys.block_key()?
        }
        None => BlockKey::plain(place.set_id, set.family.index),
    };
    let at = |offset: u64| usize::try_from(record.start + offset).unwrap();
    let trailer = &record.trailer;
    let index = &media[at(trailer.index_offset)..at(trailer.index_offset + trailer.index_len)];
    let index = Index::open(index, set, trailer)?;
    let rules = set.block_rules();
    let mut opener = BlockOpener::new(set.compression)?;
    let (mut bytes, mut changed) = (Vec::new(), Vec::new());
    let (mut logged, mut order) = (Vec::new(), LogOrder::default());
    let mut states: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (entry, number) in index.entries.iter().zip(0..) {
        let block = &media[at(entry.offset)..at(entry.offset + entry.block_len())];
        let (head, stored) = block.split_first_chunk().unwrap();
        let head = BlockHeader::decode(head)?;
        rules.check(&head)?;
        entry.check(number, &head)?;
        let mut payload = vec![0; head.payload_len as usize];
        opener.open(&mut key, &head, stored, &mut payload)?;
        match (entry.kind, set.kind, set.source) {
            (BlockKind::Data, _, Source::Stream) => bytes.extend_from_slice(&payload),
            (BlockKind::Data, SetKind::Full, Source::Database { page_size, .. }) => {
                let pages = Pages::decode(number, &payload, page_size)?;
                assert_eq!(pages.first_page, entry.first_page);
                bytes.extend_from_slice(pages.bytes);
            }
            (
                BlockKind::Data,
                SetKind::Differential(_) | SetKind::LogState(_),
                Source::Database { page_size, .. },
            ) => {
                let pages = ChangedPages::decode(number, &payload, page_size)?;
                assert_eq!(pages.bounds().0, entry.first_page);
                changed.extend(pages.iter().map(|(number, page)| (number, page.to_vec())));
            }
            (BlockKind::Data, SetKind::Log(link), Source::Database { page_size, .. }) => {
                let begun = order.ended() + 1;
                assert_eq!(entry.first_page, begun);
                let pages = LogPages::decode(number, &payload, page_size, link.form)?;
                for (each, page) in pages.iter() {
                    order.add(number, each)?;
                    logged.push((each, page_on(&page, page_size, states.get(&each.page))?));
                    states.extend(logged.last().map(|(_, page)| (each.page, page.clone())));
                }
            }
            (BlockKind::PageMap, ..) => {
                let map = PageMapBlock::decode(number, &payload)?;
                assert_eq!(map.first_page, entry.first_page);
            }
            (BlockKind::Metadata, ..) => drop(Metadata::decode(&payload)?),
        }
    }
    Ok(match (set.kind, set.source) {
        (_, Source::Stream) => Content::Stream(bytes),
        (SetKind::Full, _) => Content::Full(bytes),
        (SetKind::Differential(base), source) => {
            Content::Changed { pages: source.pages(), changed, base, log: false }
        }
        (SetKind::LogState(base), source) => {
            Content::Changed { pages: source.pages(), changed, base, log: true }
        }
        (SetKind::Log(link), source) => {
            assert_eq!(order.whole(), Some(link.transactions));
            Content::Log { pages: source.pages(), logged, link }
        }
    })
}

/// Returns a page of a log set, which stands on a state of the same set if on any.
fn page_on(
    page: &LogPage<'_>,
    page_size: u32,
    state: Option<&Vec<u8>>,
) -> Result<Vec<u8>, MediaError> {
    let mut whole = Overlay::new(page_size as usize);
    whole.put_below(page);
    if page.on_state {
        whole.put_state_below(state.map_or(&[], |state| state));
    }
    match page.is(whole.page()) {
        true => Ok(whole.page().to_vec()),
        false => Err(MediaError::Disagreement { what: "a page and its state" }),
    }
}

/// Reads every set of a file; anything that is not whole is an error.
pub(crate) fn read_all(media: &[u8]) -> Result<Vec<Content>, MediaError> {
    let scanned = scan(media)?;
    scanned.check_chain()?;
    if !scanned.gaps.is_empty() {
        return Err(MediaError::Disagreement { what: "the records and the file" });
    }
    let mut contents = Vec::new();
    for record in &scanned.records {
        if record.trailer.kind == RecordKind::Set {
            contents.push(read_set(media, record)?);
        }
    }
    Ok(contents)
}

/// Returns bytes that compress by about a half.
pub(crate) fn sample(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..len)
        .map(|at| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if at % 64 < 32 { b"abcdefgh"[at % 8] } else { state.to_le_bytes()[4] }
        })
        .collect()
}

/// Returns every algorithm, and none.
pub(crate) fn algorithms() -> impl Iterator<Item = Option<Algorithm>> {
    std::iter::once(None).chain(Algorithm::all().iter().copied().map(Some))
}

pub(crate) const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(-3)];

/// Returns the transactions of a log set that takes several blocks of 4096 bytes.
pub(crate) fn log_content() -> Content {
    use tdekit_backup_media::payload::LogEnd;
    let before = Base { set_id: [1; 16], trailer_sha256: [2; 32] };
    let form = LogForm::Changes;
    let link = LogLink { before, chain: [1; 16], number: 8, first: 7, transactions: 3, form };
    let mut states = 0;
    let mut page = |page, end: Option<(u32, i64)>| {
        let end = end.map(|(pages, time_ms)| LogEnd { pages, time_ms });
        let mut bytes = sample(PAGE);
        states += 1;
        bytes[200] = states;
        (LogEntry { page, end }, bytes)
    };
    let mut logged = vec![page(1, None), page(5, Some((9, 1_700_000_000_001)))];
    logged.extend((1..20).map(|number| page(number, None)));
    logged.push(page(20, Some((21, 1_700_000_000_002))));
    logged.push(page(3, Some((4, 1_700_000_000_003))));
    Content::Log { pages: 4, logged, link }
}

/// Returns a stream, a full set with a page map, a differential one, and one of a log.
pub(crate) fn contents() -> [Content; 4] {
    let base = Base { set_id: [1; 16], trailer_sha256: [2; 32] };
    let changed = [2, 3, 9, 20].map(|number| (number, sample(PAGE))).to_vec();
    [
        Content::Stream(sample(9000)),
        Content::Full(sample(19 * PAGE)),
        Content::Changed { pages: 21, changed, base, log: false },
        log_content(),
    ]
}
