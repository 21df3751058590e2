//! The parser: tokens to statements. It is pure, and limited in depth.

mod cursor;
mod database;
mod ddl;
pub(crate) mod defined;
mod dml;
mod expr;
mod function;
mod grouping;
mod merge;
pub(crate) mod options;
mod pivot;
mod principal;
mod query;
mod security;
mod sequence;
mod stmt;
mod target;
mod trigger;
mod trim;
mod types;
mod xml;

use crate::ast::{Expr, Name, ProcParam, Stmt};
use crate::error::{At, Error, Result};
use crate::lex::{Tok, Token, lex};
pub(crate) use defined::FindType;
pub(crate) use expr::AT_TIME_ZONE;
pub(crate) use query::FUNCTIONS;
pub(crate) use types::{column_from_declared, from_declared};
pub(crate) use xml::XML_VALUE;

/// Maximum nesting of statements, queries and expressions.
const MAX_NESTING: u32 = 60;
/// Maximum height of an expression's tree.
const MAX_HEIGHT: u32 = 200;

/// Maximum number of constants and variables of a statement, without lists of IN and VALUES. SQLite
/// compares each of them with all others when it compiles, and notices no cancel during that time.
const MAX_CONSTANTS: u32 = 16_000;

/// Words that are not names unless quoted.
const RESERVED: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "AUTHORIZATION",
    "BACKUP",
    "BEGIN",
    "BETWEEN",
    "BREAK",
    "BROWSE",
    "BULK",
    "BY",
    "CASCADE",
    "CASE",
    "CHECK",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTERED",
    "COALESCE",
    "COLLATE",
    "COLUMN",
    "COMMIT",
    "COMPUTE",
    "CONSTRAINT",
    "CONTAINS",
    "CONTINUE",
    "CONVERT",
    "CREATE",
    "CROSS",
    "CURRENT",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "CURSOR",
    "DATABASE",
    "DBCC",
    "DEALLOCATE",
    "DECLARE",
    "DEFAULT",
    "DELETE",
    "DENY",
    "DESC",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXEC",
    "EXECUTE",
    "EXISTS",
    "EXIT",
    "EXTERNAL",
    "FETCH",
    "FILE",
    "FOR",
    "FOREIGN",
    "FREETEXT",
    "FROM",
    "FULL",
    "FUNCTION",
    "GOTO",
    "GRANT",
    "GROUP",
    "HAVING",
    "HOLDLOCK",
    "IDENTITY",
    "IDENTITY_INSERT",
    "IF",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "KILL",
    "LEFT",
    "LIKE",
    "MERGE",
    "NATIONAL",
    "NOCHECK",
    "NONCLUSTERED",
    "NOT",
    "NULL",
    "NULLIF",
    "OF",
    "OFF",
    "ON",
    "OPEN",
    "OPTION",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PERCENT",
    "PIVOT",
    "PLAN",
    "PRIMARY",
    "PRINT",
    "PROC",
    "PROCEDURE",
    "PUBLIC",
    "RAISERROR",
    "READ",
    "RECONFIGURE",
    "REFERENCES",
    "REPLICATION",
    "RESTORE",
    "RESTRICT",
    "RETURN",
    "REVERT",
    "REVOKE",
    "RIGHT",
    "ROLLBACK",
    "ROWCOUNT",
    "RULE",
    "SAVE",
    "SCHEMA",
    "SELECT",
    "SESSION_USER",
    "SET",
    "SHUTDOWN",
    "SOME",
    "STATISTICS",
    "SYSTEM_USER",
    "TABLE",
    "TABLESAMPLE",
    "THEN",
    "TO",
    "TOP",
    "TRAN",
    "TRANSACTION",
    "TRIGGER",
    "TRUNCATE",
    "TRY_CONVERT",
    "UNION",
    "UNIQUE",
    "UNPIVOT",
    "UPDATE",
    "USE",
    "USER",
    "VALUES",
    "VARYING",
    "VIEW",
    "WAITFOR",
    "WHEN",
    "WHERE",
    "WHILE",
    "WITH",
    "WITHIN",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    RESERVED.binary_search(&upper.as_str()).is_ok()
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    nesting: u32,
    /// The height of the expression parsed last.
    height: u32,
    /// Constants and variables of the statement so far.
    constants: u32,
    /// True if the statement so far takes values of sequences.
    next_values: bool,
    /// Finds the types of variables and parameters.
    types: FindType<'a>,
}

