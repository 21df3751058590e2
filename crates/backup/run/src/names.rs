//! The names of an archive's objects: `0000000000000001.tdekit`, and so on.

use crate::RunError;
use crate::error::ArchiveError;

const DIGITS: usize = 16;
const END: &str = ".tdekit";

/// Returns the name of object `number`.
pub(crate) fn name_of(number: u64) -> String {
    format!("{number:0DIGITS$}{END}")
}

/// Returns the number of the object with this name; `None` for other names.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(END)?;
    let number = digits.parse().ok()?;
    // Only one spelling of a number is valid.
    (number > 0 && name_of(number) == name).then_some(number)
}

/// Returns true if a path or an address has the name of an archive's object.
pub(crate) fn is_object_name(name: &str) -> bool {
    name.rsplit('/').next().and_then(number_of).is_some()
}

/// Refuses a backup to an object of an archive: that holds one set and nothing else.
pub(crate) fn refuse_object(object: Option<String>) -> Result<(), RunError> {
    object.map_or(Ok(()), |object| Err(ArchiveError::NoBackupThere { object }.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_name_and_names_sort() {
        for number in [1, 9, 10, 9_999_999_999_999_999, u64::MAX] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        assert!(name_of(9) < name_of(10) && name_of(99) < name_of(1_000_000));
        for wrong in ["0000000000000000.tdekit", "1.tdekit", "0000000000000001", ".tdekit", "x"] {
            assert_eq!(number_of(wrong), None, "{wrong}");
        }
        assert!(is_object_name("s3://b/a/0000000000000009.tdekit"));
        assert!(!is_object_name("0000000000000009.tdekit/a.bak"));
        assert_eq!(number_of("+000000000000001.tdekit"), None);
    }
}
