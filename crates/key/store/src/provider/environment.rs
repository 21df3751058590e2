//! Settings for opening the store, from the environment and the store's configuration file.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tdekit_key_crypto::SecretBytes;

use super::agent::{self, AGENT_VARIABLE};
use super::secret_file::{check_not_changeable, check_opened_code};
use super::{AwsKmsKey, KeyService, Pin, ServiceAccess, TokenAccess, Unlock, VaultKey};
use crate::disk::open_ordinary;
use crate::error::StoreError;

/// Name of the configuration file in a store's directory.
pub const CONFIG_FILE_NAME: &str = "config.toml";

const MAX_CONFIG_BYTES: u64 = 64 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    unlock: UnlockConfig,
    #[serde(default)]
    backup: BackupConfig,
    #[serde(default)]
    audit: AuditConfig,
    #[serde(default)]
    overview: OverviewConfig,
    #[serde(default)]
    retention: RetentionConfig,
    #[serde(default)]
    serve: ServeConfig,
}

/// The table `[serve]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeConfig {
    /// Directories by the drive letters under which T-SQL names them.
    #[serde(default)]
    drives: BTreeMap<String, PathBuf>,
}

/// The table `[retention]`: which backup sets `tdekit prune` keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// All sets of this time before now, such as `24h`.
    pub keep: Option<String>,
    /// The newest sets.
    pub keep_last: Option<NonZeroU32>,
    /// The newest set of each of the last days that have one.
    pub keep_daily: Option<NonZeroU32>,
    /// The same for weeks.
    pub keep_weekly: Option<NonZeroU32>,
    /// The same for months.
    pub keep_monthly: Option<NonZeroU32>,
}

/// The table `[overview]`: the paths that `tdekit overview` checks, and its rules.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverviewConfig {
    /// Directories and databases; relative paths start at the store's directory.
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    /// Results of the bench; relative paths likewise.
    #[serde(default)]
    pub costs: Vec<PathBuf>,
    /// Maximum age of a key, such as `1y`.
    pub max_key_age: Option<String>,
    /// Maximum age of the newest backup.
    pub max_backup_age: Option<String>,
    /// Maximum age of the last verification of a backup.
    pub max_verify_age: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditConfig {
    /// True if the openings of databases are logged.
    #[serde(default)]
    openings: bool,
}

/// The configured ways to open the store, and whether openings are logged.
pub(crate) type Configured = (Vec<Unlock>, bool);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupConfig {
    #[serde(default)]
    require: Vec<String>,
}

/// The conditions on every backup set that is made, verified or restored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackupPolicy {
    /// The set must be encrypted.
    pub encrypted: bool,
    /// The set must be signed by this certificate: a name in the key store, or a thumbprint.
    pub signed_by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlockConfig {
    password_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    pkcs11_module: Option<PathBuf>,
    pkcs11_pin_file: Option<PathBuf>,
    vault: Option<VaultKey>,
    aws_kms: Option<AwsKmsKey>,
    program: Option<PathBuf>,
    service_timeout_s: Option<u16>,
}

/// Returns the configured ways to open the store in `dir`, in order of precedence:
/// `TDEKIT_AGENT_SOCK`, `TDEKIT_PASSWORD`, `TDEKIT_PASSWORD_FILE`, `TDEKIT_KEY` (hexadecimal),
/// `TDEKIT_KEY_FILE`, `TDEKIT_PKCS11_MODULE` (with `TDEKIT_PKCS11_PIN` or
/// `TDEKIT_PKCS11_PIN_FILE`), `TDEKIT_VAULT_KEY` (with `VAULT_ADDR` and other variables of Vault),
/// `TDEKIT_AWS_KMS_KEY`, then `password_file`, `key_file` and `pkcs11_module` (with
/// `pkcs11_pin_file`) of the table `[unlock]`, and the tables `[unlock.vault]` and
/// `[unlock.aws_kms]`, in `config.toml` beside the store (relative paths start at the store's
/// directory). A token may come without its PIN. Never prompts on a terminal.
///
/// # Errors
/// `BadSecret` when `TDEKIT_KEY` is not hexadecimal, `InvalidValue` for variables of key services,
/// `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn unlocks_from_environment(dir: &Path) -> Result<Vec<Unlock>, StoreError> {
    from_environment(dir).map(|(unlocks, _)| unlocks)
}

