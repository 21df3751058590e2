//! LOGIN7: checking a login, and the answer to the client.

use std::sync::Arc;

use rustls::{CipherSuite, ProtocolVersion};
use tdekit_wire_tds::login::{Feature, Login, TDS_7_3B, TDS_7_4, TDS_8_0};
use tdekit_wire_tds::messages::{SessionError, Told};
use tdekit_wire_tds::packet::{
    Assembler, DEFAULT_PACKET_BYTES, MAX_PACKET_BYTES, MAX_TLS_PACKET_BYTES, MIN_PACKET_BYTES,
    PacketKind, Taken,
};
use tdekit_wire_tds::token::{
    DoneStatus, DoneToken, put_collation, put_done, put_env_change, put_feature_ack, put_login_ack,
    put_message, put_packet_size,
};
use tdekit_wire_tds::{Caller, Command, EnvChange, Message};

use crate::answer::{Answer, SERVER, lock};
use crate::connection::{Connection, Phase, Step};
use crate::error::Ended;
use crate::sessions::About;

/// Returns the version that is spoken with a client of `version`.
fn spoken(version: u32) -> u32 {
    if version == TDS_8_0 { TDS_8_0 } else { version.min(TDS_7_4) }
}

fn protocol_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLS 1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLS 1.3"),
        other => other.as_str(),
    }
}

/// Returns the IANA name of a suite.
fn suite_name(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        other => other.as_str(),
    }
}

const LANGUAGE: &str = "us_english";

impl Connection {
    pub(crate) fn login(&mut self) -> Result<Step, Ended> {
        let request = match self.take()? {
            Taken::Nothing => return Ok(Step::Wait),
            Taken::Part => return Ok(Step::Again),
            Taken::Ignored => return Err(Ended::Refused("a LOGIN7 taken back")),
            Taken::Whole(request) => request,
        };
        if request.kind != PacketKind::Login {
            return Err(Ended::Refused("no LOGIN7"));
        }
        let payload = zeroize::Zeroizing::new(request.payload);
        let login = Login::decode(&payload);
        lock(&self.channel).end_login_tls();
        if self.one_too_many {
            let most = self.shared.limits.connections;
            return self.refuse(&[SessionError::TooManyConnections { most }.message()]);
        }
        match login {
            Ok(login) => {
                let known = {
                    let address = self.client.ip();
                    self.shared.guard.knows(&login.user, &login.password, address)
                };
                self.phase = Phase::Check(Box::new(login));
                // Looking up a known password takes no time.
                Ok(if known { self.check() } else { Step::Check })
            }
            Err(error) => {
                self.refuse(&[SessionError::BadLogin { reason: error.to_string() }.message()])
            }
        }
    }

    /// Checks the login, which takes long, and answers.
    pub(crate) fn check(&mut self) -> Step {
        let account = Arc::clone(&self.account);
        let _work = account.work();
        let Phase::Check(login) = std::mem::replace(&mut self.phase, Phase::Login) else {
            return Step::Close;
        };
        self.try_check(&login).unwrap_or(Step::Close)
    }

    fn try_check(&mut self, login: &Login) -> Result<Step, Ended> {
        let failed = || SessionError::LoginFailed { user: login.user.clone() }.message();
        if login.integrated || login.features.contains(&Feature::FEDERATED_AUTH) {
            return self.refuse(&[SessionError::OnlyPasswords {}.message(), failed()]);
        }
        if login.change_password {
            return self.refuse(&[SessionError::NoPasswordChange {}.message(), failed()]);
        }
        let name = match self.shared.guard.check(&login.user, &login.password, self.client.ip()) {
            Ok(Some(name)) => name,
            Ok(None) => return self.refuse(&[failed()]),
            Err(_error) => {
                return self.refuse(&[SessionError::LoginsUnreadable {}.message(), failed()]);
            }
        };
        let (tls_protocol, tls_cipher_suite, traffic, stall) = {
            let channel = lock(&self.channel);
            let tls = channel.tls();
            let protocol = tls.and_then(|tls| protocol_name(tls.protocol_version()?));
            let suite = tls.and_then(|tls| suite_name(tls.negotiated_cipher_suite()?.suite()));
            (protocol, suite, Arc::clone(channel.traffic()), channel.stall())
        };
        let encrypted = tls_protocol.is_some();
        let most = if encrypted { MAX_TLS_PACKET_BYTES } else { MAX_PACKET_BYTES };
        let caller = Caller {
            spid: self.form.spid,
            login: name,
            database: login.database.clone(),
            host: login.host.clone(),
            application: login.application.clone(),
            encrypted,
            address: self.client.ip().to_string(),
            tls_protocol,
            tls_cipher_suite,
            stall,
        };
        let session = match self.shared.engine.open(&caller) {
            Ok(session) => session,
            Err(message) => return self.refuse(&[message, failed()]),
        };
        let asked = match u16::try_from(login.packet_bytes) {
            Ok(0) => DEFAULT_PACKET_BYTES,
            Ok(asked) => asked,
            Err(_) => MAX_PACKET_BYTES,
        };
        let packet_bytes = asked.clamp(MIN_PACKET_BYTES, most);
        let about = About {
            caller,
            client: self.client,
            server: self.stream.local_addr()?,
            tds_version: spoken(login.version),
            packet_bytes,
            connected: self.connected,
            traffic,
            stream: Arc::clone(&self.stream),
            signals: Arc::clone(&self.signals),
        };
        self.session = Some(self.shared.sessions.add(about, session, &self.account));
        self.welcome(login, packet_bytes)?;
        self.form.packet_bytes = packet_bytes;
        self.form.compressed_rows = login.version >= TDS_7_3B || login.version == TDS_8_0;
        self.assembler = Assembler::new(self.shared.limits.request_bytes);
        self.phase = Phase::Ready;
        Ok(Step::Again)
    }

    fn welcome(&self, login: &Login, packet_bytes: u16) -> Result<(), Ended> {
        let held = self.session.as_ref();
        let database = held.map(|held| lock(&held.session).database()).unwrap_or_default();
        let version = spoken(login.version);
        let mut answer = Answer::new(&self.channel, &self.signals, self.form);
        answer.put(|out| {
            put_env_change(out, EnvChange::Database { new: &database, old: "master" });
            let told = Told::Database { name: database.clone() };
            put_message(out, &told.message(), SERVER);
            put_collation(out);
            put_env_change(out, EnvChange::Language { new: LANGUAGE, old: "" });
            let told = Told::Language { name: LANGUAGE.to_owned() };
            put_message(out, &told.message(), SERVER);
            put_login_ack(out, version);
            put_packet_size(out, packet_bytes, DEFAULT_PACKET_BYTES);
            if login.features.contains(&Feature::UTF8) {
                put_feature_ack(out, &[(Feature::UTF8, &[1])]);
            }
            put_done(out, DoneToken::Done, DoneStatus::FINAL, Command::OTHER, 0);
        });
        answer.finish_as_is()
    }

    /// Refuses the client with these messages.
    fn refuse(&self, messages: &[Message]) -> Result<Step, Ended> {
        let mut answer = Answer::new(&self.channel, &self.signals, self.form);
        answer.put(|out| {
            for message in messages {
                put_message(out, message, SERVER);
            }
            put_done(out, DoneToken::Done, DoneStatus::ERROR, Command::OTHER, 0);
        });
        answer.finish_as_is()?;
        Ok(Step::Close)
    }
}
