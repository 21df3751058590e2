//! Objects of which no answer came: the store has them, or not, and nothing shows that before it
//! answers again.
//!
//! A later try finds such an object in its place. It may have more to ship by then: the object is
//! that of the try before, and what it lacks follows behind it.

use std::collections::VecDeque;

use super::Shipper;
use crate::archive::state::Intent;
use crate::error::ArchiveError;
use crate::{Media, RunError};

/// Most tries that are remembered: an object that arrives is that of one of the last before the
/// store answers.
const MOST: usize = 16;

/// The set that was shipped.
#[derive(Debug)]
pub(super) enum Made {
    /// The set that was to be shipped.
    This {
        /// Bytes of the object.
        bytes: u64,
    },
    /// The set of a try before.
    Earlier {
        /// Bytes of the object.
        bytes: u64,
        /// The set.
        intent: Box<Intent>,
    },
}

/// Tries to ship the next object whose end is not known.
#[derive(Debug, Default)]
pub(super) struct Tries(VecDeque<Intent>);

impl Tries {
    /// Remembers a try that is about to begin.
    pub(super) fn begin(&mut self, intent: &Intent) {
        if self.0.back().is_none_or(|last| last.then.number != intent.then.number) {
            self.0.clear();
        }
        self.0.retain(|before| before != intent);
        self.0.push_back(intent.clone());
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Forgets them: the object is in the archive.
    pub(super) fn end(&mut self) {
        self.0.clear();
    }
}

impl Shipper<'_> {
    /// Goes on behind an object that is there, if it is one that was about to be shipped.
    ///
    /// # Errors
    /// `Overtaken` if it is not; those of reading it.
    pub(super) fn taken(&mut self, number: u64) -> Result<Made, RunError> {
        let bytes = self.store.list()?.get(&number).copied().unwrap_or(0);
        let media = Media::open(vec![self.store.source(number, bytes)?])?;
        let info = media.only_info()?;
        let (now, tries) = (self.file.state.intent.clone(), self.tries.0.clone());
        // A log set cannot follow a full set of which only a try before knew.
        let is_full = now.as_ref().is_some_and(|now| now.transactions == 0);
        let tries = tries.iter().rev().filter(|tried| is_full || tried.transactions > 0);
        for intent in now.iter().chain(tries) {
            self.file.state.intent = Some(intent.clone());
            if self.adopt(number, info, &media)? {
                let is_this = now.as_ref() == Some(intent);
                return Ok(match is_this {
                    true => Made::This { bytes },
                    false => Made::Earlier { bytes, intent: Box::new(intent.clone()) },
                });
            }
        }
        self.file.state.intent = now;
        Err(ArchiveError::Overtaken { object: self.store.shown(number) }.into())
    }
}
