//! A server in front of another one, which holds back what a test wants to be in the middle of.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

/// Lets so many requests of an operation of DynamoDB's pass, and holds back the next ones for ever. It
/// ends with the test's process.
pub struct Gate {
    pub url: String,
    reached: mpsc::Receiver<()>,
}

impl Gate {
    pub fn start(upstream: &str, operation: &'static str, passes: usize) -> Self {
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("the port that was bound"));
        let (reach, reached) = mpsc::channel();
        let seen = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (upstream, reach, seen) = (upstream.clone(), reach.clone(), Arc::clone(&seen));
                thread::spawn(move || {
                    let mut client = BufReader::new(stream);
                    while let Some((head, body)) = message(&mut client) {
                        let is_counted = head.to_ascii_lowercase().contains(&format!(
                            "x-amz-target: dynamodb_20120810.{}\r\n",
                            operation.to_ascii_lowercase()
                        ));
                        if is_counted && seen.fetch_add(1, Ordering::SeqCst) >= passes {
                            // The test may have ended.
                            let _ = reach.send(());
                            loop {
                                thread::park();
                            }
                        }
                        let mut server = TcpStream::connect(&upstream).expect("the server");
                        server.write_all(head.as_bytes()).expect("a request");
                        server.write_all(&body).expect("a request");
                        let answer = message(&mut BufReader::new(server));
                        let (head, body) = answer.expect("an answer");
                        // Whoever asked may have been killed.
                        let client = client.get_mut();
                        if client.write_all(head.as_bytes()).is_err()
                            || client.write_all(&body).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, reached }
    }

    /// Waits until a request is held back.
    pub fn wait(&self) {
        self.reached.recv().expect("the gate");
    }
}

/// The head and the body of a request or an answer; nothing at the end of the connection.
fn message(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[before..].trim().is_empty() {
            break;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
