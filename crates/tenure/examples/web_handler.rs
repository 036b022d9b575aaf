//! A web handler that runs an import at most once at a time: `cargo run -p tenure --example
//! web_handler`.
//!
//! A client that comes while the import runs gets 409 at once. It does not wait: a request that
//! waits for a lock keeps a connection open, and the client would give up before it.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use tenure::Locks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One `Locks` for the whole program: it is cheap to clone, and shares its connections.
async fn import(State(locks): State<Locks>, Path(customer): Path<String>) -> (StatusCode, String) {
    // One lock per customer, so that imports of different customers run side by side.
    let lock = locks.lock(format!("import/{customer}")).ttl(Duration::from_secs(10)).label("web import");
    match lock.try_acquire().await {
        // If the client disconnects, axum drops this future, and with it the guard: the lock is
        // released.
        Ok(Some(guard)) => {
            tokio::time::sleep(Duration::from_millis(300)).await; // the import
            let _ = guard.release().await;
            (StatusCode::OK, format!("imported {customer}"))
        }
        Ok(None) => (StatusCode::CONFLICT, format!("an import of {customer} is running")),
        // Nobody can tell whether an import runs, so this is not the time to start one.
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In memory, so that nothing has to be installed. With several web servers: `Locks::connect`.
    let locks = Locks::memory();
    let app = axum::Router::new().route("/import/{customer}", post(import)).with_state(locks.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, app).into_future());

    // Two clients ask for the same customer at the same moment, and a third for another one.
    let call = |path: &'static str| {
        tokio::spawn(async move {
            let answer = ask(address, path).await?;
            println!("POST {path}: {answer}");
            Ok::<_, std::io::Error>(())
        })
    };
    for client in [call("/import/acme"), call("/import/acme"), call("/import/globex")] {
        client.await??;
    }
    call("/import/acme").await??; // It is free again.

    server.abort();
    locks.shutdown().await?;
    Ok(())
}

/// What curl would do: the status and the body of the answer.
async fn ask(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).unwrap_or("no status");
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    Ok(format!("{status} {body}"))
}
