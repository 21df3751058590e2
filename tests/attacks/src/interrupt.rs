//! Commands that are killed, or whose files may not grow: old files are unharmed, new ones are
//! complete or absent.

use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::attack::{Attack, Outcome};
use crate::place::{CERTIFICATE, Place};

/// How a command is stopped.
#[derive(Clone, Copy)]
enum Stop {
    Kill,
    FileSize,
}

/// A command, with the check of the place after it.
struct Ground<'a> {
    place: &'a Place,
    args: &'static [&'static str],
    /// Creates the files for the command.
    lay: Box<dyn Fn() -> Result<()> + 'a>,
    /// Returns what is wrong afterwards; the argument is true if the command exited with 0.
    look: Box<dyn Fn(bool) -> Result<Option<String>> + 'a>,
}

/// Returns the attacks.
///
/// # Errors
/// If their files cannot be created.
pub(crate) fn attacks(place: &Place) -> Result<Vec<Attack<'_>>> {
    let mut attacks = Vec::new();
    let grounds = Rc::new(grounds(place)?);
    for stop in [Stop::Kill, Stop::FileSize] {
        let name = match stop {
            Stop::Kill => "encrypt, decrypt, append, restore, a new certificate: kill -9",
            Stop::FileSize => "encrypt, decrypt, append, restore, a new certificate: no room",
        };
        let grounds = grounds.clone();
        attacks.push(Attack::new(name, move |rng| {
            let ground = &grounds[rng.usize(..grounds.len())];
            (ground.lay)()?;
            let is_ok = match stop {
                Stop::Kill => killed(ground, rng)?,
                Stop::FileSize => without_room(ground, rng)?,
            };
            let is_ok = match is_ok {
                Ok(is_ok) => is_ok,
                Err(died) => return Ok(Outcome::Wrong(format!("{}: {died}", ground.args[0]))),
            };
            Ok(match (ground.look)(is_ok)? {
                Some(wrong) => Outcome::Wrong(format!("{}: {wrong}", ground.args[0])),
                None if is_ok => Outcome::Right,
                None => Outcome::Refused,
            })
        }));
    }
    Ok(attacks)
}

type Died = String;

/// Kills the command after some time; returns whether it had exited with 0 by then.
fn killed(ground: &Ground, rng: &mut Rng) -> Result<Result<bool, Died>> {
    let mut command = ground.place.command("tdekit");
    let mut child = command
        .args(ground.args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start tdekit")?;
    let until = Instant::now() + Duration::from_micros(rng.u64(..60_000));
    while Instant::now() < until && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    // Fails only if it has already ended.
    let _ = child.kill();
    Ok(Ok(child.wait()?.success()))
}

/// Limits the size of files.
fn without_room(ground: &Ground, rng: &mut Rng) -> Result<Result<bool, Died>> {
    let mut inner = ground.place.command("tdekit");
    inner.args(ground.args);
    let mut command = Command::new("prlimit");
    command.arg(format!("--fsize={}", rng.u64(..200_000))).arg(inner.get_program());
    command.args(inner.get_args()).current_dir(ground.place.path("."));
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let output = command.stdin(Stdio::null()).output().context("start prlimit")?;
    Ok(match output.status.code() {
        Some(code @ 0..=100) => Ok(code == 0),
        _ => Err(format!("died: {output:?}")),
    })
}

/// The files of the commands: a database of one day, a later state of it, a backup of the first.
struct Files {
    old: String,
    plain: Vec<u8>,
    encrypted: Vec<u8>,
    new: String,
    newer: Vec<u8>,
    media: Vec<u8>,
}

/// The files that a killed command may leave, and that one attempt leaves to the next.
const LEFT: [&str; 3] = ["i.db-journal", "i.db-wal", "out.db"];

fn grounds(place: &Place) -> Result<Vec<Ground<'_>>> {
    let old = place.make_database("i.db", 1, 300)?;
    let plain = place.bytes("i.db")?;
    place.encrypt("i.db", &old)?;
    let encrypted = place.bytes("i.db")?;
    let new = place.make_database("i2.db", 2, 400)?;
    let newer = place.bytes("i2.db")?;
    // A plain database in the place of an encrypted one is not backed up.
    place.lay(&[("b.db", &plain)], &["i.bak", "j.bak"])?;
    for to in ["i.bak", "j.bak"] {
        place.must(&["backup", "b.db", "--to", to, "--certificate", CERTIFICATE])?;
    }
    let media = place.bytes("i.bak")?;
    let files = Rc::new(Files { old, plain, encrypted, new, newer, media });
    let encrypt: &[&str] = &["encrypt", "i.db", "--certificate", CERTIFICATE];
    Ok(vec![
        conversion(place, encrypt, files.clone(), |files| &files.plain),
        conversion(place, &["decrypt", "i.db"], files.clone(), |files| &files.encrypted),
        append(place, files.clone()),
        restore(place, files),
        certificate(place),
    ])
}

