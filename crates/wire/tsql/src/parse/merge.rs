//! MERGE.

use super::Parser;
use crate::ast::{Cte, Kind, Merge, MergeAction, When, WhenKind};
use crate::error::{Error, Result};

impl WhenKind {
    fn words(self) -> &'static str {
        match self {
            WhenKind::Matched => "WHEN MATCHED",
            WhenKind::NotMatched => "WHEN NOT MATCHED",
            WhenKind::NotSource => "WHEN NOT MATCHED BY SOURCE",
        }
    }
}

impl MergeAction {
    fn word(&self) -> &'static str {
        match self {
            MergeAction::Update(_) => "UPDATE",
            MergeAction::Delete => "DELETE",
            MergeAction::Insert { .. } => "INSERT",
        }
    }
}

impl Parser<'_> {
    pub(super) fn merge(&mut self, ctes: Vec<Cte>) -> Result<Kind> {
        self.expect("MERGE")?;
        if self.is("TOP") {
            return Err(Error::unsupported("MERGE TOP"));
        }
        self.eat("INTO");
        let (target, hints) = self.target()?;
        let named = self.eat("AS") || !self.is("USING");
        let alias = if named { Some(self.identifier()?) } else { None };
        self.expect("USING")?;
        let source = self.table_ref()?;
        self.expect("ON")?;
        let on = self.condition()?;
        let mut whens: Vec<When> = Vec::new();
        while self.eat("WHEN") {
            let when = self.when()?;
            check(&whens, &when)?;
            whens.push(when);
        }
        if whens.is_empty() {
            return Err(self.unexpected());
        }
        let (output, output_into) = self.output()?;
        if self.query_hints()?.is_some() {
            return Err(Error::unsupported("MAXRECURSION of a change"));
        }
        if !self.is_op(";") {
            return Err(Error::MergeEnd {});
        }
        let merge = Merge { ctes, target, alias, hints, source, on, whens, output, output_into };
        Ok(Kind::Merge(Box::new(merge)))
    }

    /// The rest of WHEN.
    fn when(&mut self) -> Result<When> {
        let kind = if self.eat("MATCHED") {
            WhenKind::Matched
        } else {
            self.expect_words(&["NOT", "MATCHED"])?;
            if self.eat_words(&["BY", "SOURCE"]) {
                WhenKind::NotSource
            } else {
                self.eat_words(&["BY", "TARGET"]);
                WhenKind::NotMatched
            }
        };
        let condition = if self.eat("AND") { Some(self.condition()?) } else { None };
        self.expect("THEN")?;
        let action = if self.eat("UPDATE") {
            self.expect("SET")?;
            MergeAction::Update(self.commas(Self::set_item)?)
        } else if self.eat("DELETE") {
            MergeAction::Delete
        } else {
            self.expect("INSERT")?;
            let columns = if self.is_op("(") { self.list(Self::identifier)? } else { Vec::new() };
            let values = if self.eat_words(&["DEFAULT", "VALUES"]) {
                None
            } else {
                self.expect("VALUES")?;
                Some(self.list(Self::value_or_default)?)
            };
            MergeAction::Insert { columns, values }
        };
        let inserts = matches!(action, MergeAction::Insert { .. });
        match kind {
            WhenKind::NotMatched if !inserts => {
                Err(Error::MergeNotInsert { action: action.word() })
            }
            WhenKind::Matched | WhenKind::NotSource if inserts => {
                Err(Error::MergeInsert { clause: kind.words() })
            }
            _ => Ok(When { kind, condition, action }),
        }
    }
}

/// Checks a clause against those before it.
fn check(known: &[When], when: &When) -> Result<()> {
    let clause = when.kind.words();
    let mut same = known.iter().filter(|known| known.kind == when.kind);
    if same.clone().any(|known| known.action.word() == when.action.word()) {
        // SQL Server names them in this order
        return Err(Error::MergeActionTwice { action: clause, clause: when.action.word() });
    }
    match same.any(|known| known.condition.is_none()) {
        true => Err(Error::MergeUnreachable { clause }),
        false => Ok(()),
    }
}
