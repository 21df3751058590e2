//! Records the file operations of a program and all processes that it starts. It uses `strace`, so
//! that it works on the shipped command as it is.
//!
//! Writes through mapped memory are not seen: SQLite writes that way only to the index of a log,
//! which no crash leaves behind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use crate::error::{Error, Result};
use crate::record::{FileId, Log, Op};

/// The calls that change files, or that show which file a descriptor refers to.
const CALLS: &str = "?open,?creat,openat,close,read,write,pwrite64,writev,pwritev,ftruncate,\
                     truncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,?rename,\
                     ?renameat,renameat2,?unlink,unlinkat,?link,linkat,?mkdir,mkdirat,?rmdir,dup,\
                     ?dup2,dup3,fcntl,lseek,clone,?clone3,?fork,?vfork,execve";

/// A program's run.
#[derive(Debug)]
pub struct Traced {
    /// Its file operations.
    pub log: Log,
    /// Its output.
    pub output: Output,
}

/// Runs `command`, and records the operations on files in and below `roots`. Whatever is written to
/// the file `told` is the number of an acknowledged transaction.
///
/// # Errors
/// [`Error::Setup`] if `strace` is missing, or an unknown call is made.
pub fn record(command: &Command, roots: &[PathBuf], told: Option<&Path>) -> Result<Traced> {
    let mut reader = Reader::new(roots, told)?;
    let text = tempfile::NamedTempFile::new().map_err(Error::io(Path::new("the trace")))?;
    let mut strace = strace(command);
    strace.args(["--seccomp-bpf".as_ref(), "-o".as_ref(), text.path().as_os_str()]);
    strace.args(["-xx", "-s", "100000000", "-e", &format!("trace={CALLS}")]);
    strace.args(["-e", "signal=none", "--"]).arg(command.get_program()).args(command.get_args());
    let output = strace.output().map_err(Error::io(Path::new("strace")))?;
    let lines = fs::read_to_string(text.path()).map_err(Error::io(text.path()))?;
    if lines.is_empty() {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Setup(format!("nothing was traced: {told}")));
    }
    let mut begun: HashMap<u32, String> = HashMap::new();
    for line in lines.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let pid = pid.parse().unwrap_or(0);
        let call = call.trim_start();
        if let Some(start) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(pid, start.to_owned());
        } else if let Some(rest) = call.strip_prefix("<... ") {
            let end = rest.split_once(" resumed>").map_or("", |(_, end)| end);
            if let Some(start) = begun.remove(&pid) {
                reader.line(pid, &(start + end))?;
            }
        } else {
            reader.line(pid, call)?;
        }
    }
    Ok(Traced { log: reader.log, output })
}

/// Runs `command`, and makes it fail or be killed in a call. `inject` is in `strace`'s syntax, such
/// as `pwrite64:error=EIO:when=3`. Every call stops the program: with `--seccomp-bpf`, strace 6.1
/// sends no signal.
///
/// # Errors
/// If `strace` is missing.
pub fn inject(command: &Command, inject: &str) -> Result<Output> {
    let call = inject.split(':').next().unwrap_or_default();
    let mut strace = strace(command);
    strace.args(["-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    strace.arg(format!("inject={inject}")).arg("--").arg(command.get_program());
    strace.args(command.get_args()).output().map_err(Error::io(Path::new("strace")))
}

/// Returns true if this machine has `strace`, and permits tracing. With the variable `CI` it must.
#[must_use]
pub fn is_possible() -> bool {
    let possible = inject(&Command::new("/bin/true"), "fsync:error=EIO:when=1")
        .is_ok_and(|output| output.status.success());
    assert!(possible || std::env::var_os("CI").is_none(), "`cargo xtask setup` installs strace");
    if !possible {
        eprintln!("skipped: no strace, or it may not trace a process");
    }
    possible
}

fn strace(command: &Command) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq"]).stdin(Stdio::null()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            strace.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        strace.current_dir(directory);
    }
    strace
}

