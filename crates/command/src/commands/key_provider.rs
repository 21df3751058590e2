//! `tdekit key provider`: the secrets that open the key store, each of them alone.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tdekit_console::session::{self, Ask};
use tdekit_console::{ConsoleError, Fit, GlobalArgs, output};
use tdekit_key_store::{
    AwsKmsKey, CONFIG_FILE_NAME, KeyService, PasswordParams, Pin, Protector, TokenAccess, TokenKey,
    Unlock, VaultKey, generate_token_key, service_unlock,
};

use super::key::{CostArgs, ProtectorStatus, generated, keep_if_ok, shown};
use crate::error::CommandError;

/// The verbs of `tdekit key provider`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Have another password or key open the key store too
    #[command(subcommand)]
    Add(AddCommand),
    /// Show what opens the key store
    List(ListArgs),
    /// Wrap the master key anew by one of them, such as by the newest version of a service's key
    Rewrap(RewrapArgs),
    /// Take away one of several; the key store must be opened with another
    Remove(RemoveArgs),
}

/// The kinds of provider that `key provider add` makes.
#[derive(Debug, Subcommand)]
pub(crate) enum AddCommand {
    /// A password
    Password(PasswordArgs),
    /// A key file
    KeyFile(KeyFileArgs),
    /// A key in a hardware security module or another token, through its PKCS#11 module
    Pkcs11(Pkcs11Args),
    /// A key of HashiCorp Vault or OpenBao, in its transit engine
    Vault(VaultArgs),
    /// A key of AWS KMS
    AwsKms(AwsKmsArgs),
}

/// Arguments of `key provider add password`.
#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// File with the password [default: a prompt]
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    #[command(flatten)]
    cost: CostArgs,
}

/// Arguments of `key provider add key-file`.
#[derive(Debug, Args)]
pub(crate) struct KeyFileArgs {
    /// The key file
    file: PathBuf,
    /// Make the key file
    #[arg(long)]
    generate: bool,
}

/// Arguments of `key provider add pkcs11`.
#[derive(Debug, Args)]
pub(crate) struct Pkcs11Args {
    /// The PKCS#11 module, a shared library that came with the token
    #[arg(long, value_name = "FILE")]
    module: PathBuf,
    /// Label of the token
    #[arg(long, value_name = "LABEL")]
    token: String,
    /// Label of the key in it: AES, or RSA with both its halves
    #[arg(long, value_name = "LABEL")]
    key: String,
    /// Make the key in the token: AES-256, which never leaves it
    #[arg(long)]
    generate: bool,
    /// File with the PIN of the token [default: $TDEKIT_PKCS11_PIN, else a prompt]
    #[arg(long, value_name = "FILE")]
    pin_file: Option<PathBuf>,
}

