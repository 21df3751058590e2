//! Calls: functions, aggregates and window functions.

use crate::catalog::wanted;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::{Aggregates, Binder};
use crate::ast::{Call, Expr, OrderItem, Over};
use crate::bind::typing::{binary, convert, folded};
use crate::bound::{Bound, Node};
use crate::error::{Error, Result};
use crate::functions::func::Func;
use crate::functions::{self};
use crate::value::{Family, datetime, family, is_text, type_name};

/// Aggregates, in the order of their names.
pub(crate) const AGGREGATES: &[&str] = &[
    "AVG",
    "COUNT",
    "COUNT_BIG",
    "MAX",
    "MIN",
    "STDEV",
    "STDEVP",
    "STRING_AGG",
    "SUM",
    "VAR",
    "VARP",
];
/// Functions that need OVER.
pub(crate) const WINDOW: &[&str] = &[
    "CUME_DIST",
    "DENSE_RANK",
    "FIRST_VALUE",
    "LAG",
    "LAST_VALUE",
    "LEAD",
    "NTILE",
    "PERCENT_RANK",
    "RANK",
    "ROW_NUMBER",
];

pub(crate) fn is_aggregate(call: &Call) -> bool {
    let name = call.name.text().to_ascii_uppercase();
    call.over.is_none() && AGGREGATES.contains(&name.as_str())
}

