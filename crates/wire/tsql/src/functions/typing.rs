//! Types of expressions: the common one of several, conversions, operators. Constant expressions
//! are computed here.

use tdekit_wire_tds::{Collation, Length, SqlType, Value};

use crate::ast::{BinOp, CmpOp, UnOp};
use crate::error::{Error, Result};
use crate::functions::eval::{Env, eval};
use crate::plan::func::Func;
use crate::plan::label::{Label, joined};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::TableColumn;
use crate::value::decimal;
use crate::value::{
    Family, arith, as_decimal, common_type, explicit, family, implicit, is_national, is_text,
    length_of, type_name, units,
};

/// CASE over these branches, all converted to one type.
pub(crate) fn branches(whens: Vec<(Scalar, Scalar)>, otherwise: Option<Scalar>) -> Result<Scalar> {
    let values: Vec<&Scalar> = whens.iter().map(|(_, then)| then).chain(&otherwise).collect();
    let ty = common_of(values.iter().copied())?;
    if ty.is_none() && values.iter().all(|value| value.node == Node::Null(None)) {
        return Err(Error::CaseOfNulls {});
    }
    let nullable = otherwise.is_none() || values.iter().any(|value| value.nullable);
    let whens = whens
        .into_iter()
        .map(|(when, then)| Ok((when, fitted(then, ty)?)))
        .collect::<Result<Vec<_>>>()?;
    let otherwise = otherwise.map(|value| fitted(value, ty)).transpose()?;
    let label = joined(whens.iter().map(|(_, then)| then).chain(&otherwise), "CASE");
    let whens = whens.into_iter().map(|(when, then)| (when, within(then, label))).collect();
    let otherwise = otherwise.map(|value| Box::new(within(value, label)));
    Ok(Scalar::new(ty.unwrap_or(SqlType::Int), nullable, Node::Case(whens, otherwise)))
}

/// A part of a text of this label, in its code page.
fn within(part: Scalar, label: Label) -> Scalar {
    match label {
        Label::Implicit(_) | Label::Explicit(_) if is_text(part.ty) => {
            let own = part.label;
            match same_page(&part, part.ty, label.collation()) {
                true => Scalar { label: own, ..part },
                false => repaged(part, label),
            }
        }
        _ => part,
    }
}

/// Returns the common type of values. The word NULL and an undeclared parameter have no type; if
/// there is nothing else, the whole has none either.
pub(crate) fn common_of<'b>(
    values: impl IntoIterator<Item = &'b Scalar>,
) -> Result<Option<SqlType>> {
    let mut ty = None;
    for value in values.into_iter().filter(|value| value.node.is_typed()) {
        ty = Some(match ty {
            None => value.ty,
            Some(found) => common_type(found, value.ty)?,
        });
    }
    Ok(ty)
}

/// Converts the value to the type that [`common_of`] found. Without a type it is NULL, which is
/// sent as int, but this fixes no parameter's type.
pub(crate) fn fitted(value: Scalar, common: Option<SqlType>) -> Result<Scalar> {
    match common {
        Some(ty) => convert(value, ty),
        None => Ok(Scalar::constant(SqlType::Int, Value::Null)),
    }
}

/// Evaluates a constant expression unless that fails: errors are raised at run time.
pub(crate) fn folded(bound: Scalar) -> Scalar {
    let mut constant = true;
    bound.walk(&mut |part| {
        constant &= match &part.node {
            Node::Var(_) | Node::Arg(_) | Node::Given(_) | Node::Invoke(_) => false,
            leaf if leaf.is_leaf() => false,
            // depends on SET DATEFORMAT, DATEFIRST and LANGUAGE when the statement runs
            Node::Call(Func::Date(_), _) => false,
            Node::Call(Func::Format, args) if args.len() < 3 => false,
            Node::Call(func, _) => func.is_pure(),
            Node::Convert { inner, .. } | Node::Assign { inner, .. } => {
                let temporal = |ty| family(ty) == Family::Temporal;
                !(is_text(inner.ty) && temporal(part.ty) || temporal(inner.ty) && is_text(part.ty))
            }
            _ => true,
        };
        constant
    });
    if !constant {
        return bound;
    }
    match eval(&bound, &Env::empty()) {
        Ok(value) => {
            let label = bound.label;
            Scalar { label, ..Scalar::constant(bound.ty, value.into_owned()) }
        }
        Err(_) => bound,
    }
}

