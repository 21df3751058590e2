//! Disk space, checked before the tests begin.
//!
//! A disk that fills up midway fails tests of every kind, without naming the reason: the S3 server
//! answers with status 500, a MariaDB server does not start, a document's command fails.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::statvfs;

use crate::process::target_dir;

const GIB: u64 = 1 << 30;
/// Size of the workspace's test build.
const BUILD_BYTES: u64 = 6 * GIB;
/// Size of the release build, the packages of the clients, and the FIPS build.
const REST_BYTES: u64 = 9 * GIB;
/// Size of databases, media sets and servers while the tests run.
const RUN_BYTES: u64 = 4 * GIB;

/// Checks the space for the builds, unless they exist, and for the tests; `all` means those of
/// `make test-all`.
///
/// # Errors
/// When the target directory's or the temporary directory's file system has less.
pub(crate) fn for_tests(all: bool) -> Result<()> {
    let target = target_dir();
    std::fs::create_dir_all(&target).with_context(|| format!("make {}", target.display()))?;
    let missing = |built: &str, bytes| if target.join(built).is_dir() { 0 } else { bytes };
    let rest = if all { missing("release/deps", REST_BYTES) } else { 0 };
    ask(&target, RUN_BYTES + missing("debug/deps", BUILD_BYTES) + rest)?;
    ask(&std::env::temp_dir(), RUN_BYTES)
}

fn ask(directory: &Path, wanted: u64) -> Result<()> {
    let shown = directory.display();
    let state = statvfs(directory).with_context(|| format!("ask {shown} for its free space"))?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    if free < wanted {
        let [free, wanted] = [free, wanted].map(|bytes| bytes.div_ceil(GIB));
        bail!("{shown} has {free} GiB free: the tests need {wanted}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_told_with_figures() {
        let here = std::env::temp_dir();
        let text = ask(&here, u64::MAX).unwrap_err().to_string();
        let [place, need] = [here.display().to_string(), (u64::MAX / GIB + 1).to_string()];
        assert!(text.starts_with(&place) && text.ends_with(&format!("the tests need {need}")));
        ask(&here, 0).unwrap();
    }
}
