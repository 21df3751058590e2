//! Which binary logs of a server are due for its archive, and their bytes in the clear.

use std::fs::File;
use std::io::{BufReader, BufWriter, PipeReader, Write, pipe};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use tdekit_mariadb::{Keyring, PluginError, binlog};

use crate::client::Client;
use crate::error::{MariadbError, failed};

/// A binary log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryLog {
    /// Its name, such as `mariadb-bin.000007`.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its first event's header, hexadecimal, without the flags, which change when it is closed:
    /// the time and the server that began it. `None` if it is not known.
    pub begins: Option<String>,
}

impl BinaryLog {
    /// Returns its number: that behind the last dot of its name.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        split(&self.name).map(|(_, number)| number)
    }
}

/// Splits the name of a binary log into what all logs of the server have, and its number.
fn split(name: &str) -> Option<(&str, u64)> {
    let (stem, digits) = name.rsplit_once('.')?;
    let plain = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, digits.parse().ok().filter(|_| plain && !stem.is_empty() && !stem.contains('/'))?))
}

/// The binary logs of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryLogs {
    /// Their directory.
    pub directory: PathBuf,
    /// In order; the last one is being written.
    pub logs: Vec<BinaryLog>,
}

/// The logs that are to be shipped.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<'a> {
    /// Numbers of the first and the last of logs that the archive lacks and the server does not
    /// have any more.
    pub gaps: Vec<(u64, u64)>,
    /// Closed logs behind the archive's last one.
    pub logs: Vec<&'a BinaryLog>,
    /// Closed logs that the archive lacks before its last one.
    pub again: Vec<&'a BinaryLog>,
}

impl BinaryLogs {
    /// Asks a server.
    ///
    /// # Errors
    /// Those of the client; `Answer`. A server without binary logs reports an error of its own.
    pub fn of(client: &Client<'_>) -> Result<Self, MariadbError> {
        let what = "its binary logs";
        let answer = || MariadbError::Answer { what };
        let rows = client.rows("SHOW BINARY LOGS")?;
        let logs: Option<Vec<_>> = rows
            .iter()
            .map(|row| {
                let [name, bytes, ..] = &row[..] else { return None };
                let bytes = bytes.parse().ok()?;
                let log = BinaryLog { name: name.clone(), bytes, begins: None };
                log.number().map(|_| log)
            })
            .collect();
        let base = client.rows("SELECT @@log_bin_basename")?;
        let base = base.first().and_then(|row| row.first()).map(Path::new);
        let directory = base.and_then(Path::parent).ok_or_else(answer)?.to_owned();
        Ok(Self { directory, logs: logs.filter(|logs| !logs.is_empty()).ok_or_else(answer)? })
    }

    /// Returns what is due, if `last` is the last log of the archive, and the logs with the numbers
    /// of `lacking`, from one to another, are not in it.
    ///
    /// # Errors
    /// `OtherBinlogs` where the logs of the server are not those that the archive goes on with.
    pub fn due(
        &self,
        last: Option<&BinaryLog>,
        lacking: &[(u64, u64)],
    ) -> Result<Due<'_>, MariadbError> {
        let (current, closed) =
            self.logs.split_last().ok_or(MariadbError::Answer { what: "its binary logs" })?;
        let Some(last) = last else {
            let logs = closed.iter().collect();
            return Ok(Due { gaps: Vec::new(), logs, again: Vec::new() });
        };
        let other = |reason: String| Err(MariadbError::OtherBinlogs { reason });
        let (Some((stem, due)), Some((own, number))) = (split(&last.name), split(&current.name))
        else {
            return Err(MariadbError::Answer { what: "its binary logs" });
        };
        if stem != own {
            return other(format!("it has {}, and the server writes {}", last.name, current.name));
        }
        if number <= due {
            return other(format!("it has {}, and the server is at {}", last.name, current.name));
        }
        if let Some(same) = closed.iter().find(|log| log.name == last.name)
            && same.bytes != last.bytes
        {
            let (here, there) = (same.bytes, last.bytes);
            return other(format!("{} has {here} bytes here and {there} there", last.name));
        }
        if let (Some(begins), true) = (&last.begins, closed.iter().any(|log| log.name == last.name))
            && self.begins(&last.name)? != *begins
        {
            return other(format!("{} was begun at another time, or by another server", last.name));
        }
        let among = |(first, last): (u64, u64)| {
            let in_range = move |log: &&BinaryLog| {
                log.number().is_some_and(|number| (first..=last).contains(&number))
            };
            closed.iter().filter(in_range).collect::<Vec<_>>()
        };
        let new = (due.saturating_add(1), number.saturating_sub(1));
        let wanted = lacking.iter().copied().chain([new]);
        let gaps = wanted.flat_map(|range| not_among(range, &among(range))).collect();
        let again = lacking.iter().flat_map(|range| among(*range)).collect();
        Ok(Due { gaps, logs: among(new), again })
    }
}

/// Returns the ranges of numbers from one to another that none of these logs has.
fn not_among((first, last): (u64, u64), logs: &[&BinaryLog]) -> Vec<(u64, u64)> {
    let (mut next, mut gaps) = (first, Vec::new());
    for number in logs.iter().filter_map(|log| log.number()) {
        if number > next {
            gaps.push((next, number - 1));
        }
        next = number.saturating_add(1);
    }
    if next <= last {
        gaps.push((next, last));
    }
    gaps
}

