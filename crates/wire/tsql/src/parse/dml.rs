//! INSERT, UPDATE, DELETE and TRUNCATE.

use super::expr::binary_op;
use super::{Parser, target};
use crate::ast::{
    Action, BinOp, Cte, Delete, Exec, Expr, Hints, Insert, InsertBulk, Item, Kind, Name,
    OutputInto, Query, SetItem, SetTarget, Source, Update,
};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Maximum number of rows of INSERT .. VALUES.
const MAX_INSERTED: usize = 1000;

impl Parser<'_> {
    /// A statement that begins with WITH, or a query.
    pub(crate) fn with_statement(&mut self) -> Result<Kind> {
        let ctes = self.ctes()?;
        let mut kind = if self.is("INSERT") {
            self.insert(ctes)?
        } else if self.is("UPDATE") {
            self.update(ctes)?
        } else if self.is("DELETE") {
            self.delete(ctes)?
        } else if self.is("MERGE") {
            return self.merge(ctes);
        } else {
            Kind::Query(Box::new(self.query_after(ctes)?))
        };
        match (self.query_hints()?, &mut kind) {
            (None, _) => {}
            (most, Kind::Query(query)) => query.max_recursion = most,
            (Some(_), _) => return Err(Error::unsupported("MAXRECURSION of a change")),
        }
        Ok(kind)
    }

    /// The name of a target, with the hints that may follow it.
    pub(super) fn target(&mut self) -> Result<(Name, Hints)> {
        let name = match self.tok() {
            Tok::Var(_) => Name(vec![self.variable()?]),
            _ => self.name()?,
        };
        let mut hints = Hints::default();
        if self.is("WITH") && self.is_op_at(1, "(") {
            self.advance();
            hints = self.hint_list()?;
        }
        Ok((name, hints))
    }

    fn insert(&mut self, ctes: Vec<Cte>) -> Result<Kind> {
        self.expect("INSERT")?;
        if self.is("TOP") {
            return Err(Error::unsupported("INSERT TOP"));
        }
        if self.eat("BULK") {
            return self.insert_bulk();
        }
        self.eat("INTO");
        let (target, hints) = self.target()?;
        let columns = if self.is_op("(") && !self.is_word_at(1, "SELECT") {
            self.list(|parser| Ok(parser.name()?.object().to_owned()))?
        } else {
            Vec::new()
        };
        let (output, output_into) = self.output()?;
        let source = if self.eat_words(&["DEFAULT", "VALUES"]) {
            Source::Defaults
        } else if self.eat("VALUES") {
            let rows = self.rows(Self::value_or_default)?;
            if rows.len() > MAX_INSERTED {
                return Err(Error::TooManyRows {});
            }
            Source::Values(rows)
        } else if self.is("EXEC") || self.is("EXECUTE") {
            self.advance();
            Source::Exec(Box::new(self.exec_body()?))
        } else {
            Source::Query(Box::new(self.query()?))
        };
        let insert = Insert { ctes, target, hints, columns, output, output_into, source };
        Ok(Kind::Insert(Box::new(insert)))
    }

    /// The rest of INSERT BULK. Source: the documentation of BULK INSERT, whose options it accepts,
    /// and traces of drivers.
    fn insert_bulk(&mut self) -> Result<Kind> {
        if self.nesting > 1 {
            return Err(Error::unsupported("INSERT BULK inside of another statement"));
        }
        let target = self.name()?;
        let columns = if self.is_op("(") { self.list(Self::bulk_column)? } else { Vec::new() };
        let mut insert = InsertBulk { target, columns, keep_nulls: false, fires: false };
        if self.eat("WITH") {
            self.list(|parser| {
                match parser.word()?.as_str() {
                    "KEEP_NULLS" => insert.keep_nulls = true,
                    "FIRE_TRIGGERS" => insert.fires = true,
                    // constraints are always checked, and SQLite locks all
                    "CHECK_CONSTRAINTS" | "TABLOCK" | "KEEP_IDENTITY" => {}
                    "ROWS_PER_BATCH" | "KILOBYTES_PER_BATCH" => {
                        parser.expect_op("=")?;
                        parser.integer()?;
                    }
                    "ORDER" => {
                        parser.list(|parser| {
                            parser.identifier()?;
                            Ok(parser.eat("ASC") || parser.eat("DESC"))
                        })?;
                    }
                    other => return Err(Error::unsupported(format!("INSERT BULK {other}"))),
                }
                Ok(())
            })?;
        }
        Ok(Kind::Act(Action::InsertBulk(Box::new(insert))))
    }

    fn bulk_column(&mut self) -> Result<(String, tdekit_wire_tds::SqlType, bool)> {
        let name = self.identifier()?;
        let ty = self.data_type()?;
        let collated = self.eat("COLLATE");
        if collated {
            crate::value::collation::named(&self.identifier()?)?;
        }
        if self.eat("NOT") {
            self.expect("NULL")?;
        } else {
            self.eat("NULL");
        }
        Ok((name, ty, collated))
    }

    pub(super) fn value_or_default(&mut self) -> Result<Option<Expr>> {
        if self.eat("DEFAULT") { Ok(None) } else { self.expression().map(Some) }
    }

    pub(super) fn output(&mut self) -> Result<(Vec<Item>, Option<OutputInto>)> {
        if !self.eat("OUTPUT") {
            return Ok((Vec::new(), None));
        }
        let items = self.commas(Self::item)?;
        if self.eat("INTO") {
            let target = match self.tok() {
                Tok::Var(_) => Name(vec![self.variable()?]),
                _ => self.name()?,
            };
            // a parenthesis may begin the query that follows
            let list = self.is_op("(") && !self.is_word_at(1, "SELECT");
            let columns = if list { self.list(Self::identifier)? } else { Vec::new() };
            if self.is("OUTPUT") {
                return Err(Error::unsupported("a second OUTPUT"));
            }
            return Ok((items, Some(OutputInto { target, columns })));
        }
        Ok((items, None))
    }

    fn update(&mut self, ctes: Vec<Cte>) -> Result<Kind> {
        self.expect("UPDATE")?;
        if self.is("STATISTICS") {
            self.advance();
            self.name()?;
            return Ok(Kind::Nothing);
        }
        let top = self.top()?;
        let (target, hints) = self.target()?;
        self.expect("SET")?;
        let sets = self.commas(Self::set_item)?;
        let (output, output_into) = self.output()?;
        let from = if self.eat("FROM") { self.commas(Self::table_ref)? } else { Vec::new() };
        let (target, from) = target::beside(target, from, hints)?;
        let filter = self.filter()?;
        let update = Update { ctes, top, target, hints, sets, output, output_into, from, filter };
        Ok(Kind::Update(Box::new(update)))
    }

    fn filter(&mut self) -> Result<Option<Expr>> {
        if !self.eat("WHERE") {
            return Ok(None);
        }
        if self.is_words(&["CURRENT", "OF"]) {
            return Err(Error::unsupported("WHERE CURRENT OF"));
        }
        self.condition().map(Some)
    }

    pub(super) fn set_item(&mut self) -> Result<SetItem> {
        let target = if matches!(self.tok(), Tok::Var(_)) {
            let var = self.variable()?;
            let both = self.is_op("=")
                && matches!(self.ahead(1), Tok::Word(_) | Tok::Quoted(_))
                && self.is_op_at(2, "=");
            if both {
                self.advance();
                SetTarget::Both(var, Name(vec![self.identifier()?]))
            } else {
                SetTarget::Var(var)
            }
        } else {
            SetTarget::Column(self.name()?)
        };
        let op = self.assignment()?;
        Ok((target, op, self.value_or_default()?))
    }

    /// `=`, or `+=` and the like, whose operator it returns.
    pub(crate) fn assignment(&mut self) -> Result<Option<BinOp>> {
        if self.eat_op("=") {
            return Ok(None);
        }
        match self.tok() {
            Tok::Op(op) if op.len() == 2 && op.ends_with('=') && binary_op(op).is_some() => {
                let op = binary_op(op);
                self.advance();
                Ok(op)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn delete(&mut self, ctes: Vec<Cte>) -> Result<Kind> {
        self.expect("DELETE")?;
        let top = self.top()?;
        self.eat("FROM");
        let (target, hints) = self.target()?;
        let (output, output_into) = self.output()?;
        let from = if self.eat("FROM") { self.commas(Self::table_ref)? } else { Vec::new() };
        let (target, from) = target::beside(target, from, hints)?;
        let filter = self.filter()?;
        let delete = Delete { ctes, top, target, hints, output, output_into, from, filter };
        Ok(Kind::Delete(Box::new(delete)))
    }

    /// The rest of EXEC.
    pub(crate) fn exec_body(&mut self) -> Result<Exec> {
        use crate::ast::{Arg, ExecTarget};
        if self.is_op("(") {
            self.advance();
            let text = self.expression()?;
            self.expect_op(")")?;
            if self.is("AT") || (self.is("AS") && !self.is_op_at(1, "=")) {
                return Err(Error::unsupported(format!("EXECUTE {}", self.word()?)));
            }
            let target = ExecTarget::Text(text);
            return Ok(Exec { status: None, target, args: Vec::new() });
        }
        let mut status = None;
        if matches!(self.tok(), Tok::Var(_)) && self.is_op_at(1, "=") {
            status = Some(self.variable()?);
            self.advance();
        }
        let target = if matches!(self.tok(), Tok::Var(_)) {
            ExecTarget::Variable(self.variable()?)
        } else {
            // `..p` omits the database and the schema
            while self.eat_op(".") {}
            ExecTarget::Procedure(self.name()?)
        };
        let mut args: Vec<Arg> = Vec::new();
        while self.starts_argument() {
            let mut name = None;
            if matches!(self.tok(), Tok::Var(_)) && self.is_op_at(1, "=") {
                name = Some(self.variable()?);
                self.advance();
            } else if args.iter().any(|arg| arg.name.is_some()) {
                return Err(Error::NamedAfter { number: args.len() + 1 });
            }
            let value = self.argument_value()?;
            let output = self.eat("OUTPUT") || self.eat("OUT");
            args.push(Arg { name, value, output });
            if !self.eat_op(",") {
                break;
            }
        }
        if self.is("WITH") && (self.is_word_at(1, "RECOMPILE") || self.is_word_at(1, "RESULT")) {
            if self.is_word_at(1, "RESULT") {
                return Err(Error::unsupported("WITH RESULT SETS"));
            }
            self.advance();
            self.advance();
        }
        Ok(Exec { status, target, args })
    }

    fn starts_argument(&self) -> bool {
        match self.tok() {
            Tok::Var(_) | Tok::Str(..) | Tok::Int(_) | Tok::Dec(_) | Tok::Float(_) => true,
            Tok::Hex(_) | Tok::Money(_) | Tok::Op("-" | "+") => true,
            Tok::Quoted(_) | Tok::Word(_) if self.is_op_at(1, ":") => false,
            Tok::Quoted(_) => true,
            Tok::Word(word) => {
                let upper = word.to_ascii_uppercase();
                matches!(upper.as_str(), "NULL" | "DEFAULT")
                    || !(super::is_reserved(word) || super::stmt::begins_statement(&upper))
            }
            _ => false,
        }
    }

    /// A constant, a variable, DEFAULT, or a bare word, which is treated as a string.
    fn argument_value(&mut self) -> Result<Option<Expr>> {
        if self.eat("DEFAULT") {
            return Ok(None);
        }
        if matches!(self.tok(), Tok::Word(_) | Tok::Quoted(_)) && !self.is("NULL") {
            return Ok(Some(Expr::Str(self.identifier()?, true)));
        }
        let negative = self.is_op("-");
        if negative || self.is_op("+") {
            self.advance();
        }
        let value = match self.tok().clone() {
            Tok::Var(name) => Expr::Var(name),
            Tok::Str(text, national) => Expr::Str(text, national),
            Tok::Int(text) => Expr::Int(text),
            Tok::Dec(text) => Expr::Dec(text),
            Tok::Float(text) => Expr::Float(text),
            Tok::Money(text) => Expr::Money(text),
            Tok::Hex(bytes) => Expr::Hex(bytes),
            Tok::Word(_) => Expr::Null,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Some(if negative {
            Expr::Unary(crate::ast::UnOp::Minus, Box::new(value))
        } else {
            value
        }))
    }

    pub(crate) fn subquery_body(&mut self) -> Result<Query> {
        self.nested(Self::query)
    }
}