/// Converts as an assignment or an operator does; the conversion must be implicit.
pub(crate) fn convert(inner: Scalar, ty: SqlType) -> Result<Scalar> {
    if inner.ty == ty && inner.node.is_typed() {
        return Ok(inner);
    }
    if let Node::Null(open) = &inner.node {
        if let Some(cell) = open {
            cell.get_or_init(|| ty);
        }
        return Ok(Scalar::new(ty, true, Node::Const(Value::Null)));
    }
    if !implicit(inner.ty, ty) {
        let (from, to) = (type_name(inner.ty).to_owned(), type_name(ty).to_owned());
        return Err(if explicit(inner.ty, ty) {
            Error::NoImplicit { from, to }
        } else {
            Error::OperandClash { left: from, right: to }
        });
    }
    let nullable = inner.nullable;
    let node = Node::Convert { inner: Box::new(inner), style: None, lenient: false };
    Ok(folded(Scalar::new(ty, nullable, node)))
}

pub(crate) fn unary(op: UnOp, inner: Scalar) -> Result<Scalar> {
    let ty = inner.ty;
    let bad = |op: &str| Error::BadOperand { ty: type_name(ty).to_owned(), op: op.to_owned() };
    match op {
        UnOp::Plus => Ok(inner),
        UnOp::BitNot => {
            if family(ty) != Family::Int {
                return Err(bad("'~'"));
            }
            Ok(folded(Scalar::new(ty, inner.nullable, Node::BitNot(Box::new(inner)))))
        }
        UnOp::Minus => {
            let inner = if is_text(ty) { convert(inner, SqlType::Int)? } else { inner };
            match inner.ty {
                SqlType::Bit | SqlType::TinyInt => {
                    let wider = convert(inner, SqlType::SmallInt)?;
                    Ok(folded(Scalar::new(wider.ty, wider.nullable, Node::Negate(Box::new(wider)))))
                }
                _ if crate::value::is_numeric(inner.ty) => {
                    let (ty, nullable) = (inner.ty, inner.nullable);
                    Ok(folded(Scalar::new(ty, nullable, Node::Negate(Box::new(inner)))))
                }
                _ => Err(bad("minus")),
            }
        }
    }
}

/// Precision and scale in arithmetic: integer literals count their digits only.
fn digits_of(bound: &Scalar) -> Option<(u8, u8)> {
    if let (SqlType::Int, Node::Const(Value::Int(int))) = (bound.ty, &bound.node) {
        let digits = int.unsigned_abs().to_string().len();
        return Some((u8::try_from(digits).unwrap_or(10), 0));
    }
    as_decimal(bound.ty)
}

/// Bytes beside an integer are one: their last ones count.
fn beside_integer(left: Scalar, right: Scalar) -> Result<(Scalar, Scalar)> {
    match (family(left.ty), family(right.ty)) {
        (Family::Binary, Family::Int) => Ok((convert(left, right.ty)?, right)),
        (Family::Int, Family::Binary) => {
            let right = convert(right, left.ty)?;
            Ok((left, right))
        }
        _ => Ok((left, right)),
    }
}