impl Binder<'_> {
    /// A `@@` variable.
    pub(crate) fn global(&mut self, name: &str) -> Result<Bound> {
        let upper = name.to_ascii_uppercase();
        if !functions::SESSION.iter().any(|(known, _)| *known == upper) {
            return Err(Error::UndeclaredVariable { name: name.to_owned() });
        }
        functions::bind(&upper, Vec::new())
    }

    pub(crate) fn call(&mut self, call: &Call) -> Result<Bound> {
        if call.name.0.len() > 1 {
            return Err(Error::feature(format!("function {}", call.name.text())));
        }
        let name = call.name.object().to_ascii_uppercase();
        if AGGREGATES.contains(&name.as_str()) {
            return self.aggregate(&name, call);
        }
        if WINDOW.contains(&name.as_str()) {
            let Some(over) = &call.over else { return Err(Error::NoOver { name }) };
            return self.window(&name, call, over);
        }
        if call.over.is_some() || call.star || call.distinct || !call.within.is_empty() {
            return Err(Error::Syntax { near: call.name.text() });
        }
        if functions::DATED.contains(&name.as_str()) {
            return self.dated(&name, &call.args);
        }
        match name.as_str() {
            "IIF" => {
                functions::check_count("IIF", call.args.len(), 3, 3)?;
                let when = self.condition(&call.args[0])?;
                let (then, otherwise) = (self.scalar(&call.args[1])?, self.scalar(&call.args[2])?);
                crate::bind::typing::branches(vec![(when, then)], Some(otherwise))
            }
            "CHOOSE" => {
                functions::check_count("CHOOSE", call.args.len(), 2, 255)?;
                let mut whens = Vec::new();
                for (at, arg) in call.args.iter().enumerate().skip(1) {
                    let index = convert(self.scalar(&call.args[0])?, SqlType::Int)?;
                    let at = i64::try_from(at).unwrap_or(0);
                    let number = Bound::constant(SqlType::Int, Value::Int(at));
                    let when =
                        crate::bind::typing::comparison(crate::ast::CmpOp::Eq, index, number)?;
                    whens.push((when, self.scalar(arg)?));
                }
                crate::bind::typing::branches(whens, None)
            }
            SEQUENTIAL => Err(Error::SequentialDefault {}),
            _ => {
                let args =
                    call.args.iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>()?;
                if let (true, Some(database)) =
                    (name == "DB_NAME" && args.is_empty(), &self.context)
                {
                    let ty = SqlType::NVarChar(Length::Of(128));
                    return Ok(Bound::constant(ty, Value::Text(database.clone().into())));
                }
                self.note_lookup(&name, &args);
                functions::bind(&name, args)
            }
        }
    }

    /// Notes which databases must be read before the statement runs.
    fn note_lookup(&mut self, name: &str, args: &[Bound]) {
        let objects = wanted::OBJECTS.contains(&name);
        if args.is_empty() || !(objects || wanted::PLAIN.contains(&name)) {
            return;
        }
        let look_up = self.looks_up.get_or_insert_default();
        if !objects {
            return;
        }
        match args.first() {
            Some(named) if name == "OBJECT_ID" && !named.has_leaf() => {
                look_up.names.push(named.clone());
            }
            _ => look_up.whole = true,
        }
        let databases = &mut look_up.databases;
        let named = match args.first().map(|arg| &arg.node) {
            Some(Node::Const(Value::Text(text))) => wanted::database_in(text),
            _ => None,
        };
        let database = named.or_else(|| self.context.clone()).unwrap_or_default();
        if !databases.contains(&database) {
            databases.push(database);
        }
        // ids do not identify a database: those of the current one are meant
        if !databases.iter().any(String::is_empty) {
            databases.push(String::new());
        }
    }

    fn dated(&mut self, name: &str, args: &[Expr]) -> Result<Bound> {
        let word = match args.first() {
            Some(Expr::Column(name)) if name.0.len() == 1 => name.object().to_owned(),
            Some(_) => {
                return Err(Error::BadParameter { function: name.to_lowercase() });
            }
            None => return functions::check_count(name, 0, 2, 3).map(|()| null()),
        };
        let part = datetime::part(&word).ok_or_else(|| Error::BadDatepart {
            name: word.clone(),
            function: name.to_lowercase(),
        })?;
        let args = args[1..].iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>()?;
        functions::bind_dated(name, part, &word, &args).map(folded)
    }

    fn aggregate(&mut self, name: &str, call: &Call) -> Result<Bound> {
        let before = match self.scopes.last_mut() {
            Some(scope) => {
                let before = scope.aggregates;
                if call.over.is_none() {
                    match before {
                        Aggregates::Forbidden => return Err(Error::AggregateInWhere {}),
                        Aggregates::Inside => return Err(Error::AggregateNested {}),
                        Aggregates::Allowed => scope.aggregates = Aggregates::Inside,
                    }
                }
                before
            }
            None => return Err(Error::AggregateInWhere {}),
        };
        let bound = self.aggregate_value(name, call);
        if let Some(scope) = self.scopes.last_mut() {
            scope.aggregates = before;
        }
        bound
    }

    fn aggregate_value(&mut self, name: &str, call: &Call) -> Result<Bound> {
        let over = match &call.over {
            Some(over) => {
                if call.distinct {
                    return Err(Error::unsupported("DISTINCT with OVER"));
                }
                self.over(over)?
            }
            None => String::new(),
        };
        if call.star {
            let ty = match name {
                "COUNT" => SqlType::Int,
                "COUNT_BIG" => SqlType::BigInt,
                _ => return Err(Error::Syntax { near: "*".to_owned() }),
            };
            return Ok(leaf(ty, false, format!("count(*){over}")));
        }
        let expected = if name == "STRING_AGG" { 2 } else { 1 };
        functions::check_count(name, call.args.len(), expected, expected)?;
        let arg = self.scalar(&call.args[0])?;
        if arg.node.is_untyped() {
            return Err(bad(arg.ty, name));
        }
        let distinct = if call.distinct { "DISTINCT " } else { "" };
        let collate = if is_text(arg.ty) { " COLLATE TSQL" } else { "" };
        match name {
            "COUNT" | "COUNT_BIG" => {
                let ty = if name == "COUNT" { SqlType::Int } else { SqlType::BigInt };
                let text = self.emit_text(&arg)?;
                Ok(leaf(ty, false, format!("count({distinct}{text}{collate}){over}")))
            }
            "MIN" | "MAX" => {
                let ok = arg.ty != SqlType::Bit && crate::value::storage::comparable(arg.ty);
                if !ok {
                    return Err(bad(arg.ty, name));
                }
                let text = self.emit_text(&arg)?;
                let name = name.to_lowercase();
                // the whole is cast back to no collation, so that it stays a plain value
                Ok(leaf(arg.ty, true, format!("{name}({text}{collate}){over}")))
            }
            "SUM" | "AVG" => self.sum(name, arg, distinct, &over),
            "STRING_AGG" => self.string_agg(call, arg, &over),
            _ => {
                if !over.is_empty() {
                    return Err(Error::unsupported(format!("{name} with OVER")));
                }
                let arg = functions::number_arg(&arg, SqlType::Float, 1, name)?;
                let text = self.emit_text(&arg)?;
                let name = name.to_lowercase();
                Ok(leaf(SqlType::Float, true, format!("tsql_{name}({distinct}{text})")))
            }
        }
    }

    fn sum(&mut self, name: &str, arg: Bound, distinct: &str, over: &str) -> Result<Bound> {
        let (ty, function) = match arg.ty {
            SqlType::TinyInt | SqlType::SmallInt | SqlType::Int => {
                (SqlType::Int, "tsql_sum_int".to_owned())
            }
            SqlType::BigInt => (SqlType::BigInt, "tsql_sum_bigint".to_owned()),
            SqlType::Money | SqlType::SmallMoney => (SqlType::Money, "tsql_sum_money".to_owned()),
            SqlType::Float | SqlType::Real => (SqlType::Float, "tsql_sum_float".to_owned()),
            SqlType::Decimal { scale, .. } => {
                let ty = SqlType::Decimal { precision: 38, scale };
                (ty, format!("tsql_sum_dec{scale}"))
            }
            _ => return Err(bad(arg.ty, name)),
        };
        let text = self.emit_text(&arg)?;
        let sum = leaf(ty, true, format!("{function}({distinct}{text}){over}"));
        if name == "SUM" {
            return Ok(sum);
        }
        let count = leaf(SqlType::BigInt, false, format!("count({distinct}{text}){over}"));
        let ty = match ty {
            SqlType::Decimal { scale, .. } => {
                SqlType::Decimal { precision: 38, scale: scale.max(6) }
            }
            _ => ty,
        };
        Ok(Bound::new(ty, true, Node::Call(Func::Average, vec![sum, count])))
    }

    fn string_agg(&mut self, call: &Call, arg: Bound, over: &str) -> Result<Bound> {
        if !over.is_empty() {
            return Err(Error::unsupported("STRING_AGG with OVER"));
        }
        let arg = functions::text_arg(&arg, 1, "string_agg")?;
        let separator = self.scalar(&call.args[1])?;
        let separator = functions::text_arg(&separator, 2, "string_agg")?;
        let ty = match crate::value::length_of(arg.ty) {
            Some(Length::Max) => functions::text_type(arg.ty, Length::Max),
            _ if crate::value::is_national(arg.ty) => SqlType::NVarChar(Length::Of(4000)),
            _ => SqlType::VarChar(Length::Of(8000)),
        };
        let (text, separator) = (self.emit_text(&arg)?, self.emit_text(&separator)?);
        let order = if call.within.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", self.order_text(&call.within)?)
        };
        Ok(leaf(ty, true, format!("group_concat({text}, {separator}{order})")))
    }

    /// ORDER BY over expressions, without positions or aliases.
    pub(crate) fn order_text(&mut self, items: &[OrderItem]) -> Result<String> {
        let mut texts = Vec::new();
        for item in items {
            let bound = self.scalar(&item.expr)?;
            texts.push(self.ordered(&bound, item.descending)?);
        }
        Ok(texts.join(", "))
    }

    pub(crate) fn ordered(&mut self, bound: &Bound, descending: bool) -> Result<String> {
        if matches!(bound.ty, SqlType::Text | SqlType::NText | SqlType::Image | SqlType::Xml) {
            return Err(Error::feature(format!("ORDER BY of {}", type_name(bound.ty))));
        }
        let collate = if is_text(bound.ty) { " COLLATE TSQL" } else { "" };
        let direction = if descending { " DESC" } else { "" };
        // a bare parameter would be a constant, and a number a position
        Ok(format!("({}){collate}{direction}", self.emit_text(bound)?))
    }

    fn over(&mut self, over: &Over) -> Result<String> {
        let before = self.scopes.last().map(|scope| scope.aggregates);
        let mut sql = " OVER (".to_owned();
        if !over.partition.is_empty() {
            let mut texts = Vec::new();
            for expr in &over.partition {
                let bound = self.scalar(expr)?;
                texts.push(self.ordered(&bound, false)?);
            }
            sql.push_str(&format!("PARTITION BY {} ", texts.join(", ")));
        }
        if !over.order.is_empty() {
            sql.push_str(&format!("ORDER BY {} ", self.order_text(&over.order)?));
        }
        if let Some(frame) = &over.frame {
            sql.push_str(frame);
        }
        if let (Some(before), Some(scope)) = (before, self.scopes.last_mut()) {
            scope.aggregates = before;
        }
        sql.push(')');
        Ok(sql)
    }

    fn window(&mut self, name: &str, call: &Call, over: &Over) -> Result<Bound> {
        if self.scopes.last().is_none_or(|scope| scope.aggregates == Aggregates::Forbidden) {
            return Err(Error::MisplacedWindow {});
        }
        if over.order.is_empty() {
            return Err(Error::NoOrderInWindow { name: name.to_owned() });
        }
        let sql = self.over(over)?;
        let lower = name.to_lowercase();
        match name {
            "ROW_NUMBER" | "RANK" | "DENSE_RANK" => {
                functions::check_count(name, call.args.len(), 0, 0)?;
                Ok(leaf(SqlType::BigInt, false, format!("{lower}(){sql}")))
            }
            "PERCENT_RANK" | "CUME_DIST" => {
                functions::check_count(name, call.args.len(), 0, 0)?;
                Ok(leaf(SqlType::Float, false, format!("{lower}(){sql}")))
            }
            "NTILE" => {
                functions::check_count(name, call.args.len(), 1, 1)?;
                let count = convert(self.scalar(&call.args[0])?, SqlType::BigInt)?;
                let count = self.emit_text(&count)?;
                Ok(leaf(SqlType::BigInt, false, format!("ntile({count}){sql}")))
            }
            "LAG" | "LEAD" => {
                functions::check_count(name, call.args.len(), 1, 3)?;
                let value = self.scalar(&call.args[0])?;
                let mut text = self.emit_text(&value)?;
                if let Some(offset) = call.args.get(1) {
                    let offset = convert(self.scalar(offset)?, SqlType::BigInt)?;
                    text.push_str(&format!(", {}", self.emit_text(&offset)?));
                }
                if let Some(default) = call.args.get(2) {
                    let default = convert(self.scalar(default)?, value.ty)?;
                    text.push_str(&format!(", {}", self.emit_text(&default)?));
                }
                Ok(leaf(value.ty, true, format!("{lower}({text}){sql}")))
            }
            _ => {
                functions::check_count(name, call.args.len(), 1, 1)?;
                let value = self.scalar(&call.args[0])?;
                let text = self.emit_text(&value)?;
                Ok(leaf(value.ty, true, format!("{lower}({text}){sql}")))
            }
        }
    }
}

