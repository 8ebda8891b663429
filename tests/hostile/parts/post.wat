(func (export "cabi_post_layby:plugin/tools@1.0.0#call-tool") (param i32))
