//! What a directory lies on: its file system, its block device, and what encrypts it below the
//! files, as far as a user without rights may see.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::read;

/// Devices below a device at most, such as a partition below LUKS below a logical volume.
const DEEPEST: usize = 8;
/// The default cipher of dm-crypt and fscrypt.
const XTS: &str = "xts(aes)";

/// What a directory lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Type of the file system.
    pub file_system: String,
    /// Its block device, and those below; none for a file system without one.
    pub device: Option<String>,
    /// What encrypts its files, if that can be seen. A disk, a host or ZFS may do so unseen.
    pub sealing: Option<Sealing>,
}

/// A way to encrypt below the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealing {
    /// The kernel's dm-crypt, with the format of its header, such as `LUKS2`.
    DmCrypt(String),
    /// The kernel's fscrypt.
    Fscrypt,
    /// A process that serves a file system, by the file system's name.
    Process(String),
}

/// File systems in a process of their own that encrypt.
const PROCESSES: [&str; 5] = ["gocryptfs", "encfs", "cryfs", "securefs", "cryptomator"];

impl Storage {
    /// Returns what `path` lies on; none if the system does not tell.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let mounts = read("/proc/self/mountinfo")?;
        let mount = mount_of(&mounts, &path)?;
        let chain = device(&mount).map(|device| chain(&device)).unwrap_or_default();
        let sealing =
            mount.sealing(&chain).or_else(|| is_fscrypt(&path).then_some(Sealing::Fscrypt));
        Some(Self {
            file_system: mount.kind.to_owned(),
            device: (!chain.is_empty()).then(|| told(&chain)),
            sealing,
        })
    }
}

/// Returns the type of the file system of `path`.
#[must_use]
pub fn file_system(path: &Path) -> Option<String> {
    Storage::of(path).map(|found| found.file_system)
}

impl Sealing {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::DmCrypt(format) if format.is_empty() => "dm-crypt".to_owned(),
            Self::DmCrypt(format) => format!("dm-crypt ({format})"),
            Self::Fscrypt => "fscrypt".to_owned(),
            Self::Process(name) => format!("{name}, a process of its own"),
        }
    }

    /// Returns the kernel's driver for AES-XTS if the kernel encrypts, by `/proc/crypto`.
    #[must_use]
    pub fn driver(&self) -> Option<String> {
        match self {
            Self::DmCrypt(_) | Self::Fscrypt => driver_in(&read("/proc/crypto")?, XTS),
            Self::Process(_) => None,
        }
    }
}

/// A line of `mountinfo`: proc_pid_mountinfo(5).
struct Mount<'a> {
    point: String,
    numbers: &'a str,
    kind: &'a str,
    source: String,
}

impl Mount<'_> {
    fn sealing(&self, chain: &[Device]) -> Option<Sealing> {
        let name = self.kind.strip_prefix("fuse.").filter(|name| PROCESSES.contains(name));
        let of_kernel = chain.iter().find_map(|device| device.crypt_format());
        name.map(|name| Sealing::Process(name.to_owned())).or(of_kernel.map(Sealing::DmCrypt))
    }
}

/// Looks `path` up: the longest mount point above it, the last of equal ones, since that is the
/// topmost.
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<Mount<'a>> {
    let parse = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split_whitespace();
        let numbers = left.nth(2)?;
        let point = unescaped(left.nth(1)?);
        let mut right = right.split_whitespace();
        let (kind, source) = (right.next()?, unescaped(right.next().unwrap_or_default()));
        path.starts_with(&point).then_some(Mount { point, numbers, kind, source })
    };
    mounts.lines().filter_map(parse).max_by_key(|mount| mount.point.len())
}

fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// A block device, by the kernel's name.
struct Device {
    kernel: String,
    /// Name and identity by the device mapper.
    mapped: Option<(String, String)>,
}

impl Device {
    /// Returns the format of a device of dm-crypt: cryptsetup names it in the identity.
    fn crypt_format(&self) -> Option<String> {
        let (_, identity) = self.mapped.as_ref()?;
        let format = identity.strip_prefix("CRYPT-")?;
        Some(format.split('-').next().unwrap_or_default().to_owned())
    }
}

/// Returns the directory of a mount's block device under `/sys`. A file system with several devices
/// has numbers of its own, and names one of them as its source.
fn device(mount: &Mount<'_>) -> Option<PathBuf> {
    let of = |numbers: &str| Path::new("/sys/dev/block").join(numbers).canonicalize().ok();
    of(mount.numbers).or_else(|| {
        let name = Path::new(&mount.source).canonicalize().ok()?;
        let name = name.strip_prefix("/dev").ok()?;
        Path::new("/sys/class/block").join(name.file_name()?).canonicalize().ok()
    })
}

