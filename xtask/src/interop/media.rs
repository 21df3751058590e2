//! The second reader of backup media sets: `tests/interop/media-reader`, in Python.
//!
//! It was written from the documents of the formats and shares no code with tdekit. It restores the
//! sets of `tests/fixtures/1/media` and the command's backups, and refuses them with any bit
//! changed. It also restores each point of the fixtures' archives.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::shell::{same_content, sql};
use super::store::{PASSWORD, Store, forget_tdekit};
use crate::drivers::source;
use crate::process::{output, root, run, run_quietly};

/// The name on the command line, and the folder in `tests/interop/`.
pub(super) const NAME: &str = "media-reader";

/// Passwords of the private keys in the fixtures.
const FIXTURE_PASSWORD: &str = "backup password";

/// Sets of the fixture by position, with the file of their content: AES_256 with zstd, a
/// differential set on it, a stream.
const FIXTURES: &[(u32, &str)] = &[(12, "base.db"), (22, "changed.db"), (23, "base.db")];

/// Points of the fixtures' archives, and the numbers in their table.
const POINTS: &[(&str, &str)] = &[
    ("1", "0"),
    ("2.1", "0,1"),
    ("2.2", "0,1,2"),
    ("3.1", "0,1,3"),
    ("3.2", "0,1,3"),
    ("3.3", "0,1,3,4"),
];

/// The set that is flipped bit by bit: a differential one, with its base.
const FLIPPED: u32 = 22;

/// The reader with its libraries.
pub(super) struct Reader {
    site: PathBuf,
}

impl Reader {
    /// Installs the libraries into `build`, once for each list of requirements.
    ///
    /// # Errors
    /// When pip fails.
    pub(super) fn prepare(build: &Path) -> Result<Self> {
        let requirements = source(NAME).join("requirements.txt");
        let wanted = std::fs::read_to_string(&requirements).context("read the requirements")?;
        let site = build.join("site");
        let stamp = build.join("installed.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(Self { site });
        }
        super::empty(build)?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(&site);
        run_quietly(pip.arg("--requirement").arg(&requirements))?;
        std::fs::write(&stamp, wanted).context("write the stamp of the installation")?;
        Ok(Self { site })
    }

    /// The command line for a set of `media`, opened by the private key in `key`.
    fn command(&self, media: &Path, key: &Path, password: &str, position: u32) -> Command {
        let mut command = self.open(media, key, password);
        command.args(["--position", &position.to_string()]);
        command
    }

    fn open(&self, media: &Path, key: &Path, password: &str) -> Command {
        let mut command = Command::new("python3");
        forget_tdekit(&mut command);
        command.env("PYTHONPATH", &self.site).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(source(NAME).join("media_reader.py")).arg(media);
        command.arg("--key").arg(key).args(["--password", password]);
        command
    }

    /// Restores a set and compares it with the expected content.
    ///
    /// # Errors
    /// When the reader refuses the set, or its content differs.
    fn restores(&self, mut command: Command, to: &Path, expected: &Path) -> Result<()> {
        run(command.arg("--to").arg(to))?;
        let read =
            |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
        if read(to)? != read(expected)? {
            bail!("{} and {} differ", to.display(), expected.display());
        }
        Ok(())
    }
}

/// Reads the fixtures.
///
/// # Errors
/// When a set is not restored correctly, or a changed one is restored.
pub(super) fn fixtures(reader: &Reader, directory: &Path) -> Result<()> {
    super::empty(directory)?;
    let fixtures = root().join("tests/fixtures/1/media");
    let (media, key) = (fixtures.join("sets.bak"), fixtures.join("../keystore/private-key.pem"));
    for (position, expected) in FIXTURES {
        let command = reader.command(&media, &key, FIXTURE_PASSWORD, *position);
        let to = directory.join(format!("{position}.restored"));
        reader.restores(command, &to, &fixtures.join(expected))?;
    }
    // A full set, and two log backups.
    let logs = root().join("tests/fixtures/3/media/log-backups.bak");
    for (position, expected) in [(1, "base.db"), (2, "changed.db"), (3, "base.db")] {
        let command = reader.command(&logs, &key, FIXTURE_PASSWORD, position);
        let to = directory.join(format!("{position}.logged"));
        reader.restores(command, &to, &fixtures.join(expected))?;
    }
    run(reader.command(&logs, &key, FIXTURE_PASSWORD, 3).arg("--flip"))?;
    for version in [3, 4, 5] {
        let archive = root().join(format!("tests/fixtures/{version}/media/archive"));
        for (point, numbers) in POINTS {
            let to = directory.join(format!("{version}-{point}.restored"));
            let mut command = reader.open(&archive, &key, FIXTURE_PASSWORD);
            run(command.args(["--at", point]).arg("--to").arg(&to))?;
            let found = output(&mut sql(&to, "SELECT group_concat(n) FROM t"))?;
            if found != *numbers {
                bail!("{} at {point} holds {found}", archive.display());
            }
        }
    }
    let signed = root().join("tests/fixtures/2/media/signed.bak");
    let command = reader.command(&signed, &key, FIXTURE_PASSWORD, 1);
    reader.restores(command, &directory.join("signed.restored"), &fixtures.join("base.db"))?;
    run(reader.command(&signed, &key, FIXTURE_PASSWORD, 1).arg("--flip"))?;
    run(reader.command(&media, &key, FIXTURE_PASSWORD, FLIPPED).arg("--flip"))
}

/// Backs up a plain and an encrypted database with the command, and restores both with the reader;
/// then a signed differential backup of the plain one.
///
/// # Errors
/// When the command refuses, a set is not restored correctly, or a changed one is restored.
pub(super) fn backups(reader: &Reader, directory: &Path, store: &Store) -> Result<()> {
    let plain = super::seed(&directory.join("plain"))?;
    let sealed = super::seed(&directory.join("sealed"))?;
    store.encrypt(&sealed)?;
    let key = directory.join("sealed/key.pem");
    store.export_key(&key)?;
    for database in [&plain, &sealed] {
        let (media, to) = (database.with_extension("bak"), database.with_extension("restored"));
        store.backup(database, &media)?;
        run(reader.command(&media, &key, PASSWORD, 1).arg("--flip").arg("--to").arg(&to))?;
        same_content(&plain, &to).context("the database, and its restored backup")?;
    }
    let (media, to) = (plain.with_extension("bak"), plain.with_extension("changed"));
    output(&mut sql(&plain, "UPDATE seed SET name = 'changed ' || id WHERE id IN (3, 400)"))?;
    store.backup_changes(&plain, &media)?;
    run(reader.command(&media, &key, PASSWORD, 2).arg("--flip").arg("--to").arg(&to))?;
    same_content(&plain, &to).context("the changed database, and its restored backup")
}
