//! Other backup tools, used as by an administrator: their products, requirements and scripts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_private_mariadb::find_on_path;

use crate::command::run;
use crate::environment::processors;
use crate::error::{BenchError, Result};
use crate::job::RunSpec;
use crate::private;

/// Another tool, and how it is used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerTool {
    pub(crate) name: &'static str,
    /// Cipher and compression of its output.
    pub(crate) makes: (&'static str, &'static str),
    /// Programs that it needs, and Debian's packages that contain them.
    needs: &'static [(&'static str, &'static str)],
    /// Script that backs up `$1` to `$2`, which does not exist, on `$3` processors.
    backup: &'static str,
    /// Script that restores `$2` to the file `$1`, whose directory is empty.
    restore: &'static str,
    /// Script that creates an empty repository, outside of the timing.
    prepare: Option<&'static str>,
}

/// The tools: a plain copy, which shows what the devices allow; compression and `age` with a
/// recipient; fresh repositories.
pub(crate) static TOOLS: [PeerTool; 5] = [
    PeerTool {
        name: "cp",
        makes: ("none", "none"),
        needs: &[("cp", "coreutils")],
        backup: "exec cp -- \"$1\" \"$2\"",
        restore: "exec cp -- \"$2\" \"$1\"",
        prepare: None,
    },
    PeerTool {
        name: "zstd-age",
        makes: ("ChaCha20-Poly1305", "zstd:1"),
        needs: &[("zstd", "zstd"), ("age", "age"), ("age-keygen", "age")],
        backup: "zstd -q -1 -T\"$3\" -c -- \"$1\" | age -r \"$BENCH_RECIPIENT\" -o \"$2\"",
        restore: "age -d -i \"$BENCH_IDENTITY\" -- \"$2\" | zstd -q -d -c > \"$1\"",
        prepare: None,
    },
    PeerTool {
        name: "lz4-age",
        makes: ("ChaCha20-Poly1305", "lz4"),
        needs: &[("lz4", "lz4"), ("age", "age"), ("age-keygen", "age")],
        backup: "lz4 -q -1 -c -- \"$1\" | age -r \"$BENCH_RECIPIENT\" -o \"$2\"",
        restore: "age -d -i \"$BENCH_IDENTITY\" -- \"$2\" | lz4 -q -d -c > \"$1\"",
        prepare: None,
    },
    PeerTool {
        name: "restic",
        makes: ("AES-256-CTR, Poly1305", "zstd, its default"),
        needs: &[("restic", "restic")],
        backup: "cd -- \"$(dirname -- \"$1\")\" && exec restic -q backup \"$(basename -- \"$1\")\"",
        restore: "exec restic -q restore latest --target \"$(dirname -- \"$1\")\"",
        prepare: Some("exec restic -q init"),
    },
    PeerTool {
        name: "borg",
        makes: ("AES-256-CTR, BLAKE2b", "lz4"),
        needs: &[("borg", "borgbackup")],
        backup: "cd -- \"$(dirname -- \"$1\")\" && \
                 exec borg create --compression lz4 ::one \"$(basename -- \"$1\")\"",
        restore: "cd -- \"$(dirname -- \"$1\")\" && exec borg extract ::one",
        prepare: Some("exec borg init --encryption repokey-blake2"),
    },
];

/// Protects the repositories of a run, which hold generated or copied data and are removed.
const PASSPHRASE: &str = "of a bench run";

