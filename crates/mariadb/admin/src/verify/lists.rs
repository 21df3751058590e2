//! The lists of a tablespace: each extent must be in exactly one, and in the right one, and so each
//! page that describes segments.

use std::collections::{BTreeMap, BTreeSet};

use tdekit_mariadb::datafile::{Extent, List, Node, Place, SegmentPage, SpaceLists, State};

use super::report::Finding;

/// The extents and segments of a tablespace, and the lists that link them.
pub(super) struct Lists {
    space: SpaceLists,
    pub(super) extents: Vec<Extent>,
    /// `None` if some are unknown.
    pub(super) segment_pages: Option<Vec<SegmentPage>>,
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
        Self { space, extents: Vec::new(), segment_pages: None }
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
        let pages = self.segment_pages.as_deref();
        for segment in pages.unwrap_or_default().iter().flat_map(|page| &page.segments) {
            let state = State::Segment(segment.id);
            let name = |which| format!("{which} extents of segment {}", segment.id);
            let [free, some, all] = &segment.lists;
            walk.list(&name("free"), free, rule(state, UNUSED));
            let used = walk.list(&name("partly used"), some, rule(state, PARTLY_USED));
            walk.count(&name("partly used"), used, segment.some_used);
            walk.list(&name("wholly used"), all, rule(state, USED));
        }
        if let Some(pages) = pages {
            walk.segment_pages(space, pages);
        }
        if walk.findings.is_empty() {
            walk.unlisted(pages.is_some());
        }
        if let (true, Some(pages)) = (walk.findings.is_empty(), pages) {
            walk.single_pages(pages);
        }
        walk.findings
    }
}

/// Name of an element: its kind, and a page's number.
struct Name(&'static str, u32);

/// Follows a list: `visit` judges the element at a place, and returns its node and its name.
fn follow(
    list: &List,
    mut visit: impl FnMut(Place) -> Result<(Node, Name), String>,
) -> Result<(), String> {
    let (mut len, mut prev, mut next) = (0, None, list.first);
    while let Some(place) = next {
        let (node, Name(kind, page)) = visit(place)?;
        if node.prev != prev {
            return Err(format!("has {kind}{page}, which names another as the one before it"));
        }
        (len, prev, next) = (len + 1, Some(place), node.next);
    }
    if (len, prev) == (list.len, list.last) {
        return Ok(());
    }
    let List { len: noted, .. } = list;
    Err(match len == *noted {
        true => "ends with another element than its base says".to_owned(),
        false => format!("has {len} elements, and its base says {noted}"),
    })
}

impl<'a> Walk<'a> {
    fn new(extents: &'a [Extent]) -> Self {
        let index = extents.iter().enumerate().map(|(at, one)| (one.node.place, at)).collect();
        Self { extents, index, is_listed: vec![false; extents.len()], findings: Vec::new() }
    }

    fn find(&mut self, name: &str, what: impl std::fmt::Display) {
        self.findings.push(Finding::whole("map", format!("its list of {name} {what}")));
    }

    /// Follows a list of extents; returns the number of used pages in them, if it is intact.
    fn list(&mut self, name: &str, list: &List, rule: Rule) -> Option<u32> {
        let mut used = 0_u32;
        let followed = follow(list, |place| {
            let Some(&at) = self.index.get(&place) else {
                let Place { page, at } = place;
                return Err(format!("leads to byte {at} of page {page}, no extent's"));
            };
            let extent = &self.extents[at];
            used = used.saturating_add(extent.used);
            let page = extent.first_page;
            let fault = if std::mem::replace(&mut self.is_listed[at], true) {
                "which a list had before"
            } else if extent.state != rule.state {
                "whose state is another"
            } else if !(rule.is_right)(extent) {
                "of which other pages are in use"
            } else {
                return Ok((extent.node, Name("the extent of page ", page)));
            };
            Err(format!("has the extent of page {page}, {fault}"))
        });
        followed.map_err(|fault| self.find(name, fault)).ok().map(|()| used)
    }

    /// Follows the lists of pages that describe segments. Each page is in one of the two, and no
    /// two segments have one number, nor the next one's.
    fn segment_pages(&mut self, space: &SpaceLists, pages: &[SegmentPage]) {
        let index: BTreeMap<Place, &SegmentPage> =
            pages.iter().map(|page| (page.node.place, page)).collect();
        let mut listed = BTreeSet::new();
        let names = ["pages without room for a segment", "pages with room for a segment"];
        for (name, (list, has_room)) in
            names.into_iter().zip(space.segment_pages.iter().zip([false, true]))
        {
            let followed = follow(list, |place| {
                let Place { page, at } = place;
                match index.get(&place) {
                    None => Err(format!("leads to byte {at} of page {page}, no such page's")),
                    Some(_) if !listed.insert(place) => {
                        Err(format!("has page {page}, which a list had before"))
                    }
                    Some(one) if (one.segments.len() < one.room) != has_room => {
                        Err(format!("has page {page}, which has {} segments", one.segments.len()))
                    }
                    Some(one) => Ok((one.node, Name("page ", page))),
                }
            });
            if let Err(fault) = followed {
                self.find(name, fault);
            }
        }
        let mut ids = BTreeSet::new();
        for segment in pages.iter().flat_map(|page| &page.segments) {
            let next = space.next_segment;
            let fault = if !ids.insert(segment.id) {
                "another segment has it, too".to_owned()
            } else if segment.id >= next {
                format!("the next one's is {next}")
            } else {
                continue;
            };
            let text = format!("its segment has the number {}, and {fault}", segment.id);
            self.findings.push(Finding::of_tree(segment.place.page, "map", text));
        }
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
                self.findings.push(Finding::of_tree(extent.node.place.page, "map", text));
            }
        }
    }

    /// Single pages of segments are in extents of single pages, each in one segment.
    fn single_pages(&mut self, pages: &[SegmentPage]) {
        let mut of = BTreeMap::new();
        for segment in pages.iter().flat_map(|page| &page.segments) {
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
