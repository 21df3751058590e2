//! The lexer: text to tokens, each with its position. It reads the text once and opens nothing.

use tdekit_wire_tds::memory;

use crate::error::{At, Error};

/// Maximum length of an identifier, in UTF-16 units.
const MAX_IDENTIFIER: usize = 128;

/// Number of tokens after which it checks for available memory.
const TOKENS_TO_ASK: usize = 4096;

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tok {
    /// A name or keyword, as written.
    Word(String),
    /// A name in brackets or double quotes: never a keyword.
    Quoted(String),
    /// `@name` or `@@name`, with its at signs.
    Var(String),
    /// A string; true if it has the prefix N.
    Str(String, bool),
    /// Digits.
    Int(String),
    /// Digits with a decimal point.
    Dec(String),
    /// A number with an exponent.
    Float(String),
    /// `$1.50`, without its sign.
    Money(String),
    /// `0x...`.
    Hex(Vec<u8>),
    /// An operator or a punctuation mark.
    Op(&'static str),
    /// The end of the text.
    End,
}

/// A token and its position: bytes `start..end` of the text, `line` from 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: u32,
}

/// Operators, the longest first.
const OPERATORS: &[&str] = &[
    "<=", ">=", "<>", "!=", "!<", "!>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>",
    "::", "+", "-", "*", "/", "%", "&", "|", "^", "~", "=", "<", ">", "(", ")", ",", ";", ".", ":",
    "!",
];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    quoted_identifiers: bool,
}

/// Splits `text` into tokens. With `quoted_identifiers`, double quotes enclose names, else strings.
pub(crate) fn lex(text: &str, quoted_identifiers: bool) -> Result<Vec<Token>, At> {
    let mut lexer = Lexer { text, at: 0, line: 1, quoted_identifiers };
    let mut tokens = Vec::new();
    loop {
        lexer.blanks()?;
        let (start, line) = (lexer.at, lexer.line);
        let tok = lexer.token().map_err(|error| At { error, line })?;
        let end = tok == Tok::End;
        tokens.push(Token { tok, start, end: lexer.at, line });
        if tokens.len().is_multiple_of(TOKENS_TO_ASK) {
            // the parsed form is larger than the tokens
            let bytes = tokens.capacity().saturating_mul(2 * size_of::<Token>());
            memory::room(bytes).map_err(|error| At { error: error.into(), line })?;
        }
        if end {
            return Ok(tokens);
        }
    }
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '#'
}

