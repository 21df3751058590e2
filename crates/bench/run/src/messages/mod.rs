//! Messages over TDS, encrypted connections against plain ones to the same server.
//!
//! [`tds`] reads and discards answers; [`own`] starts a server if none is named; [`run`] decides
//! the order of the [`work`] that [`cells`](self::cells) plan; [`idle`] measures idle connections.

mod cells;
mod connects;
mod drivers;
mod idle;
mod options;
mod own;
mod points;
mod run;
mod work;

use tdekit_tds_client as tds;

use crate::server_options::Trust;

pub(crate) use options::MessagesPlan;
pub(crate) use run::run;

impl From<&Trust> for tds::Trust {
    fn from(trust: &Trust) -> Self {
        match trust {
            Trust::System => Self::System,
            Trust::File(path) => Self::File(path.clone()),
            Trust::Anyone => Self::Anyone,
        }
    }
}
