//! Functions that look up objects: OBJECT_ID, COL_NAME, COLUMNPROPERTY and the like.

use crate::functions::table::{self, Looked};
use crate::functions::wanted::parts;
use tdekit_wire_tds::{SqlType, Value, product};

use super::types::{ODBC, type_facts};
use crate::error::{Error, Result};
use crate::functions::eval::SessionCalls;
use crate::run::catalog::model::object_id;
use crate::run::catalog::model::{FIXED, schema_and_name, schema_id};
use crate::run::catalog::model::{Facts, Object, ObjectColumn, Snapshot, Trust};
use crate::run::globals::TEMPDB;
use crate::run::messages::shown;
use crate::value::{Val, is_text};

pub(super) fn text(value: impl Into<String>) -> Val {
    Value::Text(value.into().into())
}

pub(super) fn int(value: impl Into<i64>) -> Val {
    Value::Int(value.into())
}

fn bit(value: bool) -> Val {
    Value::Int(i64::from(value))
}

fn number(value: Option<i64>) -> Val {
    value.map_or(Value::Null, |value| Value::Decimal { unscaled: i128::from(value), scale: 0 })
}

impl Snapshot {
    fn facts(&self, database: Option<&str>, function: &str) -> Result<&Facts> {
        let wanted = database.unwrap_or(&self.current);
        let found = self.read.iter().find(|facts| facts.database.eq_ignore_ascii_case(wanted));
        found.ok_or_else(|| Error::feature(format!("{function} in another database in this place")))
    }

    fn knows(&self, database: &str) -> bool {
        self.databases.iter().any(|known| known.name.eq_ignore_ascii_case(database))
    }

    /// Returns the object for a name in a string.
    pub(super) fn named(&self, text: &str, function: &str) -> Result<Option<(&Facts, &Object)>> {
        let name = parts(text);
        let temporary = name.object().starts_with('#');
        let database = if temporary { None } else { name.part(2) };
        if let Some(database) = database
            && !self.knows(database)
        {
            return Ok(None);
        }
        let facts = self.facts(database, function)?;
        let schema = name.part(1).filter(|_| !temporary).unwrap_or("dbo");
        let found = facts.objects.iter().find(|object| {
            object.name.eq_ignore_ascii_case(name.object())
                && object.schema.eq_ignore_ascii_case(schema)
        });
        Ok(found.map(|object| (facts, object)))
    }

