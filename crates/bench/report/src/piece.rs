//! Pieces of displayed content: words, and texts and numbers of the document with their places. The
//! page adds a place to each: `data-from` holds a JSON pointer without its first slash, `data-as`
//! the format of the value there, `data-per` the place of a value that it is divided by, `data-by`
//! that of a ratio that it grew by, `data-more` that of a ratio of whose growth it is the amount,
//! `data-plus` that of a value that it is added to. The browser test reads every one of them back.

use maud::{Markup, Render, html};

use crate::fact::float;
use crate::figures::Ratio;
pub(crate) use crate::format::As;
use crate::format::{NO_INTERVAL, TOO_WIDE, too_wide};

/// A piece of a sentence or of a table, for the terminal and for the page.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Piece {
    /// Not measured.
    #[default]
    Nothing,
    /// Words that are not from the document.
    Words(String),
    /// A text with its place.
    Text(String, String),
    /// A number with its place.
    Number(String, As, f64),
    /// A number with its place, divided by another one that is not 0.
    Per(String, As, f64, (String, f64)),
    /// A number with its place, and another one that changes it.
    Changed(String, As, f64, Change),
    /// A sequence.
    All(Vec<Piece>),
    /// Code.
    Code(Box<Piece>),
    /// Not broken across lines.
    Whole(Box<Piece>),
    /// In small type.
    Small(Box<Piece>),
    /// In small type on a separate line, on paper behind it; in a terminal in parentheses.
    Below(Box<Piece>),
    /// Each on a separate line.
    Lines(Vec<Piece>),
}

/// A change of a number by another one with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Times a ratio.
    By(String, f64),
    /// What a ratio adds to it.
    More(String, f64),
    /// Plus an amount.
    Plus(String, f64),
}

impl Change {
    /// Returns the attribute that holds its place.
    fn name(&self) -> &'static str {
        match self {
            Self::By(..) => "data-by",
            Self::More(..) => "data-more",
            Self::Plus(..) => "data-plus",
        }
    }

    fn words(&self, kind: As, value: f64) -> String {
        match self {
            Self::By(_, ratio) => kind.words(value * ratio),
            Self::More(_, ratio) => signed(kind, value * (ratio - 1.0)),
            Self::Plus(_, more) => kind.words(value + more),
        }
    }

    fn place(&self) -> &str {
        let (Self::By(at, _) | Self::More(at, _) | Self::Plus(at, _)) = self;
        at
    }
}

/// Formats an amount with its sign.
fn signed(kind: As, value: f64) -> String {
    let plus = if value > 0.0 { "+" } else { "" };
    format!("{plus}{}", kind.words(value))
}

/// Numbers of the document.
pub(crate) trait Amount {
    /// Returns it as a number for display.
    fn amount(self) -> f64;
}

macro_rules! amounts {
    ($($kind:ty: $amount:expr),*) => { $(impl Amount for $kind {
        fn amount(self) -> f64 {
            $amount(self)
        }
    })* };
}

amounts!(f64: f64::from, u32: f64::from, u64: float);

/// Returns a number of the document.
pub(crate) fn number(at: &str, kind: As, value: impl Amount) -> Piece {
    Piece::Number(at.to_owned(), kind, value.amount())
}

/// Returns a text of the document.
pub(crate) fn text(at: &str, words: &str) -> Piece {
    Piece::Text(at.to_owned(), words.to_owned())
}

impl From<&str> for Piece {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Piece {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<Option<Piece>> for Piece {
    fn from(known: Option<Piece>) -> Self {
        Self::All(known.into_iter().collect())
    }
}

/// A sequence of pieces and words.
macro_rules! all {
    ($($piece:expr),* $(,)?) => {
        $crate::piece::Piece::All(vec![$($crate::piece::Piece::from($piece)),*])
    };
}
pub(crate) use all;

impl Piece {
    /// `low to high`.
    pub(crate) fn span([low, high]: [Self; 2]) -> Self {
        all![low, " to ", high]
    }

    /// Joins pieces with words between them.
    pub(crate) fn parted(parts: Vec<Self>, by: &str) -> Self {
        let mut all = Vec::new();
        for part in parts {
            if !all.is_empty() {
                all.push(by.into());
            }
            all.push(part);
        }
        Self::All(all)
    }

    /// Returns it in small type.
    pub(crate) fn small(self) -> Self {
        Self::Small(Box::new(self))
    }

    /// Returns it on a separate line.
    pub(crate) fn below(self) -> Self {
        Self::Below(Box::new(self))
    }

    /// Returns each on a separate line, or a statement that there are none.
    pub(crate) fn lines(lines: impl Iterator<Item = Self>) -> Self {
        let lines: Vec<Self> = lines.collect();
        if lines.is_empty() { "not measured".into() } else { Self::Lines(lines) }
    }

