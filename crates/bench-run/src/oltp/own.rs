//! The encryption of a side: none, the shipped plugin set up as a user does, or the key plugin
//! that comes with the server.

use std::path::{Path, PathBuf};

use tdekit_bench_report::{Role, Side};
use tdekit_private_mariadb::ServerConfig;

use super::options::OltpPlan;
use crate::command::run;
use crate::error::{BenchError, Result};
use crate::key_store::{self, CERTIFICATE};
use crate::private;
use crate::tools::Tools;

/// Everything that MariaDB can encrypt at rest, as an administrator would turn it on.
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

/// A side of private servers.
#[derive(Debug, Clone)]
pub(super) struct ServerSide {
    pub(super) side: Side,
    /// What its servers have beside the settings of all.
    pub(super) config: ServerConfig,
}

impl ServerSide {
    fn new(id: &str, label: &str, role: Role, cipher: Option<&str>) -> Self {
        let side = Side::new(id, label, role).with_cipher(cipher);
        Self { side, config: ServerConfig::default() }
    }

    /// Takes an option file, and notes its lines.
    fn include(&mut self, path: PathBuf) -> Result<()> {
        self.side.facts.insert("options".to_owned(), lines(&path)?.join(" ").into());
        self.config.include.push(path);
        Ok(())
    }

    /// Whether its tables must be encrypted.
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
    let mut sides = vec![ServerSide::new("base", "plain", Role::Base, None)];
    if control {
        sides.push(ServerSide::new("control", "plain again", Role::Encrypted, None));
    } else {
        sides.push(tdekit(tools, directory)?);
    }
    for plugin in &plan.plugins {
        sides.push(file_key_management(plugin, directory)?);
    }
    Ok(sides)
}

/// `key init`, `cert create`, `mariadb install`, and the option file that the last one writes.
fn tdekit(tools: &Tools, directory: &Path) -> Result<ServerSide> {
    let mut side =
        ServerSide::new("tdekit", "tdekit", Role::Encrypted, Some("tdekit (wide block, AES-256)"));
    let keys = key_store::make(&tools.tdekit, directory)?;
    let options = directory.join("tdekit.cnf");
    // The system's directory of plugins is left alone.
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
fn file_key_management(algorithm: &str, directory: &Path) -> Result<ServerSide> {
    let id = format!("file_key_management:{}", algorithm[4..].to_lowercase());
    let label = format!("file_key_management {algorithm}");
    let mut side = ServerSide::new(&id, &label, Role::Peer, Some(algorithm));
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

/// The settings of an option file, without comments, sections and paths of this machine.
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
        let cbc = file_key_management("AES_CBC", directory.path()).unwrap();
        let ctr = file_key_management("AES_CTR", directory.path()).unwrap();
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
