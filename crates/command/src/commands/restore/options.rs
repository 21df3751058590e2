//! Options of `restore` that do not go with what is restored.

use std::path::Path;

use super::RestoreArgs;
use crate::error::CommandError;

/// The source of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A media set.
    Media,
    /// A set of it that holds a stream.
    Stream,
    /// What `replicate` ships to.
    Archive,
    /// An archive of binary logs.
    Binlogs,
}

use Source::{Archive, Binlogs, Media, Stream};

impl RestoreArgs {
    /// Refuses an option that changes nothing of a restore from a source: the user has something
    /// else in mind.
    ///
    /// # Errors
    /// `Usage`.
    pub(super) fn refuse_unheeded(&self, source: Source) -> Result<(), CommandError> {
        let database = &[Media, Archive][..];
        let certificate = !self.certificate.is_empty();
        let to_standard = self.to == Path::new("-");
        // Each with the sources that it is for.
        let options = [
            ("--position", self.position.is_some(), &[Media, Stream][..]),
            ("--latest-readable", self.latest_readable, &[Media, Stream]),
            ("--database", self.database.is_some(), &[Media, Stream, Archive]),
            ("--at", self.at.is_some(), &[Archive, Binlogs]),
            ("--follow", self.follow, &[Archive]),
            ("--replace", self.replace, &[Media, Stream, Archive]),
            ("--plain", self.plain, database),
            ("--certificate", certificate, database),
            ("--algorithm", self.algorithm.is_some(), database),
            ("--check", self.check, database),
            ("--no-check", self.no_check, &[Archive]),
            ("--to -", to_standard, &[Media, Stream, Archive]),
            ("--json", self.json, &[Media, Stream, Archive]),
        ];
        let unheeded =
            |(_, is_given, of): &&(&str, bool, &[Source])| *is_given && !of.contains(&source);
        let Some((option, ..)) = options.iter().find(unheeded) else { return Ok(()) };
        let reason = match source {
            Media if *option == "--no-check" => {
                "--no-check is of an archive: a database from a backup set is not checked unless \
                 --check is given"
                    .to_owned()
            }
            Media => format!("{option} is of an archive, not of a media set"),
            Stream => format!("the set holds a stream of bytes: {option} is of databases"),
            Archive => format!("{option} is of a media set, not of an archive"),
            Binlogs => format!("{option} is not for an archive of binary logs"),
        };
        Err(CommandError::usage(reason))
    }
}
