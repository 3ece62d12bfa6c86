//! A client that sends bytes as they are, and reads what comes back.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::requests::Request;
use crate::support::TIMEOUT;

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    head: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The text of a header, by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.iter().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}

/// A connection, made anew when the one before has ended.
pub(super) struct Line {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Line {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            stream: None,
        }
    }

    /// Sends a request; none if the server closed the connection or no answer is expected.
    pub(super) async fn exchange(&mut self, request: &Request) -> Result<Option<Answer>, String> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(
                TcpStream::connect(&self.address)
                    .await
                    .map_err(|error| error.to_string())?,
            ),
        };
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(&request.bytes).await;
        if request.hangs_up {
            return Ok(None);
        }
        let read = tokio::time::timeout(TIMEOUT, answer(&mut stream, request.is_head));
        let answer = read.await.map_err(|_| "no answer".to_owned())?;
        if let Some(answer) = &answer
            && request.is_whole
            && answer
                .header("connection")
                .is_none_or(|connection| connection != "close")
        {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

async fn answer(stream: &mut BufReader<TcpStream>, is_head: bool) -> Option<Answer> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" if head.is_empty() => {}
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let status = head.first()?.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer {
        status,
        head,
        body: Vec::new(),
    };
    if !is_head && status != 204 {
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        answer.body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut answer.body).await.ok()?;
    }
    Some(answer)
}
