//! Pages of files that a server may be writing: read, and read again before a verdict.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use tdekit_key_crypto::sha256;

use crate::error::{MariadbError, failed};

/// Wait before a suspicious page is read again. Writing one takes milliseconds.
const AGAIN_AFTER: Duration = Duration::from_millis(150);
/// A page that is suspicious this many times, each time with other bytes, is wrong.
const MAX_ROUNDS: u32 = 40;
/// Number of rounds in which the same bytes must have been suspicious.
const SAME_ROUNDS: u32 = 3;
/// Bytes per read when all pages are read.
pub(super) const CHUNK_LEN: usize = 1 << 20;

/// A function that is called with each page and its number.
pub(super) type Judge<'a, T> = dyn FnMut(u32, &[u8]) -> Result<T, MariadbError> + 'a;

/// The files of one tablespace, as one sequence of pages.
pub(super) struct Pages {
    parts: Vec<Part>,
    pub(super) page_len: usize,
}

struct Part {
    path: PathBuf,
    file: File,
    first: u32,
    pages: u32,
}

/// A suspicious page.
struct Suspect {
    number: u32,
    digest: [u8; 32],
    /// Number of rounds in which it had these very bytes.
    same: u32,
}

impl Pages {
    /// Opens the files.
    pub(super) fn open(paths: &[PathBuf], page_len: usize) -> Result<Self, MariadbError> {
        let (mut parts, mut first) = (Vec::new(), 0);
        for path in paths {
            let file = File::open(path).map_err(failed("open", path))?;
            let len = file.metadata().map_err(failed("read", path))?.len();
            let pages = u32::try_from(len / page_len as u64).unwrap_or(u32::MAX);
            parts.push(Part { path: path.clone(), file, first, pages });
            first = first.saturating_add(pages);
        }
        Ok(Self { parts, page_len })
    }

    /// Returns the number of pages.
    pub(super) fn count(&self) -> u32 {
        self.parts.last().map_or(0, |part| part.first.saturating_add(part.pages))
    }

    /// Returns true if the files still have their names: a table that was dropped or made anew in
    /// the meantime does not.
    pub(super) fn are_current(&self) -> bool {
        self.parts.iter().all(|part| {
            let (opened, named) = (part.file.metadata(), fs::metadata(&part.path));
            let identity = |state: io::Result<fs::Metadata>| {
                state.ok().map(|state| (state.dev(), state.ino()))
            };
            let opened = identity(opened);
            opened.is_some() && opened == identity(named)
        })
    }

    /// Reads one page. Returns an empty one if the file has become shorter.
    pub(super) fn read(&self, number: u32) -> Result<Vec<u8>, MariadbError> {
        let mut page = vec![0; self.page_len];
        self.read_into(number, &mut page)?;
        Ok(page)
    }

    /// Reads pages from `number` on, as many as fit into `out` and are in one file.
    fn read_into(&self, number: u32, out: &mut [u8]) -> Result<usize, MariadbError> {
        let part = self.parts.iter().rfind(|part| part.first <= number);
        let Some(part) = part else { return Ok(0) };
        let at = u64::from(number - part.first) * self.page_len as u64;
        let left = part.pages.saturating_sub(number - part.first) as usize;
        let len = out.len().min(left.saturating_mul(self.page_len));
        let mut done = 0;
        while done < len {
            match part.file.read_at(&mut out[done..len], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", &part.path)(error)),
            }
        }
        out[done..len].fill(0);
        Ok(len / self.page_len)
    }

    /// Calls `look` with the pages with these numbers. It returns whether a page is suspicious;
    /// such a page is read again until it is not, or is the same in several rounds. `wrong`
    /// receives the latter. `read_len` bytes are read at once, for consecutive pages.
    pub(super) fn check(
        &self,
        numbers: &mut dyn Iterator<Item = u32>,
        read_len: usize,
        look: &mut Judge<'_, bool>,
        wrong: &mut Judge<'_, ()>,
    ) -> Result<(), MariadbError> {
        let mut suspects = Vec::new();
        let mut chunk = vec![0; read_len.max(self.page_len)];
        let mut held = 0..0;
        for number in numbers {
            if !held.contains(&number) {
                let read = self.read_into(number, &mut chunk)?;
                held = number..number.saturating_add(u32::try_from(read).unwrap_or(0));
            }
            let at = number.saturating_sub(held.start) as usize * self.page_len;
            let Some(page) = chunk.get(at..at + self.page_len) else { continue };
            if look(number, page)? {
                suspects.push(Suspect { number, digest: sha256(&[page]), same: 1 });
            }
        }
        self.settle(suspects, look, wrong)
    }

    fn settle(
        &self,
        mut suspects: Vec<Suspect>,
        look: &mut Judge<'_, bool>,
        wrong: &mut Judge<'_, ()>,
    ) -> Result<(), MariadbError> {
        for round in 0..MAX_ROUNDS {
            if suspects.is_empty() {
                return Ok(());
            }
            sleep(AGAIN_AFTER);
            let mut left = Vec::new();
            for mut suspect in suspects {
                let page = self.read(suspect.number)?;
                if !look(suspect.number, &page)? {
                    continue;
                }
                let digest = sha256(&[&page]);
                suspect.same = if digest == suspect.digest { suspect.same + 1 } else { 1 };
                suspect.digest = digest;
                if suspect.same >= SAME_ROUNDS || round + 1 == MAX_ROUNDS {
                    wrong(suspect.number, &page)?;
                } else {
                    left.push(suspect);
                }
            }
            suspects = left;
        }
        Ok(())
    }
}
