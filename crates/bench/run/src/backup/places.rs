//! Directories on the devices of the matrix. No file system is filled up: free space is checked
//! first, and again before each run.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tdekit_system_use::{file_system, memory_bytes};

use crate::environment::{fits, free_bytes};
use crate::error::{BenchError, Result};
use crate::plan::backup::{BackupPlan, DeviceDirectory};
use crate::plan::each_once;
use crate::private;

/// The second default device.
const SHARED_MEMORY: &str = "/dev/shm";
/// Space that is always left free.
const RESERVE_BYTES: u64 = 64 << 20;

/// A directory of the run on a device.
pub(super) struct Place {
    /// Name given by the user, or `disk` and `memory`.
    pub(super) name: String,
    /// Type of its file system.
    pub(super) file_system: String,
    /// True if databases are read from it, and restored to it.
    pub(super) source: bool,
    /// True if backups are written to it.
    pub(super) target: bool,
    pub(super) directory: private::Directory,
}

impl Place {
    /// Returns its description in a report.
    pub(super) fn words(&self) -> String {
        let part = match (self.source, self.target) {
            (true, true) => "source and target",
            (true, false) => "source",
            _ => "target",
        };
        format!("{}, {part}", self.file_system)
    }
}

/// Returns the names of some places, with their numbers.
pub(super) fn named(places: &[Place], which: impl Fn(&Place) -> bool) -> Vec<(usize, &str)> {
    let places = places.iter().enumerate().filter(|(_, place)| which(place));
    places.map(|(number, place)| (number, place.name.as_str())).collect()
}

/// Returns the number of bytes that a run keeps on a source and on a target: the database and its
/// restored copy; a backup of about its size.
fn needs(database_bytes: u64, source: bool, target: bool, restore: bool) -> u64 {
    let copies = if restore { 2 } else { 1 };
    let of_source = if source { database_bytes.saturating_mul(copies) } else { 0 };
    let of_target = if target { database_bytes.saturating_add(database_bytes / 16) } else { 0 };
    of_source.saturating_add(of_target)
}