fn goes_on(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$')
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn while_true(&mut self, test: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&test) {
            self.bump();
        }
        self.text[start..self.at].to_owned()
    }

    /// Skips blanks and comments; block comments nest.
    fn blanks(&mut self) -> Result<(), At> {
        loop {
            if self.rest().starts_with("--") {
                self.while_true(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let line = self.line;
                let mut depth = 0_usize;
                loop {
                    if self.rest().starts_with("/*") {
                        depth += 1;
                        self.at += 2;
                    } else if self.rest().starts_with("*/") {
                        depth -= 1;
                        self.at += 2;
                        if depth == 0 {
                            break;
                        }
                    } else if self.bump().is_none() {
                        return Err(At { error: Error::UnclosedComment {}, line });
                    }
                }
            } else if self.peek().is_some_and(|c| c.is_whitespace() || c == '\u{feff}' || c == '\0')
            {
                self.bump();
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Tok, Error> {
        let Some(c) = self.peek() else { return Ok(Tok::End) };
        let second = self.rest().chars().nth(1);
        match c {
            'N' | 'n' if second == Some('\'') => {
                self.bump();
                Ok(Tok::Str(self.enclosed('\'')?, true))
            }
            '\'' => Ok(Tok::Str(self.enclosed('\'')?, false)),
            '"' if self.quoted_identifiers => Ok(Tok::Quoted(name(self.enclosed('"')?)?)),
            '"' => Ok(Tok::Str(self.enclosed('"')?, false)),
            '[' => Ok(Tok::Quoted(name(self.enclosed(']')?)?)),
            '@' => {
                self.bump();
                let name_text = format!("@{}", self.while_true(goes_on));
                Ok(Tok::Var(name(name_text)?))
            }
            '0' if matches!(second, Some('x' | 'X')) => self.hex(),
            '0'..='9' => Ok(self.number()),
            '.' if second.is_some_and(|d| d.is_ascii_digit()) => Ok(self.number()),
            '$' if second.is_some_and(|d| d.is_ascii_digit() || d == '.') => {
                self.bump();
                Ok(match self.number() {
                    Tok::Int(text) | Tok::Dec(text) => Tok::Money(text),
                    Tok::Float(text) => return Err(Error::Syntax { near: text }),
                    _ => Tok::Money("0".to_owned()),
                })
            }
            _ if starts_name(c) || c == '$' => {
                self.bump();
                let start = self.at - c.len_utf8();
                self.while_true(goes_on);
                let word = self.text[start..self.at].to_owned();
                Ok(Tok::Word(name(word)?))
            }
            _ => {
                for operator in OPERATORS {
                    if self.rest().starts_with(operator) {
                        self.at += operator.len();
                        return Ok(Tok::Op(operator));
                    }
                }
                Err(Error::Syntax { near: c.to_string() })
            }
        }
    }

    /// Reads the text between two delimiters; a doubled closing one stands for itself.
    fn enclosed(&mut self, close: char) -> Result<String, Error> {
        self.bump();
        let mut out = String::new();
        loop {
            match self.bump() {
                Some(c) if c == close => {
                    if self.peek() != Some(close) {
                        return Ok(out);
                    }
                    self.bump();
                    out.push(close);
                }
                Some(c) => out.push(c),
                None => {
                    let text = out.chars().take(128).collect();
                    return Err(Error::UnclosedQuote { text });
                }
            }
        }
    }

    fn hex(&mut self) -> Result<Tok, Error> {
        self.at += 2;
        let mut digits = String::new();
        loop {
            digits.push_str(&self.while_true(|c| c.is_ascii_hexdigit()));
            // a backslash at the end of a line continues on the next
            if self.rest().starts_with("\\\n") {
                self.bump();
                self.bump();
            } else {
                break;
            }
        }
        if self.peek().is_some_and(goes_on) {
            return Err(Error::Syntax { near: self.while_true(goes_on) });
        }
        if digits.len() % 2 == 1 {
            digits.insert(0, '0');
        }
        // They are digits, and their number is even.
        Ok(Tok::Hex(hex::decode(digits).unwrap_or_default()))
    }

    fn number(&mut self) -> Tok {
        let mut text = self.while_true(|c| c.is_ascii_digit());
        let mut point = false;
        if self.peek() == Some('.') {
            point = true;
            self.bump();
            text.push('.');
            text.push_str(&self.while_true(|c| c.is_ascii_digit()));
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.bump();
            text.push('e');
            if let Some(sign @ ('+' | '-')) = self.peek() {
                self.bump();
                text.push(sign);
            }
            let digits = self.while_true(|c| c.is_ascii_digit());
            text.push_str(if digits.is_empty() { "0" } else { &digits });
            return Tok::Float(text);
        }
        if point { Tok::Dec(text) } else { Tok::Int(text) }
    }
}

fn name(text: String) -> Result<String, Error> {
    if text.encode_utf16().count() > MAX_IDENTIFIER {
        return Err(Error::LongIdentifier { name: text.chars().take(124).collect() });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Tok, lex};

    /// The token as text that lexes to it again.
    fn written(tok: &Tok) -> String {
        match tok {
            Tok::Word(text) | Tok::Var(text) | Tok::Int(text) => text.clone(),
            Tok::Dec(text) | Tok::Float(text) => text.clone(),
            Tok::Quoted(text) => format!("[{}]", text.replace(']', "]]")),
            Tok::Str(text, national) => {
                let prefix = if *national { "N" } else { "" };
                format!("{prefix}'{}'", text.replace('\'', "''"))
            }
            Tok::Money(text) => format!("${text}"),
            Tok::Hex(bytes) => {
                let digits = hex::encode(bytes);
                format!("0x{digits}")
            }
            Tok::Op(text) => (*text).to_owned(),
            Tok::End => String::new(),
        }
    }

    fn toks(text: &str) -> Vec<Tok> {
        lex(text, true).unwrap().into_iter().map(|token| token.tok).collect()
    }

    #[test]
    fn comments_nest_and_lines_count() {
        let tokens = lex("a /* x /* y\n */ z */ -- c\n b", true).unwrap();
        assert_eq!(tokens.len(), 3);
        assert_eq!((tokens[0].line, tokens[1].line), (1, 3));
        assert_eq!(lex("/* a", true).unwrap_err().error.code().0, 113);
        assert_eq!(lex("\n'a", true).unwrap_err().line, 2);
    }

    #[test]
    fn numbers() {
        let expected = vec![
            Tok::Int("1".to_owned()),
            Tok::Dec("1.".to_owned()),
            Tok::Dec(".5".to_owned()),
            Tok::Float("1e+2".to_owned()),
            Tok::Money("1.5".to_owned()),
            Tok::Hex(vec![0x0a, 0xbc]),
            Tok::End,
        ];
        assert_eq!(toks("1 1. .5 1e+2 $1.5 0xabc"), expected);
    }

    proptest! {
        #[test]
        fn tokens_written_out_lex_to_the_same(text in "[ -~\\n]{0,60}") {
            if let Ok(tokens) = lex(&text, true) {
                let again: Vec<String> = tokens.iter().map(|token| written(&token.tok)).collect();
                let first: Vec<Tok> = tokens.into_iter().map(|token| token.tok).collect();
                prop_assert_eq!(toks(&again.join(" ")), first);
            }
        }

        #[test]
        fn any_text_ends(text in any::<String>()) {
            if let Ok(tokens) = lex(&text, false) {
                prop_assert!(tokens.iter().all(|token| token.start <= token.end));
            }
        }
    }
}
