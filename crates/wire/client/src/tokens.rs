//! The parsed parts of an answer: its end, and tokens before its first result.

use crate::error::TdsError;

/// Length of DONE, DONEPROC and DONEINPROC.
pub(crate) const DONE_BYTES: usize = 13;
/// Length of a return status.
const STATUS_BYTES: usize = 5;
const DONE_MORE: u16 = 0x01;
const DONE_ERROR: u16 = 0x02;
const DONE_COUNT: u16 = 0x10;
const DONE_SERVER_ERROR: u16 = 0x100;

const RETURN_STATUS: u8 = 0x79;
const TAB_NAME: u8 = 0xA4;
const COL_INFO: u8 = 0xA5;
const ORDER: u8 = 0xA9;
const ERROR: u8 = 0xAA;
const INFO: u8 = 0xAB;
const LOGIN_ACK: u8 = 0xAD;
const FEATURE_ACK: u8 = 0xAE;
const ENV_CHANGE: u8 = 0xE3;
const SESSION_STATE: u8 = 0xE4;
const SSPI: u8 = 0xED;
const ENV_PACKET_SIZE: u8 = 4;

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Final {
    /// Row count of the last statement.
    pub(crate) rows: Option<u64>,
}

/// Parses the DONE that ends an answer. `tail` is its end, at least 13 bytes.
///
/// # Errors
/// If there is no DONE, or it says that more follows, or it reports a failure.
pub(crate) fn final_done(tail: &[u8]) -> Result<Final, TdsError> {
    let at = tail.len().checked_sub(DONE_BYTES);
    let Some([0xFD..=0xFF, a, b, _, _, rows @ ..]) = at.and_then(|at| tail.get(at..)) else {
        return Err(broken("an answer does not end with DONE"));
    };
    let status = u16::from_le_bytes([*a, *b]);
    if status & DONE_MORE != 0 {
        return Err(broken("an answer ends though its last token says that more follows"));
    }
    if status & (DONE_ERROR | DONE_SERVER_ERROR) != 0 {
        return Err(TdsError::StatementFailed { status });
    }
    let rows = rows.try_into().map_or(0, u64::from_le_bytes);
    Ok(Final { rows: (status & DONE_COUNT != 0).then_some(rows) })
}

/// Parses the end of an answer to a call: the row count of its last statement, and the four bytes
/// before its count, little-endian: an INT that is the last value of the last row. `None` if the
/// answer does not end with DONEINPROC, a return status and DONEPROC.
pub(crate) fn call_end(tail: &[u8]) -> Option<(u64, i32)> {
    let at = tail.len().checked_sub(DONE_BYTES + STATUS_BYTES + DONE_BYTES)?;
    let (before, end) = tail.split_at_checked(at)?;
    let [0xFF, a, b, _, _, rest @ ..] = end else { return None };
    let (rows, [RETURN_STATUS, _, _, _, _, 0xFE, ..]) = rest.split_first_chunk::<8>()? else {
        return None;
    };
    let counted = u16::from_le_bytes([*a, *b]) & DONE_COUNT != 0;
    let last = i32::from_le_bytes(*before.last_chunk::<4>()?);
    counted.then(|| (u64::from_le_bytes(*rows), last))
}

/// The tokens before an answer's first result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Number of DONE tokens: messages.
    pub(crate) dones: u64,
    /// The server's program and version, after a login.
    pub(crate) login: Option<String>,
    /// The new packet size, if it was changed.
    pub(crate) packet_bytes: Option<u16>,
}

/// Walks the tokens until the first result.
///
/// # Errors
/// The server's first error; tokens that are longer than the answer.
pub(crate) fn opening(payload: &[u8]) -> Result<Opening, TdsError> {
    let mut found = Opening::default();
    let mut rest = payload;
    while let Some(kind) = rest.first() {
        let (token, behind) = next_token(rest)?;
        if let Token::Unknown(_) = token {
            // A result begins.
            break;
        }
        let body = || sized(&rest[1..]).map(|(body, _)| body);
        match *kind {
            0xFD..=0xFF => found.dones += 1,
            LOGIN_ACK => found.login = Some(program(body()?)),
            ENV_CHANGE => found.packet_bytes = packet_size(body()?).or(found.packet_bytes),
            _ => {}
        }
        rest = behind;
    }
    Ok(found)
}