/// Parses a batch that is only looked at: any type may have the name of a user-defined one.
pub(crate) fn parse(text: &str, quoted_identifiers: bool) -> std::result::Result<Vec<Stmt>, At> {
    let mut parser = Parser::new(text, quoted_identifiers)?;
    parser.batch().map_err(|error| parser.place(error))
}

/// Parses a batch to be run.
pub(crate) fn parse_with(
    text: &str,
    quoted_identifiers: bool,
    types: FindType<'_>,
) -> std::result::Result<Vec<Stmt>, At> {
    let mut parser = Parser::new(text, quoted_identifiers)?;
    parser.types = types;
    parser.batch().map_err(|error| parser.place(error))
}

/// Parses the declarations of `sp_executesql`.
pub(crate) fn parse_declarations(
    text: &str,
    types: FindType<'_>,
) -> std::result::Result<Vec<ProcParam>, At> {
    let mut parser = Parser::new(text, true)?;
    parser.types = types;
    let params = parser.parameters().and_then(|params| match parser.tok() {
        Tok::End => Ok(params),
        _ => Err(parser.unexpected()),
    });
    params.map_err(|error| parser.place(error))
}

/// Parses the expression of a DEFAULT.
pub(crate) fn default_expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text, true).map_err(|at| at.error)?;
    let expr = parser.expression()?;
    match parser.tok() {
        Tok::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

/// Parses the condition of a CHECK, as it was written.
pub(crate) fn check_condition(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text, true).map_err(|at| at.error)?;
    let condition = parser.condition()?;
    match parser.tok() {
        Tok::End => Ok(condition),
        _ => Err(parser.unexpected()),
    }
}

/// Parses the name of a type.
pub(crate) fn parse_type(text: &str) -> Result<tdekit_wire_tds::SqlType> {
    let mut parser = Parser::new(text, true).map_err(|at| at.error)?;
    parser.data_type()
}

