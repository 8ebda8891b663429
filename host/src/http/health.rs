//! `/health` (the process answers) and `/ready` (plugins are served, refused, or compile in the background).

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use serde_json::{Value, json};

use super::App;

pub(super) fn health() -> Response<Body> {
    answer(StatusCode::OK, &json!({"status": "ok"}))
}

pub(super) fn ready(app: &App) -> Response<Body> {
    let catalog = app.desk.handler().plugins().catalog();
    let count = |is: fn(&crate::plugins::Entry) -> bool| catalog.report.iter().filter(|e| is(e)).count();
    let draining = app.shutdown.is_cancelled();
    let body = json!({
        "status": if draining { "draining" } else { "ready" },
        "plugins": {
            "serving": count(|e| e.serving.is_some()),
            "refused": count(|e| e.refusal.is_some()),
            "compiling": count(|e| e.compiling),
        },
        "tools": catalog.tools.len(),
    });
    answer(if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, &body)
}

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
