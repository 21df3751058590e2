//! Attacks on verdicts, guards and recovery: a set based on another, a certificate's files, a
//! change of keys, files that are in the way, a machine without its key store.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::attack::{Attack, Outcome, damaged};
use crate::place::{CERTIFICATE, Ended, Place};

/// Files that a restore must not replace, besides the media set itself.
const IN_THE_WAY: [&str; 4] = ["notes.txt", "other.bak", "home/keystore.tdk", "home/history.db"];

/// Commands, each with a file that is replaced by a pipe.
const BY_A_PIPE: [(&str, &[&str]); 5] = [
    ("home/history.db", &["verify", "set.bak"]),
    ("home/history.db", &["history"]),
    ("home/keystore.tdk", &["key", "status"]),
    ("home/config.toml", &["cert", "create", "Another"]),
    ("home/uses.json", &["cert", "list"]),
];

/// Commands that cannot do what they are asked, each with the word of its error. None needs a
/// secret to know that.
const IN_VAIN: [(&[&str], &str); 5] = [
    (&["status", "nosuch.db"], "nosuch.db"),
    (&["doctor", "nosuch.db"], "nosuch.db"),
    (&["rotate", "nosuch.db"], "nosuch.db"),
    (&["encrypt", "app.db", "--certificate", CERTIFICATE], "encrypted"),
    (&["decrypt", "notes.txt"], "notes.txt"),
];

/// Returns all of them, in one place.
///
/// # Errors
/// If their targets cannot be created.
pub(crate) fn attacks(place: &Place) -> Result<Vec<Attack<'_>>> {
    let rows = place.make_database("app.db", 1, 300)?;
    place.encrypt("app.db", &rows)?;
    let backup = ["backup", "app.db", "--to", "set.bak", "--certificate", CERTIFICATE, "--append"];
    place.must(&backup)?;
    place.must(&[&backup[..], &["--differential"]].concat())?;
    let (media, database) = (place.bytes("set.bak")?, place.bytes("app.db")?);
    place.lay(&[("notes.txt", b"mine"), ("other.bak", &media)], &[])?;
    Ok(vec![
        Attack::new("differential set: damaged, verified by its position", {
            let (media, rows) = (media.clone(), rows.clone());
            move |rng| differential(place, &damaged(rng, &media), &rows)
        }),
        certificate(place)?,
        Attack::new("database: damaged, then its key changed", {
            move |rng| rotated(place, &damaged(rng, &database), &rows)
        }),
        Attack::new("restore --replace over what is not a database", move |rng| {
            place.lay(&[("set.bak", &media)], &[])?;
            over(place, IN_THE_WAY[rng.usize(..IN_THE_WAY.len())])
        }),
        Attack::new("a pipe in the place of a file of ours", move |rng| {
            let (name, words) = BY_A_PIPE[rng.usize(..BY_A_PIPE.len())];
            piped(place, name, words)
        }),
        Attack::new("a command in vain: one error with its cause", move |rng| {
            let (words, cause) = IN_VAIN[rng.usize(..IN_VAIN.len())];
            let mut command = place.command("tdekit");
            let ended = ended(command.env_remove("TDEKIT_PASSWORD"), words)?;
            let errors = ended.stderr.matches("error:").count();
            let told = format!("{}{}", ended.stdout, ended.stderr).contains(cause);
            Ok(match !ended.is_ok() && !ended.has_crashed() && errors == 1 && told {
                true => Outcome::Refused,
                false => Outcome::Wrong(format!("{words:?}: {ended:?}")),
            })
        }),
        Attack::new("an encrypted database where there is no key store", move |rng| {
            let word = ["decrypt", "rotate"][rng.usize(..2)];
            let ended = ended(
                place.command("tdekit").env("TDEKIT_HOME", place.path("nowhere")),
                &[word, "app.db"],
            )?;
            Ok(match !ended.is_ok() && ended.stderr.contains("certificate 0x") {
                true => Outcome::Refused,
                false => Outcome::Wrong(format!("{word}: {ended:?}")),
            })
        }),
    ])
}

fn differential(place: &Place, media: &[u8], rows: &str) -> Result<Outcome> {
    place.lay(&[("d.bak", media)], &["d.db"])?;
    let verified = place.tdekit(&["verify", "d.bak", "--position", "2"])?;
    let words = ["restore", "d.bak", "--position", "2", "--to", "d.db"];
    let restored = place.tdekit(&[&words[..], &["--certificate", CERTIFICATE]].concat())?;
    if verified.has_crashed() || restored.has_crashed() {
        return Ok(Outcome::Wrong(format!("died: {verified:?} {restored:?}")));
    }
    let read = if restored.is_ok() { place.rows("d.db", true)? } else { None };
    Ok(match (verified.is_ok(), read) {
        (_, Some(read)) if read != rows => Outcome::Wrong("restore gave other rows".to_owned()),
        (true, None) => Outcome::Wrong(format!("whole, and not restored: {restored:?}")),
        (true, Some(_)) => Outcome::Right,
        (false, _) => Outcome::Refused,
    })
}

