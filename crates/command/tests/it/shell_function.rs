//! The function of `shell-init` compared with the stock shell: the same rows and exit code,
//! whichever option opens the file, plain or encrypted.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::Run;
use crate::databases::{Dir, create, encrypt, insert};
use crate::shell::with_store;

/// Placeholder for the database's path in a case.
const FILE: &str = "FILE";
/// A link to the database, whose name must be quoted in URIs and dot commands.
const ODD: &str = "odd ?\"name' #1 100%20\\.db";
const ROWS: &str = "SELECT count(*), sum(id), max(a) FROM t";

/// A database that is made anew for each run, plain and encrypted, and the other files of the
/// cases.
struct Bench {
    dir: Dir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: Dir::new() };
        let plain = bench.path("plain.origin");
        insert(&create(&plain, ""), 300);
        let encrypted = bench.path("encrypted.origin");
        fs::copy(&plain, &encrypted).unwrap();
        encrypt(&encrypted, &[]);
        fs::write(bench.path("member.txt"), "text of a member").unwrap();
        fs::write(bench.path("init.sql"), ".headers on\nSELECT count(*) AS n FROM t;\n").unwrap();
        // The stock shell recognizes it by its last bytes.
        fs::write(bench.path("program"), [b'.'; 5000]).unwrap();
        for making in [
            &["-append", "program", "CREATE TABLE t(id, a); INSERT INTO t VALUES (7, 'seven')"][..],
            &["members.zip", "-Ac", "member.txt"],
            &["archive.db", "-Ac", "member.txt"],
        ] {
            let run = bench.run(None, making, &[]);
            assert_eq!(run.code, 0, "{making:?}: {run:?}");
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path(name)
    }

    /// Runs one case, with the function in `shell` or with the stock shell.
    fn run(&self, shell: Option<&str>, args: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = match shell {
            None => Command::new("sqlite3"),
            Some(shell) => {
                let mut command = Command::new(shell);
                let script = "eval \"$(tdekit shell-init bash)\"; sqlite3 \"$@\"";
                command.args(["-c", script, shell]);
                command
            }
        };
        let command = with_store(command.args(args)).env("HOME", self.path("nobody"));
        command.current_dir(self.dir.0.path()).stdin(Stdio::null());
        Run::of(&command.envs(variables.iter().copied()).output().unwrap())
    }

    /// As [`Self::run`], with a fresh copy of `origin` as the file.
    fn on(&self, shell: Option<&str>, origin: &str, case: &[&str]) -> Run {
        for made in ["app.db", "new.db", "new.zip"] {
            fs::remove_file(self.path(made)).ok();
        }
        fs::copy(self.path(origin), self.path("app.db")).unwrap();
        let args: Vec<_> = case.iter().map(|arg| arg.replace(FILE, "app.db")).collect();
        self.run(shell, &args.iter().map(String::as_str).collect::<Vec<_>>(), &[])
    }
}

/// Returns the shells of this machine for which the function is written.
fn shells() -> Vec<&'static str> {
    let there = |shell: &&str| Command::new(shell).args(["-c", ":"]).status().is_ok();
    let shells: Vec<_> = ["bash", "zsh"].into_iter().filter(there).collect();
    assert!(
        std::env::var_os("CI").is_none() || shells.len() == 2,
        "no zsh: `cargo xtask setup` installs it"
    );
    shells
}

