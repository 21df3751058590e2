//! The bytes of the store file, as specified in `docs/format/keystore.md`. Pure: opens no file.

use std::collections::BTreeSet;

use tdekit_key_crypto::sha256;

use crate::bytes::{Reader, put_short};
use crate::error::StoreError;
use crate::protector_kind::ProtectorKind;

/// First bytes of a store file.
pub const MAGIC: &[u8; 16] = b"tdekit keystore\0";
/// Newest version of the format that this program reads, and the version that it writes for a store
/// with an audit log.
pub const FORMAT_VERSION: u16 = 2;
/// Version of a store without an audit log.
const VERSION_WITHOUT_AUDIT: u16 = 1;
/// Most bytes of a store file.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most bytes of a certificate's name.
pub const MAX_NAME_BYTES: usize = 128;

const HEADER_BYTES: usize = 64;
const DIGEST_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
const SECTION_MASTER_KEY: u16 = 1;
const SECTION_CERTIFICATE: u16 = 2;
const SECTION_AUDIT: u16 = 3;
/// Nonce, key and tag.
const SEALED_AUDIT_KEY_BYTES: usize = 24 + 32 + 16;
pub(crate) const MAX_PROTECTORS: usize = 16;
const MAX_PROTECTOR_BYTES: usize = 4096;
const MAX_CERTIFICATES: usize = 4096;
const MAX_CERTIFICATE_BYTES: usize = 16 << 10;
const MAX_PRIVATE_KEY_BYTES: usize = 16 << 10;
const FLAG_ACTIVE: u8 = 1;
const FLAG_BACKED_UP: u8 = 2;
const FLAG_PRIVATE_KEY: u8 = 4;

/// The master key, sealed by one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protector {
    /// The kind of secret that opens it.
    pub kind: ProtectorKind,
    /// Random identifier; bound into the seal.
    pub id: [u8; 16],
    /// Creation time, seconds since 1970.
    pub created_at: i64,
    /// The provider's own parameters, such as a salt.
    pub params: Vec<u8>,
    /// The sealed master key.
    pub sealed: Vec<u8>,
}

/// The master key's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeyRecord {
    /// Random identifier of this master key; changes when it is rotated.
    pub id: [u8; 16],
    /// Creation time, seconds since 1970.
    pub created_at: i64,
    /// The protectors that open it: 1 to 16.
    pub protectors: Vec<Protector>,
}

/// One certificate, with its private key sealed under the master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRecord {
    /// Name, unique among active certificates; UTF-8 of at most [`MAX_NAME_BYTES`].
    pub name: String,
    /// 1 for the first certificate of this name, incremented at each rotation.
    pub generation: u32,
    /// True if it wraps new keys. One generation of a name is active.
    pub active: bool,
    /// Time at which it was added to this store, seconds since 1970.
    pub created_at: i64,
    /// Time of its last backup, seconds since 1970.
    pub backed_up_at: Option<i64>,
    /// The X.509 certificate, DER.
    pub der: Vec<u8>,
    /// PKCS#8 private key, sealed; `None` for a certificate that can only wrap.
    pub sealed_private_key: Option<Vec<u8>>,
}

/// An entry of the audit log, by its number and its MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditMark {
    /// Number, from 1; 0 is the position before the first entry.
    pub sequence: u64,
    /// Its MAC; zeros before the first entry.
    pub mac: [u8; 32],
}

impl AuditMark {
    /// Position before the first entry.
    pub const START: Self = Self { sequence: 0, mac: [0; 32] };
}

/// The store's record of its audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditAnchor {
    /// The key of the log's MACs, sealed: 72 bytes.
    pub sealed_key: Vec<u8>,
    /// The entry after which the log of this directory begins.
    pub base: AuditMark,
    /// The last entry when the store was written.
    pub head: AuditMark,
}

/// A store file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Random identifier of the store.
    pub store_id: [u8; 16],
    /// Incremented at each write.
    pub sequence: u64,
    /// Time of the write, seconds since 1970.
    pub written_at: i64,
    /// The master key.
    pub master_key: MasterKeyRecord,
    /// The certificates, in the order in which they were added.
    pub certificates: Vec<CertificateRecord>,
    /// Its audit log; `None` in a file of format version 1.
    pub audit: Option<Box<AuditAnchor>>,
}

impl StoreFile {
    /// Returns the version of its format: the lowest that can represent it.
    #[must_use]
    pub fn format_version(&self) -> u16 {
        if self.audit.is_some() { FORMAT_VERSION } else { VERSION_WITHOUT_AUDIT }
    }

