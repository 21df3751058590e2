//! Binary logs in an archive: shipped, resumed, with a gap; replayed behind a full and an
//! incremental backup, to a second between two inserts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tdekit_faults_mariadb::Rig;
use tdekit_faults_mariadb::raw::holding;
use tdekit_faults_mariadb::rig::{command, needed};
use tdekit_private_mariadb::Server;

use crate::backup::mariadb_backup;

const CERTIFICATE: &str = "ServerCert";
const MARKER: &str = "PLANTED-binlog";
const OPTIONS: [&str; 3] = ["log-bin=binlog", "server-id=7", "encrypt-binlog=ON"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments of `mariadb archive`.
fn archive<'a>(server_socket: &'a str, to: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let own = ["mariadb", "archive", "--socket", server_socket, "--user", "root", "--to"];
    [&own[..], &[text(to), "--certificate", CERTIFICATE], more].concat()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn closed_logs_are_shipped_once_and_a_gap_is_told() {
    let Some(rig) = Rig::new() else { return };
    let Some(reader) = needed("mariadb-binlog") else { return };
    let server = rig.start(&rig.fresh("data"), &OPTIONS);
    let socket = text(&server.socket()).to_owned();
    let logs = rig.path("logs");
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(v TEXT)").unwrap();
    server.sql(&format!("INSERT INTO test.t VALUES ('{MARKER}')")).unwrap();
    rig.tdekit(&archive(&socket, &logs, &["--once"]));
    assert_eq!(names(&logs), Vec::<String>::new(), "the only log is being written");
    let said = rig.tdekit(&archive(&socket, &logs, &["--once", "--every", "1m"]));
    assert!(said.contains("Shipped binlog.000001"), "{said}");
    assert_eq!(names(&logs), ["binlog.000001.binlog"]);
    assert_eq!(rig.tdekit(&archive(&socket, &logs, &["--once"])), "", "there is nothing new");
    // A process that is killed leaves whole logs, and the next one goes on.
    server.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS").unwrap();
    let mut process = Command::new(command().unwrap())
        .args(archive(&socket, &logs, &["--every", "1s"]))
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..600 {
        server.sql(&format!("INSERT INTO test.t VALUES ('{MARKER}')")).unwrap();
        if names(&logs).len() > 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    rig.tdekit(&archive(&socket, &logs, &["--once", "--every", "1m"]));
    let shipped = names(&logs);
    assert!(shipped.len() > 4, "{shipped:?}");
    assert_eq!(holding(&logs, MARKER), Vec::<String>::new());
    rig.tdekit(&["verify", text(&logs.join(&shipped[0]))]);

    // What is written out is in the clear, and MariaDB's own program reads all of it.
    let out = rig.path("out");
    let said = rig.tdekit(&["restore", text(&logs), "--to", text(&out)]);
    assert!(said.contains("mariadb-binlog --start-position=POSITION --stop-datetime="), "{said}");
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = names(&out).into_iter().map(|name| out.join(name)).collect();
    assert_eq!(files.len(), shipped.len());
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let read = Command::new(&reader).arg("--no-defaults").args(&files).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let sql = String::from_utf8_lossy(&read.stdout).into_owned();
    let rows = server.sql("SELECT COUNT(*) FROM test.t").unwrap();
    assert_eq!(sql.matches(&format!("VALUES ('{MARKER}')")).count().to_string(), rows.trim());
    let run = rig.run_tdekit(&["restore", text(&logs), "--to", text(&out)]);
    assert_ne!(run.code, 0, "the directory is there");

    gone_are_shipped_again(&rig, &socket, (&logs, &shipped));
    // Logs that were purged before they were shipped.
    server.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS").unwrap();
    let last = server.sql("SHOW MASTER STATUS").unwrap();
    let last = last.split('\t').next().unwrap().to_owned();
    purge(&server, &last);
    server.sql("FLUSH BINARY LOGS").unwrap();
    let run = rig.run_tdekit(&archive(&socket, &logs, &["--once"]));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("were purged on the server"), "{}", run.err);
    known_gap_is_a_status(&rig, &socket, &logs);
    taken_meanwhile(&rig, &server, &logs);
    let gap = rig.path("gap");
    let run = rig.run_tdekit(&["restore", text(&logs), "--to", text(&gap)]);
    assert_eq!(run.code, 4, "{}", run.err);
    assert!(run.err.contains("nothing is replayed across that"), "{}", run.err);
    assert_eq!(names(&gap).len(), names(&logs).len(), "what is there was written out");

    let run = rig.run_tdekit(&["verify", text(&logs)]);
    assert_eq!(run.code, 4, "{}", run.err);
    assert!(run.err.contains("nothing is replayed across that"), "{}", run.err);
    damage_is_refused(&rig, &logs, (&shipped, &socket));
    damaged_next(&rig, &server, &logs);
    logs_begun_anew_are_told_apart(&rig, &server, &socket);
    // The server begins anew: nothing is mixed.
    server.sql("RESET MASTER; FLUSH BINARY LOGS").unwrap();
    let run = rig.run_tdekit(&archive(&socket, &logs, &["--once"]));
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("begun anew"), "{}", run.err);
    server.stop().unwrap();
}

