//! The encryption of a side: none, the shipped plugin set up as by a user, the key plugin that
//! comes with the server, or MySQL's own with its file keyring or with tdekit's keyring component.

use std::path::{Path, PathBuf};

use tdekit_bench_report::{Role, Side};
use tdekit_private_mariadb::{Programs, ServerConfig};

use super::swap::Clause;
use crate::command::run;
use crate::error::{BenchError, Result};
use crate::key_store::{self, CERTIFICATE};
use crate::plan::OltpPlan;
use crate::private;
use crate::tools::Tools;

/// Everything that MariaDB can encrypt at rest, as enabled by an administrator.
const ENCRYPT: [&str; 8] = [
    "innodb-encrypt-tables=FORCE",
    "innodb-encrypt-log=ON",
    "innodb-encrypt-temporary-tables=ON",
    "innodb-encryption-threads=4",
    "encrypt-tmp-files=ON",
    "encrypt-tmp-disk-tables=ON",
    "encrypt-binlog=ON",
    "aria-encrypt-tables=ON",
];

/// The same of MySQL.
const ENCRYPT_MYSQL: [&str; 4] = [
    "default-table-encryption=ON",
    "innodb-redo-log-encrypt=ON",
    "innodb-undo-log-encrypt=ON",
    "binlog-encryption=ON",
];
/// MySQL's sides, the plain one first, the one with tdekit's component last.
const MYSQL: [&str; 3] = ["mysql-base", "mysql", "mysql-tdekit"];
const MYSQL_CIPHER: &str = "MySQL's tablespace encryption (AES-256 CBC)";

/// A side of private servers.
#[derive(Debug, Clone)]
pub(super) struct ServerSide {
    pub(super) side: Side,
    pub(super) programs: Programs,
    /// How its server reports which tables are encrypted.
    pub(super) clause: Clause,
    /// Settings of its servers besides those of all.
    pub(super) config: ServerConfig,
}

impl ServerSide {
    fn new(
        programs: &Programs,
        (id, label): (&str, &str),
        role: Role,
        cipher: Option<&str>,
    ) -> Self {
        let side = Side::new(id, label, role).with_cipher(cipher);
        let (programs, config) = (programs.clone(), ServerConfig::default());
        Self { side, programs, clause: Clause::MariaDb, config }
    }

    /// Adds an option file, and records its lines.
    fn include(&mut self, path: PathBuf) -> Result<()> {
        self.side.facts.insert("options".to_owned(), lines(&path)?.join(" ").into());
        self.config.include.push(path);
        Ok(())
    }

    /// Returns true if its tables must be encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.side.cipher.is_some()
    }
}

/// Sets up every side, base first, with files in `directory`.
pub(super) fn set_up(
    plan: &OltpPlan,
    tools: &Tools,
    control: bool,
    directory: &Path,
) -> Result<Vec<ServerSide>> {
    let programs = Programs::find()?;
    let mut sides = vec![ServerSide::new(&programs, ("base", "plain"), Role::Base, None)];
    if control {
        let names = ("control", "plain again");
        sides.push(ServerSide::new(&programs, names, Role::Encrypted, None));
    } else {
        sides.push(tdekit(&programs, tools, directory)?);
    }
    for plugin in &plan.plugins {
        sides.push(file_key_management(&programs, plugin, directory)?);
    }
    if let Some(peer) = &plan.mysql {
        let programs = peer.programs()?;
        sides.extend(mysql(&programs, directory)?);
        if peer.tdekit {
            sides.push(mysql_tdekit(&programs, tools, directory)?);
        }
    }
    Ok(sides)
}

/// Runs `key init`, `cert create`, `mariadb install`, and uses the option file that the last one
/// writes.
fn tdekit(programs: &Programs, tools: &Tools, directory: &Path) -> Result<ServerSide> {
    let cipher = Some("tdekit (wide block, AES-256)");
    let mut side = ServerSide::new(programs, ("tdekit", "tdekit"), Role::Encrypted, cipher);
    let keys = key_store::make(&tools.tdekit, directory)?;
    let options = directory.join("tdekit.cnf");
    // The system's plugin directory is not modified.
    let plugins = directory.join("plugins");
    private::make(&plugins)?;
    let mut install = key_store::command(&tools.tdekit, &keys);
    install.args(["mariadb", "install", "--certificate", CERTIFICATE]);
    install.arg("--plugin-dir").arg(&plugins).arg("--option-file").arg(&options);
    if rustix::process::geteuid().is_root() {
        // The private servers run as this user, not as the system's.
        install.args(["--server-user", "root"]);
    }
    run(&mut install)?;
    side.include(options)?;
    side.config.options.push(format!("plugin-dir={}", plugins.display()));
    side.config.environment = keys;
    Ok(side)
}

