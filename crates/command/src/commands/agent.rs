//! `agent`: keeps the Argon2id hash of the password, for processes that start often.

use std::env;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::stdio::dup2_stdout;
use tdekit_backup_run::Operator as _;
use tdekit_console::session::{Ask, on_terminal, open_store, prompt};
use tdekit_console::{GlobalArgs, output};
use tdekit_key_store::{AGENT_VARIABLE, AgentKey, AgentQuestion, StoreError, Unlock};

use crate::error::CommandError;
use crate::when;

/// Interval at which the end of the command is checked.
const POLL: Duration = Duration::from_millis(20);

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Forget the password's hash after so long: 90s, 15m, 8h, 1d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = when::parse_length)]
    timeout: Duration,
    /// Run this with the agent, and end with it. Without it the agent prints how a shell finds it,
    /// and stays until the time is over or it is ended
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

type Keys = Arc<Mutex<Vec<AgentKey>>>;

/// Runs `agent`.
pub(crate) fn run(args: &AgentArgs, global: &GlobalArgs) -> Result<ExitCode, CommandError> {
    let keys: Keys = Arc::new(Mutex::new(AgentKey::of(&open_store(global)?, &password(global)?)?));
    let (end, ended) = mpsc::channel();
    ctrlc::set_handler(move || {
        // If nobody waits any more, the process is about to end.
        let _ = end.send(());
    })
    .map_err(|error| failed("heed signals of", Path::new("the user"))(other(error)))?;
    // Only its owner may enter a directory that is made this way.
    let base = env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let base = base.map_or_else(env::temp_dir, Into::into);
    let directory = tempfile::Builder::new()
        .prefix("tdekit-agent-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&base)
        .map_err(failed("make a directory in", &base))?;
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(failed("listen at", &socket))?;
    let served = Arc::clone(&keys);
    thread::spawn(move || serve(&listener, &served));
    if args.command.is_empty() {
        output::line(format!("{AGENT_VARIABLE}={}; export {AGENT_VARIABLE};", for_shell(&socket)))?;
        // A shell that reads this line waits for end of file.
        let nothing = File::create("/dev/null").map_err(failed("open", Path::new("/dev/null")))?;
        dup2_stdout(nothing).map_err(|error| failed("close", &socket)(error.into()))?;
        // The time is over, or a signal came.
        let _ = ended.recv_timeout(args.timeout);
        return Ok(ExitCode::SUCCESS);
    }
    let child = start(&args.command, &socket)?;
    let timeout = args.timeout;
    thread::spawn(move || {
        thread::sleep(timeout);
        keys.lock().unwrap_or_else(PoisonError::into_inner).clear();
    });
    wait(child, &ended)
}

/// Returns the password, from the same sources as any command, but never from another agent.
fn password(global: &GlobalArgs) -> Result<Unlock, CommandError> {
    let is_password =
        |secret: &Unlock| matches!(secret, Unlock::Password(_) | Unlock::PasswordFile(_));
    match global.access().secrets()?.into_iter().find(is_password) {
        Some(secret) => Ok(secret),
        None if on_terminal() => {
            Ok(Unlock::Password(prompt("Password of the key store", Ask::Existing)?))
        }
        None => Err(StoreError::NoProvider { accepts: open_store(global)?.accepts() }.into()),
    }
}

/// Answers every process of this user, each in a separate thread, so that nobody waits for a silent
/// one.
fn serve(listener: &UnixListener, keys: &Keys) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            thread::sleep(POLL);
            continue;
        };
        if !is_of_this_user(&stream) {
            continue;
        }
        let keys = Arc::clone(keys);
        // If no thread can be started, the peer sees its connection closed.
        let _ = thread::Builder::new().spawn(move || {
            let question = AgentQuestion::read(&mut stream)?;
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            AgentKey::answer(&keys, &question, &mut stream)
        });
    }
}

fn is_of_this_user(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}

/// Starts the command, with the agent in place of a password in its environment.
fn start(command: &[OsString], socket: &Path) -> Result<Child, CommandError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(CommandError::usage("no command"));
    };
    std::process::Command::new(program)
        .args(arguments)
        .env(AGENT_VARIABLE, socket)
        .env_remove("TDEKIT_PASSWORD")
        .spawn()
        .map_err(failed("start", Path::new(program)))
}

/// Waits for the command. A signal to the agent ends it.
fn wait(mut child: Child, ended: &mpsc::Receiver<()>) -> Result<ExitCode, CommandError> {
    loop {
        let told = ended.recv_timeout(POLL).is_ok();
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| told) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let state = child.try_wait().map_err(failed("wait for", Path::new("the command")))?;
        let Some(status) = state else { continue };
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        return Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)));
    }
}

/// Quotes a path as a word for a shell.
fn for_shell(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    let path = path.to_owned();
    move |source| CommandError::io(action, path, source)
}

fn other(error: ctrlc::Error) -> io::Error {
    io::Error::other(error)
}
