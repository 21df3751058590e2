//! Output of commands: lines, tables and JSON on standard output, warnings on standard error.
//!
//! Names of files and texts of media come from others. None of their control characters reaches the
//! terminal.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tdekit_backup_run::Notice;
use tdekit_key_store::{CertificateInfo, KeyStore, SecretBytes, Use, expires_soon};

use crate::error::ConsoleError;
use crate::hint::notice_hint;
use tdekit_columns::{self as table, Fit, Fitted};

/// True once the reader of standard output has closed it.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output. A reader that has seen enough (`| head`) changes neither the
/// work nor its exit code.
pub fn line(text: impl Display) -> Result<(), ConsoleError> {
    match writeln!(io::stdout().lock(), "{}", printable(&text.to_string())) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            READER_IS_GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => Ok(written?),
    }
}

/// Prints texts of others as one line of standard output, which [`single`] makes of them.
pub fn row(text: impl Display) -> Result<(), ConsoleError> {
    line(single(&text.to_string()))
}

/// Returns true once nobody reads what [`line()`] prints.
#[must_use]
pub fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// Prints a line on standard error, if anybody reads it.
pub fn note(text: impl Display) {
    let _unread = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// Returns the text with control characters escaped, except for line ends and tabs.
fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| format!("\\u{{{:x}}}", u32::from(c)))
}

/// Returns the text as one line that reads as it is written: without line ends, tabs, and
/// characters that change the direction of writing. A name must not look like a separate row.
#[must_use]
pub fn single(text: &str) -> Cow<'_, str> {
    // Marks and embeddings of direction, isolates.
    let turns = |c: char| {
        let ranges = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
        ranges.iter().any(|range| range.contains(&c))
    };
    let is_plain = |c: char| !c.is_control() && !turns(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| match is_plain(c) {
        true => c.to_string(),
        false => format!("\\u{{{:x}}}", u32::from(c)),
    });
    Cow::Owned(shown.collect())
}

/// Returns a path as one word of a shell, as [`shell_word`] does; no program takes it for an
/// option.
#[must_use]
pub fn shell_path(path: &Path) -> String {
    match path.as_os_str().as_bytes().starts_with(b"-") {
        true => shell_word(Path::new(".").join(path)),
        false => shell_word(path),
    }
}

/// Returns a text as one word that a shell reads back as it is: bash, zsh, and others that know
/// `$'..'` (POSIX.1-2024, 2.2.4), which is needed where [`single`] would change the text.
#[must_use]
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(byte);
    match word.as_ref().to_str() {
        Some(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Some(text) if single(text) == text => format!("'{}'", text.replace('\'', "'\\''")),
        _ => {
            let escaped = bytes.iter().map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                // Always three digits: one that follows is not taken for part of the number.
                _ => format!("\\{byte:03o}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_plain(c) {
            true => out.push(c),
            false => out.push_str(&escape(c)),
        }
    }
    Cow::Owned(out)
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<(), ConsoleError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    // JSON allows DEL and the C1 controls in a string unescaped.
    line(escaped(&text, |c| format!("\\u{:04x}", u32::from(c))))
}

/// Prints a table with a header.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> Result<(), ConsoleError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    let cells = |row: Vec<String>| -> Vec<String> {
        row.iter().map(|cell| single(cell).into_owned()).collect()
    };
    table.add_rows(rows.into_iter().map(cells));
    line(table.trim_fmt())
}

