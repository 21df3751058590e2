//! What commands print: lines, tables and JSON on standard output, warnings on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tdekit_key_store::{CertificateInfo, KeyStore};

use crate::error::CommandError;

/// Prints a line on standard output.
pub(crate) fn line(text: impl Display) -> Result<(), CommandError> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    line(text)
}

/// Prints a table with a header.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> Result<(), CommandError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table.add_rows(rows);
    line(table.trim_fmt())
}

/// Prints a warning on standard error.
pub(crate) fn warning(text: impl Display) {
    eprintln!("warning: {text}");
}

/// Warns, in SQL Server's words (message 33091), of a certificate that is in no backup, and names
/// the files that are known to need it.
pub(crate) fn warn_not_backed_up(store: &KeyStore, info: &CertificateInfo) {
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
    // A list that cannot be read must not hide the warning.
    for known in store.uses_of(&info.sha256).unwrap_or_default() {
        eprintln!("  it opens {}", known.path.display());
    }
    eprintln!("hint: tdekit cert backup {:?} --pkcs12 FILE", info.name);
}
