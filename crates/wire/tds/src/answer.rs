//! Reading answers: for clients in tests, and to check that our output can be read.

use crate::Collation;
use crate::error::Error;
use crate::reader::Reader;
use crate::token::{DoneStatus, DoneToken, MAX_COLUMNS};
use crate::type_info::TypeInfo;
use crate::types::{Column, Generated, Message, SqlType, Value};
use crate::value_read::{Place, read_value};

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// The columns of a result; none if the client asked to omit them.
    Columns(Vec<Column>),
    /// A row.
    Row(Vec<Value<'static>>),
    /// The end of a unit.
    Done {
        /// Kind of the unit.
        token: DoneToken,
        /// Its status.
        status: DoneStatus,
        /// The statement's number.
        command: u16,
        /// Number of rows, if the status says that it is valid.
        rows: u64,
    },
    /// ERROR or INFO.
    Message(Message),
    /// The return value of a procedure.
    ReturnStatus(i32),
    /// An output parameter.
    ReturnValue {
        /// Its ordinal.
        ordinal: u16,
        /// Its name.
        name: String,
        /// Its type.
        ty: SqlType,
        /// Its value.
        value: Value<'static>,
    },
    /// A change: its kind and the bytes that follow.
    EnvChange(u8, Vec<u8>),
    /// The login is accepted, in this version of TDS.
    LoginAck(u32),
    /// Features that are granted.
    Features(Vec<u8>),
    /// The columns by which a result is sorted.
    Order(Vec<u16>),
}

/// Reads the tokens of an answer.
///
/// # Errors
/// Bytes that are not a token, or that have a wrong length.
pub fn decode_answer(payload: &[u8]) -> Result<Vec<Token>, Error> {
    let mut from = Reader::new(payload);
    let mut tokens = Vec::new();
    let mut columns: Vec<TypeInfo> = Vec::new();
    while !from.is_empty() {
        tokens.push(read_token(&mut from, &mut columns)?);
    }
    Ok(tokens)
}

fn read_token(from: &mut Reader<'_>, columns: &mut Vec<TypeInfo>) -> Result<Token, Error> {
    let what = "token";
    Ok(match from.u8(what)? {
        0x81 => Token::Columns(read_columns(from, columns)?),
        0xD1 => {
            let value = |info: &TypeInfo| read_value(from, *info, Place::Row);
            Token::Row(columns.iter().map(value).collect::<Result<_, _>>()?)
        }
        0xD2 => {
            let bits = from.bytes(what, columns.len().div_ceil(8))?;
            let value = |(at, info): (usize, &TypeInfo)| match bits
                .get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            {
                true => Ok(Value::Null),
                false => read_value(from, *info, Place::Row),
            };
            Token::Row(columns.iter().enumerate().map(value).collect::<Result<_, _>>()?)
        }
        code @ 0xFD..=0xFF => {
            let token = match code {
                0xFD => DoneToken::Done,
                0xFE => DoneToken::DoneProc,
                _ => DoneToken::DoneInProc,
            };
            let status = DoneStatus(from.u16(what)?);
            Token::Done { token, status, command: from.u16(what)?, rows: from.u64(what)? }
        }
        0xAA | 0xAB => {
            let mut own = own_bytes(from)?;
            Token::Message(Message {
                number: own.i32(what)?,
                state: own.u8(what)?,
                class: own.u8(what)?,
                text: own.us_varchar(what)?,
                procedure: {
                    own.b_varchar(what)?;
                    own.b_varchar(what)?
                },
                line: own.u32(what)?,
            })
        }
        0x79 => Token::ReturnStatus(from.i32(what)?),
        0xAC => read_return_value(from)?,
        0xE3 => {
            let mut own = own_bytes(from)?;
            Token::EnvChange(own.u8(what)?, own.rest().to_vec())
        }
        0xAD => {
            let mut own = own_bytes(from)?;
            own.u8(what)?;
            Token::LoginAck(own.u32(what)?.swap_bytes())
        }
        0xAE => Token::Features(read_features(from)?),
        0xA9 => {
            let mut own = own_bytes(from)?;
            let mut order = Vec::new();
            while !own.is_empty() {
                order.push(own.u16(what)?);
            }
            Token::Order(order)
        }
        other => return Err(Error::Invalid { what, value: other.into() }),
    })
}

fn own_bytes<'a>(from: &mut Reader<'a>) -> Result<Reader<'a>, Error> {
    let length = from.u16("token")?;
    Ok(Reader::new(from.bytes("token", length.into())?))
}

fn read_columns(from: &mut Reader<'_>, types: &mut Vec<TypeInfo>) -> Result<Vec<Column>, Error> {
    let what = "columns of a result";
    let count = from.u16(what)?;
    if count == u16::MAX {
        // The types are those that the client knows.
        return Ok(Vec::new());
    }
    if usize::from(count) > MAX_COLUMNS {
        return Err(Error::Invalid { what, value: count.into() });
    }
    types.clear();
    let mut columns = Vec::new();
    for _ in 0..count {
        from.u32(what)?;
        let flags = from.u16(what)?;
        let info = TypeInfo::read(from)?;
        if matches!(info.ty, SqlType::Text | SqlType::NText | SqlType::Image) {
            for _ in 0..from.u8(what)? {
                from.us_varchar(what)?;
            }
        }
        let nullable = flags & 0x01 != 0;
        let generated = Generated::of_flags(flags);
        columns.push(Column {
            name: from.b_varchar(what)?,
            ty: info.ty,
            nullable,
            generated,
            collation: Collation::default(),
        });
        types.push(info);
    }
    Ok(columns)
}

