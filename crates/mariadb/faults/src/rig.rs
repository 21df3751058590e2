//! A key source with its files, a directory, and servers on copies of one template.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_private_mariadb::{
    Programs, Server, ServerConfig, ServerError, copy_tree, find_program, initialise,
};

/// The source of the server's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// None: a plain server, to check the suites themselves.
    Nobody,
    /// The plugin under test.
    Tdekit,
    /// The plugin under test, with keys from before logs had the online cipher.
    TdekitBefore,
    /// The server's own plugin, as a baseline that ours must improve on.
    FileKeyManagement(&'static str),
}

/// Small and quick: the data of a killed process is in the system's cache, so nothing must reach a
/// device.
const QUICK: [&str; 8] = [
    "innodb-buffer-pool-size=16M",
    "innodb-log-file-size=10M",
    "innodb-flush-method=nosync",
    "innodb-fast-shutdown=1",
    "performance-schema=OFF",
    "max-connections=60",
    "key-buffer-size=1M",
    "aria-pagecache-buffer-size=1M",
];

/// Everything that can be encrypted is encrypted.
pub const ENCRYPT: [&str; 8] = [
    "innodb-encrypt-tables=FORCE",
    "innodb-encrypt-log=ON",
    "innodb-encrypt-temporary-tables=ON",
    "innodb-encryption-threads=2",
    "encrypt-tmp-files=ON",
    "encrypt-tmp-disk-tables=ON",
    "encrypt-binlog=ON",
    "aria-encrypt-tables=ON",
];

const CERTIFICATE: &str = "ServerCert";
const PASSWORD: &str = "only for the fault suites";

/// Result of a run of the command.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Shared state of the servers of one test.
pub struct Rig {
    pub programs: Programs,
    pub keeper: Keeper,
    pub directory: tempfile::TempDir,
    include: Vec<PathBuf>,
    /// Directory of the plugin, if it differs from that of the packages.
    pub plugin_directory: Option<PathBuf>,
    pub environment: Vec<(OsString, OsString)>,
}

impl Rig {
    /// Makes a rig with the key source under test. Returns `None`, with a note on standard error,
    /// if the packages or the command are missing; in CI that is a failure.
    pub fn new() -> Option<Self> {
        let keeper = match std::env::var("TDEKIT_FAULTS_PLUGIN").as_deref() {
            Ok("file_key_management") => Keeper::FileKeyManagement("AES_CTR"),
            _ => Keeper::Tdekit,
        };
        Self::with(keeper)
    }

    /// Makes a rig with the given key source.
    pub fn with(keeper: Keeper) -> Option<Self> {
        let programs = match Programs::find() {
            Ok(programs) => programs,
            Err(error) => return missing(&error.to_string()),
        };
        let ours = matches!(keeper, Keeper::Tdekit | Keeper::TdekitBefore);
        if ours && !knows_mariadb() {
            return missing("no command with `tdekit mariadb` is built");
        }
        let directory = tempfile::Builder::new().prefix("tdekit-faults-").tempdir().unwrap();
        let mut rig = Self {
            programs,
            keeper,
            directory,
            include: Vec::new(),
            plugin_directory: None,
            environment: Vec::new(),
        };
        match keeper {
            Keeper::Nobody => {}
            Keeper::Tdekit => {
                rig.environment = vec![
                    ("TDEKIT_HOME".into(), rig.path("home").into()),
                    ("TDEKIT_PASSWORD".into(), PASSWORD.into()),
                ];
                rig.tdekit(&["key", "init"]);
                rig.tdekit(&["cert", "create", CERTIFICATE]);
                rig.install(CERTIFICATE);
                rig.tdekit(&["mariadb", "key", "create", "--key-id", "17"]);
            }
            Keeper::TdekitBefore => {
                let fixture =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/mariadb");
                copy_tree(&fixture.join("store"), &rig.path("home")).unwrap();
                let key = std::fs::read(fixture.join("key")).unwrap();
                let key = hex::encode(key);
                rig.environment = vec![
                    ("TDEKIT_HOME".into(), rig.path("home").into()),
                    ("TDEKIT_KEY".into(), key.into()),
                ];
                rig.install("Fixture");
            }
            Keeper::FileKeyManagement(algorithm) => rig.file_keys(algorithm),
        }
        Some(rig)
    }