pub(crate) fn binary(op: BinOp, left: Scalar, right: Scalar) -> Result<Scalar> {
    let (left, right) = adopt_null(left, right)?;
    if left.node.is_untyped() {
        return Ok(Scalar::constant(SqlType::Int, Value::Null));
    }
    let nullable = left.nullable || right.nullable;
    if op == BinOp::Add && concatenates(left.ty, right.ty) {
        return concat(left, right);
    }
    let bitwise = matches!(op, BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor);
    let (left, right) = if bitwise { beside_integer(left, right)? } else { (left, right) };
    let (l, r) = (family(left.ty), family(right.ty));
    let temporal = |ty| matches!(ty, SqlType::DateTime | SqlType::SmallDateTime);
    if temporal(left.ty) || temporal(right.ty) {
        if !matches!(op, BinOp::Add | BinOp::Sub) {
            return Err(arith::bad_operand(op, SqlType::DateTime));
        }
        let ok = |bound: &Scalar| {
            temporal(bound.ty) || crate::value::is_numeric(bound.ty) || is_text(bound.ty)
        };
        if !ok(&left) || !ok(&right) {
            return Err(incompatible(op, left.ty, right.ty));
        }
        let ty = if left.ty == SqlType::SmallDateTime && right.ty != SqlType::DateTime
            || right.ty == SqlType::SmallDateTime && left.ty != SqlType::DateTime
        {
            SqlType::SmallDateTime
        } else {
            SqlType::DateTime
        };
        let left = convert(left, SqlType::DateTime)?;
        let right = convert(right, SqlType::DateTime)?;
        let node = Node::Arith(op, Box::new(left), Box::new(right));
        return convert(Scalar::new(SqlType::DateTime, nullable, node), ty);
    }
    let arithmetic = |f| matches!(f, Family::Int | Family::Decimal | Family::Money | Family::Float);
    if !(arithmetic(l) || arithmetic(r)) {
        return Err(if l == r && left.ty == right.ty {
            arith::bad_operand(op, left.ty)
        } else {
            incompatible(op, left.ty, right.ty)
        });
    }
    if bitwise && !(l == Family::Int && r == Family::Int) {
        return Err(incompatible(op, left.ty, right.ty));
    }
    let common = common_type(left.ty, right.ty)?;
    match family(common) {
        Family::Decimal => {
            // text is first converted to the other side's type
            let left = if is_text(left.ty) { convert(left, right.ty)? } else { left };
            let right = if is_text(right.ty) { convert(right, left.ty)? } else { right };
            let (Some(a), Some(b)) = (digits_of(&left), digits_of(&right)) else {
                return Err(incompatible(op, left.ty, right.ty));
            };
            let (precision, scale) = decimal::result_type(op, a, b);
            let ty = SqlType::Decimal { precision, scale };
            let left = convert(left, SqlType::Decimal { precision: a.0, scale: a.1 })?;
            let right = convert(right, SqlType::Decimal { precision: b.0, scale: b.1 })?;
            let node = Node::Arith(op, Box::new(left), Box::new(right));
            Ok(folded(Scalar::new(ty, nullable, node)))
        }
        Family::Int | Family::Money | Family::Float => {
            // there is no arithmetic on bit
            let ty = if common == SqlType::Bit && !bitwise { SqlType::Int } else { common };
            if family(ty) == Family::Float && op == BinOp::Mod {
                return Err(incompatible(op, left.ty, right.ty));
            }
            if common == SqlType::Bit && !bitwise {
                return Err(arith::bad_operand(op, SqlType::Bit));
            }
            let left = convert(left, ty)?;
            let right = convert(right, ty)?;
            let node = Node::Arith(op, Box::new(left), Box::new(right));
            Ok(folded(Scalar::new(ty, nullable, node)))
        }
        _ => Err(incompatible(op, left.ty, right.ty)),
    }
}

/// The word NULL beside a value takes the value's type; two of them remain without one.
pub(crate) fn adopt_null(left: Scalar, right: Scalar) -> Result<(Scalar, Scalar)> {
    if left.node.is_untyped() && right.node.is_typed() {
        let left = convert(left, right.ty)?;
        return Ok((left, right));
    }
    if right.node.is_untyped() && left.node.is_typed() {
        let right = convert(right, left.ty)?;
        return Ok((left, right));
    }
    Ok((left, right))
}

fn incompatible(op: BinOp, left: SqlType, right: SqlType) -> Error {
    Error::BadOperands {
        left: type_name(left).to_owned(),
        right: type_name(right).to_owned(),
        op: arith::op_name(op).to_owned(),
    }
}

fn concatenates(left: SqlType, right: SqlType) -> bool {
    let joins = |ty| {
        is_text(ty) && !matches!(ty, SqlType::Text | SqlType::NText | SqlType::Xml)
            || family(ty) == Family::Binary
    };
    joins(left) && joins(right) && (is_text(left) == is_text(right))
}

pub(crate) fn concat(left: Scalar, right: Scalar) -> Result<Scalar> {
    let nullable = left.nullable || right.nullable;
    let (Some(a), Some(b)) = (length_of(left.ty), length_of(right.ty)) else {
        return Err(incompatible(BinOp::Add, left.ty, right.ty));
    };
    let sum = |max: u16| match (a, b) {
        (Length::Of(a), Length::Of(b)) => Length::Of(a.saturating_add(b).min(max)),
        _ => Length::Max,
    };
    let ty = if !is_text(left.ty) {
        SqlType::VarBinary(sum(8000))
    } else if is_national(left.ty) || is_national(right.ty) {
        SqlType::NVarChar(units(sum(4000)))
    } else {
        SqlType::VarChar(sum(8000))
    };
    let label = left.label.with(right.label, "add");
    let (left, right) = match is_text(ty) {
        true => (within(left, label), within(right, label)),
        false => (left, right),
    };
    let node = Node::Concat(Box::new(left), Box::new(right));
    Ok(folded(Scalar { label, ..Scalar::new(ty, nullable, node) }))
}

