//! Tokens of an answer. Source: MS-TDS 2.2.7.

use crate::error::Error;
use crate::login::Feature;
use crate::product;
use crate::reader::{patch_u16, put_b_varchar, put_us_varchar};
use crate::sink::{Command, EnvChange};
use crate::type_info::{COLLATION, put_column_type, put_type_info, sent_type};
use crate::types::{Column, Generated, Message, SqlType, Value};
use crate::value_write::{put_in_page, put_value};

/// Size of DONE, DONEPROC and DONEINPROC in bytes.
pub const DONE_BYTES: usize = 13;
/// Maximum number of columns of a result.
pub const MAX_COLUMNS: usize = 4096;
/// Maximum length of a message's text, in UTF-16 units. SQL Server's own limit is 2,048; this many
/// fit beside long names.
const MAX_MESSAGE_UNITS: u16 = 30_000;

const COLMETADATA: u8 = 0x81;
const ORDER: u8 = 0xA9;
const ERROR: u8 = 0xAA;
const INFO: u8 = 0xAB;
const RETURNVALUE: u8 = 0xAC;
const LOGINACK: u8 = 0xAD;
const FEATUREEXTACK: u8 = 0xAE;
const ROW: u8 = 0xD1;
const NBCROW: u8 = 0xD2;
const ENVCHANGE: u8 = 0xE3;
const RETURNSTATUS: u8 = 0x79;

/// Kind of DONE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneToken {
    /// The end of a statement of a batch.
    Done,
    /// The end of a procedure.
    DoneProc,
    /// The end of a statement in a procedure.
    DoneInProc,
}

/// The bits of DONE's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DoneStatus(pub u16);

impl DoneStatus {
    /// The last one of the answer.
    pub const FINAL: DoneStatus = DoneStatus(0);
    /// More follows.
    pub const MORE: DoneStatus = DoneStatus(0x01);
    /// The statement failed.
    pub const ERROR: DoneStatus = DoneStatus(0x02);
    /// A transaction is open.
    pub const IN_TRANSACTION: DoneStatus = DoneStatus(0x04);
    /// The row count is valid.
    pub const COUNT: DoneStatus = DoneStatus(0x10);
    /// Answers the client's Attention.
    pub const ATTENTION: DoneStatus = DoneStatus(0x20);

    /// Returns the bits of both.
    #[must_use]
    pub fn with(self, other: DoneStatus) -> DoneStatus {
        DoneStatus(self.0 | other.0)
    }
}

/// Appends a DONE.
pub fn put_done(
    out: &mut Vec<u8>,
    token: DoneToken,
    status: DoneStatus,
    command: Command,
    rows: u64,
) {
    let code = match token {
        DoneToken::Done => 0xFD,
        DoneToken::DoneProc => 0xFE,
        DoneToken::DoneInProc => 0xFF,
    };
    let mut bytes = [code; DONE_BYTES];
    bytes[1..3].copy_from_slice(&status.0.to_le_bytes());
    bytes[3..5].copy_from_slice(&command.0.to_le_bytes());
    bytes[5..].copy_from_slice(&rows.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// Clears "more follows" in the DONE that begins at `at`.
pub fn clear_more(out: &mut [u8], at: usize) {
    if let Some(status) = out.get_mut(at + 1) {
        *status &= !1;
    }
}

/// Appends the columns of a result.
///
/// # Errors
/// Too many columns, or a type with an invalid length.
pub fn put_columns(out: &mut Vec<u8>, columns: &[Column]) -> Result<(), Error> {
    let count = columns.len();
    if count > MAX_COLUMNS {
        let (length, limit) = (count as u64, MAX_COLUMNS as u64);
        return Err(Error::TooLong { what: "columns of a result", length, limit });
    }
    out.push(COLMETADATA);
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    patch_u16(out, at, count);
    for column in columns {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&column_flags(column).to_le_bytes());
        let ty = sent_type(column.ty, column.collation);
        put_column_type(out, ty, column.collation)?;
        if matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image) {
            // The table's name: one part, which is empty.
            out.extend_from_slice(&[1, 0, 0]);
        }
        put_b_varchar(out, &column.name);
    }
    Ok(())
}

/// "No columns": for a client that asked for none.
pub fn put_no_columns(out: &mut Vec<u8>) {
    out.extend_from_slice(&[COLMETADATA, 0xFF, 0xFF]);
}

fn column_flags(column: &Column) -> u16 {
    // MS-TDS, 2.2.7.4: usUpdateable (0 is read-only, 2 is not known), fIdentity, fComputed
    let flags = match column.generated {
        Generated::No => 0x08,
        Generated::Identity => 0x10,
        Generated::Computed => 0x20,
        Generated::Version => 0,
    };
    flags | u16::from(column.nullable)
}

