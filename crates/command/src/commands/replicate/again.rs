//! Following a database on, after it was encrypted or decrypted, or got another key: as a new
//! process would.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tdekit_backup_run::archive::{
    ArchiveError, ArchivePlace, Event, Waiting, Why, note_failure, wait_after,
};
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::{RunError, date_of_ms};
use tdekit_console::{ConsoleError, Failure, output};
use tdekit_key_crypto::Kind;

use super::exec::Alarm;
use super::follow::{Begun, Shared, Wanted, follow_to_the_end};
use super::in_use::Programs;
use super::keep;
use crate::error::CommandError;
use crate::progress::stop_flag;

/// Interval at which a database that waits looks whether the process is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Follows the database with this index until the process is told to stop; with `once`, ships what
/// is there. `who` begins what is said of it. A failure is recorded for `status`, and told to the
/// alarm.
///
/// Where the database was encrypted or decrypted, failures to open it then, or its archive, do not
/// end this: it is tried again until the next chain has begun. The same holds where its key became
/// one that was not in the key store yet when that was opened.
pub(super) fn follow(
    wanted: &Wanted,
    which: (usize, bool),
    (shared, who): (&Shared<'_>, &str),
    alarm: &mut Alarm<'_>,
    tell: &mut dyn FnMut(Event),
) -> Result<(), CommandError> {
    keep::beside(wanted, which.1, shared.global, |pruner| {
        let mut heed = |event: Event| {
            pruner.heed(&event);
            tell(event);
        };
        follow_again(wanted, which, (shared, who), alarm, &mut heed)
    })
}

fn follow_again(
    wanted: &Wanted,
    which: (usize, bool),
    (shared, who): (&Shared<'_>, &str),
    alarm: &mut Alarm<'_>,
    tell: &mut dyn FnMut(Event),
) -> Result<(), CommandError> {
    let (mut begun, mut lacks_key, mut failures) = (Begun::default(), false, 0);
    let mut programs = Programs::default();
    loop {
        let mut works = false;
        let mut heed = |event: Event| {
            works |= matches!(event, Event::Log { .. } | Event::Full { .. } | Event::UpToDate);
            alarm.heed(&event);
            tell(event);
        };
        begun.runs = false;
        let done = follow_to_the_end(wanted, which, &mut begun, shared, &mut heed);
        let Err(error) = done else { return Ok(()) };
        if works {
            (lacks_key, failures) = (false, 0);
        }
        if let Some(is_encrypted) = other_form(&error) {
            (begun.due, failures) = (Some(say(who, is_encrypted, begun.due.as_ref())), 0);
            shared.renew_keys();
            continue;
        }
        let is_key = error.kind() == Kind::Key;
        lacks_key |= is_key && begun.runs;
        if is_key {
            shared.renew_keys();
        }
        if is_key && works && !which.1 && !stops() {
            let at = date_of_ms(now_ms());
            output::note(format_args!("{at} {who}{error}: the key store is opened anew"));
            continue;
        }
        note(wanted, &error, alarm);
        let begins = !begun.runs && !which.1 && !stops();
        if begins && programs.are_at(&wanted.database, &error) {
            if programs.are_new() {
                tell(Event::StillOpen);
                report(&error, who, None);
            }
            match programs.wait(wanted) {
                true => continue,
                false => return Err(error),
            }
        }
        let goes_on = begun.due.is_some() || lacks_key;
        if which.1 || !goes_on || is_for_good(&error) || stops() {
            return Err(error);
        }
        let wait = wait_after(failures);
        failures = failures.saturating_add(1);
        report(&error, who, Some(wait));
        if !wait_to_follow(wanted, wait) {
            return Err(error);
        }
        shared.renew_keys();
    }
}

fn other_form(error: &CommandError) -> Option<bool> {
    match error {
        CommandError::Console(ConsoleError::Run(RunError::Archive(ArchiveError::OtherForm {
            is_encrypted,
            ..
        }))) => Some(*is_encrypted),
        _ => None,
    }
}

/// Says that the database was encrypted or decrypted, and returns why the next chain begins. A file
/// that was overwritten, as was `found`, may be another database.
fn say(who: &str, is_encrypted: bool, found: Option<&Why>) -> Why {
    let at = date_of_ms(now_ms());
    let (form, why) = match is_encrypted {
        true => ("encrypted", Why::Encrypted),
        false => ("plain", Why::Decrypted),
    };
    output::note(format_args!("{at} {who}the database is {form} now"));
    found.filter(|found| **found == Why::Overwritten).cloned().unwrap_or(why)
}

/// Records a failure.
fn note(wanted: &Wanted, error: &CommandError, alarm: &mut Alarm<'_>) {
    if stops() || error.kind() == Kind::Busy {
        return;
    }
    let archive = ArchivePlace::of(&wanted.to).recorded();
    note_failure(&wanted.database, &archive, &error.to_string());
    alarm.failed(&error.to_string());
}

/// Prints a failure, and when the next try follows.
pub(super) fn report(error: &CommandError, who: &str, again: Option<Duration>) {
    let (at, said) = (date_of_ms(now_ms()), error.to_string());
    let said = output::single(&said);
    match again {
        Some(wait) => output::note(format_args!(
            "error: {at} {who}{said}; again in {:.1} s",
            wait.as_secs_f64()
        )),
        None => output::note(format_args!("error: {at} {who}{said}")),
    }
    if let Some(hint) = error.hint() {
        output::note(format_args!("hint: {hint}"));
    }
}

pub(super) fn stops() -> bool {
    stop_flag().load(Ordering::Relaxed)
}

/// Returns true if another process ships to the archive: to begin again would be to fight it.
pub(super) fn is_for_good(error: &CommandError) -> bool {
    matches!(
        error,
        CommandError::Console(ConsoleError::Run(RunError::Archive(ArchiveError::Overtaken { .. })))
    )
}

/// Waits between two tries to follow a database, which counts as followed meanwhile; returns false
/// if the process is to end.
pub(super) fn wait_to_follow(wanted: &Wanted, wait: Duration) -> bool {
    let _waiting = Waiting::of(&wanted.database);
    wait_unless_stopped(wait)
}

/// Waits; returns false if the process is to end.
fn wait_unless_stopped(wait: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < wait {
        if stops() {
            return false;
        }
        sleep(LOOK.min(wait));
    }
    !stops()
}
