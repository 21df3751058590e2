//! `tdekit import`: makes an encrypted database from one that another program encrypted.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tdekit_console::{ConsoleError, Failure as _, GlobalArgs, output, session};
use tdekit_key_crypto::{Algorithm, Kind};
use tdekit_key_store::{StoreError, Unlocked};
use tdekit_sqlite_convert::{
    DatabaseError, Foreign, Form, Importable, Options, Origin, Setting, find_certificates, import,
    importable_in,
};

use crate::commands::encrypt::{page_algorithms, warn_unchecked};
use crate::error::CommandError;
use crate::progress::{Shown, heed_signals};

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The old database, or a directory: all databases of the program in and below it; they stay as
    /// they are
    old: PathBuf,
    /// The program that encrypted it
    #[arg(long, value_name = "PROGRAM")]
    from: From,
    /// The new database, which must not exist; of a directory the one for the new databases
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
    /// Certificate that wraps the new database's key, by name or thumbprint; may be given
    /// repeatedly, and then each opens the database
    #[arg(long, value_name = "NAME", required = true)]
    certificate: Vec<String>,
    /// Algorithm that seals its pages
    #[arg(long, value_name = "NAME", default_value = Algorithm::Aes256.name(),
        value_parser = PossibleValuesParser::new(page_algorithms()), ignore_case = true)]
    algorithm: String,
    /// File with the old key, in one line [default: $TDEKIT_OLD_KEY, else a prompt]
    #[arg(long, value_name = "FILE")]
    old_key_file: Option<PathBuf>,
    /// The program's SQLite library [default: as `tdekit bench peers install` left it, else the
    /// system's]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// The old cipher, by its name in SQLite3 Multiple Ciphers
    #[arg(long, value_name = "NAME")]
    cipher: Option<String>,
    /// The major version of SQLCipher that made the file
    #[arg(long, value_name = "VERSION")]
    compatibility: Option<u32>,
    /// The old page size, bytes, where it is not the program's default
    #[arg(long, value_name = "BYTES")]
    page_size: Option<u32>,
    /// Iterations of the old key derivation
    #[arg(long, value_name = "COUNT")]
    kdf_iter: Option<u32>,
    /// Another setting of the old cipher, as the program's pragma; may be given repeatedly
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pragma: Vec<Setting>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A program whose databases can be imported.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    /// SQLCipher
    Sqlcipher,
    /// SQLite3 Multiple Ciphers
    Sqlite3mc,
}

/// Output of `--json` for a database.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    old: Option<PathBuf>,
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    path: PathBuf,
    from: &'static str,
    library_version: String,
    algorithm: String,
    certificates: Vec<String>,
    tables: u64,
    rows: u64,
    journal_recovered: bool,
}

/// Output of `--json` for a directory.
#[derive(Debug, Serialize)]
struct Reports {
    imported: Vec<Report>,
    failed: Vec<Failure>,
    /// Number of files that are not databases of the program.
    others: u64,
}

/// A database that was not imported.
#[derive(Debug, Serialize)]
struct Failure {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    old: PathBuf,
    error: String,
    #[serde(skip)]
    kind: Kind,
}

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let algorithm = args.algorithm.parse::<Algorithm>().map_err(StoreError::Crypto)?;
    let settings = settings(args)?;
    let unlocked = Arc::new(session::open_unlocked_store(global)?);
    let certificates = find_certificates(&unlocked, &args.certificate)?;
    let key = session::old_key(args.old_key_file.as_deref())?;
    let origin = args.from.origin();
    let installed = installed_libraries();
    let places = (args.library.as_deref(), installed.as_deref());
    let foreign = Foreign::load(origin, places, &key, &settings)?;
    let form = Form::Encrypted { certificates: certificates.clone(), algorithm };
    let work = Work { args, unlocked, foreign, form };
    heed_signals();
    let outcome = match args.old.is_dir() {
        true => work.directory(),
        false => work.database((&args.old, &args.to)).and_then(|report| match args.json {
            true => Ok(output::json(&Report { old: None, ..report })?),
            false => Ok(()),
        }),
    };
    if outcome.is_ok() {
        certificates
            .iter()
            .for_each(|info| output::warn_of_certificate(work.unlocked.store(), info));
    }
    outcome
}

/// One call's imports.
struct Work<'a> {
    args: &'a ImportArgs,
    unlocked: Arc<Unlocked>,
    foreign: Foreign<'a>,
    form: Form,
}

