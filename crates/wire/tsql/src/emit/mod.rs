//! The emitter: bound expressions to SQLite's text.
//!
//! Columns, comparisons, conditions and CASE become SQLite's own, so that indexes are used.
//! Everything else becomes a *kernel*: the expression itself, which SQLite calls as the function
//! `tsql_eval` with the columns and parameters that it reads.

pub(crate) mod aggregates;
pub(crate) mod eval;
pub(crate) mod kernels;
pub(crate) mod sqlite;

use tdekit_wire_tds::{SqlType, Value};

use crate::ast::CmpOp;
use crate::bind::Binder;
use crate::bound::{Bound, Node};
use crate::emit::kernels::Kernel;
use crate::error::{Error, Result};
use crate::functions::func::Func;
use crate::value::{Family, family, is_text, storage, units};

/// Maximum number of constants that become parameters of a statement; more are written into its
/// text. SQLite allows 32,766 parameters: the others are for variables and values from the session.
const PARAMETERS: usize = 16_000;

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

/// Returns true if a stored value of `from` equals the stored value of `to`.
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
    /// Returns the expression as SQLite's text.
    pub(crate) fn emit_text(&mut self, bound: &Bound) -> Result<String> {
        match &bound.node {
            Node::Leaf(sql) => Ok(sql.clone()),
            Node::Const(value) if self.inline => literal(value, bound.ty),
            Node::Null(_) => Ok("NULL".to_owned()),
            Node::Const(value) if self.params.len() >= PARAMETERS => self.written(value, bound),
            Node::Var(slot) => self.variable_parameter(*slot, bound),
            Node::Const(_) => Ok(self.parameter(bound.clone())),
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
            Node::Like { text, pattern, escape } if !self.inline => {
                let kernel = self.kernel(bound)?;
                let range = self.like_range(text, pattern, escape.as_deref())?;
                Ok(range.map_or(kernel.clone(), |range| format!("({range}{kernel})")))
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

    /// Returns the range that LIKE with a pattern that is constant for all rows implies for a
    /// column, followed by AND, so that an index is searched. [`Plan::text`] omits it if the
    /// pattern turns out to begin with a wildcard.
    fn like_range(
        &mut self,
        text: &Bound,
        pattern: &Bound,
        escape: Option<&Bound>,
    ) -> Result<Option<String>> {
        let Node::Leaf(column) = &text.node else { return Ok(None) };
        let plain = column.starts_with('"') && !column.contains(['(', ' ']);
        if !plain || !is_text(text.ty) || !storage::comparable(text.ty) {
            return Ok(None);
        }
        let args: Vec<Bound> = std::iter::once(pattern).chain(escape).cloned().collect();
        let mut fixed = true;
        for arg in &args {
            arg.walk(&mut |part| {
                fixed &= match &part.node {
                    Node::Leaf(_) | Node::Arg(_) | Node::Null(_) => false,
                    Node::Call(func, _) => func.is_pure() || func.is_session() && !func.is_random(),
                    _ => true,
                };
                fixed
            });
        }
        if !fixed {
            return Ok(None);
        }
        let ty = SqlType::NVarChar(tdekit_wire_tds::Length::Max);
        let bound = |upper: bool| {
            let node = Node::Call(Func::LikeBound(upper), args.clone());
            crate::bind::typing::folded(Bound::new(ty, true, node))
        };
        let (low, high) = (bound(false), bound(true));
        if matches!(low.node, Node::Const(Value::Null)) {
            return Ok(None);
        }
        let (low, high) = (self.parameter(low), self.parameter(high));
        let number = low.trim_start_matches('?').to_owned();
        Ok(Some(format!(
            "\0{number}\0{column} COLLATE TSQL > {low} AND {column} COLLATE TSQL < {high} AND \0"
        )))
    }

    fn joined(&mut self, items: &[Bound], with: &str) -> Result<String> {
        // SQLite limits the depth of a tree, so long chains become balanced ones
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

    /// Writes a constant into the text, beyond those that are parameters.
    fn written(&mut self, value: &Value<'static>, bound: &Bound) -> Result<String> {
        match storage::store(value, bound.ty)? {
            // SQLite does not guarantee that it reads digits back as exactly this number
            rusqlite::types::Value::Real(_) => self.kernel(bound),
            rusqlite::types::Value::Text(text) if text.contains('\0') => self.kernel(bound),
            _ => literal(value, bound.ty),
        }
    }

    /// Returns a variable's parameter: one, however often it is used.
    fn variable_parameter(&mut self, slot: usize, bound: &Bound) -> Result<String> {
        let known = self
            .variable_params
            .get(&slot)
            .copied()
            .filter(|at| self.params.get(*at).is_some_and(|param| param.ty == bound.ty));
        if let Some(at) = known {
            return Ok(format!("?{}", at + 1));
        }
        self.variable_params.insert(slot, self.params.len());
        Ok(self.parameter(bound.clone()))
    }

    /// Returns a parameter of the statement: the expression is evaluated before SQLite runs.
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
        let mut expr = bound.clone();
        self.hollow(&mut expr, &mut args, &mut texts, &mut pure);
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

    /// Puts arguments in place of values from SQLite or the session.
    fn hollow(
        &mut self,
        bound: &mut Bound,
        args: &mut Vec<SqlType>,
        texts: &mut Vec<String>,
        pure: &mut bool,
    ) {
        let text = match &bound.node {
            Node::Leaf(sql) => Some(sql.clone()),
            Node::Var(_) => Some(self.parameter(bound.clone())),
            Node::Call(func, _) if func.is_session() && !bound.has_leaf() => {
                Some(self.parameter(bound.clone()))
            }
            _ => None,
        };
        if let Some(text) = text {
            let known = texts.iter().position(|known| *known == text);
            let index = known.filter(|index| args[*index] == bound.ty).unwrap_or_else(|| {
                texts.push(text);
                args.push(bound.ty);
                texts.len() - 1
            });
            bound.node = Node::Arg(index);
            return;
        }
        if matches!(&bound.node, Node::Call(func, _) if !func.is_pure()) {
            *pure = false;
        }
        bound.children_mut(&mut |part| self.hollow(part, args, texts, pure));
    }
}

/// Returns a constant as text, for definitions that stay in a schema.
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
            let digits = hex::encode(bytes);
            format!("x'{digits}'")
        }
    })
}
