//! Error kinds, shared by all crates, by which a caller decides how to react.

/// The kind of an error. Each library assigns it to its own errors; the consequences, such as an
/// exit code, are decided once, at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The operation was refused or failed for a reason that is not listed below.
    Refused,
    /// The request was wrong.
    Usage,
    /// A key, password or certificate is missing or wrong.
    Key,
    /// Data is damaged, or of a newer version.
    Damaged,
    /// Another process holds a lock or has changed the data.
    Busy,
    /// No fault was found, but without a key not everything could be checked.
    NotVerified,
    /// Input or output failed, or the disk is full.
    Io,
}
