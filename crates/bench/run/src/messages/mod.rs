//! Messages over TDS, encrypted connections against plain ones to the same server.
//!
//! [`tds`] reads and discards answers; [`own`] starts a server if none is named; [`run`] decides
//! the order of the [`work`] that [`cells`](self::cells) plan; [`idle`] measures idle connections.

mod cells;
mod connects;
mod drivers;
mod idle;
mod own;
mod points;
mod run;
mod work;

use tdekit_tds_client as tds;

pub(crate) use run::run;
