//! `tdekit mariadb binlog`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tdekit_mariadb::{Keyring, PluginError, binlog};

use crate::cli::GlobalArgs;
use crate::commands::mariadb::BinlogArgs;
use crate::error::CommandError;
use crate::mariadb::error::MariadbError;
use crate::{output, session};

/// Writes a binary log in the clear.
pub(crate) fn binlog(args: &BinlogArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| CommandError::Io { action, path, source }
    };
    let keyring = Keyring::of(session::open_unlocked_store(global)?).map_err(plugin)?;
    let input = File::open(&args.file).map_err(failed("open", &args.file))?;
    let mut input = BufReader::new(input);
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(io::stdout().lock());
        let read = binlog::decrypt(&mut input, &mut out, &keyring);
        // What was whole before an error is worth having.
        out.flush()?;
        return read.map(drop).map_err(plugin);
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut out = BufWriter::new(file.map_err(failed("create", path))?);
    let read = binlog::decrypt(&mut input, &mut out, &keyring);
    out.flush().map_err(failed("write", path))?;
    let summary = read.map_err(plugin)?;
    let how = match summary.key_version {
        Some(version) => format!("decrypted, from version {version} of key 1"),
        None => "which was plain already".to_owned(),
    };
    output::line(format_args!("{}: {} events, {how}", path.display(), summary.events))
}

/// What the plugin's code says, as the command's other parts would say it.
pub(crate) fn plugin(error: PluginError) -> CommandError {
    match error {
        PluginError::Store(error) => error.into(),
        PluginError::Io(error) => error.into(),
        other => MariadbError::from(other).into(),
    }
}
