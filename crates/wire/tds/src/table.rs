//! Table-valued parameters. Source: MS-TDS 2.2.5.5.5.

use crate::error::Error;
use crate::reader::{Reader, put_b_varchar};
use crate::type_info::{TypeInfo, code, put_type_info};
use crate::types::{SqlType, Value};
use crate::value_read::{Place, value_bytes, value_of};
use crate::value_write::put_value;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 1024;
/// In place of a count of columns: the parameter has no table.
const NO_COLUMNS: u16 = 0xFFFF;

const END: u8 = 0x00;
const ROW: u8 = 0x01;
const ORDER_UNIQUE: u8 = 0x10;
const COLUMN_ORDER: u8 = 0x11;

/// Flag of a column without values: its rows get the DEFAULT of the type's column.
const DEFAULT: u16 = 0x0200;

/// The value of a table-valued parameter. Its rows stay as they were sent, and are decoded one at a
/// time: decoded at once, a row of few bytes would take many times their memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TableValue {
    /// The type's schema; empty if the client does not name it.
    pub schema: String,
    /// The type's name; empty if the client does not name it.
    pub name: String,
    /// The columns as sent; none for the default, an empty table.
    pub columns: Vec<TableColumn>,
    /// For each column, the position of the type's column that it fills.
    pub places: Vec<usize>,
    rows: Vec<u8>,
}

/// A column of a table-valued parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableColumn {
    /// The type of its values.
    pub ty: SqlType,
    /// True if it has no values, because the DEFAULT is wanted.
    pub default: bool,
    info: TypeInfo,
}

impl TableColumn {
    /// A column of this type.
    ///
    /// # Errors
    /// A length, precision or scale that T-SQL does not have.
    pub fn new(ty: SqlType, default: bool) -> Result<TableColumn, Error> {
        let mut out = Vec::new();
        put_type_info(&mut out, ty)?;
        let info = TypeInfo::read(&mut Reader::new(&out))?;
        Ok(TableColumn { ty, default, info })
    }
}

impl TableValue {
    /// A table of these rows, whose values are those of the columns without DEFAULT.
    ///
    /// # Errors
    /// A value that does not fit its column.
    pub fn new(
        (schema, name): (&str, &str),
        columns: Vec<TableColumn>,
        rows: &[Vec<Value<'_>>],
    ) -> Result<TableValue, Error> {
        let mut out = Vec::new();
        for row in rows {
            out.push(ROW);
            for (column, value) in columns.iter().filter(|own| !own.default).zip(row) {
                put_value(&mut out, column.ty, value)?;
            }
        }
        let places = (0..columns.len()).collect();
        let (schema, name) = (schema.to_owned(), name.to_owned());
        Ok(TableValue { schema, name, columns, places, rows: out })
    }

    /// Returns the rows: the values of each column that is not a default.
    pub fn rows(&self) -> TableRows<'_> {
        TableRows { columns: &self.columns, rest: Reader::new(&self.rows) }
    }

    /// Returns true if a parameter of this type follows.
    pub(crate) fn follows(from: &Reader<'_>) -> bool {
        from.rest().first() == Some(&code::TABLE)
    }

    /// Reads a table and checks its rows.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<TableValue, Error> {
        let what = "type of a table-valued parameter";
        from.u8(what)?;
        let _database = from.b_varchar(what)?;
        let schema = from.b_varchar(what)?;
        let name = from.b_varchar(what)?;
        let columns = read_columns(from)?;
        let places = read_order(from, columns.len())?;
        let start = from.rest();
        while read_row(from, &columns, None)? {}
        let length = start.len() - from.rest().len();
        // without the end
        let rows = start.get(..length.saturating_sub(1)).unwrap_or_default().to_vec();
        Ok(TableValue { schema, name, columns, places, rows })
    }

    /// Appends the table, for clients in tests.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(code::TABLE);
        put_b_varchar(out, "");
        put_b_varchar(out, &self.schema);
        put_b_varchar(out, &self.name);
        if self.columns.is_empty() {
            out.extend_from_slice(&NO_COLUMNS.to_le_bytes());
            out.extend([END, END]);
            return Ok(());
        }
        let count = u16::try_from(self.columns.len()).unwrap_or(NO_COLUMNS);
        out.extend_from_slice(&count.to_le_bytes());
        for column in &self.columns {
            out.extend_from_slice(&[0; 4]);
            let flags = 1 | if column.default { DEFAULT } else { 0 };
            out.extend_from_slice(&flags.to_le_bytes());
            put_type_info(out, column.ty)?;
            put_b_varchar(out, "");
        }
        let moved = self.places.iter().enumerate().any(|(at, place)| at != *place);
        if moved {
            out.push(COLUMN_ORDER);
            out.extend_from_slice(&count.to_le_bytes());
            for place in &self.places {
                let number = u16::try_from(place + 1).unwrap_or(NO_COLUMNS);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out.push(END);
        out.extend_from_slice(&self.rows);
        out.push(END);
        Ok(())
    }
}

