//! Requests of clients that have logged in.

use std::borrow::Cow;

use crate::common::{Client, column, eventually, serve};
use tdekit_wire_endpoint::Mode;
use tdekit_wire_tds::answer::Token;
use tdekit_wire_tds::bulk::encode_bulk;
use tdekit_wire_tds::packet::{PacketKind, PacketStatus};
use tdekit_wire_tds::prelogin::Encryption;
use tdekit_wire_tds::request::{encode_batch, encode_transaction};
use tdekit_wire_tds::rpc::{KnownProcedure, Procedure, encode_rpc};
use tdekit_wire_tds::token::{DoneStatus, DoneToken};
use tdekit_wire_tds::{Length, Parameter, SqlType, Value};

const ATTENTION: u16 = 0x20;
const ERROR: u16 = 2;

fn text(text: &'static str) -> Parameter {
    Parameter {
        name: String::new(),
        ty: SqlType::NVarChar(Length::Max),
        value: Value::Text(Cow::Borrowed(text)),
        output: false,
        default: false,
        table: None,
    }
}

fn int(value: i64) -> Parameter {
    Parameter {
        name: String::new(),
        ty: SqlType::Int,
        value: Value::Int(value),
        output: false,
        default: false,
        table: None,
    }
}

fn output() -> Parameter {
    Parameter { value: Value::Null, output: true, ..int(0) }
}

fn call(
    client: &mut Client,
    known: KnownProcedure,
    parameters: &[Parameter],
) -> crate::common::Answer {
    let payload = encode_rpc(&Procedure::Known(known), parameters).unwrap();
    client.send(PacketKind::Rpc, &payload);
    client.answer()
}

fn given_back(answer: &crate::common::Answer) -> Vec<(u16, Value<'static>)> {
    let given = |token: &Token| match token {
        Token::ReturnValue { ordinal, value, .. } => Some((*ordinal, value.clone())),
        _ => None,
    };
    answer.0.iter().filter_map(given).collect()
}

#[test]
fn answers_of_any_length_come_whole() {
    let server = serve(Mode::On);
    for encryption in [Encryption::NotSupported, Encryption::On] {
        let mut client = Client::login(&server, encryption);
        for rows in [0, 1, 100, 200_000] {
            let answer = client.batch(&format!("rows {rows}"));
            assert_eq!((answer.rows(), answer.status()), (rows, 0x10));
        }
        let answer = client.batch("long 3000000");
        assert_eq!((answer.rows(), answer.status()), (1, 0x10));
        assert_eq!(client.batch("nothing").status(), 0);
    }
}

#[test]
fn errors_are_told_and_the_session_goes_on() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let answer = client.batch("fail");
    assert_eq!((answer.errors(), answer.status()), (vec![208], ERROR));
    assert_eq!(client.batch("SELEC").errors(), [102]);
    assert_eq!(client.batch("rows 2").rows(), 2);
}

#[test]
fn a_fault_ends_one_session_and_no_other() {
    let server = serve(Mode::On);
    let mut other = Client::login(&server, Encryption::On);
    let mut client = Client::login(&server, Encryption::On);
    assert_eq!(client.batch("panic").errors(), [3624]);
    assert_eq!(client.message(), None);
    // A value that its column cannot represent is not sent.
    let mut client = Client::login(&server, Encryption::On);
    let answer = client.batch("unfit");
    assert_eq!((answer.errors(), answer.rows()), (vec![3624], 0));
    assert_eq!(client.message(), None);
    assert_eq!(other.batch("rows 2").rows(), 2);
}

/// The acknowledgement of an Attention: alone in its message, numbered as by SQL Server 2025.
fn acknowledgement() -> Vec<Token> {
    let status = DoneStatus(ATTENTION);
    vec![Token::Done { token: DoneToken::Done, status, command: 0xFD, rows: 0 }]
}

