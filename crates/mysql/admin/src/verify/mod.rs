//! Checks the files of a server: what is encrypted, and what is in the clear though it should not
//! be. It needs no key of the server and opens no page.

mod files;
pub mod format;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_key_store::KeyStore;

use self::files::{Files, find};
use self::format::{
    BINARY_LOG_HEAD, BinaryLog, Page, REDO_BLOCK, REDO_HEADER_BLOCKS, SMALLEST_PAGE, Space,
    is_redo_header, redo_master_key,
};
use crate::error::{MysqlError, failed};

/// Pages in the clear of one file that are named.
const MAX_NAMED: usize = 10;
/// Longest list of logs that is read.
const MAX_INDEX_BYTES: u64 = 1 << 20;

/// The report of a check.
#[derive(Debug, Default, Serialize)]
pub struct Checked {
    /// The data directory.
    pub data_directory: String,
    /// True if there is no finding.
    pub clean: bool,
    /// The files, by name.
    pub files: Vec<CheckedFile>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What was not checked, one sentence each.
    pub not_checked: Vec<String>,
}

/// A file of the server.
#[derive(Debug, Serialize)]
pub struct CheckedFile {
    /// Its path below the data directory.
    pub file: String,
    /// `tablespace`, `redo log`, `spare redo log`, `binary log`, `doublewrite`.
    pub kind: &'static str,
    /// True if its header says that it is encrypted.
    pub encrypted: bool,
    /// The master key that it needs.
    pub master_key: Option<String>,
    /// Number of encrypted pages, or blocks of the redo log.
    pub pages_encrypted: u64,
    /// Number of those in the clear, without headers, which always are.
    pub pages_in_the_clear: u64,
    /// Number of those that were never written.
    pub pages_empty: u64,
}

/// A fault, or something in the clear.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The file, below the data directory.
    pub file: String,
    /// `plain`: nothing of the file is encrypted. `clear`: some of it is in the clear. `key`: its
    /// key is missing. `damaged`: it cannot be what its name says.
    pub what: &'static str,
    /// The same in words.
    pub message: String,
}

/// What a check accepts, and where it looks for keys.
#[derive(Debug, Default)]
pub struct Verify<'a> {
    /// Accept files of which nothing is encrypted.
    pub allow_plain: bool,
    /// The directory of the redo log, if it is outside the data directory.
    pub redo: Option<&'a Path>,
    /// The key store, in which the master keys are looked for by name.
    pub store: Option<&'a KeyStore>,
}

/// Checks the files in a data directory. The server should be stopped: a running one has pages in
/// memory that it has not written yet.
///
/// # Errors
/// `NoData`; `Io` for a directory or file that cannot be read; errors of the key store.
pub fn verify(data: &Path, how: &Verify<'_>) -> Result<Checked, MysqlError> {
    let mut found = find(data)?;
    if let Some(redo) = how.redo {
        let Files { redo, spare_redo, .. } = find(redo)?;
        found.redo.extend(redo);
        found.spare_redo.extend(spare_redo);
    }
    if found.tablespaces.is_empty() {
        return Err(MysqlError::NoData { path: data.to_owned() });
    }
    let (spaces, report) = (BTreeMap::new(), Checked::default());
    let mut check = Check { data, how, spaces, is_redo_encrypted: false, report };
    check.report.data_directory = data.display().to_string();
    found.tablespaces.iter().try_for_each(|path| check.tablespace(path))?;
    found.redo.iter().try_for_each(|path| check.redo(path))?;
    found.spare_redo.iter().try_for_each(|path| check.spare_redo(path))?;
    found.doublewrite.iter().try_for_each(|path| check.doublewrite(path))?;
    found.logs.iter().try_for_each(|path| check.binary_log(path))?;
    check.keys()?;
    check.missing(&found);
    check.left_out(&found);
    let mut report = check.report;
    report.clean = report.findings.is_empty();
    Ok(report)
}

/// A check in progress.
struct Check<'a> {
    data: &'a Path,
    how: &'a Verify<'a>,
    /// Whether the tablespace of each number is encrypted.
    spaces: BTreeMap<u32, bool>,
    is_redo_encrypted: bool,
    report: Checked,
}

