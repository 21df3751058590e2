//! Statements about the cursors of a function, which are local and static.

use super::routine::{Part, Reader, Source};
use super::scalar::Scalar;
use crate::ast::cursor::FetchPlace;

/// A statement about a cursor, which has a number in its function.
#[derive(Debug)]
pub(crate) struct CursorStep {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) op: CursorOp,
}

#[derive(Debug)]
pub(crate) enum CursorOp {
    Declare {
        scroll: bool,
        reader: Box<Reader>,
    },
    Open,
    Fetch {
        place: FetchPlace<Source>,
        /// Variables and their values over the columns of the row.
        into: Vec<(usize, Scalar)>,
    },
    Close,
    Deallocate,
}

impl CursorStep {
    pub(super) fn parts<'r>(&'r self, see: &mut dyn FnMut(Part<'r>)) {
        match &self.op {
            CursorOp::Declare { reader, .. } => see(Part::Reader(reader)),
            CursorOp::Fetch { place, into, .. } => {
                if let FetchPlace::Absolute(number) | FetchPlace::Relative(number) = place {
                    see(number.part());
                }
                into.iter().for_each(|(_, value)| see(Part::Plain(value)));
            }
            CursorOp::Open | CursorOp::Close | CursorOp::Deallocate => {}
        }
    }
}
