//! Associated data: the place to which each sealed unit is bound.

use tdekit_key_crypto::Algorithm;

/// The kind of a sealed unit. Part of every AAD, so that no unit opens as another kind.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A database page, in the main file and in the WAL alike: a checkpoint may copy it unchanged.
    Page = 1,
    /// The WAL's header.
    WalHeader = 2,
    /// A WAL frame's header.
    WalFrame = 3,
    /// An extent of a rollback journal.
    Journal = 4,
}

/// Returns the first 32 bytes of every AAD: file, number within the file, key version, flags,
/// suite, kind.
pub(crate) fn place(
    file_id: &[u8; 16],
    number: u32,
    key_version: u32,
    flags: u32,
    algorithm: Algorithm,
    kind: Kind,
    detail: u8,
) -> [u8; 32] {
    let mut aad = [0; 32];
    aad[..16].copy_from_slice(file_id);
    aad[16..20].copy_from_slice(&number.to_le_bytes());
    aad[20..24].copy_from_slice(&key_version.to_le_bytes());
    aad[24..28].copy_from_slice(&flags.to_le_bytes());
    aad[28] = algorithm.id();
    aad[29] = kind as u8;
    aad[30] = detail;
    aad
}
