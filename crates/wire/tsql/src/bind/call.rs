//! Calls: functions, aggregates and window functions.

use crate::functions::wanted;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::names::Aggregates;
use super::{Binder, SourceScope};
use crate::ast::{Call, CmpOp, Expr, Name, OrderItem, Over};
use crate::error::{Error, Result};
use crate::functions::table::{self, Binding, Dated, Function, Looked};
use crate::functions::typing::{binary, branches, comparison, convert, folded};
use crate::functions::{self};
use crate::name::is_global;
use crate::parse::{AT_TIME_ZONE, XML_VALUE};
use crate::plan::Needs;
use crate::plan::func::Func;
use crate::plan::relation::Sort;
use crate::plan::scalar::{Aggregate, AggregateFunction, Node, Scalar, Shared, Window};
use crate::plan::table::Table;
use crate::value::{Family, datetime, family, type_name};

pub(crate) fn is_aggregate(call: &Call) -> bool {
    let name = call.name.text().to_ascii_uppercase();
    let binding = table::find(&name).map(|function| function.binding);
    call.over.is_none() && binding == Some(Binding::Aggregate)
}

/// Returns true for a call without words that belong to aggregates and windows.
fn is_plain(call: &Call) -> bool {
    call.over.is_none() && !call.star && !call.distinct && call.within.is_empty()
}

/// Returns the names of the functions of a database that an expression calls.
pub(crate) fn invoked_in(expr: &Expr) -> Vec<Name> {
    let found = std::cell::RefCell::new(Vec::new());
    expr.any(&|part| {
        if let Expr::Call(call) = part
            && call.name.0.len() > 1
        {
            found.borrow_mut().push(call.name.clone());
        }
        false
    });
    found.into_inner()
}

