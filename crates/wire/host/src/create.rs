//! `CREATE DATABASE` with a named file, `sp_detach_db`, and the logical names of files.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tdekit_sqlite_convert::{FileKind, SIDE_SUFFIXES, register, with_suffix};
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{CreateDatabase, DatabaseFile, Error, ModifyFile, Progress};

use super::databases::{
    Databases, EXTENSIONS, UTF_16, existing_uri, fill, is_system, is_utf_16, kind, within_ending,
};
use super::encryption::missing_certificate;
use super::keys::Keys;
use super::noted::{self, Noted};
use super::{fault, files, kept};

/// SQL Server's limit on a logical name, in characters.
const MAX_LOGICAL_CHARS: usize = 128;

/// Logical names of the file and of its log, as far as a statement gives them.
type Names = (Option<String>, Option<String>);

/// `CREATE DATABASE .. ON`, of a new file, or `FOR ATTACH` of one that is there.
///
/// # Errors
/// 1801, 1828, 5120, 5123, 5133, 5170, 5171; those of keys for an encrypted file.
pub(crate) fn create_on(
    both: (&Databases, &Keys),
    wanted: &CreateDatabase,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    let (databases, name) = (both.0, &wanted.name);
    databases.path_for(name)?;
    let exists = || Error::DatabaseExists { name: name.clone() };
    let (file, logical) = only_file(wanted)?;
    let names = (logical, wanted.logs.first().and_then(|log| log.name.clone()));
    check_names(&names)?;
    for log in wanted.logs.iter().chain(wanted.files.iter().skip(1)) {
        check_log(databases, &log.file)?;
    }
    let _alone = databases.making();
    let _claimed = databases.claim(name).ok_or_else(exists)?;
    if is_system(name) || databases.is_taken(name)? {
        return Err(exists());
    }
    match wanted.attach {
        true => attach(both, name, file, names)?,
        false => make(both, name, file, names)?,
    }
    if !wanted.logs.is_empty() || wanted.files.len() > 1 {
        let text = "The log stands beside the database's file, whatever a statement says.";
        out.tell(Told::Own { text: text.to_owned() }.message());
    }
    Ok(())
}

/// `CREATE DATABASE` without a file, in a directory of the registry.
///
/// # Errors
/// As [`create_on`].
pub(crate) fn create_in(
    both: (&Databases, &Keys),
    name: &str,
    directory: &str,
) -> Result<(), Error> {
    // It would be in another directory than the one that was set.
    if name.contains(['\\', '/']) {
        return Err(fault::own(format!("The name '{name}' is no name of a database's file.")));
    }
    let file = files::joined(directory, &format!("{name}.mdf"));
    let files = vec![DatabaseFile { name: None, file }];
    let wanted = CreateDatabase { name: name.to_owned(), files, ..CreateDatabase::default() };
    create_on(both, &wanted, &mut Progress::new(&mut |_| true, Arc::default()))
}

/// Returns the only file of data, and its logical name. Behind it FOR ATTACH may name a log.
fn only_file(wanted: &CreateDatabase) -> Result<(&str, Option<String>), Error> {
    let [first, rest @ ..] = &wanted.files[..] else {
        return Err(fault::feature("CREATE DATABASE without a file"));
    };
    let is_log = |file: &str| {
        let extension = Path::new(file).extension();
        wanted.attach && extension.is_some_and(|it| it.eq_ignore_ascii_case("ldf"))
    };
    match rest.iter().all(|other| is_log(&other.file)) && rest.len() + wanted.logs.len() <= 1 {
        true => Ok((&first.file, first.name.clone())),
        false => Err(fault::feature("a database of more than one file")),
    }
}

fn check_names((data, log): &Names) -> Result<(), Error> {
    for name in [data, log].into_iter().flatten() {
        check_logical(name)?;
    }
    match (data, log) {
        (Some(data), Some(log)) if data.eq_ignore_ascii_case(log) => {
            Err(ServerError::LogicalNameTaken { name: log.clone() }.into())
        }
        _ => Ok(()),
    }
}

fn check_logical(name: &str) -> Result<(), Error> {
    let bad = name.is_empty()
        || name.chars().count() > MAX_LOGICAL_CHARS
        || name.contains(char::is_control);
    match bad {
        true => Err(fault::own(format!("The name '{name}' is no logical name of a file."))),
        false => Ok(()),
    }
}