/// Arguments of `key provider add vault`.
#[derive(Debug, Args)]
pub(crate) struct VaultArgs {
    /// The server: https://HOST:PORT
    #[arg(long, value_name = "URL", env = "VAULT_ADDR")]
    address: String,
    /// Name of the key, which must be there
    #[arg(long, value_name = "NAME")]
    transit_key: String,
    /// Where the transit engine is mounted
    #[arg(long, value_name = "PATH", env = "TDEKIT_VAULT_MOUNT", default_value = "transit")]
    mount: String,
    /// Namespace in the server
    #[arg(long, value_name = "PATH", env = "VAULT_NAMESPACE")]
    namespace: Option<String>,
    /// PEM file of the certificates that may sign the server's [default: the system's]
    #[arg(long, value_name = "FILE", env = "VAULT_CACERT")]
    ca_file: Option<PathBuf>,
    /// File with the token [default: $VAULT_TOKEN, else ~/.vault-token]
    #[arg(long, value_name = "FILE", env = "TDEKIT_VAULT_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// Arguments of `key provider add aws-kms`.
#[derive(Debug, Args)]
pub(crate) struct AwsKmsArgs {
    /// ARN of a symmetric key, or of an alias
    #[arg(long, value_name = "ARN")]
    key: String,
    /// Another server than Amazon's of the key's region, such as a VPC endpoint: https://HOST
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL_KMS")]
    endpoint: Option<String>,
    /// PEM file of the certificates that may sign the server's [default: the system's]
    #[arg(long, value_name = "FILE", env = "AWS_CA_BUNDLE")]
    ca_file: Option<PathBuf>,
    /// Shared credentials file [default: the variables of AWS, else ~/.aws/credentials]
    #[arg(long, value_name = "FILE", env = "AWS_SHARED_CREDENTIALS_FILE")]
    credentials_file: Option<PathBuf>,
    /// Profile in that file
    #[arg(long, value_name = "NAME", env = "AWS_PROFILE")]
    profile: Option<String>,
}

/// Arguments of `key provider rewrap`.
#[derive(Debug, Args)]
pub(crate) struct RewrapArgs {
    /// Identifier, or at least its first 4 digits: see `tdekit key provider list`
    id: String,
}

/// Arguments of `key provider list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `key provider remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Identifier, or at least its first 4 digits: see `tdekit key provider list`
    id: String,
}

/// Runs a verb.
pub(crate) fn run(command: &ProviderCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        ProviderCommand::Add(AddCommand::Password(args)) => add_password(args, global),
        ProviderCommand::Add(AddCommand::KeyFile(args)) => add_key_file(args, global),
        ProviderCommand::Add(AddCommand::Pkcs11(args)) => add_pkcs11(args, global),
        ProviderCommand::Add(AddCommand::Vault(args)) => add_vault(args, global),
        ProviderCommand::Add(AddCommand::AwsKms(args)) => add_aws_kms(args, global),
        ProviderCommand::Rewrap(args) => rewrap(args, global),
        ProviderCommand::List(args) => list(args, global),
        ProviderCommand::Remove(args) => remove(args, global),
    }
}

fn add_password(args: &PasswordArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let cost = args.cost.over(PasswordParams::default())?;
    let (mut store, _) = session::open_with_secret(global)?;
    let secret = match &args.new_password_file {
        Some(path) => {
            let secret = Unlock::PasswordFile(path.clone());
            session::warn_weak(&secret)?;
            secret
        }
        None if session::on_terminal() => {
            Unlock::Password(session::prompt("New password of the key store", Ask::New)?)
        }
        None => {
            return Err(ConsoleError::NoSecret {
                what: "new password",
                ways: "give it with --new-password-file, or on a terminal",
            }
            .into());
        }
    };
    tell_added(&store.add_protector(&secret, cost)?, &secret)
}

fn add_key_file(args: &KeyFileArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, _) = session::open_with_secret(global)?;
    let made = generated(Some(args.file.as_path()).filter(|_| args.generate))?;
    let secret = Unlock::KeyFile(args.file.clone());
    let added = store.add_protector(&secret, PasswordParams::default());
    tell_added(&keep_if_ok(made, added)?, &secret)
}

fn add_pkcs11(args: &Pkcs11Args, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, _) = session::open_with_secret(global)?;
    let module = std::path::absolute(&args.module)?;
    let pin = match &args.pin_file {
        Some(path) => Pin::File(std::path::absolute(path)?),
        None => session::token_pin()?,
    };
    let new_key = Some(TokenKey { token: args.token.clone(), key: args.key.clone() });
    let access = TokenAccess { module, pin: Some(pin), new_key };
    if args.generate {
        generate_token_key(&access)?;
        output::line(format_args!("Made the key {:?} in the token {:?}.", args.key, args.token))?;
    }
    let secret = Unlock::Token(access);
    tell_added(&store.add_protector(&secret, PasswordParams::default())?, &secret)?;
    let config = store.store().dir().join(CONFIG_FILE_NAME);
    Ok(output::line(format_args!(
        "To have it open the key store, set TDEKIT_PKCS11_MODULE and TDEKIT_PKCS11_PIN_FILE, or \
         pkcs11_module and pkcs11_pin_file under [unlock] in {}.",
        config.display()
    ))?)
}