/// Creates a directory on each device, after a check of its free space. `work` is the parent of the
/// default device `disk`.
pub(super) fn set_up(
    plan: &BackupPlan,
    work: &Path,
    database_bytes: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<Place>> {
    let (sources, targets) = devices(plan, work, database_bytes, warnings);
    let all = each_once(targets.iter().chain(&sources));
    let rooms: Vec<(&Path, u64)> = all
        .iter()
        .map(|device| {
            let (source, target) = (sources.contains(device), targets.contains(device));
            (device.directory.as_path(), needs(database_bytes, source, target, plan.restore))
        })
        .collect();
    check_room(&rooms)?;
    let place = |device: &DeviceDirectory| {
        Ok(Place {
            name: device.name.clone(),
            file_system: file_system(&device.directory).unwrap_or_else(|| "unknown".to_owned()),
            source: sources.contains(device),
            target: targets.contains(device),
            directory: private::run_directory(&device.directory)?,
        })
    };
    all.into_iter().map(place).collect()
}

/// Returns sources and targets: those named by the user, or the disk and, if it has space, memory.
/// Beside other tools one device is enough.
fn devices(
    plan: &BackupPlan,
    work: &Path,
    database_bytes: u64,
    warnings: &mut Vec<String>,
) -> (Vec<DeviceDirectory>, Vec<DeviceDirectory>) {
    let mut targets = plan.targets.clone();
    if targets.is_empty() {
        targets.push(DeviceDirectory { name: "disk".to_owned(), directory: work.to_owned() });
        let memory = Path::new(SHARED_MEMORY);
        let need = needs(database_bytes, plan.sources.is_empty(), true, plan.restore);
        if plan.peers.is_empty() && file_system(memory).as_deref() == Some("tmpfs") {
            match check_space(memory, need) {
                Ok(()) => targets.push(DeviceDirectory {
                    name: "memory".to_owned(),
                    directory: memory.to_owned(),
                }),
                Err(error) => {
                    warnings.push(format!("Memory was left out as a device: {error}."));
                }
            }
        }
    }
    let sources = if plan.sources.is_empty() { targets.clone() } else { plan.sources.clone() };
    (sources, targets)
}

/// Checks that each file system has space for all directories on it.
fn check_room(rooms: &[(&Path, u64)]) -> Result<()> {
    let mut systems: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (directory, need) in rooms {
        let state =
            std::fs::metadata(directory).map_err(BenchError::file("cannot read", *directory))?;
        let (_, sum) = systems.entry(state.dev()).or_insert((directory, 0));
        *sum = sum.saturating_add(*need);
    }
    systems.into_values().try_for_each(|(directory, need)| check_space(directory, need))
}

/// Fails unless `directory` has space for `needed_bytes` and a reserve. A file system in memory
/// must leave the machine the same amount again.
pub(super) fn check_space(directory: &Path, needed_bytes: u64) -> Result<()> {
    let wanted = needed_bytes.saturating_add(RESERVE_BYTES);
    let mut available_bytes = free_bytes(directory)?;
    if file_system(directory).as_deref() == Some("tmpfs") {
        available_bytes = available_bytes.min(memory_bytes("MemAvailable") / 2);
    }
    fits(directory, wanted, available_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::backup::tests::plan;

    fn device(name: &str, directory: &Path) -> String {
        format!("{name}={}", directory.display())
    }

    #[test]
    fn named_devices_are_sources_and_targets_and_leave_nothing() {
        let one = tempfile::tempdir().unwrap();
        let two = tempfile::tempdir().unwrap();
        let mut warnings = Vec::new();
        let (a, b) = (device("a", one.path()), device("b", two.path()));
        let plan = plan(&["--device", &a, "--device", &b]).unwrap();
        let places = set_up(&plan, Path::new("/"), 1000, &mut warnings).unwrap();
        assert_eq!(named(&places, |place| place.source), [(0, "a"), (1, "b")]);
        assert_eq!(named(&places, |place| place.target), [(0, "a"), (1, "b")]);
        std::fs::write(places[1].directory.path().join("x"), "y").unwrap();
        drop(places);
        assert_eq!(std::fs::read_dir(two.path()).unwrap().count(), 0);
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_source_of_its_own_is_no_target() {
        let one = tempfile::tempdir().unwrap();
        let (a, s) = (device("a", one.path()), device("s", one.path()));
        let plan = plan(&["--device", &a, "--source-device", &s]).unwrap();
        let places = set_up(&plan, Path::new("/"), 1000, &mut Vec::new()).unwrap();
        assert_eq!(named(&places, |place| place.source), [(1, "s")]);
        assert_eq!(named(&places, |place| place.target), [(0, "a")]);
    }

    #[test]
    fn a_device_without_room_is_refused_and_default_memory_left_out() {
        let one = tempfile::tempdir().unwrap();
        let huge = u64::MAX / 8;
        let full = plan(&["--device", &device("a", one.path())]).unwrap();
        let error = set_up(&full, Path::new("/"), huge, &mut Vec::new());
        assert!(matches!(error.err(), Some(BenchError::Space { .. })));
        let mut warnings = Vec::new();
        let (sources, targets) = devices(&plan(&[]).unwrap(), one.path(), huge, &mut warnings);
        assert_eq!((sources.len(), targets.len()), (1, 1));
        assert_eq!(std::fs::read_dir(one.path()).unwrap().count(), 0);
    }

    /// Devices on one file system share its space.
    #[test]
    fn rooms_add_up_on_one_file_system() {
        let one = tempfile::tempdir().unwrap();
        let free = free_bytes(one.path()).unwrap().saturating_sub(RESERVE_BYTES);
        // One device needs slightly more than three times the database.
        let room = (one.path(), needs(free / 5, true, true, true));
        if file_system(one.path()).as_deref() != Some("tmpfs") {
            assert!(check_room(&[room]).is_ok());
        }
        assert!(check_room(&[room, room]).is_err());
    }
}
