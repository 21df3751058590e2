//! Resources used by each statement, over all sessions: for `sys.dm_exec_query_stats`.
//!
//! A session keeps the tally of each of its compiled statements; sums are computed on demand.
//! Tallies of statements that a session has dropped stay, until there are too many texts.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::meter::Used;
use crate::value::datetime::Moment;

/// Maximum number of known texts, and of their bytes: beyond either limit the older half is
/// forgotten.
const MAX_TEXTS: usize = 4096;
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Number of tallies of one statement that are kept separate before those without a session are
/// summed.
const MAX_APART: usize = 16;

/// The text that contains statements.
#[derive(Debug)]
pub(crate) struct Origin {
    /// With the declarations of its parameters in front, as passed to `sp_executesql`.
    text: Arc<str>,
    /// The bytes in front.
    shift: usize,
    /// True if it creates a procedure.
    procedure: bool,
}

impl Origin {
    pub(crate) fn of(text: &str, declarations: &str, procedure: bool) -> Origin {
        let text = masked(text);
        if declarations.is_empty() {
            return Origin { text: text.as_ref().into(), shift: 0, procedure };
        }
        let text = format!("({declarations}){text}").into();
        Origin { text, shift: declarations.len() + 2, procedure }
    }
}

/// Returns the text as other logins may see it: replaced by as many asterisks as it has bytes if it
/// names a password. It does not try to locate the password: quotes in comments and strings in
/// strings hide it.
fn masked(text: &str) -> Cow<'_, str> {
    const WORD: &[u8] = b"password";
    match text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD)) {
        true => Cow::Owned("*".repeat(text.len())),
        false => Cow::Borrowed(text),
    }
}

/// Sum, last, minimum and maximum of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) total: u64,
    pub(crate) last: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Figure {
    const NONE: Figure = Figure { total: 0, last: 0, min: u64::MAX, max: 0 };

    fn add(&mut self, value: u64) {
        self.total = self.total.wrapping_add(value);
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Figure, later: bool) {
        self.total = self.total.wrapping_add(other.total);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if later {
            self.last = other.last;
        }
    }
}

/// The figures of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) created: Moment,
    pub(crate) executed: Moment,
    pub(crate) count: u64,
    pub(crate) cpu_ns: Figure,
    pub(crate) elapsed_ns: Figure,
    pub(crate) logical_reads: Figure,
    pub(crate) physical_reads: Figure,
    pub(crate) writes: Figure,
    pub(crate) rows: Figure,
}

impl Totals {
    fn new(now: Moment) -> Totals {
        Totals {
            created: now,
            executed: now,
            count: 0,
            cpu_ns: Figure::NONE,
            elapsed_ns: Figure::NONE,
            logical_reads: Figure::NONE,
            physical_reads: Figure::NONE,
            writes: Figure::NONE,
            rows: Figure::NONE,
        }
    }

    fn add(&mut self, used: &Used, now: Moment) {
        self.executed = now;
        self.count += 1;
        self.cpu_ns.add(used.cpu_ns);
        self.elapsed_ns.add(used.elapsed_ns);
        self.logical_reads.add(used.pages.asked);
        self.physical_reads.add(used.pages.read);
        self.writes.add(used.pages.written);
        self.rows.add(used.rows);
    }

    fn merge(&mut self, other: &Totals) {
        let later = after(other.executed, self.executed);
        if after(self.created, other.created) {
            self.created = other.created;
        }
        if later {
            self.executed = other.executed;
        }
        self.count += other.count;
        self.cpu_ns.merge(&other.cpu_ns, later);
        self.elapsed_ns.merge(&other.elapsed_ns, later);
        self.logical_reads.merge(&other.logical_reads, later);
        self.physical_reads.merge(&other.physical_reads, later);
        self.writes.merge(&other.writes, later);
        self.rows.merge(&other.rows, later);
    }
}

fn after(one: Moment, other: Moment) -> bool {
    (one.days, one.ticks) > (other.days, other.ticks)
}

/// A session's own tally of a statement.
#[derive(Debug)]
pub(crate) struct Tally {
    totals: Totals,
    /// The list has dropped it: further additions would not be seen.
    forgotten: bool,
}

/// A tally that a session and the list share.
pub(crate) type Shared = Arc<Mutex<Tally>>;

/// Adds to a tally. Returns false if the list has dropped it.
pub(crate) fn add(tally: &Shared, used: &Used, now: Moment) -> bool {
    let mut tally = lock(tally);
    if !tally.forgotten {
        tally.totals.add(used, now);
    }
    !tally.forgotten
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A statement with its figures.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) handle: u64,
    pub(crate) database: String,
    /// Position in bytes of the text as UTF-16; the end is that of its last unit, or -1 for the end
    /// of the text.
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) hash: u64,
    pub(crate) totals: Totals,
}