fn add_vault(args: &VaultArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let service = KeyService::Vault(VaultKey {
        address: args.address.clone(),
        key: args.transit_key.clone(),
        mount: args.mount.clone(),
        namespace: args.namespace.clone(),
        ca_file: absolute(args.ca_file.as_ref())?,
        token_file: absolute(args.token_file.as_ref())?,
    });
    let variables = "TDEKIT_VAULT_KEY and VAULT_ADDR";
    add_service(service, variables, "[unlock.vault]", global)
}

fn add_aws_kms(args: &AwsKmsArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let service = KeyService::AwsKms(AwsKmsKey {
        key: args.key.clone(),
        endpoint: args.endpoint.clone(),
        ca_file: absolute(args.ca_file.as_ref())?,
        credentials_file: absolute(args.credentials_file.as_ref())?,
        profile: args.profile.clone(),
    });
    add_service(service, "TDEKIT_AWS_KMS_KEY", "[unlock.aws_kms]", global)
}

fn add_service(
    service: KeyService,
    variables: &str,
    table: &str,
    global: &GlobalArgs,
) -> Result<(), CommandError> {
    let (mut store, _) = session::open_with_secret(global)?;
    let secret = service_unlock(store.store().dir(), service)?;
    tell_added(&store.add_protector(&secret, PasswordParams::default())?, &secret)?;
    Ok(output::line(format_args!(
        "To have it open the key store, set {variables}, or the table {table} in {}.",
        store.store().dir().join(CONFIG_FILE_NAME).display()
    ))?)
}

fn absolute(path: Option<&PathBuf>) -> Result<Option<PathBuf>, CommandError> {
    Ok(path.map(std::path::absolute).transpose()?)
}

fn rewrap(args: &RewrapArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, opened_with) = session::open_with_secret(global)?;
    let kind = store.store().protector(&args.id)?.kind;
    let secret = match opened_with.kind() == kind {
        true => opened_with,
        false => session::configured_secret(store.store(), kind)?,
    };
    let renewed = store.renew_protector(&args.id, &secret)?;
    let renewed = ProtectorStatus::of(&renewed);
    output::line(format_args!("Wrapped the master key anew (provider {}).", renewed.id))?;
    Ok(output::line(
        "Older copies and backups of the key store still open with what was wrapped before.",
    )?)
}

fn tell_added(added: &Protector, secret: &Unlock) -> Result<(), CommandError> {
    let id = ProtectorStatus::of(added).id;
    Ok(output::line(format_args!(
        "The key store is opened with {} too (provider {id}).",
        shown(secret)
    ))?)
}

fn list(args: &ListArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let protectors = &store.file().master_key.protectors;
    let providers: Vec<_> = protectors.iter().map(ProtectorStatus::of).collect();
    if args.json {
        return Ok(output::json(&providers)?);
    }
    let header = [
        ("ID", Fit::Keep),
        ("OPENS BY", Fit::Keep),
        ("MADE", Fit::Drop(1)),
        ("KEY", Fit::Cut),
        ("ARGON2ID", Fit::Drop(2)),
    ];
    Ok(output::fitted_table(&header, providers.iter().map(ProtectorStatus::cells).collect())?)
}

fn remove(args: &RemoveArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (mut store, _) = session::open_with_secret(global)?;
    let removed = ProtectorStatus::of(&store.remove_protector(&args.id)?);
    output::line(format_args!("Removed {} ({removed}).", removed.id))?;
    Ok(output::line(
        "Older copies and backups of the key store still open with it: after a leak, run \
         `tdekit key rotate`.",
    )?)
}
