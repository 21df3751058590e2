//! Damage, truncation, moved blocks and records, wrong keys, false lengths: each gives an error,
//! and never a wrong byte.

use crate::common::*;
use tdekit_backup_media::media::FORMAT_VERSION;
use tdekit_backup_media::*;
use tdekit_key_crypto::{Algorithm, SecretBytes, sha256};

/// A small set with every kind of block.
fn small(algorithm: Option<Algorithm>, compression: Compression) -> (Vec<u8>, Content) {
    let content = Content::Full(sample(2 * PAGE));
    let mut media = new_media();
    append(&mut media, &Spec::new(content.clone(), algorithm, compression), 1);
    (media, content)
}

/// A set of several data blocks, for changes of their order.
fn blocks(algorithm: Option<Algorithm>, id: u8) -> Vec<u8> {
    let mut media = new_media();
    let content = Content::Stream(sample(4 * 4096));
    append(&mut media, &Spec::new(content, algorithm, Compression::None), id);
    media
}

#[test]
fn every_flipped_bit_is_seen() {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd(1)];
    for (at, algorithm) in algorithms().enumerate() {
        let (mut media, content) = small(algorithm, compressions[at % 3]);
        for bit in 0..media.len() * 8 {
            media[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = read_all(&media) {
                // The MAC of a set without a key is zeros that nobody reads.
                assert_eq!(read, std::slice::from_ref(&content), "{algorithm:?} bit {bit}");
            }
            media[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_flipped_bit_of_a_block_is_seen_without_the_key() {
    let (media, _) = small(Some(Algorithm::Aes256), Compression::Lz4);
    let scanned = scan(&media).unwrap();
    let record = &scanned.records[0];
    let set = record.header.as_ref().unwrap().as_set().unwrap();
    let first = usize::try_from(record.start).unwrap() + record.trailer.header_len as usize;
    let check = |block: &[u8]| -> Result<u64, MediaError> {
        let header = BlockHeader::decode(block.first_chunk().unwrap())?;
        set.block_rules().check(&header)?;
        let end = usize::try_from(header.block_len()).unwrap();
        header.check_stored(block.get(64..end).unwrap_or_default())?;
        Ok(header.block_len())
    };
    let len = usize::try_from(check(&media[first..]).unwrap()).unwrap();
    let mut block = media[first..first + len].to_vec();
    for bit in 0..len * 8 {
        block[bit / 8] ^= 1 << (bit % 8);
        assert!(check(&block).is_err(), "bit {bit}");
        block[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_file_cut_at_any_length_keeps_its_earlier_sets() {
    let (mut media, content) = small(Some(Algorithm::Aegis128X2), Compression::Lz4);
    let first = media.len();
    let second = Content::Stream(sample(5000));
    append(&mut media, &Spec::new(second, None, Compression::Zstd(1)), 2);
    for len in 0..media.len() {
        let cut = &media[..len];
        let scanned = scan(cut);
        if len < MEDIA_HEADER_LEN {
            assert!(matches!(scanned, Err(MediaError::NotMedia | MediaError::Truncated { .. })));
            continue;
        }
        let scanned = scanned.unwrap();
        let whole = usize::from(len >= first);
        assert_eq!(scanned.records.len(), whole, "{len}");
        let end = if whole == 1 { first } else { MEDIA_HEADER_LEN } as u64;
        assert_eq!(scanned.append_at(), Some(end), "{len}");
        let tail = Gap { range: end..len as u64, kind: GapKind::UnfinishedTail };
        let gaps = if end == len as u64 { vec![] } else { vec![tail] };
        assert_eq!(scanned.gaps, gaps, "{len}");
        if whole == 1 {
            assert_eq!(read_set(cut, &scanned.records[0]).unwrap(), content);
        }
    }
}

#[test]
fn a_tail_with_holes_is_unfinished_and_a_damaged_last_record_is_not() {
    let (mut media, _) = small(None, Compression::None);
    let first = media.len();
    let (second, _) = small(Some(Algorithm::Aes256), Compression::None);
    let mut tail = second[MEDIA_HEADER_LEN..].to_vec();
    tail[700..1200].fill(0);
    let end = tail.len();
    for torn in [0..256, 128..256, 0..128] {
        let mut torn_tail = tail.clone();
        torn_tail[end - 256 + torn.start..end - 256 + torn.end].fill(0);
        let scanned = scan(&[&media[..], &torn_tail].concat()).unwrap();
        assert_eq!(scanned.append_at(), Some(first as u64), "{torn:?}");
        assert_eq!(scanned.gaps[0].kind, GapKind::UnfinishedTail);
    }
    append(&mut media, &Spec::new(Content::Stream(vec![1; 50]), None, Compression::None), 2);
    for bit in (media.len() - 256) * 8..media.len() * 8 {
        media[bit / 8] ^= 1 << (bit % 8);
        let scanned = scan(&media).unwrap();
        if scanned.records.len() == 1 {
            assert_eq!(scanned.append_at(), None, "bit {bit}");
            assert_eq!(scanned.gaps[0].kind, GapKind::Damaged);
        }
        media[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn damage_hides_no_other_record() {
    let mut media = new_media();
    let mut ends = vec![media.len()];
    let contents: Vec<_> = (1..=4).map(|n| Content::Stream(sample(n * 3000))).collect();
    for (content, id) in contents.iter().zip(1..) {
        append(&mut media, &Spec::new(content.clone(), None, Compression::None), id);
        ends.push(media.len());
    }
    for damaged in 0..4 {
        for at in (ends[damaged]..ends[damaged + 1]).step_by(7) {
            let mut media = media.clone();
            media[at] ^= 0x10;
            let scanned = scan(&media).unwrap();
            for (content, ordinal) in contents.iter().zip(1..) {
                let found = scanned.records.iter().find(|record| record.trailer.ordinal == ordinal);
                if ordinal as usize != damaged + 1 {
                    assert_eq!(read_set(&media, found.unwrap()).unwrap(), *content, "{at}");
                } else if let Some(found) = found
                    && let Ok(read) = read_set(&media, found)
                {
                    assert_eq!(read, *content);
                }
            }
        }
        // An unfinished tail after a damaged record: nothing may be cut off.
        let mut cut = media[..media.len() - 100].to_vec();
        if damaged < 3 {
            cut[ends[damaged] + 700] ^= 1;
            let ordinals: Vec<_> =
                scan(&cut).unwrap().records.iter().map(|record| record.trailer.ordinal).collect();
            assert_eq!(ordinals, [1, 2, 3]);
        }
    }
}

#[test]
fn a_media_set_inside_a_stream_is_no_record() {
    let (inner, _) = small(None, Compression::None);
    let mut media = new_media();
    let content = Content::Stream([&[0; 50], &inner[..]].concat());
    append(&mut media, &Spec::new(content, None, Compression::None), 7);
    let inner_at = media.windows(16).rposition(|window| window == &inner[..16]).unwrap();
    let inner_end = inner_at + inner.len();
    // As if the writer had been killed right after the inner trailer.
    let other = media_header(Family::SINGLE);
    let other = MediaHeader { media_id: [3; 16], ..other }.encode().unwrap();
    media[..96].copy_from_slice(&other);
    let scanned = scan(&media[..inner_end]).unwrap();
    assert!(scanned.records.is_empty());
    assert_eq!(scanned.gaps[0].range, 96..inner_end as u64);
}

#[test]
fn blocks_moved_repeated_and_left_out_are_refused() {
    for algorithm in [None, Some(Algorithm::Aes256), Some(Algorithm::TripleDes3Key)] {
        let media = blocks(algorithm, 1);
        let other = blocks(algorithm, 2);
        let scanned = scan(&media).unwrap();
        let record = &scanned.records[0];
        let len = usize::try_from(record.trailer.stored_bytes / 4).unwrap();
        let head = usize::try_from(record.start).unwrap() + record.trailer.header_len as usize;
        let stored = if algorithm == Some(Algorithm::TripleDes3Key) { 4136 } else { 4096 };
        let block = 64 + stored + if algorithm == Some(Algorithm::Aes256) { 16 } else { 0 };
        assert!(block * 4 > len * 3);
        let at = |n: usize| head + n * block..head + (n + 1) * block;
        let refused = |changed: &[u8]| assert!(read_all(changed).is_err());
        let mut swapped = media.clone();
        swapped[at(0)].copy_from_slice(&media[at(1)]);
        refused(&swapped);
        swapped[at(1)].copy_from_slice(&media[at(0)]);
        refused(&swapped);
        let left_out = [&media[..at(2).start], &media[at(2).end..]].concat();
        refused(&left_out);
        let twice = [&media[..at(2).end], &media[at(2)], &media[at(2).end..]].concat();
        refused(&twice);
        // From another set: sealed for its id, or with other content.
        let mut spliced = media.clone();
        spliced[at(1)].copy_from_slice(&other[at(1)]);
        if algorithm.is_some() {
            refused(&spliced);
        }
    }
}

#[test]
fn blocks_of_another_family_or_set_do_not_open() {
    let mut media = Vec::new();
    for index in 0..2 {
        let family = Family { index, count: 2 };
        let mut file = media_header(family).encode().unwrap().to_vec();
        let content = Content::Stream(sample(4 * 4096));
        let spec = Spec::new(content, Some(Algorithm::Aes128), Compression::None);
        append(&mut file, &Spec { family, ..spec }, 1);
        media.push(file);
    }
    let open = |of: usize, with: usize| {
        let keys = |at: usize| {
            let scanned = scan(&media[at]).unwrap();
            let record = &scanned.records[0];
            let at = usize::try_from(record.start).unwrap() + record.trailer.header_len as usize;
            (SetKeys::of_set(&record.header_bytes, &secret()).unwrap(), at)
        };
        let (mut key, at) = (keys(with).0.block_key().unwrap(), keys(of).1);
        let header = BlockHeader::decode(media[of][at..].first_chunk().unwrap()).unwrap();
        let mut opener = BlockOpener::new(Compression::None).unwrap();
        let mut out = vec![0; 4096];
        let stored = &media[of][at + 64..at + 64 + header.stored_len as usize];
        opener.open(&mut key, &header, stored, &mut out)
    };
    open(0, 0).unwrap();
    open(1, 1).unwrap();
    assert!(matches!(open(0, 1), Err(MediaError::Authentication { index: 0 })));
    assert!(matches!(open(1, 0), Err(MediaError::Authentication { index: 0 })));
}

#[test]
fn records_taken_out_or_exchanged_are_seen() {
    let mut media = new_media();
    let mut ends = vec![media.len()];
    for id in 1..=3 {
        let spec = Spec::new(Content::Stream(vec![id; 300]), None, Compression::None);
        append(&mut media, &spec, id);
        ends.push(media.len());
    }
    let record = |n: usize| &media[ends[n]..ends[n + 1]];
    let chain = |records: &[&[u8]]| {
        let file = [&media[..96], &records.concat()].concat();
        scan(&file).unwrap().check_chain()
    };
    chain(&[record(0), record(1), record(2)]).unwrap();
    for records in [
        vec![record(0), record(2)],
        vec![record(1), record(2)],
        vec![record(1), record(0), record(2)],
        vec![record(0), record(0), record(2)],
        vec![record(0), record(1), record(1)],
    ] {
        assert!(matches!(chain(&records), Err(MediaError::Chain { .. })));
    }
}

#[test]
fn a_wrong_secret_and_a_forged_header_are_told_apart() {
    let (media, _) = small(Some(Algorithm::Aes256), Compression::None);
    let scanned = scan(&media).unwrap();
    let header = &scanned.records[0].header_bytes;
    let wrong = SetSecret::from_unwrapped(SecretBytes::from_slice(&[1; 32]).unwrap()).unwrap();
    assert!(matches!(SetKeys::of_set(header, &wrong), Err(MediaError::WrongKey)));
    assert!(SetSecret::from_unwrapped(SecretBytes::from_slice(&[1; 31]).unwrap()).is_err());
    let forged = |at: usize| {
        let mut header = header.clone();
        header[at] ^= 1;
        let body = header.len() - 64;
        let checksum = sha256(&[&header[..body]]);
        header[body..body + 32].copy_from_slice(&checksum);
        SetKeys::of_set(&header, &secret())
    };
    // The start time is in the context of the keys; the blob of the recipient is not.
    assert!(matches!(forged(80 + 32), Err(MediaError::WrongKey)));
    let blob = header.len() - 64 - 1;
    assert!(matches!(forged(blob), Err(MediaError::Forged { part: Part::RecordHeader })));
    let keys = SetKeys::of_set(header, &secret()).unwrap();
    let mut trailer = scanned.records[0].trailer_bytes;
    trailer[230] ^= 1;
    assert!(matches!(keys.check_trailer(&trailer), Err(MediaError::Forged { .. })));
}

#[test]
fn future_versions_and_other_files_are_named() {
    let mut media = new_media();
    media[16..18].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let found = MediaHeader::decode(&media);
    assert!(matches!(found, Err(MediaError::FutureVersion { found: 6, supported: 5 })));
    assert!(matches!(scan(b"SQLite format 3\0 and more"), Err(MediaError::NotMedia)));
    assert!(matches!(scan(b""), Err(MediaError::NotMedia)));
}

/// Gives a header the checksum of its content.
fn with_checksum(mut header: Vec<u8>) -> Vec<u8> {
    let body = header.len() - 64;
    let checksum = sha256(&[&header[..body]]);
    header[body..body + 32].copy_from_slice(&checksum);
    header
}

#[test]
fn lies_about_lengths_take_no_memory() {
    let (media, _) = small(None, Compression::None);
    let scanned = scan(&media).unwrap();
    let record = &scanned.records[0];
    let lie = |at: usize, bytes: &[u8]| {
        let mut header = record.header_bytes.clone();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        RecordHeader::decode(&with_checksum(header))
    };
    assert!(matches!(lie(8, &[0xFF; 4]), Err(MediaError::Limit { .. })), "header length");
    assert!(matches!(lie(80 + 24, &[0xFF; 8]), Err(MediaError::Limit { .. })), "pages");
    assert!(lie(80 + 16, &[0xFF; 4]).is_err(), "block size");
    assert!(lie(80 + 112, &[0xFF; 2]).is_err(), "text");
    assert!(matches!(lie(80 + 7, &[9]), Err(MediaError::UnknownAlgorithm { id: 9 })));
    assert!(matches!(lie(80 + 6, &[9]), Err(MediaError::UnknownCompression { id: 9 })));

    let mut trailer = record.trailer_bytes;
    trailer[16..24].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    let checksum = sha256(&[&trailer[..184]]);
    trailer[184..216].copy_from_slice(&checksum);
    assert!(Trailer::decode(&trailer).is_err());

    let rules = record.header.as_ref().unwrap().as_set().unwrap().block_rules();
    let at = usize::try_from(record.start).unwrap() + record.header_bytes.len();
    let head = BlockHeader::decode(media[at..].first_chunk().unwrap()).unwrap();
    let lies = [
        BlockHeader { payload_len: u32::MAX, ..head },
        BlockHeader { stored_len: u32::MAX, ..head },
        BlockHeader { payload_len: 0, stored_len: 0, ..head },
        BlockHeader { stored_len: head.stored_len + 1, ..head },
        BlockHeader { compressed: true, stored_len: head.stored_len - 1, ..head },
        BlockHeader { nonce: [1; 24], ..head },
    ];
    rules.check(&head).unwrap();
    lies.iter().for_each(|lie| assert!(rules.check(lie).is_err(), "{lie:?}"));
}

#[test]
fn what_does_not_decompress_to_its_length_is_refused() {
    for compression in [Compression::Lz4, Compression::Zstd(1)] {
        let mut sealer = BlockSealer::new(compression).unwrap();
        let mut key = BlockKey::plain([1; 16], 0);
        let payload = vec![7; 4096];
        let mut out = vec![0; BlockSealer::room(payload.len())];
        let block = Block { kind: BlockKind::Data, index: 0, first_page: 0, payload: &payload };
        let entry = sealer.seal(&mut key, &block, &mut out).unwrap();
        assert!(entry.compressed);
        let stored = &out[64..64 + entry.stored_len as usize];
        // Two frames, or one with another length, sealed by someone with the key.
        for (bytes, len) in [([stored, stored].concat(), 8192), (stored.to_vec(), 4095)] {
            let mut forged = out[..64].to_vec();
            forged[16..20].copy_from_slice(&u32::to_le_bytes(len));
            forged[20..24].copy_from_slice(&u32::try_from(bytes.len()).unwrap().to_le_bytes());
            let mut header = BlockHeader::decode(forged.first_chunk().unwrap()).unwrap();
            let checked = [&header.encode()[..48], &bytes].concat();
            header.checksum = twox_hash::XxHash3_64::oneshot(&checked);
            let mut opened = vec![0; len as usize];
            let result =
                BlockOpener::new(compression).unwrap().open(&mut key, &header, &bytes, &mut opened);
            assert!(matches!(result, Err(MediaError::Malformed { .. })), "{result:?}");
        }
    }
}
