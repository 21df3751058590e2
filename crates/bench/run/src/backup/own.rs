//! Command lines of our command.

use std::ffi::OsString;
use std::path::Path;

use crate::job::RunSpec;
use crate::key_store::{CERTIFICATE, KeyEnvironment};
use crate::tools::Tools;

/// Returns `tdekit backup` to a new file; `cipher` is none for an unencrypted backup.
pub(crate) fn back_up(
    tools: &Tools,
    keys: &KeyEnvironment,
    paths: (&Path, &Path),
    compression: &str,
    cipher: Option<&str>,
) -> RunSpec {
    let mut spec = command(tools, keys, "backup", paths);
    let cipher_or_none = cipher.unwrap_or("none");
    let words = ["--compression", compression, "--encryption", cipher_or_none];
    spec.arguments.extend(words.map(Into::into));
    if cipher.is_some() {
        spec.arguments.extend(["--certificate", CERTIFICATE].map(Into::into));
    }
    spec
}

/// Returns `tdekit WORD` from one path to another, which does not exist yet.
pub(super) fn command(
    tools: &Tools,
    keys: &KeyEnvironment,
    word: &str,
    (from, to): (&Path, &Path),
) -> RunSpec {
    let arguments: [OsString; 4] = [word.into(), from.into(), "--to".into(), to.into()];
    RunSpec {
        program: tools.tdekit.clone(),
        arguments: arguments.into(),
        environment: keys.clone(),
        drop_cached: Vec::new(),
        output: to.to_owned(),
    }
}
