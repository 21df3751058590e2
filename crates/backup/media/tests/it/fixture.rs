//! Media sets of format version 1 that were written once and must open for ever.

use std::path::{Path, PathBuf};

use crate::common::*;
use tdekit_backup_media::*;
use tdekit_key_crypto::{Algorithm, x509};
use tdekit_key_store::{KeyStore, SecretBytes, Unlock, Unlocked};

const CERTIFICATE: &str = "AppCert";
/// Positions in `sets.bak`: full sets of every algorithm and compression, then these.
const AES_256_ZSTD: u32 = 12;
const DIFFERENTIAL: u32 = 22;
const STREAM: u32 = 23;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/media")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(dir().join(name)).unwrap()
}

fn store() -> Unlocked {
    let store = KeyStore::open(&dir().join("../keystore")).unwrap();
    let password = SecretBytes::from_slice(b"fixture password").unwrap();
    store.unlock(&Unlock::Password(password)).unwrap()
}

fn unwrap(store: &Unlocked, set: &SetHeader) -> SetSecret {
    if set.algorithm.is_none() {
        return secret();
    }
    let wrapped: Vec<_> = set.recipients.iter().map(|each| each.wrapped.clone()).collect();
    SetSecret::from_unwrapped(store.unwrap_dek(&wrapped).unwrap()).unwrap()
}

/// Returns the pages of a full set with those of a differential one applied.
fn apply(base: &[u8], pages: u32, changed: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut database = base.to_vec();
    database.resize(pages as usize * PAGE, 0);
    for (number, page) in changed {
        let at = (*number as usize - 1) * PAGE;
        database[at..at + PAGE].copy_from_slice(page);
    }
    database
}

#[test]
fn every_set_opens_and_holds_what_it_held() {
    let (media, store) = (read("sets.bak"), store());
    let scanned = scan(&media).unwrap();
    scanned.check_chain().unwrap();
    assert_eq!(scanned.gaps, []);
    assert_eq!(scanned.records.len(), 25);
    let (base, changed) = (read("base.db"), read("changed.db"));
    let mut seen = Vec::new();
    for record in &scanned.records {
        let header = record.header.as_ref().unwrap();
        let Some(set) = header.as_set() else { continue };
        let secret = unwrap(&store, set);
        seen.push((set.algorithm, set.compression));
        match read_set_with(&media, record, &secret).unwrap() {
            Content::Full(bytes) => assert!(bytes == base, "{}", set.position),
            Content::Stream(bytes) => assert!(bytes == base && set.position == STREAM),
            Content::Log { .. } => panic!("a log set in a media set of version 1"),
            Content::Changed { pages, changed: pages_changed, base: named, log } => {
                assert_eq!((set.position, log), (DIFFERENTIAL, false));
                assert!(apply(&base, pages, &pages_changed) == changed);
                let of = &scanned.records[AES_256_ZSTD as usize - 1];
                assert_eq!(named.trailer_sha256, of.digest());
            }
        }
    }
    for algorithm in algorithms() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
            assert!(seen.contains(&(algorithm, compression)), "{algorithm:?} {compression:?}");
        }
    }
}

#[test]
fn its_recipients_and_its_signature_hold() {
    let (media, store) = (read("sets.bak"), store());
    let scanned = scan(&media).unwrap();
    let signed = &scanned.records[AES_256_ZSTD as usize - 1];
    let set = signed.header.as_ref().unwrap().as_set().unwrap();
    let keys = SetKeys::of_set(&signed.header_bytes, &unwrap(&store, set)).unwrap();
    let mut others = 0;
    for record in &scanned.records {
        let header = record.header.as_ref().unwrap();
        match &header.fields {
            RecordFields::Set(_) => continue,
            RecordFields::Recipients(added) => {
                keys.check_recipients(&record.header_bytes).unwrap();
                keys.check_trailer(&record.trailer_bytes).unwrap();
                let wrapped = [added.recipients[0].wrapped.clone()];
                let secret = store.unwrap_dek(&wrapped).unwrap();
                let secret = SetSecret::from_unwrapped(secret).unwrap();
                SetKeys::of_set(&signed.header_bytes, &secret).unwrap();
            }
            RecordFields::Signature(signature) => {
                assert_eq!(signature.trailer_sha256, signed.digest());
                assert_eq!(signature.hash, ContentHash::Sha256);
                assert_eq!(signature.content_sha256, content_digest(&media, signed));
                let key = x509::parse(&signature.certificate).unwrap().public_key;
                assert!(key.verifies(&signature.message(&header.place), &signature.signature));
            }
        }
        others += 1;
    }
    assert_eq!(others, 2);
}

