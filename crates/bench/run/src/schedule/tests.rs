//! The order of measurements, on a ground that only records its calls.

use super::*;

/// The action of a ground at a block, by its number.
type Script = fn(usize, &mut Steering) -> Result<Block<Place>>;

struct Noting {
    cells: usize,
    sides: usize,
    wanting: usize,
    script: Script,
    asked: usize,
    /// Cell and place of each block.
    blocks: Vec<(usize, Place)>,
    kept: usize,
    prepared: u32,
    cleaned: u32,
}

impl Noting {
    fn new(cells: usize, sides: usize) -> Self {
        let script: Script = |_, _| Ok(Block::Done(Vec::new()));
        let (asked, kept, prepared, cleaned) = (0, 0, 0, 0);
        let blocks = Vec::new();
        Self { cells, sides, wanting: 0, script, asked, blocks, kept, prepared, cleaned }
    }
}

impl Ground for Noting {
    type Cell = usize;
    type Found = Place;

    fn cells(&mut self, kind: Kind) -> Vec<usize> {
        match kind {
            Kind::Wanting if self.wanting == 0 => Vec::new(),
            Kind::Wanting => {
                self.wanting -= 1;
                vec![0]
            }
            _ => (0..self.cells).collect(),
        }
    }

    fn name(&self, cell: &usize) -> String {
        cell.to_string()
    }

    fn sides(&self, _cell: &usize, _pair: u32) -> Vec<usize> {
        (0..self.sides).collect()
    }

    fn spoils(&self, cell: &usize) -> bool {
        *cell == 1
    }

    fn obeys(&self, cell: &usize) -> bool {
        *cell == 0
    }

    fn prepare(&mut self, _: u32, _: &[usize], _: &mut Rng, _: &mut Steering) -> Result<()> {
        self.prepared += 1;
        Ok(())
    }

