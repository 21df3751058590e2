//! Backup media sets: every part of a file, the walk over it, and sealed blocks.

use tdekit_backup_media::header::{HEADER_PREFIX_LEN, header_len};
use tdekit_backup_media::payload::{
    ChangedPages, ChangedPagesBuilder, LogOrder, LogPages, LogPagesBuilder, Metadata, Overlay,
    PageMapBlock, Pages, put_page_map, put_pages_head,
};
use tdekit_backup_media::{
    BLOCK_HEADER_LEN, Block, BlockHeader, BlockKey, BlockKind, BlockOpener, BlockSealer,
    Compression, Index, LogForm, MEDIA_HEADER_LEN, MediaError, MediaHeader, RecordFields,
    RecordHeader, Scan, Scanned, SetKeys, SetSecret, TRAILER_LEN, Trailer,
};
use tdekit_key_crypto::{Algorithm, SecretBytes, sha256};

use crate::{change_bytes, seeds};

/// A media set: the bytes unchanged, as each part of a file, and as the content of parts with a
/// correct frame.
pub fn media(data: &[u8]) {
    file(data);
    let mut framed = seeds::media_header();
    framed.extend_from_slice(data);
    file(&framed);
    media_header(data);
    record_header(data);
    record_header(&framed_header(data));
    trailer(data);
    trailer(&framed_trailer(data));
    blocks_and_index(data);
    payloads(data);
}

/// Returns a record header around `data`, its kind first: a correct length, a correct checksum and
/// no MAC.
pub(crate) fn framed_header(data: &[u8]) -> Vec<u8> {
    let (kind, fields) = data.split_first().unwrap_or((&0, data));
    let magics = [b"tdekset\n", b"tdekrcp\n", b"tdeksig\n"];
    let mut header = magics[usize::from(*kind) % magics.len()].to_vec();
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(fields);
    let len = u32::try_from(header.len() + 64).unwrap_or(u32::MAX);
    header[8..HEADER_PREFIX_LEN].copy_from_slice(&len.to_le_bytes());
    let checksum = sha256(&[&header]);
    header.extend_from_slice(&checksum);
    header.extend_from_slice(&[0; 32]);
    header
}

/// Returns a trailer around `data`: its first bytes with a correct checksum.
fn framed_trailer(data: &[u8]) -> Vec<u8> {
    let mut trailer = b"tdekend\n".to_vec();
    trailer.extend_from_slice(data);
    trailer.resize(184, 0);
    let checksum = sha256(&[&trailer]);
    trailer.extend_from_slice(&checksum);
    trailer.extend_from_slice(&[0; 32]);
    trailer.extend_from_slice(b"tdekit]\n");
    trailer
}

/// Checks that the walk ends, and finds records only where they are.
fn file(bytes: &[u8]) {
    let Ok(scanned) = scan(bytes) else { return };
    let mut end = MEDIA_HEADER_LEN as u64;
    for record in &scanned.records {
        assert!(record.start >= end, "records do not overlap");
        end = record.end();
    }
    for gap in &scanned.gaps {
        assert!(gap.range.start < gap.range.end);
        end = end.max(gap.range.end);
    }
    assert_eq!(end, bytes.len() as u64, "every byte is a record's or a gap's");
    let _ = (scanned.append_at(), scanned.next_link(), scanned.check_chain());
}

pub(crate) fn scan(bytes: &[u8]) -> Result<Scanned, MediaError> {
    let mut scan = Scan::new(bytes.len() as u64);
    let mut pieces = 0_usize;
    while let Some(range) = scan.wanted() {
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        scan.feed(&bytes[range])?;
        pieces += 1;
        assert!(pieces <= 1000 + bytes.len(), "the walk goes on");
    }
    scan.finish()
}

fn media_header(data: &[u8]) {
    let Ok(header) = MediaHeader::decode(data) else { return };
    assert_eq!(header.encode().unwrap(), data[..MEDIA_HEADER_LEN]);
}

fn record_header(bytes: &[u8]) {
    let len = header_len(bytes);
    let Ok(header) = RecordHeader::decode(bytes) else { return };
    assert_eq!(len.unwrap(), bytes.len());
    let again = match &header.fields {
        RecordFields::Signature(signature) => signature.encode(&header.place).unwrap(),
        RecordFields::Set(set) if set.algorithm.is_none() => {
            set.encode(&header.place, None).unwrap().bytes
        }
        RecordFields::Set(set) => {
            // The seeds have a different one.
            let secret = SecretBytes::from_slice(&[8; 32]).unwrap();
            let secret = SetSecret::from_unwrapped(secret).unwrap();
            assert!(SetKeys::of_set(bytes, &secret).is_err(), "nobody made it with this key");
            let encoded = set.encode(&header.place, Some(&secret)).unwrap();
            assert_eq!(RecordHeader::decode(&encoded.bytes).unwrap(), header);
            SetKeys::of_set(&encoded.bytes, &secret).unwrap();
            return;
        }
        RecordFields::Recipients(_) => return,
    };
    assert!(again == bytes, "a header that decodes encodes to the same bytes");
}

fn trailer(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<TRAILER_LEN>() else { return };
    let Ok(trailer) = Trailer::decode(bytes) else { return };
    assert_eq!(trailer.encode(None).unwrap()[..216], bytes[..216]);
    assert!(u64::from(trailer.header_len) <= trailer.record_len);
}