impl PeerTool {
    /// The tool of this name.
    pub(crate) fn find(name: &str) -> Result<&'static Self, String> {
        TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
            let names = TOOLS.each_ref().map(|tool| tool.name);
            format!("`{name}` is none of {}, all", names.join(", "))
        })
    }

    pub(crate) fn is_there(&self) -> bool {
        self.needs.iter().all(|(program, _)| find_on_path(program).is_some())
    }

    /// Returns Debian's packages that contain its programs.
    pub(crate) fn packages(&self) -> String {
        let mut packages: Vec<&str> = self.needs.iter().map(|(_, package)| *package).collect();
        packages.dedup();
        packages.join(" ")
    }

    /// Returns the first line of the version output of each of its programs.
    pub(crate) fn version(&self) -> String {
        let mut versions = Vec::new();
        for (program, _) in self.needs.iter().filter(|(program, _)| *program != "age-keygen") {
            let word = if *program == "restic" { "version" } else { "--version" };
            let said = run(Command::new(program).arg(word)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let line = said.lines().next().unwrap_or_default().trim_matches(['*', ' ']).to_owned();
            let named = line.to_lowercase().contains(program);
            versions.push(if named { line } else { format!("{program} {line}") });
        }
        versions.join("; ")
    }
}

/// An installed tool, with a key of the run.
pub(crate) struct ReadyTool {
    pub(crate) tool: &'static PeerTool,
    recipient: OsString,
    identity: PathBuf,
    scratch: PathBuf,
}

impl ReadyTool {
    /// Checks that the tool is installed and creates its key in `directory`.
    pub(crate) fn new(tool: &'static PeerTool, directory: &Path) -> Result<Self> {
        if !tool.is_there() {
            let remedy = format!("apt-get install {}", tool.packages());
            return Err(BenchError::ToolMissing { name: tool.name.to_owned(), remedy });
        }
        let scratch = directory.join(tool.name);
        private::make(&scratch)?;
        let identity = scratch.join("identity");
        let mut recipient = String::new();
        if tool.needs.iter().any(|(program, _)| *program == "age-keygen") {
            run(Command::new("age-keygen").arg("-o").arg(&identity))?;
            let said = run(Command::new("age-keygen").arg("-y").arg(&identity))?;
            recipient = String::from_utf8_lossy(&said).trim().to_owned();
        }
        Ok(Self { tool, recipient: recipient.into(), identity, scratch })
    }

    /// Returns the command that backs up `source` to `target`, to a repository that is created here
    /// if the tool needs one.
    pub(crate) fn backup(&self, source: &Path, target: &Path) -> Result<RunSpec> {
        if let Some(script) = self.tool.prepare {
            let prepare = self.shell(script, (Path::new(""), target), target);
            run(Command::new(prepare.program).args(prepare.arguments).envs(prepare.environment))?;
        }
        Ok(self.shell(self.tool.backup, (source, target), target))
    }

    /// The command that restores `backup` to `restored`.
    pub(crate) fn restore(&self, backup: &Path, restored: &Path) -> RunSpec {
        self.shell(self.tool.restore, (restored, backup), restored)
    }

    fn shell(&self, script: &str, (database, backup): (&Path, &Path), output: &Path) -> RunSpec {
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        RunSpec {
            program: "sh".into(),
            arguments: vec![
                "-c".into(),
                script.into(),
                self.tool.name.into(),
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
            drop_cached: Vec::new(),
            output: output.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_read_strictly_and_missing_ones_named() {
        assert!(PeerTool::find("tar").is_err_and(|said| said.contains("restic")));
        assert!(PeerTool::find("cp").unwrap().is_there());
        assert_eq!(PeerTool::find("zstd-age").unwrap().packages(), "zstd age");
    }

    /// Each installed tool restores its own backups, with paths that an unquoted shell word would
    /// split.
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
        for tool in TOOLS.iter().filter(|tool| tool.is_there()) {
            let ready = ReadyTool::new(tool, directory.path()).unwrap();
            let target = directory.path().join(format!("{} \"out\"", tool.name));
            let backup = ready.backup(&source, &target).unwrap();
            for shell in [backup, ready.restore(&target, &restored)] {
                run(Command::new("sh").args(shell.arguments).envs(shell.environment)).unwrap();
            }
            assert!(std::fs::read(&restored).unwrap() == data, "{}", tool.name);
            std::fs::remove_file(&restored).unwrap();
            assert!(!tool.version().is_empty());
        }
    }
}
