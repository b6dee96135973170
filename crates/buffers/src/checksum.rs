//! Checksums that stores send with their answers.
//!
//! | who | header | of what |
//! | --- | --- | --- |
//! | Amazon, and who speaks like it | `x-amz-checksum-ALGORITHM` | of the bytes of the answer: the whole object, or a range that is exactly one part of its upload. They come only when a signed header asks for them |
//! | Google | `x-goog-hash` | of the whole object as it is stored, whatever range was asked for |
//! | Azure, HTTP servers | `Content-MD5` | of the whole object, where nothing else was asked for |
//!
//! What Amazon makes of the checksums of an upload's parts (`COMPOSITE`, a value with `-` and their number) is of no bytes that
//! can be asked for. An ETag is not taken for an MD5 either: it says nowhere whether it is one.
//!
//! object_store shows no headers of answers. So its client is ours: it looks at them, and lays what they promise beside the
//! answer ([`Listening`]).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::Digest as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use ring::digest;

/// A request is answered with all that there is, or with a part of it.
const OK: u16 = 200;
const PARTIAL: u16 = 206;

/// How a checksum is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Crc64Nvme,
    Crc32c,
    Crc32,
    Sha256,
    Sha1,
    Md5,
}

/// Amazon's headers, those first that are made most quickly.
const AMAZON: [(&str, Algorithm); 5] = [
    ("x-amz-checksum-crc64nvme", Algorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", Algorithm::Crc32c),
    ("x-amz-checksum-crc32", Algorithm::Crc32),
    ("x-amz-checksum-sha256", Algorithm::Sha256),
    ("x-amz-checksum-sha1", Algorithm::Sha1),
];

impl Algorithm {
    const ALL: [Algorithm; 6] = [
        Algorithm::Crc64Nvme,
        Algorithm::Crc32c,
        Algorithm::Crc32,
        Algorithm::Sha256,
        Algorithm::Sha1,
        Algorithm::Md5,
    ];

    /// Its number where it is sent.
    fn number(self) -> u8 {
        self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Algorithm::Crc64Nvme => "CRC-64/NVME",
            Algorithm::Crc32c => "CRC-32C",
            Algorithm::Crc32 => "CRC-32",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha1 => "SHA-1",
            Algorithm::Md5 => "MD5",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Algorithm::Crc64Nvme => 8,
            Algorithm::Crc32c | Algorithm::Crc32 => 4,
            Algorithm::Sha256 => 32,
            Algorithm::Sha1 => 20,
            Algorithm::Md5 => 16,
        }
    }
}

/// The checksum of an object, or of a part of it, as its store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    value: Vec<u8>,
}

/// The checksum that the bytes of an answer are promised to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    checksum: Checksum,
    /// It is of a range.
    pub(crate) is_partial: bool,
    /// It is made of the checksums of an upload's parts.
    pub(crate) is_composite: bool,
}

impl Promise {
    /// What the headers of an answer promise.
    fn of(status: u16, headers: &HeaderMap) -> Option<Promise> {
        if !matches!(status, OK | PARTIAL) {
            return None;
        }
        let is_partial = status == PARTIAL;
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let is_made_of_parts =
            text("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("composite"));
        let amazons = AMAZON.into_iter().find_map(|(name, algorithm)| {
            let said = text(name)?;
            let (value, parts) = said.split_once('-').map_or((said, false), |(value, _)| (value, true));
            // Of a range that is one part it is that part's.
            let is_composite = parts || is_made_of_parts && !is_partial;
            Promise::new(algorithm, value, is_partial, is_composite)
        });
        if amazons.is_some() || is_partial {
            return amazons;
        }
        let googles = || {
            // Unpacked on its way, it has no longer the bytes that the checksum is of.
            let stored = text("x-goog-stored-content-encoding").unwrap_or("identity");
            let sent = headers.get(CONTENT_ENCODING).map_or(Ok("identity"), HeaderValue::to_str).ok()?;
            if stored != sent {
                return None;
            }
            let said = headers.get_all("x-goog-hash").into_iter().filter_map(|value| value.to_str().ok());
            let pairs: Vec<_> = said
                .flat_map(|value| value.split(','))
                .filter_map(|one| one.trim().split_once('='))
                .collect();
            let named = |wanted: &str, algorithm| {
                let (_, value) = pairs.iter().find(|(name, _)| *name == wanted)?;
                Promise::new(algorithm, value, false, false)
            };
            named("crc32c", Algorithm::Crc32c).or_else(|| named("md5", Algorithm::Md5))
        };
        googles().or_else(|| Promise::new(Algorithm::Md5, text("content-md5")?, false, false))
    }

    /// `None` when it is no checksum of this kind.
    fn new(algorithm: Algorithm, value: &str, is_partial: bool, is_composite: bool) -> Option<Promise> {
        let value = STANDARD.decode(value.trim()).ok()?;
        Some(Promise { checksum: Checksum::new(algorithm, value)?, is_partial, is_composite })
    }

    /// That of the object, if it is of all of its bytes.
    pub(crate) fn of_whole(&self) -> Option<Checksum> {
        (!self.is_partial && !self.is_composite).then(|| self.checksum.clone())
    }

    /// The same value, of whatever it is said to be.
    pub(crate) fn is_that_of(&self, other: &Promise) -> bool {
        self.checksum == other.checksum
    }

    /// To be told the bytes in order.
    pub(crate) fn begin(&self) -> Sum {
        self.checksum.begin()
    }

    /// [`Checksum::check`].
    pub(crate) fn check(&self, sum: Sum, range: &std::ops::Range<u64>) -> Result<(), String> {
        self.checksum.check(sum, range)
    }
}

impl Checksum {
    /// `None` when a checksum of this kind has another length.
    fn new(algorithm: Algorithm, value: Vec<u8>) -> Option<Checksum> {
        (value.len() == algorithm.bytes()).then_some(Checksum { algorithm, value })
    }

