//! How often a request asks for memory, exactly.
//!
//! Counts are facts of the code, where times depend on the machine. One that has changed needs a
//! reason; the most that it may be is in `benches/README.md`.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "../benches/support/mod.rs"]
mod support;

use std::sync::LazyLock;

use support::{
    cases::{self, Case},
    counting::{self, Counting},
    service::Stack::{
        self, Envelope, EraResolver, McpLayer, MirrorHeaderValidator, Nothing, OriginGuard, Row,
    },
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a case asks for memory behind a stack.
fn count(case: &Case, stack: Stack) -> usize {
    let mut run = case.mount(stack);
    // The first request may pay for what later ones find in place.
    run(case.request());
    let request = case.request();
    let counted = counting::count(|| {
        run(request);
    });
    counted.count
}

fn case(name: &str) -> &'static Case {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases::all);
    CASES.iter().find(|case| case.name == name).expect(name)
}

/// Asserts what each stack asks for beyond the service that it stands around.
fn assert_added(name: &str, expected: &[(Stack, usize)]) {
    let case = case(name);
    let bare = count(case, Nothing);
    for &(stack, added) in expected {
        assert_eq!(count(case, stack) - bare, added, "{name}: {stack:?}");
    }
}

/// Asserts what a request that reaches no service, or one of ours, asks for in all.
fn assert_in_all(name: &str, expected: &[(Stack, usize)]) {
    let case = case(name);
    for &(stack, in_all) in expected {
        assert_eq!(count(case, stack), in_all, "{name}: {stack:?}");
    }
}

/// Message and era of the request, era of the response: three each, of which two are for the first
/// extension. A body that is stamped costs two more, its box and the new text.
#[test]
fn a_modern_call_asks_for_memory_eight_times() {
    let expected = [
        (OriginGuard, 0),
        (EraResolver, 6),
        (MirrorHeaderValidator, 6),
        // A body that might have to be given back unread is boxed, too.
        (Envelope, 9),
        (Row, 8),
        (McpLayer, 8),
    ];
    for case in [
        "small modern call",
        "2,000 keys",
        "100 KB argument, ASCII",
        "100 KB argument, escapes",
        "100 KB argument, multi-byte",
    ] {
        assert_added(case, &expected);
    }
}

#[test]
fn a_legacy_message_asks_for_memory_six_times() {
    let expected = [
        (OriginGuard, 0),
        (EraResolver, 6),
        (MirrorHeaderValidator, 6),
        (Envelope, 7),
        (Row, 6),
        (McpLayer, 6),
    ];
    for case in [
        "small legacy call",
        "100 KB argument, ASCII, legacy",
        "legacy list of 21 tools",
        "legacy list of 300 tools",
        "1,000 events, legacy",
    ] {
        assert_added(case, &expected);
    }
}

#[test]
fn a_refusal_asks_for_memory_ten_times_at_most() {
    let name = [(MirrorHeaderValidator, 10), (Row, 13), (McpLayer, 10)];
    assert_in_all("refusal of a name", &name);
    let version = [(EraResolver, 9), (Row, 9), (McpLayer, 9)];
    assert_in_all("refusal of a version", &version);
    let origin = [(OriginGuard, 9), (Row, 9), (McpLayer, 9)];
    assert_in_all("refusal of an origin", &origin);
}

/// As a call: what is configured for nobody is written once for all.
#[test]
fn a_modern_list_asks_for_memory_eight_times_however_long_it_is() {
    let expected = [(EraResolver, 6), (Envelope, 9), (Row, 8), (McpLayer, 8)];
    assert_added("modern list of 21 tools", &expected);
    assert_added("modern list of 300 tools", &expected);
}

/// In the modern era two more than without the hint: it tells the envelope where the result is,
/// which spares reading the list.
#[test]
fn the_reference_service_asks_for_memory_three_times_for_a_list() {
    for tools in [21, 300] {
        let case = |era: &str| format!("reference service, {era} list of {tools} tools");
        assert_in_all(&case("modern"), &[(Nothing, 3), (McpLayer, 13)]);
        assert_in_all(&case("legacy"), &[(Nothing, 3), (McpLayer, 9)]);
    }
}

/// Eight for the call and two for the stream, whatever it carries; three for each event that is
/// stamped.
#[test]
fn an_event_that_passes_asks_for_no_memory() {
    assert_added("1,000 events, passed", &[(Row, 10), (McpLayer, 10)]);
    assert_added("1,000 events, stamped", &[(Row, 3_010), (McpLayer, 3_010)]);
}

/// Only the nesting itself is kept: a bit for each level.
#[test]
fn depth_costs_a_bit_for_each_level() {
    let case = case("100,000 levels");
    let mut run = case.mount(McpLayer);
    let request = case.request();
    let counted = counting::count(|| {
        run(request);
    });
    assert!(counted.bytes < 36_000, "{counted:?}");
}

/// Beyond the body, which is there before.
#[test]
fn four_megabytes_are_read_in_two_kilobytes() {
    let case = case("4 MB argument");
    let mut run = case.mount(McpLayer);
    let request = case.request();
    let counted = counting::count(|| {
        run(request);
    });
    assert!(counted.bytes < 2_048, "{counted:?}");
}
