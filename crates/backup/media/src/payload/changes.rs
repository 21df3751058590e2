//! A page of a log set: runs of bytes, on zeros or on the state that the page had before.

use twox_hash::XxHash3_64;

use crate::error::{MediaError, Part};

/// The most bytes of pages that may stand on earlier states at any place of a chain: what a reader
/// keeps that goes back in time.
pub const MAX_UNFINISHED_BYTES: usize = 64 << 20;

/// Length of a run's offset and length.
pub(super) const RUN_LEN: usize = 4;
/// Unchanged bytes between two runs that cost less than another run.
const MERGED: usize = 8;
/// log2 of the smallest page size.
const FIRST_SIZE: u32 = 9;
/// The one run of a page that stands whole, by page size.
static WHOLE: [[[u8; RUN_LEN]; 1]; 8] = {
    let mut runs = [[[0; RUN_LEN]; 1]; 8];
    let mut at = 0;
    while at < runs.len() {
        runs[at] = [run_of(0, 1 << (at + FIRST_SIZE as usize))];
        at += 1;
    }
    runs
};

/// A page as a log set stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPage<'a> {
    /// True if bytes outside the runs are those of the state that the page had before; else they
    /// are zeros.
    pub on_state: bool,
    /// [`page_check`] of the page; `None` in a set of [`super::LogForm::Whole`].
    pub check: Option<u64>,
    pub(super) runs: &'a [[u8; RUN_LEN]],
    /// The bytes of all runs.
    pub(super) bytes: &'a [u8],
}

impl<'a> LogPage<'a> {
    /// Makes one of a page that stands whole, and bears no check.
    pub(super) fn whole(page: &'a [u8]) -> Self {
        let size = page.len().trailing_zeros().saturating_sub(FIRST_SIZE);
        let runs = WHOLE.get(size as usize).map_or(&[][..], |runs| runs);
        Self { on_state: false, check: None, runs, bytes: page }
    }

    /// Returns the runs: the offset of each, and its bytes.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        self.runs.iter().map(move |run| {
            let (at, len) = bounds(*run);
            let (bytes, behind) = rest.split_at_checked(len).unwrap_or_default();
            rest = behind;
            (at, bytes)
        })
    }

    /// Returns the whole page, where one run holds it.
    #[must_use]
    pub fn as_whole(&self, page_len: usize) -> Option<&'a [u8]> {
        (!self.on_state && self.runs.len() == 1 && self.bytes.len() == page_len)
            .then_some(self.bytes)
    }

    /// Returns true if `page` is the page in this state, as far as the set says.
    #[must_use]
    pub fn is(&self, page: &[u8]) -> bool {
        self.check.is_none_or(|check| check == page_check(page))
    }
}

/// Returns the check of a page: XXH3-64, seed 0.
#[must_use]
pub fn page_check(page: &[u8]) -> u64 {
    XxHash3_64::oneshot(page)
}

/// The bytes of a page's state that are known so far. Going back in time, bytes of earlier states
/// are put below them.
#[derive(Debug)]
pub struct Overlay {
    page: Vec<u8>,
    /// A bit for each byte.
    known: Vec<u64>,
}

const WORD: usize = u64::BITS as usize;

impl Overlay {
    /// Makes one of which nothing is known: a multiple of 64 bytes.
    #[must_use]
    pub fn new(page_len: usize) -> Self {
        Self { page: vec![0; page_len], known: vec![0; page_len / WORD] }
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.page.fill(0);
        self.known.fill(0);
    }

    /// Puts what an earlier entry stores of the page below what is known.
    pub fn put_below(&mut self, page: &LogPage<'_>) {
        for (at, bytes) in page.runs() {
            self.put(at, bytes);
        }
    }

    /// Puts a whole state below what is known.
    pub fn put_state_below(&mut self, page: &[u8]) {
        self.put(0, page);
    }

    /// Returns the page; bytes that are not known are zeros.
    #[must_use]
    pub fn page(&self) -> &[u8] {
        &self.page
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let Some(target) = self.page.get_mut(at..at.saturating_add(bytes.len())) else { return };
        let mut from = 0;
        while from < bytes.len() {
            let (word, low) = ((at + from) / WORD, (at + from) % WORD);
            let len = (WORD - low).min(bytes.len() - from);
            let wanted = (u64::MAX >> (WORD - len)) << low;
            let Some(known) = self.known.get_mut(word) else { return };
            let new = wanted & !*known;
            *known |= wanted;
            let (source, target) = (&bytes[from..from + len], &mut target[from..from + len]);
            if new == wanted {
                target.copy_from_slice(source);
            } else if new != 0 {
                for (bit, (target, source)) in target.iter_mut().zip(source).enumerate() {
                    if new >> (low + bit) & 1 != 0 {
                        *target = *source;
                    }
                }
            }
            from += len;
        }
    }
}

