//! Signatures on sets, which authenticate their content.

use std::sync::Arc;

use serde::Serialize;
use tdekit_key_crypto::{sha1_thumbprint, sha256, x509};
use tdekit_key_store::{CertificateInfo, KeyStore, StoreError, Unlocked, thumbprint};

use crate::database::source::{Chosen, Wrapping};
use crate::error::ArchiveError;
use crate::operator::Operator;
use crate::{Chain, Run, RunError, SetInfo, Sign, SignatureCheck, SignatureInfo, date_of_ms};

/// A certificate of the key store that signs.
pub struct Signer {
    unlocked: Arc<Unlocked>,
    name: String,
    selector: String,
    der: Vec<u8>,
}

impl Signer {
    /// Finds the active certificate of this name, or the one with this thumbprint, and opens its
    /// private key.
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
        let info = info.clone();
        Self::by(unlocked, &info)
    }

    fn by(unlocked: Arc<Unlocked>, info: &CertificateInfo) -> Result<Self, RunError> {
        let (name, selector) = (info.name.clone(), info.thumbprint());
        let der = unlocked.store().certificate_der(&selector)?.to_vec();
        unlocked.check_signer(&selector)?;
        Ok(Self { unlocked, name, selector, der })
    }

    /// Returns the default signer of a sealed set: the first of its certificates whose private key
    /// is in the key store, if that is open. `None` if there is none, and for a plain set. Choosing
    /// the certificates has already reported those that expire soon.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_sealed(chosen: Option<&(Chosen, Wrapping)>) -> Result<Option<Self>, RunError> {
        let Some((chosen, Wrapping::Unlocked(unlocked))) = chosen else { return Ok(None) };
        let own = chosen.certificates.iter().find(|info| info.has_private_key);
        own.map(|info| Self::by(Arc::clone(unlocked), info)).transpose()
    }

    /// Returns the certificate's name in the key store.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if it signs as `wanted`, a name in the key store or a thumbprint.
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        let found = self.unlocked.store().find(wanted);
        found.is_ok_and(|info| info.thumbprint() == self.selector)
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

/// A signature on a set, as reported to users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The file of a striped media set that it covers, from 0.
    pub family: u16,
    /// Time of the signature, according to its maker.
    pub signed_at: String,
    /// Subject of the certificate; empty for one that cannot be read.
    pub subject: String,
    /// SHA-1 of the certificate, as SQL Server shows it.
    pub thumbprint: String,
    /// SHA-256 of the certificate.
    pub thumbprint_sha256: String,
    /// Name of the certificate in the key store; null if the store does not know it: then the
    /// signature only shows that one signer made everything.
    pub certificate_name: Option<String>,
    /// True if it is valid for header, index and every block; null if that was not checked.
    pub valid: Option<bool>,
    /// The fault.
    pub problem: Option<String>,
}

impl Signature {
    /// Makes the report of a signature that was not checked.
    #[must_use]
    pub fn unchecked(info: &SignatureInfo, store: Option<&KeyStore>) -> Self {
        Self::by(&info.certificate_der, info.family, info.signed_ms, store)
    }

    /// Makes the report of a signature that was checked against every block.
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

    /// Returns true if it was made by this certificate, a name that the key store knows or a
    /// thumbprint.
    #[must_use]
    pub fn is_by(&self, certificate: &str) -> bool {
        let digits = |text: &str| {
            let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            text.to_ascii_lowercase()
        };
        let wanted = digits(certificate);
        self.certificate_name.as_deref() == Some(certificate)
            || digits(&self.thumbprint) == wanted
            || digits(&self.thumbprint_sha256) == wanted
    }

