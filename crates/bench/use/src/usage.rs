//! Counters of processes and threads.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{field, read};

/// Resource usage of a thread, a process or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// CPU of all threads.
    pub cpu_ns: u64,
    /// User part, at the kernel's resolution.
    pub user_ns: u64,
    /// System part, at the same resolution.
    pub system_ns: u64,
    /// Bytes read from devices.
    pub device_read_bytes: u64,
    /// Bytes written to devices.
    pub device_write_bytes: u64,
    /// Context switches because it blocked.
    pub voluntary_switches: u64,
    /// Context switches because another got the processor.
    pub involuntary_switches: u64,
}

impl Use {
    /// Returns that of this process so far: `getrusage`, bytes by `/proc/self/io`.
    #[must_use]
    pub fn of_this_process() -> Self {
        let (device_read_bytes, device_write_bytes) = device_bytes("self");
        Self { device_read_bytes, device_write_bytes, ..Self::told(libc::RUSAGE_SELF) }
    }

    /// Returns that of the processes that this one started and reaped.
    #[must_use]
    pub fn of_ended_children() -> Self {
        Self::told(libc::RUSAGE_CHILDREN)
    }

    /// Returns that of the calling thread so far.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = in_ns(now.tv_sec, now.tv_nsec);
        Self { cpu_ns, ..Self::told(libc::RUSAGE_THREAD) }
    }

    fn told(who: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the place is valid for a `rusage`; the call fails only for a bad selector or
        // place. All-zero bytes are a valid `rusage`, so it may be read even then.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        Self::from(&usage)
    }

    /// Returns the context switches of both kinds.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, u64::saturating_add);
    }

    /// Returns the usage since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(&self, other: &Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: each(self.cpu_ns, other.cpu_ns),
            user_ns: each(self.user_ns, other.user_ns),
            system_ns: each(self.system_ns, other.system_ns),
            device_read_bytes: each(self.device_read_bytes, other.device_read_bytes),
            device_write_bytes: each(self.device_write_bytes, other.device_write_bytes),
            voluntary_switches: each(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: each(self.involuntary_switches, other.involuntary_switches),
        }
    }
}

impl From<&libc::rusage> for Use {
    fn from(usage: &libc::rusage) -> Self {
        let time = |time: libc::timeval| in_ns(time.tv_sec, time.tv_usec * 1000);
        let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
        let (user_ns, system_ns) = (time(usage.ru_utime), time(usage.ru_stime));
        Self {
            cpu_ns: user_ns + system_ns,
            user_ns,
            system_ns,
            // getrusage(2): blocks of 512 bytes.
            device_read_bytes: count(usage.ru_inblock) * 512,
            device_write_bytes: count(usage.ru_oublock) * 512,
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }
}

/// The counters of another process at a moment. Switches are counted by thread: those of a thread
/// that ends are lost.
#[derive(Debug)]
pub struct Moment {
    /// None if there is no such process.
    cpu_ns: Option<u64>,
    used: Use,
    switches: BTreeMap<OsString, (u64, u64)>,
}

impl Moment {
    /// Reads the counters of a process, CPU by its own clock, its parts in ticks of 10 ms.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let switches = threads.flatten().filter_map(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let of = |kind: &str| status.contains(kind).then(|| field(&status, kind));
            let both = (of("voluntary_ctxt_switches:")?, of("nonvoluntary_ctxt_switches:")?);
            Some((thread.file_name(), both))
        });
        let switches = switches.collect();
        let (user_ns, system_ns) = ticks(&read(&format!("/proc/{pid}/stat")).unwrap_or_default());
        let (device_read_bytes, device_write_bytes) = device_bytes(&pid.to_string());
        let used =
            Use { user_ns, system_ns, device_read_bytes, device_write_bytes, ..Use::default() };
        Self { cpu_ns: clock_of(pid).and_then(now_ns), used, switches }
    }

    /// Returns the usage since `before`; none if the process cannot be observed any more.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Use> {
        let mut used = self.used.since(&before.used);
        used.cpu_ns = self.cpu_ns?.saturating_sub(before.cpu_ns?);
        for (thread, now) in &self.switches {
            let then = before.switches.get(thread).copied().unwrap_or_default();
            used.voluntary_switches += now.0.saturating_sub(then.0);
            used.involuntary_switches += now.1.saturating_sub(then.1);
        }
        (!self.switches.is_empty()).then_some(used)
    }
}

