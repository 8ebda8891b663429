//! The fixtures that the official MCP conformance suite calls: their names, texts and behaviour are
//! the suite's.
//!
//! The host lists tools by name, and the suite calls the first of the list with `{}`: that must not
//! be a JSON-RPC error. It is `confirm_delete`, whose missing argument is a tool's error.

mod basic;
mod tasks;

use basic::{
    json_schema_2020_12_tool, test_audio_content, test_custom_header, test_embedded_resource,
    test_error_handling, test_image_content, test_logging_tool, test_missing_capability,
    test_multiple_content_types, test_simple_text, test_streaming_elicitation, test_tool_with_progress,
    test_trigger_tool_change,
};
use tasks::{confirm_delete, failing_job, greet, multi_input, protocol_error_job, slow_compute};

layby_plugin::plugin!(
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    json_schema_2020_12_tool,
    test_custom_header,
    test_missing_capability,
    test_streaming_elicitation,
    test_logging_tool,
    test_trigger_tool_change,
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    multi_input,
);
