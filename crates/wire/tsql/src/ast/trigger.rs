//! Triggers: the statements that define them, and the changes that fire them.

use tdekit_wire_tds::Command;

use super::{Name, Stmt};

/// A change that fires triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Insert,
    Update,
    Delete,
}

impl Event {
    /// In the order of their numbers in `sys.trigger_events`, which are from 1.
    pub(crate) const ALL: [Event; 3] = [Event::Insert, Event::Update, Event::Delete];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Event::Insert => "INSERT",
            Event::Update => "UPDATE",
            Event::Delete => "DELETE",
        }
    }

    /// The statement's command in answers to clients.
    pub(crate) fn command(self) -> Command {
        match self {
            Event::Insert => Command::INSERT,
            Event::Update => Command::UPDATE,
            Event::Delete => Command::DELETE,
        }
    }

    fn bit(self) -> u8 {
        match self {
            Event::Insert => 1,
            Event::Update => 2,
            Event::Delete => 4,
        }
    }
}

/// A set of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Events(u8);

impl Events {
    /// The set of this number, as it is stored.
    pub(crate) fn of_number(number: i64) -> Events {
        Events(u8::try_from(number & 7).unwrap_or(0))
    }

    pub(crate) fn number(self) -> i64 {
        i64::from(self.0)
    }

    pub(crate) fn has(self, event: Event) -> bool {
        self.0 & event.bit() != 0
    }

    /// Adds an event; returns false if it is there already.
    pub(crate) fn add(&mut self, event: Event) -> bool {
        let new = !self.has(event);
        self.0 |= event.bit();
        new
    }
}

/// CREATE TRIGGER, ALTER TRIGGER, CREATE OR ALTER TRIGGER.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateTrigger {
    pub(crate) name: Name,
    /// The table or view.
    pub(crate) table: Name,
    /// INSTEAD OF, in place of AFTER.
    pub(crate) instead: bool,
    pub(crate) events: Events,
    pub(crate) body: Vec<Stmt>,
    pub(crate) may_create: bool,
    pub(crate) may_replace: bool,
    /// The statement's text, which begins with CREATE TRIGGER in each case.
    pub(crate) text: String,
}

/// A statement about triggers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TriggerAction {
    Create(CreateTrigger),
    /// ENABLE TRIGGER and DISABLE TRIGGER; all of the table's if none is named.
    Switch {
        names: Vec<Name>,
        table: Name,
        enable: bool,
        /// True for a part of ALTER TABLE.
        alters: bool,
    },
}

impl TriggerAction {
    pub(crate) fn table(&self) -> &Name {
        match self {
            TriggerAction::Create(made) => &made.table,
            TriggerAction::Switch { table, .. } => table,
        }
    }
}