/// A process's memory, and its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Currently resident.
    pub resident_bytes: u64,
    /// Peak of the resident memory.
    pub peak_bytes: u64,
    /// Number of threads.
    pub threads: u64,
}

impl Memory {
    /// Returns that of a process; zeros if it cannot be read.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let status = status_of(pid);
        Self {
            resident_bytes: field(&status, "VmRSS:") * 1024,
            peak_bytes: field(&status, "VmHWM:") * 1024,
            threads: field(&status, "Threads:"),
        }
    }
}

fn status_of(pid: u32) -> String {
    read(&format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Returns the private memory of this process (`RssAnon`).
#[must_use]
pub fn private_memory_bytes() -> u64 {
    field(&status_of(std::process::id()), "RssAnon:") * 1024
}

fn device_bytes(process: &str) -> (u64, u64) {
    let text = read(&format!("/proc/{process}/io")).unwrap_or_default();
    (field(&text, "read_bytes:"), field(&text, "write_bytes:"))
}

/// Returns fields 14 and 15 of `/proc/PID/stat`, in ticks (USER_HZ is 100 on every Linux). The name
/// in field 2 may contain blanks and brackets, so counting starts after its end.
fn ticks(stat: &str) -> (u64, u64) {
    const TICK_NS: u64 = 10_000_000;
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    (next().saturating_mul(TICK_NS), next().saturating_mul(TICK_NS))
}

/// Returns the CPU clock of a process (`clock_getcpuclockid`); none if there is no such process.
fn clock_of(pid: u32) -> Option<libc::clockid_t> {
    /// The kernel's maximum process number; a larger one would not fit a clock's id.
    const MOST: u32 = 1 << 22;
    let mut id: libc::clockid_t = 0;
    if pid == 0 || pid > MOST {
        return None;
    }
    // SAFETY: the place is valid for a clock's id, which the call writes only on success.
    let failed = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut id) };
    (failed == 0).then_some(id)
}

fn now_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for a time; a clock that is gone makes the call fail.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (failed == 0).then(|| in_ns(time.tv_sec, time.tv_nsec))
}

pub(crate) fn in_ns(seconds: i64, nanoseconds: i64) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(seconds).saturating_mul(1_000_000_000).saturating_add(part(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_uses_cpu_that_its_clock_tells() {
        let before = Moment::of(std::process::id());
        let mut sum = 0_u64;
        for n in 0..30_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
        }
        let used = Moment::of(std::process::id()).since(&before).unwrap();
        assert!(sum != 1 && used.cpu_ns > 100_000, "{used:?}");
        assert!(Moment::of(u32::MAX / 2).since(&before).is_none());
        assert!(clock_of(u32::MAX / 2).is_none() && clock_of(0).is_none());
    }

    #[test]
    fn switches_of_all_threads_are_added() {
        let before = Moment::of(std::process::id());
        let own = Use::of_this_thread();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let used = Moment::of(std::process::id()).since(&before).unwrap();
        assert!(used.switches() >= 5, "{used:?}");
        let used = Use::of_this_thread().since(&own);
        assert!(used.voluntary_switches >= 5, "{used:?}");
        let mut twice = used;
        twice.add(&used);
        assert_eq!(twice.since(&used), used);
    }

    #[test]
    fn a_name_with_blanks_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 12 34 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), (120_000_000, 340_000_000));
        assert_eq!(ticks(""), (0, 0));
    }

    #[test]
    fn fields_of_proc() {
        let text = "rchar: 12\nread_bytes: 4096\nwrite_bytes: 8192\nRssAnon:\t  120 kB\n";
        assert_eq!(field(text, "read_bytes:"), 4096);
        assert_eq!(field(text, "RssAnon:"), 120);
        assert_eq!(field(text, "absent:"), 0);
    }

    #[test]
    fn memory_is_that_of_the_process() {
        let found = Memory::of(std::process::id());
        assert!(found.resident_bytes > 1 << 20 && found.peak_bytes >= found.resident_bytes);
        assert!(found.threads >= 1 && private_memory_bytes() > 0);
    }
}
