//! X.509 certificates (RFC 5280): making self-signed ones, and reading.

use aws_lc_rs::signature::{
    ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, IsCa, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384,
    PKCS_RSA_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
};
use time::OffsetDateTime;
use x509_parser::asn1_rs::BitString;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{CryptoError, PrivateKey, PublicKey, random_bytes};

/// Longest certificate that is read, in bytes.
pub const MAX_CERTIFICATE_LEN: usize = 16 * 1024;

/// Longest common name, in characters (RFC 5280: `ub-common-name`).
pub const MAX_COMMON_NAME_CHARS: usize = 64;

/// The fields of a certificate.
#[derive(Debug)]
pub struct CertificateFacts {
    /// The subject, such as `CN=AppCert`.
    pub subject: String,
    /// The subject's common name, where it has one.
    pub common_name: Option<String>,
    /// The issuer; equal to the subject when self-signed.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// Start of validity, seconds since 1970.
    pub not_before: i64,
    /// End of validity, seconds since 1970.
    pub not_after: i64,
    /// The public key.
    pub public_key: PublicKey,
}

/// Makes a self-signed certificate for wrapping keys and signing backups, DER.
///
/// The key usages are `digitalSignature` and, of RSA keys, `keyEncipherment`, of EC keys
/// `keyAgreement`. It is not a certificate authority, the serial number is random, the signature is
/// RSA with SHA-256 or ECDSA with SHA-384. Times are seconds since 1970.
///
/// # Errors
/// [`CryptoError::Length`] for a common name that is empty or longer than
/// [`MAX_COMMON_NAME_CHARS`]; [`CryptoError::Malformed`] for times outside the years 1 to 9999.
pub fn self_signed(
    key: &PrivateKey,
    common_name: &str,
    not_before: i64,
    not_after: i64,
) -> Result<Vec<u8>, CryptoError> {
    let chars = common_name.chars().count();
    if chars == 0 || chars > MAX_COMMON_NAME_CHARS {
        let max = MAX_COMMON_NAME_CHARS;
        return Err(CryptoError::Length { what: "subject", min: 1, max, actual: chars });
    }
    let mut serial = [0; 16];
    random_bytes(&mut serial)?;
    // A serial number is a positive integer; a first byte of 0x40 to 0x7F keeps its length fixed.
    serial[0] = serial[0] & 0x3F | 0x40;
    let mut params = CertificateParams::default();
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::ExplicitNoCa;
    // The certificate wraps keys and signs backups.
    let wraps = match key {
        PrivateKey::Ec(_) => KeyUsagePurpose::KeyAgreement,
        PrivateKey::Rsa(_) => KeyUsagePurpose::KeyEncipherment,
    };
    params.key_usages = vec![wraps, KeyUsagePurpose::DigitalSignature];
    let certificate = params
        .self_signed(&Signer::new(key)?)
        .map_err(|_| CryptoError::Library { operation: "make a certificate" })?;
    Ok(certificate.der().to_vec())
}

/// Reads a certificate with an RSA key of 2048 to 8192 bits or an EC key on P-384. Its signature is
/// not checked: a certificate that wraps keys is trusted because it was put into the store.
///
/// # Errors
/// [`CryptoError::Malformed`].
pub fn parse(der: &[u8]) -> Result<CertificateFacts, CryptoError> {
    if der.len() > MAX_CERTIFICATE_LEN {
        return Err(malformed("it is longer than 16 KiB".to_owned()));
    }
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|error| malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(malformed(format!("{} bytes follow it", rest.len())));
    }
    Ok(CertificateFacts {
        subject: certificate.subject().to_string(),
        common_name: certificate
            .subject()
            .iter_common_name()
            .find_map(|name| name.as_str().ok().map(str::to_owned)),
        issuer: certificate.issuer().to_string(),
        serial: hex::encode_upper(certificate.raw_serial()),
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        public_key: PublicKey::from_spki(certificate.public_key().raw)?,
    })
}

/// Result of checking a certificate's signature by its own key, which shows whether a self-signed
/// certificate was changed (RFC 5280, section 4.1.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnSignature {
    /// The signature is valid.
    Holds,
    /// The signature is not valid, and the certificate claims to be self-signed or contradicts
    /// itself.
    Wrong,
    /// Another certificate's key made the signature, or its algorithm is not supported.
    Unchecked,
}

