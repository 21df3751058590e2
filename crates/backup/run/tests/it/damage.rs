//! Damaged and forged media: each is detected, and not one wrong byte is restored.

use std::cell::RefCell;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::common::*;
use tdekit_backup_run::{
    BackupJob, Compression, Finding, Media, MediaSource, Mode, PageSink, Run, RunError, SetInfo,
    SourceKind, add_recipients, sign,
};

/// Keeps the pages, and whether it was finished.
#[derive(Default)]
struct Pages {
    page_len: usize,
    bytes: std::sync::Mutex<Vec<u8>>,
    finished: bool,
}

impl PageSink for Pages {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        self.page_len = page_size as usize;
        *self.bytes.lock().unwrap() = vec![0; self.page_len * usize::try_from(pages).unwrap()];
        Ok(())
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let at = (first as usize - 1) * self.page_len;
        self.bytes.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RunError> {
        self.finished = true;
        Ok(())
    }
}

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::new);

const RUN: Run<'static> =
    Run { threads: 1, throttle_bytes_per_s: None, progress: None, cancel: None, lift: None };

/// Returns all bytes of a set, or an error.
fn content(media: &Media, set: &SetInfo) -> Result<Vec<u8>, RunError> {
    let position = Some(set.position);
    if set.source == SourceKind::Stream {
        let mut out = Vec::new();
        return media.restore_stream(position, Some(&KEY), &mut out, &RUN).map(|_| out);
    }
    let mut sink = Pages::default();
    let result = media.restore_database(position, Some(&KEY), &mut sink, &RUN);
    assert_eq!(result.is_ok(), sink.finished);
    result.map(|_| sink.bytes.into_inner().unwrap())
}

/// A media file in memory.
struct Bytes(Vec<u8>);

impl MediaSource for Bytes {
    fn name(&self) -> String {
        "damaged".to_owned()
    }

    fn parts(&self) -> u32 {
        1
    }

    fn part_len(&self, _: u32) -> Result<u64, RunError> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, _: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError> {
        let at = usize::try_from(offset).unwrap();
        let short = || RunError::ShortRead { media: self.name(), end: offset + buf.len() as u64 };
        let bytes = self.0.get(at..at + buf.len()).ok_or_else(short)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// A small media set: its bytes, its records, and the content of each set.
struct Small {
    dir: Dir,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    contents: Vec<Vec<u8>>,
}

/// A full set, a differential one, and a stream.
fn small(encrypted: bool) -> Small {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    let open_db = database(&db, 512, "delete", 4);
    let plain = |job: BackupJob<'static>| BackupJob {
        encryption: job.encryption.filter(|_| encrypted),
        compression: Compression::Lz4,
        mode: Mode::Append,
        ..job
    };
    let mut records = vec![];
    let mut add = |act: &dyn Fn()| {
        let before = fs::metadata(&bak).map_or(96, |metadata| metadata.len());
        act();
        let range = before..fs::metadata(&bak).unwrap().len();
        records.push(range.start.try_into().unwrap()..range.end.try_into().unwrap());
    };
    let signed = RefCell::new(None);
    let back_up = |job| {
        let made = back_up(plain(job), &[&bak]).unwrap();
        if !made.signable.is_empty() {
            signed.replace(Some(made));
        }
    };
    add(&|| back_up(job(&db)));
    open_db.execute_batch("UPDATE a SET n=7 WHERE id=1; UPDATE b SET n=7 WHERE id=1").unwrap();
    add(&|| back_up(BackupJob { differential: true, signer: Some(&*SIGNER), ..job(&db) }));
    add(&|| back_up(BackupJob { encryption: encryption(), ..BackupJob::new(stream(&[9; 700])) }));
    if encrypted {
        add(&|| drop(add_recipients(targets(&[&bak]), Some(1), &KEY, &Key(3)).unwrap()));
    }
    add(&|| sign(targets(&[&bak]), signed.borrow().as_ref().unwrap(), &*SIGNER).unwrap());
    let media = open(&[&bak]).unwrap();
    let contents = media.sets().iter().map(|set| content(&media, set).unwrap()).collect();
    let bytes = fs::read(&bak).unwrap();
    Small { dir, bytes, records, contents }
}

impl Small {
    fn open(&self, bytes: &[u8]) -> Result<Media, RunError> {
        Media::open(vec![Arc::new(Bytes(bytes.to_vec()))])
    }

