//! The server's process: which it is, and the resources that it and the own thread use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, UdpSocket};

use tdekit_private_mariadb::processor_ns;

use crate::measure::{field, thread_ns};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Programs that pass connections on to a server elsewhere: their own use says nothing.
const FORWARDERS: [&str; 5] = ["docker-proxy", "rootlessport", "ssh", "socat", "slirp4netns"];

/// The use that a process or a thread makes of processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessorUse {
    /// CPU by its own clock.
    pub(super) cpu_ns: u64,
    /// Context switches, because it waited or because another was given the processor.
    pub(super) switches: u64,
}

impl ProcessorUse {
    /// That of the calling thread so far.
    pub(super) fn of_this_thread() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Self { cpu_ns: thread_ns(), switches: switches_of(&status).unwrap_or(0) }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
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
    /// The reason for which it cannot be seen, in words.
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

/// The counters of a process at a moment. Switches are kept by thread: those of a thread that ends
/// are gone with it.
#[derive(Debug)]
pub(super) struct Moment {
    cpu_ns: Option<u64>,
    switches: BTreeMap<OsString, u64>,
}

impl Moment {
    pub(super) fn of(pid: u32) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let switches = threads.filter_map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            Some((thread.file_name(), switches_of(&status)?))
        });
        Self { cpu_ns: processor_ns(pid), switches: switches.collect() }
    }

    /// The use made since `before`; none where the process cannot be seen any more.
    pub(super) fn since(&self, before: &Self) -> Option<ProcessorUse> {
        let cpu_ns = self.cpu_ns?.saturating_sub(before.cpu_ns?);
        let added = self.switches.iter().map(|(thread, count)| {
            count.saturating_sub(before.switches.get(thread).copied().unwrap_or(0))
        });
        (!self.switches.is_empty()).then(|| ProcessorUse { cpu_ns, switches: added.sum() })
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

/// Context switches of both kinds in a thread's `status`.
fn switches_of(status: &str) -> Option<u64> {
    let of = |kind: &str| status.contains(kind).then(|| field(status, kind));
    Some(of("voluntary_ctxt_switches:")? + of("nonvoluntary_ctxt_switches:")?)
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
        let own = ProcessorUse::of_this_thread();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let used = Moment::of(std::process::id()).since(&before).unwrap();
        assert!(used.switches >= 5, "{used:?}");
        let used = ProcessorUse::of_this_thread().since(own);
        assert!(used.switches >= 5, "{used:?}");
        let both = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches: 3";
        assert_eq!(switches_of(both), Some(10));
        assert_eq!(switches_of("Name:\tx"), None);
    }

    #[test]
    fn memory_is_that_of_the_process() {
        let found = memory_of(std::process::id());
        assert!(found.resident_bytes > 1 << 20 && found.peak_bytes >= found.resident_bytes);
        assert!(found.threads >= 1);
    }
}
