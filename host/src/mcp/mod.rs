//! (room mcp)