#[test]
fn attention_ends_what_runs() {
    let server = serve(Mode::On);
    for encryption in [Encryption::NotSupported, Encryption::On] {
        let mut client = Client::login(&server, encryption);
        for (batch, tokens) in [("wait", 1), ("say", 2), ("done", 2)] {
            client.send(PacketKind::Batch, &encode_batch(batch));
            eventually("its run", || server.log.has(&format!("runs {batch}")));
            client.attention();
            // The interrupted request ends first, as failed but without an error.
            let answer = client.answer();
            let told = (answer.0.len(), answer.status(), answer.errors());
            assert_eq!(told, (tokens, ERROR, vec![]), "{batch}");
            assert_eq!(client.answer().0, acknowledgement(), "{batch}");
        }
        // An answer that the client does not read in the meantime.
        client.send(PacketKind::Batch, &encode_batch("spin"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.attention();
        assert_eq!(client.answer().status(), ERROR);
        assert_eq!(client.answer().0, acknowledgement());
        // When nothing is running any more, and twice.
        client.attention();
        client.attention();
        for _ in 0..2 {
            assert_eq!(client.answer().0, acknowledgement());
        }
        assert_eq!(client.batch("rows 2").rows(), 2);
    }
    assert!(server.log.has("cancelled") && server.log.has("stopped"));
}

#[test]
fn attention_ends_a_call_and_those_behind_it() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let executed = |text| {
        let procedure = Procedure::Known(KnownProcedure::ExecuteSql);
        encode_rpc(&procedure, &[text, self::text("@a int"), output()]).unwrap()
    };
    let behind = executed(text("echo"));
    // After the headers: those of the message are before its first call.
    let headers = encode_batch("").len();
    let payload = [&executed(text("wait"))[..], &[0xFF], &behind[headers..]].concat();
    client.send(PacketKind::Rpc, &payload);
    eventually("its run", || server.log.has("runs wait"));
    client.attention();
    // Neither a status nor a value is returned.
    let answer = client.answer();
    let [Token::Done { token, status, command, rows }] = answer.0[..] else {
        panic!("{answer:?}");
    };
    assert_eq!((token, status, command, rows), (DoneToken::DoneProc, DoneStatus(ERROR), 0xE0, 0));
    assert_eq!(client.answer().0, acknowledgement());
    assert!(!server.log.has("execute echo @a int"));
    client.send(PacketKind::Rpc, &behind);
    assert_eq!(client.answer().rows(), 1);
}

#[test]
fn what_a_cancelled_call_has_prepared_is_forgotten() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let procedure = Procedure::Known(KnownProcedure::PrepExec);
    let payload = encode_rpc(&procedure, &[output(), text(""), text("wait")]).unwrap();
    client.send(PacketKind::Rpc, &payload);
    eventually("its run", || server.log.has("runs wait"));
    client.attention();
    assert_eq!(client.answer().status(), ERROR);
    assert_eq!(client.answer().0, acknowledgement());
    let answer = call(&mut client, KnownProcedure::Execute, &[int(1)]);
    assert_eq!(answer.errors(), [8179]);
}

#[test]
fn an_attention_may_come_in_pieces() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::NotSupported);
    client.send(PacketKind::Batch, &encode_batch("wait"));
    for byte in client.framed(PacketKind::Attention, &[]) {
        client.send_bytes(&[byte]);
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    assert_eq!(client.answer().status(), ERROR);
    assert_eq!(client.answer().0, acknowledgement());
    assert_eq!(client.batch("rows 1").rows(), 1);
}

#[test]
fn what_has_been_said_does_not_wait_for_the_end() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::NotSupported);
    client.send(PacketKind::Batch, &encode_batch("say"));
    // The message is in a separate packet, while the batch still runs.
    let mut header = [0; 8];
    std::io::Read::read_exact(&mut client.stream, &mut header).unwrap();
    assert_eq!((header[0], header[1]), (4, 0));
}