/// Objects in the middle of an archive that are gone are shipped again, behind what is new; those
/// at its beginning are not.
fn gone_are_shipped_again(rig: &Rig, socket: &str, (logs, shipped): (&Path, &[String])) {
    let object = |at: usize| logs.join(&shipped[at]);
    let whole = fs::read(object(2)).unwrap();
    for at in [0, 2] {
        fs::remove_file(object(at)).unwrap();
    }
    let run = rig.run_tdekit(&archive(socket, logs, &["--once"]));
    assert_eq!(run.code, 0, "{}", run.err);
    let told = format!("{} was gone", shipped[2].trim_end_matches(".binlog"));
    assert!(run.err.contains(&told), "{}", run.err);
    assert_eq!(names(logs), shipped[1..]);
    rig.tdekit(&["verify", text(logs)]);
    // Something else at its place is named, and stays.
    fs::write(object(2), &whole[..whole.len() / 2]).unwrap();
    let run = rig.run_tdekit(&archive(socket, logs, &["--once"]));
    assert!(run.code == 4 && run.err.contains(&shipped[2]), "{} {}", run.code, run.err);
    fs::remove_file(object(2)).unwrap();
    rig.tdekit(&archive(socket, logs, &["--once"]));
    // The next steps have all of them.
    let first = rig.path("first");
    rig.tdekit(&archive(socket, &first, &["--once"]));
    fs::rename(first.join(&shipped[0]), object(0)).unwrap();
}

/// Logs of the same names and lengths that were begun at another time are not mixed in.
fn logs_begun_anew_are_told_apart(rig: &Rig, server: &Server, socket: &str) {
    let again = rig.path("again");
    server.sql("RESET MASTER; FLUSH BINARY LOGS").unwrap();
    let run = rig.run_tdekit(&archive(socket, &again, &["--once"]));
    assert_eq!(run.code, 0, "{}", run.err);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    server.sql("RESET MASTER; FLUSH BINARY LOGS; FLUSH BINARY LOGS").unwrap();
    let run = rig.run_tdekit(&archive(socket, &again, &["--once"]));
    assert!(run.code == 1 && run.err.contains("another time"), "{}", run.err);
}

/// Has the server remove the logs before this one: it keeps those that InnoDB has not settled yet.
fn purge(server: &Server, first: &str) {
    for _ in 0..200 {
        server.sql(&format!("PURGE BINARY LOGS TO '{first}'")).unwrap();
        if server.sql("SHOW BINARY LOGS").unwrap().starts_with(first) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("logs before {first} stay");
}

/// A gap is a warning once. From then on it is a status.
fn known_gap_is_a_status(rig: &Rig, socket: &str, logs: &Path) {
    let run = rig.run_tdekit(&archive(socket, logs, &["--once"]));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!run.err.contains("warning"), "{}", run.err);
    assert!(run.err.contains("note: as reported before, nothing is replayed"), "{}", run.err);
    let run = rig.run_tdekit(&archive(socket, logs, &["--once", "--json"]));
    let report = run.out.replace([' ', '\n'], "");
    assert!(run.code == 0 && run.err.is_empty(), "{}", run.err);
    assert!(report.contains("\"shipped\":[],\"gaps\":[{\"first\":"), "{}", run.out);
    assert!(report.contains("\"new\":false}]"), "{}", run.out);
}

/// Another process shipped the next log; the hint has options of this command only.
fn taken_meanwhile(rig: &Rig, server: &Server, logs: &Path) {
    let socket = text(&server.socket()).to_owned();
    let process = Command::new(command().unwrap())
        .args(archive(&socket, logs, &[]))
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let id = process.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, id.as_str()]).status().unwrap().success());
    };
    signal("-STOP");
    server.sql("FLUSH BINARY LOGS").unwrap();
    rig.tdekit(&archive(&socket, logs, &["--once"]));
    signal("-CONT");
    let ended = process.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && told.contains("another process ships"), "{told}");
    assert!(!told.contains("--append"), "{told}");
}

