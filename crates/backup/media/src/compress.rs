//! Compression of blocks, each separately, with contexts that are kept.

use lz4::block::CompressionMode;
use zstd_safe::{CCtx, CParameter, DCtx, ResetDirective};

use crate::error::{MediaError, Part};

/// The compression of a set's blocks, each separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, block format.
    Lz4,
    /// zstd, one frame per block, at this level (-7 to 22, not 0).
    Zstd(i8),
}

impl Compression {
    /// Returns its name, as shown everywhere.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd(_) => "zstd",
        }
    }

    pub(crate) fn id_and_level(self) -> (u8, i8) {
        match self {
            Self::None => (0, 0),
            Self::Lz4 => (1, 0),
            Self::Zstd(level) => (2, level),
        }
    }

    pub(crate) fn from_id_and_level(id: u8, level: i8) -> Result<Self, MediaError> {
        match (id, level) {
            (0, 0) => Ok(Self::None),
            (1, 0) => Ok(Self::Lz4),
            (2, level) => Ok(Self::Zstd(level)),
            (0 | 1, _) => {
                Err(MediaError::malformed(Part::RecordHeader, "this compression has no level"))
            }
            (id, _) => Err(MediaError::UnknownCompression { id }),
        }
    }
}

/// Compresses blocks of one set.
pub(crate) enum Compressor {
    None,
    Lz4,
    Zstd(CCtx<'static>),
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Result<Self, MediaError> {
        let failed = |_| MediaError::Compression { operation: "prepare zstd" };
        Ok(match compression {
            Compression::None => Self::None,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd(level) => {
                let mut context = CCtx::try_create()
                    .ok_or(MediaError::Compression { operation: "prepare zstd" })?;
                for parameter in [
                    CParameter::CompressionLevel(level.into()),
                    CParameter::ContentSizeFlag(true),
                    CParameter::ChecksumFlag(false),
                    CParameter::DictIdFlag(false),
                ] {
                    context.set_parameter(parameter).map_err(failed)?;
                }
                Self::Zstd(context)
            }
        })
    }

    /// Compresses `payload` into `out` and returns the length; `None` if it would not become
    /// shorter.
    pub(crate) fn compress(
        &mut self,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, MediaError> {
        let room = payload.len().saturating_sub(1).min(out.len());
        let out = &mut out[..room];
        if out.is_empty() {
            return Ok(None);
        }
        match self {
            Self::None => Ok(None),
            Self::Lz4 => {
                let mode = Some(CompressionMode::FAST(1));
                Ok(lz4::block::compress_to_buffer(payload, mode, false, out).ok())
            }
            Self::Zstd(context) => {
                let compressed = context.compress2(out, payload).ok();
                if compressed.is_none() {
                    context
                        .reset(ResetDirective::SessionOnly)
                        .map_err(|_| MediaError::Compression { operation: "reset zstd" })?;
                }
                Ok(compressed)
            }
        }
    }
}

/// Decompresses blocks of one set.
pub(crate) enum Decompressor {
    None,
    Lz4,
    Zstd(DCtx<'static>),
}

impl Decompressor {
    pub(crate) fn new(compression: Compression) -> Result<Self, MediaError> {
        Ok(match compression {
            Compression::None => Self::None,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd(_) => Self::Zstd(
                DCtx::try_create().ok_or(MediaError::Compression { operation: "prepare zstd" })?,
            ),
        })
    }

    /// Decompresses into the whole of `out`.
    pub(crate) fn decompress(
        &mut self,
        part: Part,
        compressed: &[u8],
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        let len = match self {
            Self::None => return Err(MediaError::malformed(part, "the set is not compressed")),
            Self::Lz4 => {
                let size = i32::try_from(out.len()).ok();
                lz4::block::decompress_to_buffer(compressed, size, out).ok()
            }
            Self::Zstd(context) => {
                let one_frame = zstd_safe::find_frame_compressed_size(compressed);
                if one_frame != Ok(compressed.len()) {
                    return Err(MediaError::malformed(part, "it is not one zstd frame"));
                }
                context.decompress(out, compressed).ok()
            }
        };
        if len == Some(out.len()) {
            return Ok(());
        }
        Err(MediaError::malformed(part, "it does not decompress to its length"))
    }
}
