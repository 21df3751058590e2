//! Everything written is read back unchanged: every algorithm, compression and kind of set.

use crate::common::*;
use proptest::prelude::*;
use tdekit_backup_media::*;
use tdekit_key_crypto::Algorithm;

/// The places of full sets.
fn full_place() -> impl Strategy<Value = InArchive> {
    let ids = proptest::collection::vec(any::<[u8; 16]>(), 1..=MAX_LINEAGES);
    let place = (ids, 1..u64::MAX, any::<Option<(u64, u64, [u8; 16], [u8; 32])>>());
    place.prop_map(|(ids, number, behind)| {
        let behind =
            behind.filter(|_| number > 1).map(|(before, first, set_id, trailer_sha256)| {
                let before = before % (number - 1) + 1;
                let set = Base { set_id, trailer_sha256 };
                ShippedBehind { number: before, first: first % (before + 1), set }
            });
        let full = Some(FullPlace { number, behind });
        InArchive { lineage: Lineage::of(ids).unwrap(), full }
    })
}

#[test]
fn every_algorithm_compression_and_kind() {
    let mut media = new_media();
    let mut written = Vec::new();
    let mut id = 0;
    for algorithm in algorithms() {
        for compression in COMPRESSIONS {
            for content in contents() {
                id += 1;
                append(&mut media, &Spec::new(content.clone(), algorithm, compression), id);
                written.push(content);
            }
        }
    }
    assert_eq!(read_all(&media).unwrap(), written);
    let scanned = scan(&media).unwrap();
    let ordinals: Vec<_> = scanned.records.iter().map(|record| record.trailer.ordinal).collect();
    assert!(ordinals.iter().copied().eq(1..=u32::from(id)));
}

#[test]
fn compression_makes_blocks_shorter_and_never_longer() {
    let len = |content: &[u8], compression| {
        let mut media = new_media();
        let content = Content::Stream(content.to_vec());
        append(&mut media, &Spec::new(content, Some(Algorithm::Aes256), compression), 1);
        media.len()
    };
    let noise: Vec<u8> =
        sample(8192).into_iter().filter(|byte| !b"abcdefgh".contains(byte)).collect();
    for compression in [Compression::Lz4, Compression::Zstd(1)] {
        assert!(len(&[7; 9000], compression) < len(&[7; 9000], Compression::None) - 8500);
        assert_eq!(len(&noise, compression), len(&noise, Compression::None));
    }
}

#[test]
fn empty_sources_have_metadata_only() {
    for content in [Content::Stream(Vec::new()), Content::Full(Vec::new())] {
        let mut media = new_media();
        append(&mut media, &Spec::new(content.clone(), None, Compression::Lz4), 1);
        assert_eq!(read_all(&media).unwrap(), [content]);
        assert_eq!(scan(&media).unwrap().records[0].trailer.blocks, 1);
    }
}

#[test]
fn stripes_hold_their_share() {
    let content = sample(21 * 4096 + 5);
    let mut pieces: Vec<Vec<u8>> = vec![Vec::new(); 21 + 1];
    for index in 0..3 {
        let family = Family { index, count: 3 };
        let mut media = media_header(family).encode().unwrap().to_vec();
        let spec = Spec::new(Content::Stream(content.clone()), None, Compression::None);
        append(&mut media, &Spec { family, ..spec }, 1);
        let Content::Stream(bytes) = read_all(&media).unwrap().remove(0) else { panic!() };
        for (at, piece) in bytes.chunks(4096).enumerate() {
            pieces[at * 3 + usize::from(index)] = piece.to_vec();
        }
    }
    assert_eq!(pieces.concat(), content);
    assert_eq!(Family { index: 1, count: 3 }.share(4), 1);
    assert_eq!(Family { index: 0, count: 3 }.share(4), 2);
}

#[test]
fn recipients_and_signatures_are_records_of_their_own() {
    for hash in [ContentHash::Sha256, ContentHash::Blake3] {
        later_records(hash);
    }
    // An older version does not have the field of a newer one.
    let place = next_place(&new_media(), [1; 16]);
    let messages = [ContentHash::Sha256, ContentHash::Blake3]
        .map(|hash| signature::message(hash, &place, &[1; 32], &[2; 32]));
    assert_ne!(messages[0], messages[1]);
}