    /// Returns the printed line.
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

/// Fails unless all sets of a chain are signed by `certificate`, a name that the key store knows or
/// a thumbprint. This reads every block: a signature is valid for all of them or for none, and
/// afterwards only the checked blocks are restored.
///
/// # Errors
/// `NotSigned`; `WrongSignature`; `MirrorsDiffer`; those of reading.
pub fn require_signed(
    chain: &mut Chain<'_>,
    certificate: &str,
    store: Option<&KeyStore>,
    run: &Run<'_>,
) -> Result<(), RunError> {
    for (index, (set, signatures)) in checked(chain, store, run)?.into_iter().enumerate() {
        refuse_unsigned(set, &signatures, certificate)
            .map_err(|error| named(chain, index, error))?;
    }
    Ok(())
}

/// Fails if a set of a chain has an invalid signature. Each signature names its certificate, so all
/// can be checked; this reads every block, as [`require_signed`] does. A chain without a signature
/// is not read.
///
/// # Errors
/// `WrongSignature`; `MirrorsDiffer`; those of reading.
pub fn refuse_wrong(chain: &mut Chain<'_>, run: &Run<'_>) -> Result<(), RunError> {
    if chain.sets().all(|set| set.signatures.is_empty()) {
        return Ok(());
    }
    let checked = checked(chain, None, run)?;
    let wrong = |signatures: &[Signature]| signatures.iter().any(|each| each.valid != Some(true));
    match checked.iter().enumerate().find(|(_, (_, signatures))| wrong(signatures)) {
        Some((index, (set, _))) => {
            Err(named(chain, index, RunError::WrongSignature { position: set.position }))
        }
        None => Ok(()),
    }
}

/// Names the object in an error about the set at `index` of an archive's chain: there, each set has
/// the first position.
fn named(chain: &Chain<'_>, index: usize, error: RunError) -> RunError {
    let Some(object) = chain.object(index).map(str::to_owned) else { return error };
    match error {
        RunError::WrongSignature { .. } => ArchiveError::WrongSignature { object }.into(),
        RunError::NotSigned { certificate, .. } => {
            ArchiveError::NotSigned { object, certificate }.into()
        }
        error => error,
    }
}

/// Returns true if each set of a chain is signed by a certificate whose private key is in the open
/// key store, so that nobody else can have put it there. If the sets claim that, every block is
/// read, as by [`require_signed`].
///
/// # Errors
/// `WrongSignature`; `MirrorsDiffer`; those of reading.
pub fn is_our_own(
    chain: &mut Chain<'_>,
    unlocked: &Unlocked,
    run: &Run<'_>,
) -> Result<bool, RunError> {
    let store = unlocked.store();
    let own: Vec<_> = store.certificates().iter().filter(|info| info.has_private_key).collect();
    let own: Vec<_> = own.iter().map(|info| thumbprint(&info.sha256)).collect();
    let by_us = |signature: &Signature| own.contains(&signature.thumbprint_sha256);
    let claims = |set: &SetInfo| {
        let told = set.signatures.iter().map(|each| Signature::unchecked(each, None));
        state_of(set.families, &told.collect::<Vec<_>>(), by_us) != State::Missing
    };
    if !chain.sets().all(claims) {
        return Ok(false);
    }
    for (index, (set, signatures)) in checked(chain, Some(store), run)?.into_iter().enumerate() {
        match state_of(set.families, &signatures, by_us) {
            State::Holds => {}
            State::Wrong => {
                let wrong = RunError::WrongSignature { position: set.position };
                return Err(named(chain, index, wrong));
            }
            State::Claimed | State::Missing => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns the signatures of each set of a chain, checked against every block.
fn checked<'a>(
    chain: &mut Chain<'a>,
    store: Option<&KeyStore>,
    run: &Run<'_>,
) -> Result<Vec<(&'a SetInfo, Vec<Signature>)>, RunError> {
    let reports = chain.verify(run)?;
    let mut all = Vec::with_capacity(reports.len());
    for (index, (set, report)) in chain.sets().zip(reports).enumerate() {
        if let (Some(object), Some(reason)) = (chain.object(index), report.damages.first()) {
            let (media, what) = (object.to_owned(), "the object".to_owned());
            return Err(RunError::Damaged { media, what, reason: reason.clone() });
        }
        if report.differing_blocks > 0 {
            return Err(RunError::MirrorsDiffer { position: set.position });
        }
        let signatures = report.signatures.iter().map(|each| Signature::checked(each, store));
        all.push((set, signatures.collect()));
    }
    Ok(all)
}

/// Fails unless the set is signed by `certificate`, a name that the key store knows or a
/// thumbprint, in each of the files over which it is striped.
///
/// # Errors
/// `NotSigned`, `WrongSignature` for an invalid one by this certificate.
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
    match state_of(families, signatures, |signature| signature.is_by(certificate)) {
        State::Holds => Ok(()),
        State::Wrong => Err(RunError::WrongSignature { position }),
        State::Claimed | State::Missing => {
            Err(RunError::NotSigned { position, certificate: certificate.to_owned() })
        }
    }
}

/// The state of a set's signatures by one signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A valid one exists in each family.
    Holds,
    /// An existing one is invalid.
    Wrong,
    /// One exists in each family but was not checked.
    Claimed,
    Missing,
}

fn state_of(families: u16, signatures: &[Signature], by: impl Fn(&Signature) -> bool) -> State {
    let signatures: Vec<_> = signatures.iter().filter(|signature| by(signature)).collect();
    let in_each = |wanted: &dyn Fn(Option<bool>) -> bool| {
        let is =
            |family: u16| signatures.iter().any(|each| each.family == family && wanted(each.valid));
        (0..families.max(1)).all(is)
    };
    if in_each(&|valid| valid == Some(true)) {
        State::Holds
    } else if signatures.iter().any(|signature| signature.valid == Some(false)) {
        // An existing invalid one is not a missing one.
        State::Wrong
    } else if in_each(&|valid| valid.is_none()) {
        State::Claimed
    } else {
        State::Missing
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
        // A second, valid one is enough, in each stripe.
        assert!(judge(1, &[wrong.clone(), good.clone()], "Signer").is_ok());
        let half = judge(2, &[good.clone(), signature(1, false)], "Signer");
        assert!(matches!(half, Err(RunError::WrongSignature { .. })));
        let half = judge(2, std::slice::from_ref(&good), "Signer");
        assert!(matches!(half, Err(RunError::NotSigned { .. })));
        let other = judge(1, &[wrong], "Other");
        assert!(matches!(other, Err(RunError::NotSigned { .. })));
    }
}
