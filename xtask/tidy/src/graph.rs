//! Rules on the graph of packages: permitted dependencies, and the use of cryptography.

use cargo_metadata::{DependencyKind, Package};

use crate::Finding;

/// The prefix of the product's packages.
const PREFIX: &str = "tdekit-";
/// The only package that names cryptographic libraries.
const CRYPTO: &str = "tdekit-key-crypto";

/// Every product package and the product packages it may use. A new package gets its line here and
/// in ARCHITECTURE.md; a line never names a package further down.
const MAY_USE: &[(&str, &[&str])] = &[
    // key plane
    ("tdekit-key-crypto", &[]),
    ("tdekit-key-store", &["tdekit-key-crypto"]),
    ("tdekit-key-remote", &["tdekit-key-crypto", "tdekit-key-store"]),
    // at rest
    ("tdekit-sqlite-page", &["tdekit-key-crypto", "tdekit-key-store"]),
    ("tdekit-sqlite-vfs", &["tdekit-key-crypto", "tdekit-key-store", "tdekit-sqlite-page"]),
    ("tdekit-sqlite", &["tdekit-key-store", "tdekit-sqlite-vfs"]),
    // loads the extension at run time
    ("tdekit-sqlite-preload", &[]),
    // a client of any SQLite library, for the bench, imports and tests; independent of ours
    ("tdekit-sqlite-client", &[]),
    (
        "tdekit-sqlite-convert",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-sqlite-vfs",
            "tdekit-sqlite-client",
            "tdekit-sqlite",
        ],
    ),
    ("tdekit-mariadb-plugin", &["tdekit-key-crypto", "tdekit-key-store"]),
    ("tdekit-mariadb-admin", &["tdekit-key-crypto", "tdekit-key-store", "tdekit-mariadb-plugin"]),
    ("tdekit-mysql-component", &["tdekit-key-crypto", "tdekit-key-store"]),
    // asks servers as the administration of MariaDB does
    (
        "tdekit-mysql-admin",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-mariadb-admin",
            "tdekit-mysql-component",
        ],
    ),
    // backup plane
    ("tdekit-backup-media", &["tdekit-key-crypto", "tdekit-key-store"]),
    (
        "tdekit-backup-run",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-sqlite-vfs",
            "tdekit-sqlite-convert",
            "tdekit-backup-media",
        ],
    ),
    // a client of the protocol, for the bench and for tests; independent of ours
    ("tdekit-tds-client", &[]),
    // wire plane: the tables name a package before those that use it
    ("tdekit-wire-tds", &[]),
    ("tdekit-wire-tsql", &["tdekit-wire-tds"]),
    ("tdekit-wire-endpoint", &["tdekit-key-crypto", "tdekit-wire-tds", "tdekit-tds-client"]),
    // executes the requests of the wire on keys, backups and files
    (
        "tdekit-serve-host",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-sqlite-vfs",
            "tdekit-sqlite-convert",
            "tdekit-backup-run",
            "tdekit-wire-tds",
            "tdekit-wire-tsql",
            "tdekit-wire-endpoint",
        ],
    ),
    // bench: uses the shipped files from outside
    ("tdekit-columns", &[]),
    ("tdekit-bench-report", &["tdekit-columns"]),
    ("tdekit-system-use", &[]),
    ("tdekit-sqlite-source", &[]),
    ("tdekit-private-mariadb", &["tdekit-system-use"]),
    ("tdekit-bench-work", &["tdekit-bench-report", "tdekit-sqlite-client", "tdekit-system-use"]),
    (
        "tdekit-bench-run",
        &[
            "tdekit-bench-report",
            "tdekit-bench-work",
            "tdekit-columns",
            "tdekit-private-mariadb",
            "tdekit-sqlite-client",
            "tdekit-sqlite-source",
            "tdekit-system-use",
            "tdekit-tds-client",
        ],
    ),
    // tests only; the command's own tests use its simulated disk
    (
        "tdekit-faults-sqlite",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-sqlite-vfs",
            "tdekit-sqlite-client",
        ],
    ),
    // the programs for users; the command is independent of the wire
    (
        "tdekit-console",
        &[
            "tdekit-columns",
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-key-remote",
            "tdekit-sqlite-page",
            "tdekit-sqlite-convert",
            "tdekit-backup-run",
        ],
    ),
    (
        "tdekit-serve",
        &[
            "tdekit-console",
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-wire-tds",
            "tdekit-wire-tsql",
            "tdekit-wire-endpoint",
            "tdekit-serve-host",
            "tdekit-backup-media",
            "tdekit-tds-client",
        ],
    ),
    (
        "tdekit",
        &[
            "tdekit-console",
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-sqlite-vfs",
            "tdekit-sqlite-convert",
            "tdekit-mariadb-plugin",
            "tdekit-mariadb-admin",
            "tdekit-mysql-admin",
            "tdekit-backup-media",
            "tdekit-backup-run",
            "tdekit-faults-sqlite",
        ],
    ),
    // tests only: nothing depends on them
    ("tdekit-faults-mariadb", &["tdekit-private-mariadb"]),
    (
        "tdekit-faults-mysql",
        &["tdekit-key-store", "tdekit-mysql-component", "tdekit-private-mariadb"],
    ),
    ("tdekit-attacks", &["tdekit-key-crypto"]),
    (
        "tdekit-fuzz",
        &[
            "tdekit-key-crypto",
            "tdekit-key-store",
            "tdekit-sqlite-page",
            "tdekit-mariadb-plugin",
            "tdekit-mysql-admin",
            "tdekit-backup-media",
            "tdekit-wire-tds",
            "tdekit-wire-tsql",
            "tdekit-bench-run",
        ],
    ),
    ("xtask", &["tdekit-private-mariadb", "tdekit-sqlite-source"]),
];

