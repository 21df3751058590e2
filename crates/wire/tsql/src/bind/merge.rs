//! MERGE. SQLite finds the rows of source and target that belong together; the interpreter
//! computes and writes.

use std::sync::Arc;

use tdekit_wire_tds::{Column, Generated, Length, SqlType, Value};

use super::dml::set_column;
use super::select::Leaves;
use super::{Binder, Offered, Scope, SourceScope};
use crate::ast::{
    self, Expr, Insert, Item, JoinKind, Merge, MergeAction, Name, SetTarget, Source, TableRef,
    When, WhenKind,
};
use crate::error::{Error, Result};
use crate::functions::typing::assign;
use crate::plan::access::Right;
use crate::plan::label::Label;
use crate::plan::relation::{self, Query, Select};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Filled, Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Field};

/// The table whose one row shows that there is a row of the source.
const PRESENT: (&str, &str) = ("~merge", "present");

/// The column of OUTPUT that names what was done.
const ACTION: &str = "$action";

/// A merge: its query gives the number of the target's row and that of an action, then values.
#[derive(Debug)]
pub(crate) struct Merging {
    pub(crate) table: Arc<Table>,
    /// Types of the values that its query gives after both numbers.
    pub(crate) types: Vec<SqlType>,
    pub(crate) actions: Vec<Doing>,
    /// True if an action generates identity values.
    pub(crate) identity: bool,
    /// True if an action inserts given ones.
    pub(crate) explicit_identity: bool,
    /// Expressions over the values, the row before the change, the row after it, and the name of
    /// the action.
    pub(crate) output: Vec<Scalar>,
    pub(crate) columns: Vec<Column>,
}

/// What happens to a row.
#[derive(Debug)]
pub(crate) enum Doing {
    Update(Vec<(TableColumn, Filling)>),
    Delete,
    Insert(Vec<(TableColumn, Filling)>),
}

/// A new value of a column.
#[derive(Debug)]
pub(crate) enum Filling {
    /// Over the values of the query.
    Value(Scalar),
    /// A DEFAULT, which is computed for each row that uses it.
    Default(Scalar),
    Identity,
    Version,
}

