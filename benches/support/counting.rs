//! An allocator that counts what the current thread asks for.
#![allow(unsafe_code)] // GlobalAlloc is an unsafe trait; this one hands everything on to System

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Counts, and leaves the work to [`System`].
#[derive(Debug)]
pub struct Counting;

/// How often memory was asked for, and how much of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Allocations {
    pub count: usize,
    pub bytes: usize,
}

impl Allocations {
    /// What is asked for beyond `other`.
    pub fn over(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

thread_local! {
    static SEEN: Cell<Allocations> = const { Cell::new(Allocations { count: 0, bytes: 0 }) };
}

/// Counts what `run` asks for on this thread. Growing a buffer counts like a new one.
pub fn count(run: impl FnOnce()) -> Allocations {
    let before = SEEN.get();
    run();
    SEEN.get().over(before)
}

fn add(bytes: usize) {
    let seen = SEEN.get();
    SEEN.set(Allocations {
        count: seen.count + 1,
        bytes: seen.bytes + bytes,
    });
}

// SAFETY: every call goes to `System` as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}
