//! Replays a log and produces the directory that a crash could have left behind.
//!
//! Model of a power cut, after SQLite's own assumptions (atomiccommit.html, PSOW):
//! - synced data is there; bytes outside of a write are never harmed;
//! - each 512-byte sector of a write since the file's last sync, and each truncation, is lost or
//!   kept on its own; one of them may be torn at any word;
//! - if a lost write left a hole below the file's end, the hole reads as zeros or as garbage;
//! - names (creation, deletion) are durable after a sync of the directory; later changes of one
//!   name survive as a prefix, independently of other names except those that a renaming ties to
//!   it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::record::{FileId, Log, Op};
use crate::rng::Rng;

/// Unit in which a disk writes, in bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Granularity of a torn sector, in bytes.
///
/// Memory is moved in words: a tear that loses a single byte, and so perhaps a single bit, would
/// look like a flipped bit.
pub const WORD_BYTES: usize = 8;

/// The effect of a crash on writes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The process died: everything that reached the system is there, and the first `torn_bytes`
    /// bytes of the operation at the cut.
    Kill {
        /// Bytes of the next write that still arrived.
        torn_bytes: u64,
    },
    /// The power failed; `seed` decides which writes without a sync are lost.
    Power {
        /// Selects the pattern; 0 loses everything, 1 keeps everything.
        seed: u64,
        /// The unit in which writes may be lost.
        loss: Loss,
    },
}

/// The parts of a file's unsynced writes that may be lost separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Any sector of any write.
    Sectors,
    /// Only the last writes: the disk keeps their order.
    Tail,
}

/// The files of the directory after a crash.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Content by name.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// True if the crash undid a deletion for which SQLite had not asked for a sync.
    pub deletion_lost: bool,
}

/// The simulated disk at one point of the log.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    inodes: HashMap<FileId, Inode>,
    durable_names: BTreeMap<PathBuf, FileId>,
    pending_names: Vec<Naming>,
    /// Directories that were made since the log began, and the durable ones among them.
    directories: BTreeSet<PathBuf>,
    durable_directories: BTreeSet<PathBuf>,
}

/// A change of one name, or of two at once.
#[derive(Debug, Clone)]
struct Naming {
    path: PathBuf,
    file: Option<FileId>,
    /// The former name of the file, which is tied to this one.
    from: Option<PathBuf>,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: u64, data: Vec<u8> },
    Truncate { size: u64 },
}

impl Disk {
    /// Returns the disk at the start of the log.
    #[must_use]
    pub fn new(log: &Log) -> Self {
        let mut disk = Self::default();
        for (path, id, content) in &log.base {
            let inode =
                Inode { durable: content.clone(), current: content.clone(), pending: Vec::new() };
            disk.inodes.insert(*id, inode);
            disk.durable_names.insert(path.clone(), *id);
        }
        disk
    }

