//! Expressions as SQLite's text.
//!
//! Columns, comparisons, conditions and CASE become SQLite's own, so that indexes are used.
//! Everything else becomes a *kernel*: the expression itself, which SQLite calls as the function
//! `tsql_eval` with the columns and parameters that it reads.

use tdekit_wire_tds::{Collation, SqlType, Value};

use super::kernels::Kernel;
use super::sql::Sql;
use super::{Renderer, literal};
use crate::ast::CmpOp;
use crate::error::{Error, Result};
use crate::functions::typing::same_page;
use crate::name::ROW_ID;
use crate::plan::func::{Func, Json};
use crate::plan::scalar::{Aggregate, AggregateFunction, Node, Scalar, Shared, Subquery, Window};
use crate::plan::table::Sequence;
use crate::plan::{Cell, ColumnRef, Field};
use crate::value::collation::{OWN, sqlite_name};
use crate::value::{Family, family, is_text, storage, units};

/// Maximum number of constants that become parameters of a statement; more are written into its
/// text. SQLite allows 32,766 parameters: the others are for variables and values from the session.
const PARAMETERS: usize = 16_000;

fn operator(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => " = ",
        CmpOp::Ne => " <> ",
        CmpOp::Lt => " < ",
        CmpOp::Le => " <= ",
        CmpOp::Gt => " > ",
        CmpOp::Ge => " >= ",
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

/// Returns true if a conversion changes nothing of what is stored.
fn is_stored_alike(from: &Scalar, to: &Scalar) -> bool {
    same_storage(from.ty, to.ty) && same_page(from, to.ty, to.collation())
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

/// The next value of the identity column that is being filled.
pub(super) const IDENTITY: &str = "tsql_identity()";

/// Writes the collation of comparisons, after a value.
pub(super) fn collate(value: &Scalar, out: &mut Sql) {
    if is_text(value.ty) {
        out.push(" COLLATE ");
        match value.collation() {
            own if own == Collation::default() => out.push(OWN),
            other => out.push(&sqlite_name(other)),
        }
    }
}

impl Renderer<'_> {
    /// Writes an expression.
    pub(super) fn scalar(&mut self, bound: &Scalar, out: &mut Sql) -> Result<()> {
        match &bound.node {
            Node::Column(column) => column_name(column, out),
            Node::Shared(shared) => {
                self.once(shared, out, |renderer, inner, out| renderer.scalar(inner, out))?;
            }
            Node::Aggregate(shared) => self.once(shared, out, Renderer::aggregate)?,
            Node::Query(shared) => self.once(shared, out, Renderer::subquery)?,
            Node::Identity => out.push(IDENTITY),
            Node::Version(schema) => row_version(schema, out),
            Node::Next(sequence, place) => next_value(sequence, *place, out),
            Node::Const(value) if self.inline => out.push(&literal(value, bound.ty)?),
            Node::Null(_) => out.push("NULL"),
            Node::Const(value) if self.params.len() >= PARAMETERS => {
                self.written(value, bound, out)?;
            }
            Node::Var(slot) => self.variable(*slot, bound, out),
            Node::Const(_) | Node::Given(_) => self.parameter(bound.clone(), out),
            Node::Call(func, _) if func.is_session() && !bound.has_leaf() => {
                self.parameter(bound.clone(), out);
            }
            Node::Convert { inner, style: None, .. } if is_stored_alike(inner, bound) => {
                self.scalar(inner, out)?;
            }
            Node::Assign { inner, .. } if is_stored_alike(inner, bound) => {
                self.scalar(inner, out)?;
            }
            Node::Compare(op, left, right) if storage::comparable(left.ty) => {
                out.push("(");
                self.scalar(left, out)?;
                collate(left, out);
                out.push(operator(*op));
                self.scalar(right, out)?;
                out.push(")");
            }
            Node::Same(left, right) => {
                self.scalar(left, out)?;
                out.push(" = ");
                self.scalar(right, out)?;
            }
            Node::And(items) => self.balanced(items, " AND ", out)?,
            Node::Or(items) => self.balanced(items, " OR ", out)?,
            Node::Not(inner) => {
                out.push("(NOT ");
                self.scalar(inner, out)?;
                out.push(")");
            }
            Node::IsNull(inner, negated) => {
                out.push("(");
                self.scalar(inner, out)?;
                out.push(if *negated { " IS NOT NULL)" } else { " IS NULL)" });
            }
            Node::InList(left, items) if storage::comparable(left.ty) => {
                out.push("(");
                self.scalar(left, out)?;
                collate(left, out);
                out.push(" IN (");
                self.list(items, ",", out)?;
                out.push("))");
            }
            Node::Like { text, pattern, escape } if !self.inline => {
                let range = self.like_range(text, pattern, escape.as_deref());
                self.like(bound, range, out)?;
            }
            Node::Case(whens, otherwise) => self.case(whens, otherwise.as_deref(), out)?,
            Node::Call(Func::Coalesce, args) => {
                out.push("coalesce(");
                self.list(args, ",", out)?;
                out.push(")");
            }
            Node::Call(Func::Json(Json::Test), args) if self.inline => {
                self.is_json(&args[0], out)?;
            }
            _ => self.kernel(bound, out)?,
        }
        Ok(())
    }

    /// Writes a LIKE, behind the range of its column that its pattern begins with, if it has one.
    fn like(
        &mut self,
        bound: &Scalar,
        range: Option<(&ColumnRef, Scalar, Scalar)>,
        out: &mut Sql,
    ) -> Result<()> {
        let Some((column, low, high)) = range else { return self.kernel(bound, out) };
        out.push("(");
        self.range(column, low, high, out);
        self.kernel(bound, out)?;
        out.push(")");
        Ok(())
    }

    /// Writes ISJSON in SQLite's own words, for a CHECK.
    fn is_json(&mut self, arg: &Scalar, out: &mut Sql) -> Result<()> {
        let mut text = Sql::default();
        self.scalar(arg, &mut text)?;
        out.push("(CASE WHEN json_valid(");
        out.push_sql(&text);
        out.push(", 1) THEN json_type(");
        out.push_sql(&text);
        out.push(") IN ('object', 'array') ELSE json_valid(");
        out.push_sql(&text);
        out.push(", 1) END)");
        Ok(())
    }

    fn case(
        &mut self,
        whens: &[(Scalar, Scalar)],
        otherwise: Option<&Scalar>,
        out: &mut Sql,
    ) -> Result<()> {
        out.push("(CASE");
        for (when, then) in whens {
            out.push(" WHEN ");
            self.scalar(when, out)?;
            out.push(" THEN ");
            self.scalar(then, out)?;
        }
        if let Some(otherwise) = otherwise {
            out.push(" ELSE ");
            self.scalar(otherwise, out)?;
        }
        out.push(" END)");
        Ok(())
    }

    /// Writes a part that may have copies: all of them have the text of the first.
    fn once<T>(
        &mut self,
        shared: &Shared<T>,
        out: &mut Sql,
        render: impl FnOnce(&mut Self, &T, &mut Sql) -> Result<()>,
    ) -> Result<()> {
        if !shared.has_copies() {
            return render(self, &shared.0, out);
        }
        if let Some(known) = self.known.get(&shared.place()) {
            out.push_sql(known);
            return Ok(());
        }
        let mut made = Sql::default();
        render(self, &shared.0, &mut made)?;
        out.push_sql(&made);
        self.known.insert(shared.place(), made);
        Ok(())
    }

    fn aggregate(&mut self, call: &Aggregate, out: &mut Sql) -> Result<()> {
        match call.function {
            AggregateFunction::Sum(SqlType::Decimal { scale, .. }) => {
                out.push("tsql_sum_dec");
                out.push_number(scale.into());
            }
            function => out.push(function_name(function)),
        }
        out.push("(");
        // a minimum is the same without duplicates
        if call.distinct
            && !matches!(call.function, AggregateFunction::Min | AggregateFunction::Max)
        {
            out.push("DISTINCT ");
        }
        match call.function {
            AggregateFunction::CountAll => out.push("*"),
            _ => self.list(&call.args, ", ", out)?,
        }
        if let (
            AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max,
            Some(arg),
        ) = (call.function, call.args.first())
        {
            collate(arg, out);
        }
        if !call.order.is_empty() {
            out.push(" ORDER BY ");
            self.sorts(&call.order, out)?;
        }
        out.push(")");
        match &call.over {
            Some(over) => self.once(over, out, Renderer::window),
            None => Ok(()),
        }
    }

    fn window(&mut self, window: &Window, out: &mut Sql) -> Result<()> {
        out.push(" OVER (");
        if !window.partition.is_empty() {
            out.push("PARTITION BY ");
            self.sorts(&window.partition, out)?;
            out.push(" ");
        }
        if !window.order.is_empty() {
            out.push("ORDER BY ");
            self.sorts(&window.order, out)?;
            out.push(" ");
        }
        out.push(window.frame.as_deref().unwrap_or_default());
        out.push(")");
        Ok(())
    }

    fn subquery(&mut self, subquery: &Subquery, out: &mut Sql) -> Result<()> {
        match subquery {
            Subquery::One(query) => {
                out.push("(");
                self.query(query, out)?;
            }
            Subquery::Single { query, alias } => {
                out.push("(SELECT tsql_single(\"~0\") FROM (");
                self.query(query, out)?;
                out.push(") AS ");
                out.push_alias(*alias);
            }
            Subquery::Exists(query) => {
                out.push("EXISTS (");
                self.query(query, out)?;
            }
            Subquery::In { left, query } => {
                out.push("(");
                self.scalar(left, out)?;
                collate(left, out);
                out.push(" IN (");
                self.query(query, out)?;
                out.push(")");
            }
        }
        out.push(")");
        Ok(())
    }

    /// Returns the column and the range of its values that LIKE implies, if the pattern is constant
    /// for all rows: with it, an index is searched.
    fn like_range<'s>(
        &self,
        text: &'s Scalar,
        pattern: &Scalar,
        escape: Option<&Scalar>,
    ) -> Option<(&'s ColumnRef, Scalar, Scalar)> {
        let column = text.as_column()?;
        let own = text.collation() == Collation::default();
        if !is_text(text.ty) || !storage::comparable(text.ty) || !own {
            return None;
        }
        let args: Vec<Scalar> = std::iter::once(pattern).chain(escape).cloned().collect();
        let mut fixed = true;
        for arg in &args {
            arg.walk(&mut |part| {
                fixed &= match &part.node {
                    Node::Arg(_) | Node::Null(_) | Node::Invoke(_) => false,
                    leaf if leaf.is_leaf() => false,
                    Node::Call(func, _) => func.is_pure() || func.is_session() && !func.is_random(),
                    _ => true,
                };
                fixed
            });
        }
        if !fixed {
            return None;
        }
        let ty = SqlType::NVarChar(tdekit_wire_tds::Length::Max);
        let bound = |upper: bool| {
            let node = Node::Call(Func::LikeBound(upper), args.clone());
            crate::functions::typing::folded(Scalar::new(ty, true, node))
        };
        let (low, high) = (bound(false), bound(true));
        let none = matches!(low.node, Node::Const(Value::Null));
        (!none).then_some((column, low, high))
    }

    /// Writes a range, which the text omits if the pattern turns out to begin with a wildcard.
    fn range(&mut self, column: &ColumnRef, low: Scalar, high: Scalar, out: &mut Sql) {
        let start = out.len();
        column_name(column, out);
        out.push(" COLLATE TSQL > ");
        let number = self.params.len();
        self.parameter(low, out);
        out.push(" AND ");
        column_name(column, out);
        out.push(" COLLATE TSQL < ");
        self.parameter(high, out);
        out.push(" AND ");
        out.optional_from(start, number);
    }

    fn balanced(&mut self, items: &[Scalar], with: &str, out: &mut Sql) -> Result<()> {
        out.push("(");
        // SQLite limits the depth of a tree, so long chains become balanced ones
        if items.len() > 64 {
            let (left, right) = items.split_at(items.len() / 2);
            self.balanced(left, with, out)?;
            out.push(with);
            self.balanced(right, with, out)?;
        } else {
            self.list(items, with, out)?;
        }
        out.push(")");
        Ok(())
    }

    pub(super) fn list(&mut self, items: &[Scalar], with: &str, out: &mut Sql) -> Result<()> {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push(with);
            }
            self.scalar(item, out)?;
        }
        Ok(())
    }

    /// Writes a constant into the text, beyond those that are parameters.
    fn written(&mut self, value: &Value<'static>, bound: &Scalar, out: &mut Sql) -> Result<()> {
        match storage::store(value, bound.ty)? {
            // SQLite does not guarantee that it reads digits back as exactly this number
            rusqlite::types::Value::Real(_) => self.kernel(bound, out),
            rusqlite::types::Value::Text(text) if text.contains('\0') => self.kernel(bound, out),
            _ => {
                out.push(&literal(value, bound.ty)?);
                Ok(())
            }
        }
    }

    /// Writes a variable's parameter: one, however often it is used.
    fn variable(&mut self, slot: usize, bound: &Scalar, out: &mut Sql) {
        let known = self
            .variables
            .get(&slot)
            .copied()
            .filter(|at| self.params.get(*at).is_some_and(|param| param.ty == bound.ty));
        if let Some(at) = known {
            return out.push_parameter(at);
        }
        self.variables.insert(slot, self.params.len());
        self.parameter(bound.clone(), out);
    }

    /// Writes a parameter of the statement: the expression is evaluated before SQLite runs.
    fn parameter(&mut self, bound: Scalar, out: &mut Sql) {
        out.push_parameter(self.params.len());
        self.params.push(bound);
    }

    fn kernel(&mut self, bound: &Scalar, out: &mut Sql) -> Result<()> {
        if self.inline {
            return Err(Error::feature("this expression in a constraint"));
        }
        let mut args = Vec::new();
        let mut pure = true;
        let mut expr = bound.clone();
        self.hollow(&mut expr, &mut args, &mut pure)?;
        if args.len() > 100 {
            return Err(Error::NestedTooDeep {});
        }
        let (mut looks_up, mut invokes, mut reads) = (false, false, false);
        expr.walk(&mut |part| {
            looks_up |= matches!(&part.node, Node::Call(func, _) if func.is_session());
            if let Node::Invoke(invoked) = &part.node {
                invokes = true;
                reads |= invoked.reads;
            }
            true
        });
        if invokes {
            self.invoked(&expr)?;
        }
        // a query within gives SQLite one value for all rows
        let mut once = reads;
        bound.walk(&mut |part| {
            once &= !part.node.is_of_sqlite();
            once
        });
        let types = args.iter().map(|(_, ty)| *ty).collect();
        let guard = self.kernels.register(Kernel { expr, args: types, looks_up, invokes });
        out.push(if once { "(SELECT " } else { "" });
        out.push(if pure { "tsql_eval(" } else { "tsql_eval_each(" });
        out.push_number(guard.id);
        self.guards.push(guard);
        for (text, _) in &args {
            out.push(", ");
            out.push_sql(text);
        }
        out.push(if once { "))" } else { ")" });
        Ok(())
    }

    /// Puts arguments in place of values from SQLite or the session.
    fn hollow(
        &mut self,
        bound: &mut Scalar,
        args: &mut Vec<(Sql, SqlType)>,
        pure: &mut bool,
    ) -> Result<()> {
        let session = matches!(&bound.node, Node::Call(func, _) if func.is_session());
        let mut text = Sql::default();
        if bound.node.is_of_sqlite() {
            self.scalar(bound, &mut text)?;
        } else if matches!(bound.node, Node::Var(_) | Node::Given(_))
            || session && !bound.has_leaf()
        {
            self.parameter(bound.clone(), &mut text);
        } else {
            *pure &= match &bound.node {
                Node::Call(func, _) => func.is_pure(),
                Node::Invoke(invoked) => !invoked.reads,
                _ => true,
            };
            let mut result = Ok(());
            bound.children_mut(&mut |part| {
                if result.is_ok() {
                    result = self.hollow(part, args, pure);
                }
            });
            return result;
        }
        let arg = (text, bound.ty);
        let index = args.iter().position(|known| *known == arg).unwrap_or_else(|| {
            args.push(arg);
            args.len() - 1
        });
        bound.node = Node::Arg(index);
        Ok(())
    }
}

