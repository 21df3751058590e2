//! Messages over TDS, encrypted connections against plain ones to the same server.
//!
//! [`tds`] drains answers; [`own`] starts a server where none is named; [`run`] decides the order
//! of the [`work`] that [`cells`](self::cells) plan; [`idle`] lets connections wait.

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

pub(crate) use options::MessagesPlan;
pub(crate) use run::run;
