//! The sides of a comparison: how each opens a database, and how its copies are created.

mod idle;

use std::path::{Path, PathBuf};

use tdekit_bench_report::{Library, Role, Side};

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::job::{LibraryChoice, Ready, Request};
use crate::key_store::{self, CERTIFICATE, KeyEnvironment};
use crate::peers::Peer;
use crate::plan::{Config, Further, Part};
use crate::private::Directory;
use crate::process::WorkerProcess;
use crate::speedtest::Stack;
use crate::subject::write_out;
use crate::tools::Tools;

pub(crate) use idle::{idle_time, idle_worker};

/// How a side's copies are created from a plain database.
enum Maker {
    /// A plain copy.
    Plain,
    /// `tdekit encrypt`.
    Encrypt { tdekit: PathBuf, algorithm: String },
    /// The peer's own way.
    Peer(Peer),
}

/// A side, ready to start workers and to create copies.
pub(crate) struct SideSpec {
    pub(crate) side: Side,
    library: LibraryChoice,
    extension: Option<PathBuf>,
    environment: KeyEnvironment,
    /// Further variables of its workers.
    worker_environment: KeyEnvironment,
    /// Statements that set the key of a connection.
    key_pragmas: Vec<String>,
    /// Its blocks are slowed down by this many thousandths.
    pub(crate) toll_per_mille: Option<u64>,
    /// The classes that it runs.
    pub(crate) part: Part,
    /// Where its files are, if not with those of the other sides.
    place: Option<Directory>,
    maker: Maker,
    worker: PathBuf,
}

/// Options that determine the sides.
pub(crate) struct SideChoice<'a> {
    pub(crate) config: &'a Config,
    pub(crate) tools: &'a Tools,
    pub(crate) page_size_bytes: u32,
}

impl SideChoice<'_> {
    /// Returns a key store in `directory`; none is needed if nothing is encrypted.
    pub(crate) fn keys(&self, directory: &Path) -> Result<KeyEnvironment> {
        if self.config.given.basics.aa {
            return Ok(KeyEnvironment::new());
        }
        key_store::make(&self.tools.tdekit, directory)
    }
}

/// Sets up every side, base first; `keys` identifies the key store of the encrypted one.
pub(crate) fn set_up(choice: &SideChoice<'_>, keys: &KeyEnvironment) -> Result<Vec<SideSpec>> {
    let spec = |id: &str, label: &str, role, maker| spec(choice, (id, label, role), maker);
    let mut sides = vec![spec("base", "plain", Role::Base, Maker::Plain)];
    if choice.config.given.basics.aa {
        sides.push(spec("control", "plain again", Role::Encrypted, Maker::Plain));
    } else {
        if !choice.tools.extension.is_file() {
            return Err(BenchError::NoExtension { path: choice.tools.extension.clone() });
        }
        let first = choice.config.given.basics.algorithm();
        sides.push(encrypted(choice, "tdekit", first, keys));
        let Further { algorithms, part } = &choice.config.further;
        for algorithm in algorithms {
            // One that was not asked for is left out where the command lacks it.
            if *part == Part::All || choice.tools.offers(algorithm) {
                let side = encrypted(choice, &format!("tdekit-{algorithm}"), algorithm, keys);
                sides.push(SideSpec { part: *part, ..side });
            }
        }
    }
    for peer in &choice.config.peers {
        add_peer(&mut sides, peer, choice, &spec)?;
    }
    for peer in &choice.config.directories {
        let (id, label) = (format!("directory-{}", peer.label), format!("plain on {}", peer.label));
        let mut side = spec(&id, &label, Role::Peer, Maker::Plain);
        side.side.facts = peer.facts();
        side.place = Some(peer.open()?);
        sides.push(side);
    }
    for side in &mut sides {
        (_, side.side.library) = side.start()?;
    }
    Ok(sides)
}

/// Returns a side of ours.
fn encrypted(
    choice: &SideChoice<'_>,
    id: &str,
    algorithm: &str,
    keys: &KeyEnvironment,
) -> SideSpec {
    let (tdekit, algorithm) = (choice.tools.tdekit.clone(), algorithm.to_owned());
    let label = format!("tdekit {algorithm}");
    let maker = Maker::Encrypt { tdekit, algorithm: algorithm.clone() };
    let mut side = spec(choice, (id, &label, Role::Encrypted), maker);
    side.extension = Some(choice.tools.extension.clone());
    side.environment = keys.clone();
    // A backup of an encrypted database goes to an encrypted file.
    side.worker_environment = vec![
        ("TDEKIT_ENCRYPT_NEW".into(), CERTIFICATE.into()),
        ("TDEKIT_ENCRYPT_NEW_ALGORITHM".into(), algorithm.as_str().into()),
    ];
    side.side.cipher = Some(algorithm);
    side
}

/// Returns a further base, slowed down by this many thousandths.
pub(crate) fn dearer(choice: &SideChoice<'_>, per_mille: u64) -> Result<SideSpec> {
    let mut side = spec(choice, ("injected", "plain, made dearer", Role::Encrypted), Maker::Plain);
    side.toll_per_mille = Some(per_mille);
    (_, side.side.library) = side.start()?;
    Ok(side)
}

/// Returns a side of the chosen library.
fn spec(choice: &SideChoice<'_>, (id, label, role): (&str, &str, Role), maker: Maker) -> SideSpec {
    SideSpec {
        side: Side {
            library: Library { origin: choice.config.library_origin.clone(), ..Library::default() },
            ..Side::new(id, label, role)
        },
        library: choice.config.library.clone(),
        extension: None,
        environment: Vec::new(),
        worker_environment: Vec::new(),
        key_pragmas: Vec::new(),
        toll_per_mille: None,
        part: Part::All,
        place: None,
        maker,
        worker: choice.tools.worker.clone(),
    }
}

