//! Other backup tools, as an administrator uses them: what each makes, needs and runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_private_mariadb::find_program;

use crate::command::run;
use crate::environment::processors;
use crate::error::BenchError;

/// A tool beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerTool {
    /// A plain copy: what the devices allow.
    Cp,
    /// `zstd -1 -T`, then `age` with a recipient.
    ZstdAge,
    /// `lz4 -1`, then `age` with a recipient.
    Lz4Age,
    /// A fresh repository.
    Restic,
    /// A fresh repository, `repokey-blake2`, lz4.
    Borg,
}

/// What a tool is, and how it is used.
struct Facts {
    name: &'static str,
    /// Cipher and compression of what it makes.
    makes: (&'static str, &'static str),
    /// Programs that it needs, and Debian's packages that bring them.
    needs: &'static [(&'static str, &'static str)],
    /// The script that backs up `$1` to `$2`, which does not exist, on `$3` processors.
    backup: &'static str,
    /// The script that restores `$2` to the file `$1`, whose directory is empty.
    restore: &'static str,
    /// The script that makes an empty repository, off the clock.
    prepare: Option<&'static str>,
}

const CP: Facts = Facts {
    name: "cp",
    makes: ("none", "none"),
    needs: &[("cp", "coreutils")],
    backup: "exec cp -- \"$1\" \"$2\"",
    restore: "exec cp -- \"$2\" \"$1\"",
    prepare: None,
};
const ZSTD_AGE: Facts = Facts {
    name: "zstd-age",
    makes: ("ChaCha20-Poly1305", "zstd:1"),
    needs: &[("zstd", "zstd"), ("age", "age"), ("age-keygen", "age")],
    backup: "zstd -q -1 -T\"$3\" -c -- \"$1\" | age -r \"$BENCH_RECIPIENT\" -o \"$2\"",
    restore: "age -d -i \"$BENCH_IDENTITY\" -- \"$2\" | zstd -q -d -c > \"$1\"",
    prepare: None,
};
const LZ4_AGE: Facts = Facts {
    name: "lz4-age",
    makes: ("ChaCha20-Poly1305", "lz4"),
    needs: &[("lz4", "lz4"), ("age", "age"), ("age-keygen", "age")],
    backup: "lz4 -q -1 -c -- \"$1\" | age -r \"$BENCH_RECIPIENT\" -o \"$2\"",
    restore: "age -d -i \"$BENCH_IDENTITY\" -- \"$2\" | lz4 -q -d -c > \"$1\"",
    prepare: None,
};
const RESTIC: Facts = Facts {
    name: "restic",
    makes: ("AES-256-CTR, Poly1305", "zstd, its default"),
    needs: &[("restic", "restic")],
    backup: "cd -- \"$(dirname -- \"$1\")\" && exec restic -q backup \"$(basename -- \"$1\")\"",
    restore: "exec restic -q restore latest --target \"$(dirname -- \"$1\")\"",
    prepare: Some("exec restic -q init"),
};
const BORG: Facts = Facts {
    name: "borg",
    makes: ("AES-256-CTR, BLAKE2b", "lz4"),
    needs: &[("borg", "borgbackup")],
    backup: "cd -- \"$(dirname -- \"$1\")\" && \
             exec borg create --compression lz4 ::one \"$(basename -- \"$1\")\"",
    restore: "cd -- \"$(dirname -- \"$1\")\" && exec borg extract ::one",
    prepare: Some("exec borg init --encryption repokey-blake2"),
};

/// Protects the repositories of a run, which hold generated or copied data and are removed.
const PASSPHRASE: &str = "of a bench run";

