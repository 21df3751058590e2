//! Standard input that is backed up.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Longest wait for silent input before the reader checks whether to go on.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Input that may be silent for long. Reading it then ends as if a signal had come, again and
/// again, so that whoever reads can give up.
pub struct Input {
    file: File,
}

impl Input {
    /// Standard input, past the buffer of [`io::stdin`], which would hide what it holds from
    /// `poll`.
    ///
    /// # Errors
    /// Where it is closed.
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