impl BinaryLogs {
    /// Reads the beginning of a log; see [`BinaryLog::begins`]. It is in the clear in encrypted
    /// logs, too.
    ///
    /// # Errors
    /// `Io`.
    pub fn begins(&self, name: &str) -> Result<String, MariadbError> {
        /// Length of the magic before the first event (`log_event.h`).
        const MAGIC: u64 = 4;
        const HEADER_WITHOUT_FLAGS: usize = 17;
        let path = self.directory.join(name);
        let mut header = [0; HEADER_WITHOUT_FLAGS];
        File::open(&path)
            .and_then(|file| file.read_exact_at(&mut header, MAGIC))
            .map_err(failed("read", &path))?;
        Ok(hex::encode(header))
    }
}

/// A binary log that is read in the clear, event by event.
#[derive(Debug)]
pub struct PlainLog {
    /// Its bytes.
    pub reader: PipeReader,
    thread: JoinHandle<Result<binlog::Summary, PluginError>>,
}

impl PlainLog {
    /// Opens a log; `keyring` is asked for the server's keys if it is encrypted.
    ///
    /// # Errors
    /// `Io`; those of the plugin's code for a file that is not a binary log; those of `keyring`.
    pub fn open<E: From<MariadbError>>(
        path: &Path,
        keyring: impl FnOnce() -> Result<Arc<Keyring>, E>,
    ) -> Result<Self, E> {
        let open = || File::open(path).map_err(failed("open", path));
        let encrypted =
            binlog::is_encrypted(&mut BufReader::new(open()?)).map_err(MariadbError::from)?;
        let keyring = if encrypted { Some(keyring()?) } else { None };
        let mut input = BufReader::new(open()?);
        let (reader, writer) = pipe().map_err(failed("make a pipe for", path))?;
        let thread = spawn(move || {
            let mut out = BufWriter::new(writer);
            let key = |id, version| match &keyring {
                Some(keyring) => keyring.key(id, version),
                None => Err(PluginError::NoKey { id, version }),
            };
            let read = binlog::decrypt_with(&mut input, &mut out, &key);
            let flushed = out.flush();
            let summary = read?;
            flushed?;
            Ok(summary)
        });
        Ok(Self { reader, thread })
    }

    /// Splits it into its bytes, and what tells whether these are all of it.
    #[must_use]
    pub fn split(self) -> (PipeReader, LogEnd) {
        (self.reader, LogEnd(self.thread))
    }
}

/// The end of a log that is read.
#[derive(Debug)]
pub struct LogEnd(JoinHandle<Result<binlog::Summary, PluginError>>);

/// How a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an event.
    Whole,
    /// Inside an event, as when the server was stopped hard: the whole ones before it were read.
    Short,
}

impl LogEnd {
    /// Waits for the end.
    ///
    /// # Errors
    /// Those of the plugin's code: then what was read is not the log.
    pub fn wait(self) -> Result<Ended, MariadbError> {
        match self.0.join() {
            Ok(Ok(_)) => Ok(Ended::Whole),
            Ok(Err(error)) if error.is_short_binlog() => Ok(Ended::Short),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(MariadbError::Answer { what: "the reading of a binary log" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, bytes: u64) -> BinaryLog {
        BinaryLog { name: name.to_owned(), bytes, begins: None }
    }

    fn server(first: u64, last: u64) -> BinaryLogs {
        let logs = (first..=last).map(|n| log(&format!("bin.{n:06}"), 100 + n)).collect();
        BinaryLogs { directory: PathBuf::from("/data"), logs }
    }

    /// The gaps, and the numbers of the logs that are due.
    fn due(first: u64, last: u64, known: Option<BinaryLog>) -> (Vec<(u64, u64)>, Vec<u64>) {
        let server = server(first, last);
        let due = server.due(known.as_ref(), &[]).unwrap();
        (due.gaps, due.logs.iter().filter_map(|log| log.number()).collect())
    }

    #[test]
    fn closed_logs_behind_the_last_one_are_due() {
        assert_eq!(due(3, 6, None), (vec![], vec![3, 4, 5]));
        assert_eq!(due(3, 6, Some(log("bin.000004", 104))), (vec![], vec![5]));
        assert_eq!(due(3, 6, Some(log("bin.000005", 105))), (vec![], vec![]));
        assert_eq!(due(5, 6, Some(log("bin.000004", 104))), (vec![], vec![5]));
        // Numbers grow beyond six digits.
        assert_eq!(due(999_999, 1_000_001, None), (vec![], vec![999_999, 1_000_000]));
    }

    #[test]
    fn what_was_purged_is_a_gap() {
        assert_eq!(due(5, 7, Some(log("bin.000002", 9))), (vec![(3, 4)], vec![5, 6]));
        assert_eq!(due(7, 7, Some(log("bin.000002", 9))), (vec![(3, 6)], vec![]));
        assert_eq!(due(3, 3, Some(log("bin.000002", 9))), (vec![], vec![]));
    }

    #[test]
    fn what_the_archive_lacks_is_due_again_or_a_gap() {
        let server = server(5, 9);
        let due = server.due(Some(&log("bin.000007", 107)), &[(2, 2), (4, 6)]).unwrap();
        let numbers = |logs: &[&BinaryLog]| logs.iter().filter_map(|log| log.number()).collect();
        let (logs, again): (Vec<_>, Vec<_>) = (numbers(&due.logs), numbers(&due.again));
        assert_eq!((due.gaps, logs, again), (vec![(2, 2), (4, 4)], vec![8], vec![5, 6]));
    }

    #[test]
    fn logs_of_another_server_are_refused() {
        for known in [
            log("other.000004", 104),
            // RESET MASTER, or an older copy of the server.
            log("bin.000006", 106),
            log("bin.000009", 109),
            log("bin.000004", 103),
        ] {
            assert!(server(3, 6).due(Some(&known), &[]).is_err(), "{known:?}");
        }
        for name in ["bin", "bin.00007", "bin.00000x", ".000007", "a/b.000007"] {
            assert_eq!(log(name, 1).number(), None, "{name}");
        }
    }
}
