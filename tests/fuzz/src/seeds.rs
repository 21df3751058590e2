//! Inputs that a target's parser reads to the end: the starting points of the fuzzer and the tests.

use tdekit_backup_media::header::HEADER_PREFIX_LEN;
use tdekit_backup_media::payload::{LogEnd, LogEntry, LogPagesBuilder};
use tdekit_backup_media::{
    Base, Block, BlockKind, BlockSealer, Compression, ContentHash, Family, FullPlace, Holds,
    InArchive, Lineage, LogForm, LogLink, MediaHeader, Recipient, RecipientsHeader, RecordKind,
    RecordPlace, SetBuilder, SetHeader, SetKeys, SetKind, SetSecret, SetTexts, ShippedBehind,
    SignatureHeader, Source, Trailer, trailer_digest,
};
use tdekit_key_store::{
    AUDIT_VERSION, AuditAction, AuditAnchor, AuditCertificate, AuditKey, AuditMark, AuditRecord,
    AuditSubject, CertificateRecord, MasterKeyRecord, Protector, ProtectorKind, StoreFile,
    WrapMechanism, WrappedDek,
};
use tdekit_sqlite_page::header::{MAGIC, commitment, decode_slot};
use tdekit_sqlite_page::{DekEntry, Header, PageSize};

use crate::{DIGEST_BYTES, MAC_BYTES, STORE_LENGTH, dek};
use tdekit_key_crypto::Algorithm;

const MEDIA_ID: [u8; 16] = [0xA1; 16];

/// A target's name and an input to it.
pub type Seed = (&'static str, Vec<u8>);

/// Returns seeds for each target that does not generate its own valid input.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let mut seeds = vec![
        ("keystore", keystore()),
        ("audit_log", audit_log()),
        ("wrapped_dek", wrapped_dek()),
        ("header", header(Algorithm::Aes256)),
        ("header", header(Algorithm::Aegis256X2)),
    ];
    seeds.push(("media", media_records()));
    seeds.push(("media", media_set_header(set_header(None))));
    seeds.push(("media", media_set_header(log_header())));
    let base = Base { set_id: [1; 16], trailer_sha256: [2; 32] };
    let log_backup = SetHeader { kind: SetKind::LogState(base), ..log_header() };
    seeds.push(("media", media_set_header(log_backup)));
    seeds.extend(archive_headers().map(|header| ("media", media_set_header(header))));
    seeds.push(("media", log_payload()));
    seeds.push(("media", whole_log_payload()));
    seeds.extend(crate::binlog::seeds());
    seeds.extend(crate::datafile::seeds());
    seeds.extend(crate::mysql::seeds());
    seeds.extend(crate::wire_seeds::seeds());
    seeds.extend(crate::script_output::seeds());
    seeds
}

/// The content of a store file after the length field, up to the digest.
fn keystore() -> Vec<u8> {
    let certificate = |generation, active| CertificateRecord {
        name: "AppCert".into(),
        generation,
        active,
        created_at: 1_700_000_000,
        backed_up_at: active.then_some(1_700_000_100),
        der: vec![generation.to_le_bytes()[0]; 40],
        sealed_private_key: active.then(|| vec![6; 60]),
    };
    let protector = Protector {
        id: [8; 16],
        created_at: 1_700_000_000,
        kind: ProtectorKind::Password,
        params: vec![1; 24],
        sealed: vec![2; 60],
    };
    let file = StoreFile {
        store_id: [1; 16],
        sequence: 5,
        written_at: 1_700_000_200,
        master_key: MasterKeyRecord {
            id: [2; 16],
            created_at: 1_700_000_000,
            protectors: vec![protector],
        },
        certificates: vec![certificate(1, false), certificate(2, true)],
        audit: Some(Box::new(AuditAnchor {
            sealed_key: vec![9; 72],
            base: AuditMark::START,
            head: AuditMark { sequence: 7, mac: [5; 32] },
        })),
    };
    let bytes = file.encode(|_| Ok([0; MAC_BYTES])).unwrap();
    bytes[STORE_LENGTH.end..bytes.len() - DIGEST_BYTES - MAC_BYTES].to_vec()
}

