//! Packets, into which messages are split. Source: MS-TDS 2.2.3.

use crate::error::Error;

/// Size of a packet's header in bytes.
pub const HEADER_BYTES: usize = 8;
/// Minimum packet size that a client may ask for.
pub const MIN_PACKET_BYTES: u16 = 512;
/// Packet size until another is negotiated, and when a client asks for none.
pub const DEFAULT_PACKET_BYTES: u16 = 4096;
/// Maximum packet size.
pub const MAX_PACKET_BYTES: u16 = 32_767;
/// Maximum packet size under TLS: exactly one packet fits in a record.
pub const MAX_TLS_PACKET_BYTES: u16 = 16_383;

/// The kind of message that a packet from a client is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// A batch of T-SQL.
    Batch,
    /// A remote procedure call.
    Rpc,
    /// The server's answer.
    Response,
    /// The client cancels.
    Attention,
    /// Rows of INSERT BULK.
    BulkLoad,
    /// A request of the transaction manager.
    Transaction,
    /// A token of a federated login.
    FederatedAuth,
    /// LOGIN7.
    Login,
    /// A token of an integrated login.
    Sspi,
    /// PRELOGIN, or a part of a TLS handshake.
    PreLogin,
}

impl PacketKind {
    /// Returns the number on the wire.
    pub fn code(self) -> u8 {
        match self {
            PacketKind::Batch => 1,
            PacketKind::Rpc => 3,
            PacketKind::Response => 4,
            PacketKind::Attention => 6,
            PacketKind::BulkLoad => 7,
            PacketKind::FederatedAuth => 8,
            PacketKind::Transaction => 14,
            PacketKind::Login => 16,
            PacketKind::Sspi => 17,
            PacketKind::PreLogin => 18,
        }
    }

    fn from_code(code: u8) -> Result<Self, Error> {
        Ok(match code {
            1 => PacketKind::Batch,
            3 => PacketKind::Rpc,
            4 => PacketKind::Response,
            6 => PacketKind::Attention,
            7 => PacketKind::BulkLoad,
            8 => PacketKind::FederatedAuth,
            14 => PacketKind::Transaction,
            16 => PacketKind::Login,
            17 => PacketKind::Sspi,
            18 => PacketKind::PreLogin,
            other => return Err(Error::Invalid { what: "type of packet", value: other.into() }),
        })
    }
}

/// Status bits of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketStatus(pub u8);

impl PacketStatus {
    /// The last packet of its message.
    pub const END: PacketStatus = PacketStatus(0x01);
    /// With END: the client withdraws the message.
    pub const IGNORE: PacketStatus = PacketStatus(0x02);
    /// The session is reset before the request.
    pub const RESET: PacketStatus = PacketStatus(0x08);
    /// The same, but an open transaction stays.
    pub const RESET_KEEP_TRANSACTION: PacketStatus = PacketStatus(0x10);

    /// Returns true if all bits of `other` are set.
    pub fn has(self, other: PacketStatus) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    /// The kind of message that the packet is part of.
    pub kind: PacketKind,
    /// Its status.
    pub status: PacketStatus,
    /// Length of the packet with this header, in bytes.
    pub length: u16,
}

impl PacketHeader {
    /// Reads a header; returns none while bytes are missing.
    ///
    /// # Errors
    /// An unknown type, or an impossible length.
    pub fn decode(bytes: &[u8]) -> Result<Option<PacketHeader>, Error> {
        let Some([kind, status, high, low, ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
            // Bytes that are not a packet must not wait for a header that never comes.
            return match bytes.first() {
                Some(kind) => PacketKind::from_code(*kind).map(|_| None),
                None => Ok(None),
            };
        };
        let kind = PacketKind::from_code(*kind)?;
        let length = u16::from_be_bytes([*high, *low]);
        if usize::from(length) < HEADER_BYTES {
            return Err(Error::Invalid { what: "length of a packet", value: length.into() });
        }
        if length > MAX_PACKET_BYTES {
            let (length, limit) = (length.into(), MAX_PACKET_BYTES.into());
            return Err(Error::TooLong { what: "packet", length, limit });
        }
        Ok(Some(PacketHeader { kind, status: PacketStatus(*status), length }))
    }

    /// Returns the header of packet `id` of session `spid`.
    pub fn encode(&self, spid: u16, id: u8) -> [u8; HEADER_BYTES] {
        let [high, low] = self.length.to_be_bytes();
        let [spid_high, spid_low] = spid.to_be_bytes();
        [self.kind.code(), self.status.0, high, low, spid_high, spid_low, id, 0]
    }
}

/// A complete message from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Kind of the message.
    pub kind: PacketKind,
    /// Combined status of all its packets.
    pub status: PacketStatus,
    /// The content of its packets, joined.
    pub payload: Vec<u8>,
}

