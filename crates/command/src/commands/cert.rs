//! `tdekit cert`: certificates, which wrap the keys of databases and backups.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde::Serialize;
use tdekit_backup_run::place::is_media;
use tdekit_console::session::{self, Ask};
use tdekit_console::{Fit, GlobalArgs, output};
use tdekit_key_store::{
    CertificateBackup, CertificateInfo, KeyType, NewCertificate, SecretBytes, Unlocked, Use,
    iso8601, namespace_of, open_ordinary, read_certificate_file, thumbprint, write_new,
};
use tdekit_sqlite_convert::{FileKind, Unwatched, header_of, read_area, resolved_path, rewrap};

use crate::error::CommandError;
use crate::pem::read_pem;
use crate::when::parse_expiry;

/// The verbs of `tdekit cert`.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Make a key pair and a self-signed certificate
    Create(CreateArgs),
    /// List the certificates
    List(ListArgs),
    /// Write a certificate and its private key to PEM files or a PKCS#12 file
    Backup(BackupArgs),
    /// Import a certificate from PEM files or a PKCS#12 file
    Restore(RestoreArgs),
    /// Make a new key pair and certificate under the same name; the old one can still unwrap
    Rotate(CreateArgs),
    /// Remove a certificate that no known file needs
    Drop(DropArgs),
    /// Take files that were removed on purpose off the list of what certificates open
    Forget(ForgetArgs),
}

/// The length of a new certificate's validity.
const EXPIRY: &str = "10y";

/// Type of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pair {
    /// EC on P-384: unwraps a key ten times as fast, and is as strong as RSA of 7,680 bits
    Ec,
    /// RSA, which SQL Server and older programs have
    Rsa,
}

/// Size of an RSA key.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Bits {
    /// RSA, 3072 bits
    #[value(name = "3072")]
    Rsa3072,
    /// RSA, 4096 bits
    #[value(name = "4096")]
    Rsa4096,
}

