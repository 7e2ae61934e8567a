//! Handles each case a few times in a row, for callgrind to count the instructions.
//!
//! `benches/instructions.sh` runs this and reads the counts: those of [`measured`], which is entered
//! once for each name that is printed. Without callgrind it shows that every case still works. An
//! argument picks the cases whose names begin with it.

mod support;

use std::hint::black_box;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use support::{
    cases::{self, Case, Shape},
    service::{Run, Stack},
};

/// Evens out what depends on the state of the heap.
const REPEATS: usize = 10;

fn main() {
    for case in cases::all() {
        for &stack in case.stacks() {
            let name = format!("{}, {}", case.name, stack.name());
            match stack {
                _ if is_small(&case) => show(&name, &case, stack, REPEATS),
                // What one request costs, in all layers, is enough of the long ones.
                Stack::Nothing | Stack::McpLayer => show(&name, &case, stack, 1),
                _ => {}
            }
        }
    }
    for shape in Shape::ALL {
        for kilobytes in [1, 32, 64] {
            let case = Case::growing(cases::modern_call(&shape.of(kilobytes * 1_000)));
            let name = format!("{kilobytes} KB of {}", shape.name());
            show(&name, &case, Stack::McpLayer, 1);
        }
    }
}

fn is_small(case: &Case) -> bool {
    case.length() < 1_000 && case.budget.parts.is_none()
}

fn show(name: &str, case: &Case, stack: Stack, repeats: usize) {
    // cargo adds `--bench` to the arguments; what else there is picks cases by their names.
    let mut picks = std::env::args().skip(1).filter(|it| !it.starts_with("--"));
    if !picks.next().is_none_or(|pick| name.starts_with(&pick)) {
        return;
    }
    let mut run = case.mount(stack);
    // The first request of a kind may pay for what later ones find in place.
    run(case.request());
    let requests = vec![case.request(); repeats];
    measured(requests, &mut run);
    println!("{repeats} {name}");
}

#[inline(never)]
fn measured(requests: Vec<Request<Full<Bytes>>>, run: &mut Run) {
    for request in requests {
        black_box(run(request));
    }
}
