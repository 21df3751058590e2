//! Examples in the manual pages, and the pages that each refers to.

/// What is in the manual page of one command.
pub(crate) struct Entry {
    /// The command, without `tdekit`.
    pub(crate) command: &'static str,
    /// What each does, and its line.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// Other commands, without `tdekit`.
    pub(crate) see: &'static [&'static str],
}

type Examples = &'static [(&'static str, &'static str)];

const fn entry(command: &'static str, examples: Examples, see: &'static [&'static str]) -> Entry {
    Entry { command, examples, see }
}

/// Returns the entry of a command such as `cert create`.
pub(crate) fn find(command: &str) -> Option<&'static Entry> {
    ENTRIES.iter().flat_map(|entries| *entries).find(|entry| entry.command == command)
}

/// All entries.
pub(crate) const ENTRIES: &[&[Entry]] = &[DATABASES, KEYS, BACKUPS, MARIADB, MYSQL, OTHERS];

const DATABASES: &[Entry] = &[
    entry(
        "",
        &[
            ("Make keys, back them up and encrypt a database", "tdekit init app.db"),
            ("Show whether databases are encrypted", "tdekit status ."),
        ],
        &["init", "status", "bench"],
    ),
    entry(
        "init",
        &[("Make keys, back them up and encrypt a database", "tdekit init app.db")],
        &["key init", "cert create", "cert backup", "encrypt"],
    ),
    entry(
        "encrypt",
        &[
            ("Encrypt two databases", "tdekit encrypt a.db b.db --certificate AppCert"),
            ("While programs use it", "tdekit encrypt app.db --certificate AppCert --online"),
            (
                "By another algorithm",
                "tdekit encrypt app.db --certificate AppCert --algorithm AEGIS_256X2",
            ),
        ],
        &["decrypt", "status", "rotate", "import"],
    ),
    entry("decrypt", &[("Decrypt a database", "tdekit decrypt app.db")], &["encrypt", "status"]),
    entry(
        "import",
        &[(
            "Make an encrypted database of one of SQLCipher",
            "tdekit import old.db --from sqlcipher --to app.db --certificate AppCert",
        )],
        &["encrypt", "bench"],
    ),
    entry(
        "status",
        &[
            ("Show one database", "tdekit status app.db"),
            ("All databases of a directory, for a program", "tdekit status . --json"),
        ],
        &["doctor", "audit", "overview"],
    ),
    entry(
        "doctor",
        &[("Open every page of a database", "tdekit doctor app.db")],
        &["status", "verify"],
    ),
    entry(
        "audit",
        &[("Fail where a key is older than a year", "tdekit audit . --max-key-age 1y")],
        &["audit log", "overview"],
    ),
    entry(
        "audit log",
        &[
            ("Check that no entry was changed", "tdekit audit log --verify"),
            ("What happened to one database", "tdekit audit log --database app.db"),
        ],
        &["audit"],
    ),
    entry(
        "overview",
        &[
            ("Show what is not in order", "tdekit overview . --quiet"),
            ("Write metrics", "tdekit overview . --prometheus --output tdekit.prom"),
        ],
        &["status", "audit", "history"],
    ),
    entry(
        "rewrap",
        &[("After a certificate was rotated", "tdekit rewrap app.db --certificate AppCert")],
        &["cert rotate", "rotate"],
    ),
    entry(
        "rotate",
        &[("Give a database a new key while it is in use", "tdekit rotate app.db")],
        &["rewrap", "encrypt"],
    ),
    entry(
        "freshness on",
        &[("Have older states of a database refused", "tdekit freshness on app.db")],
        &["freshness status", "freshness accept"],
    ),
    entry(
        "freshness off",
        &[("Give freshness up", "tdekit freshness off app.db")],
        &["freshness on"],
    ),
    entry(
        "freshness accept",
        &[("Take a copy that was put back", "tdekit freshness accept app.db")],
        &["freshness status"],
    ),
    entry(
        "freshness status",
        &[("Is a database in its last state?", "tdekit freshness status app.db")],
        &["freshness on"],
    ),
];