impl Work<'_> {
    fn database(&self, (old, new): (&Path, &Path)) -> Result<Report, CommandError> {
        let options = Options { verify: true, ..Options::default() };
        let (how, shown) = ((&self.form, &options), Shown::default());
        let done = import((old, new), &self.foreign, how, &self.unlocked, &shown)?;
        let Form::Encrypted { certificates, algorithm } = &self.form else {
            return Err(CommandError::usage("an import encrypts"));
        };
        let report = Report {
            old: Some(old.to_owned()),
            path: done.path,
            from: self.name(),
            library_version: self.foreign.version(),
            algorithm: algorithm.to_string(),
            certificates: certificates.iter().map(|info| info.name.clone()).collect(),
            tables: done.tables,
            rows: done.rows,
            journal_recovered: done.journal_recovered,
        };
        if !self.args.json {
            output::line(format_args!(
                "Imported {} as {} with {algorithm}, certificate {}",
                old.display(),
                report.path.display(),
                report.certificates.join(", ")
            ))?;
            let (tables, rows) = (report.tables, report.rows);
            output::line(format_args!("  Compared {rows} row(s) of {tables} table(s)."))?;
        }
        if done.journal_recovered {
            output::warning(format_args!(
                "{} had a journal or a log, which was recovered in the copy alone",
                old.display()
            ));
        }
        warn_unchecked(true, &done.unknown);
        if let Some(error) = &done.not_synced {
            output::warning(format_args!("a power cut now may take the new name away: {error}"));
        }
        Ok(report)
    }

    /// Imports every database in and below a directory, each to the same place below the new one. A
    /// failure does not stop the others; the user's signal does.
    fn directory(&self) -> Result<(), CommandError> {
        let (old, new) = (&self.args.old, &self.args.to);
        let Importable { found, broken, others } = importable_in(old, &self.foreign)?;
        let (mut imported, mut failed) = (Vec::new(), Vec::new());
        let all = found.len() + broken.len();
        for (path, error) in broken {
            self.failed(&path, &error.into(), &mut failed)?;
            failed.iter_mut().for_each(|one| one.kind = Kind::Damaged);
        }
        for path in &found {
            let place = new.join(path.strip_prefix(old).unwrap_or(path));
            let above = place.parent().unwrap_or(new);
            let made = std::fs::create_dir_all(above)
                .map_err(|source| CommandError::io("make the directory", above, source));
            match made.and_then(|()| self.database((path, &place))) {
                Ok(report) => imported.push(report),
                Err(
                    error @ CommandError::Console(ConsoleError::Database(
                        DatabaseError::Interrupted,
                    )),
                ) => {
                    return Err(error);
                }
                Err(error) => self.failed(path, &error, &mut failed)?,
            }
        }
        let worst = failed.first().map(|first| first.kind);
        let count = failed.len();
        if self.args.json {
            output::json(&Reports { imported, failed, others })?;
        } else {
            let done = imported.len();
            output::line(format_args!(
                "{done} of {all} database(s) imported; {others} other file(s) left out."
            ))?;
        }
        match worst {
            None if all == 0 => {
                let reason = format!("{} holds no database of {}", old.display(), self.name());
                Err(CommandError::Nothing { reason })
            }
            None => Ok(()),
            Some(kind) => Err(CommandError::NotImported { kind, failed: count, all }),
        }
    }

    fn failed(
        &self,
        path: &Path,
        error: &CommandError,
        failed: &mut Vec<Failure>,
    ) -> Result<(), CommandError> {
        if !self.args.json {
            output::line(format_args!("Not imported: {}: {error}", path.display()))?;
        }
        let (old, kind) = (path.to_owned(), error.kind());
        failed.push(Failure { old, error: error.to_string(), kind });
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.args.from.origin().name()
    }
}

impl From {
    fn origin(self) -> Origin {
        match self {
            Self::Sqlcipher => Origin::Sqlcipher,
            Self::Sqlite3mc => Origin::Sqlite3mc,
        }
    }
}

/// Returns the pragmas for the arguments, for the programs that support them.
fn settings(args: &ImportArgs) -> Result<Vec<Setting>, CommandError> {
    let mut named: Vec<(&str, String)> = Vec::new();
    let (compatibility, page_size) = match args.from {
        From::Sqlcipher => ("cipher_compatibility", "cipher_page_size"),
        From::Sqlite3mc => ("legacy", "legacy_page_size"),
    };
    if let Some(cipher) = &args.cipher {
        if matches!(args.from, From::Sqlcipher) {
            return Err(CommandError::usage("--cipher is for --from sqlite3mc"));
        }
        named.push(("cipher", cipher.clone()));
    }
    let numbers = [
        (compatibility, args.compatibility),
        (page_size, args.page_size),
        ("kdf_iter", args.kdf_iter),
    ];
    named.extend(numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))));
    let mut settings = Vec::new();
    for (name, value) in named {
        let setting = Setting::new(name, &value);
        settings.push(setting.ok_or_else(|| CommandError::usage(format!("{value}: no name")))?);
    }
    settings.extend(args.pragma.iter().cloned());
    Ok(settings)
}

fn parse_setting(text: &str) -> Result<Setting, String> {
    let setting = text.split_once('=').and_then(|(name, value)| Setting::new(name, value));
    setting.ok_or_else(|| "not NAME=VALUE of letters, digits, - and _; no key".to_owned())
}

/// Returns the directory into which `tdekit bench peers install` installs libraries.
fn installed_libraries() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("TDEKIT_PEERS").or_else(|| {
        let cache = variable("XDG_CACHE_HOME");
        let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("tdekit").join("peers"))
    })
}
