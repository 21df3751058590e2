//! `tdekit serve`: SQL Server's protocol over the databases of a directory, and the logins of the
//! endpoint.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tdekit_console::serve::{AddArgs, Encrypt, LoginCommand, ServeArgs, ServeCommand};
use tdekit_console::session::{self, Ask};
use tdekit_console::{ConsoleError, GlobalArgs, output};
use tdekit_key_store::{
    SecretBytes, StoreError, check_code_file, check_private_file, read_password_file, serve_drives,
};
use tdekit_serve_host::ServeHost;
use tdekit_wire_endpoint::{
    Config, Endpoint, EndpointError, IdentityFiles, Limits, LoginFacts, LoginFile, Logins, Mode,
    Sessions, ensure_own_identity,
};
use tdekit_wire_tds::{Engine, memory};
use tdekit_wire_tsql::TsqlEngine;

use crate::error::ServeError;

/// Directory of the endpoint's files, within that of the key store.
const OWN_DIR: &str = "serve";
const LOGINS_FILE: &str = "logins.json";
const PASSWORD_VARIABLE: &str = "TDEKIT_LOGIN_PASSWORD";
/// Maximum number of descriptors of all connections: sockets, and the files of databases.
const FILES_OF_ALL: u64 = 65_536;

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, global: &GlobalArgs) -> Result<(), ServeError> {
    let dir = session::store_dir(global)?.join(OWN_DIR);
    match (&args.command, &args.path) {
        (Some(ServeCommand::Login(command)), _) => {
            if matches!(command, LoginCommand::Add(_)) {
                session::kept_dir(global)?;
            }
            login(command, &dir)
        }
        (None, Some(path)) => run_endpoint(args, path, &dir, global),
        (None, None) => Err(ServeError::usage("name a directory or a database")),
    }
}

fn login(command: &LoginCommand, dir: &Path) -> Result<(), ServeError> {
    let logins = open_logins(dir)?;
    let file = LoginFile::new(dir.join(LOGINS_FILE));
    match command {
        LoginCommand::Add(args) => {
            let password = login_password(args)?;
            let text = std::str::from_utf8(password.expose())
                .map_err(|_| ServeError::usage("the password is not UTF-8"))?;
            Ok(file.change(|logins| logins.set(&args.name, text))?)
        }
        LoginCommand::List { json: true } => {
            let listed = logins
                .facts()
                .into_iter()
                .map(|login| serde_json::json!({ "name": login.name, "sysadmin": login.sysadmin }));
            Ok(output::json(&listed.collect::<Vec<_>>())?)
        }
        LoginCommand::List { json: false } => {
            let shown = |login: LoginFacts| match login.sysadmin {
                true => format!("{} (sysadmin)", login.name),
                false => login.name,
            };
            Ok(logins.facts().into_iter().map(shown).try_for_each(output::line)?)
        }
        // No directory is made for a list that is not there.
        LoginCommand::Remove { name } if logins.named(name).is_none() => {
            Err(EndpointError::NoLogin { name: name.clone() }.into())
        }
        LoginCommand::Remove { name } => Ok(file.change(|logins| logins.remove(name))?),
    }
}

/// Opens the list of logins in a directory where nobody else could have replaced it.
fn open_logins(dir: &Path) -> Result<Logins, ServeError> {
    let path = dir.join(LOGINS_FILE);
    if path.is_file() {
        check_private_file(&path).map_err(ConsoleError::Store)?;
    }
    Ok(Logins::open(&path)?)
}

fn login_password(args: &AddArgs) -> Result<SecretBytes, ConsoleError> {
    if let Some(file) = &args.login_password_file {
        return Ok(read_password_file(file)?);
    }
    if let Some(password) = std::env::var_os(PASSWORD_VARIABLE).filter(|each| !each.is_empty()) {
        let bytes = password.as_encoded_bytes();
        return Ok(SecretBytes::from_slice(bytes).map_err(StoreError::Crypto)?);
    }
    if session::on_terminal() {
        return session::prompt(&format!("New password of {}", args.name), Ask::New);
    }
    Err(ConsoleError::NoSecret {
        what: "password for the login",
        ways: "give it with --login-password-file or TDEKIT_LOGIN_PASSWORD, or on a terminal",
    })
}

