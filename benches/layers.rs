//! Prints what the layers cost: time, and memory that is asked for.
//!
//! `cargo bench --bench layers`; an argument picks the cases whose names contain it. Times are medians over rounds in which each case has its turn, so
//! that what disturbs the machine disturbs all of them: compare figures of one run, never of two.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod support;

use std::time::{Duration, Instant};

use support::{
    cases::{self, Case, Limit, Shape},
    counting::{self, Allocations, Counting},
    service::{Run, Stack},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 61;

/// How long a case's turn in a round takes, about.
const TURN: Duration = Duration::from_micros(300);

fn main() {
    costs();
    if picks("growth") {
        growth();
    }
}

/// Whether the arguments let a case run. cargo adds `--bench` to them.
fn picks(name: &str) -> bool {
    let mut picks = std::env::args().skip(1).filter(|it| !it.starts_with("--"));
    picks.next().is_none_or(|pick| name.contains(&pick))
}

/// One line of a table.
struct Line {
    case: Case,
    stack: Stack,
    run: Run,
    allocations: Allocations,
    /// How many requests one turn handles.
    batch: usize,
    /// Nanoseconds a request.
    times: Vec<f64>,
}

impl Line {
    fn new(case: Case, stack: Stack) -> Self {
        let mut run = case.mount(stack);
        let request = case.request();
        let (status, _) = run(request);
        let expected = match stack {
            Stack::McpLayer => case.status,
            _ => status,
        };
        assert_eq!(status, expected, "{}", case.name);
        let request = case.request();
        let allocations = counting::count(|| {
            run(request);
        });
        let mut line = Self {
            case,
            stack,
            run,
            allocations,
            batch: 1,
            times: Vec::with_capacity(ROUNDS),
        };
        let once = line.turn().max(1.0);
        line.batch = (TURN.as_secs_f64() * 1e9 / once).clamp(1.0, 1_000.0) as usize;
        line
    }

    /// Handles a batch of requests and returns the nanoseconds that each of them took.
    fn turn(&mut self) -> f64 {
        let requests = vec![self.case.request(); self.batch];
        let begun = Instant::now();
        for request in requests {
            (self.run)(request);
        }
        begun.elapsed().as_secs_f64() * 1e9 / self.batch as f64
    }

    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// Gives each line its turn in each round.
fn measure(lines: &mut [Line]) {
    for _ in 0..ROUNDS {
        for line in &mut *lines {
            let time = line.turn();
            line.times.push(time);
        }
    }
}

fn costs() {
    println!(
        "{:<24}{:>12}{:>12}{:>10}{:>7}{:>10}{:>10}{:>8}",
        "", "time ns", "over bare", "budget", "ratio", "allocs", "budget", "bytes"
    );
    for case in cases::all().into_iter().filter(|case| picks(case.name)) {
        let stacks = case.stacks().iter();
        let mut lines: Vec<Line> = stacks
            .map(|stack| Line::new(case.clone(), *stack))
            .collect();
        measure(&mut lines);
        println!("\n{} ({} bytes)", case.name, case.length());
        let (bare, memory) = (lines[0].median(), lines[0].allocations);
        for line in &lines {
            print_costs(line, bare, memory);
        }
    }
}

fn print_costs(line: &Line, bare: f64, memory: Allocations) {
    let budget = line.case.budget;
    let limit = match line.stack {
        Stack::Row => budget.row,
        Stack::McpLayer => budget.mcp_layer,
        _ => Limit::default(),
    };
    let parts = f64::from(budget.parts.unwrap_or(1));
    let time = line.median();
    let (counted, allocations) = if budget.in_all || line.stack == Stack::Nothing {
        (time, line.allocations)
    } else {
        ((time - bare) / parts, line.allocations.over(memory))
    };
    println!(
        "  {:<22}{:>12.0}{:>12.0}{:>10}{:>7.2}{:>10}{:>10}{:>8}",
        line.stack.name(),
        time,
        counted,
        shown(&limit.nanoseconds),
        time / bare,
        allocations.count,
        shown(&limit.allocations),
        allocations.bytes,
    );
}

fn shown<T: Default + PartialEq + ToString>(limit: &T) -> String {
    if *limit == T::default() {
        String::new()
    } else {
        limit.to_string()
    }
}

/// Shows that twice the bytes take at most twice the time.
fn growth() {
    for shape in Shape::ALL {
        println!("\n{} in McpLayer", shape.name());
        println!(
            "{:>12}{:>12}{:>10}{:>10}",
            "bytes", "time ns", "ns/byte", "ratio"
        );
        let sizes = (0..=12).map(|power| 1_000 << power);
        let calls = sizes.map(|bytes| {
            let request = cases::modern_call(&shape.of(bytes));
            Line::new(Case::growing(request), Stack::McpLayer)
        });
        let mut lines: Vec<Line> = calls.collect();
        measure(&mut lines);
        let mut before = None;
        for line in &lines {
            let (time, bytes) = (line.median(), line.case.length());
            let ratio = before.map_or(String::new(), |before| format!("{:.2}", time / before));
            println!(
                "{bytes:>12}{time:>12.0}{:>10.2}{ratio:>10}",
                time / bytes as f64
            );
            before = Some(time);
        }
    }
}
