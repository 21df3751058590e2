//! The served databases: files and their names.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tdekit_sqlite_convert::{FileKind, SIDE_SUFFIXES, file_uri, register, with_suffix};
use tdekit_wire_endpoint::Sessions;
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::{Database, DatabaseState, Directory, Error, Recovery};

use super::files::{Drives, NoPath};
use super::gate::{Gate, Opening, Replacing};
use super::keys::Keys;
use super::noted::{self, Noted};
use super::server_note::ServerNote;
use super::tempdb::Tempdb;
use super::{fault, files, kept};

/// Databases that every server has, and their numbers.
const SYSTEM: [(&str, i32); 4] = [("master", 1), ("tempdb", 2), ("model", 3), ("msdb", 4)];
/// The file of the database master in the served directory.
const MASTER: &str = "master.db";
/// The number of the first database of a user.
const FIRST_ID: i32 = 5;
/// Extensions of database files. The first is used for new ones.
pub(crate) const EXTENSIONS: [&str; 3] = ["db", "sqlite", "sqlite3"];
/// SQL Server's limit on a database's name, in characters.
const MAX_NAME_CHARS: usize = 123;

/// Maximum wait for a session that is about to become idle, by a session that wants its database.
const ENDING: Duration = Duration::from_secs(1);

/// Location of the databases.
pub(crate) enum Place {
    /// Every database in this directory.
    Directory(PathBuf),
    /// This single database.
    File(PathBuf),
}

/// The served databases.
pub(crate) struct Databases {
    place: Place,
    /// Names in the order in which they were seen, in lower case: they determine their numbers.
    seen: Mutex<Vec<String>>,
    gate: Arc<Gate>,
    sessions: Sessions,
    tempdb: Tempdb,
    drives: Drives,
    /// Held while the note of the server is changed.
    changes: Mutex<()>,
    /// Held while a file is made or attached, so that no other name gets it.
    making: Mutex<()>,
}

/// A database's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) id: i32,
    pub(crate) path: PathBuf,
}

/// A user's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) id: i32,
    /// Its file, or what the note of the server says of one that is not there.
    pub(crate) place: Result<PathBuf, String>,
}

impl Known {
    /// Returns its state, and what is noted of it, as far as that is known.
    pub(crate) fn state(&self) -> (DatabaseState, Noted) {
        // Where a note cannot be read, the others are served; `find` has the reason.
        match self.place.as_ref().map(|path| noted::read(path)) {
            Ok(Ok(noted)) if noted.restoring.is_some() => (DatabaseState::Restoring, noted),
            Ok(Ok(noted)) => (DatabaseState::Online, noted),
            Ok(Err(_)) | Err(_) => (DatabaseState::RecoveryPending, Noted::default()),
        }
    }
}

