//! Table-valued functions.

use tdekit_wire_tds::{Generated, Length, SqlType, Value};

use super::from::check_names;
use super::{Binder, Offered, SourceScope};
use crate::ast::{CmpOp, Name, TableCall};
use crate::error::{Error, Result};
use crate::functions::typing::{comparison, convert};
use crate::functions::{self};
use crate::plan::access::Right;
use crate::plan::func::Func;
use crate::plan::label::{Label, joined};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{TableColumn, TableKind};
use crate::plan::{Alias, ColumnRef, Field};
use crate::value::{is_national, is_text, length_of};

/// The view in which `sys.dm_exec_sql_text` looks up its handle.
const TEXTS_NAME: &str = "~dm_exec_sql_text";

/// The column that it looks up.
const HANDLE: &str = "handle";

impl Binder<'_> {
    /// Adds the table of a function, and returns it with the condition that joins it. After APPLY,
    /// its arguments see the preceding tables.
    pub(crate) fn table_function(
        &mut self,
        call: &TableCall,
        apply: bool,
    ) -> Result<(Relation, Option<Scalar>)> {
        let bind = |binder: &mut Self| {
            call.args.iter().map(|arg| binder.scalar(arg)).collect::<Result<Vec<_>>>()
        };
        let args = if apply { bind(self) } else { self.beside(bind) };
        match call.function.as_str() {
            "STRING_SPLIT" => Ok((self.string_split(call, args?)?, None)),
            "FN_LISTEXTENDEDPROPERTY" => {
                let (relation, on) = self.listed_properties(call, args?)?;
                Ok((relation, Some(on)))
            }
            "FN_HELPCOLLATIONS" => {
                functions::check_count("fn_helpcollations", args?.len(), 0, 0)?;
                Ok((self.collations(call)?, None))
            }
            "OPENJSON" => Ok((self.open_json(call, args?)?, None)),
            _ => {
                let (relation, on) = self.sql_text(call, args?)?;
                Ok((relation, Some(on)))
            }
        }
    }

    /// `fn_helpcollations`.
    fn collations(&mut self, call: &TableCall) -> Result<Relation> {
        let name = ["master", "sys", "~fn_helpcollations"].map(str::to_owned);
        let table = self.find_table(&Name(name.to_vec()), &[Right::Select])?;
        if let TableKind::System(name) = &table.kind {
            self.needs.fill(name);
        }
        let alias = self.fresh(Alias::Source);
        self.offer_columns(call, alias, &table.columns.iter().collect::<Vec<_>>())?;
        Ok(Relation::Scan { table, alias })
    }

    /// `sys.dm_exec_sql_text`: a row of the texts, by its handle.
    fn sql_text(&mut self, call: &TableCall, args: Vec<Scalar>) -> Result<(Relation, Scalar)> {
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
        let table = Name(vec!["master".to_owned(), "sys".to_owned(), TEXTS_NAME.to_owned()]);
        let table = self.find_table(&table, &[Right::Select])?;
        if let TableKind::System(name) = &table.kind {
            self.needs.fill(name);
        }
        let alias = self.fresh(Alias::Source);
        let columns: Vec<_> = table.columns.iter().filter(|column| column.name != HANDLE).collect();
        self.offer_columns(call, alias, &columns)?;
        let handle = Scalar::column(arg.ty, true, ColumnRef::named(Some(alias), HANDLE));
        let on = Node::Same(Box::new(handle), Box::new(arg));
        Ok((Relation::Scan { table, alias }, Scalar::condition(on)))
    }

    /// `fn_listextendedproperty`: the properties at the level of the last type that is given; NULL
    /// for a name means all.
    fn listed_properties(
        &mut self,
        call: &TableCall,
        args: Vec<Scalar>,
    ) -> Result<(Relation, Scalar)> {
        functions::check_count("fn_listextendedproperty", args.len(), 7, 7)?;
        let view = "~fn_listextendedproperty".to_owned();
        let database = call.database.as_deref().or(self.expansion.database());
        let database = database.unwrap_or_default().to_owned();
        let name = match database.is_empty() {
            true => Name(vec!["sys".to_owned(), view]),
            false => Name(vec![database, "sys".to_owned(), view]),
        };
        let table = self.find_table(&name, &[Right::Select])?;
        if let TableKind::System(name) = &table.kind {
            self.needs.fill(name);
        }
        let alias = self.fresh(Alias::Source);
        let column = |at: usize| {
            let column = &table.columns[at];
            Scalar::column(column.ty, true, ColumnRef::named(Some(alias), &column.name))
                .of_collation(column.collation)
        };
        let mut conditions = Vec::new();
        // the name, then types and names of three levels
        for (arg, at) in args.into_iter().zip([2, 4, 5, 6, 7, 8, 9]) {
            let arg = convert(arg, SqlType::NVarChar(Length::Of(128)))?;
            let none = |value: Scalar| Scalar::condition(Node::IsNull(Box::new(value), false));
            let same = comparison(CmpOp::Eq, column(at), arg.clone())?;
            let open = match at {
                4 | 6 | 8 => Scalar::condition(Node::And(vec![none(arg), none(column(at))])),
                _ => none(arg),
            };
            conditions.push(Scalar::condition(Node::Or(vec![open, same])));
        }
        let columns: Vec<_> = table.columns.iter().take(4).collect();
        self.offer_columns(call, alias, &columns)?;
        Ok((Relation::Scan { table, alias }, Scalar::condition(Node::And(conditions))))
    }

    /// Offers columns of the table `alias` as those that a function returns.
    fn offer_columns(
        &mut self,
        call: &TableCall,
        alias: Alias,
        columns: &[&TableColumn],
    ) -> Result<()> {
        let names = &call.columns;
        check_names(&call.alias, names, columns.len())?;
        let offered = columns.iter().enumerate().map(|(at, column)| Offered {
            name: names.get(at).unwrap_or(&column.name).clone(),
            ty: column.ty,
            nullable: true,
            generated: Generated::No,
            column: ColumnRef::named(Some(alias), &column.name),
            label: Label::Implicit(column.collation),
            value: None,
        });
        let columns = offered.collect();
        let shown = call.alias.clone();
        self.add_source(SourceScope { alias: shown, full: None, id: Some(alias), columns })
    }

    fn string_split(&mut self, call: &TableCall, args: Vec<Scalar>) -> Result<Relation> {
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
        let label = joined(&texts, "string_split");
        label.compared("string_split")?;
        if let Some(first) = texts.first_mut() {
            first.label = label;
        }
        let split = Node::Call(Func::Text(functions::SPLIT), texts);
        let text = Scalar::new(array, true, split);

        let alias = self.fresh(Alias::Source);
        let mut columns = vec![("value", ty, Field::Piece)];
        if numbered {
            columns.push(("ordinal", SqlType::BigInt, Field::Ordinal));
        }
        let names = &call.columns;
        check_names(&call.alias, names, columns.len())?;
        let offered = columns.into_iter().enumerate().map(|(at, (name, ty, field))| Offered {
            name: names.get(at).cloned().unwrap_or_else(|| name.to_owned()),
            ty,
            nullable: name == "value",
            generated: Generated::No,
            column: ColumnRef::of(alias, field),
            label,
            value: None,
        });
        let columns = offered.collect();
        let name = call.alias.clone();
        self.add_source(SourceScope { alias: name, full: None, id: Some(alias), columns })?;
        Ok(Relation::Split { text, alias })
    }
}

fn is_plain_text(arg: &Scalar) -> bool {
    let old = matches!(arg.ty, SqlType::Text | SqlType::NText | SqlType::Xml);
    is_text(arg.ty) && !old && arg.node.is_typed()
}

/// The type of the pieces: national if one of the arguments is, as long as the first.
fn piece_type(texts: &[Scalar]) -> Result<SqlType> {
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
fn enabled(arg: &Scalar) -> Result<bool> {
    match &arg.node {
        Node::Null(None) | Node::Const(Value::Null) => Ok(false),
        Node::Const(Value::Bit(on)) => Ok(*on),
        Node::Const(Value::Int(on @ (0 | 1))) => Ok(*on == 1),
        Node::Const(Value::Int(value)) => Err(Error::SplitFlag { value: *value }),
        Node::Const(_) => Err(functions::bad_argument(arg.ty, 3, "string_split")),
        _ => Err(Error::SplitConstant {}),
    }
}
