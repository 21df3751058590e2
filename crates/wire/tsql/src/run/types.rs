//! User-defined types in the texts that a session runs, and table-valued parameters.

use std::cell::{Cell, RefCell};

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::table::TableValue;
use tdekit_wire_tds::{Collation, Column, Generated, SqlType};

use super::called::{Compiled, Given};
use super::db::Db;
use super::typed::{GivenTable, Tables, Typed};
use crate::ast::defined::{CreateType, TypeKind, UserType};
use crate::ast::{Name, ProcParam, Stmt};
use crate::bind::{Variables, parameter_table};
use crate::error::{At, Error, Result};
use crate::parse::FindType;
use crate::parse::defined::declared_table;
use crate::run::state::Signal;
use crate::run::work::Run;
use crate::value::type_name;

/// Number of rows of a table-valued parameter between two checks of the client's cancel flag.
const CANCEL_EVERY: usize = 1024;

/// The table by which CREATE TYPE tries a table type.
const TRIED: &str = "#@~type";

impl Db {
    /// Parses a text that runs in this database.
    pub(crate) fn parse(
        &mut self,
        text: &str,
        quoted: bool,
        database: &str,
    ) -> std::result::Result<(Vec<Stmt>, Typed), At> {
        self.finding_types(database, |find| crate::parse::parse_with(text, quoted, find))
    }

    /// Parses the declarations of a text that runs in this database.
    pub(crate) fn parse_declarations(
        &mut self,
        text: &str,
        database: &str,
    ) -> std::result::Result<(Vec<ProcParam>, Typed), At> {
        self.finding_types(database, |find| crate::parse::parse_declarations(text, find))
    }

    fn finding_types<T>(
        &mut self,
        database: &str,
        parse: impl FnOnce(FindType<'_>) -> std::result::Result<T, At>,
    ) -> std::result::Result<(T, Typed), At> {
        // what another session changes meanwhile makes it old
        let version = self.version();
        let used = Cell::new(false);
        let db = RefCell::new(self);
        let parsed = parse(&|name: &Name| {
            used.set(true);
            db.borrow_mut().user_type(name, database)
        })?;
        Ok((parsed, used.get().then(|| (version, database.to_owned()))))
    }

    /// Returns true if the types of a compiled text are still those that it would find now.
    pub(crate) fn is_current(&mut self, compiled: &Compiled, database: &str) -> bool {
        let Some((version, of)) = &compiled.typed else { return true };
        self.follow();
        *version == self.version() && of == database
    }
}

/// Returns true if a table is passed for a parameter.
///
/// # Errors
/// 206 for a table of another type, for a table in place of a value, and the reverse.
pub(crate) fn takes_table(param: &ProcParam, given: &Given) -> Result<bool> {
    let clash = |left: &str, right: &str| {
        Err(Error::OperandClash { left: left.to_owned(), right: right.to_owned() })
    };
    let Some(of) = param.table() else {
        return match &given.table {
            Some(_) => clash("table", type_name(param.ty)),
            None => Ok(false),
        };
    };
    match &given.table {
        Some(GivenTable::Variable { of: Some(own), .. }) if own.is(of) => Ok(true),
        Some(GivenTable::Variable { of: own, .. }) => {
            clash(own.as_ref().map_or("table", |own| &own.name), &of.name)
        }
        Some(GivenTable::Sent(table)) => {
            let sent = Name(vec![table.schema.clone(), table.name.clone()]);
            let named = sent.stored();
            match table.name.is_empty() || named.eq_ignore_ascii_case(&of.name) {
                true => Ok(true),
                false => clash(&named, &of.name),
            }
        }
        None if given.value.is_none() => Ok(true),
        None => clash(type_name(given.ty), &of.name),
    }
}

impl Run<'_> {
    /// Makes the tables of parameters, in the scope that begins. A variable is lent, since nobody
    /// can change it there.
    pub(super) fn put_tables(
        &mut self,
        params: &[ProcParam],
        given: &[Given],
        tables: &Tables,
    ) -> Result<Signal> {
        for (at, from) in tables {
            let Some(param) = params.get(*at) else { continue };
            let Some(of) = param.table() else { continue };
            let name = parameter_table(&param.name, *at);
            let table =
                from.and_then(|from| given.get(from)).and_then(|given| given.table.as_ref());
            if let Some(GivenTable::Variable { stored, .. }) = table {
                let level = self.s.state.nest;
                self.s.db.lend(&name, stored, level);
                continue;
            }
            self.create_table(&declared_table(of, name.clone()))?;
            let Some(GivenTable::Sent(table)) = table else { continue };
            if !table.columns.is_empty() && !self.fill_sent(&name, of, &param.name, table)? {
                return Ok(Signal::Stop);
            }
        }
        Ok(Signal::Next)
    }

