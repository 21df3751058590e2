//! A media file that is written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_backup_media::{TRAILER_LEN, prepared_trailer};
use tdekit_key_store::is_side;

use super::beside::Beside;
use super::media::FileMedia;
use super::writer::Writer;
use super::{is_at, lock, sync_parent};
use crate::RunError;
use crate::target::{Append, AppendAt, MediaSource, Target};

/// Maximum number of times that another writer may replace the file between opening and locking.
const ATTEMPTS: usize = 16;

/// A media file that is written. A new one is beside its final name, which it gets when it is
/// published; an append is at its end. New files are readable by their owner only.
#[derive(Debug)]
pub struct FileTarget {
    path: PathBuf,
    existing: Option<File>,
    clears: bool,
}

impl FileTarget {
    /// Makes a target at this path; nothing is opened yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), existing: None, clears: true }
    }

    /// Leaves remains of killed runs beside a new file, for which the directory would be listed.
    #[must_use]
    pub(crate) fn in_cleared(self) -> Self {
        Self { clears: false, ..self }
    }

    /// Opens and locks the existing file.
    fn open_locked(&self) -> Result<Option<File>, RunError> {
        for _ in 0..ATTEMPTS {
            let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(RunError::io("open", &self.path)(error)),
            };
            lock(&file, &self.path)?;
            if is_at(&file, &self.path).map_err(RunError::io("open", &self.path))? {
                return Ok(Some(file));
            }
        }
        Err(RunError::Locked { path: self.path.clone() })
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> RunError + use<> {
        RunError::io(action, &self.path)
    }
}

impl Target for FileTarget {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError> {
        if is_side(&self.path) {
            return Err(RunError::SideFile { path: self.path.clone() });
        }
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => {
                // Replacing a link would leave the file that it refers to unchanged.
                self.path = self.path.canonicalize().map_err(self.failed("open"))?;
            }
            Ok(_) => {
                let reason = format!("{} is no file", self.path.display());
                return Err(RunError::Option { what: "target", reason });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("open")(error)),
        }
        self.existing = self.open_locked()?;
        let Some(file) = &self.existing else { return Ok(None) };
        let file = file.try_clone().map_err(self.failed("open"))?;
        Ok(Some(Arc::new(FileMedia::new(file, &self.path))))
    }

    fn part_per_record(&self) -> bool {
        false
    }

    fn finish(&mut self, at: u64, trailer: &[u8]) -> Result<(), RunError> {
        let file = self.existing.as_ref().ok_or(RunError::Internal("a file that is not open"))?;
        write_trailer(file, &self.path, at, trailer)
    }

    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError> {
        match place {
            AppendAt::New { replace } => {
                Ok(Box::new(NewFile::create(&self.path, (replace, self.clears))?))
            }
            AppendAt::Behind { part, end } => {
                let Some(file) = self.existing.as_ref().filter(|_| part == 0) else {
                    return Err(RunError::NoPart { media: self.name(), part });
                };
                let file = file.try_clone().map_err(self.failed("open"))?;
                Ok(Box::new(Behind::new(file, &self.path, end)?))
            }
        }
    }
}

/// Writes a trailer over a prepared one: only its magics differ.
fn write_trailer(file: &File, path: &Path, at: u64, trailer: &[u8]) -> Result<(), RunError> {
    file.write_all_at(trailer, at)
        .and_then(|()| file.sync_data())
        .map_err(RunError::io("write", path))
}

/// A new media file.
struct NewFile {
    beside: Beside,
    writer: Writer,
    replace: bool,
}

impl NewFile {
    fn create(path: &Path, (replace, clears): (bool, bool)) -> Result<Self, RunError> {
        if !replace && path.symlink_metadata().is_ok() {
            return Err(RunError::Exists { path: path.to_path_buf() });
        }
        let beside = if clears { Beside::create(path)? } else { Beside::create_alone(path)? };
        let writer = Writer::new(beside.file(), beside.beside(), 0)?;
        Ok(Self { beside, writer, replace })
    }
}

impl Append for NewFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.writer.write(bytes)
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.writer.sync()
    }

    /// The file has no valid name before it is durable.
    fn settle(&mut self) -> Result<(), RunError> {
        self.writer.settle()
    }

    fn is_hidden(&self) -> bool {
        true
    }

    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError> {
        self.writer.write(trailer)?;
        self.writer.sync()?;
        self.beside.place(self.replace)
    }

    fn withdraw(&mut self) -> Result<(), RunError> {
        self.beside.withdraw()
    }
}

/// Bytes after the last whole record of a media file.
struct Behind {
    writer: Writer,
    file: File,
    path: PathBuf,
    /// Their offset.
    begin: u64,
    /// Offset of the prepared trailer.
    prepared_at: Option<u64>,
    published: bool,
}

impl Behind {
    fn new(file: File, path: &Path, begin: u64) -> Result<Self, RunError> {
        file.set_len(begin).map_err(RunError::io("write", path))?;
        let writer = Writer::new(&file, path, begin)?;
        Ok(Self {
            writer,
            file,
            path: path.to_path_buf(),
            begin,
            prepared_at: None,
            published: false,
        })
    }
}

impl Append for Behind {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.writer.write(bytes)
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.writer.sync()
    }

    fn prepare(&mut self, trailer: &[u8; TRAILER_LEN]) -> Result<(), RunError> {
        let at = self.writer.end();
        self.writer.write(&prepared_trailer(trailer))?;
        self.writer.sync()?;
        self.prepared_at = Some(at);
        Ok(())
    }

    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError> {
        match self.prepared_at {
            Some(at) => write_trailer(&self.file, &self.path, at, trailer)?,
            None => {
                self.writer.write(trailer)?;
                self.writer.sync()?;
            }
        }
        self.published = true;
        Ok(())
    }

    fn withdraw(&mut self) -> Result<(), RunError> {
        self.published = false;
        self.file
            .set_len(self.begin)
            .and_then(|()| self.file.sync_all())
            .map_err(RunError::io("write", &self.path))?;
        sync_parent(&self.path)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if !self.published {
            // Whatever happened to the last bytes, nothing is written from then on. An unfinished
            // tail remains.
            let _ = self.writer.settle();
            let _ = self.file.set_len(self.begin).and_then(|()| self.file.sync_all());
        }
    }
}