/// A text whose statements were run.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) handle: u64,
    pub(crate) text: Arc<str>,
    /// The database in which it was first run.
    pub(crate) database: String,
    pub(crate) procedure: bool,
}

/// All tallies of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    texts: HashMap<Arc<str>, Entry>,
    bytes: usize,
    /// Handles are never reused.
    given: u64,
}

#[derive(Debug)]
struct Entry {
    handle: u64,
    database: String,
    procedure: bool,
    /// By position in the text, and by database.
    statements: BTreeMap<(usize, usize, String), Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of sessions that have ended, or have compiled the text again.
    past: Option<Totals>,
    tallies: Vec<Shared>,
}

impl Kept {
    /// Sums up the tallies that no session has any more.
    fn settle(&mut self) {
        let past = &mut self.past;
        self.tallies.retain(|tally| {
            if Arc::strong_count(tally) > 1 {
                return true;
            }
            sum(past, &lock(tally).totals);
            false
        });
    }

    fn totals(&self) -> Option<Totals> {
        let mut all = self.past;
        for tally in &self.tallies {
            sum(&mut all, &lock(tally).totals);
        }
        all
    }

    fn forget(&self) {
        self.tallies.iter().for_each(|tally| lock(tally).forgotten = true);
    }
}

fn sum(all: &mut Option<Totals>, more: &Totals) {
    if more.count > 0 {
        match all {
            Some(all) => all.merge(more),
            None => *all = Some(*more),
        }
    }
}

impl Known {
    /// Drops the texts that have not run for the longest time.
    fn shed(&mut self) {
        let mut ages: Vec<(Moment, Arc<str>)> = self
            .texts
            .iter()
            .filter_map(|(text, entry)| {
                let runs = entry.statements.values().filter_map(Kept::totals);
                let last = runs
                    .map(|totals| totals.executed)
                    .reduce(|a, b| if after(b, a) { b } else { a });
                last.map(|last| (last, text.clone()))
            })
            .collect();
        ages.sort_by_key(|(last, _)| (last.days, last.ticks));
        for (_, text) in ages.iter().take(ages.len() / 2 + 1) {
            if let Some(entry) = self.texts.remove(text) {
                entry.statements.values().for_each(Kept::forget);
                self.bytes = self.bytes.saturating_sub(text.len());
            }
        }
    }
}

impl Tallies {
    /// Returns a tally for the statement at these bytes of the text.
    pub(crate) fn enter(
        &self,
        origin: &Origin,
        (start, end): (usize, usize),
        database: &str,
        now: Moment,
    ) -> Shared {
        let tally: Shared =
            Arc::new(Mutex::new(Tally { totals: Totals::new(now), forgotten: false }));
        let mut known = lock(&self.0);
        if !known.texts.contains_key(&origin.text) {
            let full = known.texts.len() >= MAX_TEXTS;
            if full || known.bytes.saturating_add(origin.text.len()) > MAX_TEXT_BYTES {
                known.shed();
            }
            known.bytes = known.bytes.saturating_add(origin.text.len());
            known.given += 1;
            let entry = Entry {
                handle: known.given,
                database: database.to_owned(),
                procedure: origin.procedure,
                statements: BTreeMap::new(),
            };
            known.texts.insert(origin.text.clone(), entry);
        }
        if let Some(entry) = known.texts.get_mut(&origin.text) {
            let place = (start + origin.shift, end + origin.shift, database.to_owned());
            let kept = entry.statements.entry(place).or_default();
            if kept.tallies.len() >= MAX_APART {
                kept.settle();
            }
            kept.tallies.push(tally.clone());
        }
        tally
    }

    /// DBCC FREEPROCCACHE: forgets everything.
    pub(crate) fn clear(&self) {
        let mut known = lock(&self.0);
        known.texts.values().flat_map(|entry| entry.statements.values()).for_each(Kept::forget);
        known.texts.clear();
        known.bytes = 0;
    }