#[test]
fn a_client_that_is_gone_ends_its_batch() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    client.send(PacketKind::Batch, &encode_batch("wait"));
    drop(client);
    eventually("the end of the session", || {
        server.log.has("cancelled") && server.log.has("closed")
    });
}

#[test]
fn a_session_is_made_as_new() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let batch = encode_batch("rows 1");
    for (status, noted) in
        [(PacketStatus::RESET, "reset false"), (PacketStatus::RESET_KEEP_TRANSACTION, "reset true")]
    {
        client.send_with(PacketKind::Batch, &batch, status);
        let answer = client.answer();
        assert!(answer.0.iter().any(|token| matches!(token, Token::EnvChange(18, _))));
        assert!(server.log.has(noted));
    }
}

#[test]
fn a_message_taken_back_is_not_run() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    client.send_with(PacketKind::Batch, &encode_batch("panic"), PacketStatus::IGNORE);
    assert_eq!(client.answer().status(), ERROR);
    assert_eq!(client.batch("rows 1").rows(), 1);
}

#[test]
fn statements_are_run_with_parameters() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let parameters = [text("echo"), text("@a int"), Parameter { output: true, ..int(7) }];
    let answer = call(&mut client, KnownProcedure::ExecuteSql, &parameters);
    assert_eq!((answer.rows(), answer.status()), (1, 0));
    assert_eq!(given_back(&answer), [(2, Value::Int(7))]);
    assert!(server.log.has("execute echo @a int"));
    let answer = call(&mut client, KnownProcedure::ExecuteSql, &[text("fail")]);
    assert_eq!((answer.errors(), answer.status() & 1), (vec![208], 0));
    for parameters in [&[][..], &[int(1)]] {
        let answer = call(&mut client, KnownProcedure::ExecuteSql, parameters);
        assert_eq!(answer.errors().len(), 1);
    }
    let named = Procedure::Named("dbo.mine".into());
    client.send(PacketKind::Rpc, &encode_rpc(&named, &[]).unwrap());
    assert!(client.answer().0.contains(&Token::ReturnStatus(7)));
    assert!(server.log.has("procedure dbo.mine"));
}

#[test]
fn statements_are_prepared() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let prepare = [output(), text("@a int"), text("echo"), int(1)];
    let answer = call(&mut client, KnownProcedure::Prepare, &prepare);
    assert_eq!(given_back(&answer), [(0, Value::Int(1))]);
    assert!(matches!(answer.0[0], Token::Columns(_)));
    let answer = call(&mut client, KnownProcedure::Execute, &[int(1), int(5)]);
    assert_eq!(answer.rows(), 1);
    let both = [output(), text("@a int"), text("echo"), int(6)];
    let answer = call(&mut client, KnownProcedure::PrepExec, &both);
    assert_eq!((answer.rows(), given_back(&answer)), (1, vec![(0, Value::Int(2))]));
    let answer = call(&mut client, KnownProcedure::Unprepare, &[int(1)]);
    assert_eq!(answer.errors(), [0; 0]);
    let answer = call(&mut client, KnownProcedure::Execute, &[int(1), int(5)]);
    assert_eq!(answer.errors(), [8179]);
    let answer = call(&mut client, KnownProcedure::PrepExecRpc, &[output(), text("dbo.mine")]);
    assert_eq!(given_back(&answer), [(0, Value::Int(3))]);
    assert!(answer.0.contains(&Token::ReturnStatus(7)));
    let answer = call(&mut client, KnownProcedure::Execute, &[int(3)]);
    assert!(answer.0.contains(&Token::ReturnStatus(7)));
    let failing = [output(), text(""), text("fail"), int(1)];
    let answer = call(&mut client, KnownProcedure::Prepare, &failing);
    assert_eq!((answer.errors(), given_back(&answer)), (vec![208], vec![]));
}