/// Prints a table that fits the terminal. Omitted columns are listed on standard error.
pub fn fitted_table(header: &[(&str, Fit)], rows: Vec<Vec<String>>) -> Result<(), ConsoleError> {
    let names: Vec<&str> = header.iter().map(|(name, _)| *name).collect();
    let Some(room) = table::room() else { return table(&names, rows) };
    let clean = |row: Vec<String>| row.iter().map(|cell| single(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(clean).collect();
    let Fitted { columns, rows } = table::fit(header, &rows, room);
    let shown: Vec<&str> = columns.iter().filter_map(|at| names.get(*at).copied()).collect();
    table(&shown, rows)?;
    let left: Vec<&str> = names.iter().filter(|name| !shown.contains(name)).copied().collect();
    if !left.is_empty() {
        note(format_args!("Left out for want of room: {}. --wide shows all.", left.join(", ")));
    }
    Ok(())
}

/// Prints a warning on standard error, as one line.
pub fn warning(text: impl Display) {
    note(format_args!("warning: {}", single(&text.to_string())));
}

/// Prints an engine's notice as a warning on standard error, and a hint if there is one.
pub fn notice(notice: &Notice<'_>) {
    warning(notice);
    if let Some(hint) = notice_hint(notice) {
        note(format_args!("hint: {hint}"));
    }
}

/// Warns of problems with a certificate in use: it is in no backup, or it expires soon.
pub fn warn_of_certificate(store: &KeyStore, info: &CertificateInfo) {
    warn_not_backed_up(store, info);
    if info.active {
        warn_expiring(&info.name, info.not_after);
    }
}

/// Warns, in SQL Server's words (message 33091), of a certificate that is in no backup, and names
/// the files that are known to need it.
fn warn_not_backed_up(store: &KeyStore, info: &CertificateInfo) {
    if !info.needs_backup() {
        return;
    }
    warning(format_args!(
        "The certificate {} used for encrypting the database encryption key has not been backed \
         up. You should immediately back up the certificate and the private key associated with \
         the certificate. If the certificate ever becomes unavailable or if you must restore or \
         attach the database on another server, you must have backups of both the certificate and \
         the private key or you will not be able to open the database.",
        info.name
    ));
    // An unreadable list must not suppress the warning.
    tell_uses(&store.uses_of(&info.sha256).unwrap_or_default());
    note(format_args!("hint: tdekit cert backup {} --pkcs12 FILE", shell_word(&info.name)));
}

/// Lists the files that were recorded last, each path once, and counts the others.
fn tell_uses(uses: &[Use]) {
    const NAMED: usize = 5;
    let mut seen = HashSet::new();
    let newest = uses.iter().rev().filter(|known| seen.insert(&known.path));
    let (missing, there): (Vec<_>, Vec<_>) = newest.partition(|known| known.is_missing());
    for known in there.iter().take(NAMED) {
        note(format_args!("  it opens {}", known.path.display()));
    }
    if there.len() > NAMED {
        let more = there.len() - NAMED;
        note(format_args!("  and {more} more, which `tdekit cert list --json` names"));
    }
    if !missing.is_empty() {
        let count = missing.len();
        note(format_args!("  it opened {count} file(s) that are not where they were"));
    }
}

/// Warns of a certificate that will soon make no new backups and wrap no new keys.
pub fn warn_expiring(name: &str, not_after: i64) {
    if let Some(days) = expires_soon(not_after) {
        notice(&Notice::Expires { name, days, not_after });
    }
}

/// Warns of a password that can be guessed quickly.
pub fn warn_short_password(password: &SecretBytes) {
    const SHORT: usize = 8;
    let characters = std::str::from_utf8(password.expose()).map(|text| text.chars().count());
    let length = characters.unwrap_or(password.expose().len());
    if length < SHORT {
        warning(format_args!(
            "the password has {length} character(s): it is quick to guess for whoever gets the file"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_of_others_is_printed() {
        let told = "a\u{1b}[2J\u{9b}0m\u{7f}\r\n\tü";
        assert_eq!(printable(told), "a\\u{1b}[2J\\u{9b}0m\\u{7f}\\u{d}\n\tü");
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
        assert_eq!(single("a\n✔\t\u{202e}b"), "a\\u{a}✔\\u{9}\\u{202e}b");
        assert!(matches!(single("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_shell_reads_a_path_back_and_no_program_takes_it_for_an_option() {
        use std::ffi::OsStr;
        use std::process::Command;

        assert_eq!(shell_path(Path::new("/srv/a-1.db")), "/srv/a-1.db");
        assert_eq!(shell_path(Path::new("it's ü")), "'it'\\''s ü'");
        let names: [&[u8]; 7] =
            [b"a b", b"$HOME", b"line\n1", b"\xff\x017", b"'\\\t", "\u{202e}x".as_bytes(), b""];
        for name in names {
            let word = shell_path(Path::new(OsStr::from_bytes(name)));
            assert_eq!(single(&word), word);
            let said = Command::new("bash").args(["-c", &format!("printf %s {word}")]).output();
            assert_eq!(said.unwrap().stdout, name, "{word}");
        }
        assert_eq!(shell_path(Path::new("-x.db")), "./-x.db");
        assert_eq!(shell_path(Path::new("- .db")), "'./- .db'");
    }
}
