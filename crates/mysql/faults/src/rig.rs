//! A key store, and servers with the component on copies of one template.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use component_keyring_tdekit::{COMPONENT_NAME, CONFIG_FILE, Config};
use tdekit_key_store::{
    KeyStore, NewCertificate, PasswordParams, Unlock, Unlocked, generate_key_file, now_seconds,
};
use tdekit_private_mariadb::{Programs, Server, ServerConfig, ServerError, copy_tree, initialise};

pub const CERTIFICATE: &str = "MysqlCert";
pub const NAMESPACE: &str = "main";

/// Everything that can be encrypted is encrypted.
pub const ENCRYPT: [&str; 5] = [
    "default-table-encryption=ON",
    "innodb-redo-log-encrypt=ON",
    "innodb-undo-log-encrypt=ON",
    "binlog-encryption=ON",
    "log-bin=bin",
];

/// Small and quick: the data of a killed process is in the system's cache, so nothing must reach a
/// device.
const QUICK: [&str; 6] = [
    "innodb-buffer-pool-size=32M",
    "innodb-redo-log-capacity=16M",
    "innodb-flush-method=nosync",
    "innodb-doublewrite=OFF",
    "innodb-log-writer-threads=OFF",
    "max-connections=30",
];

/// A key store in a directory, opened by a key file beside it.
pub struct Keys {
    pub home: PathBuf,
    pub key_file: PathBuf,
}

/// Result of a run of the command.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A server's programs, and a directory for everything of a test.
pub struct Rig {
    plain: Programs,
    directory: tempfile::TempDir,
}

/// Returns the library that was built with this test.
pub fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let name = format!("{DLL_PREFIX}{COMPONENT_NAME}{DLL_SUFFIX}");
    let found = own.ancestors().take(4).map(|place| place.join(&name)).find(|it| it.is_file());
    found.unwrap_or_else(|| panic!("{name} is built"))
}

impl Keys {
    pub fn make(directory: &Path, name: &str) -> Self {
        let (home, key_file) = (directory.join(name), directory.join(format!("{name}.key")));
        generate_key_file(&key_file).unwrap();
        let cost = PasswordParams::new(8 * 1024, 1, 1).unwrap();
        let unlock = Unlock::KeyFile(key_file.clone());
        let mut store = KeyStore::create(&home, &unlock, cost).unwrap();
        let expires_at = now_seconds() + 86_400;
        let certificate =
            NewCertificate { name: CERTIFICATE, subject: None, key_type: None, expires_at };
        store.create_certificate(&certificate).unwrap();
        Self { home, key_file }
    }

    pub fn unlock(&self) -> Unlocked {
        KeyStore::open(&self.home).unwrap().unlock(&Unlock::KeyFile(self.key_file.clone())).unwrap()
    }

    pub fn config(&self) -> Config {
        Config {
            store: self.home.clone(),
            namespace: NAMESPACE.to_owned(),
            certificate: CERTIFICATE.to_owned(),
            password_file: None,
            key_file: Some(self.key_file.clone()),
        }
    }

    /// The file of the named keys.
    pub fn stored(&self) -> PathBuf {
        self.home.join(format!("named-keys-{NAMESPACE}.json"))
    }
}

/// A directory as the server's plugin directory, with this configuration of the component.
pub fn plugins(directory: &Path, config: &Config) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(CONFIG_FILE), text(config)).unwrap();
    directory.to_owned()
}

pub fn text(config: &Config) -> String {
    serde_json::to_string(config).unwrap()
}

