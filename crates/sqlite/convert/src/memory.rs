//! The memory that this process may still take.

use std::fs;
use std::path::Path;

/// Where the system mounts control groups of version 2.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the bytes that are free, or can be freed without swapping, where the system reports it:
/// those of the machine, or of the process's control groups if these have fewer.
pub(crate) fn available_bytes() -> Option<u64> {
    let facts = fs::read_to_string("/proc/meminfo").ok()?;
    let line = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| left_in_groups(Path::new(GROUPS), &text));
    Some(group.unwrap_or(u64::MAX).min(kib.saturating_mul(1024)))
}

/// Returns the fewest bytes that the control group of this line of `/proc/self/cgroup`, or one that
/// contains it, has left; `None` if none has a limit. Cached files count as taken.
fn left_in_groups(mount: &Path, groups: &str) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |dir: &Path, name: &str| -> Option<u64> {
        fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
    };
    // In a container, the path may be that outside of it.
    let dir = mount.join(group);
    let within = dir.ancestors().take_while(|dir| dir.starts_with(mount));
    let left = within.filter_map(|dir| {
        let most = number(dir, "memory.max")?;
        Some(most.saturating_sub(number(dir, "memory.current").unwrap_or(0)))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_with_the_least_left_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |group: &str, max: &str, current: &str| {
            let dir = mount.path().join(group);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("memory.max"), max).unwrap();
            fs::write(dir.join("memory.current"), current).unwrap();
        };
        let left = || left_in_groups(mount.path(), "4:memory:/other\n0::/a/b\n");
        assert_eq!(left(), None);
        write("a/b", "max\n", "7\n");
        assert_eq!(left(), None);
        write("a", "1000\n", "400\n");
        assert_eq!(left(), Some(600));
        write("a/b", "500\n", "600\n");
        assert_eq!(left(), Some(0));
        // That of another path, as a container sees it.
        write("", "300\n", "100\n");
        assert_eq!(left_in_groups(mount.path(), "0::/outside\n"), Some(200));
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
