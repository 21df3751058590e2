//! Readahead: sequentially read data is fetched before it is requested, by several requests.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::ObjectFault;
use super::access::{Client, Part};

/// Bytes per request of sequentially read data.
const SEGMENT: u64 = 2 << 20;
/// Number of segments that are fetched in advance.
const AHEAD: u64 = 3;
/// Number of segments that are kept; more only while each of them is still being fetched.
const KEPT: usize = 8;
/// Number of read ends that are remembered, to recognize that the next read starts there.
const REMEMBERED: usize = 16;

/// Reads ranges of a media set's parts, from several threads.
pub(super) struct Ahead {
    client: Client,
    parts: Arc<[Part]>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    segments: BTreeMap<Place, Segment>,
    /// Ends of reads, oldest first.
    ends: VecDeque<(u32, u64)>,
    /// Counts uses, to discard the least recently used segment.
    clock: u64,
}

/// A part and the number of a segment in it.
type Place = (u32, u64);

struct Segment {
    content: Content,
    used_at: u64,
    /// Bytes that were returned; a segment that was read completely is discarded at once.
    used_bytes: u64,
}

enum Content {
    Coming,
    Here(Arc<Vec<u8>>),
    Failed(ObjectFault),
}

impl Ahead {
    pub(super) fn new(client: Client, parts: Arc<[Part]>) -> Self {
        Self { client, parts, shared: Arc::default() }
    }

    /// Fills `buf`; the caller has checked that it lies within the part.
    pub(super) fn read(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), ObjectFault> {
        let Some(end) = offset.checked_add(buf.len() as u64) else { return Ok(()) };
        if buf.is_empty() {
            return Ok(());
        }
        if !self.in_order(part, offset, end) {
            let found = self.fetch(part, offset, end);
            let found = self.client.runtime.block_on(found)?;
            buf.copy_from_slice(&found);
            return Ok(());
        }
        let mut from = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let number = from / SEGMENT;
            let within = usize::try_from(from % SEGMENT).unwrap_or(0);
            let length = rest.len().min(usize::try_from(SEGMENT).unwrap_or(0) - within);
            let (now, later) = rest.split_at_mut(length);
            let segment = self.segment((part, number), length as u64)?;
            let found = segment.get(within..within + length).ok_or(ObjectFault::Changed)?;
            now.copy_from_slice(found);
            from += length as u64;
            rest = later;
        }
        Ok(())
    }

    /// Returns true if a read continues an earlier one, and so belongs to sequential reading.
    fn in_order(&self, part: u32, offset: u64, end: u64) -> bool {
        let mut state = self.lock();
        let number = offset / SEGMENT;
        let near = [number.checked_sub(1), Some(number)].into_iter().flatten();
        let goes_on = state.ends.contains(&(part, offset))
            || near.into_iter().any(|number| state.segments.contains_key(&(part, number)));
        if state.ends.len() == REMEMBERED {
            state.ends.pop_front();
        }
        state.ends.push_back((part, end));
        goes_on
    }

    /// Returns a segment, of which `bytes` are about to be read; requests the following ones as
    /// well.
    fn segment(&self, place: Place, bytes: u64) -> Result<Arc<Vec<u8>>, ObjectFault> {
        let (part, number) = place;
        let mut state = self.lock();
        for number in number..=number + AHEAD {
            self.ask_for(&mut state, (part, number));
        }
        loop {
            // Another thread may have discarded it since.
            self.ask_for(&mut state, place);
            state.clock += 1;
            let clock = state.clock;
            let Some(segment) = state.segments.get_mut(&place) else {
                return Err(ObjectFault::Changed);
            };
            segment.used_at = clock;
            match &segment.content {
                Content::Here(content) => {
                    let content = Arc::clone(content);
                    segment.used_bytes += bytes;
                    if segment.used_bytes >= content.len() as u64 {
                        state.segments.remove(&place);
                    }
                    return Ok(content);
                }
                Content::Failed(fault) => {
                    let fault = fault.clone();
                    state.segments.remove(&place);
                    return Err(fault);
                }
                Content::Coming => {
                    let waited = self.shared.arrived.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Requests a segment that is neither present nor being fetched.
    fn ask_for(&self, state: &mut State, place: Place) {
        let (part, number) = place;
        let bytes = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
        let bytes = bytes.map_or(0, |part| part.bytes);
        let begin = number.saturating_mul(SEGMENT);
        if begin >= bytes || state.segments.contains_key(&place) {
            return;
        }
        state.make_room();
        state.clock += 1;
        let used_at = state.clock;
        let segment = Segment { content: Content::Coming, used_at, used_bytes: 0 };
        state.segments.insert(place, segment);
        let fetch = self.fetch(part, begin, begin.saturating_add(SEGMENT).min(bytes));
        let shared = Arc::clone(&self.shared);
        self.client.runtime.spawn(async move {
            let content = match fetch.await {
                Ok(found) => Content::Here(Arc::new(found)),
                Err(fault) => Content::Failed(fault),
            };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(segment) = state.segments.get_mut(&place) {
                segment.content = content;
            }
            shared.arrived.notify_all();
        });
    }

    fn fetch(
        &self,
        part: u32,
        begin: u64,
        end: u64,
    ) -> impl Future<Output = Result<Vec<u8>, ObjectFault>> + use<> {
        let access = Arc::clone(&self.client.access);
        let parts = Arc::clone(&self.parts);
        async move {
            let part = usize::try_from(part).ok().and_then(|part| parts.get(part));
            let part = part.ok_or(ObjectFault::NoObject)?;
            access.read(part, begin, end.saturating_sub(begin)).await
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Discards the least recently used segments. Those being fetched stay: somebody may wait.
    fn make_room(&mut self) {
        while self.segments.len() >= KEPT {
            let arrived = self.segments.iter().filter(|(_, segment)| {
                matches!(segment.content, Content::Here(_) | Content::Failed(_))
            });
            let oldest =
                arrived.min_by_key(|(_, segment)| segment.used_at).map(|(place, _)| *place);
            let Some(oldest) = oldest else { return };
            self.segments.remove(&oldest);
        }
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").finish_non_exhaustive()
    }
}
