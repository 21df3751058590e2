//! Scalar expressions.

use std::borrow::Cow;

use tdekit_wire_tds::code_page::OWN_PAGE;
use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::Binder;
use super::names::Aggregates;
use crate::ast::{BinOp, Expr, Name, UnOp};
use crate::error::{Error, Result};
use crate::functions::typing::{binary, branches, convert, folded, repaged, unary};
use crate::plan::access::{Access, Right};
use crate::plan::label::Label;
use crate::plan::scalar::{Node, Scalar};
use crate::value::decimal::Dec;
use crate::value::{collation, explicit, is_text, text, type_name};

impl Binder<'_> {
    /// A value; a condition here is an error.
    pub(crate) fn scalar(&mut self, expr: &Expr) -> Result<Scalar> {
        self.limits.spend(1)?;
        if let Some(found) = self.names.grouped(expr) {
            return Ok(found);
        }
        match expr {
            Expr::Var(name) if name.starts_with("@@") => self.global(name),
            Expr::Var(name) => self.variable(name),
            Expr::Column(name) => {
                let offered = self.names.column(name)?;
                self.read(&offered)
            }
            Expr::Unary(op, inner) => self.unary_of(*op, inner),
            Expr::Binary(op, left, right) => self.binary_of(*op, left, right),
            Expr::Case(operand, whens, otherwise) => {
                self.case(operand.as_deref(), whens, otherwise.as_deref())
            }
            Expr::Convert(inner, ty, style, lenient) => {
                self.converted_to(inner, *ty, style.as_deref(), *lenient)
            }
            Expr::Call(call) => self.call(call),
            Expr::Next(name, place) => self.next_value(name, *place),
            Expr::Subquery(query) => self.scalar_subquery(query),
            Expr::Collate(inner, name) => self.collated(inner, name),
            other => literal(other),
        }
    }

    // Apart from `scalar`, so that nested expressions do not have on the stack, for each level,
    // what all kinds of them need.

    #[inline(never)]
    fn unary_of(&mut self, op: UnOp, inner: &Expr) -> Result<Scalar> {
        let inner = self.scalar(inner)?;
        unary(op, inner)
    }

    #[inline(never)]
    fn binary_of(&mut self, op: BinOp, left: &Expr, right: &Expr) -> Result<Scalar> {
        let left = self.scalar(left)?;
        let right = self.scalar(right)?;
        binary(op, left, right)
    }

    #[inline(never)]
    fn converted_to(
        &mut self,
        inner: &Expr,
        ty: SqlType,
        style: Option<&Expr>,
        lenient: bool,
    ) -> Result<Scalar> {
        let inner = self.scalar(inner)?;
        let style = match style {
            Some(style) => Some(Box::new(convert(self.scalar(style)?, SqlType::Int)?)),
            None => None,
        };
        if let Node::Null(Some(cell)) = &inner.node {
            cell.get_or_init(|| ty);
        }
        // CAST and CONVERT to a type without a length mean 30
        if !explicit(inner.ty, ty) && inner.node.is_typed() {
            return Err(no_explicit(inner.ty, ty));
        }
        let nullable = inner.nullable || lenient;
        let inner = Box::new(inner);
        Ok(folded(Scalar::new(ty, nullable, Node::Convert { inner, style, lenient })))
    }

    #[inline(never)]
    fn collated(&mut self, inner: &Expr, name: &str) -> Result<Scalar> {
        let collation = collation::named(name)?;
        let inner = self.scalar(inner)?;
        if inner.node.is_untyped() || !is_text(inner.ty) || inner.ty == SqlType::Xml {
            let ty = type_name(inner.ty).to_owned();
            return Err(CollationError::NotText { ty }.into());
        }
        Ok(repaged(inner, Label::Explicit(collation)))
    }

    #[inline(never)]
    fn next_value(&mut self, name: &Name, place: usize) -> Result<Scalar> {
        if self.names.aggregates() == Aggregates::Inside {
            return Err(Error::NextAggregate {});
        }
        if self.limits.rows().is_some() {
            return Err(Error::NextLimit {});
        }
        let Some(sequence) = self.catalog.sequence(name)? else {
            return Err(match self.catalog.table(name)? {
                Some(_) => Error::NotASequence { name: name.text() },
                None => Error::InvalidObject { name: name.text() },
            });
        };
        if !self.needs.sequences.contains(&sequence) {
            self.needs.sequences.push(sequence.clone());
        }
        self.needs.access.push(Access {
            database: sequence.database.clone(),
            object: sequence.name.clone(),
            right: Right::Update,
            within: self.expansion.database().map(str::to_owned),
        });
        Ok(Scalar::new(sequence.ty, false, Node::Next(sequence, place)))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        whens: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Result<Scalar> {
        let mut bound = Vec::new();
        for (when, then) in whens {
            let when = match operand {
                Some(operand) => {
                    let (left, right) = (self.scalar(operand)?, self.scalar(when)?);
                    crate::functions::typing::comparison(crate::ast::CmpOp::Eq, left, right)?
                }
                None => self.condition(when)?,
            };
            bound.push((when, self.scalar(then)?));
        }
        let otherwise = otherwise.map(|expr| self.scalar(expr)).transpose()?;
        branches(bound, otherwise)
    }
}

