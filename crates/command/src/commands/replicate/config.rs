//! The file of `replicate --config`: databases, and how each is followed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tdekit_backup_run::archive::ArchivePlace;
use tdekit_backup_run::database::source::EncryptionChoice;
use tdekit_backup_run::retention::Rules;
use tdekit_backup_run::{Compression, Storage};
use tdekit_console::storage::{LockMode, days, parse_lock_mode, storage};
use tdekit_key_store::{StoreError, check_opened_code, led_to, open_ordinary};
use toml::{Table, Value};

use super::follow::Wanted;
use crate::backup::many::name_of;
use crate::backup::value::{parse_bytes, parse_compression, parse_encryption};
use crate::error::CommandError;
use crate::when::parse_length;

/// The list of databases.
const LIST: &str = "database";
/// Keys of a database that say which it is.
const OWN: [&str; 1] = ["path"];
/// Keys of a database; before the list they hold for all that say nothing else.
const COMMON: [&str; 20] = [
    "to",
    "certificates",
    "encryption",
    "every",
    "differential_every",
    "snapshot_every",
    "log_limit",
    "throttle",
    "object_lock",
    "object_lock_mode",
    "storage_class",
    "exec",
    "compression",
    "sign",
    "no_sign",
    "keep",
    "keep_last",
    "keep_daily",
    "keep_weekly",
    "keep_monthly",
];
const NAME: &str = "{name}";
/// Longer files are no configuration.
const MAX_BYTES: u64 = 1 << 20;
/// Likeness from which a key may have been meant, of 1.
const LIKE: f64 = 0.8;
/// Permissions that let others change the file.
const WRITABLE: u32 = 0o022;

/// Reads the file for who only looks at the databases. Relative paths are relative to its
/// directory.
///
/// # Errors
/// `Usage` with the fault, `Io`.
pub(super) fn read(path: &Path) -> Result<Vec<Wanted>, CommandError> {
    read_opened(path).map(|(wanted, _)| wanted)
}

/// As [`read`], for who follows the databases and runs the commands of the file. Fails also if
/// another user could change it, if two of the databases are one file, or have one archive.
pub(super) fn read_to_follow(path: &Path) -> Result<Vec<Wanted>, CommandError> {
    let (wanted, facts) = read_opened(path)?;
    check_opened_code(path, &facts).map_err(|error| match error {
        StoreError::InsecureFile { .. } | StoreError::ForeignOwner { .. } => wrong(
            path,
            &format!("{error}, and with it where databases are shipped, and which commands run"),
        ),
        error => error.into(),
    })?;
    refuse_twice(&wanted).map_err(|told| wrong(path, &told))?;
    Ok(wanted)
}

/// Reads the file, and returns the facts of what was opened.
fn read_opened(path: &Path) -> Result<(Vec<Wanted>, Metadata), CommandError> {
    let failed = |error| CommandError::io("read", path, error);
    let file = open_ordinary(path).map_err(|error| match error.kind() {
        io::ErrorKind::Other => wrong(path, &error.to_string()),
        _ => failed(error),
    })?;
    let facts = file.metadata().map_err(failed)?;
    if facts.len() > MAX_BYTES {
        return Err(wrong(path, "it is not a configuration file"));
    }
    if facts.mode() & WRITABLE != 0 {
        let fault = "others can change it, and with it where databases are shipped; run chmod go-w";
        return Err(wrong(path, fault));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let wanted = parse(&text, directory).map_err(|fault| wrong(path, &fault))?;
    Ok((wanted, facts))
}

/// Returns the archive that `--to` names: `{name}` stands for the name of the database's file, as
/// in a configuration.
///
/// # Errors
/// `Usage` for another word in braces, and for a name that is not text.
pub(super) fn named(to: &OsStr, database: &Path) -> Result<OsString, CommandError> {
    // A path that is not text is taken as it is.
    let Some(text) = to.to_str() else { return Ok(to.to_owned()) };
    let rest = text.replace(NAME, "");
    if let Some((word, _)) = rest.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        let fault = format!("--to has {{{word}}}: only {NAME} stands for something");
        return Err(CommandError::usage(fault));
    }
    match name_of(database).to_str() {
        Some(name) => Ok(text.replace(NAME, name).into()),
        None if !text.contains(NAME) => Ok(to.to_owned()),
        None => Err(CommandError::usage(format!("the database has no name for {NAME} in --to"))),
    }
}

fn wrong(path: &Path, fault: &str) -> CommandError {
    CommandError::usage(format!("{}: {fault}", path.display()))
}

