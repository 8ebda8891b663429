//! Bounds on loading plugins: what the folder, a component and its lists may cost.

use serde::{Deserialize, Serialize};

use crate::base::{ByteSize, Millis};

/// Loading plugins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CatalogConfig {
    /// How long component and policy must both be unchanged before they are read as a pair.
    /// 1 s is longer than a copy usually pauses, and short enough for a person to wait.
    pub settle: Millis,
    /// How often the folder is looked at where the system tells of no change (network file systems).
    /// With `settle`, this bounds how late a change takes effect: 500 ms and 1 s stay below 2 s.
    pub poll: Millis,
    /// Largest component. 64 MiB is three times the largest that Python's tools build.
    pub max_component: ByteSize,
    /// Largest function of a component, as code. A compiler's time and memory grow faster than a function does: one of
    /// 7 MB takes minutes. The largest of CPython's is below 512 KiB.
    pub max_function: ByteSize,
    /// Functions of a component with code, in all of its modules. Each costs a compiler about 0.15 ms and 6 KiB however
    /// small it is, and 5 bytes are enough for one: 1 MiB of such takes half a minute and more than a gigabyte. CPython
    /// has 13,400.
    pub max_functions: u32,
    /// Code of all functions of a component together. Ordinary code takes a compiler 1 to 2 s a MiB, and at worst about 5;
    /// the largest that JavaScript's tools build has 9 MiB.
    pub max_code: ByteSize,
    /// Largest policy file. Written by hand, so 256 KiB is far more than any.
    pub max_policy: ByteSize,
    /// Plugins in the folder. 256 keeps a scan cheap and `tools/list` readable.
    pub max_plugins: u32,
    /// Tools of one plugin. More than 128 would drown a model.
    pub max_tools: u32,
    /// Prompts of one plugin. A person picks one from a menu: more than 128 are no menu.
    pub max_prompts: u32,
    /// Listed resources of one plugin. Clients read the list whole; more belong under a template.
    pub max_resources: u32,
    /// Resource templates of one plugin. Each that sorts before the right one is tried for every read.
    pub max_templates: u32,
    /// One schema, description, title, name or `extra`, as text. Each goes into every list.
    pub max_schema: ByteSize,
    /// Nesting of a schema. Validation recurses with it, so it bounds the stack.
    pub max_schema_depth: u32,
    /// Steps that checking one value against a schema may take where every reference is followed.
    /// References to references multiply: thirty lines can cost minutes for each call.
    pub max_schema_steps: u32,
    /// Fuel of one listing (`list-tools` and the other lists): about 2 s of a core, a thousand times what listing needs.
    pub list_fuel: u64,
    /// Linear memory of one listing. Python's and JavaScript's runtimes start with tens of MiB.
    pub list_memory: ByteSize,
    /// Wall clock of one listing. Fuel bounds what a listing computes; this one that waits. Ten times what its fuel
    /// takes, for a machine that is busy.
    pub list_time: Millis,
    /// Least time between two listings that one plugin asks for by `changed`. 1 s: subscribers hear in time,
    /// and a plugin that says so all the time costs one listing a second.
    pub relist_interval: Millis,
    /// How often a candidate is tried again that was refused for something outside its file, such as a
    /// granted folder that is missing.
    pub retry: Millis,
    /// Components compiled at once; 0 means half the cores, at least one, so that calls keep the others.
    pub compile_jobs: u32,
    /// Public keys of minisign, each as the second line of its `.pub` file. Where there are any, a component is loaded only
    /// with a signature by one of them, `NAME.wasm.minisig`. None by default: who may write the folder is trusted.
    pub signers: Vec<String>,
}

impl CatalogConfig {
    /// True where a component is loaded only with a signature.
    pub const fn is_signed(&self) -> bool {
        !self.signers.is_empty()
    }

