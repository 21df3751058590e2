//! `tdekit mariadb binlog`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mariadb::{Keyring, binlog};
use tdekit_mariadb_admin::{MariadbError, decrypt_to_file};

use crate::error::CommandError;

/// Arguments of `mariadb binlog`.
#[derive(Debug, Args)]
pub(crate) struct BinlogArgs {
    /// The binary log or relay log
    file: PathBuf,
    /// File to write, which must not exist [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes a binary log in the clear.
pub(crate) fn run(args: &BinlogArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let keyring = Keyring::of(store).map_err(MariadbError::from)?;
    let input =
        File::open(&args.file).map_err(|source| CommandError::io("open", &args.file, source))?;
    let mut input = BufReader::new(input);
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(io::stdout().lock());
        let read = binlog::decrypt(&mut input, &mut out, &keyring);
        // All complete data before an error is useful.
        out.flush()?;
        return Ok(read.map(drop).map_err(MariadbError::from)?);
    };
    let summary = decrypt_to_file(&mut input, path, &keyring)?;
    let how = match summary.key_version {
        Some(version) => format!("decrypted, from version {version} of key 1"),
        None => "which was plain already".to_owned(),
    };
    Ok(output::line(format_args!("{}: {} events, {how}", path.display(), summary.events))?)
}
