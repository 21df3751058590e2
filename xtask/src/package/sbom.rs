//! The bill of materials: every crate that is compiled into the shipped files, as CycloneDX 1.6
//! (<https://cyclonedx.org/docs/1.6/json/>). It has no time and no serial number, so that the same
//! lock file gives the same bytes. `cargo cyclonedx` writes a bill beside each manifest, or one for
//! each binary: one of everything shipped would have to be merged from those of seven packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::process::root;

/// The shipped packages, as programs, libraries or crates.
const SHIPPED: [&str; 7] = [
    "tdekit",
    "tdekit-bench-run",
    "tdekit-serve",
    "tdekit-sqlite",
    "tdekit-sqlite-vfs",
    "tdekit-mariadb-plugin",
    "tdekit-mysql-component",
];
const NAME: &str = concat!("tdekit-", env!("CARGO_PKG_VERSION"), ".cdx.json");

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Writes the bill into `to`.
///
/// # Errors
/// When cargo cannot list the packages.
pub(super) fn make(to: &Path) -> Result<()> {
    let mut command = MetadataCommand::new();
    command.current_dir(root()).features(CargoOpt::SomeFeatures(Vec::new()));
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.other_options(["--locked", "--filter-platform", &platform].map(str::to_owned));
    let metadata = command.exec().context("ask cargo for the packages")?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("read Cargo.lock")?;
    let lock: Lock = toml::from_str(&lock).context("parse Cargo.lock")?;
    let bill = bill(&metadata, &lock)?;
    fs::create_dir_all(to)?;
    fs::write(to.join(NAME), format!("{bill:#}\n")).context("write the bill of materials")
}

fn bill(metadata: &Metadata, lock: &Lock) -> Result<Value> {
    let edges = edges(metadata)?;
    let checksums: BTreeMap<_, _> = lock
        .package
        .iter()
        .map(|locked| ((locked.name.as_str(), locked.version.as_str()), &locked.checksum))
        .collect();
    let mut found = BTreeMap::new();
    for id in edges.keys() {
        let package = &metadata[*id];
        found.insert(purl(package), package);
    }
    let components: Vec<_> = found
        .iter()
        .map(|(purl, package)| {
            let version = package.version.to_string();
            let checksum = checksums.get(&(package.name.as_str(), version.as_str()));
            component(package, purl, checksum.and_then(|checksum| checksum.as_deref()))
        })
        .collect();
    let mut dependencies: Vec<_> = edges
        .iter()
        .map(|(id, of)| {
            let of: BTreeSet<_> = of.iter().map(|id| purl(&metadata[*id])).collect();
            (purl(&metadata[*id]), of)
        })
        .collect();
    dependencies.sort();
    let dependencies: Vec<_> =
        dependencies.into_iter().map(|(from, to)| json!({"ref": from, "dependsOn": to})).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "name": "tdekit",
            "version": env!("CARGO_PKG_VERSION"),
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the compiled packages, each with its dependencies: ordinary ones, not those of builds
/// and tests.
fn edges(metadata: &Metadata) -> Result<BTreeMap<&PackageId, BTreeSet<&PackageId>>> {
    let resolve = metadata.resolve.as_ref().context("cargo resolved nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let shipped = metadata.packages.iter();
    let shipped = shipped.filter(|package| SHIPPED.contains(&package.name.as_str()));
    let mut open: Vec<_> = shipped.map(|package| &package.id).collect();
    let mut edges = BTreeMap::new();
    while let Some(id) = open.pop() {
        if edges.contains_key(id) {
            continue;
        }
        let uses: BTreeSet<_> = nodes
            .get(id)
            .into_iter()
            .flat_map(|node| &node.deps)
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal))
            .map(|dep| &dep.pkg)
            .collect();
        open.extend(&uses);
        edges.insert(id, uses);
    }
    Ok(edges)
}

/// The package's URL (<https://github.com/package-url/purl-spec>).
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, purl: &str, checksum: Option<&str>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": package.name.as_str(),
        "version": package.version.to_string(),
        "purl": purl,
    });
    if let Some(license) = &package.license {
        // An older notation for OR in SPDX.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_is_compiled_in_and_no_more() {
        let to = tempfile::tempdir().unwrap();
        make(to.path()).unwrap();
        let bill = fs::read(to.path().join(NAME)).unwrap();
        let bill: Value = serde_json::from_slice(&bill).unwrap();
        let components = bill["components"].as_array().unwrap();
        let of = |name: &str| components.iter().find(|component| component["name"] == name);
        let aws_lc = of("aws-lc-sys").unwrap();
        assert_eq!(aws_lc["hashes"][0]["content"].as_str().unwrap().len(), 64);
        for (name, is_there) in [
            ("tdekit-key-crypto", true),
            ("tdekit-tds-client", true),
            ("proptest", false),
            ("cc", false),
            ("xtask", false),
        ] {
            assert_eq!(of(name).is_some(), is_there, "{name}");
        }
        assert_eq!(bill["dependencies"].as_array().unwrap().len(), components.len());
    }
}
