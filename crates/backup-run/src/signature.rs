//! Signatures on sets: who vouches for what a set holds.

use std::sync::Arc;

use serde::Serialize;
use tdekit_key_crypto::{sha1_thumbprint, sha256, x509};
use tdekit_key_store::{KeyStore, StoreError, Unlocked, thumbprint};

use crate::operator::Operator;
use crate::{Chain, Run, RunError, SetInfo, Sign, SignatureCheck, SignatureInfo, date_of_ms};

/// A certificate of the key store that signs.
pub struct Signer {
    unlocked: Arc<Unlocked>,
    selector: String,
    der: Vec<u8>,
}

impl Signer {
    /// The active certificate of this name, or the one with this thumbprint, once it has signed
    /// something.
    ///
    /// # Errors
    /// `CertificateMissing`, `PrivateKeyMissing`, `CertificateExpired`.
    pub fn new(
        unlocked: Arc<Unlocked>,
        selector: &str,
        operator: &dyn Operator,
    ) -> Result<Self, RunError> {
        let info = unlocked.store().find(selector)?;
        operator.tell_expiring(&info.name, info.not_after);
        let selector = info.thumbprint();
        let der = unlocked.store().certificate_der(&selector)?.to_vec();
        unlocked.sign(&selector, b"trial")?;
        Ok(Self { unlocked, selector, der })
    }
}

impl Sign for Signer {
    fn certificate_der(&self) -> &[u8] {
        &self.der
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.unlocked.sign(&self.selector, message)
    }
}

/// A signature on a set as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The file of a striped media set that it is on, from 0.
    pub family: u16,
    /// When, as its maker says.
    pub signed_at: String,
    /// Subject of the certificate; empty for one that cannot be read.
    pub subject: String,
    /// SHA-1 of the certificate, as SQL Server shows it.
    pub thumbprint: String,
    /// SHA-256 of the certificate.
    pub thumbprint_sha256: String,
    /// Name of the certificate in the key store; null where the store does not know it: then the
    /// signature says only that one hand made it all.
    pub certificate_name: Option<String>,
    /// Whether it holds for header, index and every block; null where that was not looked at.
    pub valid: Option<bool>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Signature {
    /// A signature that was not checked.
    #[must_use]
    pub fn unchecked(info: &SignatureInfo, store: Option<&KeyStore>) -> Self {
        Self::by(&info.certificate_der, info.family, info.signed_ms, store)
    }

    /// A signature that was checked against every block.
    #[must_use]
    pub fn checked(check: &SignatureCheck, store: Option<&KeyStore>) -> Self {
        Self {
            valid: Some(check.problem.is_none()),
            problem: check.problem.map(str::to_owned),
            ..Self::by(&check.certificate_der, check.family, check.signed_ms, store)
        }
    }

    fn by(der: &[u8], family: u16, signed_ms: i64, store: Option<&KeyStore>) -> Self {
        let digest = sha256(&[der]);
        let known = store.and_then(|store| store.by_sha256(&digest));
        Self {
            family,
            signed_at: date_of_ms(signed_ms),
            subject: x509::parse(der).map(|facts| facts.subject).unwrap_or_default(),
            thumbprint: thumbprint(&sha1_thumbprint(der)),
            thumbprint_sha256: thumbprint(&digest),
            certificate_name: known.map(|info| info.name.clone()),
            valid: None,
            problem: None,
        }
    }

    /// The line that is printed.
    #[must_use]
    pub fn line(&self) -> String {
        let who = match &self.certificate_name {
            Some(name) => format!("{name}, {}", self.thumbprint),
            None => format!("{}, {}, not in the key store", self.subject, self.thumbprint),
        };
        let state = match (self.valid, &self.problem) {
            (Some(true), _) => "the signature holds".to_owned(),
            (Some(false), problem) => {
                format!(
                    "THE SIGNATURE DOES NOT HOLD: {}",
                    problem.as_deref().unwrap_or("it differs")
                )
            }
            (None, _) => "not checked".to_owned(),
        };
        format!("signed {} by {who}: {state}", self.signed_at)
    }
}