impl Databases {
    /// Serves the databases at `path`, to `sessions`, whose statements name files by `drives`.
    ///
    /// # Errors
    /// Those of reading the metadata of `path`.
    pub(crate) fn new(path: &Path, sessions: Sessions, drives: Drives) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let place = match fs::metadata(&path)?.is_dir() {
            true => Place::Directory(path),
            false => Place::File(path),
        };
        let (gate, tempdb) = (Arc::default(), Tempdb::new()?);
        let seen = Mutex::default();
        let (changes, making) = (Mutex::default(), Mutex::default());
        Ok(Self { place, seen, gate, sessions, tempdb, drives, changes, making })
    }

    /// Resolves a path of a statement.
    ///
    /// # Errors
    /// The reason why it names no file here.
    pub(crate) fn file(&self, named: &str) -> Result<PathBuf, NoPath> {
        self.drives.resolve(self.dir(), named)
    }

    /// Resolves a path of a backup, which begins in the registry's directory of backups if it is
    /// relative and there is one.
    ///
    /// # Errors
    /// 3201 with the reason why it names no file here.
    pub(crate) fn device(&self, named: &str) -> Result<PathBuf, Error> {
        let no_device = |why: NoPath| fault::device(named, &why.into_io());
        let path = self.file(named).map_err(no_device)?;
        match self.directory(Directory::Backup)? {
            Some(directory) if files::is_relative(named) => {
                Ok(self.file(&files::joined(&directory, named)).map_err(no_device)?)
            }
            _ => Ok(path),
        }
    }

    /// Returns a directory of the registry, if it was set.
    ///
    /// # Errors
    /// If the note of the server cannot be read.
    pub(crate) fn directory(&self, directory: Directory) -> Result<Option<String>, Error> {
        Ok(self.note()?.directories.remove(&directory))
    }

    /// Sets a directory of the registry, or takes it back.
    ///
    /// # Errors
    /// 22001 if it is not there, no database's file can be in it, or it is the key store's.
    pub(crate) fn set_directory(
        &self,
        directory: Directory,
        named: &str,
        keys: &Keys,
    ) -> Result<(), Error> {
        if named.is_empty() {
            return self.change_note(|note| drop(note.directories.remove(&directory)));
        }
        let resolved = match directory {
            Directory::Data => self.database_file(named),
            Directory::Log | Directory::Backup => self.file(named),
        };
        let found =
            resolved.map_err(NoPath::into_io).and_then(|path| match keys.is_within(&path) {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => fs::metadata(path),
            });
        let is_directory = found.and_then(|facts| match facts.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        is_directory.map_err(|failure| {
            let (code, words) = fault::system(&failure);
            Error::from(ServerError::Registry { code, words })
        })?;
        self.change_note(|note| drop(note.directories.insert(directory, named.to_owned())))
    }

    /// Resolves the path of a database's file.
    ///
    /// # Errors
    /// The reason why it is none of those that are served.
    pub(crate) fn database_file(&self, named: &str) -> Result<PathBuf, NoPath> {
        self.drives.confined(self.dir(), named)
    }

    /// Returns a path as statements name it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        self.drives.shown(path)
    }

    /// Returns the directory of the databases, to which paths of statements are relative.
    pub(crate) fn dir(&self) -> &Path {
        match &self.place {
            Place::Directory(dir) => dir,
            Place::File(path) => path.parent().unwrap_or(path),
        }
    }

    /// Returns the database that is served alone, if any.
    pub(crate) fn only_file(&self) -> Option<&Path> {
        match &self.place {
            Place::Directory(_) => None,
            Place::File(path) => Some(path),
        }
    }

    /// Returns the users' databases whose files are there, by name.
    pub(crate) fn found(&self) -> Result<Vec<Found>, Error> {
        let there = |known: Known| match known.place {
            Ok(path) => Some(Found { name: known.name, id: known.id, path }),
            Err(_) => None,
        };
        Ok(self.known()?.into_iter().filter_map(there).collect())
    }

    /// Returns the users' databases: those whose files are there by name, then the others.
    pub(crate) fn known(&self) -> Result<Vec<Known>, Error> {
        let mut paths = match &self.place {
            // It is gone once it was dropped.
            Place::File(path) => vec![path.clone()].into_iter().filter(|it| it.exists()).collect(),
            Place::Directory(dir) => list(dir)?,
        };
        paths.sort();
        // Read once: a database that is attached or detached meanwhile is seen as one or the other.
        let attached = self.note()?.attached;
        let is_attached = |name: &str| attached.iter().any(|(known, _)| same(known, name));
        let placed = |(name, file): &(String, String)| {
            let path = self.database_file(file).ok().filter(|path| is_database(path));
            (name.clone(), path.ok_or_else(|| file.clone()))
        };
        let (there, gone): (Vec<_>, Vec<_>) =
            attached.iter().map(placed).partition(|(_, place)| place.is_ok());
        let mut named: Vec<(String, Result<PathBuf, String>)> = Vec::with_capacity(paths.len());
        for path in paths {
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let other_name = there.iter().any(|(_, known)| known.as_ref() == Ok(&path));
            if !is_attached(name) && !other_name {
                named.push((name.to_owned(), Ok(path)));
            }
        }
        named.extend(there.into_iter().chain(gone));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<Known> = Vec::with_capacity(named.len());
        for (name, place) in named {
            if is_system(&name) || known.iter().any(|before| same(&before.name, &name)) {
                continue;
            }
            let lower = name.to_lowercase();
            let at = seen.iter().position(|known| *known == lower).unwrap_or_else(|| {
                seen.push(lower);
                seen.len() - 1
            });
            let id = i32::try_from(at).unwrap_or(i32::MAX - FIRST_ID).saturating_add(FIRST_ID);
            known.push(Known { name, id, place });
        }
        Ok(known)
    }

    /// Returns a user's database by its name, ignoring case.
    ///
    /// # Errors
    /// 911; 927 while it is restored; 945 where the note beside it cannot be read.
    pub(crate) fn find(&self, name: &str) -> Result<Found, Error> {
        let found = self.find_any(name)?;
        match noted::read(&found.path) {
            Ok(Noted { restoring: Some(_), .. }) => {
                Err(ServerError::Restoring { name: found.name }.into())
            }
            Ok(_) => Ok(found),
            Err(_) => {
                let file = self.shown(&noted::path_of(&found.path));
                let detail = format!("{file} cannot be read, or is no note of T-SQL.");
                Err(ServerError::NotAccessible { name: found.name, detail }.into())
            }
        }
    }

    /// As [`Self::find`], also for one that is restored.
    ///
    /// # Errors
    /// 911; 945 for one that is attached, and its file is not there.
    pub(crate) fn find_any(&self, name: &str) -> Result<Found, Error> {
        let found = self.found()?.into_iter().find(|known| same(&known.name, name));
        if let Some(found) = found {
            return Ok(found);
        }
        let attached = self.note()?.attached;
        Err(match attached.into_iter().find(|(known, _)| same(known, name)) {
            Some((name, file)) => self.not_accessible(name, &file),
            None => fault::unknown_database(name),
        })
    }

    /// Fails where SQLite would wait for ever for a pipe beside the database.
    fn refuse_odd_sides(&self, found: &Found) -> Result<(), Error> {
        files::refuse_odd_sides(&found.path).map_err(|_| {
            let file = self.shown(&found.path);
            let detail = format!("A journal or a log beside {file} is no ordinary file.");
            ServerError::NotAccessible { name: found.name.clone(), detail }.into()
        })
    }

    /// Returns 945 for a database whose text is not UTF-8: SQLite uses it beside no other.
    pub(crate) fn wrong_encoding(&self, name: &str) -> Option<Error> {
        let found = self.find(name).ok()?;
        let detail = format!("{}: {UTF_16}", self.shown(&found.path));
        let wrong = kept::area(&found.path).is_ok_and(|area| is_utf_16(&area));
        wrong.then(|| ServerError::NotAccessible { name: found.name, detail }.into())
    }

    fn not_accessible(&self, name: String, file: &str) -> Error {
        let detail = match self.database_file(file) {
            Ok(_) => format!("{file} is not there, or is no database."),
            Err(why) => why.to_string(),
        };
        ServerError::NotAccessible { name, detail }.into()
    }

    /// Returns true if a user's database has the name, also one whose file is not there.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn is_taken(&self, name: &str) -> Result<bool, Error> {
        let found = self.found()?.iter().any(|known| same(&known.name, name));
        Ok(found || self.is_attached(name)?)
    }

    /// Returns true for a database that was attached.
    ///
    /// # Errors
    /// If the note of the server cannot be read.
    pub(crate) fn is_attached(&self, name: &str) -> Result<bool, Error> {
        Ok(self.note()?.attached.iter().any(|(known, _)| same(known, name)))
    }

    /// Returns the place of the file of an attached database that is gone, where it can be made
    /// again.
    ///
    /// # Errors
    /// If the note of the server cannot be read.
    pub(crate) fn lost_file(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let attached = self.note()?.attached;
        let file = attached.iter().find(|(known, _)| same(known, name)).map(|(_, file)| file);
        let path = file.and_then(|file| self.database_file(file).ok());
        Ok(path.filter(|path| fs::symlink_metadata(path).is_err()))
    }

    /// Keeps others from making or attaching files, until the returned value is dropped.
    pub(crate) fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a database has this file. The file that its name gives it needs no note.
    ///
    /// # Errors
    /// Those of the note.
    pub(crate) fn register(&self, name: &str, path: &Path) -> Result<(), Error> {
        if self.path_for(name)? == path || self.is_attached(name)? {
            return Ok(());
        }
        let file = self.shown(path);
        // The file that others would find later is this one.
        match self.database_file(&file) {
            Ok(found) if found == path => {}
            _ => return Err(fault::own(format!("{file}: the path cannot be noted."))),
        }
        self.change_note(|note| note.attached.push((name.to_owned(), file)))
    }

    /// Takes a database out of the note.
    ///
    /// # Errors
    /// Those of the note.
    pub(crate) fn forget(&self, name: &str) -> Result<(), Error> {
        self.change_note(|note| note.attached.retain(|(known, _)| !same(known, name)))
    }

    /// Returns the path of the note of the server, if it cannot be read.
    pub(crate) fn damaged_note(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Directory(dir) => self.note().is_err().then(|| note_of(dir)),
            Place::File(_) => None,
        }
    }

    /// Returns what is noted of the server. One that serves a single file notes nothing.
    fn note(&self) -> Result<ServerNote, Error> {
        match &self.place {
            Place::Directory(dir) => ServerNote::read(&note_of(dir)),
            Place::File(_) => Ok(ServerNote::default()),
        }
    }

    fn change_note(&self, change: impl FnOnce(&mut ServerNote)) -> Result<(), Error> {
        let Place::Directory(dir) = &self.place else {
            return Err(fault::feature("a setting of a server that serves a single file"));
        };
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.note()?;
        let mut note = before.clone();
        change(&mut note);
        if note == before { Ok(()) } else { note.write(&note_of(dir)) }
    }

    /// Returns all databases, the system's first.
    pub(crate) fn all(&self) -> Result<Vec<Database>, Error> {
        let mut all: Vec<_> = SYSTEM
            .iter()
            .map(|(name, id)| Database {
                name: (*name).to_owned(),
                id: *id,
                encrypted: false,
                state: DatabaseState::Online,
                recovery: Recovery::Simple,
            })
            .collect();
        for known in self.known()? {
            let (state, Noted { recovery, .. }) = known.state();
            let encrypted = known.place.is_ok_and(|path| kind(&path) == FileKind::Encrypted);
            let (name, id) = (known.name, known.id);
            all.push(Database { name, id, encrypted, state, recovery });
        }
        Ok(all)
    }

    /// Starts opening a database's file; it is open when the returned guard is dropped. Until then
    /// no other file gets the name.
    ///
    /// The URI is what SQLite is given: always that of an absolute path, which was resolved behind
    /// the gate. A path that was read before may be that of a database that is gone, and one that
    /// is not resolved would be looked for where the server runs.
    ///
    /// # Errors
    /// 952 while it is being replaced, 911 if it is gone, 945 if its file is, 927 while it is
    /// restored.
    pub(crate) fn opening(&self, name: &str) -> Result<(Opening, String), Error> {
        let opening = self.gate.open(name)?;
        let uri = match system_name(name) {
            None => {
                let found = self.find(name)?;
                self.refuse_odd_sides(&found)?;
                existing_uri(&found.path)?
            }
            Some("tempdb") => {
                self.tempdb.make()?;
                self.tempdb.uri()
            }
            Some(system) => self.system_uri(system)?,
        };
        Ok((opening, uri))
    }

    /// Takes a database's file, to replace or remove it: resting sessions release it, and none
    /// opens it until the returned value is dropped. `None` while a session uses it.
    ///
    /// A session whose client is gone, or has its answer already, is about to rest: so this retries
    /// for up to [`ENDING`]. `None` also where the name has another file by now: whoever gave it
    /// that used the database in between.
    pub(crate) fn take(&self, found: &Found) -> Option<Replacing> {
        let replacing = self.gate.replace(&found.name)?;
        if !self.find_any(&found.name).is_ok_and(|now| now.path == found.path) {
            return None;
        }
        let free = within_ending(|| {
            self.sessions.release(&found.name);
            !kept::in_use(&found.path)
        });
        free.then_some(replacing)
    }

    /// Takes the name of a new database; `None` while another takes it.
    pub(crate) fn claim(&self, name: &str) -> Option<Replacing> {
        self.gate.replace(name)
    }

    /// Makes an empty database in WAL mode.
    ///
    /// # Errors
    /// 1801 if the name is in use, 40512 if a single file is served.
    pub(crate) fn create(&self, name: &str) -> Result<(), Error> {
        let path = self.path_for(name)?;
        let exists = || Error::DatabaseExists { name: name.to_owned() };
        if is_system(name) || self.is_taken(name)? {
            return Err(exists());
        }
        let told =
            |detail: String| Error::from(ServerError::NotCreated { name: name.to_owned(), detail });
        // An empty file is a new database to SQLite; an existing file, or a link, is not used.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists()),
            Err(error) => return Err(told(error.to_string())),
        }
        // In place of the note of an earlier database of this name.
        let noted = noted::write(&path, &Noted::made_now());
        let made = noted.and_then(|()| fill(&path).map_err(|failure| told(failure.to_string())));
        made.inspect_err(|_| {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(noted::path_of(&path));
        })
    }

    /// Removes a database.
    ///
    /// # Errors
    /// 3701 if it does not exist, 3702 while it is in use.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        if is_system(name) {
            return Err(ServerError::SystemDatabase { name: name.to_owned() }.into());
        }
        let missing = || Error::DropMissing { kind: "database".to_owned(), name: name.to_owned() };
        let attached = self.is_attached(name)?;
        let found = match self.find_any(name) {
            Ok(found) => found,
            // Nothing but the note is left of it.
            Err(_) if attached => return self.forget(name),
            Err(_) => return Err(missing()),
        };
        let Some(_taken) = self.take(&found) else {
            return Err(Error::DatabaseInUse { name: found.name });
        };
        // The note of the server first: where that cannot be written, nothing is removed. A server
        // that ends here leaves a file that is attached no more.
        if attached {
            self.forget(&found.name)?;
        }
        // Then the file: a log without its database is harmless, the reverse would lose commits.
        if let Err(failure) = fs::remove_file(&found.path) {
            let file = self.shown(&found.path);
            if attached {
                self.register(&found.name, &found.path)?;
            }
            return Err(fault::own(format!("{file}: {failure}")));
        }
        for suffix in SIDE_SUFFIXES {
            let _ = fs::remove_file(with_suffix(&found.path, suffix));
        }
        noted::write(&found.path, &Noted::default())
    }

    /// Returns the path that a database's name gives it.
    pub(crate) fn path_for(&self, name: &str) -> Result<PathBuf, Error> {
        let Place::Directory(dir) = &self.place else {
            return Err(fault::feature("a second database beside a single served file"));
        };
        let bad = name.is_empty()
            || name.starts_with('.')
            || name.chars().count() > MAX_NAME_CHARS
            || name.chars().any(|letter| letter == '/' || letter.is_control());
        if bad {
            return Err(fault::own(format!("The name '{name}' is no name of a database's file.")));
        }
        Ok(dir.join(format!("{name}.{}", EXTENSIONS[0])))
    }

    fn system_uri(&self, name: &str) -> Result<String, Error> {
        match &self.place {
            Place::Directory(dir) if name == "master" => {
                let path = dir.join(MASTER);
                let mut own = OpenOptions::new();
                // SQLite would let others read it. Where it cannot be made, SQLite reports why.
                let _ = own.write(true).create_new(true).mode(0o600).open(&path);
                absolute_uri(&path)
            }
            // In memory, shared by the connections of this process.
            Place::Directory(_) | Place::File(_) => Ok(format!("file:/tdekit-{name}?vfs=memdb")),
        }
    }
}

