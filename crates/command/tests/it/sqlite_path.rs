//! `sqlite path` and `shell-init`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Place, Run, install, tdekit};
use crate::databases::{Dir, create, encrypt, fill, one, open, place};
use crate::shell::with_store;

/// The command alone, in a separate directory.
fn installed(dir: &Dir) -> PathBuf {
    fs::create_dir(dir.path("bin")).unwrap();
    let command = dir.path("bin/tdekit");
    install(&tdekit(), &command);
    command
}

fn run(command: &Path, extension: Option<&Path>) -> Run {
    let mut run = Command::new(command);
    run.args(["sqlite", "path"]).env_clear();
    if let Some(extension) = extension {
        run.env("TDEKIT_EXTENSION", extension);
    }
    Run::of(&run.output().unwrap())
}

#[test]
fn the_extension_is_found_where_it_was_put() {
    let dir = Dir::new();
    let command = installed(&dir);
    let missing = run(&command, None);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.err.contains("hint: ") && missing.err.contains("TDEKIT_EXTENSION"));
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    fs::create_dir_all(dir.path("lib/tdekit")).unwrap();
    let library = dir.path("lib/tdekit").join(&name);
    fs::write(&library, "").unwrap();
    assert_eq!(run(&command, None).out, format!("{}\n", library.display()));
    let beside = dir.path("bin").join(&name);
    fs::write(&beside, "").unwrap();
    assert_eq!(run(&command, None).out, format!("{}\n", beside.display()));
    let named = dir.path("else.so");
    let missing = run(&command, Some(&named));
    assert!(missing.code == 1 && missing.err.contains("else.so"), "{missing:?}");
    fs::write(&named, "").unwrap();
    assert_eq!(run(&command, Some(&named)).out, format!("{}\n", named.display()));
}

/// `bench` and `serve` are separate programs: the error names the missing one, and the arguments of
/// a verb are checked without it.
#[test]
fn a_missing_program_is_named() {
    let dir = Dir::new();
    let command = installed(&dir);
    let said = |words: &[&str]| {
        let words = Command::new(&command).args(words).env_clear().output().unwrap();
        Run::of(&words)
    };
    for (words, program) in [
        (&["serve", "."][..], "tdekit-serve"),
        (&["serve", "login", "list"], "tdekit-serve"),
        (&["bench", "--quick"], "tdekit-bench"),
    ] {
        let missing = said(words);
        assert!(missing.code == 1 && missing.out.is_empty(), "{missing:?}");
        assert!(missing.err.contains(&format!("there is no {program} at ")), "{missing:?}");
        assert!(missing.err.contains(&format!("install the package {program}")), "{missing:?}");
    }
    assert_eq!(said(&["serve", ".", "--encrypt", "perhaps"]).code, 2);
    assert!(said(&["serve", "--help"]).out.contains("--memory-mib"));
    // It gets the whole command line, including the key store's options before the verb.
    let script = "#!/bin/sh\nprintf '<%s>' \"$@\"\n";
    fs::write(dir.path("script"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path("script"), mode).unwrap();
    install(&dir.path("script"), &dir.path("bin/tdekit-serve"));
    let words = ["--store", "a b", "serve", "--listen", "127.0.0.1:1", "."];
    assert_eq!(said(&words).out, "<--store><a b><serve><--listen><127.0.0.1:1><.>");
}

#[test]
fn what_is_printed_is_what_the_interoperability_tests_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (host, file) in [
        ("bash", "tests/interop/sqlite-shell/tdekit.bash"),
        ("python", "tests/interop/python/tdekit.py"),
        ("node", "packages/node/tdekit/index.js"),
        ("go", "packages/go/tdekit.go"),
        ("java", "packages/java/Tdekit.java"),
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let printed = Place::empty().ok(["shell-init", host]).out;
        assert!(printed.ends_with(&text), "{host}");
        assert!(printed.contains(&format!("tdekit shell-init {host}")), "{host}");
    }
    let nothing = Place::empty();
    assert_eq!(nothing.ok(["shell-init"]).out, nothing.ok(["shell-init", "bash"]).out);
    assert_eq!(nothing.run(["shell-init", "cobol"]).code, 2);
}

