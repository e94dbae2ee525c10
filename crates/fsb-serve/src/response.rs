//! The response that carries an answer.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;

use crate::answer::Answer;

/// Returns the response with the type and the content policy of the answer.
pub(crate) fn response(status: StatusCode, answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.content));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(answer.kind.content_type()),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(answer.kind.policy()),
    );
    response
}