    /// Reads a whole store file. The digest is checked; the MAC is not, because that needs the
    /// master key.
    ///
    /// # Errors
    /// `FutureVersion` for a newer format, `Corrupt` for anything that [`Self::encode`] would not
    /// have written. Never panics, whatever the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut header = Reader::new(bytes);
        let Header { version, store_id, sequence, written_at, sections } =
            decode_header(&mut header, bytes.len())?;
        let split = bytes.len().saturating_sub(DIGEST_BYTES + MAC_BYTES);
        let Some((body, tail)) = bytes.split_at_checked(split) else {
            return Err(StoreError::corrupt("length", "too short"));
        };
        if tail.get(..DIGEST_BYTES) != Some(sha256(&[body]).as_slice()) {
            return Err(StoreError::corrupt("digest", "the content does not match it"));
        }
        let mut reader = Reader::new(body);
        reader.take(HEADER_BYTES, "header")?;
        let (master_key, certificates, audit) = decode_sections(&mut reader, sections)?;
        reader.end("sections")?;
        let audit = audit.map(Box::new);
        let file = Self { store_id, sequence, written_at, master_key, certificates, audit };
        if file.format_version() != version {
            return Err(StoreError::corrupt("version", "does not fit the sections"));
        }
        file.check()?;
        Ok(file)
    }

    /// Returns the file's bytes, with the MAC that `mac` computes over all bytes before it.
    ///
    /// # Errors
    /// `Corrupt` when a field is longer than the format allows or violates one of its rules.
    pub fn encode(
        &self,
        mac: impl FnOnce(&[u8]) -> Result<[u8; MAC_BYTES], StoreError>,
    ) -> Result<Vec<u8>, StoreError> {
        self.check()?;
        let mut sections = Vec::new();
        put_section(&mut sections, SECTION_MASTER_KEY, &encode_master_key(&self.master_key)?)?;
        for certificate in &self.certificates {
            put_section(&mut sections, SECTION_CERTIFICATE, &encode_certificate(certificate)?)?;
        }
        if let Some(audit) = &self.audit {
            put_section(&mut sections, SECTION_AUDIT, &encode_audit(audit))?;
        }
        let len = HEADER_BYTES + sections.len() + DIGEST_BYTES + MAC_BYTES;
        let len = u32::try_from(len)
            .ok()
            .filter(|len| u64::from(*len) <= MAX_FILE_BYTES)
            .ok_or_else(|| StoreError::corrupt("length", "the store would grow over 16 MiB"))?;
        let count = u32::try_from(self.certificates.len() + 1 + usize::from(self.audit.is_some()))
            .map_err(|_| StoreError::corrupt("certificates", "too many"))?;
        let mut out = Vec::with_capacity(HEADER_BYTES + sections.len() + DIGEST_BYTES + MAC_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.format_version().to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&self.store_id);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.written_at.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&sections);
        let digest = sha256(&[&out]);
        out.extend_from_slice(&digest);
        let tag = mac(&out)?;
        out.extend_from_slice(&tag);
        Ok(out)
    }

    /// Splits a store file into the bytes under the MAC and the MAC itself.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than a MAC.
    pub fn split_mac(bytes: &[u8]) -> Result<(&[u8], &[u8; MAC_BYTES]), StoreError> {
        bytes.split_last_chunk().ok_or_else(|| StoreError::corrupt("length", "too short"))
    }

    /// Checks the rules that hold between records.
    fn check(&self) -> Result<(), StoreError> {
        let protectors = self.master_key.protectors.len();
        if protectors == 0 || protectors > MAX_PROTECTORS {
            return Err(StoreError::corrupt("protectors", format!("{protectors} of them")));
        }
        if self.certificates.len() > MAX_CERTIFICATES {
            return Err(StoreError::corrupt("certificates", "more than 4096"));
        }
        if let Some(audit) = &self.audit {
            check_audit(audit)?;
        }
        let mut generations = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut active = BTreeSet::new();
        let mut contents = BTreeSet::new();
        for certificate in &self.certificates {
            let name = certificate.name.as_str();
            if certificate.generation == 0 || !generations.insert((name, certificate.generation)) {
                return Err(StoreError::corrupt("certificate generation", name));
            }
            if certificate.active && !active.insert(name) {
                return Err(StoreError::corrupt("active certificate", name));
            }
            if !contents.insert(certificate.der.as_slice()) {
                return Err(StoreError::corrupt("certificate", format!("{name} is there twice")));
            }
            names.insert(name);
        }
        match names.iter().find(|name| !active.contains(*name)) {
            Some(name) => Err(StoreError::corrupt("active certificate", format!("none of {name}"))),
            None => Ok(()),
        }
    }
}

struct Header {
    version: u16,
    store_id: [u8; 16],
    sequence: u64,
    written_at: i64,
    sections: u32,
}