fn parse(text: &str, directory: &Path) -> Result<Vec<Wanted>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    refuse_unknown(&table, [LIST].iter().chain(&COMMON), "it")?;
    let list = match table.get(LIST) {
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(Value::Array(_)) | None => return Err(format!("it has no [[{LIST}]]")),
        Some(_) => return Err(format!("{LIST} is not a list: [[{LIST}]] begins each")),
    };
    let mut all = Vec::with_capacity(list.len());
    for (number, own) in (1..).zip(list) {
        let who = format!("database {number}");
        let Value::Table(own) = own else { return Err(format!("{who} is not a table")) };
        let who = match own.get("path") {
            Some(Value::String(path)) => format!("{who} ({path})"),
            _ => who,
        };
        refuse_unknown(own, OWN.iter().chain(&COMMON), &who)?;
        let keys = Keys { own, common: &table, who: &who };
        all.push(keys.wanted(directory)?);
    }
    Ok(all)
}

/// Fails if a key is not known, and names the nearest one that is.
fn refuse_unknown<'a>(
    table: &Table,
    known: impl Iterator<Item = &'a &'static str> + Clone,
    who: &str,
) -> Result<(), String> {
    let mut keys = table.keys();
    let Some(key) = keys.find(|key| !known.clone().any(|it| it == key)) else { return Ok(()) };
    let written = key.to_ascii_lowercase().replace('-', "_");
    // A common beginning counts most: names are cut short more often than they are misspelt.
    let likeness = |known: &str| strsim::jaro_winkler(known, &written);
    let nearest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Err(match (written.as_str(), nearest) {
        ("once" | "take_over" | "quiet", _) => {
            let option = written.replace('_', "-");
            format!("{who} has {key}, which is not known: --{option} is of the command alone")
        }
        ("retention", _) => format!(
            "{who} has {key}, which is not known: it is of config.toml; keep, keep_last, \
             keep_daily, keep_weekly and keep_monthly are here"
        ),
        (_, Some(nearest)) if likeness(nearest) >= LIKE => {
            format!("{who} has {key}, which is not known: {nearest} is the nearest")
        }
        _ => format!("{who} has {key}, which is not known"),
    })
}

/// The values of a database.
struct Keys<'a> {
    own: &'a Table,
    common: &'a Table,
    who: &'a str,
}

impl<'a> Keys<'a> {
    fn wanted(&self, directory: &Path) -> Result<Wanted, String> {
        let Self { who, .. } = self;
        let Some(path) = self.text("path")? else { return Err(format!("{who} has no path")) };
        let database = directory.join(path);
        let Some(to) = self.text("to")? else { return Err(format!("{who} has no to")) };
        let (every, day) = (Duration::from_secs(1), Duration::from_hours(24));
        let differential_every = self.parsed("differential_every", parse_length)?;
        let (to, storage) = (self.archive(to, &database, directory)?, self.storage()?);
        if matches!(ArchivePlace::of(&to), ArchivePlace::Directory(_))
            && storage != Storage::default()
        {
            return Err(format!(
                "{who} has object_lock or storage_class, and ships to a directory: object stores \
                 alone have locks and classes"
            ));
        }
        let encryption = self.parsed("encryption", parse_encryption)?;
        let certificates = self.certificates()?;
        if matches!(encryption, Some(EncryptionChoice::None)) && !certificates.is_empty() {
            return Err(format!(
                "{who} has encryption = \"none\", and certificates, which encrypt: certificates = \
                 [] takes those before the list away"
            ));
        }
        Ok(Wanted {
            to,
            database,
            certificates,
            encryption,
            every: self.parsed("every", parse_length)?.unwrap_or(every),
            differential_every: differential_every.unwrap_or(Duration::from_mins(10)),
            snapshot_every: self.parsed("snapshot_every", parse_length)?.unwrap_or(day),
            log_limit: self.parsed("log_limit", parse_bytes)?.unwrap_or(1_000_000_000),
            throttle: self.parsed("throttle", parse_bytes)?,
            storage,
            exec: self.text("exec")?.map(OsString::from),
            keep: self.rules()?,
            compression: match self.parsed("compression", parse_compression)? {
                Some(compression) => compression,
                None => parse_compression("zstd").unwrap_or(Compression::None),
            },
            sign: self.text("sign")?.map(str::to_owned),
            no_sign: match self.value("no_sign") {
                None => false,
                Some(Value::Boolean(true)) if self.value("sign").is_some() => {
                    return Err(format!("{who} has sign, and no_sign = true"));
                }
                Some(Value::Boolean(no_sign)) => *no_sign,
                Some(_) => return Err(format!("no_sign of {who} is neither true nor false")),
            },
            take_over: false,
        })
    }

    /// Returns the rules by which the archive is pruned; none if the file has none.
    fn rules(&self) -> Result<Rules, String> {
        Ok(Rules {
            within_s: self.parsed("keep", parse_length)?.map(|length| length.as_secs()),
            last: self.count("keep_last")?,
            daily: self.count("keep_daily")?,
            weekly: self.count("keep_weekly")?,
            monthly: self.count("keep_monthly")?,
        })
    }

