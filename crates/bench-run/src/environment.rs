//! The machine, and the file system that holds the copies.

use std::path::Path;

use tdekit_bench_report::Environment;

use crate::error::BenchError;
use crate::measure::{clock_step_ns, field};

/// Describes the machine; fields that the system does not tell are `unknown`.
pub(crate) fn describe(directory: &Path) -> Environment {
    let uname = rustix::system::uname();
    let value = |path: &str, name: &str| {
        let text = read(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.replace([':', '"'], "").trim().to_owned())
    };
    let load =
        read("/proc/loadavg").and_then(|text| text.split_whitespace().next().map(str::to_owned));
    let unknown = || "unknown".to_owned();
    Environment {
        os: value("/etc/os-release", "PRETTY_NAME=").unwrap_or_else(unknown),
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        cpu: value("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cpus: processors() as u64,
        memory_bytes: memory_bytes("MemTotal:"),
        file_system: file_system(directory).unwrap_or_else(unknown),
        load_average: load.unwrap_or_else(unknown),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .map_or_else(unknown, |name| name.trim().to_owned()),
        clock_step_ns: clock_step_ns(),
        instructions: String::new(),
    }
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Type of the file system that holds `path`.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    file_system_in(&read("/proc/self/mountinfo")?, &path.canonicalize().ok()?)
}

/// Looks `path` up in the text of `mountinfo`: the longest mount point above it, the last of equal
/// ones, since that lies on top.
fn file_system_in(mounts: &str, path: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = left.split_whitespace().nth(4)?.replace("\\040", " ");
            let kind = right.split_whitespace().next()?;
            path.starts_with(&point).then(|| (point.len(), kind.to_owned()))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

/// Memory that programs can still take.
pub(crate) fn available_memory_bytes() -> u64 {
    memory_bytes("MemAvailable:")
}

fn memory_bytes(name: &str) -> u64 {
    field(&read("/proc/meminfo").unwrap_or_default(), name).saturating_mul(1024)
}

/// Bytes that this user may still write to the file system of `directory`.
pub(crate) fn free_bytes(directory: &Path) -> Result<u64, BenchError> {
    let state = rustix::fs::statvfs(directory).map_err(|errno| {
        BenchError::file("cannot ask the free space of", directory)(errno.into())
    })?;
    Ok(state.f_bavail.saturating_mul(state.f_frsize))
}

/// Fails unless `directory` has room for `needed_bytes`.
pub(crate) fn check_space(directory: &Path, needed_bytes: u64) -> Result<(), BenchError> {
    let available_bytes = free_bytes(directory)?;
    if available_bytes < needed_bytes {
        return Err(BenchError::Space {
            path: directory.to_owned(),
            needed_bytes,
            available_bytes,
        });
    }
    Ok(())
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "\
            22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            23 22 0:5 / /tmp rw - tmpfs tmpfs rw\n\
            24 22 0:6 / /tmp/with\\040space rw - xfs /dev/b rw\n\
            25 22 0:7 / /tmpfoo rw - btrfs /dev/c rw\n";
        let of = |path: &str| file_system_in(mounts, Path::new(path)).unwrap();
        assert_eq!(of("/home/x"), "ext4");
        assert_eq!(of("/tmp/y"), "tmpfs");
        assert_eq!(of("/tmp/with space/z"), "xfs");
    }

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