const KEYS: &[Entry] = &[
    entry(
        "key init",
        &[
            ("Make a key store; asks for a password", "tdekit key init"),
            (
                "One that a key file opens",
                "tdekit --key-file unlock.key key init --generate-key-file",
            ),
        ],
        &["init", "key provider add", "key backup"],
    ),
    entry("key status", &[("Show the key store", "tdekit key status")], &["cert list"]),
    entry(
        "key rotate",
        &[
            ("Make a new master key", "tdekit key rotate"),
            ("Set another password", "tdekit key rotate --password-only --change-password"),
        ],
        &["key provider add password", "rotate"],
    ),
    entry(
        "key backup",
        &[("Back the key store up", "tdekit key backup --out master.bak")],
        &["key restore", "cert backup"],
    ),
    entry(
        "key restore",
        &[("Restore the key store", "tdekit key restore --in master.bak")],
        &["key backup"],
    ),
    entry(
        "key provider add password",
        &[("Have a second password open the key store", "tdekit key provider add password")],
        &["key provider list", "key rotate"],
    ),
    entry(
        "key provider add key-file",
        &[(
            "Make a key file, to be kept elsewhere",
            "tdekit key provider add key-file recovery.key --generate",
        )],
        &["key provider list"],
    ),
    entry(
        "key provider add pkcs11",
        &[(
            "Have a token open the key store",
            "tdekit key provider add pkcs11 --module libsofthsm2.so --token master --key tdekit",
        )],
        &["key provider list"],
    ),
    entry(
        "key provider add vault",
        &[(
            "Have a key of Vault open the key store",
            "tdekit key provider add vault --address https://vault.example:8200 --transit-key k",
        )],
        &["key provider list", "key provider rewrap"],
    ),
    entry(
        "key provider add aws-kms",
        &[(
            "Have a key of AWS KMS open the key store",
            "tdekit key provider add aws-kms --key arn:aws:kms:eu-central-1:111122223333:alias/k",
        )],
        &["key provider list", "key provider rewrap"],
    ),
    entry(
        "key provider list",
        &[("Show what opens the key store", "tdekit key provider list")],
        &["key provider add", "key provider remove"],
    ),
    entry(
        "key provider rewrap",
        &[("After a service's key was rotated", "tdekit key provider rewrap 3f0c")],
        &["key provider list"],
    ),
    entry(
        "key provider remove",
        &[("Take one of several away", "tdekit key provider remove 3f0c")],
        &["key provider list"],
    ),
    entry(
        "agent",
        &[
            ("For one command and what it starts", "tdekit agent -- make nightly"),
            ("For all that a shell starts", "eval \"$(tdekit agent --timeout 8h &)\""),
        ],
        &["key provider list", "shell-init"],
    ),
    entry(
        "cert create",
        &[("Make a certificate", "tdekit cert create AppCert")],
        &["cert backup", "cert list"],
    ),
    entry("cert list", &[("List the certificates", "tdekit cert list")], &["key status"]),
    entry(
        "cert backup",
        &[
            ("Into one file", "tdekit cert backup AppCert --pkcs12 AppCert.p12"),
            (
                "Into two files for openssl",
                "tdekit cert backup AppCert --out AppCert.pem --key-out AppCert.key",
            ),
        ],
        &["cert restore", "key backup"],
    ),
    entry(
        "cert restore",
        &[("On another machine", "tdekit cert restore AppCert --pkcs12 AppCert.p12")],
        &["cert backup"],
    ),
    entry(
        "cert rotate",
        &[("Make a new one under the same name", "tdekit cert rotate AppCert")],
        &["rewrap", "cert backup"],
    ),
    entry(
        "cert drop",
        &[("Remove one that nothing needs", "tdekit cert drop OldCert")],
        &["cert list", "cert forget"],
    ),
    entry(
        "cert forget",
        &[("After a file was removed on purpose", "tdekit cert forget gone.db")],
        &["cert drop"],
    ),
];