impl std::str::FromStr for PeerTool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|tool| tool.name() == text).ok_or_else(|| {
            format!("`{text}` is none of {}, all", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl PeerTool {
    pub(crate) const ALL: [Self; 5] =
        [Self::Cp, Self::ZstdAge, Self::Lz4Age, Self::Restic, Self::Borg];

    fn facts(self) -> &'static Facts {
        match self {
            Self::Cp => &CP,
            Self::ZstdAge => &ZSTD_AGE,
            Self::Lz4Age => &LZ4_AGE,
            Self::Restic => &RESTIC,
            Self::Borg => &BORG,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Cipher and compression of what it makes.
    pub(super) fn makes(self) -> (&'static str, &'static str) {
        self.facts().makes
    }

    pub(crate) fn is_there(self) -> bool {
        self.facts().needs.iter().all(|(program, _)| find_program(program).is_some())
    }

    fn check(self) -> Result<(), BenchError> {
        if self.is_there() {
            return Ok(());
        }
        let remedy = format!("apt-get install {}", self.packages());
        Err(BenchError::ToolMissing { name: self.name().to_owned(), remedy })
    }

    /// Debian's packages that bring its programs.
    pub(crate) fn packages(self) -> String {
        let mut packages: Vec<&str> =
            self.facts().needs.iter().map(|(_, package)| *package).collect();
        packages.dedup();
        packages.join(" ")
    }

    /// The first line that each of its programs says of its version.
    pub(super) fn version(self) -> String {
        let mut versions = Vec::new();
        for (program, _) in
            self.facts().needs.iter().filter(|(program, _)| *program != "age-keygen")
        {
            let word = if self == Self::Restic { "version" } else { "--version" };
            let said = run(Command::new(program).arg(word)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let line = said.lines().next().unwrap_or_default().trim_matches(['*', ' ']).to_owned();
            let named = line.to_lowercase().contains(program);
            versions.push(if named { line } else { format!("{program} {line}") });
        }
        versions.join("; ")
    }
}

/// A tool that is installed, with a key of the run's own.
pub(super) struct ReadyTool {
    tool: PeerTool,
    recipient: OsString,
    identity: PathBuf,
    scratch: PathBuf,
}

/// A shell's arguments and environment.
pub(super) struct ShellCommand {
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl ReadyTool {
    /// Checks that the tool is there and makes its key in `directory`.
    pub(super) fn new(tool: PeerTool, directory: &Path) -> Result<Self, BenchError> {
        tool.check()?;
        let scratch = directory.join(tool.name());
        std::fs::create_dir_all(&scratch).map_err(BenchError::file("cannot create", &scratch))?;
        let identity = scratch.join("identity");
        let mut recipient = String::new();
        if matches!(tool, PeerTool::ZstdAge | PeerTool::Lz4Age) {
            run(Command::new("age-keygen").arg("-o").arg(&identity))?;
            let said = run(Command::new("age-keygen").arg("-y").arg(&identity))?;
            recipient = String::from_utf8_lossy(&said).trim().to_owned();
        }
        Ok(Self { tool, recipient: recipient.into(), identity, scratch })
    }

    pub(super) fn tool(&self) -> PeerTool {
        self.tool
    }

    pub(super) fn backup(&self, source: &Path, target: &Path) -> ShellCommand {
        self.shell(self.tool.facts().backup, source, target)
    }

    pub(super) fn restore(&self, restored: &Path, backup: &Path) -> ShellCommand {
        self.shell(self.tool.facts().restore, restored, backup)
    }

    /// Makes an empty repository at `target` where the tool needs one.
    pub(super) fn prepare(&self, target: &Path) -> Result<(), BenchError> {
        let Some(script) = self.tool.facts().prepare else { return Ok(()) };
        let shell = self.shell(script, Path::new(""), target);
        run(Command::new("sh").args(shell.arguments).envs(shell.environment)).map(drop)
    }

    fn shell(&self, script: &str, database: &Path, backup: &Path) -> ShellCommand {
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        ShellCommand {
            arguments: vec![
                "-c".into(),
                script.into(),
                self.tool.name().into(),
                database.into(),
                backup.into(),
                processors().to_string().into(),
            ],
            environment: vec![
                ("BENCH_RECIPIENT".into(), self.recipient.clone()),
                variable("BENCH_IDENTITY", &self.identity),
                variable("RESTIC_REPOSITORY", backup),
                ("RESTIC_PASSWORD".into(), PASSPHRASE.into()),
                variable("RESTIC_CACHE_DIR", &self.scratch),
                variable("BORG_REPO", backup),
                ("BORG_PASSPHRASE".into(), PASSPHRASE.into()),
                variable("BORG_BASE_DIR", &self.scratch),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_read_strictly_and_missing_ones_named() {
        assert_eq!("lz4-age".parse(), Ok(PeerTool::Lz4Age));
        assert!("tar".parse::<PeerTool>().is_err_and(|said| said.contains("restic")));
        assert!(PeerTool::Cp.is_there());
        assert_eq!(PeerTool::ZstdAge.packages(), "zstd age");
    }

    /// What each installed tool backs up it restores, with paths that a shell would take apart.
    #[test]
    fn installed_tools_restore_what_they_backed_up() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("a b").join("it's.db");
        let restored = directory.path().join("r $HOME").join("it's.db");
        for path in [&source, &restored] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        let data: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&source, &data).unwrap();
        for tool in PeerTool::ALL.into_iter().filter(|tool| tool.is_there()) {
            let ready = ReadyTool::new(tool, directory.path()).unwrap();
            let target = directory.path().join(format!("{} \"out\"", tool.name()));
            ready.prepare(&target).unwrap();
            for shell in [ready.backup(&source, &target), ready.restore(&restored, &target)] {
                run(Command::new("sh").args(shell.arguments).envs(shell.environment)).unwrap();
            }
            assert!(std::fs::read(&restored).unwrap() == data, "{}", tool.name());
            std::fs::remove_file(&restored).unwrap();
            assert!(!tool.version().is_empty());
        }
    }
}