impl Binder<'_> {
    /// Binds an expression that a table keeps: its functions are those of the table's database.
    pub(super) fn kept(
        &mut self,
        expr: &Expr,
        table: &Table,
        bind: impl FnOnce(&mut Self) -> Result<Scalar>,
    ) -> Result<Scalar> {
        let names = invoked_in(expr);
        if names.is_empty() {
            return bind(self);
        }
        let temporary = table.schema == "temp" && !table.is_logical() || is_global(&table.name);
        if temporary || names.iter().any(|name| name.part(2).is_some()) {
            return Err(Error::feature("a function of another database in a table"));
        }
        self.in_database(Some(table.database.clone()), bind)
    }

    /// A `@@` variable.
    pub(crate) fn global(&mut self, name: &str) -> Result<Scalar> {
        let upper = name.to_ascii_uppercase();
        if upper == "@@DBTS" {
            // its database is open when the value is read
            self.catalog.sequence(&crate::ast::Name(vec![String::new()]))?;
        }
        let slot = self.expansion.parameters().and_then(|own| match upper.as_str() {
            "@@ROWCOUNT" => own.row_count(),
            "@@FETCH_STATUS" => own.fetch_status(),
            _ => None,
        });
        if let Some(slot) = slot {
            return Ok(Scalar::new(SqlType::Int, false, Node::Var(slot)));
        }
        match table::find(&upper) {
            Some(function) => {
                let value = functions::bind(function, Vec::new())?;
                self.given(value)
            }
            None => Err(Error::UndeclaredVariable { name: name.to_owned() }),
        }
    }

    pub(crate) fn call(&mut self, call: &Call) -> Result<Scalar> {
        if call.name.0.len() > 1 {
            return match is_plain(call) {
                true => self.invoked(call),
                false => Err(Error::Syntax { near: call.name.text() }),
            };
        }
        let name = call.name.object().to_ascii_uppercase();
        if name == AT_TIME_ZONE && is_plain(call) {
            let args = call.args.iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>()?;
            return functions::at_time_zone(&args);
        }
        if name == XML_VALUE && is_plain(call) {
            return self.xml_value(&call.args);
        }
        let Some(function) = table::find(&name) else {
            if is_plain(call) {
                call.args.iter().try_for_each(|arg| self.scalar(arg).map(|_| ()))?;
                return Err(Error::NotAFunction { name });
            }
            return Err(Error::Syntax { near: call.name.text() });
        };
        match function.binding {
            Binding::Aggregate => return self.aggregate(&name, call),
            Binding::Window(made) => {
                let Some(over) = &call.over else { return Err(Error::NoOver { name }) };
                return self.window(function, made, call, over);
            }
            _ if !is_plain(call) => return Err(Error::Syntax { near: call.name.text() }),
            Binding::Dated(dated) => return self.dated(function, dated, &call.args),
            Binding::Iif => return self.iif(&call.args),
            Binding::Choose => return self.choose(&call.args),
            Binding::NewSequentialId => return Err(Error::SequentialDefault {}),
            Binding::Grouping => {
                if self.names.aggregates() == Aggregates::Inside {
                    return Err(Error::AggregateNested {});
                }
                return Err(Error::NotAGroup { number: 1, function: function.name });
            }
            _ => {}
        }
        let args = call.args.iter().map(|arg| self.scalar(arg)).collect::<Result<Vec<_>>>()?;
        if let ("DB_NAME", [], Some(database)) =
            (name.as_str(), args.as_slice(), self.expansion.database())
        {
            let ty = SqlType::NVarChar(Length::Of(128));
            return Ok(Scalar::constant(ty, Value::Text(database.to_owned().into())));
        }
        if function.looks_up().is_some() {
            let mut called = args.clone();
            called.iter_mut().for_each(|arg| self.routines.as_called(arg));
            note_lookup(&mut self.needs, self.expansion.database(), function, &called);
        }
        let value = functions::bind(function, args)?;
        self.given(value)
    }

    fn iif(&mut self, args: &[Expr]) -> Result<Scalar> {
        functions::check_count("IIF", args.len(), 3, 3)?;
        let when = self.condition(&args[0])?;
        let (then, otherwise) = (self.scalar(&args[1])?, self.scalar(&args[2])?);
        branches(vec![(when, then)], Some(otherwise))
    }

    fn choose(&mut self, args: &[Expr]) -> Result<Scalar> {
        functions::check_count("CHOOSE", args.len(), 2, 255)?;
        let mut whens = Vec::new();
        for (at, arg) in args.iter().enumerate().skip(1) {
            let index = convert(self.scalar(&args[0])?, SqlType::Int)?;
            let at = i64::try_from(at).unwrap_or(0);
            let number = Scalar::constant(SqlType::Int, Value::Int(at));
            let when = comparison(CmpOp::Eq, index, number)?;
            whens.push((when, self.scalar(arg)?));
        }
        branches(whens, None)
    }

    fn dated(&mut self, function: &Function, dated: Dated, args: &[Expr]) -> Result<Scalar> {
        let name = function.name;
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
        functions::bind_dated(function, dated, (part, &word), &args).map(folded)
    }

    fn aggregate(&mut self, name: &str, call: &Call) -> Result<Scalar> {
        match call.over {
            None => self.in_aggregate(|binder| binder.aggregate_value(name, call)),
            Some(_) if self.names.is_outside() => Err(Error::AggregateInWhere {}),
            Some(_) => self.aggregate_value(name, call),
        }
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
            return Ok(computed(ty, false, made(AggregateFunction::CountAll, Vec::new())));
        }
        let expected = if name == "STRING_AGG" { 2 } else { 1 };
        functions::check_count(name, call.args.len(), expected, expected)?;
        let arg = self.scalar(&call.args[0])?;
        if arg.node.is_untyped() {
            return Err(bad(arg.ty, name));
        }
        let moves = self.expansion.parameters().is_some() || self.names.is_watched();
        if over.is_none() && moves {
            refuse_outer(self.names.sources(), &arg)?;
        }
        match name {
            "COUNT" | "COUNT_BIG" => {
                arg.label.aggregated("count")?;
                let ty = if name == "COUNT" { SqlType::Int } else { SqlType::BigInt };
                Ok(computed(ty, false, made(AggregateFunction::Count, vec![arg])))
            }
            "MIN" | "MAX" => {
                let ok = arg.ty != SqlType::Bit && crate::value::storage::comparable(arg.ty);
                if !ok {
                    return Err(bad(arg.ty, name));
                }
                arg.label.aggregated(&name.to_lowercase())?;
                let function =
                    if name == "MIN" { AggregateFunction::Min } else { AggregateFunction::Max };
                Ok(computed(arg.ty, true, made(function, vec![arg])))
            }
            "SUM" | "AVG" => sum(name, arg, made),
            "STRING_AGG" => self.string_agg(call, arg, made(AggregateFunction::Join, Vec::new())),
            _ => {
                if over.is_some() {
                    return Err(Error::unsupported(format!("{name} with OVER")));
                }
                let arg = functions::number_arg(&arg, SqlType::Float, 1, name)?;
                let function = match name {
                    "STDEV" => AggregateFunction::Stdev,
                    "STDEVP" => AggregateFunction::StdevP,
                    "VAR" => AggregateFunction::Var,
                    _ => AggregateFunction::VarP,
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
        let by = |expr| sort(self.scalar(expr)?, false);
        let partition = over.partition.iter().map(by).collect::<Result<Vec<_>>>()?;
        let order = self.sorts(&over.order)?;
        Ok(Shared::new(Window { partition, order, frame: over.frame.clone() }))
    }

    fn window(
        &mut self,
        row: &Function,
        function: AggregateFunction,
        call: &Call,
        over: &Over,
    ) -> Result<Scalar> {
        let name = row.name;
        if self.names.aggregates() == Aggregates::Forbidden {
            return Err(Error::MisplacedWindow {});
        }
        if over.order.is_empty() {
            return Err(Error::NoOrderInWindow { name: name.to_owned() });
        }
        let over = Some(self.over(over)?);
        functions::check_count(name, call.args.len(), row.least, row.most)?;
        let mut args = Vec::new();
        for arg in &call.args {
            let value = self.scalar(arg)?;
            args.push(match (args.first(), args.len()) {
                (None, _) if function == AggregateFunction::NTile => {
                    convert(value, SqlType::BigInt)?
                }
                (_, 1) => convert(value, SqlType::BigInt)?,
                (Some(Scalar { ty, .. }), 2) => convert(value, *ty)?,
                _ => value,
            });
        }
        let (ty, nullable) = match (function, args.first()) {
            (AggregateFunction::PercentRank | AggregateFunction::CumeDist, _) => {
                (SqlType::Float, false)
            }
            (AggregateFunction::NTile, _) | (_, None) => (SqlType::BigInt, false),
            (_, Some(value)) => (value.ty, true),
        };
        let order = Vec::new();
        Ok(computed(ty, nullable, Aggregate { function, distinct: false, args, order, over }))
    }
}

/// Notes which databases must be read before the statement runs; `around` is that of a view or
/// function.
fn note_lookup(needs: &mut Needs, around: Option<&str>, function: &Function, args: &[Scalar]) {
    let Some(looked) = function.looks_up().filter(|_| !args.is_empty()) else { return };
    let look_up = needs.looks_up.get_or_insert_default();
    look_up.principals |= looked == Looked::Principals || function.name == "HAS_PERMS_BY_NAME";
    look_up.access |= matches!(function.name, "HAS_DBACCESS" | "HAS_PERMS_BY_NAME");
    if looked != Looked::Objects {
        return;
    }
    match args.first() {
        Some(named) if function.name == "OBJECT_ID" && !named.has_leaf() => {
            look_up.names.push(named.clone());
        }
        _ => look_up.whole = true,
    }
    let databases = &mut look_up.databases;
    let named = match args.first().map(|arg| &arg.node) {
        Some(Node::Const(Value::Text(text))) => wanted::database_in(text),
        _ => None,
    };
    let database = named.or_else(|| around.map(str::to_owned)).unwrap_or_default();
    if !databases.contains(&database) {
        databases.push(database);
    }
    // ids do not identify a database: those of the current one are meant
    if !databases.iter().any(String::is_empty) {
        databases.push(String::new());
    }
}

/// Refuses an aggregate over these tables whose argument has columns of other queries alone: SQLite
/// would take it for one of theirs.
fn refuse_outer(own: &[SourceScope], arg: &Scalar) -> Result<()> {
    let (mut any, mut inner) = (false, false);
    arg.walk(&mut |part| {
        match &part.node {
            Node::Column(column) => {
                any = true;
                inner |= own.iter().any(|source| source.id == column.source);
            }
            Node::Query(_) | Node::Shared(_) => inner = true,
            _ => {}
        }
        true
    });
    match any && !inner {
        true => Err(Error::feature("an aggregate of nothing but columns from outside of APPLY")),
        false => Ok(()),
    }
}

fn sum(
    name: &str,
    arg: Scalar,
    made: impl Fn(AggregateFunction, Vec<Scalar>) -> Aggregate,
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
        return Ok(computed(ty, true, made(AggregateFunction::Sum(ty), vec![arg])));
    }
    let arg = arg.shared();
    let sum = computed(ty, true, made(AggregateFunction::Sum(ty), vec![arg.clone()]));
    let count = computed(SqlType::BigInt, false, made(AggregateFunction::Count, vec![arg]));
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
    value.label.listed(value.ty, "ORDER BY", 0)?;
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
