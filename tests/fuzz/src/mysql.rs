//! Files of MySQL: what `mysql verify` reads of them, and the keyrings that `mysql migrate` takes.

use tdekit_key_crypto::{SecretBytes, sha256};
use tdekit_key_store::{KeyName, NewKey};
use tdekit_mysql_admin::FileKeyring;
use tdekit_mysql_admin::format::{BinaryLog, Page, REDO_BLOCK, SMALLEST_PAGE, Space};

const KEYRINGS: [FileKeyring; 2] = [FileKeyring::Component, FileKeyring::Plugin];
const PLUGIN_HEAD: &[u8] = b"Keyring file version:";
const UUID: &[u8; 36] = b"5b1e3d0a-8a3c-11f0-9d53-0242ac110002";
/// Flags of a tablespace that is encrypted, with pages of 16 KiB.
const FLAGS: u32 = 0x4021 | 1 << 13;

/// Pages, blocks and heads: the bytes unchanged, and with the fields that every first page has.
pub fn mysql_files(data: &[u8]) {
    space(data);
    space(&framed_page(data));
    for piece in [data, data.get(..REDO_BLOCK).unwrap_or(data)] {
        let empty = piece.iter().all(|byte| *byte == 0);
        assert_eq!(Page::of(piece) == Page::Empty, empty);
        assert!(!empty || Page::of_redo_block(piece) == Page::Empty);
    }
    if let Some(BinaryLog::Encrypted(key)) = BinaryLog::read(data) {
        // What is no UTF-8 becomes a character of three bytes.
        assert!(key.len() <= 3 * usize::from(u8::MAX));
    }
}

fn space(page: &[u8]) {
    let Some(space) = Space::read(page) else { return };
    assert!(space.page_size.is_power_of_two());
    assert!((SMALLEST_PAGE..=64 << 10).contains(&space.page_size));
    if let Some(key) = space.master_key {
        let rest = key.strip_prefix("INNODBKey-").unwrap();
        assert!(rest.len() > UUID.len() && !rest.contains(char::is_control), "{key:?}");
    }
}

/// A keyring's file: the bytes unchanged, and as the keys of a file of the plugin with a correct
/// digest. Keys that are read come back from a file that is written with them.
pub fn mysql_keyring(data: &[u8]) {
    for keyring in KEYRINGS {
        keys(keyring, data);
    }
    keys(FileKeyring::Plugin, &[PLUGIN_HEAD, b"1.0", data, b"EOF"].concat());
    keys(FileKeyring::Plugin, &framed_keys(data));
}

fn keys(keyring: FileKeyring, bytes: &[u8]) {
    let Ok(keys) = keyring.read(bytes) else { return };
    for other in KEYRINGS {
        let again = other.read(&other.write(&keys).unwrap());
        // The component's file has no limit for a key, the plugin's has the server's.
        let Ok(again) = again else { continue };
        assert_eq!(again.len(), keys.len());
        for (one, other) in keys.iter().zip(&again) {
            assert_eq!((&one.name, &one.kind), (&other.name, &other.kind));
            assert!(one.secret.ct_eq(other.secret.expose()), "another key of the same name");
        }
    }
}

/// Returns a file of the plugin around `data`.
fn framed_keys(data: &[u8]) -> Vec<u8> {
    [PLUGIN_HEAD, b"2.0", data, b"EOF", &sha256(&[data])].concat()
}

/// Returns `data` with the type of a first page.
fn framed_page(data: &[u8]) -> Vec<u8> {
    let mut page = data.to_vec();
    page.resize(data.len().max(SMALLEST_PAGE), 0);
    page[24..26].copy_from_slice(&8_u16.to_be_bytes());
    page
}

/// The first page of an encrypted tablespace, up to the end of its key.
fn first_page() -> Vec<u8> {
    let mut page = framed_page(&vec![0; 10_500]);
    page[54..58].copy_from_slice(&FLAGS.to_be_bytes());
    let key = [b"lCC", &3_u32.to_be_bytes()[..], UUID].concat();
    page[10_390..10_390 + key.len()].copy_from_slice(&key);
    page
}

/// Files that are read to the end.
pub(crate) fn seeds() -> Vec<crate::seeds::Seed> {
    let key = |id: &str, owner: &str, len| NewKey {
        name: KeyName { id: id.to_owned(), owner: owner.to_owned() },
        kind: "AES".to_owned(),
        secret: SecretBytes::from_slice(&vec![0x5A; len]).unwrap(),
    };
    let keys = [key("INNODBKey-5b1e3d0a-1", "", 32), key("k", "ann@%", 16)];
    let written = KEYRINGS.map(|keyring| ("mysql_keyring", keyring.write(&keys).unwrap()));
    let log = b"\xfdbin\x01\x01\x1aMySQLReplicationKey_5b1e_1rest".to_vec();
    let files = [("mysql_files", first_page()), ("mysql_files", log)];
    files.into_iter().chain(written).collect()
}

#[cfg(test)]
pub(crate) fn is_read_file(seed: &[u8]) -> bool {
    let of_space = |space: Space| space.is_encrypted && space.master_key.is_some();
    Space::read(seed).is_some_and(of_space)
        || matches!(BinaryLog::read(seed), Some(BinaryLog::Encrypted(key)) if key.ends_with("_1"))
}

#[cfg(test)]
pub(crate) fn is_read_keyring(seed: &[u8]) -> bool {
    KEYRINGS.iter().any(|keyring| keyring.read(seed).is_ok_and(|keys| keys.len() == 2))
}