fn no_explicit(from: SqlType, to: SqlType) -> Error {
    Error::NoExplicit { from: type_name(from).to_owned(), to: type_name(to).to_owned() }
}

pub(crate) fn length(units: usize, max: u16) -> Length {
    match u16::try_from(units) {
        Ok(n) if n <= max => Length::Of(n),
        _ => Length::Max,
    }
}

pub(crate) fn string(found: &str, national: bool) -> Scalar {
    let count = text::units(found, national).max(1);
    let ty = if national {
        SqlType::NVarChar(length(count, 4000))
    } else {
        SqlType::VarChar(length(count, 8000))
    };
    let kept =
        if national { found.to_owned() } else { text::narrowed(found, OWN_PAGE).into_owned() };
    Scalar::constant(ty, Value::Text(Cow::Owned(kept)))
}

fn integer(digits: &str) -> Result<Scalar> {
    if let Ok(int) = digits.parse::<i32>() {
        return Ok(Scalar::constant(SqlType::Int, Value::Int(i64::from(int))));
    }
    decimal_literal(digits)
}

fn decimal_literal(digits: &str) -> Result<Scalar> {
    let dec = Dec::parse(digits).ok_or(Error::ResultOverflow { to: "numeric".to_owned() })?;
    let significant = dec.unscaled.unsigned_abs().to_string().len();
    let precision = u8::try_from(significant).unwrap_or(38).max(dec.scale).max(1);
    let ty = SqlType::Decimal { precision, scale: dec.scale };
    Ok(Scalar::constant(ty, Value::Decimal { unscaled: dec.unscaled, scale: dec.scale }))
}

/// A literal; a condition is an error.
#[inline(never)]
fn literal(expr: &Expr) -> Result<Scalar> {
    match expr {
        Expr::Null => Ok(Scalar::new(SqlType::Int, true, Node::Null(None))),
        Expr::Default => Err(Error::SyntaxKeyword { near: "DEFAULT".to_owned() }),
        Expr::Int(digits) => Ok(integer(digits)?),
        Expr::Dec(digits) => decimal_literal(digits),
        Expr::Float(digits) => {
            let value: f64 = digits.parse().map_err(|_| Error::Syntax { near: digits.clone() })?;
            if !value.is_finite() {
                return Err(Error::ResultOverflow { to: "float".to_owned() });
            }
            Ok(Scalar::constant(SqlType::Float, Value::Float(value)))
        }
        Expr::Money(digits) => {
            let dec = Dec::parse(digits).and_then(|dec| dec.rescale(4));
            let money = dec.and_then(|dec| i64::try_from(dec.unscaled).ok());
            let money = money.ok_or(Error::BadMoney {})?;
            Ok(Scalar::constant(SqlType::Money, Value::Money(money)))
        }
        Expr::Str(found, national) => Ok(string(found, *national)),
        Expr::Hex(bytes) => {
            let ty = SqlType::VarBinary(length(bytes.len().max(1), 8000));
            Ok(Scalar::constant(ty, Value::Binary(Cow::Owned(bytes.clone()))))
        }
        _ => Err(Error::NotBoolean { near: "condition".to_owned() }),
    }
}
