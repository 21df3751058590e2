//! The file of the plugin `keyring_file`, which MySQL 5.7 to 8.3 have, as their published source
//! writes it on 64-bit machines.
//!
//! | bytes | what |
//! |---|---|
//! | 24 | `Keyring file version:`, then `1.0` or `2.0` |
//! | 5 times 8 | lengths, little-endian: the whole key, identifier, type, owner, the key's bytes |
//! | those | identifier, type, owner, the key's bytes XORed with a text that the plugin has |
//! | 0 to 7 | padding to a multiple of 8, of any content |
//! | 3 | `EOF`, after the last key |
//! | 32 | version 2.0 only: SHA-256 of all keys, from the first length to the last padding |
//!
//! The length of the whole key counts the lengths and the padding.

use tdekit_key_crypto::sha256;
use tdekit_key_store::{KeyName, MAX_NAMED_KEY_LEN, NewKey, SecretBytes};

const MAGIC: &[u8] = b"Keyring file version:";
const END: &[u8] = b"EOF";
const DIGEST_LEN: usize = 32;
const WORD: usize = 8;
const LENGTHS: usize = 5;
/// Hides the keys from a glance, and from nobody else.
const OBFUSCATION: &[u8] = b"*305=Ljt0*!@$Hnm(*-9-w;:";

pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<NewKey>, String> {
    let none = || "it does not begin like a file of keyring_file".to_owned();
    let (version, rest) = bytes.strip_prefix(MAGIC).and_then(split::<3>).ok_or_else(none)?;
    let mut left = match version {
        b"1.0" => rest.strip_suffix(END).ok_or_else(no_end)?,
        b"2.0" => {
            let (rest, digest) = rest.split_last_chunk::<DIGEST_LEN>().ok_or_else(no_end)?;
            let keys = rest.strip_suffix(END).ok_or_else(no_end)?;
            if sha256(&[keys]) != *digest {
                return Err("its digest does not fit its keys".to_owned());
            }
            keys
        }
        _ => return Err(format!("it has version {:?}", String::from_utf8_lossy(version))),
    };
    let mut keys = Vec::new();
    while !left.is_empty() {
        let (key, rest) = read_key(left)
            .ok_or_else(|| format!("key {} is not whole, or is no key", keys.len() + 1))?;
        keys.push(key);
        left = rest;
    }
    Ok(keys)
}

fn no_end() -> String {
    "it does not end like a file of keyring_file".to_owned()
}

