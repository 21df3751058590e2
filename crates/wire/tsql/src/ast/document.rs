//! FOR JSON and FOR XML: the rows of a query as one document.

use super::Query;

/// FOR JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForJson {
    /// AUTO, or PATH.
    pub(crate) auto: bool,
    pub(crate) root: Option<String>,
    /// INCLUDE_NULL_VALUES.
    pub(crate) nulls: bool,
    /// False with WITHOUT_ARRAY_WRAPPER.
    pub(crate) array: bool,
}

/// FOR XML PATH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForXml {
    /// The element of a row; empty for none.
    pub(crate) row: String,
    pub(crate) root: Option<String>,
    /// TYPE.
    pub(crate) typed: bool,
    /// ELEMENTS XSINIL.
    pub(crate) nil: bool,
}

impl Query {
    /// Returns true if its result is a document.
    pub(crate) fn is_document(&self) -> bool {
        self.json.is_some() || self.xml.is_some()
    }
}
