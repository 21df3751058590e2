//! Expressions and search conditions.

use super::trim::is_trim;
use super::{MAX_HEIGHT, Parser, is_reserved};
use crate::ast::{BinOp, Call, CmpOp, Expr, Name, OrderItem, Over, UnOp};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Functions that are written without parentheses.
const BARE: &[&str] = &["CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"];
/// The name of AT TIME ZONE as a function.
pub(crate) const AT_TIME_ZONE: &str = "AT TIME ZONE";
/// Functions whose names are reserved words.
const RESERVED_FUNCTIONS: &[&str] =
    &["COALESCE", "NULLIF", "LEFT", "RIGHT", "IDENTITY", "CONTAINS"];

/// Returns true for a reserved word, in upper case, that begins a call.
pub(super) fn is_function(word: &str) -> bool {
    let converts = matches!(word, "CONVERT" | "TRY_CONVERT");
    converts || BARE.contains(&word) || RESERVED_FUNCTIONS.contains(&word)
}

pub(crate) fn binary_op(op: &str) -> Option<BinOp> {
    Some(match op {
        "+" | "+=" => BinOp::Add,
        "-" | "-=" => BinOp::Sub,
        "*" | "*=" => BinOp::Mul,
        "/" | "/=" => BinOp::Div,
        "%" | "%=" => BinOp::Mod,
        "&" | "&=" => BinOp::BitAnd,
        "|" | "|=" => BinOp::BitOr,
        "^" | "^=" => BinOp::BitXor,
        _ => return None,
    })
}

/// Returns the function that an operator stands for.
fn shift_op(op: &str) -> Option<&'static str> {
    match op {
        "<<" => Some("LEFT_SHIFT"),
        ">>" => Some("RIGHT_SHIFT"),
        _ => None,
    }
}

fn compare_op(op: &str) -> Option<CmpOp> {
    Some(match op {
        "=" => CmpOp::Eq,
        "<>" | "!=" => CmpOp::Ne,
        "<" => CmpOp::Lt,
        "<=" | "!>" => CmpOp::Le,
        ">" => CmpOp::Gt,
        ">=" | "!<" => CmpOp::Ge,
        _ => return None,
    })
}

/// Higher binds tighter: T-SQL has `* / %`, then `+ - & ^ |`.
fn strength(op: BinOp) -> u8 {
    match op {
        BinOp::Mul | BinOp::Div | BinOp::Mod => 2,
        _ => 1,
    }
}

