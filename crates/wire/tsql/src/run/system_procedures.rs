//! System procedures that are not T-SQL themselves.

use tdekit_wire_tds::messages::Told;
use tdekit_wire_tds::{Command, DoneKind, Flow, Length, SqlType, Value};

use super::applock::{AppLocks, FAILED};
use super::describe::{Describing, described_text, parameter_rows, result_rows};
use super::messages;
use super::properties::changed_property;
use crate::ast::Action;
use crate::ast::principal::Principals;
use crate::error::{Error, Result};
use crate::host::{Directory, Rows};
use crate::run::called::{Called, Given, located};
use crate::run::state::{Frame, Signal};
use crate::run::work::{Inner, Run};
use crate::value::dateparse::{ms_of, unix_ms};
use crate::value::datetime;

/// System procedures that the front end knows.
pub(crate) const PROCEDURES: &[&str] = &[
    "sp_addextendedproperty",
    "sp_addrolemember",
    "sp_delete_backuphistory",
    "sp_delete_database_backuphistory",
    "sp_describe_first_result_set",
    "sp_describe_undeclared_parameters",
    "sp_detach_db",
    "sp_dropextendedproperty",
    "sp_droprolemember",
    "sp_executesql",
    "sp_getapplock",
    "sp_releaseapplock",
    "sp_rename",
    "sp_sequence_get_range",
    "sp_server_info",
    "sp_updateextendedproperty",
    "xp_delete_file",
    "xp_instance_regread",
    "xp_instance_regwrite",
    "xp_msver",
];

fn missing(name: &str) -> Error {
    missing_parameter(name, "@database_name")
}

fn missing_parameter(procedure: &str, parameter: &str) -> Error {
    Error::MissingParameter { procedure: procedure.to_owned(), name: parameter.to_owned() }
}

/// Returns an argument, by its position or its name.
fn argument<'g>(given: &'g [Given], at: usize, name: &str) -> Option<&'g Value<'static>> {
    let named =
        |arg: &&Given| arg.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name));
    let found = given.iter().find(named);
    found.or_else(|| given.get(at).filter(|arg| arg.name.is_none()))?.value.as_ref()
}