    /// Applies one operation.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { file, path } => {
                self.inodes.insert(*file, Inode::default());
                self.name(path, Some(*file), None);
            }
            Op::Write { file, offset, data } => {
                self.change(*file, Change::Write { offset: *offset, data: data.clone() });
            }
            Op::Truncate { file, size } => self.change(*file, Change::Truncate { size: *size }),
            Op::Sync { file, directory } => {
                if let Some(inode) = self.inodes.get_mut(file) {
                    inode.durable.clone_from(&inode.current);
                    inode.pending.clear();
                }
                if *directory {
                    self.sync_names(None);
                }
            }
            Op::SyncDirectory { path } => self.sync_names(Some(path)),
            Op::Rename { file, from, to } => self.name(to, Some(*file), Some(from.clone())),
            Op::MakeDirectory { path } => drop(self.directories.insert(path.clone())),
            Op::Delete { path, directory, .. } => {
                self.name(path, None, None);
                if *directory {
                    self.sync_names(None);
                }
            }
            Op::Begin(_) | Op::Acked(_) => {}
        }
    }

    /// Returns the directory after a crash just before, or within, `next`.
    #[must_use]
    pub fn crash(&self, cut: Cut, next: Option<&Op>) -> State {
        match cut {
            Cut::Kill { torn_bytes } => self.killed(torn_bytes, next),
            Cut::Power { seed, loss } => self.power_cut(seed, loss, next),
        }
    }

    fn change(&mut self, file: FileId, change: Change) {
        let inode = self.inodes.entry(file).or_default();
        change.apply(&mut inode.current);
        inode.pending.push(change);
    }

    fn name(&mut self, path: &Path, file: Option<FileId>, from: Option<PathBuf>) {
        self.pending_names.push(Naming { path: path.to_owned(), file, from });
    }

    /// Makes the names in one directory durable, or all names.
    fn sync_names(&mut self, directory: Option<&Path>) {
        let within =
            |path: &Path| directory.is_none_or(|directory| path.parent() == Some(directory));
        let pending = std::mem::take(&mut self.pending_names);
        // A renaming between two directories is durable once either of them is.
        let (synced, rest) = pending
            .into_iter()
            .partition(|naming| within(&naming.path) || naming.from.as_deref().is_some_and(within));
        self.pending_names = rest;
        for naming in &synced {
            naming.apply(&mut self.durable_names);
        }
        let made = self.directories.iter().filter(|path| within(path));
        self.durable_directories.extend(made.cloned());
    }

    fn killed(&self, torn_bytes: u64, next: Option<&Op>) -> State {
        let mut names = self.durable_names.clone();
        for naming in &self.pending_names {
            naming.apply(&mut names);
        }
        let mut state = State::default();
        for (path, file) in names {
            let mut content = self.inodes.get(&file).map_or(Vec::new(), |i| i.current.clone());
            if let Some(Op::Write { file: torn, offset, data }) = next
                && *torn == file
            {
                let len = usize::try_from(torn_bytes).unwrap_or(usize::MAX).min(data.len());
                write_at(&mut content, *offset, &data[..len]);
            }
            state.files.insert(path, content);
        }
        state
    }

    fn power_cut(&self, seed: u64, loss: Loss, next: Option<&Op>) -> State {
        let mut rng = Rng::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let luck = Luck::of(seed, loss, &mut rng);
        let (names, deletion_lost) = self.surviving_names(&luck, &mut rng);
        let mut state = State { deletion_lost, ..State::default() };
        for (path, file) in names {
            let Some(inode) = self.inodes.get(&file) else { continue };
            let mut pending: Vec<&Change> = inode.pending.iter().collect();
            let in_flight = match next {
                Some(Op::Write { file: id, offset, data }) if *id == file => {
                    Some(Change::Write { offset: *offset, data: data.clone() })
                }
                _ => None,
            };
            pending.extend(in_flight.as_ref());
            state.files.insert(path, luck.survivors(&inode.durable, &pending, &mut rng));
        }
        state
    }

    /// Returns the names after a power cut, and whether a deletion was undone. Each name keeps a
    /// prefix of its own changes, and of those of the names that renamings tie to it.
    fn surviving_names(&self, luck: &Luck, rng: &mut Rng) -> (BTreeMap<PathBuf, FileId>, bool) {
        let mut of: BTreeMap<&Path, &Path> = BTreeMap::new();
        for naming in &self.pending_names {
            let first = naming.from.as_deref().unwrap_or(&naming.path);
            let group = of.get(first).copied().unwrap_or(first);
            let joined = of.insert(&naming.path, group);
            of.insert(first, group);
            if let Some(joined) = joined.filter(|joined| *joined != group) {
                of.values_mut().filter(|other| **other == joined).for_each(|other| *other = group);
            }
        }
        let mut groups: BTreeMap<&Path, Vec<&Naming>> = BTreeMap::new();
        for naming in &self.pending_names {
            groups.entry(of[naming.path.as_path()]).or_default().push(naming);
        }
        let mut names = self.durable_names.clone();
        let mut deletion_lost = false;
        for changes in groups.into_values() {
            let kept = luck.prefix(changes.len(), rng);
            deletion_lost |= changes[kept..].iter().any(|naming| naming.file.is_none());
            for naming in &changes[..kept] {
                naming.apply(&mut names);
            }
        }
        let mut lost = self.directories.difference(&self.durable_directories).cloned().collect();
        let lost: &mut Vec<PathBuf> = &mut lost;
        lost.retain(|_| luck.prefix(1, rng) == 0);
        names.retain(|path, _| !lost.iter().any(|directory| path.starts_with(directory)));
        (names, deletion_lost)
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        set_name(names, self.path.clone(), self.file);
    }
}