/// Each option of the stock shell that opens a file, takes a value, or has another position.
const CASES: &[&[&str]] = &[
    &[FILE, ROWS],
    &[FILE],
    &[FILE, ROWS, "SELECT 'and then'"],
    &[FILE, "INSERT INTO t(a) VALUES ('x')", ROWS],
    &["-deserialize", FILE, ROWS],
    &["--deserialize", FILE, ROWS],
    &[FILE, "-deserialize", ROWS],
    &["-deserialize", FILE],
    &["-readonly", "-deserialize", FILE, "DELETE FROM t; SELECT changes()"],
    &["-deserialize", "-readonly", FILE, "DELETE FROM t; SELECT changes()"],
    &["-deserialize", "-safe", FILE, ROWS],
    &["-deserialize", "-init", "init.sql", FILE, ROWS],
    &["-deserialize", "-cmd", "DELETE FROM t WHERE id > 9", FILE, ROWS],
    &["-deserialize", "new.db", "CREATE TABLE x(a); SELECT count(*) FROM x"],
    &["-deserialize", ":memory:", "SELECT 1"],
    &["-deserialize", ODD, ROWS],
    &[ODD, ROWS],
    &["-zip", FILE, "SELECT name FROM zip"],
    &["-zip", "members.zip", "SELECT name FROM zip"],
    &["members.zip", "SELECT name FROM zip"],
    &["members.zip", "-A", "-t"],
    &["new.zip", "-A", "-c", "member.txt"],
    &["-A", "-tf", "members.zip"],
    &["-Atf", "archive.db"],
    &["archive.db", "-A", "-t"],
    &["-A", "-tf", FILE],
    &[FILE, "-A", "-c", "member.txt"],
    &["-append", "program", ROWS],
    &["program", ROWS],
    &["-readonly", "program", ROWS],
    &["-append", "new.db", "CREATE TABLE x(a); SELECT count(*) FROM x"],
    &["-readonly", FILE, ROWS],
    &["-readonly", FILE, "DELETE FROM t"],
    &[FILE, "--readonly", "DELETE FROM t"],
    &["-nofollow", FILE, ROWS],
    &["-nofollow", "link.db", ROWS],
    &["-safe", FILE, ROWS],
    &["-safe", FILE, ".shell echo not safe"],
    &["-safe", FILE, "ATTACH 'new.db' AS n"],
    &["-nonce", "12", "-safe", FILE, ROWS],
    &["-init", "init.sql", FILE, ROWS],
    &["-init", "nowhere", FILE, ROWS],
    &["-bail", "-init", "nowhere", FILE, ROWS],
    &["-cmd", ".mode json", "-csv", FILE, ROWS],
    &["-csv", "-cmd", ".mode json", FILE, ROWS],
    &[FILE, "-json", ROWS, "-header"],
    &["-cmd", "SELECT nothing", FILE, ROWS],
    &["-bail", "-cmd", "SELECT nothing", FILE, ROWS],
    &["-batch", "-newline", "X", FILE, ROWS],
    &["-separator", ",", FILE, ROWS],
    &["-nullvalue", "none", FILE, "SELECT NULL"],
    &["-mmap", "65536", FILE, ROWS],
    &["-heap", "100000", FILE, ROWS],
    &["-threadsafe", "0", FILE, ROWS],
    &["-lookaside", "100", "10", FILE, ROWS],
    &["-pagecache", "4096", "10", FILE, ROWS],
    &["-maxsize", "10", FILE, ROWS],
    &["-vfs", "unix-none", FILE, ROWS],
    &["-vfs", "nowhere", FILE, ROWS],
    &["file:FILE", ROWS],
    &["file:FILE?mode=ro", "DELETE FROM t"],
    &["new.db", "SELECT 1"],
    &["new.db", "CREATE TABLE x(a); SELECT count(*) FROM x"],
    &[":memory:", "SELECT 1"],
    &["", "SELECT 1"],
    &[],
    &["-version"],
    &["-nothing", FILE],
    &["-cmd"],
    &[FILE, "-init"],
    &["-lookaside", "100"],
];

#[test]
#[ignore = "full: every option of two shells"]
fn every_option_does_what_it_does_in_the_stock_shell() {
    let bench = Bench::new();
    for link in ["link.db", ODD] {
        std::os::unix::fs::symlink("app.db", bench.path(link)).unwrap();
    }
    for case in CASES {
        let stock = bench.on(None, "plain.origin", case);
        for shell in shells() {
            for origin in ["plain.origin", "encrypted.origin"] {
                let ours = bench.on(Some(shell), origin, case);
                assert_eq!(
                    (ours.code, &ours.out),
                    (stock.code, &stock.out),
                    "{shell} {origin} {case:?}: {ours:?}"
                );
            }
        }
    }
}