impl Check<'_> {
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.data).unwrap_or(path).display().to_string()
    }

    fn finding(&mut self, path: &Path, what: &'static str, message: impl Into<String>) {
        let file = self.name(path);
        self.report.findings.push(Finding { file, what, message: message.into() });
    }

    fn tablespace(&mut self, path: &Path) -> Result<(), MysqlError> {
        let mut file = File::open(path).map_err(failed("open", path))?;
        let mut first = vec![0; SMALLEST_PAGE];
        let len = fill(&mut file, &mut first, path)?;
        let Some(space) = Space::read(&first).filter(|_| len == first.len()) else {
            self.finding(path, "damaged", "it does not begin like a tablespace");
            return Ok(());
        };
        first.resize(space.page_size, 0);
        fill(&mut file, &mut first[SMALLEST_PAGE..], path)?;
        let space = Space::read(&first).unwrap_or(space);
        self.spaces.insert(space.id, space.is_encrypted);
        let mut tally = Tally::default();
        each(&mut file, path, space.page_size, |page| tally.take(1, Page::of(page)))?;
        let bytes = file.metadata().map_err(failed("read", path))?.len();
        let there = bytes / space.page_size as u64;
        if there < u64::from(space.pages) {
            let message = format!("{there} of its {} pages are there", space.pages);
            self.finding(path, "damaged", message);
        }
        let (is_encrypted, key) = (space.is_encrypted, space.master_key);
        match (is_encrypted, &key) {
            (true, None) => {
                self.finding(path, "key", "its header says that it is encrypted, and has no key");
            }
            (true, Some(_)) if tally.clear > 0 => {
                let message = tally.words("page", "page");
                self.finding(path, "clear", message);
            }
            (false, _) if tally.encrypted > 0 => {
                let message = format!(
                    "its header says that it is in the clear, and {} of its pages are encrypted",
                    tally.encrypted
                );
                self.finding(path, "key", message);
            }
            (false, _) if !self.how.allow_plain => {
                self.finding(path, "plain", "the tablespace is not encrypted");
            }
            _ => {}
        }
        self.list(path, ("tablespace", is_encrypted, key), &tally);
        Ok(())
    }

    /// The redo log: a header, then blocks.
    fn redo(&mut self, path: &Path) -> Result<(), MysqlError> {
        let mut file = File::open(path).map_err(failed("open", path))?;
        let mut header = vec![0; REDO_BLOCK * REDO_HEADER_BLOCKS];
        if fill(&mut file, &mut header, path)? < header.len() {
            self.finding(path, "damaged", "it ends within the header of a redo log");
        } else if !is_redo_header(&header) {
            self.finding(path, "damaged", "it does not begin like a redo log");
        }
        let mut tally = Tally::default();
        let seen = |block: &[u8]| tally.take(REDO_HEADER_BLOCKS as u64, Page::of_redo_block(block));
        each(&mut file, path, REDO_BLOCK, seen)?;
        if tally.clear > 0 && (tally.encrypted > 0 || !self.how.allow_plain) {
            let message = match tally.encrypted {
                0 => "the redo log is not encrypted".to_owned(),
                _ => tally.words("block", "block of the redo log"),
            };
            let what = if tally.encrypted > 0 { "clear" } else { "plain" };
            self.finding(path, what, message);
        }
        let key = redo_master_key(&header).filter(|_| tally.encrypted > 0);
        if key.is_none() && tally.encrypted > 0 {
            self.finding(path, "key", "its blocks are encrypted, and its header has no key");
        }
        self.is_redo_encrypted |= tally.encrypted > 0;
        self.list(path, ("redo log", tally.encrypted > 0, key), &tally);
        Ok(())
    }

    /// A spare file of the redo log keeps its old blocks, behind its old header, until the server
    /// writes over them.
    fn spare_redo(&mut self, path: &Path) -> Result<(), MysqlError> {
        let mut file = File::open(path).map_err(failed("open", path))?;
        fill(&mut file, &mut [0; REDO_BLOCK * REDO_HEADER_BLOCKS], path)?;
        let mut tally = Tally::default();
        each(&mut file, path, REDO_BLOCK, |block| tally.take(0, Page::of_redo_block(block)))?;
        if tally.clear > 0 && (self.is_redo_encrypted || !self.how.allow_plain) {
            let message = format!("{} old blocks of the redo log are in the clear", tally.clear);
            self.finding(path, "clear", message);
        }
        self.list(path, ("spare redo log", tally.encrypted > 0, None), &tally);
        Ok(())
    }

    /// Copies of pages that were about to be written.
    fn doublewrite(&mut self, path: &Path) -> Result<(), MysqlError> {
        let size = files::doublewrite_page_size(path).filter(|size| size.is_power_of_two());
        let Some(size) = size.filter(|size| (SMALLEST_PAGE..=64 * 1024).contains(size)) else {
            let name = self.name(path);
            self.report.not_checked.push(format!("{name}: its name has no page size"));
            return Ok(());
        };
        let mut file = File::open(path).map_err(failed("open", path))?;
        let spaces = &self.spaces;
        let (mut tally, mut at) = (Tally::default(), 0);
        each(&mut file, path, size, |page| {
            let number = |at: usize| page.get(at..at + 4).map(|bytes| bytes.try_into());
            let [space, page_no] = [34, 4].map(|at| match number(at) {
                Some(Ok(bytes)) => u32::from_be_bytes(bytes),
                _ => 0,
            });
            // First pages are in the clear, and so are those of tablespaces in the clear.
            let is_sealed = page_no > 0 && spaces.get(&space) == Some(&true);
            let seen = Page::of(page);
            if is_sealed || seen != Page::Clear {
                tally.take_at(at, seen);
            }
            at += 1;
        })?;
        if tally.clear > 0 {
            let message = tally.words("page", "copy of a page of an encrypted tablespace");
            self.finding(path, "clear", message);
        }
        self.list(path, ("doublewrite", tally.encrypted > 0, None), &tally);
        Ok(())
    }

    fn binary_log(&mut self, path: &Path) -> Result<(), MysqlError> {
        let mut file = File::open(path).map_err(failed("open", path))?;
        let mut head = vec![0; BINARY_LOG_HEAD];
        let len = fill(&mut file, &mut head, path)?;
        let Some(log) = BinaryLog::read(&head[..len]) else {
            self.finding(path, "damaged", "it does not begin like a binary log");
            return Ok(());
        };
        match &log {
            BinaryLog::Clear if self.how.allow_plain => {}
            BinaryLog::Clear => self.finding(path, "plain", "the binary log is not encrypted"),
            BinaryLog::Encrypted(_) if len < head.len() => {
                self.finding(path, "damaged", "it ends within the header of an encrypted log");
            }
            BinaryLog::Encrypted(key) if key.is_empty() => {
                self.finding(path, "key", "its header says that it is encrypted, and has no key");
            }
            BinaryLog::Encrypted(_) => {}
        }
        let key = match log {
            BinaryLog::Encrypted(key) => Some(key),
            BinaryLog::Clear => None,
        };
        self.list(path, ("binary log", key.is_some(), key), &Tally::default());
        Ok(())
    }

    fn list(
        &mut self,
        path: &Path,
        (kind, encrypted, master_key): (&'static str, bool, Option<String>),
        tally: &Tally,
    ) {
        self.report.files.push(CheckedFile {
            file: self.name(path),
            kind,
            encrypted,
            master_key,
            pages_encrypted: tally.encrypted,
            pages_in_the_clear: tally.clear,
            pages_empty: tally.empty,
        });
    }

    /// Looks for the master keys in the key store, in every namespace.
    fn keys(&mut self) -> Result<(), MysqlError> {
        let keyed = self.report.files.iter().filter(|file| file.encrypted);
        let needed: BTreeSet<(String, String)> = keyed
            .filter_map(|file| Some((file.master_key.clone()?, file.file.clone())))
            .filter(|(key, _)| !key.is_empty())
            .collect();
        let Some(store) = self.how.store else {
            if !needed.is_empty() {
                let names: BTreeSet<_> = needed.into_iter().map(|(key, _)| key).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(", ");
                let told = format!("master keys, without a key store: {names}");
                self.report.not_checked.push(told);
            }
            return Ok(());
        };
        let mut known = BTreeSet::new();
        for namespace in store.namespaces()? {
            let keys = store.named_keys(&namespace)?;
            known.extend(keys.iter().flat_map(|keys| keys.iter()).map(|(name, _)| name.id.clone()));
        }
        for (key, file) in needed.into_iter().filter(|(key, _)| !known.contains(key)) {
            let message = format!("it needs {key}, which is not in the key store");
            self.report.findings.push(Finding { file, what: "key", message });
        }
        Ok(())
    }

    /// Finds the redo log missing, and other things under the names of files.
    fn missing(&mut self, found: &Files) {
        for path in &found.not_files {
            self.finding(path, "damaged", "it is not a file");
        }
        let redo = self.data.join("#innodb_redo");
        if found.redo.is_empty() && !found.links.contains(&redo) {
            let message = "no file of the redo log in use is here; --redo-directory names another \
                           place (innodb_log_group_home_dir)";
            self.finding(&redo, "damaged", message);
        }
    }

    /// Returns the logs outside the data directory that an index names.
    fn logs_elsewhere(&self, index: &Path) -> Vec<String> {
        let mut text = Vec::new();
        let read = File::open(index).map(|file| file.take(MAX_INDEX_BYTES).read_to_end(&mut text));
        if !matches!(read, Ok(Ok(_))) {
            return vec![format!("{}: it cannot be read", self.name(index))];
        }
        // The server writes absolute names.
        let data = self.data.canonicalize().unwrap_or_else(|_| self.data.to_owned());
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(Path::new).filter(|line| line.is_absolute());
        let elsewhere =
            lines.filter(|line| !line.starts_with(self.data) && !line.starts_with(&data));
        elsewhere.map(|line| format!("{}: a log elsewhere", line.display())).collect()
    }

    fn left_out(&mut self, found: &Files) {
        let names = |paths: &[PathBuf]| {
            paths.iter().map(|path| self.name(path)).collect::<Vec<_>>().join(", ")
        };
        let mut left = Vec::new();
        if !found.system.is_empty() {
            let names = names(&found.system);
            left.push(format!("{names}: MySQL cannot encrypt the system tablespace"));
        }
        if !found.temporary.is_empty() {
            left.push(format!("{}: temporary tablespaces", names(&found.temporary)));
        }
        if !found.links.is_empty() {
            left.push(format!("{}: links, which are not followed", names(&found.links)));
        }
        left.extend(found.indexes.iter().flat_map(|index| self.logs_elsewhere(index)));
        left.push("whether pages open: no key was used, and MySQL's pages have no seal".to_owned());
        self.report.not_checked.extend(left);
    }
}