#[test]
fn a_signature_of_version_2_holds() {
    let media = read("../../2/media/signed.bak");
    assert_eq!(MediaHeader::decode(&media).unwrap().hash, ContentHash::Blake3);
    let scanned = scan(&media).unwrap();
    assert_eq!((scanned.records.len(), scanned.gaps.len()), (2, 0));
    let header = scanned.records[1].header.as_ref().unwrap();
    let RecordFields::Signature(signature) = &header.fields else { panic!("no signature") };
    assert_eq!(signature.hash, ContentHash::Blake3);
    assert_eq!(signature.trailer_sha256, scanned.records[0].digest());
    let content = content_digest_by(ContentHash::Blake3, &media, &scanned.records[0]);
    assert_eq!(signature.content_sha256, content);
    let key = x509::parse(&signature.certificate).unwrap().public_key;
    let message = signature.message(&header.place);
    assert!(key.verifies(&message, &signature.signature));
    assert!(message.starts_with(b"tdekit backup signature/2"));
    let secret = unwrap(&store(), scanned.records[0].header.as_ref().unwrap().as_set().unwrap());
    let content = read_set_with(&media, &scanned.records[0], &secret).unwrap();
    assert!(content == Content::Full(read("base.db")));
}

#[test]
fn the_log_sets_of_an_archive_hold_their_transactions() {
    let store = store();
    let object = |number| read(&format!("../../3/media/archive/{number:016}.tdekit"));
    let full = scan(&object(1)).unwrap();
    let mut before =
        (full.records[0].header.as_ref().unwrap().place.set_id, full.records[0].digest());
    let chain = before.0;
    assert_eq!(MediaHeader::decode(&object(1)).unwrap().holds, Holds::Backups);
    // Pages of the database behind each transaction.
    for (number, sizes) in [(2, &[2, 21][..]), (3, &[21, 2, 2])] {
        let media = object(number);
        assert_eq!(MediaHeader::decode(&media).unwrap().holds, Holds::Logs(LogForm::Whole));
        let scanned = scan(&media).unwrap();
        assert_eq!((scanned.records.len(), scanned.gaps.len()), (2, 0));
        let record = &scanned.records[0];
        let header = record.header.as_ref().unwrap();
        let secret = unwrap(&store, header.as_set().unwrap());
        let Content::Log { pages, logged, link } = read_set_with(&media, record, &secret).unwrap()
        else {
            panic!("no log set")
        };
        let ends: Vec<u32> =
            logged.iter().filter_map(|(entry, _)| Some(entry.end?.pages)).collect();
        assert_eq!((ends.as_slice(), pages), (sizes, sizes[sizes.len() - 1]));
        assert_eq!((link.number, link.first, link.chain), (number, 1, chain));
        assert_eq!((link.before.set_id, link.before.trailer_sha256), before);
        before = (header.place.set_id, record.digest());
    }
}

#[test]
fn stripes_join() {
    let store = store();
    let files = [read("striped.0.bak"), read("striped.1.bak")];
    let mut pieces = Vec::new();
    for (file, index) in files.iter().zip(0..) {
        let scanned = scan(file).unwrap();
        let set = scanned.records[0].header.as_ref().unwrap().as_set().unwrap().clone();
        assert_eq!(set.family, Family { index, count: 2 });
        let secret = unwrap(&store, &set);
        let Content::Full(bytes) = read_set_with(file, &scanned.records[0], &secret).unwrap()
        else {
            panic!()
        };
        let own = bytes.chunks(4096).map(<[u8]>::to_vec).enumerate();
        pieces.extend(own.map(|(at, piece)| (at * 2 + usize::from(index), piece)));
    }
    pieces.sort();
    let joined: Vec<u8> = pieces.into_iter().flat_map(|(_, piece)| piece).collect();
    assert!(joined == read("base.db"));
}

fn content_digest(media: &[u8], record: &Record) -> Digest {
    content_digest_by(ContentHash::Sha256, media, record)
}

fn content_digest_by(hash: ContentHash, media: &[u8], record: &Record) -> Digest {
    let at = |offset: u64| usize::try_from(record.start + offset).unwrap();
    let trailer = &record.trailer;
    let index = &media[at(trailer.index_offset)..at(trailer.index_offset + trailer.index_len)];
    let mut content = ContentDigest::new();
    for entry in Index::decode(index).unwrap().entries {
        let block = &media[at(entry.offset)..at(entry.offset + entry.block_len())];
        content.push(&hash.of_block(block));
    }
    content.finish()
}