    /// Returns it as plain text.
    pub(crate) fn words(&self) -> String {
        let each = |all: &[Self]| all.iter().map(Self::words).collect::<Vec<_>>();
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Words(words) | Self::Text(_, words) => words.clone(),
            Self::Number(_, kind, value) => kind.words(*value),
            Self::Per(_, kind, value, (_, over)) => kind.words(value / over),
            Self::Changed(_, kind, value, change) => change.words(*kind, *value),
            Self::All(all) => each(all).concat(),
            Self::Code(piece) | Self::Whole(piece) | Self::Small(piece) => piece.words(),
            Self::Below(piece) => format!(" ({})", piece.words()),
            Self::Lines(all) => each(all).join("; "),
        }
    }
}

impl Render for Piece {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Self::Nothing => "–",
                // A number of our own has no place.
                Self::Words(words) if words.contains(|one: char| one.is_ascii_digit()) => {
                    span data-fixed { (words) }
                },
                Self::Words(words) => (words),
                Self::Text(at, words) => span data-from=(at) data-as="text" { (words) },
                Self::Number(at, kind, _) => {
                    span data-from=(at) data-as=(kind.name()) { (self.words()) }
                },
                Self::Per(at, kind, _, (over, _)) => {
                    span data-from=(at) data-as=(kind.name()) data-per=(over) { (self.words()) }
                },
                Self::Changed(at, kind, _, change) => (changed(at, *kind, change, &self.words())),
                Self::Code(piece) => code { (**piece) },
                Self::All(all) => @for piece in all { (piece) },
                Self::Whole(piece) => span class="number" { (**piece) },
                Self::Small(piece) => small { (**piece) },
                Self::Below(piece) => { " " small class="below" { (**piece) } },
                Self::Lines(all) => @for (index, line) in all.iter().enumerate() {
                    @if index > 0 { br; }
                    (line)
                },
            }
        }
    }
}

fn changed(at: &str, kind: As, change: &Change, words: &str) -> Markup {
    let of = |name: &str| (change.name() == name).then(|| change.place());
    html! {
        span data-from=(at) data-as=(kind.name()) data-by=[of("data-by")]
            data-more=[of("data-more")] data-plus=[of("data-plus")] { (words) }
    }
}

/// An item of the document with its place.
#[derive(Debug)]
pub(crate) struct Found<'a, T> {
    pub(crate) at: String,
    pub(crate) item: &'a T,
}

/// Returns the first item of a list that is `wanted`; `path` is the list's place.
pub(crate) fn find<'a, T>(
    list: &'a [T],
    path: &str,
    wanted: impl Fn(&T) -> bool,
) -> Option<Found<'a, T>> {
    each(list, path).find(|found| wanted(found.item))
}

/// Returns every item of a list with its place.
pub(crate) fn each<'a, T>(
    list: &'a [T],
    path: &str,
) -> impl Iterator<Item = Found<'a, T>> + use<'a, T> {
    let path = path.to_owned();
    list.iter().enumerate().map(move |(index, item)| Found { at: format!("{path}/{index}"), item })
}

impl<'a, T> Found<'a, T> {
    pub(crate) fn at(at: &str, item: &'a T) -> Self {
        Self { at: at.to_owned(), item }
    }

    /// Returns a number of a field of the item.
    pub(crate) fn number(&self, field: &str, kind: As, value: impl Amount) -> Piece {
        number(&format!("{}/{field}", self.at), kind, value)
    }

    /// Returns a text of a field of the item.
    pub(crate) fn text(&self, field: &str, words: &str) -> Piece {
        text(&format!("{}/{field}", self.at), words)
    }
}

impl<T: Ratio> Found<'_, T> {
    /// `+1.7 %`.
    pub(crate) fn ratio(&self, kind: As) -> Piece {
        self.number("ratio", kind, self.item.ratio())
    }

    /// `+0.9 to +2.6`, or a statement that there is none.
    pub(crate) fn ends(&self, kind: As) -> Piece {
        let kind = if kind == As::Percent { As::Bare } else { kind };
        match self.item.ends() {
            None => NO_INTERVAL.into(),
            Some(ends) if too_wide(ends.map(|(_, end)| end)) => TOO_WIDE.into(),
            Some(ends) => Piece::span(ends.map(|(field, end)| self.number(field, kind, end))),
        }
    }

    /// `+1.7 % (+0.9 to +2.6)`, within a sentence.
    pub(crate) fn told(&self) -> Piece {
        let ratio = Piece::Whole(Box::new(self.ratio(As::Percent)));
        all![ratio, " (", self.ends(As::Percent), ")"]
    }

    /// The ratio, with its interval below; for sizes, which hardly vary, only the ratio.
    pub(crate) fn with_ends(&self, kind: As) -> Piece {
        match kind {
            As::Fine => self.ratio(kind),
            _ => all![self.ratio(kind), Piece::below(self.ends(kind))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_place() {
        assert_eq!(
            number("summary/x/3/ratio", As::Percent, 1.031).render().into_string(),
            "<span data-from=\"summary/x/3/ratio\" data-as=\"overhead\">+3.1 %</span>"
        );
        let over = ("classes/0/operations".to_owned(), 4.0);
        let shared = Piece::Per("a".to_owned(), As::Duration, 5000.0, over).render().into_string();
        assert!(shared.ends_with("data-per=\"classes/0/operations\">1.25 us</span>"), "{shared}");
        let grown = |change| Piece::Changed("a".to_owned(), As::Duration, 56_000.0, change);
        let more = grown(Change::More("r".to_owned(), 1.1)).render().into_string();
        assert!(more.ends_with("data-more=\"r\">+5.60 us</span>"), "{more}");
        assert_eq!(grown(Change::By("r".to_owned(), 1.1)).words(), "61.6 us");
        assert_eq!(grown(Change::More("r".to_owned(), 0.9)).words(), "-5.60 us");
        assert_eq!(grown(Change::Plus("d".to_owned(), 4000.0)).words(), "60.0 us");
        assert!(text("subject/label", "<b>").render().into_string().contains("&lt;b&gt;"));
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
