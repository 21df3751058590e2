//! The contents of a database's catalog, read at once: for the system views and for functions that
//! look up objects.

use super::model::{
    DESCENDING, Facts, ForeignKey, INCLUDED, Index, NULLS, Named, Object, ObjectColumn,
    ProcedureParameter, Reference, Rule, SEPARATOR, Trust, made_name, schema_and_name,
};
use crate::name::is_global;
use crate::run::catalog::named::has_table;
use crate::run::globals::TEMPDB;
use rusqlite::{Connection, OptionalExtension};
use tdekit_wire_tds::{Collation, Generated, SqlType};

use super::types::{parameters, returned};
use super::{Table, TableColumn, TableKind, schemas, triggers};
use crate::ast::defined::FunctionBody;
use crate::ast::{Hints, Name, TableRef};
use crate::bind::function::definition;
use crate::bind::{Binder, Parameters, Variables};
use crate::error::Result;
use crate::name::quote;
use crate::plan::trigger::Trigger;
use crate::run::catalog::model::{Stored, object_id};
use crate::run::db::{Db, View, failure};
use crate::run::gate::Hidden;
use crate::value::sequence::Steps;

/// Reads what the session's login sees of a database, with the session's temporary tables.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read(db: &mut Db, database: &str) -> Result<Facts> {
    let mut facts = read_all(db, database)?;
    facts.hide(&*db.rights(database)?);
    Ok(facts)
}

/// As [`read`], everything: for rules that hold whether or not the login sees what they are about.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read_all(db: &mut Db, database: &str) -> Result<Facts> {
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let mut listed =
        list(db.connection()?, &schema).map_err(|error| failure(&kernels, &error, database))?;
    if schema != "temp" {
        let temporary = list_temporary(db.connection()?)
            .map_err(|error| failure(&kernels, &error, "tempdb"))?;
        listed.extend(temporary);
    }
    if let Some(schema) = db.attached(TEMPDB).map(str::to_owned)
        && !database.eq_ignore_ascii_case(TEMPDB)
    {
        let all =
            list(db.connection()?, &schema).map_err(|error| failure(&kernels, &error, TEMPDB))?;
        listed.extend(all.into_iter().filter(|(name, kind, _)| *kind == 'U' && is_global(name)));
    }
    if let Some(tempdb) = db.attached(TEMPDB) {
        let gone = |name: &str| is_global(name) && db.is_leaving(tempdb, name).unwrap_or(false);
        listed.retain(|(name, ..)| !gone(name));
    }
    let own = database.eq_ignore_ascii_case("tempdb");
    let schemas = schemas::made(db.connection()?, &schema)
        .map_err(|error| failure(&kernels, &error, database))?;
    let mut facts = Facts { database: database.to_owned(), schemas, ..Facts::default() };
    facts.add_types(db, database, &schema)?;
    for (stored, letter, text) in listed {
        let (schema, name) = schema_and_name(&stored);
        let kind = match letter {
            'U' => "U",
            'V' => "V",
            'I' => "IF",
            'T' => "TF",
            'F' => "FN",
            _ => "P",
        };
        let id = object_id(&stored);
        let hidden = stored.starts_with('#') && !own;
        let made = Object { id, schema, name, kind, parent: 0, text: text.clone(), hidden };
        let full = if stored.starts_with('#') {
            Name(vec![stored.clone()])
        } else {
            Name(vec![database.to_owned(), made.schema.clone(), made.name.clone()])
        };
        facts.objects.push(made);
        match letter {
            'U' => facts.add_table(db, database, &full)?,
            'V' => facts.add_view(db, database, id, &full),
            'I' | 'T' => {
                facts.add_function(db, database, id, &full);
                facts.add_procedure(id, text.as_deref().unwrap_or_default());
            }
            _ => facts.add_procedure(id, text.as_deref().unwrap_or_default()),
        }
    }
    let all = sequences(db.connection()?, &schema)
        .map_err(|error| failure(&kernels, &error, database))?;
    for (stored, sequence) in all {
        let (id, parent, text, hidden) = (object_id(&stored), 0, None, false);
        let (schema, name) = schema_and_name(&stored);
        facts.objects.push(Object { id, schema, name, kind: "SO", parent, text, hidden });
        facts.sequences.push((id, sequence));
    }
    let all = triggers::list(db.connection()?, &schema, None)
        .map_err(|error| failure(&kernels, &error, database))?;
    all.into_iter().for_each(|trigger| facts.add_trigger(trigger));
    Ok(facts)
}

