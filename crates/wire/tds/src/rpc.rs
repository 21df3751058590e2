//! Remote procedure calls. Source: MS-TDS 2.2.6.6.

use std::sync::Arc;

use crate::error::Error;
use crate::reader::{Reader, put_b_varchar, put_us_varchar};
use crate::request::RequestHeaders;
use crate::table::TableValue;
use crate::type_info::{TypeInfo, put_type_info};
use crate::types::{Parameter, SqlType, Value};
use crate::value_read::{Place, value_bytes, value_of};
use crate::value_write::put_value;

/// Maximum number of parameters of a call.
pub const MAX_PARAMETERS: usize = 2100;
/// Maximum length of a procedure's name, with its database and schema, in units.
const MAX_NAME_UNITS: u16 = 523;

const NUMBERED: u16 = 0xFFFF;
const NEXT_CALL: u8 = 0xFF;
const NEXT_CALL_NOT_EXECUTED: u8 = 0xFE;
const NO_METADATA: u16 = 0x02;
const OUTPUT: u8 = 0x01;
const DEFAULT: u8 = 0x02;
const ENCRYPTED: u8 = 0x08;

/// The procedure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Procedure {
    /// By its name, as the client wrote it.
    Named(String),
    /// One of those that have a number.
    Known(KnownProcedure),
}

/// The procedures that have a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say what they are")]
pub enum KnownProcedure {
    Cursor,
    CursorOpen,
    CursorPrepare,
    CursorExecute,
    CursorPrepExec,
    CursorUnprepare,
    CursorFetch,
    CursorOption,
    CursorClose,
    ExecuteSql,
    Prepare,
    Execute,
    PrepExec,
    PrepExecRpc,
    Unprepare,
}

const KNOWN: [(KnownProcedure, &str); 15] = [
    (KnownProcedure::Cursor, "sp_cursor"),
    (KnownProcedure::CursorOpen, "sp_cursoropen"),
    (KnownProcedure::CursorPrepare, "sp_cursorprepare"),
    (KnownProcedure::CursorExecute, "sp_cursorexecute"),
    (KnownProcedure::CursorPrepExec, "sp_cursorprepexec"),
    (KnownProcedure::CursorUnprepare, "sp_cursorunprepare"),
    (KnownProcedure::CursorFetch, "sp_cursorfetch"),
    (KnownProcedure::CursorOption, "sp_cursoroption"),
    (KnownProcedure::CursorClose, "sp_cursorclose"),
    (KnownProcedure::ExecuteSql, "sp_executesql"),
    (KnownProcedure::Prepare, "sp_prepare"),
    (KnownProcedure::Execute, "sp_execute"),
    (KnownProcedure::PrepExec, "sp_prepexec"),
    (KnownProcedure::PrepExecRpc, "sp_prepexecrpc"),
    (KnownProcedure::Unprepare, "sp_unprepare"),
];

impl KnownProcedure {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        KNOWN.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Returns the procedure of this number, from 1.
    fn from_number(number: u16) -> Result<Self, Error> {
        let at = usize::from(number).checked_sub(1);
        match at.and_then(|at| KNOWN.get(at)) {
            Some((known, _)) => Ok(*known),
            None => Err(Error::Invalid { what: "number of a procedure", value: number.into() }),
        }
    }

    /// Returns the procedure of this name, with or without the prefix `sys.` or `master..`.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(|char| !matches!(char, '[' | ']')).collect();
        let last = plain.rsplit('.').next().unwrap_or_default();
        let found = KNOWN.iter().find(|(_, known)| known.eq_ignore_ascii_case(last));
        found.map(|(known, _)| *known)
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The procedure.
    pub procedure: Procedure,
    /// True if the client knows the columns and wants none.
    pub no_metadata: bool,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// False for a call behind another that the client skips.
    pub executed: bool,
}

/// The calls of a message, read one after the other: a message may hold as many as fit in it, and
/// one at a time is in memory.
#[derive(Debug, Clone)]
pub struct Calls<'a> {
    first: Option<Call>,
    /// The bytes after the calls that were returned.
    from: Reader<'a>,
    executed: bool,
    ended: bool,
}

/// Reads the calls of a message. All are checked before the first is returned, so that a message
/// with a wrong length or an invalid value is refused before any of its calls is executed.
///
/// # Errors
/// Bytes with a wrong length or of an unknown type, too many parameters, values that are invalid
/// for their type.
pub fn decode_rpc(payload: &[u8]) -> Result<(RequestHeaders, Calls<'_>), Error> {
    let mut from = Reader::new(payload);
    let headers = RequestHeaders::read(&mut from)?;
    let mut calls = Calls { first: None, from, executed: true, ended: false };
    let first = calls.read()?;
    let mut rest = calls.clone();
    while !rest.ended {
        rest.read()?;
    }
    calls.first = Some(first);
    Ok((headers, calls))
}

