//! A media set of one set, such as an object of an archive.

use super::Media;
use super::opened::OpenSet;
use crate::{FindingReport, RunError, SetInfo, UnwrapSecret};

impl Media {
    /// Returns the findings in words. A media set with a place in an archive is an object of it.
    pub(crate) fn described_findings(&self) -> impl Iterator<Item = FindingReport> {
        let in_archive = self.sets.iter().any(|set| set.archive.is_some() || set.log.is_some());
        self.findings.iter().map(move |finding| FindingReport::of_media(finding, in_archive))
    }

    /// Returns the only set, where the media set holds one and has no finding.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn only_info(&self) -> Result<&SetInfo, RunError> {
        let damaged = |reason: String| {
            let media = self.names().into_iter().next().unwrap_or_default();
            RunError::Damaged { media, what: "the object".to_owned(), reason }
        };
        if let Some(finding) = self.described_findings().next() {
            return Err(damaged(finding.message));
        }
        let [info] = &self.sets[..] else {
            return Err(damaged(format!("it holds {} sets", self.sets.len())));
        };
        match &info.damage {
            Some(damage) => Err(damaged(damage.clone())),
            None => Ok(info),
        }
    }

    /// Opens the only set.
    ///
    /// # Errors
    /// As [`Self::only_info`]; `KeyNeeded`, `Damaged`, `Tampered`, those of the keys.
    pub(crate) fn only(
        &self,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<(&SetInfo, OpenSet<'_>), RunError> {
        let info = self.only_info()?;
        Ok((info, OpenSet::open_readable(&self.volumes, info, keys)?))
    }

    /// Returns the SHA-256 of the only set's trailer.
    ///
    /// # Errors
    /// As [`Self::only_info`].
    pub(crate) fn only_digest(&self) -> Result<[u8; 32], RunError> {
        let info = self.only_info()?;
        let found = self.volumes.header(0, info.ordinal);
        let (_, placed) = found.ok_or(RunError::Internal("a set of no header"))?;
        Ok(placed.record.digest())
    }
}
