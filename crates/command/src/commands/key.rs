//! `tdekit key`: the master key and its store.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_console::session::{self, Ask};
use tdekit_console::{ConsoleError, GlobalArgs, output};
use tdekit_key_store::{
    KeyStore, MAX_FILE_BYTES, PasswordParams, Protector, ProtectorKind, Restored,
    SERVER_KEYS_FILE_NAME, StoreError, Unlock, generate_key_file, iso8601, password_cost,
    read_limited, restore, service_key, token_key, write_new,
};

use super::key_provider::{self, ProviderCommand};
use crate::error::CommandError;

/// The verbs of `tdekit key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key store with a new master key
    Init(InitArgs),
    /// Show the key store
    Status(StatusArgs),
    /// Make a new master key, or change what opens it
    Rotate(RotateArgs),
    /// Have several passwords or keys open the key store
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Write the master key and the certificates to a backup file under a password of its own;
    /// files with servers' keys are copied separately
    Backup(BackupArgs),
    /// Restore a key store from a backup file, or use the file to set a new password
    Restore(RestoreArgs),
}

/// The cost of guessing a password.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Memory that Argon2id takes for a password, in MiB (8 to 1024) [default: 64]
    #[arg(long, value_name = "MIB")]
    argon2_memory: Option<u32>,
    /// Passes of Argon2id over that memory (1 to 64) [default: 3]
    #[arg(long, value_name = "COUNT")]
    argon2_passes: Option<u32>,
}

/// Arguments of `key init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Make the key file that --key-file names
    #[arg(long)]
    generate_key_file: bool,
    #[command(flatten)]
    cost: CostArgs,
}

/// Arguments of `key status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Open the master key and check the key store for tampering
    #[arg(long)]
    verify: bool,
}

/// The secret that opens the key store from now on.
#[derive(Debug, Args)]
pub(crate) struct NewSecretArgs {
    /// Have the password in this file open the key store from now on
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_password_file: Option<PathBuf>,
    /// Have the key in this file open the key store from now on
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_key_file: Option<PathBuf>,
    /// Make the key file that --new-key-file names
    #[arg(long, requires = "new_key_file")]
    generate_key_file: bool,
    #[command(flatten)]
    cost: CostArgs,
}

/// Arguments of `key rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Keep the master key and change only what opens it
    #[arg(long)]
    password_only: bool,
    /// Ask for a new password
    #[arg(long, group = "new_secret")]
    change_password: bool,
    #[command(flatten)]
    new: NewSecretArgs,
}

/// Arguments of `key backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The backup file; it must not exist
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File with the password of the backup [default: $TDEKIT_BACKUP_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
    #[command(flatten)]
    cost: CostArgs,
}

/// Arguments of `key restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup file
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// File with the password of the backup [default: $TDEKIT_BACKUP_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
    /// Replace another key store, which is kept under another name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    new: NewSecretArgs,
}

/// Runs a verb.
pub(crate) fn run(command: &KeyCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        KeyCommand::Init(args) => init(args, global),
        KeyCommand::Status(args) => status(args, global),
        KeyCommand::Rotate(args) => rotate(args, global),
        KeyCommand::Provider(command) => key_provider::run(command, global),
        KeyCommand::Backup(args) => backup(args, global),
        KeyCommand::Restore(args) => restore_backup(args, global),
    }
}

fn init(args: &InitArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let dir = session::store_dir(global)?;
    let cost = args.cost.over(PasswordParams::default())?;
    // The parser cannot check this, because it does not see the arguments before the verb.
    if args.generate_key_file && global.key_file.is_none() {
        let message = "--generate-key-file: --key-file FILE must name the file".to_owned();
        return Err(CommandError::usage(message));
    }
    match KeyStore::open(&dir) {
        Err(StoreError::Missing { .. }) => {}
        Ok(store) => return Err(StoreError::AlreadyExists { path: store.path() }.into()),
        Err(error) => return Err(error.into()),
    }
    let made = generated(global.key_file.as_deref().filter(|_| args.generate_key_file))?;
    let secret = session::secret_to_set(global)?;
    let store = keep_if_ok(made, KeyStore::create(&dir, &secret, cost))?;
    output::line(format_args!("Made the key store {}", store.store().path().display()))?;
    output::line(format_args!("It is opened with {}.", shown(&secret)))?;
    Ok(output::line("Next: tdekit cert create NAME, then tdekit key backup --out FILE")?)
}