/// Libraries with cryptography; `*` matches the rest of a name.
const CRYPTO_LIBRARIES: &[&str] = &[
    "aead",
    "aegis",
    "aes",
    "aes-*",
    "argon2",
    "aws-lc-*",
    "blake2",
    "blake3",
    "bcrypt",
    "cbc",
    "cbc-mac",
    "chacha20*",
    "cipher",
    "cmac",
    "cms",
    "cryptoki",
    "ctr",
    "curve25519-dalek",
    "des",
    "digest",
    "ecdsa",
    "ed25519*",
    "ghash",
    "hkdf",
    "hmac",
    "k256",
    "libsodium-sys*",
    "md-5",
    "openssl",
    "openssl-sys",
    "orion",
    "p12-keystore",
    "p256",
    "p384",
    "pbkdf2",
    "pkcs12",
    "pkcs5",
    "pkcs8",
    "polyval",
    "rcgen",
    "ring",
    "rsa",
    "scrypt",
    "sha1",
    "sha2",
    "sha3",
    "signature",
    "sodiumoxide",
    "x509-parser",
    "x25519-dalek",
    "xts-mode",
];

fn is_crypto_library(name: &str) -> bool {
    CRYPTO_LIBRARIES.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    })
}

/// Checks every package of the workspace.
pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let dependencies = package.dependencies.iter();
        let names = dependencies.map(|each| (each.name.as_str(), each.kind));
        findings.extend(check_package(&package.name, names));
    }
    findings
}

fn check_package<'a>(
    package: &str,
    dependencies: impl Iterator<Item = (&'a str, DependencyKind)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product = package == "tdekit" || package.starts_with(PREFIX);
    let line = MAY_USE.iter().find(|(name, _)| *name == package);
    if product && line.is_none() {
        findings.push(Finding::Broken(format!(
            "package {package} has no line in the table of xtask/tidy/src/graph.rs"
        )));
    }
    let allowed = line.map_or(&[][..], |(_, allowed)| allowed);
    for (name, kind) in dependencies {
        if name.starts_with(PREFIX) && !allowed.contains(&name) {
            findings.push(Finding::Broken(format!(
                "{package} may not depend on {name} ({kind} dependency)"
            )));
        }
        if is_crypto_library(name) && package != CRYPTO {
            findings.push(Finding::Broken(format!(
                "{package} names the cryptographic library {name}: only {CRYPTO} may"
            )));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(package: &str, dependencies: &[&str]) -> usize {
        check_package(package, dependencies.iter().map(|name| (*name, DependencyKind::Normal)))
            .len()
    }

    #[test]
    fn dependencies_point_down_only() {
        assert_eq!(findings("tdekit-sqlite-vfs", &["tdekit-sqlite-page", "libc"]), 0);
        assert_eq!(findings("tdekit-sqlite-page", &["tdekit-sqlite-vfs"]), 1);
        assert_eq!(findings("tdekit-key-crypto", &["tdekit-key-store"]), 1);
        assert_eq!(findings("tdekit-bench-run", &["tdekit-bench-report"]), 0);
        assert_eq!(findings("tdekit-bench-run", &["tdekit-key-crypto"]), 1);
        assert_eq!(findings("xtask", &["tdekit-key-crypto"]), 1);
    }

    #[test]
    fn only_one_package_names_cryptography() {
        assert_eq!(findings("tdekit-key-crypto", &["aws-lc-rs", "aegis", "rsa"]), 0);
        assert_eq!(findings("tdekit-key-store", &["aws-lc-rs", "sha2", "libc"]), 2);
        assert_eq!(findings("xtask", &["aes-gcm"]), 1);
        assert_eq!(findings("tdekit", &["aesthetic", "ringbuf"]), 0);
    }

    #[test]
    fn a_new_package_needs_its_line() {
        assert_eq!(findings("tdekit-nobody", &[]), 1);
    }

    #[test]
    fn no_line_names_a_package_below_it() {
        for (at, (package, allowed)) in MAY_USE.iter().enumerate() {
            for name in *allowed {
                let place = MAY_USE.iter().position(|(other, _)| other == name);
                assert!(place.is_some_and(|place| place < at), "{package} uses {name}");
            }
        }
    }
}