/// Arguments of `cert create` and `cert rotate`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the certificate
    name: String,
    /// Common name of its subject, at most 64 characters [default: the name, or as it was]
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// End of its validity: 10y, 90d, 2036-11-21 or a time of RFC 3339
    #[arg(long, value_name = "WHEN", default_value = EXPIRY, value_parser = parse_expiry)]
    expires: i64,
    /// Type of the key pair [default: ec; of a rotated certificate as it was]
    #[arg(long, value_enum)]
    key_type: Option<Pair>,
    /// Size of an RSA key [default: 3072]
    #[arg(long, value_enum)]
    bits: Option<Bits>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `cert list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Open the master key and check the key store for tampering
    #[arg(long)]
    verify: bool,
}

/// Arguments of `cert backup`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("to").required(true).multiple(false).args(["out", "pkcs12"])))]
pub(crate) struct BackupArgs {
    /// Name or thumbprint of the certificate
    certificate: String,
    /// PEM file for the certificate; it must not exist
    #[arg(long, value_name = "FILE", requires = "key_out")]
    out: Option<PathBuf>,
    /// PEM file for the private key, encrypted; it must not exist
    #[arg(long, value_name = "FILE", requires = "out")]
    key_out: Option<PathBuf>,
    /// PKCS#12 file for both; it must not exist
    #[arg(long, value_name = "FILE")]
    pkcs12: Option<PathBuf>,
    /// File with the password of the backup [default: $TDEKIT_BACKUP_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
}

/// Arguments of `cert restore`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("from").required(true).multiple(false).args(["input", "pkcs12"])))]
pub(crate) struct RestoreArgs {
    /// Name for the certificate [default: the one in the PKCS#12 file]
    name: Option<String>,
    /// PEM file with the certificate, and its private key unless --key-in names another file
    #[arg(long = "in", value_name = "FILE")]
    input: Option<PathBuf>,
    /// PEM file with the private key
    #[arg(long, value_name = "FILE", requires = "input")]
    key_in: Option<PathBuf>,
    /// PKCS#12 file with both
    #[arg(long, value_name = "FILE")]
    pkcs12: Option<PathBuf>,
    /// File with the password of the backup [default: $TDEKIT_BACKUP_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
    /// Take a certificate of an authority, of which nothing shows whether it was changed
    #[arg(long)]
    unverified: bool,
}

/// Arguments of `cert drop`.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Name, for all its generations, or the thumbprint of one
    certificate: String,
    /// Drop it even if files need it or it has no backup
    #[arg(long)]
    force: bool,
}

/// Arguments of `cert forget`.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Paths of databases or media sets that are no longer there, or of which another database, a
    /// plain or an empty file has taken the place
    #[arg(required = true)]
    file: Vec<PathBuf>,
}

/// Runs a verb.
pub(crate) fn run(command: &CertCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        CertCommand::Create(args) => create(args, global),
        CertCommand::List(args) => list(args, global),
        CertCommand::Backup(args) => backup(args, global),
        CertCommand::Restore(args) => restore(args, global),
        CertCommand::Rotate(args) => rotate(args, global),
        CertCommand::Drop(args) => drop_certificate(args, global),
        CertCommand::Forget(args) => forget(args, global),
    }
}

fn create(args: &CreateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut store = session::open_unlocked_store(global)?;
    let info = store.create_certificate(&args.new_certificate()?)?;
    if args.json {
        output::json(&Certificate::of(&info, &[]))?;
    } else {
        output::line(format_args!("Made certificate {}", info.name))?;
        print_facts(&info)?;
    }
    output::warn_of_certificate(store.store(), &info);
    Ok(())
}

#[derive(Serialize)]
struct Rotated {
    old: Certificate,
    new: Certificate,
    /// Files whose keys the new generation wraps now.
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    wrapped_anew: Vec<PathBuf>,
    /// Files whose keys are still wrapped by older generations.
    to_wrap_anew: Vec<KnownUse>,
    /// Media sets of backups. Their sets stay with the generation for which they were made.
    backups: Vec<KnownUse>,
}

fn rotate(args: &CreateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut store = session::open_unlocked_store(global)?;
    let rotation = store.rotate_certificate(&args.new_certificate()?)?;
    let unlocked = Arc::new(store);
    let (backups, databases): (Vec<_>, Vec<_>) =
        rotation.files.into_iter().partition(|known| is_media(&known.path));
    let (wrapped_anew, left) = rewrap_files(&databases, &rotation.new.name, &unlocked);
    if args.json {
        output::json(&Rotated {
            old: Certificate::of(&rotation.old, &[]),
            new: Certificate::of(&rotation.new, &[]),
            wrapped_anew,
            to_wrap_anew: left.iter().map(|(known, _)| KnownUse::of(known)).collect(),
            backups: backups.iter().map(KnownUse::of).collect(),
        })?;
    } else {
        let (name, generation) = (&rotation.new.name, rotation.new.generation);
        output::line(format_args!("Made generation {generation} of certificate {name}"))?;
        print_facts(&rotation.new)?;
        output::line(format_args!(
            "Generation {} ({}) stays for unwrapping.",
            rotation.old.generation,
            rotation.old.thumbprint()
        ))?;
        for path in &wrapped_anew {
            output::line(format_args!("Wrapped anew: {}", path.display()))?;
        }
        print_left(&left, &backups)?;
    }
    output::warn_of_certificate(unlocked.store(), &rotation.new);
    Ok(())
}

/// Lists the files that older generations open, each path once. Files that are not at their last
/// known path are only counted: programs may have removed hundreds.
fn print_left(left: &[(&Use, CommandError)], backups: &[Use]) -> Result<(), CommandError> {
    let mut seen = HashSet::new();
    let newest = left.iter().rev().filter(|(known, _)| seen.insert(&known.path));
    let (missing, there): (Vec<_>, Vec<_>) = newest.partition(|(known, _)| known.is_missing());
    if !there.is_empty() {
        output::line("The keys of these files are still wrapped by older generations:")?;
        for (known, error) in &there {
            output::line(format_args!("  {} ({error})", known.path.display()))?;
        }
        output::line("`tdekit rewrap FILE` wraps those of a database anew,")?;
        output::line(
            "`tdekit mariadb key rewrap` or `tdekit mysql rewrap`, with --certificate NAME, those \
             of a server.",
        )?;
    }
    let (gone, backups): (Vec<_>, Vec<_>) = backups.iter().partition(|known| known.is_missing());
    for known in backups {
        output::line(format_args!("Opened by the older generation: {}", known.path.display()))?;
    }
    match missing.len() + gone.len() {
        0 => Ok(()),
        count => Ok(output::line(format_args!(
            "{count} file(s) that older generations open are not where they were: \
             `tdekit cert list --json` names them."
        ))?),
    }
}

/// Rewraps the keys of databases, and the keys of servers in the store's own directory, for the
/// active generation of the certificate `name`. Returns the paths of the rewrapped files, and those
/// that failed with the reason; these open as before.
fn rewrap_files<'a>(
    files: &'a [Use],
    name: &str,
    unlocked: &Arc<Unlocked>,
) -> (Vec<PathBuf>, Vec<(&'a Use, CommandError)>) {
    let (mut done, mut left) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let server_keys = unlocked.store().server_keys_path();
    let server_keys = std::path::absolute(&server_keys).unwrap_or(server_keys);
    for known in files.iter() {
        // A copy has its original's id, and is another file.
        if !seen.insert((known.file_id, &known.path)) {
            continue;
        }
        let rewrapped = if known.path == server_keys {
            unlocked.rewrap_server_keys(name).map(|_| server_keys.clone()).map_err(Into::into)
        } else if let (Some(namespace), true) =
            (namespace_of(&known.path), known.path.parent() == server_keys.parent())
        {
            let rewrapped = unlocked.rewrap_named_keys(namespace, name);
            rewrapped.map(|_| known.path.clone()).map_err(Into::into)
        } else {
            rewrap(&known.path, Some(known.file_id), &[], unlocked, &Unwatched)
                .map_err(CommandError::from)
                .map(|rewrapped| rewrapped.path)
        };
        match rewrapped {
            Ok(path) => done.push(path),
            Err(error) => left.push((known, error)),
        }
    }
    (done, left)
}

fn list(args: &ListArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut store = session::open_store(global)?;
    if args.verify {
        let unlocked = session::open_unlocked_store(global)?;
        unlocked.check_private_keys()?;
        store = unlocked.store().clone();
    }
    let uses = store.uses()?;
    let listed: Vec<_> =
        store.certificates().iter().map(|info| Certificate::of(info, &uses)).collect();
    if args.json {
        return Ok(output::json(&listed)?);
    }
    if listed.is_empty() {
        return Ok(output::line(
            "There are no certificates; `tdekit cert create NAME` makes one.",
        )?);
    }
    let header = [
        ("NAME", Fit::Cut),
        ("GENERATION", Fit::Keep),
        ("SUBJECT", Fit::Drop(5)),
        ("THUMBPRINT", Fit::Drop(2)),
        ("CREATED", Fit::Drop(4)),
        ("EXPIRES", Fit::Keep),
        ("KEY", Fit::Drop(6)),
        ("PRIVATE KEY", Fit::Drop(1)),
        ("BACKED UP", Fit::Keep),
        ("USED BY", Fit::Drop(3)),
    ];
    let row = |listed: &Certificate| {
        let active = if listed.active { " (active)" } else { "" };
        vec![
            listed.name.clone(),
            format!("{}{active}", listed.generation),
            listed.subject.clone(),
            listed.thumbprint.clone(),
            listed.created_at.clone(),
            listed.expires_at.clone(),
            format!("{} {}", listed.key_algorithm, listed.key_bits),
            if listed.has_private_key { "yes" } else { "no" }.to_owned(),
            listed.backed_up_at.clone().unwrap_or_else(|| "never".to_owned()),
            listed.used_by.len().to_string(),
        ]
    };
    Ok(output::fitted_table(&header, listed.iter().map(row).collect())?)
}

fn backup(args: &BackupArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut store = session::open_unlocked_store(global)?;
    let info = store.store().find(&args.certificate)?.clone();
    let password = session::backup_password(args.backup_password_file.as_deref(), Ask::New)?;
    let mut written = Written::default();
    match (&args.out, &args.key_out, &args.pkcs12) {
        (Some(out), Some(key_out), None) => {
            let pem = store.export_pem(&args.certificate, &password)?;
            written.write(out, pem.certificate.as_bytes())?;
            written.write(key_out, pem.private_key.as_bytes())?;
            read_pem(out, Some(key_out), || Ok(password))?;
        }
        (None, None, Some(file)) => {
            back_up_pkcs12(&mut store, &info, file, &password)?;
            written.0.push(file.clone());
        }
        _ => return Err(CommandError::usage("give --out and --key-out, or --pkcs12")),
    }
    store.mark_backed_up(&info.sha256)?;
    output::line(format_args!("Backed up certificate {} ({})", info.name, info.thumbprint()))?;
    for path in written.keep() {
        output::line(format_args!("  {}", path.display()))?;
    }
    Ok(())
}

fn restore(args: &RestoreArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let file = args.backup_password_file.as_deref();
    let password = || Ok(session::backup_password(file, Ask::Existing)?);
    let backup = match (&args.input, &args.pkcs12) {
        (Some(input), None) => read_pem(input, args.key_in.as_deref(), password)?,
        (None, Some(path)) => {
            CertificateBackup::from_pkcs12(&read_certificate_file(path)?, path, &password()?)?
        }
        _ => return Err(CommandError::usage("give --in or --pkcs12")),
    };
    let name = args.name.as_ref().or(backup.friendly_name.as_ref()).ok_or_else(|| {
        CommandError::usage("the backup has no name for the certificate: give one")
    })?;
    if backup.unchecked && !args.unverified {
        return Err(CommandError::UnverifiedCertificate);
    }
    let mut store = session::open_unlocked_store(global)?;
    let info = store.import_certificate(name, &backup)?;
    output::line(format_args!("Restored certificate {}", info.name))?;
    print_facts(&info)?;
    if !info.has_private_key {
        output::warning("the private key was not in the backup: it can wrap, and never unwrap");
    }
    Ok(())
}

fn drop_certificate(args: &DropArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut store = session::open_unlocked_store(global)?;
    for info in store.drop_certificate(&args.certificate, args.force)? {
        let (name, generation) = (&info.name, info.generation);
        output::line(format_args!(
            "Dropped generation {generation} of certificate {name} ({})",
            info.thumbprint()
        ))?;
    }
    Ok(())
}

/// It needs no key, as the list is not a secret of the store.
fn forget(args: &ForgetArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let paths: Vec<PathBuf> = args.file.iter().map(|path| listed_path(path)).collect();
    let store = session::open_store(global)?;
    let uses = store.uses()?;
    let nothing = |path: &Path, why: &str| {
        Err(CommandError::Nothing { reason: format!("{} {why}", path.display()) })
    };
    if let Some(path) = paths.iter().find(|path| is_there(path, &uses)) {
        return nothing(path, "is there");
    }
    let kept = store.forget_files(&paths)?;
    for path in paths.iter().filter(|path| !kept.contains(path)) {
        output::line(format_args!("{} is not expected any more", path.display()))?;
    }
    kept.first().map_or(Ok(()), |path| nothing(path, "is not on the key store's list"))
}

/// Returns a file's path as the list has it. Its directory may be gone with the file.
fn listed_path(name: &Path) -> PathBuf {
    if name.to_str().is_some_and(|text| text.contains("://")) {
        return name.to_owned();
    }
    resolved_path(name).unwrap_or_else(|| {
        let mut path = PathBuf::new();
        for part in std::path::absolute(name).unwrap_or_else(|_| name.to_owned()).components() {
            match part {
                Component::ParentDir => drop(path.pop()),
                other => path.push(other),
            }
        }
        path
    })
}

/// Returns true unless the path has no file, an empty or plain one, or an encrypted database that
/// is not on the list.
fn is_there(path: &Path, uses: &[Use]) -> bool {
    let area = match open_ordinary(path).and_then(|file| read_area(&file)) {
        Ok(area) => area,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    let is_listed = |id| uses.iter().any(|known| known.path == path && known.file_id == id);
    match FileKind::of(&area) {
        FileKind::Plain | FileKind::Empty => false,
        FileKind::Other => true,
        FileKind::Encrypted => {
            header_of(path, &area).map_or(true, |header| is_listed(header.file_id))
        }
    }
}

/// Writes a certificate and its key to a PKCS#12 file that must not exist, reads it again, and
/// notes that there is a backup. A file that does not open is removed.
pub(crate) fn back_up_pkcs12(
    store: &mut Unlocked,
    info: &CertificateInfo,
    file: &Path,
    password: &SecretBytes,
) -> Result<(), CommandError> {
    let mut written = Written::default();
    written.write(file, &store.export_pkcs12(&info.thumbprint(), password)?)?;
    CertificateBackup::from_pkcs12(&read_certificate_file(file)?, file, password)?;
    store.mark_backed_up(&info.sha256)?;
    written.keep();
    Ok(())
}

impl CreateArgs {
    /// As `cert create NAME` without options.
    pub(crate) fn named(name: &str) -> Result<Self, CommandError> {
        let expires = parse_expiry(EXPIRY).map_err(CommandError::usage)?;
        let (name, subject) = (name.to_owned(), None);
        Ok(Self { name, subject, expires, key_type: None, bits: None, json: false })
    }

    /// # Errors
    /// `Usage` for an EC key with a size.
    pub(crate) fn new_certificate(&self) -> Result<NewCertificate<'_>, CommandError> {
        let key_type = match (self.key_type, self.bits) {
            (Some(Pair::Ec), Some(_)) => {
                return Err(CommandError::usage("--bits is the size of an RSA key"));
            }
            (Some(Pair::Ec), None) => Some(KeyType::EcP384),
            (_, Some(Bits::Rsa4096)) => Some(KeyType::Rsa4096),
            (_, Some(Bits::Rsa3072)) | (Some(Pair::Rsa), None) => Some(KeyType::Rsa3072),
            (None, None) => None,
        };
        let (name, subject) = (self.name.as_str(), self.subject.as_deref());
        Ok(NewCertificate { name, subject, key_type, expires_at: self.expires })
    }
}

/// A certificate as printed.
#[derive(Serialize)]
struct Certificate {
    name: String,
    generation: u32,
    active: bool,
    subject: String,
    serial: String,
    /// SHA-1, as SQL Server shows it.
    thumbprint: String,
    thumbprint_sha256: String,
    created_at: String,
    valid_from: String,
    expires_at: String,
    key_algorithm: String,
    key_bits: u32,
    has_private_key: bool,
    backed_up_at: Option<String>,
    used_by: Vec<KnownUse>,
}

#[derive(Serialize)]
struct KnownUse {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    path: PathBuf,
    file_id: String,
    recorded_at: String,
}

impl Certificate {
    fn of(info: &CertificateInfo, uses: &[Use]) -> Self {
        let of_this = uses.iter().filter(|known| known.sha256 == info.sha256);
        Self {
            name: info.name.clone(),
            generation: info.generation,
            active: info.active,
            subject: info.subject.clone(),
            serial: info.serial.clone(),
            thumbprint: info.thumbprint(),
            thumbprint_sha256: thumbprint(&info.sha256),
            created_at: iso8601(info.created_at),
            valid_from: iso8601(info.not_before),
            expires_at: iso8601(info.not_after),
            key_algorithm: info.key_algorithm.to_string(),
            key_bits: info.key_bits,
            has_private_key: info.has_private_key,
            backed_up_at: info.backed_up_at.map(iso8601),
            used_by: of_this.map(KnownUse::of).collect(),
        }
    }
}

impl KnownUse {
    fn of(known: &Use) -> Self {
        Self {
            path: known.path.clone(),
            file_id: hex::encode(known.file_id),
            recorded_at: iso8601(known.recorded_at),
        }
    }
}

/// Written files, which are removed unless they are kept.
#[derive(Default)]
struct Written(Vec<PathBuf>);

impl Written {
    fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
        write_new(path, bytes)?;
        self.0.push(path.to_owned());
        Ok(())
    }

    fn keep(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn print_facts(info: &CertificateInfo) -> Result<(), CommandError> {
    output::line(format_args!("  Subject     {}", info.subject))?;
    output::line(format_args!("  Thumbprint  {}", info.thumbprint()))?;
    output::line(format_args!("  SHA-256     {}", thumbprint(&info.sha256)))?;
    output::line(format_args!("  Key         {}, {} bits", info.key_algorithm, info.key_bits))?;
    Ok(output::line(format_args!("  Expires     {}", iso8601(info.not_after)))?)
}
