//! The server: one thread for connections, a few for pages, and limits on both.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::{listen, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// The pages that are made at the same time. Others wait.
const WORKERS: usize = 4;
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 << 10;
/// The connections that the kernel holds until they are accepted, as far as it allows.
const BACKLOG: i32 = 4096;
/// The pause after an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that pages under way get when the server ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// The limits of connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The connections that are open at the same time. Others wait in the queue of the kernel.
    pub connections: usize,
    /// The time in which a client must send the head of a request, and after which an idle
    /// connection is closed.
    pub head: Duration,
    /// The time after which a connection is closed whose client reads nothing.
    pub unread: Duration,
    /// The longest life of a connection.
    pub life: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            head: Duration::from_secs(15),
            unread: Duration::from_secs(30),
            life: Duration::from_secs(600),
        }
    }
}

/// Serves until SIGINT or SIGTERM, and calls `started` once both are caught. Connections that are
/// open at the end are closed.
pub fn serve(
    listener: std::net::TcpListener,
    router: Router,
    limits: Limits,
    started: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    serve_until(listener, router, limits, async {
        let mut signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        ];
        started()?;
        poll_fn(|context| {
            let has_come = signals
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready());
            if has_come {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        })
        .await
    })
}

/// Serves until a future ends.
pub(crate) fn serve_until(
    listener: std::net::TcpListener,
    router: Router,
    limits: Limits,
    end: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // The standard library asks for 128. Beyond that the kernel ignores connections, which try
    // again after a second.
    listen(&listener, BACKLOG)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WORKERS)
        .build()?;
    let ended = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let accepting = tokio::spawn(accept(listener, router, limits));
        let ended = end.await;
        accepting.abort();
        ended
    });
    runtime.shutdown_timeout(PATIENCE);
    ended
}

async fn accept(listener: TcpListener, router: Router, limits: Limits) {
    let free = Arc::new(Semaphore::new(limits.connections));
    loop {
        // The permit comes first, so that the kernel holds connections beyond the limit.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (router, limits) = (router.clone(), limits.clone());
                tokio::spawn(async move {
                    connection(stream, router, &limits).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, router: Router, limits: &Limits) {
    // Without it a client that reads nothing would hold its connection and its page.
    let unread = u32::try_from(limits.unread.as_millis()).unwrap_or(u32::MAX);
    if sockopt::set_tcp_user_timeout(&stream, unread).is_err() {
        return;
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Errors of a connection are those of its client, who has closed it.
    let _ = tokio::time::timeout(limits.life, served).await;
}
