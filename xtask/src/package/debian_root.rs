//! A root directory made of Debian's packages: where packages and containers are proved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{output, run, target_dir};

/// The release that packages are proved on.
const SUITE: &str = "bookworm";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Mounts what programs find themselves by, and enters: `sh -c ENTER ROOT USER ENVIRONMENT...`.
const ENTER: &str = r#"root=$0 user=$1; shift
mount -t proc proc "$root/proc" && exec chroot --userspec="$user" "$root" /usr/bin/env -i "$@""#;

/// A root directory. It stays after the proof, for whom it failed.
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    /// A fresh root `name` with what Debian needs at the least, and the packages in `include`.
    ///
    /// They are fetched once, and unpacked from an archive in `target/proofs` after that.
    ///
    /// # Errors
    /// When the packages cannot be had, or we can neither be root nor become it.
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

    /// Where a path within the root is on the machine.
    pub(super) fn outside(&self, inside: &str) -> PathBuf {
        self.path.join(inside.trim_start_matches('/'))
    }

    /// Copies a file or a directory into the root, where `to` is a directory that may be missing.
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

    /// A program within the root, as `user` (a name, or `UID:GID`), with no environment but
    /// `variables` and a path. It is the first process of its own, as in a container.
    ///
    /// # Errors
    /// When we can neither be root nor become it.
    pub(super) fn command(&self, user: &str, variables: &[String]) -> Result<Command> {
        let mut command = as_root("unshare")?;
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER]);
        command.arg(&self.path).args([user, PATH, "LANG=C.UTF-8"]).args(variables);
        Ok(command)
    }
}

/// `program` as root: as it is, or through sudo.
///
/// # Errors
/// When the user cannot be told.
pub(super) fn as_root(program: &str) -> Result<Command> {
    if output(Command::new("id").arg("-u"))? == "0" {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("sudo");
    command.args(["--non-interactive", program]);
    Ok(command)
}
