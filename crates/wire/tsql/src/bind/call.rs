//! Calls: functions, aggregates and window functions.

use crate::functions::wanted;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::{Aggregates, Binder};
use crate::ast::{Call, Expr, OrderItem, Over};
use crate::error::{Error, Result};
use crate::functions::typing::{binary, convert, folded};
use crate::functions::{self};
use crate::plan::func::Func;
use crate::plan::relation::Sort;
use crate::plan::scalar::{Aggregate, Function, Node, Scalar, Shared, Window};
use crate::value::{Family, datetime, family, type_name};

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
    pub(crate) fn global(&mut self, name: &str) -> Result<Scalar> {
        let upper = name.to_ascii_uppercase();
        if !functions::SESSION.iter().any(|(known, _)| *known == upper) {
            return Err(Error::UndeclaredVariable { name: name.to_owned() });
        }
        functions::bind(&upper, Vec::new())
    }

    pub(crate) fn call(&mut self, call: &Call) -> Result<Scalar> {
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
                crate::functions::typing::branches(vec![(when, then)], Some(otherwise))
            }
            "CHOOSE" => {
                functions::check_count("CHOOSE", call.args.len(), 2, 255)?;
                let mut whens = Vec::new();
                for (at, arg) in call.args.iter().enumerate().skip(1) {
                    let index = convert(self.scalar(&call.args[0])?, SqlType::Int)?;
                    let at = i64::try_from(at).unwrap_or(0);
                    let number = Scalar::constant(SqlType::Int, Value::Int(at));
                    let when =
                        crate::functions::typing::comparison(crate::ast::CmpOp::Eq, index, number)?;
                    whens.push((when, self.scalar(arg)?));
                }
                crate::functions::typing::branches(whens, None)
            }
            SEQUENTIAL => Err(Error::SequentialDefault {}),
            _ => {
                let args =
                    call.args.iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>()?;
                if let (true, Some(database)) =
                    (name == "DB_NAME" && args.is_empty(), &self.context)
                {
                    let ty = SqlType::NVarChar(Length::Of(128));
                    return Ok(Scalar::constant(ty, Value::Text(database.clone().into())));
                }
                self.note_lookup(&name, &args);
                functions::bind(&name, args)
            }
        }
    }

    /// Notes which databases must be read before the statement runs.
    fn note_lookup(&mut self, name: &str, args: &[Scalar]) {
        let objects = wanted::OBJECTS.contains(&name);
        if args.is_empty() || !(objects || wanted::PLAIN.contains(&name)) {
            return;
        }
        let look_up = self.needs.looks_up.get_or_insert_default();
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

    fn dated(&mut self, name: &str, args: &[Expr]) -> Result<Scalar> {
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

    fn aggregate(&mut self, name: &str, call: &Call) -> Result<Scalar> {
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

    fn aggregate_value(&mut self, name: &str, call: &Call) -> Result<Scalar> {
        let over = match &call.over {
            Some(over) => {
                if call.distinct {
                    return Err(Error::unsupported("DISTINCT with OVER"));
                }
                Some(self.over(over)?)
            }
            None => None,
        };
        let made = |function, args| Aggregate {
            function,
            distinct: call.distinct,
            args,
            order: Vec::new(),
            over: over.clone(),
        };
        if call.star {
            let ty = match name {
                "COUNT" => SqlType::Int,
                "COUNT_BIG" => SqlType::BigInt,
                _ => return Err(Error::Syntax { near: "*".to_owned() }),
            };
            return Ok(computed(ty, false, made(Function::CountAll, Vec::new())));
        }
        let expected = if name == "STRING_AGG" { 2 } else { 1 };
        functions::check_count(name, call.args.len(), expected, expected)?;
        let arg = self.scalar(&call.args[0])?;
        if arg.node.is_untyped() {
            return Err(bad(arg.ty, name));
        }
        match name {
            "COUNT" | "COUNT_BIG" => {
                let ty = if name == "COUNT" { SqlType::Int } else { SqlType::BigInt };
                Ok(computed(ty, false, made(Function::Count, vec![arg])))
            }
            "MIN" | "MAX" => {
                let ok = arg.ty != SqlType::Bit && crate::value::storage::comparable(arg.ty);
                if !ok {
                    return Err(bad(arg.ty, name));
                }
                let function = if name == "MIN" { Function::Min } else { Function::Max };
                Ok(computed(arg.ty, true, made(function, vec![arg])))
            }
            "SUM" | "AVG" => sum(name, arg, made),
            "STRING_AGG" => self.string_agg(call, arg, made(Function::Join, Vec::new())),
            _ => {
                if over.is_some() {
                    return Err(Error::unsupported(format!("{name} with OVER")));
                }
                let arg = functions::number_arg(&arg, SqlType::Float, 1, name)?;
                let function = match name {
                    "STDEV" => Function::Stdev,
                    "STDEVP" => Function::StdevP,
                    "VAR" => Function::Var,
                    _ => Function::VarP,
                };
                Ok(computed(SqlType::Float, true, made(function, vec![arg])))
            }
        }
    }

    fn string_agg(&mut self, call: &Call, arg: Scalar, made: Aggregate) -> Result<Scalar> {
        if made.over.is_some() {
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
        let order = self.sorts(&call.within)?;
        let made = Aggregate { distinct: false, args: vec![arg, separator], order, ..made };
        Ok(computed(ty, true, made))
    }

    /// ORDER BY over expressions, without positions or aliases.
    fn sorts(&mut self, items: &[OrderItem]) -> Result<Vec<Sort>> {
        let sort = |item: &OrderItem| sort(self.scalar(&item.expr)?, item.descending);
        items.iter().map(sort).collect()
    }

    fn over(&mut self, over: &Over) -> Result<Shared<Window>> {
        let before = self.scopes.last().map(|scope| scope.aggregates);
        let by = |expr| sort(self.scalar(expr)?, false);
        let partition = over.partition.iter().map(by).collect::<Result<Vec<_>>>()?;
        let order = self.sorts(&over.order)?;
        if let (Some(before), Some(scope)) = (before, self.scopes.last_mut()) {
            scope.aggregates = before;
        }
        Ok(Shared::new(Window { partition, order, frame: over.frame.clone() }))
    }

    fn window(&mut self, name: &str, call: &Call, over: &Over) -> Result<Scalar> {
        if self.scopes.last().is_none_or(|scope| scope.aggregates == Aggregates::Forbidden) {
            return Err(Error::MisplacedWindow {});
        }
        if over.order.is_empty() {
            return Err(Error::NoOrderInWindow { name: name.to_owned() });
        }
        let over = Some(self.over(over)?);
        let (function, (least, most)) = match name {
            "ROW_NUMBER" => (Function::RowNumber, (0, 0)),
            "RANK" => (Function::Rank, (0, 0)),
            "DENSE_RANK" => (Function::DenseRank, (0, 0)),
            "PERCENT_RANK" => (Function::PercentRank, (0, 0)),
            "CUME_DIST" => (Function::CumeDist, (0, 0)),
            "NTILE" => (Function::NTile, (1, 1)),
            "LAG" => (Function::Lag, (1, 3)),
            "LEAD" => (Function::Lead, (1, 3)),
            "FIRST_VALUE" => (Function::FirstValue, (1, 1)),
            _ => (Function::LastValue, (1, 1)),
        };
        functions::check_count(name, call.args.len(), least, most)?;
        let mut args = Vec::new();
        for arg in &call.args {
            let value = self.scalar(arg)?;
            args.push(match (args.first(), args.len()) {
                (None, _) if function == Function::NTile => convert(value, SqlType::BigInt)?,
                (_, 1) => convert(value, SqlType::BigInt)?,
                (Some(Scalar { ty, .. }), 2) => convert(value, *ty)?,
                _ => value,
            });
        }
        let (ty, nullable) = match (function, args.first()) {
            (Function::PercentRank | Function::CumeDist, _) => (SqlType::Float, false),
            (Function::NTile, _) | (_, None) => (SqlType::BigInt, false),
            (_, Some(value)) => (value.ty, true),
        };
        let order = Vec::new();
        Ok(computed(ty, nullable, Aggregate { function, distinct: false, args, order, over }))
    }
}

fn sum(
    name: &str,
    arg: Scalar,
    made: impl Fn(Function, Vec<Scalar>) -> Aggregate,
) -> Result<Scalar> {
    let ty = match arg.ty {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int => SqlType::Int,
        SqlType::BigInt => SqlType::BigInt,
        SqlType::Money | SqlType::SmallMoney => SqlType::Money,
        SqlType::Float | SqlType::Real => SqlType::Float,
        SqlType::Decimal { scale, .. } => SqlType::Decimal { precision: 38, scale },
        _ => return Err(bad(arg.ty, name)),
    };
    if name == "SUM" {
        return Ok(computed(ty, true, made(Function::Sum(ty), vec![arg])));
    }
    let arg = arg.shared();
    let sum = computed(ty, true, made(Function::Sum(ty), vec![arg.clone()]));
    let count = computed(SqlType::BigInt, false, made(Function::Count, vec![arg]));
    let ty = match ty {
        SqlType::Decimal { scale, .. } => SqlType::Decimal { precision: 38, scale: scale.max(6) },
        _ => ty,
    };
    Ok(Scalar::new(ty, true, Node::Call(Func::Average, vec![sum, count])))
}

/// # Errors
/// For a type without an order.
pub(crate) fn sort(value: Scalar, descending: bool) -> Result<Sort> {
    if matches!(value.ty, SqlType::Text | SqlType::NText | SqlType::Image | SqlType::Xml) {
        return Err(Error::feature(format!("ORDER BY of {}", type_name(value.ty))));
    }
    Ok(Sort { value, descending })
}

/// The function that is allowed in a DEFAULT only, and alone.
const SEQUENTIAL: &str = "NEWSEQUENTIALID";

/// Binds NEWSEQUENTIALID() as a complete DEFAULT; None for another expression.
///
/// # Errors
/// 302 for a column of another type.
pub(crate) fn sequential(expr: &Expr, ty: SqlType) -> Result<Option<Scalar>> {
    let Expr::Call(call) = expr else { return Ok(None) };
    if !call.name.object().eq_ignore_ascii_case(SEQUENTIAL) {
        return Ok(None);
    }
    functions::check_count(SEQUENTIAL, call.args.len(), 0, 0)?;
    if ty != SqlType::UniqueIdentifier {
        return Err(Error::SequentialDefault {});
    }
    let node = Node::Call(Func::NewSequentialId, Vec::new());
    Ok(Some(Scalar::new(ty, false, node)))
}

fn null() -> Scalar {
    Scalar::new(SqlType::Int, true, Node::Null(None))
}

fn computed(ty: SqlType, nullable: bool, aggregate: Aggregate) -> Scalar {
    Scalar::new(ty, nullable, Node::Aggregate(Shared::new(aggregate)))
}

fn bad(ty: SqlType, name: &str) -> Error {
    Error::BadOperand { ty: type_name(ty).to_owned(), op: name.to_lowercase() }
}

/// `current op value`, for `+=` and the like.
pub(crate) fn compound(
    op: Option<crate::ast::BinOp>,
    current: Scalar,
    value: Scalar,
) -> Result<Scalar> {
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
