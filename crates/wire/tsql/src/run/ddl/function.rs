//! CREATE FUNCTION and ALTER FUNCTION.

use tdekit_wire_tds::messages::DefinedError;

use super::super::db::View;
use super::module::check_columns;
use crate::ast::defined::CreateFunction;
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::run::typed::declare_parameters;
use crate::run::work::Run;

impl Run<'_> {
    pub(crate) fn create_function(&mut self, made: &CreateFunction) -> Result<()> {
        let current = self.s.state.database.clone();
        if made.name.object().starts_with('#') || made.name.0.len() > 2 {
            return Err(Error::feature("a function of another database, or a temporary one"));
        }
        if self.s.db.module(&made.name, &current, "P")?.is_some() {
            let name = made.name.object().to_owned();
            return match made.may_create && !made.may_replace {
                true => Err(Error::ObjectExists { name }),
                false => Err(DefinedError::OtherKind { name: made.name.text() }.into()),
            };
        }
        if made.may_replace {
            let (schema, database, object) = self.s.db.place(&made.name, &current)?;
            self.refuse_kept("ALTER", &made.name, (&schema, &database), &object)?;
        }
        declare_parameters(&made.params)?;
        self.check_function(made)?;
        let (create, replace) = (made.may_create, made.may_replace);
        self.create_module(&made.name, made.letters(), &made.text, create, replace)
    }

    /// Checks that a function's query can be bound, and that its columns have names.
    fn check_function(&mut self, made: &CreateFunction) -> Result<()> {
        let current = self.s.state.database.clone();
        if made.letters() != "IF" {
            let variables = Variables::default();
            let mut view = View { db: &mut self.s.db, database: &current, identity_insert: None };
            let mut binder = Binder::new(&mut view, &variables);
            binder.defined_routine(made)?;
            let needs = binder.take_needs();
            self.admit_plan(&needs)?;
            return self.make_locals(&needs.locals);
        }
        let (columns, needs) = self.with_empty_tables(&made.params, |run| {
            let variables = Variables::default();
            let mut view = View { db: &mut run.s.db, database: &current, identity_insert: None };
            let mut binder = Binder::new(&mut view, &variables);
            let bound = binder.defined_query(made)?;
            Ok((bound.columns, binder.take_needs()))
        })?;
        self.admit_plan(&needs)?;
        let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        check_columns(&made.name, &names)
    }
}
