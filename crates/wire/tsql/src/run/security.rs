//! Statements that the host executes, and system procedures.

use std::cell::RefCell;

use tdekit_wire_tds::messages::{DefinedError, ServerError, Told};
use tdekit_wire_tds::{Collation, Column, Command, EnvChange, Flow, Generated, Message};

use super::operands::{resolved_backup, resolved_restore};
use super::principals::{Registry, bounded};
use crate::ast::principal::Principals;
use crate::ast::{Name, ObjectKind, Security, SetValue};
use crate::error::{Error, Result};
use crate::host::{AlterDatabase, CreateDatabase, DatabaseState, RestoreKind, Rows};
use crate::run::options::IdentityInsert;
use crate::run::state::{Frame, Signal};
use crate::run::work::Run;
use crate::value::dateparse::Order;

impl Run<'_> {
    /// DROP of any kind.
    pub(crate) fn drop(
        &mut self,
        kind: ObjectKind,
        names: &[Name],
        if_exists: bool,
        on: Option<&Name>,
    ) -> Result<()> {
        let host = self.s.db.host.clone();
        match kind {
            ObjectKind::Database => {
                names.iter().try_for_each(|name| self.drop_database(name, if_exists))
            }
            ObjectKind::Certificate => {
                names.iter().try_for_each(|name| host.drop_certificate(name.object()))
            }
            ObjectKind::MasterKey => host.drop_master_key(),
            ObjectKind::EncryptionKey => host.drop_encryption_key(&self.s.state.database),
            ObjectKind::Table
            | ObjectKind::View
            | ObjectKind::Procedure
            | ObjectKind::Index
            | ObjectKind::Schema
            | ObjectKind::Sequence
            | ObjectKind::Type
            | ObjectKind::Function
            | ObjectKind::Trigger => names.iter().try_for_each(|name| {
                self.s.db.look_anew();
                self.make(|ddl| ddl.dropped(kind, name, if_exists, on))
            }),
        }
    }

    pub(crate) fn use_database(&mut self, name: &str, frame: &Frame) -> Result<Signal> {
        let all = self.s.db.host.databases()?;
        let found = all.iter().find(|database| database.name.eq_ignore_ascii_case(name));
        let new = found.ok_or_else(|| Error::UnknownDatabase { name: name.to_owned() })?;
        if new.state == DatabaseState::Restoring {
            return Err(ServerError::Restoring { name: new.name.clone() }.into());
        }
        let old = std::mem::replace(&mut self.s.state.database, new.name.clone());
        // first it is shown: whoever detaches the database meanwhile sees that, or is seen here
        self.s.show();
        if let Err(error) = self.s.db.is_there(&new.name) {
            self.s.state.database = old;
            self.s.show();
            return Err(error);
        }
        self.sink.env_change(EnvChange::Database { new: &new.name, old: &old });
        // state 2 is the login's
        let told = Message { state: 1, ..Told::Database { name: new.name.clone() }.message() };
        if self.sink.message(&told) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        Ok(self.finished(frame, Command::OTHER))
    }

    /// CREATE DATABASE; a signal if the client wants no more.
    pub(super) fn create_database(&mut self, made: &CreateDatabase) -> Result<Option<Signal>> {
        let host = self.s.db.host.clone();
        match made.files.is_empty() {
            true => host.create_database(&made.name).map(|()| None),
            false => self.told(|out| host.create_database_on(made, out)),
        }
    }

    /// `sp_detach_db`. What else it names (statistics, full text) is nothing here.
    pub(super) fn detach_database(&mut self, name: &str) -> Result<()> {
        if self.s.state.transaction.is_open_outside() || self.in_sqlite() {
            return Err(Error::WithinTransaction { statement: "sp_detach_db" });
        }
        if self.s.state.database.eq_ignore_ascii_case(name) {
            return Err(ServerError::NotDetached { name: name.to_owned() }.into());
        }
        self.s.show();
        self.s.db.detach(name)?;
        let sessions = self.s.metered.sessions();
        self.s.db.host.detach_database(name, &|| sessions.is_current(name))
    }

    fn drop_database(&mut self, name: &Name, if_exists: bool) -> Result<()> {
        let name = name.object();
        let all = self.s.db.host.databases()?;
        let there = all.iter().any(|database| database.name.eq_ignore_ascii_case(name));
        if !there && if_exists {
            return Ok(());
        }
        if self.s.state.database.eq_ignore_ascii_case(name) {
            return Err(Error::DatabaseInUse { name: name.to_owned() });
        }
        self.s.db.detach(name)?;
        self.s.db.host.drop_database(name)
    }

    pub(crate) fn set_option(
        &mut self,
        names: &[String],
        value: &SetValue,
        frame: &Frame,
    ) -> Result<Signal> {
        let value = super::language::given(value, frame)?;
        for name in names {
            self.set_one(name, &value)?;
        }
        Ok(self.finished(frame, Command::OTHER))
    }

    fn set_one(&mut self, name: &str, value: &SetValue) -> Result<()> {
        let on = *value == SetValue::On;
        let number = match value {
            SetValue::Expr(crate::ast::Expr::Int(digits)) => digits.parse::<i64>().ok(),
            SetValue::Expr(crate::ast::Expr::Unary(crate::ast::UnOp::Minus, inner)) => {
                match inner.as_ref() {
                    crate::ast::Expr::Int(digits) => digits.parse::<i64>().ok().map(|n| -n),
                    _ => None,
                }
            }
            _ => None,
        };
        let options = &mut self.s.state.options;
        let unsupported = |what: &str| Err(Error::unsupported(format!("SET {what}")));
        match (name, value) {
            ("NOCOUNT", _) => options.nocount = on,
            ("STATISTICS IO", _) => options.statistics_io = on,
            ("STATISTICS TIME", _) => options.statistics_time = on,
            ("ARITHIGNORE", _) => options.arithignore = on,
            ("XACT_ABORT", _) => options.xact_abort = on,
            ("QUOTED_IDENTIFIER", _) => options.quoted_identifier = on,
            ("ANSI_DEFAULTS", SetValue::On) => {
                options.quoted_identifier = true;
                options.implicit_transactions = true;
            }
            ("IMPLICIT_TRANSACTIONS", _) => options.implicit_transactions = on,
            ("FMTONLY", _) => options.fmtonly = on,
            ("NOEXEC", _) => options.noexec = on,
            ("PARSEONLY" | "FORCEPLAN", SetValue::On) => {
                return unsupported(&format!("{name} ON"));
            }
            ("NUMERIC_ROUNDABORT" | "CURSOR_CLOSE_ON_COMMIT", SetValue::On)
            | (
                "ANSI_DEFAULTS"
                | "ANSI_NULLS"
                | "ANSI_PADDING"
                | "ANSI_WARNINGS"
                | "CONCAT_NULL_YIELDS_NULL",
                SetValue::Off,
            ) => {
                // each of them would change results
                return unsupported(&format!("{name} {}", if on { "ON" } else { "OFF" }));
            }
            ("DATEFIRST", _) => match number {
                Some(day @ 1..=7) => options.datefirst = day,
                _ => return unsupported("DATEFIRST"),
            },
            ("DATEFORMAT", SetValue::Text(format)) => {
                options.dateformat.order = match format.to_lowercase().as_str() {
                    "mdy" => Order::Mdy,
                    "dmy" => Order::Dmy,
                    "ymd" => Order::Ymd,
                    _ => return unsupported(&format!("DATEFORMAT {format}")),
                };
            }
            ("LOCK_TIMEOUT", _) => match number {
                Some(limit) => options.lock_timeout_ms = limit,
                None => return unsupported("LOCK_TIMEOUT"),
            },
            ("ROWCOUNT", _) => match number {
                Some(count) if count >= 0 => options.rowcount = count,
                _ => return unsupported("ROWCOUNT"),
            },
            ("TEXTSIZE", _) => match number {
                // shorter texts are sent in full all the same
                Some(size) => options.textsize = size,
                None => return unsupported("TEXTSIZE"),
            },
            ("LANGUAGE", SetValue::Text(language)) => return self.set_language(language),
            ("LANGUAGE" | "DATEFORMAT", _) => return unsupported(name),
            ("ISOLATION", SetValue::Text(level)) => options.isolation.clone_from(level),
            ("IDENTITY_INSERT", SetValue::Table(table, on)) => {
                return self.set_identity_insert(table, *on);
            }
            ("CONTEXT_INFO", _) => return unsupported("CONTEXT_INFO"),
            _ => {}
        }
        Ok(())
    }

    fn set_identity_insert(&mut self, name: &Name, on: bool) -> Result<()> {
        let table = self.find(name)?.ok_or_else(|| Error::InvalidObject { name: name.text() })?;
        if table.identity().is_none() {
            return Err(Error::NoIdentity { table: name.text() });
        }
        let sql = table.sql();
        let current = self.s.state.options.identity_insert.clone();
        let other = current.as_ref().filter(|current| current.sql != sql);
        if on {
            if let Some(IdentityInsert { place: [schema, database, other], .. }) = other
                && let Some(other) = self.s.db.stored(schema, database, other)?
            {
                let on = format!("{database}.{}", other.object_name());
                let table = table.object_name();
                return Err(DefinedError::IdentityElsewhere { on, table }.into());
            }
            let place = [table.schema.clone(), table.database.clone(), table.name.clone()];
            self.s.state.options.identity_insert = Some(IdentityInsert { sql, place });
        } else if other.is_none() {
            self.s.state.options.identity_insert = None;
        }
        self.s.db.changed();
        Ok(())
    }

    #[allow(clippy::too_many_lines)]
    pub(crate) fn security(&mut self, security: &Security, frame: &Frame) -> Result<Signal> {
        let host = self.s.db.host.clone();
        let database = self.s.state.database.clone();
        let changes_file = matches!(
            security,
            Security::AlterDatabase { change: AlterDatabase::EncryptionOn, .. }
                | Security::AlterDatabase { change: AlterDatabase::EncryptionOff, .. }
                | Security::AlterEncryptionKey(_)
        );
        let stands_alone = changes_file || matches!(security, Security::AlterDatabase { .. });
        let is_within = self.s.state.transaction.is_open_outside() || self.in_sqlite();
        if stands_alone && is_within {
            let statement = match security {
                Security::AlterEncryptionKey(_) => "ALTER DATABASE ENCRYPTION KEY",
                _ => "ALTER DATABASE",
            };
            return Err(Error::WithinTransaction { statement });
        }
        let refuse_within = || match is_within {
            true => Err(Error::BackupWithinTransaction {}),
            false => Ok(()),
        };
        let mut rows = None;
        match security {
            Security::CreateMasterKey { password } => {
                host.create_master_key(password.as_deref())?;
            }
            Security::OpenMasterKey { password } => host.open_master_key(password)?,
            Security::CloseMasterKey => host.close_master_key()?,
            Security::AlterMasterKey { password, force } => {
                host.alter_master_key(password, *force)?;
            }
            Security::BackupMasterKey { file, password } => {
                host.backup_master_key(file, password)?;
            }
            Security::CreateCertificate(certificate) => host.create_certificate(certificate)?,
            Security::BackupCertificate(backup) => host.backup_certificate(backup)?,
            Security::CreateEncryptionKey(key) => {
                let told = self.told(|out| host.create_encryption_key(&database, key, out));
                if let Some(signal) = told? {
                    return Ok(signal);
                }
            }
            Security::AlterEncryptionKey(key) => {
                self.s.db.detach(&database)?;
                let told = self.told(|out| host.alter_encryption_key(&database, key, out));
                if let Some(signal) = told? {
                    return Ok(signal);
                }
            }
            Security::AlterDatabase { database: named, change } => {
                let name = named.clone().unwrap_or(database);
                if changes_file {
                    // the host swaps the file: no connection may hold the old one
                    self.s.db.detach(&name)?;
                }
                let told = self.told(|out| host.alter_database(&name, change, out));
                if let Some(signal) = told? {
                    return Ok(signal);
                }
            }
            Security::Backup(backup) => {
                let backup = resolved_backup(backup, frame)?;
                let told = refuse_within();
                let told = told.and_then(|()| self.told(|out| host.backup(&backup, out)));
                let verb = if backup.log { "BACKUP LOG" } else { "BACKUP DATABASE" };
                let told = told.or_else(|error| self.terminated(error, verb, frame));
                if let Some(signal) = told? {
                    return Ok(signal);
                }
            }
            Security::Restore(restore) => {
                let restore = resolved_restore(restore, &self.s.caller.login, frame)?;
                let mut given = None;
                let told = refuse_within().and_then(|()| {
                    if let Some(name) = &restore.database {
                        refuse_current(name, &database)?;
                        self.s.db.detach(name)?;
                    }
                    self.told(|out| {
                        given = host.restore(&restore, out)?;
                        Ok(())
                    })
                });
                let verb = match restore.kind {
                    RestoreKind::Database => "RESTORE DATABASE",
                    RestoreKind::Log => "RESTORE LOG",
                    RestoreKind::HeaderOnly => "RESTORE HEADERONLY",
                    RestoreKind::VerifyOnly => "RESTORE VERIFYONLY",
                    RestoreKind::FileListOnly => "RESTORE FILELISTONLY",
                    RestoreKind::LabelOnly => "RESTORE LABELONLY",
                };
                let told = told.or_else(|error| self.terminated(error, verb, frame));
                if let Some(signal) = told? {
                    return Ok(signal);
                }
                if let Some(name) = &restore.database {
                    self.s.values.forget(name);
                }
                self.s.db.changed();
                rows = given;
            }
        }
        match rows {
            Some(rows) => self.give(&rows, frame),
            None => Ok(self.finished(frame, Command::OTHER)),
        }
    }

    /// A statement about logins, users, roles and permissions.
    pub(super) fn principals(&mut self, principals: &Principals) -> Result<()> {
        let current = self.s.state.database.as_str();
        let changes = Registry { db: &mut self.s.db, current }.changes(principals)?;
        let Some(changes) = changes else { return Ok(()) };
        let schema = self.s.db.schema(changes.database())?;
        let limit_ms = self.s.state.options.lock_timeout_ms;
        self.s.state.options.lock_timeout_ms = bounded(limit_ms);
        let result = self.define(&schema, |run| changes.write(&mut run.s.db, &schema));
        self.s.state.options.lock_timeout_ms = limit_ms;
        result
    }

    /// Runs a verb whose messages go to the client while it works.
    fn told(
        &mut self,
        verb: impl FnOnce(crate::host::Progress<'_>) -> Result<()>,
    ) -> Result<Option<Signal>> {
        let stopped = RefCell::new(false);
        let cancel = self.sink.cancel_flag();
        let sink = RefCell::new(&mut *self.sink);
        let mut out = |message: Message| {
            let mut sink = sink.borrow_mut();
            let stop = sink.message(&message) == Flow::Stop || sink.cancelled();
            sink.flush();
            if stop {
                *stopped.borrow_mut() = true;
            }
            !stop
        };
        let result = verb(crate::host::Progress::new(&mut out, cancel.clone()));
        if *stopped.borrow() || cancel.load(std::sync::atomic::Ordering::Acquire) {
            return Ok(Some(Signal::Stop));
        }
        result.map(|()| None)
    }

    /// Reports the error of a backup or restore, then the end of the statement: CATCH sees the
    /// latter.
    fn terminated(&mut self, error: Error, verb: &str, frame: &Frame) -> Result<Option<Signal>> {
        if matches!(error, Error::NotSupportedFeature { .. }) {
            return Err(error);
        }
        if !self.s.state.guards.catch_errors() {
            let message = self.s.position.message(&error, &frame.procedure);
            if self.sink.message(&message) == Flow::Stop {
                return Ok(Some(Signal::Stop));
            }
        }
        Err(Error::Terminating { verb: verb.to_owned() })
    }

    /// Sends rows from the host.
    pub(crate) fn give(&mut self, rows: &Rows, frame: &Frame) -> Result<Signal> {
        if self.send(rows) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        let count = u64::try_from(rows.rows.len()).unwrap_or(u64::MAX);
        Ok(self.counted(frame, Command::SELECT, count, true))
    }

    /// Sends rows; their DONE follows.
    pub(crate) fn send(&mut self, rows: &Rows) -> Flow {
        let columns: Vec<Column> = rows
            .columns
            .iter()
            .map(|(name, ty)| Column {
                name: name.clone(),
                ty: *ty,
                nullable: true,
                generated: Generated::No,
                collation: Collation::default(),
            })
            .collect();
        if self.sink.columns(&columns) == Flow::Stop {
            return Flow::Stop;
        }
        match rows.rows.iter().any(|row| self.sink.row(row) == Flow::Stop) {
            true => Flow::Stop,
            false => Flow::Continue,
        }
    }
}

/// Refuses to restore the session's own current database.
fn refuse_current(name: &str, current: &str) -> Result<()> {
    match name.eq_ignore_ascii_case(current) {
        true => Err(ServerError::RestoreOfCurrent { name: name.to_owned() }.into()),
        false => Ok(()),
    }
}
