//! PIVOT and UNPIVOT behind a table.

use super::Parser;
use crate::ast::TableRef;
use crate::ast::pivot::{Pivot, PivotKind};
use crate::error::{Error, Result};

impl Parser<'_> {
    /// The table with the operators behind it.
    pub(super) fn pivoted(&mut self, mut source: TableRef) -> Result<TableRef> {
        let mut count = 0;
        while self.is("PIVOT") || self.is("UNPIVOT") {
            count += 1;
            if count > super::MAX_NESTING {
                return Err(Error::NestedTooDeep {});
            }
            source = self.pivot(source)?;
        }
        Ok(source)
    }

    fn pivot(&mut self, source: TableRef) -> Result<TableRef> {
        let columns = self.word()? == "PIVOT";
        self.expect_op("(")?;
        let (kind, names) = if columns {
            let aggregate = self.name()?;
            self.expect_op("(")?;
            let argument = self.name()?;
            self.expect_op(")")?;
            self.expect("FOR")?;
            let by = self.name()?;
            self.expect("IN")?;
            let names = self.list(Self::identifier)?;
            (PivotKind::Columns { aggregate, argument, by }, names)
        } else {
            let value = self.identifier()?;
            self.expect("FOR")?;
            let name = self.identifier()?;
            self.expect("IN")?;
            let names = self.list(|parser| Ok(parser.name()?.object().to_owned()))?;
            (PivotKind::Rows { value, name }, names)
        };
        self.expect_op(")")?;
        self.eat("AS");
        let alias = self.identifier()?;
        Ok(TableRef::Pivot(Box::new(Pivot { source, kind, names, alias })))
    }
}