/// Counts pages or blocks by what they show.
#[derive(Default)]
struct Tally {
    encrypted: u64,
    clear: u64,
    empty: u64,
    /// Numbers of the first ones in the clear.
    named: Vec<u64>,
    seen: u64,
}

impl Tally {
    /// Counts a page. The first one that is counted has the number `first`.
    fn take(&mut self, first: u64, page: Page) {
        let number = first + self.seen;
        self.seen += 1;
        self.take_at(number, page);
    }

    /// Counts the page with this number.
    fn take_at(&mut self, number: u64, page: Page) {
        match page {
            Page::Encrypted => self.encrypted += 1,
            Page::Empty => self.empty += 1,
            Page::Clear => {
                self.clear += 1;
                if self.named.len() < MAX_NAMED {
                    self.named.push(number);
                }
            }
        }
    }

    fn words(&self, short: &str, long: &str) -> String {
        let numbers: Vec<_> = self.named.iter().map(ToString::to_string).collect();
        let more = if self.clear > numbers.len() as u64 { ", ..." } else { "" };
        let (all, named) = (self.clear + self.encrypted, numbers.join(", "));
        match self.clear {
            1 => format!("1 {long} of {all} is in the clear: {short} {named}"),
            count => format!("{count} of {all} {short}s are in the clear: {short} {named}{more}"),
        }
    }
}

/// Calls `see` with each piece of `len` bytes up to the end of the file; the last one may be
/// shorter.
fn each(
    file: &mut File,
    path: &Path,
    len: usize,
    mut see: impl FnMut(&[u8]),
) -> Result<(), MysqlError> {
    let mut bytes = vec![0; len * (1 << 20 >> len.ilog2()).max(1)];
    loop {
        let filled = fill(file, &mut bytes, path)?;
        bytes[..filled].chunks(len).for_each(&mut see);
        if filled < bytes.len() {
            return Ok(());
        }
    }
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
fn fill(file: &mut File, bytes: &mut [u8], path: &Path) -> Result<usize, MysqlError> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read", path)(error)),
        }
    }
    Ok(filled)
}
