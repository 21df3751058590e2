//! One tree: its root, the chain of pages of each level, and the pointers to them from above.

use std::collections::BTreeMap;

use tdekit_mariadb::datafile::{KIND_INSTANT, KIND_SPATIAL, NO_PAGE, Pointer, pointers};

use super::report::Finding;
use super::trees::{BUFFER, CHANGING, NEWER, Note, Notes, Read};
use crate::error::MariadbError;

/// The change buffer has a reserved index number (`DICT_IBUF_ID_MIN`), in the system tablespace.
const BUFFER_INDEX: u64 = 0xffff_ffff << 32;

/// A tree being judged.
pub(super) struct Tree<'a> {
    notes: &'a Notes,
    /// Its pages, from the highest level down.
    pages: &'a [u32],
    /// Reason why a page missing from the tree may exist anyway.
    hidden: Option<&'static str>,
    /// Faults, by the page that has them: one each.
    faults: BTreeMap<u32, String>,
    /// Faults that also occur while a server makes or drops the index, step by step.
    passing: BTreeMap<u32, String>,
    /// Reason why it is not completely checked.
    left: Option<&'static str>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(notes: &'a Notes, hidden: Option<&'static str>, pages: &'a [u32]) -> Self {
        let (faults, passing) = (BTreeMap::new(), BTreeMap::new());
        Self { notes, pages, hidden, faults, passing, left: None }
    }

    /// Adds its faults to `findings`; returns the reason why the tree was not completely checked.
    pub(super) fn judge(
        mut self,
        read: &mut Read<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<&'static str>, MariadbError> {
        let Some(first) = self.pages.first().and_then(|page| self.note(*page)) else {
            return Ok(None);
        };
        if first.index >= BUFFER_INDEX {
            return Ok(Some(BUFFER));
        }
        self.left = self.notes_of(self.pages).find_map(|(_, note)| note.blocks());
        if !self.is_being_made() {
            self.judge_root(first.index);
            self.judge_levels(read)?;
        }
        // A change of the index that is in progress leaves only such faults.
        if !self.passing.is_empty() && !self.notes.checkpoint.at_rest {
            if self.faults.is_empty() {
                self.left = Some(CHANGING);
            }
            self.passing.clear();
        }
        self.passing.append(&mut self.faults);
        let found = std::mem::take(&mut self.passing);
        findings.extend(found.into_iter().map(|(page, text)| Finding::of_tree(page, "tree", text)));
        Ok(self.left)
    }

    /// Returns true if the tree has pages beside an empty root: a server builds an index before it
    /// writes the root.
    fn is_being_made(&mut self) -> bool {
        let is_empty = |note: &Note| note.is_root && note.records == 0 && note.blocks().is_none();
        let root = self.notes_of(self.pages).find(|(_, note)| is_empty(note));
        let Some((number, _)) = root.filter(|_| self.pages.len() > 1) else { return false };
        let text = "it is an empty root, and its index has other pages";
        self.passing.insert(number, text.to_owned());
        true
    }

    /// Checks that all pages have the kind of the majority, except a root to which columns were
    /// added instantly.
    fn judge_kinds(&mut self) {
        let is_spatial = |note: &Note| note.kind == KIND_SPATIAL;
        let spatial = self.notes_of(self.pages).filter(|(_, note)| is_spatial(note)).count();
        for (number, note) in self.notes_of(self.pages) {
            let is_right = match note.kind {
                KIND_INSTANT => note.is_root && note.is_instant,
                _ => !(note.is_root && note.is_instant),
            };
            let is_as_most = is_spatial(&note) == (spatial > self.pages.len() / 2);
            if note.blocks().is_none() && !(is_right && is_as_most) {
                self.fault(number, format!("it cannot be of kind {}", note.kind));
            }
        }
    }

    /// Checks that there is one root. It is the only page of its level, and none is above it.
    fn judge_root(&mut self, index: u64) {
        self.judge_kinds();
        if self.left.is_some() {
            return;
        }
        let roots: Vec<_> = self.notes_of(self.pages).filter(|(_, note)| note.is_root).collect();
        match roots[..] {
            [] => self.lacks(self.pages[0], format!("index {index}, which it is of, has no root")),
            [(number, root)] => {
                let other =
                    |(other, note): &(u32, Note)| *other != number && note.level >= root.level;
                if let Some((other, _)) = self.notes_of(self.pages).find(other) {
                    let text = format!("page {other} of its index is not below it, the root");
                    self.fault(number, text);
                }
            }
            [(number, _), (other, _), ..] => {
                self.fault(number, format!("page {other} is a root of its index, too"));
            }
        }
    }

    fn judge_levels(&mut self, read: &mut Read<'_>) -> Result<(), MariadbError> {
        let (notes, all) = (self.notes, self.pages);
        let level = |number: u32| notes.pages[number as usize].level;
        let mut above: Option<(&[u32], Option<Vec<u32>>)> = None;
        for pages in all.chunk_by(|one, other| level(*one) == level(*other)) {
            let chain = self.chain(pages);
            if let Some((upper, upper_chain)) = above {
                match level(upper[0]) - level(pages[0]) {
                    1 => {
                        if let (Some(upper), Some(chain)) = (upper_chain, &chain) {
                            self.judge_pointers(&upper, chain, read)?;
                        }
                    }
                    _ => self.lacks_below(upper[0]),
                }
            }
            above = Some((pages, chain));
        }
        if let Some((lowest, _)) = above
            && level(lowest[0]) > 0
        {
            self.lacks_below(lowest[0]);
        }
        Ok(())
    }

    /// Returns the pages of a level in their order; `None` if it is not known.
    fn chain(&mut self, pages: &'a [u32]) -> Option<Vec<u32>> {
        let mut is_whole = true;
        for number in pages {
            is_whole &= self.judge_neighbours(*number);
        }
        if !is_whole {
            return None;
        }
        let ends = |end: fn(&Note) -> u32| {
            let ends = self.notes_of(pages).filter(move |(_, note)| end(note) == NO_PAGE);
            ends.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let (begins, ends) = (ends(|note| note.prev), ends(|note| note.next));
        for several in [&begins, &ends] {
            if let [one, other, ..] = several[..] {
                let text = format!("its level of the index ends both here and with page {one}");
                self.fault(other, text);
                return None;
            }
        }
        // All neighbours agree, so a level with an end has both.
        let mut chain = Vec::with_capacity(pages.len());
        let mut at = begins.first().copied();
        while let Some(number) = at.filter(|_| chain.len() < pages.len()) {
            chain.push(number);
            at = self.note(number).map(|note| note.next).filter(|next| *next != NO_PAGE);
        }
        if chain.len() == pages.len() {
            return Some(chain);
        }
        let mut left: Vec<u32> = pages.to_vec();
        chain.sort_unstable();
        left.retain(|number| chain.binary_search(number).is_err());
        if let Some(number) = left.first() {
            self.fault(*number, "the chain of its level of the index is a ring".to_owned());
        }
        None
    }

    /// Checks that the neighbours that a page names also name it. Returns true if that is known and
    /// correct.
    fn judge_neighbours(&mut self, number: u32) -> bool {
        let Some(own) = self.note(number).filter(|own| own.blocks().is_none()) else {
            return false;
        };
        let mut agree = true;
        for (other, side) in [(own.prev, "before"), (own.next, "behind")] {
            if other == NO_PAGE {
                continue;
            }
            let Some(note) = self.note(other) else {
                match self.notes.lacks(other) {
                    true => self.left = self.hidden,
                    false => {
                        let text = format!("it names page {other} {side} it, which is not there");
                        self.fault(number, text);
                    }
                }
                agree = false;
                continue;
            };
            let back = if side == "before" { note.next } else { note.prev };
            let is_kin = note.is_of_tree() && (note.index, note.level) == (own.index, own.level);
            if !note.used {
                let text =
                    format!("it names page {other} {side} it, which the map gives out to none");
                self.passing.insert(number, text);
            } else if let Some(why) = note.blocks() {
                self.left = Some(why);
            } else if is_kin && back == number {
                continue;
            } else if is_kin {
                let text = format!("it names page {other} {side} it, which does not name it");
                self.fault(number, text);
            } else if back == number {
                let (index, level) = (own.index, own.level);
                let text = format!(
                    "it is no page of index {index} and level {level}, as page {number} next to it"
                );
                self.fault(other, text);
            } else {
                let text =
                    format!("it names page {other} {side} it, which is no page of its level");
                self.fault(number, text);
            }
            agree = false;
        }
        agree
    }

    /// Checks that the records of a level point to the pages of the level below, in the same order.
    /// In spatial indexes the order has no meaning.
    fn judge_pointers(
        &mut self,
        upper: &[u32],
        below: &[u32],
        read: &mut Read<'_>,
    ) -> Result<(), MariadbError> {
        let mut rest = below;
        let mut named = Vec::new();
        for number in upper {
            let Some(page) = read(*number)? else {
                self.left = self.hidden.or(Some(NEWER));
                return Ok(());
            };
            let Some(pointers) = pointers(&page) else {
                self.fault(*number, "its records are no list".to_owned());
                return Ok(());
            };
            let is_spatial = self.note(*number).is_some_and(|note| note.kind == KIND_SPATIAL);
            for pointer in pointers {
                let Some((child, left)) = rest.split_first() else {
                    let count = below.len();
                    let text =
                        format!("it points to more pages than the {count} of the level below");
                    self.fault(*number, text);
                    return Ok(());
                };
                match pointer {
                    Pointer::To(to) if is_spatial => named.push((to, *number)),
                    _ if !pointer.may_be(&page, *child) => {
                        let text = format!(
                            "it does not point to page {child}, which is next in the level below"
                        );
                        self.fault(*number, text);
                        return Ok(());
                    }
                    _ => {}
                }
                rest = left;
            }
        }
        if let Some(child) = rest.first() {
            self.fault(*child, "no page of the level above points to it".to_owned());
            return Ok(());
        }
        let mut below = below.to_vec();
        below.sort_unstable();
        named.sort_unstable();
        let wrong = named.iter().zip(below).find(|((to, _), child)| to != child);
        if let Some(((_, number), child)) = wrong {
            self.fault(*number, format!("it, or a page beside it, does not point to page {child}"));
        }
        Ok(())
    }

    fn lacks_below(&mut self, number: u32) {
        if self.hidden.is_none() {
            self.passing.insert(number, "the level below it is not there".to_owned());
        } else {
            self.left = self.left.or(self.hidden);
        }
    }

    /// Reports a fault unless the missing page may be hidden.
    fn lacks(&mut self, number: u32, text: String) {
        match self.hidden {
            None => self.fault(number, text),
            why => self.left = why,
        }
    }

    fn fault(&mut self, number: u32, text: String) {
        self.faults.entry(number).or_insert(text);
    }

    fn note(&self, number: u32) -> Option<Note> {
        self.notes.pages.get(number as usize).copied()
    }

    fn notes_of(&self, numbers: &'a [u32]) -> impl Iterator<Item = (u32, Note)> + use<'a> {
        let notes = self.notes;
        numbers.iter().filter_map(|number| Some((*number, *notes.pages.get(*number as usize)?)))
    }
}