    fn by_id(&self, args: &[Value<'_>], at: usize, function: &str) -> Result<Option<&Object>> {
        let Some(Value::Int(id)) = args.first() else { return Ok(None) };
        let database = match args.get(at) {
            Some(Value::Int(id)) => self.databases.iter().find(|known| i64::from(known.id) == *id),
            _ => None,
        };
        let database = database.map(|known| known.name.as_str());
        Ok(self.facts(database, function)?.object(*id))
    }

    /// Returns the name that a name in a string has among the system views.
    fn system_name(&self, name: &str) -> String {
        match super::system::find(&parts(name), &self.current) {
            Some(view) => view.split_once('|').map_or(String::new(), |(_, view)| view.to_owned()),
            None => String::new(),
        }
    }

    pub(super) fn is_system_view(&self, name: &str) -> bool {
        is_view(&self.system_name(name))
    }

    fn object_id(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(name) = given(args, 0) else { return Ok(Value::Null) };
        let kind = given(args, 1).map(|kind| kind.trim().to_uppercase());
        let full = self.system_name(&name);
        if is_view(&full) {
            let fits = kind.is_none_or(|kind| kind == "V");
            return Ok(if fits { int(-object_id(&full)) } else { Value::Null });
        }
        let place = parts(&name);
        let outside = !place.part(2).unwrap_or(&self.current).eq_ignore_ascii_case(TEMPDB);
        if place.object().starts_with('#') && outside {
            return Ok(Value::Null);
        }
        let found = self.named(&name, "OBJECT_ID")?;
        let found = found.filter(|(_, object)| match &kind {
            Some(kind) => kind == object.kind,
            None => true,
        });
        Ok(found.map_or(Value::Null, |(_, object)| int(object.id)))
    }

    fn schema_name(&self, id: i64) -> Option<&str> {
        let fixed = FIXED.iter().map(|(name, _)| *name);
        let made = self.read.iter().flat_map(|facts| &facts.schemas).map(String::as_str);
        fixed.chain(made).find(|name| schema_id(name) == id)
    }

    fn schema_id(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(name) = given(args, 0) else { return Ok(Value::Null) };
        let made = &self.facts(None, "SCHEMA_ID")?.schemas;
        let mut known = FIXED.iter().map(|(name, _)| *name).chain(made.iter().map(String::as_str));
        let found = known.find(|known| known.eq_ignore_ascii_case(&name));
        Ok(found.map_or(Value::Null, |name| int(schema_id(name))))
    }

    fn columns(&self, object: i64) -> impl Iterator<Item = &ObjectColumn> {
        let all = self.read.iter().flat_map(|facts| &facts.columns);
        all.filter(move |column| column.object == object)
    }

    fn object_property(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(object) = self.by_id(args, usize::MAX, "OBJECTPROPERTY")? else {
            return Ok(Value::Null);
        };
        let Some(property) = given(args, 1) else { return Ok(Value::Null) };
        let table = object.kind == "U";
        let facts = self.read.iter().find(|facts| facts.object(object.id).is_some());
        let child = |kind: &str| {
            facts.is_some_and(|facts| {
                facts.objects.iter().any(|own| own.parent == object.id && own.kind == kind)
            })
        };
        Ok(match property.to_lowercase().as_str() {
            "istable" | "isusertable" => bit(table),
            "isview" => bit(object.kind == "V"),
            "isprocedure" => bit(object.kind == "P"),
            "ismsshipped" | "issystemtable" | "isextendedproc" => int(0),
            "istrigger" => bit(object.kind == "TR"),
            "istablefunction" => bit(matches!(object.kind, "IF" | "TF")),
            "isinlinefunction" => bit(object.kind == "IF"),
            "isscalarfunction" => bit(object.kind == "FN"),
            "isrule" => int(0),
            "isconstraint" => bit(matches!(object.kind, "PK" | "UQ" | "F" | "C" | "D")),
            "isprimarykey" => bit(object.kind == "PK"),
            "isforeignkey" => bit(object.kind == "F"),
            "isuniquecnst" => bit(object.kind == "UQ"),
            "ischeckcnst" => bit(object.kind == "C"),
            "isdefaultcnst" => bit(object.kind == "D"),
            "cnstisdisabled" | "cnstisnottrusted" if matches!(object.kind, "F" | "C") => {
                let trust = facts.map_or(Trust::Full, |facts| facts.trust(object.id));
                let only_disabled = property.eq_ignore_ascii_case("CnstIsDisabled");
                bit(trust == Trust::Disabled || !only_disabled && trust == Trust::Untrusted)
            }
            "tablehasprimarykey" if table => bit(child("PK")),
            "tablehasforeignkey" if table => bit(child("F")),
            "tablehasuniquecnst" if table => bit(child("UQ")),
            "tablehascheckcnst" if table => bit(child("C")),
            "tablehasdefaultcnst" if table => bit(child("D")),
            "tablehasidentity" if table => {
                bit(self.columns(object.id).any(|found| found.column.identity))
            }
            "schemaid" => int(schema_id(&object.schema)),
            "ownerid" => int(1),
            "execisquotedidenton" | "execisansinullson" if !table => int(1),
            property => facts.map_or(Value::Null, |facts| facts.of_triggers(object, property)),
        })
    }

    fn column_property(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(object) = self.by_id(args, usize::MAX, "COLUMNPROPERTY")? else {
            return Ok(Value::Null);
        };
        let (Some(name), Some(property)) = (given(args, 1), given(args, 2)) else {
            return Ok(Value::Null);
        };
        let found = self
            .columns(object.id)
            .find(|found| found.column.name.eq_ignore_ascii_case(name.trim_end()));
        let Some(found) = found else { return Ok(Value::Null) };
        let ty = found.column.ty;
        let (_, _, precision, scale) = type_facts(ty);
        Ok(match property.to_lowercase().as_str() {
            "allowsnull" => bit(found.column.nullable),
            "isidentity" => bit(found.column.identity),
            "columnid" | "ordinal" => int(found.id),
            "iscomputed" => bit(found.column.is_computed()),
            "isrowguidcol" | "issparse" | "ishidden" | "iscolumnset" => int(0),
            "isxmlindexable" | "isfulltextindexed" | "isidnotforrepl" | "isoutparam" => int(0),
            "generatedalwaystype" => int(0),
            "precision" => int(if is_text(ty) { char_length(ty) } else { precision }),
            "scale" if !is_text(ty) => int(scale),
            "charmaxlen" if is_text(ty) => int(char_length(ty)),
            "usesansitrim" if is_text(ty) => int(1),
            _ => Value::Null,
        })
    }

    fn identity(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val> {
        let Some(wanted) = given(args, 0) else { return Ok(Value::Null) };
        let Some((facts, object)) = self.named(&wanted, name)? else { return Ok(Value::Null) };
        let own = facts.columns.iter().filter(|column| column.object == object.id);
        let found = own.filter_map(|column| column.identity).next();
        let Some((seed, increment, last)) = found else { return Ok(Value::Null) };
        Ok(number(Some(match name {
            "IDENT_SEED" => seed,
            "IDENT_INCR" => increment,
            _ => last.unwrap_or(seed),
        })))
    }

    fn index(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val> {
        let indexes = self.read.iter().flat_map(|facts| &facts.indexes);
        if name == "INDEX_COL" {
            let Some(table) = given(args, 0) else { return Ok(Value::Null) };
            let Some((_, object)) = self.named(&table, name)? else { return Ok(Value::Null) };
            let (Some(Value::Int(id)), Some(Value::Int(key))) = (args.get(1), args.get(2)) else {
                return Ok(Value::Null);
            };
            let index = indexes.into_iter().find(|own| own.object == object.id && own.id == *id);
            let at = usize::try_from(*key).ok().and_then(|key| key.checked_sub(1));
            let column = index.zip(at).and_then(|(index, at)| index.columns.get(at));
            let column =
                column.and_then(|(id, _)| self.columns(object.id).find(|found| found.id == *id));
            return Ok(column.map_or(Value::Null, |found| text(found.column.name.clone())));
        }
        let Some(Value::Int(id)) = args.first() else { return Ok(Value::Null) };
        let (Some(wanted), Some(property)) = (given(args, 1), given(args, 2)) else {
            return Ok(Value::Null);
        };
        let found = indexes.into_iter().find(|own| {
            own.object == *id
                && own.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(&wanted))
        });
        let Some(index) = found else { return Ok(Value::Null) };
        Ok(match property.to_lowercase().as_str() {
            "indexid" => int(index.id),
            "isunique" => bit(index.unique),
            "isclustered" => bit(index.id == 1),
            "isdisabled" | "isstatistics" | "ishypothetical" | "isautostatistics" => int(0),
            _ => Value::Null,
        })
    }

    fn database_property(&self, args: &[Value<'_>]) -> Val {
        let name = given(args, 0).unwrap_or_default();
        let found = self.databases.iter().find(|known| known.name.eq_ignore_ascii_case(&name));
        let (Some(found), Some(property)) = (found, given(args, 1)) else { return Value::Null };
        match property.to_lowercase().as_str() {
            "collation" => text(product::COLLATION),
            "status" => text(found.state.name()),
            "updateability" => text("READ_WRITE"),
            "recovery" => text(found.recovery.name()),
            "useraccess" => text("MULTI_USER"),
            "version" => text("904"),
            "isautoclose" | "isautoshrink" | "isinstandby" | "isfulltextenabled" => text("0"),
            _ => Value::Null,
        }
    }

    /// A name without a schema is one of T-SQL before it is one of dbo.
    fn type_id(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(name) = given(args, 0).map(|name| parts(&name)) else { return Ok(Value::Null) };
        let own = name.part(1).is_none_or(|schema| schema.eq_ignore_ascii_case("sys"));
        let listed = ODBC.iter().find(|own| own.name.eq_ignore_ascii_case(name.object()));
        if let Some(listed) = listed.filter(|_| own) {
            return Ok(int(listed.user_type_id));
        }
        let stored = name.stored();
        let found = self.facts(None, "TYPE_ID")?.types.iter().find(|own| own.is(&stored));
        Ok(found.map_or(Value::Null, |found| int(found.id)))
    }

    fn type_name(&self, args: &[Value<'_>]) -> Result<Val> {
        let Some(Value::Int(id)) = args.first() else { return Ok(Value::Null) };
        if let Some(listed) = ODBC.iter().find(|own| own.user_type_id == *id) {
            return Ok(text(listed.name));
        }
        let found = self.facts(None, "TYPE_NAME")?.types.iter().find(|own| own.id == *id);
        Ok(found.map_or(Value::Null, |found| text(schema_and_name(&found.stored).1)))
    }

    fn plain(&self, name: &'static str, args: &[Value<'_>]) -> Val {
        let id_of = |name: &str| {
            let found = self.databases.iter().find(|known| known.name.eq_ignore_ascii_case(name));
            found.map_or(Value::Null, |database| int(database.id))
        };
        match name {
            "DB_ID" => given(args, 0).map_or(Value::Null, |name| id_of(&name)),
            "DB_NAME" => {
                let Some(Value::Int(id)) = args.first() else { return Value::Null };
                let found = self.databases.iter().find(|known| i64::from(known.id) == *id);
                found.map_or(Value::Null, |database| text(database.name.clone()))
            }
            "DATABASEPROPERTYEX" => self.database_property(args),
            _ => Value::Null,
        }
    }
}

fn is_view(full: &str) -> bool {
    super::views::find(full).is_some() || super::texts::find(full).is_some()
}

fn char_length(ty: SqlType) -> i64 {
    match crate::value::length_of(ty) {
        Some(tdekit_wire_tds::Length::Of(n)) => i64::from(n),
        _ => -1,
    }
}

pub(super) fn given(args: &[Value<'_>], at: usize) -> Option<String> {
    match args.get(at) {
        None | Some(Value::Null) => None,
        Some(value) => Some(shown(value, 4000)),
    }
}

impl SessionCalls for Snapshot {
    fn call(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val> {
        Ok(match name {
            "OBJECT_ID" => self.object_id(args)?,
            "OBJECT_NAME" => {
                self.by_id(args, 1, name)?.map_or(Value::Null, |object| text(object.name.clone()))
            }
            "OBJECT_SCHEMA_NAME" => {
                self.by_id(args, 1, name)?.map_or(Value::Null, |object| text(object.schema.clone()))
            }
            "OBJECT_DEFINITION" => self
                .by_id(args, usize::MAX, name)?
                .and_then(|object| object.text.clone())
                .map_or(Value::Null, text),
            "OBJECTPROPERTY" | "OBJECTPROPERTYEX" => self.object_property(args)?,
            "COLUMNPROPERTY" => self.column_property(args)?,
            "COL_NAME" => {
                let (Some(Value::Int(object)), Some(Value::Int(id))) = (args.first(), args.get(1))
                else {
                    return Ok(Value::Null);
                };
                let found = self.columns(*object).find(|found| found.id == *id);
                found.map_or(Value::Null, |found| text(found.column.name.clone()))
            }
            "COL_LENGTH" => {
                let (Some(table), Some(column)) = (given(args, 0), given(args, 1)) else {
                    return Ok(Value::Null);
                };
                let Some((facts, object)) = self.named(&table, name)? else {
                    return Ok(Value::Null);
                };
                let mut own = facts.columns.iter().filter(|found| found.object == object.id);
                let found = own.find(|found| found.column.name.eq_ignore_ascii_case(&column));
                found.map_or(Value::Null, |found| int(type_facts(found.column.ty).1))
            }
            "IDENT_CURRENT" | "IDENT_INCR" | "IDENT_SEED" => self.identity(name, args)?,
            "INDEX_COL" | "INDEXPROPERTY" => self.index(name, args)?,
            "SCHEMA_ID" => self.schema_id(args)?,
            "TYPE_ID" => self.type_id(args)?,
            "TYPE_NAME" => self.type_name(args)?,
            "SCHEMA_NAME" => match args.first() {
                Some(Value::Int(id)) => self.schema_name(*id).map_or(Value::Null, text),
                _ => Value::Null,
            },
            "HAS_PERMS_BY_NAME" => self.of_principals(name, args)?,
            _ if table::looks_up(name) == Some(Looked::Principals) => {
                self.of_principals(name, args)?
            }
            _ if table::looks_up(name) == Some(Looked::Lists) => self.plain(name, args),
            _ => return Err(Error::feature(format!("{name} over a column"))),
        })
    }
}