impl Calls<'_> {
    /// Returns true if there is another call.
    pub fn has_more(&self) -> bool {
        self.first.is_some() || !self.ended
    }

    fn read(&mut self) -> Result<Call, Error> {
        let (call, separator) = read_call(&mut self.from, self.executed)?;
        // A separator may also follow the last call.
        self.ended = separator.is_none() || self.from.is_empty();
        self.executed = separator == Some(NEXT_CALL);
        Ok(call)
    }
}

impl Iterator for Calls<'_> {
    type Item = Result<Call, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.first.take() {
            Some(first) => Some(Ok(first)),
            None if self.ended => None,
            None => Some(self.read().inspect_err(|_| self.ended = true)),
        }
    }
}

/// Reads a call and the separator after it.
fn read_call(from: &mut Reader<'_>, executed: bool) -> Result<(Call, Option<u8>), Error> {
    let what = "name of a procedure";
    let procedure = match from.u16(what)? {
        NUMBERED => Procedure::Known(KnownProcedure::from_number(from.u16(what)?)?),
        units if units > MAX_NAME_UNITS => {
            let (length, limit) = (units.into(), MAX_NAME_UNITS.into());
            return Err(Error::TooLong { what, length, limit });
        }
        units => {
            let name = from.utf16(what, units.into())?;
            KnownProcedure::from_name(&name).map_or(Procedure::Named(name), Procedure::Known)
        }
    };
    let no_metadata = from.u16("flags of a call")? & NO_METADATA != 0;
    let mut call = Call { procedure, no_metadata, parameters: Vec::new(), executed };
    loop {
        match from.rest().first() {
            None => return Ok((call, None)),
            Some(separator @ (&NEXT_CALL | &NEXT_CALL_NOT_EXECUTED)) => {
                from.u8(what)?;
                return Ok((call, Some(*separator)));
            }
            Some(_) if call.parameters.len() == MAX_PARAMETERS => {
                return Err(Error::TooManyParameters { limit: MAX_PARAMETERS });
            }
            Some(_) => {
                let number = call.parameters.len() + 1;
                call.parameters.push(read_parameter(from, number)?);
            }
        }
    }
}

fn read_parameter(from: &mut Reader<'_>, number: usize) -> Result<Parameter, Error> {
    let name = from.b_varchar("name of a parameter")?;
    let status = from.u8("status of a parameter")?;
    if status & ENCRYPTED != 0 {
        return Err(Error::Unsupported { what: "an encrypted parameter (Always Encrypted)" });
    }
    let (output, default) = (status & OUTPUT != 0, status & DEFAULT != 0);
    if TableValue::follows(from) {
        let table = match TableValue::read(from) {
            Err(Error::Unfit { ty }) => return Err(Error::Parameter { number, name, ty }),
            table => table?,
        };
        let (ty, value) = (SqlType::SqlVariant, Value::Null);
        return Ok(Parameter { name, ty, value, output, default, table: Some(Arc::new(table)) });
    }
    let info = TypeInfo::read(from)?;
    let value = match value_bytes(from, info, Place::Parameter)?.map(|bytes| value_of(info, bytes))
    {
        Some(Ok(value)) => value,
        Some(Err(_)) => return Err(Error::Parameter { number, name, ty: info.ty }),
        None => Value::Null,
    };
    Ok(Parameter { name, ty: info.ty, value, output, default, table: None })
}

