//! Timed range requests of an object over HTTP or HTTPS.

use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use foretell_analytic::calibrate::{
    CONNECTIONS, LARGE_BYTES, LARGE_REQUESTS, ObjectCalibration, ObjectFitError, ObjectSamples, ObjectTiming,
    SMALL_BYTES, SMALL_REQUESTS, TOGETHER_REQUESTS, fit_object,
};
use thiserror::Error;
use ureq::Agent;
use ureq::http::StatusCode;

use crate::Effort;

/// A store that has not answered by then is not worth prefetching from; S3's own SDKs wait as long.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Each of the three probes ends after this.
const PROBE_TIME: Duration = Duration::from_secs(12);
/// The least object: large requests must be larger than what is in flight of a connection by itself.
const LEAST_BYTES: u64 = 1 << 20;

/// Why an object cannot be calibrated. The caller adds its address.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// Nobody there, or no answer.
    #[error("does not answer: {0}; check the address, and that it can be reached from here")]
    NoAnswer(String),
    /// An answer, but not the object.
    #[error("answers {0}; name an object that can be read with this address alone (a presigned one, say)")]
    Status(StatusCode),
    /// Parts cannot be asked for.
    #[error("sends the whole object when asked for a part; it must support range requests")]
    NoRanges,
    /// Too small.
    #[error(
        "has {found_bytes} bytes, and {LEAST_BYTES} are the least that can be calibrated; name a larger object"
    )]
    TooSmall {
        /// Its size.
        found_bytes: u64,
    },
    /// Its times say nothing.
    #[error(transparent)]
    Fit(#[from] ObjectFitError),
}

/// An object that answers range requests.
#[derive(Debug)]
pub struct Object {
    agent: Agent,
    url: String,
    /// Its size.
    pub bytes: u64,
}

impl Object {
    /// Asks for the first byte.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if it is nothing to calibrate.
    pub fn open(url: &str) -> Result<Object, ObjectError> {
        let config = Agent::config_builder()
            .timeout_connect(Some(ANSWER_TIME))
            .timeout_recv_response(Some(ANSWER_TIME))
            .timeout_recv_body(Some(PROBE_TIME))
            .http_status_as_error(false)
            .max_idle_connections_per_host(CONNECTIONS as usize)
            .max_idle_connections(CONNECTIONS as usize)
            .build();
        let agent: Agent = config.into();
        let answer = agent.get(url).header("Range", "bytes=0-0").call();
        let answer = answer.map_err(|e| ObjectError::NoAnswer(in_words(&e)))?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => return Err(ObjectError::NoRanges),
            status => return Err(ObjectError::Status(status)),
        }
        // `bytes 0-0/LENGTH` (RFC 9110, 14.4).
        let range = answer.headers().get("content-range").and_then(|value| value.to_str().ok());
        let length = range.and_then(|text| text.rsplit_once('/')).and_then(|(_, length)| length.parse().ok());
        let bytes: u64 = length.ok_or(ObjectError::NoRanges)?;
        if bytes < LEAST_BYTES {
            return Err(ObjectError::TooSmall { found_bytes: bytes });
        }
        Ok(Object { agent, url: url.to_owned(), bytes })
    }

    /// One request of `length` bytes, the `index`th of its kind; `None` if it failed.
    fn request(&self, began: Instant, index: u32, length: u64) -> Option<ObjectTiming> {
        let ms = || began.elapsed().as_secs_f64() * 1e3;
        let length = length.min(self.bytes);
        // Not always the same part, which somebody under way may have kept.
        let places = self.bytes / length;
        let offset = u64::from(index).wrapping_mul(2_654_435_761) % places * length;
        let start_ms = ms();
        let range = format!("bytes={offset}-{}", offset + length - 1);
        let mut answer = self.agent.get(&self.url).header("Range", range).call().ok()?;
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            return None;
        }
        let mut reader = answer.body_mut().as_reader();
        let mut buffer = vec![0; (64 << 10).min(length as usize)];
        let mut bytes = reader.read(&mut buffer).ok().filter(|read| *read > 0)? as u64;
        let first_byte_ms = ms();
        while bytes < length {
            match reader.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(read) => bytes += read as u64,
            }
        }
        // The end of the body must be seen for the connection to be used again.
        let _ = reader.read(&mut buffer);
        Some(ObjectTiming { bytes, start_ms, first_byte_ms, done_ms: ms() })
    }

    fn one_at_a_time(&self, requests: u32, length: u64) -> Vec<ObjectTiming> {
        let began = Instant::now();
        let in_time = |_: &u32| began.elapsed() < PROBE_TIME;
        (0..requests).take_while(in_time).filter_map(|index| self.request(began, index, length)).collect()
    }

    fn together(&self, requests: u32, length: u64) -> Vec<ObjectTiming> {
        let began = Instant::now();
        let next = AtomicU32::new(0);
        let connection = || {
            let mut timings = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= requests || began.elapsed() > PROBE_TIME {
                    return timings;
                }
                timings.extend(self.request(began, index, length));
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(connection)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }

    /// Times its requests and fits a store to them. `progress` is told the share that is done.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fit`] if too few were answered.
    pub fn calibrate(
        &self,
        mut progress: impl FnMut(f64),
    ) -> Result<(ObjectCalibration, Effort), ObjectError> {
        let began = Instant::now();
        progress(0.0);
        // The first opens the connection; its handshake is not the store's latency.
        self.request(began, 0, SMALL_BYTES);
        let small = self.one_at_a_time(SMALL_REQUESTS, SMALL_BYTES);
        progress(0.3);
        let large = self.one_at_a_time(LARGE_REQUESTS, LARGE_BYTES);
        progress(0.6);
        let together = self.together(TOGETHER_REQUESTS, LARGE_BYTES);
        progress(1.0);
        let bytes = small.iter().chain(&large).chain(&together).map(|t| t.bytes).sum();
        let found = fit_object(&ObjectSamples { small, large, together }, self.bytes)?;
        Ok((found, Effort { bytes, time: began.elapsed() }))
    }
}

/// In one line, without the address, which the caller adds.
fn in_words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::ConnectionFailed => "nobody takes the connection".to_owned(),
        ureq::Error::Timeout(_) => format!("nothing came within {} s", ANSWER_TIME.as_secs()),
        ureq::Error::Io(e) => e.to_string(),
        other => other.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