    fn count(&self, key: &str) -> Result<Option<u32>, String> {
        let count = |value: &Value| {
            let count = value.as_integer().and_then(|count| u32::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            count.ok_or_else(|| format!("{key} of {} is not a number from 1", self.who))
        };
        self.value(key).map(count).transpose()
    }

    fn storage(&self) -> Result<Storage, String> {
        let days = match self.value("object_lock") {
            None => None,
            Some(Value::Integer(number)) => {
                Some(days(*number).map_err(|told| format!("object_lock of {}: {told}", self.who))?)
            }
            Some(_) => return Err(format!("object_lock of {} is not a number", self.who)),
        };
        let mode = self.parsed("object_lock_mode", parse_lock_mode)?;
        if days.is_none() && mode.is_some() {
            return Err(format!("{} has object_lock_mode, and no object_lock", self.who));
        }
        let class = self.text("storage_class")?.map(str::to_owned);
        Ok(storage(days, mode.unwrap_or(LockMode::Governance), class))
    }

    /// Returns the archive: `{name}` stands for the name of the database's file.
    fn archive(&self, to: &str, database: &Path, directory: &Path) -> Result<OsString, String> {
        let name = name_of(database);
        let name = name.to_str().unwrap_or_default();
        let to = to.replace(NAME, name);
        if let Some((_, rest)) = to.split_once('{').filter(|(_, rest)| rest.contains('}')) {
            let word = rest.split('}').next().unwrap_or_default();
            let who = self.who;
            return Err(format!("to of {who} has {{{word}}}: only {NAME} stands for something"));
        }
        Ok(match ArchivePlace::of(to.as_ref()) {
            ArchivePlace::Directory(path) => directory.join(path).into(),
            ArchivePlace::Prefix(address) => address.into(),
        })
    }

    fn certificates(&self) -> Result<Vec<String>, String> {
        let wrong = || format!("certificates of {} is not a list of names", self.who);
        let list = match self.value("certificates") {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(wrong()),
        };
        list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.own.get(key).or_else(|| self.common.get(key))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(Value::String(_)) => Err(format!("{key} of {} is empty", self.who)),
            Some(_) => Err(format!("{key} of {} is not a text", self.who)),
        }
    }

    fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let parsed = |text| parse(text).map_err(|error| format!("{key} of {}: {error}", self.who));
        self.text(key)?.map(parsed).transpose()
    }
}

