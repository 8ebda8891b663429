//! The raw interface, made from `wit/plugin.wit`: one world for what every plugin has, and one for each
//! optional interface. They share their types, and the linker joins those that a plugin exports.

wit_bindgen::generate!({
    path: "../../../wit",
    world: "plugin",
    pub_export_macro: true,
    generate_unused_types: true,
    default_bindings_module: "layby_plugin::bindings",
    runtime_path: "::layby_plugin::__private::rt",
});

/// For plugins with prompts.
pub mod prompts {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "plugin-prompts",
        with: {
            "layby:plugin/types@1.0.0": layby_plugin::bindings::layby::plugin::types,
            "layby:plugin/call@1.0.0": layby_plugin::bindings::layby::plugin::call,
        },
        pub_export_macro: true,
        default_bindings_module: "layby_plugin::bindings::prompts",
        runtime_path: "::layby_plugin::__private::rt",
    });
}

/// For plugins with resources.
pub mod resources {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "plugin-resources",
        with: {
            "layby:plugin/types@1.0.0": layby_plugin::bindings::layby::plugin::types,
            "layby:plugin/call@1.0.0": layby_plugin::bindings::layby::plugin::call,
        },
        pub_export_macro: true,
        default_bindings_module: "layby_plugin::bindings::resources",
        runtime_path: "::layby_plugin::__private::rt",
    });
}

/// For plugins that complete arguments.
pub mod completions {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "plugin-completions",
        with: {
            "layby:plugin/types@1.0.0": layby_plugin::bindings::layby::plugin::types,
            "layby:plugin/call@1.0.0": layby_plugin::bindings::layby::plugin::call,
        },
        pub_export_macro: true,
        default_bindings_module: "layby_plugin::bindings::completions",
        runtime_path: "::layby_plugin::__private::rt",
    });
}

/// Standard interfaces beside WASI's own. A plugin imports only those that it uses.
pub mod standard {
    wit_bindgen::generate!({
        path: "../../../wit",
        inline: "
            package layby:kit;
            world standard {
                import wasi:config/store@0.2.0-draft;
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        world: "layby:kit/standard",
        generate_all,
        runtime_path: "::layby_plugin::__private::rt",
    });
}
