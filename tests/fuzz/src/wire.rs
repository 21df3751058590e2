//! Messages from clients of the TDS endpoint.

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::answer::{Token, decode_answer};
use tdekit_wire_tds::bulk::{BulkItem, BulkReader};
use tdekit_wire_tds::login::Login;
use tdekit_wire_tds::packet::{Assembler, PacketKind, Packetizer, Taken};
use tdekit_wire_tds::prelogin::PreLogin;
use tdekit_wire_tds::request::{decode_batch, decode_transaction};
use tdekit_wire_tds::rpc::{decode_rpc, encode_rpc};
use tdekit_wire_tds::token::{put_columns, put_row};

/// Maximum size of a message or a row here.
const MOST_BYTES: usize = 4096;

/// Packets and PRELOGIN: the bytes unchanged, and as the payload of packets.
pub fn tds_packet(data: &[u8]) {
    let mut assembler = Assembler::new(MOST_BYTES);
    let mut rest = data;
    while let Ok((length, taken)) = assembler.take(rest) {
        assert_eq!(length == 0, taken == Taken::Nothing, "bytes are taken or more are needed");
        if length == 0 {
            break;
        }
        rest = &rest[length..];
    }
    let _ = PreLogin::decode(data);

    let payload = &data[..data.len().min(MOST_BYTES)];
    let mut framed = Vec::new();
    Packetizer::new(PacketKind::Batch, 51, 512).put_all(&mut framed, payload, true);
    let mut assembler = Assembler::new(MOST_BYTES);
    let mut rest = framed.as_slice();
    loop {
        let (length, taken) = assembler.take(rest).unwrap();
        rest = &rest[length..];
        match taken {
            Taken::Part => {}
            Taken::Whole(request) => {
                assert_eq!((request.payload.as_slice(), rest.len()), (payload, 0));
                break;
            }
            other => panic!("packets of ours are whole: {other:?}"),
        }
    }
}

/// LOGIN7: the bytes unchanged, and with a correct length.
pub fn tds_login(data: &[u8]) {
    let mut framed = data.to_vec();
    if let Some(length) = framed.first_chunk_mut() {
        *length = u32::try_from(data.len()).unwrap().to_le_bytes();
    }
    for bytes in [data, &framed] {
        let Ok(mut login) = Login::decode(bytes) else { continue };
        // Features are read but not written.
        login.features.clear();
        login.change_password = false;
        assert!(Login::decode(&login.encode()).unwrap() == login);
    }
}

/// Requests: batches, calls, the transaction manager's.
pub fn tds_rpc(data: &[u8]) {
    let _ = decode_batch(data);
    let _ = decode_transaction(data);
    let Ok((_, calls)) = decode_rpc(data) else { return };
    // Calls that were checked can be read.
    let calls: Vec<_> = calls.map(|call| call.unwrap()).collect();
    for call in calls {
        for table in call.parameters.iter().filter_map(|parameter| parameter.table.as_ref()) {
            let width = table.columns.iter().filter(|column| !column.default).count();
            // Rows that were checked can be read, and take no memory beyond their bytes.
            assert!(table.rows().all(|row| row.unwrap().len() == width));
            assert!(table.rows().count() <= data.len());
        }
        // Some types that can be read are never written: table names, old short text.
        let Ok(again) = encode_rpc(&call.procedure, &call.parameters) else { continue };
        let _ = decode_rpc(&again);
    }
}

/// Tokens: of an answer, and of a bulk load, with the same result whole and byte by byte.
pub fn tds_token(data: &[u8]) {
    if let Ok(tokens) = decode_answer(data) {
        answers_again(&tokens);
    }
    let whole = load(data, data.len().max(1));
    let pieces = load(data, 1);
    // In pieces it may only be refused earlier or later for its length.
    if let (Some(whole), Some(pieces)) = (&whole, &pieces) {
        assert!(whole == pieces, "a load is the same however it comes");
    }
}

fn answers_again(tokens: &[Token]) {
    let mut columns = None;
    for token in tokens {
        match token {
            // The encoding of xml is detected by its first bytes, which is ambiguous for some
            // texts.
            Token::Columns(found) if found.iter().any(|each| each.ty == SqlType::Xml) => {
                columns = None;
            }
            Token::Columns(found) if !found.is_empty() => columns = Some(found),
            Token::Row(values) => {
                let Some(columns) = columns else { continue };
                let mut out = Vec::new();
                if put_columns(&mut out, columns).is_ok()
                    && put_row(&mut out, columns, values, true).is_ok()
                {
                    assert!(decode_answer(&out).is_ok(), "what is written can be read");
                }
            }
            _ => {}
        }
    }
}

fn load(data: &[u8], step: usize) -> Option<Vec<BulkItem>> {
    let mut reader = BulkReader::new(MOST_BYTES);
    let mut items = Vec::new();
    let mut parts = data.chunks(step).peekable();
    while let Some(part) = parts.next() {
        reader.push(part).ok()?;
        let last = parts.peek().is_none();
        loop {
            match reader.next(last).ok()? {
                BulkItem::Missing => break,
                BulkItem::End => {
                    items.push(BulkItem::End);
                    break;
                }
                item => items.push(item),
            }
        }
    }
    Some(items)
}
