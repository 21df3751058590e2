//! Checks one tablespace or table, page by page.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tdekit_key_crypto::random_bytes;
use tdekit_mariadb::binlog::FindKey;
use tdekit_mariadb::datafile::{
    AriaFile, AriaTable, Fault, Layout, LayoutError, MAX_PAGE_LEN, Mode, PageHeader, Seen,
    TRX_SYS_PAGE, TableKeys, Unopened, check,
};
use tdekit_mariadb::{PluginError, SYSTEM_KEY_ID};

use super::files::{self, Left};
use super::pages::{CHUNK_LEN, Pages};
use super::report::{Finding, Tablespace};
use super::trees::{Ground, NO_LOG, Notes, Outcome, Purpose, SAMPLE, What};
use crate::Progress;
use crate::error::{MariadbError, failed};
use crate::redo::{self, Checkpoint};

/// Number of reads, and their interval, of the first page of a file that the server may be making.
const LAYOUT_TRIES: u32 = 20;
const LAYOUT_AGAIN_AFTER: Duration = Duration::from_millis(150);
/// Number of times that a file is checked again because it was replaced during the check.
const FILE_TRIES: u32 = 4;
/// Number of reads of a page that has changed since it was first read.
const PAGE_TRIES: u32 = 4;
/// Reason why a file without a first page is not checked.
const NEW: &str = "it is new: the server has not written its first page yet";
/// Minimum page length, and length of the header with its number and LSN.
const MIN_PAGE_LEN: usize = 1024;
const MAX_PAGE_PLACE: u64 = MAX_PAGE_LEN as u64;
/// Databases whose Aria tables the server itself makes, in the clear.
pub(super) const OWN_DATABASES: [&str; 2] = ["mysql", "sys"];
/// Reason why such a table is not checked.
pub(super) const OWN_TABLE: &str = "it is the server's own, and not encrypted";

/// Options of a check.
pub(super) struct Look<'a> {
    /// `None` to check only checksums.
    pub(super) find_key: Option<FindKey<'a>>,
    /// Number of pages of each file; `None` for all.
    pub(super) sample: Option<u32>,
    /// True if files that are not encrypted at all are accepted.
    pub(super) allow_plain: bool,
    /// True if pages in the clear are accepted that are free according to the allocation map.
    pub(super) allow_unused: bool,
    /// The redo log; `None` not to compare pages with each other.
    pub(super) log: Option<&'a Path>,
    pub(super) progress: &'a dyn Progress,
}

