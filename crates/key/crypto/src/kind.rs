//! The kinds of error, shared by all crates: they tell a caller how to react.

/// The kind of an error. Each library assigns it to its own errors; the consequences, such as an
/// exit code, are decided once, at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It was refused or failed, for no reason of those below.
    Refused,
    /// It was asked for wrongly.
    Usage,
    /// A key, password or certificate is missing or wrong.
    Key,
    /// Data is damaged, or of a newer version.
    Damaged,
    /// Another process holds a lock or changed the data.
    Busy,
    /// Nothing is wrong as far as was looked, and without a key not all was looked at.
    NotVerified,
    /// Input or output failed, or the disk is full.
    Io,
}
