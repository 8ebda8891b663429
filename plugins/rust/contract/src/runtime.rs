//! What the standard library would do: memory, and the end of a panic.

use core::{
    alloc::{GlobalAlloc, Layout},
    arch::wasm32::{memory_grow, memory_size, unreachable},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Only ever takes: the instance lives for one call.
struct Bump {
    next: AtomicUsize,
}

const PAGE: usize = 65_536;

unsafe extern "C" {
    /// Where the linker ends the static data.
    static __heap_base: u8;
}

// SAFETY: each answer is a range of its own, aligned, and inside the memory; there is one thread.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = (&raw const __heap_base).addr();
        let start = self.next.load(Relaxed).max(base).next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()) else { return core::ptr::null_mut() };
        let missing = end.div_ceil(PAGE).saturating_sub(memory_size::<0>());
        if missing > 0 && memory_grow::<0>(missing) == usize::MAX {
            return core::ptr::null_mut();
        }
        self.next.store(end, Relaxed);
        core::ptr::with_exposed_provenance_mut(start)
    }

    unsafe fn dealloc(&self, _pointer: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump { next: AtomicUsize::new(0) };

/// How the host gets room for the arguments; elsewhere the standard library has this function.
///
/// # Safety
/// `old` is null or came from here with `old_size` and `align`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_size: usize, align: usize, new_size: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(new_size, align) else { unreachable() };
    if new_size == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    // SAFETY: the layout's size is not zero.
    let new = unsafe { ALLOCATOR.alloc(layout) };
    if new.is_null() {
        unreachable();
    }
    if old_size > 0 {
        // SAFETY: both ranges are this long, and the new one overlaps no other.
        unsafe { core::ptr::copy_nonoverlapping(old, new, old_size.min(new_size)) };
    }
    new
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    unreachable()
}
