//! Pieces of a stream.

use std::io::{self, Read};
use std::sync::Mutex;

use super::{Feed, Job, Numbers, Scratch};
use crate::RunError;
use crate::output::lock;
use crate::progress::Meter;

/// Produces pieces of a stream of equal length; the last may be shorter.
pub(crate) struct StreamFeed<'a> {
    state: Mutex<State>,
    block_len: usize,
    meter: &'a Meter<'a>,
}

struct State {
    reader: Box<dyn Read + Send>,
    numbers: Numbers,
    ended: bool,
}

impl<'a> StreamFeed<'a> {
    pub(crate) fn new(
        reader: Box<dyn Read + Send>,
        families: u16,
        block_len: usize,
        meter: &'a Meter<'a>,
    ) -> Self {
        let state = State { reader, numbers: Numbers::new(families), ended: false };
        Self { state: Mutex::new(state), block_len, meter }
    }
}

impl Feed for StreamFeed<'_> {
    fn next(&self, scratch: &mut Scratch) -> Result<Option<Job>, RunError> {
        let mut state = lock(&self.state);
        if state.ended {
            return Ok(None);
        }
        scratch.payload.resize(self.block_len, 0);
        let len = read_full(&mut state.reader, &mut scratch.payload, self.meter)?;
        scratch.payload.truncate(len);
        state.ended = len < self.block_len;
        if len == 0 {
            return Ok(None);
        }
        let job = Job { source_bytes: len as u64, ..state.numbers.data(0) };
        drop(state);
        self.meter.take(len as u64)?;
        Ok(Some(job))
    }
}

/// Reads until `out` is full or the stream ends.
fn read_full(
    reader: &mut Box<dyn Read + Send>,
    out: &mut [u8],
    meter: &Meter<'_>,
) -> Result<usize, RunError> {
    let mut len = 0;
    while len < out.len() {
        meter.check()?;
        match reader.read(&mut out[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(RunError::Stream { source }),
        }
    }
    Ok(len)
}
