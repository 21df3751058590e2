//! Labels of a text, and where GOTO may go: into any statement but a TRY or CATCH block in which it
//! does not stand.

use std::collections::HashMap;

use tdekit_wire_tds::messages::CursorError;

use crate::ast::{Kind, Stmt};
use crate::error::{At, Error, Result};

/// The labels of a text. They are numbered, as are its TRY and CATCH blocks, in the order of the
/// text: once when the text is searched for them, and again while it is compiled.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// By their names in lower case: numbers, and the blocks around them.
    known: HashMap<String, (u32, Vec<u32>)>,
    /// Number of labels so far.
    pub(crate) met: u32,
    blocks: u32,
    /// The blocks around the current statement.
    around: Vec<u32>,
}

impl Labels {
    /// Finds the labels of a text.
    ///
    /// # Errors
    /// 132 for one that stands there twice.
    pub(crate) fn of(stmts: &[Stmt]) -> std::result::Result<Labels, At> {
        let mut labels = Labels::default();
        labels.find(stmts)?;
        Ok(Labels { known: labels.known, ..Labels::default() })
    }

    fn find(&mut self, stmts: &[Stmt]) -> std::result::Result<(), At> {
        for stmt in stmts {
            match &stmt.kind {
                Kind::Label(name) => {
                    let place = (self.meet(), self.around.clone());
                    if self.known.insert(name.to_lowercase(), place).is_some() {
                        let error = CursorError::DuplicateLabel { name: name.clone() }.into();
                        return Err(At { error, line: stmt.line });
                    }
                }
                Kind::Try(tried, caught) => {
                    let scope = self.enter_try();
                    self.find(tried)?;
                    self.enter_catch(scope);
                    self.find(caught)?;
                    self.leave();
                }
                _ => {
                    let mut found = Ok(());
                    stmt.children(&mut |inner| {
                        if found.is_ok() {
                            found = self.find(std::slice::from_ref(inner));
                        }
                    });
                    found?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of the label that is the current statement.
    pub(crate) fn meet(&mut self) -> u32 {
        self.met += 1;
        self.met - 1
    }

    /// Enters a TRY block; returns what [`Labels::enter_catch`] takes.
    pub(crate) fn enter_try(&mut self) -> u32 {
        self.blocks += 2;
        self.around.push(self.blocks);
        self.blocks + 1
    }

    /// Leaves a TRY block for its CATCH block.
    pub(crate) fn enter_catch(&mut self, scope: u32) {
        self.around.pop();
        self.around.push(scope);
    }

    pub(crate) fn leave(&mut self) {
        self.around.pop();
    }

    /// Returns the number of the label to which a GOTO goes.
    pub(crate) fn target(&self, name: &str) -> Result<u32> {
        let Some((number, around)) = self.known.get(&name.to_lowercase()) else {
            return Err(CursorError::NoLabel { name: name.to_owned() }.into());
        };
        match self.around.starts_with(around) {
            true => Ok(*number),
            false => Err(Error::from(CursorError::IntoTry {})),
        }
    }
}