/// Appends what differs between a state and `page`, of the same length: runs and their bytes.
/// They take at most the page's length and a run.
pub(super) fn put_changes(
    state: Option<&[u8]>,
    page: &[u8],
    (runs, bytes): (&mut Vec<u8>, &mut Vec<u8>),
) {
    let zeros = [0; WORD];
    let mut open: Option<(usize, usize)> = None;
    let mut end = |open: (usize, usize)| {
        runs.extend_from_slice(&run_of(open.0, open.1 - open.0));
        bytes.extend_from_slice(&page[open.0..open.1]);
    };
    for (number, piece) in page.chunks_exact(WORD).enumerate() {
        let at = number * WORD;
        let before = state.and_then(|state| state.get(at..at + WORD)).unwrap_or(&zeros);
        if piece == before {
            continue;
        }
        for (word, (new, old)) in
            piece.as_chunks::<8>().0.iter().zip(before.as_chunks::<8>().0).enumerate()
        {
            let differs = u64::from_le_bytes(*new) ^ u64::from_le_bytes(*old);
            if differs == 0 {
                continue;
            }
            let at = at + word * 8;
            let first = at + differs.trailing_zeros() as usize / 8;
            let last = at + 8 - differs.leading_zeros() as usize / 8;
            open = match open {
                Some((from, to)) if first - to <= MERGED => Some((from, last)),
                before => {
                    before.into_iter().for_each(&mut end);
                    Some((first, last))
                }
            };
        }
    }
    open.into_iter().for_each(end);
}

/// Checks the runs of a page: in order, apart, and within the page. Returns the length of their
/// bytes.
pub(super) fn check_runs(
    part: Part,
    runs: &[[u8; RUN_LEN]],
    page_len: usize,
) -> Result<usize, MediaError> {
    let (mut total, mut end) = (0, None);
    for run in runs {
        let (at, len) = bounds(*run);
        if end.is_some_and(|end| at <= end) || at + len > page_len {
            return Err(MediaError::malformed(part, "the runs of a page are not in its order"));
        }
        (total, end) = (total + len, Some(at + len));
    }
    Ok(total)
}

/// Returns the length of the bytes of runs.
pub(super) fn bytes_of(runs: &[[u8; RUN_LEN]]) -> usize {
    runs.iter().map(|run| bounds(*run).1).sum()
}

/// Returns offset and length.
fn bounds([a, b, c, d]: [u8; RUN_LEN]) -> (usize, usize) {
    (u16::from_le_bytes([a, b]).into(), usize::from(u16::from_le_bytes([c, d])) + 1)
}