/// Target of a descriptor.
#[derive(Debug, Clone)]
enum Open {
    /// A recorded file.
    File { file: FileId, at: u64, append: bool },
    /// A directory within the roots, one of the roots, or a parent of one.
    Directory(PathBuf),
    /// Acknowledgements.
    Told,
    /// A directory elsewhere.
    Other(PathBuf),
}

struct Reader<'a> {
    roots: &'a [PathBuf],
    told: Option<&'a Path>,
    log: Log,
    names: HashMap<PathBuf, FileId>,
    sizes: HashMap<FileId, u64>,
    next: FileId,
    /// The table of descriptors of each thread, by its number; threads share one.
    tables: Vec<HashMap<i64, Open>>,
    table_of: HashMap<u32, usize>,
}

impl<'a> Reader<'a> {
    fn new(roots: &'a [PathBuf], told: Option<&'a Path>) -> Result<Self> {
        let mut reader = Self {
            roots,
            told,
            log: Log::default(),
            names: HashMap::new(),
            sizes: HashMap::new(),
            next: 1,
            tables: vec![HashMap::new()],
            table_of: HashMap::new(),
        };
        for root in roots {
            reader.note(root).map_err(Error::io(root))?;
        }
        Ok(reader)
    }

    fn note(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                self.note(&entry?.path())?;
            }
        } else if path.is_file() && !Self::is_left_out(path) {
            let file = self.named(path);
            let bytes = fs::read(path)?;
            self.sizes.insert(file, bytes.len() as u64);
            self.log.base.push((path.to_owned(), file, bytes));
        }
        Ok(())
    }

    fn named(&mut self, path: &Path) -> FileId {
        let file = self.next;
        self.next += 1;
        self.names.insert(path.to_owned(), file);
        self.log.names.insert(file, Some(path.to_owned()));
        file
    }

    fn is_left_out(path: &Path) -> bool {
        path.to_string_lossy().ends_with("-shm")
    }

    fn covers(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root)) && !Self::is_left_out(path)
    }

    fn table(&mut self, pid: u32) -> &mut HashMap<i64, Open> {
        let table = *self.table_of.entry(pid).or_insert(0);
        &mut self.tables[table]
    }

    fn path(&mut self, pid: u32, directory: Option<&str>, name: &str) -> PathBuf {
        let name = PathBuf::from(String::from_utf8_lossy(&unhex(name)).into_owned());
        if name.is_absolute() {
            return name;
        }
        let fd = directory.and_then(|directory| directory.parse().ok()).unwrap_or(-100);
        match self.table(pid).get(&fd) {
            Some(Open::Directory(path) | Open::Other(path)) => path.join(name),
            _ => name,
        }
    }

    fn line(&mut self, pid: u32, line: &str) -> Result<()> {
        let Some((name, rest)) = line.split_once('(') else { return Ok(()) };
        let Some((args, result)) = rest.rsplit_once(" = ") else { return Ok(()) };
        let args = args.trim_end().trim_end_matches(')');
        let result = result.split(' ').next().unwrap_or_default();
        let Ok(result) = result.parse::<i64>() else { return Ok(()) };
        if result < 0 {
            return Ok(());
        }
        if matches!(name, "clone" | "clone3" | "fork" | "vfork") {
            self.forked(pid, u32::try_from(result).unwrap_or(0), args.contains("CLONE_FILES"));
            return Ok(());
        }
        let args: Vec<&str> = args.split(", ").collect();
        match name {
            "open" | "creat" => self.opened(pid, None, args[0], args.get(1), result),
            "openat" => self.opened(pid, Some(args[0]), args[1], args.get(2), result),
            "rename" => self.renamed(pid, (None, args[0]), (None, args[1])),
            "renameat" | "renameat2" => {
                self.renamed(pid, (Some(args[0]), args[1]), (Some(args[2]), args[3]));
            }
            "unlink" | "rmdir" => self.unlinked(pid, None, args[0]),
            "unlinkat" => self.unlinked(pid, Some(args[0]), args[1]),
            "mkdir" => self.made_directory(pid, None, args[0]),
            "mkdirat" => self.made_directory(pid, Some(args[0]), args[1]),
            "truncate" | "link" | "linkat" => {
                let named = self.path(pid, None, args[args.len().saturating_sub(2)]);
                if self.covers(&named) {
                    return Err(Error::Setup(format!("{name} of {}", named.display())));
                }
            }
            _ => self.on_descriptor(pid, name, &args, result)?,
        }
        Ok(())
    }

    fn forked(&mut self, parent: u32, child: u32, shares: bool) {
        let table = *self.table_of.entry(parent).or_insert(0);
        let own = if shares {
            table
        } else {
            self.tables.push(self.tables[table].clone());
            self.tables.len() - 1
        };
        self.table_of.insert(child, own);
    }

    fn opened(&mut self, pid: u32, at: Option<&str>, name: &str, flags: Option<&&str>, fd: i64) {
        let path = self.path(pid, at, name);
        let flags = flags.copied().unwrap_or("O_CREAT|O_TRUNC");
        let open = if self.told == Some(path.as_path()) {
            Open::Told
        } else if self.roots.iter().any(|root| root.parent() == Some(&path)) {
            Open::Directory(path)
        } else if !self.covers(&path) {
            Open::Other(path)
        } else if path.is_dir() || flags.contains("O_DIRECTORY") {
            Open::Directory(path)
        } else {
            let known = self.names.get(&path).copied();
            if known.is_none() && !flags.contains("O_CREAT") {
                // A directory that no longer exists.
                self.table(pid).insert(fd, Open::Directory(path));
                return;
            }
            let file = known.unwrap_or_else(|| {
                let file = self.named(&path);
                self.log.ops.push(Op::Create { file, path });
                file
            });
            if flags.contains("O_TRUNC") && self.sizes.get(&file).is_some_and(|size| *size > 0) {
                self.truncated(file, 0);
            }
            Open::File { file, at: 0, append: flags.contains("O_APPEND") }
        };
        self.table(pid).insert(fd, open);
    }

    fn truncated(&mut self, file: FileId, size: u64) {
        self.sizes.insert(file, size);
        self.log.ops.push(Op::Truncate { file, size });
    }

    fn wrote(&mut self, file: FileId, offset: u64, mut data: Vec<u8>, len: i64) {
        data.truncate(usize::try_from(len).unwrap_or(0));
        let size = self.sizes.entry(file).or_default();
        *size = (*size).max(offset + data.len() as u64);
        self.log.ops.push(Op::Write { file, offset, data });
    }

    fn renamed(&mut self, pid: u32, from: (Option<&str>, &str), to: (Option<&str>, &str)) {
        let (from, to) = (self.path(pid, from.0, from.1), self.path(pid, to.0, to.1));
        if let Some(file) = self.names.remove(&from) {
            self.names.insert(to.clone(), file);
            self.log.names.insert(file, Some(to.clone()));
            self.log.ops.push(Op::Rename { file, from, to });
        }
    }

    fn unlinked(&mut self, pid: u32, at: Option<&str>, name: &str) {
        let path = self.path(pid, at, name);
        if let Some(file) = self.names.remove(&path) {
            self.log.ops.push(Op::Delete { file, path, directory: false });
        }
    }

    fn made_directory(&mut self, pid: u32, at: Option<&str>, name: &str) {
        let path = self.path(pid, at, name);
        if self.covers(&path) {
            self.log.ops.push(Op::MakeDirectory { path });
        }
    }

    fn on_descriptor(&mut self, pid: u32, name: &str, args: &[&str], result: i64) -> Result<()> {
        let Some(fd) = args.first().and_then(|fd| fd.parse::<i64>().ok()) else { return Ok(()) };
        let Some(open) = self.table(pid).get(&fd).cloned() else { return Ok(()) };
        match (name, &open) {
            ("close", _) => drop(self.table(pid).remove(&fd)),
            ("dup" | "dup2" | "dup3", _) => drop(self.table(pid).insert(result, open)),
            ("fcntl", _) if args[1].starts_with("F_DUPFD") => {
                self.table(pid).insert(result, open);
            }
            ("write", Open::Told) => {
                let text = String::from_utf8_lossy(&unhex(args[1])).into_owned();
                let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
                self.log.ops.extend(numbers.map(Op::Acked));
            }
            ("write", &Open::File { file, at, append }) => {
                let at = if append { self.sizes.get(&file).copied().unwrap_or(0) } else { at };
                self.wrote(file, at, unhex(args[1]), result);
                let after = at + result.unsigned_abs();
                self.table(pid).insert(fd, Open::File { file, at: after, append });
            }
            ("read", &Open::File { file, at, append }) => {
                let after = at + result.unsigned_abs();
                self.table(pid).insert(fd, Open::File { file, at: after, append });
            }
            ("lseek", &Open::File { file, append, .. }) => {
                let at = result.unsigned_abs();
                self.table(pid).insert(fd, Open::File { file, at, append });
            }
            ("pwrite64", &Open::File { file, .. }) => {
                let offset = args[3].parse().unwrap_or(0);
                self.wrote(file, offset, unhex(args[1]), result);
            }
            ("ftruncate", &Open::File { file, .. }) => {
                self.truncated(file, args[1].parse().unwrap_or(0));
            }
            ("fsync" | "fdatasync", &Open::File { file, .. }) => {
                self.log.ops.push(Op::Sync { file, directory: false });
            }
            ("fsync" | "fdatasync", Open::Directory(path)) => {
                self.log.ops.push(Op::SyncDirectory { path: path.clone() });
            }
            (
                "writev" | "pwritev" | "fallocate" | "copy_file_range" | "sendfile",
                Open::File { .. },
            ) => return Err(Error::Setup(format!("{name} of a recorded file"))),
            _ => {}
        }
        Ok(())
    }
}

