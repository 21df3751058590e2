//! Control of a running test from another terminal, as by the crud experiment's control parameters:
//! change the mix or the think time, or stop.
//!
//! A run listens on a socket in the user's runtime directory; the driver processes an order between
//! two blocks, or during a block of the mixes, whose processes read the control table in every
//! loop.

mod client;
mod listener;
mod order;

pub(crate) use client::send;
pub(crate) use listener::Listener;
pub(crate) use order::{Order, think_time};

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use crate::error::{BenchError, Result};

/// Returns the directory of the sockets, which is created if missing, and accessible to this user
/// only.
fn directory() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(own) if !own.is_empty() => PathBuf::from(own).join("tdekit-bench"),
        _ => std::env::temp_dir().join(format!("tdekit-bench-{user}")),
    };
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(BenchError::file("cannot make", &path)(error));
        }
        _ => {}
    }
    let state = std::fs::symlink_metadata(&path).map_err(BenchError::file("cannot read", &path))?;
    if state.is_dir() && state.uid() == user && state.mode() & 0o077 == 0 {
        Ok(path)
    } else {
        let foreign = "it is not a directory of this user alone";
        Err(BenchError::file("cannot use", &path)(std::io::Error::other(foreign)))
    }
}