/// The share of unsynced writes that survives a power cut.
#[derive(Debug)]
struct Luck {
    kept_percent: u64,
    garbage_in_holes: bool,
    loss: Loss,
    /// Lose (or keep) exactly one piece, for `kept_percent` 100 (or 0).
    odd_one_out: bool,
}

impl Luck {
    fn of(seed: u64, loss: Loss, rng: &mut Rng) -> Self {
        let (kept_percent, odd_one_out) = match seed {
            0 => (0, false),
            1 => (100, false),
            _ => *rng
                .pick(&[(10, false), (50, false), (90, false), (0, true), (100, true)])
                .unwrap_or(&(50, false)),
        };
        let garbage_in_holes = seed > 1 && rng.percent(50);
        Self { kept_percent, garbage_in_holes, loss, odd_one_out }
    }

    fn prefix(&self, len: usize, rng: &mut Rng) -> usize {
        match self.kept_percent {
            0 => 0,
            100 => len,
            _ => rng.below(len + 1),
        }
    }

    /// Returns the content of a file whose writes `pending` were not synced.
    fn survivors(&self, durable: &[u8], pending: &[&Change], rng: &mut Rng) -> Vec<u8> {
        let pieces = sectors(pending);
        let odd = self.odd_one_out.then(|| rng.below(pieces.len()));
        let end = self.prefix(pieces.len(), rng);
        let torn = match self.loss {
            Loss::Sectors => rng.percent(30).then(|| rng.below(pieces.len())),
            Loss::Tail => end.checked_sub(1),
        };
        let mut content = durable.to_vec();
        let mut written: Vec<(usize, usize)> = vec![(0, content.len())];
        for (index, piece) in pieces.iter().enumerate() {
            let kept = match self.loss {
                Loss::Sectors => rng.percent(self.kept_percent) != (odd == Some(index)),
                Loss::Tail => index < end,
            };
            match piece {
                _ if !kept => {}
                Change::Truncate { size } => {
                    piece.apply(&mut content);
                    let size = usize::try_from(*size).unwrap_or(usize::MAX);
                    for range in &mut written {
                        range.1 = range.1.min(size);
                    }
                }
                Change::Write { offset, data } => {
                    let len = if torn == Some(index) {
                        WORD_BYTES * rng.below(data.len() / WORD_BYTES + 1)
                    } else {
                        data.len()
                    };
                    let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                    write_at(&mut content, *offset, &data[..len]);
                    written.push((start, start.saturating_add(len)));
                }
            }
        }
        if self.garbage_in_holes {
            fill_holes(&mut content, written, rng);
        }
        content
    }
}

/// Splits writes at sector boundaries of the file.
fn sectors(changes: &[&Change]) -> Vec<Change> {
    let mut pieces = Vec::new();
    for change in changes {
        let Change::Write { offset, data } = change else {
            pieces.push((*change).clone());
            continue;
        };
        let (mut offset, mut rest) = (*offset, data.as_slice());
        while !rest.is_empty() {
            let room = usize::try_from(SECTOR_BYTES - offset % SECTOR_BYTES).unwrap_or(1);
            let (piece, tail) = rest.split_at(room.min(rest.len()));
            pieces.push(Change::Write { offset, data: piece.to_vec() });
            offset += piece.len() as u64;
            rest = tail;
        }
    }
    pieces
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => write_at(content, *offset, data),
            Self::Truncate { size } => {
                content.resize(usize::try_from(*size).unwrap_or(content.len()), 0);
            }
        }
    }
}

