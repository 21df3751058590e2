//! Attacks on media sets: the verdicts of `verify` and `restore` on files that were changed.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tdekit_key_crypto::sha256;

use crate::attack::{Attack, Outcome, damaged};
use crate::place::{CERTIFICATE, Place};

/// The file that `restore` writes in every attempt.
const RESTORED: &str = "restored.db";
/// Lengths in `docs/format/media.md`.
const MEDIA_HEADER: usize = 96;
const TRAILER: usize = 256;

/// Media sets of three days, and the last day's content.
struct Media {
    single: Vec<u8>,
    mirrors: [Vec<u8>; 2],
    /// The mirrors in their state of the day before.
    older_mirror: Vec<u8>,
    stripes: [Vec<u8>; 2],
    older_stripes: [Vec<u8>; 2],
    newest: String,
}

/// Returns the attacks; each has exclusive use of the place while it runs.
///
/// # Errors
/// If the media sets cannot be created.
pub(crate) fn attacks(place: &Place) -> Result<Vec<Attack<'_>>> {
    let media = std::rc::Rc::new(Media::make(place)?);
    let attack = |name, files: fn(&mut Rng, &Media) -> Files| {
        let media = media.clone();
        Attack::new(name, move |rng| judge(place, &files(rng, &media), &[], &media.newest))
    };
    let signed = media.clone();
    Ok(vec![
        attack("media set: bytes changed, cut, repeated, moved", |rng, media| {
            vec![("m.bak", damaged(rng, &media.single))]
        }),
        attack("media set: a bit of a header, index or trailer", |rng, media| {
            vec![("m.bak", structure_bit(rng, &media.single))]
        }),
        attack("media set: whole sets taken out, exchanged, repeated", |rng, media| {
            vec![("m.bak", records_shuffled(rng, &media.single))]
        }),
        attack("media set: headers and trailers forged, checksums made anew", |rng, media| {
            vec![("m.bak", forged(rng, &media.single))]
        }),
        attack("mirrors: one damaged", |rng, media| {
            let [first, second] = &media.mirrors;
            let files = [damaged(rng, first), second.clone()];
            order(rng, files, ["m.bak", "n.bak"])
        }),
        attack("mirrors: one older", |rng, media| {
            let whole = media.mirrors[1].clone();
            order(rng, [media.older_mirror.clone(), whole], ["m.bak", "n.bak"])
        }),
        attack("stripes: one damaged", |rng, media| {
            let mut stripes = media.stripes.clone();
            let at = rng.usize(..2);
            stripes[at] = damaged(rng, &stripes[at]);
            order(rng, stripes, ["m.bak", "n.bak"])
        }),
        attack("stripes: one older", |rng, media| {
            let mut stripes = media.stripes.clone();
            let at = rng.usize(..2);
            stripes[at] = media.older_stripes[at].clone();
            order(rng, stripes, ["m.bak", "n.bak"])
        }),
        Attack::new("mirrors of a signed set: one damaged, `--signed-by` asked for", move |rng| {
            let [first, second] = &signed.mirrors;
            let files = [damaged(rng, first), second.clone()];
            let files = order(rng, files, ["m.bak", "n.bak"]);
            judge(place, &files, &["--signed-by", CERTIFICATE], &signed.newest)
        }),
    ])
}