/// Checks a tablespace; `None` if it was dropped in the meantime.
pub(super) fn tablespace(
    look: &Look<'_>,
    paths: &[PathBuf],
) -> Result<Option<Tablespace>, MariadbError> {
    let Some(first) = paths.first() else { return Ok(None) };
    let mut is_second_look = false;
    for tries in 1..=FILE_TRIES {
        // Read before any page: pages that are not newer are in their state at this moment.
        let checkpoint = look.log.and_then(redo::checkpoint);
        let layout = match layout(first, checkpoint) {
            Ok(Ok(layout)) => layout,
            Ok(Err(LayoutError::Empty)) if is_new(first, checkpoint)? => {
                let mut report = named(first, "InnoDB");
                report.not_checked = Some(NEW);
                return Ok(Some(report));
            }
            Ok(Err(error)) => return Ok(Some(unreadable(first, error))),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let pages = match Pages::open(paths, layout.page_len) {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let mut space = Space::new(look, first, layout, &pages, checkpoint)?;
        space.look_at_all()?;
        let found = space.look_at_trees()?;
        let after = read_layout(first).ok().and_then(Result::ok);
        let same = after.is_some_and(|after| {
            let fixed = |layout: &Layout| {
                let crypt = layout.crypt.map(|crypt| (crypt.iv, crypt.key_id, crypt.mode));
                (layout.space, layout.format, layout.page_len, crypt)
            };
            fixed(&after) == fixed(&layout)
        });
        // Findings beside a server that writes are checked a second time.
        let is_doubted = found && !is_second_look && checkpoint.is_some_and(|one| !one.at_rest);
        if (pages.are_current() && same && !is_doubted) || tries == FILE_TRIES {
            return Ok(Some(space.end(after)));
        }
        is_second_look |= is_doubted;
        sleep(LAYOUT_AGAIN_AFTER);
        look.progress.begins_anew(u64::from(pages.count()));
    }
    Ok(None)
}

/// Reads the header of an Aria table; `None` if it was dropped in the meantime, or has none.
pub(super) fn aria_table(index: &Path) -> Result<Option<AriaTable>, MariadbError> {
    match beginning(index) {
        Err(error) if is_missing(&error) => Ok(None),
        header => Ok(AriaTable::parse(&header?)),
    }
}

/// Checks an Aria table; `None` if it was dropped in the meantime.
pub(super) fn aria(look: &Look<'_>, index: &Path) -> Result<Option<Tablespace>, MariadbError> {
    let header = match beginning(index) {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other?,
    };
    let mut report = named(index, "Aria");
    let Some(table) = AriaTable::parse(&header) else {
        report.find(Finding::whole("first-page", "it has no header of an index file of Aria"));
        return Ok(Some(report));
    };
    report.encrypted = table.crypt.is_some();
    let Some((_, iv)) = table.crypt else {
        let database = index.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let own = database.is_some_and(|name| OWN_DATABASES.contains(&name));
        report.not_checked = Some(if own { OWN_TABLE } else { "it is not encrypted" });
        if !own && !look.allow_plain {
            report.find(Finding::whole("not-encrypted", "the table is not encrypted"));
        }
        return Ok(Some(report));
    };
    report.key_id = Some(SYSTEM_KEY_ID);
    let mut keys = look.find_key.map(|find| TableKeys::new(find, SYSTEM_KEY_ID, iv));
    let data = index.with_extension("MAD");
    for (file, path, first) in
        [(AriaFile::Data, data.as_path(), 0), (AriaFile::Index, index, table.first_key_page)]
    {
        let pages = match Pages::open(&[path.to_owned()], table.page_len) {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let before = report.clone();
        aria_file(look, &mut report, &mut keys, &table, file, &pages, first)?;
        if !pages.are_current() {
            report = before;
            report.not_checked = Some("it was made anew meanwhile");
        }
        for finding in &mut report.findings {
            finding.file.get_or_insert_with(|| path.display().to_string());
        }
    }
    Ok(Some(report))
}

fn aria_file(
    look: &Look<'_>,
    report: &mut Tablespace,
    keys: &mut Option<TableKeys<'_>>,
    table: &AriaTable,
    file: AriaFile,
    pages: &Pages,
    first: u32,
) -> Result<(), MariadbError> {
    let count = pages.count();
    report.pages += u64::from(count.saturating_sub(first));
    let (mut numbers, read_len) = chosen(look.sample, first, count)?;
    let mut faults = Vec::new();
    let judge = RefCell::new(|number: u32, page: &[u8]| {
        table.check(file, keys.as_mut(), number, page).map_err(MariadbError::from)
    });
    pages.check(
        &mut numbers,
        read_len,
        &mut |number, page| {
            look.progress.looked_at(1);
            let seen = match (judge.borrow_mut())(number, page)? {
                Ok(Seen::Clear) | Err(_) => return Ok(true),
                Ok(seen) => seen,
            };
            report.pages_checked += 1;
            note(report, seen, true);
            Ok(false)
        },
        &mut |number, page| {
            faults.push(match (judge.borrow_mut())(number, page)? {
                Err(fault) => Finding::of(number, fault),
                Ok(_) => Finding::clear(number, true),
            });
            Ok(())
        },
    )?;
    for fault in faults {
        report.pages_checked += 1;
        report.find(fault);
    }
    Ok(())
}

/// A tablespace being checked.
struct Space<'a> {
    look: &'a Look<'a>,
    layout: Layout,
    pages: &'a Pages,
    keys: Option<TableKeys<'a>>,
    /// The page with the location of the doublewrite buffer; only in the system tablespace.
    trx_sys: Option<Vec<u8>>,
    /// The page of the allocation map that was last read.
    map: Option<(u32, Vec<u8>)>,
    report: Tablespace,
    /// True if the server has made the file but not yet written its first page again.
    is_new: bool,
    /// Number of pages in the clear, allowed or not.
    clear: u64,
    /// The current page, as the server has it in memory.
    opened: Vec<u8>,
    /// The pages, to be compared with each other; or the reason why they are not.
    notes: Result<Notes, Option<&'static str>>,
    purpose: Purpose,
}

/// The verdict on a page.
enum Verdict {
    Doublewrite,
    Right(Seen),
    /// In the clear, which must be reported.
    Clear,
    Wrong(Fault),
}

impl<'a> Space<'a> {
    fn new(
        look: &'a Look<'a>,
        first: &Path,
        layout: Layout,
        pages: &'a Pages,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Self, MariadbError> {
        let mut report = named(first, "InnoDB");
        report.space = Some(layout.space);
        report.pages = u64::from(pages.count());
        let mut keys = None;
        if let Some(crypt) = layout.crypt {
            report.encrypted = crypt.scheme_1 && crypt.mode != Mode::Off;
            report.key_id = Some(crypt.key_id);
            report.min_key_version = Some(crypt.min_key_version);
            keys = look.find_key.map(|find| TableKeys::new(find, crypt.key_id, crypt.iv));
        }
        let is_system = layout.space == 0 && pages.count() > TRX_SYS_PAGE;
        let trx_sys = is_system.then(|| pages.read(TRX_SYS_PAGE)).transpose()?;
        let is_new = layout.crypt.is_none() && layout.lsn == 0;
        let notes = match (look.log, look.sample, checkpoint) {
            (None, ..) => Err(None),
            _ if is_new => Err(None),
            (_, Some(_), _) => Err(Some(SAMPLE)),
            (_, _, None) => Err(Some(NO_LOG)),
            (_, _, Some(checkpoint)) => {
                Notes::new(&layout, pages.count(), checkpoint).map_err(Some)
            }
        };
        let purpose = match layout.space {
            0 => Purpose::System,
            _ if files::is_undo(first) => Purpose::Undo,
            _ => Purpose::Table,
        };
        let (map, clear, opened) = (None, 0, Vec::new());
        Ok(Self {
            look,
            layout,
            pages,
            keys,
            trx_sys,
            map,
            report,
            is_new,
            clear,
            opened,
            notes,
            purpose,
        })
    }

    fn look_at_all(&mut self) -> Result<(), MariadbError> {
        let (mut numbers, read_len) = chosen(self.look.sample, 0, self.pages.count())?;
        let pages = self.pages;
        let cell = RefCell::new(self);
        pages.check(
            &mut numbers,
            read_len,
            &mut |number, page| cell.borrow_mut().looks_wrong(number, page),
            &mut |number, page| cell.borrow_mut().is_wrong(number, page),
        )
    }

    fn looks_wrong(&mut self, number: u32, page: &[u8]) -> Result<bool, MariadbError> {
        self.look.progress.looked_at(1);
        let verdict = self.verdict(number, page)?;
        if let Ok(notes) = &mut self.notes {
            let what = match &verdict {
                Verdict::Doublewrite => What::Copy,
                Verdict::Right(Seen::Empty) => What::Empty,
                Verdict::Right(_) => What::Read,
                Verdict::Clear | Verdict::Wrong(_) => What::Faulty,
            };
            notes.take(number, what, page, &self.opened);
        }
        match verdict {
            Verdict::Clear | Verdict::Wrong(_) => return Ok(true),
            Verdict::Doublewrite => self.report.doublewrite += 1,
            Verdict::Right(seen) => {
                let used = matches!(seen, Seen::Opened { .. } | Seen::Unopened { .. })
                    && self.is_used(number)?;
                self.clear += u64::from(seen == Seen::Clear);
                note(&mut self.report, seen, used);
            }
        }
        self.report.pages_checked += 1;
        Ok(false)
    }

    fn is_wrong(&mut self, number: u32, page: &[u8]) -> Result<(), MariadbError> {
        self.report.pages_checked += 1;
        let finding = match self.verdict(number, page)? {
            Verdict::Wrong(fault) => Finding::of(number, fault),
            _ => {
                self.clear += 1;
                let used = self.is_used(number)?;
                if !used && self.look.allow_unused {
                    self.report.unused_clear += 1;
                    return Ok(());
                }
                Finding::clear(number, used)
            }
        };
        self.report.find(finding);
        Ok(())
    }

    fn verdict(&mut self, number: u32, page: &[u8]) -> Result<Verdict, MariadbError> {
        if let Some(trx_sys) = &self.trx_sys
            && self.layout.is_doublewrite(trx_sys, number)
        {
            return Ok(Verdict::Doublewrite);
        }
        let (layout, keys) = (&self.layout, self.keys.as_mut());
        let verdict =
            check(layout, keys, number, page, &mut self.opened).map_err(MariadbError::from)?;
        Ok(match verdict {
            Ok(Seen::Clear) if self.report.encrypted => Verdict::Clear,
            Ok(seen) => Verdict::Right(seen),
            // Its first page has the encryption data as soon as the server writes it.
            Err(Fault::NoCryptData { version }) if self.is_new => {
                Verdict::Right(Seen::Unopened { version, why: Unopened::NoKeys })
            }
            Err(fault) => Verdict::Wrong(fault),
        })
    }

    fn is_used(&mut self, number: u32) -> Result<bool, MariadbError> {
        let at = self.layout.map_page(number);
        if self.map.as_ref().is_none_or(|(held, _)| *held != at) {
            self.map = Some((at, self.pages.read(at)?));
        }
        Ok(self.map.as_ref().is_none_or(|(_, map)| self.layout.is_used(map, number)))
    }

    /// Compares the pages with each other; returns true if some are inconsistent.
    fn look_at_trees(&mut self) -> Result<bool, MariadbError> {
        let notes = match std::mem::replace(&mut self.notes, Err(None)) {
            Ok(notes) => notes,
            Err(None) => return Ok(false),
            Err(Some(why)) => {
                self.report.trees_not_checked = Outcome::none(why).left;
                return Ok(false);
            }
        };
        let (layout, purpose, newest) = (self.layout, self.purpose, notes.checkpoint.lsn);
        let now = self.look.log.and_then(redo::checkpoint);
        let is_settled = notes.checkpoint.at_rest && now == Some(notes.checkpoint);
        let read = &mut |number| self.read_again(number, newest);
        let mut ground = Ground { layout: &layout, purpose, is_settled, read };
        let outcome = notes.judge(&mut ground)?;
        let found = !outcome.findings.is_empty();
        for finding in outcome.findings {
            self.report.find(finding);
        }
        self.report.trees_checked = outcome.checked;
        self.report.trees_not_checked = outcome.left;
        Ok(found)
    }

    /// Reads a page once more, as the server has it in memory; `None` if it is newer than `newest`
    /// now, or does not open.
    fn read_again(&mut self, number: u32, newest: u64) -> Result<Option<Vec<u8>>, MariadbError> {
        for _ in 0..PAGE_TRIES {
            let page = self.pages.read(number)?;
            if matches!(self.verdict(number, &page)?, Verdict::Right(_) | Verdict::Clear) {
                let is_old = PageHeader::of(&page).lsn <= newest && !self.opened.is_empty();
                return Ok(is_old.then(|| self.opened.clone()));
            }
            sleep(LAYOUT_AGAIN_AFTER);
        }
        Ok(None)
    }

    /// Returns the findings, with those that concern the whole. `after` is the current content of
    /// its first page.
    fn end(mut self, after: Option<Layout>) -> Tablespace {
        let count = self.pages.count();
        let told = after.map_or(self.layout.pages, |after| after.pages.min(self.layout.pages));
        if told > count {
            let text = format!("it has {count} pages, and its first page says {told}");
            self.report.find(Finding::whole("truncated", text));
        }
        if self.is_new && self.clear == 0 {
            self.report.not_checked = Some(NEW);
        } else if !self.report.encrypted && !self.look.allow_plain {
            let text = match self.layout.crypt.map(|crypt| crypt.mode) {
                Some(Mode::Off) => "the tablespace is not encrypted (ENCRYPTED=NO)",
                _ => "the tablespace is not encrypted",
            };
            self.report.find(Finding::whole("not-encrypted", text));
        }
        self.report.findings.sort_by_key(|finding| finding.page);
        self.report
    }
}

/// Counts a page without a fault.
fn note(report: &mut Tablespace, seen: Seen, used: bool) {
    match seen {
        Seen::Empty => report.empty += 1,
        Seen::ClearByRule | Seen::Clear => {}
        Seen::Opened { version } => report.encrypted_page(version, used, None),
        Seen::Unopened { version, why } => report.encrypted_page(version, used, Some(why)),
    }
}

fn named(path: &Path, engine: &'static str) -> Tablespace {
    Tablespace { file: path.display().to_string(), engine, ..Tablespace::default() }
}

/// Reports a table with a missing file.
pub(super) fn incomplete(left: Left) -> Tablespace {
    let mut report = named(&left.path, left.engine);
    report.find(Finding::whole("missing", left.told));
    report
}

fn unreadable(path: &Path, error: LayoutError) -> Tablespace {
    let mut report = named(path, "InnoDB");
    report.find(Finding::whole("first-page", error.to_string()));
    report
}

/// Returns the numbers of the pages to check, in order, and the number of bytes per read. The first
/// page is always among them.
fn chosen(
    sample: Option<u32>,
    first: u32,
    count: u32,
) -> Result<(Box<dyn Iterator<Item = u32>>, usize), MariadbError> {
    let Some(wanted) = sample.filter(|wanted| *wanted < count.saturating_sub(first)) else {
        return Ok((Box::new(first..count), CHUNK_LEN));
    };
    let mut numbers = BTreeSet::from([first]);
    while numbers.len() <= wanted as usize {
        let mut bytes = [0; 8];
        random_bytes(&mut bytes).map_err(|error| MariadbError::from(PluginError::Crypto(error)))?;
        // 64 bits: the remainder favours no page by more than 2^-32.
        let place = u64::from_le_bytes(bytes) % u64::from(count - first);
        numbers.insert(first + u32::try_from(place).unwrap_or(0));
    }
    Ok((Box::new(numbers.into_iter()), 0))
}

/// Returns the layout from the first page, which is read again while its content is invalid. That
/// of a new file may be invalid for a while.
fn layout(
    path: &Path,
    checkpoint: Option<Checkpoint>,
) -> Result<Result<Layout, LayoutError>, MariadbError> {
    for _ in 1..LAYOUT_TRIES {
        match read_layout(path)? {
            Ok(layout) => return Ok(Ok(layout)),
            Err(LayoutError::Empty) if is_new(path, checkpoint)? => {
                return Ok(Err(LayoutError::Empty));
            }
            Err(_) => {}
        }
        sleep(LAYOUT_AGAIN_AFTER);
    }
    read_layout(path)
}

/// Returns true if a server may have made the file since the checkpoint, so that its first page
/// need not have been written. Then it has no older page, and the log mentions the file.
fn is_new(path: &Path, checkpoint: Option<Checkpoint>) -> Result<bool, MariadbError> {
    let Some(checkpoint) = checkpoint.filter(|checkpoint| !checkpoint.at_rest) else {
        return Ok(false);
    };
    let mut file = File::open(path).map_err(failed("open", path))?;
    let mut chunk = Vec::with_capacity(CHUNK_LEN);
    let mut at = 0_u64;
    loop {
        chunk.clear();
        let taken = file.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut chunk);
        if taken.map_err(failed("read", path))? == 0 {
            return Ok(true);
        }
        for place in chunk.chunks(MIN_PAGE_LEN) {
            let number = u64::from(PageHeader::number_of(place));
            let len = at.checked_div(number).filter(|_| at.is_multiple_of(number));
            let is_page = len.is_some_and(|len| len.is_power_of_two() && len <= MAX_PAGE_PLACE);
            if is_page && (1..=checkpoint.lsn).contains(&PageHeader::of(place).lsn) {
                return Ok(false);
            }
            at += place.len() as u64;
        }
    }
}

fn read_layout(path: &Path) -> Result<Result<Layout, LayoutError>, MariadbError> {
    Ok(Layout::parse(&beginning(path)?))
}

fn beginning(path: &Path) -> Result<Vec<u8>, MariadbError> {
    let file = File::open(path).map_err(failed("open", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_PAGE_LEN as u64).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(bytes)
}

fn is_missing(error: &MariadbError) -> bool {
    matches!(error, MariadbError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