/// Converts a value for a column or variable of a table: one that does not fit is an error.
pub(crate) fn assign(inner: Scalar, to: &TableColumn, table: &str) -> Result<Scalar> {
    let ty = to.ty;
    if inner.ty == ty && inner.node.is_typed() && same_page(&inner, ty, to.collation) {
        inner.label.assigned(ty, ty)?;
        return Ok(inner);
    }
    if inner.node.is_untyped() {
        return convert(inner, ty);
    }
    if !implicit(inner.ty, ty) {
        convert(inner.clone(), ty)?;
    }
    if is_text(inner.ty) {
        inner.label.assigned(inner.ty, ty)?;
    }
    let nullable = inner.nullable;
    let (table, column) = (table.to_owned(), to.name.clone());
    let node = Node::Assign { inner: Box::new(inner), table, column };
    Ok(Scalar::new(ty, nullable, node).of_collation(to.collation))
}

/// Returns true if a text's bytes are the same in a type of this collation.
pub(crate) fn same_page(from: &Scalar, to: SqlType, collation: Collation) -> bool {
    let narrow = |ty| is_text(ty) && !is_national(ty);
    !narrow(from.ty) || !narrow(to) || from.collation().code_page() == collation.code_page()
}

/// The same text with this label, in the code page of its collation.
pub(crate) fn repaged(inner: Scalar, label: Label) -> Scalar {
    if same_page(&inner, inner.ty, label.collation()) {
        return Scalar { label, ..inner };
    }
    let (ty, nullable) = (inner.ty, inner.nullable);
    let node = Node::Convert { inner: Box::new(inner), style: None, lenient: false };
    folded(Scalar { label, ..Scalar::new(ty, nullable, node) })
}

pub(crate) fn negated(inner: Scalar, not: bool) -> Scalar {
    if not { Scalar::condition(Node::Not(Box::new(inner))) } else { inner }
}

/// A comparison of two values in their common type.
pub(crate) fn comparison(op: CmpOp, left: Scalar, right: Scalar) -> Result<Scalar> {
    let (left, right) = adopt_null(left, right)?;
    if left.node.is_untyped() {
        let null = Scalar::constant(SqlType::Int, Value::Null);
        return Ok(Scalar::condition(Node::Compare(op, Box::new(null.clone()), Box::new(null))));
    }
    let ty = common_type(left.ty, right.ty)?;
    let old = |ty| matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image | SqlType::Xml);
    let name = match op {
        CmpOp::Eq => "equal to",
        CmpOp::Ne => "not equal to",
        CmpOp::Lt => "less than",
        CmpOp::Le => "less than or equal to",
        CmpOp::Gt => "greater than",
        CmpOp::Ge => "greater than or equal to",
    };
    if old(left.ty) || old(right.ty) || ty == SqlType::SqlVariant {
        return Err(Error::BadOperands {
            left: type_name(left.ty).to_owned(),
            right: type_name(right.ty).to_owned(),
            op: name.to_owned(),
        });
    }
    let mut left = convert(left, ty)?;
    let right = convert(right, ty)?;
    left.label = joined([&left, &right], "comparison");
    left.label.compared(name)?;
    Ok(Scalar::condition(Node::Compare(op, Box::new(left), Box::new(right))))
}

/// Converts anything to text, for LIKE and for text functions.
pub(crate) fn as_text(value: Scalar) -> Result<Scalar> {
    if is_text(value.ty) && value.node.is_typed() {
        return Ok(value);
    }
    let open = matches!(&value.node, Node::Null(Some(_)));
    let ty = if open {
        SqlType::NVarChar(Length::Of(4000))
    } else if is_national(value.ty) {
        SqlType::NVarChar(Length::Max)
    } else {
        SqlType::VarChar(Length::Of(crate::value::display_length(value.ty)))
    };
    convert(value, ty)
}
