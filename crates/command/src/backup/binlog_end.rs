//! The end of a binary log of MariaDB: the time up to which it has everything.

use std::fs::File;
use std::io::{BufReader, Read, Result};
use std::path::Path;

/// A log begins with it.
const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];
/// Length of an event's header.
const HEADER: u32 = 19;
/// The events with which a server ends a log: `STOP_EVENT`, `ROTATE_EVENT`.
const LAST: [u8; 2] = [3, 4];

/// Returns the time at which the server ended a log that is in the clear, in seconds since 1970;
/// `None` if it does not end with the event that says so.
///
/// Times of other events do not count: programs set them (`SET timestamp`).
///
/// # Errors
/// Those of reading.
pub(crate) fn ended_at(log: &Path) -> Result<Option<u32>> {
    let file = File::open(log)?;
    let len = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut magic = MAGIC.map(|_| 0);
    let mut at = magic.len() as u64;
    if len < at {
        return Ok(None);
    }
    reader.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Ok(None);
    }
    let mut last = None;
    while at < len {
        let Some(body) = (len - at).checked_sub(HEADER.into()) else { return Ok(None) };
        let mut header = [0; HEADER as usize];
        reader.read_exact(&mut header)?;
        let [t0, t1, t2, t3, kind, _, _, _, _, s0, s1, s2, s3, ..] = header;
        let size = u32::from_le_bytes([s0, s1, s2, s3]);
        let rest = size.checked_sub(HEADER).filter(|rest| u64::from(*rest) <= body);
        let Some(rest) = rest else { return Ok(None) };
        last = Some((kind, u32::from_le_bytes([t0, t1, t2, t3])));
        at += u64::from(size);
        // Within the buffer, nothing is read.
        reader.seek_relative(rest.into())?;
    }
    Ok(last.filter(|(kind, time)| LAST.contains(kind) && *time > 0).map(|(_, time)| time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u32, kind: u8, body: usize) -> Vec<u8> {
        let size = HEADER + u32::try_from(body).unwrap();
        let mut event = [&time.to_le_bytes()[..], &[kind], &[0; 4], &size.to_le_bytes()].concat();
        event.resize(usize::try_from(size).unwrap(), 7);
        event
    }

    #[test]
    fn a_log_ends_with_the_servers_own_event_or_at_no_known_time() {
        let (begun, row) = (event(100, 15, 230), event(900, 2, 40_000));
        let log = |parts: &[&[u8]]| [&[&MAGIC[..]], parts].concat().concat();
        let rotated = log(&[&begun, &row, &event(200, 4, 40)]);
        let mut beyond = event(200, 4, 40);
        beyond[9] += 1;
        let dir = tempfile::tempdir().unwrap();
        for (what, bytes, ended) in [
            ("rotated", rotated.clone(), Some(200)),
            ("stopped", log(&[&begun, &row, &event(300, 3, 4)]), Some(300)),
            ("a program's time is none", log(&[&begun, &row]), None),
            ("cut in a body", rotated[..rotated.len() - 1].to_vec(), None),
            ("cut in a header", rotated[..rotated.len() - 50].to_vec(), None),
            ("goes beyond the end", log(&[&begun, &beyond]), None),
            ("no size", log(&[&begun, &[0; 40]]), None),
            ("no time", log(&[&begun, &event(0, 4, 40)]), None),
            ("another file", b"not a log at all".to_vec(), None),
            ("empty", Vec::new(), None),
        ] {
            let path = dir.path().join("log");
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(ended_at(&path).unwrap(), ended, "{what}");
        }
    }
}