fn rotate(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, old_secret) = session::open_with_secret(global)?;
    let made = generated(args.new.new_key_file.as_deref().filter(|_| args.new.generate_key_file))?;
    let change_password = args.change_password || (args.password_only && !args.new.is_given());
    let new_secret = match args.new.secret() {
        Some(secret) => {
            session::warn_weak(&secret)?;
            Some(secret)
        }
        None if !change_password => None,
        None if session::on_terminal() => {
            Some(Unlock::Password(session::prompt("New password of the key store", Ask::New)?))
        }
        None => {
            return Err(ConsoleError::NoSecret {
                what: "new password",
                ways: "give it with --new-password-file or --new-key-file, or on a terminal",
            }
            .into());
        }
    };
    let cost = args.new.cost.over(current_cost(store.store()))?;
    let secret = new_secret.as_ref().unwrap_or(&old_secret);
    let done = if args.password_only {
        store.change_secret(secret, cost)
    } else {
        store.rotate_master_key(secret, cost)
    };
    keep_if_ok(made, done)?;
    if !args.password_only {
        let count = store.store().certificates().iter().filter(|c| c.has_private_key).count();
        output::line(format_args!(
            "Rotated the master key; {count} private keys are sealed under the new one."
        ))?;
        output::line("Make a new backup with `tdekit key backup`: older ones are of the old key.")?;
    }
    Ok(output::line(format_args!("The key store is opened with {}.", shown(secret)))?)
}

fn backup(args: &BackupArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, _) = session::open_with_secret(global)?;
    let password = session::backup_password(args.backup_password_file.as_deref(), Ask::New)?;
    let secret = Unlock::Password(password);
    let bytes = store.backup(&secret, args.cost.over(PasswordParams::default())?)?;
    write_new(&args.out, &bytes)?;
    // A copy that does not open is not a backup.
    let opened = read_backup(&args.out)
        .and_then(|bytes| Ok(KeyStore::from_backup(store.store().dir(), bytes)?.unlock(&secret)?));
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let _ = fs::remove_file(&args.out);
            return Err(error);
        }
    };
    store.mark_all_backed_up(opened.store())?;
    warn_of_listings(store.store())?;
    Ok(output::line(format_args!(
        "Backed up the master key and {} certificates to {}",
        opened.store().certificates().len(),
        args.out.display()
    ))?)
}

/// The keys of servers lie beside the store, and no server opens its data without them.
fn warn_of_listings(store: &KeyStore) -> Result<(), CommandError> {
    let of_mariadb = store.dir().join(SERVER_KEYS_FILE_NAME);
    let mut files = Vec::from_iter(of_mariadb.exists().then_some(("MariaDB", of_mariadb)));
    for namespace in store.namespaces()? {
        files.push(("MySQL", store.named_keys_path(&namespace)?));
    }
    for (server, path) in files {
        output::warning(format_args!(
            "the backup does not contain {server}'s keys: copy {}, too",
            path.display()
        ));
    }
    Ok(())
}

fn restore_backup(args: &RestoreArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let dir = session::store_dir(global)?;
    let bytes = read_backup(&args.input)?;
    let cost = args.new.cost.over(PasswordParams::default())?;
    let password = session::backup_password(args.backup_password_file.as_deref(), Ask::Existing)?;
    let password = Unlock::Password(password);
    let made = generated(args.new.new_key_file.as_deref().filter(|_| args.new.generate_key_file))?;
    let new_secret = match args.new.secret() {
        Some(secret) => Some(secret),
        None if session::on_terminal() => {
            Some(Unlock::Password(session::prompt("New password of the key store", Ask::New)?))
        }
        None => None,
    };
    let restored = restore(&dir, bytes, &password, new_secret.as_ref(), cost, args.replace);
    let outcome = keep_if_ok(made, restored.map_err(|error| name_backup(error, &args.input)))?;
    let path = outcome.store.store().path();
    match outcome.done {
        Restored::Installed => {
            output::line(format_args!("Restored the key store to {}", path.display()))?;
        }
        Restored::SecretChanged => output::line(format_args!(
            "{} has this master key: it was kept as it is, and what opens it was changed.",
            path.display()
        ))?,
        Restored::Replaced => {
            output::line(format_args!("Restored the key store to {}", path.display()))?;
        }
    }
    if outcome.lost.len() > 1 {
        output::warning("all that opened it before opens it no more:");
        for protector in &outcome.lost {
            output::note(format_args!("  {}", ProtectorStatus::of(protector)));
        }
        output::note("hint: tdekit key provider add has others open it again");
    }
    if let Some(aside) = outcome.set_aside {
        output::line(format_args!("The one that was there is {}", aside.display()))?;
    }
    match &new_secret {
        Some(secret) => Ok(output::line(format_args!("It is opened with {}.", shown(secret)))?),
        None => Ok(output::line("It is opened with the password of the backup.")?),
    }
}

