//! SET: variables and options.

use super::Parser;
use crate::ast::{Action, Kind, SetValue};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Options of SET that are ON or OFF.
pub(crate) const SWITCHES: &[&str] = &[
    "ANSI_DEFAULTS",
    "ANSI_NULLS",
    "ANSI_NULL_DFLT_OFF",
    "ANSI_NULL_DFLT_ON",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "ARITHIGNORE",
    "CONCAT_NULL_YIELDS_NULL",
    "CURSOR_CLOSE_ON_COMMIT",
    "FMTONLY",
    "FORCEPLAN",
    "IMPLICIT_TRANSACTIONS",
    "NOCOUNT",
    "NOEXEC",
    "NUMERIC_ROUNDABORT",
    "PARSEONLY",
    "QUOTED_IDENTIFIER",
    "REMOTE_PROC_TRANSACTIONS",
    "XACT_ABORT",
    "NO_BROWSETABLE",
];
/// Options of SET that take a value.
pub(crate) const VALUES: &[&str] = &[
    "CONTEXT_INFO",
    "DATEFIRST",
    "DATEFORMAT",
    "DEADLOCK_PRIORITY",
    "LANGUAGE",
    "LOCK_TIMEOUT",
    "QUERY_GOVERNOR_COST_LIMIT",
    "ROWCOUNT",
    "TEXTSIZE",
];

impl Parser<'_> {
    pub(crate) fn set(&mut self) -> Result<Kind> {
        self.advance();
        if matches!(self.tok(), Tok::Var(_)) {
            let name = self.variable()?;
            if self.is_op(".") {
                return Err(Error::unsupported("SET of a type's method"));
            }
            let op = self.assignment()?;
            if op.is_none()
                && let Some(cursor) = self.set_cursor(&name)?
            {
                return Ok(cursor);
            }
            return Ok(Kind::Set(name, op, self.expression()?));
        }
        if self.eat_words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
            let mut level = self.word()?;
            if matches!(level.as_str(), "READ" | "REPEATABLE") {
                level = format!("{level} {}", self.word()?);
            }
            return match level.as_str() {
                "READ UNCOMMITTED" | "READ COMMITTED" | "REPEATABLE READ" | "SERIALIZABLE"
                | "SNAPSHOT" => Ok(Kind::Act(Action::SetOption(
                    vec!["ISOLATION".to_owned()],
                    SetValue::Text(level),
                ))),
                _ => Err(Error::Syntax { near: level }),
            };
        }
        if self.eat("IDENTITY_INSERT") {
            let table = self.name()?;
            let on = self.switch()?;
            return Ok(Kind::Act(Action::SetOption(
                vec!["IDENTITY_INSERT".to_owned()],
                SetValue::Table(table, on),
            )));
        }
        if self.eat("STATISTICS") {
            let what = self.commas(Self::word)?;
            let on = self.switch()?;
            if let Some(other) = what.iter().find(|what| !matches!(what.as_str(), "IO" | "TIME")) {
                return match on {
                    true => Err(Error::unsupported(format!("SET STATISTICS {other} ON"))),
                    false => Ok(Kind::Nothing),
                };
            }
            let names = what.iter().map(|what| format!("STATISTICS {what}")).collect();
            let value = if on { SetValue::On } else { SetValue::Off };
            return Ok(Kind::Act(Action::SetOption(names, value)));
        }
        let names = self.commas(Self::word)?;
        let first = names[0].as_str();
        if VALUES.contains(&first) {
            let value = match self.tok().clone() {
                Tok::Word(word) => {
                    self.advance();
                    SetValue::Text(word)
                }
                Tok::Quoted(word) => {
                    self.advance();
                    SetValue::Text(word)
                }
                _ => SetValue::Expr(self.expression()?),
            };
            return Ok(Kind::Act(Action::SetOption(names, value)));
        }
        for name in &names {
            if !SWITCHES.contains(&name.as_str()) {
                return Err(Error::NotAnOption { name: name.clone() });
            }
        }
        let value = if self.switch()? { SetValue::On } else { SetValue::Off };
        Ok(Kind::Act(Action::SetOption(names, value)))
    }

    pub(crate) fn switch(&mut self) -> Result<bool> {
        match self.word()?.as_str() {
            "ON" => Ok(true),
            "OFF" => Ok(false),
            other => Err(Error::Syntax { near: other.to_owned() }),
        }
    }
}