#[test]
fn the_stock_shell_opens_an_encrypted_database_through_either_text() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 321);
    encrypt(&path, &[]);
    let script = "eval \"$(tdekit shell-init bash)\"; sqlite3 \"$1\" 'SELECT count(*) FROM t'";
    let mut bash = Command::new("bash");
    let run = Run::of(&with_store(bash.args(["-c", script, "bash"]).arg(&path)).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "321\n"), "{run:?}");
    // In place of ~/.sqliterc, which the shell looks for in the home directory of the user
    // database.
    let init = dir.path("sqliterc");
    fs::write(&init, place().ok(["shell-init", "sqlite"]).out).unwrap();
    let uri = format!("file:{}", path.display());
    let mut shell = Command::new("sqlite3");
    shell.arg("-init").arg(&init).args([&uri, "SELECT count(*) FROM t"]);
    let run = Run::of(&with_store(&mut shell).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "321\n"), "{run:?}");
    let mut shell = Command::new("sqlite3");
    shell.arg("-init").arg(&init).args([&uri, "CREATE TABLE lost(x)"]);
    let run = Run::of(&with_store(&mut shell).env("TDEKIT_PASSWORD", "wrong").output().unwrap());
    assert_eq!(run.code, 1, "{run:?}");
}

/// A new database has the algorithm that its URI or the environment requires.
#[test]
fn the_stock_shell_makes_databases_of_any_algorithm() {
    let dir = Dir::new();
    let init = dir.path("sqliterc");
    fs::write(&init, place().ok(["shell-init", "sqlite"]).out).unwrap();
    let make = |name: &str, uri: &str, variables: &[(&str, &str)]| {
        let uri = format!("file:{}{uri}", dir.path(name).display());
        let mut shell = Command::new("sqlite3");
        shell.arg("-init").arg(&init).args([&uri, "CREATE TABLE t(x); SELECT 'made'"]);
        Run::of(&with_store(&mut shell).envs(variables.iter().copied()).output().unwrap())
    };
    let algorithm = |name: &str| {
        let path = dir.path(name);
        let status = place().json(["status", path.to_str().unwrap(), "--json"]);
        status[0]["encryption"]["algorithm"].as_str().unwrap().to_owned()
    };
    let new = ("TDEKIT_ENCRYPT_NEW", "AppCert");
    let named = ("TDEKIT_ENCRYPT_NEW_ALGORITHM", "AES_128");
    let certificate = "?tdekit_certificate=AppCert";
    for (name, uri, variables, wanted) in [
        ("uri.db", format!("{certificate}&tdekit_algorithm=AEGIS_256X2"), &[][..], "AEGIS_256X2"),
        ("variable.db", String::new(), &[new, named], "AES_128"),
        ("both.db", "?tdekit_algorithm=AEGIS_128X2".to_owned(), &[new, named], "AEGIS_128X2"),
        ("neither.db", certificate.to_owned(), &[], "AES_256"),
    ] {
        let run = make(name, &uri, variables);
        assert_eq!((run.code, run.out.as_str()), (0, "made\n"), "{name}: {run:?}");
        assert_eq!(algorithm(name), wanted, "{name}");
    }
    for unknown in ["AES_512", "TRIPLE_DES_3KEY", ""] {
        let run = make("x.db", &format!("{certificate}&tdekit_algorithm={unknown}"), &[]);
        assert!(run.code != 0 && !run.out.contains("made"), "{unknown}: {run:?}");
        let bytes = fs::read(dir.path("x.db")).unwrap_or_default();
        assert!(bytes.is_empty(), "{unknown}: a database was made");
    }
}