/// Parses a name of one to four parts, as functions take it in a string; parts omitted before the
/// first dot are empty.
pub(crate) fn parse_name(text: &str) -> Result<Name> {
    let text = text.trim().trim_start_matches('.');
    let mut parser = Parser::new(text, true).map_err(|at| at.error)?;
    let name = parser.name()?;
    match parser.tok() {
        Tok::End => Ok(name),
        _ => Err(parser.unexpected()),
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, quoted_identifiers: bool) -> std::result::Result<Self, At> {
        let tokens = lex(text, quoted_identifiers)?;
        Ok(Parser {
            text,
            tokens,
            at: 0,
            nesting: 0,
            height: 0,
            constants: 0,
            next_values: false,
            types: &defined::stand_in,
        })
    }

    fn place(&self, error: Error) -> At {
        At { error, line: self.line() }
    }

    fn token(&self) -> &Token {
        // the last token is End, and `advance` never goes beyond it
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn tok(&self) -> &Tok {
        &self.token().tok
    }

    fn ahead(&self, by: usize) -> &Tok {
        &self.tokens[(self.at + by).min(self.tokens.len() - 1)].tok
    }

    /// Returns the end of the preceding token.
    fn behind(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |at| self.tokens[at].end)
    }

    fn line(&self) -> u32 {
        self.token().line
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> Error {
        match self.tok() {
            Tok::Word(word) if is_reserved(word) => Error::SyntaxKeyword { near: word.clone() },
            Tok::End => {
                let last = self.at.checked_sub(1).map(|at| &self.tokens[at]);
                let near = last.map_or("", |token| &self.text[token.start..token.end]);
                Error::Syntax { near: near.chars().take(128).collect() }
            }
            Tok::Str(text, _) => Error::Syntax { near: text.chars().take(128).collect() },
            _ => {
                let token = self.token();
                let near = &self.text[token.start..token.end];
                Error::Syntax { near: near.chars().take(128).collect() }
            }
        }
    }

    fn is_word_at(&self, by: usize, word: &str) -> bool {
        matches!(self.ahead(by), Tok::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn is(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(by, word)| self.is_word_at(by, word))
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.advance();
        }
        found
    }

    fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = self.is_words(words);
        if found {
            words.iter().for_each(|_| self.advance());
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| self.expect(word))
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.tok(), Tok::Op(found) if *found == op)
    }

    fn is_op_at(&self, by: usize, op: &str) -> bool {
        matches!(self.ahead(by), Tok::Op(found) if *found == op)
    }

    fn eat_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.advance();
        }
        found
    }

    fn expect_op(&mut self, op: &str) -> Result<()> {
        if self.eat_op(op) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A name: quoted, or a word that is not reserved.
    fn identifier(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Quoted(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            Tok::Word(word) if !is_reserved(word) => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Returns true for a name; that of a label begins the next statement.
    fn is_identifier(&self) -> bool {
        self.is_name() && !self.is_op_at(1, ":")
    }

    fn is_name(&self) -> bool {
        match self.tok() {
            Tok::Quoted(_) => true,
            Tok::Word(word) => !is_reserved(word),
            _ => false,
        }
    }

    /// A word in upper case, reserved or not.
    fn word(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Word(word) => {
                let word = word.to_ascii_uppercase();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// One to four names separated by dots; `a..b` omits the part.
    fn name(&mut self) -> Result<Name> {
        // left out in front: the current database, the default schema
        let left_out = (0..3).take_while(|_| self.eat_op(".")).count();
        let mut parts = vec![self.identifier()?];
        while self.is_op(".") {
            self.advance();
            if self.is_op(".") {
                parts.push(String::new());
            } else {
                parts.push(self.identifier()?);
            }
        }
        if parts.len() + left_out > 4 {
            return Err(Error::Syntax { near: parts.join(".") });
        }
        Ok(Name(parts))
    }

    fn variable(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Var(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn string(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Str(text, _) => {
                let text = text.clone();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn integer(&mut self) -> Result<i64> {
        let negative = self.eat_op("-");
        match self.tok() {
            Tok::Int(text) => {
                let value: i64 = text.parse().map_err(|_| Error::Syntax { near: text.clone() })?;
                self.advance();
                Ok(if negative { -value } else { value })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `( a, b, c )`.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_op("(")?;
        let items = self.commas(&mut item)?;
        self.expect_op(")")?;
        Ok(items)
    }

    /// `a, b, c`.
    fn commas<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_op(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Counts a constant or a variable.
    fn constant(&mut self) -> Result<()> {
        self.constants += 1;
        if self.constants > MAX_CONSTANTS { Err(Error::TooComplex {}) } else { Ok(()) }
    }

    /// Rows of VALUES.
    fn rows<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<Vec<T>>> {
        self.uncounted(|parser| {
            parser.commas(|parser| {
                parser.constants = 0;
                parser.list(&mut item)
            })
        })
    }

    /// Parses a part whose constants do not count for the enclosing statement.
    fn uncounted<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::take(&mut self.constants);
        let result = inner(self);
        self.constants = before;
        result
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting >= MAX_NESTING {
            return Err(Error::NestedTooDeep {});
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{RESERVED, parse};

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500));
        assert_eq!(parse(&deep, true).unwrap_err().error.code().0, 191);
        let long = format!("SELECT 1{}", "+1".repeat(500));
        assert_eq!(parse(&long, true).unwrap_err().error.code().0, 191);
        let many = format!("SELECT 1 WHERE 1=1{}", " OR 1=2".repeat(5000));
        parse(&many, true).unwrap();
        for (text, code) in [
            (format!("SELECT 1 WHERE 1=1{}", " OR 1=2".repeat(8000)), Some(8631)),
            (format!("SELECT CASE 0{} END", " WHEN 1 THEN @v".repeat(8000)), Some(8631)),
            (format!("SELECT 1 WHERE 1 IN (1{})", ",2".repeat(50_000)), None),
            (format!("SELECT 1 WHERE 1=1{};", " OR 1=2".repeat(5000)).repeat(3), None),
        ] {
            let found = parse(&text, true).err().map(|at| at.error.code().0);
            assert_eq!(found, code, "{}", &text[..40]);
        }
        let blocks = format!("{}SELECT 1 {}", "BEGIN ".repeat(500), "END ".repeat(500));
        assert_eq!(parse(&blocks, true).unwrap_err().error.code().0, 191);
        let unary = format!("SELECT {}1", "- ".repeat(500));
        assert_eq!(parse(&unary, true).unwrap_err().error.code().0, 191);
        let not = format!("SELECT 1 WHERE {}1=1", "NOT ".repeat(500));
        assert_eq!(parse(&not, true).unwrap_err().error.code().0, 191);
    }
}