/// Returns a device and those below it, the first of several.
fn chain(device: &Path) -> Vec<Device> {
    let mut found = Vec::new();
    let mut next = Some(device.to_owned());
    while let Some(path) = next.filter(|_| found.len() < DEEPEST) {
        let line = |name: &str| {
            let text = std::fs::read_to_string(path.join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        let kernel = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mapped = line("dm/name").map(|name| (name, line("dm/uuid").unwrap_or_default()));
        found.push(Device { kernel, mapped });
        let mut below: Vec<PathBuf> = std::fs::read_dir(path.join("slaves"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.path().canonicalize().ok())
            .collect();
        below.sort();
        next = below.into_iter().next();
    }
    found
}

fn told(chain: &[Device]) -> String {
    let name = |device: &Device| match &device.mapped {
        Some((name, identity)) => {
            let kind = match device.crypt_format() {
                Some(format) => format,
                None => identity.split('-').next().unwrap_or_default().to_owned(),
            };
            let kind = if kind.is_empty() { kind } else { format!(" ({kind})") };
            format!("{name}{kind}")
        }
        None => device.kernel.clone(),
    };
    chain.iter().map(name).collect::<Vec<_>>().join(" on ")
}

/// Returns true for a directory of fscrypt.
fn is_fscrypt(path: &Path) -> bool {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::ENCRYPTED))
}

/// Returns the driver that the kernel takes for an algorithm: that of the highest priority.
fn driver_in(text: &str, algorithm: &str) -> Option<String> {
    let field = |block: &str, name: &str| {
        let of = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        block.lines().find_map(of)
    };
    text.split("\n\n")
        .filter(|block| field(block, "name").as_deref() == Some(algorithm))
        .filter_map(|block| {
            let priority: i64 = field(block, "priority")?.parse().ok()?;
            Some((priority, field(block, "driver")?))
        })
        .max_by_key(|(priority, _)| *priority)
        .map(|(_, driver)| driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        23 22 0:5 / /tmp rw shared:3 - tmpfs tmpfs rw\n\
        24 22 0:6 / /tmp/with\\040space rw - xfs /dev/b rw\n\
        25 22 0:7 / /tmpfoo rw - btrfs /dev/c rw\n\
        26 22 0:8 / /vault rw - fuse.gocryptfs /sealed rw\n";

    #[test]
    fn the_longest_mount_point_wins() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap().kind;
        assert_eq!(of("/home/x"), "ext4");
        assert_eq!(of("/tmp/y"), "tmpfs");
        assert_eq!(of("/tmp/with space/z"), "xfs");
    }

    #[test]
    fn what_encrypts_is_named() {
        let device = |kernel: &str, mapped: Option<(&str, &str)>| Device {
            kernel: kernel.to_owned(),
            mapped: mapped.map(|(name, identity)| (name.to_owned(), identity.to_owned())),
        };
        let chain = [
            device("dm-1", Some(("vg-data", "LVM-abc"))),
            device("dm-0", Some(("vault", "CRYPT-LUKS2-1234-vault"))),
            device("sda2", None),
        ];
        assert_eq!(told(&chain), "vg-data (LVM) on vault (LUKS2) on sda2");
        let mount = |path| mount_of(MOUNTS, Path::new(path)).unwrap();
        let sealing = mount("/home").sealing(&chain).unwrap();
        assert_eq!(sealing.name(), "dm-crypt (LUKS2)");
        assert_eq!(mount("/home").sealing(&chain[2..]), None);
        let process = mount("/vault/db").sealing(&[]).unwrap();
        assert_eq!(process.name(), "gocryptfs, a process of its own");
        assert_eq!(process.driver(), None);
    }

    #[test]
    fn the_driver_of_the_highest_priority_is_the_kernels() {
        let text = "name         : xts(aes)\ndriver       : xts(ecb(aes-generic))\n\
                    priority     : 100\n\nname         : xts(aes)\n\
                    driver       : xts-aes-vaes-avx2\npriority     : 600\n\n\
                    name         : ecb(aes)\ndriver       : other\npriority     : 900\n";
        assert_eq!(driver_in(text, XTS).as_deref(), Some("xts-aes-vaes-avx2"));
        let (slow, _) = text.split_once("\n\n").unwrap();
        assert_eq!(driver_in(slow, XTS).as_deref(), Some("xts(ecb(aes-generic))"));
        assert_eq!(driver_in("", XTS), None);
    }

    #[test]
    fn this_machine_tells() {
        let found = Storage::of(Path::new("/dev/shm")).unwrap();
        assert_eq!((found.file_system.as_str(), found.sealing), ("tmpfs", None));
        assert_eq!(Storage::of(Path::new("/not there")), None);
    }
}
