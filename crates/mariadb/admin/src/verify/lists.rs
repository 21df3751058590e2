//! The lists of extents of a tablespace: each extent must be in exactly one, and in the right one.

use std::collections::BTreeMap;

use tdekit_mariadb::datafile::{Extent, List, Place, Segment, SpaceLists, State};

use super::report::Finding;

/// The extents of a tablespace, and the lists that link them.
pub(super) struct Lists {
    space: SpaceLists,
    pub(super) extents: Vec<Extent>,
    /// `None` if some are unknown.
    pub(super) segments: Option<Vec<Segment>>,
}

/// Condition for each extent of a list.
#[derive(Clone, Copy)]
struct Rule {
    state: State,
    is_right: fn(&Extent) -> bool,
}

const UNUSED: fn(&Extent) -> bool = |extent| extent.used == 0;
const PARTLY_USED: fn(&Extent) -> bool = |extent| (1..extent.pages).contains(&extent.used);
const USED: fn(&Extent) -> bool = |extent| extent.used == extent.pages;

/// The extents by their places, each with true if it was found in a list.
struct Walk<'a> {
    extents: &'a [Extent],
    index: BTreeMap<Place, usize>,
    is_listed: Vec<bool>,
    findings: Vec<Finding>,
}

impl Lists {
    pub(super) fn new(space: SpaceLists) -> Self {
        Self { space, extents: Vec::new(), segments: None }
    }

    /// Follows each list. An extent that is in none is reported if all lists are intact.
    pub(super) fn judge(&self) -> Vec<Finding> {
        let mut walk = Walk::new(&self.extents);
        let space = &self.space;
        let rule = |state, is_right| Rule { state, is_right };
        walk.list("free extents", &space.free, rule(State::Free, UNUSED));
        let used = walk.list(
            "extents with free single pages",
            &space.some_pages,
            rule(State::SomePages, PARTLY_USED),
        );
        walk.count("extents with free single pages", used, space.single_used);
        walk.list("extents of single pages", &space.all_pages, rule(State::AllPages, USED));
        for segment in self.segments.iter().flatten() {
            let state = State::Segment(segment.id);
            let name = |which| format!("{which} extents of segment {}", segment.id);
            let [free, some, all] = &segment.lists;
            walk.list(&name("free"), free, rule(state, UNUSED));
            let used = walk.list(&name("partly used"), some, rule(state, PARTLY_USED));
            walk.count(&name("partly used"), used, segment.some_used);
            walk.list(&name("wholly used"), all, rule(state, USED));
        }
        if walk.findings.is_empty() {
            walk.unlisted(self.segments.is_some());
        }
        if let (true, Some(segments)) = (walk.findings.is_empty(), &self.segments) {
            walk.single_pages(segments);
        }
        walk.findings
    }
}

impl<'a> Walk<'a> {
    fn new(extents: &'a [Extent]) -> Self {
        let index = extents.iter().enumerate().map(|(at, extent)| (extent.place, at)).collect();
        Self { extents, index, is_listed: vec![false; extents.len()], findings: Vec::new() }
    }

    fn find(&mut self, name: &str, what: std::fmt::Arguments<'_>) {
        self.findings.push(Finding::whole("map", format!("its list of {name} {what}")));
    }

    /// Follows a list; returns the number of used pages in its extents, if it is intact.
    fn list(&mut self, name: &str, list: &List, rule: Rule) -> Option<u32> {
        let (mut prev, mut next) = (None, list.first);
        let (mut len, mut used) = (0, 0_u32);
        while let Some(place) = next {
            let Some(&at) = self.index.get(&place) else {
                let Place { page, at } = place;
                self.find(name, format_args!("leads to byte {at} of page {page}, no extent's"));
                return None;
            };
            let extent = &self.extents[at];
            let (page, is_first) = (extent.first_page, !self.is_listed[at]);
            self.is_listed[at] = true;
            let fault = if !is_first {
                "which a list had before"
            } else if extent.prev != prev {
                "which names another as the one before it"
            } else if extent.state != rule.state {
                "whose state is another"
            } else if !(rule.is_right)(extent) {
                "of which other pages are in use"
            } else {
                (prev, next) = (Some(place), extent.next);
                (len, used) = (len + 1, used.saturating_add(extent.used));
                continue;
            };
            self.find(name, format_args!("has the extent of page {page}, {fault}"));
            return None;
        }
        if (len, prev) != (list.len, list.last) {
            self.find(name, format_args!("has {len} extents, and its base says {}", list.len));
            return None;
        }
        Some(used)
    }

    fn count(&mut self, name: &str, used: Option<u32>, noted: u32) {
        if let Some(used) = used.filter(|used| *used != noted) {
            self.find(name, format_args!("has {used} pages in use, and its base says {noted}"));
        }
    }

    /// Reports extents that are in no list; those of segments only if these are known.
    fn unlisted(&mut self, with_segments: bool) {
        for (extent, _) in self.extents.iter().zip(&self.is_listed).filter(|(_, listed)| !**listed)
        {
            if with_segments || !matches!(extent.state, State::Segment(_)) {
                let text = format!("no list has the extent of page {}", extent.first_page);
                self.findings.push(Finding::of_tree(extent.place.page, "map", text));
            }
        }
    }

    /// Single pages of segments are in extents of single pages, each in one segment.
    fn single_pages(&mut self, segments: &[Segment]) {
        let mut of = BTreeMap::new();
        for segment in segments {
            for page in &segment.single {
                let at = self.extents.partition_point(|extent| extent.first_page <= *page);
                let extent = at.checked_sub(1).and_then(|at| self.extents.get(at));
                let is_single = extent.is_some_and(|extent| {
                    matches!(extent.state, State::SomePages | State::AllPages)
                        && page - extent.first_page < extent.pages
                });
                let id = segment.id;
                let text = match of.insert(*page, id) {
                    Some(other) => format!("it is a page of segments {other} and {id}"),
                    None if is_single => continue,
                    None => format!("it is a single page of segment {id}, and its extent is not"),
                };
                self.findings.push(Finding::of_tree(*page, "map", text));
            }
        }
    }
}