/// Fails unless all sets of a chain are signed by `certificate`. Every block is read for that: a
/// signature holds for all of them or for none, and only the blocks that it was checked on are
/// restored then.
///
/// # Errors
/// `NotSigned`; `MirrorsDiffer`; those of reading.
pub fn require_signed(
    chain: &mut Chain<'_>,
    certificate: &str,
    store: Option<&KeyStore>,
    run: &Run<'_>,
) -> Result<(), RunError> {
    let checked = chain.verify(run)?;
    for (set, report) in chain.sets().zip(checked) {
        if report.differing_blocks > 0 {
            return Err(RunError::MirrorsDiffer { position: set.position });
        }
        let signatures: Vec<_> =
            report.signatures.iter().map(|each| Signature::checked(each, store)).collect();
        refuse_unsigned(set, &signatures, certificate)?;
    }
    Ok(())
}

/// Fails unless the set is signed by `certificate`, a name that the key store knows or a
/// thumbprint, in each of the files that it is striped over.
///
/// # Errors
/// `NotSigned`, `WrongSignature` for one by it that does not hold.
pub fn refuse_unsigned(
    set: &SetInfo,
    signatures: &[Signature],
    certificate: &str,
) -> Result<(), RunError> {
    refuse_without((set.position, set.families), signatures, certificate)
}

fn refuse_without(
    (position, families): (u32, u16),
    signatures: &[Signature],
    certificate: &str,
) -> Result<(), RunError> {
    let digits = |text: &str| {
        let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        text.to_ascii_lowercase()
    };
    let by = |signature: &&Signature| {
        signature.certificate_name.as_deref() == Some(certificate)
            || digits(&signature.thumbprint) == digits(certificate)
            || digits(&signature.thumbprint_sha256) == digits(certificate)
    };
    let holds = |family| {
        let of_family = signatures.iter().filter(|signature| signature.family == family);
        of_family.filter(by).any(|signature| signature.valid == Some(true))
    };
    if (0..families.max(1)).all(holds) {
        return Ok(());
    }
    // One that is there and wrong is no missing one.
    match signatures.iter().filter(by).any(|signature| signature.valid == Some(false)) {
        true => Err(RunError::WrongSignature { position }),
        false => Err(RunError::NotSigned { position, certificate: certificate.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(family: u16, valid: bool) -> Signature {
        Signature {
            family,
            signed_at: String::new(),
            subject: String::new(),
            thumbprint: "0xAB".to_owned(),
            thumbprint_sha256: "0xCD".to_owned(),
            certificate_name: Some("Signer".to_owned()),
            valid: Some(valid),
            problem: None,
        }
    }

    #[test]
    fn a_wrong_signature_is_not_called_missing() {
        let judge = |families, signatures: &[Signature], certificate| {
            refuse_without((1, families), signatures, certificate)
        };
        let (good, wrong) = (signature(0, true), signature(0, false));
        for certificate in ["Signer", "ab", "0XCD"] {
            assert!(judge(1, std::slice::from_ref(&good), certificate).is_ok());
            let refused = judge(1, std::slice::from_ref(&wrong), certificate);
            assert!(matches!(refused, Err(RunError::WrongSignature { position: 1 })));
        }
        // A second one that holds is enough, in each stripe.
        assert!(judge(1, &[wrong.clone(), good.clone()], "Signer").is_ok());
        let half = judge(2, &[good.clone(), signature(1, false)], "Signer");
        assert!(matches!(half, Err(RunError::WrongSignature { .. })));
        let half = judge(2, std::slice::from_ref(&good), "Signer");
        assert!(matches!(half, Err(RunError::NotSigned { .. })));
        let other = judge(1, &[wrong], "Other");
        assert!(matches!(other, Err(RunError::NotSigned { .. })));
    }
}
