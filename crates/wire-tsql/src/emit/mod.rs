//! The emitter: bound expressions to SQLite's text.
//!
//! Columns, comparisons, conditions and CASE become SQLite's own, so that indexes are used.
//! Everything else becomes a *kernel*: the expression itself, which SQLite calls as the function
//! `tsql_eval` with the columns and parameters that it reads.

pub(crate) mod aggregates;
pub(crate) mod eval;
pub(crate) mod sqlite;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tdekit_wire_tds::{SqlType, Value};

use crate::ast::CmpOp;
use crate::bind::{Binder, Bound, Node};
use crate::catalog::facts::Snapshot;
use crate::error::{Error, Result};
use crate::functions::Func;
use crate::value::dateparse::Order;
use crate::value::{Family, family, is_text, storage, units};

/// An expression that SQLite calls, with the types of its arguments.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) expr: Bound,
    pub(crate) args: Vec<SqlType>,
    /// It looks objects up.
    pub(crate) looks_up: bool,
}

#[derive(Debug, Default)]
struct Registry {
    next: i64,
    kernels: HashMap<i64, Arc<Kernel>>,
    /// The error behind a statement that SQLite ended because a function failed.
    failure: Option<Error>,
    /// The next value of the identity column that is being filled, and its step.
    identity: Option<(i64, i64)>,
    last_identity: Option<i64>,
    /// What functions over columns look objects up in.
    snapshot: Option<Arc<Snapshot>>,
}

/// The kernels of one connection, and how its session reads dates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernels(Arc<Mutex<Registry>>, Arc<Formats>);

/// SET DATEFORMAT and SET DATEFIRST, for kernels.
#[derive(Debug, Default)]
struct Formats {
    order: AtomicU8,
    datefirst: AtomicU8,
}

/// Keeps a kernel alive.
#[derive(Debug)]
pub(crate) struct Guard {
    id: i64,
    kernels: Kernels,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kernels.with(|registry| registry.kernels.remove(&self.id));
    }
}

impl Kernels {
    fn with<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn register(&self, kernel: Kernel) -> Guard {
        let id = self.with(|registry| {
            registry.next += 1;
            registry.kernels.insert(registry.next, Arc::new(kernel));
            registry.next
        });
        Guard { id, kernels: self.clone() }
    }

    pub(crate) fn find(&self, id: i64) -> Option<Arc<Kernel>> {
        self.with(|registry| registry.kernels.get(&id).cloned())
    }

    pub(crate) fn fail(&self, error: Error) {
        self.with(|registry| registry.failure.get_or_insert(error).clone());
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.with(|registry| registry.failure.take())
    }

    pub(crate) fn set_formats(&self, order: Order, datefirst: i64) {
        let order = match order {
            Order::Mdy => 0,
            Order::Dmy => 1,
            Order::Ymd => 2,
        };
        self.1.order.store(order, Ordering::Relaxed);
        self.1.datefirst.store(u8::try_from(datefirst).unwrap_or(7), Ordering::Relaxed);
    }

    pub(crate) fn formats(&self) -> (Order, i64) {
        let order = match self.1.order.load(Ordering::Relaxed) {
            1 => Order::Dmy,
            2 => Order::Ymd,
            _ => Order::Mdy,
        };
        match self.1.datefirst.load(Ordering::Relaxed) {
            0 => (order, 7),
            day => (order, i64::from(day)),
        }
    }

    pub(crate) fn set_snapshot(&self, snapshot: Option<Arc<Snapshot>>) {
        self.with(|registry| registry.snapshot = snapshot);
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.with(|registry| registry.snapshot.clone())
    }

    pub(crate) fn begin_identity(&self, next: i64, step: i64) {
        self.with(|registry| {
            registry.identity = Some((next, step));
            registry.last_identity = None;
        });
    }

    /// The next identity value; None beyond 64 bits.
    pub(crate) fn next_identity(&self) -> Option<i64> {
        self.with(|registry| {
            let (next, step) = registry.identity?;
            registry.identity = Some((next.checked_add(step)?, step));
            registry.last_identity = Some(next);
            Some(next)
        })
    }

    pub(crate) fn last_identity(&self) -> Option<i64> {
        self.with(|registry| registry.last_identity)
    }
}

fn operator(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "=",
        CmpOp::Ne => "<>",
        CmpOp::Lt => "<",
        CmpOp::Le => "<=",
        CmpOp::Gt => ">",
        CmpOp::Ge => ">=",
    }
}