/// Attaches a file that is there. SQLite takes or undoes what the journal or log beside it holds.
fn attach(
    (databases, keys): (&Databases, &Keys),
    name: &str,
    file: &str,
    names: Names,
) -> Result<(), Error> {
    let unable = |failure: &io::Error| not_opened(file, failure);
    let path = databases.database_file(file).map_err(|why| unable(&why.into_io()))?;
    refuse_foreign((databases, keys), &path).map_err(|failure| unable(&failure))?;
    let facts = fs::metadata(&path).map_err(|failure| unable(&failure))?;
    if !facts.is_file() {
        return Err(unable(&ErrorKind::PermissionDenied.into()));
    }
    let identity = (facts.dev(), facts.ino());
    let same = |path: &Path| fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == identity);
    if databases.found()?.iter().any(|found| same(&found.path)) {
        return Err(unable(&fault::shared()));
    }
    let no_database = || Error::from(ServerError::NotPrimary { file: file.to_owned() });
    match kind(&path) {
        FileKind::Plain if kept::area(&path).is_ok_and(|area| is_utf_16(&area)) => {
            return Err(fault::own(format!("{file}: {UTF_16}")));
        }
        FileKind::Plain => {}
        FileKind::Encrypted => {
            keys.open().map_err(|failure| fault::of_store(&failure))?;
            if let Some(missing) = missing_certificate(&path, keys) {
                return Err(missing);
            }
        }
        _ => return Err(no_database()),
    }
    files::refuse_odd_sides(&path).map_err(|failure| unable(&failure))?;
    // A note that cannot be read would hide that the database is being restored.
    let noted = noted::read(&path)?;
    open_once(&existing_uri(&path)?).map_err(|failure| match failure.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => no_database(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unable(&fault::shared()),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unable(&ErrorKind::PermissionDenied.into())
        }
        _ => fault::own(format!("{file}: {failure}")),
    })?;
    note_names(&path, noted, names)?;
    databases.register(name, &path)
}

/// Makes an empty database in a file that is not there.
fn make(both: (&Databases, &Keys), name: &str, file: &str, names: Names) -> Result<(), Error> {
    let path = new_file(both, file)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        Err(failure) if failure.kind() == ErrorKind::AlreadyExists => return Err(exists(file)),
        Err(failure) => return Err(not_made(file, &failure)),
    }
    let filled = fill(&path).map_err(|failure| {
        let name = name.to_owned();
        Error::from(ServerError::NotCreated { name, detail: failure.to_string() })
    });
    let (data_name, log_name) = names;
    let made = filled
        .and_then(|()| noted::write(&path, &Noted { data_name, log_name, ..Noted::made_now() }))
        .and_then(|()| both.0.register(name, &path));
    // It was made here, and is empty.
    made.inspect_err(|_| remove_made(&path))
}

/// Removes a database that was made here and cannot be served, with all beside it.
pub(crate) fn remove_made(path: &Path) {
    for suffix in files_of() {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}

/// Suffixes of a database's files: its own, and those beside it.
fn files_of() -> impl Iterator<Item = &'static str> {
    SIDE_SUFFIXES.into_iter().chain([noted::SUFFIX, ""])
}

/// Returns the path of a file that a database is to be made in: its directory is there, and
/// neither the file nor anything beside it is.
///
/// # Errors
/// 5123, 5133, 5170.
pub(crate) fn new_file(both: (&Databases, &Keys), file: &str) -> Result<PathBuf, Error> {
    let path = both.0.database_file(file).map_err(|why| no_directory(file, &why.into_io()))?;
    match fs::metadata(path.parent().unwrap_or(&path)) {
        Ok(facts) if facts.is_dir() => {}
        Ok(_) => return Err(no_directory(file, &ErrorKind::NotADirectory.into())),
        Err(failure) => return Err(no_directory(file, &failure)),
    }
    refuse_foreign(both, &path).map_err(|failure| not_made(file, &failure))?;
    // A log that was left there would be taken for the new database's.
    match files_of().any(|suffix| fs::symlink_metadata(with_suffix(&path, suffix)).is_ok()) {
        true => Err(exists(file)),
        false => Ok(path),
    }
}

