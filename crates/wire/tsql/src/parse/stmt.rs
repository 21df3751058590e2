//! Statements of the batch language.

use super::Parser;
use crate::ast::{Action, Expr, Kind, Operand, Stmt, TranOp};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Words that begin a statement but are not reserved.
const BEGINNERS: &[&str] = &["THROW", "DISABLE", "ENABLE", "GO"];

pub(crate) fn begins_statement(upper: &str) -> bool {
    BEGINNERS.contains(&upper)
}

impl Parser<'_> {
    pub(crate) fn batch(&mut self) -> Result<Vec<Stmt>> {
        let mut stmts: Vec<Stmt> = Vec::new();
        loop {
            while self.eat_op(";") {}
            if *self.tok() == Tok::End {
                let bulk =
                    stmts.iter().any(|stmt| matches!(stmt.kind, Kind::Act(Action::InsertBulk(_))));
                return if bulk && stmts.len() > 1 {
                    // its rows follow the batch, so it must be the only statement
                    Err(Error::unsupported("INSERT BULK in a batch with other statements"))
                } else {
                    Ok(stmts)
                };
            }
            let first = stmts.is_empty();
            if first && let Some(call) = self.bare_call()? {
                stmts.push(call);
                continue;
            }
            if !first {
                self.must_be_first()?;
            }
            stmts.push(self.statement()?);
        }
    }

    /// A procedure's name at the start of a batch needs no EXEC.
    fn bare_call(&mut self) -> Result<Option<Stmt>> {
        let (line, start) = (self.line(), self.token().start);
        let named = match self.tok() {
            Tok::Quoted(_) => true,
            Tok::Word(word) => {
                let upper = word.to_ascii_uppercase();
                !super::is_reserved(word) && !begins_statement(&upper) && upper != "GO"
            }
            _ => false,
        };
        if !named || self.is_op_at(1, ":") {
            return Ok(None);
        }
        let exec = self.exec_body()?;
        let span = (start, self.behind());
        Ok(Some(Stmt { line, span, kind: Kind::Exec(Box::new(exec)) }))
    }

    pub(super) fn must_be_first(&self) -> Result<()> {
        if !self.is("CREATE") && !self.is("ALTER") {
            return Ok(());
        }
        let by = if self.is_words(&["CREATE", "OR", "ALTER"]) { 3 } else { 1 };
        for word in ["PROCEDURE", "PROC", "VIEW", "FUNCTION", "TRIGGER", "SCHEMA"] {
            if self.is_word_at(by, word) {
                if word == "SCHEMA" && self.is("ALTER") {
                    return Ok(());
                }
                let verb = if self.is("ALTER") { "ALTER" } else { "CREATE" };
                let word = if word == "PROC" { "PROCEDURE" } else { word };
                return Err(Error::MustBeFirst { what: format!("{verb} {word}") });
            }
        }
        Ok(())
    }

    pub(crate) fn statement(&mut self) -> Result<Stmt> {
        let (line, start) = (self.line(), self.token().start);
        let outside = std::mem::take(&mut self.next_values);
        let mut kind = self.uncounted(|parser| parser.nested(Self::statement_kind))?;
        if std::mem::replace(&mut self.next_values, outside) {
            super::sequence::number(&mut kind)?;
        }
        let span = (start, self.behind());
        while self.eat_op(";") {}
        Ok(Stmt { line, span, kind })
    }

    fn statement_kind(&mut self) -> Result<Kind> {
        if self.is_op("(") {
            return self.with_statement();
        }
        if self.is_op_at(1, ":") && self.is_name() {
            let label = self.identifier()?;
            return self.alone(Kind::Label(label));
        }
        let word = match self.tok() {
            Tok::Word(word) => word.to_ascii_uppercase(),
            _ => return Err(self.unexpected()),
        };
        match word.as_str() {
            "SELECT" | "WITH" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" => self.with_statement(),
            "TRUNCATE" => {
                self.advance();
                self.expect("TABLE")?;
                Ok(Kind::Act(Action::Truncate(self.name()?)))
            }
            "DECLARE" => self.declare(),
            "SET" => self.set(),
            "IF" => self.if_statement(),
            "WHILE" => {
                self.advance();
                let test = self.condition()?;
                Ok(Kind::While(test, Box::new(self.statement()?)))
            }
            "BEGIN" => self.begin(),
            "BREAK" => self.alone(Kind::Break),
            "CONTINUE" => self.alone(Kind::Continue),
            "KILL" => {
                self.advance();
                Ok(Kind::Act(Action::Kill(self.integer()?)))
            }
            "CHECKPOINT" => self.alone(Kind::Act(Action::Checkpoint)),
            "RETURN" => {
                self.advance();
                let value = if self.starts_value() { Some(self.expression()?) } else { None };
                Ok(Kind::Return(value))
            }
            "PRINT" => {
                self.advance();
                Ok(Kind::Print(self.expression()?))
            }
            "RAISERROR" => self.raiserror(),
            "THROW" => self.throw(),
            "WAITFOR" => self.wait(),
            "EXEC" | "EXECUTE" => {
                self.advance();
                if self.is("AS") {
                    return Err(Error::unsupported("EXECUTE AS"));
                }
                Ok(Kind::Exec(Box::new(self.exec_body()?)))
            }
            "USE" => {
                self.advance();
                Ok(Kind::Act(Action::Use(self.identifier()?)))
            }
            "COMMIT" | "ROLLBACK" | "SAVE" => self.transaction_end(&word),
            "CREATE" | "ALTER" | "DROP" => self.definition(&word),
            "OPEN" | "CLOSE" if self.is_word_at(2, "KEY") => self.master_key(&word),
            "OPEN" | "CLOSE" | "DEALLOCATE" => self.cursor_verb(&word),
            "FETCH" => self.fetch(),
            "GOTO" => {
                self.advance();
                Ok(Kind::Goto(self.identifier()?))
            }
            "BACKUP" => self.backup(),
            "RESTORE" => self.restore(),
            "DBCC" => self.dbcc(),
            "ENABLE" | "DISABLE" => self.switch_triggers(),
            "GRANT" | "DENY" | "REVOKE" => self.permission(&word),
            _ if super::is_reserved(&word) && self.known_elsewhere(&word) => {
                Err(Error::unsupported(word))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Returns true for statements of SQL Server that are not covered here.
    fn known_elsewhere(&self, word: &str) -> bool {
        matches!(
            word,
            "BULK"
                | "RECONFIGURE"
                | "SHUTDOWN"
                | "REVERT"
                | "READTEXT"
                | "WRITETEXT"
                | "UPDATETEXT"
        )
    }

    fn alone(&mut self, kind: Kind) -> Result<Kind> {
        self.advance();
        Ok(kind)
    }

    fn starts_value(&self) -> bool {
        match self.tok() {
            Tok::Int(_) | Tok::Var(_) | Tok::Str(..) | Tok::Dec(_) => true,
            Tok::Float(_) | Tok::Money(_) | Tok::Hex(_) => true,
            Tok::Op("(" | "-" | "+" | "~") => true,
            // a function of a database
            Tok::Quoted(_) => self.is_op_at(1, "."),
            Tok::Word(word) if super::is_reserved(word) => {
                let word = word.to_ascii_uppercase();
                matches!(word.as_str(), "CASE" | "NULL") || super::expr::is_function(&word)
            }
            Tok::Word(_) => self.is_op_at(1, "(") || self.is_op_at(1, "."),
            _ => false,
        }
    }

    fn declare(&mut self) -> Result<Kind> {
        self.advance();
        if !matches!(self.tok(), Tok::Var(_)) {
            return self.declare_cursor();
        }
        if let Tok::Word(_) = self.ahead(1) {
            let by = if self.is_word_at(1, "AS") { 2 } else { 1 };
            if self.is_word_at(by, "TABLE") {
                let name = self.variable()?;
                self.eat("AS");
                self.advance();
                let table = self.table_body(crate::ast::Name(vec![name]))?;
                return Ok(Kind::Act(Action::DeclareTable(Box::new(table))));
            }
        }
        self.declared_variables()
    }

    fn if_statement(&mut self) -> Result<Kind> {
        self.advance();
        let test = self.condition()?;
        let then = self.statement()?;
        let otherwise = if self.eat("ELSE") { Some(Box::new(self.statement()?)) } else { None };
        Ok(Kind::If(test, Box::new(then), otherwise))
    }

    fn begin(&mut self) -> Result<Kind> {
        self.advance();
        if self.eat("TRAN") || self.eat("TRANSACTION") {
            let name = self.transaction_name()?;
            if self.is_words(&["WITH", "MARK"]) {
                return Err(Error::unsupported("WITH MARK"));
            }
            return Ok(Kind::Act(Action::Tran(TranOp::Begin, name)));
        }
        if self.is("DISTRIBUTED") || self.is("DIALOG") || self.is("CONVERSATION") {
            return Err(Error::unsupported(format!("BEGIN {}", self.word()?)));
        }
        if self.eat("TRY") {
            let tried = self.until_end("TRY")?;
            self.eat_op(";");
            self.expect_words(&["BEGIN", "CATCH"])?;
            let caught = self.until_end("CATCH")?;
            return Ok(Kind::Try(tried, caught));
        }
        let mut stmts = Vec::new();
        while !self.is("END") {
            self.must_be_first()?;
            stmts.push(self.statement()?);
            while self.eat_op(";") {}
        }
        self.advance();
        if stmts.is_empty() {
            return Err(Error::SyntaxKeyword { near: "END".to_owned() });
        }
        Ok(Kind::Block(stmts))
    }

    fn until_end(&mut self, what: &str) -> Result<Vec<Stmt>> {
        let mut stmts = Vec::new();
        while self.eat_op(";") {}
        while !self.is_words(&["END", what]) {
            stmts.push(self.statement()?);
        }
        self.advance();
        self.advance();
        Ok(stmts)
    }

    fn transaction_name(&mut self) -> Result<Option<Operand>> {
        match self.tok() {
            Tok::Var(name) => {
                let name = name.clone();
                self.advance();
                Ok(Some(Operand::Var(name)))
            }
            // a word on its own line may begin the next statement
            _ if self.is_identifier() && !self.is("THROW") => {
                Ok(Some(Operand::Text(self.identifier()?)))
            }
            _ => Ok(None),
        }
    }

    fn transaction_end(&mut self, word: &str) -> Result<Kind> {
        self.advance();
        let op = match word {
            "COMMIT" => TranOp::Commit,
            "ROLLBACK" => TranOp::Rollback,
            _ => TranOp::Save,
        };
        let long = self.eat("TRAN") || self.eat("TRANSACTION");
        let name = if long {
            self.transaction_name()?
        } else {
            if op == TranOp::Save {
                return Err(self.unexpected());
            }
            self.eat("WORK");
            None
        };
        if op == TranOp::Save && name.is_none() {
            return Err(self.unexpected());
        }
        if op == TranOp::Commit && self.eat("WITH") {
            self.list(|parser| {
                parser.expect("DELAYED_DURABILITY")?;
                parser.expect_op("=")?;
                parser.word()
            })?;
        }
        Ok(Kind::Act(Action::Tran(op, name)))
    }

    fn raiserror(&mut self) -> Result<Kind> {
        self.advance();
        self.expect_op("(")?;
        let message = self.expression()?;
        self.expect_op(",")?;
        let severity = self.expression()?;
        self.expect_op(",")?;
        let state = self.expression()?;
        let mut args = Vec::new();
        while self.eat_op(",") {
            args.push(self.expression()?);
        }
        self.expect_op(")")?;
        let options = if self.eat("WITH") { self.commas(Self::word)? } else { Vec::new() };
        for option in &options {
            if !matches!(option.as_str(), "NOWAIT" | "SETERROR" | "LOG") {
                return Err(Error::Syntax { near: option.clone() });
            }
        }
        Ok(Kind::Raiserror { message, severity, state, args, options })
    }

    fn throw(&mut self) -> Result<Kind> {
        self.advance();
        if matches!(self.tok(), Tok::Int(_) | Tok::Var(_)) {
            let number = self.expression()?;
            self.expect_op(",")?;
            let message = self.expression()?;
            self.expect_op(",")?;
            let state = self.expression()?;
            return Ok(Kind::Throw(Some((number, message, state))));
        }
        Ok(Kind::Throw(None))
    }

    fn wait(&mut self) -> Result<Kind> {
        self.advance();
        let delay = match self.word()?.as_str() {
            "DELAY" => true,
            "TIME" => false,
            other => return Err(Error::unsupported(format!("WAITFOR {other}"))),
        };
        let time = match self.tok().clone() {
            Tok::Str(text, national) => Expr::Str(text, national),
            Tok::Var(name) => Expr::Var(name),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Kind::Wait { delay, time })
    }

    fn dbcc(&mut self) -> Result<Kind> {
        self.advance();
        let name = self.word()?;
        let args = if self.is_op("(") {
            self.list(|parser| match parser.tok().clone() {
                Tok::Str(text, _) | Tok::Int(text) => {
                    parser.advance();
                    Ok(text)
                }
                Tok::Op("-") if matches!(parser.ahead(1), Tok::Int(_)) => {
                    parser.advance();
                    parser.integer().map(|number| format!("-{number}"))
                }
                _ if parser.is_op_at(1, ".") => parser.name().map(|name| name.text()),
                Tok::Word(text) => {
                    parser.advance();
                    Ok(text)
                }
                _ => parser.identifier(),
            })?
        } else {
            Vec::new()
        };
        let options = if self.eat("WITH") { self.commas(Self::word)? } else { Vec::new() };
        Ok(Kind::Act(Action::Dbcc { name, args, options }))
    }
}