    /// Runs work with the tables of parameters, which are empty.
    pub(crate) fn with_empty_tables<T>(
        &mut self,
        params: &[ProcParam],
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let all = params.iter().enumerate();
        let tables: Tables =
            all.filter(|(_, param)| param.table().is_some()).map(|(at, _)| (at, None)).collect();
        if tables.is_empty() {
            return work(self);
        }
        self.s.state.nest += 1;
        let level = self.s.state.nest;
        let result = self.put_tables(params, &[], &tables).and_then(|_| work(self));
        self.s.state.nest = level.saturating_sub(1);
        self.end_temporaries(level)?;
        result
    }

    /// Inserts the rows of a table-valued parameter; false if the client cancels.
    fn fill_sent(
        &mut self,
        name: &str,
        of: &UserType,
        param: &str,
        table: &TableValue,
    ) -> Result<bool> {
        let own = of.table().map_or(&[][..], |own| &own.columns);
        if own.len() != table.columns.len() {
            let (sent, own) = (table.columns.len(), own.len());
            return Err(DefinedError::ColumnCount { sent, own }.into());
        }
        let (mut names, mut columns) = (Vec::new(), Vec::new());
        for (column, place) in table.columns.iter().zip(&table.places) {
            let Some(into) = own.get(*place).filter(|_| !column.default) else { continue };
            if into.identity.is_some() {
                return Err(DefinedError::IdentityColumn {}.into());
            }
            names.push(into.name.clone());
            let name = into.name.clone();
            columns.push(Column {
                name,
                ty: column.ty,
                nullable: true,
                generated: Generated::No,
                collation: Collation::default(),
            });
        }
        if names.is_empty() {
            return Err(Error::feature("a table-valued parameter without values"));
        }
        let types: Vec<SqlType> = columns.iter().map(|column| column.ty).collect();
        let wanted = Name(vec![name.to_owned()]);
        let target = self.target(&wanted, &names, &Variables::default(), false)?;
        let identities = self.s.state.identities;
        let own = self.begin_own(&["temp".to_owned()], false)?;
        let mut put = || -> Result<bool> {
            self.begin_rows(&target)?;
            for (at, row) in table.rows().enumerate() {
                if at % CANCEL_EVERY == 0 && self.sink.cancelled() {
                    return Ok(false);
                }
                let row = row.map_err(|error| DefinedError::BadTable {
                    name: param.to_owned(),
                    reason: error.to_string(),
                })?;
                self.put_row(&target, &types, &row, false)?;
            }
            self.end_rows(&target)?;
            Ok(true)
        };
        let result = put();
        if !matches!(result, Ok(true)) {
            self.s.db.kernels.forget_counters();
        }
        self.after_write(own, matches!(result, Ok(true)))?;
        self.s.state.identities = identities;
        result
    }

    /// CREATE TYPE. A table type is tried: whoever declares one must be able to.
    pub(crate) fn create_type(&mut self, made: &CreateType) -> Result<()> {
        let of = self.s.ddl().type_to_make(made)?;
        if let TypeKind::Table(_) = &of.kind {
            self.try_table_type(&of)?;
        }
        self.make(|ddl| ddl.new_type(&of, &made.text))
    }

    /// Makes a table of the type and drops it.
    fn try_table_type(&mut self, of: &UserType) -> Result<()> {
        let made = self.create_table(&declared_table(of, TRIED.to_owned()));
        let stored = self.s.db.temporary(TRIED);
        if made.is_ok()
            && let Some(table) = self.s.db.stored("temp", "tempdb", &stored)?
        {
            self.drop_table(&table)?;
        }
        self.s.db.forget_temporary(TRIED);
        made
    }

    /// Declares a variable of a table type.
    pub(crate) fn declare_typed(&mut self, of: &UserType, name: &Name) -> Result<()> {
        self.create_table(&declared_table(of, name.object().to_owned()))
    }
}
