//! The texts with which MERGE changes rows.

use super::change::{Place, delete_of_row, insert_of_row, row_of, update_of_row};
use crate::bind::merge::{Doing, Filling, Merging};

/// SQLite's texts for one row.
#[derive(Debug)]
pub(crate) struct Texts {
    /// Of each action.
    pub(crate) actions: Vec<String>,
    /// Reads all columns of a row.
    pub(crate) image: String,
}

impl Texts {
    pub(crate) fn of(merging: &Merging) -> Texts {
        let table = &merging.table;
        let text = |action: &Doing| match action {
            Doing::Delete => delete_of_row(table),
            Doing::Update(columns) => {
                let names = columns.iter().map(|(column, _)| column.name.as_str());
                update_of_row(table, names).unwrap_or_default()
            }
            Doing::Insert(columns) => {
                let mut params = 0;
                let places = columns.iter().map(|(column, filling)| {
                    let place = match filling {
                        Filling::Identity => Place::Identity,
                        Filling::Version => Place::Version,
                        Filling::Value(_) | Filling::Default(_) => {
                            params += 1;
                            Place::Param(params - 1)
                        }
                    };
                    (column.name.as_str(), place)
                });
                insert_of_row(table, places)
            }
        };
        let actions = merging.actions.iter().map(text).collect();
        Texts { actions, image: row_of(table) }
    }
}