/// Imports a certificate's PEM files, damaged, into a separate key store.
fn certificate(place: &Place) -> Result<Attack<'_>> {
    let password = ("TDEKIT_BACKUP_PASSWORD", "a long enough password");
    let words = ["cert", "backup", CERTIFICATE, "--out", "c.pem", "--key-out", "k.pem"];
    let made = ended(place.command("tdekit").env(password.0, password.1), &words)?;
    ensure!(made.is_ok(), "{made:?}");
    let files = [place.bytes("c.pem")?, place.bytes("k.pem")?];
    let own = place.must(&["cert", "list"])?.stdout;
    Ok(Attack::new("certificate: its files damaged, then restored", move |rng| {
        let mut laid = files.clone();
        let at = rng.usize(..2);
        laid[at] = damaged(rng, &files[at]);
        let home = place.path("elsewhere");
        let _ = fs::remove_dir_all(&home);
        let run = |words: &[&str]| {
            let mut command = place.command("tdekit");
            ended(command.env("TDEKIT_HOME", &home).env(password.0, password.1), words)
        };
        place.lay(&[("d.pem", &laid[0]), ("e.pem", &laid[1])], &[])?;
        let made = run(&["key", "init"])?;
        ensure!(made.is_ok(), "{made:?}");
        let words = ["cert", "restore", CERTIFICATE, "--in", "d.pem", "--key-in", "e.pem"];
        let restored = run(&words)?;
        if restored.has_crashed() {
            return Ok(Outcome::Wrong(format!("died: {restored:?}")));
        }
        // A file with a changed name is reported as signed by another certificate, whose key is not
        // here.
        if !restored.is_ok() || restored.stderr.contains("was not checked") {
            return Ok(Outcome::Refused);
        }
        let thumbprint = |text: &str| {
            let from = text.find("0x").unwrap_or(0);
            text.get(from..from + 42).unwrap_or_default().to_owned()
        };
        let listed = run(&["cert", "list"])?.stdout;
        Ok(match thumbprint(&listed) == thumbprint(&own) {
            true => Outcome::Right,
            false => Outcome::Wrong(format!("another certificate: {listed}")),
        })
    }))
}

fn rotated(place: &Place, database: &[u8], rows: &str) -> Result<Outcome> {
    place.lay(&[("r.db", database)], &["r.db-wal", "r.db-journal", "r.db-shm"])?;
    let ended = place.tdekit(&["rotate", "r.db"])?;
    if ended.has_crashed() {
        return Ok(Outcome::Wrong(format!("died: {ended:?}")));
    }
    let read = place.rows("r.db", true)?;
    Ok(match (ended.is_ok(), read) {
        (_, Some(read)) if read != rows => Outcome::Wrong("other rows".to_owned()),
        (true, None) => Outcome::Wrong("rotated, and it does not open".to_owned()),
        (true, Some(_)) => Outcome::Right,
        (false, _) => Outcome::Refused,
    })
}

fn over(place: &Place, name: &str) -> Result<Outcome> {
    let before = place.bytes(name)?;
    let ended = place.tdekit(&["restore", "set.bak", "--replace", "--to", name])?;
    let kept = place.bytes(name)? == before;
    Ok(match !ended.is_ok() && !ended.has_crashed() && kept {
        true => Outcome::Refused,
        false => Outcome::Wrong(format!("{name}, kept: {kept}: {ended:?}")),
    })
}

/// Refused, or done with a warning: neither needs a history.
fn piped(place: &Place, name: &str, words: &[&str]) -> Result<Outcome> {
    let (path, aside) = (place.path(name), place.path("aside"));
    let was_there = fs::rename(&path, &aside).is_ok();
    let made = Command::new("mkfifo").arg(&path).status().context("start mkfifo")?;
    ensure!(made.success(), "no pipe at {}", path.display());
    let own = place.command("tdekit");
    let mut command = place.command("timeout");
    command.arg("20").arg(own.get_program());
    let ended = ended(&mut command, words)?;
    fs::remove_file(&path).context("remove the pipe")?;
    if was_there {
        fs::rename(&aside, &path).context("put the file back")?;
    }
    let told = ended.stderr.contains("not an ordinary file");
    Ok(match (ended.code, told) {
        (Some(124), _) => Outcome::Wrong(format!("{words:?} waits for {name}")),
        (Some(0), true) => Outcome::Right,
        (Some(1..=100), true) => Outcome::Refused,
        _ => Outcome::Wrong(format!("{name}: {words:?}: {ended:?}")),
    })
}

fn ended(command: &mut Command, words: &[&str]) -> Result<Ended> {
    Ok(command.args(words).output().context("start a program")?.into())
}