    /// Returns every statement that was run.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        let known = lock(&self.0);
        let mut all = Vec::new();
        for (text, entry) in &known.texts {
            for ((start, end, database), kept) in &entry.statements {
                let Some(totals) = kept.totals() else { continue };
                let own = text.get(*start..*end).unwrap_or_default().trim_end();
                let units =
                    |text: &str| i64::try_from(2 * text.encode_utf16().count()).unwrap_or(0);
                let first = units(text.get(..*start).unwrap_or_default());
                let rest = text.get(*end..).unwrap_or_default();
                let whole = rest.trim_matches([';', ' ', '\t', '\r', '\n']).is_empty();
                let mut hasher = DefaultHasher::new();
                own.hash(&mut hasher);
                all.push(Statement {
                    handle: entry.handle,
                    database: database.clone(),
                    start: first,
                    end: if whole { -1 } else { first + units(own) - 2 },
                    hash: hasher.finish(),
                    totals,
                });
            }
        }
        all.sort_by_key(|statement| (statement.handle, statement.start));
        all
    }

    /// Returns every text with a statement that was run.
    pub(crate) fn texts(&self) -> Vec<Text> {
        let known = lock(&self.0);
        let text = |(text, entry): (&Arc<str>, &Entry)| Text {
            handle: entry.handle,
            text: text.clone(),
            database: entry.database.clone(),
            procedure: entry.procedure,
        };
        let mut all: Vec<Text> = known.texts.iter().map(text).collect();
        all.sort_by_key(|text| text.handle);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite_pages::Pages;

    fn used(ns: u64, asked: u64) -> Used {
        let pages = Pages { asked, read: 1, written: 0 };
        Used { cpu_ns: ns, elapsed_ns: 2 * ns, pages, rows: 1 }
    }

    #[test]
    fn sessions_are_summed_and_what_they_let_go_of_stays() {
        let (all, now) = (Tallies::default(), crate::value::datetime::now());
        let origin = Origin::of("SELECT 1; SELECT 2", "", false);
        let first = all.enter(&origin, (0, 8), "app", now);
        let second = all.enter(&origin, (0, 8), "app", now);
        assert!(all.statements().is_empty(), "none has run");
        assert!(add(&first, &used(10, 3), now) && add(&second, &used(30, 5), now));
        drop(first);
        for _ in 0..2 * MAX_APART {
            let short = all.enter(&origin, (0, 8), "app", now);
            assert!(add(&short, &used(1, 1), now));
        }
        let found = all.statements();
        assert_eq!(found.len(), 1);
        let totals = found[0].totals;
        assert_eq!(totals.count, 2 + 2 * MAX_APART as u64);
        assert_eq!(totals.cpu_ns.total, 40 + 2 * MAX_APART as u64);
        assert_eq!((totals.cpu_ns.min, totals.cpu_ns.max), (1, 30));
        assert_eq!(totals.logical_reads.total, 8 + 2 * MAX_APART as u64);
        assert_eq!((found[0].start, found[0].end), (0, 14));
        all.clear();
        assert!(!add(&second, &used(1, 1), now), "a new one is needed");
        assert!(all.statements().is_empty() && all.texts().is_empty());
    }

    #[test]
    fn places_are_of_the_text_with_its_declarations_as_utf_16() {
        let (all, now) = (Tallies::default(), crate::value::datetime::now());
        let text = "PRINT 'é😀'; SELECT @a ;";
        let origin = Origin::of(text, "@a int", false);
        let start = text.find("SELECT").unwrap();
        let tally = all.enter(&origin, (start, start + "SELECT @a".len()), "app", now);
        add(&tally, &used(1, 1), now);
        let found = &all.statements()[0];
        assert_eq!(&*all.texts()[0].text, "(@a int)PRINT 'é😀'; SELECT @a ;");
        assert_eq!((found.start, found.end), (2 * (8 + 13), -1));
    }

    #[test]
    fn texts_are_bounded_and_the_last_ones_stay() {
        let all = Tallies::default();
        for number in 0..MAX_TEXTS + 10 {
            let mut now = crate::value::datetime::now();
            now.ticks = i64::try_from(number).unwrap();
            let origin = Origin::of(&format!("SELECT {number}"), "", false);
            let tally = all.enter(&origin, (0, 8), "app", now);
            add(&tally, &used(1, 1), now);
        }
        let texts = all.texts();
        assert!(texts.len() <= MAX_TEXTS && texts.len() > MAX_TEXTS / 3, "{}", texts.len());
        assert_eq!(&*texts.last().unwrap().text, format!("SELECT {}", MAX_TEXTS + 9));
        let long = Origin::of(&"x".repeat(MAX_TEXT_BYTES / 2), "", false);
        let now = crate::value::datetime::now();
        for _ in 0..3 {
            add(&all.enter(&long, (0, 1), "app", now), &used(1, 1), now);
        }
        let bytes: usize = all.texts().iter().map(|text| text.text.len()).sum();
        assert!(bytes <= MAX_TEXT_BYTES, "{bytes}");
    }
}