type Listed = Vec<(String, char, Option<String>)>;

fn list(connection: &Connection, schema: &str) -> rusqlite::Result<Listed> {
    let mut found = Vec::new();
    let sql = format!(
        "SELECT name FROM {}.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' \
        ESCAPE '~' AND name NOT LIKE 'tsql~_%' ESCAPE '~' AND sql NOT LIKE 'CREATE VIRTUAL%' \
        ORDER BY name",
        quote(schema)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        found.push((row.get(0)?, 'U', None));
    }
    if has_table(connection, schema, "tsql_module")? {
        let sql = format!(
            "SELECT name, kind, definition FROM {}.tsql_module ORDER BY name",
            quote(schema)
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let kind: String = row.get(1)?;
            found.push((row.get(0)?, kind.chars().next().unwrap_or('V'), row.get(2)?));
        }
    }
    Ok(found)
}

fn list_temporary(connection: &Connection) -> rusqlite::Result<Listed> {
    let sql = "SELECT name FROM temp.sqlite_schema WHERE type = 'table' AND name LIKE '#%' AND \
        name NOT LIKE '#@%' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, 'U', None)))?;
    rows.collect()
}

impl Facts {
    pub(super) fn add_view(&mut self, db: &mut Db, database: &str, object: i64, full: &Name) {
        let variables = Variables::default();
        let mut view = View { db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let shown = TableRef::Table(full.clone(), None, Hints::default());
        // a view whose tables were dropped has no columns any more
        let Ok(offered) = binder.columns_of(&shown) else { return };
        let columns = offered.into_iter().map(|own| {
            let identity = own.generated == Generated::Identity;
            (own.name, own.ty, own.nullable, identity, own.label.collation())
        });
        self.add_query_columns(object, columns);
    }

    fn add_function(&mut self, db: &mut Db, database: &str, object: i64, full: &Name) {
        let Ok(Some(table)) = db.find(full, database) else { return };
        let Ok(mut made) = definition(&table) else { return };
        let variables = Variables::default();
        let mut view = View { db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        if binder.find_types(&mut made, database).is_err() {
            return;
        }
        if let FunctionBody::Filled(filling) = &made.body {
            let Ok((_, table)) = binder.local_table(&filling.table) else { return };
            let columns = table.columns.into_iter();
            let columns =
                columns.map(|own| (own.name, own.ty, own.nullable, own.identity, own.collation));
            return self.add_query_columns(object, columns);
        }
        let open = Parameters::open(&made);
        let Ok(bound) = binder.function_query(&made, &table, open) else { return };
        let columns = bound.columns.into_iter();
        let columns = columns.map(|own| {
            let identity = own.generated == Generated::Identity;
            (own.name, own.ty, own.nullable, identity, own.label.collation())
        });
        self.add_query_columns(object, columns);
    }

    /// The columns of a view or a function.
    fn add_query_columns(
        &mut self,
        object: i64,
        columns: impl Iterator<Item = (String, SqlType, bool, bool, Collation)>,
    ) {
        for (id, (name, ty, nullable, identity, collation)) in (1..).zip(columns) {
            let column = TableColumn {
                name,
                ty,
                nullable,
                identity,
                default: None,
                filled: crate::plan::table::Filled::Given,
                collation,
            };
            self.columns.push(ObjectColumn { object, id, column, identity: None, default_id: 0 });
        }
    }

    fn add_trigger(&mut self, trigger: Trigger) {
        let (id, parent) = (object_id(&trigger.stored()), object_id(&trigger.table));
        let (schema, name) = (schema_and_name(&trigger.table).0, trigger.name.clone());
        let text = Some(trigger.text.clone());
        self.objects.push(Object { id, schema, name, kind: "TR", parent, text, hidden: false });
        self.triggers.push((id, trigger));
    }

    /// The parameters of a procedure or function; of a scalar one, its value is the first.
    fn add_procedure(&mut self, object: i64, text: &str) {
        if let Some(ty) = returned(text) {
            let (id, name, output, user_type) = (0, String::new(), true, None);
            self.parameters.push(ProcedureParameter { object, id, name, ty, output, user_type });
        }
        for (id, param) in (1..).zip(parameters(text)) {
            let named = param.user_type.as_ref();
            let found = named.and_then(|of| self.types.iter().find(|own| own.is(&of.name)));
            let ty = found.and_then(|found| found.ty).unwrap_or(param.ty);
            let user_type = found.map(|found| (found.id, found.ty.is_none()));
            let (name, output) = (param.name, param.output);
            self.parameters.push(ProcedureParameter { object, id, name, ty, output, user_type });
        }
    }

    fn add_table(&mut self, db: &mut Db, database: &str, full: &Name) -> Result<()> {
        let Some(table) = db.find(full, database)? else { return Ok(()) };
        if table.kind != TableKind::Table {
            return Ok(());
        }
        let kernels = db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, database);
        let object = object_id(&table.name);
        let connection = db.connection()?;
        let named = constraints(connection, &table).map_err(fail)?;
        let identity = identity(connection, &table).map_err(fail)?;
        self.add_columns(&table, object, &named, identity);
        let indexes = indexes(connection, &table, &named).map_err(fail)?;
        for index in &indexes {
            if index.constraint {
                let kind = if index.primary { "PK" } else { "UQ" };
                let name = index.name.clone().unwrap_or_default();
                self.add_constraint(object, &name, kind);
            }
        }
        self.indexes.extend(indexes);
        for check in named.iter().filter(|found| found.kind == "C") {
            let column = check.columns.first().map_or(0, |name| ordinal(&table, name));
            let id = self.add_constraint(object, &check.name, "C");
            let used = (1..).zip(&table.columns).filter(|(_, own)| check.uses(&own.name));
            let columns = used.map(|(at, _)| at).collect();
            let (name, text, trust) = (check.name.clone(), check.text.clone(), check.trust);
            self.checks.push(Rule { id, name, object, column, columns, text, trust });
        }
        let mut keys = foreign_keys(connection, &table).map_err(fail)?;
        keys.extend(named.iter().filter_map(|found| found.reference.clone()));
        self.add_foreign_keys(db, database, &table, &named, keys)
    }

    fn add_columns(
        &mut self,
        table: &Table,
        object: i64,
        named: &[Named],
        identity: Option<(i64, i64, Option<i64>)>,
    ) {
        for (id, column) in (1..).zip(&table.columns) {
            let mut default_id = 0;
            let given = named
                .iter()
                .find(|found| found.kind == "D" && found.columns.first() == Some(&column.name));
            // a dropped one is recorded as NULL if SQLite has its own DEFAULT
            let dropped = given.is_none() && column.default.as_deref() == Some("NULL");
            if let Some(text) = column.default.as_ref().filter(|_| !dropped) {
                let name = match given {
                    Some(given) => given.name.clone(),
                    None => made_name("DF", &table.name, &column.name),
                };
                default_id = self.add_constraint(object, &name, "D");
                let text = super::defaults::shown(text);
                let (columns, trust) = (vec![id], Trust::Full);
                self.defaults.push(Rule {
                    id: default_id,
                    name,
                    object,
                    column: id,
                    columns,
                    text,
                    trust,
                });
            }
            self.columns.push(ObjectColumn {
                object,
                id,
                column: column.clone(),
                identity: if column.identity { identity } else { None },
                default_id,
            });
        }
    }

    pub(super) fn add_constraint(&mut self, parent: i64, name: &str, kind: &'static str) -> i64 {
        let of = self.objects.iter().find(|object| object.id == parent);
        let (schema, hidden) =
            of.map_or_else(|| ("dbo".to_owned(), false), |of| (of.schema.clone(), of.hidden));
        let id = match schema.as_str() {
            "dbo" => object_id(name),
            schema => object_id(&format!("{schema}.{name}")),
        };
        let name = name.to_owned();
        self.objects.push(Object { id, schema, name, kind, parent, text: None, hidden });
        id
    }

    fn add_foreign_keys(
        &mut self,
        db: &mut Db,
        database: &str,
        table: &Table,
        named: &[Named],
        keys: Vec<Reference>,
    ) -> Result<()> {
        let object = object_id(&table.name);
        for key in keys {
            let (schema, name) = schema_and_name(&key.table);
            let full = Name(vec![database.to_owned(), schema, name]);
            let parent = db.find(&full, database)?;
            let from: Vec<String> = key.columns.iter().map(|(from, _)| from.clone()).collect();
            let given = named.iter().find(|found| {
                let mut ours = self.foreign_keys.iter().filter(|key| key.object == object);
                let known = ours.any(|key| key.name == found.name);
                found.kind == "F" && found.columns == from && !known
            });
            let trust = given.map_or(Trust::Full, |given| given.trust);
            let name = match given {
                Some(given) => given.name.clone(),
                None => made_name("FK", &table.name, &from.join("_")),
            };
            let mut columns = Vec::new();
            let kernels = db.kernels.clone();
            for (at, (from, to)) in key.columns.iter().enumerate() {
                let there = match (&parent, to) {
                    (Some(parent), Some(to)) => ordinal(parent, to),
                    (Some(parent), None) => {
                        let primary = primary_columns(db.connection()?, parent)
                            .map_err(|error| failure(&kernels, &error, database))?;
                        primary.get(at).copied().unwrap_or(0)
                    }
                    (None, _) => 0,
                };
                columns.push((ordinal(table, from), there));
            }
            let id = self.add_constraint(object, &name, "F");
            self.foreign_keys.push(ForeignKey {
                id,
                name,
                object,
                parent: parent.map_or(0, |parent| object_id(&parent.name)),
                columns,
                on_delete: key.on_delete,
                on_update: key.on_update,
                trust,
            });
        }
        Ok(())
    }

    /// What is known of the rows and a foreign key or CHECK.
    pub(super) fn trust(&self, id: i64) -> Trust {
        let keys = self.foreign_keys.iter().map(|key| (key.id, key.trust));
        let mut all = keys.chain(self.checks.iter().map(|check| (check.id, check.trust)));
        all.find(|(own, _)| *own == id).map_or(Trust::Full, |(_, trust)| trust)
    }

    pub(crate) fn object(&self, id: i64) -> Option<&Object> {
        self.objects.iter().find(|object| object.id == id)
    }
}

fn ordinal(table: &Table, column: &str) -> i64 {
    let at = table.columns.iter().position(|found| found.name.eq_ignore_ascii_case(column));
    at.map_or(0, |at| i64::try_from(at + 1).unwrap_or(0))
}

/// Returns the constraints of a table, and the indexes recorded beside them.
pub(crate) fn constraints(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<Named>> {
    if !has_table(connection, &table.schema, "tsql_constraint")? {
        return Ok(Vec::new());
    }
    let own = quote(&table.schema);
    let unchecked = if has_table(connection, &table.schema, "tsql_unchecked")? {
        format!("{own}.tsql_unchecked")
    } else {
        "(SELECT NULL AS table_name, NULL AS name, NULL AS disabled, NULL AS parent, NULL AS \
         parents, NULL AS on_delete, NULL AS on_update)"
            .to_owned()
    };
    let sql = format!(
        "SELECT c.name, c.kind, c.columns, c.definition, u.disabled, u.parent, u.parents, \
        u.on_delete, u.on_update FROM {own}.tsql_constraint AS c LEFT JOIN {unchecked} AS u ON \
        u.table_name = c.table_name AND u.name = c.name WHERE c.table_name = ?1 ORDER BY c.rowid"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([&table.name], |row| {
        let columns: String = row.get(2)?;
        let parts = columns.split(SEPARATOR).filter(|part| !part.is_empty());
        let (included, columns): (Vec<&str>, Vec<&str>) =
            parts.partition(|name| name.ends_with(INCLUDED));
        let included = included.iter().map(|name| name.trim_end_matches(INCLUDED).to_owned());
        let bare = columns.iter().map(|name| name.trim_end_matches(DESCENDING).to_owned());
        let bare: Vec<String> = bare.collect();
        let trust = match row.get::<_, Option<bool>>(4)? {
            None => Trust::Full,
            Some(false) => Trust::Untrusted,
            Some(true) => Trust::Disabled,
        };
        Ok(Named {
            descending: columns.iter().map(|name| name.ends_with(DESCENDING)).collect(),
            included: included.collect(),
            name: row.get(0)?,
            kind: row.get(1)?,
            text: row.get(3)?,
            trust,
            reference: reference(row, &bare)?,
            columns: bare,
        })
    })?;
    rows.collect()
}

/// The rest of a disabled foreign key's definition.
fn reference(row: &rusqlite::Row<'_>, own: &[String]) -> rusqlite::Result<Option<Reference>> {
    let Some(table) = row.get::<_, Option<String>>(5)? else { return Ok(None) };
    let parents: String = row.get(6)?;
    let mut parents = parents.split(SEPARATOR).filter(|part| !part.is_empty()).map(str::to_owned);
    let columns = own.iter().map(|name| (name.clone(), parents.next())).collect();
    Ok(Some(Reference { table, columns, on_delete: row.get(7)?, on_update: row.get(8)? }))
}

type Identity = (i64, i64, Option<i64>);

fn identity(connection: &Connection, table: &Table) -> rusqlite::Result<Option<Identity>> {
    if table.identity().is_none() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT seed, increment, last FROM {}.tsql_identity WHERE table_name = ?1",
        quote(&table.schema)
    );
    connection
        .prepare_cached(&sql)?
        .query_row([&table.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
}

fn primary_columns(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT cid + 1 FROM pragma_table_info(?1, ?2) WHERE pk > 0 ORDER BY pk";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([&table.name, &table.schema], |row| row.get(0))?;
    rows.collect()
}

/// Returns the names of the primary key's columns; none without such a key.
pub(crate) fn primary_names(
    connection: &Connection,
    table: &Table,
) -> rusqlite::Result<Vec<String>> {
    let named = constraints(connection, table)?;
    let key = primary_key(connection, table, &named)?;
    let name = |id: i64| {
        let at = usize::try_from(id - 1).ok()?;
        table.columns.get(at).map(|column| column.name.clone())
    };
    Ok(key.into_iter().filter_map(|(id, _)| name(id)).collect())
}

/// Returns the primary key's columns, each with true for descending: SQLite's own key, or an index
/// beside the table.
fn primary_key(
    connection: &Connection,
    table: &Table,
    named: &[Named],
) -> rusqlite::Result<Vec<(i64, bool)>> {
    let own = primary_columns(connection, table)?;
    if own.is_empty()
        && let Some(beside) = named.iter().find(|found| found.kind == "PK")
    {
        let columns = beside.columns.iter().map(|name| ordinal(table, name));
        return Ok(columns.zip(beside.descending.iter().copied()).collect());
    }
    Ok(own.into_iter().map(|id| (id, false)).collect())
}

/// Returns the indexes of a table, including those of its constraints.
pub(crate) fn indexes(
    connection: &Connection,
    table: &Table,
    named: &[Named],
) -> rusqlite::Result<Vec<Index>> {
    let object = object_id(&table.name);
    let named_key = |kind: &str, columns: &[(i64, bool)]| {
        let same = |found: &&Named| {
            let own: Vec<i64> = found.columns.iter().map(|name| ordinal(table, name)).collect();
            found.kind == kind && columns.iter().map(|(at, _)| *at).eq(own)
        };
        named.iter().find(same).map(|found| found.name.clone())
    };
    let mut found = Vec::new();
    let primary = primary_key(connection, table, named)?;
    let has_primary = !primary.is_empty();
    let made = || made_name("PK", &table.name, "");
    let name = has_primary.then(|| named_key("PK", &primary).unwrap_or_else(made));
    found.push(Index {
        object,
        id: i64::from(has_primary),
        name,
        unique: has_primary,
        primary: has_primary,
        constraint: has_primary,
        columns: primary,
        included: Vec::new(),
        filter: None,
    });
    let sql = "SELECT name, \"unique\", origin FROM pragma_index_list(?1, ?2) ORDER BY seq DESC";
    let mut list = connection.prepare_cached(sql)?;
    let mut rows = list.query([&table.name, &table.schema])?;
    let mut id = 1;
    while let Some(row) = rows.next()? {
        let (name, unique, origin): (String, bool, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        if origin == "pk" || name.ends_with(NULLS) {
            continue;
        }
        let prefix = format!("{}~", table.name);
        let shown = name.strip_prefix(&prefix).unwrap_or(&name).to_owned();
        let given = named.iter().find(|found| {
            matches!(found.kind.as_str(), "PK" | "UQ" | "I")
                && found.name.eq_ignore_ascii_case(&shown)
        });
        if origin == "c" && given.is_some_and(|found| found.kind == "PK") {
            continue;
        }
        id += 1;
        let mut columns = index_columns(connection, table, &name)?;
        let filter = given.filter(|given| given.kind == "I" && !given.text.is_empty());
        let filter = filter.map(|given| given.text.clone());
        if let Some(given) = given {
            // its text has expressions in place of columns
            let own = given.columns.iter().map(|name| ordinal(table, name));
            columns = own.zip(given.descending.iter().copied()).collect();
        }
        let included = given.map_or(&[][..], |given| &given.included);
        let included = included.iter().map(|name| ordinal(table, name)).collect();
        let constraint = origin == "u" || given.is_some_and(|given| given.kind == "UQ");
        let name = match origin.as_str() {
            "u" => named_key("UQ", &columns).unwrap_or_else(|| made_name("UQ", &table.name, &name)),
            _ => shown,
        };
        let name = Some(name);
        found.push(Index {
            object,
            id,
            name,
            unique,
            primary: false,
            constraint,
            columns,
            included,
            filter,
        });
    }
    Ok(found)
}

fn index_columns(
    connection: &Connection,
    table: &Table,
    index: &str,
) -> rusqlite::Result<Vec<(i64, bool)>> {
    let sql =
        "SELECT cid + 1, \"desc\" FROM pragma_index_xinfo(?1, ?2) WHERE key = 1 ORDER BY seqno";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([index, &table.schema], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Returns the foreign keys that SQLite knows of a table.
pub(crate) fn foreign_keys(
    connection: &Connection,
    table: &Table,
) -> rusqlite::Result<Vec<Reference>> {
    let sql = "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete \
        FROM pragma_foreign_key_list(?1, ?2) ORDER BY id DESC, seq";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([&table.name, &table.schema])?;
    let mut keys: Vec<(i64, Reference)> = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let columns = (row.get(2)?, row.get(3)?);
        match keys.last_mut().filter(|(known, _)| *known == id) {
            Some((_, key)) => key.columns.push(columns),
            None => {
                let (table, on_update, on_delete) = (row.get(1)?, row.get(4)?, row.get(5)?);
                let columns = vec![columns];
                keys.push((id, Reference { table, columns, on_update, on_delete }));
            }
        }
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// Reads the definition of a sequence, and its name as it was written.
pub(crate) fn sequence_named(
    connection: &Connection,
    schema: &str,
    name: &str,
) -> rusqlite::Result<Option<(String, Stored)>> {
    if !has_table(connection, schema, "tsql_sequence")? {
        return Ok(None);
    }
    let sql = format!("SELECT * FROM {}.tsql_sequence WHERE name = ?1", quote(schema));
    connection.prepare_cached(&sql)?.query_row([name], sequence).optional()
}

/// Reads all sequences of a database.
fn sequences(connection: &Connection, schema: &str) -> rusqlite::Result<Vec<(String, Stored)>> {
    if !has_table(connection, schema, "tsql_sequence")? {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT * FROM {}.tsql_sequence ORDER BY name", quote(schema));
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], sequence)?;
    rows.collect()
}

fn sequence(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, Stored)> {
    let ty: String = row.get(1)?;
    let cached: bool = row.get(7)?;
    let size: Option<i64> = row.get(8)?;
    let rule =
        Steps { step: row.get(3)?, minimum: row.get(4)?, maximum: row.get(5)?, cycle: row.get(6)? };
    let stored = Stored {
        id: row.get(11)?,
        ty: crate::parse::from_declared(&ty),
        start: row.get(2)?,
        base: row.get(9)?,
        last: row.get(10)?,
        cache: cached.then_some(size),
        rule,
    };
    Ok((row.get(0)?, stored))
}