    fn block(
        &mut self,
        cell: &usize,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Block<Place>> {
        self.asked += 1;
        match (self.script)(self.asked, steering)? {
            Block::Done(_) => {
                self.blocks.push((*cell, place));
                Ok(Block::Done(vec![place]))
            }
            Block::Disturbed => Ok(Block::Disturbed),
        }
    }

    fn keep(&mut self, found: Vec<Place>) {
        self.kept += found.len();
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<()> {
        self.cleaned += 1;
        Ok(())
    }
}

fn length(restarts: u32, pairs: u32) -> Length {
    let max_time = Duration::from_secs(600);
    let what = "the run";
    Length { what, restarts, pairs, max_time, least: 2, by_cell: false, stopping: None }
}

fn go(ground: &mut Noting, length: &Length, seed: u64) -> (Ended, Vec<String>) {
    let mut warnings = Vec::new();
    let around = Surroundings {
        progress: &Progress::new(),
        noise: &mut NoiseMeter::start(),
        steering: &mut Steering::deaf(),
        warnings: &mut warnings,
    };
    (run(ground, length, seed, around), warnings)
}

#[test]
fn an_order_is_reversed_without_the_sides_that_leave_a_pair_out() {
    let (mut orders, mut rng) = (Orders::new(), Rng::with_seed(1));
    let mut next = |sides: &[usize]| order(&mut orders, "cell", sides.to_vec(), &mut rng);
    for _ in 0..8 {
        let mut first = next(&[0, 1, 2]);
        assert_eq!(first.len(), 3);
        first.retain(|side| *side != 2);
        first.reverse();
        assert_eq!(next(&[0, 1]), first);
        assert_eq!(next(&[0, 1]).len(), 2);
        // One that comes back is not in the last order.
        assert_eq!(next(&[0, 1, 2]).len(), 3);
        assert_eq!(next(&[0, 1]).len(), 2);
    }
}

#[test]
fn every_pair_runs_every_cell_on_every_side_and_every_second_one_in_reverse() {
    let mut ground = Noting::new(3, 4);
    let (outcome, warnings) = go(&mut ground, &length(5, 2), 1);
    assert!(outcome.failure.is_none() && warnings.is_empty());
    assert_eq!((ground.prepared, ground.cleaned, ground.kept), (5, 5, 5 * 2 * 3 * 4));
    let sides = |restart: u32, pair: u32, cell: usize| -> Vec<usize> {
        let here = |place: &Place| (place.restart, place.pair) == (restart, pair);
        let own = ground.blocks.iter().filter(|(at, place)| *at == cell && here(place));
        own.map(|(_, place)| place.side).collect()
    };
    for restart in 0..5 {
        for cell in 0..3 {
            let mut first = sides(restart, 0, cell);
            let mut second = sides(restart, 1, cell);
            second.reverse();
            assert_eq!(first, second);
            first.sort_unstable();
            assert_eq!(first, [0, 1, 2, 3]);
        }
    }
    for round in ground.blocks.chunks(12) {
        let cells: Vec<usize> = round.iter().map(|(cell, _)| *cell).collect();
        assert_eq!(cells[8..], [1; 4], "what spoils runs last");
        for pair in round.chunks(4) {
            assert!(pair.iter().zip(0..).all(|((_, place), at)| place.position == at));
            assert!(pair.iter().all(|(_, place)| place.seed == pair[0].1.seed));
        }
    }
}

/// Over many restarts each side runs first, second and third about equally often.
#[test]
fn no_side_has_a_place_of_its_own() {
    let mut ground = Noting::new(1, 3);
    assert!(go(&mut ground, &length(600, 1), 5).0.failure.is_none());
    let mut first = [0_u32; 3];
    for (_, place) in ground.blocks.iter().filter(|(_, place)| place.position == 0) {
        first[place.side] += 1;
    }
    assert!(first.iter().all(|count| (150..=250).contains(count)), "{first:?}");
}

#[test]
fn a_failure_keeps_what_was_measured() {
    let mut ground = Noting::new(3, 2);
    ground.script = |asked, _| match asked {
        4 => Err(BenchError::Stopped),
        _ => Ok(Block::Done(Vec::new())),
    };
    let (outcome, _) = go(&mut ground, &length(5, 2), 1);
    assert!(matches!(outcome.failure, Some(BenchError::Stopped)));
    assert_eq!((ground.kept, ground.cleaned), (3, 0));
}

/// The block during which an order arrives is discarded with the others of its pair, and repeated.
#[test]
fn a_disturbed_pair_is_measured_anew() {
    let mut ground = Noting::new(1, 2);
    ground.script = |asked, _| match asked {
        2 => Ok(Block::Disturbed),
        _ => Ok(Block::Done(Vec::new())),
    };
    let (outcome, _) = go(&mut ground, &length(1, 1), 1);
    assert!(outcome.failure.is_none());
    assert_eq!((ground.asked, ground.kept), (4, 2));
}

#[test]
fn the_time_limit_ends_a_run_between_restarts_or_between_cells() {
    let slow: Script = |_, _| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(Block::Done(Vec::new()))
    };
    let mut brief = length(50, 1);
    brief.max_time = Duration::from_millis(1);
    let mut ground = Noting { script: slow, ..Noting::new(2, 2) };
    let (outcome, warnings) = go(&mut ground, &brief, 1);
    assert!(outcome.failure.is_none());
    assert_eq!(ground.prepared, 2);
    assert!(warnings[0].contains("after 2 of 50 restarts"), "{warnings:?}");
    let mut ground = Noting { script: slow, ..Noting::new(2, 2) };
    (brief.least, brief.by_cell) = (1, true);
    let (outcome, warnings) = go(&mut ground, &brief, 1);
    assert!(outcome.failure.is_none());
    assert_eq!((ground.prepared, ground.kept), (2, 4));
    assert!(warnings[0].contains("in restart 2 of 50"), "{warnings:?}");
}

#[test]
fn a_run_goes_on_until_nothing_is_wanted() {
    let mut open = length(2, 1);
    open.stopping = Some(tdekit_bench_report::Stopping {
        first_restarts: 2,
        headline_ppm: 10_000,
        all_ppm: Some(10_000),
        reached: false,
    });
    let mut ground = Noting::new(3, 2);
    ground.wanting = 4;
    assert!(go(&mut ground, &open, 1).0.reached);
    assert_eq!((ground.prepared, ground.kept), (6, 2 * 3 * 2 + 4 * 2));
}
