//! The fixtures that the official MCP conformance suite calls: their names, texts and behaviour are
//! the suite's.
//!
//! The host lists tools by name, and the suite calls the first of the list with `{}`: that must not
//! be a JSON-RPC error. It is `confirm_delete`, whose missing argument is a tool's error.

mod asking;
mod basic;
mod mrtr;
mod prompts;
mod resources;
mod tasks;

use asking::{
    test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums, test_sampling,
};
use basic::{
    json_schema_2020_12_tool, test_audio_content, test_custom_header, test_embedded_resource,
    test_error_handling, test_image_content, test_logging_tool, test_missing_capability,
    test_multiple_content_types, test_simple_text, test_streaming_elicitation, test_tool_with_logging,
    test_tool_with_progress, test_trigger_prompt_change, test_trigger_tool_change,
};
use mrtr::{
    test_input_required_result_capabilities, test_input_required_result_elicitation,
    test_input_required_result_list_roots, test_input_required_result_multi_round,
    test_input_required_result_multiple_inputs, test_input_required_result_request_state,
    test_input_required_result_sampling, test_input_required_result_tampered_state,
};
use prompts::{
    complete_arg1, complete_arg2, test_input_required_result_prompt, test_prompt_with_arguments,
    test_prompt_with_embedded_resource, test_prompt_with_image, test_simple_prompt,
};
use resources::{static_binary, static_text, template_data, watched_resource};
use tasks::{
    confirm_delete, failing_job, greet, multi_input, protocol_error_job, slow_compute, test_tool_with_task,
};

layby_plugin::plugin! {
    tools: [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_progress,
        test_tool_with_logging,
        json_schema_2020_12_tool,
        test_custom_header,
        test_missing_capability,
        test_streaming_elicitation,
        test_logging_tool,
        test_trigger_tool_change,
        test_trigger_prompt_change,
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
        greet,
        slow_compute,
        failing_job,
        protocol_error_job,
        confirm_delete,
        multi_input,
        test_tool_with_task,
    ],
    prompts: [
        test_simple_prompt,
        test_prompt_with_arguments,
        test_prompt_with_embedded_resource,
        test_prompt_with_image,
        test_input_required_result_prompt,
    ],
    resources: [static_text, static_binary, watched_resource],
    templates: [template_data],
    completions: [complete_arg1, complete_arg2],
}