#[derive(Serialize)]
struct Status {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    path: PathBuf,
    format_version: u16,
    store_id: String,
    sequence: u64,
    written_at: String,
    verified: bool,
    master_key: MasterKeyStatus,
    certificates: usize,
    not_backed_up: Vec<String>,
}

#[derive(Serialize)]
struct MasterKeyStatus {
    id: String,
    created_at: String,
    opened_with: Vec<ProtectorStatus>,
}

#[derive(Serialize)]
pub(super) struct ProtectorStatus {
    /// Identifier, in hexadecimal digits.
    pub(super) id: String,
    kind: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    argon2: Option<Argon2Status>,
    /// Labels of a token and of its key; for a key service, address and key.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Serialize)]
struct Argon2Status {
    memory_mib: u32,
    passes: u32,
    lanes: u32,
}

fn status(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let unlocked = if args.verify { Some(session::open_unlocked_store(global)?) } else { None };
    if let Some(unlocked) = &unlocked {
        unlocked.check_private_keys()?;
    }
    let store = unlocked.as_ref().map_or(&store, |unlocked| unlocked.store());
    let status = Status::of(store, args.verify);
    if args.json {
        return Ok(output::json(&status)?);
    }
    output::line(format_args!("Key store     {}", status.path.display()))?;
    output::line(format_args!("Identifier    {}", status.store_id))?;
    output::line(format_args!(
        "Written       {} (write {}, format {})",
        status.written_at, status.sequence, status.format_version
    ))?;
    let master_key = &status.master_key;
    output::line(format_args!("Master key    {} of {}", master_key.id, master_key.created_at))?;
    for protector in &master_key.opened_with {
        output::line(format_args!("Opened with   {protector}"))?;
    }
    let verified = if status.verified { "yes" } else { "not checked (--verify)" };
    output::line(format_args!("Untampered    {verified}"))?;
    output::line(format_args!("Certificates  {}", status.certificates))?;
    for info in store.certificates() {
        output::warn_of_certificate(store, info);
    }
    Ok(())
}

impl Status {
    fn of(store: &KeyStore, verified: bool) -> Self {
        let file = store.file();
        let not_backed_up = store.certificates().iter().filter(|info| info.needs_backup());
        Self {
            path: store.path(),
            format_version: file.format_version(),
            store_id: hex::encode(file.store_id),
            sequence: file.sequence,
            written_at: iso8601(file.written_at),
            verified,
            master_key: MasterKeyStatus {
                id: hex::encode(file.master_key.id),
                created_at: iso8601(file.master_key.created_at),
                opened_with: file.master_key.protectors.iter().map(ProtectorStatus::of).collect(),
            },
            certificates: store.certificates().len(),
            not_backed_up: not_backed_up.map(|info| info.name.clone()).collect(),
        }
    }
}

impl ProtectorStatus {
    pub(super) fn of(protector: &Protector) -> Self {
        let kind = match protector.kind {
            ProtectorKind::Password => "password".to_owned(),
            ProtectorKind::KeyMaterial => "key file".to_owned(),
            ProtectorKind::Token => "PKCS#11 token".to_owned(),
            ProtectorKind::Vault => "Vault".to_owned(),
            ProtectorKind::AwsKms => "AWS KMS".to_owned(),
            ProtectorKind::Other(id) => format!("provider {id}"),
        };
        let argon2 = password_cost(protector).map(|cost| Argon2Status {
            memory_mib: cost.memory_kib() / 1024,
            passes: cost.passes(),
            lanes: cost.lanes(),
        });
        let (id, created_at) = (hex::encode(protector.id), iso8601(protector.created_at));
        let (token, key) = token_key(protector).map(|named| (named.token, named.key)).unzip();
        let (address, key) = match service_key(protector) {
            Some(named) => (named.address, Some(named.key)),
            None => (None, key),
        };
        Self { id, kind, created_at, argon2, token, address, key }
    }

