//! The reach of a change: the reverse closure of the workspace's package graph.
//!
//! A package uses another if it depends on it, for tests or builds too, or runs its program or
//! library at run time. Cargo does not know the latter: a manifest names those in
//! `package.metadata.drives`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::Package;

use crate::plane::{directory_of, workspace};
use crate::process::{output, root};

/// Files with which every package is built or tested.
const OF_ALL: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", ".cargo/", "tests/vectors/", "tests/fixtures/"];
/// Folders of a package whose files are used by no other package's build.
const OWN: [&str; 3] = ["tests/", "benches/", "examples/"];

/// The workspace's packages and their uses.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// By name.
    packages: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    /// Relative to the root, with a slash at its end.
    directory: String,
    uses: Vec<String>,
}

/// The files of a change, relative to the root.
#[derive(Debug, Clone)]
pub(crate) struct Change(Vec<String>);

impl Change {
    /// Returns all differences between `commit` and the current tree.
    ///
    /// # Errors
    /// When git does not know the commit.
    pub(crate) fn since(commit: &str) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root()).args(["diff", "--name-only", "--no-renames", commit, "--"]);
        let list = output(&mut git).with_context(|| format!("what changed since {commit}"))?;
        Ok(Self(list.lines().map(str::to_owned).collect()))
    }

    /// Returns true if one of its files is in one of these folders, or is one of these files.
    pub(crate) fn touches(&self, paths: &[&str]) -> bool {
        self.0.iter().any(|file| paths.iter().any(|path| is_in(file, path)))
    }
}

fn is_in(file: &str, path: &str) -> bool {
    if path.ends_with('/') { file.starts_with(path) } else { file == path }
}

impl Graph {
    /// Reads the workspace.
    ///
    /// # Errors
    /// When cargo does not list it.
    pub(crate) fn read() -> Result<Self> {
        Ok(Self::of(&workspace()?))
    }

    fn of(packages: &[Package]) -> Self {
        let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        let node = |package: &Package| {
            let dependencies = package.dependencies.iter().map(|each| each.name.as_str());
            let drives = package.metadata["drives"].as_array().into_iter().flatten();
            let used = dependencies.chain(drives.filter_map(|name| name.as_str()));
            let uses = used.filter(|name| names.contains(name)).map(str::to_owned).collect();
            Node { directory: format!("{}/", directory_of(package)), uses }
        };
        let packages = packages.iter().map(|each| (each.name.to_string(), node(each)));
        Self { packages: packages.collect() }
    }

    /// Returns true if `change` can affect a test of one of `packages`.
    pub(crate) fn reaches(&self, change: &Change, packages: &[String]) -> bool {
        if change.touches(&OF_ALL) {
            return true;
        }
        let used = self.closure(packages);
        change.0.iter().any(|file| {
            let Some((owner, node)) = self.owner(file) else { return false };
            let own = file
                .strip_prefix(&node.directory)
                .is_some_and(|rest| OWN.iter().any(|folder| rest.starts_with(folder)));
            if own { packages.contains(owner) } else { used.contains(owner.as_str()) }
        })
    }

    /// Returns these packages and all that they use, directly or indirectly.
    fn closure<'a>(&'a self, packages: &'a [String]) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = packages.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if found.insert(name) {
                let node = self.packages.get(name);
                open.extend(node.into_iter().flat_map(|node| &node.uses).map(String::as_str));
            }
        }
        found
    }

    /// Returns the package in whose directory a file is: the innermost one.
    fn owner(&self, file: &str) -> Option<(&String, &Node)> {
        let holds = |(_, node): &(&String, &Node)| file.starts_with(&node.directory);
        self.packages.iter().filter(holds).max_by_key(|(_, node)| node.directory.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let node = |directory: &str, uses: &[&str]| Node {
            directory: directory.to_owned(),
            uses: uses.iter().map(|name| (*name).to_owned()).collect(),
        };
        let packages = [
            ("crypto", node("crates/key/crypto/", &[])),
            ("page", node("crates/sqlite/page/", &["crypto"])),
            ("command", node("crates/command/", &["page", "bench"])),
            ("bench", node("crates/bench/run/", &["command"])),
            ("plugin", node("crates/mariadb/plugin/", &["crypto"])),
        ];
        Graph { packages: packages.map(|(name, node)| (name.to_owned(), node)).into() }
    }

    fn reached(file: &str) -> Vec<&'static str> {
        let change = Change(vec![file.to_owned()]);
        let all = ["crypto", "page", "command", "bench", "plugin"];
        let graph = graph();
        all.into_iter().filter(|name| graph.reaches(&change, &[(*name).to_owned()])).collect()
    }

    #[test]
    fn a_change_reaches_all_that_use_its_package() {
        assert_eq!(reached("crates/sqlite/page/src/lib.rs"), ["page", "command", "bench"]);
        assert_eq!(reached("crates/mariadb/plugin/src/lib.rs"), ["plugin"]);
        assert_eq!(reached("crates/key/crypto/Cargo.toml").len(), 5);
    }

    #[test]
    fn tests_of_a_package_reach_itself_alone() {
        assert_eq!(reached("crates/sqlite/page/tests/it/main.rs"), ["page"]);
    }

    #[test]
    fn what_all_are_built_with_reaches_all_and_prose_none() {
        assert_eq!(reached("Cargo.lock").len(), 5);
        assert_eq!(reached("tests/vectors/a.json").len(), 5);
        assert_eq!(reached("README.md"), [""; 0]);
    }

    #[test]
    fn the_workspace_names_what_it_drives() {
        let graph = Graph::read().unwrap();
        for (name, needed) in [
            ("tdekit-faults-mariadb", "tdekit-mariadb-plugin"),
            ("tdekit-faults-sqlite", "tdekit-sqlite-vfs"),
            ("tdekit", "tdekit-bench-report"),
            ("tdekit-attacks", "tdekit-backup-run"),
        ] {
            assert!(graph.closure(&[name.to_owned()]).contains(needed), "{name} drives {needed}");
        }
        for package in workspace().unwrap() {
            for name in package.metadata["drives"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                assert!(graph.packages.contains_key(name), "{}: {name}", package.name);
            }
        }
    }
}
