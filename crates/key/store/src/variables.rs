//! Environment variables that a library reads by itself and puts into HTTP headers: values that are
//! not valid in a header make such libraries panic.

use std::env;
use std::path::Path;

use crate::disk::read_ordinary;

/// Returns the variables whose names begin with `start`, without blanks and line ends around their
/// values: a value that was read from a file often ends in a line feed. Empty ones are treated as
/// unset.
///
/// # Errors
/// The name of a variable that has a control character within its value.
pub fn trimmed_variables(start: &str) -> Result<Vec<(String, String)>, String> {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(start))?;
        Some((name, value.into_string().ok()?))
    });
    let mut trimmed = Vec::new();
    for (name, value) in variables {
        match as_header(&value) {
            None => return Err(name),
            Some("") => {}
            Some(text) => trimmed.push((name, text.to_owned())),
        }
    }
    Ok(trimmed)
}

/// All of tdekit's variables that users set.
const KNOWN: [&str; 27] = [
    "TDEKIT_AGENT_SOCK",
    "TDEKIT_ALLOW_PLAIN_COPY",
    "TDEKIT_AWS_KMS_KEY",
    "TDEKIT_BACKUP_PASSWORD",
    "TDEKIT_BASE_VFS",
    "TDEKIT_COMMAND",
    "TDEKIT_ENCRYPT_NEW",
    "TDEKIT_ENCRYPT_NEW_ALGORITHM",
    "TDEKIT_EXTENSION",
    "TDEKIT_HOME",
    "TDEKIT_KEY",
    "TDEKIT_KEY_FILE",
    "TDEKIT_LOGIN_PASSWORD",
    "TDEKIT_MARIADB_PLUGIN",
    "TDEKIT_MMAP",
    "TDEKIT_MYSQL_COMPONENT",
    "TDEKIT_PASSWORD",
    "TDEKIT_PASSWORD_FILE",
    "TDEKIT_PEERS",
    "TDEKIT_PKCS11_MODULE",
    "TDEKIT_PKCS11_PIN",
    "TDEKIT_PKCS11_PIN_FILE",
    "TDEKIT_PROGRAM",
    "TDEKIT_SERVICE_TIMEOUT",
    "TDEKIT_VAULT_KEY",
    "TDEKIT_VAULT_MOUNT",
    "TDEKIT_VAULT_TOKEN_FILE",
];
/// Prefixes of guessed names for variables that request encryption, and the right one.
const ASKING: [(&str, &str); 4] = [
    ("TDEKIT_ENC", "TDEKIT_ENCRYPT_NEW"),
    ("TDEKIT_CERT", "TDEKIT_ENCRYPT_NEW"),
    ("TDEKIT_NEW", "TDEKIT_ENCRYPT_NEW"),
    ("TDEKIT_ALG", "TDEKIT_ENCRYPT_NEW_ALGORITHM"),
];
/// Maximum number of typing errors in a name of at least [`LONG_NAME`] letters; one less in others.
const MAX_ERRORS: usize = 3;
const LONG_NAME: usize = "TDEKIT_ENCRYPT_NEW".len();

/// Returns each unknown variable that is set and resembles one of tdekit's, and the known one that
/// it resembles most: by typing errors, or because it requests encryption.
pub fn misspelt_variables() -> impl Iterator<Item = (String, &'static str)> {
    env::vars_os().filter_map(|(name, _)| {
        let name = name.into_string().ok()?;
        resembled(&name).map(|known| (name, known))
    })
}

/// Returns the known variable that an unknown name stands for.
fn resembled(name: &str) -> Option<&'static str> {
    // Most variables of a process are not ours.
    let is_ours = name.bytes().take(2).all(|letter| b"TDE".contains(&letter.to_ascii_uppercase()));
    if KNOWN.contains(&name) || !is_ours {
        return None;
    }
    let upper = name.to_ascii_uppercase().replace('-', "_");
    if let Some(known) = KNOWN.into_iter().find(|known| *known == upper) {
        return Some(known);
    }
    if let Some((_, known)) = ASKING.iter().find(|(begin, _)| upper.starts_with(begin)) {
        return Some(if upper.contains("ALG") { ASKING[3].1 } else { known });
    }
    let most = |known: &str| if known.len() < LONG_NAME { MAX_ERRORS - 1 } else { MAX_ERRORS };
    let near = KNOWN.into_iter().filter(|known| known.len().abs_diff(upper.len()) <= MAX_ERRORS);
    let errors = near.map(|known| (strsim::damerau_levenshtein(known, &upper), known));
    errors.filter(|(errors, known)| *errors <= most(known)).min().map(|(_, known)| known)
}

/// Returns a value without the surrounding blanks and line ends; `None` if a control character
/// remains, which is not valid in an HTTP header.
#[must_use]
pub fn as_header(value: &str) -> Option<&str> {
    let text = value.trim();
    (!text.chars().any(char::is_control)).then_some(text)
}

/// Checks the file that a variable names, where a library reads it by itself and puts its content
/// into a header. A file that cannot be read is left to the library, which reports it.
///
/// # Errors
/// The reason, in words, for content that is not valid in a header.
pub fn check_token_file(variable: &str) -> Result<(), String> {
    const MAX_BYTES: u64 = 256 << 10;
    let named = env::var(variable).unwrap_or_default();
    let path = Path::new(named.trim());
    let Ok(Some(token)) = read_ordinary(path, MAX_BYTES) else { return Ok(()) };
    match token.iter().any(u8::is_ascii_control) {
        true => Err(format!(
            "{} ({variable}) ends in a line feed, or has control characters",
            path.display()
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_resemble_ours_are_seen() {
        for (name, wanted) in [
            ("TDEKIT_ENCRYPT_NWE", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_ENCRYPTNEW", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_ENCRYPT", Some("TDEKIT_ENCRYPT_NEW")),
            ("tdekit_encrypt_new", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDKIT_ENCRYPT_NEW", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_ENCRYPT_NEW_ALGORITM", Some("TDEKIT_ENCRYPT_NEW_ALGORITHM")),
            ("TDEKIT_PASWORD", Some("TDEKIT_PASSWORD")),
            ("TEDKIT_ENCRYPT_NEW", Some("TDEKIT_ENCRYPT_NEW")),
            ("DTEKIT_ENCRYPT_NEW", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_ENYCRPT_NWE", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_NEW_ENCRYPT", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_CERTIFICATE", Some("TDEKIT_ENCRYPT_NEW")),
            ("TDEKIT_NEW_ALGORITHM", Some("TDEKIT_ENCRYPT_NEW_ALGORITHM")),
            ("TDEKIT_ALGORITHM", Some("TDEKIT_ENCRYPT_NEW_ALGORITHM")),
            ("TDEKIT_TEST_TASK", None),
            ("TDEKIT_FULL", None),
            ("TDE", None),
            ("TERM", None),
            ("\u{fc}", None),
        ] {
            assert_eq!(resembled(name), wanted, "{name}");
        }
        assert!(KNOWN.iter().all(|known| resembled(known).is_none()));
    }

    #[test]
    fn blanks_go_and_control_characters_are_refused() {
        for (value, wanted) in [
            ("token\n", Some("token")),
            (" to ken\r\n", Some("to ken")),
            ("", Some("")),
            ("to\nken", None),
            ("to\u{7f}ken", None),
        ] {
            assert_eq!(as_header(value), wanted, "{value:?}");
        }
    }
}