/// Returns the URI of a database's file for SQLite, which would look for a relative path where the
/// server runs.
fn absolute_uri(path: &Path) -> Result<String, Error> {
    match path.is_absolute() {
        true => Ok(file_uri(path)),
        false => Err(fault::own(format!("{}: the path is not absolute.", path.display()))),
    }
}

/// As [`absolute_uri`], of a database that is not made where it is not there: one that was dropped
/// in the meantime must not come back empty.
pub(crate) fn existing_uri(path: &Path) -> Result<String, Error> {
    Ok(absolute_uri(path)? + "?mode=rw")
}

/// Waits up to [`ENDING`] until `done` returns true, and returns what it did.
pub(crate) fn within_ending(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + ENDING;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(ENDING / 100);
    }
}

/// Returns the kind of the file; `Other` if it cannot be read.
pub(crate) fn kind(path: &Path) -> FileKind {
    kept::area(path).map_or(FileKind::Other, |area| FileKind::of(&area))
}

/// Why a database in UTF-16 is not served.
pub(crate) const UTF_16: &str = "The database's text is in UTF-16, and only UTF-8 is served.";

/// Returns true for a plain database whose header has one of the encodings UTF-16
/// (sqlite.org/fileformat.html, 1.3.13).
pub(crate) fn is_utf_16(area: &[u8]) -> bool {
    let encoding = area.get(56..60).map(|bytes| bytes == [0, 0, 0, 2] || bytes == [0, 0, 0, 3]);
    FileKind::of(area) == FileKind::Plain && encoding == Some(true)
}

/// Returns true if the name is that of a system database.
pub(crate) fn is_system(name: &str) -> bool {
    system_name(name).is_some()
}

/// Returns the name of a system database as it is written in [`SYSTEM`].
fn system_name(name: &str) -> Option<&'static str> {
    SYSTEM.iter().map(|(system, _)| *system).find(|system| system.eq_ignore_ascii_case(name))
}

/// Makes a database in WAL mode from an empty file.
pub(crate) fn fill(path: &Path) -> rusqlite::Result<()> {
    register()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let made = Connection::open_with_flags(file_uri(path), flags)?;
    made.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
}

/// Returns true for names of the same database: SQL Server passes over spaces at the end.
fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_end_matches(' '), other.trim_end_matches(' '));
    one.to_lowercase() == other.to_lowercase()
}

fn note_of(dir: &Path) -> PathBuf {
    noted::path_of(&dir.join(MASTER))
}

fn is_database(path: &Path) -> bool {
    matches!(kind(path), FileKind::Plain | FileKind::Encrypted | FileKind::Empty)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |failure: std::io::Error| fault::own(format!("{}: {failure}", dir.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let named = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
        if named && is_database(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}
