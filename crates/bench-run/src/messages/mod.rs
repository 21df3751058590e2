//! Messages over TDS, encrypted connections against plain ones to the same server.
//!
//! [`tds`] drains answers; [`process`] finds the server's process and reads what it used; [`own`]
//! starts a server where none is named; [`run`] decides the order of the [`work`] that
//! [`cells`](self::cells) plan; [`idle`] lets connections wait.

mod cells;
mod connects;
mod drivers;
mod idle;
mod mode;
mod options;
mod own;
mod points;
mod process;
mod run;
mod work;

use mode::MessagesMode;
use tdekit_tds_client as tds;

/// How the connections of a side are encrypted; a side without connections has plain ones.
fn encryption(mode: MessagesMode) -> tds::Mode {
    match mode {
        MessagesMode::Off | MessagesMode::Direct => tds::Mode::Off,
        MessagesMode::On => tds::Mode::On,
        MessagesMode::Strict => tds::Mode::Strict,
    }
}

pub(crate) use options::{MessagesArgs, MessagesPlan};
pub(crate) use run::run;
