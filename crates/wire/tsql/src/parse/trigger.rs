//! CREATE TRIGGER, ENABLE TRIGGER, DISABLE TRIGGER and `UPDATE(column)`.

use super::Parser;
use crate::ast::trigger::{CreateTrigger, Event, Events, TriggerAction};
use crate::ast::{Action, Call, CmpOp, Expr, Kind, Name};
use crate::error::{Error, Result};
use crate::lex::Tok;
use tdekit_wire_tds::messages::TriggerError;

/// The function that `UPDATE(column)` calls.
pub(crate) const UPDATED: &str = "UPDATE";

impl Parser<'_> {
    /// The rest of CREATE TRIGGER and the like, from TRIGGER on. The body is the rest of the batch.
    pub(super) fn trigger(&mut self, may_create: bool, may_replace: bool) -> Result<Kind> {
        let start = self.token().start;
        self.expect("TRIGGER")?;
        let name = self.name()?;
        self.expect("ON")?;
        let table = self.trigger_target("TRIGGER")?;
        if self.eat("WITH") {
            return Err(Error::unsupported(format!("TRIGGER WITH {}", self.word()?)));
        }
        let instead = self.eat_words(&["INSTEAD", "OF"]);
        if !instead && !self.eat("AFTER") {
            self.expect("FOR")?;
        }
        let mut events = Events::default();
        for event in self.commas(Self::event)? {
            if !events.add(event) {
                let event = event.word().to_owned();
                return Err(TriggerError::DuplicateEvent { event }.into());
            }
        }
        if self.is("WITH") || self.is("NOT") {
            let word = self.word()?;
            return Err(Error::unsupported(format!("TRIGGER {word} {}", self.word()?)));
        }
        self.expect("AS")?;
        if self.is("EXTERNAL") {
            return Err(Error::unsupported("TRIGGER AS EXTERNAL NAME"));
        }
        let mut body = Vec::new();
        while self.eat_op(";") {}
        while *self.tok() != Tok::End {
            self.must_be_first()?;
            body.push(self.statement()?);
        }
        if body.is_empty() {
            return Err(self.unexpected());
        }
        let text = format!("CREATE {}", &self.text[start..]);
        let made =
            CreateTrigger { name, table, instead, events, body, may_create, may_replace, text };
        Ok(Kind::Act(Action::Trigger(Box::new(TriggerAction::Create(made)))))
    }

    fn event(&mut self) -> Result<Event> {
        let found = Event::ALL.into_iter().find(|event| self.is(event.word()));
        let found = found.ok_or_else(|| self.unexpected())?;
        self.advance();
        Ok(found)
    }

    /// The table or view behind ON; triggers of definitions and logins are not covered.
    fn trigger_target(&mut self, what: &str) -> Result<Name> {
        if self.is("DATABASE") {
            return Err(Error::unsupported(format!("{what} ON DATABASE")));
        }
        if self.is_words(&["ALL", "SERVER"]) {
            return Err(Error::unsupported(format!("{what} ON ALL SERVER")));
        }
        self.name()
    }

    /// `ENABLE TRIGGER names ON table` and DISABLE.
    pub(super) fn switch_triggers(&mut self) -> Result<Kind> {
        let enable = self.word()? == "ENABLE";
        self.expect("TRIGGER")?;
        let all = self.eat("ALL");
        let names = if all { Vec::new() } else { self.commas(Self::name)? };
        self.expect("ON")?;
        let what = if enable { "ENABLE TRIGGER" } else { "DISABLE TRIGGER" };
        let table = self.trigger_target(what)?;
        let switch = TriggerAction::Switch { names, table, enable, alters: false };
        Ok(Kind::Act(Action::Trigger(Box::new(switch))))
    }

    /// `ENABLE TRIGGER names` and DISABLE behind ALTER TABLE; None for another change.
    pub(super) fn triggers_of_table(&mut self, table: &Name) -> Result<Option<Kind>> {
        let enable = self.is("ENABLE");
        if !(enable || self.is("DISABLE")) || !self.is_word_at(1, "TRIGGER") {
            return Ok(None);
        }
        self.advance();
        self.advance();
        let all = self.eat("ALL");
        let name = |parser: &mut Self| parser.identifier().map(|name| Name(vec![name]));
        let names = if all { Vec::new() } else { self.commas(name)? };
        let table = table.clone();
        let switch = TriggerAction::Switch { names, table, enable, alters: true };
        Ok(Some(Kind::Act(Action::Trigger(Box::new(switch)))))
    }

    /// `UPDATE(column)`, a condition.
    pub(super) fn updated(&mut self) -> Result<Expr> {
        self.advance();
        self.expect_op("(")?;
        let column = self.identifier()?;
        self.expect_op(")")?;
        self.height = 2;
        let call = Call {
            name: Name(vec![UPDATED.to_owned()]),
            args: vec![Expr::Str(column, true)],
            ..Call::default()
        };
        let one = Expr::Int("1".to_owned());
        Ok(Expr::Compare(CmpOp::Eq, Box::new(Expr::Call(Box::new(call))), Box::new(one)))
    }
}
