//! Errors of ALTER SCHEMA, ALTER TABLE ADD and TRUNCATE TABLE.

use super::{Error, raise, table};

table! {
    /// A refusal to move an object into another schema, to add a column, or to empty a table.
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
    NotNullAdded { column: String, table: String } = 4901, 16, 1, Statement,
        "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT \
        definition specified, or the column being added is an identity or timestamp column, or \
        alternatively if none of the previous conditions are satisfied the table must be empty to \
        allow addition of this column. Column '{column}' cannot be added to non-empty table \
        '{table}' because it does not satisfy these conditions.";
    NotATable { name: String } = 4708, 16, 2, Statement,
        "Could not truncate object '{name}' because it is not a table.";
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        raise(error.code(), &error)
    }
}