pub(crate) fn from_environment(dir: &Path) -> Result<Configured, StoreError> {
    let Config { unlock: config, audit, .. } = read_config(&dir.join(CONFIG_FILE_NAME))?;
    let mut unlocks = from_variables(variable)?;
    let access = service_access(dir, &config)?;
    unlocks.extend(services_from_variables(variable)?.into_iter().map(access));
    unlocks.extend(from_config(dir, config)?);
    Ok((unlocks, audit.openings))
}

/// Returns the ways to open the store in `dir` that its own `config.toml` names, in the order of
/// [`unlocks_from_environment`], after the agent, which recognizes each store by itself. Variables
/// with secrets belong to another store and open none of these, and Vault gets no token from them.
///
/// # Errors
/// `Config` or `InsecureFile` for the configuration file, `InvalidValue`, `Io`.
pub fn unlocks_from_configuration(dir: &Path) -> Result<Vec<Unlock>, StoreError> {
    from_configuration(dir).map(|(unlocks, _)| unlocks)
}

pub(crate) fn from_configuration(dir: &Path) -> Result<Configured, StoreError> {
    let path = dir.join(CONFIG_FILE_NAME);
    let Config { unlock: config, audit, .. } = read_config(&path)?;
    if config.vault.as_ref().is_some_and(|vault| vault.token_file.is_none()) {
        let reason = "[unlock.vault] of a store that connections name by tdekit_home must have a \
                      token_file: VAULT_TOKEN is of the process";
        return Err(StoreError::Config { path, reason: reason.to_owned() });
    }
    let mut unlocks: Vec<Unlock> = variable(AGENT_VARIABLE).map(agent::named).into_iter().collect();
    unlocks.extend(from_config(dir, config)?);
    Ok((unlocks, audit.openings))
}

/// Returns the access to a service's key for the store in `dir`, with the program and the time
/// limit of `TDEKIT_PROGRAM` and `TDEKIT_SERVICE_TIMEOUT`, or of its configuration.
///
/// # Errors
/// `InvalidValue`, `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn service_unlock(dir: &Path, service: KeyService) -> Result<Unlock, StoreError> {
    let config = read_config(&dir.join(CONFIG_FILE_NAME))?.unlock;
    Ok(service_access(dir, &config)?(service))
}