/// Writes the name of a column.
pub(super) fn column_name(column: &ColumnRef, out: &mut Sql) {
    match column.field {
        Field::Ordinal => out.push("("),
        Field::Cell(_, Cell::Plain) => out.push("json_extract("),
        Field::Cell(_, Cell::Blob) => out.push("unhex(json_extract("),
        Field::Cell(_, Cell::Real) => out.push("tsql_real(json_extract("),
        _ => {}
    }
    if let Some(source) = column.source {
        out.push_alias(source);
        out.push(".");
    }
    match &column.field {
        Field::Named(name) => out.push_name(name),
        Field::Item(at) => out.push_item(*at),
        Field::Value(at) => {
            out.push("\"column");
            out.push_number(i64::try_from(at + 1).unwrap_or(i64::MAX));
            out.push("\"");
        }
        Field::Key(at) => {
            out.push("\"~k");
            out.push_number(i64::try_from(*at).unwrap_or(i64::MAX));
            out.push("\"");
        }
        Field::RowId => out.push(ROW_ID),
        Field::Piece => out.push("value"),
        Field::Ordinal => out.push("key + 1)"),
        Field::Cell(at, kind) => {
            out.push("value, '$[");
            out.push_number(i64::try_from(*at).unwrap_or(i64::MAX));
            out.push(if *kind == Cell::Plain { "]')" } else { "]'))" });
        }
    }
}

