//! The arguments of TRIM: `[LEADING | TRAILING | BOTH] [characters FROM] text`.

use super::Parser;
use crate::ast::{Call, Name};
use crate::error::Result;
use crate::lex::Tok;

/// The sides, with the functions that trim at one of them.
const SIDES: &[(&str, &str)] = &[("LEADING", "LTRIM"), ("TRAILING", "RTRIM"), ("BOTH", "TRIM")];

/// Returns true for TRIM, which has no list of arguments.
pub(super) fn is_trim(name: &Name) -> bool {
    name.0.len() == 1 && name.object().eq_ignore_ascii_case("TRIM")
}

impl Parser<'_> {
    /// Parses them into a call, the characters behind the text as those of LTRIM. Returns the
    /// height of the higher one.
    pub(super) fn trim_arguments(&mut self, made: &mut Call) -> Result<u32> {
        let side = SIDES.iter().find(|(word, _)| self.is(word));
        // a column may have such a name
        let side = side.filter(|_| match self.ahead(1) {
            Tok::Op(op) => *op == "(",
            _ => !self.is_word_at(1, "FROM"),
        });
        if let Some((_, function)) = side {
            self.advance();
            made.name = Name(vec![(*function).to_owned()]);
        }
        let first = self.condition()?;
        let mut height = self.height;
        if side.is_some() || self.is("FROM") {
            self.expect("FROM")?;
            made.args.push(self.condition()?);
            height = height.max(self.height);
        }
        made.args.push(first);
        Ok(height)
    }
}