/// Returns true if the configuration of the store in `dir` requires that openings are logged.
pub(crate) fn logs_openings(dir: &Path) -> Result<bool, StoreError> {
    Ok(read_config(&dir.join(CONFIG_FILE_NAME))?.audit.openings)
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Builds the access to a service's key.
fn service_access(
    dir: &Path,
    config: &UnlockConfig,
) -> Result<impl Fn(KeyService) -> Unlock + use<>, StoreError> {
    let program = variable("TDEKIT_PROGRAM").map(PathBuf::from);
    let program = program.or_else(|| config.program.as_ref().map(|path| dir.join(path)));
    let timeout_s = timeout(variable)?.or(config.service_timeout_s);
    Ok(move |service| {
        Unlock::Service(ServiceAccess { service, program: program.clone(), timeout_s })
    })
}

fn from_config(dir: &Path, config: UnlockConfig) -> Result<Vec<Unlock>, StoreError> {
    let with = service_access(dir, &config)?;
    let mut unlocks = Vec::new();
    unlocks.extend(config.password_file.map(|path| Unlock::PasswordFile(dir.join(path))));
    unlocks.extend(config.key_file.map(|path| Unlock::KeyFile(dir.join(path))));
    unlocks.extend(config.pkcs11_module.map(|module| {
        let pin = config.pkcs11_pin_file.map(|path| Pin::File(dir.join(path)));
        Unlock::Token(TokenAccess { module: dir.join(module), pin, new_key: None })
    }));
    // The path must work from any directory: the program that asks starts elsewhere.
    let dir = std::path::absolute(dir).map_err(StoreError::io("find", dir))?;
    let within = |path: Option<PathBuf>| path.map(|path| dir.join(path));
    unlocks.extend(config.vault.map(|vault| {
        let (ca_file, token_file) = (within(vault.ca_file), within(vault.token_file));
        with(KeyService::Vault(VaultKey { ca_file, token_file, ..vault }))
    }));
    unlocks.extend(config.aws_kms.map(|kms| {
        let (ca_file, credentials_file) = (within(kms.ca_file), within(kms.credentials_file));
        with(KeyService::AwsKms(AwsKmsKey { ca_file, credentials_file, ..kms }))
    }));
    Ok(unlocks)
}

/// Returns the keys of key services that variables name. Other settings than the key use the
/// variables of the service's own programs.
fn services_from_variables(
    get: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<KeyService>, StoreError> {
    let text = |name: &'static str| match get(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => Err(bad_variable(name, "is no text")),
    };
    let path = |name: &'static str| match get(name).map(std::path::absolute) {
        Some(path) => path.map(Some).map_err(|_| bad_variable(name, "is no path")),
        None => Ok(None),
    };
    let mut services = Vec::new();
    if let Some(key) = text("TDEKIT_VAULT_KEY")? {
        let address = text("VAULT_ADDR")?.ok_or_else(|| {
            bad_variable("VAULT_ADDR", "must name the server of TDEKIT_VAULT_KEY")
        })?;
        services.push(KeyService::Vault(VaultKey {
            address,
            key,
            mount: text("TDEKIT_VAULT_MOUNT")?.unwrap_or_else(VaultKey::default_mount),
            namespace: text("VAULT_NAMESPACE")?,
            ca_file: path("VAULT_CACERT")?,
            token_file: path("TDEKIT_VAULT_TOKEN_FILE")?,
        }));
    }
    if let Some(key) = text("TDEKIT_AWS_KMS_KEY")? {
        services.push(KeyService::AwsKms(AwsKmsKey {
            key,
            endpoint: text("AWS_ENDPOINT_URL_KMS")?,
            ca_file: path("AWS_CA_BUNDLE")?,
            credentials_file: path("AWS_SHARED_CREDENTIALS_FILE")?,
            profile: text("AWS_PROFILE")?,
        }));
    }
    Ok(services)
}

fn timeout(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<u16>, StoreError> {
    const NAME: &str = "TDEKIT_SERVICE_TIMEOUT";
    let parse = |value: OsString| value.to_str().and_then(|text| text.parse().ok());
    match get(NAME).map(parse) {
        Some(None) => Err(bad_variable(NAME, "is no number of seconds")),
        known => Ok(known.flatten()),
    }
}

fn bad_variable(name: &str, reason: &'static str) -> StoreError {
    StoreError::InvalidValue { what: "variable", value: name.to_owned(), reason }
}

/// Reads the policy in `require` of the table `[backup]` in `config.toml` beside the store in
/// `dir`: a list of `"encrypted"` and `"signed-by NAME"`.
///
/// # Errors
/// `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn backup_policy(dir: &Path) -> Result<BackupPolicy, StoreError> {
    let path = dir.join(CONFIG_FILE_NAME);
    let mut policy = BackupPolicy::default();
    for requirement in read_config(&path)?.backup.require {
        match requirement.strip_prefix("signed-by ").map(str::trim) {
            Some(name) if !name.is_empty() && policy.signed_by.is_none() => {
                policy.signed_by = Some(name.to_owned());
            }
            None if requirement == "encrypted" => policy.encrypted = true,
            _ => {
                let reason = format!(
                    "[backup] require has {requirement:?}, where \"encrypted\" and one \
                     \"signed-by NAME\" may stand"
                );
                return Err(StoreError::Config { path, reason });
            }
        }
    }
    Ok(policy)
}

/// Reads the table `[overview]` in `config.toml` beside the store in `dir`.
///
/// # Errors
/// `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn overview_config(dir: &Path) -> Result<OverviewConfig, StoreError> {
    let mut config = read_config(&dir.join(CONFIG_FILE_NAME))?.overview;
    for path in config.paths.iter_mut().chain(&mut config.costs) {
        *path = dir.join(&*path);
    }
    Ok(config)
}

/// Reads the table `[retention]` in `config.toml` beside the store in `dir`.
///
/// # Errors
/// `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn retention_config(dir: &Path) -> Result<RetentionConfig, StoreError> {
    Ok(read_config(&dir.join(CONFIG_FILE_NAME))?.retention)
}