/// The rows of a table, decoded one after the other.
#[derive(Debug, Clone)]
pub struct TableRows<'a> {
    columns: &'a [TableColumn],
    rest: Reader<'a>,
}

impl Iterator for TableRows<'_> {
    type Item = Result<Vec<Value<'static>>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut values = Vec::with_capacity(self.columns.len());
        match read_row(&mut self.rest, self.columns, Some(&mut values)) {
            Ok(true) => Some(Ok(values)),
            Ok(false) => None,
            Err(error) => {
                self.rest = Reader::new(&[]);
                Some(Err(error))
            }
        }
    }
}

fn read_columns(from: &mut Reader<'_>) -> Result<Vec<TableColumn>, Error> {
    let what = "columns of a table-valued parameter";
    let count = match from.u16(what)? {
        NO_COLUMNS => return Ok(Vec::new()),
        0 => return Err(Error::Invalid { what, value: 0 }),
        count => usize::from(count),
    };
    if count > MAX_COLUMNS {
        let (length, limit) = (count as u64, MAX_COLUMNS as u64);
        return Err(Error::TooLong { what, length, limit });
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        from.u32(what)?;
        let flags = from.u16(what)?;
        let info = TypeInfo::read(from)?;
        // its name is not used
        from.b_varchar(what)?;
        columns.push(TableColumn { ty: info.ty, default: flags & DEFAULT != 0, info });
    }
    Ok(columns)
}

/// Reads what follows the columns: how the rows are ordered, which changes nothing, and which of
/// the type's columns each is.
fn read_order(from: &mut Reader<'_>, columns: usize) -> Result<Vec<usize>, Error> {
    let what = "order of a table-valued parameter";
    let mut places: Vec<usize> = (0..columns).collect();
    let (mut ordered, mut placed) = (false, false);
    loop {
        match from.u8(what)? {
            END => return Ok(places),
            ORDER_UNIQUE if !ordered => {
                ordered = true;
                for _ in 0..from.u16(what)? {
                    from.bytes(what, 3)?;
                }
            }
            COLUMN_ORDER if !placed => {
                placed = true;
                let count = from.u16(what)?;
                if usize::from(count) != columns {
                    return Err(Error::Invalid { what, value: count.into() });
                }
                let mut taken = vec![false; columns];
                for place in &mut places {
                    let number = from.u16(what)?;
                    let at = usize::from(number).checked_sub(1);
                    match at.and_then(|at| taken.get_mut(at)) {
                        Some(free) if !*free => *free = true,
                        _ => return Err(Error::Invalid { what, value: number.into() }),
                    }
                    *place = at.unwrap_or_default();
                }
            }
            other => return Err(Error::Invalid { what, value: other.into() }),
        }
    }
}

