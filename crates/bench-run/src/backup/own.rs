//! Our command's words.

use std::path::Path;

use crate::job::RunSpec;
use crate::key_store::{CERTIFICATE, KeyEnvironment};
use crate::tools::Tools;

/// `tdekit backup` to a file that is not there yet; `cipher` none for a backup in the clear.
pub(crate) fn back_up(
    tools: &Tools,
    keys: &KeyEnvironment,
    (source, target): (&Path, &Path),
    compression: &str,
    cipher: Option<&str>,
) -> RunSpec {
    let mut arguments = vec!["backup".into(), source.into(), "--to".into(), target.into()];
    arguments.extend(["--compression", compression, "--encryption"].map(Into::into));
    arguments.push(cipher.unwrap_or("none").into());
    if cipher.is_some() {
        arguments.extend(["--certificate", CERTIFICATE].map(Into::into));
    }
    RunSpec {
        program: tools.tdekit.clone(),
        arguments,
        environment: keys.clone(),
        drop_cached: Vec::new(),
        output: target.to_owned(),
    }
}

/// `tdekit restore` to a file that is not there yet.
pub(super) fn restore(
    tools: &Tools,
    keys: &KeyEnvironment,
    (backup, target): (&Path, &Path),
) -> RunSpec {
    RunSpec {
        program: tools.tdekit.clone(),
        arguments: vec!["restore".into(), backup.into(), "--to".into(), target.into()],
        environment: keys.clone(),
        drop_cached: Vec::new(),
        output: target.to_owned(),
    }
}
