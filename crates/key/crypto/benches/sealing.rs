//! Time to seal and open a page, by algorithm and page size, and time to open a database.
//!
//! The unit is processor time of the thread, so other load on the machine has little effect.
//!
//! `cargo bench -p tdekit-key-crypto`; the table is in `docs/crypto.md`.
#![allow(missing_docs)] // criterion's macros make undocumented functions
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use tdekit_key_crypto::{
    Algorithm, CtrKey, KeyType, NONCE_LEN, NonceSource, PageFingerprint, PrivateKey, PublicKey,
    SealingKey, TAG_LEN, WideBlockKey,
};

const SIZES: [usize; 4] = [1024, 4096, 16384, 65536];

/// Length of a page's associated data: file, kind, page number, key version, suite.
const AAD: [u8; 32] = [1; 32];

fn key(algorithm: Algorithm) -> SealingKey {
    SealingKey::new(algorithm, &vec![7; algorithm.key_len()]).unwrap()
}

fn pages(criterion: &mut Criterion<ThreadTime>) {
    for &algorithm in Algorithm::all().iter().filter(|a| a.seals_pages()) {
        let mut group = criterion.benchmark_group(algorithm.name());
        for size in SIZES {
            group.throughput(Throughput::Bytes(size as u64));
            let (mut key, mut nonces) = (key(algorithm), NonceSource::new());
            let (plaintext, mut ciphertext) = (vec![5; size], vec![0; size]);
            group.bench_function(BenchmarkId::new("seal", size), |bencher| {
                bencher.iter(|| {
                    let nonce = nonces.next().unwrap();
                    key.seal(&nonce, &AAD, black_box(&plaintext), &mut ciphertext).unwrap()
                });
            });
            let nonce = nonces.next().unwrap();
            let tag = key.seal(&nonce, &AAD, &plaintext, &mut ciphertext).unwrap();
            let mut opened = vec![0; size];
            group.bench_function(BenchmarkId::new("open", size), |bencher| {
                bencher.iter(|| {
                    let ciphertext = black_box(&ciphertext);
                    key.open(&nonce, &AAD, ciphertext, &tag, &mut opened).unwrap();
                });
            });
        }
        group.finish();
    }
}

/// The costs beside the cipher: a nonce, a subkey other than the last one, a new subkey.
fn parts(criterion: &mut Criterion<ThreadTime>) {
    let mut nonces = NonceSource::new();
    criterion.bench_function("nonce", |bencher| bencher.iter(|| nonces.next().unwrap()));

    let (page, mut sealed) = ([5; 4096], [0; 4096]);
    let fingerprint = PageFingerprint::new(&[7; 32]).unwrap();
    criterion.bench_function("fingerprint/4096", |bencher| {
        bencher.iter(|| fingerprint.of(black_box(&page)).unwrap());
    });
    for (name, prefixes) in [("64 subkeys in turn", 64u32), ("new subkey each", u32::MAX)] {
        let (mut key, mut number) = (key(Algorithm::Aes256), 0u32);
        criterion.bench_function(&format!("AES_256/seal/4096, {name}"), |bencher| {
            bencher.iter(|| -> [u8; TAG_LEN] {
                number = (number + 1) % prefixes;
                let mut nonce = [3; NONCE_LEN];
                nonce[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_le_bytes());
                key.seal(&nonce, &AAD, black_box(&page), &mut sealed).unwrap()
            });
        });
    }

    for size in SIZES {
        let (source, mut target) = (vec![5u8; size], vec![0u8; size]);
        criterion.bench_function(&format!("memcpy/{size}"), |bencher| {
            bencher.iter(|| {
                target.copy_from_slice(black_box(&source));
                black_box(&mut target);
            });
        });
    }
}

/// Unwrapping a database's key with a certificate's key, and reading that key from its DER.
fn opening(criterion: &mut Criterion<ThreadTime>) {
    let types = [
        ("P-384", KeyType::EcP384),
        ("RSA-3072", KeyType::Rsa3072),
        ("RSA-4096", KeyType::Rsa4096),
    ];
    for (name, key_type) in types {
        let key = PrivateKey::generate(key_type).unwrap();
        let wrapped = PublicKey::from_spki(&key.spki()).unwrap().wrap(&[7; 32]).unwrap();
        let der = key.to_pkcs8().unwrap();
        criterion.bench_function(&format!("{name}/unwrap"), |bencher| {
            bencher.iter(|| key.unwrap(black_box(&wrapped)).unwrap());
        });
        criterion.bench_function(&format!("{name}/from PKCS #8"), |bencher| {
            bencher.iter(|| PrivateKey::from_pkcs8(black_box(der.expose())).unwrap());
        });
    }
}

/// The ciphers for MariaDB: the wide block for pages and records, and the stream ciphers.
fn servers(criterion: &mut Criterion<ThreadTime>) {
    wide_block(criterion, "HCTR2", &WideBlockKey::hctr2(&[7; 32]).unwrap());
    wide_block(criterion, "wide block over GMAC", &WideBlockKey::gmac(&[7; 96]).unwrap());
    let mut group = criterion.benchmark_group("CTR");
    for size in [16, 64, 256, 4096] {
        group.throughput(Throughput::Bytes(size as u64));
        let key = CtrKey::new(&[7; 32]).unwrap();
        let (plaintext, mut ciphertext) = (vec![5; size], vec![0; size]);
        group.bench_function(BenchmarkId::new("stream", size), |bencher| {
            bencher.iter(|| {
                let mut stream = key.stream(&[1; 16], 0);
                key.apply(&mut stream, black_box(&plaintext), &mut ciphertext).unwrap();
            });
        });
    }
    group.finish();
}

fn wide_block(criterion: &mut Criterion<ThreadTime>, name: &str, key: &WideBlockKey) {
    let mut group = criterion.benchmark_group(name);
    for size in [64, 256, 4096 - 30, 16384 - 30, 65536 - 30] {
        group.throughput(Throughput::Bytes(size as u64));
        let (plaintext, mut ciphertext) = (vec![5; size], vec![0; size]);
        group.bench_function(BenchmarkId::new("encrypt", size), |bencher| {
            bencher.iter(|| key.encrypt(&[1; 16], black_box(&plaintext), &mut ciphertext).unwrap());
        });
        let mut opened = vec![0; size];
        group.bench_function(BenchmarkId::new("decrypt", size), |bencher| {
            bencher.iter(|| key.decrypt(&[1; 16], black_box(&ciphertext), &mut opened).unwrap());
        });
    }
    group.finish();
}

/// Processor time of the calling thread, in nanoseconds.
struct ThreadTime;

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.try_into().unwrap()
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .with_measurement(ThreadTime)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700))
        .sample_size(30)
        .without_plots();
    targets = pages, parts, opening, servers
}
criterion_main!(benches);
