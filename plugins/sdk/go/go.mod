module layby.dev/layby

go 1.27