    /// Restores every set that can be restored: correct bytes or an error. Returns true if
    /// everything was there and whole.
    fn check(&self, media: &Media, whole: &dyn Fn(usize) -> bool, what: &str) -> bool {
        let mut restored = 0;
        for (n, expected) in self.contents.iter().enumerate() {
            let set = media.sets().iter().find(|set| set.position as usize == n + 1);
            let result = set.map(|set| content(media, set));
            match &result {
                Some(Ok(bytes)) => {
                    assert!(bytes == expected, "{what}: set {} is wrong", n + 1);
                    restored += 1;
                }
                other => assert!(!whole(n), "{what}: set {} is lost: {other:?}", n + 1),
            }
        }
        restored == self.contents.len()
    }

    /// Returns true if verifying with the key finds nothing.
    fn verifies(&self, media: &Media) -> bool {
        media.findings().is_empty()
            && media.sets().len() == self.contents.len()
            && media.sets().iter().all(|set| {
                let report = media.verify(Some(set.position), Some(&KEY), &RUN);
                report.is_ok_and(|report| {
                    report.damages.is_empty()
                        && report.signatures.iter().all(|signature| signature.problem.is_none())
                })
            })
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_and_hurts_its_own_set_only() {
    for encrypted in [true, false] {
        let small = small(encrypted);
        let mut bytes = small.bytes.clone();
        for at in 0..bytes.len() {
            let bit = 1 << (at % 8);
            bytes[at] ^= bit;
            let what = format!("byte {at} of {}", bytes.len());
            match small.open(&bytes) {
                Ok(media) => {
                    let hit = small.records.iter().position(|record| record.contains(&at));
                    // The differential set needs the first one, too.
                    let whole = |set| Some(set) != hit && (set != 1 || hit != Some(0));
                    small.check(&media, &whole, &what);
                    assert!(!small.verifies(&media), "{what} is not noticed");
                }
                Err(error) => {
                    assert!(at < 96, "{what}: {error}");
                    let told = matches!(
                        error,
                        RunError::NotMedia { .. }
                            | RunError::FutureVersion { .. }
                            | RunError::Damaged { .. }
                    );
                    assert!(told, "{what}: {error}");
                }
            }
            bytes[at] ^= bit;
        }
        assert!(small.verifies(&small.open(&bytes).unwrap()));
    }
}

#[test]
fn cut_anywhere_the_sets_before_stay() {
    for encrypted in [true, false] {
        let small = small(encrypted);
        for len in 0..small.bytes.len() {
            let what = format!("cut to {len}");
            match small.open(&small.bytes[..len]) {
                Ok(media) => {
                    let whole = |set: usize| small.records[set].end <= len;
                    small.check(&media, &whole, &what);
                    let at_end = len == 96 || small.records.iter().any(|record| record.end == len);
                    let tail = [Finding::UnfinishedTail {
                        media: "damaged".to_owned(),
                        offset: small
                            .records
                            .iter()
                            .map(|record| record.end)
                            .filter(|end| *end <= len)
                            .max()
                            .unwrap_or(96) as u64,
                        bytes: 0,
                    }];
                    let none = |finding: &&Finding| !matches!(finding, Finding::NoSets { .. });
                    let found: Vec<_> = media.findings().iter().filter(none).cloned().collect();
                    assert_eq!(found.len() == media.findings().len(), !media.sets().is_empty());
                    assert_eq!(found.is_empty(), at_end, "{what}: {found:?}");
                    if let [Finding::UnfinishedTail { media, offset, .. }] = &found[..] {
                        let here = Finding::UnfinishedTail {
                            media: media.clone(),
                            offset: *offset,
                            bytes: 0,
                        };
                        assert_eq!([here], tail, "{what}");
                    } else {
                        assert!(at_end, "{what}: {found:?}");
                    }
                }
                Err(error) => {
                    assert!(len < 96, "{what}: {error}");
                }
            }
        }
    }
}

#[test]
fn an_append_cuts_the_unfinished_tail_off() {
    let small = small(true);
    let db = small.dir.path("a.db");
    for len in (small.records[1].end..small.records[2].end).step_by(37) {
        let path = small.dir.path("cut");
        fs::write(&path, &small.bytes[..len]).unwrap();
        let outcome = back_up(job(&db), &[&path]).unwrap();
        assert_eq!(
            (outcome.position, outcome.findings.len()),
            (3, usize::from(len > small.records[1].end))
        );
        let now = fs::read(&path).unwrap();
        let kept = small.records[1].end;
        assert!(now[..kept] == small.bytes[..kept]);
        let media = open(&[&path]).unwrap();
        assert!(media.findings().is_empty() && media.sets().len() == 3);
        assert!(content(&media, media.set(Some(3)).unwrap()).unwrap() == small.contents[1]);
    }
}

#[test]
fn nothing_is_appended_behind_damage() {
    let small = small(true);
    let mut bytes = small.bytes.clone();
    // The magic number of the second trailer.
    bytes[small.records[1].end - 256] ^= 1;
    let path = small.dir.path("bad");
    fs::write(&path, &bytes).unwrap();
    let error = back_up(job(&small.dir.path("a.db")), &[&path]).unwrap_err();
    assert!(matches!(error, RunError::Damaged { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == bytes);
}

/// Returns the offsets of the blocks of a stream's set with several equal blocks.
fn blocks(dir: &Dir, sets: usize) -> (Vec<u8>, Vec<Vec<Range<usize>>>) {
    let bak = dir.path("blocks.bak");
    let bytes: Vec<u8> = (0..4 << 20).map(|n: u32| n.to_le_bytes()[2]).collect();
    for _ in 0..sets {
        let job = BackupJob {
            encryption: encryption(),
            compression: Compression::None,
            mode: Mode::Append,
            ..BackupJob::new(stream(&bytes))
        };
        back_up(job, &[&bak]).unwrap();
    }
    let media = fs::read(&bak).unwrap();
    let stored = (1 << 20) + 16;
    let mut sets = vec![Vec::new()];
    let mut at = 96;
    while at + 64 < media.len() {
        let long = media[at..].starts_with(b"tblk") && media[at + 4] == 0;
        if long {
            sets.last_mut().unwrap().push(at..at + 64 + stored);
            at += 64 + stored;
        } else {
            if media[at..].starts_with(b"tdekend\n") {
                sets.push(Vec::new());
            }
            at += 1;
        }
    }
    sets.pop();
    assert!(sets.iter().all(|blocks| blocks.len() == 4));
    (media, sets)
}

#[test]
fn blocks_that_are_exchanged_repeated_or_of_another_set_are_refused() {
    let dir = Dir::new();
    let (bytes, sets) = blocks(&dir, 2);
    let (first, second) = (&sets[0], &sets[1]);
    let path = dir.path("moved.bak");
    let put = |moves: &[(&Range<usize>, &Range<usize>)]| {
        let mut moved = bytes.clone();
        for (from, to) in moves {
            moved[(*to).clone()].copy_from_slice(&bytes[(*from).clone()]);
        }
        fs::write(&path, moved).unwrap();
        let media = open(&[&path]).unwrap();
        let error = restore_bytes(&media, Some(1)).unwrap_err();
        let report = media.verify(Some(1), Some(&KEY), &Run::default()).unwrap();
        assert!(!report.damages.is_empty());
        let keyless = media.verify(Some(1), None, &Run::default()).unwrap();
        assert!(!keyless.damages.is_empty());
        assert!(restore_bytes(&media, Some(2)).is_ok());
        error
    };
    for error in [
        put(&[(&first[0], &first[1]), (&first[1], &first[0])]),
        put(&[(&first[0], &first[1])]),
        put(&[(&second[2], &first[2])]),
    ] {
        assert!(matches!(error, RunError::Damaged { .. } | RunError::Tampered { .. }), "{error}");
    }
    // With a matching index number the seal is invalid.
    let mut forged = bytes.clone();
    forged[first[1].clone()].copy_from_slice(&bytes[first[0].clone()]);
    forged[first[1].start + 8] = 1;
    fs::write(&path, forged).unwrap();
    assert!(restore_bytes(&open(&[&path]).unwrap(), Some(1)).is_err());
}

#[test]
fn a_set_of_another_media_set_is_not_taken() {
    let (one, two) = (small(true), small(true));
    let mut spliced = one.bytes.clone();
    let range = one.records[2].clone();
    let other = two.records[2].clone();
    spliced.splice(range, two.bytes[other].iter().copied());
    let media = one.open(&spliced).unwrap();
    assert!(!media.findings().is_empty());
    let whole = |set| set < 2;
    assert!(!one.check(&media, &whole, "spliced") || media.sets().len() < 3);
}

#[test]
fn a_missing_middle_set_is_noticed() {
    let small = small(true);
    let mut bytes = small.bytes.clone();
    bytes.drain(small.records[1].clone());
    let media = small.open(&bytes).unwrap();
    let broken = |finding: &Finding| matches!(finding, Finding::BrokenChain { ordinal: 3, .. });
    assert!(media.findings().iter().any(broken), "{:?}", media.findings());
    assert!(content(&media, media.set(Some(1)).unwrap()).unwrap() == small.contents[0]);
}

#[test]
fn what_is_no_media_or_of_the_future_is_told() {
    let small = small(false);
    let error = small.open(b"SQLite format 3\0 and so on").unwrap_err();
    assert!(matches!(error, RunError::NotMedia { .. }), "{error}");
    let error = small.open(b"").unwrap_err();
    assert!(matches!(error, RunError::NotMedia { .. }), "{error}");
    let mut bytes = small.bytes.clone();
    bytes[16] = 6;
    let checksum = tdekit_key_crypto::sha256(&[&bytes[..64]]);
    bytes[64..96].copy_from_slice(&checksum);
    let error = small.open(&bytes).unwrap_err();
    assert!(matches!(error, RunError::FutureVersion { version: 6, .. }), "{error}");
    let db = small.dir.path("a.db");
    for other in [&b"something else"[..], &bytes] {
        let path = small.dir.path("other");
        fs::write(&path, other).unwrap();
        back_up(job(&db), &[&path]).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), other);
    }
    let replace = BackupJob { mode: Mode::Replace, ..job(&db) };
    let before = fs::read(&db).unwrap();
    let error = back_up(replace, &[&db]).unwrap_err();
    assert!(matches!(error, RunError::NotMedia { .. }), "{error}");
    assert!(fs::read(&db).unwrap() == before);
    let missing = open(&[Path::new("/nowhere/x")]).unwrap_err();
    assert!(matches!(missing, RunError::Missing { .. }));
}

#[test]
fn a_mirror_heals_a_damaged_block_and_a_lost_record() {
    let dir = Dir::new();
    let (bytes, sets) = blocks(&dir, 2);
    let (left, right) = (dir.path("left"), dir.path("right"));
    let (mut a, mut b) = (bytes.clone(), bytes.clone());
    a[sets[0][1].start + 1000] ^= 4;
    b[sets[0][2].start + 1000] ^= 4;
    fs::write(&left, &a).unwrap();
    fs::write(&right, &b).unwrap();
    let expected = restore_bytes(&open(&[&dir.path("blocks.bak")]).unwrap(), Some(1)).unwrap();
    let media = open(&[&left, &right]).unwrap();
    assert!(restore_bytes(&media, Some(1)).unwrap() == expected);
    let report = media.verify(Some(1), Some(&KEY), &Run::default()).unwrap();
    assert_eq!((report.healed_blocks, report.damages.len()), (2, 2));
    assert!(restore_bytes(&open(&[&left]).unwrap(), Some(1)).is_err());
    // A header, an index, and a trailer of one mirror.
    let begin = sets[0][0].start - 40;
    let index = sets[0][3].end + 200;
    for at in [begin, index, bytes.len() - 100, bytes.len() - 1] {
        let mut a = bytes.clone();
        a[at] ^= 1;
        fs::write(&left, &a).unwrap();
        fs::write(&right, &bytes).unwrap();
        for paths in [[&left, &right], [&right, &left]] {
            let media = open(&paths.map(|path| path.as_path())).unwrap();
            assert_eq!(media.sets().len(), 2);
            for position in [1, 2] {
                assert!(restore_bytes(&media, Some(position)).unwrap() == expected, "{at}");
            }
        }
    }
}

#[test]
fn one_mirror_s_damaged_media_header_leaves_the_other_readable() {
    let dir = Dir::new();
    let (db, one, two) = (dir.path("a.db"), dir.path("one.bak"), dir.path("two.bak"));
    drop(database(&db, 4096, "delete", 100));
    back_up(job(&db), &[&one, &two]).unwrap();
    let whole = fs::read(&one).unwrap();
    for (at, length) in [(0, whole.len()), (20, whole.len()), (0, 10)] {
        let mut bytes = whole[..length].to_vec();
        if length == whole.len() {
            bytes[at] ^= 1;
        }
        fs::write(&one, &bytes).unwrap();
        for paths in [[one.as_path(), two.as_path()], [two.as_path(), one.as_path()]] {
            let media = open(&paths).unwrap();
            assert_eq!(media.sets().len(), 1);
            let found = media.findings().iter();
            let found = found.filter(|each| matches!(each, Finding::UnreadableFile { .. }));
            assert_eq!(found.count(), 1, "{:?}", media.findings());
            let to = dir.path("to.db");
            restore(&media, None, &to).unwrap();
            assert_eq!(state(&to), state(&db));
            fs::remove_file(&to).unwrap();
            // Nothing is appended beside an unreadable file.
            let refused = back_up(BackupJob { mode: Mode::Append, ..job(&db) }, &paths);
            assert!(refused.is_err());
            assert_eq!(
                (fs::read(&one).unwrap(), fs::read(&two).unwrap()),
                (bytes.clone(), whole.clone())
            );
        }
        assert!(open(&[&one]).is_err());
    }
}
