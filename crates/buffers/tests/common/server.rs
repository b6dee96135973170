//! A server on this machine that answers as a test says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What was asked for. Names of headers are in small letters.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The range that is asked for.
    pub(crate) fn range(&self) -> Option<std::ops::Range<usize>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().unwrap()..last.parse::<usize>().unwrap() + 1)
    }
}

/// What is answered; the length of the body is added.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// So much of the body is sent, and the rest once this says so.
    pub(crate) waits: Option<(usize, Arc<AtomicBool>)>,
}

impl Reply {
    /// What a server of files answers, with these headers beside.
    pub(crate) fn of(asked: &Asked, content: &[u8], headers: &[(&'static str, &str)]) -> Reply {
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let Some(range) = asked.range() else {
            return Reply { status: 200, headers, body: content.to_vec(), waits: None };
        };
        let range = range.start..range.end.min(content.len());
        headers.push(("Content-Range", format!("bytes {}-{}/{}", range.start, range.end - 1, content.len())));
        Reply { status: 206, headers, body: content[range].to_vec(), waits: None }
    }
}

type Answers = dyn Fn(&Asked) -> Reply + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    ends: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (asked, ends) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(AtomicBool::new(false)));
        let answers: Arc<Answers> = Arc::new(answers);
        let (noted, ended) = (asked.clone(), ends.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (answers, noted) = (answers.clone(), noted.clone());
                // Whoever goes away is not waited for.
                std::thread::spawn(move || serve(&stream, &*answers, &noted));
            }
        });
        Server { address, asked, ends }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

fn serve(stream: &TcpStream, answers: &Answers, noted: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = || {
            let mut line = String::new();
            lines.read_line(&mut line).ok().filter(|&read| read > 0)?;
            Some(line.trim_end().to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line()?.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let asked = Asked { method, target, headers };
        noted.lock().unwrap().push(asked.clone());
        let reply = answers(&asked);
        let mut said = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in reply.headers {
            said.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut said = format!("{said}\r\n").into_bytes();
        let mut body = if asked.method == "HEAD" { Vec::new() } else { reply.body };
        if let Some((at, goes_on)) = reply.waits
            && at < body.len()
        {
            let rest = body.split_off(at);
            said.extend(body);
            (&*stream).write_all(&said).ok()?;
            while !goes_on.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            (said, body) = (Vec::new(), rest);
        }
        said.extend(body);
        (&*stream).write_all(&said).ok()?;
    }
}
