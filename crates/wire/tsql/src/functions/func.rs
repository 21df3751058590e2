//! Functions as expressions name them, with the fixed facts of each.

use crate::value::datetime::Part;

/// A function with its fixed facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Func {
    Text(Text),
    Math(Math),
    Date(Date),
    Coalesce,
    /// GREATEST, or LEAST.
    Extreme(bool),
    IsNumeric,
    /// Counts rows for TOP, OFFSET and FETCH: no less than this.
    RowCount,
    /// The share of TOP .. PERCENT: 0 to 100.
    Percent,
    /// The lower or the upper bound of the texts that match a LIKE pattern; NULL where it has none.
    LikeBound(bool),
    /// AVG from sum and count.
    Average,
    NewId,
    NewSequentialId,
    /// The session answers: see `SESSION`.
    Session(&'static str),
}

impl Func {
    /// The same value for the same arguments.
    pub(crate) fn is_pure(self) -> bool {
        !matches!(self, Func::NewId | Func::NewSequentialId | Func::Session(_))
    }

    /// Another value for each row.
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Func::NewId | Func::NewSequentialId | Func::Session("RAND"))
    }

    /// One value a statement, which the session gives before SQLite runs.
    pub(crate) fn is_session(self) -> bool {
        matches!(self, Func::Session(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Text {
    Ascii,
    Char,
    CharIndex,
    Concat,
    ConcatWs,
    DataLength,
    Left,
    Len,
    Lower,
    LTrim,
    NChar,
    ParseName,
    PatIndex,
    QuoteName,
    Replace,
    Replicate,
    Reverse,
    Right,
    RTrim,
    Space,
    /// STRING_SPLIT, which is no scalar function.
    Split,
    Str,
    Stuff,
    Substring,
    Translate,
    Trim,
    Unicode,
    Upper,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Math {
    Abs,
    Acos,
    Asin,
    Atan,
    Atn2,
    Ceiling,
    Cos,
    Cot,
    Degrees,
    Exp,
    Floor,
    Log,
    Log10,
    Pi,
    Power,
    Radians,
    Round,
    Sign,
    Sin,
    Sqrt,
    Square,
    Tan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::enum_variant_names)]
pub(crate) enum Date {
    Add(Part),
    Diff(Part),
    Part(Part),
    Name(Part),
    Trunc(Part),
    EndOfMonth,
    FromParts,
    DateTimeFromParts,
    IsDate,
    SwitchOffset,
    ToDateTimeOffset,
}

impl std::hash::Hash for Part {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
    }
}
