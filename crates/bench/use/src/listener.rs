//! The process that listens on a port of this machine.

use std::fs;
use std::net::{IpAddr, UdpSocket};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Programs that forward connections to a server elsewhere: their own resource usage is
/// meaningless.
const FORWARDERS: [&str; 5] = ["docker-proxy", "rootlessport", "ssh", "socat", "slirp4netns"];

/// A listening process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl Listener {
    /// Returns a process by its number.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, name: name.trim().to_owned() }
    }

    /// Returns the process that listens on a port of this machine.
    ///
    /// # Errors
    /// The reason why it cannot be observed.
    pub fn at(address: IpAddr, port: u16) -> Result<Self, String> {
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

/// An address can be bound only if it belongs to the machine.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Returns the inodes of the sockets that listen on a port. Columns: number, local address, remote
/// one, state, five others, inode.
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

/// Returns the oldest process that holds one of the sockets.
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listening_process_is_found_by_its_port() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no second address.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let place = listener.local_addr().unwrap();
            let found = Listener::at(place.ip(), place.port()).unwrap();
            assert_eq!(found.pid, std::process::id());
            assert!(!found.name.is_empty());
            drop(listener);
            assert!(Listener::at(place.ip(), place.port()).is_err());
        }
        let far = Listener::at("192.0.2.1".parse().unwrap(), 1433).unwrap_err();
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
}
