//! Paths in JSON, whose strings are UTF-8. Other bytes of a name become U+FFFD, as in the text for
//! people: a name must not prevent a document from being written.

use std::path::PathBuf;

use serde::Serializer;

/// Paths that [`path_text`] writes.
pub trait PathText {
    /// Writes them as text.
    ///
    /// # Errors
    /// The serializer's.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

/// For `#[serde(serialize_with)]`.
///
/// # Errors
/// The serializer's.
pub fn path_text<T: PathText, S: Serializer>(of: &T, serializer: S) -> Result<S::Ok, S::Error> {
    of.write(serializer)
}

impl PathText for PathBuf {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string_lossy())
    }
}

impl PathText for &PathBuf {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (*self).write(serializer)
    }
}

impl PathText for Option<PathBuf> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(path) => serializer.serialize_some(&path.to_string_lossy()),
            None => serializer.serialize_none(),
        }
    }
}

impl PathText for Vec<PathBuf> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|path| path.to_string_lossy()))
    }
}