/// A line of the audit log without its end.
fn audit_log() -> Vec<u8> {
    let record = AuditRecord {
        v: AUDIT_VERSION,
        seq: 7,
        at: "2026-11-23T14:00:00Z".into(),
        action: AuditAction::BackedUp,
        subject: AuditSubject::DatabaseKey,
        id: "00".repeat(16),
        name: "/data/app \u{2028}".into(),
        key: Some(AuditKey {
            version: Some(1),
            algorithm: "AES_256".into(),
            certificates: vec![AuditCertificate { id: "0x00".into(), name: "AppCert".into() }],
            certificates_left_out: 0,
            media: "/backups/app.bak".into(),
        }),
        uid: 1000,
        user: "ann".into(),
        program: "/usr/bin/tdekit".into(),
        pid: 7,
        prev: "00".repeat(32),
    };
    let mut line = record.encode(&[1; 32]).unwrap();
    line.pop();
    line
}

fn wrapped_dek() -> Vec<u8> {
    let wrapped = WrappedDek {
        mechanism: WrapMechanism::RsaOaepSha256,
        sha256: [1; 32],
        sha1: [2; 20],
        public_key_sha256: [3; 32],
        blob: vec![4; 384],
    };
    wrapped.encode().unwrap()
}

/// Returns the body of a slot after its magic.
fn header(older: Algorithm) -> Vec<u8> {
    let entry = |version, algorithm| DekEntry {
        version,
        created_unix_s: 1_700_000_000,
        algorithm,
        commitment: commitment(&dek(), &[4; 16], algorithm).unwrap(),
        recipients: vec![wrapped_dek(), wrapped_dek()],
    };
    let header = Header {
        sequence: 3,
        file_id: [4; 16],
        algorithm: Algorithm::Aes256,
        page_size: PageSize::new(4096).unwrap(),
        current: 2,
        freshness: false,
        deks: vec![entry(1, older), entry(2, Algorithm::Aes256)],
    };
    let slot = header.encode_slot(&dek()).unwrap();
    let (_, length) = decode_slot(&slot).unwrap();
    slot[MAGIC.len()..length].to_vec()
}

/// Returns the header of the seeds' media set.
pub(crate) fn media_header() -> Vec<u8> {
    let header = MediaHeader {
        media_id: MEDIA_ID,
        family: Family::SINGLE,
        part: 0,
        made_ms: 1,
        hash: ContentHash::NEW,
        holds: Holds::Backups,
    };
    header.encode().unwrap().to_vec()
}

fn place(ordinal: u32, previous: [u8; 32]) -> RecordPlace {
    RecordPlace { ordinal, previous, media_id: MEDIA_ID, set_id: [5; 16] }
}

fn set_header(algorithm: Option<Algorithm>) -> SetHeader {
    let wrapped = WrappedDek::decode(&wrapped_dek()).unwrap().0;
    let recipient = Recipient { name: "Cert".into(), wrapped };
    SetHeader {
        position: 1,
        kind: SetKind::Full,
        source: Source::Stream,
        compression: Compression::Lz4,
        algorithm,
        copy_only: false,
        source_encrypted: false,
        has_page_map: false,
        family: Family::SINGLE,
        block_size: 4096,
        begun_ms: 1,
        expires_ms: 0,
        database_id: [0; 16],
        archive: None,
        texts: SetTexts { name: "set".into(), ..SetTexts::default() },
        recipients: algorithm.map(|_| recipient).into_iter().collect(),
    }
}

/// The keys of a set.
pub(crate) fn set_keys(algorithm: Algorithm) -> SetKeys {
    let secret = SetSecret::from_unwrapped(dek()).unwrap();
    let header = set_header(Some(algorithm));
    header.encode(&place(1, [0; 32]), Some(&secret)).unwrap().keys.unwrap()
}

