//! Functions as expressions name them, with the constant properties of each.

use crate::value::datetime::Part;

/// A function with its constant properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Func {
    Text(Text),
    Math(Math),
    Bits(Bits),
    Date(Date),
    Json(Json),
    Xml(Xml),
    Coalesce,
    /// GREATEST, or LEAST.
    Extreme(bool),
    IsNumeric,
    /// HASHBYTES, which the host computes.
    HashBytes,
    Format,
    /// Number of rows for TOP, OFFSET and FETCH: at least this many.
    RowCount,
    /// The share of TOP .. PERCENT: 0 to 100.
    Percent,
    /// The lower or the upper bound of the texts that match a LIKE pattern; NULL if it has none.
    LikeBound(bool),
    /// AVG from sum and count.
    Average,
    NewId,
    NewSequentialId,
    /// The number of scalar functions that are running.
    Nesting,
    /// Answered by the session, by its name.
    Session(&'static str),
}

impl Func {
    /// Returns true if the value is the same for the same arguments.
    pub(crate) fn is_pure(self) -> bool {
        !matches!(self, Func::NewId | Func::NewSequentialId | Func::Nesting | Func::Session(_))
    }

    /// Returns true if the value differs for each row.
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Func::NewId | Func::NewSequentialId | Func::Session("RAND"))
    }

    /// Returns true if there is one value for each statement, which the session supplies before
    /// SQLite runs.
    pub(crate) fn is_session(self) -> bool {
        matches!(self, Func::Session(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Text {
    Ascii,
    Char,
    CharIndex,
    /// COLLATIONPROPERTY.
    CollationProperty,
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
    /// STRING_SPLIT, which is not a scalar function.
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
pub(crate) enum Bits {
    Count,
    Get,
    Set,
    Left,
    Right,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Json {
    /// ISJSON.
    Test,
    Value,
    Query,
    /// True if the new value is JSON.
    Modify {
        json: bool,
    },
    /// The rows of OPENJSON.
    Rows,
    /// The members of one object of FOR JSON: three arguments each, its name, whether it is JSON,
    /// its value.
    Members {
        /// INCLUDE_NULL_VALUES.
        nulls: bool,
        /// True if dots in names open objects.
        nested: bool,
    },
    /// FOR JSON: the objects of all rows, and the name of ROOT or NULL.
    Document {
        /// False with WITHOUT_ARRAY_WRAPPER.
        array: bool,
    },
    /// The rows in which a document is sent.
    Pieces,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Xml {
    /// The element of a row: its name, then three arguments for each column, its name, whether it
    /// is XML, its value. NULL if there is nothing.
    Row {
        /// TYPE.
        typed: bool,
        /// ELEMENTS XSINIL.
        nil: bool,
        /// True if the element of the row declares what that needs.
        declares: bool,
    },
    /// All rows, and the name of ROOT or NULL.
    Document {
        /// True if ROOT declares what ELEMENTS XSINIL needs.
        nil: bool,
    },
    /// The method `value`: all text, or the first one outside of elements.
    Text { first: bool },
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
    /// AT TIME ZONE.
    AtTimeZone,
}

impl std::hash::Hash for Part {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
    }
}
