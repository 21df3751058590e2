//! Resource usage of processes, by the kernel's counters; properties and other work of the machine;
//! children that end with their parent.
//!
//! Counters that the kernel does not report are 0, or none where that matters.
#![allow(unsafe_code)]

mod child;
mod clock;
mod instructions;
mod listener;
mod machine;
mod storage;
mod usage;

pub use child::{Finished, die_with_parent, has_ended, wait, without_terminal};
pub use clock::{clock_step_ns, cpu_ns, set_clock_step, wall_ns};
pub use instructions::{instructions, instructions_scope};
pub use listener::Listener;
pub use machine::{ProcessorTimes, frequencies_mhz, line_of, load, memory_bytes};
pub use storage::{Sealing, Storage, file_system};
pub use usage::{Memory, Moment, Use, private_memory_bytes};

/// Returns the number after a name at the start of a line; 0 if there is none.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
