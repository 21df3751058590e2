//! Orders to a running test.

use serde::{Deserialize, Serialize};
use tdekit_bench_report::ThinkTime;

use crate::generate::Mix;

/// An order to a running test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Continue with another mix, another think time, or both.
    Set { mix: Option<Mix>, think_time: Option<ThinkTime> },
    /// End; the measurements so far are kept.
    Stop,
    /// Report the current state.
    Status,
}

impl Order {
    /// `set mix=R/U/I`, `set delay=EVERY/PAUSE`, `stop`, `status`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["stop"] => Ok(Self::Stop),
            ["status"] => Ok(Self::Status),
            ["set", parameters @ ..] if !parameters.is_empty() => {
                let (mut mix, mut delay) = (None, None);
                for parameter in parameters {
                    match parameter.split_once('=') {
                        Some(("mix", value)) if mix.is_none() => mix = Some(value.parse()?),
                        Some(("delay", value)) if delay.is_none() => {
                            delay = Some(think_time(value)?.unwrap_or(NONE));
                        }
                        _ => return Err(format!("`{parameter}` is no parameter; {USAGE}")),
                    }
                }
                Ok(Self::Set { mix, think_time: delay })
            }
            _ => Err(USAGE.to_owned()),
        }
    }
}

/// No pause at all.
const NONE: ThinkTime = ThinkTime { every_loops: 0, pause_ms: 0 };
const USAGE: &str = "expected `set mix=R/U/I`, `set delay=LOOPS/PAUSE` such as 1000/1s or none, \
     `stop` or `status`";
/// `none` or `LOOPS/PAUSE`, the pause in `ms` or `s`.
pub(crate) fn think_time(text: &str) -> Result<Option<ThinkTime>, String> {
    let parse = || -> Option<ThinkTime> {
        let (loops, pause) = text.split_once('/')?;
        let (number, unit) = match pause.strip_suffix("ms") {
            Some(number) => (number, 1),
            None => (pause.strip_suffix('s')?, 1000),
        };
        let pause_ms = number.parse::<u64>().ok()?.checked_mul(unit)?;
        let every_loops = loops.parse().ok().filter(|loops| (1..=1 << 40).contains(loops))?;
        (pause_ms <= 3_600_000).then_some(ThinkTime { every_loops, pause_ms })
    };
    if text == "none" {
        return Ok(None);
    }
    parse()
        .map(Some)
        .ok_or_else(|| "expected LOOPS/PAUSE such as 1000/1s or 500/20ms, or `none`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Order, String> {
        Order::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn orders_are_read_strictly() {
        assert_eq!(parse("stop"), Ok(Order::Stop));
        assert_eq!(parse("status"), Ok(Order::Status));
        let Ok(Order::Set { mix: Some(mix), think_time: None }) = parse("set mix=0/5/5") else {
            panic!()
        };
        assert_eq!(mix.id(), "0-5-5");
        let delay = ThinkTime { every_loops: 100, pause_ms: 20 };
        let both = parse("set delay=100/20ms mix=load").unwrap();
        assert_eq!(both, Order::Set { mix: Some(Mix::LOAD), think_time: Some(delay) });
        let none = parse("set delay=none").unwrap();
        assert_eq!(none, Order::Set { mix: None, think_time: Some(NONE) });
        for bad in [
            "",
            "set",
            "set mix=5/5/5",
            "set mix",
            "go",
            "stop now",
            "set delay=1",
            "set mix=0/5/5 mix=load",
            "set delay=0/1s",
            "set delay=1/99999999999s",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn think_time_as_given_or_none() {
        let second = ThinkTime { every_loops: 1000, pause_ms: 1000 };
        assert_eq!(think_time("1000/1s"), Ok(Some(second)));
        assert_eq!(think_time("none"), Ok(None));
        assert!(think_time("1000/1h").is_err() && think_time("document").is_err());
    }
}
