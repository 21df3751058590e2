//! Calls of the system that no library of ours wraps: other processes' clocks, and children that
//! end with their parent.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// CPU clock of another process (`clock_getcpuclockid`): all its threads, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    id: libc::clockid_t,
}

impl Clock {
    /// The clock of a process; none where there is no such process.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        /// The kernel's largest number of a process; a larger one would not fit a clock's id.
        const MOST: u32 = 1 << 22;
        let mut id: libc::clockid_t = 0;
        if pid == 0 || pid > MOST {
            return None;
        }
        // SAFETY: the place is valid for a clock's id, which the call writes only on success.
        let failed = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut id) };
        (failed == 0).then_some(Self { id })
    }

    /// CPU used so far; none once the process has ended.
    #[must_use]
    pub fn now_ns(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is valid for a time; a clock that is gone makes the call fail.
        let failed = unsafe { libc::clock_gettime(self.id, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let rest = u64::try_from(time.tv_nsec).ok()?;
        (failed == 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(rest))
    }
}

/// The resources that a process has used so far, by `/proc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// CPU by its process clock.
    pub cpu_ns: u64,
    /// User part, in ticks of 10 ms.
    pub user_ns: u64,
    /// System part, in ticks of 10 ms.
    pub system_ns: u64,
    /// Bytes fetched from devices.
    pub device_read_bytes: u64,
    /// Bytes sent towards devices.
    pub device_write_bytes: u64,
    /// Voluntary and forced context switches of all its threads that are there.
    pub context_switches: u64,
}

impl ProcessUse {
    /// Reads the counters of a process; zeros where the system does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let text =
            |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let io = text("io");
        let (user_ns, system_ns) = cpu_split(&text("stat"));
        Self {
            cpu_ns: processor_ns(pid).unwrap_or(0),
            user_ns,
            system_ns,
            device_read_bytes: field(&io, "read_bytes:"),
            device_write_bytes: field(&io, "write_bytes:"),
            context_switches: switches(pid),
        }
    }

    /// The resources used since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            device_read_bytes: self.device_read_bytes.saturating_sub(before.device_read_bytes),
            device_write_bytes: self.device_write_bytes.saturating_sub(before.device_write_bytes),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
        }
    }
}

/// CPU of all threads of a process so far; none where there is no such process.
#[must_use]
pub fn processor_ns(pid: u32) -> Option<u64> {
    Clock::of(pid)?.now_ns()
}

/// Fields 14 and 15 of `/proc/PID/stat`, in ticks (USER_HZ is 100 on every Linux). The name in
/// field 2 may hold blanks and brackets, so counting starts behind its end.
fn cpu_split(stat: &str) -> (u64, u64) {
    const TICK_NS: u64 = 10_000_000;
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    (next().saturating_mul(TICK_NS), next().saturating_mul(TICK_NS))
}

fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            field(&text, "voluntary_ctxt_switches:") + field(&text, "nonvoluntary_ctxt_switches:")
        })
        .sum()
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Lets the kernel kill the command when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let ask = || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call and takes no memory.
    unsafe { command.pre_exec(ask) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_cpu_that_its_clock_tells() {
        let own = std::process::id();
        let before = ProcessUse::of(own);
        let mut sum = 0_u64;
        for n in 0..30_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        let used = ProcessUse::of(own).since(&before);
        assert!(sum != 1 && used.cpu_ns > 100_000, "{used:?}");
        assert!(ProcessUse::of(own).context_switches > 0);
        assert!(Clock::of(u32::MAX / 2).is_none() && Clock::of(0).is_none());
    }

    #[test]
    fn a_name_with_blanks_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 12 34 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_split(stat), (120_000_000, 340_000_000));
        assert_eq!(cpu_split(""), (0, 0));
    }
}
