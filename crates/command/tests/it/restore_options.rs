//! The options of `restore` and `verify`, each with a media set, a stream, an archive and an
//! archive of binary logs: it is heeded, or refused.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::databases::{Dir, place};
use crate::replicate::{Pair, text};

/// The sources, in the order of the tables' columns.
const SOURCES: [&str; 4] = ["media set", "stream", "archive", "binary logs"];

/// A source of each kind, sealed and signed by one certificate.
struct Sources {
    pair: Pair,
    places: [PathBuf; 4],
}

fn sources() -> Sources {
    let pair = Pair::new(true);
    for n in 0..2 {
        pair.add(n);
        pair.ship();
    }
    let (media, stream) = (pair.dir.path("full.bak"), pair.dir.path("stream.bak"));
    place().ok(["backup", text(&pair.db), "--to", text(&media), "--certificate", "AppCert"]);
    ship_stream(&pair.dir, "stream", "bytes", &stream);
    let logs = pair.dir.path("logs");
    fs::create_dir(&logs).unwrap();
    let log = logs.join("binlog.000007.binlog");
    ship_stream(&pair.dir, "binlog.000007", "MariaDB binary log of bytes: 12", &log);
    let archive = pair.archive.clone();
    Sources { places: [media, stream, archive, logs], pair }
}

fn ship_stream(dir: &Dir, name: &str, description: &str, to: &Path) {
    let input = dir.path("input");
    fs::write(&input, "some content").unwrap();
    let words = ["backup", "--stdin", "--name", name, "--description", description];
    let words = [&words[..], &["--certificate", "AppCert", "--to", text(to)]].concat();
    let input = Stdio::from(fs::File::open(input).unwrap());
    assert!(place().command(words).stdin(input).output().unwrap().status.success());
}

/// Returns the options that a command's help lists, without those of all commands.
fn listed(command: &str) -> BTreeSet<String> {
    let global = ["--store", "--password-file", "--key-file", "--wide", "--help"];
    let help = place().ok([command, "--help"]).out;
    let options = help.lines().map(|line| line.trim_start().trim_start_matches("-h, "));
    let options = options.filter(|line| line.starts_with("--"));
    let name = |line: &str| line.split([' ', '[', '=']).next().unwrap_or_default().to_owned();
    options.map(name).filter(|name| !global.contains(&name.as_str())).collect()
}