/// Whether a value of `from`, as stored, is the value of `to` as stored.
fn same_storage(from: SqlType, to: SqlType) -> bool {
    use SqlType as T;
    match (from, to) {
        _ if from == to => true,
        (T::Bit | T::TinyInt | T::SmallInt | T::Int, _) if family(to) == Family::Int => {
            to != T::Bit && wider_int(from, to)
        }
        (T::Decimal { precision: p1, scale: s1 }, T::Decimal { precision: p2, scale: s2 }) => {
            s1 == s2 && p1 <= p2 && (p1 <= 18) == (p2 <= 18)
        }
        (T::SmallMoney, T::Money) | (T::Real, T::Float) => true,
        (T::VarChar(_), T::VarChar(_) | T::NVarChar(_))
        | (T::NVarChar(_), T::NVarChar(_))
        | (T::Char(_), T::VarChar(_) | T::NVarChar(_))
        | (T::NChar(_), T::NVarChar(_)) => {
            let (Some(from), Some(to)) =
                (crate::value::length_of(from), crate::value::length_of(to))
            else {
                return false;
            };
            fits(units(from), units(to)) || fits(from, to)
        }
        (T::Time(a), T::Time(b)) | (T::DateTime2(a), T::DateTime2(b)) => a <= b,
        _ => false,
    }
}

fn fits(from: tdekit_wire_tds::Length, to: tdekit_wire_tds::Length) -> bool {
    use tdekit_wire_tds::Length;
    match (from, to) {
        (_, Length::Max) => true,
        (Length::Of(from), Length::Of(to)) => from <= to,
        (Length::Max, Length::Of(_)) => false,
    }
}

fn wider_int(from: SqlType, to: SqlType) -> bool {
    let rank = |ty| match ty {
        SqlType::Bit => 0,
        SqlType::TinyInt => 1,
        SqlType::SmallInt => 2,
        SqlType::Int => 3,
        _ => 4,
    };
    rank(from) <= rank(to)
}