/// The shell function compared with the stock shell, on files that do not open.
#[test]
fn the_shell_function_fails_as_the_stock_shell_fails() {
    let dir = Dir::new();
    let (path, plain) = (dir.path("odd ?name #1 100%.db"), dir.path("plain.db"));
    for path in [&path, &plain] {
        fill(path, 5);
    }
    encrypt(&path, &[]);
    let before = fs::read(&path).unwrap();
    let write = "CREATE TABLE lost(x); INSERT INTO lost VALUES(1); SELECT 'inserted'";
    // As an argument, and through a pipe.
    let ways = [
        format!("sqlite3 \"$1\" \"{write}\""),
        format!("echo \"{write}\" | sqlite3 \"$1\""),
        "echo '' | sqlite3 \"$1\"".to_owned(),
        "sqlite3 -cmd '.mode json' \"$1\" 'SELECT 1'".to_owned(),
    ];
    let run = |setup: &str, way: &str, path: &Path, password: Option<&str>| {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{setup}\n{way}"), "bash"]).arg(path);
        with_store(&mut bash).env("HOME", dir.path("nobody"));
        match password {
            Some(password) => bash.env("TDEKIT_PASSWORD", password),
            None => bash.env_remove("TDEKIT_PASSWORD"),
        };
        Run::of(&bash.output().unwrap())
    };
    let function = "eval \"$(tdekit shell-init bash)\"";
    let forbidden = Path::new("/proc/tdekit.db");
    let nowhere = dir.path("none/new.db");
    for way in &ways {
        // A directory is a file that the stock shell cannot open.
        let stock = run("", way, Path::new("/proc"), None);
        assert_eq!((stock.code, stock.out.as_str()), (1, ""), "{way}: {stock:?}");
        for password in [None, Some("wrong")] {
            let ours = run(function, way, &path, password);
            assert_eq!((ours.code, ours.out.as_str()), (1, ""), "{way} {password:?}: {ours:?}");
            let reason = match password {
                None => "nothing is configured to open the key store",
                Some(_) => "wrong password for the key store",
            };
            assert!(ours.err.contains("authorization denied: tdekit: "), "{ours:?}");
            assert!(ours.err.contains(reason), "{ours:?}");
        }
        for place in [forbidden, nowhere.as_path(), Path::new("/proc")] {
            let (stock, ours) =
                (run("", way, place, None), run(function, way, place, Some("secret")));
            assert_eq!(
                (ours.code, &ours.out),
                (stock.code, &stock.out),
                "{way} {place:?} {ours:?}"
            );
        }
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    // With the key, and for a plain file, they print the same.
    for way in &ways {
        let (stock, ours) = (run("", way, &plain, None), run(function, way, &path, Some("secret")));
        assert_eq!((ours.code, &ours.out), (stock.code, &stock.out), "{way}");
    }
}

/// SQLite spills a savepoint to an empty log, rolls it back, and restarts the log within the
/// transaction: everything committed from then on is after its frames.
#[test]
fn commits_after_a_savepoint_that_was_spilled_to_an_empty_log_outlive_the_process() {
    const WORK: &str = "PRAGMA synchronous = FULL; PRAGMA cache_size = 2;
        BEGIN IMMEDIATE; SAVEPOINT a; UPDATE t SET v = v + 7, pad = randomblob(500);
        ROLLBACK TO a; COMMIT;
        INSERT INTO l VALUES (1); INSERT INTO l VALUES (2);\n.shell echo done\n";
    for freshness in [&[][..], &["--freshness"]] {
        let dir = Dir::new();
        let (path, init) = (dir.path("app.db"), dir.path("sqliterc"));
        create(
            &path,
            "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; CREATE TABLE l(n);
             CREATE TABLE t(id INTEGER PRIMARY KEY, v, pad);
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200)
             INSERT INTO t SELECT i, 0, randomblob(300) FROM c",
        );
        encrypt(&path, freshness);
        fs::write(&init, place().ok(["shell-init", "sqlite"]).out).unwrap();
        let mut shell = Command::new("sqlite3");
        shell.arg("-init").arg(&init).arg(format!("file:{}", path.display()));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = with_store(&mut shell).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        input.write_all(WORK.as_bytes()).unwrap();
        input.flush().unwrap();
        let told = BufReader::new(shell.stdout.take().unwrap());
        let last = told.lines().map(Result::unwrap).find(|line| line == "done");
        assert_eq!(last.as_deref(), Some("done"));
        shell.kill().unwrap();
        shell.wait().unwrap();
        let db = open(&path);
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM l"), 2, "{freshness:?}");
        assert_eq!(one::<i64>(&db, "SELECT sum(v) FROM t"), 0, "{freshness:?}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{freshness:?}");
    }
}

#[test]
fn python_opens_it_without_a_change_to_the_program() {
    if Command::new("python3").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "no python3: `cargo xtask setup` installs it");
        return eprintln!("skipped: needs python3");
    }
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 123);
    encrypt(&path, &[]);
    // As the printed text says, with another user's directory.
    let script = "
        dir=\"$(python3 -m site --user-site)\" && mkdir -p \"$dir\"
        tdekit shell-init python >\"$dir/tdekit.py\"
        echo 'import tdekit; tdekit.load()' >\"$dir/tdekit.pth\"
        python3 -c \"import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM t').fetchone()[0])\" \"$1\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(&path).env("PYTHONUSERBASE", dir.path("user"));
    let run = Run::of(&with_store(&mut bash).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "123\n"), "{run:?}");
}