/// Reads `drives` of the table `[serve]` in `config.toml` beside the store in `dir`: directories by
/// their letters, in upper case. Relative paths start at the store's directory.
///
/// # Errors
/// `Config` or `InsecureFile` for the configuration file, `Io`.
pub fn serve_drives(dir: &Path) -> Result<BTreeMap<char, PathBuf>, StoreError> {
    let path = dir.join(CONFIG_FILE_NAME);
    let mut drives = BTreeMap::new();
    for (name, root) in read_config(&path)?.serve.drives {
        let letter = match name.as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => char::from(letter.to_ascii_uppercase()),
            _ => {
                let reason = format!("[serve] drives has {name:?}, where one letter may stand");
                return Err(StoreError::Config { path, reason });
            }
        };
        if drives.insert(letter, dir.join(root)).is_some() {
            let reason = format!("[serve] drives has the letter {letter} twice");
            return Err(StoreError::Config { path, reason });
        }
    }
    Ok(drives)
}

fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Vec<Unlock>, StoreError> {
    let mut unlocks = Vec::new();
    unlocks.extend(get(AGENT_VARIABLE).map(agent::named));
    if let Some(password) = get("TDEKIT_PASSWORD") {
        unlocks.push(Unlock::Password(SecretBytes::from_slice(&password.into_vec())?));
    }
    if let Some(path) = get("TDEKIT_PASSWORD_FILE") {
        unlocks.push(Unlock::PasswordFile(path.into()));
    }
    if let Some(text) = get("TDEKIT_KEY") {
        let origin = "TDEKIT_KEY".to_owned();
        let text = text.into_vec();
        let mut key = SecretBytes::new_zeroed(text.trim_ascii().len() / 2)?;
        if hex::decode_to_slice(text.trim_ascii(), key.expose_mut()).is_err() {
            return Err(StoreError::BadSecret { origin, reason: "not hexadecimal digits" });
        }
        unlocks.push(Unlock::Key { key, origin });
    }
    if let Some(path) = get("TDEKIT_KEY_FILE") {
        unlocks.push(Unlock::KeyFile(path.into()));
    }
    if let Some(module) = get("TDEKIT_PKCS11_MODULE") {
        let pin = match (get("TDEKIT_PKCS11_PIN"), get("TDEKIT_PKCS11_PIN_FILE")) {
            (Some(pin), _) => Some(Pin::Given(SecretBytes::from_slice(&pin.into_vec())?)),
            (None, file) => file.map(|path| Pin::File(path.into())),
        };
        unlocks.push(Unlock::Token(TokenAccess { module: module.into(), pin, new_key: None }));
    }
    Ok(unlocks)
}

