//! A load balancer before several hosts: each request goes to the next one that is there.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// Where requests go: the base URLs (without a path), and whose turn it is.
#[derive(Default)]
struct Places {
    all: Vec<Option<String>>,
    turn: usize,
    /// How many requests each has answered.
    answered: Vec<usize>,
}

struct Shared {
    places: Mutex<Places>,
    http: reqwest::Client,
}

/// The balancer; it ends with this value.
///
/// A place that refuses the connection is passed over. A request that breaks off after it was sent is answered by 502,
/// as nobody knows what became of it.
pub struct Balancer {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Balancer {
    /// Listens on a free port of 127.0.0.1, before hosts with these base URLs.
    ///
    /// # Panics
    /// Without a port.
    pub async fn start(places: impl IntoIterator<Item = String>) -> Self {
        let all: Vec<_> = places.into_iter().map(Some).collect();
        let answered = vec![0; all.len()];
        let places = Mutex::new(Places { all, turn: 0, answered });
        let shared = Arc::new(Shared { places, http: crate::client::http() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = Router::new().fallback(pass_on).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { address, shared, serving }
    }

    /// Its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Puts another host in a place, or none.
    pub fn set(&self, place: usize, base: Option<String>) {
        self.shared.places().all[place] = base;
    }

    /// How many requests each place has answered.
    pub fn answered(&self) -> Vec<usize> {
        self.shared.places().answered.clone()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places, in the order in which this request tries them.
    fn turn(&self) -> Vec<(usize, String)> {
        let mut places = self.places();
        let first = places.turn;
        places.turn += 1;
        let n = places.all.len();
        (0..n).map(|i| (first + i) % n).filter_map(|i| Some((i, places.all[i].clone()?))).collect()
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut headers = head.headers;
    // Both sides have their own.
    for own in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING] {
        headers.remove(own);
    }
    for (place, base) in shared.turn() {
        let request = shared.http.request(head.method.clone(), format!("{base}{}", head.uri));
        match request.headers(headers.clone()).body(body.clone()).send().await {
            Ok(answer) => {
                shared.places().answered[place] += 1;
                return passed_back(answer);
            }
            Err(e) if e.is_connect() => {}
            Err(_) => return StatusCode::BAD_GATEWAY.into_response(),
        }
    }
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

fn passed_back(answer: reqwest::Response) -> Response {
    let mut response = Response::builder().status(answer.status());
    let own: [HeaderName; 3] = [header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING];
    for (name, value) in answer.headers().iter().filter(|(name, _)| !own.contains(name)) {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(answer.bytes_stream())).expect("an answer is one again")
}