#[test]
fn cursors_go_to_and_fro() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let open = [output(), text("rows 10"), output(), output(), output()];
    let answer = call(&mut client, KnownProcedure::CursorOpen, &open);
    let given = given_back(&answer);
    assert_eq!((answer.rows(), given.len()), (0, 4));
    assert_eq!(given[3], (4, Value::Int(10)));
    let Value::Int(cursor) = given[0].1 else { panic!("no cursor: {given:?}") };
    for (kind, row, wanted, rows) in [(2, 0, 4, 4), (2, 0, 4, 4), (2, 0, 4, 2), (8, 0, 3, 3)] {
        let fetch = [int(cursor), int(kind), int(row), int(wanted)];
        assert_eq!(call(&mut client, KnownProcedure::CursorFetch, &fetch).rows(), rows);
    }
    // Prepared first, and a driver's way to get all rows at once.
    let (at_once, wanted) = (Parameter { output: true, ..int(0x2000) }, int(100));
    let prepare = [output(), output(), text(""), text("rows 3"), at_once, output(), wanted];
    let answer = call(&mut client, KnownProcedure::CursorPrepExec, &prepare);
    assert_eq!((answer.rows(), answer.errors()), (3, vec![]));
    let close = [int(cursor)];
    assert_eq!(call(&mut client, KnownProcedure::CursorClose, &close).errors(), [0; 0]);
    assert_eq!(call(&mut client, KnownProcedure::CursorClose, &close).errors(), [16916]);
}

#[test]
fn the_catalog_is_the_endpoints_own() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let mut named = |name: &str, parameters: &[Parameter]| {
        let payload = encode_rpc(&Procedure::Named(name.into()), parameters).unwrap();
        client.send(PacketKind::Rpc, &payload);
        client.answer()
    };
    assert_eq!(named("[sys].sp_datatype_info_100", &[int(0)]).rows(), 33);
    assert_eq!(named("sp_datatype_info", &[int(93)]).rows(), 3);
    let answer = named("sys.sp_describe_first_result_set", &[text("rows 1")]);
    assert_eq!((answer.rows(), answer.errors()), (1, vec![]));
    assert_eq!(named("sp_describe_first_result_set", &[text("fail")]).errors(), [208]);
}

#[test]
fn a_connection_is_reset_by_a_call() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let prepare = [output(), text("@a int"), text("echo"), int(1)];
    call(&mut client, KnownProcedure::Prepare, &prepare);
    let reset = Procedure::Named("sys.sp_reset_connection".into());
    client.send(PacketKind::Rpc, &encode_rpc(&reset, &[]).unwrap());
    let answer = client.answer();
    assert!(answer.0.contains(&Token::ReturnStatus(0)) && answer.errors().is_empty());
    assert!(server.log.has("reset false"));
    let answer = call(&mut client, KnownProcedure::Execute, &[int(1), int(5)]);
    assert_eq!(answer.errors(), [8179]);
}

#[test]
fn transactions_are_told() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    for (kind, rest, told) in [(5, &[2, 0][..], 8), (7, &[0, 0], 9), (8, &[0, 0], 10)] {
        client.send(PacketKind::Transaction, &encode_transaction(kind, rest));
        let answer = client.answer();
        assert!(matches!(answer.0[0], Token::EnvChange(found, _) if found == told));
    }
    client.send(PacketKind::Transaction, &encode_transaction(0, &[]));
    assert_eq!(client.answer().errors(), [40510]);
}