/// Adds a peer, and once for each library its plain side for comparison.
fn add_peer(
    sides: &mut Vec<SideSpec>,
    peer: &Peer,
    choice: &SideChoice<'_>,
    spec: &dyn Fn(&str, &str, Role, Maker) -> SideSpec,
) -> Result<()> {
    let path = peer.library.locate()?;
    let name = peer.library.name();
    let plain_id = format!("{name}-plain");
    let spec = |id: &str, label: &str, role, maker| {
        let mut side = spec(id, label, role, maker);
        side.library = LibraryChoice::Shared(path.clone());
        peer.library.origin().clone_into(&mut side.side.library.origin);
        side
    };
    let cipher = peer.cipher_name();
    let (id, label) = match &peer.cipher {
        Some(cipher) => (format!("{name}-{cipher}"), format!("{name} {cipher}")),
        None => (name.to_owned(), format!("{name} {cipher}")),
    };
    let mut side = spec(&id, &label, Role::Peer, Maker::Peer(peer.clone()));
    side.key_pragmas = peer.key_pragmas(choice.page_size_bytes);
    side.side.cipher = Some(cipher);
    side.side.plain = Some(plain_id.clone());
    sides.push(side);
    if !sides.iter().any(|side| side.side.id == plain_id) {
        sides.push(spec(&plain_id, &format!("{name} plain"), Role::PeerPlain, Maker::Plain));
    }
    Ok(())
}

impl SideSpec {
    /// Returns the directory of its files; `root` is that of the run.
    pub(crate) fn root<'a>(&'a self, root: &'a Path) -> &'a Path {
        self.place.as_ref().map_or(root, Directory::path)
    }

    /// Starts a worker with this side's library and extension.
    pub(crate) fn start(&self) -> Result<(WorkerProcess, Library)> {
        let environment = [self.environment.as_slice(), &self.worker_environment].concat();
        let mut worker = WorkerProcess::start(&self.worker, &self.side.id, &environment)?;
        let (library, extension) = (self.library.clone(), self.extension.clone());
        let request = Request::Setup { library, extension };
        let Ready { version, source_id, compile_options, instructions } = worker.ask(&request)?;
        worker.instructions = instructions;
        let origin = self.side.library.origin.clone();
        Ok((worker, Library { origin, version, source_id, compile_options }))
    }

    /// Starts a worker that runs commands.
    pub(crate) fn start_runner(&self) -> Result<WorkerProcess> {
        WorkerProcess::start(&self.worker, "runner", &KeyEnvironment::new())
    }

    /// Returns what a separate program needs to open databases as this side does.
    ///
    /// # Errors
    /// If the side has its library linked in.
    pub(crate) fn stack(&self) -> Result<Stack<'_>> {
        let LibraryChoice::Shared(library) = &self.library else {
            let reason = "speedtest1 needs a shared library: `system`, or a path".to_owned();
            return Err(BenchError::Option { option: "--sqlite-library", reason });
        };
        Ok(Stack {
            library,
            extension: self.extension.as_deref(),
            on_open: self.key_pragmas.join("; "),
            environment: [self.environment.as_slice(), &self.worker_environment].concat(),
        })
    }

    /// Returns the cipher of this side's full backups.
    pub(crate) fn backup_cipher(&self) -> Option<&str> {
        self.side.cipher.as_deref().filter(|_| self.side.role == Role::Encrypted)
    }

    /// Returns the statements that a connection of this side runs first: its key, then `settings`.
    pub(crate) fn on_open(&self, settings: &[String]) -> Vec<String> {
        self.key_pragmas.iter().chain(settings).cloned().collect()
    }

    /// Creates this side's copy of the plain database `plain` at `target`, compact like the
    /// original.
    pub(crate) fn make_copy(
        &self,
        plain: &Path,
        target: &Path,
        page_size_bytes: u32,
    ) -> Result<()> {
        match &self.maker {
            Maker::Plain => copy_file(plain, target),
            Maker::Encrypt { tdekit, algorithm } => {
                copy_file(plain, target)?;
                run(key_store::command(tdekit, &self.environment)
                    .arg("encrypt")
                    .arg(target)
                    .args(["--certificate", CERTIFICATE, "--algorithm", algorithm]))
                .map(drop)
            }
            Maker::Peer(peer) => self.make_peer_copy(peer, plain, target, page_size_bytes),
        }
    }

    fn make_peer_copy(
        &self,
        peer: &Peer,
        plain: &Path,
        target: &Path,
        page_size_bytes: u32,
    ) -> Result<()> {
        let (mut worker, _) = self.start()?;
        let mut open = |path: &Path, on_open: Vec<String>, sql: Vec<String>| {
            worker.open(path, on_open)?;
            worker.do_it(&Request::Execute { sql })
        };
        if let Some(export) = peer.export(target, page_size_bytes) {
            open(plain, Vec::new(), export)?;
        } else {
            copy_file(plain, target)?;
            open(target, Vec::new(), peer.convert())?;
        }
        open(target, self.key_pragmas.clone(), vec!["VACUUM".to_owned()])
    }
}

/// Copies a file and waits until it is on the device, so that its writing does not disturb the next
/// measurement.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(BenchError::file("cannot copy to", to))?;
    write_out(to)
}
