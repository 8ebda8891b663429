// Package layby writes tools for the MCP host Layby, which runs them as WebAssembly components.
//
// A tool is a function with a name. Its arguments are a struct, and the struct's tags are the schema
// that a model reads:
//
//	package main
//
//	import "layby.dev/layby"
//
//	type Greet struct {
//		Name string `json:"name" desc:"Whom to greet."`
//	}
//
//	func greet(call *layby.Call, args Greet) (string, error) {
//		if err := call.Check(); err != nil {
//			return "", err
//		}
//		return "Hello, " + args.Name + "!", nil
//	}
//
//	func init() {
//		layby.Tool("greet", "Greets somebody.", greet, layby.ReadOnly())
//	}
//
//	func main() {}
//
// The host calls the plugin as a library, so main does nothing: tools are made in init.
//
// Every call runs in an instance of its own: nothing is kept from one call to the next. What a plugin
// reaches of files, environment and network is what its operator's policy grants, through the standard
// library. Package layby.dev/layby/laybytest stands in for the host in an ordinary go test.
package layby