/// Appends a signature on the set with this number among the records, and this identifier.
fn append_signature(
    media: &mut Vec<u8>,
    (number, set_id): (usize, [u8; 16]),
    hash: ContentHash,
    store: &Unlocked,
) {
    let place = next_place(media, set_id);
    let record = &scan(media).unwrap().records[number];
    let mut signature = SignatureHeader {
        time_ms: 7,
        trailer_sha256: record.digest(),
        hash,
        content_sha256: content_digest_by(hash, media, record),
        certificate: store.store().certificate_der(CERTIFICATE).unwrap().to_vec(),
        signature: Vec::new(),
    };
    signature.signature = store.sign(CERTIFICATE, &signature.message(&place)).unwrap();
    let header = signature.encode(&place).unwrap();
    let trailer = Trailer::of_header(RecordKind::Signature, place.ordinal, &header, 8).unwrap();
    media.extend_from_slice(&[&header[..], &trailer.encode(None).unwrap()].concat());
}

/// Makes the signature of version 2, once.
#[test]
fn make_version_2() {
    let to = dir().join("../../2/media");
    if std::env::var_os("TDEKIT_MAKE_FIXTURE_2").is_none() {
        return;
    }
    assert!(!to.exists(), "the fixture of this version is there");
    let (base, store, secret) = (read("base.db"), store(), SetSecret::random().unwrap());
    let wrapped = store.wrap_dek(CERTIFICATE, secret.as_bytes()).unwrap();
    let recipients = vec![Recipient { name: CERTIFICATE.into(), wrapped }];
    let content = Content::Full(base.clone());
    let spec = Spec::new(content, Some(Algorithm::Aes256), Compression::Zstd(1));
    let mut media = new_media();
    append_with(&mut media, &Spec { state: Some(base), recipients, ..spec }, 1, 1, &secret);
    append_signature(&mut media, (0, [1; 16]), ContentHash::Blake3, &store);
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(to.join("signed.bak"), &media).unwrap();
}

/// Returns the content of a differential set, or of a log backup, from one state to the other.
fn differing((old, new): (&[u8], &[u8]), base: Base, log: bool) -> Content {
    let pages = old.chunks(PAGE).map(Some).chain(std::iter::repeat(None));
    let changed = (new.chunks(PAGE).zip(pages).zip(1..))
        .filter(|((new, old), _)| Some(*new) != *old)
        .map(|((new, _), number)| (number, new.to_vec()))
        .collect();
    Content::Changed { pages: u32::try_from(new.len() / PAGE).unwrap(), changed, base, log }
}

/// The first log set behind a full one needs no other.
#[test]
fn a_log_set_holds_pages_by_their_changes() {
    let media = read("../../4/media/archive/0000000000000002.tdekit");
    assert_eq!(MediaHeader::decode(&media).unwrap().holds, Holds::Logs(LogForm::Changes));
    let record = &scan(&media).unwrap().records[0];
    let secret = unwrap(&store(), record.header.as_ref().unwrap().as_set().unwrap());
    let Content::Log { pages, logged, link } = read_set_with(&media, record, &secret).unwrap()
    else {
        panic!("no log set")
    };
    let found: Vec<_> =
        logged.iter().map(|(entry, _)| (entry.page, entry.end.map(|end| end.pages))).collect();
    assert_eq!(found, [(2, Some(2)), (1, None), (2, None), (3, None), (4, Some(4))]);
    assert_eq!((pages, link.form, link.transactions), (4, LogForm::Changes, 2));
    let text = |page: &[u8], number: u8| page.iter().filter(|byte| **byte == number).count();
    assert!(logged.iter().map(|(_, page)| text(page, b'2')).sum::<usize>() >= 10_000);
}

#[test]
fn log_backups_apply_one_behind_the_other() {
    let (media, store) = (read("../../3/media/log-backups.bak"), store());
    let scanned = scan(&media).unwrap();
    assert_eq!((scanned.records.len(), scanned.gaps.len()), (3, 0));
    let (base, changed) = (read("base.db"), read("changed.db"));
    let mut state = Vec::new();
    for (at, expected) in [&base, &changed, &base].into_iter().enumerate() {
        let record = &scanned.records[at];
        let secret = unwrap(&store, record.header.as_ref().unwrap().as_set().unwrap());
        match read_set_with(&media, record, &secret).unwrap() {
            Content::Full(bytes) if at == 0 => state = bytes,
            Content::Changed { pages, changed, base, log: true } if at > 0 => {
                assert_eq!(base.trailer_sha256, scanned.records[at - 1].digest());
                state = apply(&state, pages, &changed);
            }
            other => panic!("{other:?}"),
        }
        assert!(state == *expected, "{at}");
    }
}

