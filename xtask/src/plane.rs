//! The planes of the workspace, and the packages whose tests are a plane's own.

use clap::ValueEnum;

/// A column of the picture in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plane {
    /// Primitives and the key store.
    Key,
    /// The page codec, the VFS and conversions; not the fault suites.
    Sqlite,
    /// The plugin and its administration; not the suites that start servers.
    Mariadb,
    /// Media sets and the engine of backups.
    Backup,
    /// TDS, T-SQL and the endpoint.
    Wire,
    /// The bench and its report.
    Bench,
    /// The command's own tests.
    Command,
    /// This program.
    Tools,
}

impl Plane {
    /// The packages whose tests belong to the plane.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Key => &["tdekit-key-crypto", "tdekit-key-store", "tdekit-key-remote"],
            Self::Sqlite => &["tdekit-sqlite-page", "tdekit-sqlite-vfs", "tdekit-sqlite-convert"],
            Self::Mariadb => &["tdekit-mariadb-plugin", "tdekit-mariadb-admin"],
            Self::Backup => &["tdekit-backup-media", "tdekit-backup-run"],
            Self::Wire => &[
                "tdekit-wire-tds",
                "tdekit-wire-tsql",
                "tdekit-wire-endpoint",
                "tdekit-serve-host",
            ],
            Self::Bench => &[
                "tdekit-bench-report",
                "tdekit-bench-run",
                "tdekit-sqlite-client",
                "tdekit-system-use",
                "tdekit-tds-client",
            ],
            Self::Command => &["tdekit"],
            Self::Tools => &["xtask", "tdekit-attacks"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plane_names_packages_that_are_there() {
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().unwrap();
        for plane in Plane::value_variants() {
            for name in plane.packages() {
                let is_there = metadata.packages.iter().any(|package| package.name == *name);
                assert!(is_there, "{plane:?}: {name}");
            }
        }
    }
}
