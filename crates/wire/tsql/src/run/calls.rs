//! The session's values in expressions: `@@` variables and functions of its state.

use tdekit_wire_tds::{Caller, SqlType, Value, product};

use super::db::Db;
use super::messages::shown;
use super::tran::Transaction;
use super::versions::FIRST_VERSION;
use crate::error::{Error, Result};
use crate::functions::eval::{NEXT_VALUE, SessionCalls};
use crate::functions::table;
use crate::host::SharedHost;
use crate::run::catalog::model::Snapshot;
use crate::run::catalog::principal::login_id;
use crate::run::state::State;
use crate::value::{Val, datetime};

pub(crate) struct Calls<'a> {
    pub(crate) state: &'a State,
    pub(crate) caller: &'a Caller,
    pub(crate) host: &'a SharedHost,
    /// The state in which functions look up objects.
    pub(crate) snapshot: Option<&'a Snapshot>,
    pub(crate) db: &'a Db,
}

fn text(value: impl Into<String>) -> Val {
    Value::Text(value.into().into())
}

fn int(value: impl Into<i64>) -> Val {
    Value::Int(value.into())
}

fn number(value: Option<i64>) -> Val {
    value.map_or(Value::Null, |value| Value::Decimal { unscaled: i128::from(value), scale: 0 })
}

/// Returns `@@VERSION`.
pub(crate) fn version_text() -> String {
    format!(
        "Microsoft SQL Server 2019 (RTM) - {} (X64) \n\ttdekit {} on SQLite {}",
        product::VERSION,
        env!("CARGO_PKG_VERSION"),
        rusqlite::version()
    )
}

impl Calls<'_> {
    fn database_id(&self) -> Result<Val> {
        let found = self.host.databases()?;
        let current = &self.state.database;
        let found = found.iter().find(|database| database.name.eq_ignore_ascii_case(current));
        Ok(found.map_or(Value::Null, |database| int(database.id)))
    }

    fn moment(&self, ty: SqlType) -> Result<Val> {
        datetime::to_type(self.state.now, ty, "datetime2")
    }

    fn server_property(name: &str) -> Val {
        match name.to_ascii_lowercase().as_str() {
            "productversion" => text(product::VERSION),
            "productlevel" => text("RTM"),
            "productmajorversion" => text(product::MAJOR.to_string()),
            "productminorversion" => text(product::MINOR.to_string()),
            "productbuild" => text(product::BUILD.to_string()),
            "edition" => text("Developer Edition (64-bit)"),
            "engineedition" => text("3"),
            "editionid" => text("-2117995310"),
            "collation" => text(product::COLLATION),
            "servername" | "machinename" | "computernamephysicalnetbios" => text("tdekit"),
            "instancename" | "productupdatelevel" => Value::Null,
            "isclustered" | "ishadrenabled" | "isfulltextinstalled" | "issingleuser" => text("0"),
            "isintegratedsecurityonly" | "isxtpsupported" | "ispolybaseinstalled" => text("0"),
            "isadvancedanalyticsinstalled" | "islocaldb" | "isbigdatacluster" => text("0"),
            "sqlcharsetname" => text("iso_1"),
            "sqlsortordername" => text("nocase_iso"),
            "lcid" => text("1033"),
            "buildclrversion" => text(""),
            "processid" => text(std::process::id().to_string()),
            _ => Value::Null,
        }
    }

    fn caught(&self) -> Option<&tdekit_wire_tds::Message> {
        self.state.guards.handled()
    }

    fn error_function(&self, name: &str) -> Val {
        let Some(message) = self.caught() else { return Value::Null };
        match name {
            "ERROR_LINE" => int(message.line),
            "ERROR_MESSAGE" => text(message.text.clone()),
            "ERROR_NUMBER" => int(message.number),
            "ERROR_PROCEDURE" if message.procedure.is_empty() => Value::Null,
            "ERROR_PROCEDURE" => text(message.procedure.clone()),
            "ERROR_SEVERITY" => int(message.class),
            _ => int(message.state),
        }
    }

    /// The caller's user in the current database, and its number.
    fn user(&self) -> Option<(i64, String)> {
        self.db.known_user(&self.state.database)
    }

    fn variable(&self, name: &str) -> Val {
        match name {
            "@@DATEFIRST" => int(self.state.options.datefirst),
            "@@ERROR" => int(self.state.error),
            "@@CONNECTIONS" | "@@CPU_BUSY" => int(0),
            "@@CURSOR_ROWS" => int(self.state.cursors.last_rows),
            "@@FETCH_STATUS" => int(self.state.cursors.fetch_status),
            "@@DBTS" => {
                let last = self.db.last_version(&self.state.database).unwrap_or(FIRST_VERSION);
                Value::Binary(last.to_be_bytes().to_vec().into())
            }
            "@@IDENTITY" => number(self.state.identities.last()),
            "@@LANGID" => int(self.state.options.dateformat.language.id),
            "@@LANGUAGE" => text(self.state.options.dateformat.language.name),
            "@@LOCK_TIMEOUT" => int(self.state.options.lock_timeout_ms),
            "@@MAX_PRECISION" => int(38),
            "@@MICROSOFTVERSION" => {
                int((i64::from(product::MAJOR) << 24) + i64::from(product::BUILD))
            }
            "@@NESTLEVEL" => int(self.state.nest),
            // ANSI_WARNINGS, ANSI_PADDING, ANSI_NULLS, QUOTED_IDENTIFIER, ANSI_NULL_DFLT_ON ...
            "@@OPTIONS" => {
                let options = &self.state.options;
                let of = |on: bool, bit: i64| if on { bit } else { 0 };
                int(5496 | of(options.nocount, 512) | of(options.arithignore, 128))
            }
            "@@PROCID" => int(self.db.fired.procedure_id()),
            "@@ROWCOUNT" => int(self.state.rowcount.min(i64::from(i32::MAX))),
            "@@SERVERNAME" | "@@SERVICENAME" => text("tdekit"),
            "@@SPID" => int(self.caller.spid),
            "@@TEXTSIZE" => int(self.state.options.textsize),
            "@@TRANCOUNT" => int(self.state.transaction.depth()),
            "@@VERSION" => text(version_text()),
            _ => Value::Null,
        }
    }
}

