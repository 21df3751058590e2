//! Insertion of rows into a table one by one: bulk loads, INSERT .. EXEC, OUTPUT .. INTO.

use super::conditions::note_rows;
use super::firing::Watch;
use super::target::{Kept, Load, Target};
use super::tran::Own;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::code_page::{self, OWN_PAGE};
use tdekit_wire_tds::messages::{InsertError, TriggerError};
use tdekit_wire_tds::{Collation, Column, Command, SqlType, Value};

use super::data::internal;
use super::db::View;
use crate::ast::trigger::Event;
use crate::ast::{Action, InsertBulk, Kind, Name};
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::functions::eval::{assigned, eval};
use crate::plan::access::Right;
use crate::plan::table::Filled;
use crate::plan::trigger::Changed;
use crate::render::{Place, insert_of_row};
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::run::refused::write_row;
use crate::run::silent::Silent;
use crate::run::state::{Frame, Signal};
use crate::run::work::Inner;
use crate::run::work::Run;
use crate::value::convert::CodePages;
use crate::value::{Val, is_national, is_text, storage, text};

impl Run<'_> {
    /// Prepares for rows with values for these columns; for all but the identity column if none is
    /// named. With `any_identity` the rows may fill the identity column.
    pub(crate) fn target(
        &mut self,
        name: &Name,
        columns: &[String],
        variables: &Variables,
        any_identity: bool,
    ) -> Result<Target> {
        let database = self.s.state.database.clone();
        let kernels = self.s.db.kernels.clone();
        let identity_insert =
            self.s.state.options.identity_insert.as_ref().map(|on| on.sql.clone());
        let mut view = View {
            db: &mut self.s.db,
            database: &database,
            identity_insert: identity_insert.as_deref(),
        };
        let mut binder = Binder::new(&mut view, variables);
        let table = binder.find_table(name, &[Right::Insert])?;
        if table.is_logical() {
            return Err(TriggerError::LogicalTable {}.into());
        }
        if table.kind != TableKind::Table {
            return Err(Error::feature("rows into a view"));
        }
        let explicit = any_identity || binder.identity_insert(&table);
        let named = named_columns(&table, columns, (any_identity, explicit))?;
        let mut access = binder.take_needs().access;
        let mut sequences = Vec::new();
        let mut kept = |binder: &mut Binder<'_>, column: &TableColumn| {
            let value = binder.default(&table, column)?;
            let mut needs = binder.take_needs();
            access.append(&mut needs.access);
            sequences.append(&mut needs.sequences);
            Kept::of(value, needs, &kernels)
        };
        let mut with_defaults = Vec::new();
        for column in named {
            let default = match column.default {
                Some(_) => Some(kept(&mut binder, &column)?),
                None => None,
            };
            with_defaults.push((column, default));
        }
        let names = with_defaults.iter().enumerate();
        let mut places: Vec<(String, Place)> =
            names.map(|(at, (column, _))| (column.name.clone(), Place::Param(at))).collect();
        let (mut rest, mut made) = (Vec::new(), false);
        for column in &table.columns {
            if with_defaults.iter().any(|(known, _)| known.name == column.name) {
                continue;
            }
            if column.filled == Filled::Version {
                places.push((column.name.clone(), Place::Version));
            } else if column.identity {
                made = true;
                places.push((column.name.clone(), Place::Identity));
            } else if column.default.is_some() {
                rest.push(kept(&mut binder, column)?);
                let at = with_defaults.len() + rest.len() - 1;
                places.push((column.name.clone(), Place::Param(at)));
            }
        }
        let places = places.iter().map(|(name, place)| (name.as_str(), *place));
        let sql = insert_of_row(&table, places);
        let given = table.identity().is_some() && !made;
        self.s.gate().admit(&access)?;
        if any_identity && given {
            // as SET IDENTITY_INSERT
            self.s.gate().admit_alter(&table)?;
        }
        Ok(Target { table, columns: with_defaults, rest, sql, made, given, sequences })
    }

    /// Called before the first row.
    pub(crate) fn begin_rows(&mut self, target: &Target) -> Result<()> {
        target.sequences.iter().try_for_each(|sequence| self.load_counter(sequence))?;
        self.s.db.begin_versions(&target.table)?;
        if target.made {
            self.s.db.begin_identity(&target.table)?;
        }
        Ok(())
    }

    /// Called after the last row.
    pub(crate) fn end_rows(&mut self, target: &Target) -> Result<()> {
        self.store_counters(&target.sequences)?;
        self.s.db.end_versions(&target.table)?;
        self.end_identity(&target.table, target.made, target.given)
    }

    /// Adds the rows of an OUTPUT; the identity values that a session sees stay those of the
    /// statement's own table.
    pub(super) fn put_output(
        &mut self,
        target: &Target,
        columns: &[Column],
        rows: &[Vec<Val>],
    ) -> Result<()> {
        let types: Vec<SqlType> = columns.iter().map(|column| column.ty).collect();
        let identities = self.s.state.identities;
        self.begin_rows(target)?;
        for row in rows {
            self.put_row(target, &types, row, false)?;
        }
        self.end_rows(target)?;
        self.s.state.identities = identities;
        Ok(())
    }

    /// Inserts a row whose values are of these types. With `defaults`, NULL means the column's
    /// DEFAULT if it has one.
    pub(crate) fn put_row(
        &mut self,
        target: &Target,
        types: &[SqlType],
        values: &[Value<'_>],
        defaults: bool,
    ) -> Result<()> {
        self.s.db.kernels.begin_counted(&target.sequences);
        let result = self.put_values(target, types, values, defaults);
        // the statement's own rows are others
        self.s.db.kernels.begin_counted(&target.sequences);
        result
    }

    fn put_values(
        &mut self,
        target: &Target,
        types: &[SqlType],
        values: &[Value<'_>],
        defaults: bool,
    ) -> Result<()> {
        if values.len() != target.columns.len() || types.len() != values.len() {
            return Err(InsertError::ExecValues {}.into());
        }
        let order = self.s.state.options.dateformat;
        let full = target.table.full_name();
        let mut stored: Vec<Stored> = Vec::with_capacity(values.len() + target.rest.len());
        for ((value, from), (column, default)) in values.iter().zip(types).zip(&target.columns) {
            let value = match default {
                Some(default) if defaults && *value == Value::Null => self.kept_value(default)?,
                _ => {
                    let to = column.collation.code_page();
                    let with = (order, CodePages { to, ..CodePages::default() });
                    assigned(value, (*from, column.ty), (&full, &column.name), with)?
                }
            };
            stored.push(storage::store(&value, column.ty)?);
        }
        for default in &target.rest {
            let value = self.kept_value(default)?;
            stored.push(storage::store(&value, default.value.ty)?);
        }
        let of = (&*target.table, Command::INSERT);
        write_row((&mut self.s.db, &self.s.state.database), of, &target.sql, &stored)
    }

    /// Returns the value that a DEFAULT has now.
    pub(super) fn kept_value(&mut self, kept: &Kept) -> Result<Val> {
        let Some(plan) = &kept.plan else {
            return self
                .s
                .with_env(&Frame::empty(), |env| eval(&kept.value, env).map(Value::into_owned));
        };
        let (mut found, ty) = (Value::Null, kept.value.ty);
        let (signal, _) = self.query(plan, &Frame::empty(), &mut |_, row| {
            let stored = row.get_ref(0).map_err(internal)?;
            found = storage::load_owned(stored, ty, "value")?;
            Ok(Signal::Break)
        })?;
        match signal {
            Signal::Stop => Err(Error::Internal { detail: "cancelled".to_owned() }),
            _ => Ok(found),
        }
    }

    /// INSERT BULK as a statement: its rows come later, with the load itself.
    pub(crate) fn announce(&mut self, insert: &InsertBulk, frame: &Frame) -> Result<Signal> {
        let names: Vec<String> = insert.columns.iter().map(|(name, ..)| name.clone()).collect();
        let target = self.target(&insert.target, &names, &frame.variables, true)?;
        self.admit_unfired(&target, insert.fires)?;
        if target.table.schema != "temp" {
            self.implicit();
        }
        Ok(self.finished(frame, Command::OTHER))
    }
}

/// True if the rows are noted for CHECKs, and the rows that triggers get.
type Begun = (bool, Option<Watch>);

impl Inner {
    pub(crate) fn load_begin(&mut self, text: &str, columns: &[Column]) -> Result<()> {
        self.load.forget();
        self.renew_who();
        let quoted = self.state.options.quoted_identifier;
        let stmts = crate::parse::parse(text, quoted).map_err(|at| at.error)?;
        let Some(Kind::Act(Action::InsertBulk(insert))) =
            stmts.into_iter().next().map(|stmt| stmt.kind)
        else {
            return Err(Error::Syntax { near: "INSERT BULK".to_owned() });
        };
        let names: Vec<String> = match insert.columns.is_empty() {
            true => columns.iter().map(|column| column.name.clone()).collect(),
            false => insert.columns.iter().map(|(name, ..)| name.clone()).collect(),
        };
        if names.len() != columns.len() {
            return Err(Error::BulkColumn { number: names.len().min(columns.len()) + 1 });
        }
        let from = columns.iter().map(|column| column.ty).collect();
        let mut silent = Silent;
        let mut run = Run { s: self, sink: &mut silent };
        let (target, own, (noted, watch)) =
            run.defining(|run| run.begin_load(&insert, &names, columns))?;
        let pages = named_pages(columns, &insert, &target);
        let keep_nulls = insert.keep_nulls;
        self.load.put(Load { target, from, pages, keep_nulls, own, rows: 0, noted, watch });
        Ok(())
    }

    pub(crate) fn load_row(&mut self, values: &[Value<'_>]) -> Result<()> {
        let Some(mut load) = self.load.take() else {
            return Err(Error::Internal { detail: "a row without a load".to_owned() });
        };
        self.state.now = crate::value::datetime::now();
        let mut silent = Silent;
        let mut run = Run { s: self, sink: &mut silent };
        let repaged = load.in_their_pages(values);
        let values = repaged.as_deref().unwrap_or(values);
        run.s.db.look_anew();
        match run.put_row(&load.target, &load.from, values, !load.keep_nulls) {
            Ok(()) => {
                load.rows += 1;
                self.load.put(load);
                Ok(())
            }
            Err(error) => {
                run.undo_load(&load)?;
                Err(error)
            }
        }
    }

    pub(crate) fn load_end(&mut self, keep: bool) -> Result<u64> {
        let Some(mut load) = self.load.take() else { return Ok(0) };
        let mut silent = Silent;
        let mut run = Run { s: self, sink: &mut silent };
        if !keep {
            run.undo_load(&load)?;
            return Ok(0);
        }
        run.s.db.look_anew();
        let ended = run.end_rows(&load.target).and_then(|()| {
            let events = [(Event::Insert, Changed::All)];
            match load.noted && run.check_rows(&load.target.table, &events)? == Signal::Stop {
                true => Err(Error::Internal { detail: "cancelled".to_owned() }),
                false => Ok(()),
            }
        });
        let ended =
            ended.and_then(|()| load.watch.iter().try_for_each(|own| own.end(&mut run.s.db)));
        if let Err(error) = ended {
            run.undo_load(&load)?;
            return Err(error);
        }
        let watch = load.watch.take();
        // nobody hears messages of triggers here: an error is the load's, as in a TRY block
        run.s.state.guards.enter();
        let kept = run.kept(load.own, watch, load.rows, &Frame::empty());
        run.s.state.guards.leave();
        if kept? != Signal::Next {
            return Err(TriggerError::Ended {}.into());
        }
        self.state.rowcount = i64::try_from(load.rows).unwrap_or(i64::MAX);
        Ok(load.rows)
    }
}

/// The code pages of columns whose text is in the page of their own collation, although the rows
/// name the server's: FreeTDS does so. With COLLATE in the statement, the name counts.
fn named_pages(columns: &[Column], insert: &InsertBulk, target: &Target) -> Vec<Option<u16>> {
    let narrow = |ty| is_text(ty) && !is_national(ty);
    let page = |(at, (sent, (into, _))): (usize, (&Column, &(TableColumn, _)))| {
        let collated = insert.columns.get(at).is_some_and(|(.., collated)| *collated);
        let own = sent.collation == Collation::default() && !collated;
        let page = into.collation.code_page();
        let other = own && narrow(sent.ty) && narrow(into.ty) && page != OWN_PAGE;
        other.then_some(page)
    };
    columns.iter().zip(&target.columns).enumerate().map(page).collect()
}

impl Load {
    /// Returns the values in the pages of their columns, if some have others.
    fn in_their_pages(&self, values: &[Value<'_>]) -> Option<Vec<Val>> {
        self.pages.iter().any(Option::is_some).then(|| {
            let pages = self.pages.iter().chain(std::iter::repeat(&None));
            let value = |(value, page): (&Value<'_>, &Option<u16>)| match (value, page) {
                (Value::Text(found), Some(page)) => {
                    let bytes = text::to_bytes(found, OWN_PAGE);
                    Value::Text(code_page::decode(*page, &bytes).into())
                }
                (value, _) => value.clone().into_owned(),
            };
            values.iter().zip(pages).map(value).collect()
        })
    }
}

impl Run<'_> {
    /// Finds the target of a load, and begins the statement that its rows are.
    fn begin_load(
        &mut self,
        insert: &InsertBulk,
        names: &[String],
        columns: &[Column],
    ) -> Result<(Target, Own, Begun)> {
        let target = self.target(&insert.target, names, &Variables::default(), true)?;
        self.admit_unfired(&target, insert.fires)?;
        for (column, (into, _)) in columns.iter().zip(&target.columns) {
            if !crate::value::implicit(column.ty, into.ty)
                && !crate::value::explicit(column.ty, into.ty)
            {
                return Err(Error::OperandClash {
                    left: crate::value::type_name(column.ty).to_owned(),
                    right: crate::value::type_name(into.ty).to_owned(),
                });
            }
        }
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        let events = [(Event::Insert, Changed::All)];
        let own = self.begin_own(std::slice::from_ref(&target.table.schema), false)?;
        let begun = self
            .check_schema()
            .and_then(|()| note_rows(&mut self.s.db, &target.table, &events))
            .and_then(|noted| {
                let watch = self.watch_load(&target, insert.fires)?;
                self.begin_rows(&target).map(|()| (noted, watch))
            });
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.s.db.kernels.forget_counters();
                self.after_write(own, false)?;
                return Err(error);
            }
        };
        Ok((target, own, begun))
    }

    /// A load that fires no triggers needs what disabling them needs, where there are some.
    fn admit_unfired(&mut self, target: &Target, fires: bool) -> Result<()> {
        if fires {
            return Ok(());
        }
        for instead in [false, true] {
            if self.s.db.has_trigger(&target.table, Event::Insert, instead)? {
                return self.s.gate().admit_alter(&target.table);
            }
        }
        Ok(())
    }

    /// FIRE_TRIGGERS: begins to copy rows for triggers.
    fn watch_load(&mut self, target: &Target, fires: bool) -> Result<Option<Watch>> {
        if !fires {
            return Ok(None);
        }
        if self.s.db.has_trigger(&target.table, Event::Insert, true)? {
            return Err(Error::feature("INSERT BULK that fires an INSTEAD OF trigger"));
        }
        self.s.db.fired.reset();
        let events = [(Event::Insert, Changed::All)];
        Watch::begin(&mut self.s.db, self.s.state.nest, &target.table, &events)
    }

    fn undo_load(&mut self, load: &Load) -> Result<()> {
        load.watch.iter().for_each(|watch| watch.forget(&mut self.s.db));
        self.s.db.kernels.forget_counters();
        self.after_write(load.own, false)?;
        self.s.state.rowcount = 0;
        if self.s.state.options.xact_abort {
            // the rollback itself is for the client to request: nothing can be reported here
            self.s.state.transaction.doom();
        }
        Ok(())
    }
}

/// Returns the columns that rows have values for: those that are named, or all.
fn named_columns(
    table: &Table,
    columns: &[String],
    (any_identity, explicit): (bool, bool),
) -> Result<Vec<TableColumn>> {
    let mut named = Vec::new();
    if columns.is_empty() {
        let all = table.columns.iter();
        let all = all.filter(|column| !column.is_computed());
        named.extend(all.filter(|column| any_identity || !column.identity).cloned());
    }
    for name in columns {
        let column =
            table.column(name).ok_or_else(|| Error::InvalidColumn { name: name.clone() })?;
        if column.identity && !explicit {
            return Err(Error::IdentityInsert { table: table.name.clone() });
        }
        if named.iter().any(|known: &TableColumn| known.name == column.name) {
            return Err(Error::DuplicateColumnName { name: name.clone() });
        }
        if column.is_computed() {
            return Err(Error::ComputedModified { column: column.name.clone() });
        }
        named.push(column.clone());
    }
    if named.iter().any(|column| column.filled == Filled::Version) {
        return Err(Error::VersionInserted {});
    }
    Ok(named)
}