    /// Runs `mariadb install`, as a user does.
    fn install(&mut self, certificate: &str) {
        let (plugins, options) = (self.path("plugins"), self.path("tdekit.cnf"));
        std::fs::create_dir(&plugins).unwrap();
        let mut words = vec!["mariadb", "install", "--certificate", certificate];
        words.extend(["--plugin-dir", plugins.to_str().unwrap()]);
        words.extend(["--option-file", options.to_str().unwrap()]);
        let user = output_of(Command::new("id").arg("-un"));
        if user == "root" {
            // Otherwise the key store would become the property of the system's server.
            words.extend(["--server-user", &user]);
        }
        self.tdekit(&words);
        self.include.push(options);
        self.plugin_directory = Some(plugins);
    }

    fn file_keys(&mut self, algorithm: &str) {
        let (keys, options) = (self.path("keys.txt"), self.path("keys.cnf"));
        let key = |byte: u8| format!("{byte:02x}").repeat(32);
        std::fs::write(&keys, format!("1;{}\n17;{}\n", key(0xa7), key(0x5c))).unwrap();
        let text = format!(
            "[mariadbd]\nplugin-load-add=file_key_management\n\
             file-key-management-filename={}\n\
             file-key-management-encryption-algorithm={algorithm}\n",
            keys.display(),
        );
        std::fs::write(&options, text).unwrap();
        self.include.push(options);
    }

    /// Returns a path in the rig's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the directory of the keys.
    pub fn keys(&self) -> PathBuf {
        match self.keeper {
            Keeper::FileKeyManagement(_) => self.path("keys.txt"),
            _ => self.path("home"),
        }
    }

    /// Makes servers read an option file, and find plugins in a directory.
    pub fn use_installed(&mut self, option_file: PathBuf, plugins: PathBuf) {
        self.keeper = Keeper::Tdekit;
        self.include.push(option_file);
        self.plugin_directory = Some(plugins);
    }

    /// Returns the option file that loads the plugin.
    pub fn option_file(&self) -> Option<&Path> {
        self.include.first().map(PathBuf::as_path)
    }

    /// Runs the command, which must succeed, and returns its output.
    pub fn tdekit(&self, arguments: &[&str]) -> String {
        let (ok, said) = self.try_tdekit(arguments);
        assert!(ok, "tdekit {}: {said}", arguments.join(" "));
        said
    }

    /// Runs the command; returns true if it succeeded, and its output.
    pub fn try_tdekit(&self, arguments: &[&str]) -> (bool, String) {
        let Run { code, out, err } = self.run_tdekit(arguments);
        (code == 0, out + &err)
    }