fn decode_header(reader: &mut Reader<'_>, file_len: usize) -> Result<Header, StoreError> {
    if reader.take(MAGIC.len(), "magic")? != MAGIC {
        return Err(StoreError::corrupt("magic", "this is not a key store"));
    }
    let version = reader.u16("version")?;
    if version == 0 {
        return Err(StoreError::corrupt("version", "0"));
    }
    if version > FORMAT_VERSION {
        return Err(StoreError::FutureVersion { found: version, supported: FORMAT_VERSION });
    }
    if reader.u16("flags")? != 0 {
        return Err(StoreError::corrupt("flags", "not 0"));
    }
    let len = reader.u32("length")?;
    if usize::try_from(len).ok() != Some(file_len) || u64::from(len) > MAX_FILE_BYTES {
        let reason = format!("{len} bytes by its header, {file_len} in the file");
        return Err(StoreError::corrupt("length", reason));
    }
    let store_id = reader.array("store id")?;
    let sequence = reader.u64("sequence")?;
    let written_at = reader.i64("time of writing")?;
    let sections = reader.u32("number of sections")?;
    if reader.u32("reserved")? != 0 {
        return Err(StoreError::corrupt("reserved", "not 0"));
    }
    Ok(Header { version, store_id, sequence, written_at, sections })
}

type Sections = (MasterKeyRecord, Vec<CertificateRecord>, Option<AuditAnchor>);

fn decode_sections(reader: &mut Reader<'_>, sections: u32) -> Result<Sections, StoreError> {
    let mut master_key = None;
    let mut audit = None;
    let mut certificates = Vec::new();
    for index in 0..sections {
        let kind = reader.u16("section kind")?;
        if reader.u16("section flags")? != 0 {
            return Err(StoreError::corrupt("section flags", "not 0"));
        }
        let len = usize::try_from(reader.u32("section length")?)
            .map_err(|_| StoreError::corrupt("section length", "too large"))?;
        let mut section = Reader::new(reader.take(len, "section")?);
        match (kind, index) {
            (SECTION_MASTER_KEY, 0) => master_key = Some(decode_master_key(&mut section)?),
            (SECTION_CERTIFICATE, 1..) => certificates.push(decode_certificate(&mut section)?),
            (SECTION_AUDIT, 1..) if index == sections - 1 => {
                audit = Some(decode_audit(&mut section)?);
            }
            _ => {
                let reason = format!("{kind} at place {index}");
                return Err(StoreError::corrupt("section kind", reason));
            }
        }
        section.end("section length")?;
    }
    let master_key =
        master_key.ok_or_else(|| StoreError::corrupt("master key", "there is none"))?;
    Ok((master_key, certificates, audit))
}

fn decode_audit(reader: &mut Reader<'_>) -> Result<AuditAnchor, StoreError> {
    let sealed_key = reader.take(SEALED_AUDIT_KEY_BYTES, "audit key")?.to_vec();
    let mut mark = || -> Result<AuditMark, StoreError> {
        let sequence = reader.u64("audit mark")?;
        Ok(AuditMark { sequence, mac: reader.array("audit mark")? })
    };
    Ok(AuditAnchor { sealed_key, base: mark()?, head: mark()? })
}

fn encode_audit(audit: &AuditAnchor) -> Vec<u8> {
    let mut out = audit.sealed_key.clone();
    for mark in [&audit.base, &audit.head] {
        out.extend_from_slice(&mark.sequence.to_le_bytes());
        out.extend_from_slice(&mark.mac);
    }
    out
}

fn check_audit(audit: &AuditAnchor) -> Result<(), StoreError> {
    if audit.sealed_key.len() != SEALED_AUDIT_KEY_BYTES {
        return Err(StoreError::corrupt("audit key", "not of 72 bytes"));
    }
    if audit.base.sequence > audit.head.sequence {
        return Err(StoreError::corrupt("audit mark", "the log would begin behind its end"));
    }
    Ok(())
}

fn decode_master_key(reader: &mut Reader<'_>) -> Result<MasterKeyRecord, StoreError> {
    let id = reader.array("master key id")?;
    let created_at = reader.i64("master key time")?;
    let count = usize::from(reader.u16("number of protectors")?);
    if count > MAX_PROTECTORS {
        return Err(StoreError::corrupt("protectors", format!("{count} of them")));
    }
    let mut protectors = Vec::with_capacity(count);
    for _ in 0..count {
        protectors.push(Protector {
            kind: ProtectorKind::from_id(reader.u16("protector kind")?),
            id: reader.array("protector id")?,
            created_at: reader.i64("protector time")?,
            params: reader.short(MAX_PROTECTOR_BYTES, "protector parameters")?.to_vec(),
            sealed: reader.short(MAX_PROTECTOR_BYTES, "sealed master key")?.to_vec(),
        });
    }
    Ok(MasterKeyRecord { id, created_at, protectors })
}

