//! Every experiment of a run, seen alike.

use crate::grid::Grid;
use crate::model::Results;
use crate::{backup, messages, oltp, summary};

/// Every experiment of a run.
pub(crate) fn grids(results: &Results) -> Vec<Grid> {
    let sides = (!results.sides.is_empty())
        .then(|| summary::grid(&results.sides, &results.classes, &results.samples));
    [
        sides,
        results.backup.as_ref().map(backup::grid),
        results.oltp.as_ref().map(oltp::grid),
        results.messages.as_ref().map(messages::grid),
    ]
    .into_iter()
    .flatten()
    .collect()
}
