//! The HTTP request that turns a connection to a runtime's streaming server into a SPDY one.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::error::Error;

/// The longest head of an answer that is read.
const HEAD: u64 = 16 * 1024;

/// How much of a refusal is told.
const REFUSAL: u64 = 4 * 1024;

/// Connects to a URL such as `http://127.0.0.1:38211/exec/Xq3v…` and asks for SPDY with this protocol on top.
pub(super) async fn upgrade(url: &str, protocol: &str) -> Result<BufReader<TcpStream>, Error> {
    let (authority, path) = parse(url)?;
    let failed = |error: std::io::Error| Error::Failed(format!("its streaming server at {authority}: {error}"));
    let socket = TcpStream::connect(authority).await.map_err(failed)?;
    // Keys that someone types are to arrive one by one.
    socket.set_nodelay(true).map_err(failed)?;
    let mut socket = BufReader::with_capacity(super::frame::CHUNK, socket);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.map_err(failed)?;
    let (mut status, mut first) = (String::new(), true);
    let mut head = (&mut socket).take(HEAD);
    loop {
        let mut line = String::new();
        let read = head.read_line(&mut line).await.map_err(failed)?;
        if read == 0 {
            return Err(Error::Failed(format!("its streaming server at {authority} broke off its answer")));
        }
        if std::mem::take(&mut first) {
            status = line;
        } else if line.trim_end().is_empty() {
            break;
        }
    }
    if status.split(' ').nth(1) == Some("101") {
        return Ok(socket);
    }
    let mut why = Vec::new();
    // What was read so far is told, whether or not the rest could be.
    let _ = tokio::time::timeout(super::OPENING, socket.take(REFUSAL).read_to_end(&mut why)).await;
    let why = String::from_utf8_lossy(&why);
    Err(Error::Failed(format!("its streaming server refused: {}: {}", status.trim_end(), why.trim_end())))
}

fn parse(url: &str) -> Result<(&str, &str), Error> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(Error::Failed(format!(
            "its streaming server is at {url:?}, and only plain HTTP is spoken to it; \
             set enable_tls_streaming to false in the runtime's configuration"
        )));
    };
    match rest.find('/') {
        Some(slash) if slash > 0 => Ok(rest.split_at(slash)),
        _ => Err(Error::Failed(format!("{url:?} is no address of a stream"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_spoken_to_is_refused_with_advice() {
        assert_eq!(parse("http://127.0.0.1:1/exec/x").unwrap(), ("127.0.0.1:1", "/exec/x"));
        assert!(parse("https://127.0.0.1:1/exec/x").unwrap_err().to_string().contains("enable_tls_streaming"));
        assert!(parse("http:///exec").is_err());
        assert!(parse("http://host").is_err());
    }
}