/// A token, as far as a walk over an answer needs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A notice: its number and text.
    Info(i32, String),
    /// A token without relevant content.
    Other,
    /// A token of unknown length: it belongs to a result.
    Unknown(u8),
}

/// Returns the first token of a non-empty payload, and the rest.
///
/// # Errors
/// The server's error, if the token is one; a token that is longer than the answer.
pub(crate) fn next_token(payload: &[u8]) -> Result<(Token, &[u8]), TdsError> {
    let (kind, behind) = payload.split_first().ok_or_else(cut)?;
    let behind = match *kind {
        0xFD..=0xFF => behind.get(DONE_BYTES - 1..).ok_or_else(cut)?,
        RETURN_STATUS => behind.get(4..).ok_or_else(cut)?,
        ENV_CHANGE | ERROR | INFO | LOGIN_ACK | ORDER | TAB_NAME | COL_INFO | SSPI => {
            let (body, behind) = sized(behind)?;
            match *kind {
                ERROR => return Err(server_error(body)),
                INFO => {
                    if let TdsError::ServerSaid { number, text, .. } = server_error(body) {
                        return Ok((Token::Info(number, text), behind));
                    }
                    return Err(cut());
                }
                _ => behind,
            }
        }
        SESSION_STATE => {
            let (length, behind) = behind.split_first_chunk::<4>().ok_or_else(cut)?;
            behind.get(u32::from_le_bytes(*length) as usize..).ok_or_else(cut)?
        }
        FEATURE_ACK => features(behind)?,
        unknown => return Ok((Token::Unknown(unknown), behind)),
    };
    Ok((Token::Other, behind))
}

/// Returns the content after a two-byte length, and the rest.
fn sized(rest: &[u8]) -> Result<(&[u8], &[u8]), TdsError> {
    let (length, behind) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    behind.split_at_checked(usize::from(u16::from_le_bytes(*length))).ok_or_else(cut)
}

fn features(mut rest: &[u8]) -> Result<&[u8], TdsError> {
    loop {
        let (id, behind) = rest.split_first().ok_or_else(cut)?;
        if *id == 0xFF {
            return Ok(behind);
        }
        let (length, behind) = behind.split_first_chunk::<4>().ok_or_else(cut)?;
        rest = behind.get(u32::from_le_bytes(*length) as usize..).ok_or_else(cut)?;
    }
}

fn server_error(body: &[u8]) -> TdsError {
    let Some((number, [state, class, a, b, rest @ ..])) = body.split_first_chunk::<4>() else {
        return cut();
    };
    let units = usize::from(u16::from_le_bytes([*a, *b]));
    let Some(text) = rest.get(..units * 2) else { return cut() };
    TdsError::ServerSaid {
        number: i32::from_le_bytes(*number),
        class: *class,
        state: *state,
        text: utf16(text),
    }
}

/// LOGINACK: interface, version of TDS, name, version.
fn program(body: &[u8]) -> String {
    let Some([_, _, _, _, _, units, rest @ ..]) = body.get(..) else { return String::new() };
    let Some((name, version)) = rest.split_at_checked(usize::from(*units) * 2) else {
        return String::new();
    };
    match version {
        [major, minor, high, low] => {
            let build = u16::from_be_bytes([*high, *low]);
            format!("{} {major}.{minor}.{build}", utf16(name).trim_end_matches('\0'))
        }
        _ => utf16(name),
    }
}

fn packet_size(body: &[u8]) -> Option<u16> {
    let [ENV_PACKET_SIZE, units, rest @ ..] = body else { return None };
    utf16(rest.get(..usize::from(*units) * 2)?).parse().ok()
}

