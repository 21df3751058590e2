//! Checks of a backup against the requested properties, and of a restored database against its
//! source. A figure of a backup that is silently plain, or lost data, would be worse than none.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::key_store;
use crate::tools::Tools;

/// Bytes of page 1 that a copy through SQLite may change (file format, section 1.3): versions of
/// reading and writing, change counter, schema cookie, version-valid-for and library version.
const MAY_CHANGE: [std::ops::Range<usize>; 4] = [18..20, 24..28, 40..44, 92..100];

/// Checks with `tdekit inspect --json`, which needs no key, that the set names the cipher, or none
/// if it has none.
pub(super) fn check_cipher(
    tools: &Tools,
    backup: &Path,
    what: &str,
    cipher: Option<&str>,
) -> Result<()> {
    let mut command = key_store::command(&tools.tdekit, &Vec::new());
    let said = run(command.arg("inspect").arg(backup).arg("--json"))?;
    let wrong = |detail: String| BenchError::mismatch(what, detail);
    let facts: Value = serde_json::from_slice(&said)
        .map_err(|error| wrong(format!("inspect --json said no JSON: {error}")))?;
    match (cipher, named_cipher(&facts)) {
        (None, None) => Ok(()),
        (Some(asked), Some(found)) if asked == found => Ok(()),
        (asked, found) => Err(wrong(format!(
            "encryption {} was asked for, and inspect names {}",
            asked.unwrap_or("none"),
            found.unwrap_or("none")
        ))),
    }
}

/// The first `key_algorithm` of a document that is not null.
fn named_cipher(value: &Value) -> Option<&str> {
    match value {
        Value::Array(values) => values.iter().find_map(named_cipher),
        Value::Object(fields) => match fields.get("key_algorithm") {
            Some(Value::String(name)) => Some(name),
            _ => fields.values().find_map(named_cipher),
        },
        _ => None,
    }
}

/// Checks that a restored database has every byte of its source, except those that SQLite writes
/// into a copy's header.
pub(super) fn check_restored(source: &Path, restored: &Path, what: &str) -> Result<()> {
    let open = |path: &Path| File::open(path).map_err(BenchError::file("cannot open", path));
    let length = |file: &File, path: &Path| {
        file.metadata().map(|state| state.len()).map_err(BenchError::file("cannot read", path))
    };
    let wrong = |detail: String| Err(BenchError::mismatch(what, detail));
    let (mut one, mut two) = (open(source)?, open(restored)?);
    let lengths = (length(&one, source)?, length(&two, restored)?);
    if lengths.0 != lengths.1 {
        return wrong(format!("{} bytes were restored of {}", lengths.1, lengths.0));
    }
    for mib in 0_u64.. {
        let mut left = next(&mut one).map_err(BenchError::file("cannot read", source))?;
        let right = next(&mut two).map_err(BenchError::file("cannot read", restored))?;
        if mib == 0 && left.len().min(right.len()) >= 100 {
            for range in MAY_CHANGE {
                left[range.clone()].copy_from_slice(&right[range]);
            }
        }
        if left != right {
            let at = mib << 20;
            return wrong(format!("the restored database differs within 1 MiB of byte {at}"));
        }
        if left.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Reads the next MiB, or the rest.
fn next(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        let mut data = vec![7_u8; 3 << 20];
        std::fs::write(&one, &data).unwrap();
        data[25] = 8;
        std::fs::write(&two, &data).unwrap();
        check_restored(&one, &two, "x").unwrap();
        data[2_500_000] = 8;
        std::fs::write(&two, &data).unwrap();
        let error = check_restored(&one, &two, "AES_256").unwrap_err().to_string();
        assert!(error.contains("AES_256") && error.contains("2097152"), "{error}");
        std::fs::write(&two, &data[..data.len() - 1]).unwrap();
        assert!(check_restored(&one, &two, "x").is_err());
        std::fs::write(&two, "").unwrap();
        std::fs::write(&one, "").unwrap();
        check_restored(&one, &two, "x").unwrap();
    }

    #[test]
    fn the_cipher_is_found_wherever_it_stands() {
        let facts = serde_json::json!({"sets": [{"position": 1, "key_algorithm": "AES_256"}]});
        assert_eq!(named_cipher(&facts), Some("AES_256"));
        let facts = serde_json::json!({"sets": [{"key_algorithm": null, "name": "AES_1"}]});
        assert_eq!(named_cipher(&facts), None);
    }
}