    /// Returns its identifier, kind, time, key with its place, and cost.
    pub(super) fn cells(&self) -> Vec<String> {
        let at = self.address.as_ref().map(|address| format!("at {address}"));
        let key: Vec<&str> =
            [&self.token, &self.key, &at].into_iter().flatten().map(|it| &**it).collect();
        let cost = |it: &Argon2Status| {
            format!("{} MiB, {} passes, {} lane", it.memory_mib, it.passes, it.lanes)
        };
        vec![
            self.id.clone(),
            self.kind.clone(),
            self.created_at.clone(),
            if key.is_empty() { "-".to_owned() } else { key.join(", ") },
            self.argon2.as_ref().map_or_else(|| "-".to_owned(), cost),
        ]
    }
}

impl std::fmt::Display for ProtectorStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.kind, self.created_at)?;
        match &self.argon2 {
            Some(Argon2Status { memory_mib, passes, lanes }) => {
                write!(f, " (Argon2id: {memory_mib} MiB, {passes} passes, {lanes} lane)")
            }
            None => Ok(()),
        }?;
        match (&self.token, &self.key) {
            (Some(token), Some(key)) => write!(f, " (token {token:?}, key {key:?})"),
            (None, Some(key)) => write!(f, " (key {key})"),
            _ => Ok(()),
        }?;
        match &self.address {
            Some(address) => write!(f, " at {address}"),
            None => Ok(()),
        }
    }
}

impl CostArgs {
    /// Returns the cost, by default that of `otherwise`. Warns of a low one.
    pub(super) fn over(&self, otherwise: PasswordParams) -> Result<PasswordParams, CommandError> {
        /// The minimum that OWASP recommends (2023): 19 MiB and 2 passes.
        const ADVISED: (u32, u32) = (19 * 1024, 2);
        let memory_kib = match self.argon2_memory {
            Some(mib) => mib.saturating_mul(1024),
            None => otherwise.memory_kib(),
        };
        let passes = self.argon2_passes.unwrap_or(otherwise.passes());
        let cost = PasswordParams::new(memory_kib, passes, otherwise.lanes())
            .map_err(|error| CommandError::usage(error.to_string()))?;
        let given = self.argon2_memory.is_some() || self.argon2_passes.is_some();
        if given && (memory_kib < ADVISED.0 || passes < ADVISED.1) {
            output::warning("a password is quick to guess at this cost of Argon2id");
        }
        Ok(cost)
    }
}

impl NewSecretArgs {
    fn is_given(&self) -> bool {
        self.new_password_file.is_some() || self.new_key_file.is_some()
    }

    fn secret(&self) -> Option<Unlock> {
        let password = self.new_password_file.clone().map(Unlock::PasswordFile);
        password.or_else(|| self.new_key_file.clone().map(Unlock::KeyFile))
    }
}

/// Returns the current cost of the store's password.
fn current_cost(store: &KeyStore) -> PasswordParams {
    store.file().master_key.protectors.iter().find_map(password_cost).unwrap_or_default()
}

/// Makes a key file if one is requested.
pub(super) fn generated(path: Option<&Path>) -> Result<Option<&Path>, CommandError> {
    if let Some(path) = path {
        generate_key_file(path)?;
        output::line(format_args!("Made the key file {}", path.display()))?;
    }
    Ok(path)
}

/// Removes a key file that was made for a failed operation: it opens nothing.
pub(super) fn keep_if_ok<T>(
    made: Option<&Path>,
    result: Result<T, StoreError>,
) -> Result<T, CommandError> {
    if let (Some(path), Err(_)) = (made, &result) {
        let _ = fs::remove_file(path);
    }
    Ok(result?)
}

fn read_backup(path: &Path) -> Result<Vec<u8>, CommandError> {
    match read_limited(path, MAX_FILE_BYTES)? {
        Some(bytes) => Ok(bytes),
        None => Err(CommandError::io("open", path, std::io::ErrorKind::NotFound.into())),
    }
}

/// Converts a wrong password to an error about the backup's password.
fn name_backup(error: StoreError, path: &Path) -> StoreError {
    match error {
        StoreError::WrongPassword => {
            StoreError::WrongBackupPassword { origin: path.display().to_string() }
        }
        other => other,
    }
}

pub(crate) fn shown(secret: &Unlock) -> String {
    match secret {
        Unlock::Password(_) => "a password".to_owned(),
        Unlock::PasswordFile(path) => format!("the password in {}", path.display()),
        Unlock::Key { origin, .. } => format!("the key in {origin}"),
        Unlock::KeyFile(path) => format!("the key file {}", path.display()),
        Unlock::Service(access) => access.service.to_string(),
        Unlock::Agent(socket) => format!("the agent at {}", socket.display()),
        Unlock::Token(_) | Unlock::Provider(_) => secret.kind().to_string(),
    }
}