/// Decodes text of the server; invalid bytes are replaced.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    String::from_utf16_lossy(&units)
}

fn broken(what: &str) -> TdsError {
    TdsError::Protocol { what: what.to_owned() }
}

fn cut() -> TdsError {
    broken("a token is longer than its answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_double::{done, env_packet_size, error_token, login_ack};

    #[test]
    fn an_answer_must_end_with_a_good_done() {
        assert_eq!(final_done(&done(0x10, 7)).unwrap().rows, Some(7));
        assert_eq!(final_done(&done(0, 7)).unwrap().rows, None);
        let failed = final_done(&done(0x02, 0));
        assert!(matches!(failed, Err(TdsError::StatementFailed { status: 2 })));
        for bad in [&done(0x01, 0)[..], &done(0, 0)[1..], &[0xD1; 13][..], &[]] {
            assert!(matches!(final_done(bad), Err(TdsError::Protocol { .. })), "{bad:?}");
        }
    }

    #[test]
    fn tokens_are_walked_until_a_result() {
        let mut payload = login_ack("program");
        payload.extend(env_packet_size("8000"));
        payload.extend([0xAE, 10, 1, 0, 0, 0, 1, 0xFF]);
        payload.extend(done(0x01, 0));
        payload.extend([0x79, 0, 0, 0, 0]);
        payload.extend(done(0x01, 0));
        payload.extend([0x81, 1, 0, 0xFD, 0xFD]);
        let found = opening(&payload).unwrap();
        assert_eq!((found.dones, found.packet_bytes), (2, Some(8000)));
        assert_eq!(found.login.as_deref(), Some("program 16.0.1000"));
    }

    #[test]
    fn the_servers_errors_are_told_with_number_and_text() {
        let mut payload = done(0x01, 0);
        payload.extend(error_token(208, "Invalid object name 'x'."));
        let error = opening(&payload).unwrap_err();
        assert!(matches!(error, TdsError::ServerSaid { number: 208, class: 16, .. }));
        assert!(error.to_string().contains("Invalid object name 'x'."), "{error}");
    }

    #[test]
    fn lengths_that_lie_are_refused_at_every_cut() {
        let mut payload = login_ack("program");
        payload.extend([0xAE, 10, 1, 0, 0, 0, 1, 0xFF]);
        payload.extend([0xE4, 1, 0, 0, 0, 9]);
        payload.extend(done(0, 0));
        let whole: Vec<usize> =
            (0..=payload.len()).filter(|length| opening(&payload[..*length]).is_ok()).collect();
        // Only between tokens: at 0, and after each of the four.
        assert_eq!(whole.len(), 5, "{whole:?}");
        let mut lying = error_token(208, "text");
        lying[1..3].copy_from_slice(&[0xFF, 0xFF]);
        assert!(matches!(opening(&lying), Err(TdsError::Protocol { .. })));
        let mut lying = error_token(208, "text");
        lying[9..11].copy_from_slice(&[0xFF, 0xFF]);
        assert!(matches!(opening(&lying), Err(TdsError::Protocol { .. })));
    }

    #[test]
    fn the_end_of_a_call_tells_rows_and_the_last_value() {
        let token = |kind: u8, status, rows| {
            let mut out = done(status, rows);
            out[0] = kind;
            out
        };
        let status = [0x79, 0, 0, 0, 0];
        let answer =
            [&77_i32.to_le_bytes()[..], &token(0xFF, 0x11, 1), &status, &token(0xFE, 0, 0)]
                .concat();
        assert_eq!(call_end(&answer), Some((1, 77)));
        assert_eq!(call_end(&answer[1..]), None);
        let uncounted = [&answer[..4], &token(0xFF, 0x01, 1), &status, &token(0xFE, 0, 0)].concat();
        assert_eq!(call_end(&uncounted), None);
        let batch = [&answer[..4], &token(0xFD, 0x11, 1), &status, &token(0xFE, 0, 0)].concat();
        assert_eq!(call_end(&batch), None);
    }
}