/// Refuses files that no user's database can be: those beside databases, those of the system
/// databases, and all in the directory of the key store.
fn refuse_foreign((databases, keys): (&Databases, &Keys), path: &Path) -> io::Result<()> {
    let name = text(path.file_name());
    let is_beside = files_of().any(|suffix| !suffix.is_empty() && name.ends_with(suffix));
    let listed =
        path.parent() == Some(databases.dir()) && EXTENSIONS.contains(&text(path.extension()));
    let of_system = listed && is_system(text(path.file_stem()));
    match name.is_empty() || is_beside || of_system || keys.is_within(path) {
        true => Err(ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    }
}

fn text(part: Option<&OsStr>) -> &str {
    part.and_then(OsStr::to_str).unwrap_or_default()
}

/// Opens a database as sessions do, and closes it.
fn open_once(uri: &str) -> rusqlite::Result<()> {
    register()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(uri, flags)?;
    opened.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

fn note_names(path: &Path, noted: Noted, (data, log): Names) -> Result<(), Error> {
    if data.is_none() && log.is_none() {
        return Ok(());
    }
    let data_name = data.or_else(|| noted.data_name.clone());
    let log_name = log.or_else(|| noted.log_name.clone());
    noted::write(path, &Noted { data_name, log_name, ..noted })
}

/// Returns the logical names of a database's file and of its log: those that were given, else its
/// stem, and that with `_log`.
pub(crate) fn logical_names(path: &Path, noted: &Noted) -> (String, String) {
    // The note of the server may have a path of Windows.
    let name = path.to_string_lossy();
    let name = Path::new(name.rsplit('\\').next().unwrap_or_default());
    let stem = name.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let log = noted.log_name.clone().unwrap_or_else(|| format!("{stem}_log"));
    (noted.data_name.clone().unwrap_or(stem), log)
}

/// `MODIFY FILE`, which gives a file another logical name, and no size.
///
/// # Errors
/// 5041 for a file that the database does not have, 1828 for the name of its other one.
pub(crate) fn modify_file(
    databases: &Databases,
    name: &str,
    change: &ModifyFile,
) -> Result<(), Error> {
    let found = databases.find(name)?;
    let mut noted = noted::read(&found.path)?;
    let (data, log) = logical_names(&found.path, &noted);
    let is_data = data.eq_ignore_ascii_case(&change.name);
    if !is_data && !log.eq_ignore_ascii_case(&change.name) {
        return Err(ServerError::NoFileToModify { name: change.name.clone() }.into());
    }
    if change.file.is_some() {
        return Err(fault::feature(
            "MODIFY FILE with FILENAME (detach the database, and attach it)",
        ));
    }
    let Some(new) = &change.new_name else { return Ok(()) };
    check_logical(new)?;
    if new.eq_ignore_ascii_case(if is_data { &log } else { &data }) {
        return Err(ServerError::LogicalNameTaken { name: new.clone() }.into());
    }
    match is_data {
        true => noted.data_name = Some(new.clone()),
        false => noted.log_name = Some(new.clone()),
    }
    noted::write(&found.path, &noted)
}

/// `sp_detach_db`: the file stays.
///
/// # Errors
/// 911, 3703; for a file of the served directory, where all databases are served.
pub(crate) fn detach(
    databases: &Databases,
    name: &str,
    is_current: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let found = databases.find_any(name);
    if !databases.is_attached(name)? {
        let name = found?.name;
        return Err(fault::own(format!(
            "The database '{name}' cannot be detached: every database in the served directory is \
             served. Move its file away while the server does not run."
        )));
    }
    let in_use = || ServerError::NotDetached { name: name.to_owned() };
    let _taken = match found {
        Ok(found) => databases.take(&found),
        // Without its file nobody has it open.
        Err(_) => databases.claim(name),
    }
    .ok_or_else(in_use)?;
    // No session enters it from here on. One whose client is gone is about to end.
    match within_ending(|| !is_current()) {
        true => databases.forget(name),
        false => Err(in_use().into()),
    }
}

/// Refuses the path of a log that no database's file could have, although none is made there.
///
/// # Errors
/// 5133.
pub(crate) fn check_log(databases: &Databases, file: &str) -> Result<(), Error> {
    let found = databases.database_file(file).map(drop);
    found.map_err(|why| no_directory(file, &why.into_io()))
}

fn no_directory(file: &str, failure: &io::Error) -> Error {
    let (code, words) = fault::system(failure);
    ServerError::NoDirectory { file: file.to_owned(), code, words }.into()
}

fn not_opened(file: &str, failure: &io::Error) -> Error {
    let (code, words) = fault::system(failure);
    ServerError::FileNotOpened { file: file.to_owned(), code, words }.into()
}

fn not_made(file: &str, failure: &io::Error) -> Error {
    let (code, words) = fault::system(failure);
    ServerError::FileNotMade { file: file.to_owned(), code, words }.into()
}

fn exists(file: &str) -> Error {
    ServerError::FileExists { file: file.to_owned() }.into()
}
