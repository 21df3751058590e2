//! A sink for work without results.

use std::sync::Arc;

use tdekit_wire_tds::{Column, Command, DoneKind, Message, Sink, Value};

/// A sink for work without results.
pub(crate) struct Silent;

impl Sink for Silent {
    fn columns(&mut self, _: &[Column]) -> tdekit_wire_tds::Flow {
        tdekit_wire_tds::Flow::Continue
    }
    fn row(&mut self, _: &[Value<'_>]) -> tdekit_wire_tds::Flow {
        tdekit_wire_tds::Flow::Continue
    }
    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> tdekit_wire_tds::Flow {
        tdekit_wire_tds::Flow::Continue
    }
    fn message(&mut self, _: &Message) -> tdekit_wire_tds::Flow {
        tdekit_wire_tds::Flow::Continue
    }
    fn return_status(&mut self, _: i32) {}
    fn return_value(&mut self, _: u16, _: &str, _: tdekit_wire_tds::SqlType, _: &Value<'_>) {}
    fn env_change(&mut self, _: tdekit_wire_tds::EnvChange<'_>) {}
    fn flush(&mut self) {}
    fn cancelled(&self) -> bool {
        false
    }
    fn cancel_flag(&self) -> Arc<std::sync::atomic::AtomicBool> {
        Arc::default()
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        wait();
        true
    }
}
