//! Errors of requests.

use std::fmt;

use axum::http::StatusCode;
use fsb_history::HistoryError;

/// The error of a request.
#[derive(Debug)]
pub enum Problem {
    /// The address names nothing that exists.
    NotFound(String),
    /// A parameter of the address has an invalid value.
    Invalid(String),
    /// The request lacks the token, or it comes from elsewhere than a page of this server.
    Forbidden(String),
    /// The state of the server does not permit the request: a run is measured already.
    Conflict(String),
    /// Too many requests came in the last minute.
    TooMany(String),
    /// The store cannot be read.
    Store(HistoryError),
    /// The server failed to make the answer.
    Failed(String),
}

impl Problem {
    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Problem::NotFound(_) => StatusCode::NOT_FOUND,
            Problem::Invalid(_) => StatusCode::BAD_REQUEST,
            Problem::Forbidden(_) => StatusCode::FORBIDDEN,
            Problem::Conflict(_) => StatusCode::CONFLICT,
            Problem::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            Problem::Store(_) | Problem::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotFound(text)
            | Problem::Invalid(text)
            | Problem::Forbidden(text)
            | Problem::Conflict(text)
            | Problem::TooMany(text)
            | Problem::Failed(text) => f.write_str(text),
            Problem::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Problem {}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Problem {
        Problem::Store(error)
    }
}
