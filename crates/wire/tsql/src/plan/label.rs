//! The collation of a value, and how strongly it has it: SQL Server's coercion-precedence labels.

use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{Collation, SqlType};

use super::func::{Func, Text};
use super::scalar::{AggregateFunction, Node, Scalar};
use crate::error::{Error, Result};
use crate::value::{is_national, is_text, type_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Label {
    /// That of the database, which any other replaces: a variable, a literal.
    #[default]
    Coercible,
    /// A column's.
    Implicit(Collation),
    /// That of COLLATE.
    Explicit(Collation),
    /// None: two columns have these, at this operator.
    Conflict(Collation, Collation, &'static str),
    /// None: two COLLATE have these.
    Clauses(Collation, Collation),
}

impl Label {
    /// The label of an operator's result.
    pub(crate) fn with(self, other: Label, operator: &'static str) -> Label {
        use Label as L;
        match (self, other) {
            (L::Clauses(..), _) => self,
            (_, L::Clauses(..)) => other,
            (L::Explicit(a), L::Explicit(b)) if a != b => L::Clauses(a, b),
            (L::Explicit(_), _) => self,
            (_, L::Explicit(_)) => other,
            (L::Conflict(..), _) => self,
            (_, L::Conflict(..)) => other,
            (L::Implicit(a), L::Implicit(b)) if a != b => L::Conflict(a, b, operator),
            (L::Implicit(_), _) => self,
            (L::Coercible, _) => other,
        }
    }

    /// The collation; the server's where there is none.
    pub(crate) fn collation(self) -> Collation {
        match self {
            Label::Implicit(collation) | Label::Explicit(collation) => collation,
            Label::Coercible | Label::Conflict(..) | Label::Clauses(..) => Collation::default(),
        }
    }

    /// The label of a column of a query that has this value.
    pub(crate) fn as_column(self) -> Label {
        match self {
            Label::Explicit(collation) => Label::Implicit(collation),
            other => other,
        }
    }

    fn refuse_clauses(self) -> Result<()> {
        match self {
            Label::Clauses(a, b) => {
                let (left, right) = (b.name(), a.name());
                Err(CollationError::Clauses { left, right }.into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that an operation that compares has a collation.
    ///
    /// # Errors
    /// 468 and 449.
    pub(crate) fn compared(self, operation: &str) -> Result<()> {
        self.refuse_clauses()?;
        match self {
            Label::Conflict(a, b, _) => {
                let (left, right, operation) = (b.name(), a.name(), operation.to_owned());
                Err(CollationError::Conflict { left, right, operation }.into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that an aggregate has a collation.
    ///
    /// # Errors
    /// 446 and 449.
    pub(crate) fn aggregated(self, operation: &str) -> Result<()> {
        self.refuse_clauses()?;
        match self {
            Label::Conflict(..) => {
                Err(CollationError::Unresolved { operation: operation.to_owned() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Checks a value of this type in a list: SELECT, ORDER BY, GROUP BY; `at` is from 0.
    ///
    /// # Errors
    /// 451, 457 and 449.
    pub(crate) fn listed(self, ty: SqlType, clause: &'static str, at: usize) -> Result<()> {
        self.refuse_clauses()?;
        match self {
            Label::Conflict(a, b, operator) if is_national(ty) => {
                let (left, right, column) = (b.name(), a.name(), at + 1);
                Err(CollationError::Listed { left, right, operator, clause, column }.into())
            }
            _ => self.assigned(ty, ty),
        }
    }

    /// Checks a value that is converted to the type of its place.
    ///
    /// # Errors
    /// 457 and 449.
    pub(crate) fn assigned(self, from: SqlType, to: SqlType) -> Result<()> {
        self.refuse_clauses()?;
        let Label::Conflict(a, b, operator) = self else { return Ok(()) };
        let (left, right) = (b.name(), a.name());
        let (from, to) = (type_name(from).to_owned(), type_name(to).to_owned());
        Err(Error::from(CollationError::Converted { from, to, left, right, operator }))
    }
}

/// The label of a value of this type, by what it is made of.
pub(crate) fn label_of(ty: SqlType, node: &Node) -> Label {
    if !is_text(ty) {
        return Label::Coercible;
    }
    match node {
        Node::Column(_) => Label::Implicit(Collation::default()),
        Node::Shared(shared) => shared.0.label,
        Node::Convert { inner, .. } => text_label(inner),
        Node::Assign { inner, .. } => text_label(inner),
        Node::Concat(left, right) => left.label.with(right.label, "add"),
        Node::Case(whens, otherwise) => {
            let values = whens.iter().map(|(_, then)| then).chain(otherwise.as_deref());
            joined(values, "CASE")
        }
        Node::Call(Func::Session(_) | Func::Format | Func::Xml(_), _)
        | Node::Call(Func::Text(Text::CollationProperty), _) => Label::Coercible,
        Node::Call(Func::Coalesce, args) => joined(args, "CASE"),
        Node::Call(Func::Text(Text::Concat | Text::ConcatWs), args) => joined(args, "concat"),
        Node::Call(_, args) => joined(args, "function"),
        Node::Aggregate(shared) => match shared.0.function {
            AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::Join
            | AggregateFunction::Lag
            | AggregateFunction::Lead
            | AggregateFunction::FirstValue
            | AggregateFunction::LastValue => joined(&shared.0.args, "string_agg"),
            _ => Label::Coercible,
        },
        _ => Label::Coercible,
    }
}

/// The common label of those values that are text.
pub(crate) fn joined<'s>(
    values: impl IntoIterator<Item = &'s Scalar>,
    operator: &'static str,
) -> Label {
    let labels = values.into_iter().map(text_label);
    labels.fold(Label::Coercible, |all, label| all.with(label, operator))
}

fn text_label(value: &Scalar) -> Label {
    if is_text(value.ty) { value.label } else { Label::Coercible }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_sql_servers() {
        let of = |name| Collation::parse(name).unwrap();
        let (a, b) = (of("Polish_CI_AS"), of("Greek_CI_AS"));
        let (column, other) = (Label::Implicit(a), Label::Implicit(b));
        assert_eq!(Label::Coercible.with(column, "add"), column);
        assert_eq!(column.with(Label::Explicit(b), "add"), Label::Explicit(b));
        let conflict = column.with(other, "add");
        assert_eq!(conflict, Label::Conflict(a, b, "add"));
        assert_eq!(conflict.with(Label::Explicit(a), "add"), Label::Explicit(a));
        assert_eq!(conflict.with(column, "add"), conflict);
        assert_eq!(Label::Explicit(a).with(Label::Explicit(b), "add"), Label::Clauses(a, b));
        assert!(column.compared("like").is_ok() && conflict.compared("like").is_err());
    }
}
