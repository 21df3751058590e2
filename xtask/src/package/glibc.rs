//! The minimum version of the C library for a program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::output;

/// Returns the highest version of a glibc symbol that one of `programs` needs, as (major, minor).
///
/// # Errors
/// When a program cannot be read, or needs no symbol.
pub(super) fn needed(programs: &[&Path]) -> Result<(u32, u32)> {
    let mut most = None;
    for program in programs {
        // Unlike objdump, it reads programs of every processor.
        let symbols = output(Command::new("readelf").args(["-W", "--version-info"]).arg(program))?;
        most = most.max(highest(&symbols));
    }
    most.context("no symbol of glibc is needed: not a program of Linux with glibc")
}

fn highest(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (major, minor) = rest[..end].split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::highest;

    #[test]
    fn the_highest_version_counts_by_number() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) free\n0 (GLIBC_2.34) pthread_join\n\
                       0 (GLIBC_2.4)  __stack_chk_fail\n0 (GCC_3.0) _Unwind_Resume";
        assert_eq!(highest(symbols), Some((2, 34)));
        assert_eq!(highest("no version here"), None);
    }
}