impl Binder<'_> {
    /// The expression as SQLite's text.
    pub(crate) fn emit_text(&mut self, bound: &Bound) -> Result<String> {
        match &bound.node {
            Node::Leaf(sql) => Ok(sql.clone()),
            Node::Const(value) if self.inline => literal(value, bound.ty),
            Node::Null(_) => Ok("NULL".to_owned()),
            Node::Const(_) | Node::Var(_) => Ok(self.parameter(bound.clone())),
            Node::Call(func, _) if func.is_session() && !bound.has_leaf() => {
                Ok(self.parameter(bound.clone()))
            }
            Node::Convert { inner, style: None, .. } if same_storage(inner.ty, bound.ty) => {
                self.emit_text(inner)
            }
            Node::Assign { inner, .. } if same_storage(inner.ty, bound.ty) => self.emit_text(inner),
            Node::Compare(op, left, right) if storage::comparable(left.ty) => {
                let collate = if is_text(left.ty) { " COLLATE TSQL" } else { "" };
                let (left, right) = (self.emit_text(left)?, self.emit_text(right)?);
                Ok(format!("({left}{collate} {} {right})", operator(*op)))
            }
            Node::And(items) => self.joined(items, " AND "),
            Node::Or(items) => self.joined(items, " OR "),
            Node::Not(inner) => Ok(format!("(NOT {})", self.emit_text(inner)?)),
            Node::IsNull(inner, negated) => {
                let not = if *negated { "NOT " } else { "" };
                Ok(format!("({} IS {not}NULL)", self.emit_text(inner)?))
            }
            Node::InList(left, items) if storage::comparable(left.ty) => {
                let collate = if is_text(left.ty) { " COLLATE TSQL" } else { "" };
                let left = self.emit_text(left)?;
                let items = self.joined_by(items, ",")?;
                Ok(format!("({left}{collate} IN ({items}))"))
            }
            Node::Case(whens, otherwise) => {
                let mut sql = "CASE".to_owned();
                for (when, then) in whens {
                    let (when, then) = (self.emit_text(when)?, self.emit_text(then)?);
                    sql.push_str(&format!(" WHEN {when} THEN {then}"));
                }
                if let Some(otherwise) = otherwise {
                    sql.push_str(&format!(" ELSE {}", self.emit_text(otherwise)?));
                }
                sql.push_str(" END");
                Ok(format!("({sql})"))
            }
            Node::Call(Func::Coalesce, args) => {
                let args = self.joined_by(args, ",")?;
                Ok(format!("coalesce({args})"))
            }
            _ => self.kernel(bound),
        }
    }

    fn joined(&mut self, items: &[Bound], with: &str) -> Result<String> {
        // SQLite bounds the depth of a tree, so long chains become balanced ones
        if items.len() > 64 {
            let (left, right) = items.split_at(items.len() / 2);
            return Ok(format!(
                "({}{with}{})",
                self.joined(left, with)?,
                self.joined(right, with)?
            ));
        }
        Ok(format!("({})", self.joined_by(items, with)?))
    }

    pub(crate) fn joined_by(&mut self, items: &[Bound], with: &str) -> Result<String> {
        let texts = items.iter().map(|item| self.emit_text(item)).collect::<Result<Vec<_>>>()?;
        Ok(texts.join(with))
    }

    /// A parameter of the statement: the expression is computed before SQLite runs.
    pub(crate) fn parameter(&mut self, bound: Bound) -> String {
        self.params.push(bound);
        format!("?{}", self.params.len())
    }

    fn kernel(&mut self, bound: &Bound) -> Result<String> {
        if self.inline {
            return Err(Error::feature("this expression in a constraint"));
        }
        let mut args = Vec::new();
        let mut texts = Vec::new();
        let mut pure = true;
        let expr = self.hollowed(bound, &mut args, &mut texts, &mut pure);
        if texts.len() > 100 {
            return Err(Error::NestedTooDeep {});
        }
        let mut looks_up = false;
        expr.walk(&mut |part| {
            looks_up |= matches!(&part.node, Node::Call(func, _) if func.is_session());
            !looks_up
        });
        let guard = self.kernels.register(Kernel { expr, args, looks_up });
        let name = if pure { "tsql_eval" } else { "tsql_eval_each" };
        let mut sql = format!("{name}({}", guard.id);
        self.guards.push(guard);
        for text in texts {
            sql.push_str(", ");
            sql.push_str(&text);
        }
        sql.push(')');
        Ok(sql)
    }

    /// The expression with arguments in place of what SQLite or the session gives.
    fn hollowed(
        &mut self,
        bound: &Bound,
        args: &mut Vec<SqlType>,
        texts: &mut Vec<String>,
        pure: &mut bool,
    ) -> Bound {
        let mut take = |this: &mut Self, text: Option<String>| {
            let text = text.unwrap_or_else(|| this.parameter(bound.clone()));
            let index = match texts.iter().position(|known| *known == text) {
                Some(index) if args[index] == bound.ty => index,
                _ => {
                    texts.push(text);
                    args.push(bound.ty);
                    texts.len() - 1
                }
            };
            Bound::new(bound.ty, bound.nullable, Node::Arg(index))
        };
        match &bound.node {
            Node::Leaf(sql) => return take(self, Some(sql.clone())),
            Node::Var(_) => return take(self, None),
            Node::Call(func, _) if func.is_session() && !bound.has_leaf() => {
                return take(self, None);
            }
            _ => {}
        }
        if matches!(&bound.node, Node::Call(func, _) if !func.is_pure()) {
            *pure = false;
        }
        let mut again =
            |this: &mut Self, part: &Bound| Box::new(this.hollowed(part, args, texts, pure));
        let node = match &bound.node {
            Node::Convert { inner, style, lenient } => Node::Convert {
                inner: again(self, inner),
                style: style.as_ref().map(|style| again(self, style)),
                lenient: *lenient,
            },
            Node::Assign { inner, table, column } => Node::Assign {
                inner: again(self, inner),
                table: table.clone(),
                column: column.clone(),
            },
            Node::Arith(op, a, b) => Node::Arith(*op, again(self, a), again(self, b)),
            Node::Concat(a, b) => Node::Concat(again(self, a), again(self, b)),
            Node::Negate(inner) => Node::Negate(again(self, inner)),
            Node::BitNot(inner) => Node::BitNot(again(self, inner)),
            Node::Compare(op, a, b) => Node::Compare(*op, again(self, a), again(self, b)),
            Node::And(items) => Node::And(items.iter().map(|item| *again(self, item)).collect()),
            Node::Or(items) => Node::Or(items.iter().map(|item| *again(self, item)).collect()),
            Node::Not(inner) => Node::Not(again(self, inner)),
            Node::IsNull(inner, negated) => Node::IsNull(again(self, inner), *negated),
            Node::Like { text, pattern, escape } => Node::Like {
                text: again(self, text),
                pattern: again(self, pattern),
                escape: escape.as_ref().map(|escape| again(self, escape)),
            },
            Node::InList(left, items) => Node::InList(
                again(self, left),
                items.iter().map(|item| *again(self, item)).collect(),
            ),
            Node::Case(whens, otherwise) => Node::Case(
                whens.iter().map(|(when, then)| (*again(self, when), *again(self, then))).collect(),
                otherwise.as_ref().map(|value| again(self, value)),
            ),
            Node::Call(func, items) => {
                Node::Call(*func, items.iter().map(|item| *again(self, item)).collect())
            }
            Node::Const(_) | Node::Null(_) | Node::Var(_) | Node::Arg(_) | Node::Leaf(_) => {
                bound.node.clone()
            }
        };
        Bound::new(bound.ty, bound.nullable, node)
    }
}

/// A constant as text, for what stays in a schema.
pub(crate) fn literal(value: &Value<'_>, ty: SqlType) -> Result<String> {
    use rusqlite::types::Value as Stored;
    Ok(match storage::store(value, ty)? {
        Stored::Null => "NULL".to_owned(),
        Stored::Integer(int) => int.to_string(),
        Stored::Real(real) => format!("{real:e}"),
        Stored::Text(text) => {
            if text.contains('\0') {
                return Err(Error::feature("a zero character in a constraint"));
            }
            format!("'{}'", text.replace('\'', "''"))
        }
        Stored::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        }
    })
}
