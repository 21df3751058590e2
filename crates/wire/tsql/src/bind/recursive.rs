//! Recursive common table expressions: an anchor, then members that read the expression itself.

use tdekit_wire_tds::Generated;

use super::names::CteScope;
use super::query::{Asked, check_columns, child_mentions};
use super::{Binder, Offered};
use crate::ast::{Child, Cte, SetExpr, SetOp};
use crate::error::{Error, Result};
use crate::plan::relation::{Common, Query};
use crate::plan::{Alias, ColumnRef, Field};

/// The members of a chain of UNION ALL, the first one first.
fn members<'q>(body: &'q SetExpr, found: &mut Vec<&'q SetExpr>) {
    match body {
        SetExpr::Op(SetOp::UnionAll, left, right) => {
            members(left, found);
            members(right, found);
        }
        other => found.push(other),
    }
}

/// Returns true if a member reads the expression itself: in FROM, where it is allowed.
fn names_itself(member: &SetExpr, cte: &Cte) -> Result<bool> {
    let (mut found, mut deep) = (false, false);
    member.children(&mut |child| {
        let named = child_mentions(child, &cte.name);
        found |= named;
        deep |= named && matches!(child, Child::Expr(_));
    });
    if deep { Err(Error::RecursiveSubquery {}) } else { Ok(found) }
}

impl Binder<'_> {
    /// Binds one, and adds its name to the scope.
    pub(crate) fn recursive(&mut self, cte: &Cte) -> Result<Common> {
        let name = || cte.name.clone();
        if !cte.query.ctes.is_empty() || !cte.query.order.is_empty() || cte.query.offset.is_some() {
            return Err(Error::feature("ORDER BY in a recursive common table expression"));
        }
        let mut parts = Vec::new();
        members(&cte.query.body, &mut parts);
        if parts.len() < 2 {
            return Err(Error::RecursiveForm { name: name() });
        }
        let named = parts.iter().map(|part| names_itself(part, cte)).collect::<Result<Vec<_>>>()?;
        let first = named.iter().position(|named| *named).unwrap_or(parts.len());
        if first == 0 {
            return Err(Error::NoAnchor { name: name() });
        }
        let anchor = parts[..first].iter().skip(1).fold((*parts[0]).clone(), |left, right| {
            SetExpr::Op(SetOp::UnionAll, Box::new(left), Box::new((*right).clone()))
        });
        let anchor = self.set_expression(&anchor, Asked::default())?;
        check_columns(cte, &anchor.columns)?;
        let id = self.fresh(Alias::Common);
        let mut columns = Vec::new();
        for (at, column) in anchor.columns.iter().enumerate() {
            let shown = cte.columns.get(at).unwrap_or(&column.name).clone();
            if shown.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: name() });
            }
            columns.push(Offered {
                name: shown,
                ty: column.ty,
                nullable: true,
                generated: Generated::No,
                column: ColumnRef::own(Field::Item(at)),
                label: column.label.as_column(),
                value: None,
            });
        }
        let scope = CteScope { name: name(), id, columns, recursive: true };
        let members = self.with_commons(|binder| {
            binder.names.add_common(scope.clone());
            binder.recursive_members(&parts[first..], &scope)
        })?;
        let width = scope.columns.len();
        self.names.add_common(CteScope { recursive: false, ..scope });
        Ok(Common::Recursive { name: id, width, anchor: anchor.query, members })
    }

    fn recursive_members(&mut self, parts: &[&SetExpr], scope: &CteScope) -> Result<Vec<Query>> {
        let mut members = Vec::new();
        for part in parts {
            let SetExpr::Select(select) = part else {
                return Err(Error::feature("this recursive common table expression"));
            };
            let bound = self.select(select, &[], None, Asked::default())?;
            if bound.columns.len() != scope.columns.len() {
                return Err(Error::SetCounts {});
            }
            for (column, wanted) in bound.columns.iter().zip(&scope.columns) {
                if column.ty != wanted.ty {
                    let (column, name) = (wanted.name.clone(), scope.name.clone());
                    return Err(Error::RecursiveTypes { column, name });
                }
            }
            members.push(bound.query);
        }
        Ok(members)
    }
}
