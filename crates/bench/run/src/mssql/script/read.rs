//! Records in the output of any client that ran a script.
//!
//! Clients print a column's name over it and a line below, rows of the measured statements and
//! messages, and pad or break lines. Everything that does not begin like a record is skipped.

use super::record::{END, Flaw, Record, START, VERSION};

/// Maximum number of characters of a record, even with broken lines.
const LONGEST: usize = 600;

/// Reason why an output cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line of the fault, if known.
    pub(super) line: Option<usize>,
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self { line: Some(line), reason: reason.into() }
    }

    pub(super) fn whole(reason: impl Into<String>) -> Self {
        Self { line: None, reason: reason.into() }
    }

    fn of(line: usize, flaw: Flaw) -> Self {
        Self::at(
            line,
            match flaw {
                Flaw::Version(found) => format!(
                    "the records are of version {found:?}, and this program reads {VERSION}"
                ),
                Flaw::Shape => "this is no record of a script, or a part of one".to_owned(),
                Flaw::Check => "this record was changed since the script wrote it".to_owned(),
            },
        )
    }
}

/// Every record of an output, in its order.
pub(super) fn records(bytes: &[u8]) -> Result<Vec<Record>, Fault> {
    let text = text(bytes);
    let mut records = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let cut = |line| Fault::at(line, "this record has no end: the output was cut");
    for (number, line) in (1..).zip(text.lines()) {
        let beside = |one: char| one.is_whitespace() || matches!(one, '"' | '\u{feff}' | '\0');
        let line = line.trim_matches(beside);
        let (at, text) = match (line.strip_prefix(START), open.take()) {
            (Some(_), Some((at, _))) => return Err(cut(at)),
            (Some(begun), None) => (number, begun.to_owned()),
            (None, Some((at, text))) => (at, text + line),
            (None, None) => continue,
        };
        if text.len() > LONGEST {
            return Err(cut(at));
        }
        match text.strip_suffix(END) {
            Some(whole) => {
                records.push(Record::parse(at, whole).map_err(|flaw| Fault::of(at, flaw))?);
            }
            None => open = Some((at, text)),
        }
    }
    match open {
        Some((at, _)) => Err(cut(at)),
        None => Ok(records),
    }
}

/// Decodes text of any encoding that clients write. Records are ASCII, so anything lost does not
/// belong to them.
fn text(bytes: &[u8]) -> String {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::written;
    use super::*;

    fn both() -> [String; 2] {
        [written(7, 1, "fact", &["version", "a b"]), written(7, 2, "mark", &["1", "2", "3"])]
    }

    #[test]
    fn every_clients_output_is_read() {
        let [one, two] = both();
        let wanted = records(format!("{one}\n{two}\n").as_bytes()).unwrap();
        assert_eq!(wanted.len(), 2);
        let plain = format!(
            "Changed database context to 'x'.\r\ntdekit{0:94}\r\n{1}\r\n{one:<100}\r\n\r\n\
             Gr\u{fc}\u{df}e tdekit|\r\n  \"{two}\"  \r\n(1 rows affected)\r\n",
            " ",
            "-".repeat(100)
        );
        let lines = |records: &[Record]| records.iter().map(|one| one.line).collect::<Vec<_>>();
        let found = records(plain.as_bytes()).unwrap();
        assert_eq!(lines(&found), [4, 7]);
        let same = |bytes: &[u8]| {
            let found = records(bytes).unwrap();
            assert_eq!(found.len(), 2);
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_eq!(*found, Record { line: found.line, ..wanted.clone() });
            }
        };
        same(plain.as_bytes());
        same(format!("\u{feff}{plain}").as_bytes());
        let units = || plain.encode_utf16();
        same(&[vec![0xFF, 0xFE], units().flat_map(u16::to_le_bytes).collect()].concat());
        same(&[vec![0xFE, 0xFF], units().flat_map(u16::to_be_bytes).collect()].concat());
        // Of an old code page.
        let bytes: Vec<u8> = plain.chars().map(|one| u8::try_from(one).unwrap()).collect();
        same(&bytes);
        // Lines broken at a width.
        for width in 9..60 {
            let padded = format!("{one:<200}\n{two:<200}");
            let cut = |line: &str| -> Vec<String> {
                let line = line.as_bytes().chunks(width);
                line.map(|part| String::from_utf8(part.to_vec()).unwrap()).collect()
            };
            same(padded.lines().flat_map(cut).collect::<Vec<_>>().join("\r\n").as_bytes());
        }
    }

    #[test]
    fn what_is_cut_changed_or_newer_is_told_with_its_line() {
        let [one, two] = both();
        let line = |text: &str| records(text.as_bytes()).unwrap_err();
        assert_eq!(line(&format!("x\n{}", &one[..20])).line, Some(2));
        assert!(line(&format!("{}\n{two}", &one[..20])).reason.contains("cut"));
        assert!(
            line(&format!("{one}\n{}", two.replace("mark", "mork"))).reason.contains("changed")
        );
        assert!(line(&one.replace("tdekit|1", "tdekit|9")).reason.contains("version \"9\""));
        assert!(line(&format!("tdekit|1|{}", "9".repeat(10_000))).reason.contains("cut"));
        assert!(line(&format!("tdekit|1{};", "|".repeat(10_000))).reason.contains("cut"));
        assert_eq!(records(b"").unwrap(), []);
        assert_eq!(records(&[0xFF; 4_096]).unwrap(), []);
    }

    /// Arbitrary bytes, and arbitrary changes of an output: a result, and no record that was not
    /// written.
    #[test]
    fn anything_is_read_or_refused() {
        let mut rng = fastrand::Rng::with_seed(4711);
        let [one, two] = both();
        let output = format!("tdekit\n------\n{one:<90}\n\n{two:<90}\n\n");
        let wanted = records(output.as_bytes()).unwrap();
        for _ in 0..20_000 {
            let mut bytes = output.clone().into_bytes();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len().max(1));
                if at >= bytes.len() {
                    break;
                }
                match rng.u8(..4) {
                    0 => bytes[at] = rng.u8(..),
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, rng.u8(b' '..=b'~')),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            if let Ok(found) = records(&bytes) {
                let known = |one: &Record| {
                    wanted.iter().any(|wanted| *one == Record { line: one.line, ..wanted.clone() })
                };
                assert!(found.iter().all(known), "{}", String::from_utf8_lossy(&bytes));
            }
        }
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
            let _read = records(&bytes);
            let _begun = records(&[b"tdekit|1|", bytes.as_slice(), b"|;"].concat());
        }
    }
}
