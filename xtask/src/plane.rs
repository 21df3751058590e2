//! The planes of the workspace: one folder each.

use cargo_metadata::{MetadataCommand, Package};
use clap::ValueEnum;

use anyhow::{Context, Result};

use crate::process::root;

/// A column of the picture in ARCHITECTURE.md; its name is that of its folder below `crates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Plane {
    /// Primitives and the key store.
    Key,
    /// The page codec, the VFS, conversions, and their fault suites.
    Sqlite,
    /// The plugin, its administration, private servers, and the fault suites on them.
    Mariadb,
    /// The keyring component, its administration, and their tests in real servers.
    Mysql,
    /// Media sets and the engine of backups.
    Backup,
    /// TDS, T-SQL and the endpoint.
    Wire,
    /// The bench and its report.
    Bench,
    /// The command, and what the programs share.
    Command,
    /// What stands beside `crates`: xtask, attacks, fuzz bodies.
    Tools,
}

impl Plane {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Sqlite => "sqlite",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Backup => "backup",
            Self::Wire => "wire",
            Self::Bench => "bench",
            Self::Command => "command",
            Self::Tools => "tools",
        }
    }

    /// Returns true if a package in `directory`, relative to the root, belongs to it.
    pub(crate) fn holds(self, directory: &str) -> bool {
        let mut parts = directory.split('/');
        match parts.next() {
            Some("crates") => match parts.next() {
                Some("columns" | "console") => self == Self::Command,
                folder => folder == Some(self.name()),
            },
            _ => self == Self::Tools,
        }
    }

    /// Returns the names of its packages.
    ///
    /// # Errors
    /// When cargo does not list the workspace.
    pub(crate) fn packages(self) -> Result<Vec<String>> {
        let packages = workspace()?.into_iter();
        let ours = packages.filter(|package| self.holds(&directory_of(package)));
        Ok(ours.map(|package| package.name.to_string()).collect())
    }
}

/// The packages of the workspace.
///
/// # Errors
/// When cargo does not list them.
pub(crate) fn workspace() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec();
    Ok(metadata.context("ask cargo for the workspace's packages")?.packages)
}

/// A package's directory, relative to the root.
pub(crate) fn directory_of(package: &Package) -> String {
    let manifest = package.manifest_path.as_std_path();
    let directory = manifest.parent().unwrap_or(manifest);
    directory.strip_prefix(root()).unwrap_or(directory).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_belongs_to_one_plane() {
        for package in workspace().unwrap() {
            let directory = directory_of(&package);
            let planes = Plane::value_variants().iter().filter(|plane| plane.holds(&directory));
            assert_eq!(planes.count(), 1, "{directory}");
        }
    }

    #[test]
    fn a_plane_has_the_packages_of_its_folder() {
        assert!(Plane::Sqlite.packages().unwrap().iter().any(|it| it == "tdekit-faults-sqlite"));
        assert_eq!(Plane::Tools.packages().unwrap().iter().filter(|it| *it == "xtask").count(), 1);
    }
}