/// Returns the first key and what follows it.
fn read_key(bytes: &[u8]) -> Option<(NewKey, &[u8])> {
    let mut left = bytes;
    let mut lengths = [0; LENGTHS];
    for length in &mut lengths {
        let (word, rest) = split::<WORD>(left)?;
        *length = usize::try_from(u64::from_le_bytes(*word)).ok()?;
        left = rest;
    }
    let [whole, id, kind, owner, key] = lengths;
    let fields = [id, kind, owner, key].into_iter().try_fold(0_usize, usize::checked_add)?;
    if key > MAX_NAMED_KEY_LEN || whole != padded(fields)? {
        return None;
    }
    let (_, rest) = bytes.split_at_checked(whole)?;
    let mut field = |len: usize| {
        let (field, rest) = left.split_at_checked(len)?;
        left = rest;
        Some(field)
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let (id, kind, owner) = (text(field(id)?)?, text(field(kind)?)?, text(field(owner)?)?);
    let mut secret = SecretBytes::from_slice(field(key)?).ok()?;
    hide(secret.expose_mut());
    Some((NewKey { name: KeyName { id, owner }, kind, secret }, rest))
}

/// Returns a file of version 2.0.
pub(super) fn write(keys: &[NewKey]) -> Vec<u8> {
    let mut body = Vec::new();
    for key in keys {
        let (id, kind) = (key.name.id.as_bytes(), key.kind.as_bytes());
        let (owner, secret) = (key.name.owner.as_bytes(), key.secret.expose());
        let lengths = [id, kind, owner, secret].map(<[u8]>::len);
        let whole = (LENGTHS * WORD + lengths.iter().sum::<usize>()).next_multiple_of(WORD);
        for length in [whole].into_iter().chain(lengths) {
            body.extend_from_slice(&(length as u64).to_le_bytes());
        }
        [id, kind, owner].into_iter().for_each(|field| body.extend_from_slice(field));
        let at = body.len();
        body.extend_from_slice(secret);
        hide(body.get_mut(at..).unwrap_or_default());
        body.resize(body.len().next_multiple_of(WORD), 0);
    }
    let digest = sha256(&[&body]);
    [MAGIC, b"2.0", &body, END, &digest].concat()
}

/// Length of a key whose fields have this length together, with its lengths and its padding.
fn padded(fields: usize) -> Option<usize> {
    fields.checked_add(LENGTHS * WORD)?.checked_next_multiple_of(WORD)
}

fn hide(key: &mut [u8]) {
    for (byte, mask) in key.iter_mut().zip(OBFUSCATION.iter().cycle()) {
        *byte ^= mask;
    }
}

fn split<const LEN: usize>(bytes: &[u8]) -> Option<(&[u8; LEN], &[u8])> {
    bytes.split_first_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two keys, written down from the published source: a master key of InnoDB of 32 bytes, and
    /// one of a user of 5 bytes.
    fn vector() -> Vec<u8> {
        let mut keys = Vec::new();
        let mut number = |number: u64| keys.extend_from_slice(&number.to_le_bytes());
        [88, 11, 3, 0, 32].into_iter().for_each(&mut number);
        keys.extend_from_slice(b"INNODBKey-1AES");
        keys.extend_from_slice(
            b"\x2a\x32\x32\x36\x39\x49\x6c\x73\x38\x23\x2b\x4b\x28\x45\x60\x62\
              \x38\x3b\x3f\x2a\x39\x62\x2d\x2d\x32\x2a\x2a\x2e\x21\x51\x74\x6b\xaa\xbb",
        );
        let mut number = |number: u64| keys.extend_from_slice(&number.to_le_bytes());
        [56, 1, 6, 4, 5].into_iter().for_each(&mut number);
        keys.extend_from_slice(b"kSECRETa@%bBV\\YR");
        let digest = sha256(&[&keys]);
        [&b"Keyring file version:2.0"[..], &keys, b"EOF", &digest].concat()
    }

    #[test]
    fn keys_are_read_as_the_plugin_wrote_them() {
        let keys = read(&vector()).unwrap();
        let counted: Vec<u8> = (0..32).collect();
        assert_eq!(keys[0].secret.expose(), counted);
        let shown = |key: &NewKey| {
            (key.name.id.clone(), key.name.owner.clone(), key.kind.clone(), key.secret.len())
        };
        let wanted = |id: &str, owner: &str, kind: &str, len| {
            (id.to_owned(), owner.to_owned(), kind.to_owned(), len)
        };
        assert_eq!(shown(&keys[0]), wanted("INNODBKey-1", "", "AES", 32));
        assert_eq!(shown(&keys[1]), wanted("k", "a@%b", "SECRET", 5));
        assert_eq!(keys[1].secret.expose(), b"hello");
        // The first version has no digest.
        let mut old = vector();
        old.truncate(old.len() - DIGEST_LEN);
        old[21] = b'1';
        assert_eq!(read(&old).unwrap().len(), 2);
    }

    #[test]
    fn what_is_written_is_read_and_differs_in_padding_only() {
        let keys = read(&vector()).unwrap();
        let written = write(&keys);
        let mut wanted = vector();
        let padding = 24 + 86;
        wanted[padding..padding + 2].fill(0);
        let end = wanted.len() - DIGEST_LEN;
        let digest = sha256(&[&wanted[24..end - 3]]);
        wanted[end..].copy_from_slice(&digest);
        assert_eq!(written, wanted);
        assert_eq!(read(&write(&[])).unwrap().len(), 0);
    }

    #[test]
    fn a_changed_or_cut_file_is_refused() {
        let whole = vector();
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            assert!(read(&changed).is_err(), "changed at {at}");
        }
        // Without a digest, lengths that do not fit.
        for at in (24..64).step_by(8) {
            for wrong in [100, 1 << 20, 1 << 63, u64::MAX] {
                let mut old = whole[..whole.len() - DIGEST_LEN].to_vec();
                old[21] = b'1';
                old[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
                assert!(read(&old).is_err(), "{wrong} at {at}");
            }
        }
    }
}