fn later_records(hash: ContentHash) {
    let mut media = new_media();
    let content = Content::Stream(sample(100));
    let spec = Spec::new(content.clone(), Some(Algorithm::Aes256), Compression::None);
    append(&mut media, &spec, 1);
    let scanned = scan(&media).unwrap();
    let keys = SetKeys::of_set(&scanned.records[0].header_bytes, &secret()).unwrap();

    let place = next_place(&media, [1; 16]);
    let added = RecipientsHeader { time_ms: 5, recipients: vec![recipient("a"), recipient("b")] };
    let header = added.encode(&place, &keys).unwrap();
    let trailer = Trailer::of_header(RecordKind::Recipients, place.ordinal, &header, 6).unwrap();
    media.extend_from_slice(&header);
    media.extend_from_slice(&trailer.encode(Some(&keys)).unwrap());

    let place = next_place(&media, [1; 16]);
    let signature = SignatureHeader {
        time_ms: 7,
        trailer_sha256: scanned.records[0].digest(),
        hash,
        content_sha256: [8; 32],
        certificate: vec![1; 700],
        signature: vec![2; 384],
    };
    let header = signature.encode(&place).unwrap();
    let trailer = Trailer::of_header(RecordKind::Signature, place.ordinal, &header, 8).unwrap();
    media.extend_from_slice(&header);
    media.extend_from_slice(&trailer.encode(None).unwrap());
    append(&mut media, &spec, 2);

    assert_eq!(read_all(&media).unwrap(), [content.clone(), content]);
    let scanned = scan(&media).unwrap();
    let fields = |at: usize| scanned.records[at].header.as_ref().unwrap().fields.clone();
    assert_eq!(fields(1), RecordFields::Recipients(added));
    assert_eq!(fields(2), RecordFields::Signature(signature.clone()));
    keys.check_recipients(&scanned.records[1].header_bytes).unwrap();
    keys.check_trailer(&scanned.records[1].trailer_bytes).unwrap();
    let message = signature.message(&place);
    assert_eq!(message.len(), 25 + 16 + 16 + 32 + 32);

    // A set with another secret, or another set with the same, must not accept them.
    let other = SetKeys::of_set(&scanned.records[3].header_bytes, &secret()).unwrap();
    assert!(other.check_recipients(&scanned.records[1].header_bytes).is_err());
    assert!(other.check_trailer(&scanned.records[0].trailer_bytes).is_err());
    assert!(added_by(&other, &place).is_err());
}

fn added_by(keys: &SetKeys, place: &RecordPlace) -> Result<Vec<u8>, MediaError> {
    RecipientsHeader { time_ms: 5, recipients: vec![recipient("a")] }.encode(place, keys)
}

fn text() -> impl Strategy<Value = String> {
    "[^\\p{Cc}]{0,40}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_stream(
        content in proptest::collection::vec(any::<u8>(), 0..20_000),
        algorithm in 0..7_usize,
        compression in 0..4_usize,
    ) {
        let mut media = new_media();
        let algorithm = algorithms().nth(algorithm).unwrap();
        let content = Content::Stream(content);
        append(&mut media, &Spec::new(content.clone(), algorithm, COMPRESSIONS[compression]), 1);
        prop_assert_eq!(read_all(&media).unwrap(), vec![content]);
    }

    #[test]
    fn any_header(
        texts in proptest::collection::vec(text(), 7),
        names in proptest::collection::vec(text(), 1..65),
        times: (i64, i64),
        ids: ([u8; 16], [u8; 16]),
        flags: (bool, bool, bool),
        pages: u32,
        shift in 0..8_u32,
        position in 1..=u32::MAX,
        ordinal in 1..=u32::MAX,
        archive in proptest::option::of(full_place()),
    ) {
        let [name, database, path, host, user, description, program] =
            <[String; 7]>::try_from(texts).unwrap();
        let spec = Spec::new(contents()[1].clone(), Some(Algorithm::Aes192), Compression::Lz4);
        let set = SetHeader {
            position,
            source: Source::Database { page_size: 512 << shift, pages },
            copy_only: flags.0,
            source_encrypted: flags.1,
            has_page_map: flags.2,
            block_size: 65536 * 3,
            begun_ms: times.0,
            expires_ms: times.1,
            database_id: ids.0,
            archive,
            texts: SetTexts { name, database, path, host, user, description, program },
            recipients: names.iter().map(|name| recipient(name)).collect(),
            ..header(&spec, 1)
        };
        let place =
            RecordPlace { ordinal, previous: [4; 32], media_id: MEDIA_ID, set_id: ids.1 };
        let encoded = set.encode(&place, Some(&secret())).unwrap();
        let decoded = RecordHeader::decode(&encoded.bytes).unwrap();
        prop_assert_eq!(decoded, RecordHeader { place, fields: RecordFields::Set(Box::new(set)) });
        SetKeys::of_set(&encoded.bytes, &secret()).unwrap();
    }
}
