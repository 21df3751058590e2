//! FOR JSON and OPENJSON.

use std::collections::HashSet;

use tdekit_wire_tds::{Generated, Length, SqlType, Value};

use super::from::check_names;
use super::query::{Asked, BoundQuery, OutColumn};
use super::{Binder, Offered, SourceScope};
use crate::ast::document::ForJson;
use crate::ast::{self, SetExpr, TableCall};
use crate::error::{Error, Result};
use crate::functions;
use crate::plan::func::{Func, Json};
use crate::plan::label::Label;
use crate::plan::relation::{Item, Query, Relation, Rows, Select};
use crate::plan::scalar::{Aggregate, AggregateFunction, Node, Scalar, Shared, Subquery};
use crate::plan::{Alias, Cell, ColumnRef, Field};
use crate::value::{Family, family};

/// The column of FOR JSON.
const COLUMN: &str = "JSON_F52E2B61-18A1-11d1-B105-00805F49916B";

const TEXT: SqlType = SqlType::NVarChar(Length::Max);

pub(super) fn name(text: &str) -> Scalar {
    Scalar::constant(TEXT, Value::Text(text.to_owned().into()))
}

pub(super) fn flag(on: bool) -> Scalar {
    Scalar::constant(SqlType::Bit, Value::Bit(on))
}

fn call(func: Json, args: Vec<Scalar>) -> Scalar {
    call_of(Func::Json(func), args)
}

/// A call whose value is text.
pub(super) fn call_of(func: Func, args: Vec<Scalar>) -> Scalar {
    Scalar::new(TEXT, true, Node::Call(func, args))
}

pub(super) fn one(item: Scalar, from: Option<Relation>) -> Query {
    let items = vec![Item::Named(item, 0)];
    Query::of(Rows::Select(Box::new(Select { items, from, ..Select::default() })))
}

impl Binder<'_> {
    /// The rows of a query as one document; the outermost query gives it in pieces.
    #[inline(never)]
    pub(super) fn for_json(
        &mut self,
        query: &ast::Query,
        json: &ForJson,
        asked: Asked,
    ) -> Result<BoundQuery> {
        let select = match &query.body {
            SetExpr::Select(select) => Some(select),
            _ => None,
        };
        if json.auto && select.is_none() {
            return Err(Error::feature("FOR JSON AUTO of UNION and its kind"));
        }
        if json.auto && select.is_some_and(|select| select.from.is_empty()) {
            return Err(Error::JsonAutoTable {});
        }
        if select.is_some_and(|select| select.into.is_some()) {
            return Err(Error::JsonNotAllowed { statement: "SELECT INTO" });
        }
        let own = Asked { outermost: true, tables: json.auto, ..asked };
        let bound = self.query_body(query, own)?;
        let alias = self.fresh(Alias::Query);
        let mut args = Vec::new();
        for (at, level) in levels(&bound.columns, json.auto)?.into_iter().enumerate() {
            if at > 0 {
                let mut key = String::new();
                functions::json::quoted(level.table.unwrap_or_default(), &mut key);
                args.push(name(&key));
            }
            let columns: Vec<_> = level.columns.iter().map(|at| &bound.columns[*at]).collect();
            check_members(&columns, !json.auto)?;
            let mut members = Vec::new();
            for at in level.columns {
                let column = &bound.columns[at];
                members.extend([name(&column.name), flag(column.json), column.of(alias, at)]);
            }
            args.push(call(Json::Members { nulls: json.nulls, nested: !json.auto }, members));
        }
        let objects = Aggregate {
            function: AggregateFunction::Json,
            distinct: false,
            args,
            order: Vec::new(),
            over: None,
        };
        let objects = Scalar::new(TEXT, true, Node::Aggregate(Shared::new(objects)));
        let root = match &json.root {
            Some(root) => name(root),
            None => Scalar::constant(TEXT, Value::Null),
        };
        let document = call(Json::Document { array: json.array }, vec![objects, root]);
        let from = Relation::Derived { query: Box::new(bound.query), alias };
        let mut query = one(document, Some(from));
        if asked.outermost {
            let document = Node::Query(Shared::new(Subquery::One(query)));
            let text = call(Json::Pieces, vec![Scalar::new(TEXT, true, document)]);
            let alias = self.fresh(Alias::Source);
            let piece = Scalar::column(TEXT, true, ColumnRef::of(alias, Field::Piece));
            query = one(piece, Some(Relation::Split { text, alias }));
        }
        let column = OutColumn {
            name: COLUMN.to_owned(),
            ty: TEXT,
            nullable: true,
            generated: Generated::No,
            untyped: false,
            json: json.array,
            table: None,
            label: Label::Coercible,
        };
        Ok(BoundQuery::new(query, vec![column]))
    }

    /// OPENJSON: rows of key, value and type, or of the columns of WITH.
    pub(super) fn open_json(&mut self, call: &TableCall, args: Vec<Scalar>) -> Result<Relation> {
        const NAME: &str = "OPENJSON";
        functions::check_count(NAME, args.len(), 1, 2)?;
        let mut texts = Vec::new();
        for (at, arg) in args.iter().enumerate() {
            texts.push(functions::text_arg(arg, at + 1, NAME)?);
        }
        if texts.len() == 1 {
            texts.push(name("$"));
        }
        let mut columns = Vec::new();
        for column in &call.schema {
            let ty = column.ty;
            if matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image | SqlType::SqlVariant) {
                return Err(Error::JsonColumnType {});
            }
            if column.json && ty != TEXT {
                return Err(Error::JsonColumnLength {});
            }
            let path = match &column.path {
                Some(path) => path.clone(),
                None => {
                    let mut path = "$.".to_owned();
                    functions::json::quoted(&column.name, &mut path);
                    path
                }
            };
            texts.extend([name(&path), Scalar::constant(ty, Value::Null), flag(column.json)]);
            columns.push((column.name.as_str(), ty));
        }
        if columns.is_empty() {
            let key = SqlType::NVarChar(Length::Of(4000));
            columns = vec![("key", key), ("value", TEXT), ("type", SqlType::Int)];
        }
        let alias = self.fresh(Alias::Source);
        let names = &call.columns;
        check_names(&call.alias, names, columns.len())?;
        let offered = columns.into_iter().enumerate().map(|(at, (name, ty))| Offered {
            name: names.get(at).cloned().unwrap_or_else(|| name.to_owned()),
            ty,
            nullable: name != "key" || !call.schema.is_empty(),
            generated: Generated::No,
            column: ColumnRef::of(alias, Field::Cell(at, cell(ty))),
            label: Label::Coercible,
            value: None,
        });
        let columns = offered.collect();
        let name = call.alias.clone();
        self.add_source(SourceScope { alias: name, full: None, id: Some(alias), columns })?;
        let text = Scalar::new(TEXT, true, Node::Call(Func::Json(Json::Rows), texts));
        Ok(Relation::Split { text, alias })
    }
}