    /// As it is sent.
    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        (self.algorithm.number(), &self.value)
    }

    /// From what was sent.
    pub(crate) fn from_parts(number: u8, value: &[u8]) -> Option<Checksum> {
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.number() == number)?;
        Checksum::new(algorithm, value.to_vec())
    }

    /// Can it be made of the checksums of pieces, in whatever order those come?
    pub(crate) fn is_of_pieces(&self) -> bool {
        matches!(self.algorithm, Algorithm::Crc64Nvme | Algorithm::Crc32c | Algorithm::Crc32)
    }

    /// To be told the bytes in order.
    pub(crate) fn begin(&self) -> Sum {
        match self.algorithm {
            Algorithm::Crc64Nvme => Sum::crc(CrcAlgorithm::Crc64Nvme, 8),
            Algorithm::Crc32c => Sum::crc(CrcAlgorithm::Crc32Iscsi, 4),
            Algorithm::Crc32 => Sum::crc(CrcAlgorithm::Crc32IsoHdlc, 4),
            Algorithm::Sha256 => Sum::Sha(digest::Context::new(&digest::SHA256)),
            Algorithm::Sha1 => Sum::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Md5 => Sum::Md5(md5::Md5::new()),
        }
    }

    /// Is it kept?
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self, sum: Sum, range: &std::ops::Range<u64>) -> Result<(), String> {
        let came = sum.end();
        if came == self.value {
            return Ok(());
        }
        let (name, came, stored) = (self.algorithm.name(), hex(&came), hex(&self.value));
        let (start, last) = (range.start, range.end.saturating_sub(1));
        Err(format!("bytes {start} to {last} came with the {name} {came}, and are stored with {stored}"))
    }
}

/// A checksum that is being made.
pub(crate) enum Sum {
    Crc(Box<crc_fast::Digest>, usize),
    Sha(digest::Context),
    Md5(md5::Md5),
}

impl Sum {
    fn crc(algorithm: CrcAlgorithm, bytes: usize) -> Sum {
        Sum::Crc(Box::new(crc_fast::Digest::new(algorithm)), bytes)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        match self {
            Sum::Crc(sum, _) => sum.update(bytes),
            Sum::Sha(sum) => sum.update(bytes),
            Sum::Md5(sum) => sum.update(bytes),
        }
    }

    /// That of these bytes and of those of `next`, which come right behind them. Of CRCs alone.
    pub(crate) fn join(&mut self, next: &Sum) {
        if let (Sum::Crc(sum, _), Sum::Crc(next, _)) = (self, next) {
            sum.combine(next);
        }
    }

    fn end(self) -> Vec<u8> {
        match self {
            Sum::Crc(sum, bytes) => sum.finalize().to_be_bytes()[8 - bytes..].to_vec(),
            Sum::Sha(sum) => sum.finish().as_ref().to_vec(),
            Sum::Md5(sum) => sum.finalize().to_vec(),
        }
    }
}

/// What tells the state of an object whose server does not.
pub(crate) struct Content(digest::Context);