fn function_name(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::CountAll | AggregateFunction::Count => "count",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::Sum(SqlType::Int) => "tsql_sum_int",
        AggregateFunction::Sum(SqlType::BigInt) => "tsql_sum_bigint",
        AggregateFunction::Sum(SqlType::Money) => "tsql_sum_money",
        AggregateFunction::Sum(_) => "tsql_sum_float",
        AggregateFunction::Stdev => "tsql_stdev",
        AggregateFunction::StdevP => "tsql_stdevp",
        AggregateFunction::Var => "tsql_var",
        AggregateFunction::VarP => "tsql_varp",
        AggregateFunction::Join => "group_concat",
        AggregateFunction::Json => "tsql_json",
        AggregateFunction::Rows => "tsql_rows",
        AggregateFunction::RowNumber => "row_number",
        AggregateFunction::Rank => "rank",
        AggregateFunction::DenseRank => "dense_rank",
        AggregateFunction::PercentRank => "percent_rank",
        AggregateFunction::CumeDist => "cume_dist",
        AggregateFunction::NTile => "ntile",
        AggregateFunction::Lag => "lag",
        AggregateFunction::Lead => "lead",
        AggregateFunction::FirstValue => "first_value",
        AggregateFunction::LastValue => "last_value",
    }
}

/// Writes the next row version of a database.
pub(super) fn row_version(schema: &str, out: &mut Sql) {
    out.push("tsql_rowversion(");
    out.push_text(schema);
    out.push(")");
}

/// Writes the row's value of a sequence.
fn next_value(sequence: &Sequence, place: usize, out: &mut Sql) {
    out.push("tsql_next(");
    out.push_text(&sequence.schema);
    out.push(", ");
    out.push_text(&sequence.name);
    out.push(", ");
    out.push_number(i64::try_from(place).unwrap_or(i64::MAX));
    out.push(")");
}