/// Where something else has the name of the next log, the error names it. Once it is moved away,
/// the log is shipped.
fn damaged_next(rig: &Rig, server: &Server, logs: &Path) {
    let socket = text(&server.socket()).to_owned();
    let writing = server.sql("SHOW MASTER STATUS").unwrap();
    let next = logs.join(format!("{}.binlog", writing.split('\t').next().unwrap()));
    let last = logs.join(names(logs).last().unwrap());
    let whole = fs::read(&last).unwrap();
    server.sql("FLUSH BINARY LOGS").unwrap();
    // Cut short, another log, and no media set.
    for bytes in [&whole[..whole.len() / 2], &whole, b"nothing"] {
        fs::write(&next, bytes).unwrap();
        let run = rig.run_tdekit(&archive(&socket, logs, &["--once"]));
        assert_eq!(run.code, 4, "{}", run.err);
        assert!(run.err.contains(&format!("{} is damaged", text(&next))), "{}", run.err);
        assert!(run.err.contains("move it to another place"), "{}", run.err);
    }
    fs::remove_file(&next).unwrap();
    rig.tdekit(&archive(&socket, logs, &["--once"]));
    assert!(next.exists());
}

/// Damages objects of an archive in turn: nothing is written out.
fn damage_is_refused(rig: &Rig, logs: &Path, (shipped, socket): (&[String], &str)) {
    // A flipped bit: nothing is written.
    let broken = logs.join(&shipped[0]);
    let intact = fs::read(&broken).unwrap();
    let mut bytes = intact.clone();
    let block = bytes.windows(4).position(|it| it == b"tblk").unwrap();
    bytes[block + 100] ^= 1;
    fs::write(&broken, bytes).unwrap();
    let none = rig.path("none");
    let refused = || {
        let run = rig.run_tdekit(&["restore", text(logs), "--to", text(&none)]);
        assert_eq!(run.code, 4, "{}", run.err);
        assert!(!none.exists());
    };
    refused();
    fs::write(&broken, &intact).unwrap();
    // Nothing is shipped in silence behind a log that is known to be damaged.
    let second = logs.join(&shipped[1]);
    let whole = fs::read(&second).unwrap();
    let mut bytes = whole.clone();
    bytes[block + 100] ^= 1;
    let warns = || {
        rig.run_tdekit(&["verify", text(logs)]);
        let run = rig.run_tdekit(&archive(socket, logs, &["--once"]));
        assert_eq!(run.code, 0, "{}", run.err);
        run.err.contains(&format!("{} was damaged when it was last read", text(&second)))
    };
    fs::write(&second, bytes).unwrap();
    assert!(warns());
    fs::write(&second, whole).unwrap();
    assert!(!warns());
    // As little with an object that is not a log any more, or holds another one.
    let last = logs.join(shipped.last().unwrap());
    let other = [intact.as_slice(), &intact[..intact.len() / 2], b"XXXX", &[]];
    for (object, skipped) in [(&broken, 1), (&last, 0)] {
        let whole = fs::read(object).unwrap();
        // The first log is no other log in its own place.
        for bytes in other.iter().skip(skipped) {
            fs::write(object, bytes).unwrap();
            refused();
        }
        fs::write(object, whole).unwrap();
    }
    for (option, value) in [("--position", "1"), ("--json", ""), ("--database", "app")] {
        let more = [option, value].into_iter().filter(|word| !word.is_empty());
        let words = ["restore", text(logs), "--to", text(&none)].into_iter().chain(more);
        assert_eq!(rig.run_tdekit(&words.collect::<Vec<_>>()).code, 2, "{option}");
    }
}