/// The server's own plugin, with a 256-bit key in a plain file.
fn file_key_management(
    programs: &Programs,
    algorithm: &str,
    directory: &Path,
) -> Result<ServerSide> {
    let id = format!("file_key_management:{}", algorithm[4..].to_lowercase());
    let label = format!("file_key_management {algorithm}");
    let mut side = ServerSide::new(programs, (&id, &label), Role::Peer, Some(algorithm));
    let keys = directory.join(format!("fkm-{algorithm}.key"));
    let options = directory.join(format!("fkm-{algorithm}.cnf"));
    let key = hex::encode(key_store::random_key()?);
    private::write(&keys, format!("1;{key}\n").as_bytes())?;
    let text = format!(
        "[mariadbd]\nplugin-load-add=file_key_management\n\
         file-key-management-filename={}\n\
         file-key-management-encryption-algorithm={algorithm}\n{}\n",
        keys.display(),
        ENCRYPT.join("\n")
    );
    private::write(&options, text.as_bytes())?;
    side.include(options)?;
    Ok(side)
}

/// MySQL's own encryption, its keys in a plain file, and MySQL without it for comparison: another
/// engine than the base.
fn mysql(programs: &Programs, directory: &Path) -> Result<[ServerSide; 2]> {
    let [base, encrypted, _] = MYSQL;
    let keys = directory.join("mysql");
    private::make(&keys)?;
    let keyed = programs.with_keyring(&keys)?;
    let names = (encrypted, "MySQL, keyring");
    let mut plain = ServerSide::new(programs, (base, "MySQL, plain"), Role::PeerPlain, None);
    plain.clause = Clause::MySql;
    Ok([plain, encrypted_mysql(&keyed, names)])
}

/// The same encryption with tdekit's keyring component, which `mysql install` sets up.
fn mysql_tdekit(programs: &Programs, tools: &Tools, directory: &Path) -> Result<ServerSide> {
    let [.., id] = MYSQL;
    let place = directory.join(id);
    private::make(&place)?;
    let keys = key_store::make(&tools.tdekit, &place)?;
    let placed = programs.placed(&place)?;
    let mut install = key_store::command(&tools.tdekit, &keys);
    install.args(["mysql", "install", "--certificate", CERTIFICATE]);
    install.arg("--mysqld").arg(&placed.server).arg("--plugin-dir").arg(place.join("plugins"));
    if rustix::process::geteuid().is_root() {
        // The private servers run as this user, not as the system's.
        install.args(["--server-user", "root"]);
    }
    run(&mut install)?;
    let mut side = encrypted_mysql(&placed, (id, "MySQL, tdekit's keyring"));
    side.config.environment = keys;
    Ok(side)
}

/// A server of MySQL that encrypts everything under a keyring.
fn encrypted_mysql(keyed: &Programs, names: (&str, &str)) -> ServerSide {
    let mut side = ServerSide::new(keyed, names, Role::Peer, Some(MYSQL_CIPHER));
    side.clause = Clause::MySql;
    let [base, ..] = MYSQL;
    side.side.plain = Some(base.to_owned());
    side.side.facts.insert("options".to_owned(), ENCRYPT_MYSQL.join(" ").into());
    side.config.options.extend(ENCRYPT_MYSQL.map(str::to_owned));
    side
}

/// Returns the settings of an option file, without comments, sections and paths of this machine.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(BenchError::file("cannot read", path))?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '[', '!', ';']))
        .filter(|line| !line.contains('/'))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_a_key_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let Ok(programs) = Programs::find() else { return };
        let cbc = file_key_management(&programs, "AES_CBC", directory.path()).unwrap();
        let ctr = file_key_management(&programs, "AES_CTR", directory.path()).unwrap();
        assert_eq!(cbc.side.id, "file_key_management:cbc");
        assert!(cbc.encrypts() && cbc.side.role == Role::Peer);
        let options = |side: &ServerSide| format!("{:?}", side.side.facts["options"]);
        assert!(options(&ctr).contains("innodb-encrypt-log=ON"));
        assert!(!options(&ctr).contains("filename"));
        let key = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
        let (one, two) = (key("fkm-AES_CBC.key"), key("fkm-AES_CTR.key"));
        assert!(one != two && one.starts_with(b"1;") && one.len() == 67);
    }
}
