//! The machine, and the file system that holds the copies.

use std::path::Path;

use tdekit_bench_report::Environment;
use tdekit_system_use::{clock_step_ns, file_system, line_of, load, memory_bytes};

use crate::error::{BenchError, Result};

/// Describes the machine; fields that the system does not report are `unknown`.
pub(crate) fn describe(directory: &Path) -> Environment {
    let uname = rustix::system::uname();
    let unknown = || "unknown".to_owned();
    Environment {
        os: line_of("/etc/os-release", "PRETTY_NAME=").unwrap_or_else(unknown),
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        cpu: line_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cpus: processors() as u64,
        memory_bytes: memory_bytes("MemTotal"),
        file_system: file_system(directory).unwrap_or_else(unknown),
        load_average: load().map_or_else(unknown, |load| format!("{load:.2}")),
        clock_source: line_of(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "",
        )
        .unwrap_or_else(unknown),
        clock_step_ns: clock_step_ns(),
        instructions: String::new(),
    }
}

/// Returns the number of processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the number of bytes that this user may still write to the file system of `directory`.
pub(crate) fn free_bytes(directory: &Path) -> Result<u64> {
    let state = rustix::fs::statvfs(directory).map_err(|errno| {
        BenchError::file("cannot ask the free space of", directory)(errno.into())
    })?;
    Ok(state.f_bavail.saturating_mul(state.f_frsize))
}

/// Fails unless `directory` has space for `needed_bytes`.
pub(crate) fn check_space(directory: &Path, needed_bytes: u64) -> Result<()> {
    fits(directory, needed_bytes, free_bytes(directory)?)
}

/// Fails unless the available space in `directory` is enough.
pub(crate) fn fits(directory: &Path, needed_bytes: u64, available_bytes: u64) -> Result<()> {
    if available_bytes >= needed_bytes {
        return Ok(());
    }
    Err(BenchError::Space { path: directory.to_owned(), needed_bytes, available_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_checked() {
        let directory = tempfile::tempdir().unwrap();
        check_space(directory.path(), 1).unwrap();
        assert!(matches!(
            check_space(directory.path(), u64::MAX),
            Err(BenchError::Space { needed_bytes: u64::MAX, .. })
        ));
    }

    #[test]
    fn this_machine_is_described() {
        let found = describe(Path::new("/"));
        assert!(found.cpus >= 1 && found.memory_bytes > 0 && found.file_system != "unknown");
    }
}
