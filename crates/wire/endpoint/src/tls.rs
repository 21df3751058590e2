//! TLS: the configurations on offer, and the certificate.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tdekit_key_crypto::fips::IS_FIPS_BUILD;
use tdekit_key_crypto::tls::self_signed_server;
use tdekit_key_crypto::{GcmLibrary, gcm_library};
use zeroize::Zeroizing;

use crate::error::EndpointError;

/// ALPN name of TDS 8.0.
const ALPN_TDS8: &[u8] = b"tds/8.0";
const OWN_VALID_S: i64 = 3650 * 24 * 3600;
/// Clients' clocks may be behind.
const OWN_VALID_BEFORE_S: i64 = 24 * 3600;

/// Locations of the certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate chain, PEM, the server's first.
    pub certificate: PathBuf,
    /// Its private key, PEM, not encrypted.
    pub key: PathBuf,
}

/// The TLS configurations that are offered to clients.
#[derive(Clone)]
pub(crate) struct TlsOffer {
    /// Within PRELOGIN: TLS 1.2 only, since FreeTDS, the JDBC and ODBC drivers and others fail on
    /// 1.3 and its tickets there.
    pub(crate) wrapped: Arc<ServerConfig>,
    /// Before everything else (TDS 8.0): TLS 1.3, and 1.2 for older clients.
    pub(crate) strict: Arc<ServerConfig>,
}

impl TlsOffer {
    /// Reads the certificate and the key.
    pub(crate) fn load(files: &IdentityFiles) -> Result<Self, EndpointError> {
        let identity = |what, path: &Path, reason: String| EndpointError::Identity {
            what,
            path: path.to_owned(),
            reason,
        };
        let read = |path: &Path| {
            fs::read(path).map(Zeroizing::new).map_err(|source| EndpointError::File {
                action: "read",
                path: path.to_owned(),
                source,
            })
        };
        let pem = read(&files.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| identity("certificate", &files.certificate, error.to_string()))?;
        if chain.is_empty() {
            let reason = "there is none".to_owned();
            return Err(identity("certificate", &files.certificate, reason));
        }
        let pem = read(&files.key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|error| identity("private key", &files.key, error.to_string()))?;
        let provider = Arc::new(provider(gcm_library()));
        let build = |versions: &[&'static rustls::SupportedProtocolVersion]| {
            config(&provider, versions, chain.clone(), key.clone_key()).map_err(|error| {
                identity("certificate or key", &files.certificate, error.to_string())
            })
        };
        let wrapped = build(&[&rustls::version::TLS12])?;
        let mut strict = build(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        strict.alpn_protocols = vec![ALPN_TDS8.to_vec()];
        Ok(TlsOffer { wrapped: Arc::new(wrapped), strict: Arc::new(strict) })
    }
}

/// Returns AWS-LC's algorithms, with the ciphers of records from this library.
fn provider(records: GcmLibrary) -> CryptoProvider {
    let provider = aws_lc_rs::default_provider();
    // a constant, so that such a build links one library
    if IS_FIPS_BUILD {
        return provider;
    }
    match records {
        GcmLibrary::AwsLc => provider,
        GcmLibrary::Ring => {
            let cipher_suites = ring::default_provider().cipher_suites;
            CryptoProvider { cipher_suites, ..provider }
        }
    }
}

fn config(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // No state is kept for returning clients: it would take memory, and tickets after the handshake
    // confuse drivers.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Makes a key and a certificate for `names` in `dir`, if they do not exist yet. Returns true if it
/// made them.
///
/// # Errors
/// [`EndpointError::File`], [`EndpointError::Crypto`].
pub fn ensure_own_identity(
    dir: &Path,
    names: &[String],
) -> Result<(IdentityFiles, bool), EndpointError> {
    let files =
        IdentityFiles { certificate: dir.join("tls-cert.pem"), key: dir.join("tls-key.pem") };
    if files.certificate.exists() && files.key.exists() {
        refuse_foreign(&files.key, 0o077)?;
        refuse_foreign(&files.certificate, 0o022)?;
        return Ok((files, false));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or_default();
    let made = self_signed_server(names, now - OWN_VALID_BEFORE_S, now + OWN_VALID_S)?;
    // The key first: a certificate without its key would be taken for complete.
    write_private(&files.key, made.key_pem.as_bytes())?;
    write_private(&files.certificate, made.certificate_pem.as_bytes())?;
    Ok((files, true))
}

/// Writes a file that only its owner can read, atomically. A link stays, and what it leads to is
/// replaced.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), EndpointError> {
    let failed = |source| EndpointError::File { action: "write", path: path.to_owned(), source };
    let real = match path.is_symlink() {
        true => fs::canonicalize(path).map_err(|error| failed(of_link(path, error)))?,
        false => path.to_owned(),
    };
    let path = real.as_path();
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let (prefix, suffix) = temporary_name(path);
    let mut file = tempfile::Builder::new();
    let mut file = file.prefix(&prefix).suffix(suffix).tempfile_in(dir).map_err(failed)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    let open = fs::File::open(dir).map_err(failed)?;
    open.sync_all().map_err(failed)
}

/// Removes what a process that was killed has left of its writing of a file. Nobody else may write
/// the file meanwhile.
pub(crate) fn remove_unfinished(path: &Path) -> io::Result<()> {
    let (prefix, suffix) = temporary_name(path);
    for entry in fs::read_dir(path.parent().unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(suffix) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// How the name of a file begins and ends in which another one is written.
fn temporary_name(path: &Path) -> (String, &'static str) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (format!("{name}."), "tmp")
}

/// Fails for a file that others own or that has one of these permission bits: somebody else may
/// have put it there. A missing file is accepted, and a link to none is not.
pub(crate) fn refuse_foreign(path: &Path, bits: u32) -> Result<(), EndpointError> {
    let failed = |source| EndpointError::File { action: "trust", path: path.to_owned(), source };
    let facts = match fs::metadata(path).map_err(|error| of_link(path, error)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts.map_err(failed)?,
    };
    if !facts.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
    }
    let me = rustix::process::geteuid().as_raw();
    let foreign = me != 0 && facts.uid() != me && facts.uid() != 0;
    let mode = facts.permissions().mode() & 0o7777;
    if !foreign && mode & bits == 0 {
        return Ok(());
    }
    let told = format!("it has mode {mode:04o} and owner {}: others could reach it", facts.uid());
    Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, told)))
}