/// Makes the log backups of version 3, once.
#[test]
fn make_log_backups() {
    let to = dir().join("../../3/media/log-backups.bak");
    if std::env::var_os("TDEKIT_MAKE_FIXTURE_LOG").is_none() {
        return;
    }
    assert!(!to.exists(), "the fixture of this version is there");
    let (base, changed, store) = (read("base.db"), read("changed.db"), store());
    let mut media = new_media();
    let mut before: Option<Vec<u8>> = None;
    for (id, state) in (1..).zip([&base, &changed, &base]) {
        let content = match before {
            None => Content::Full(state.clone()),
            Some(old) => {
                let last = scan(&media).unwrap().records.pop().unwrap();
                let set_id = last.header.as_ref().unwrap().place.set_id;
                let base = Base { set_id, trailer_sha256: last.digest() };
                differing((&old, state), base, true)
            }
        };
        let secret = SetSecret::random().unwrap();
        let wrapped = store.wrap_dek(CERTIFICATE, secret.as_bytes()).unwrap();
        let recipients = vec![Recipient { name: CERTIFICATE.into(), wrapped }];
        let spec = Spec::new(content, Some(Algorithm::Aes256), Compression::Zstd(1));
        let spec = Spec { state: Some(state.clone()), recipients, ..spec };
        append_with(&mut media, &spec, id, id.into(), &secret);
        before = Some(state.clone());
    }
    std::fs::write(to, &media).unwrap();
}

/// Makes the files anew, for a new format version, from `base.db` and `changed.db`. The files of a
/// released version stay. Run it with `TDEKIT_MAKE_FIXTURE=1`.
#[test]
fn make() {
    if std::env::var_os("TDEKIT_MAKE_FIXTURE").is_none() {
        return;
    }
    assert!(!dir().join("sets.bak").exists(), "the fixture of this version is there");
    let (base, changed, store) = (read("base.db"), read("changed.db"), store());
    let mut media = new_media();
    let mut signed = None;
    let mut id = 0;
    let seal = |spec: Spec| {
        let secret = SetSecret::random().unwrap();
        let wrapped = store.wrap_dek(CERTIFICATE, secret.as_bytes()).unwrap();
        let recipient = Recipient { name: CERTIFICATE.into(), wrapped };
        let recipients = spec.algorithm.map(|_| recipient).into_iter().collect();
        (Spec { recipients, ..spec }, secret)
    };
    for algorithm in algorithms() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
            id += 1;
            let spec = Spec::new(Content::Full(base.clone()), algorithm, compression);
            let (spec, secret) = seal(Spec { state: Some(base.clone()), ..spec });
            let keys = append_with(&mut media, &spec, id, id.into(), &secret);
            if u32::from(id) == AES_256_ZSTD {
                signed = Some((keys.unwrap(), secret));
            }
        }
    }
    let of = AES_256_ZSTD as usize - 1;
    let named =
        Base { set_id: [12; 16], trailer_sha256: scan(&media).unwrap().records[of].digest() };
    let content = differing((&base, &changed), named, false);
    let spec = Spec::new(content, Some(Algorithm::Aes256), Compression::Zstd(1));
    let (spec, secret) = seal(Spec { state: Some(changed), ..spec });
    append_with(&mut media, &spec, 22, DIFFERENTIAL, &secret);
    let spec =
        Spec::new(Content::Stream(base.clone()), Some(Algorithm::Aes256), Compression::Zstd(-5));
    let (spec, secret) = seal(spec);
    append_with(&mut media, &spec, 23, STREAM, &secret);

    let (keys, secret) = signed.unwrap();
    let place = next_place(&media, [12; 16]);
    let wrapped = store.wrap_dek(CERTIFICATE, secret.as_bytes()).unwrap();
    let recipients = vec![Recipient { name: "Added".into(), wrapped }];
    let header = RecipientsHeader { time_ms: 5, recipients }.encode(&place, &keys).unwrap();
    let trailer = Trailer::of_header(RecordKind::Recipients, place.ordinal, &header, 6).unwrap();
    media.extend_from_slice(&[&header[..], &trailer.encode(Some(&keys)).unwrap()].concat());

    append_signature(&mut media, (of, [12; 16]), ContentHash::Sha256, &store);
    std::fs::write(dir().join("sets.bak"), &media).unwrap();

    let spec =
        Spec::new(Content::Full(base.clone()), Some(Algorithm::Aes256), Compression::Zstd(1));
    let (spec, secret) = seal(Spec { state: Some(base), ..spec });
    for index in 0..2 {
        let family = Family { index, count: 2 };
        let mut media = media_header(family).encode().unwrap().to_vec();
        append_with(&mut media, &Spec { family, ..spec.clone() }, 1, 1, &secret);
        std::fs::write(dir().join(format!("striped.{index}.bak")), &media).unwrap();
    }
}
