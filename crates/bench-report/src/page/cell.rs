//! Numbers and names of the page, each with its place in the JSON document: `data-from` holds a
//! JSON pointer without its first slash, `data-as` how the value there is written, `data-per` the
//! place of a value that it is divided by. The browser test reads every one of them back.

use maud::{Markup, html};

use crate::compare::Change;
use crate::figures::{Comparison, Pooled};
pub(crate) use crate::format::As;

/// An item of the document, and where it stands.
#[derive(Debug)]
pub(crate) struct Found<'a, T> {
    pub(crate) at: String,
    pub(crate) item: &'a T,
}

/// The first item of a list that is `wanted`; `path` is the list's place.
pub(crate) fn find<'a, T>(
    list: &'a [T],
    path: &str,
    wanted: impl Fn(&T) -> bool,
) -> Option<Found<'a, T>> {
    let (index, item) = list.iter().enumerate().find(|(_, item)| wanted(item))?;
    Some(Found { at: format!("{path}/{index}"), item })
}

/// Every item of a list with its place.
pub(crate) fn each<'a, T>(list: &'a [T], path: &str) -> impl Iterator<Item = Found<'a, T>> {
    list.iter().enumerate().map(move |(index, item)| Found { at: format!("{path}/{index}"), item })
}

/// A number of the document.
pub(crate) fn number(at: &str, kind: As, value: f64) -> Markup {
    html! { span data-from=(at) data-as=(kind.name()) { (kind.words(value)) } }
}

/// A number of the document, shared out over another one.
pub(crate) fn number_per(at: &str, kind: As, value: f64, per: (&str, f64)) -> Markup {
    let shown = value / if per.1 == 0.0 { 1.0 } else { per.1 };
    html! {
        span data-from=(at) data-as=(kind.name()) data-per=(per.0) { (kind.words(shown)) }
    }
}

/// A text of the document.
pub(crate) fn text(at: &str, words: &str) -> Markup {
    html! { span data-from=(at) data-as="text" { (words) } }
}

/// A ratio of the document with its interval.
pub(crate) trait Ratio {
    /// 1 is as fast, or as large.
    fn ratio(&self) -> f64;
    /// Both ends of the interval.
    fn ends(&self) -> Option<(f64, f64)>;
}

macro_rules! ratios {
    ($($name:ty),*) => { $(impl Ratio for $name {
        fn ratio(&self) -> f64 {
            self.ratio
        }

        fn ends(&self) -> Option<(f64, f64)> {
            self.low.zip(self.high)
        }
    })* };
}

ratios!(Comparison, Pooled, Change);

/// `+1.7 %`.
pub(crate) fn ratio<T: Ratio>(found: &Found<'_, T>, kind: As) -> Markup {
    number(&format!("{}/ratio", found.at), kind, found.item.ratio())
}

/// `+0.9 to +2.6`, or that there is none.
pub(crate) fn ends<T: Ratio>(found: &Found<'_, T>, kind: As) -> Markup {
    html! {
        @match found.item.ends() {
            None => "no interval",
            Some((low, high)) if low < 0.01 || high > 100.0 => "too wide to tell",
            Some((low, high)) => {
                (number(&format!("{}/low", found.at), kind, low)) " to "
                (number(&format!("{}/high", found.at), kind, high))
            },
        }
    }
}

/// A table's cell: the overhead, and its interval below.
pub(crate) fn ratio_cell<T: Ratio>(found: Option<&Found<'_, T>>) -> Markup {
    html! {
        @match found {
            None => td { "–" },
            Some(found) => td {
                (ratio(found, As::Percent)) br;
                small { (ends(found, As::Bare)) }
            },
        }
    }
}

/// A table that may be wider than the screen: it scrolls by itself, by keyboard too. `name` is
/// what it is called for those who do not see it.
pub(crate) fn wide(name: &str, table: &Markup) -> Markup {
    html! { div class="wide" role="region" tabindex="0" aria-label=(name) { (table) } }
}

pub(crate) use crate::report::float;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_place() {
        assert_eq!(
            number("summary/x/3/ratio", As::Percent, 1.031).into_string(),
            "<span data-from=\"summary/x/3/ratio\" data-as=\"overhead\">+3.1 %</span>"
        );
        let shared = number_per("a", As::Duration, 5000.0, ("classes/0/operations", 4.0));
        assert!(shared.into_string().ends_with("data-per=\"classes/0/operations\">1.25 us</span>"));
        assert!(number_per("a", As::Count, 7.0, ("b", 0.0)).into_string().contains(">7<"));
        assert!(text("subject/label", "<b>").into_string().contains("&lt;b&gt;"));
    }

    #[test]
    fn items_are_found_with_their_place() {
        let found = find(&[3, 5, 8], "list", |item| *item > 4);
        let found = found.as_ref().map(|found| (found.at.as_str(), *found.item));
        assert_eq!(found, Some(("list/1", 5)));
        assert!(find(&[1], "list", |item| *item > 4).is_none());
        assert_eq!(each(&[1, 2], "l").map(|found| found.at).collect::<Vec<_>>(), ["l/0", "l/1"]);
    }
}