impl Binder<'_> {
    /// Returns the query of the rows, and the work for each of them.
    pub(crate) fn merge(&mut self, merge: &Merge) -> Result<(Query, Merging)> {
        self.with_common_tables(&merge.ctes, |binder| binder.merge_in_scope(merge))
    }

    fn merge_in_scope(&mut self, merge: &Merge) -> Result<(Select, Merging)> {
        if self.limits.rows().is_some() {
            return Err(Error::unsupported("MERGE with SET ROWCOUNT"));
        }
        let table = self.target(&merge.target, &rights(merge))?;
        let from = self.tables_clause(&[joined(merge)])?;
        let shown = merge.alias.as_deref().unwrap_or(merge.target.object());
        let alias = self.names.alias_of(shown);
        let alias = alias.ok_or_else(|| Error::InvalidObject { name: merge.target.text() })?;
        let row = Scalar::column(SqlType::BigInt, true, ColumnRef::of(alias, Field::RowId));
        let (mut leaves, mut actions, mut whens) = (Leaves::default(), Vec::new(), Vec::new());
        for (number, when) in (0..).zip(&merge.whens) {
            let mut condition = self.when(when, &row, merge)?;
            let shown = |source: &SourceScope| is_shown(source, when.kind, alias);
            let action = self.showing(shown, |binder| {
                binder.action(when, (&table, alias), &mut condition, &mut leaves)
            });
            let number = Scalar::constant(SqlType::Int, Value::Int(number));
            actions.push(action?);
            whens.push((Scalar::condition(Node::And(condition)), number));
        }
        let action = Scalar::new(SqlType::Int, true, Node::Case(whens, None));
        let (output, columns) = self.merge_output(&merge.output, &table, &mut leaves)?;
        let types = leaves.types();
        let items = [row, action].into_iter().chain(leaves.0).map(relation::Item::Plain).collect();
        let fills = |wanted: fn(&(TableColumn, Filling)) -> bool| {
            actions.iter().any(|action| match action {
                Doing::Insert(columns) => columns.iter().any(wanted),
                _ => false,
            })
        };
        let identity = fills(|(_, filling)| matches!(filling, Filling::Identity));
        let explicit_identity =
            fills(|(column, filling)| column.identity && matches!(filling, Filling::Value(_)));
        let select = Select { items, from: Some(from), ..Select::default() };
        let merging =
            Merging { table, types, actions, identity, explicit_identity, output, columns };
        Ok((select, merging))
    }

    /// Binds a clause: adds its own condition, and returns what it does.
    fn action(
        &mut self,
        when: &When,
        (table, alias): (&Arc<Table>, Alias),
        condition: &mut Vec<Scalar>,
        leaves: &mut Leaves,
    ) -> Result<Doing> {
        if let Some(own) = &when.condition {
            condition.push(self.condition(own)?);
        }
        Ok(match &when.action {
            MergeAction::Delete => Doing::Delete,
            MergeAction::Update(sets) => {
                Doing::Update(self.merge_sets(sets, table, alias, leaves)?)
            }
            MergeAction::Insert { columns, values } => {
                Doing::Insert(self.merge_insert(columns, values.as_deref(), table, leaves)?)
            }
        })
    }

    /// The conditions under which a row may be that of a clause.
    fn when(&mut self, when: &When, row: &Scalar, merge: &Merge) -> Result<Vec<Scalar>> {
        let is = |value: &Scalar, absent: bool| {
            Scalar::condition(Node::IsNull(Box::new(value.clone()), !absent))
        };
        let mut parts = vec![is(row, when.kind == WhenKind::NotMatched)];
        if merge.keeps_target() {
            let (table, column) = PRESENT;
            let present = Name(vec![table.to_owned(), column.to_owned()]);
            let present = self.scalar(&Expr::Column(present))?;
            parts.push(is(&present, when.kind == WhenKind::NotSource));
        }
        Ok(parts)
    }

    fn merge_sets(
        &mut self,
        sets: &[ast::SetItem],
        table: &Arc<Table>,
        alias: Alias,
        leaves: &mut Leaves,
    ) -> Result<Vec<(TableColumn, Filling)>> {
        let mut made: Vec<(TableColumn, Filling)> = Vec::new();
        for (target, op, value) in sets {
            let SetTarget::Column(name) = target else {
                return Err(Error::unsupported("a variable in SET of MERGE"));
            };
            let column = set_column(table, name)?;
            if made.iter().any(|(known, _)| known.name == column.name) {
                return Err(Error::DuplicateColumnName { name: column.name });
            }
            let filling = match value {
                None => Filling::Default(self.default(table, &column)?),
                Some(expr) => {
                    let value = self.scalar(expr)?;
                    let current = ColumnRef::named(Some(alias), &column.name);
                    let current = Scalar::column(column.ty, column.nullable, current)
                        .of_collation(column.collation);
                    let value = super::call::compound(*op, current, value)?;
                    let value = assign(value, &column, &table.full_name())?;
                    Filling::Value(leaves.taken_from(value))
                }
            };
            made.push((column, filling));
        }
        if let Some(column) = table.version() {
            made.push((column.clone(), Filling::Version));
        }
        Ok(made)
    }

    fn merge_insert(
        &mut self,
        columns: &[String],
        values: Option<&[Option<Expr>]>,
        table: &Arc<Table>,
        leaves: &mut Leaves,
    ) -> Result<Vec<(TableColumn, Filling)>> {
        let explicit = self.identity_insert(table);
        let insert = Insert {
            ctes: Vec::new(),
            target: Name::default(),
            hints: ast::Hints::default(),
            columns: columns.to_vec(),
            output: Vec::new(),
            output_into: None,
            source: match values {
                Some(values) => Source::Values(vec![values.to_vec()]),
                None => Source::Defaults,
            },
        };
        let named = self.insert_columns(&insert, table, explicit)?;
        let values = values.unwrap_or_default();
        super::dml::supplied(columns, values.len(), named.len())?;
        let mut made = Vec::new();
        for (column, value) in named.into_iter().zip(values) {
            let filling = match value {
                None if column.filled == Filled::Version => Filling::Version,
                Some(_) if column.filled == Filled::Version => {
                    return Err(Error::VersionInserted {});
                }
                None => Filling::Default(self.default(table, &column)?),
                Some(expr) => {
                    let value = self.scalar(expr)?;
                    let value = assign(value, &column, &table.full_name())?;
                    Filling::Value(leaves.taken_from(value))
                }
            };
            made.push((column, filling));
        }
        if explicit
            && let Some(identity) = table.identity()
            && !made.iter().any(|(column, _)| column.name == identity.name)
        {
            return Err(Error::IdentityMissing { table: table.name.clone() });
        }
        for column in &table.columns {
            if column.is_computed() || made.iter().any(|(known, _)| known.name == column.name) {
                continue;
            }
            if column.filled == Filled::Version {
                made.push((column.clone(), Filling::Version));
            } else if column.identity {
                made.push((column.clone(), Filling::Identity));
            } else if column.default.is_some() {
                made.push((column.clone(), Filling::Default(self.default(table, column)?)));
            }
        }
        Ok(made)
    }

    /// Binds OUTPUT over the values, the rows before and after the change, and the action's name.
    fn merge_output(
        &mut self,
        items: &[Item],
        table: &Table,
        leaves: &mut Leaves,
    ) -> Result<(Vec<Scalar>, Vec<Column>)> {
        if items.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let action = ColumnRef::of(self.fresh(Alias::Query), Field::Item(0));
        let named = Offered {
            name: ACTION.to_owned(),
            ty: SqlType::NVarChar(Length::Of(10)),
            nullable: false,
            generated: Generated::No,
            column: action.clone(),
            label: Label::Coercible,
            value: None,
        };
        let mut sources = vec![
            self.scope_of("inserted", table, Some(Alias::Inserted))?,
            self.scope_of("deleted", table, Some(Alias::Deleted))?,
            SourceScope { alias: String::new(), full: None, id: None, columns: vec![named] },
        ];
        for source in &mut sources[..2] {
            // the one of them is missing after INSERT, the other after DELETE
            source.columns.iter_mut().for_each(|column| column.nullable = true);
        }
        let (mut output, columns) = self.output_items(items, Scope::of(sources))?;
        let image = |part: &Scalar| -> Option<usize> {
            let column = part.as_column()?;
            let width = table.columns.len();
            let at = |name: &str| table.columns.iter().position(|own| own.name == name);
            match (&column.source, &column.field) {
                _ if *column == action => Some(2 * width),
                (Some(Alias::Deleted), Field::Named(name)) => at(name),
                (Some(Alias::Inserted), Field::Named(name)) => Some(width + at(name)?),
                _ => None,
            }
        };
        for bound in &mut output {
            bound.each(&mut |part| {
                if part.node.is_leaf() && image(part).is_none() {
                    part.node = Node::Arg(leaves.place(part));
                }
            });
        }
        // the images come behind all values of the row
        let count = leaves.0.len();
        for bound in &mut output {
            bound.each(&mut |part| {
                if let Some(at) = image(part) {
                    part.node = Node::Arg(count + at);
                }
            });
        }
        Ok((output, columns))
    }
}