/// Assembles messages from packets.
#[derive(Debug)]
pub struct Assembler {
    open: Option<Request>,
    most_bytes: usize,
}

/// Result of [`Assembler::take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The packet is incomplete.
    Nothing,
    /// A packet was consumed; more of its message follows.
    Part,
    /// The message is complete.
    Whole(Request),
    /// The client withdrew the message.
    Ignored,
}

impl Assembler {
    /// Creates an assembler for messages of at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Assembler { open: None, most_bytes }
    }

    /// Returns the kind of the message whose packets are arriving.
    pub fn open_kind(&self) -> Option<PacketKind> {
        self.open.as_ref().map(|request| request.kind)
    }

    /// Takes the bytes of the open message so far: for messages that are read as they arrive.
    pub fn take_part(&mut self) -> Vec<u8> {
        self.open.as_mut().map(|open| std::mem::take(&mut open.payload)).unwrap_or_default()
    }

    /// Takes the first packet of `bytes`, and returns the number of bytes consumed.
    ///
    /// # Errors
    /// Those of [`PacketHeader::decode`], a message that is too long, or a packet of another kind
    /// within a message.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, Taken), Error> {
        let Some(header) = PacketHeader::decode(bytes)? else { return Ok((0, Taken::Nothing)) };
        let length = usize::from(header.length);
        let Some(payload) = bytes.get(HEADER_BYTES..length) else {
            return Ok((0, Taken::Nothing));
        };
        let open = self.open.get_or_insert(Request {
            kind: header.kind,
            status: PacketStatus::default(),
            payload: Vec::new(),
        });
        if open.kind != header.kind {
            let value = header.kind.code().into();
            return Err(Error::Invalid { what: "type of a packet within a message", value });
        }
        let whole = open.payload.len() + payload.len();
        if whole > self.most_bytes {
            let (length, limit) = (whole as u64, self.most_bytes as u64);
            return Err(Error::TooLong { what: "message", length, limit });
        }
        open.payload.extend_from_slice(payload);
        open.status.0 |= header.status.0;
        if !header.status.has(PacketStatus::END) {
            return Ok((length, Taken::Part));
        }
        let ignored = header.status.has(PacketStatus::IGNORE);
        Ok(match self.open.take() {
            Some(request) if !ignored => (length, Taken::Whole(request)),
            _ => (length, Taken::Ignored),
        })
    }
}

/// Splits buffered bytes into packets.
#[derive(Debug)]
pub struct Packetizer {
    kind: PacketKind,
    spid: u16,
    payload_bytes: usize,
    next_id: u8,
}

impl Packetizer {
    /// Creates packets of `packet_bytes` for the session `spid`.
    pub fn new(kind: PacketKind, spid: u16, packet_bytes: u16) -> Self {
        let mut packetizer = Packetizer { kind, spid, payload_bytes: 0, next_id: 1 };
        packetizer.set_packet_bytes(packet_bytes);
        packetizer
    }

    /// Sets the size of the packets that follow.
    pub fn set_packet_bytes(&mut self, packet_bytes: u16) {
        let within = packet_bytes.clamp(MIN_PACKET_BYTES, MAX_PACKET_BYTES);
        self.payload_bytes = usize::from(within) - HEADER_BYTES;
    }

    /// Appends full packets of `payload` to `out`; returns the number of bytes of `payload` in
    /// them.
    pub fn put_full(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> usize {
        let mut done = 0;
        for part in payload.chunks_exact(self.payload_bytes) {
            self.put_one(out, part, PacketStatus::default());
            done += part.len();
        }
        done
    }

    /// Appends all of `payload` to `out`, and ends the message if `end`.
    pub fn put_all(&mut self, out: &mut Vec<u8>, payload: &[u8], end: bool) {
        let status = if end { PacketStatus::END } else { PacketStatus::default() };
        let mut parts = payload.chunks(self.payload_bytes).peekable();
        if end && parts.peek().is_none() {
            self.put_one(out, &[], status);
        }
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            self.put_one(out, part, if last { status } else { PacketStatus::default() });
        }
        if end {
            self.next_id = 1;
        }
    }

    fn put_one(&mut self, out: &mut Vec<u8>, part: &[u8], status: PacketStatus) {
        let length = u16::try_from(part.len() + HEADER_BYTES).unwrap_or(u16::MAX);
        let header = PacketHeader { kind: self.kind, status, length };
        out.extend_from_slice(&header.encode(self.spid, self.next_id));
        out.extend_from_slice(part);
        self.next_id = self.next_id.wrapping_add(1);
    }
}
