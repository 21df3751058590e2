//! Times one backup or restore and prints elapsed and processor seconds and peak memory:
//!
//! ```text
//! cargo run --release -p tdekit-backup-run --example throughput -- backup DB MEDIA zstd:1 AES_256
//! cargo run --release -p tdekit-backup-run --example throughput -- differential DB MEDIA lz4 none
//! cargo run --release -p tdekit-backup-run --example throughput -- restore MEDIA DB
//! ```
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tdekit_backup_run::{
    BackupJob, Compression, DatabaseSource, Encryption, FileSink, FileTarget, Media, Mode,
    Recipient, Run, Source, UnwrapSecret, WrapSecret, backup,
};
use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{StoreError, WrapMechanism, WrappedDek};

/// Wraps nothing: RSA's share is irrelevant for throughput.
struct NoWrap;

impl WrapSecret for NoWrap {
    fn wrap_secret(&self, secret: &SecretBytes) -> Result<Vec<Recipient>, StoreError> {
        let wrapped = WrappedDek {
            mechanism: WrapMechanism::RsaOaepSha256,
            sha256: [0; 32],
            sha1: [0; 20],
            public_key_sha256: [0; 32],
            blob: secret.expose().to_vec(),
        };
        Ok(vec![Recipient { name: "none".to_owned(), wrapped }])
    }
}

impl UnwrapSecret for NoWrap {
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        Ok(SecretBytes::from_slice(&wrapped[0].blob)?)
    }
}

fn compression(name: &str) -> Compression {
    match name.split_once(':') {
        Some(("zstd", level)) => Compression::Zstd { level: level.parse().unwrap() },
        _ if name == "lz4" => Compression::Lz4,
        _ => Compression::None,
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let begin = Instant::now();
    match args[..] {
        [kind @ ("backup" | "differential"), db, media, packed, algorithm] => {
            let source = Source::Database(DatabaseSource {
                connection: Connection::open(db).unwrap(),
                path: PathBuf::from(db),
                encrypted_file_id: None,
            });
            let differential = kind == "differential";
            let mode = if differential { Mode::Append } else { Mode::Replace };
            let algorithm = algorithm.parse().ok();
            let encryption =
                algorithm.map(|algorithm| Encryption { algorithm, recipients: &NoWrap });
            let job = BackupJob {
                mode,
                differential,
                compression: compression(packed),
                encryption,
                base_keys: Some(&NoWrap),
                ..BackupJob::new(source)
            };
            let target = Box::new(FileTarget::new(media));
            let outcome = backup(job, vec![target], &Run::default()).unwrap();
            print!("{} bytes stored, ", outcome.stored_bytes);
        }
        ["restore", media, db] => {
            let media = Media::open_files(&[PathBuf::from(media)]).unwrap();
            let mut sink = FileSink::new(db, true).unwrap();
            media.restore_database(None, Some(&NoWrap), &mut sink, &Run::default()).unwrap();
        }
        _ => panic!("see the top of the program's source"),
    }
    report(begin.elapsed());
}

/// Prints Linux's statistics of this process.
fn report(elapsed: Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap() / 100.0;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let (user, system) = (ticks(11), ticks(12));
    println!("{:.3} s, user {user:.2} s, system {system:.2} s, {peak}", elapsed.as_secs_f64());
}
