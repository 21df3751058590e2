//! Errors of FOR XML.

use super::{Error, raise, table};

table! {
    /// An error of FOR XML.
    XmlError;
    NotAllowed { statement: &'static str } = 6819, 16, 1, Statement,
        "The FOR XML clause is not allowed in a {statement} statement.";
    BadCharacter { name: String, code: u32 } = 6841, 16, 1, Statement,
        "FOR XML could not serialize the data for node '{name}' because it contains a character \
        (0x{code:04X}) which is not allowed in XML. To retrieve this data using FOR XML, convert \
        it to binary, varbinary or image data type and use the BINARY BASE64 directive.";
    BadName { kind: &'static str, name: String, fault: char, code: u32 } = 6850, 16, 1, Statement,
        "{kind} '{name}' contains an invalid XML identifier as required by FOR XML; \
        '{fault}'(0x{code:04X}) is the first character at fault.";
    LateAttribute { name: String } = 6852, 16, 1, Statement,
        "Attribute-centric column '{name}' must not come after a non-attribute-centric sibling in \
        XML hierarchy in FOR XML PATH.";
    NoRowTag {} = 6864, 16, 1, Statement,
        "Row tag omission (empty row tag name) cannot be used with attribute-centric FOR XML \
        serialization.";
}

impl From<XmlError> for Error {
    /// The interpreter adds the line.
    fn from(error: XmlError) -> Self {
        raise(error.code(), &error)
    }
}
