//! Names that are passed to functions which look up objects.

use crate::ast::Name;

/// Returns the parts of a name in a string: brackets and quotes as in text, else split at dots.
pub(crate) fn parts(text: &str) -> Name {
    crate::parse::parse_name(text)
        .unwrap_or_else(|_| Name(text.split('.').map(|part| part.trim().to_owned()).collect()))
}

/// Returns the database of a name in a string; None for the current one.
pub(crate) fn database_in(text: &str) -> Option<String> {
    let name = parts(text);
    if name.object().starts_with('#') {
        return None;
    }
    name.part(2).map(str::to_owned)
}