/// Backs up a server through `tdekit backup --stdin`. `lsn` gets what the next incremental backup
/// needs, and `base` has that of the one before.
fn back_up(rig: &Rig, server: &Server, (name, to): (&str, &Path), base: Option<&Path>, lsn: &Path) {
    let mut backup = Command::new("mariadb-backup");
    match rig.option_file() {
        Some(options) => backup.arg(format!("--defaults-file={}", options.display())),
        None => backup.arg("--no-defaults"),
    };
    if let Some(plugins) = &rig.plugin_directory {
        backup.arg(format!("--plugin-dir={}", plugins.display()));
    }
    backup.args(["--backup", "--stream=xbstream", "--user=root"]);
    backup.arg(format!("--socket={}", server.socket().display()));
    backup.arg(format!("--datadir={}", server.data().display()));
    backup.arg(format!("--extra-lsndir={}", lsn.display()));
    if let Some(base) = base {
        backup.arg(format!("--incremental-basedir={}", base.display()));
    }
    let said = rig.path("mariadb-backup.err");
    backup.envs(rig.environment.iter().map(|(name, value)| (name, value)));
    backup.stdout(Stdio::piped()).stderr(fs::File::create(&said).unwrap());
    let mut running = backup.spawn().unwrap();
    let stored = Command::new(command().unwrap())
        .args(["backup", "--stdin", "--name", name, "--to", text(to), "--certificate", CERTIFICATE])
        .envs(rig.environment.iter().map(|(name, value)| (name, value)))
        .stdin(running.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(running.wait().unwrap().success(), "{}", fs::read_to_string(&said).unwrap());
    assert!(stored.status.success(), "{}", String::from_utf8_lossy(&stored.stderr));
}

/// Restores a stream and unpacks it into a new directory.
fn unpack(rig: &Rig, media: &Path, to: &Path) {
    let stream = to.with_extension("xbstream");
    rig.tdekit(&["restore", text(media), "--to", text(&stream)]);
    fs::create_dir(to).unwrap();
    let status = Command::new("mbstream")
        .arg("-x")
        .arg("-C")
        .arg(to)
        .stdin(fs::File::open(&stream).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
}

/// Waits for the next second, and returns it as `--at` takes it.
fn next_second() -> String {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let second = begun.as_secs() + 1;
    std::thread::sleep(Duration::from_secs(second) - begun + Duration::from_millis(20));
    let at = format!("@{second}");
    let output = Command::new("date").args(["-u", "-d", &at, "+%F %T"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
#[ignore = "full: a restored server"]
fn a_server_is_back_at_a_second_between_two_inserts() {
    let Some(rig) = Rig::new() else { return };
    let Some(program) = needed("mariadb-backup") else { return };
    if needed("mariadb-binlog").is_none() || needed("mbstream").is_none() {
        return;
    }
    let server = rig.start(&rig.fresh("data"), &OPTIONS);
    let insert = |n: u32| server.sql(&format!("INSERT INTO test.t VALUES ({n}, '{MARKER}')"));
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT)").unwrap();
    insert(1).unwrap();
    let (full, more) = (rig.path("full.bak"), rig.path("more.bak"));
    let (lsn, lsn_more) = (rig.path("lsn"), rig.path("lsn-more"));
    back_up(&rig, &server, ("full", &full), None, &lsn);
    insert(2).unwrap();
    back_up(&rig, &server, ("more", &more), Some(&lsn), &lsn_more);
    let (socket, logs) = (text(&server.socket()).to_owned(), rig.path("logs"));
    insert(3).unwrap();
    rig.tdekit(&archive(&socket, &logs, &["--once", "--every", "1m"]));
    insert(4).unwrap();
    // Between the inserts of 4 and 5.
    let at = next_second();
    insert(5).unwrap();
    rig.tdekit(&archive(&socket, &logs, &["--once", "--every", "1m"]));
    server.stop().unwrap();
    fs::remove_dir_all(rig.path("data")).unwrap();

    let (base, delta) = (rig.path("base"), rig.path("delta"));
    unpack(&rig, &full, &base);
    unpack(&rig, &more, &delta);
    let target = format!("--target-dir={}", base.display());
    let prepare = |more: Vec<String>| {
        let own = vec!["--prepare".to_owned(), target.clone()];
        mariadb_backup(&rig, &program, &[own, more].concat());
    };
    prepare(Vec::new());
    prepare(vec![format!("--incremental-dir={}", delta.display())]);
    let position = fs::read_to_string(delta.join("xtrabackup_binlog_info"))
        .or_else(|_| fs::read_to_string(delta.join("mariadb_backup_binlog_info")))
        .unwrap();
    let mut words = position.split_whitespace();
    let (file, position) = (words.next().unwrap(), words.next().unwrap());
    let restored = rig.path("restored");
    fs::create_dir(&restored).unwrap();
    let back = ["--copy-back".to_owned(), target, format!("--datadir={}", restored.display())];
    mariadb_backup(&rig, &program, &back);
    let server = rig.start(&restored, &[]);
    let rows = || server.sql("SELECT GROUP_CONCAT(n ORDER BY n) FROM test.t").unwrap();
    assert_eq!(rows().trim(), "1,2");

    let out = rig.path("out");
    let said = rig.tdekit(&["restore", text(&logs), "--at", &at, "--to", text(&out)]);
    let line = said.lines().find(|line| line.contains("mariadb-binlog")).unwrap();
    assert!(line.contains(&format!("--stop-datetime='{at}'")), "{said}");
    // As a user does: the position is put in, and files before that of the backup are left out.
    let mut line = line.replace("POSITION", position);
    for name in names(&out).iter().filter(|name| name.as_str() < file) {
        line = line.replace(&format!(" {}", out.join(name).display()), "");
    }
    let client = format!("mariadb --no-defaults --user=root --socket={}", text(&server.socket()));
    let line = line.replace("| mariadb", &format!("| {client}"));
    let line = line.replace("mariadb-binlog ", "mariadb-binlog --no-defaults ");
    let done = Command::new("sh").arg("-c").arg(&line).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(rows().trim(), "1,2,3,4", "{line}");
    server.stop().unwrap();
    for directory in [&logs, &restored] {
        assert_eq!(holding(directory, MARKER), Vec::<String>::new());
    }
}
