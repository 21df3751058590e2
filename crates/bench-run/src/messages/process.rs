//! The server's process: which it is, and what it used. And what the own thread used.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, UdpSocket};

use tdekit_private_mariadb::processor_ns;

use crate::measure::{field, thread_ns};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Programs that pass connections on to a server elsewhere: what they use says nothing.
const FORWARDERS: [&str; 5] = ["docker-proxy", "rootlessport", "ssh", "socat", "slirp4netns"];

/// What a process or a thread used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessorUse {
    /// CPU by its own clock.
    pub(super) cpu_ns: u64,
    /// Context switches because it waited.
    pub(super) voluntary_switches: u64,
    /// Context switches because another was given the processor.
    pub(super) involuntary_switches: u64,
}

impl ProcessorUse {
    /// Context switches of both kinds.
    pub(super) fn switches(&self) -> u64 {
        self.voluntary_switches.saturating_add(self.involuntary_switches)
    }
}

/// A process that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) pid: u32,
    pub(super) name: String,
}

impl Server {
    /// A process that is known.
    pub(super) fn of(pid: u32) -> Self {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, name: name.trim().to_owned() }
    }

    /// The process that listens on a port of this machine.
    ///
    /// # Errors
    /// Why it cannot be seen, in words.
    pub(super) fn listening(address: IpAddr, port: u16) -> Result<Self, String> {
        if !is_own(address) {
            return Err("the server is on another machine".to_owned());
        }
        let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .flat_map(|file| listeners(&fs::read_to_string(file).unwrap_or_default(), port))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let pid = owner(&sockets).ok_or_else(|| {
            "no process of this machine is seen to listen on the server's port: it may be another \
             user's, or in a container"
                .to_owned()
        })?;
        let found = Self::of(pid);
        if FORWARDERS.contains(&found.name.as_str()) {
            return Err(format!("{} passes the connections on", found.name));
        }
        Ok(found)
    }
}

/// An address can be bound only where it is the machine's own.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Inodes of the sockets that listen on a port. Columns: number, local address, remote one, state,
/// five others, inode.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let wanted = format!("{port:04X}");
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let local = words.get(1)?.rsplit_once(':')?.1;
        let fits = local == wanted && words.get(3) == Some(&LISTENING);
        fits.then(|| words.get(9).map(|inode| (*inode).to_owned())).flatten()
    };
    table.lines().filter_map(of_line).collect()
}

/// The oldest process that holds one of the sockets.
fn owner(sockets: &[String]) -> Option<u32> {
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let holds = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files
            .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
            .any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
    };
    pids.into_iter().find(holds)
}

/// What a process had used at a moment. Switches are kept by thread: those of a thread that ends
/// are gone with it.
#[derive(Debug)]
pub(super) struct Moment {
    cpu_ns: Option<u64>,
    switches: BTreeMap<u32, (u64, u64)>,
}

impl Moment {
    pub(super) fn of(pid: u32) -> Self {
        let mut switches = BTreeMap::new();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        for task in tasks.flatten() {
            let number = task.file_name().to_str().and_then(|name| name.parse().ok());
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            if let Some((number, found)) = number.zip(switches_of(&status)) {
                switches.insert(number, found);
            }
        }
        Self { cpu_ns: processor_ns(pid), switches }
    }

    /// What was used since `before`; none where the process cannot be seen any more.
    pub(super) fn since(&self, before: &Self) -> Option<ProcessorUse> {
        let cpu_ns = self.cpu_ns?.saturating_sub(before.cpu_ns?);
        if self.switches.is_empty() {
            return None;
        }
        let mut used = ProcessorUse { cpu_ns, ..ProcessorUse::default() };
        for (thread, (voluntary, involuntary)) in &self.switches {
            let (old_voluntary, old_involuntary) =
                before.switches.get(thread).copied().unwrap_or_default();
            used.voluntary_switches += voluntary.saturating_sub(old_voluntary);
            used.involuntary_switches += involuntary.saturating_sub(old_involuntary);
        }
        Some(used)
    }
}

/// What the calling thread has used so far.
pub(super) fn own_thread() -> ProcessorUse {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let (voluntary_switches, involuntary_switches) = switches_of(&status).unwrap_or_default();
    ProcessorUse { cpu_ns: thread_ns(), voluntary_switches, involuntary_switches }
}

/// The difference of two readings.
pub(super) fn between(before: ProcessorUse, after: ProcessorUse) -> ProcessorUse {
    let less = |pick: fn(&ProcessorUse) -> u64| pick(&after).saturating_sub(pick(&before));
    ProcessorUse {
        cpu_ns: less(|used| used.cpu_ns),
        voluntary_switches: less(|used| used.voluntary_switches),
        involuntary_switches: less(|used| used.involuntary_switches),
    }
}

/// A process's memory, and its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) resident_bytes: u64,
    /// The most that was resident.
    pub(super) peak_bytes: u64,
    pub(super) threads: u64,
}

/// `VmRSS`, `VmHWM` and `Threads` of `/proc/PID/status`; zeros where it cannot be read.
pub(super) fn memory_of(pid: u32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    Memory {
        resident_bytes: field(&status, "VmRSS:") * 1024,
        peak_bytes: field(&status, "VmHWM:") * 1024,
        threads: field(&status, "Threads:"),
    }
}

/// Voluntary and involuntary context switches in a thread's `status`.
fn switches_of(status: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((field("voluntary_ctxt_switches:")?, field("nonvoluntary_ctxt_switches:")?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_listening_process_is_found_by_its_port() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no second address.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let place = listener.local_addr().unwrap();
            let found = Server::listening(place.ip(), place.port()).unwrap();
            assert_eq!(found.pid, std::process::id());
            assert!(!found.name.is_empty());
            drop(listener);
            assert!(Server::listening(place.ip(), place.port()).is_err());
        }
        let far = Server::listening("192.0.2.1".parse().unwrap(), 1433).unwrap_err();
        assert!(far.contains("another machine"), "{far}");
    }

    #[test]
    fn lines_of_the_table_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0100007F:0599 \
             00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4242 1 0 100 0\n   1: \
             0100007F:0599 0100007F:A000 01 00000000:00000000 00:00000000 00000000 1000 0 7 1 0\n";
        assert_eq!(listeners(table, 1433), ["4242"]);
        assert!(listeners(table, 1434).is_empty());
    }

    #[test]
    fn switches_of_all_threads_are_added() {
        let before = Moment::of(std::process::id());
        let own = own_thread();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let used = Moment::of(std::process::id()).since(&before).unwrap();
        assert!(used.voluntary_switches >= 5, "{used:?}");
        let used = between(own, own_thread());
        assert!(used.voluntary_switches >= 5, "{used:?}");
        assert_eq!(switches_of("voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches: 3"), {
            Some((7, 3))
        });
        assert_eq!(switches_of("Name:\tx"), None);
    }

    #[test]
    fn memory_is_that_of_the_process() {
        let found = memory_of(std::process::id());
        assert!(found.resident_bytes > 1 << 20 && found.peak_bytes >= found.resident_bytes);
        assert!(found.threads >= 1);
    }
}