fn encode_master_key(record: &MasterKeyRecord) -> Result<Vec<u8>, StoreError> {
    let mut out = Vec::new();
    out.extend_from_slice(&record.id);
    out.extend_from_slice(&record.created_at.to_le_bytes());
    let count = u16::try_from(record.protectors.len())
        .map_err(|_| StoreError::corrupt("protectors", "too many"))?;
    out.extend_from_slice(&count.to_le_bytes());
    for protector in &record.protectors {
        out.extend_from_slice(&protector.kind.id().to_le_bytes());
        out.extend_from_slice(&protector.id);
        out.extend_from_slice(&protector.created_at.to_le_bytes());
        put_limited(&mut out, &protector.params, MAX_PROTECTOR_BYTES, "protector parameters")?;
        put_limited(&mut out, &protector.sealed, MAX_PROTECTOR_BYTES, "sealed master key")?;
    }
    Ok(out)
}

fn decode_certificate(reader: &mut Reader<'_>) -> Result<CertificateRecord, StoreError> {
    let generation = reader.u32("certificate generation")?;
    let flags = reader.u8("certificate flags")?;
    if flags & !(FLAG_ACTIVE | FLAG_BACKED_UP | FLAG_PRIVATE_KEY) != 0 {
        return Err(StoreError::corrupt("certificate flags", format!("{flags:#04x}")));
    }
    let created_at = reader.i64("certificate time")?;
    let backed_up_at = reader.i64("certificate backup time")?;
    let backed_up = flags & FLAG_BACKED_UP != 0;
    if !backed_up && backed_up_at != 0 {
        return Err(StoreError::corrupt("certificate backup time", "set without its flag"));
    }
    let name = reader.short(MAX_NAME_BYTES, "certificate name")?;
    let name = std::str::from_utf8(name)
        .map_err(|_| StoreError::corrupt("certificate name", "not UTF-8"))?;
    check_name(name).map_err(|reason| StoreError::corrupt("certificate name", reason))?;
    let der = reader.short(MAX_CERTIFICATE_BYTES, "certificate")?.to_vec();
    let private_key = reader.short(MAX_PRIVATE_KEY_BYTES, "private key")?;
    let has_private_key = flags & FLAG_PRIVATE_KEY != 0;
    if has_private_key == private_key.is_empty() {
        return Err(StoreError::corrupt("private key", "its flag says otherwise"));
    }
    Ok(CertificateRecord {
        name: name.to_owned(),
        generation,
        active: flags & FLAG_ACTIVE != 0,
        created_at,
        backed_up_at: backed_up.then_some(backed_up_at),
        der,
        sealed_private_key: has_private_key.then(|| private_key.to_vec()),
    })
}

fn encode_certificate(record: &CertificateRecord) -> Result<Vec<u8>, StoreError> {
    check_name(&record.name).map_err(|reason| StoreError::InvalidValue {
        what: "certificate name",
        value: record.name.clone(),
        reason,
    })?;
    let mut flags = 0;
    if record.active {
        flags |= FLAG_ACTIVE;
    }
    if record.backed_up_at.is_some() {
        flags |= FLAG_BACKED_UP;
    }
    if record.sealed_private_key.is_some() {
        flags |= FLAG_PRIVATE_KEY;
    }
    let mut out = Vec::new();
    out.extend_from_slice(&record.generation.to_le_bytes());
    out.push(flags);
    out.extend_from_slice(&record.created_at.to_le_bytes());
    out.extend_from_slice(&record.backed_up_at.unwrap_or(0).to_le_bytes());
    put_limited(&mut out, record.name.as_bytes(), MAX_NAME_BYTES, "certificate name")?;
    put_limited(&mut out, &record.der, MAX_CERTIFICATE_BYTES, "certificate")?;
    let private_key = record.sealed_private_key.as_deref().unwrap_or_default();
    put_limited(&mut out, private_key, MAX_PRIVATE_KEY_BYTES, "private key")?;
    Ok(out)
}

/// Checks a certificate's name. The error is the rule that `name` violates.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("is longer than 128 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("has control characters");
    }
    if name.trim() != name {
        return Err("begins or ends with a space");
    }
    // Such a name would be taken for a thumbprint wherever both are accepted.
    if name.starts_with("0x") || name.starts_with("0X") {
        return Err("begins with 0x, as thumbprints do");
    }
    Ok(())
}

fn put_limited(
    out: &mut Vec<u8>,
    bytes: &[u8],
    max: usize,
    field: &'static str,
) -> Result<(), StoreError> {
    if bytes.len() > max {
        let reason = format!("{} bytes, where {max} is the most", bytes.len());
        return Err(StoreError::corrupt(field, reason));
    }
    put_short(out, bytes, field)
}

fn put_section(out: &mut Vec<u8>, kind: u16, body: &[u8]) -> Result<(), StoreError> {
    let len = u32::try_from(body.len())
        .map_err(|_| StoreError::corrupt("section length", "too large"))?;
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&0u16.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(body);
    Ok(())
}
