//! A server's own TLS key and certificate, generated when none is configured.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{CryptoError, random_bytes};

/// A key and its self-signed certificate, both in PEM.
pub struct TlsIdentity {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key, PKCS#8, not encrypted.
    pub key_pem: Zeroizing<String>,
}

/// Generates an ECDSA key on P-256 and a self-signed certificate for the host names and IP
/// addresses `names`; the first is its common name. Times are seconds since 1970.
///
/// # Errors
/// [`CryptoError::Malformed`] for names or times that a certificate cannot represent;
/// [`CryptoError::Library`].
pub fn self_signed_server(
    names: &[String],
    not_before: i64,
    not_after: i64,
) -> Result<TlsIdentity, CryptoError> {
    let malformed = |reason: &dyn std::fmt::Display| CryptoError::Malformed {
        what: "TLS certificate",
        reason: reason.to_string(),
    };
    let moment =
        |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| malformed(&error));
    let mut params = CertificateParams::new(names).map_err(|error| malformed(&error))?;
    let mut serial = [0; 16];
    random_bytes(&mut serial)?;
    serial[0] = serial[0] & 0x3F | 0x40;
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let failed = |_| CryptoError::Library { operation: "make a TLS certificate" };
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let key_der = Zeroizing::new(key.serialize_der());
    Ok(TlsIdentity {
        certificate_pem: pem::encode(&pem::Pem::new("CERTIFICATE", certificate.der().to_vec())),
        key_pem: Zeroizing::new(pem::encode(&pem::Pem::new("PRIVATE KEY", key_der.as_slice()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_pem_and_names_its_hosts() {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let identity = self_signed_server(&names, 0, 1_000_000_000).unwrap();
        assert!(identity.key_pem.starts_with("-----BEGIN PRIVATE KEY-----"));
        let certificate = pem::parse(&identity.certificate_pem).unwrap();
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate.contents()).unwrap();
        let san = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(san.value.general_names.len(), 2);
        assert!(self_signed_server(&["\u{e9}".to_owned()], 0, 1).is_err());
    }
}