/// Appends a row, with NULLs as bits if `compressed` and there are any. Appends nothing on failure.
///
/// # Errors
/// A value that does not fit its column, or a wrong number of values.
pub fn put_row(
    out: &mut Vec<u8>,
    columns: &[Column],
    values: &[Value<'_>],
    compressed: bool,
) -> Result<(), Error> {
    let start = out.len();
    let result = try_put_row(out, columns, values, compressed);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn try_put_row(
    out: &mut Vec<u8>,
    columns: &[Column],
    values: &[Value<'_>],
    compressed: bool,
) -> Result<(), Error> {
    if columns.len() != values.len() {
        return Err(Error::Invalid { what: "count of values", value: values.len() as u64 });
    }
    if compressed && values.iter().any(|value| matches!(value, Value::Null)) {
        out.push(NBCROW);
        for group in values.chunks(8) {
            let bit =
                |(at, value): (usize, &Value<'_>)| u8::from(matches!(value, Value::Null)) << at;
            out.push(group.iter().enumerate().map(bit).fold(0, |all, bit| all | bit));
        }
        for (column, value) in columns.iter().zip(values) {
            if !matches!(value, Value::Null) {
                put_column_value(out, column, value)?;
            }
        }
    } else {
        out.push(ROW);
        for (column, value) in columns.iter().zip(values) {
            put_column_value(out, column, value)?;
        }
    }
    Ok(())
}

fn put_column_value(out: &mut Vec<u8>, column: &Column, value: &Value<'_>) -> Result<(), Error> {
    let ty = sent_type(column.ty, column.collation);
    put_in_page(out, ty, value, column.collation.code_page())
}

/// Appends the columns by which a result is sorted, from 1.
pub fn put_order(out: &mut Vec<u8>, columns: &[u16]) {
    out.push(ORDER);
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    patch_u16(out, at, columns.len() * 2);
    out.extend(columns.iter().flat_map(|column| column.to_le_bytes()));
}

/// Appends ERROR or INFO, by the message's class.
pub fn put_message(out: &mut Vec<u8>, message: &Message, server: &str) {
    out.push(if message.is_error() { ERROR } else { INFO });
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&message.number.to_le_bytes());
    out.extend_from_slice(&[message.state, message.class]);
    put_us_varchar(out, &message.text, MAX_MESSAGE_UNITS);
    put_b_varchar(out, server);
    put_b_varchar(out, &message.procedure);
    out.extend_from_slice(&message.line.to_le_bytes());
    end_length(out, at);
}

/// Fills in the length in the two bytes at `at`.
fn end_length(out: &mut [u8], at: usize) {
    let length = out.len() - at - 2;
    patch_u16(out, at, length);
}

/// Appends a procedure's return value.
pub fn put_return_status(out: &mut Vec<u8>, status: i32) {
    out.push(RETURNSTATUS);
    out.extend_from_slice(&status.to_le_bytes());
}

/// Appends an output parameter. Appends nothing on failure.
///
/// # Errors
/// A value that does not fit its type.
pub fn put_return_value(
    out: &mut Vec<u8>,
    ordinal: u16,
    name: &str,
    ty: SqlType,
    value: &Value<'_>,
) -> Result<(), Error> {
    let start = out.len();
    out.push(RETURNVALUE);
    out.extend_from_slice(&ordinal.to_le_bytes());
    put_b_varchar(out, name);
    // An output parameter; no user type; may be NULL.
    out.push(1);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[1, 0]);
    let result = put_type_info(out, ty).and_then(|()| put_value(out, ty, value));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Appends a change that an interpreter made.
pub fn put_env_change(out: &mut Vec<u8>, change: EnvChange<'_>) {
    match change {
        EnvChange::Database { new, old } => put_env_texts(out, 1, new, old),
        EnvChange::Language { new, old } => put_env_texts(out, 2, new, old),
        EnvChange::Begin(id) => put_env_bytes(out, 8, &id.to_le_bytes(), &[]),
        EnvChange::Commit(id) => put_env_bytes(out, 9, &[], &id.to_le_bytes()),
        EnvChange::Rollback(id) => put_env_bytes(out, 10, &[], &id.to_le_bytes()),
    }
}

/// Appends the new packet size.
pub fn put_packet_size(out: &mut Vec<u8>, new: u16, old: u16) {
    put_env_texts(out, 4, &new.to_string(), &old.to_string());
}

/// Appends the server's collation.
pub fn put_collation(out: &mut Vec<u8>) {
    put_env_bytes(out, 7, &COLLATION, &[]);
}

/// Appends the acknowledgement that the session was reset.
pub fn put_reset_done(out: &mut Vec<u8>) {
    put_env_bytes(out, 18, &[], &[]);
}

fn put_env_texts(out: &mut Vec<u8>, kind: u8, new: &str, old: &str) {
    out.push(ENVCHANGE);
    let at = out.len();
    out.extend_from_slice(&[0, 0, kind]);
    put_b_varchar(out, new);
    put_b_varchar(out, old);
    end_length(out, at);
}

fn put_env_bytes(out: &mut Vec<u8>, kind: u8, new: &[u8], old: &[u8]) {
    out.push(ENVCHANGE);
    let at = out.len();
    out.extend_from_slice(&[0, 0, kind]);
    for bytes in [new, old] {
        out.push(u8::try_from(bytes.len()).unwrap_or_default());
        out.extend_from_slice(bytes);
    }
    end_length(out, at);
}

/// Appends the acceptance of the login, in `version` of TDS.
pub fn put_login_ack(out: &mut Vec<u8>, version: u32) {
    out.push(LOGINACK);
    let at = out.len();
    // The interface is T-SQL.
    out.extend_from_slice(&[0, 0, 1]);
    out.extend_from_slice(&version.to_be_bytes());
    put_b_varchar(out, product::NAME);
    out.extend_from_slice(&[product::MAJOR, product::MINOR]);
    out.extend_from_slice(&product::BUILD.to_be_bytes());
    end_length(out, at);
}

/// Appends the features that are granted, each with its data.
pub fn put_feature_ack(out: &mut Vec<u8>, features: &[(Feature, &[u8])]) {
    out.push(FEATUREEXTACK);
    for (feature, data) in features {
        out.push(feature.0);
        let length = u32::try_from(data.len()).unwrap_or_default();
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(data);
    }
    out.push(0xFF);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_done_is_thirteen_bytes() {
        let mut out = Vec::new();
        let status = DoneStatus::MORE.with(DoneStatus::COUNT);
        put_done(&mut out, DoneToken::Done, status, Command::SELECT, 3);
        assert_eq!(out, [0xFD, 0x11, 0, 0xC1, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        clear_more(&mut out, 0);
        assert_eq!(out[1], 0x10);
    }

    #[test]
    fn a_message_tells_its_length() {
        let mut out = Vec::new();
        let mut message = Message::new(208, 16, 1, "x".repeat(70_000));
        message.procedure = "p".repeat(300);
        put_message(&mut out, &message, "server");
        let length = usize::from(u16::from_le_bytes([out[1], out[2]]));
        assert_eq!((out[0], length), (ERROR, out.len() - 3));
        let mut out = Vec::new();
        put_message(&mut out, &Message::new(0, 10, 1, "hello"), "server");
        assert_eq!(out[0], INFO);
    }

    #[test]
    fn a_row_with_nulls_is_compressed() {
        let int = |name: &str| Column {
            name: name.into(),
            ty: SqlType::Int,
            nullable: true,
            generated: Generated::No,
            collation: crate::Collation::default(),
        };
        let columns: Vec<_> = (0..9).map(|at| int(&at.to_string())).collect();
        let mut values = vec![Value::Null; 9];
        values[8] = Value::Int(7);
        let mut out = Vec::new();
        put_row(&mut out, &columns, &values, true).unwrap();
        assert_eq!(out, [NBCROW, 0xFF, 0, 4, 7, 0, 0, 0]);
        let mut out = Vec::new();
        put_row(&mut out, &columns, &values, false).unwrap();
        assert_eq!(out, [ROW, 0, 0, 0, 0, 0, 0, 0, 0, 4, 7, 0, 0, 0]);
    }

    #[test]
    fn columns_that_the_server_fills_are_read_only() {
        for (generated, nullable, expected) in [
            (Generated::No, false, 0x08),
            (Generated::No, true, 0x09),
            (Generated::Identity, false, 0x10),
            (Generated::Computed, true, 0x21),
            (Generated::Version, false, 0x00),
        ] {
            let (name, ty) = (String::new(), SqlType::Int);
            let mut out = Vec::new();
            put_columns(
                &mut out,
                &[Column { name, ty, nullable, generated, collation: crate::Collation::default() }],
            )
            .unwrap();
            assert_eq!(out[7..9], [expected, 0], "{generated:?}");
        }
    }

    #[test]
    fn a_row_that_does_not_fit_leaves_nothing() {
        let column = Column {
            name: String::new(),
            ty: SqlType::TinyInt,
            nullable: false,
            generated: Generated::No,
            collation: crate::Collation::default(),
        };
        let mut out = vec![1];
        assert!(put_row(&mut out, &[column], &[Value::Int(300)], true).is_err());
        assert_eq!(out, [1]);
    }
}