const BACKUPS: &[Entry] = &[
    entry(
        "backup",
        &[
            ("A full set", "tdekit backup app.db --to app.bak --certificate AppCert"),
            ("What changed since", "tdekit backup app.db --to app.bak --differential"),
            ("A log backup", "tdekit backup app.db --to app.bak --log"),
            ("Any stream", "tdekit backup --stdin --name shop --to shop.bak --certificate AppCert"),
        ],
        &["restore", "verify", "inspect", "history"],
    ),
    entry(
        "replicate",
        &[
            ("For ever", "tdekit replicate app.db --to archive --certificate AppCert"),
            ("Once, as from cron", "tdekit replicate app.db --to archive --once"),
            ("Many databases", "tdekit replicate --config replicate.toml"),
        ],
        &["restore", "verify", "backup"],
    ),
    entry(
        "replicate status",
        &[
            ("What an archive holds", "tdekit replicate status archive"),
            ("How far a database is shipped", "tdekit replicate status app.db"),
            ("Metrics of all", "tdekit replicate status --config replicate.toml --prometheus"),
        ],
        &["replicate"],
    ),
    entry(
        "restore",
        &[
            ("The newest set", "tdekit restore app.bak --to restored.db"),
            (
                "On a machine without the key store",
                "tdekit restore app.bak --to app.db --certificate-file c.pem --key-file k.pem",
            ),
            (
                "As it was at a time, from an archive",
                "tdekit restore archive --at 2026-11-22T10:15:00Z --to restored.db",
            ),
            ("A standby that keeps up", "tdekit restore archive --follow --to standby.db"),
        ],
        &["backup", "verify", "inspect"],
    ),
    entry(
        "verify",
        &[
            ("Open every block", "tdekit verify app.bak"),
            ("Without a key", "tdekit verify app.bak --checksums-only"),
        ],
        &["inspect", "restore"],
    ),
    entry("inspect", &[("List the sets", "tdekit inspect app.bak")], &["verify", "history"]),
    entry(
        "copy",
        &[
            ("To an object store", "tdekit copy app.bak s3://BUCKET/app.bak"),
            ("Both files of a striped one", "tdekit copy a.bak b.bak --to c.bak --to d.bak"),
        ],
        &["backup", "verify", "prune"],
    ),
    entry(
        "prune",
        &[
            (
                "Show which media sets would go",
                "tdekit prune /srv/backups --keep 24h --keep-daily 30 --dry-run",
            ),
            ("Remove them", "tdekit prune s3://BUCKET/app/ --keep-daily 30 --keep-monthly 12"),
        ],
        &["backup", "history", "verify"],
    ),
    entry(
        "history",
        &[
            ("Backups of one database", "tdekit history --database app.db"),
            ("Make the history anew", "tdekit history --scan /srv/backups"),
        ],
        &["backup", "overview"],
    ),
    entry(
        "backup-key add",
        &[(
            "Have another certificate open existing sets",
            "tdekit backup-key add app.bak --certificate OtherCert",
        )],
        &["backup", "cert create"],
    ),
];

