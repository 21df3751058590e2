//! DBCC: checks, caches and open transactions.

use rusqlite::Connection;
use tdekit_wire_tds::messages::Told;
use tdekit_wire_tds::{Command, Flow, Length, Message, SqlType, Value};

use super::db::{Db, failure};
use super::position::Position;
use crate::error::{Error, Result};
use crate::functions::wanted::parts;
use crate::host::Rows;
use crate::name::quote;
use crate::run::activity::Activity;
use crate::run::catalog::views::space;
use crate::run::catalog::{Table, TableKind};
use crate::run::ddl::{Checked, checked_rows, shown_columns, shown_rows};
use crate::run::options::Options;
use crate::run::state::{Frame, Signal};
use crate::run::work::{Inner, Run};
use crate::value::{convert, dateparse::DateText, datetime};

/// The bytes of a page as SQL Server counts them.
const PAGE_BYTES: i64 = 8192;
/// The name that OPENTRAN shows of a transaction: theirs are not kept.
const TRANSACTION: &str = "user_transaction";

impl Run<'_> {
    pub(crate) fn dbcc(
        &mut self,
        name: &str,
        args: &[String],
        options: &[String],
        frame: &Frame,
    ) -> Result<Signal> {
        let clear = args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case("CLEAR"));
        let has = |wanted: &str| options.iter().any(|option| option == wanted);
        let (mut told, mut shown) = (Vec::new(), None);
        match name {
            "SQLPERF" if clear && args[0].eq_ignore_ascii_case("sys.dm_os_wait_stats") => {
                self.s.db.host.clear_wait_stats()?;
            }
            "DROPCLEANBUFFERS" => {
                self.s.db.host.drop_clean_buffers()?;
                if !self.s.state.transaction.is_open() {
                    let connection = self.s.db.connection()?;
                    connection
                        .release_memory()
                        .map_err(|error| Error::Internal { detail: error.to_string() })?;
                }
            }
            "FREEPROCCACHE" | "FREESYSTEMCACHE" | "FREESESSIONCACHE" => {
                self.s.texts.forget();
                if name == "FREEPROCCACHE" {
                    self.s.metered.tallies().clear();
                }
            }
            "CHECKDB" => {
                let place = (&mut self.s.db, self.s.state.database.as_str());
                told = check_database(place, &self.s.position, args, has("PHYSICAL_ONLY"))?;
            }
            "CHECKCONSTRAINTS" => {
                let (disabled, all_rows) = (has("ALL_CONSTRAINTS"), has("ALL_ERRORMSGS"));
                let checked = Checked { disabled, all_rows };
                let found = self.check_constraints(args.first().map(String::as_str), checked)?;
                shown = Some(found).filter(|found| !found.rows.is_empty());
            }
            "USEROPTIONS" => shown = Some(user_options(&self.s.state.options)),
            "CHECKIDENT" => told = vec![self.check_identity(args)?.message()],
            "OPENTRAN" => match (oldest_transaction(self.s, args)?, has("TABLERESULTS")) {
                ((_, None), _) => told = vec![Told::NoTransaction {}.message()],
                ((_, Some(oldest)), true) => shown = Some(in_table(&oldest)?),
                ((name, Some(oldest)), false) => told = in_messages(name, &oldest)?,
            },
            _ => return Err(Error::unsupported(format!("DBCC {name}"))),
        }
        if let Some(rows) = &shown
            && self.send(rows) == Flow::Stop
        {
            return Ok(Signal::Stop);
        }
        told.push(Told::DbccCompleted {}.message());
        for message in told {
            let wanted = message.is_error() || !has("NO_INFOMSGS");
            if wanted && self.sink.message(&message) == Flow::Stop {
                return Ok(Signal::Stop);
            }
        }
        match shown {
            Some(rows) => {
                let count = u64::try_from(rows.rows.len()).unwrap_or(u64::MAX);
                Ok(self.counted(frame, Command::SELECT, count, true))
            }
            None => Ok(self.finished(frame, Command::OTHER)),
        }
    }

    /// CHECKIDENT.
    fn check_identity(&mut self, args: &[String]) -> Result<Told> {
        let table = checked_table((&mut self.s.db, &self.s.state.database), args)?;
        let (told, kept) = check_identity(&mut self.s.db, &table, args)?;
        if let Some(kept) = kept {
            self.define(&table.schema, |run| run.s.db.store_identity(&table, kept))?;
        }
        Ok(told)
    }

    /// Returns the rows of the current database that violate a constraint: one that is named, those
    /// of a table that is named, or all.
    fn check_constraints(&mut self, named: Option<&str>, checked: Checked) -> Result<Rows> {
        let (tables, only) = self.s.ddl().tables_to_check(named)?;
        let mut found = Vec::new();
        for table in tables {
            for constraint in self.s.db.named_constraints(&table)? {
                if !checked.wants(&constraint, only.as_deref()) {
                    continue;
                }
                let (columns, most) = (shown_columns(&table, &constraint), checked.most());
                let rows = if constraint.is_by_query()? {
                    let condition = crate::parse::check_condition(&constraint.text)?;
                    let mut rows = self.violating_rows(&table, &condition, &columns)?;
                    rows.truncate(most);
                    rows
                } else {
                    self.s.ddl().violating_values(&table, &constraint, &columns, most)?
                };
                let order = self.s.state.options.dateformat;
                found.extend(shown_rows(&table, &constraint, &columns, &rows, order)?);
            }
        }
        Ok(checked_rows(found))
    }
}

