//! SET LANGUAGE, and values that options of SET take from variables.

use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tds::{EnvChange, Value};

use crate::ast::{Expr, SetValue, UnOp};
use crate::error::Result;
use crate::run::state::Frame;
use crate::run::work::Run;
use crate::value::dateparse::DateText;
use crate::value::language::Language;

/// The value of an option, with that of its variable.
pub(super) fn given(value: &SetValue, frame: &Frame) -> Result<SetValue> {
    Ok(match value {
        SetValue::Expr(Expr::Str(text, _)) => SetValue::Text(text.clone()),
        SetValue::Expr(Expr::Var(name)) => match &frame.vars[frame.variables.find(name)?.slot] {
            Value::Text(text) => SetValue::Text(text.to_string()),
            Value::Int(int) => {
                let digits = Expr::Int(int.unsigned_abs().to_string());
                SetValue::Expr(match *int < 0 {
                    true => Expr::Unary(UnOp::Minus, Box::new(digits)),
                    false => digits,
                })
            }
            _ => value.clone(),
        },
        _ => value.clone(),
    })
}

impl Run<'_> {
    /// Sets the names of months and days, DATEFORMAT and DATEFIRST. Messages stay English.
    pub(super) fn set_language(&mut self, name: &str) -> Result<()> {
        let Some(language) = Language::find(name) else {
            return Err(ServerError::NotALanguage { name: name.to_owned() }.into());
        };
        let options = &mut self.s.state.options;
        let old = options.dateformat.language;
        options.dateformat = DateText { order: language.order, language };
        options.datefirst = i64::from(language.first);
        self.sink.env_change(EnvChange::Language { new: language.name, old: old.name });
        // whoever wants no more learns it at the statement's end
        let _ = self.sink.message(&Told::Language { name: language.name.to_owned() }.message());
        Ok(())
    }

    /// Reports the language that is valid again after a procedure that set another.
    pub(super) fn show_language(&mut self, before: &Language) {
        let language = self.s.state.options.dateformat.language;
        if language.id != before.id {
            self.sink.env_change(EnvChange::Language { new: language.name, old: before.name });
        }
    }
}
