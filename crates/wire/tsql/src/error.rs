//! Errors of T-SQL. Their table is in wire-tds, with those of the endpoint.

pub(crate) use tdekit_wire_tds::messages::Ends;
pub use tdekit_wire_tds::messages::Error;
pub(crate) use tdekit_wire_tds::messages::Rule;

/// The result of anything that can fail with an [`Error`].
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error and its line in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At {
    pub(crate) error: Error,
    pub(crate) line: u32,
}
