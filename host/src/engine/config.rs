//! How wasmtime is set up, and why. Every number that an operator does not set is here.

use std::num::NonZeroUsize;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// Wasm call stack of a guest, in bytes. Interpreters (CPython, SpiderMonkey) recurse deeply: twice wasmtime's default.
const WASM_STACK: usize = 1 << 20;
/// Native stack that a run's fiber gets, in bytes: the wasm stack, and as much again for host calls on top of it.
const FIBER_STACK: usize = 2 << 20;
/// Address space of one linear memory, in bytes: all that a 32-bit guest can address, so no access needs a bounds check,
/// and the largest memory limit that a policy can set.
const MEMORY_SLOT: usize = 1 << 32;
/// Linear memories per run on average. Known toolchains use one; composed components use a few.
const MEMORIES_PER_RUN: u32 = 4;
/// Linear memories of one component at most.
const MEMORIES_PER_COMPONENT: u32 = 32;
/// Linear memories of one core module at most (multi-memory).
const MEMORIES_PER_MODULE: u32 = 8;
/// Tables per run on average. Rust uses 2 with its adapters; Python, which links its libraries in, about 5.
const TABLES_PER_RUN: u32 = 16;
/// Tables of one component at most.
const TABLES_PER_COMPONENT: u32 = 64;
/// Tables of one core module at most.
const TABLES_PER_MODULE: u32 = 16;
/// Elements of one table at most. CPython and SpiderMonkey have 10,000 to 20,000 function pointers.
const TABLE_ELEMENTS: usize = 200_000;
/// Core instances per run on average. Python's component is some 30 linked modules, Rust's about 5.
const CORE_INSTANCES_PER_RUN: u32 = 64;
/// Core instances of one component at most.
const CORE_INSTANCES_PER_COMPONENT: u32 = 256;
/// Bytes of wasmtime's own record of a core instance: it grows with functions, globals and imports. A bound, not a
/// reservation; four times the default, for Python's largest module.
const CORE_INSTANCE_SIZE: usize = 4 << 20;
/// The same for a component instance.
const COMPONENT_INSTANCE_SIZE: usize = 4 << 20;
/// Instances beside the runs': `list-tools` of plugins that are just being loaded.
const LOADING: u32 = 8;
/// Bytes of a memory that are wiped by hand and kept when a run ends, where the kernel can say which pages are dirty
/// (Linux 6.7); more costs residence, less costs page faults. 1 MiB holds all that a small Rust guest touches.
const MEMORY_KEPT: usize = 1 << 20;
/// The same where the kernel cannot say, so that all of it is wiped each time.
const MEMORY_KEPT_BLIND: usize = 64 << 10;
/// The same for tables: small ones, whole.
const TABLE_KEPT: usize = 16 << 10;
/// The same for fiber stacks: what a call of a small guest uses.
const STACK_KEPT: usize = 16 << 10;
/// Frames of a backtrace in the log. A stack overflow has thousands, all alike.
const BACKTRACE_FRAMES: usize = 16;

/// The configuration of the one engine, with room for `max_instances` runs at once.
pub(super) fn config(max_instances: u32) -> Config {
    let mut c = Config::new();
    // Fuel bounds work and is the same on every machine; epochs only make a guest yield.
    c.consume_fuel(true).epoch_interruption(true);
    c.max_wasm_stack(WASM_STACK).async_stack_size(FIBER_STACK);
    c.cranelift_opt_level(OptLevel::Speed).parallel_compilation(true);
    c.wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES));
    features(&mut c);
    c.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(max_instances)));
    c
}

/// What guests may use, named one by one: a new wasmtime must not change what a parked run sees.
fn features(c: &mut Config) {
    c.wasm_component_model(true);
    c.wasm_multi_value(true).wasm_bulk_memory(true);
    c.wasm_tail_call(true).wasm_extended_const(true).wasm_multi_memory(true);
    c.wasm_simd(true).wasm_relaxed_simd(true);
    // The bits of a NaN and relaxed SIMD differ between processors; a run may move to another one.
    c.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    // Threads are not deterministic; the others are not needed by any language's toolchain yet.
    c.shared_memory(false);
    c.wasm_memory64(false).wasm_custom_page_sizes(false).wasm_wide_arithmetic(false);
}

fn pool(max_instances: u32) -> PoolingAllocationConfig {
    let runs = max_instances.max(1).saturating_add(LOADING);
    let mut p = PoolingAllocationConfig::new();
    p.total_component_instances(runs.saturating_mul(MEMORIES_PER_RUN));
    p.total_core_instances(runs.saturating_mul(CORE_INSTANCES_PER_RUN));
    p.total_memories(runs.saturating_mul(MEMORIES_PER_RUN));
    p.total_tables(runs.saturating_mul(TABLES_PER_RUN));
    p.total_stacks(runs);
    p.max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT);
    p.max_memories_per_component(MEMORIES_PER_COMPONENT);
    p.max_memories_per_module(MEMORIES_PER_MODULE);
    p.max_tables_per_component(TABLES_PER_COMPONENT);
    p.max_tables_per_module(TABLES_PER_MODULE);
    p.max_component_instance_size(COMPONENT_INSTANCE_SIZE);
    p.max_core_instance_size(CORE_INSTANCE_SIZE);
    p.table_elements(TABLE_ELEMENTS);
    p.max_memory_size(MEMORY_SLOT);
    p.max_unused_warm_slots(runs);
    p.pagemap_scan(Enabled::Auto);
    let dirty_known = PoolingAllocationConfig::is_pagemap_scan_available();
    p.linear_memory_keep_resident(if dirty_known { MEMORY_KEPT } else { MEMORY_KEPT_BLIND });
    p.table_keep_resident(TABLE_KEPT);
    p.async_stack_keep_resident(STACK_KEPT);
    p
}
