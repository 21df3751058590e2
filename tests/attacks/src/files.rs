//! Attacks on encrypted databases, on the key store, and by planted files.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::attack::{Attack, Outcome, damaged};
use crate::place::{CERTIFICATE, Place};

/// The key store's file.
const KEY_STORE: &str = "keystore.tdk";
/// The page size of the attacked databases, and the length before their first page.
const PAGE: usize = 4096;
const HEADER_AREA: usize = 16 * 1024;

/// Attacks on an encrypted database: the result must be the right rows, or an error.
///
/// # Errors
/// If the databases cannot be created.
pub(crate) fn database(place: &Place) -> Result<Vec<Attack<'_>>> {
    let rows = place.make_database("db.db", 1, 300)?;
    place.encrypt("db.db", &rows)?;
    let others = place.make_database("other.db", 2, 300)?;
    place.encrypt("other.db", &others)?;
    let bytes = place.bytes("db.db")?;
    let other = place.bytes("other.db")?;
    let pages = (bytes.len() - HEADER_AREA) / PAGE;
    ensure!(pages > 8 && other.len() == bytes.len(), "databases of another shape");
    let judged = {
        let rows = rows.clone();
        move |damaged: Vec<u8>| read(place, &damaged, &rows)
    };
    let page = |at: usize| HEADER_AREA + at * PAGE..HEADER_AREA + (at + 1) * PAGE;
    let (original, swapped, read_pages) = (bytes.clone(), bytes.clone(), judged.clone());
    let decrypted = bytes;
    Ok(vec![
        Attack::new("database: bytes changed, cut, repeated, moved", move |rng| {
            judged(damaged(rng, &original))
        }),
        Attack::new("database: pages swapped, or taken from another", move |rng| {
            let mut bytes = swapped.clone();
            let [one, two] = [page(rng.usize(..pages)), page(rng.usize(..pages))];
            let from = if rng.bool() { &swapped } else { &other };
            bytes[one.clone()].copy_from_slice(&from[two.clone()]);
            bytes[two].copy_from_slice(&from[one]);
            read_pages(bytes)
        }),
        Attack::new("database: damaged, then decrypted by the command", move |rng| {
            let bytes = damaged(rng, &decrypted);
            place.lay(&[("d.db", &bytes)], &[])?;
            let ended = place.tdekit(&["decrypt", "d.db"])?;
            if ended.has_crashed() {
                return Ok(Outcome::Wrong(format!("died: {ended:?}")));
            }
            if !ended.is_ok() {
                let is_kept = place.bytes("d.db")? == bytes;
                return Ok(match is_kept {
                    true => Outcome::Refused,
                    false => Outcome::Wrong("a refused decrypt changed the file".to_owned()),
                });
            }
            Ok(match place.rows("d.db", false)? {
                Some(read) if read == rows => Outcome::Right,
                _ => Outcome::Wrong("decrypt gave other rows".to_owned()),
            })
        }),
    ])
}

fn read(place: &Place, bytes: &[u8], rows: &str) -> Result<Outcome> {
    place.lay(&[("d.db", bytes)], &["d.db-wal", "d.db-journal", "d.db-shm"])?;
    Ok(match place.rows("d.db", true)? {
        Some(read) if read == rows => Outcome::Right,
        Some(read) => Outcome::Wrong(format!("{} bytes of other rows", read.len())),
        None => Outcome::Refused,
    })
}

/// Attacks on the key store's files: the result must be the same keys, or an error.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn key_store(place: &Place) -> Result<Attack<'_>> {
    let rows = place.make_database("ks.db", 1, 50)?;
    place.encrypt("ks.db", &rows)?;
    let path = place.home().join(KEY_STORE);
    let bytes = fs::read(&path).context("read the key store")?;
    Ok(Attack::new("key store: bytes changed, cut, repeated, moved", move |rng| {
        fs::write(&path, damaged(rng, &bytes))?;
        let list = place.tdekit(&["cert", "list", "--json"]);
        let read = place.rows("ks.db", true);
        fs::write(&path, &bytes)?;
        let (list, read) = (list?, read?);
        if list.has_crashed() {
            return Ok(Outcome::Wrong(format!("died: {list:?}")));
        }
        Ok(match read {
            Some(read) if read == rows => Outcome::Right,
            Some(_) => Outcome::Wrong("other rows".to_owned()),
            None => Outcome::Refused,
        })
    }))
}

/// Names that work files have had; a planted file of another user is not modified and receives no
/// data.
const PLANTED: [&str; 8] =
    [".tdekit-new", ".tdekit-stage", ".plain", "-journal.new", ".tmp", ".new", ".part", "~"];

/// Files, links and pipes at the names of work files.
///
/// # Errors
/// If the database cannot be created.
pub(crate) fn work_files(place: &Place) -> Result<Attack<'_>> {
    let rows = place.make_database("w0.db", 1, 50)?;
    let plain = place.bytes("w0.db")?;
    Ok(Attack::new("files, links and pipes at the names of work files", move |rng| {
        let plants: Vec<_> = PLANTED.iter().map(|end| format!("w.db{end}")).collect();
        let mut absent: Vec<_> = plants.iter().map(String::as_str).collect();
        absent.extend(["w.db", "w.bak", "w.bak.tdekit-new", "victim"]);
        place.lay(&[], &absent)?;
        place.lay(&[("w.db", &plain), ("victim", b"the victim's")], &[])?;
        let kind = rng.u8(..3);
        let plants = plants.iter().map(String::as_str).chain(["w.bak.tdekit-new"]);
        for name in plants.clone() {
            let path = place.path(name);
            match kind {
                0 => fs::write(&path, "the victim's")?,
                1 => symlink(place.path("victim"), &path)?,
                _ => ensure!(Command::new("mkfifo").arg(&path).status()?.success(), "mkfifo"),
            }
        }
        let mut encrypted = false;
        let steps = [
            &["encrypt", "w.db", "--certificate", CERTIFICATE][..],
            &["backup", "w.db", "--to", "w.bak", "--certificate", CERTIFICATE],
            &["restore", "w.bak", "--to", "w.db", "--replace"],
            &["decrypt", "w.db"],
        ];
        for step in steps {
            let ended = place.tdekit(step)?;
            if ended.has_crashed() {
                return Ok(Outcome::Wrong(format!("{}: died: {ended:?}", step[0])));
            }
            if ended.is_ok() {
                encrypted = match step[0] {
                    "encrypt" => true,
                    "decrypt" => false,
                    _ => encrypted,
                };
            }
            for name in plants.clone().chain(["victim"]) {
                let path = place.path(name);
                if kind == 2 && name != "victim" {
                    continue;
                }
                if fs::read(&path).ok().as_deref() != Some(b"the victim's") {
                    return Ok(Outcome::Wrong(format!("{}: wrote through {name}", step[0])));
                }
            }
        }
        Ok(match place.rows("w.db", encrypted)? {
            Some(read) if read == rows => Outcome::Right,
            _ => Outcome::Wrong("the database has other rows".to_owned()),
        })
    }))
}
