//! Standard input as the source of a backup.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Maximum wait for silent input before the reader checks whether to continue.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Input that may be silent for long. Reads then return as if interrupted by a signal, repeatedly,
/// so that the reader can give up.
pub struct Input {
    file: File,
}

impl Input {
    /// Opens standard input without the buffer of [`io::stdin`], which would hide its content from
    /// `poll`.
    ///
    /// # Errors
    /// If it is closed.
    pub fn standard() -> io::Result<Self> {
        Ok(Self { file: io::stdin().as_fd().try_clone_to_owned()?.into() })
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut waited = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut waited, Some(&PATIENCE)) {
            Ok(0) | Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            Ok(_) => self.file.read(out),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn silent_input_gives_the_reader_a_chance_to_stop() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut input = Input { file: OwnedFd::from(reader).into() };
        let mut out = [0; 8];
        assert_eq!(input.read(&mut out).unwrap_err().kind(), io::ErrorKind::Interrupted);
        writer.write_all(b"abc").unwrap();
        assert_eq!(input.read(&mut out).unwrap(), 3);
        drop(writer);
        assert_eq!(input.read(&mut out).unwrap(), 0);
    }
}