/// An operation that the stock shell cannot do with an encrypted file is an error, and changes
/// nothing.
#[test]
fn what_cannot_be_done_encrypted_is_refused() {
    let bench = Bench::new();
    let append = ["-append", FILE, "CREATE TABLE lost(x)"];
    let limited = ["-deserialize", "-maxsize", "100000", FILE, ROWS];
    for shell in shells() {
        for (case, told) in [
            (&append[..], "app.db is encrypted"),
            (&limited, "-maxsize"),
            (&["-deserialize", "file:FILE", ROWS], "URI"),
        ] {
            let run = bench.on(Some(shell), "encrypted.origin", case);
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{shell} {case:?}: {run:?}");
            assert!(run.err.contains(told), "{shell} {case:?}: {run:?}");
            let file = |name: &str| fs::read(bench.path(name)).unwrap();
            assert!(file("app.db") == file("encrypted.origin"), "{shell} {case:?}");
        }
        let limited = bench.on(Some(shell), "plain.origin", &limited);
        assert_eq!((limited.code, limited.out.is_empty()), (0, false), "{limited:?}");
        // An appended database is plain, whatever is required for new ones.
        let args = ["-append", "new.db", "CREATE TABLE x(a)"];
        fs::remove_file(bench.path("new.db")).ok();
        let run = bench.run(Some(shell), &args, &[("TDEKIT_ENCRYPT_NEW", "AppCert")]);
        assert!(run.code == 1 && run.err.contains("TDEKIT_ENCRYPT_NEW"), "{run:?}");
        assert!(!bench.path("new.db").exists());
    }
}

/// Without the key, or with a damaged or unreadable file, no empty database opens.
#[test]
fn what_cannot_be_read_is_not_an_empty_database() {
    let bench = Bench::new();
    let origin = fs::read(bench.path("encrypted.origin")).unwrap();
    let magics_overwritten = |which: &[usize]| {
        let mut bytes = origin.clone();
        which.iter().for_each(|at| bytes[*at..at + 16].fill(0));
        bytes
    };
    fs::write(bench.path("first.origin"), magics_overwritten(&[0])).unwrap();
    fs::write(bench.path("both.origin"), magics_overwritten(&[0, 8192])).unwrap();
    fs::write(bench.path("cut.origin"), &origin[..20_000]).unwrap();
    let case = ["-deserialize", FILE, "SELECT count(*) FROM sqlite_schema WHERE name = 't'"];
    for shell in shells() {
        let first = bench.on(Some(shell), "first.origin", &case);
        assert_eq!((first.code, first.out.as_str()), (0, "1\n"), "{shell}: {first:?}");
        for damaged in ["both.origin", "cut.origin"] {
            let run = bench.on(Some(shell), damaged, &case);
            assert!(run.code != 0 && run.out.is_empty(), "{shell} {damaged}: {run:?}");
        }
        fs::write(bench.path("app.db"), &origin).unwrap();
        for password in ["", "wrong"] {
            let args = case.map(|arg| if arg == FILE { "app.db" } else { arg });
            let run = bench.run(Some(shell), &args, &[("TDEKIT_PASSWORD", password)]);
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{shell} {password:?}: {run:?}");
        }
    }
}

/// An archive in a new database is encrypted if new databases are.
#[test]
fn archives_are_encrypted_as_other_databases() {
    let bench = Bench::new();
    let new = [("TDEKIT_ENCRYPT_NEW", "AppCert")];
    for shell in shells() {
        let path = bench.path("new.db");
        fs::remove_file(&path).ok();
        let made = bench.run(Some(shell), &["-A", "-cf", "new.db", "member.txt"], &new);
        assert_eq!(made.code, 0, "{shell}: {made:?}");
        assert!(fs::read(&path).unwrap().starts_with(b"tdekit database"), "{shell}");
        for listing in [&["-A", "-tf", "new.db"][..], &["new.db", "-At"]] {
            let listed = bench.run(Some(shell), listing, &[]);
            assert_eq!((listed.code, listed.out.trim()), (0, "member.txt"), "{shell}: {listed:?}");
        }
    }
}