/// Checks a certificate's signature by its own key: ECDSA, or RSASSA-PKCS1-v1_5, with SHA-256,
/// SHA-384 or SHA-512, or RSA with SHA-1, which SQL Server uses for its own certificates.
///
/// # Errors
/// As [`parse`].
pub fn own_signature(der: &[u8]) -> Result<OwnSignature, CryptoError> {
    let facts = parse(der)?;
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| malformed(error.to_string()))?;
    if certificate.signature_algorithm != certificate.tbs_certificate.signature {
        return Ok(OwnSignature::Wrong);
    }
    if facts.issuer != facts.subject {
        return Ok(OwnSignature::Unchecked);
    }
    let algorithm: &dyn VerificationAlgorithm =
        match certificate.signature_algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.10045.4.3.2" => &ECDSA_P384_SHA256_ASN1,
            "1.2.840.10045.4.3.3" => &ECDSA_P384_SHA384_ASN1,
            "1.2.840.10045.4.3.4" => &ECDSA_P384_SHA512_ASN1,
            "1.2.840.113549.1.1.5" => &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
            "1.2.840.113549.1.1.11" => &RSA_PKCS1_2048_8192_SHA256,
            "1.2.840.113549.1.1.12" => &RSA_PKCS1_2048_8192_SHA384,
            "1.2.840.113549.1.1.13" => &RSA_PKCS1_2048_8192_SHA512,
            _ => return Ok(OwnSignature::Unchecked),
        };
    let signed = certificate.tbs_certificate.as_ref();
    if !is_repeated(der, signed, &certificate.signature_value) {
        return Ok(OwnSignature::Wrong);
    }
    // A key of the other type does not parse, and so verifies nothing.
    let key = UnparsedPublicKey::new(algorithm, facts.public_key.spki());
    Ok(match key.verify(signed, &certificate.signature_value.data) {
        Ok(()) => OwnSignature::Holds,
        Err(_) => OwnSignature::Wrong,
    })
}

/// Returns true if the bytes outside of the signed part are exactly as prescribed: the same
/// algorithm as inside (RFC 5280, section 4.1.1.2), and a signature of whole bytes (RFC 8017,
/// section 8.2; RFC 3279, section 2.2.3). The parser accepts other encodings of both.
fn is_repeated(der: &[u8], signed: &[u8], signature: &BitString<'_>) -> bool {
    let outside = || {
        let len = |high, low| usize::from(u16::from_be_bytes([high, low]));
        let [0x30, 0x82, high, low, body @ ..] = der else { return None };
        let tail = body.strip_prefix(signed)?.strip_suffix(&*signature.data)?;
        let (algorithm, bits) = match tail {
            [algorithm @ .., 3, 0x82, first, second, 0] if len(*first, *second) > 0xFF => {
                (algorithm, len(*first, *second))
            }
            [algorithm @ .., 3, short @ ..=0x7F, 0] => (algorithm, usize::from(*short)),
            _ => return None,
        };
        let fits = len(*high, *low) == body.len() && bits == signature.data.len() + 1;
        fits.then_some(algorithm)
    };
    outside().is_some_and(|algorithm| {
        !algorithm.is_empty() && signed.windows(algorithm.len()).any(|found| found == algorithm)
    })
}

fn moment(seconds: i64) -> Result<OffsetDateTime, CryptoError> {
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|_| malformed("its validity is out of range".to_owned()))
}

fn malformed(reason: String) -> CryptoError {
    CryptoError::Malformed { what: "certificate", reason }
}

/// Signs a certificate by its own key.
struct Signer<'a> {
    key: &'a PrivateKey,
    /// The public key's bits, as they stand in `SubjectPublicKeyInfo`.
    public: Vec<u8>,
}