fn read_return_value(from: &mut Reader<'_>) -> Result<Token, Error> {
    let what = "output parameter";
    let ordinal = from.u16(what)?;
    let name = from.b_varchar(what)?;
    // Status, user type, flags.
    from.bytes(what, 7)?;
    let info = TypeInfo::read(from)?;
    let value = read_value(from, info, Place::Row)?;
    Ok(Token::ReturnValue { ordinal, name, ty: info.ty, value })
}

fn read_features(from: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    let what = "features";
    let mut features = Vec::new();
    loop {
        match from.u8(what)? {
            0xFF => return Ok(features),
            feature => {
                let length = from.u32(what)? as usize;
                from.bytes(what, length)?;
                features.push(feature);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::sink::{Command, EnvChange};
    use crate::token::{
        put_collation, put_columns, put_done, put_env_change, put_feature_ack, put_login_ack,
        put_message, put_order, put_return_status, put_return_value, put_row,
    };
    use crate::types::Length;

    #[test]
    fn what_is_written_is_read() {
        let column = |name: &str, ty| Column {
            name: name.into(),
            ty,
            nullable: true,
            generated: Generated::No,
            collation: Collation::default(),
        };
        let columns = [
            column("a", SqlType::Int),
            column("t", SqlType::NText),
            column("v", SqlType::VarChar(Length::Max)),
        ];
        let row = [Value::Int(1), Value::Null, Value::Text(Cow::Borrowed("é"))];
        let message = Message { procedure: "p".into(), line: 7, ..Message::new(208, 16, 1, "no") };
        let mut out = Vec::new();
        put_columns(&mut out, &columns).unwrap();
        put_row(&mut out, &columns, &row, true).unwrap();
        put_row(&mut out, &columns, &row, false).unwrap();
        put_order(&mut out, &[1, 2]);
        put_message(&mut out, &message, "server");
        put_return_status(&mut out, -6);
        put_return_value(&mut out, 2, "@a", SqlType::Int, &Value::Int(3)).unwrap();
        put_env_change(&mut out, EnvChange::Begin(9));
        put_collation(&mut out);
        put_login_ack(&mut out, crate::login::TDS_7_4);
        put_feature_ack(&mut out, &[(crate::login::Feature::UTF8, &[1])]);
        put_done(&mut out, DoneToken::DoneProc, DoneStatus::COUNT, Command::SELECT, 5);
        let tokens = decode_answer(&out).unwrap();
        assert_eq!(tokens.len(), 12);
        assert_eq!(tokens[0], Token::Columns(columns.to_vec()));
        assert_eq!(tokens[1], Token::Row(row.to_vec()));
        assert_eq!(tokens[2], tokens[1]);
        assert_eq!(tokens[3], Token::Order(vec![1, 2]));
        assert_eq!(tokens[4], Token::Message(message));
        assert_eq!(tokens[9], Token::LoginAck(crate::login::TDS_7_4));
        assert_eq!(tokens[10], Token::Features(vec![10]));
    }

    #[test]
    fn a_new_language_comes_before_the_old_one() {
        let mut out = Vec::new();
        put_env_change(&mut out, EnvChange::Language { new: "日本", old: "E" });
        put_done(&mut out, DoneToken::Done, DoneStatus::FINAL, Command::OTHER, 0);
        let tokens = decode_answer(&out).unwrap();
        assert_eq!(tokens[0], Token::EnvChange(2, vec![2, 0xE5, 0x65, 0x2C, 0x67, 1, b'E', 0]));
    }

    /// A client finds the code page in the column's collation. UTF-8 goes out as `nvarchar`.
    #[test]
    fn text_has_the_code_page_of_its_column() {
        let column = |collation: &str, ty| Column {
            name: "a".into(),
            ty,
            nullable: true,
            generated: Generated::No,
            collation: Collation::parse(collation).unwrap(),
        };
        let columns = [
            column("Cyrillic_General_CI_AS", SqlType::VarChar(Length::Of(5))),
            column("Japanese_CS_AS_KS_WS", SqlType::Char(5)),
            column("Greek_CI_AS", SqlType::Text),
            column("Polish_100_CI_AS_SC_UTF8", SqlType::VarChar(Length::Of(5000))),
            column("Thai_BIN2", SqlType::NVarChar(Length::Of(5))),
        ];
        let row: Vec<Value<'_>> =
            ["жé", "あa", "Ω", "łж", "ก"].map(|text| Value::Text(Cow::Borrowed(text))).into();
        let mut out = Vec::new();
        put_columns(&mut out, &columns).unwrap();
        let begins = [0x81, 5, 0, 0, 0, 0, 0, 9, 0, 0xA7, 5, 0, 0x19, 0x04, 0xD0, 0, 0, 1];
        assert_eq!(out[..begins.len()], begins);
        put_row(&mut out, &columns, &row, false).unwrap();
        put_done(&mut out, DoneToken::Done, DoneStatus::COUNT, Command::SELECT, 1);
        let tokens = decode_answer(&out).unwrap();
        let Token::Columns(read) = &tokens[0] else { panic!("{tokens:?}") };
        let types: Vec<_> = read.iter().map(|column| column.ty).collect();
        assert_eq!(types[3], SqlType::NVarChar(Length::Max));
        assert_eq!(types[..3], columns.each_ref().map(|column| column.ty)[..3]);
        let found = ["ж?", "あa  ", "Ω", "łж", "ก"].map(|text| Value::Text(Cow::Borrowed(text)));
        assert_eq!(tokens[1], Token::Row(found.into()));
    }
}
