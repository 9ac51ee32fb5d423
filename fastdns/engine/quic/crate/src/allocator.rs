//! The allocator of what quiche allocates: each thread keeps short blocks that were freed, by their size, and takes the next ones from there.
//!
//! A query makes and frees some thirty of them (streams, nodes of trees and of hash tables, buffers), which stay on the worker that has the connection.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;

/// Octets: sizes are rounded up to a multiple.
const STEP: usize = 16;
/// Octets of the longest block that is kept.
const LONGEST: usize = 1024;
const SIZES: usize = LONGEST / STEP;
/// Octets that a thread keeps of each size.
const KEPT: usize = 16384;

#[derive(Clone, Copy)]
struct List {
    /// The block that was freed last; each begins with the address of the one before.
    first: *mut u8,
    count: usize,
}

struct Lists(UnsafeCell<[List; SIZES]>);

// No destructor: what a thread keeps at its end is lost. Workers do not end before the process does.
thread_local! {
    static LISTS: Lists = const { Lists(UnsafeCell::new([List { first: ptr::null_mut(), count: 0 }; SIZES])) };
}

pub struct Allocator;

/// Place in the lists of a block that is kept.
#[inline]
fn place(layout: &Layout) -> Option<usize> {
    let size = layout.size();
    (size != 0 && size <= LONGEST && layout.align() <= STEP).then(|| (size - 1) / STEP)
}

#[inline]
fn with<R>(index: usize, run: impl FnOnce(&mut List) -> R) -> R {
    // SAFETY: the list is the thread's own, and `run` allocates nothing.
    LISTS.with(|lists| run(unsafe { &mut (*lists.0.get())[index] }))
}

// SAFETY: blocks come from `System`, with the size of their place; a block is either the caller's or in one list.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(index) = place(&layout) else { return System.alloc(layout) };
        let found = with(index, |list| {
            let block = list.first;
            if !block.is_null() {
                list.first = *(block as *mut *mut u8);
                list.count -= 1;
            }
            block
        });
        if !found.is_null() {
            return found;
        }
        System.alloc(Layout::from_size_align_unchecked((index + 1) * STEP, STEP))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(index) = place(&layout) else { return System.dealloc(block, layout) };
        let kept = with(index, |list| {
            let room = list.count < KEPT / ((index + 1) * STEP);
            if room {
                *(block as *mut *mut u8) = list.first;
                list.first = block;
                list.count += 1;
            }
            room
        });
        if !kept {
            System.dealloc(block, Layout::from_size_align_unchecked((index + 1) * STEP, STEP));
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if place(&layout).is_none() {
            return System.alloc_zeroed(layout);
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align_unchecked(size, layout.align());
        match (place(&layout), place(&wanted)) {
            (None, None) => System.realloc(block, layout, size),
            (former, next) if former == next => block,
            _ => {
                let made = self.alloc(wanted);
                if !made.is_null() {
                    ptr::copy_nonoverlapping(block, made, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                made
            }
        }
    }
}
