//! DECLARE CURSOR, OPEN, FETCH, CLOSE, DEALLOCATE.

use tdekit_wire_tds::messages::CursorError;

use super::Parser;
use crate::ast::cursor::{Cursor, CursorName, DeclareCursor, Fetch, FetchPlace};
use crate::ast::{Expr, Kind};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Options of DECLARE CURSOR. Two of a line exclude each other.
const OPTIONS: [&[&str]; 4] = [
    &["LOCAL", "GLOBAL"],
    &["FORWARD_ONLY", "SCROLL"],
    &["STATIC", "KEYSET", "DYNAMIC", "FAST_FORWARD"],
    &["READ_ONLY", "SCROLL_LOCKS", "OPTIMISTIC"],
];

fn cursor(cursor: Cursor) -> Kind {
    Kind::Cursor(Box::new(cursor))
}

impl Parser<'_> {
    /// `name [INSENSITIVE] [SCROLL] CURSOR .. FOR ..`, behind DECLARE.
    pub(super) fn declare_cursor(&mut self) -> Result<Kind> {
        let name = CursorName { name: self.identifier()?, global: false };
        let mut old = Vec::new();
        for word in ["INSENSITIVE", "SCROLL"] {
            if self.eat(word) {
                old.push(word);
            }
        }
        self.declared_cursor(name, &old)
    }

    /// `CURSOR .. FOR ..`, behind the name; `old` are the words before it.
    fn declared_cursor(&mut self, name: CursorName, old: &[&'static str]) -> Result<Kind> {
        self.expect("CURSOR")?;
        let mut given: Vec<&'static str> = Vec::new();
        while let Some(option) = self.cursor_option() {
            self.advance();
            let of = |option| OPTIONS.iter().position(|group| group.contains(&option));
            if let Some(left) = given.iter().find(|known| of(known) == of(option)) {
                return Err(CursorError::Conflicting { left, right: option }.into());
            }
            given.push(option);
        }
        if !old.is_empty() && !given.is_empty() {
            return Err(CursorError::MixedSyntax {}.into());
        }
        let has = |word: &str| given.contains(&word);
        if has("FAST_FORWARD") && has("SCROLL") {
            return Err(CursorError::Conflicting { left: "FAST_FORWARD", right: "SCROLL" }.into());
        }
        for word in ["SCROLL_LOCKS", "OPTIMISTIC"] {
            if has(word) {
                return Err(Error::unsupported(word));
            }
        }
        if self.is("TYPE_WARNING") {
            return Err(Error::unsupported("TYPE_WARNING"));
        }
        self.expect("FOR")?;
        let mut query = Box::new(self.query()?);
        query.max_recursion = self.query_hints()?;
        if self.is_words(&["FOR", "UPDATE"]) {
            return Err(Error::unsupported("FOR UPDATE"));
        }
        if self.eat("FOR") {
            self.expect("READ")?;
            self.expect("ONLY")?;
        }
        let by_kind = ["STATIC", "KEYSET", "DYNAMIC"].iter().any(|word| has(word));
        let scroll = has("SCROLL") || old.contains(&"SCROLL") || by_kind && !has("FORWARD_ONLY");
        let local = has("LOCAL") || name.is_variable();
        Ok(cursor(Cursor::Declare(DeclareCursor { name, local, scroll, query })))
    }

    fn cursor_option(&self) -> Option<&'static str> {
        OPTIONS.iter().copied().flatten().copied().find(|option| self.is(option))
    }

    /// SET of a variable to a cursor, from CURSOR on; None if that is not what follows.
    pub(super) fn set_cursor(&mut self, variable: &str) -> Result<Option<Kind>> {
        if !self.is("CURSOR") {
            return Ok(None);
        }
        let name = CursorName { name: variable.to_owned(), global: false };
        self.declared_cursor(name, &[]).map(Some)
    }

    /// OPEN, CLOSE or DEALLOCATE of a cursor.
    pub(super) fn cursor_verb(&mut self, verb: &str) -> Result<Kind> {
        self.advance();
        let name = self.cursor_name()?;
        Ok(cursor(match verb {
            "OPEN" => Cursor::Open(name),
            "CLOSE" => Cursor::Close(name),
            _ => Cursor::Deallocate(name),
        }))
    }

    fn cursor_name(&mut self) -> Result<CursorName> {
        if matches!(self.tok(), Tok::Var(_)) {
            return Ok(CursorName { name: self.variable()?, global: false });
        }
        let named = match self.ahead(1) {
            Tok::Quoted(_) => true,
            Tok::Word(word) => !super::is_reserved(word),
            _ => false,
        };
        let global = self.is("GLOBAL") && named && self.eat("GLOBAL");
        Ok(CursorName { name: self.identifier()?, global })
    }

    pub(super) fn fetch(&mut self) -> Result<Kind> {
        self.advance();
        let word = match self.tok() {
            Tok::Word(word) => word.to_ascii_uppercase(),
            _ => String::new(),
        };
        // a cursor may have the name of a place
        let place = match word.as_str() {
            "NEXT" if self.is_word_at(1, "FROM") => Some(FetchPlace::Next),
            "PRIOR" if self.is_word_at(1, "FROM") => Some(FetchPlace::Prior),
            "FIRST" if self.is_word_at(1, "FROM") => Some(FetchPlace::First),
            "LAST" if self.is_word_at(1, "FROM") => Some(FetchPlace::Last),
            "ABSOLUTE" | "RELATIVE"
                if matches!(self.ahead(1), Tok::Int(_) | Tok::Var(_) | Tok::Op("-")) =>
            {
                self.advance();
                let number = self.fetch_number()?;
                self.expect("FROM")?;
                let place = match word.as_str() {
                    "ABSOLUTE" => FetchPlace::Absolute(number),
                    _ => FetchPlace::Relative(number),
                };
                return self.fetch_from(place);
            }
            _ => None,
        };
        if place.is_some() {
            self.advance();
        }
        self.eat("FROM");
        self.fetch_from(place.unwrap_or(FetchPlace::Next))
    }

    fn fetch_from(&mut self, place: FetchPlace<Expr>) -> Result<Kind> {
        let from = self.cursor_name()?;
        let into = if self.eat("INTO") { Some(self.commas(Self::variable)?) } else { None };
        Ok(cursor(Cursor::Fetch(Fetch { place, from, into })))
    }

    fn fetch_number(&mut self) -> Result<Expr> {
        if matches!(self.tok(), Tok::Var(_)) {
            return Ok(Expr::Var(self.variable()?));
        }
        let number = self.integer()?;
        let digits = Expr::Int(number.unsigned_abs().to_string());
        Ok(match number {
            ..0 => Expr::Unary(crate::ast::UnOp::Minus, Box::new(digits)),
            _ => digits,
        })
    }
}
