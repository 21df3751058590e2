//! CREATE FUNCTION and ALTER FUNCTION.

use tdekit_wire_tds::messages::DefinedError;

use super::super::db::View;
use super::module::check_columns;
use super::{Ddl, Definition};
use crate::ast::defined::CreateFunction;
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::run::typed::declare_parameters;

impl Ddl<'_> {
    /// Checks that a function may be made, and, unless it is one of a query, that its body can be
    /// bound.
    pub(super) fn admit_function(&mut self, made: &CreateFunction) -> Result<()> {
        let current = &self.state.database;
        if made.name.object().starts_with('#') || made.name.0.len() > 2 {
            return Err(Error::feature("a function of another database, or a temporary one"));
        }
        if self.db.module(&made.name, current, "P")?.is_some() {
            let name = made.name.object().to_owned();
            return match made.may_create && !made.may_replace {
                true => Err(Error::ObjectExists { name }),
                false => Err(DefinedError::OtherKind { name: made.name.text() }.into()),
            };
        }
        if made.may_replace {
            let (schema, database, object) = self.db.place(&made.name, current)?;
            self.refuse_kept("ALTER", &made.name, (&schema, &database), &object)?;
        }
        declare_parameters(&made.params)?;
        if made.letters() == "IF" {
            return Ok(());
        }
        let variables = Variables::default();
        let mut view = View { db: self.db, database: current, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        binder.defined_routine(made)?;
        let needs = binder.take_needs();
        self.gate().admit_plan(&needs)?;
        self.make_locals(&needs.locals)
    }

    /// Checks that a function's query can be bound, and that its columns have names.
    pub(super) fn check_query_of(&mut self, made: &CreateFunction) -> Result<()> {
        let variables = Variables::default();
        let database = &self.state.database;
        let mut view = View { db: self.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let columns = binder.defined_query(made)?.columns;
        let needs = binder.take_needs();
        self.gate().admit_plan(&needs)?;
        let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        check_columns(&made.name, &names)
    }

    pub(super) fn new_function<'d>(&mut self, made: &'d CreateFunction) -> Result<Definition<'d>> {
        let may = (made.may_create, made.may_replace);
        self.new_module(&made.name, made.letters(), &made.text, may)
    }
}