fn run_endpoint(
    args: &ServeArgs,
    path: &Path,
    dir: &Path,
    global: &GlobalArgs,
) -> Result<(), ServeError> {
    if open_logins(dir)?.names().is_empty() {
        let text = "there is no login: make one with `tdekit serve login add sa`";
        return Err(ServeError::usage(text));
    }
    fs::metadata(path).map_err(|source| EndpointError::File {
        action: "serve",
        path: path.to_owned(),
        source,
    })?;
    limit_memory(args)?;
    let sessions = Sessions::default();
    let (engine, host) = engine(args, (path, dir), global, sessions.clone())?;
    let config = Config {
        listen: args.listen,
        mode: mode(args.encrypt),
        identity: identity(args, dir)?,
        logins: dir.join(LOGINS_FILE),
        limits: Limits::within(raise_file_limit()),
    };
    // Installed before the first client, so that no signal comes too early.
    let (stop, stopped) = mpsc::channel();
    let handler = ctrlc::set_handler(move || {
        let _ended = stop.send(());
    });
    if let Err(error) = handler {
        let text = format!("signals cannot be waited for: {error}");
        return Err(ServeError::usage(text));
    }
    let endpoint = Endpoint::start(config, engine, sessions)?;
    if args.encrypt == Encrypt::Off && !args.listen.ip().is_loopback() {
        output::warning("passwords and data cross the network in the clear (--encrypt off)");
    }
    output::line(format_args!("listening on {}", endpoint.address()))?;
    // An error means that the handler is gone; there is no reason to continue.
    let _signal = stopped.recv();
    endpoint.stop();
    host.stop();
    Ok(())
}

/// Returns the engine that runs requests on the databases of `path`, a directory or one file.
/// `sessions` are those of the endpoint, whose files are in `dir`.
fn engine(
    args: &ServeArgs,
    (path, dir): (&Path, &Path),
    global: &GlobalArgs,
    sessions: Sessions,
) -> Result<(Arc<dyn Engine>, Arc<ServeHost>), ServeError> {
    let logins = dir.join(LOGINS_FILE);
    let drives = serve_drives(&session::store_dir(global)?).map_err(ConsoleError::Store)?;
    let host = ServeHost::new(path, (logins, drives), Arc::new(global.clone()), sessions);
    let host = host.map_err(ConsoleError::from)?.keeping(args.storage.storage());
    let host = Arc::new(host);
    if host.is_locked() {
        output::warning(
            "the key store is locked: encrypted databases open once a client has run OPEN MASTER \
             KEY, or when serve is started with --password-file, --key-file or their variables",
        );
    }
    if let Ok(store) = session::open_store(global) {
        let active = store.certificates().iter().filter(|info| info.active);
        active.for_each(|info| output::warn_expiring(&info.name, info.not_after));
    }
    Ok((Arc::new(TsqlEngine::new(host.clone())), host))
}

/// Sets the memory limits of sessions. Must precede the first use of SQLite.
fn limit_memory(args: &ServeArgs) -> Result<(), ServeError> {
    tdekit_wire_tsql::count_sqlite_memory().map_err(|error| {
        ServeError::usage(format!("SQLite's memory cannot be counted: {error}"))
    })?;
    let all = args.memory_mib.map_or_else(|| machine_bytes() / 4, |mib| u64::from(mib) << 20);
    let session = args.session_memory_mib.map_or(all / 4, |mib| u64::from(mib) << 20);
    memory::set_limits(session, all);
    Ok(())
}

/// Returns the machine's memory, or the limit of this process's control group if it is lower.
fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine: u64 = info.totalram.saturating_mul(info.mem_unit.into());
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    group.map_or(machine, |group: u64| group.min(machine))
}

fn mode(encrypt: Encrypt) -> Mode {
    match encrypt {
        Encrypt::Off => Mode::Off,
        Encrypt::On => Mode::On,
        Encrypt::Required => Mode::Required,
        Encrypt::Strict => Mode::Strict,
    }
}

fn identity(args: &ServeArgs, dir: &Path) -> Result<Option<IdentityFiles>, ServeError> {
    if args.encrypt == Encrypt::Off {
        return Ok(None);
    }
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        check_code_file(certificate).map_err(ConsoleError::Store)?;
        check_private_file(key).map_err(ConsoleError::Store)?;
        let (certificate, key) = (certificate.clone(), key.clone());
        return Ok(Some(IdentityFiles { certificate, key }));
    }
    let (files, made) = ensure_own_identity(dir, &own_names(args.listen))?;
    if made {
        output::line(format_args!(
            "made a self-signed certificate: {}",
            files.certificate.display()
        ))?;
    }
    Ok(Some(files))
}

/// Returns the names by which clients may address this machine.
fn own_names(listen: SocketAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if let Ok(host) = rustix::system::uname().nodename().to_str()
        && !host.is_empty()
    {
        names.push(host.to_owned());
    }
    if !listen.ip().is_unspecified() {
        names.push(listen.ip().to_string());
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Raises the limit of open files as far as the system allows, up to the number that connections
/// need; returns the new limit.
fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(FILES_OF_ALL).min(FILES_OF_ALL);
    match limit.current {
        Some(current) if current < wanted => {
            let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
            if setrlimit(Resource::Nofile, raised).is_ok() { wanted } else { current }
        }
        current => current.unwrap_or(FILES_OF_ALL),
    }
}
