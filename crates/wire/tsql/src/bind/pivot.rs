//! PIVOT as aggregates over CASE, grouped by the columns that it does not name; UNPIVOT as a
//! product with the names of its columns.

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Length, SqlType};

use super::Binder;
use super::limits::Limits;
use crate::ast::pivot::{Pivot, PivotKind};
use crate::ast::{Call, CmpOp, Expr, Item, JoinKind, Name, Query, Select, SetExpr, TableRef};
use crate::error::{Error, Result};
use crate::functions::table::{Binding, find};
use crate::plan::relation::Relation;

/// The alias of the names of columns, and its columns.
const NAMES: &str = "~names";
const NUMBER: &str = "~number";
const NAME: &str = "~name";

fn column(name: &str) -> Expr {
    Expr::Column(Name(vec![name.to_owned()]))
}

fn own(name: &str) -> Expr {
    Expr::Column(Name(vec![NAMES.to_owned(), name.to_owned()]))
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

impl Binder<'_> {
    pub(super) fn pivot(&mut self, pivot: &Pivot) -> Result<Relation> {
        // the tables beside it are not in scope
        let columns = self.beside(|binder| binder.columns_of(&pivot.source))?;
        let named = columns.into_iter().map(|column| (column.name, column.ty));
        let columns: Vec<(String, SqlType)> = named.collect();
        for (at, (name, _)) in columns.iter().enumerate() {
            if columns[..at].iter().any(|(known, _)| same(known, name)) {
                let of = pivot.alias.clone();
                return Err(DefinedError::NamedTwice { name: name.clone(), of }.into());
            }
        }
        let select = match &pivot.kind {
            PivotKind::Columns { aggregate, argument, by } => {
                let named = [argument.object(), by.object()];
                let rest = rest(pivot, &columns, &named, &pivot.names)?;
                as_columns(&mut self.limits, pivot, (aggregate, argument, by), &rest)?
            }
            PivotKind::Rows { value, name } => {
                let made = [value.clone(), name.clone()];
                let named: Vec<&str> = pivot.names.iter().map(String::as_str).collect();
                let rest = rest(pivot, &columns, &named, &made)?;
                as_rows(pivot, (value, name), (&columns, &rest))?
            }
        };
        let query = Query {
            ctes: Vec::new(),
            body: SetExpr::Select(Box::new(select)),
            order: Vec::new(),
            offset: None,
            json: None,
            xml: None,
            max_recursion: None,
            line: 0,
        };
        let alias = pivot.alias.clone();
        self.table_ref(&TableRef::Derived(Box::new(query), alias, Vec::new()))
    }
}

/// The columns of the table that the operator does not name. Those that it makes have other names.
fn rest(
    pivot: &Pivot,
    columns: &[(String, SqlType)],
    named: &[&str],
    made: &[String],
) -> Result<Vec<String>> {
    let names = columns.iter().map(|(name, _)| name);
    let rest: Vec<String> =
        names.filter(|name| !named.iter().any(|other| same(other, name))).cloned().collect();
    for name in named {
        if !columns.iter().any(|(known, _)| same(known, name)) {
            return Err(Error::InvalidColumn { name: (*name).to_owned() });
        }
    }
    let taken = made.iter().find(|name| rest.iter().any(|known| same(known, name)));
    match taken {
        Some(name) => {
            let operator = pivot.word();
            Err(DefinedError::PivotConflict { name: name.clone(), operator }.into())
        }
        None => Ok(rest),
    }
}

fn as_columns(
    limits: &mut Limits,
    pivot: &Pivot,
    (aggregate, argument, by): (&Name, &Name, &Name),
    rest: &[String],
) -> Result<Select> {
    let known = find(&aggregate.object().to_ascii_uppercase());
    let known = known.filter(|function| matches!(function.binding, Binding::Aggregate));
    let fits = known.is_some_and(|function| (function.least, function.most) == (1, 1));
    if !fits || aggregate.0.len() > 1 {
        return Err(Error::Syntax { near: aggregate.object().to_owned() });
    }
    let mut items: Vec<Item> = rest.iter().map(|name| Item::Expr(column(name), None)).collect();
    for name in &pivot.names {
        limits.spend(1)?;
        let value = Expr::Str(name.clone(), true);
        let by = Box::new(Expr::Column(by.clone()));
        let test = Expr::Compare(CmpOp::Eq, by, Box::new(value));
        let value = Expr::Column(argument.clone());
        let args = vec![Expr::Case(None, vec![(test, value)], None)];
        let call = Call { name: aggregate.clone(), args, ..Call::default() };
        items.push(Item::Expr(Expr::Call(Box::new(call)), Some(name.clone())));
    }
    Ok(Select {
        items,
        from: vec![pivot.source.clone()],
        group: rest.iter().map(|name| column(name)).collect(),
        ..Select::default()
    })
}

fn as_rows(
    pivot: &Pivot,
    (value, name): (&str, &str),
    (columns, rest): (&[(String, SqlType)], &[String]),
) -> Result<Select> {
    let type_of = |name: &str| columns.iter().find(|(known, _)| same(known, name)).map(|c| c.1);
    let first = pivot.names.first().and_then(|name| type_of(name));
    let (mut rows, mut whens) = (Vec::new(), Vec::new());
    for (at, of) in pivot.names.iter().enumerate() {
        if type_of(of) != first {
            return Err(DefinedError::UnpivotType { name: of.clone() }.into());
        }
        let number = Expr::Int(at.to_string());
        let ty = SqlType::NVarChar(Length::Of(128));
        // as the table has it
        let shown = columns.iter().find(|(known, _)| same(known, of)).map_or(of, |(name, _)| name);
        let text = Box::new(Expr::Str(shown.clone(), true));
        rows.push(vec![number.clone(), Expr::Convert(text, ty, None, false)]);
        whens.push((number, column(of)));
    }
    let found = Expr::Case(Some(Box::new(own(NUMBER))), whens, None);
    let names = vec![NUMBER.to_owned(), NAME.to_owned()];
    let names = TableRef::Values(rows, NAMES.to_owned(), names);
    let source = Box::new(pivot.source.clone());
    let mut items: Vec<Item> = rest.iter().map(|name| Item::Expr(column(name), None)).collect();
    items.push(Item::Expr(found.clone(), Some(value.to_owned())));
    items.push(Item::Expr(own(NAME), Some(name.to_owned())));
    Ok(Select {
        items,
        from: vec![TableRef::Join(JoinKind::Cross, source, Box::new(names), None)],
        filter: Some(Expr::IsNull(Box::new(found), true)),
        ..Select::default()
    })
}
