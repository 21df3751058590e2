//! `tdekit bench peers`.

use clap::Subcommand;
use serde_json::json;

use super::write::print;
use crate::backup_tools::TOOLS;
use crate::error::Result;
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

pub(super) fn run(command: &PeersCommand) -> Result<()> {
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
            if *json {
                return print(&format!("{:#}\n", serde_json::Value::Array(rows())));
            }
            let row = |name: &str, there: bool, from: &str| {
                let state = if there { "installed" } else { "not installed" };
                print(&format!("{name:16} {state:14} {from}\n"))
            };
            for library in PeerLibrary::ALL {
                row(library.name(), library.locate().is_ok(), library.origin())?;
            }
            for tool in &TOOLS {
                let from = format!("backup tool, apt-get install {}", tool.packages());
                row(tool.name, tool.is_there(), &from)?;
            }
            Ok(())
        }
    }
}

fn rows() -> Vec<serde_json::Value> {
    let libraries = PeerLibrary::ALL.map(|library| {
        json!({"name": library.name(), "from": library.origin(), "path": library.locate().ok()})
    });
    let tools = TOOLS.each_ref().map(|tool| {
        let from = format!("Debian {}", tool.packages());
        json!({"name": tool.name, "from": from, "installed": tool.is_there()})
    });
    libraries.into_iter().chain(tools).collect()
}