/// A set, recipients for it, and a signature.
fn media_records() -> Vec<u8> {
    let first = MediaHeader::decode(&media_header()).unwrap().digest().unwrap();
    let (place_1, set) = (place(1, first), set_header(Some(Algorithm::Aes256)));
    let secret = SetSecret::from_unwrapped(dek()).unwrap();
    let encoded = set.encode(&place_1, Some(&secret)).unwrap();
    let keys = encoded.keys.unwrap();
    let mut file = encoded.bytes.clone();
    let mut builder = SetBuilder::new(&set, &place_1, &encoded.bytes).unwrap();
    let mut sealer = BlockSealer::new(set.compression).unwrap();
    let mut key = keys.block_key().unwrap();
    let payloads: [(BlockKind, &[u8]); 2] =
        [(BlockKind::Data, &[7; 300]), (BlockKind::Metadata, b"{}")];
    for (kind, payload) in payloads {
        let mut out = vec![0; BlockSealer::room(payload.len())];
        let block = Block { kind, index: builder.next_index(), first_page: 0, payload };
        let entry = sealer.seal(&mut key, &block, &mut out).unwrap();
        builder.push(entry);
        file.extend_from_slice(&out[..usize::try_from(entry.block_len()).unwrap()]);
    }
    let (index, trailer) = builder.finish(1, 2, Some(&keys)).unwrap();
    file.extend_from_slice(&index);
    file.extend_from_slice(&trailer);

    let place_2 = place(2, trailer_digest(&trailer));
    let recipients = RecipientsHeader { time_ms: 3, recipients: set.recipients };
    let header = recipients.encode(&place_2, &keys).unwrap();
    let trailer = Trailer::of_header(RecordKind::Recipients, 2, &header, 4).unwrap();
    let trailer = trailer.encode(Some(&keys)).unwrap();
    file.extend_from_slice(&header);
    file.extend_from_slice(&trailer);

    let signature = SignatureHeader {
        time_ms: 5,
        trailer_sha256: [6; 32],
        hash: ContentHash::NEW,
        content_sha256: [7; 32],
        certificate: vec![8; 40],
        signature: vec![9; 40],
    };
    let header = signature.encode(&place(3, trailer_digest(&trailer))).unwrap();
    let trailer = Trailer::of_header(RecordKind::Signature, 3, &header, 6).unwrap();
    file.extend_from_slice(&header);
    file.extend_from_slice(&trailer.encode(None).unwrap());
    file
}

/// The kind, and the part between the length and the checksum of a set's header.
fn media_set_header(header: SetHeader) -> Vec<u8> {
    let header = header.encode(&place(1, [0; 32]), None).unwrap().bytes;
    let mut seed = vec![0];
    seed.extend_from_slice(&header[HEADER_PREFIX_LEN..header.len() - 64]);
    seed
}

/// The header of a log set.
fn log_header() -> SetHeader {
    let before = Base { set_id: [1; 16], trailer_sha256: [2; 32] };
    let form = LogForm::Changes;
    let link = LogLink { before, chain: [3; 16], number: 9, first: 7, transactions: 2, form };
    SetHeader {
        kind: SetKind::Log(link),
        source: Source::Database { page_size: 512, pages: 5 },
        ..set_header(None)
    }
}

/// The headers of a full set and a log set with their places in an archive.
fn archive_headers() -> [SetHeader; 2] {
    let lineage = Lineage::begin([6; 16], [[5; 16]]);
    let set = Base { set_id: [1; 16], trailer_sha256: [2; 32] };
    let behind = Some(ShippedBehind { number: 6, first: 3, set });
    let full = Some(FullPlace { number: 7, behind });
    let (log, archive) = (log_header(), InArchive { lineage, full });
    let full = SetHeader { kind: SetKind::Full, archive: Some(archive.clone()), ..log.clone() };
    [full, SetHeader { archive: Some(InArchive { full: None, ..archive }), ..log }]
}

/// A block of a log set: a transaction, and the beginning of another.
fn log_payload() -> Vec<u8> {
    let mut builder = LogPagesBuilder::new(4096, 512);
    let end = Some(LogEnd { pages: 5, time_ms: 1 });
    let mut state = [0; 512];
    state[40] = 1;
    for (page, end, state) in [(1, None, None), (5, end, Some(&state[..])), (2, None, None)] {
        builder.push(LogEntry { page, end }, state, &[7; 512]).unwrap();
    }
    let mut payload = Vec::new();
    builder.finish(&mut payload);
    payload
}

/// The same in the form of older versions.
fn whole_log_payload() -> Vec<u8> {
    let mut payload = [3_u32.to_le_bytes(), [0; 4]].concat();
    for (page, pages, time_ms) in [(1_u32, 0_u32, 0_i64), (5, 5, 1), (2, 0, 0)] {
        payload.extend_from_slice(&page.to_le_bytes());
        payload.extend_from_slice(&pages.to_le_bytes());
        payload.extend_from_slice(&time_ms.to_le_bytes());
    }
    payload.extend_from_slice(&[7; 3 * 512]);
    payload
}

/// XXH3-64 of a block.
pub(crate) fn checksum(header: &[u8], stored: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(&[header, stored].concat())
}
