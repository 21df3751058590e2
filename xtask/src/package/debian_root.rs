//! A root directory made of Debian's packages, in which packages and containers are proved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{output, run, target_dir};

/// The release on which packages are proved.
const SUITE: &str = "bookworm";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Mounts the file systems that programs need, and enters: `sh -c ENTER ROOT USER ENVIRONMENT...`.
const ENTER: &str = r#"root=$0 user=$1; shift
mount -t proc proc "$root/proc" && exec chroot --userspec="$user" "$root" /usr/bin/env -i "$@""#;

/// A root directory. It is kept after a failed proof for inspection.
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    /// Creates a fresh root `name` with Debian's minimal system, and the packages in `include`.
    ///
    /// They are fetched once, and then unpacked from an archive in `target/proofs`.
    ///
    /// # Errors
    /// When the packages are unavailable, or root privileges are.
    pub(super) fn fresh(name: &str, include: &[&str]) -> Result<Self> {
        let proofs = target_dir().join("proofs");
        fs::create_dir_all(&proofs).with_context(|| format!("make {}", proofs.display()))?;
        let archive = proofs.join(format!("{name}.tar"));
        let listed = proofs.join(format!("{name}.packages"));
        let list = format!("{SUITE} {}\n", include.join(" "));
        if !archive.is_file() || fs::read_to_string(&listed).ok().as_ref() != Some(&list) {
            let mut make = as_root("mmdebstrap")?;
            make.args(["--quiet", "--variant=minbase"]);
            if !include.is_empty() {
                make.arg(format!("--include={}", include.join(",")));
            }
            run(make.arg(SUITE).arg(&archive))?;
            fs::write(&listed, list).with_context(|| format!("write {}", listed.display()))?;
        }
        let path = proofs.join(name);
        run(as_root("rm")?.args(["--recursive", "--force", "--one-file-system"]).arg(&path))?;
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let mut unpack = as_root("tar")?;
        run(unpack.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&path))?;
        Ok(Self { path })
    }

    /// Returns the path on the machine of a path within the root.
    pub(super) fn outside(&self, inside: &str) -> PathBuf {
        self.path.join(inside.trim_start_matches('/'))
    }

    /// Copies a file or a directory into the directory `to` of the root, which may be missing.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub(super) fn add(&self, from: &Path, to: &str) -> Result<()> {
        run(as_root("mkdir")?.arg("--parents").arg(self.outside(to)))?;
        run(as_root("cp")?
            .args(["--recursive", "--no-preserve=all"])
            .arg(from)
            .arg(self.outside(to)))
    }

    /// Removes a directory from the root.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn remove(&self, inside: &str) -> Result<()> {
        run(as_root("rm")?.args(["--recursive", "--force"]).arg(self.outside(inside)))
    }

    /// Returns a program within the root, as `user` (a name, or `UID:GID`), with no environment
    /// except `variables` and a path. It is the first process in its namespace, as in a container.
    ///
    /// # Errors
    /// When root privileges are unavailable.
    pub(super) fn command(&self, user: &str, variables: &[String]) -> Result<Command> {
        let mut command = as_root("unshare")?;
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER]);
        command.arg(&self.path).args([user, PATH, "LANG=C.UTF-8"]).args(variables);
        Ok(command)
    }
}

/// Returns `program` as root: directly, or through sudo.
///
/// # Errors
/// When the user cannot be determined.
pub(super) fn as_root(program: &str) -> Result<Command> {
    if output(Command::new("id").arg("-u"))? == "0" {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("sudo");
    command.args(["--non-interactive", program]);
    Ok(command)
}