impl SessionCalls for Calls<'_> {
    fn call(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val> {
        let arg = |at: usize| args.get(at).map(|value| shown(value, 4000));
        Ok(match name {
            _ if name.starts_with("@@") => self.variable(name),
            _ if name.starts_with("ERROR_") => self.error_function(name),
            "GETDATE" | "GETUTCDATE" | "CURRENT_TIMESTAMP" => self.moment(SqlType::DateTime)?,
            "SYSDATETIME" | "SYSUTCDATETIME" => self.moment(SqlType::DateTime2(7))?,
            "SYSDATETIMEOFFSET" => self.moment(SqlType::DateTimeOffset(7))?,
            NEXT_VALUE => match args {
                [Value::Text(schema), Value::Text(name), Value::Int(place)] => {
                    let place = usize::try_from(*place).unwrap_or(usize::MAX);
                    int(self.db.kernels.next_value(schema, name, place)?)
                }
                _ => Value::Null,
            },
            "TRIGGER_NESTLEVEL" | "UPDATE" | "COLUMNS_UPDATED" => self.db.fired.call(name, args)?,
            "APP_NAME" => text(self.caller.application.clone()),
            "HOST_NAME" => text(self.caller.host.clone()),
            _ if !args.is_empty() && table::looks_up(name).is_some() => match self.snapshot {
                Some(snapshot) => snapshot.call(name, args)?,
                None => return Err(Error::feature(format!("{name} in this place"))),
            },
            "CURRENT_USER" | "SESSION_USER" | "USER" | "USER_NAME" => {
                self.user().map_or(Value::Null, |(_, name)| text(name))
            }
            "USER_ID" | "DATABASE_PRINCIPAL_ID" => {
                self.user().map_or(Value::Null, |(id, _)| int(id))
            }
            "SUSER_ID" => {
                let login = self.host.login(&self.caller.login)?;
                login.map_or(Value::Null, |login| int(login_id(&login)))
            }
            "SUSER_SID" => {
                let sid = self.db.who.sid.clone();
                sid.map_or(Value::Null, |sid| Value::Binary(sid.into()))
            }
            "ORIGINAL_LOGIN" | "SUSER_NAME" | "SUSER_SNAME" | "SYSTEM_USER" => {
                text(self.caller.login.clone())
            }
            "DB_NAME" => text(self.state.database.clone()),
            "DB_ID" => self.database_id()?,
            "SCHEMA_NAME" => text("dbo"),
            "SCHEMA_ID" => int(1),
            "SCOPE_IDENTITY" => number(self.state.identities.of_scope()),
            "SERVERPROPERTY" => Self::server_property(&arg(0).unwrap_or_default()),
            "CONNECTIONPROPERTY" => match arg(0).unwrap_or_default().to_lowercase().as_str() {
                "net_transport" => text("TCP"),
                "protocol_type" => text("TSQL"),
                "auth_scheme" => text("SQL"),
                "client_net_address" => text(self.caller.address.clone()),
                "encrypt_option" => text(if self.caller.encrypted { "TRUE" } else { "FALSE" }),
                "tls_protocol" => self.caller.tls_protocol.map_or(Value::Null, text),
                "tls_cipher_suite" => self.caller.tls_cipher_suite.map_or(Value::Null, text),
                _ => Value::Null,
            },
            "CURSOR_STATUS" => {
                let (kind, name) = (arg(0).unwrap_or_default(), arg(1).unwrap_or_default());
                self.state.cursors.status(&kind, &name, self.state.nest).map_or(Value::Null, int)
            }
            "RAND" => match args.first() {
                Some(Value::Int(seed)) => {
                    Value::Float(fastrand::Rng::with_seed(seed.unsigned_abs()).f64())
                }
                _ => Value::Float(fastrand::f64()),
            },
            "XACT_STATE" => int(match &self.state.transaction {
                Transaction::None => 0,
                open if open.is_doomed() => -1,
                _ => 1,
            }),
            _ => Value::Null,
        })
    }
}
