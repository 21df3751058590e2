//! Binary logs, decrypted to files.

use std::io::{BufWriter, Read, Write};
use std::path::Path;

use tdekit_key_store::Workplace;
use tdekit_mariadb::{Keyring, binlog};

use crate::error::{MariadbError, failed};

/// Writes a binary log in the clear to a new file, which gets its name when it is whole.
///
/// # Errors
/// Errors of the key store for a name in use; those of the plugin's code; `Io`.
pub fn decrypt_to_file(
    input: &mut impl Read,
    path: &Path,
    keyring: &Keyring,
) -> Result<binlog::Summary, MariadbError> {
    let work = Workplace::beside(path)?;
    let file = work.create()?;
    let mut out = BufWriter::new(&file);
    let read = binlog::decrypt(input, &mut out, keyring);
    out.flush().and_then(|()| file.sync_all()).map_err(failed("write", path))?;
    let summary = read?;
    work.publish()?;
    work.sync_name()?;
    Ok(summary)
}
