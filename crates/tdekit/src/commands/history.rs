//! `tdekit history`: the backup history, and how it is made anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tdekit_backup_media::{MEDIA_HEADER_LEN, MediaHeader};
use tdekit_backup_run::place::{Opened, Place, open};
use tdekit_backup_run::{CATALOG_FILE_NAME, Catalog, CatalogFilter, CatalogSet};
use tdekit_sqlite_convert::{go_on, io_error};

use crate::backup::report::{ratio, size, warn_findings};
use crate::error::CommandError;
use crate::global::GlobalArgs;
use crate::progress::{Shown, heed_signals};
use crate::{output, session};

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only of this database: its path, or its name
    #[arg(long, value_name = "FILE", conflicts_with = "scan")]
    database: Option<PathBuf>,
    /// Take up every set of the media sets in this directory and those below it; may be given
    /// repeatedly
    #[arg(long, value_name = "DIR")]
    scan: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a scan, as JSON.
#[derive(Default, Serialize)]
struct Scanned {
    /// Files of media sets.
    files: usize,
    media_sets: usize,
    sets: usize,
    /// Sets that the history did not have.
    new: usize,
    /// Files that could not be read as media sets, and why.
    unreadable: Vec<Unreadable>,
}

#[derive(Serialize)]
struct Unreadable {
    path: PathBuf,
    error: String,
}

/// Runs the command. It needs no key.
pub(crate) fn run(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    match args.scan.is_empty() {
        true => list(args, global),
        false => scan(args, global),
    }
}

fn list(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let sets = match Catalog::open_existing(&session::store_dir(global)?)? {
        Some(catalog) => wanted(&catalog, args.database.as_deref())?,
        None => Vec::new(),
    };
    if args.json {
        return output::json(&sets);
    }
    if sets.is_empty() {
        return output::line("There are no backups in the history.");
    }
    let header = [
        "DATABASE",
        "TYPE",
        "BEGUN",
        "SIZE",
        "STORED",
        "RATIO",
        "ENCRYPTION",
        "CERTIFICATE",
        "EXPIRES",
        "POSITION",
        "MEDIA",
    ];
    output::table(&header, sets.iter().map(row).collect())
}

/// The sets of a database by its path as the system resolves it, by the argument as it stands, and
/// by its name.
fn wanted(catalog: &Catalog, database: Option<&Path>) -> Result<Vec<CatalogSet>, CommandError> {
    let Some(database) = database else { return Ok(catalog.sets(&CatalogFilter::default())?) };
    let resolved = fs::canonicalize(database).or_else(|_| std::path::absolute(database));
    let resolved = resolved.ok().map(|path| path.to_string_lossy().into_owned());
    for name in [resolved, Some(database.to_string_lossy().into_owned())].into_iter().flatten() {
        let found = catalog.sets(&CatalogFilter { database: Some(name) })?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn row(set: &CatalogSet) -> Vec<String> {
    let kind = match (set.is_stream, set.kind.as_str()) {
        (true, _) => "stream",
        (false, "I") => "differential",
        (false, _) => "full",
    };
    let devices: Vec<_> =
        set.devices.iter().map(|device| device.physical_device_name.as_str()).collect();
    let names: Vec<_> =
        set.encryptors.iter().map(|encryptor| encryptor.certificate_name.as_str()).collect();
    let or = |text: Option<&str>, none: &str| text.unwrap_or(none).to_owned();
    vec![
        set.database_name.clone(),
        kind.to_owned(),
        set.backup_start_date.clone(),
        size(set.backup_size),
        size(set.compressed_backup_size),
        ratio(set.backup_size, set.compressed_backup_size),
        or(set.key_algorithm.as_deref(), "none"),
        if names.is_empty() { "-".to_owned() } else { names.join(", ") },
        or(set.expiration_date.as_deref(), "never"),
        set.position.to_string(),
        devices.join(", "),
    ]
}

fn scan(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let kept = session::kept_dir(global)?;
    let mut catalog = Catalog::open(&kept)?;
    let mut found = Scanned::default();
    let mut media: BTreeMap<[u8; 16], Vec<PathBuf>> = BTreeMap::new();
    for dir in &args.scan {
        let dir = fs::canonicalize(dir).map_err(io_error("open", dir))?;
        find_media(&dir, &mut media, &mut found)?;
    }
    for paths in media.into_values() {
        found.media_sets += 1;
        for opened in open_group(&paths, &mut found) {
            if !args.json {
                warn_findings(opened.media.findings());
            }
            for set in opened.media.sets() {
                let row = CatalogSet::of(set, &opened.media.id(), &opened.devices);
                found.sets += 1;
                found.new += usize::from(catalog.record(&row)?);
            }
        }
    }
    if args.json {
        return output::json(&found);
    }
    for Unreadable { path, error } in &found.unreadable {
        output::warning(format_args!("{}: {error}", path.display()));
    }
    output::line(format_args!(
        "{} set(s) in {} media set(s) ({} file(s)); {} new in {}",
        found.sets,
        found.media_sets,
        found.files,
        found.new,
        kept.join(CATALOG_FILE_NAME).display()
    ))
}

/// Opens the files of one media set together, as its mirrors and stripes; where they do not fit,
/// such as a copy of an earlier state that went on by itself, each for itself.
fn open_group(paths: &[PathBuf], found: &mut Scanned) -> Vec<Opened> {
    let place = |path: &PathBuf| Place::File(path.clone());
    if let Ok(opened) = open(&paths.iter().map(place).collect::<Vec<_>>()) {
        return vec![opened];
    }
    let mut each = Vec::new();
    for path in paths {
        match open(&[place(path)]) {
            Ok(opened) => each.push(opened),
            Err(error) => {
                found.unreadable.push(Unreadable { path: path.clone(), error: error.to_string() });
            }
        }
    }
    each
}

/// Finds files that begin as media sets do. Symbolic links are not followed; directories that may
/// not be read are told.
fn find_media(
    dir: &Path,
    media: &mut BTreeMap<[u8; 16], Vec<PathBuf>>,
    found: &mut Scanned,
) -> Result<(), CommandError> {
    go_on(&Shown::default())?;
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            found.unreadable.push(Unreadable { path: dir.to_owned(), error: error.to_string() });
            return Ok(());
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            find_media(&path, media, found)?;
        } else if metadata.is_file()
            && let Some(header) = header_of(&path)
        {
            found.files += 1;
            media.entry(header.media_id).or_default().push(path);
        }
    }
    Ok(())
}

fn header_of(path: &Path) -> Option<MediaHeader> {
    let mut head = [0; MEDIA_HEADER_LEN];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    MediaHeader::decode(&head).ok()
}
