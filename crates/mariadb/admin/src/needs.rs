//! Data and settings of a server that still need the plugin.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tdekit_mariadb::binlog;

use crate::client::Client;
use crate::error::{MariadbError, failed};
use crate::verify::{Places, encrypted_aria};

/// Maximum number of files that are listed.
const NAMED: usize = 5;

impl Client<'_> {
    /// Fails if the server has tablespaces that it could not open without the plugin, would write
    /// logs and Aria tables that it could not read, or has such files already. The server runs on
    /// this machine.
    ///
    /// # Errors
    /// `StillEncrypted`, `StillEncrypts`, `StillRead`, `OtherHost`, `Server`, `Answer`, `Io`.
    pub fn refuse_encrypted(&self) -> Result<Places, MariadbError> {
        let [encrypted] = self.numbers(
            "encrypted tablespaces",
            "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
             WHERE ENCRYPTION_SCHEME = 1 AND MIN_KEY_VERSION > 0",
        )?;
        if encrypted > 0 {
            return Err(MariadbError::StillEncrypted(encrypted));
        }
        let on: [u64; 4] = self.numbers(
            "settings of encryption",
            "SELECT @@innodb_encrypt_tables <> 'OFF', @@innodb_encrypt_log, \
             @@aria_encrypt_tables, @@encrypt_binlog",
        )?;
        let names = [
            "innodb_encrypt_tables",
            "innodb_encrypt_log",
            "aria_encrypt_tables",
            "encrypt_binlog",
        ];
        let on = names.into_iter().zip(on).filter(|(_, value)| *value != 0);
        let settings: Vec<_> = on.map(|(name, _)| name).collect();
        if !settings.is_empty() {
            return Err(MariadbError::StillEncrypts { settings });
        }
        let places = Places::of(self)?;
        let mut files = encrypted_aria(&places)?;
        for base in ["@@log_bin_basename", "@@relay_log_basename"] {
            let rows = self.rows(&format!("SELECT {base}"))?;
            let base = rows.into_iter().flatten().next().filter(|base| base != "NULL");
            let base = base.filter(|base| !base.is_empty());
            if let Some(base) = base {
                files.extend(encrypted_logs(&places.data.join(base))?);
            }
        }
        let mut files: Vec<_> = files.into_iter().map(|file| file.display().to_string()).collect();
        let count = files.len();
        files.truncate(NAMED);
        match count {
            0 => Ok(places),
            _ => Err(MariadbError::StillRead { files, count }),
        }
    }
}

/// Returns the encrypted ones among the binary logs or relay logs whose names begin like `base`.
fn encrypted_logs(base: &Path) -> Result<Vec<PathBuf>, MariadbError> {
    let mut encrypted = Vec::new();
    let (Some(directory), Some(stem)) = (base.parent(), base.file_name()) else {
        return Ok(encrypted);
    };
    if !directory.is_dir() {
        return Ok(encrypted);
    }
    for entry in std::fs::read_dir(directory).map_err(failed("read", directory))? {
        let path = entry.map_err(failed("read", directory))?.path();
        let numbered = path.extension().and_then(|number| number.to_str());
        let numbered = numbered.is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        if !numbered || path.file_stem() != Some(stem) {
            continue;
        }
        let mut log = match File::open(&path) {
            Ok(log) => BufReader::new(log),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed("read", &path)(error)),
        };
        // A log with an invalid beginning cannot be read with the plugin either.
        if binlog::is_encrypted(&mut log).unwrap_or(false) {
            encrypted.push(path);
        }
    }
    encrypted.sort();
    Ok(encrypted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the header of an event of a binary log, and its data.
    fn event(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut event = vec![0; 19];
        event[4] = kind;
        event[9..13].copy_from_slice(&u32::try_from(19 + data.len()).unwrap().to_le_bytes());
        event.extend(data);
        event
    }

    #[test]
    fn logs_of_this_base_are_looked_at_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let log = |kinds: &[u8]| {
            let events = kinds.iter().flat_map(|kind| event(*kind, &[0; 30]));
            [b"\xfebin".to_vec(), events.collect()].concat()
        };
        for (name, content) in [
            ("binlog.000001", log(&[15, 164, 99])),
            ("binlog.000002", log(&[15, 163, 164])),
            ("binlog.000003", log(&[15])),
            ("binlog.000004", b"not a log".to_vec()),
            ("binlog.index", log(&[15, 164])),
            ("other.000001", log(&[15, 164])),
        ] {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let found = encrypted_logs(&dir.path().join("binlog")).unwrap();
        assert_eq!(found, [dir.path().join("binlog.000001")]);
        assert!(encrypted_logs(Path::new("/nowhere/binlog")).unwrap().is_empty());
    }
}
