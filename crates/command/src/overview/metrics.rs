//! The overview in the text format of Prometheus, for node_exporter's textfile collector.
//!
//! Source: Prometheus, "Exposition formats", text format 0.0.4.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tdekit_key_store::{is_side, replace_with_mode};

use super::estate::{Estate, Row, State};
use crate::error::CommandError;

/// Beginning of each file of metrics.
pub(crate) const BEGIN: &str = "# HELP tdekit_database_encrypted ";

/// A value of a row; `None` if it is not known, and then there is no line.
type Value = fn(&Row) -> Option<i64>;

const METRICS: [(&str, &str, Value); 8] = [
    ("tdekit_database_encrypted", "Whether the database is encrypted.", |row| {
        Some((row.state == State::Encrypted).into())
    }),
    ("tdekit_database_level", "0 in order, 1 something is due, 2 in danger.", |row| {
        Some(row.level as i64)
    }),
    ("tdekit_database_key_age_seconds", "Age of the key in force.", |row| row.key_age_s),
    (
        "tdekit_database_last_backup_timestamp_seconds",
        "When the newest backup in the history was finished.",
        |row| row.last_backup.as_ref().map(|backup| backup.at),
    ),
    (
        "tdekit_database_last_verify_timestamp_seconds",
        "When a backup was last read whole with its key.",
        |row| row.last_verify_at,
    ),
    (
        "tdekit_database_last_restore_test_timestamp_seconds",
        "When a backup was last restored on trial.",
        |row| row.last_restore_test_at,
    ),
    ("tdekit_database_verify_ok", "Whether the last such reading found no damage.", |row| {
        row.verify_ok.map(i64::from)
    }),
    (
        "tdekit_database_last_examined_timestamp_seconds",
        "When `tdekit doctor` last examined the database.",
        |row| row.last_examined_at,
    ),
];

/// Returns the metrics of an estate.
pub(crate) fn of(estate: &Estate) -> String {
    let mut out = String::new();
    for (name, help, value) in METRICS {
        head(&mut out, name, help);
        for row in &estate.databases {
            let Some(value) = value(row) else { continue };
            let path = label(&row.path);
            let _ = writeln!(out, "{name}{{path=\"{path}\"}} {value}");
        }
    }
    let name = "tdekit_certificate_not_after_timestamp_seconds";
    head(&mut out, name, "When the certificate ends.");
    for certificate in &estate.certificates {
        let own = label(certificate.name.as_ref());
        let thumbprint = label(certificate.thumbprint.as_ref());
        let end = certificate.not_after;
        let _ = writeln!(out, "{name}{{name=\"{own}\",thumbprint=\"{thumbprint}\"}} {end}");
    }
    let name = "tdekit_mariadb_last_verify_timestamp_seconds";
    head(&mut out, name, "When the files of the server were last verified.");
    for server in &estate.servers {
        let (Some(data), Some(at)) = (&server.data, server.last_verify_at) else { continue };
        let _ = writeln!(out, "{name}{{data=\"{}\"}} {at}", label(data.as_ref()));
    }
    let name = "tdekit_mariadb_level";
    head(&mut out, name, "0 in order, 1 something is due, 2 in danger.");
    for server in &estate.servers {
        let data = label(server.data.as_deref().unwrap_or_default().as_ref());
        let _ = writeln!(out, "{name}{{data=\"{data}\"}} {}", server.level as i64);
    }
    for (name, help, value) in [
        ("tdekit_overview_timestamp_seconds", "When this was written.", estate.at),
        (
            "tdekit_overview_unread",
            "Places that could not be looked at.",
            i64::try_from(unread(estate)).unwrap_or(i64::MAX),
        ),
    ] {
        head(&mut out, name, help);
        let _ = writeln!(out, "{name} {value}");
    }
    out
}

/// Writes text that begins with `begin` to standard output, or in place of what an earlier run
/// wrote to a file: at once or not at all.
///
/// # Errors
/// `Usage` for a file that begins otherwise, `Io`.
pub(crate) fn publish(output: Option<&Path>, begin: &str, text: &str) -> Result<(), CommandError> {
    match output {
        Some(path) => {
            refuse_other(path, begin)?;
            Ok(replace_with_mode(path, text.as_bytes(), 0o644)?)
        }
        None => Ok(std::io::stdout().write_all(text.as_bytes())?),
    }
}

/// Refuses to replace anything but the output of an earlier run.
fn refuse_other(path: &Path, begin: &str) -> Result<(), CommandError> {
    if is_side(path) {
        return Err(CommandError::usage(format!(
            "{} has a name that SQLite gives to a file of the database beside it, and deletes",
            path.display()
        )));
    }
    let own = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CommandError::io("examine", path.to_owned(), error)),
        Ok(facts) if !facts.is_file() => false,
        Ok(_) => {
            let file = tdekit_key_store::open_ordinary(path);
            let mut file =
                file.map_err(|error| CommandError::io("read", path.to_owned(), error))?;
            let mut found = vec![0; begin.len()];
            file.read_exact(&mut found).is_ok() && found == begin.as_bytes()
        }
    };
    match own {
        true => Ok(()),
        false => Err(CommandError::usage(format!(
            "{} is not what an earlier run wrote: name another file, or remove it",
            path.display()
        ))),
    }
}

fn unread(estate: &Estate) -> usize {
    let rows = estate.databases.iter().filter(|row| row.state == State::Unreadable).count();
    rows + estate.not_looked_at.len()
}

/// Writes what a metric is.
pub(crate) fn head(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// Escapes a label's value: backslash, quote and line feed. Other control characters and bytes that
/// are not UTF-8 are represented by escapes, so that two names are never the same label.
pub(crate) fn label(text: &Path) -> String {
    let mut out = String::new();
    for chunk in text.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c if c.is_control() => {
                    let _ = write!(out, "\\\\u{{{:x}}}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn labels_are_escaped_and_differ() {
        let of = |bytes: &[u8]| label(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(of(b"a\\b\"c\nd\x1be"), r#"a\\b\"c\nd\\u{1b}e"#);
        assert_eq!(of(b"\xff.db"), r"\\xff.db");
        assert_ne!(of(b"\xff.db"), of(b"\xfe.db"));
    }
}