impl<'a> Signer<'a> {
    fn new(key: &'a PrivateKey) -> Result<Self, CryptoError> {
        let public = match key {
            PrivateKey::Ec(key) => key.public_key().point().to_vec(),
            PrivateKey::Rsa(key) => key.public_key_bits()?,
        };
        Ok(Self { key, public })
    }
}

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self.key {
            PrivateKey::Ec(_) => &PKCS_ECDSA_P384_SHA384,
            PrivateKey::Rsa(_) => &PKCS_RSA_SHA256,
        }
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature = match self.key {
            PrivateKey::Ec(key) => key.sign(message),
            PrivateKey::Rsa(key) => key.sign_pkcs1(message),
        };
        signature.map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyType;

    const DAY: i64 = 86_400;

    fn both() -> [PrivateKey; 2] {
        [KeyType::EcP384, KeyType::Rsa3072].map(|it| PrivateKey::generate(it).unwrap())
    }

    #[test]
    fn makes_what_it_reads_and_its_signature_holds() {
        for key in both() {
            let der = self_signed(&key, "My DEK Certificate", 20_000 * DAY, 23_653 * DAY).unwrap();
            let facts = parse(&der).unwrap();
            assert_eq!(facts.subject, "CN=My DEK Certificate");
            assert_eq!(facts.common_name.as_deref(), Some("My DEK Certificate"));
            assert_eq!(facts.issuer, facts.subject);
            assert_eq!((facts.not_before, facts.not_after), (20_000 * DAY, 23_653 * DAY));
            assert_eq!(facts.public_key.spki(), key.spki());
            assert_eq!(facts.serial.len(), 32);
            assert_eq!(own_signature(&der).unwrap(), OwnSignature::Holds);

            let (_, parsed) = X509Certificate::from_der(&der).unwrap();
            let usage = parsed.key_usage().unwrap().unwrap();
            assert!(usage.critical && !parsed.is_ca());
            let (encipherment, agreement) =
                (usage.value.key_encipherment(), usage.value.key_agreement());
            let is_rsa = matches!(key, PrivateKey::Rsa(_));
            assert!(usage.value.digital_signature());
            assert_eq!((encipherment, agreement), (is_rsa, !is_rsa));
            assert_ne!(self_signed(&key, "My DEK Certificate", 0, DAY).unwrap(), der);
        }
    }

    #[test]
    fn rules_of_names_and_times() {
        let [key, _] = both();
        assert!(self_signed(&key, "", 0, DAY).is_err());
        assert!(self_signed(&key, &"x".repeat(65), 0, DAY).is_err());
        assert!(self_signed(&key, &"ü".repeat(64), 0, DAY).is_ok());
        assert!(self_signed(&key, "x", 0, i64::MAX).is_err());
    }

    #[test]
    fn a_changed_byte_of_a_self_signed_certificate_shows() {
        for key in both() {
            // DER may declare a signature's last bit as unused only where it is clear.
            let der = std::iter::repeat_with(|| self_signed(&key, "AppCert", 0, DAY).unwrap())
                .find(|der| der.last().is_some_and(|last| last & 1 == 0))
                .unwrap();
            assert_eq!(own_signature(&der).unwrap(), OwnSignature::Holds);
            let (mut wrong, mut unchecked) = (0, 0);
            for (at, bit) in (0..der.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut changed = der.clone();
                changed[at] ^= 1 << bit;
                match own_signature(&changed) {
                    Ok(OwnSignature::Holds) => panic!("byte {at}, bit {bit}"),
                    Ok(OwnSignature::Wrong) => wrong += 1,
                    Ok(OwnSignature::Unchecked) => unchecked += 1,
                    Err(_) => {}
                }
            }
            // Only a change of one of its two names, of 20 bytes each, makes it appear to be signed
            // by an authority.
            let names = 2 * 20 * 8;
            assert!(wrong > 1000 && unchecked <= names, "{wrong} {unchecked}");
        }
    }

    #[test]
    fn truncated_and_extended_certificates_are_refused() {
        for key in both() {
            let mut der = self_signed(&key, "x", 0, DAY).unwrap();
            for cut in 0..der.len() {
                assert!(parse(&der[..cut]).is_err(), "{cut}");
            }
            der.push(0);
            assert!(parse(&der).is_err());
            assert!(parse(&vec![0x30; MAX_CERTIFICATE_LEN + 1]).is_err());
        }
    }
}