/// An option with its value, and whether each of the sources heeds it.
type Row<'a> = (&'a [&'a str], [bool; 4]);

/// Runs a command for each row and source. What is heeded ends with 0, what is not with 2, and the
/// option is named.
fn expect(
    sources: &Sources,
    rows: &[Row<'_>],
    words: impl Fn(&str) -> Vec<String>,
    is_clean: impl Fn() -> bool,
) {
    for (option, heeded) in rows {
        for ((source, name), is_heeded) in sources.places.iter().zip(SOURCES).zip(heeded) {
            let own = option.iter().map(|word| (*word).to_owned());
            let run = place().run(words(text(source)).into_iter().chain(own));
            let what = format!("{name} {option:?}: {run:?}");
            match is_heeded {
                true => assert_eq!(run.code, 0, "{what}"),
                false => {
                    assert_eq!(run.code, 2, "{what}");
                    assert!(run.err.contains(option[0]) && is_clean(), "{what}");
                }
            }
        }
    }
}

#[test]
fn each_option_of_restore_is_heeded_or_refused() {
    let sources = sources();
    let dir = &sources.pair.dir;
    let owner = fs::metadata(dir.path("input")).unwrap().uid().to_string();
    let database = text(&sources.pair.db).to_owned();
    let (all, none) = ([true; 4], [false; 4]);
    let (of_media, of_database) = ([true, true, false, false], [true, false, true, false]);
    let rows: &[Row<'_>] = &[
        (&["--position", "1"], of_media),
        (&["--latest-readable"], of_media),
        (&["--every", "5s"], none),
        (&["--plain"], of_database),
        (&["--certificate", "Second"], of_database),
        (&["--algorithm", "AES_128"], of_database),
        (&["--check"], of_database),
        (&["--no-check"], [false, false, true, false]),
        (&["--replace"], [true, true, true, false]),
        (&["--replace", "--force"], [true, true, true, false]),
        (&["--json"], [true, true, true, false]),
        (&["--allow-unauthenticated"], all),
        (&["--owner", &owner], all),
        (&["--mode", "0640"], all),
        (&["--signed-by", "AppCert"], all),
        (&["--throttle", "50MB"], all),
        (&["--threads", "1"], all),
        (&["--stats"], all),
        (&["--backup-password-file", "none"], all),
    ];
    let to = dir.path("to");
    let clear = || {
        let _ = fs::remove_file(&to);
        let _ = fs::remove_dir_all(&to);
    };
    let words = |source: &str| {
        clear();
        ["restore", source, "--to", text(&to)].map(str::to_owned).to_vec()
    };
    expect(&sources, rows, words, || !to.exists());
    let [media, stream, archive, logs] = sources.places.each_ref().map(|it| text(it));
    // With a point, the name is that of an archive: these are none.
    for (source, codes) in [(media, 1..=7), (stream, 1..=7), (archive, 0..=0), (logs, 0..=0)] {
        clear();
        let run =
            place().run(["restore", source, "--to", text(&to), "--at", "2199-01-01 00:00:00"]);
        assert!(codes.contains(&run.code), "{source}: {run:?}");
    }
    for (source, name, code) in
        [(media, "app.db", 0), (stream, "stream", 0), (archive, &database, 0), (logs, "binlog", 2)]
    {
        clear();
        let run = place().run(["restore", source, "--to", text(&to), "--database", name]);
        assert_eq!((run.code, to.exists()), (code, code == 0), "{source}: {run:?}");
    }
    clear();
    place().fails(2, ["restore", logs, "--to", text(&to), "--follow"]);
    for (source, code) in [(media, 2), (stream, 0), (archive, 2), (logs, 2)] {
        let run = place().run(["restore", source, "--to", "-"]);
        assert_eq!(run.code, code, "{source}: {run:?}");
    }
    // The others open a certificate's own files, which another test reads.
    let own = ["--certificate-file", "--private-key", "--pkcs12"];
    let others = ["--at", "--database", "--follow", "--to"];
    let tried = rows.iter().flat_map(|(option, _)| option.iter());
    let tried = tried.chain(&own).chain(&others).filter(|word| word.starts_with("--"));
    assert_eq!(listed("restore"), tried.map(|&word| word.to_owned()).collect());
}

/// An archive is of one database; its name allows to replace the file of another one.
#[test]
fn an_archive_of_another_database_is_refused() {
    let pair = Pair::new(false);
    pair.add(1);
    pair.ship();
    let to = pair.dir.path("other.db");
    let words = ["restore", text(&pair.archive), "--to", text(&to), "--database"];
    for more in [&[][..], &["--at", "latest"], &["--at", "latest-good"]] {
        let said = place().fails(2, [&words[..], &["other.db"], more].concat());
        assert!(said.contains("the archive is of database app.db") && !to.exists(), "{said}");
    }
    drop(crate::databases::create(&to, "CREATE TABLE mine(n)"));
    let replace = ["restore", text(&pair.archive), "--to", text(&to), "--replace"];
    let said = place().fails(1, replace);
    assert!(said.contains("--database 'app.db' puts it there"), "{said}");
    place().ok([&replace[..], &["--database", "app.db"]].concat());
    let rows: u32 = crate::databases::one(&crate::databases::open(&to), "SELECT count(*) FROM t");
    assert_eq!(rows, 1);
}

#[test]
fn each_option_of_verify_is_heeded_or_refused() {
    let sources = sources();
    let scratch = sources.pair.dir.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let (all, none) = ([true; 4], [false; 4]);
    let of_media = [true, true, false, false];
    let rows: &[Row<'_>] = &[
        (&["--position", "1"], of_media),
        (&["--checksums-only"], all),
        (&["--signed-by", "AppCert"], all),
        (&["--throttle", "50MB"], all),
        (&["--threads", "1"], all),
        (&["--json"], all),
        (&["--restore-test"], all),
        (&["--sample", "10"], none),
        (&["--scratch", text(&scratch)], none),
        (&["--backup-password-file", "none"], all),
    ];
    let words = |source: &str| ["verify", source].map(str::to_owned).to_vec();
    expect(&sources, rows, words, || true);
    let tests: &[Row<'_>] = &[
        (&["--position", "1"], of_media),
        (&["--sample", "10"], all),
        (&["--scratch", text(&scratch)], all),
        (&["--checksums-only"], none),
        (&["--signed-by", "AppCert"], none),
        (&["--throttle", "50MB"], all),
        (&["--threads", "1"], all),
        (&["--json"], all),
    ];
    let words = |source: &str| ["verify", source, "--restore-test"].map(str::to_owned).to_vec();
    expect(&sources, tests, words, || true);
    let others = ["--certificate-file", "--private-key", "--pkcs12"];
    let tried = rows.iter().flat_map(|(option, _)| option.iter()).chain(&others);
    let tried = tried.filter(|word| word.starts_with("--"));
    assert_eq!(listed("verify"), tried.map(|&word| word.to_owned()).collect());
}
