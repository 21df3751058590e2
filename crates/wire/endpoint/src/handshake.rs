//! From the first byte to the login: negotiates the encrypted parts, and TLS.

use std::sync::Arc;

use rustls::ServerConnection;
use tdekit_wire_tds::packet::{HEADER_BYTES, PacketHeader, PacketKind, Packetizer, Taken};
use tdekit_wire_tds::prelogin::PreLogin;

use crate::answer::lock;
use crate::config::Agreed;
use crate::connection::{Connection, Phase, Step};
use crate::error::Ended;

/// The first byte of TLS, and of PRELOGIN.
const TLS_HANDSHAKE: u8 = 0x16;
/// Maximum length of a packet of a TLS 1.2 client's handshake.
const MAX_HANDSHAKE_PACKET_BYTES: usize = 32 * 1024;

impl Connection {
    pub(crate) fn first(&mut self) -> Result<Step, Ended> {
        let first = lock(&self.channel).incoming.first().copied();
        match first {
            None => Ok(Step::Wait),
            Some(TLS_HANDSHAKE) if self.shared.mode.takes_strict() => {
                let Some(offer) = &self.shared.tls else {
                    return Err(Ended::Refused("there is no certificate"));
                };
                let mut tls = Box::new(ServerConnection::new(Arc::clone(&offer.strict))?);
                tls.set_buffer_limit(None);
                lock(&self.channel).start_tls(tls, false);
                self.phase = Phase::StrictHandshake;
                Ok(Step::Again)
            }
            Some(first)
                if first == PacketKind::PreLogin.code() && self.shared.mode.takes_wrapped() =>
            {
                self.phase = Phase::PreLogin { strict: false };
                Ok(Step::Again)
            }
            Some(_) => Err(Ended::Refused("neither PRELOGIN nor TLS")),
        }
    }

    pub(crate) fn strict_handshake(&mut self) -> Result<Step, Ended> {
        let stall = self.stall();
        let mut channel = lock(&self.channel);
        let opened = channel.open_records();
        // An alert tells the client its mistake.
        channel.send_tls_output(stall)?;
        opened?;
        if channel.tls().is_some_and(|tls| tls.is_handshaking()) {
            return Ok(Step::Wait);
        }
        drop(channel);
        self.phase = Phase::PreLogin { strict: true };
        Ok(Step::Again)
    }

    pub(crate) fn prelogin(&mut self, strict: bool) -> Result<Step, Ended> {
        let request = match self.take()? {
            Taken::Nothing => return Ok(Step::Wait),
            Taken::Part => return Ok(Step::Again),
            Taken::Ignored => return Err(Ended::Refused("a PRELOGIN taken back")),
            Taken::Whole(request) => request,
        };
        if request.kind != PacketKind::PreLogin {
            return Err(Ended::Refused("no PRELOGIN"));
        }
        let client = PreLogin::decode(&request.payload)?;
        let (answer, agreed) = match strict {
            // Anything but OFF, which would make some clients start TLS inside.
            true => (tdekit_wire_tds::prelogin::Encryption::On, Agreed::Plain),
            false => self.shared.mode.agree(client.encryption),
        };
        self.send_message(PacketKind::Response, &client.answer(answer))?;
        self.phase = match agreed {
            Agreed::Plain => Phase::Login,
            Agreed::Refused => return Ok(Step::Close),
            Agreed::LoginOnly | Agreed::All => {
                let Some(offer) = &self.shared.tls else {
                    return Err(Ended::Refused("there is no certificate"));
                };
                let mut tls = Box::new(ServerConnection::new(Arc::clone(&offer.wrapped))?);
                tls.set_buffer_limit(None);
                Phase::Handshake { tls, login_only: agreed == Agreed::LoginOnly }
            }
        };
        Ok(Step::Again)
    }

    /// Processes a part of the handshake, in packets of PRELOGIN both ways.
    pub(crate) fn handshake(&mut self) -> Result<Step, Ended> {
        let packet = {
            let mut channel = lock(&self.channel);
            let Some(header) = PacketHeader::decode(&channel.incoming)? else {
                return Ok(Step::Wait);
            };
            let length = usize::from(header.length);
            if header.kind != PacketKind::PreLogin || length > MAX_HANDSHAKE_PACKET_BYTES {
                return Err(Ended::Refused("no TLS handshake within PRELOGIN"));
            }
            if channel.incoming.len() < length {
                return Ok(Step::Wait);
            }
            channel.incoming.drain(..length).skip(HEADER_BYTES).collect::<Vec<u8>>()
        };
        let Phase::Handshake { tls, .. } = &mut self.phase else { return Ok(Step::Again) };
        let mut rest = packet.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            if tls.read_tls(&mut rest)? == 0 {
                return Err(Ended::Refused("bytes after the end of TLS"));
            }
            result = tls.process_new_packets().map(|_| ());
        }
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out)?;
        }
        let done = !tls.is_handshaking();
        if !out.is_empty() {
            self.send_message(PacketKind::PreLogin, &out)?;
        }
        result?;
        if done
            && let Phase::Handshake { tls, login_only } =
                std::mem::replace(&mut self.phase, Phase::Login)
        {
            let mut channel = lock(&self.channel);
            channel.start_tls(tls, login_only);
            channel.open_records()?;
        }
        Ok(Step::Again)
    }

    /// Sends a whole message.
    pub(crate) fn send_message(&self, kind: PacketKind, payload: &[u8]) -> Result<(), Ended> {
        let mut packetizer = Packetizer::new(kind, self.form.spid, self.form.packet_bytes);
        let mut framed = Vec::new();
        packetizer.put_all(&mut framed, payload, true);
        lock(&self.channel).send(&framed, self.stall())
    }
}