/// Reads a row and appends its values, if they are wanted; returns false at the end.
fn read_row(
    from: &mut Reader<'_>,
    columns: &[TableColumn],
    mut values: Option<&mut Vec<Value<'static>>>,
) -> Result<bool, Error> {
    let what = "row of a table-valued parameter";
    match from.u8(what)? {
        END => return Ok(false),
        ROW if !columns.is_empty() => {}
        other => return Err(Error::Invalid { what, value: other.into() }),
    }
    for column in columns.iter().filter(|column| !column.default) {
        let value = match value_bytes(from, column.info, Place::Parameter)? {
            Some(bytes) => {
                value_of(column.info, bytes).map_err(|_| Error::Unfit { ty: column.ty })?
            }
            None => Value::Null,
        };
        if let Some(values) = &mut values {
            values.push(value);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::types::Length;

    fn columns() -> Vec<TableColumn> {
        let column = |(ty, default)| TableColumn::new(ty, default).unwrap();
        [(SqlType::Int, false), (SqlType::Date, true), (SqlType::NVarChar(Length::Max), false)]
            .map(column)
            .to_vec()
    }

    fn rows() -> Vec<Vec<Value<'static>>> {
        let long = Value::Text(Cow::Owned("x".repeat(9000)));
        vec![
            vec![Value::Int(-1), Value::Text(Cow::Borrowed("\u{3a9}"))],
            vec![Value::Null, Value::Null],
            vec![Value::Int(3), long],
        ]
    }

    fn table() -> TableValue {
        TableValue::new(("dbo", "list"), columns(), &rows()).unwrap()
    }

    fn written(table: &TableValue) -> Vec<u8> {
        let mut out = Vec::new();
        table.put(&mut out).unwrap();
        out
    }

    fn read(bytes: &[u8]) -> Result<TableValue, Error> {
        let mut from = Reader::new(bytes);
        let table = TableValue::read(&mut from)?;
        from.end("table")?;
        Ok(table)
    }

    fn all(table: &TableValue) -> Vec<Vec<Value<'static>>> {
        table.rows().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_table_goes_there_and_back() {
        let mut table = table();
        assert_eq!(all(&table), rows());
        assert_eq!(read(&written(&table)).unwrap(), table);
        table.places = vec![2, 0, 1];
        assert_eq!(read(&written(&table)).unwrap(), table);
        let none = TableValue::new(("", ""), Vec::new(), &[]).unwrap();
        let found = read(&written(&none)).unwrap();
        assert_eq!((found.columns.len(), found.rows().count()), (0, 0));
    }

    #[test]
    fn every_cut_is_truncated() {
        let bytes = written(&table());
        for length in (1..200).chain(bytes.len() - 50..bytes.len()) {
            let error = read(&bytes[..length]).unwrap_err();
            assert!(error.is_truncated(), "{length}: {error:?}");
        }
    }

    #[test]
    fn lies_are_refused() {
        let names: &[u8] = &[code::TABLE, 0, 0, 0];
        let int: &[u8] = &[0, 0, 0, 0, 1, 0, code::INTN, 4, 0];
        let one = [names, &[1, 0], int].concat();
        assert_eq!(all(&read(&[&one[..], &[0, 1, 4, 7, 0, 0, 0, 0]].concat()).unwrap()).len(), 1);
        let bad: &[&[u8]] = &[
            // no columns, and too many
            &[names, &[0, 0, 0, 0]].concat(),
            &[names, &[1, 4], int].concat(),
            // rows without columns
            &[names, &[0xFF, 0xFF, 0, 1, 0]].concat(),
            // a row that is none, an int of three bytes
            &[&one[..], &[0, 2, 4, 7, 0, 0, 0, 0]].concat(),
            &[&one[..], &[0, 1, 3, 7, 0, 0, 0]].concat(),
            // a place that is not there, for two columns, twice
            &[&one[..], &[COLUMN_ORDER, 1, 0, 2, 0, 0, 0]].concat(),
            &[&one[..], &[COLUMN_ORDER, 1, 0, 0, 0, 0, 0]].concat(),
            &[&one[..], &[COLUMN_ORDER, 2, 0, 1, 0, 1, 0, 0, 0]].concat(),
            &[&one[..], &[COLUMN_ORDER, 1, 0, 1, 0, COLUMN_ORDER, 1, 0, 1, 0, 0, 0]].concat(),
            // a table within it
            &[names, &[1, 0, 0, 0, 0, 0, 1, 0], names, &[0xFF, 0xFF, 0, 0]].concat(),
            // bytes behind it
            &[&one[..], &[0, 0, 9]].concat(),
        ];
        for bytes in bad {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
        // what a column's order says is read, and changes nothing
        let ordered = [&one[..], &[ORDER_UNIQUE, 1, 0, 1, 0, 5, 0, 1, 0, 0]].concat();
        assert_eq!(all(&read(&ordered).unwrap()), [[Value::Null]]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_can_be_decoded(
            at in 0..120_usize, byte: u8, cut in 0..9200_usize, step in 0..3_u8
        ) {
            let mut bytes = written(&table());
            match step {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(cut),
            }
            if let Ok(found) = read(&bytes) {
                let width = found.columns.iter().filter(|column| !column.default).count();
                assert!(found.rows().all(|row| row.unwrap().len() == width));
                assert!(found.rows().count() <= bytes.len());
                let mut places = found.places.clone();
                places.sort_unstable();
                assert!(places.into_iter().eq(0..found.columns.len()));
            }
        }
    }

    #[test]
    fn a_table_of_defaults_takes_no_more_memory_than_its_bytes() {
        let columns = vec![TableColumn::new(SqlType::Int, true).unwrap()];
        let none = TableValue::new(("", "n"), columns, &[]).unwrap();
        let mut bytes = written(&none);
        bytes.pop();
        bytes.extend([ROW; 10_000]);
        bytes.push(END);
        let table = read(&bytes).unwrap();
        assert_eq!((table.rows.len(), table.rows().count()), (10_000, 10_000));
    }
}
