//! Options of the backup matrix, and their defaults.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::given::{Given, each_once};
use crate::backup_tools::{PeerTool, TOOLS};
use crate::error::{BenchError, Result};
use crate::numbers::size;

/// Ciphers of the document and current ones. Triple DES takes ten times as long as all others.
const CIPHERS: [&str; 5] = ["AES_128", "AES_192", "AES_256", "AEGIS_128X2", "AEGIS_256X2"];
const LEGACY: &str = "TRIPLE_DES_3KEY";
const COMPRESSIONS: [&str; 3] = ["none", "lz4", "zstd"];
/// Repetitions of the matrix: with `--quick`, and by default, as in the document.
const BLOCKS: (u32, u32) = (3, 10);

/// The matrix: options, and from [`BackupPlan::filled`] on every default.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of --experiment backup")]
pub(crate) struct BackupPlan {
    /// A directory that stands for a device, such as `hdd=/mnt/disk`: backups are written there,
    /// and databases read, unless --source-device names others. May be repeated. Default: `disk`,
    /// the file system of --dir, and `memory`, /dev/shm where it has room.
    #[arg(long = "device", value_name = "NAME=DIR")]
    pub(crate) targets: Vec<DeviceDirectory>,
    /// A directory that databases are read from and restored to. May be repeated.
    // Empty for the same as `targets`.
    #[arg(long = "source-device", value_name = "NAME=DIR")]
    pub(crate) sources: Vec<DeviceDirectory>,
    /// Size of the generated database, such as 1500MB. Default: 200MB, with --quick 20MB.
    #[arg(long = "size", value_name = "SIZE", default_value = "200MB",
          default_value_if("quick", "true", "20MB"), hide_default_value = true,
          value_parser = size)]
    pub(crate) size_bytes: u64,
    /// A cipher of the matrix; `none` is always there. May be repeated. Default: AES_128, AES_192,
    /// AES_256, AEGIS_128X2, AEGIS_256X2; beside other tools AES_256.
    // Without `none` from then on.
    #[arg(long = "cipher", value_name = "NAME")]
    pub(crate) ciphers: Vec<String>,
    /// Also TRIPLE_DES_3KEY, which takes ten times as long as all others.
    #[arg(long)]
    legacy: bool,
    /// A compression of the matrix: none, lz4, zstd or zstd:LEVEL. May be repeated. Default: all
    /// three; beside other tools lz4 and zstd.
    #[arg(long = "compression", value_name = "COMPRESSION", value_parser = compression)]
    pub(crate) compressions: Vec<String>,
    /// Leave what a run reads in the system's cache. Else it is dropped before each run, without
    /// which the source device would not matter.
    #[arg(long = "warm", action = ArgAction::SetFalse)]
    pub(crate) cold: bool,
    /// Do not restore.
    #[arg(long = "no-restore", action = ArgAction::SetFalse)]
    pub(crate) restore: bool,
    /// Another backup tool to run beside: cp, zstd-age, lz4-age, restic, borg or all. May be
    /// repeated; see `bench peers list`.
    #[arg(long, value_name = "TOOL", value_parser = peer)]
    backup_peer: Vec<Peers>,
    /// Ciphers that were named.
    #[arg(skip)]
    pub(crate) named_ciphers: Vec<String>,
    #[arg(skip)]
    pub(crate) peers: Peers,
    #[arg(skip)]
    pub(crate) blocks: u32,
}

/// `NAME=DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceDirectory {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
}

impl std::str::FromStr for DeviceDirectory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |name: &str| {
            !name.is_empty()
                && name.len() <= 32
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match text.split_once('=') {
            Some((name, directory)) if plain(name) && !directory.is_empty() => {
                Ok(Self { name: name.to_owned(), directory: directory.into() })
            }
            _ => Err("expected NAME=DIR, NAME of letters, digits, `-`, `_` and `.`".to_owned()),
        }
    }
}

/// The value of a `--backup-peer`: one tool, or all that are installed.
type Peers = Vec<&'static PeerTool>;

fn peer(text: &str) -> Result<Peers, String> {
    match text {
        "all" => Ok(TOOLS.iter().filter(|tool| tool.is_there()).collect()),
        name => PeerTool::find(name).map(|tool| vec![tool]),
    }
}

fn compression(text: &str) -> Result<String, String> {
    let known = match text.split_once(':') {
        Some(("zstd", level)) => level.parse::<i8>().is_ok(),
        Some(_) => false,
        None => COMPRESSIONS.contains(&text),
    };
    if known {
        Ok(text.to_owned())
    } else {
        Err("expected none, lz4, zstd or zstd:LEVEL".to_owned())
    }
}