/// Returns a text argument, by its position or its name.
pub(super) fn text_argument(given: &[Given], at: usize, name: &str) -> Option<String> {
    match argument(given, at, name) {
        Some(Value::Text(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// The rows of `sp_server_info`.
fn server_info(given: &[Given]) -> Rows {
    let attributes = [
        (1, "DBMS_NAME", "Microsoft SQL Server"),
        (2, "DBMS_VER", tdekit_wire_tds::product::VERSION),
        (10, "OWNER_TERM", "owner"),
        (11, "TABLE_TERM", "table"),
        (16, "IDENTIFIER_CASE", "MIXED"),
        (18, "COLLATION_SEQ", "charset=iso_1 sort_order=nocase_iso"),
        (500, "SYS_SPROC_VERSION", tdekit_wire_tds::product::VERSION),
    ];
    let wanted = given.first().and_then(|arg| match arg.value {
        Some(Value::Int(id)) => Some(id),
        _ => None,
    });
    let text = SqlType::VarChar(Length::Of(255));
    Rows {
        columns: vec![
            ("attribute_id".to_owned(), SqlType::Int),
            ("attribute_name".to_owned(), text),
            ("attribute_value".to_owned(), text),
        ],
        rows: attributes
            .iter()
            .filter(|(id, ..)| wanted.is_none_or(|wanted| wanted == *id))
            .map(|(id, name, value)| {
                vec![Value::Int(*id), Value::Text((*name).into()), Value::Text((*value).into())]
            })
            .collect(),
    }
}

/// The date of `sp_delete_backuphistory`, in milliseconds since 1970.
fn oldest_ms(procedure: &str, given: &[Given]) -> Result<i64> {
    let oldest = argument(given, 0, "@oldest_date");
    let oldest_ms = match oldest.ok_or_else(|| missing_parameter(procedure, "@oldest_date"))? {
        Value::Text(text) => unix_ms(text),
        other => datetime::moment(other).and_then(ms_of),
    };
    oldest_ms.ok_or(Error::BadDateTime {})
}

/// Calls a system procedure; None if there is none of this name.
pub(crate) fn system_procedure(
    run: &mut Run<'_>,
    name: &str,
    given: &[Given],
) -> Result<Option<Called>> {
    let done = |signal| Called { signal, status: 0, outputs: Vec::new() };
    match name {
        "sp_sequence_get_range" => run.sequence_range(given).map(Some),
        "sp_server_info" => {
            let rows = server_info(given);
            let frame = Frame { procedure: name.to_owned(), ..Frame::empty() };
            run.give(&rows, &frame).map(|signal| Some(done(signal)))
        }
        "sp_delete_database_backuphistory" => {
            let database =
                text_argument(given, 0, "@database_name").ok_or_else(|| missing(name))?;
            run.s.db.host.delete_backup_history(&database)?;
            Ok(Some(done(Signal::Next)))
        }
        "sp_detach_db" => {
            let database = text_argument(given, 0, "@dbname");
            let database = database.ok_or_else(|| missing_parameter(name, "@dbname"))?;
            run.detach_database(&database)?;
            Ok(Some(done(Signal::Next)))
        }
        // 0 is a backup file, and a folder with an extension is not
        "xp_delete_file" => match (given.first().map(|arg| &arg.value), given.len()) {
            (Some(Some(Value::Int(0))), 2) => {
                let file = text_argument(given, 1, "").ok_or_else(|| missing(name))?;
                run.s.db.host.delete_backup_file(&file)?;
                Ok(Some(done(Signal::Next)))
            }
            _ => Err(Error::feature("xp_delete_file of more than one file of backups")),
        },
        "sp_rename" => {
            let text = |at, name| text_argument(given, at, name);
            let missing = |parameter: &str| missing_parameter(name, parameter);
            let object = text(0, "@objname").ok_or_else(|| missing("@objname"))?;
            let new = text(1, "@newname").ok_or_else(|| missing("@newname"))?;
            let kind = text(2, "@objtype");
            run.defining(|run| {
                run.make(|ddl| ddl.renamed(&object, &new, kind.as_deref()))?;
                // A disconnected client is noticed at the end of the statement.
                let _ = run.sink.message(&Told::RenameCaution {}.message());
                Ok(())
            })?;
            Ok(Some(done(Signal::Next)))
        }
        "sp_addextendedproperty" | "sp_updateextendedproperty" | "sp_dropextendedproperty" => {
            run.defining(|run| {
                let changed = changed_property((&mut run.s.db, &run.s.state), name, given)?;
                run.apply(changed)
            })?;
            Ok(Some(done(Signal::Next)))
        }
        "sp_addrolemember" | "sp_droprolemember" => {
            let text = |at, parameter: &str| {
                text_argument(given, at, parameter)
                    .ok_or_else(|| missing_parameter(name, parameter))
            };
            let (role, member) = (text(0, "@rolename")?, text(1, "@membername")?);
            let add = name == "sp_addrolemember";
            let statement = Principals::Member { role, member, add };
            let action = Action::Principals(Box::new(statement));
            run.defining(|run| run.act_for(&action))?;
            Ok(Some(done(Signal::Next)))
        }
        "sp_delete_backuphistory" => {
            let oldest_ms = oldest_ms(name, given)?;
            run.s.db.host.delete_backup_history_before(oldest_ms)?;
            Ok(Some(done(Signal::Next)))
        }
        "xp_instance_regwrite" => {
            write_registry(run, given)?;
            Ok(Some(done(Signal::Next)))
        }
        "xp_instance_regread" => read_registry(run, given).map(Some),
        "xp_msver" => {
            let rows = super::version::msver(given);
            let frame = Frame { procedure: name.to_owned(), ..Frame::empty() };
            run.give(&rows, &frame).map(|signal| Some(done(signal)))
        }
        _ => reporting_procedure(run, name, given),
    }
}

/// Calls a system procedure that reports its own errors; None if there is none of this name.
fn reporting_procedure(run: &mut Run<'_>, name: &str, given: &[Given]) -> Result<Option<Called>> {
    match name {
        "sp_describe_first_result_set" => {
            let (text, declarations) = described_text(given);
            let described = run.s.describe_text(&text, &declarations);
            let rows = described.map_err(|at| located(at, ""));
            give_description(run, rows.map(|described| result_rows(&described))).map(Some)
        }
        "sp_describe_undeclared_parameters" => {
            let (text, declarations) = described_text(given);
            let Inner { db, state, texts, .. } = &mut *run.s;
            let mut parts = Describing { db, state, texts };
            let rows = parameter_rows(&mut parts, (&text, &declarations));
            give_description(run, rows).map(Some)
        }
        "sp_getapplock" => {
            let taken = app_locks(run).get(given);
            with_status(run, taken).map(Some)
        }
        "sp_releaseapplock" => {
            let released = app_locks(run).release(given);
            with_status(run, released).map(Some)
        }
        _ => Ok(None),
    }
}

/// Gives the rows of a description, or reports its error here: it has changed nothing, so it undoes
/// nothing, even if XACT_ABORT is on. Drivers ask for descriptions within their users'
/// transactions.
fn give_description(run: &mut Run<'_>, rows: Result<Rows>) -> Result<Called> {
    let given = rows.and_then(|rows| run.give(&rows, &Frame::empty()));
    let error = match given {
        Err(error) if !run.s.state.guards.catch_errors() && !error.undoes() => error,
        Err(error) => return Err(error),
        Ok(signal) => {
            let signal = if signal == Signal::Stop { signal } else { Signal::Next };
            return Ok(Called { signal, status: 0, outputs: Vec::new() });
        }
    };
    let message = error.message(1, "");
    run.s.state.error = message.number;
    let told = run.sink.message(&message) == Flow::Continue
        && run.sink.done(DoneKind::InProcedure, Command::OTHER, None) == Flow::Continue;
    let signal = if told { Signal::Abort } else { Signal::Stop };
    Ok(Called { signal, status: 1, outputs: Vec::new() })
}

fn app_locks<'r>(run: &'r mut Run<'_>) -> AppLocks<'r> {
    let Inner { db, state, locks, .. } = &mut *run.s;
    AppLocks { db, state, locks, sink: &mut *run.sink }
}

/// Ends a procedure of application locks: its own error is sent, and its return value is then -999.
fn with_status(run: &mut Run<'_>, result: Result<Called>) -> Result<Called> {
    let error = match result {
        Ok(called) => return Ok(called),
        Err(error) => error,
    };
    let line = run.s.position.line();
    let signal = run.failed(error, line, &Frame::empty())?;
    Ok(Called { signal, status: FAILED, outputs: Vec::new() })
}

/// The key of the registry that has values here.
const ROOT: &str = "HKEY_LOCAL_MACHINE";
const KEY: &str = "Software\\Microsoft\\MSSQLServer\\MSSQLServer";

/// The directory that a call names by root, key and name of a value.
fn directory_of(given: &[Given]) -> Option<Directory> {
    let text = |at, name| text_argument(given, at, name).unwrap_or_default();
    let root = text(0, "@rootkey").eq_ignore_ascii_case(ROOT);
    let key = text(1, "@key").trim_matches('\\').eq_ignore_ascii_case(KEY);
    Directory::of(&text(2, "@value_name")).filter(|_| root && key)
}

/// `xp_instance_regwrite ROOT, KEY, NAME, TYPE, VALUE`. There is no registry: only the directories
/// of a server can be written, which its host keeps.
fn write_registry(run: &mut Run<'_>, given: &[Given]) -> Result<()> {
    let text = |at, name| text_argument(given, at, name);
    let name = text(2, "@value_name").unwrap_or_default();
    let Some(directory) = directory_of(given) else {
        return Err(Error::feature(format!("xp_instance_regwrite of the value '{name}'")));
    };
    match (text(3, "@type"), text(4, "@value")) {
        (Some(kind), Some(path)) if kind.eq_ignore_ascii_case("REG_SZ") => {
            run.s.db.host.set_directory(directory, &path)
        }
        _ => Err(Error::feature(format!("xp_instance_regwrite of '{name}' as no REG_SZ"))),
    }
}

/// `xp_instance_regread ROOT, KEY, NAME [, @value OUTPUT]`. There is no registry: the directories
/// that were written are known, and how logins are authenticated; every other value is NULL.
fn read_registry(run: &mut Run<'_>, given: &[Given]) -> Result<Called> {
    let name = text_argument(given, 2, "@value_name").unwrap_or_default();
    let text = SqlType::NVarChar(Length::Of(260));
    let (ty, value) = match directory_of(given) {
        Some(directory) => {
            let path = run.s.db.host.directory(directory)?;
            (text, path.map_or(Value::Null, |path| Value::Text(path.into())))
        }
        // by passwords as well as by the system
        None if name.eq_ignore_ascii_case("LoginMode") => (SqlType::Int, Value::Int(2)),
        None => (SqlType::Int, Value::Null),
    };
    let mut called = Called { signal: Signal::Next, status: 0, outputs: Vec::new() };
    if let Some((index, output)) = given.iter().enumerate().find(|(_, arg)| arg.output) {
        let name = output.name.clone().unwrap_or_default();
        called.outputs.push((index, name, ty, value));
        return Ok(called);
    }
    let shown = |value: &Value<'_>| Value::Text(messages::shown(value, 260).into());
    let rows = match &value {
        Value::Null => Vec::new(),
        known => vec![vec![Value::Text(name.into()), shown(known)]],
    };
    let columns = vec![("Value".to_owned(), text), ("Data".to_owned(), text)];
    let frame = Frame { procedure: "xp_instance_regread".to_owned(), ..Frame::empty() };
    called.signal = run.give(&Rows { columns, rows }, &frame)?;
    Ok(called)
}
