//! Statements that are neither queries nor changes: one list of all kinds. A new kind does not
//! compile before it is decided here who may use it.

use tdekit_wire_tds::messages::{DefinedError, PermissionError, SchemaError, TriggerError};

use super::{Gate, On, denied, is_own};
use crate::ast::principal::{Principals, Securable};
use crate::ast::trigger::TriggerAction;
use crate::ast::{
    Action, AlterTable, ColumnDef, Constraint, ConstraintKind, CreateTable, Name, ObjectKind,
    Security, SetValue,
};
use crate::error::Result;
use crate::host::{AlterDatabase, Backup, Device};
use crate::name::is_global;
use crate::plan::access::Right;
use crate::run::catalog::model::schema_and_name;
use crate::run::operands::resolved_backup;
use crate::run::state::Frame;

/// An object that a statement names: its database, and its name in SQLite. None if it is
/// temporary: the session's own, or everybody's.
type Placed = Option<(String, String)>;

impl Gate<'_> {
    /// Refuses a statement that the login may not run. INSERT BULK is decided with its target.
    /// Returns false if there is nothing to do: DROP IF EXISTS of what the login does not see.
    ///
    /// # Errors
    /// Those of SQL Server for the statement.
    pub(crate) fn admit_action(&mut self, action: &Action, frame: &Frame) -> Result<bool> {
        if self.db.who.sysadmin {
            return Ok(true);
        }
        match self.admit_kind(action, frame) {
            Err(_) if self.drops_unseen(action) => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn admit_kind(&mut self, action: &Action, frame: &Frame) -> Result<()> {
        match action {
            Action::InsertBulk(_) | Action::DeclareTable(_) | Action::Tran(..) => Ok(()),
            Action::DeclareTyped(made) => self.admit_type(&made.of, Right::Execute),
            Action::CreateType(made) => self.admit_new(&made.name, Right::CreateType),
            Action::SetOption(_, value) => match value {
                SetValue::Table(name, _) => self.admit_table(name),
                SetValue::On | SetValue::Off | SetValue::Text(_) | SetValue::Expr(_) => Ok(()),
            },
            Action::Use(name) => self.admit_use(name),
            Action::Truncate(name) => self.admit_table(name),
            Action::CreateTable(table) => self.admit_create_table(table),
            Action::AlterTable(name, change) => {
                self.admit_table(name)?;
                match change {
                    AlterTable::Add(columns, constraints, _) => {
                        self.admit_parents(columns, constraints)
                    }
                    AlterTable::DropColumn(..)
                    | AlterTable::AlterColumn(_)
                    | AlterTable::DropConstraint(..)
                    | AlterTable::Switch { .. } => Ok(()),
                }
            }
            Action::CreateIndex(made) => self.admit_table(&made.table),
            Action::Rebuild { table, .. } => self.admit_table(table),
            Action::CreateView { name, .. } => self.admit_module(name, Right::CreateView, "view"),
            Action::CreateProc(made) => {
                self.admit_module(&made.name, Right::CreateProcedure, "procedure")
            }
            Action::CreateFunction(made) => {
                self.admit_module(&made.name, Right::CreateFunction, "function")
            }
            Action::Trigger(action) => self.admit_trigger(action),
            Action::CreateDatabase(_) => self.in_master("CREATE DATABASE"),
            Action::Sequence { name, create: true, .. } => {
                self.admit_new(name, Right::CreateSequence)
            }
            Action::Sequence { name, .. } => self.admit_change(name, "alter", "sequence"),
            Action::CreateSchema(..) => {
                let current = self.state.database.clone();
                self.admit_database(Right::CreateSchema, &current)
            }
            Action::Transfer(schema, object) => self.admit_transfer(schema, object),
            Action::Drop { kind, names, on, .. } => {
                names.iter().try_for_each(|name| self.admit_drop(*kind, name, on.as_ref()))?;
                match kind {
                    ObjectKind::EncryptionKey | ObjectKind::MasterKey => {
                        Err(PermissionError::Action {}.into())
                    }
                    _ => Ok(()),
                }
            }
            Action::Dbcc { name, .. } if name == "USEROPTIONS" => Ok(()),
            Action::Dbcc { name, .. } => {
                let (login, command) = (self.db.who.login.clone(), name.clone());
                Err(PermissionError::DbccDenied { login, command }.into())
            }
            Action::Security(security) => self.admit_security(security, frame),
            Action::Principals(principals) => self.admit_principals(principals),
            Action::Checkpoint => {
                let current = self.state.database.clone();
                self.admit_database(Right::Checkpoint, &current)
            }
            Action::Kill(_) => Err(PermissionError::KillDenied {}.into()),
        }
    }

    fn in_master(&self, right: &'static str) -> Result<()> {
        Err(PermissionError::DatabaseDenied { right, database: "master".to_owned() }.into())
    }

    fn admit_use(&mut self, name: &str) -> Result<()> {
        let known = self.db.host.databases()?;
        match known.iter().find(|known| known.name.eq_ignore_ascii_case(name)) {
            Some(known) => self.db.rights(&known.name).map(|_| ()),
            None => Ok(()),
        }
    }

    fn placed(&mut self, name: &Name) -> Result<Placed> {
        let current = self.state.database.clone();
        let (schema, database, stored) = self.db.place(name, &current)?;
        Ok((schema != "temp" && !is_global(&stored)).then_some((database, stored)))
    }

    /// A right on a database.
    fn admit_database(&mut self, right: Right, database: &str) -> Result<()> {
        let (database, right) = match self.db.rights(database)?.holds(right, &On::Database) {
            true => return Ok(()),
            false => (database.to_owned(), right.name()),
        };
        Err(PermissionError::DatabaseDenied { right, database }.into())
    }

    /// ALTER on a table.
    fn admit_table(&mut self, name: &Name) -> Result<()> {
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        match self.db.rights(&database)?.holds(Right::Alter, &On::object(&stored)) {
            true => Ok(()),
            false => Err(PermissionError::CannotAlter { object: name.text() }.into()),
        }
    }

    /// ALTER on another object.
    fn admit_change(&mut self, name: &Name, verb: &'static str, kind: &'static str) -> Result<()> {
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        match self.db.rights(&database)?.holds(Right::Alter, &On::object(&stored)) {
            true => Ok(()),
            false => {
                let name = name.object().to_owned();
                Err(PermissionError::CannotChange { verb, kind, name }.into())
            }
        }
    }

    /// A new object: the right to create it, and to alter its schema.
    pub(crate) fn admit_new(&mut self, name: &Name, right: Right) -> Result<()> {
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        if self.db.who.sysadmin {
            return Ok(());
        }
        let (schema, _) = schema_and_name(&stored);
        let rights = self.db.rights(&database)?;
        if right != Right::CreateSequence {
            self.admit_database(right, &database)?;
        }
        let (wanted, on) = match right {
            Right::CreateSequence => (right, On::schema(&schema)),
            _ => (Right::Alter, On::schema(&schema)),
        };
        match rights.holds(wanted, &on) {
            true => Ok(()),
            false => Err(PermissionError::SchemaDenied { name: schema }.into()),
        }
    }

    fn admit_create_table(&mut self, table: &CreateTable) -> Result<()> {
        self.admit_new(&table.name, Right::CreateTable)?;
        let own = table.name.clone();
        let other = |constraint: &&Constraint| match &constraint.kind {
            ConstraintKind::Foreign { table, .. } => *table != own,
            _ => false,
        };
        let within = table.columns.iter().flat_map(|column| &column.constraints);
        let all: Vec<Constraint> =
            within.chain(&table.constraints).filter(other).cloned().collect();
        self.admit_parents(&[], &all)
    }

    /// REFERENCES on the tables that foreign keys name: a key tells which values are there.
    fn admit_parents(&mut self, columns: &[ColumnDef], constraints: &[Constraint]) -> Result<()> {
        let within = columns.iter().flat_map(|column| &column.constraints);
        for constraint in within.chain(constraints) {
            let ConstraintKind::Foreign { table, .. } = &constraint.kind else { continue };
            let Some((database, stored)) = self.placed(table)? else { continue };
            if !self.db.rights(&database)?.holds(Right::References, &On::object(&stored)) {
                return Err(denied(Right::References, &database, &stored));
            }
        }
        Ok(())
    }

    fn admit_module(&mut self, name: &Name, right: Right, kind: &'static str) -> Result<()> {
        let current = self.state.database.clone();
        let letter = match kind {
            "view" => "V",
            "function" => self.db.function_kind(name, &current)?,
            _ => "P",
        };
        match self.db.module(name, &current, letter)? {
            Some(_) => self.admit_change(name, "alter", kind),
            None => self.admit_new(name, right),
        }
    }

    fn admit_drop(&mut self, kind: ObjectKind, name: &Name, on: Option<&Name>) -> Result<()> {
        let word = match kind {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::Procedure => "procedure",
            ObjectKind::Function => "function",
            ObjectKind::Sequence => "sequence object",
            ObjectKind::Index => return self.admit_drop_index(name, on),
            ObjectKind::Trigger => return self.admit_drop_trigger(name),
            ObjectKind::Database => return self.admit_drop_database(name),
            ObjectKind::Schema => return self.admit_drop_schema(name),
            ObjectKind::Type => return self.admit_drop_type(name),
            ObjectKind::Certificate => {
                let (verb, kind, name) = ("drop", "certificate", name.object().to_owned());
                return Err(PermissionError::CannotChange { verb, kind, name }.into());
            }
            ObjectKind::MasterKey | ObjectKind::EncryptionKey => {
                return Err(PermissionError::Action {}.into());
            }
        };
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        let (schema, _) = schema_and_name(&stored);
        let rights = self.db.rights(&database)?;
        let may = rights.holds(Right::Alter, &On::schema(&schema))
            || rights.holds(Right::Control, &On::object(&stored));
        match may && !is_own(&stored) {
            true => Ok(()),
            false => Err(PermissionError::CannotDrop { kind: word, name: name.text() }.into()),
        }
    }

    /// ALTER on the table or view.
    fn admit_trigger(&mut self, action: &TriggerAction) -> Result<()> {
        let admitted = self.admit_table(action.table());
        match (action, admitted) {
            (TriggerAction::Create(made), Err(error)) if error.code().0 == 1088 => {
                Err(TriggerError::NoTarget { name: made.table.text() }.into())
            }
            (_, admitted) => admitted,
        }
    }

    /// ALTER on the trigger's table.
    fn admit_drop_trigger(&mut self, name: &Name) -> Result<()> {
        let refused = PermissionError::CannotDrop { kind: "trigger", name: name.text() };
        let table = self.db.table_of_trigger(name, &self.state.database)?;
        let Some(table) = table else { return Err(refused.into()) };
        self.admit_table(&table).map_err(|_| refused.into())
    }

    fn admit_drop_index(&mut self, name: &Name, on: Option<&Name>) -> Result<()> {
        let table = match on {
            Some(table) => table.clone(),
            None => name.above(),
        };
        let refused = PermissionError::CannotDrop { kind: "index", name: name.text() };
        let Some((database, stored)) = self.placed(&table)? else { return Ok(()) };
        match self.db.rights(&database)?.holds(Right::Alter, &On::object(&stored)) {
            true => Ok(()),
            false => Err(refused.into()),
        }
    }

    /// CONTROL of the object, and ALTER of the schema that takes it.
    fn admit_transfer(&mut self, schema: &str, name: &Name) -> Result<()> {
        let current = self.state.database.clone();
        let rights = self.db.rights(&current)?;
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        let of = self.db.rights(&database)?;
        if !of.holds(Right::Control, &On::object(&stored)) || is_own(&stored) {
            return Err(SchemaError::NoObject { name: name.object().to_owned() }.into());
        }
        match rights.holds(Right::Alter, &On::schema(schema)) {
            true => Ok(()),
            false => Err(SchemaError::NoTarget { name: schema.to_owned() }.into()),
        }
    }

    fn admit_drop_database(&mut self, name: &Name) -> Result<()> {
        let rights = self.db.rights(name.object());
        match rights.is_ok_and(|rights| rights.holds(Right::Control, &On::Database)) {
            true => Ok(()),
            false => {
                let (kind, name) = ("database", name.object().to_owned());
                Err(PermissionError::CannotDrop { kind, name }.into())
            }
        }
    }

    fn admit_drop_type(&mut self, name: &Name) -> Result<()> {
        let Some((database, stored)) = self.placed(name)? else { return Ok(()) };
        let (schema, _) = schema_and_name(&stored);
        let rights = self.db.rights(&database)?;
        let may = rights.holds(Right::Alter, &On::schema(&schema))
            || rights.holds(Right::Control, &On::user_type(&stored));
        match may {
            true => Ok(()),
            false => Err(DefinedError::DropMissing { name: name.text() }.into()),
        }
    }

    fn admit_drop_schema(&mut self, name: &Name) -> Result<()> {
        let current = self.state.database.clone();
        let on = On::schema(name.object());
        let rights = self.db.rights(&current)?;
        match rights.holds(Right::Control, &on) || rights.holds(Right::Alter, &on) {
            true => Ok(()),
            false => {
                let (verb, kind, name) = ("drop", "schema", name.object().to_owned());
                Err(PermissionError::CannotChange { verb, kind, name }.into())
            }
        }
    }

    /// Keys and certificates are the server's, so they are for its sysadmins; so is what replaces a
    /// database's file.
    fn admit_security(&mut self, security: &Security, frame: &Frame) -> Result<()> {
        match security {
            Security::CreateMasterKey { .. }
            | Security::OpenMasterKey { .. }
            | Security::CloseMasterKey
            | Security::AlterMasterKey { .. }
            | Security::BackupMasterKey { .. }
            | Security::CreateCertificate(_)
            | Security::BackupCertificate(_)
            | Security::CreateEncryptionKey(_)
            | Security::AlterEncryptionKey(_) => Err(PermissionError::Action {}.into()),
            Security::AlterDatabase { database, change } => {
                let name = database.clone().unwrap_or_else(|| self.state.database.clone());
                self.admit_alter_database(&name, change)
            }
            Security::Backup(backup) => {
                let backup = resolved_backup(backup, frame)?;
                self.admit_backup(&backup)
            }
            Security::Restore(_) => self.in_master("CREATE DATABASE"),
        }
    }

    fn admit_change_of(
        &self,
        may: bool,
        verb: &'static str,
        kind: &'static str,
        name: &str,
    ) -> Result<()> {
        let name = name.to_owned();
        match may {
            true => Ok(()),
            false => Err(PermissionError::CannotChange { verb, kind, name }.into()),
        }
    }

    fn admit_alter_database(&mut self, name: &str, change: &AlterDatabase) -> Result<()> {
        let keys = match change {
            AlterDatabase::EncryptionOn
            | AlterDatabase::EncryptionOff
            | AlterDatabase::EncryptionSuspend
            | AlterDatabase::EncryptionResume => true,
            AlterDatabase::Recovery(_) | AlterDatabase::Set(..) | AlterDatabase::ModifyFile(_) => {
                false
            }
        };
        let rights = self.db.rights(name);
        match !keys && rights.is_ok_and(|rights| rights.holds(Right::Alter, &On::Database)) {
            true => Ok(()),
            false => Err(PermissionError::CannotAlterDatabase { name: name.to_owned() }.into()),
        }
    }

    /// A backup of a database by somebody else than a sysadmin is written into the directory of the
    /// databases and nowhere else: into a new file, or one that has sets of this database only.
    fn admit_backup(&mut self, backup: &Backup) -> Result<()> {
        let right = if backup.log { Right::BackupLog } else { Right::BackupDatabase };
        self.admit_database(right, &backup.database)?;
        let inside = |device: &Device<String>| match device {
            Device::Disk(path) => !path.contains(['/', '\\', '\0']) && !path.starts_with('.'),
            Device::Url(_) => false,
        };
        let refused = || PermissionError::Action {}.into();
        if !backup.devices.iter().all(inside) {
            return Err(refused());
        }
        // nobody replaces, or adds to, the backups of other databases
        let known = self.db.host.databases_on(&backup.devices).map_err(|_| refused())?;
        match known.iter().all(|name| name.eq_ignore_ascii_case(&backup.database)) {
            true => Ok(()),
            false => Err(refused()),
        }
    }

    /// Returns true for DROP IF EXISTS of things of which the login knows none.
    fn drops_unseen(&mut self, action: &Action) -> bool {
        match action {
            Action::Drop { kind, names, if_exists: true, on } => {
                names.iter().all(|name| matches!(self.sees(*kind, name, on.as_ref()), Ok(false)))
            }
            Action::Principals(principals) => match &**principals {
                Principals::Drop { name, role, if_exists: true } => {
                    let current = self.state.database.clone();
                    self.db.rights(&current).is_ok_and(|rights| {
                        let found = rights.stored.named(name).filter(|own| own.is_role == *role);
                        !found.is_some_and(|own| rights.knows(own))
                    })
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns true if something is there, and the login may know it.
    fn sees(&mut self, kind: ObjectKind, name: &Name, on: Option<&Name>) -> Result<bool> {
        if !self.db.has_object(kind, name, on, &self.state.database)? {
            return Ok(false);
        }
        let object = match (kind, on) {
            (ObjectKind::Index, Some(table)) => table.clone(),
            (ObjectKind::Index, None) => name.above(),
            (ObjectKind::Schema | ObjectKind::Database, _) => return Ok(true),
            (ObjectKind::Trigger, _) => {
                self.db.table_of_trigger(name, &self.state.database)?.unwrap_or_default()
            }
            _ => name.clone(),
        };
        let Some((database, stored)) = self.placed(&object)? else { return Ok(true) };
        let on = match kind {
            ObjectKind::Type => On::user_type(&stored),
            _ => On::object(&stored),
        };
        let data = !matches!(kind, ObjectKind::Procedure | ObjectKind::Type);
        Ok(self.db.rights(&database)?.sees(&on, data))
    }

    fn admit_principals(&mut self, principals: &Principals) -> Result<()> {
        let current = self.state.database.clone();
        match principals {
            Principals::CreateLogin { .. }
            | Principals::DropLogin(_)
            | Principals::ServerRole { .. }
            | Principals::AlterLogin { .. }
            | Principals::Owner { .. } => Err(PermissionError::Action {}.into()),
            Principals::CreateUser { .. } => {
                self.admit_on(Right::AlterAnyUser, &current, &On::Database)
            }
            Principals::CreateRole(_) => {
                self.admit_on(Right::AlterAnyRole, &current, &On::Database)
            }
            Principals::Drop { name, role, .. } => {
                let kind = if *role { "role" } else { "user" };
                let may = self.db.rights(&current)?.may_drop(name, *role);
                self.admit_change_of(may, "drop", kind, name)
            }
            // a login has the permissions of its user, and members of a role those of the role
            Principals::AlterUser { name, .. } => {
                let may = self.db.rights(&current)?.is_owner();
                self.admit_change_of(may, "alter", "user", name)
            }
            Principals::Member { role, .. } => {
                let may = self.db.rights(&current)?.may_change_members(role);
                self.admit_change_of(may, "alter", "role", role)
            }
            Principals::Permit { on, .. } => {
                let (database, on) = match on {
                    Securable::Database(name) => (name.clone().unwrap_or(current), On::Database),
                    Securable::Schema(name) => (current, On::schema(name)),
                    Securable::Object(name) => match self.placed(name)? {
                        Some((database, stored)) => (database, On::object(&stored)),
                        None => return Ok(()),
                    },
                    Securable::Type(name) => match self.placed(name)? {
                        Some((database, stored)) => (database, On::user_type(&stored)),
                        None => return Ok(()),
                    },
                };
                self.admit_on(Right::Control, &database, &on)
            }
        }
    }
}