fn one_of(read: Result<String, String>, wanted: &[&str]) -> Option<String> {
    match read {
        Ok(rows) if wanted.contains(&&*rows) => None,
        Ok(_) => Some("other rows".to_owned()),
        Err(said) => Some(format!("the database cannot be read: {said}")),
    }
}

fn conversion<'a>(
    place: &'a Place,
    args: &'static [&'static str],
    files: Rc<Files>,
    before: fn(&Files) -> &Vec<u8>,
) -> Ground<'a> {
    let laid = files.clone();
    Ground {
        place,
        args,
        lay: Box::new(move || place.lay(&[("i.db", before(&laid))], &LEFT)),
        look: Box::new(move |_| {
            let is_plain = place.bytes("i.db")?.starts_with(b"SQLite format 3");
            Ok(one_of(place.read("i.db", !is_plain)?, &[&files.old]))
        }),
    }
}

fn append(place: &Place, files: Rc<Files>) -> Ground<'_> {
    let laid = files.clone();
    Ground {
        place,
        args: &["backup", "b.db", "--to", "i.bak", "--append", "--certificate", CERTIFICATE],
        lay: Box::new(move || place.lay(&[("b.db", &laid.newer), ("i.bak", &laid.media)], &LEFT)),
        look: Box::new(move |is_ok| {
            let to = ["restore", "i.bak", "--to", "out.db", "--latest-readable"];
            let latest = place.tdekit(&to)?;
            if !latest.is_ok() {
                return Ok(Some(format!("the set before is lost: {latest:?}")));
            }
            let rows = place.read("out.db", false)?;
            if is_ok && rows.as_ref() != Ok(&files.new) {
                return Ok(Some("a finished set is not there".to_owned()));
            }
            Ok(one_of(rows, &[&files.old, &files.new]))
        }),
    }
}

/// Of a media set without appended sets: otherwise the history would know of sets that it lacks.
fn restore(place: &Place, files: Rc<Files>) -> Ground<'_> {
    Ground {
        place,
        args: &["restore", "j.bak", "--to", "out.db"],
        lay: Box::new(move || place.lay(&[], &LEFT)),
        look: Box::new(move |is_ok| {
            if !is_ok && !place.path("out.db").exists() {
                return Ok(None);
            }
            Ok(one_of(place.read("out.db", false)?, &[&files.old]))
        }),
    }
}

fn certificate(place: &Place) -> Ground<'_> {
    Ground {
        place,
        args: &["cert", "create", "Another"],
        lay: Box::new(move || {
            // Fails if the last attempt created none.
            place.tdekit(&["cert", "drop", "Another", "--force"]).map(drop)
        }),
        look: Box::new(move |is_ok| {
            let list = place.tdekit(&["cert", "list", "--json"])?;
            if !list.is_ok() || !list.stdout.contains(CERTIFICATE) {
                return Ok(Some(format!("the key store is lost: {list:?}")));
            }
            if is_ok && !list.stdout.contains("Another") {
                return Ok(Some("the new certificate is not there".to_owned()));
            }
            Ok(None)
        }),
    }
}