fn write_at(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let Ok(start) = usize::try_from(offset) else { return };
    if data.is_empty() {
        return;
    }
    let end = start.saturating_add(data.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(data);
}

/// Fills bytes that were never written with garbage: a disk may show old sectors there.
fn fill_holes(content: &mut [u8], mut written: Vec<(usize, usize)>, rng: &mut Rng) {
    written.sort_unstable();
    let mut at = 0;
    for (start, end) in written.into_iter().chain([(content.len(), content.len())]) {
        if let Some(hole) = content.get_mut(at..start) {
            hole.copy_from_slice(&rng.bytes(hole.len()));
        }
        at = at.max(end);
    }
}

fn set_name(names: &mut BTreeMap<PathBuf, FileId>, path: PathBuf, file: Option<FileId>) {
    match file {
        Some(file) => names.insert(path, file),
        None => names.remove(&path),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: FileId, offset: u64, data: &[u8]) -> Op {
        Op::Write { file, offset, data: data.to_vec() }
    }

    fn disk(ops: &[Op]) -> Disk {
        let mut disk = Disk::default();
        ops.iter().for_each(|op| disk.apply(op));
        disk
    }

    fn power(disk: &Disk, seed: u64) -> State {
        disk.crash(Cut::Power { seed, loss: Loss::Sectors }, None)
    }

    fn create(file: FileId, name: &str) -> Op {
        Op::Create { file, path: name.into() }
    }

    #[test]
    fn what_was_synced_survives_every_cut() {
        let sync = Op::Sync { file: 1, directory: true };
        let disk = disk(&[create(1, "a"), write(1, 0, &[7; 2000]), sync, write(1, 512, &[9; 100])]);
        let mut changed = 0;
        for seed in 0..200 {
            let state = power(&disk, seed);
            let content = &state.files[&PathBuf::from("a")];
            assert_eq!(content.len(), 2000);
            let untouched = content[..512].iter().chain(&content[612..]);
            assert!(untouched.into_iter().all(|&b| b == 7));
            changed += u32::from(content[512] == 9);
        }
        assert!((20..180).contains(&changed), "{changed}");
    }

    #[test]
    fn without_a_sync_everything_may_go_and_a_kill_keeps_all() {
        let disk = disk(&[create(1, "a"), write(1, 0, &[7; 2000])]);
        assert!(power(&disk, 0).files.is_empty());
        assert_eq!(power(&disk, 1).files.len(), 1);
        let next = write(1, 2000, &[8; 10]);
        let state = disk.crash(Cut::Kill { torn_bytes: 3 }, Some(&next));
        let content = &state.files[&PathBuf::from("a")];
        assert_eq!((content.len(), &content[1999..]), (2003, &[7, 8, 8, 8][..]));
    }

    #[test]
    fn a_deletion_is_durable_with_its_directory_only() {
        let start = [create(1, "a"), Op::Sync { file: 1, directory: true }];
        for (directory, lost) in [(false, true), (true, false)] {
            let mut disk = disk(&start);
            disk.apply(&Op::Delete { file: 1, path: "a".into(), directory });
            let state = power(&disk, 0);
            assert_eq!((state.files.len(), state.deletion_lost), (usize::from(lost), lost));
        }
    }

    #[test]
    fn the_tail_is_lost_in_order() {
        let mut ops = vec![create(1, "a"), Op::Sync { file: 1, directory: true }];
        ops.extend((0..8).map(|n| write(1, n * 512, &[1; 512])));
        let disk = disk(&ops);
        for seed in 0..100 {
            let state = disk.crash(Cut::Power { seed, loss: Loss::Tail }, None);
            let content = &state.files[&PathBuf::from("a")];
            assert!(content.iter().all(|&b| b == 1), "seed {seed}");
        }
    }
}