    /// Runs the command.
    pub fn run_tdekit(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(command().unwrap());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TDEKIT_") {
                command.env_remove(name);
            }
        }
        let output = command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run {
            // The command never exits with the code for a signal.
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Makes a new data directory of this name, with system tables.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let data = self.path(name);
        copy_tree(&template(&self.programs), &data).unwrap();
        data
    }

    /// As [`Self::fresh`], with empty undo logs: a server moves undo data to separate tablespaces
    /// only if there is no other data, and the installer ends whether or not they are empty. Their
    /// former pages are zeroed: otherwise pages that a server frees before it has encrypted them
    /// would stay in the clear, which depends on the timing of its threads.
    pub fn fresh_with_empty_undo(&self, name: &str) -> PathBuf {
        let data = self.fresh(name);
        let options = QUICK.iter().copied().filter(|line| !line.contains("fast-shutdown"));
        let empty = ["innodb-fast-shutdown=0", "innodb-immediate-scrub-data-uncompressed=ON"];
        let config = ServerConfig {
            data: data.clone(),
            options: options.chain(empty).map(ToString::to_string).collect(),
            ..ServerConfig::default()
        };
        Server::start(&self.programs, &config).unwrap().stop().unwrap();
        data
    }

    /// Returns the configuration of a server on `data`: quick, everything encrypted, then
    /// `options`.
    pub fn config(&self, data: &Path, options: &[&str]) -> ServerConfig {
        let encrypt: &[&str] = if self.keeper == Keeper::Nobody { &[] } else { &ENCRYPT };
        let mut lines: Vec<String> =
            [&QUICK[..], encrypt, options].concat().iter().map(ToString::to_string).collect();
        if let Some(plugins) = &self.plugin_directory {
            lines.push(format!("plugin-dir={}", plugins.display()));
        }
        ServerConfig {
            data: data.to_owned(),
            options: lines,
            include: self.include.clone(),
            environment: self.environment.clone(),
            ..ServerConfig::default()
        }
    }

    /// Starts a server on `data`.
    pub fn try_start(&self, data: &Path, options: &[&str]) -> Result<Server, ServerError> {
        Server::start(&self.programs, &self.config(data, options))
    }

    /// Starts a server on `data`, which must work.
    pub fn start(&self, data: &Path, options: &[&str]) -> Server {
        self.try_start(data, options).unwrap()
    }

    /// Makes a new key version; the server re-encrypts in the background.
    pub fn rotate(&self, server: &Server) -> String {
        let socket = server.socket();
        let server = ["--socket", socket.to_str().unwrap(), "--user", "root"];
        self.tdekit(&[&["mariadb", "rotate", "--no-wait"], &server[..]].concat())
    }

    /// Makes new key versions and waits until the server's pages are under them; returns standard
    /// output.
    pub fn rotate_and_wait(&self, server: &Server, more: &[&str]) -> String {
        let socket = server.socket();
        let server = ["--socket", socket.to_str().unwrap(), "--user", "root"];
        let run = self.run_tdekit(&[&["mariadb", "rotate"], &server[..], more].concat());
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
        run.out
    }
}

fn output_of(command: &mut Command) -> String {
    String::from_utf8_lossy(&command.output().unwrap().stdout).trim().to_owned()
}

fn missing<T>(what: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "{what}: `cargo xtask setup` brings what is needed");
    eprintln!("skipped: {what}");
    None
}

fn knows_mariadb() -> bool {
    let help = |path: PathBuf| Command::new(path).args(["mariadb", "--help"]).output();
    command().and_then(|path| help(path).ok()).is_some_and(|output| output.status.success())
}

/// Returns the command under test: the named one, or the newer of the builds beside this program.
pub fn command() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TDEKIT_COMMAND") {
        return Some(named.into());
    }
    let target = target_directory();
    let age = |path: &PathBuf| std::fs::metadata(path).and_then(|state| state.modified()).ok();
    ["release/tdekit", "debug/tdekit"]
        .iter()
        .map(|name| target.join(name))
        .filter(|path| path.is_file())
        .max_by_key(age)
}

/// Finds a program of the packages that a test requires.
pub fn needed(program: &str) -> Option<PathBuf> {
    find_program(program).or_else(|| missing(&format!("{program} is not installed")))
}

/// The test program is in `target/PROFILE/deps`.
fn target_directory() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().to_owned()
}

/// Makes a data directory with system tables, once for each version of the server.
fn template(programs: &Programs) -> PathBuf {
    let output = Command::new(&programs.server).arg("--version").output().unwrap();
    let version: String = String::from_utf8_lossy(&output.stdout)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    let place = target_directory().join("tmp");
    std::fs::create_dir_all(&place).unwrap();
    let template = place.join(format!("mariadb-template-{version}"));
    let lock = File::create(place.join("mariadb-template.lock")).unwrap();
    lock.lock().unwrap();
    if !template.is_dir() {
        let unfinished = place.join(format!("mariadb-unfinished-{}", std::process::id()));
        initialise(programs, &unfinished, &[]).unwrap();
        std::fs::rename(&unfinished, &template).unwrap();
    }
    template
}