fn read_config(path: &Path) -> Result<Config, StoreError> {
    let file = match open_ordinary(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    let metadata = file.metadata().map_err(StoreError::io("read", path))?;
    // The file names the source of the secret: whoever changes it chooses which secret is tried.
    check_not_changeable(path, &metadata)?;
    let mut text = String::new();
    file.take(MAX_CONFIG_BYTES).read_to_string(&mut text).map_err(StoreError::io("read", path))?;
    let config: Config = toml::from_str(&text).map_err(|error| StoreError::Config {
        path: path.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })?;
    if config.unlock.program.is_some() || config.unlock.pkcs11_module.is_some() {
        check_opened_code(path, &metadata)?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn only<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn variables_count_in_their_order() {
        let unlocks = from_variables(only(&[
            ("TDEKIT_KEY_FILE", "/k"),
            ("TDEKIT_PASSWORD", "p"),
            ("TDEKIT_KEY", "00ff"),
            ("TDEKIT_PASSWORD_FILE", "/p"),
        ]));
        match unlocks.unwrap().as_slice() {
            [
                Unlock::Password(p),
                Unlock::PasswordFile(_),
                Unlock::Key { key, .. },
                Unlock::KeyFile(_),
            ] => {
                assert_eq!((p.expose(), key.expose()), (b"p".as_slice(), [0, 255].as_slice()));
            }
            other => panic!("{other:?}"),
        }
        assert!(from_variables(only(&[])).unwrap().is_empty());
        for wrong in ["xy", "0", "00 "] {
            let result = from_variables(only(&[("TDEKIT_KEY", wrong)]));
            assert_eq!(result.is_err(), wrong != "00 ", "{wrong:?}");
        }
    }

    #[test]
    fn what_backups_must_be_is_configured() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CONFIG_FILE_NAME);
        assert_eq!(backup_policy(dir.path()).unwrap(), BackupPolicy::default());
        fs::write(&path, "[backup]\nrequire = [\"encrypted\", \"signed-by Ann\"]\n").unwrap();
        let policy = backup_policy(dir.path()).unwrap();
        assert_eq!(policy, BackupPolicy { encrypted: true, signed_by: Some("Ann".to_owned()) });
        for wrong in ["\"encrypt\"", "\"signed-by\"", "\"signed-by \"", "\"\""] {
            fs::write(&path, format!("[backup]\nrequire = [{wrong}]\n")).unwrap();
            let refused = backup_policy(dir.path());
            assert!(matches!(refused, Err(StoreError::Config { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_that_names_programs_lies_where_others_cannot_change_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        for (text, runs) in [
            ("program = '/usr/bin/true'", true),
            ("pkcs11_module = '/usr/lib/none.so'", true),
            ("key_file = 'k'", false),
        ] {
            fs::write(store.join(CONFIG_FILE_NAME), format!("[unlock]\n{text}\n")).unwrap();
            for (mode, is_open) in [(0o755, false), (0o777, true)] {
                fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
                let found = unlocks_from_configuration(&store);
                let refused = matches!(found, Err(StoreError::InsecureFile { .. }));
                assert_eq!(refused, runs && is_open, "{text} {mode:o}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_configured() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CONFIG_FILE_NAME);
        assert_eq!(retention_config(dir.path()).unwrap(), RetentionConfig::default());
        fs::write(&path, "[retention]\nkeep = \"24h\"\nkeep_daily = 30\n").unwrap();
        let config = retention_config(dir.path()).unwrap();
        assert_eq!(config.keep.as_deref(), Some("24h"));
        assert_eq!((config.keep_daily, config.keep_last), (NonZeroU32::new(30), None));
        for wrong in ["keep_last = 0", "keep_last = -1", "keep_yearly = 1", "keep = 24"] {
            fs::write(&path, format!("[retention]\n{wrong}\n")).unwrap();
            let refused = retention_config(dir.path());
            assert!(matches!(refused, Err(StoreError::Config { .. })), "{wrong}");
        }
    }

    #[test]
    fn drives_are_configured_by_their_letters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CONFIG_FILE_NAME);
        assert!(serve_drives(dir.path()).unwrap().is_empty());
        fs::write(&path, "[serve]\ndrives = { d = \"/srv/d\", E = \"e\" }\n").unwrap();
        let drives = serve_drives(dir.path()).unwrap();
        assert_eq!(drives, BTreeMap::from([('D', "/srv/d".into()), ('E', dir.path().join("e"))]));
        for wrong in
            ["DD = \"/d\"", "1 = \"/d\"", "D = \"/d\", d = \"/e\"", "D = 1", "\"\" = \"/\""]
        {
            fs::write(&path, format!("[serve]\ndrives = {{ {wrong} }}\n")).unwrap();
            let refused = serve_drives(dir.path());
            assert!(matches!(refused, Err(StoreError::Config { .. })), "{wrong}");
        }
    }

    #[test]
    fn configuration_is_read_strictly() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CONFIG_FILE_NAME);
        assert!(read_config(&path).unwrap().unlock.key_file.is_none());
        fs::write(&path, "[unlock]\nkey_file = \"k\"\n").unwrap();
        assert_eq!(read_config(&path).unwrap().unlock.key_file, Some("k".into()));
        for (text, asked) in
            [("", false), ("[audit]\n", false), ("[audit]\nopenings = true\n", true)]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(logs_openings(dir.path()).unwrap(), asked, "{text:?}");
        }
        for wrong in ["[audit]\nopening = true\n", "[audit]\nopenings = 1\n"] {
            fs::write(&path, wrong).unwrap();
            assert!(matches!(logs_openings(dir.path()), Err(StoreError::Config { .. })), "{wrong}");
        }
        fs::write(&path, "[unlock]\nkeyfile = \"k\"\n").unwrap();
        assert!(matches!(read_config(&path), Err(StoreError::Config { .. })));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, open).unwrap();
        assert!(matches!(read_config(&path), Err(StoreError::InsecureFile { .. })));
    }
}
