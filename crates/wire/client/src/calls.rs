//! Calls of prepared statements. Source: MS-TDS 2.2.6.6 (RPC request), 2.2.5.4 (types).

use crate::frames::{HEADERS_BYTES, put_headers};

/// In place of a procedure's name: its number follows.
const NUMBERED: u16 = 0xFFFF;
const SP_PREPARE: u16 = 11;
const SP_EXECUTE: u16 = 12;
/// Separator of two calls in a message.
const NEXT_CALL: u8 = 0xFF;
const BY_REFERENCE: u8 = 1;
const INTN: u8 = 0x26;
const NVARCHAR: u8 = 0xE7;
const MOST_NVARCHAR_BYTES: u16 = 8000;
/// SQL_Latin1_General_CP1_CI_AS.
const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];
/// Length of a call of [`execute`].
const EXECUTE_BYTES: usize = 25;

fn put_call(out: &mut Vec<u8>, procedure: u16) {
    out.extend_from_slice(&NUMBERED.to_le_bytes());
    out.extend_from_slice(&procedure.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
}

fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&[0, 0, INTN, 4, 4]);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends text of at most 4,000 UTF-16 units; more is cut, which the server will reject.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes: Vec<u8> = text
        .encode_utf16()
        .take(usize::from(MOST_NVARCHAR_BYTES / 2))
        .flat_map(u16::to_le_bytes)
        .collect();
    out.extend_from_slice(&[0, 0, NVARCHAR]);
    out.extend_from_slice(&MOST_NVARCHAR_BYTES.to_le_bytes());
    out.extend_from_slice(&COLLATION);
    out.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// Encodes `sp_prepare`: its answer ends with the statement's number, an INT, and DONEPROC.
pub(crate) fn prepare(declarations: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_headers(&mut out);
    put_call(&mut out, SP_PREPARE);
    // The number to be returned, initially NULL.
    out.extend_from_slice(&[0, BY_REFERENCE, INTN, 4, 0]);
    put_text(&mut out, declarations);
    put_text(&mut out, text);
    put_int(&mut out, 1);
    out
}

/// Appends a message of `sp_execute` of a statement with one INT parameter, one call per value.
pub(crate) fn execute(out: &mut Vec<u8>, handle: i32, values: &[i32]) {
    out.clear();
    out.reserve(HEADERS_BYTES + values.len() * EXECUTE_BYTES);
    put_headers(out);
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            out.push(NEXT_CALL);
        }
        put_call(out, SP_EXECUTE);
        put_int(out, handle);
        put_int(out, *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_parameters() {
        let mut out = Vec::new();
        execute(&mut out, 7, &[258]);
        let call = [
            &[0xFF, 0xFF, 12, 0, 0, 0][..],
            &[0, 0, 0x26, 4, 4, 7, 0, 0, 0],
            &[0, 0, 0x26, 4, 4, 2, 1, 0, 0],
        ]
        .concat();
        assert_eq!(out[HEADERS_BYTES..], call);
        execute(&mut out, 7, &[258, 258]);
        assert_eq!(out[HEADERS_BYTES..], [&call[..], &[0xFF], &call].concat());
        assert_eq!(out.len(), HEADERS_BYTES + 2 * EXECUTE_BYTES - 1);
    }

    #[test]
    fn a_statement_to_prepare_is_text() {
        let out = prepare("@i int", "SELECT @i");
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let at = |part: &[u8]| out.windows(part.len()).position(|window| window == part);
        assert!(at(&wide("@i int")) < at(&wide("SELECT @i")) && at(&wide("@i int")).is_some());
        assert_eq!(out[HEADERS_BYTES..HEADERS_BYTES + 4], [0xFF, 0xFF, 11, 0]);
        assert!(out.ends_with(&[0, 0, 0x26, 4, 4, 1, 0, 0, 0]));
    }
}
