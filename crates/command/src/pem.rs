//! Certificates in PEM files.

use std::path::Path;

use tdekit_key_store::{CertificateBackup, SecretBytes, read_certificate_file};

use crate::error::CommandError;

/// Reads a certificate and its key from PEM files; asks for the password only if it is needed.
pub(crate) fn read_pem(
    certificate: &Path,
    private_key: Option<&Path>,
    password: impl FnOnce() -> Result<SecretBytes, CommandError>,
) -> Result<CertificateBackup, CommandError> {
    let certificate_bytes = read_certificate_file(certificate)?;
    let key_bytes = private_key.map(read_certificate_file).transpose()?;
    let with_key = key_bytes.as_deref().unwrap_or(&certificate_bytes);
    let marker = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let encrypted = with_key.windows(marker.len()).any(|window| window == marker);
    let password = if encrypted { Some(password()?) } else { None };
    let key = key_bytes.as_deref().zip(private_key);
    Ok(CertificateBackup::from_pem((&certificate_bytes, certificate), key, password.as_ref())?)
}