/// Encodes a run. Pages have at most 65,536 bytes.
#[allow(clippy::cast_possible_truncation)]
const fn run_of(at: usize, len: usize) -> [u8; RUN_LEN] {
    let ([a, b], [c, d]) = ((at as u16).to_le_bytes(), ((len - 1) as u16).to_le_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LogForm;
    use crate::payload::{LogEntry, LogPages, LogPagesBuilder};

    const LEN: usize = 1024;

    /// States of one page, each changed from the one before, and whether each stands on that.
    fn states() -> impl Strategy<Value = Vec<(Vec<u8>, bool)>> {
        let bytes = || {
            prop_oneof![
                Just(vec![0; 90]),
                prop::collection::vec(any::<u8>(), 1..200),
                prop::collection::vec(any::<u8>(), 1..4),
            ]
        };
        let edits = prop::collection::vec((0..LEN, bytes()), 0..12);
        prop::collection::vec((edits, any::<bool>()), 1..6).prop_map(|steps| {
            let mut page = vec![0; LEN];
            let step = |(edits, on_state): (Vec<(usize, Vec<u8>)>, bool)| {
                for (at, bytes) in edits {
                    page.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = new);
                }
                (page.clone(), on_state)
            };
            steps.into_iter().map(step).collect()
        })
    }

    fn payload(states: &[(Vec<u8>, bool)]) -> Vec<u8> {
        let mut builder = LogPagesBuilder::new(1 << 20, 1024);
        let (mut before, mut out): (Option<&Vec<u8>>, _) = (None, Vec::new());
        for ((page, on_state), number) in states.iter().zip(1..) {
            let state = before.filter(|_| *on_state).map(|state| &state[..]);
            builder.push(LogEntry { page: number, end: None }, state, page).unwrap();
            before = Some(page);
        }
        builder.finish(&mut out);
        out
    }

    proptest! {
        #[test]
        fn each_state_is_found_again_from_its_end(states in states()) {
            let bytes = payload(&states);
            let read = LogPages::decode(0, &bytes, 1024, LogForm::Changes).unwrap();
            let stored: Vec<_> = read.iter().map(|(_, page)| page).collect();
            for (last, (state, _)) in states.iter().enumerate() {
                let mut overlay = Overlay::new(LEN);
                for page in stored[..=last].iter().rev() {
                    overlay.put_below(page);
                    if !page.on_state {
                        break;
                    }
                }
                prop_assert!(overlay.page() == &state[..]);
                prop_assert!(stored[last].is(overlay.page()));
                // With all of the state before it known at once.
                if let Some((before, _)) = last.checked_sub(1).map(|at| &states[at]) {
                    overlay.clear();
                    overlay.put_below(&stored[last]);
                    if stored[last].on_state {
                        overlay.put_state_below(before);
                    }
                    prop_assert!(overlay.page() == &state[..]);
                }
            }
        }

        #[test]
        fn a_state_that_is_not_the_one_before_is_found(states in states(), at in 0..LEN) {
            let bytes = payload(&states);
            let read = LogPages::decode(0, &bytes, 1024, LogForm::Changes).unwrap();
            let on_state = read.iter().enumerate().filter(|(_, (_, page))| page.on_state);
            for (number, (_, page)) in on_state {
                let mut wrong = states[number - 1].0.clone();
                wrong[at] ^= 1;
                let mut overlay = Overlay::new(LEN);
                overlay.put_below(&page);
                overlay.put_state_below(&wrong);
                // Bytes that a run replaces do not matter.
                prop_assert_eq!(page.is(overlay.page()), overlay.page() == &states[number].0[..]);
                let replaced = page.runs().any(|(from, it)| (from..from + it.len()).contains(&at));
                prop_assert_eq!(page.is(overlay.page()), replaced);
            }
        }

        #[test]
        fn no_changed_byte_gives_another_page(states in states(), at: prop::sample::Index) {
            let sound = payload(&states);
            let mut bytes = sound.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= 0x10;
            let Ok(read) = LogPages::decode(0, &bytes, 1024, LogForm::Changes) else {
                return Ok(());
            };
            // Decoding takes other page numbers, sizes and times: the seal keeps them.
            let mut state = vec![0; LEN];
            for ((_, page), (wanted, _)) in read.iter().zip(&states) {
                let mut overlay = Overlay::new(LEN);
                overlay.put_below(&page);
                if page.on_state {
                    overlay.put_state_below(&state);
                }
                if !page.is(overlay.page()) {
                    return Ok(());
                }
                prop_assert!(overlay.page() == &wanted[..]);
                state.copy_from_slice(overlay.page());
            }
        }
    }

    #[test]
    fn a_page_of_each_size_stands_whole_in_one_run() {
        for size in (9..=16).map(|log| 1_usize << log) {
            let page = vec![7; size];
            let whole = LogPage::whole(&page);
            assert_eq!(whole.as_whole(size), Some(&page[..]));
            assert!(whole.runs().eq([(0, &page[..])]), "{size}");
        }
    }

    #[test]
    fn few_bytes_between_changes_join_them() {
        let changed = |places: &[usize]| {
            let (mut page, mut runs, mut bytes) = ([9; 512], Vec::new(), Vec::new());
            places.iter().for_each(|at| page[*at] = 1);
            put_changes(Some(&[9; 512]), &page, (&mut runs, &mut bytes));
            (runs.len() / RUN_LEN, bytes.len())
        };
        assert_eq!(changed(&[]), (0, 0));
        assert_eq!(changed(&[511]), (1, 1));
        assert_eq!(changed(&[3, 12]), (1, 10));
        assert_eq!(changed(&[3, 13]), (2, 2));
        assert_eq!(changed(&[62, 65, 200]), (2, 5));
    }
}