impl Content {
    pub(crate) fn new() -> Content {
        Content(digest::Context::new(&digest::SHA256))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// As no server's ETag looks: those have quotes.
    pub(crate) fn tag(self) -> String {
        format!("content:{}", hex(self.0.finish().as_ref()))
    }
}

/// Is it of [`Content::tag`]?
pub(crate) fn is_of_content(tag: &str) -> bool {
    tag.starts_with("content:")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What Amazon's requests are sent with: its library signs these headers of reads with all others.
pub(crate) fn asking() -> ClientOptions {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-amz-checksum-mode"), HeaderValue::from_static("ENABLED"));
    ClientOptions::new().with_default_headers(headers)
}

/// Makes clients that look at the headers of answers.
#[derive(Debug)]
pub(crate) struct Listening;

impl HttpConnector for Listening {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Those of reads are in the request already. In a listing they would not be signed, which Amazon refuses.
        let options = options.clone().with_default_headers(HeaderMap::new());
        ReqwestConnector::default().connect(&options).map(|client| HttpClient::new(Listener(client)))
    }
}

#[derive(Debug)]
struct Listener(HttpClient);

impl HttpService for Listener {
    // As the macro of that trait writes it.
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> futures_util::future::BoxFuture<'async_trait, Result<HttpResponse, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let mut answer = self.0.execute(request).await?;
            if let Some(promise) = Promise::of(answer.status().as_u16(), answer.headers()) {
                answer.extensions_mut().insert(promise);
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(status: u16, headers: &[(&'static str, &str)]) -> Option<Promise> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Promise::of(status, &map)
    }

    fn sum(promise: &Promise, bytes: &[u8]) -> Result<(), String> {
        let mut sum = promise.begin();
        // However it is cut.
        bytes.chunks(4).for_each(|piece| sum.add(piece));
        promise.check(sum, &(5..5 + bytes.len() as u64))
    }

    /// The check values of the catalogues of these algorithms, which are of these nine bytes.
    const CHECKED: &[u8] = b"123456789";

    #[test]
    fn every_algorithm_makes_what_its_catalogue_says() {
        let values = [
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("x-amz-checksum-crc32c", "4waSgw=="),
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
            ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
            ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
            ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="),
        ];
        for (name, value) in values {
            let promise = promise(OK, &[(name, value)]).unwrap();
            assert_eq!(sum(&promise, CHECKED), Ok(()), "{name}");
            let said = sum(&promise, b"123456780").unwrap_err();
            assert!(said.starts_with("bytes 5 to 13 came with the ") && said.lines().count() == 1, "{said}");
        }
        let crc = promise(OK, &[("x-amz-checksum-crc32c", "4waSgw==")]).unwrap();
        let said = sum(&crc, b"").unwrap_err();
        assert!(said.ends_with("with the CRC-32C 00000000, and are stored with e3069283"), "{said}");
    }

    #[test]
    fn what_is_of_other_bytes_than_those_of_the_answer_promises_nothing() {
        let crc = ("x-amz-checksum-crc32c", "4waSgw==");
        assert!(promise(PARTIAL, &[crc]).unwrap().is_partial);
        for headers in
            [&[("x-amz-checksum-crc32c", "4waSgw==-3")][..], &[crc, ("x-amz-checksum-type", "COMPOSITE")]]
        {
            let composite = promise(OK, headers).unwrap();
            assert!(composite.is_composite && composite.is_that_of(&promise(PARTIAL, &[crc]).unwrap()));
        }
        assert!(!promise(OK, &[crc, ("x-amz-checksum-type", "FULL_OBJECT")]).unwrap().is_composite);
        let google = ("x-goog-hash", "crc32c=4waSgw==,md5=JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(promise(OK, &[google]).unwrap().checksum.algorithm, Algorithm::Crc32c);
        let apart = [("x-goog-hash", "md5=JfnnlDI7RTiF9RgfG2JNCw=="), ("x-goog-hash", "crc32c=4waSgw==")];
        assert_eq!(promise(OK, &apart).unwrap().checksum.algorithm, Algorithm::Crc32c);
        assert_eq!(promise(OK, &apart[..1]).unwrap().checksum.algorithm, Algorithm::Md5);
        let packed = ("x-goog-stored-content-encoding", "gzip");
        assert_eq!(promise(OK, &[google, packed]), None);
        assert!(promise(OK, &[google, packed, ("content-encoding", "gzip")]).is_some());
        assert_eq!(promise(PARTIAL, &[google]), None);
        assert_eq!(promise(PARTIAL, &[("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==")]), None);
        // An answer that is none, and what is no checksum.
        assert_eq!(promise(404, &[crc]), None);
        for bad in ["", "=", "4waS", "not base64", "JfnnlDI7RTiF9RgfG2JNCw==", "-"] {
            assert_eq!(promise(OK, &[("x-amz-checksum-crc32c", bad)]), None, "{bad}");
        }
        assert_eq!(promise(OK, &[("content-md5", "4waSgw=="), ("x-goog-hash", "crc32c")]), None);
    }
}
