//! Prints the speed at which one thread seals and opens blocks of 1 MiB, by compression and
//! algorithm: MB of payload per second of the thread's processor time, the best of several rounds.
//!
//! `cargo run --release -p tdekit-backup-media --example speed [FILE]`; without a file, on bytes
//! that compress by about a half.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use rustix::time::{ClockId, clock_gettime};
use tdekit_backup_media::{
    BLOCK_HEADER_LEN, Block, BlockHeader, BlockKey, BlockKind, BlockOpener, BlockSealer,
    Compression, Family, Recipient, RecordPlace, SetHeader, SetKind, SetSecret, SetTexts, Source,
};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{WrapMechanism, WrappedDek};

const BLOCK: usize = 1024 * 1024;
const ROUNDS: usize = 5;

fn main() {
    let data = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path).unwrap(),
        None => sample(64 * BLOCK),
    };
    println!("{:24} {:>10} {:>10} {:>8}", "", "seal MB/s", "open MB/s", "stored");
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let algorithms = [None, Some(Algorithm::Aes256), Some(Algorithm::Aegis128X2)];
        for algorithm in algorithms {
            let (seal_s, open_s, stored) = measure(&data, compression, algorithm);
            let name = algorithm.map_or("none", Algorithm::name);
            let mb = data.len() as f64 / 1e6;
            println!(
                "{:24} {:>10.0} {:>10.0} {:>7.1} %",
                format!("{} {name}", compression.name()),
                mb / seal_s,
                mb / open_s,
                100.0 * stored as f64 / data.len() as f64,
            );
        }
    }
}

/// Returns the seconds to seal and to open, and the bytes stored.
fn measure(
    data: &[u8],
    compression: Compression,
    algorithm: Option<Algorithm>,
) -> (f64, f64, usize) {
    let mut key = block_key(compression, algorithm);
    let mut sealer = BlockSealer::new(compression).unwrap();
    let mut opener = BlockOpener::new(compression).unwrap();
    let mut out = vec![0; BlockSealer::room(BLOCK)];
    let mut opened = vec![0; BLOCK];
    let (mut seal_s, mut open_s, mut stored) = (f64::MAX, f64::MAX, 0);
    for _ in 0..ROUNDS {
        let (mut seal, mut open) = (0.0, 0.0);
        stored = 0;
        for (payload, index) in data.chunks(BLOCK).zip(0..) {
            let block = Block { kind: BlockKind::Data, index, first_page: 0, payload };
            let begun = thread_s();
            let entry = sealer.seal(&mut key, &block, &mut out).unwrap();
            seal += thread_s() - begun;
            let len = usize::try_from(entry.block_len()).unwrap();
            stored += len;
            let begun = thread_s();
            let (head, body) = out[..len].split_first_chunk::<BLOCK_HEADER_LEN>().unwrap();
            let head = BlockHeader::decode(head).unwrap();
            opener.open(&mut key, &head, body, &mut opened[..payload.len()]).unwrap();
            open += thread_s() - begun;
            assert!(opened[..payload.len()] == *payload);
        }
        seal_s = seal.min(seal_s);
        open_s = open.min(open_s);
    }
    (seal_s, open_s, stored)
}

fn block_key(compression: Compression, algorithm: Option<Algorithm>) -> BlockKey {
    let place = RecordPlace { ordinal: 1, previous: [0; 32], media_id: [1; 16], set_id: [2; 16] };
    if algorithm.is_none() {
        return BlockKey::plain(place.set_id, 0);
    }
    let wrapped = WrappedDek {
        mechanism: WrapMechanism::RsaOaepSha256,
        sha256: [1; 32],
        sha1: [2; 20],
        public_key_sha256: [3; 32],
        blob: vec![4; 384],
    };
    let set = SetHeader {
        position: 1,
        kind: SetKind::Full,
        source: Source::Stream,
        compression,
        algorithm,
        copy_only: false,
        source_encrypted: false,
        has_page_map: false,
        family: Family::SINGLE,
        block_size: 1024 * 1024,
        begun_ms: 0,
        expires_ms: 0,
        database_id: [0; 16],
        archive: None,
        texts: SetTexts::default(),
        recipients: vec![Recipient { name: "Cert".into(), wrapped }],
    };
    let encoded = set.encode(&place, Some(&SetSecret::random().unwrap())).unwrap();
    encoded.keys.unwrap().block_key().unwrap()
}

fn thread_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Half noise, half text, in runs like a database's rows.
fn sample(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..len)
        .map(|at| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if at % 128 < 64 { b"customer"[at % 8] } else { state.to_le_bytes()[4] }
        })
        .collect()
}