fn blocks_and_index(data: &[u8]) {
    if let Some(bytes) = data.first_chunk::<BLOCK_HEADER_LEN>()
        && let Ok(header) = BlockHeader::decode(bytes)
    {
        assert_eq!(header.encode(), *bytes);
        let _ = header.check_stored(&data[BLOCK_HEADER_LEN..]);
    }
    let entries = u32::try_from(data.len() / 32).unwrap_or(u32::MAX).to_le_bytes();
    let framed = [b"tidx", &entries[..], &data[..data.len() / 32 * 32]].concat();
    for bytes in [data, &framed] {
        if let Ok(index) = Index::decode(bytes) {
            assert_eq!(index.encode().unwrap(), bytes);
        }
    }
}

fn payloads(data: &[u8]) {
    for page_size in [512, 1024] {
        if let Ok(pages) = Pages::decode(0, data, page_size) {
            assert_eq!([&put_pages_head(pages.first_page), pages.bytes].concat(), data);
        }
        if let Ok(changed) = ChangedPages::decode(0, data, page_size) {
            let mut builder = ChangedPagesBuilder::new(8 * 1024 * 1024 - 4096, page_size);
            for (number, page) in changed.iter() {
                builder.push(number, page).unwrap();
            }
            let mut again = Vec::new();
            assert_eq!(builder.finish(&mut again), changed.bounds().0);
            assert_eq!(again, data);
        }
        for form in FORMS {
            if let Ok(log) = LogPages::decode(0, data, page_size, form) {
                log_pages(data, &log, (page_size, form));
            }
        }
    }
    if let Ok(map) = PageMapBlock::decode(0, data) {
        let mut again = Vec::new();
        put_page_map(map.first_page, map.fingerprints, &mut again).unwrap();
        assert_eq!(again, data);
    }
    if let Ok(metadata) = Metadata::decode(data) {
        let again = metadata.encode().unwrap();
        Metadata::decode(&again).unwrap();
    }
}

const FORMS: [LogForm; 2] = [LogForm::Whole, LogForm::Changes];

/// Returns true for a block of a log set, in either form.
#[cfg(test)]
pub(crate) fn reads_log(data: &[u8]) -> bool {
    FORMS.iter().any(|form| LogPages::decode(0, data, 512, *form).is_ok())
}

/// What a block of a log set holds is the same from both ends, and makes the same block again.
fn log_pages(data: &[u8], log: &LogPages<'_>, (page_size, form): (u32, LogForm)) {
    let page_len = usize::try_from(page_size).unwrap();
    let mut builder = LogPagesBuilder::new(8 * 1024 * 1024 - 4096, page_size);
    let (mut order, mut overlay) = (LogOrder::default(), Overlay::new(page_len));
    for (entry, page) in log.iter() {
        order.add(0, entry).unwrap();
        builder.push_stored(entry, &page).unwrap();
        overlay.clear();
        overlay.put_below(&page);
        if let Some(whole) = page.as_whole(page_len) {
            assert_eq!(overlay.page(), whole);
        }
        overlay.put_state_below(&vec![9; page_len]);
        assert_eq!(overlay.page().len(), page_len);
    }
    assert_eq!((order.ended(), order.whole().is_some()), (log.ends(), log.is_whole()));
    let mut back: Vec<_> = log.iter().rev().collect();
    back.reverse();
    assert_eq!(back, log.iter().collect::<Vec<_>>());
    assert_eq!(log.entries().count(), back.len());
    if form == LogForm::Changes {
        let mut again = Vec::new();
        builder.finish(&mut again);
        assert_eq!(again, data);
    }
}

/// A sealed block: nothing opens except what was sealed, with any change; and decompressing the
/// bytes as a block only returns an error.
pub fn media_block(data: &[u8]) {
    let (choice, change) = data.split_first().unwrap_or((&0, data));
    let algorithms = Algorithm::all();
    let algorithm = algorithms[usize::from(*choice) % algorithms.len()];
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd(1)];
    let compression = compressions[usize::from(*choice / 8) % compressions.len()];
    let mut key = seeds::set_keys(algorithm).block_key().unwrap();
    let mut opener = BlockOpener::new(compression).unwrap();
    let payload: Vec<u8> = (0..600_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    let mut sealed = vec![0; BlockSealer::room(payload.len())];
    let block = Block { kind: BlockKind::Data, index: 3, first_page: 0, payload: &payload };
    let mut sealer = BlockSealer::new(compression).unwrap();
    let entry = sealer.seal(&mut key, &block, &mut sealed).unwrap();
    sealed.truncate(usize::try_from(entry.block_len()).unwrap());
    let changed = change_bytes(&mut sealed, change);
    let head = BlockHeader::decode(sealed.first_chunk().unwrap());
    if let Ok(head) = head
        && entry.check(3, &head).is_ok()
    {
        let mut opened = vec![0; payload.len()];
        let result = opener.open(&mut key, &head, &sealed[BLOCK_HEADER_LEN..], &mut opened);
        assert_eq!(result.is_err(), changed, "{algorithm} {compression:?}");
        assert!(changed || opened == payload);
    } else {
        assert!(changed);
    }
    decompress(&mut opener, change);
}

/// Decompresses the bytes as the stored form of a compressed block in a set without encryption.
fn decompress(opener: &mut BlockOpener, bytes: &[u8]) {
    let header = BlockHeader {
        kind: BlockKind::Data,
        compressed: true,
        index: 0,
        payload_len: 600,
        stored_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        nonce: [0; 24],
        checksum: 0,
    };
    let checksum = seeds::checksum(&header.encode()[..48], bytes);
    let header = BlockHeader { checksum, ..header };
    let mut key = BlockKey::plain([1; 16], 0);
    let mut out = vec![0; 600];
    let _ = opener.open(&mut key, &header, bytes, &mut out);
}