/// Returns a message of one call, for clients in tests.
///
/// # Errors
/// A value that does not fit its type.
pub fn encode_rpc(procedure: &Procedure, parameters: &[Parameter]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    RequestHeaders::default().put(&mut out);
    match procedure {
        Procedure::Named(name) => put_us_varchar(&mut out, name, MAX_NAME_UNITS),
        Procedure::Known(known) => {
            let at = KNOWN.iter().position(|(each, _)| each == known).unwrap_or_default();
            out.extend_from_slice(&NUMBERED.to_le_bytes());
            out.extend_from_slice(&u16::try_from(at + 1).unwrap_or_default().to_le_bytes());
        }
    }
    out.extend_from_slice(&[0, 0]);
    for parameter in parameters {
        put_b_varchar(&mut out, &parameter.name);
        let output = if parameter.output { OUTPUT } else { 0 };
        out.push(output | if parameter.default { DEFAULT } else { 0 });
        if let Some(table) = &parameter.table {
            table.put(&mut out)?;
            continue;
        }
        put_type_info(&mut out, parameter.ty)?;
        put_value(&mut out, parameter.ty, &parameter.value)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::types::{Length, SqlType, Value};

    fn parameters() -> Vec<Parameter> {
        let text = Parameter {
            name: String::new(),
            ty: SqlType::NVarChar(Length::Of(4000)),
            value: Value::Text(Cow::Borrowed("SELECT @a")),
            output: false,
            default: false,
            table: None,
        };
        let int = Parameter {
            name: "@a".into(),
            ty: SqlType::Int,
            value: Value::Int(7),
            output: true,
            default: false,
            table: None,
        };
        vec![text, int]
    }

    fn all(payload: &[u8]) -> Result<Vec<Call>, Error> {
        decode_rpc(payload)?.1.collect()
    }

    fn call() -> Vec<u8> {
        let known = Procedure::Known(KnownProcedure::ExecuteSql);
        encode_rpc(&known, &parameters()).unwrap()
    }

    #[test]
    fn a_call_is_read() {
        let calls = all(&call()).unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].procedure, Procedure::Known(KnownProcedure::ExecuteSql));
        assert_eq!(calls[0].parameters, parameters());
    }

    #[test]
    fn calls_follow_each_other() {
        let mut headers = Vec::new();
        RequestHeaders::default().put(&mut headers);
        let one = call()[headers.len()..].to_vec();
        let two = [&headers[..], &one, &[0xFF], &one, &[0xFE], &one, &[0xFF]].concat();
        let calls = all(&two).unwrap();
        let executed: Vec<_> = calls.iter().map(|call| call.executed).collect();
        assert_eq!(executed, [true, true, false]);
    }

    #[test]
    fn as_many_calls_as_fit_are_read() {
        let mut message = call();
        let one = message[22..].to_vec();
        for _ in 1..5000 {
            message.push(NEXT_CALL);
            message.extend_from_slice(&one);
        }
        let (_, mut calls) = decode_rpc(&message).unwrap();
        for left in (0..5000).rev() {
            assert_eq!(calls.next().unwrap().unwrap().parameters, parameters());
            assert_eq!(calls.has_more(), left > 0);
        }
        assert!(calls.next().is_none());
        // A wrong length in the last call is found before the first one is returned.
        message.truncate(message.len() - 1);
        assert!(decode_rpc(&message).unwrap_err().is_truncated());
    }

    #[test]
    fn a_value_that_is_none_is_told_with_its_parameter() {
        let int = parameters().remove(1);
        for bits in [f64::NAN.to_bits(), f64::INFINITY.to_bits(), f64::NEG_INFINITY.to_bits()] {
            let ty = SqlType::Float;
            let value = Value::Float(f64::from_bits(0x1234_5678_9ABC_DEF0));
            let float = Parameter { name: "@f".into(), ty, value, ..int.clone() };
            let known = Procedure::Known(KnownProcedure::ExecuteSql);
            let mut message = encode_rpc(&known, &[int.clone(), float, int.clone()]).unwrap();
            let found = 0x1234_5678_9ABC_DEF0_u64.to_le_bytes();
            let at = message.windows(8).position(|bytes| bytes == found).unwrap();
            message[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            let told = Error::Parameter { number: 2, name: "@f".into(), ty };
            assert_eq!(decode_rpc(&message).unwrap_err(), told);
        }
    }

    #[test]
    fn too_many_parameters_are_told() {
        let int = parameters().remove(1);
        let known = Procedure::Known(KnownProcedure::ExecuteSql);
        let most = encode_rpc(&known, &vec![int.clone(); MAX_PARAMETERS]).unwrap();
        assert_eq!(all(&most).unwrap()[0].parameters.len(), MAX_PARAMETERS);
        let more = encode_rpc(&known, &vec![int; MAX_PARAMETERS + 1]).unwrap();
        let told = Error::TooManyParameters { limit: MAX_PARAMETERS };
        assert_eq!(decode_rpc(&more).unwrap_err(), told);
    }

    #[test]
    fn names_may_have_a_schema() {
        for name in ["sp_executesql", "sys.SP_ExecuteSQL", "[master]..[sp_executesql]"] {
            assert_eq!(KnownProcedure::from_name(name), Some(KnownProcedure::ExecuteSql));
        }
        assert_eq!(KnownProcedure::from_name("sp_who"), None);
    }

    #[test]
    fn every_cut_is_refused_or_shorter() {
        let whole = call();
        for length in 0..whole.len() {
            if let Ok(calls) = all(&whole[..length]) {
                assert!(calls[0].parameters.len() < 2, "{length}");
            }
        }
    }

    #[test]
    fn lies_are_refused() {
        let headers = {
            let mut out = Vec::new();
            RequestHeaders::default().put(&mut out);
            out
        };
        let bad: [&[u8]; 7] = [
            &[0xFF, 0xFF, 0, 0, 0, 0],
            &[0xFF, 0xFF, 99, 0, 0, 0],
            &[0xFF, 0x0F, 0, 0],
            // Of an unknown type, a table, an encrypted one.
            &[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x99],
            &[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0xF3, 0, 0, 0],
            &[0xFF, 0xFF, 10, 0, 0, 0, 0, 8, 0x26, 4, 4, 1, 0, 0, 0],
            // An int of three bytes.
            &[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x26, 4, 3, 1, 0, 0],
        ];
        for bytes in bad {
            assert!(decode_rpc(&[&headers[..], bytes].concat()).is_err(), "{bytes:?}");
        }
    }
}
