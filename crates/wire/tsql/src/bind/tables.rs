//! Table-valued functions.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{Binder, Offered, SourceScope};
use crate::ast::{Name, TableCall};
use crate::bind::typing::convert;
use crate::bound::{Bound, Node};
use crate::catalog::TableKind;
use crate::error::{Error, Result};
use crate::functions::func::Func;
use crate::functions::{self};
use crate::name::quote;
use crate::value::{is_national, is_text, length_of};

/// The view in which `sys.dm_exec_sql_text` looks up its handle.
const TEXTS_NAME: &str = "~dm_exec_sql_text";

/// Their names.
pub(crate) const FUNCTIONS: &[&str] = &["STRING_SPLIT", "sys.dm_exec_sql_text"];

impl Binder<'_> {
    /// Adds the table of a function. After APPLY, its arguments see the preceding tables. Returns
    /// its text, and the condition that joins it.
    pub(crate) fn table_function(
        &mut self,
        call: &TableCall,
        apply: bool,
    ) -> Result<(String, Option<String>)> {
        let beside = if apply { None } else { self.scopes.pop() };
        let args = call.args.iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>();
        self.scopes.extend(beside);
        match call.function.as_str() {
            "STRING_SPLIT" => Ok((self.string_split(call, args?)?, None)),
            _ => {
                let (text, on) = self.sql_text(call, args?)?;
                Ok((text, Some(on)))
            }
        }
    }

    /// `sys.dm_exec_sql_text`: a row of the texts, by its handle.
    fn sql_text(&mut self, call: &TableCall, args: Vec<Bound>) -> Result<(String, String)> {
        const NAME: &str = "dm_exec_sql_text";
        functions::check_count(NAME, args.len(), 1, 1)?;
        let Some(arg) = args.into_iter().next() else {
            return Err(functions::bad_argument(SqlType::Int, 1, NAME));
        };
        let arg = match (&arg.node, arg.ty) {
            (Node::Null(_), _) | (_, SqlType::VarBinary(_) | SqlType::Binary(_)) => {
                convert(arg, SqlType::VarBinary(Length::Of(64)))?
            }
            _ => return Err(functions::bad_argument(arg.ty, 1, NAME)),
        };
        let handle = self.emit_text(&arg)?;
        let table = Name(vec!["master".to_owned(), "sys".to_owned(), TEXTS_NAME.to_owned()]);
        let table = self.find_table(&table)?;
        if let TableKind::System(name) = &table.kind {
            self.needs_system(name);
        }
        let alias = quote(&self.fresh("t"));
        let columns: Vec<_> =
            table.columns.iter().filter(|column| column.name != "handle").collect();
        let names = &call.columns;
        if !names.is_empty() && names.len() != columns.len() {
            let of = call.alias.clone();
            return Err(match names.len() < columns.len() {
                true => Error::TooFewColumnNames { of },
                false => Error::TooManyColumnNames { of },
            });
        }
        let offered = columns.iter().enumerate().map(|(at, column)| Offered {
            name: names.get(at).unwrap_or(&column.name).clone(),
            ty: column.ty,
            nullable: true,
            identity: false,
            sql: format!("{alias}.{}", quote(&column.name)),
        });
        let columns = offered.collect();
        self.add_source(SourceScope { alias: call.alias.clone(), full: None, columns })?;
        let on = format!("{alias}.handle = {handle}");
        Ok((format!("{} AS {alias}", table.sql()), on))
    }

    fn string_split(&mut self, call: &TableCall, args: Vec<Bound>) -> Result<String> {
        const NAME: &str = "STRING_SPLIT";
        functions::check_count(NAME, args.len(), 2, 3)?;
        let numbered = args.get(2).map(enabled).transpose()?.unwrap_or(false);
        let mut texts = Vec::new();
        for (at, arg) in args.into_iter().take(2).enumerate() {
            texts.push(match arg.node {
                Node::Null(None) => {
                    let (ty, name) = ("NULL".to_owned(), NAME.to_lowercase());
                    return Err(Error::BadArgument { ty, index: at + 1, name });
                }
                Node::Null(Some(_)) => convert(arg, SqlType::NVarChar(Length::Of(4000)))?,
                _ if is_plain_text(&arg) => arg,
                _ => return Err(functions::bad_argument(arg.ty, at + 1, NAME)),
            });
        }
        let ty = piece_type(&texts)?;
        let array = SqlType::NVarChar(Length::Max);
        let split = Node::Call(Func::Text(functions::SPLIT), texts);
        let text = self.emit_text(&Bound::new(array, true, split))?;

        let alias = quote(&self.fresh("t"));
        let mut columns = vec![("value", ty, format!("{alias}.value"))];
        if numbered {
            columns.push(("ordinal", SqlType::BigInt, format!("({alias}.key + 1)")));
        }
        let names = &call.columns;
        if !names.is_empty() && names.len() != columns.len() {
            let of = call.alias.clone();
            return Err(match names.len() < columns.len() {
                true => Error::TooFewColumnNames { of },
                false => Error::TooManyColumnNames { of },
            });
        }
        let offered = columns.into_iter().enumerate().map(|(at, (name, ty, sql))| Offered {
            name: names.get(at).cloned().unwrap_or_else(|| name.to_owned()),
            ty,
            nullable: name == "value",
            identity: false,
            sql,
        });
        let columns = offered.collect();
        self.add_source(SourceScope { alias: call.alias.clone(), full: None, columns })?;
        Ok(format!("json_each({text}) AS {alias}"))
    }
}

fn is_plain_text(arg: &Bound) -> bool {
    let old = matches!(arg.ty, SqlType::Text | SqlType::NText | SqlType::Xml);
    is_text(arg.ty) && !old && arg.node.is_typed()
}

/// The type of the pieces: national if one of the arguments is, as long as the first.
fn piece_type(texts: &[Bound]) -> Result<SqlType> {
    let national = texts.iter().any(|arg| is_national(arg.ty));
    let length = texts.first().and_then(|arg| length_of(arg.ty)).unwrap_or(Length::Max);
    match (national, length) {
        (true, Length::Of(n)) if n > 4000 => {
            Err(Error::feature("STRING_SPLIT of long varchar by a national separator"))
        }
        (true, length) => Ok(SqlType::NVarChar(length)),
        (false, length) => Ok(SqlType::VarChar(length)),
    }
}

/// The third argument: a constant, 0 or 1.
fn enabled(arg: &Bound) -> Result<bool> {
    match &arg.node {
        Node::Null(None) | Node::Const(Value::Null) => Ok(false),
        Node::Const(Value::Bit(on)) => Ok(*on),
        Node::Const(Value::Int(on @ (0 | 1))) => Ok(*on == 1),
        Node::Const(Value::Int(value)) => Err(Error::SplitFlag { value: *value }),
        Node::Const(_) => Err(functions::bad_argument(arg.ty, 3, "string_split")),
        _ => Err(Error::SplitConstant {}),
    }
}