/// The session's connection, and its current database.
type Place<'a> = (&'a mut Db, &'a str);

/// The database that an argument names: by its name, or 0 for the current one.
fn checked_database((db, current): Place<'_>, args: &[String]) -> Result<String> {
    let Some(name) = args.first().filter(|name| *name != "0") else {
        return Ok(current.to_owned());
    };
    let known = db.host.databases()?;
    let found = known
        .into_iter()
        .find(|known| known.name.eq_ignore_ascii_case(name) || known.id.to_string() == *name);
    let missing = || Error::CheckNoDatabase { name: name.clone() };
    found.map(|known| known.name).ok_or_else(missing)
}

/// CHECKDB: SQLite's own check of every page, index and constraint.
fn check_database(
    (db, current): Place<'_>,
    position: &Position,
    args: &[String],
    physical: bool,
) -> Result<Vec<Message>> {
    if args.get(1).is_some_and(|arg| !arg.eq_ignore_ascii_case("NOINDEX")) {
        return Err(Error::unsupported("DBCC CHECKDB with a repair"));
    }
    let name = checked_database((db, current), args)?;
    let schema = db.schema(&name)?;
    let kernels = db.kernels.clone();
    // rows that violate a CHECK are not damage: CHECKCONSTRAINTS would find them
    db.ignore_checks(true, current)?;
    let read = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
        let sql = format!("PRAGMA {}.integrity_check", quote(&schema));
        connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let found = read(db.connection()?).map_err(|error| failure(&kernels, &error, &name));
    db.ignore_checks(false, current)?;
    let mut found = found?;
    found.retain(|text| text != "ok");
    let mut told = vec![Told::DbccResults { name: name.clone() }.message()];
    let errors = found.len();
    let error = |text| position.message(&Error::CheckFound { text }, "");
    told.extend(found.into_iter().map(error));
    if !physical && errors == 0 {
        for table in space::tables(db, &name)? {
            told.push(Told::DbccResults { name: table.name.clone() }.message());
            let pages = (table.data_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
            let (rows, name) = (table.rows, table.name);
            told.push(Told::DbccRows { rows, pages, name }.message());
        }
    }
    told.push(Told::DbccFound { errors, name }.message());
    Ok(told)
}

fn checked_table((db, current): Place<'_>, args: &[String]) -> Result<std::sync::Arc<Table>> {
    let name = args.first().cloned().unwrap_or_default();
    let found = db.find(&parts(&name), current)?;
    let found = found.filter(|table| table.kind == TableKind::Table);
    let table = found.ok_or_else(|| Error::CheckMissing { name: name.clone() })?;
    if table.identity().is_none() {
        return Err(Error::CheckNoIdentity { name });
    }
    Ok(table)
}

/// CHECKIDENT: the last identity value of a table as it is reported, and the one that it gets.
fn check_identity(db: &mut Db, table: &Table, args: &[String]) -> Result<(Told, Option<i64>)> {
    let identity = table.identity().cloned();
    let column = identity.as_ref().map_or("", |column| column.name.as_str());
    let ty = identity.as_ref().map_or(SqlType::BigInt, |column| column.ty);
    let kernels = db.kernels.clone();
    let own = quote(&table.schema);
    let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
    let connection = db.connection()?;
    let sql = format!("SELECT increment, last FROM {own}.tsql_identity WHERE table_name = ?1");
    let (step, last): (i64, Option<i64>) = connection
        .query_row(&sql, [&table.name], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(fail)?;
    let extreme = if step < 0 { "min" } else { "max" };
    let sql = format!("SELECT {extreme}({}) FROM {}", quote(column), table.sql());
    let most = connection.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    let most = match most.map_err(fail)? {
        rusqlite::types::Value::Integer(most) => Some(most),
        rusqlite::types::Value::Null => None,
        _ => return Err(Error::feature("DBCC CHECKIDENT of numbers beyond bigint")),
    };
    let shown = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let mut kept = None;
    let word = args.get(1).map_or("RESEED".to_owned(), |word| word.to_ascii_uppercase());
    let bad = |parameter| Error::CheckParameter { parameter };
    match (word.as_str(), args.get(2)) {
        ("NORESEED", None) => {}
        ("RESEED", None) => {
            // what the column has beyond the last value counts
            let behind = |most: &i64| last.is_none_or(|last| (most - last) * step.signum() > 0);
            kept = most.filter(behind);
        }
        ("RESEED", Some(new)) => {
            let new: i64 = new.parse().map_err(|_| bad(3))?;
            convert::convert(&Value::Int(new), SqlType::BigInt, ty, 0, DateText::default())
                .map_err(|_| bad(3))?;
            // the first row of a table gets the value itself
            let new = if last.is_none() { new.checked_sub(step) } else { Some(new) };
            let new = new.ok_or_else(|| bad(3))?;
            return Ok((Told::Reseeded { current: shown(last) }, Some(new)));
        }
        _ => return Err(bad(2)),
    }
    Ok((Told::Identity { current: shown(last), column: shown(most) }, kept))
}

/// OPENTRAN: a database, and of its sessions' open transactions the one that began first.
fn oldest_transaction(session: &mut Inner, args: &[String]) -> Result<(String, Option<Activity>)> {
    let name = checked_database((&mut session.db, &session.state.database), args)?;
    session.show();
    let mut open: Vec<Activity> = session.metered.sessions().list(session.locks.all());
    open.retain(|own| own.database.eq_ignore_ascii_case(&name) && own.began.is_some());
    open.sort_by_key(|own| own.began.map(|began| (began.days, began.ticks)));
    Ok((name, open.into_iter().next()))
}

/// When a transaction began, as OPENTRAN shows it.
fn start_of(open: &Activity) -> Result<Option<String>> {
    let Some(began) = open.began else { return Ok(None) };
    let moment = datetime::to_type(began, SqlType::DateTime, "datetime")?;
    let text = SqlType::VarChar(Length::Of(30));
    let shown = convert::convert(&moment, SqlType::DateTime, text, 109, DateText::default())?;
    Ok(Some(crate::run::messages::shown(&shown, 30)))
}

fn in_messages(name: String, oldest: &Activity) -> Result<Vec<Message>> {
    let mut told = vec![
        Told::TransactionOf { name }.message(),
        Told::OldestTransaction {}.message(),
        Told::TransactionSpid { spid: oldest.caller.spid }.message(),
        Told::TransactionUid {}.message(),
        Told::TransactionName { name: TRANSACTION.to_owned() }.message(),
    ];
    told.extend(start_of(oldest)?.map(|time| Told::TransactionStart { time }.message()));
    Ok(told)
}

/// The options of SET that are on, or have a value.
fn user_options(options: &Options) -> Rows {
    let textsize = if options.textsize < 0 { i64::from(i32::MAX) } else { options.textsize };
    // READ_COMMITTED_SNAPSHOT is on
    let level = match options.isolation.as_str() {
        "READ COMMITTED" => "read committed snapshot".to_owned(),
        level => level.to_lowercase(),
    };
    let mut rows = vec![
        ("textsize", textsize.to_string()),
        ("language", options.dateformat.language.name.to_owned()),
        ("dateformat", options.dateformat.order.name().to_owned()),
        ("datefirst", options.datefirst.to_string()),
        ("lock_timeout", options.lock_timeout_ms.to_string()),
    ];
    for (name, on) in [
        ("quoted_identifier", options.quoted_identifier),
        ("arithabort", true),
        ("arithignore", options.arithignore),
        ("nocount", options.nocount),
        ("xact_abort", options.xact_abort),
        ("implicit_transactions", options.implicit_transactions),
        ("ansi_null_dflt_on", true),
        ("ansi_warnings", true),
        ("ansi_padding", true),
        ("ansi_nulls", true),
        ("concat_null_yields_null", true),
    ] {
        rows.extend(on.then(|| (name, "SET".to_owned())));
    }
    rows.push(("isolation level", level));
    let text = SqlType::NVarChar(Length::Of(128));
    let row = |(name, value): (&str, String)| {
        vec![Value::Text(name.to_owned().into()), Value::Text(value.into())]
    };
    Rows {
        columns: vec![("Set Option".to_owned(), text), ("Value".to_owned(), text)],
        rows: rows.into_iter().map(row).collect(),
    }
}

/// As WITH TABLERESULTS shows it, in two columns without names. There is no log with an LSN.
fn in_table(oldest: &Activity) -> Result<Rows> {
    let mut rows = vec![
        ("OLDACT_SPID", oldest.caller.spid.to_string()),
        ("OLDACT_UID", "-1".to_owned()),
        ("OLDACT_NAME", TRANSACTION.to_owned()),
    ];
    rows.extend(start_of(oldest)?.map(|time| ("OLDACT_STARTTIME", time)));
    let text = SqlType::VarChar(Length::Of(256));
    let row = |(name, value): (&str, String)| {
        vec![Value::Text(name.to_owned().into()), Value::Text(value.into())]
    };
    Ok(Rows {
        columns: vec![(String::new(), text), (String::new(), text)],
        rows: rows.into_iter().map(row).collect(),
    })
}