#[test]
fn rows_are_loaded() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let columns = [column("a", SqlType::Int)];
    let rows: Vec<_> = (0..50_000).map(|row| vec![Value::Int(row)]).collect();
    assert_eq!(client.batch("insert bulk t (a int)").status(), 0);
    client.send(PacketKind::BulkLoad, &encode_bulk(&columns, &rows).unwrap());
    let answer = client.answer();
    assert_eq!(answer.errors(), [0; 0]);
    assert!(matches!(answer.0[..], [Token::Done { rows: 50_000, .. }]));
    assert!(server.log.has("insert bulk t (a int) of 1") && server.log.has("end true"));
    // A refused row: the rest of the message is read, and nothing kept.
    client.batch("insert bulk t (a int)");
    let bad = encode_bulk(&columns, &[vec![Value::Int(-1)], vec![Value::Int(1)]]).unwrap();
    client.send(PacketKind::BulkLoad, &bad);
    assert_eq!(client.answer().errors(), [515]);
    assert!(server.log.has("end false"));
    // Rows without an announcement.
    client.send(PacketKind::BulkLoad, &bad);
    assert_eq!(client.answer().errors(), [4002]);
    assert_eq!(client.batch("rows 1").rows(), 1);
}

#[test]
fn an_endpoint_stops_with_requests_running() {
    let stop = std::time::Duration::from_millis(50);
    let limits = tdekit_wire_endpoint::Limits { stop, ..Default::default() };
    let server = crate::common::serve_with(Mode::On, limits);
    let mut waiting = Client::login(&server, Encryption::On);
    let mut idle = Client::login(&server, Encryption::On);
    waiting.send(PacketKind::Batch, &encode_batch("wait"));
    let log = std::sync::Arc::clone(&server.log);
    let crate::common::Server { endpoint, .. } = server;
    eventually("the batch", || log.has("waiting"));
    endpoint.stop();
    assert!(log.has("cancelled"));
    assert_eq!(idle.message(), None);
}

/// Makes a message of `count` times the same call.
fn calls(count: usize, parameters: &[Parameter]) -> Vec<u8> {
    let one = encode_rpc(&Procedure::Known(KnownProcedure::ExecuteSql), parameters).unwrap();
    let mut message = one.clone();
    for _ in 1..count {
        message.push(0xFF);
        // After the headers of the request.
        message.extend_from_slice(&one[22..]);
    }
    message
}

#[test]
fn a_message_holds_any_number_of_calls() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    client.send(PacketKind::Rpc, &calls(5000, &[text("rows 1")]));
    let answer = client.answer();
    let ended = |token: &&Token| {
        let Token::Done { token, status, .. } = token else { return false };
        *token == DoneToken::DoneProc && status.0 & ERROR == 0
    };
    assert_eq!((answer.rows(), answer.0.iter().filter(ended).count()), (5000, 5000));
    assert_eq!(client.batch("rows 2").rows(), 2);
}

#[test]
fn a_parameter_that_is_no_value_refuses_its_message_and_the_connection_goes_on() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::On);
    let marked = f64::from_bits(0x1234_5678_9ABC_DEF0);
    let float = Parameter { ty: SqlType::Float, value: Value::Float(marked), ..int(0) };
    for bits in [f64::NAN.to_bits(), f64::INFINITY.to_bits(), f64::NEG_INFINITY.to_bits()] {
        // After a valid call.
        let mut message = calls(1, &[text("rows 7")]);
        message.push(0xFF);
        message
            .extend_from_slice(&calls(1, &[text("rows 1"), text("@f float"), float.clone()])[22..]);
        let at = message.len() - 8;
        message[at..].copy_from_slice(&bits.to_le_bytes());
        client.send(PacketKind::Rpc, &message);
        let answer = client.answer();
        assert_eq!((answer.errors(), answer.rows(), answer.status()), (vec![8023], 0, ERROR));
        let told = |token: &Token| {
            let Token::Message(message) = token else { return false };
            let has = |text| message.text.contains(text);
            message.class == 16 && has("Parameter 3 (\"\")") && has("type float")
        };
        assert!(answer.0.iter().any(told), "{answer:?}");
        assert_eq!(client.batch("rows 2").rows(), 2);
    }
    assert!(!server.log.has("runs rows 7"));
    client.send(PacketKind::Rpc, &calls(1, &vec![int(1); 2101]));
    assert_eq!(client.answer().errors(), [8003]);
    assert_eq!(client.batch("rows 2").rows(), 2);
}