impl Parser<'_> {
    fn grow(&mut self, height: u32) -> Result<()> {
        self.height = height + 1;
        if self.height > MAX_HEIGHT { Err(Error::NestedTooDeep {}) } else { Ok(()) }
    }

    /// A search condition, or a plain expression: the binder distinguishes them.
    pub(crate) fn condition(&mut self) -> Result<Expr> {
        self.nested(Self::any_of)
    }

    pub(crate) fn expression(&mut self) -> Result<Expr> {
        self.nested(|parser| parser.arithmetic(1))
    }

    fn any_of(&mut self) -> Result<Expr> {
        let mut terms = vec![self.all_of()?];
        let mut height = self.height;
        while self.eat("OR") {
            terms.push(self.all_of()?);
            height = height.max(self.height);
        }
        if terms.len() == 1 {
            return terms.pop().ok_or_else(|| self.unexpected());
        }
        self.grow(height)?;
        Ok(Expr::Or(terms))
    }

    fn all_of(&mut self) -> Result<Expr> {
        let mut terms = vec![self.negation()?];
        let mut height = self.height;
        while self.eat("AND") {
            terms.push(self.negation()?);
            height = height.max(self.height);
        }
        if terms.len() == 1 {
            return terms.pop().ok_or_else(|| self.unexpected());
        }
        self.grow(height)?;
        Ok(Expr::And(terms))
    }

    fn negation(&mut self) -> Result<Expr> {
        if self.eat("NOT") {
            let inner = self.nested(Self::negation)?;
            self.grow(self.height)?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Expr> {
        if self.is("EXISTS") {
            self.advance();
            self.expect_op("(")?;
            let query = self.nested(Self::query)?;
            self.expect_op(")")?;
            self.height = 1;
            return Ok(Expr::Exists(Box::new(query)));
        }
        if self.is("UPDATE") && self.is_op_at(1, "(") {
            return self.updated();
        }
        let left = self.arithmetic(1)?;
        let height = self.height;
        if let Tok::Op(op) = self.tok()
            && let Some(op) = compare_op(op)
        {
            self.advance();
            return self.comparison(left, op, height);
        }
        if self.eat("IS") {
            let negated = self.eat("NOT");
            self.expect("NULL")?;
            self.grow(height)?;
            return Ok(Expr::IsNull(Box::new(left), negated));
        }
        let negated = self.is("NOT")
            && (self.is_word_at(1, "IN")
                || self.is_word_at(1, "LIKE")
                || self.is_word_at(1, "BETWEEN"));
        if negated {
            self.advance();
        }
        if self.eat("BETWEEN") {
            let low = self.arithmetic(1)?;
            let height = height.max(self.height);
            self.expect("AND")?;
            let high = self.arithmetic(1)?;
            self.grow(height.max(self.height))?;
            return Ok(Expr::Between(Box::new(left), Box::new(low), Box::new(high), negated));
        }
        if self.eat("LIKE") {
            let pattern = self.arithmetic(1)?;
            let height = height.max(self.height);
            let escape =
                if self.eat("ESCAPE") { Some(Box::new(self.arithmetic(1)?)) } else { None };
            self.grow(height)?;
            return Ok(Expr::Like(Box::new(left), Box::new(pattern), escape, negated));
        }
        if self.eat("IN") {
            self.expect_op("(")?;
            if self.is("SELECT") || self.is("WITH") {
                let query = self.nested(Self::query)?;
                self.expect_op(")")?;
                self.grow(height)?;
                return Ok(Expr::InQuery(Box::new(left), Box::new(query), negated));
            }
            let mut tallest = height;
            let items = self.uncounted(|parser| {
                parser.commas(|parser| {
                    let item = parser.expression()?;
                    parser.constants = 0;
                    tallest = tallest.max(parser.height);
                    Ok(item)
                })
            })?;
            self.expect_op(")")?;
            self.grow(tallest)?;
            return Ok(Expr::InList(Box::new(left), items, negated));
        }
        Ok(left)
    }

    fn comparison(&mut self, left: Expr, op: CmpOp, height: u32) -> Result<Expr> {
        for (word, all) in [("ALL", true), ("ANY", false), ("SOME", false)] {
            if self.is(word) && self.is_op_at(1, "(") {
                self.advance();
                self.advance();
                let query = self.nested(Self::query)?;
                self.expect_op(")")?;
                self.grow(height)?;
                return Ok(Expr::Quantified(Box::new(left), op, all, Box::new(query)));
            }
        }
        let right = self.arithmetic(1)?;
        self.grow(height.max(self.height))?;
        Ok(Expr::Compare(op, Box::new(left), Box::new(right)))
    }

    fn arithmetic(&mut self, least: u8) -> Result<Expr> {
        let mut left = self.unary()?;
        let mut height = self.height;
        while let Tok::Op(text) = self.tok() {
            let op = binary_op(text).filter(|_| !text.ends_with('='));
            let shift = shift_op(text);
            // a shift binds as the other operators of bits do
            let strength = match (op, shift) {
                (Some(op), _) => strength(op),
                (None, Some(_)) => 1,
                (None, None) => break,
            };
            if strength < least {
                break;
            }
            self.advance();
            let right = self.arithmetic(strength + 1)?;
            self.grow(height.max(self.height))?;
            height = self.height;
            left = match (op, shift) {
                (Some(op), _) => Expr::Binary(op, Box::new(left), Box::new(right)),
                (None, shift) => {
                    call(Name(vec![shift.unwrap_or_default().to_owned()]), vec![left, right])
                }
            };
        }
        self.height = height;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        for (text, op) in [("-", UnOp::Minus), ("+", UnOp::Plus), ("~", UnOp::BitNot)] {
            if self.eat_op(text) {
                let inner = self.nested(Self::unary)?;
                self.grow(self.height)?;
                return Ok(Expr::Unary(op, Box::new(inner)));
            }
        }
        let mut expr = self.primary()?;
        loop {
            if self.eat("COLLATE") {
                if matches!(expr, Expr::Collate(..)) {
                    return Err(Error::SyntaxKeyword { near: "COLLATE".to_owned() });
                }
                let name = self.identifier()?;
                self.grow(self.height)?;
                expr = Expr::Collate(Box::new(expr), name);
            } else if self.eat_words(&["AT", "TIME", "ZONE"]) {
                let height = self.height;
                let zone = self.primary()?;
                self.grow(height.max(self.height))?;
                expr = call(Name(vec![AT_TIME_ZONE.to_owned()]), vec![expr, zone]);
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let tok = self.tok().clone();
        let literal = match &tok {
            Tok::Int(text) => Some(Expr::Int(text.clone())),
            Tok::Dec(text) => Some(Expr::Dec(text.clone())),
            Tok::Float(text) => Some(Expr::Float(text.clone())),
            Tok::Money(text) => Some(Expr::Money(text.clone())),
            Tok::Str(text, national) => Some(Expr::Str(text.clone(), *national)),
            Tok::Hex(bytes) => Some(Expr::Hex(bytes.clone())),
            Tok::Var(name) => Some(Expr::Var(name.clone())),
            _ => None,
        };
        self.height = 1;
        if let Some(literal) = literal {
            self.constant()?;
            self.advance();
            return Ok(literal);
        }
        match &tok {
            Tok::Op("(") => {
                self.advance();
                if self.is("SELECT") || self.is("WITH") {
                    let query = self.nested(Self::query)?;
                    self.expect_op(")")?;
                    self.height = 1;
                    return self.xml_method(query);
                }
                // a condition in parentheses looks like an expression up to its operator
                let inner = self.condition()?;
                self.expect_op(")")?;
                Ok(inner)
            }
            Tok::Word(word) => self.word_expression(&word.to_ascii_uppercase()),
            Tok::Quoted(_) => self.named(),
            _ => Err(self.unexpected()),
        }
    }

    fn word_expression(&mut self, word: &str) -> Result<Expr> {
        match word {
            "NEXT" if self.is_word_at(1, "VALUE") && self.is_word_at(2, "FOR") => self.next_value(),
            "NULL" => {
                self.advance();
                Ok(Expr::Null)
            }
            "CASE" => self.nested(Self::case),
            "CAST" | "TRY_CAST" if self.is_op_at(1, "(") => {
                self.advance();
                self.advance();
                let inner = self.expression()?;
                self.expect("AS")?;
                let ty = self.cast_type()?;
                self.expect_op(")")?;
                self.grow(self.height)?;
                Ok(Expr::Convert(Box::new(inner), ty, None, word == "TRY_CAST"))
            }
            "CONVERT" | "TRY_CONVERT" => {
                self.advance();
                self.expect_op("(")?;
                let ty = self.cast_type()?;
                self.expect_op(",")?;
                let inner = self.expression()?;
                let height = self.height;
                let style =
                    if self.eat_op(",") { Some(Box::new(self.expression()?)) } else { None };
                self.expect_op(")")?;
                self.grow(height)?;
                Ok(Expr::Convert(Box::new(inner), ty, style, word == "TRY_CONVERT"))
            }
            _ if BARE.contains(&word) => {
                self.advance();
                Ok(call(Name(vec![word.to_owned()]), Vec::new()))
            }
            _ if RESERVED_FUNCTIONS.contains(&word) && self.is_op_at(1, "(") => {
                self.advance();
                self.function(Name(vec![word.to_owned()]))
            }
            _ if is_reserved(word) => Err(self.unexpected()),
            _ => self.named(),
        }
    }

    /// A column or a function's call.
    fn named(&mut self) -> Result<Expr> {
        let name = self.name()?;
        if self.is_op("(") {
            return self.function(name);
        }
        if self.is_op("::") {
            return Err(Error::unsupported("::"));
        }
        Ok(Expr::Column(name))
    }

    fn function(&mut self, name: Name) -> Result<Expr> {
        self.nested(|parser| {
            parser.expect_op("(")?;
            let mut made = Call {
                name,
                args: Vec::new(),
                distinct: false,
                star: false,
                over: None,
                within: Vec::new(),
            };
            let mut height = 0;
            let of_database = made.name.0.len() > 1;
            if parser.eat_op("*") {
                made.star = true;
            } else if is_trim(&made.name) && !parser.is_op(")") {
                height = parser.trim_arguments(&mut made)?;
            } else if !parser.is_op(")") {
                made.distinct = parser.eat("DISTINCT");
                if !made.distinct {
                    parser.eat("ALL");
                }
                // IIF takes a condition
                made.args = parser.commas(|parser| {
                    if of_database && parser.eat("DEFAULT") {
                        return Ok(Expr::Default);
                    }
                    let arg = parser.condition()?;
                    height = height.max(parser.height);
                    Ok(arg)
                })?;
            }
            parser.expect_op(")")?;
            if parser.eat_words(&["WITHIN", "GROUP"]) {
                parser.expect_op("(")?;
                parser.expect_words(&["ORDER", "BY"])?;
                made.within = parser.commas(Self::order_item)?;
                parser.expect_op(")")?;
            }
            if parser.is("OVER") {
                parser.advance();
                made.over = Some(parser.over()?);
            }
            parser.grow(height)?;
            Ok(Expr::Call(Box::new(made)))
        })
    }

    pub(crate) fn order_item(&mut self) -> Result<OrderItem> {
        let expr = self.expression()?;
        let descending = if self.eat("DESC") {
            true
        } else {
            self.eat("ASC");
            false
        };
        Ok(OrderItem { expr, descending })
    }

    fn over(&mut self) -> Result<Over> {
        self.expect_op("(")?;
        let mut over = Over { partition: Vec::new(), order: Vec::new(), frame: None };
        if self.eat_words(&["PARTITION", "BY"]) {
            over.partition = self.commas(Self::expression)?;
        }
        if self.eat_words(&["ORDER", "BY"]) {
            over.order = self.commas(Self::order_item)?;
        }
        for unit in ["ROWS", "RANGE"] {
            if self.eat(unit) {
                let frame = if self.eat("BETWEEN") {
                    let low = self.bound()?;
                    self.expect("AND")?;
                    format!("{unit} BETWEEN {low} AND {}", self.bound()?)
                } else {
                    format!("{unit} {}", self.bound()?)
                };
                over.frame = Some(frame);
            }
        }
        self.expect_op(")")?;
        Ok(over)
    }

    fn bound(&mut self) -> Result<String> {
        if self.eat_words(&["CURRENT", "ROW"]) {
            return Ok("CURRENT ROW".to_owned());
        }
        let count = if self.eat("UNBOUNDED") {
            "UNBOUNDED".to_owned()
        } else {
            let count = self.integer()?;
            if count < 0 {
                return Err(Error::Syntax { near: count.to_string() });
            }
            count.to_string()
        };
        match self.word()?.as_str() {
            way @ ("PRECEDING" | "FOLLOWING") => Ok(format!("{count} {way}")),
            other => Err(Error::Syntax { near: other.to_owned() }),
        }
    }

    fn case(&mut self) -> Result<Expr> {
        self.advance();
        let mut height = 1;
        let operand = if self.is("WHEN") {
            None
        } else {
            let operand = self.expression()?;
            height = self.height;
            Some(Box::new(operand))
        };
        let mut whens = Vec::new();
        while self.eat("WHEN") {
            let when = self.condition()?;
            height = height.max(self.height);
            self.expect("THEN")?;
            let then = self.expression()?;
            height = height.max(self.height);
            whens.push((when, then));
        }
        if whens.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.eat("ELSE") {
            let otherwise = self.expression()?;
            height = height.max(self.height);
            Some(Box::new(otherwise))
        } else {
            None
        };
        self.expect("END")?;
        self.grow(height)?;
        Ok(Expr::Case(operand, whens, otherwise))
    }
}

pub(super) fn call(name: Name, args: Vec<Expr>) -> Expr {
    let made = Call { name, args, distinct: false, star: false, over: None, within: Vec::new() };
    Expr::Call(Box::new(made))
}