impl BackupPlan {
    /// Returns the plan with every default filled in.
    pub(crate) fn filled(&self, given: &Given) -> Result<Self> {
        let peers = each_once(self.backup_peer.iter().flatten().copied());
        let or_default = |named: &[String], usual: &[&str]| match named {
            [] => usual.iter().copied().map(str::to_owned).collect(),
            named => named.to_vec(),
        };
        let beside = !peers.is_empty();
        let mut ciphers = or_default(&self.ciphers, if beside { &["AES_256"] } else { &CIPHERS });
        ciphers.retain(|cipher| cipher != "none");
        if self.legacy && !ciphers.iter().any(|cipher| cipher == LEGACY) {
            ciphers.push(LEGACY.to_owned());
        }
        let usual = if beside { &COMPRESSIONS[1..] } else { &COMPRESSIONS[..] };
        let compressions = or_default(&self.compressions, usual);
        let blocks = given.first_stage().unwrap_or(given.basics.by_quick(BLOCKS));
        let named_ciphers =
            self.ciphers.iter().filter(|cipher| *cipher != "none").cloned().collect();
        let plan = Self { ciphers, named_ciphers, compressions, blocks, peers, ..self.clone() };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        let names = |devices: &[DeviceDirectory]| -> Vec<String> {
            devices.iter().map(|device| device.name.clone()).collect()
        };
        for (option, names) in [
            ("--cipher", &self.ciphers),
            ("--compression", &self.compressions),
            ("--device", &names(&self.targets)),
            ("--source-device", &names(&self.sources)),
        ] {
            let mut seen = HashSet::new();
            if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
                return Err(BenchError::option(option, format!("{name} is given twice")));
            }
        }
        for source in &self.sources {
            // One name for two directories would mix their times.
            if self.targets.iter().any(|target| target.name == source.name && target != source) {
                let reason = format!("{} is also another --device", source.name);
                return Err(BenchError::option("--source-device", reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::tests::parsed;

    pub(crate) fn plan(words: &[&str]) -> Result<BackupPlan, String> {
        let args: BackupPlan = parsed(words).map_err(|error| error.to_string())?;
        args.filled(&parsed(&[]).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_is_the_documents_matrix_and_more() {
        let found = plan(&[]).unwrap();
        assert_eq!(found.ciphers, CIPHERS);
        assert_eq!(found.compressions, COMPRESSIONS);
        assert_eq!((found.blocks, found.size_bytes), (10, 200_000_000));
        assert!(found.cold && found.restore && found.peers.is_empty());
        let legacy = plan(&["--legacy", "--cipher", "AES_256", "--cipher", "none"]).unwrap();
        assert_eq!(legacy.ciphers, ["AES_256", "TRIPLE_DES_3KEY"]);
        let off = plan(&["--warm", "--no-restore", "--compression", "zstd:9"]).unwrap();
        assert!(!off.cold && !off.restore);
        assert_eq!(off.compressions, ["zstd:9"]);
    }

    #[test]
    fn beside_other_tools_the_matrix_is_small() {
        let found = plan(&["--backup-peer", "cp", "--backup-peer", "zstd-age"]).unwrap();
        assert_eq!(found.peers, ["cp", "zstd-age"].map(|name| PeerTool::find(name).unwrap()));
        assert_eq!(found.ciphers, ["AES_256"]);
        assert_eq!(found.compressions, ["lz4", "zstd"]);
    }

    #[test]
    fn devices_are_named_directories() {
        let found = plan(&["--device", "hdd=/mnt/a=b", "--source-device", "ssd=x"]).unwrap();
        assert_eq!(found.targets[0].directory, PathBuf::from("/mnt/a=b"));
        assert_eq!(found.sources[0].name, "ssd");
        for bad in [
            ["--device", "=x"],
            ["--device", "x="],
            ["--device", "/mnt/hdd"],
            ["--device", "a/b=x"],
            ["--backup-peer", "tar"],
            ["--compression", "gzip"],
            ["--compression", "lz4:3"],
            ["--size", "10"],
            ["--size", "5XB"],
            ["--size", "99999999999999999999"],
        ] {
            assert!(plan(&bad).is_err(), "{bad:?}");
        }
        for twice in [
            ["--device", "a=x", "--device", "a=y"],
            ["--device", "a=x", "--source-device", "a=y"],
            ["--cipher", "AES_256", "--cipher", "AES_256"],
        ] {
            assert!(plan(&twice).is_err(), "{twice:?}");
        }
        assert!(plan(&["--device", "a=x", "--source-device", "a=x"]).is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("1500MB"), Ok(1_500_000_000));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("200000"), Ok(200_000));
    }
}