impl Rig {
    /// Returns `None`, with a note on standard error, where there is no MySQL server.
    pub fn new() -> Option<Self> {
        let named = std::env::var_os("TDEKIT_MYSQL_DIR").map(PathBuf::from);
        let root = named.unwrap_or_else(|| target_directory().join("mysql/root"));
        match Programs::mysql(&root) {
            Ok(plain) => {
                let directory = tempfile::Builder::new().prefix("tdekit-my-").tempdir().unwrap();
                Some(Self { plain, directory })
            }
            Err(error) => {
                eprintln!("skipped: {error}; `cargo xtask mysql true` fetches one");
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn keys(&self, name: &str) -> Keys {
        Keys::make(self.directory.path(), name)
    }

    /// The server with the component, configured in the directory `name`.
    pub fn with(&self, name: &str, config: &str) -> Programs {
        let directory = self.path(name);
        self.plain.with_component(&directory, COMPONENT_NAME, &library(), config).unwrap()
    }

    /// The server with MySQL's own keyring, whose keys are in the file `keyring` of the directory.
    pub fn with_file_keyring(&self, name: &str) -> Programs {
        self.plain.with_keyring(&self.path(name)).unwrap()
    }

    /// A new data directory of this name, which was made without a keyring.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let data = self.path(name);
        copy_tree(&template(&self.plain), &data).unwrap();
        // Each server draws an identity of its own.
        let _ = fs::remove_file(data.join("auto.cnf"));
        data
    }

    pub fn try_start(&self, programs: &Programs, data: &Path) -> Result<Server, ServerError> {
        Server::start(programs, &self.config(data))
    }

    /// A quick server that encrypts everything.
    pub fn config(&self, data: impl Into<PathBuf>) -> ServerConfig {
        let options = QUICK.iter().chain(&ENCRYPT).map(ToString::to_string).collect();
        ServerConfig { data: data.into(), options, ..ServerConfig::default() }
    }

    /// Gives the server of the directory `name` one of MySQL's own plugins.
    pub fn link_plugin(&self, name: &str, plugin: &str) {
        let library = self.plain.mysql_plugin(plugin).unwrap();
        let link = self.path(name).join("plugins").join(library.file_name().unwrap());
        symlink(library, link).unwrap();
    }

    pub fn start(&self, programs: &Programs, data: &Path) -> Server {
        self.try_start(programs, data).unwrap()
    }

    /// A server whose settings encrypt nothing.
    pub fn start_plain(&self, programs: &Programs, data: &Path) -> Server {
        let options = QUICK.iter().chain(&["log-bin=bin"]).map(ToString::to_string).collect();
        let config = ServerConfig { data: data.to_owned(), options, ..ServerConfig::default() };
        Server::start(programs, &config).unwrap()
    }
}

/// Returns the command under test: the named one, or the newer of the builds beside this program.
/// `None`, with a note on standard error, if none with `tdekit mysql` is built.
pub fn command() -> Option<PathBuf> {
    let named = std::env::var_os("TDEKIT_COMMAND").map(PathBuf::from);
    let age = |path: &PathBuf| fs::metadata(path).and_then(|state| state.modified()).ok();
    let built = ["release/tdekit", "debug/tdekit"].map(|name| target_directory().join(name));
    let newest = || built.into_iter().filter(|path| path.is_file()).max_by_key(age);
    let found = named.or_else(newest).filter(|path| {
        let help = Command::new(path).args(["mysql", "--help"]).output();
        help.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: no command with `tdekit mysql` is built");
    }
    found
}

/// Returns a file of MySQL's own tests; `None`, with a note on standard error, where they were not
/// fetched.
pub fn suite_file(name: &str) -> Option<PathBuf> {
    let tests = target_directory().join("mysql-suite").join("root/usr/lib/mysql-test");
    let file = Some(tests.join(name)).filter(|path| path.is_file());
    if file.is_none() {
        eprintln!("skipped: no {name} of MySQL's tests; `cargo xtask mtr --mysql` fetches them");
    }
    file
}

/// The test program is in `target/PROFILE/deps`.
fn target_directory() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// Makes a data directory with system tables, once for each build of the server.
fn template(programs: &Programs) -> PathBuf {
    let place = target_directory().join("tmp");
    fs::create_dir_all(&place).unwrap();
    let build = fs::metadata(&programs.server).unwrap();
    let template = place.join(format!("mysql-template-{}-{}", build.len(), build.mtime()));
    let lock = File::create(place.join("mysql-template.lock")).unwrap();
    lock.lock().unwrap();
    if !template.is_dir() {
        let unfinished = place.join(format!("mysql-unfinished-{}", std::process::id()));
        initialise(programs, &unfinished, &[]).unwrap();
        fs::rename(&unfinished, &template).unwrap();
    }
    template
}
