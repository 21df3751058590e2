//! `tdekit bench peers`.

use clap::Subcommand;

use super::write::print;
use crate::backup;
use crate::error::BenchError;
use crate::peers::{Peer, PeerLibrary};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum PeersCommand {
    /// Fetches libraries from their package registries into the user's cache.
    Install {
        /// Names; without any all.
        names: Vec<Peer>,
    },
    /// Lists libraries and backup tools, and whether each is installed.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: &PeersCommand) -> Result<(), BenchError> {
    match command {
        PeersCommand::Install { names } => {
            let wanted: Vec<PeerLibrary> = if names.is_empty() {
                PeerLibrary::ALL.to_vec()
            } else {
                names.iter().map(|peer| peer.library).collect()
            };
            for library in wanted {
                let path = library.install()?;
                print(&format!("{}: {}\n", library.name(), path.display()))?;
            }
            Ok(())
        }
        PeersCommand::List { json } => {
            let rows: Vec<serde_json::Value> = PeerLibrary::ALL
                .into_iter()
                .map(|library| {
                    serde_json::json!({
                        "name": library.name(),
                        "from": library.origin(),
                        "path": library.locate().ok(),
                    })
                })
                .chain(backup::available().into_iter().map(|(tool, packages, there)| {
                    serde_json::json!({
                        "name": tool.name(),
                        "from": format!("Debian {packages}"),
                        "installed": there,
                    })
                }))
                .collect();
            if *json {
                return print(&format!("{:#}\n", serde_json::Value::Array(rows)));
            }
            for library in PeerLibrary::ALL {
                let state = if library.locate().is_ok() { "installed" } else { "not installed" };
                print(&format!("{:16} {state:14} {}\n", library.name(), library.origin()))?;
            }
            for (tool, packages, there) in backup::available() {
                let state = if there { "installed" } else { "not installed" };
                let from = format!("backup tool, apt-get install {packages}");
                print(&format!("{:16} {state:14} {from}\n", tool.name()))?;
            }
            Ok(())
        }
    }
}
