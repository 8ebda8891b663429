module layby.dev/plugins

go 1.27

require layby.dev/layby v0.0.0

replace layby.dev/layby => ../sdk/go
