//! The target of an UPDATE or DELETE with FROM.

use crate::ast::{Hints, Name, TableRef};
use crate::error::{Error, Result};

/// Returns the name by which FROM knows the target, and the tables: one that FROM does not name
/// stands beside them, and one that it names by an alias only is meant by that.
///
/// # Errors
/// `Unsupported` if several aliases of FROM are of the target.
pub(super) fn beside(
    target: Name,
    mut from: Vec<TableRef>,
    hints: Hints,
) -> Result<(Name, Vec<TableRef>)> {
    if from.is_empty() || from.iter().any(|table| names(table, &target)) {
        return Ok((target, from));
    }
    let mut aliases = Vec::new();
    from.iter().for_each(|table| add_aliases(table, &target, &mut aliases));
    match aliases.as_slice() {
        [] => {
            from.insert(0, TableRef::Table(target.clone(), None, hints));
            Ok((target, from))
        }
        [only] => Ok((Name(vec![only.clone()]), from)),
        _ => Err(Error::unsupported("a change of a table that FROM names by several aliases")),
    }
}

/// Returns true if a table of FROM has the target's name.
fn names(table: &TableRef, target: &Name) -> bool {
    let alone = target.0.len() == 1;
    let is = |alias: &str| alone && alias.eq_ignore_ascii_case(target.object());
    match table {
        TableRef::Table(name, None, _) => is_same(name, target),
        TableRef::Table(_, Some(alias), _)
        | TableRef::Derived(_, alias, _)
        | TableRef::Values(_, alias, _) => is(alias),
        TableRef::Function(call) => is(&call.alias),
        TableRef::Called(call) => is(&call.alias),
        TableRef::Pivot(pivot) => is(&pivot.alias),
        TableRef::Join(_, left, right, _) => names(left, target) || names(right, target),
    }
}

fn add_aliases(table: &TableRef, target: &Name, aliases: &mut Vec<String>) {
    match table {
        TableRef::Table(name, Some(alias), _) if is_same(name, target) => {
            aliases.push(alias.clone());
        }
        TableRef::Join(_, left, right, _) => {
            add_aliases(left, target, aliases);
            add_aliases(right, target, aliases);
        }
        _ => {}
    }
}

/// Returns true if two names are of one table; a database that one of them leaves out may be the
/// other's.
fn is_same(name: &Name, target: &Name) -> bool {
    let apart = name.part(2).zip(target.part(2));
    let apart = apart.is_some_and(|(own, other)| !own.eq_ignore_ascii_case(other));
    !apart && name.stored().eq_ignore_ascii_case(&target.stored())
}
