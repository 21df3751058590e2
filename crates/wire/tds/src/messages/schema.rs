//! Errors of ALTER SCHEMA.

use super::{Error, raise, table};

table! {
    /// A refusal to move an object into another schema.
    SchemaError;
    NoObject { name: String } = 15151, 16, 1, Statement,
        "Cannot find the object '{name}', because it does not exist or you do not have permission.";
    NoTarget { name: String } = 15151, 16, 1, Statement,
        "Cannot alter the schema '{name}', because it does not exist or you do not have \
        permission.";
    OfParent {} = 15347, 16, 1, Statement,
        "Cannot transfer an object that is owned by a parent object.";
    SchemaBound {} = 15348, 16, 1, Statement, "Cannot transfer a schemabound object.";
    Taken { name: String } = 15530, 16, 1, Statement,
        "The object with name \"{name}\" already exists.";
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        raise(error.code(), &error)
    }
}
