//! A database that cannot be opened as long as programs use the log of the file that was under its
//! path before.

use tdekit_sqlite_convert::has_log_users;

use super::Follower;

impl Follower<'_> {
    /// Notes behind a failure whether programs use the log of a database that is not open.
    pub(super) fn note_programs(&mut self) {
        self.in_use = !self.is_open() && self.is_log_used();
    }

    /// Returns true once, when they have ended: then the next try need not wait.
    pub(super) fn have_programs_ended(&mut self) -> bool {
        let was_used = self.in_use;
        self.in_use = was_used && !self.is_open() && self.is_log_used();
        was_used && !self.in_use
    }

    /// This process has no connection to the database, whose locks that would drop.
    fn is_log_used(&self) -> bool {
        has_log_users(&self.shipper.path).unwrap_or(false)
    }
}
