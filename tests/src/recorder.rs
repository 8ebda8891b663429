//! A server that remembers every request which reached it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::eventually;

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `GET` and the like.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

type All = Arc<Mutex<Vec<Seen>>>;

/// The server; it ends with this value.
///
/// It answers `/hang` never, `/drip` with a byte each 50 ms and no end, `/slow/MS` late, `/size/N` with so many bytes, `/status/N` with that status, `/away` with a
/// redirect, and all else with `ok N`, where N counts the requests.
pub struct Recorder {
    address: SocketAddr,
    seen: All,
    hanging: Arc<()>,
    serving: JoinHandle<()>,
}

impl Recorder {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Without one.
    pub async fn start() -> Self {
        Self::on("127.0.0.1:0").await
    }

    /// Listens on `address`.
    ///
    /// # Panics
    /// Where that is taken.
    pub async fn on(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = All::default();
        let hanging = Arc::new(());
        let shared = (seen.clone(), Arc::downgrade(&hanging));
        let app = Router::new().fallback(answer).with_state(shared);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { address, seen, hanging, serving }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far, whether or not they were answered.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests for `/hang` and `/drip` whose clients are still there.
    pub fn waiting(&self) -> usize {
        Arc::strong_count(&self.hanging) - 1
    }

    /// Method and path of each.
    pub fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }

    /// Waits until `n` requests have come.
    pub async fn reached(&self, n: usize) {
        eventually("requests reach the server", || async { (self.seen().len() >= n).then_some(()) }).await;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State((all, hanging)): State<(All, Weak<()>)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.map(|b| b.to_vec()).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let seen =
        Seen { method: head.method.to_string(), path: head.uri.to_string(), headers: head.headers, body };
    let count = {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(seen);
        all.len()
    };
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    match path.split('/').collect::<Vec<_>>()[..] {
        [_, "hang"] => {
            // Dropped when the client leaves.
            let _held = hanging.upgrade();
            std::future::pending().await
        }
        [_, "drip"] => {
            // Dropped when the client leaves.
            let drops = futures::stream::unfold(hanging.upgrade(), async |held| {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Ok::<_, std::convert::Infallible>("."), held))
            });
            Body::from_stream(drops).into_response()
        }
        [_, "slow", ms] => {
            tokio::time::sleep(Duration::from_millis(number(ms))).await;
            format!("ok {count}").into_response()
        }
        [_, "size", n] => {
            Body::from(vec![b'.'; usize::try_from(number(n)).unwrap_or_default()]).into_response()
        }
        [_, "status", n] => {
            let status = n.parse::<u16>().ok().and_then(|n| StatusCode::from_u16(n).ok());
            status.unwrap_or(StatusCode::BAD_REQUEST).into_response()
        }
        [_, "away"] => (StatusCode::FOUND, [("location", "http://169.254.169.254/")]).into_response(),
        _ => format!("ok {count}").into_response(),
    }
}