/// Fails if two of them are one file, or ship to one archive.
fn refuse_twice(all: &[Wanted]) -> Result<(), String> {
    let file = |path: &PathBuf| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    for (at, one) in all.iter().enumerate() {
        let to = ArchivePlace::of(&one.to).recorded();
        for other in all.iter().take(at) {
            let (a, b) = (one.database.display(), other.database.display());
            let is_one = file(&one.database).is_some_and(|it| Some(it) == file(&other.database));
            let leads = |path: &Path| led_to(path).unwrap_or_else(|_| path.to_owned());
            if is_one || leads(&one.database) == leads(&other.database) {
                return Err(format!("{a} and {b} are one database"));
            }
            if to == ArchivePlace::of(&other.to).recorded() {
                return Err(format!("{a} and {b} have one archive, {to}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Wanted>, String> {
        let all = parse(text, Path::new("/etc/tdekit"))?;
        refuse_twice(&all).map(|()| all)
    }

    #[test]
    fn each_database_has_its_own_values_and_those_of_all() {
        let all = of("to = 's3://b/{name}'\nevery = '5s'\ncertificates = ['A', 'B']\n\
             [[database]]\npath = '/srv/app.db'\n[[database]]\npath = 'x.db'\nto = 'x'\n\
             certificates = []\nevery = '2m'\ndifferential_every = '30s'\n\
             log_limit = '5MB'\nno_sign = true")
        .unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!((&all[0].to, all[0].every.as_secs()), (&"s3://b/app".into(), 5));
        assert_eq!(all[0].certificates, ["A", "B"]);
        assert!(!all[0].no_sign && all[0].snapshot_every.as_secs() == 86_400);
        let looks = [0, 1].map(|at: usize| all[at].differential_every.as_secs());
        assert_eq!(looks, [600, 30]);
        assert_eq!(all[1].database, Path::new("/etc/tdekit/x.db"));
        assert_eq!((&all[1].to, all[1].every.as_secs()), (&"/etc/tdekit/x".into(), 120));
        assert!(all[1].certificates.is_empty() && all[1].no_sign);
        assert_eq!((all[0].log_limit, all[1].log_limit), (1_000_000_000, 5_000_000));
    }

    #[test]
    fn each_rule_of_a_database_takes_the_place_of_that_of_all() {
        let one = "[[database]]\npath = 'a'\nto = 'b'\n";
        assert!(of(one).unwrap()[0].keep.is_empty());
        let all = of(&format!(
            "keep = '24h'\nkeep_daily = 30\n{one}keep_daily = 7\nkeep_last = 1\nkeep_weekly = 2\n\
             keep_monthly = 3\n[[database]]\npath = 'c'\nto = 'd'"
        ))
        .unwrap();
        let (within_s, common) = (Some(86_400), Rules::default());
        let own =
            Rules { daily: Some(7), last: Some(1), weekly: Some(2), monthly: Some(3), within_s };
        assert_eq!(all[0].keep, own);
        assert_eq!(all[1].keep, Rules { within_s, daily: Some(30), ..common });
        for (text, told) in [
            ("keep = 24", "keep of database 1 (a) is not a text"),
            ("keep = '24'", "neither like 90s"),
            ("keep_daily = 0", "keep_daily of database 1 (a) is not a number from 1"),
            ("keep_last = '3'", "is not a number from 1"),
            ("keep_yearly = 3", "keep_"),
        ] {
            let wrong = of(&format!("{one}{text}")).unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
    }

    #[test]
    fn a_lock_and_a_class_are_of_an_object_store() {
        let of = |more: &str| {
            of(&format!("{more}\n[[database]]\npath = 'a'\nto = 's3://b/a'\n"))
                .map(|all| all[0].storage.clone())
        };
        assert_eq!(of("").unwrap(), Storage::default());
        let found = of("object_lock = 30\nstorage_class = 'STANDARD_IA'").unwrap();
        assert_eq!(found.class.as_deref(), Some("STANDARD_IA"));
        assert!(found.lock.is_some_and(|lock| lock.days == 30 && !lock.compliance));
        let strict = of("object_lock = 1\nobject_lock_mode = 'COMPLIANCE'").unwrap();
        assert!(strict.lock.is_some_and(|lock| lock.compliance));
        for (text, told) in [
            ("object_lock = 0", "from 1 to 36500"),
            ("object_lock = '30'", "not a number"),
            ("object_lock_mode = 'compliance'", "no object_lock"),
            ("object_lock = 1\nobject_lock_mode = 'legal'", "neither governance nor compliance"),
        ] {
            let refused = of(text).unwrap_err();
            assert!(refused.contains(told), "{refused}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_and_the_nearest_is_named() {
        let one = "[[database]]\npath = 'a'\nto = 'b'\n";
        for (text, told) in [
            ("", "no [[database]]"),
            ("[database]\npath = 'a'", "is not a list"),
            ("evry = '1s'\n[[database]]", "it has evry, which is not known: every"),
            ("[[databases]]\n", "database is the nearest"),
            (&format!("{one}certificate = ['a']"), "certificates is the nearest"),
            (&format!("{one}snapshot-every = '1d'"), "snapshot_every is the nearest"),
            (&format!("{one}take_over = true"), "--take-over is of the command alone"),
            (&format!("{one}once = true"), "not known: --once is of the command alone"),
            (&format!("{one}[retention]\nkeep = '1d'"), "it is of config.toml"),
            ("colour = 'red'\n[[database]]", "it has colour, which is not known"),
            (&format!("{one}every = ''"), "every of database 1 (a) is empty"),
            (&format!("{one}exec = ''"), "exec of database 1 (a) is empty"),
            ("[[database]]\npath = ''", "path of database 1 () is empty"),
            (&format!("{one}encryption = 'none'\ncertificates = ['A']"), "which encrypt"),
            (&format!("object_lock = 30\n{one}"), "ships to a directory"),
            (&format!("{one}storage_class = 'X'"), "ships to a directory"),
            (&format!("{one}every = 1"), "every of database 1 (a) is not a text"),
            (&format!("{one}every = 'x'"), "every of database 1 (a): "),
            (&format!("{one}certificates = 'A'"), "not a list of names"),
            (&format!("{one}certificates = [1]"), "not a list of names"),
            (&format!("{one}no_sign = 'yes'"), "neither true nor false"),
            (&format!("{one}no_sign = true\nsign = 'A'"), "has sign, and no_sign"),
            ("[[database]]\npath = 'a'", "has no to"),
            ("[[database]]\nto = 'a'", "has no path"),
            ("[[database]]\npath = 'a'\nto = 'b/{date}'", "{date}"),
            (&format!("{one}{one}"), "are one database"),
            (&format!("{one}[[database]]\npath = 'c'\nto = './b'"), "have one archive"),
            ("x = ", "TOML"),
        ] {
            let wrong = of(text).unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
        let far = of("colour = 'red'\n[[database]]").unwrap_err();
        assert!(!far.contains("nearest"), "{far}");
    }
}