type Files = Vec<(&'static str, Vec<u8>)>;

fn order(rng: &mut Rng, files: [Vec<u8>; 2], names: [&'static str; 2]) -> Files {
    let mut files: Vec<_> = names.into_iter().zip(files).collect();
    if rng.bool() {
        files.reverse();
    }
    files
}

impl Media {
    fn make(place: &Place) -> Result<Self> {
        let mut media = Self {
            single: Vec::new(),
            mirrors: Default::default(),
            older_mirror: Vec::new(),
            stripes: Default::default(),
            older_stripes: Default::default(),
            newest: String::new(),
        };
        for day in 1..=3 {
            media.older_mirror = media.mirrors[0].clone();
            media.older_stripes = media.stripes.clone();
            media.newest = place.make_database("app.db", day, 400)?;
            for to in [&["m.bak"][..], &["m1.bak", "m2.bak"], &["s1.bak", "s2.bak", "--stripe"]] {
                // Unsigned, because the attacks count records.
                let mut args = vec!["backup", "app.db", "--certificate", CERTIFICATE, "--append"];
                args.push("--no-sign");
                let (files, flags) = to.split_at(to.len().min(2));
                for file in files {
                    args.extend(["--to", file]);
                }
                args.extend(flags);
                place.must(&args)?;
            }
            media.mirrors = [place.bytes("m1.bak")?, place.bytes("m2.bak")?];
            media.stripes = [place.bytes("s1.bak")?, place.bytes("s2.bak")?];
        }
        place.must(
            &["backup", "app.db", "--certificate", CERTIFICATE, "--append", "--sign"]
                .into_iter()
                .chain([CERTIFICATE, "--to", "m1.bak", "--to", "m2.bak"])
                .collect::<Vec<_>>(),
        )?;
        media.single = place.bytes("m.bak")?;
        media.mirrors = [place.bytes("m1.bak")?, place.bytes("m2.bak")?];
        ensure!(records(&media.single).len() == 3, "the media set is not as its format says");
        Ok(media)
    }
}

/// Compares the results of `verify` and `restore` with the newest set's content.
fn judge(
    place: &Place,
    files: &[(&'static str, Vec<u8>)],
    more: &[&str],
    newest: &str,
) -> Result<Outcome> {
    let laid: Vec<_> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    place.lay(&laid, &[RESTORED, "m.bak", "n.bak"])?;
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    let verify = place.tdekit(&[&["verify", "--json"], &names[..], more].concat())?;
    let to = ["--to", RESTORED, "--json"];
    let restore = place.tdekit(&[&["restore"], &names[..], &to, more].concat())?;
    for ended in [&verify, &restore] {
        if ended.has_crashed() {
            return Ok(Outcome::Wrong(format!("died: {ended:?}")));
        }
    }
    if verify.is_ok() && serde_json::from_str::<serde_json::Value>(&verify.stdout).is_err() {
        return Ok(Outcome::Wrong(format!("verify --json prints no JSON: {verify:?}")));
    }
    if restore.is_ok() {
        return Ok(match place.rows(RESTORED, false)? {
            Some(rows) if rows == newest => Outcome::Right,
            Some(_) => Outcome::Wrong("restore gave other data than the newest set's".to_owned()),
            None => Outcome::Wrong("restore gave no database".to_owned()),
        });
    }
    if place.path(RESTORED).exists() {
        return Ok(Outcome::Wrong("a refused restore left a file".to_owned()));
    }
    if verify.is_ok() {
        return Ok(Outcome::Wrong(format!("whole by verify, refused by restore: {restore:?}")));
    }
    Ok(Outcome::Refused)
}

/// Returns the records of a media set, each with the length of its header.
fn records(media: &[u8]) -> Vec<(Range<usize>, usize)> {
    let mut records = Vec::new();
    let mut end = media.len();
    while end > MEDIA_HEADER {
        let Some(length) = end.checked_sub(TRAILER).and_then(|at| number(media, at + 16, 8)) else {
            break;
        };
        let Some(start) = end.checked_sub(length).filter(|start| *start >= MEDIA_HEADER) else {
            break;
        };
        let Some(header) = number(media, start + 8, 4) else { break };
        records.push((start..end, header));
        end = start;
    }
    records.reverse();
    records
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let mut number = [0; 8];
    number[..len].copy_from_slice(bytes.get(at..at + len)?);
    usize::try_from(u64::from_le_bytes(number)).ok()
}

fn structure_bit(rng: &mut Rng, media: &[u8]) -> Vec<u8> {
    let mut changed = media.to_vec();
    let (record, header) = pick(rng, records(media));
    let index = number(media, record.end - TRAILER + 72, 8).unwrap_or(0);
    let places =
        [0..MEDIA_HEADER, record.start..record.start + header, record.start + index..record.end];
    let place = pick(rng, places.to_vec());
    let at = rng.usize(place);
    changed[at] ^= 1 << rng.u8(..8);
    changed
}

fn records_shuffled(rng: &mut Rng, media: &[u8]) -> Vec<u8> {
    let mut records: Vec<_> = records(media).into_iter().map(|(range, _)| range).collect();
    let at = rng.usize(..records.len());
    match rng.u8(..3) {
        // Only the history reveals that the last set was removed.
        0 => drop(records.remove(at)),
        1 => records.swap(at, (at + 1) % 3),
        _ => records.insert(rng.usize(..=records.len()), records[at].clone()),
    }
    let mut changed = media[..MEDIA_HEADER].to_vec();
    for range in &records {
        changed.extend(&media[range.clone()]);
    }
    if rng.bool() { chained_anew(&changed) } else { changed }
}

/// Changes a field of a header or trailer, and corrects every checksum that needs no key.
fn forged(rng: &mut Rng, media: &[u8]) -> Vec<u8> {
    let mut changed = media.to_vec();
    let (record, header) = pick(rng, records(media));
    let fields = [
        record.start + 12..record.start + 16,
        record.start + 80..record.start + 84,
        record.start + 64..record.start + header - 64,
        record.end - TRAILER + 16..record.end - TRAILER + 96,
    ];
    let field = pick(rng, fields.to_vec());
    match rng.bool() {
        true => changed[rng.usize(field)] ^= 1 << rng.u8(..8),
        false => changed[rng.usize(field)] = rng.u8(..4),
    }
    chained_anew(&changed)
}

/// Corrects ordinals, positions, hashes of preceding data and checksums, as anybody can.
fn chained_anew(media: &[u8]) -> Vec<u8> {
    let mut media = media.to_vec();
    let mut previous = sha256(&[&media[..MEDIA_HEADER]]);
    for (ordinal, (range, header)) in (1_u32..).zip(records(&media)) {
        let record = &mut media[range];
        let (Some(sum_at), true) =
            (header.checked_sub(64).filter(|at| *at > 84), header + TRAILER <= record.len())
        else {
            break;
        };
        record[12..16].copy_from_slice(&ordinal.to_le_bytes());
        record[16..48].copy_from_slice(&previous);
        record[80..84].copy_from_slice(&ordinal.to_le_bytes());
        let sum = sha256(&[&record[..sum_at]]);
        record[sum_at..sum_at + 32].copy_from_slice(&sum);
        let header_hash = sha256(&[&record[..header]]);
        let at = record.len() - TRAILER;
        let trailer = &mut record[at..];
        trailer[12..16].copy_from_slice(&ordinal.to_le_bytes());
        trailer[96..128].copy_from_slice(&header_hash);
        let sum = sha256(&[&trailer[..184]]);
        trailer[184..216].copy_from_slice(&sum);
        previous = sha256(&[trailer]);
    }
    media
}

fn pick<T>(rng: &mut Rng, mut from: Vec<T>) -> T {
    from.swap_remove(rng.usize(..from.len()))
}

/// A plain media set, or a plain set after encrypted ones, that is restored to an encrypted
/// database.
///
/// # Errors
/// If the media sets cannot be created.
pub(crate) fn downgrade(place: &Place) -> Result<Attack<'_>> {
    place.make_database("plain.db", 9, 50)?;
    place.must(&["backup", "plain.db", "--to", "plain.bak"])?;
    let rows = place.make_database("kept.db", 1, 50)?;
    place.encrypt("kept.db", &rows)?;
    let encrypted = place.bytes("kept.db")?;
    Ok(Attack::new("a plain media set over an encrypted database", move |rng| {
        place.lay(&[("kept.db", &encrypted)], &[])?;
        let more: &[&str] = if rng.bool() { &["--json"] } else { &[] };
        let replace = ["--replace", "--database", "plain.db"];
        let to = [&["restore", "plain.bak", "--to", "kept.db"][..], &replace].concat();
        let ended = place.tdekit(&[&to[..], more].concat())?;
        let is_kept = place.bytes("kept.db").context("the database")? == encrypted
            && place.rows("kept.db", true)?.as_ref() == Some(&rows);
        Ok(if ended.is_ok() || !is_kept {
            Outcome::Wrong(format!("an encrypted database became plain: {ended:?}"))
        } else {
            Outcome::Refused
        })
    }))
}
