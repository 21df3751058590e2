//! TLS of the client: its offers, and trusted certificates.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::error::TdsError;

/// ALPN name of TDS 8.0.
const ALPN_TDS8: &[u8] = b"tds/8.0";

/// Certificates that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Certificates that the system's roots have signed.
    System,
    /// Certificates that one in this PEM file has signed, or that are in it.
    File(PathBuf),
    /// Any, including self-signed ones: the connection is encrypted, but the peer is not
    /// authenticated.
    Anyone,
}

/// The negotiated protocol and suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// Protocol, such as `TLSv1.3`.
    pub protocol: String,
    /// The suite's name.
    pub suite: String,
}

impl Negotiated {
    pub(crate) fn of(tls: &ClientConnection) -> Option<Self> {
        let protocol = tls.protocol_version()?;
        let suite = tls.negotiated_cipher_suite()?.suite();
        Some(Self {
            protocol: protocol.as_str().map_or_else(String::new, |name| name.replace('_', ".")),
            suite: suite.as_str().map_or_else(String::new, str::to_owned),
        })
    }
}

/// Maximum number of round trips of a handshake within PRELOGIN.
const MOST_ROUNDS: usize = 16;

/// Performs a handshake whose records are sent in packets of PRELOGIN. `exchange` sends its
/// argument; without one it returns the payload of the next message.
///
/// # Errors
/// Those of `exchange`, and a handshake that fails or does not end.
pub fn handshake_within(
    tls: &mut ClientConnection,
    mut exchange: impl FnMut(Option<&[u8]>) -> Result<Vec<u8>, TdsError>,
) -> Result<(), TdsError> {
    let lost = |source| TdsError::ConnectionLost { source };
    let records = |tls: &mut ClientConnection| {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out).map_err(lost)?;
        }
        Ok::<_, TdsError>(out)
    };
    for _ in 0..MOST_ROUNDS {
        let out = records(tls)?;
        if !out.is_empty() {
            exchange(Some(&out))?;
        }
        if !tls.is_handshaking() {
            return Ok(());
        }
        let payload = exchange(None)?;
        let mut rest = payload.as_slice();
        while !rest.is_empty() {
            tls.read_tls(&mut rest).map_err(lost)?;
            if let Err(error) = tls.process_new_packets() {
                // The server is told the reason; it may be gone already.
                let _told = exchange(Some(&records(tls)?));
                return Err(error.into());
            }
        }
    }
    Err(TdsError::Protocol { what: "the TLS handshake does not end".to_owned() })
}

/// The TLS settings of every connection of a kind, computed once for any number of them.
#[derive(Clone)]
pub struct Offer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Offer {
    /// Makes the offer for TDS 8.0, or for TLS within PRELOGIN: TLS 1.2 only, since with 1.3
    /// servers and clients disagree there on the end of the handshake.
    pub(crate) fn usual(host: &str, trust: &Trust, strict: bool) -> Result<Self, TdsError> {
        match strict {
            true => Self::new(host, trust, &[&TLS13, &TLS12], &[ALPN_TDS8]),
            false => Self::new(host, trust, &[&TLS12], &[]),
        }
    }

    /// Makes an offer for a server of this name, with these versions, and these ALPN names.
    ///
    /// # Errors
    /// A name that no certificate can have, or unusable trust settings.
    pub fn new(
        host: &str,
        trust: &Trust,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&[u8]],
    ) -> Result<Self, TdsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(trust, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        // Every connection makes a full handshake.
        config.resumption = rustls::client::Resumption::disabled();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TdsError::Target {
            reason: format!("`{host}` is no name that a certificate could have"),
        })?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Makes a client that is about to start its handshake.
    ///
    /// # Errors
    /// That of the library.
    pub fn client(&self) -> Result<ClientConnection, TdsError> {
        let mut tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        tls.set_buffer_limit(None);
        Ok(tls)
    }
}

fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TdsError> {
    let algorithms = provider.signature_verification_algorithms;
    let mut roots = RootCertStore::empty();
    let mut listed = Vec::new();
    match trust {
        Trust::Anyone => return Ok(Arc::new(Listed { algorithms, listed: None, roots: None })),
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        Trust::File(path) => {
            let refuse = |reason: String| TdsError::Authority { reason };
            let read = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| refuse(format!("{}: {error}", path.display())))?;
            if read.is_empty() {
                return Err(refuse(format!("there is no certificate in {}", path.display())));
            }
            roots.add_parsable_certificates(read.iter().cloned());
            listed = read;
        }
    }
    if roots.is_empty() && listed.is_empty() {
        let reason = "the system has no roots; give --tls-ca FILE or --trust".to_owned();
        return Err(TdsError::Authority { reason });
    }
    let roots = match roots.is_empty() {
        true => None,
        false => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| TdsError::Authority { reason: error.to_string() })?,
        ),
    };
    Ok(Arc::new(Listed { algorithms, listed: Some(listed), roots }))
}

/// Accepts the listed certificates, then those that the roots have signed; any without a list. The
/// server must always prove that it has the certificate's key.
#[derive(Debug)]
struct Listed {
    algorithms: WebPkiSupportedAlgorithms,
    listed: Option<Vec<CertificateDer<'static>>>,
    roots: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(listed) = &self.listed else { return Ok(ServerCertVerified::assertion()) };
        if listed.iter().any(|known| known.as_ref() == own.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.roots {
            Some(roots) => roots.verify_server_cert(own, between, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
