(func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (i32.const @LIST@))
