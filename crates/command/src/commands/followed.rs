//! Names the follower of a database that is in use.

use tdekit_backup_run::archive::is_followed;
use tdekit_sqlite_convert::DatabaseError;

use crate::error::CommandError;

/// Returns the error of a command for which a database has to be closed, or its log has to be
/// empty.
pub(crate) fn name_follower(error: DatabaseError) -> CommandError {
    match &error {
        DatabaseError::InUse { path, .. } if is_followed(path).unwrap_or(false) => {
            CommandError::Followed { source: error }
        }
        _ => error.into(),
    }
}
