//! Table variables of functions, and the changes of them. Each has a temporary table, which is made
//! before the statement that calls the function; functions that run at once are of different
//! depths, and each depth has tables of its own.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::apply::rows_of;
use super::names::Names;
use super::routine::Body;
use super::rowwise::is_rowwise;
use super::{Binder, Parameters, SourceScope};
use crate::ast::{CreateTable, Filled, Kind};
use crate::error::{Error, Result};
use crate::plan::Alias;
use crate::plan::change::{Delete, Statement, Target};
use crate::plan::relation::Relation;
use crate::plan::routine::{Change, Local, Reader, Source, Step};
use crate::plan::table::{Table, TableColumn, TableKind};

/// Prefix of the names of the temporary tables; no statement can write such a name.
const PREFIX: &str = "~f";

impl Binder<'_> {
    /// Declares a table variable of the function that is being bound.
    pub(super) fn declare_local(
        &mut self,
        made: &CreateTable,
        body: &mut Body,
    ) -> Result<Arc<Local>> {
        let name = made.name.object();
        if self.expansion.parameters().is_some_and(|known| known.has(name)) {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        let next = body.hidden(SqlType::BigInt);
        let (made, mut table) = self.local_table(made)?;
        let number = self.catalog.local_number(&made);
        table.name = format!("{PREFIX}{number}_{}", self.routines.depth());
        let local = Arc::new(Local { table: Arc::new(table), made, next });
        if let Some(parameters) = self.expansion.parameters_mut() {
            parameters.add_local(name, local.clone());
        }
        self.needs.locals.push(local.clone());
        self.routines.fills();
        body.empties(emptied(&mut self.names, &local));
        Ok(local)
    }

    /// Returns the definition of a table variable with the types of its computed columns, and the
    /// table by the name of the variable.
    pub(crate) fn local_table(&mut self, made: &CreateTable) -> Result<(CreateTable, Table)> {
        let mut made = made.clone();
        let mut columns = Vec::new();
        for column in &made.columns {
            if column.user_type.is_some() || column.filled == Filled::Version {
                let what = "a user-defined type or a rowversion in a table of a function";
                return Err(Error::feature(what));
            }
            columns.push(TableColumn {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable != Some(false)
                    && column.identity.is_none()
                    && !made.is_primary(&column.name),
                identity: column.identity.is_some(),
                default: column.default.clone(),
                filled: column.filled.clone(),
                collation: column.collation,
            });
        }
        let mut table = Table {
            schema: "temp".to_owned(),
            database: "tempdb".to_owned(),
            name: made.name.object().to_owned(),
            columns,
            kind: TableKind::Table,
        };
        for at in 0..table.columns.len() {
            if let Filled::Computed { text, .. } = table.columns[at].filled.clone() {
                let ty = self.computed_value(&table, &text, None)?.ty;
                (table.columns[at].ty, made.columns[at].ty) = (ty, ty);
            }
        }
        Ok((made, table))
    }

    /// All rows of a table variable, as one text.
    pub(super) fn filled(&mut self, local: &Arc<Local>) -> Result<Source> {
        let alias = self.fresh(Alias::Source);
        let SourceScope { columns, .. } = self.scope_of("", &local.table, Some(alias))?;
        let values = columns.iter().map(|offered| self.read(offered)).collect::<Result<_>>()?;
        let from = Relation::Scan { table: local.table.clone(), alias };
        let (query, ty) = rows_of(values, from);
        Ok(Source::Read(Box::new(Reader::new(Statement::Query(query), vec![ty]))))
    }

    /// A change of a table variable.
    pub(super) fn changed_step(&mut self, kind: &Kind) -> Result<Step> {
        self.without_row_limit(|binder| binder.changed_local(kind))
    }

    fn changed_local(&mut self, kind: &Kind) -> Result<Step> {
        let (made, verb, shows) = match kind {
            Kind::Insert(insert) => (self.insert(insert)?, "INSERT", !insert.output.is_empty()),
            Kind::Update(update) if is_rowwise(update) => {
                return Err(Error::feature("OUTPUT or a variable in an UPDATE of a function"));
            }
            Kind::Update(update) => (self.update(update)?, "UPDATE", false),
            Kind::Delete(delete) => (self.delete(delete)?, "DELETE", !delete.output.is_empty()),
            _ => return Err(Error::feature("this statement in a function")),
        };
        if shows {
            return Err(Error::feature("OUTPUT in a function"));
        }
        let mut locals = self.expansion.parameters().into_iter().flat_map(Parameters::locals);
        let local = locals.find(|local| Arc::ptr_eq(&local.table, &made.table));
        let Some(local) = local.cloned() else {
            return Err(DefinedError::SideEffect { name: verb.to_owned() }.into());
        };
        let made = change(made.statement, verb, &local, made.identity);
        Ok(Step::Change(Box::new(made)))
    }
}

/// The change that empties a table variable.
fn emptied(names: &mut Names, local: &Arc<Local>) -> Change {
    let alias = names.fresh(Alias::Source);
    let target = Target { table: local.table.clone(), alias, from: None, filter: None };
    let delete = Delete { with: Vec::new(), target, returning: Vec::new() };
    change(Statement::Delete(delete), "DELETE", local, false)
}

fn change(statement: Statement, verb: &'static str, table: &Arc<Local>, identity: bool) -> Change {
    let reader = Reader::new(statement, Vec::new());
    Change { reader, verb, table: table.clone(), identity }
}
