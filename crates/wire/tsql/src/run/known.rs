//! The triggers of tables, as a session knows them.

use std::sync::Arc;

use super::db::{Db, failure};
use super::fired::Known;
use crate::ast::trigger::Event;
use crate::error::Result;
use crate::plan::trigger::Trigger;
use crate::run::catalog::triggers::{list, reached};
use crate::run::catalog::{Table, TableKind};

impl Db {
    /// Returns the enabled triggers of a table, and those that its cascades reach.
    pub(crate) fn triggers_of(&mut self, table: &Table) -> Result<Arc<Known>> {
        if matches!(table.kind, TableKind::System(_)) || table.schema == "temp" {
            return Ok(Arc::default());
        }
        self.forget_old();
        let key = (table.schema.clone(), table.name.to_lowercase());
        if let Some(known) = self.fired.known.get(&key) {
            return Ok(known.clone());
        }
        let kernels = self.kernels.clone();
        let connection = self.connection()?;
        let read = || -> rusqlite::Result<Known> {
            let mut all = list(connection, &table.schema, None)?;
            all.retain(|trigger| !trigger.disabled);
            let all: Vec<Arc<Trigger>> = all.into_iter().map(Arc::new).collect();
            let of = |name: &str| -> Vec<Arc<Trigger>> {
                let own = all.iter().filter(|known| known.table.eq_ignore_ascii_case(name));
                own.cloned().collect()
            };
            let mut known = Known { own: of(&table.name), reached: Vec::new() };
            if all.iter().any(|trigger| !trigger.instead) {
                for reached in reached(connection, &table.schema, &table.name)? {
                    let mut after = of(&reached.table);
                    after.retain(|trigger| !trigger.instead);
                    if !after.is_empty() {
                        known.reached.push((reached, after));
                    }
                }
            }
            Ok(known)
        };
        let known = read().map_err(|error| failure(&kernels, &error, &table.database))?;
        let known = Arc::new(known);
        self.fired.known.insert(key, known.clone());
        Ok(known)
    }

    /// Returns the enabled triggers that changes of a table fire: not the one whose statements run.
    pub(crate) fn firing(&mut self, table: &Table) -> Result<Vec<Arc<Trigger>>> {
        let known = self.triggers_of(table)?;
        let fires = |trigger: &&Arc<Trigger>| !self.fired.is_running(table, trigger);
        Ok(known.own.iter().filter(fires).cloned().collect())
    }

    /// Returns true if a table has an enabled trigger of this kind for an event.
    pub(crate) fn has_trigger(
        &mut self,
        table: &Table,
        event: Event,
        instead: bool,
    ) -> Result<bool> {
        let firing = self.firing(table)?;
        Ok(firing.iter().any(|trigger| trigger.instead == instead && trigger.events.has(event)))
    }
}