#[cfg(not(feature = "mariadb"))]
const MARIADB: &[Entry] = &[];
#[cfg(feature = "mariadb")]
const MARIADB: &[Entry] = &[
    entry(
        "mariadb install",
        &[("Set a server up", "tdekit mariadb install --certificate AppCert")],
        &["mariadb status", "mariadb uninstall"],
    ),
    entry(
        "mariadb uninstall",
        &[("After its tables were decrypted", "tdekit mariadb uninstall")],
        &["mariadb install"],
    ),
    entry(
        "mariadb status",
        &[("Show keys, and what is encrypted", "tdekit mariadb status --socket mysqld.sock")],
        &["mariadb verify"],
    ),
    entry(
        "mariadb verify",
        &[("Look at every page", "tdekit mariadb verify --datadir /var/lib/mysql")],
        &["mariadb status"],
    ),
    entry(
        "mariadb rotate",
        &[("Add a version to every key", "tdekit mariadb rotate")],
        &["mariadb status"],
    ),
    entry(
        "mariadb key create",
        &[("Make key 10", "tdekit mariadb key create --key-id 10")],
        &["mariadb key rewrap"],
    ),
    entry(
        "mariadb key rewrap",
        &[("After a certificate was rotated", "tdekit mariadb key rewrap --certificate AppCert")],
        &["cert rotate"],
    ),
    entry(
        "mariadb binlog",
        &[("Read a binary log", "tdekit mariadb binlog binlog.000001")],
        &["mariadb status"],
    ),
    entry(
        "mariadb archive",
        &[(
            "Every minute",
            "tdekit mariadb archive --socket mysqld.sock --to binlogs --certificate AppCert \
             --every 1m",
        )],
        &["mariadb binlog", "restore"],
    ),
];

#[cfg(not(feature = "mysql"))]
const MYSQL: &[Entry] = &[];
#[cfg(feature = "mysql")]
const MYSQL: &[Entry] = &[
    entry(
        "mysql install",
        &[("Set a server up", "tdekit mysql install --certificate MysqlCert")],
        &["mysql status", "mysql uninstall"],
    ),
    entry(
        "mysql uninstall",
        &[(
            "After everything was decrypted",
            "tdekit mysql uninstall --socket mysqld.sock --user root",
        )],
        &["mysql install"],
    ),
    entry(
        "mysql status",
        &[("Show keys, and what is encrypted", "tdekit mysql status --socket mysqld.sock")],
        &["mysql keys"],
    ),
    entry(
        "mysql rotate",
        &[("Draw new master keys", "tdekit mysql rotate --socket mysqld.sock --user root")],
        &["mysql status"],
    ),
    entry(
        "mysql verify",
        &[("Look for what is in the clear", "tdekit mysql verify --datadir /var/lib/mysql")],
        &["mysql status"],
    ),
    entry("mysql keys", &[("List all keys", "tdekit mysql keys")], &["mysql status"]),
    entry(
        "mysql rewrap",
        &[("After a certificate was rotated", "tdekit mysql rewrap --certificate MysqlCert")],
        &["cert rotate"],
    ),
    entry(
        "mysql migrate",
        &[(
            "Take the keys of a stopped server",
            "tdekit mysql migrate --from component_keyring_file \
             --file /var/lib/mysql-keyring/keyring --certificate MyCert",
        )],
        &["mysql install"],
    ),
];

const OTHERS: &[Entry] = &[
    entry(
        "serve",
        &[
            ("Serve the databases of a directory", "tdekit serve databases"),
            ("To other machines", "tdekit serve databases --listen 0.0.0.0:1433"),
        ],
        &["serve login add", "init"],
    ),
    entry(
        "serve login add",
        &[("Add a login; asks for its password", "tdekit serve login add sa")],
        &["serve", "serve login list"],
    ),
    entry(
        "serve login list",
        &[("List the logins", "tdekit serve login list")],
        &["serve login add"],
    ),
    entry(
        "serve login remove",
        &[("Remove a login", "tdekit serve login remove ann")],
        &["serve login list"],
    ),
    entry(
        "sqlite path",
        &[("Load the extension", "sqlite3 -cmd \".load $(tdekit sqlite path)\"")],
        &["shell-init"],
    ),
    entry(
        "shell-init",
        &[
            ("Have sqlite3 open encrypted databases", "eval \"$(tdekit shell-init bash)\""),
            ("A module for Python", "tdekit shell-init python"),
        ],
        &["sqlite path", "agent"],
    ),
    entry(
        "completions",
        &[("In this shell", "source <(tdekit completions bash)")],
        &["shell-init"],
    ),
    entry(
        "bench",
        &[
            ("What does encryption cost on this database?", "tdekit bench app.db"),
            ("Has that changed since the run before?", "tdekit bench compare"),
        ],
        &["encrypt"],
    ),
];
