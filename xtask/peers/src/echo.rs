//! The floor: what HTTP and JSON alone cost.

use anyhow::Result;
use axum::{Json, Router, routing::post, serve::ListenerExt as _};
use serde_json::Value;
use tokio::net::TcpListener;

/// Serves until the process is stopped.
pub(crate) async fn serve() -> Result<()> {
    let router = Router::new().route("/mcp", post(|Json(body): Json<Value>| async { Json(body) }));
    listen(router).await
}

/// Serves `router` on a free port, and prints its URL.
#[allow(clippy::print_stdout)]
pub(crate) async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|socket| {
        // Without it some answers come 40 ms late, and the comparison would flatter the host.
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}