/// Returns true if a clause sees a table of FROM: it sees the source, the target, or both.
fn is_shown(source: &SourceScope, kind: WhenKind, target: Alias) -> bool {
    match kind {
        WhenKind::Matched => source.alias != PRESENT.0,
        WhenKind::NotMatched => source.id != Some(target) && source.alias != PRESENT.0,
        WhenKind::NotSource => source.id == Some(target),
    }
}

fn rights(merge: &Merge) -> Vec<Right> {
    let right = |when: &When| match when.action {
        MergeAction::Update(_) => Right::Update,
        MergeAction::Delete => Right::Delete,
        MergeAction::Insert { .. } => Right::Insert,
    };
    merge.whens.iter().map(right).collect()
}

/// Source and target as tables of FROM.
fn joined(merge: &Merge) -> TableRef {
    let target = TableRef::Table(merge.target.clone(), merge.alias.clone(), merge.hints);
    let mut source = merge.source.clone();
    if merge.keeps_target() {
        let (table, column) = PRESENT;
        let one = vec![vec![Expr::Int("1".to_owned())]];
        let present = TableRef::Values(one, table.to_owned(), vec![column.to_owned()]);
        source = TableRef::Join(JoinKind::Cross, Box::new(source), Box::new(present), None);
    }
    let kind = match (merge.has(WhenKind::NotMatched), merge.keeps_target()) {
        (true, true) => JoinKind::Full,
        (true, false) => JoinKind::Left,
        (false, true) => JoinKind::Right,
        (false, false) => JoinKind::Inner,
    };
    TableRef::Join(kind, Box::new(source), Box::new(target), Some(merge.on.clone()))
}
