//! Packages with a server start it when they are installed. The tests run private ones, so during
//! an installation a policy (`/usr/sbin/policy-rc.d`, which `invoke-rc.d` and `deb-systemd-invoke`
//! consult) forbids it. An existing policy is left alone.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const POLICY: &str = "/usr/sbin/policy-rc.d";
/// 101: the action is forbidden.
const FORBID: &str = "#!/bin/sh\nexit 101\n";

/// While this exists, installed packages start no service.
pub(crate) struct NoServices {
    root: bool,
    ours: bool,
}

impl NoServices {
    /// Forbids starting services; through sudo unless `root`.
    ///
    /// # Errors
    /// When the policy cannot be written.
    pub(crate) fn forbid(root: bool) -> Result<Self> {
        let ours = !Path::new(POLICY).exists();
        if ours {
            let script = format!("printf '%s' \"$0\" >{POLICY} && chmod 755 {POLICY}");
            shell(root, &[&script, FORBID]).context("forbid the packages to start services")?;
        }
        Ok(Self { root, ours })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = shell(self.root, &[&format!("rm -f {POLICY}")])
        {
            eprintln!("setup: remove {POLICY} yourself: {error:#}");
        }
    }
}

fn shell(root: bool, words: &[&str]) -> Result<()> {
    let mut command = Command::new(if root { "sh" } else { "sudo" });
    if !root {
        command.args(["--non-interactive", "sh"]);
    }
    let status = command.arg("-c").args(words).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { bail!("sh: {status}") }
}