/// How a value of this type is written in a row; as [`crate::value::storage::store`] stores it.
pub(super) fn cell(ty: SqlType) -> Cell {
    match (family(ty), ty) {
        (Family::Float, _) => Cell::Real,
        (Family::Binary | Family::Guid, _) | (_, SqlType::DateTimeOffset(_)) => Cell::Blob,
        (_, SqlType::Decimal { precision, .. }) if precision > 18 => Cell::Blob,
        _ => Cell::Plain,
    }
}

/// The columns of objects at one level: a table of FOR JSON AUTO.
struct Level<'c> {
    table: Option<&'c str>,
    /// By their positions.
    columns: Vec<usize>,
}

/// The tables of FOR JSON AUTO, in the order in which the list names them. What is no column of a
/// table belongs to the one before.
fn levels(columns: &[OutColumn], auto: bool) -> Result<Vec<Level<'_>>> {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut at = 0;
    for (position, column) in columns.iter().enumerate() {
        if column.name.is_empty() {
            return Err(Error::JsonNoName {});
        }
        let table = column.table.as_deref().filter(|_| auto);
        let known = match table {
            None => (!levels.is_empty()).then_some(at),
            Some(_) => {
                levels.iter().position(|level| level.table.is_none() || level.table == table)
            }
        };
        at = known.unwrap_or(levels.len());
        match levels.get_mut(at) {
            Some(level) => {
                level.columns.push(position);
                level.table = level.table.or(table);
            }
            None => levels.push(Level { table, columns: vec![position] }),
        }
    }
    Ok(levels)
}

/// Checks that the names make one object: none twice, none an object and a value, the members of
/// an object together.
fn check_members(columns: &[&OutColumn], nested: bool) -> Result<()> {
    let conflict = |name: &str| Error::JsonConflict { name: name.to_owned() };
    let (mut values, mut closed) = (HashSet::new(), HashSet::new());
    let mut open: Vec<&str> = Vec::new();
    for column in columns {
        let name = column.name.as_str();
        if !nested {
            if !values.insert(name) {
                return Err(conflict(name));
            }
            continue;
        }
        let ends: Vec<usize> = name.match_indices('.').map(|(at, _)| at).collect();
        if name.split('.').any(str::is_empty) {
            return Err(Error::JsonBadName { name: name.to_owned() });
        }
        let objects: Vec<&str> = ends.iter().map(|end| &name[..*end]).collect();
        let common = open.iter().zip(&objects).take_while(|(a, b)| a == b).count();
        closed.extend(open.drain(common..));
        let taken = |object: &&str| values.contains(*object) || closed.contains(*object);
        if objects.iter().any(taken) || closed.contains(name) || open.contains(&name) {
            return Err(conflict(name));
        }
        open = objects;
        if !values.insert(name) {
            return Err(conflict(name));
        }
    }
    Ok(())
}