/// Fails for a file that others could replace: they may write into its directory, or into the one
/// that a link leads to. A missing file is accepted.
pub(crate) fn refuse_open_directory(path: &Path) -> Result<(), EndpointError> {
    /// With it, only an entry's owner replaces it.
    const STICKY: u32 = 0o1000;
    let failed = |source| EndpointError::File { action: "trust", path: path.to_owned(), source };
    let real = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        real => real.map_err(failed)?,
    };
    for file in [path, &real] {
        let dir = file.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
        let mode = fs::metadata(dir).map_err(failed)?.permissions().mode() & 0o7777;
        if mode & 0o022 != 0 && mode & STICKY == 0 {
            let told = format!("others may write into {} (mode {mode:04o})", dir.display());
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, told)));
        }
    }
    Ok(())
}

/// Returns the error of opening a file: that a link leads to none is no missing file.
fn of_link(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => {
            io::Error::other("it is a link to a file that is gone")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_key_or_a_list_of_logins_that_others_can_reach_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned()];
        let (files, made) = ensure_own_identity(dir.path(), &names).unwrap();
        assert!(made && !ensure_own_identity(dir.path(), &names).unwrap().1);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
        for (path, mode) in [(&files.key, 0o640), (&files.key, 0o602), (&files.certificate, 0o666)]
        {
            set(path, mode);
            ensure_own_identity(dir.path(), &names).unwrap_err();
            set(path, 0o600);
        }
        ensure_own_identity(dir.path(), &names).unwrap();
        let logins = dir.path().join("logins");
        let mut list = crate::Logins::open(&logins).unwrap();
        list.set("sa", "long enough").unwrap();
        set(&logins, 0o666);
        assert!(crate::Logins::open(&logins).is_err());
        set(&logins, 0o600);
        assert_eq!(crate::Logins::open(&logins).unwrap().names(), ["sa"]);
        // A link to a list that is gone is no empty list.
        fs::remove_file(&logins).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), &logins).unwrap();
        let error = crate::Logins::open(&logins).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "it is a link to a file that is gone");
        assert!(list.set("sb", "long enough").is_err() && logins.is_symlink());
    }

    /// Passes what one side has to send to the other.
    fn pass(from: &mut rustls::Connection, to: &mut rustls::Connection) -> Vec<u8> {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let (mut rest, mut plain) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            let waiting = to.process_new_packets().unwrap().plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + waiting, 0);
            to.reader().read_exact(&mut plain[start..]).unwrap();
        }
        plain
    }

    #[test]
    fn each_librarys_records_open_in_the_other() {
        let own = self_signed_server(&["localhost".to_owned()], 0, i64::from(u32::MAX)).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(own.certificate_pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(chain[0].clone()).unwrap();
        let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
        let libraries = [GcmLibrary::AwsLc, GcmLibrary::Ring];
        for (versions, at) in [(tls12, 0), (tls12, 1), (tls13, 0), (tls13, 1)] {
            let [ours, theirs] = [at, 1 - at].map(|at: usize| Arc::new(provider(libraries[at])));
            let server = config(&ours, &[versions], chain.clone(), key.clone_key()).unwrap();
            let client = rustls::ClientConfig::builder_with_provider(theirs)
                .with_protocol_versions(&[versions])
                .unwrap()
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            let server = rustls::ServerConnection::new(Arc::new(server)).unwrap();
            let name = "localhost".try_into().unwrap();
            let client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
            let mut server = rustls::Connection::from(server);
            let mut client = rustls::Connection::from(client);
            while client.is_handshaking() || server.is_handshaking() {
                pass(&mut client, &mut server);
                pass(&mut server, &mut client);
            }
            let text: Vec<u8> = (0..40_000_u32).map(|at| at.to_le_bytes()[0]).collect();
            server.writer().write_all(&text).unwrap();
            assert!(pass(&mut server, &mut client) == text, "{versions:?} {:?}", libraries[at]);
            client.writer().write_all(&text).unwrap();
            assert!(pass(&mut client, &mut server) == text, "{versions:?} {:?}", libraries[at]);
        }
    }

    #[test]
    fn a_link_to_a_list_of_logins_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("logins"));
        crate::Logins::open(&real).unwrap().set("sa", "long enough").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        crate::Logins::open(&link).unwrap().set("two", "long enough").unwrap();
        assert!(link.is_symlink());
        assert_eq!(crate::Logins::open(&real).unwrap().names(), ["sa", "two"]);
    }
}