/// Parses the bytes of a string in the form of `-xx`.
fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('"').split("\\x").skip(1);
    digits
        .map(|digits| u8::from_str_radix(digits.get(..2).unwrap_or(""), 16).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_call_fails_or_is_the_last() {
        if !is_possible() {
            return;
        }
        for fault in ["error=EIO", "signal=KILL"] {
            let directory = tempfile::tempdir().unwrap();
            let [first, second, third] = ["a", "b", "c"].map(|name| directory.path().join(name));
            let mut command = Command::new("mkdir");
            command.args([&first, &second, &third]).env("PATH", "/usr/bin:/bin");
            let output = inject(&command, &format!("mkdir:{fault}:when=2")).unwrap();
            assert!(!output.status.success(), "{fault}: {output:?}");
            assert!(first.exists() && !second.exists(), "{fault}");
            assert_eq!(third.exists(), fault == "error=EIO", "{fault}");
        }
    }

    #[test]
    fn a_shell_is_recorded_with_what_it_starts() {
        if !is_possible() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::write(root.join("old"), "before").unwrap();
        let told = root.join("told");
        let script = format!(
            "cd {0}; mkdir {0}/below; printf one > {0}/new; (printf two >> {0}/new); \
             echo 7 > {0}/told; mv {0}/new {0}/below/moved; rm {0}/old; sync {0}/below",
            root.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("PATH", "/usr/bin:/bin");
        let traced = record(&command, std::slice::from_ref(&root), Some(&told)).unwrap();
        assert!(traced.output.status.success(), "{traced:?}");
        let mut written = Vec::new();
        let mut kinds = Vec::new();
        for op in &traced.log.ops {
            match op {
                Op::Write { offset, data, .. } => written.push((*offset, data.clone())),
                Op::MakeDirectory { path } => kinds.push(format!("mkdir {}", path.display())),
                Op::Rename { to, .. } => kinds.push(format!("rename {}", to.display())),
                Op::Delete { path, .. } => kinds.push(format!("delete {}", path.display())),
                Op::SyncDirectory { path } => kinds.push(format!("sync {}", path.display())),
                Op::Acked(n) => kinds.push(format!("acked {n}")),
                _ => {}
            }
        }
        assert_eq!(written, [(0, b"one".to_vec()), (3, b"two".to_vec())]);
        let at = root.display();
        let expected = [
            format!("mkdir {at}/below"),
            "acked 7".into(),
            format!("rename {at}/below/moved"),
            format!("delete {at}/old"),
            format!("sync {at}/below"),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(traced.log.base.len(), 1);
    }
}