    /// How long a task that goes on waits for its plugin to be ready, before it is given back for a while: longer than a
    /// host needs to make its plugins ready from compiled code, and less than its lease.
    pub const PENDING: Millis = Millis::from_secs(5);
    /// How often a host looks for components that were revoked: the look costs one short statement.
    pub const REVOKED: Millis = Millis::from_secs(1);
    /// Most keys of `signers`: a team's, and those that follow them.
    pub const SIGNERS: usize = 32;
    /// Largest file of a signature: minisign's comments have at most 9 KiB.
    pub const SIGNATURE: ByteSize = ByteSize::kib(16);
    /// Components and modules that lie within each other: composed ones have three or four. The compiler's time and memory
    /// grow with the square, to gigabytes for a file of 100 KB.
    pub const NESTED: usize = 32;
    /// Arguments of one prompt: a person fills them in.
    pub const PROMPT_ARGUMENTS: usize = 64;
    /// Longest name of a prompt's argument, in bytes: as for tools.
    pub const ARGUMENT_NAME: usize = 128;
    /// Longest URI of a resource, in bytes: what HTTP's servers commonly take.
    pub const URI: usize = 4096;
    /// Longest URI template, in bytes. With the number of its expressions, bounds what compiling it costs.
    pub const URI_TEMPLATE: usize = 2048;
    /// Expressions of one URI template: far more than a URI that people write has parts.
    pub const URI_EXPRESSIONS: usize = 32;
    /// Candidates that are checked at once, each with its bytes in memory: at most 512 MiB of components.
    pub const CHECKS: usize = 8;
    /// Steps that one check of arguments or a result may take: about 100 ms. A validator cannot be
    /// interrupted, so what would take more is refused before.
    pub const CHECK_STEPS: u64 = 2_000_000;
    /// Steps up to which a misfit is explained: each failed step may keep a part of the explanation.
    pub const EXPLAINED_STEPS: u64 = 100_000;
    /// Exported functions of a component without `layby:plugin/tools`: `max-tools` decides how many are served,
    /// and this how many are looked at.
    pub const REFLECTED_FUNCTIONS: usize = 1024;
    /// Types within types in a signature. Conversion recurses with it; each level is two of `max-schema-depth`.
    pub const REFLECTED_DEPTH: usize = 24;
    /// Types, fields and cases in all signatures of a component, each counted wherever it is used: types that use
    /// one type twice multiply, and their schemas with them.
    pub const REFLECTED_TYPES: usize = 50_000;
    /// Names of types that a component's exports and imports give, beyond which types are unnamed.
    pub const REFLECTED_NAMES: usize = 4096;
    /// Sections of documentation in one component: composed ones have a few.
    pub const REFLECTED_SECTIONS: usize = 16;
    /// Bytes of one such section, and of all texts that go into a component's schemas.
    pub const REFLECTED_DOCS: usize = 1 << 20;
    /// Bytes of one text of documentation; a longer one is cut. 16 KiB are pages, and models read it in each list.
    pub const REFLECTED_TEXT: usize = 16 << 10;
    /// Bytes of all texts in the schemas of one function: as JSON, they stay below `max-schema` whatever is in them,
    /// since no component is to be refused for its documentation.
    pub const REFLECTED_TOOL_DOCS: usize = 64 << 10;
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            settle: Millis::from_secs(1),
            poll: Millis(500),
            max_component: ByteSize::mib(64),
            max_function: ByteSize::mib(1),
            max_functions: 50_000,
            max_code: ByteSize::mib(32),
            max_policy: ByteSize::kib(256),
            max_plugins: 256,
            max_tools: 128,
            max_prompts: 128,
            max_resources: 1000,
            max_templates: 128,
            max_schema: ByteSize::kib(256),
            max_schema_depth: 64,
            max_schema_steps: 10_000,
            list_fuel: 5_000_000_000,
            list_memory: ByteSize::mib(256),
            list_time: Millis::from_secs(20),
            relist_interval: Millis::from_secs(1),
            retry: Millis::from_secs(5),
            compile_jobs: 0,
            signers: Vec::new(),
        }
    }
}