/// The function that is allowed in a DEFAULT only, and alone.
const SEQUENTIAL: &str = "NEWSEQUENTIALID";

/// Binds NEWSEQUENTIALID() as a complete DEFAULT; None for another expression.
///
/// # Errors
/// 302 for a column of another type.
pub(crate) fn sequential(expr: &Expr, ty: SqlType) -> Result<Option<Bound>> {
    let Expr::Call(call) = expr else { return Ok(None) };
    if !call.name.object().eq_ignore_ascii_case(SEQUENTIAL) {
        return Ok(None);
    }
    functions::check_count(SEQUENTIAL, call.args.len(), 0, 0)?;
    if ty != SqlType::UniqueIdentifier {
        return Err(Error::SequentialDefault {});
    }
    let node = Node::Call(Func::NewSequentialId, Vec::new());
    Ok(Some(Bound::new(ty, false, node)))
}

fn null() -> Bound {
    Bound::new(SqlType::Int, true, Node::Null(None))
}

fn leaf(ty: SqlType, nullable: bool, sql: String) -> Bound {
    Bound::new(ty, nullable, Node::Leaf(sql))
}

fn bad(ty: SqlType, name: &str) -> Error {
    Error::BadOperand { ty: type_name(ty).to_owned(), op: name.to_lowercase() }
}

/// `current op value`, for `+=` and the like.
pub(crate) fn compound(
    op: Option<crate::ast::BinOp>,
    current: Bound,
    value: Bound,
) -> Result<Bound> {
    match op {
        Some(op) => binary(op, current, value),
        None => Ok(value),
    }
}

/// Checks that a type can be grouped and made distinct by SQLite's own comparison.
pub(crate) fn check_groupable(ty: SqlType) -> Result<()> {
    let ok = crate::value::storage::comparable(ty) && family(ty) != Family::Variant;
    if ok { Ok(()) } else { Err(Error::feature(format!("grouping by {}", type_name(ty)))) }
}
