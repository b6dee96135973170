//! What a pool's host and its guests say to each other on a socket.
//!
//! A *frame* is a length and so many bytes, of numbers of a fixed size and of strings with their length before them. A
//! guest greets with [`Hello`], then sends a request at a time, and the host answers with one frame; a read is answered
//! with frames of the bytes themselves, an empty one, and one that says how it ended. Behind the answer to a request for the
//! pool's memory comes a byte that has the descriptors with it.

use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foretell_policy::PoolPolicy;

use crate::access::{Access, MOST_OPTIONS};
use crate::checksum::Checksum;
use crate::directive::Directive;
use crate::error::Error;
use crate::first::First;
use crate::memory::Granted;
use crate::readers::Reading;
use crate::source::{Entry, Stamp};
use crate::statistics::Statistics;

/// Raised with every change of what is sent.
pub(crate) const VERSION: u32 = 6;
/// Bytes of a frame at most, but for the bytes of objects.
const MOST_FRAME: usize = 16 << 20;
/// Ranges or URLs of one request, and entries of one answer: so many URLs of the greatest length fit into a frame.
pub(crate) const MOST_RANGES: usize = 1024;
/// Bytes of a URL, and of what a store says of an object.
pub(crate) const MOST_TEXT: usize = 4096;
/// The first bytes on a socket.
const MAGIC: [u8; 8] = *b"foretell";

/// Which object, in which state, and which of its bytes.
pub(crate) type Range<'a> = (&'a str, &'a Stamp, u64, u64);

/// The first frame of a guest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) secret: [u8; 16],
    /// Connections of one guest have the same number.
    pub(crate) guest: u64,
    /// What its stores are spoken to with, if not with what the host has.
    pub(crate) access: Option<Access>,
}

/// What a guest asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// The states of objects: with `known`, those in which they are open already. `first` is what is read first of each.
    Open {
        known: bool,
        urls: Vec<String>,
        first: First,
    },
    List {
        url: String,
        deep: bool,
    },
    Read {
        url: String,
        stamp: Stamp,
        offset: u64,
        length: u64,
        reading: Reading,
    },
    /// What of the pool's memory there is for this guest: [`Granted`].
    Memory,
    Disclose(Vec<(String, Stamp, u64, u64)>),
    Cancel,
    Statistics,
    Direct {
        url: String,
        stamp: Stamp,
        directive: Directive,
    },
    Policy {
        priority: i32,
        policy: PoolPolicy,
    },
}

/// Makes the bytes of a frame.
#[derive(Default)]
pub(crate) struct Words(Vec<u8>);

impl Words {
    pub(crate) fn byte(&mut self, value: u8) -> &mut Words {
        self.0.push(value);
        self
    }

    pub(crate) fn number(&mut self, value: u64) -> &mut Words {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Words {
        self.number(value.len() as u64).0.extend(value.as_bytes());
        self
    }

    fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Words, T)) -> &mut Words {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
        self
    }

    pub(crate) fn statistics(&mut self, counts: &Statistics) -> &mut Words {
        for number in counts.to_numbers() {
            self.option(number, |words, number| {
                words.number(number);
            });
        }
        self
    }

    pub(crate) fn entries(&mut self, entries: &[Entry]) -> &mut Words {
        self.number(entries.len() as u64);
        for entry in entries {
            self.text(&entry.path).option(entry.stamp.as_ref(), |words, stamp| {
                words.stamp(stamp);
            });
        }
        self
    }

    pub(crate) fn stamp(&mut self, stamp: &Stamp) -> &mut Words {
        self.number(stamp.length);
        for text in [&stamp.etag, &stamp.version] {
            self.option(text.as_ref(), |words, text| {
                words.text(text);
            });
        }
        let since = stamp.modified.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default());
        self.option(since, |words, since| {
            words.number(since.as_secs()).number(since.subsec_nanos().into());
        })
        .option(stamp.checksum.as_ref(), |words, checksum| {
            let (algorithm, value) = checksum.parts();
            words.byte(algorithm).number(value.len() as u64).0.extend(value);
        })
    }

    pub(crate) fn error(&mut self, error: &Error) -> &mut Words {
        use Error as E;
        match error {
            E::NotAUrl { url, why } => self.byte(1).text(url).text(why),
            E::UnknownScheme { url } => self.byte(2).text(url),
            E::UnknownOption { url, name } => self.byte(3).text(url).text(name),
            E::Store { url, why } => self.byte(4).text(url).text(why),
            E::NotFound { url } => self.byte(5).text(url),
            E::Denied { url, why } => self.byte(6).text(url).text(why),
            E::Changed { url } => self.byte(7).text(url),
            E::Failed { url, why } => self.byte(8).text(url).text(why),
            E::Short { url, sent, asked } => self.byte(9).text(url).number(*sent).number(*asked),
            E::TimedOut { url, after } => self.byte(10).text(url).number(after.as_millis() as u64),
            E::PastEnd { url, offset, length, object_bytes } => {
                self.byte(11).text(url).number(*offset).number(*length).number(*object_bytes)
            }
            E::Damaged { url, why } => self.byte(12).text(url).text(why),
            // It is the shared pool that says so there.
            E::Host { why } => self.byte(0).text(why),
            other => self.byte(0).text(&other.to_string()),
        }
    }

    pub(crate) fn request(&mut self, request: &Request) -> &mut Words {
        match request {
            Request::Open { known, urls, first } => {
                let (kind, start, end) = match first {
                    First::Nothing => (0, 0, 0),
                    First::All => (1, 0, 0),
                    First::Range(range) => (2, range.start, range.end),
                    First::End(bytes) => (3, 0, *bytes),
                };
                self.byte(1).byte(u8::from(*known)).byte(kind).number(start).number(end);
                self.number(urls.len() as u64);
                for url in urls {
                    self.text(url);
                }
                self
            }
            Request::List { url, deep } => self.byte(2).byte(u8::from(*deep)).text(url),
            Request::Read { url, stamp, offset, length, reading } => {
                self.read((url, stamp, *offset, *length), *reading)
            }
            Request::Memory => self.byte(7),
            Request::Disclose(ranges) => {
                let ranges = ranges.iter().map(|(url, stamp, at, length)| (&**url, stamp, *at, *length));
                self.disclose(ranges)
            }
            Request::Cancel => self.byte(5),
            Request::Statistics => self.byte(6),
            Request::Direct { url, stamp, directive } => {
                self.byte(8).text(url).stamp(stamp).directive(*directive)
            }
            Request::Policy { priority, policy } => self.byte(9).priority(*priority).byte(policy.number()),
        }
    }

    fn priority(&mut self, priority: i32) -> &mut Words {
        self.number(i64::from(priority).cast_unsigned())
    }

    fn directive(&mut self, directive: Directive) -> &mut Words {
        match directive {
            Directive::Priority(priority) => self.byte(0).priority(priority),
            Directive::TemporaryPriority { offset, length, priority } => {
                self.byte(1).number(offset).number(length).priority(priority)
            }
            Directive::DoneWith { offset, length } => self.byte(2).number(offset).number(length),
        }
    }

    /// [`Request::Read`].
    pub(crate) fn read(&mut self, range: Range<'_>, reading: Reading) -> &mut Words {
        self.byte(3).range(range).number(reading.reader).option(reading.compute_ns, |words, compute_ns| {
            words.number(compute_ns);
        })
    }

    /// What is told of the pool's memory.
    pub(crate) fn granted(&mut self, granted: Granted) -> &mut Words {
        for number in granted.to_numbers() {
            self.number(number);
        }
        self
    }

    /// [`Request::Disclose`].
    pub(crate) fn disclose<'a>(&mut self, ranges: impl ExactSizeIterator<Item = Range<'a>>) -> &mut Words {
        self.byte(4).number(ranges.len() as u64);
        for range in ranges {
            self.range(range);
        }
        self
    }

    fn range(&mut self, (url, stamp, offset, length): Range<'_>) -> &mut Words {
        self.text(url).stamp(stamp).number(offset).number(length)
    }

    pub(crate) fn hello(&mut self, hello: &Hello) -> &mut Words {
        self.0.extend(MAGIC);
        self.number(hello.version.into()).0.extend(hello.secret);
        self.number(hello.guest).option(hello.access.as_ref(), |words, access| {
            for pairs in access.both() {
                words.number(pairs.len() as u64);
                for (name, value) in pairs {
                    words.text(name).text(value);
                }
            }
        })
    }

    /// Sends the frame.
    pub(crate) fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.0.len()).ok().filter(|&length| length as usize <= MOST_FRAME);
        let length = length.ok_or_else(|| damaged("a frame is too long"))?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&self.0)
    }
}

/// Receives a frame; of a stream that ends before it, nothing.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = receive_length(from)?;
    if length > MOST_FRAME {
        return Err(damaged("a frame is too long"));
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

/// The length of a frame.
pub(crate) fn receive_length(from: &mut impl Read) -> io::Result<usize> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    Ok(u32::from_le_bytes(length) as usize)
}

pub(crate) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes the bytes of a frame apart, believing none of them.
pub(crate) struct Parts<'a>(pub(crate) &'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| damaged("a frame is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged("a frame is cut short"))
    }

    pub(crate) fn byte(&mut self) -> io::Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn flag(&mut self) -> io::Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a frame has something else than yes or no")),
        }
    }

    pub(crate) fn number(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn text(&mut self) -> io::Result<String> {
        let length = self.number()?;
        let length = usize::try_from(length).ok().filter(|&length| length <= MOST_TEXT);
        let bytes = self.take(length.ok_or_else(|| damaged("a text is too long"))?)?;
        Ok(std::str::from_utf8(bytes).map_err(|_| damaged("a text is no UTF-8"))?.to_owned())
    }

    fn option<T>(&mut self, get: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<Option<T>> {
        if self.flag()? { get(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn stamp(&mut self) -> io::Result<Stamp> {
        let length = self.number()?;
        let (etag, version) = (self.option(Parts::text)?, self.option(Parts::text)?);
        let since = self.option(|parts| Ok((parts.number()?, parts.number()?)))?;
        let modified = |(seconds, nanos): (u64, u64)| {
            let nanos = u32::try_from(nanos).ok().filter(|&nanos| nanos < 1_000_000_000)?;
            UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
        };
        let modified: Option<Option<SystemTime>> = since.map(modified);
        let modified = modified.map(|at| at.ok_or_else(|| damaged("a time is none"))).transpose()?;
        let checksum = self.option(|parts| {
            let (algorithm, length) = (parts.byte()?, parts.number()?);
            let value = parts.take(usize::try_from(length).unwrap_or(usize::MAX))?;
            Checksum::from_parts(algorithm, value).ok_or_else(|| damaged("a checksum is none"))
        })?;
        Ok(Stamp { length, etag, version, modified, checksum })
    }

    pub(crate) fn error(&mut self) -> io::Result<Error> {
        use Error as E;
        let kind = self.byte()?;
        let url = self.text()?;
        Ok(match kind {
            1 => E::NotAUrl { url, why: self.text()? },
            2 => E::UnknownScheme { url },
            3 => E::UnknownOption { url, name: self.text()? },
            4 => E::Store { url, why: self.text()? },
            5 => E::NotFound { url },
            6 => E::Denied { url, why: self.text()? },
            7 => E::Changed { url },
            8 => E::Failed { url, why: self.text()? },
            9 => E::Short { url, sent: self.number()?, asked: self.number()? },
            10 => E::TimedOut { url, after: Duration::from_millis(self.number()?) },
            11 => {
                let (offset, length) = (self.number()?, self.number()?);
                E::PastEnd { url, offset, length, object_bytes: self.number()? }
            }
            12 => E::Damaged { url, why: self.text()? },
            _ => E::Host { why: url },
        })
    }

    /// What went well, or the error.
    pub(crate) fn outcome<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<Result<T, Error>> {
        if self.flag()? { get(self).map(Ok) } else { self.error().map(Err) }
    }

    pub(crate) fn entries(&mut self) -> io::Result<Vec<Entry>> {
        self.several(|parts| Ok(Entry { path: parts.text()?, stamp: parts.option(Parts::stamp)? }))
    }

    pub(crate) fn statistics(&mut self) -> io::Result<Statistics> {
        let mut numbers = [None; Statistics::NUMBERS];
        for number in &mut numbers {
            *number = self.option(Parts::number)?;
        }
        Ok(Statistics::from_numbers(numbers))
    }

    pub(crate) fn request(&mut self) -> io::Result<Request> {
        Ok(match self.byte()? {
            1 => {
                let (known, kind) = (self.flag()?, self.byte()?);
                let (start, end) = (self.number()?, self.number()?);
                let first = match kind {
                    0 => First::Nothing,
                    1 => First::All,
                    2 => First::Range(start..end),
                    3 => First::End(end),
                    _ => return Err(damaged("what is read first is none of what there is")),
                };
                Request::Open { known, urls: self.several(Parts::text)?, first }
            }
            2 => Request::List { deep: self.flag()?, url: self.text()? },
            3 => {
                let (url, stamp, offset, length) = self.range()?;
                let reading = Reading { reader: self.number()?, compute_ns: self.option(Parts::number)? };
                Request::Read { url, stamp, offset, length, reading }
            }
            4 => Request::Disclose(self.several(Parts::range)?),
            5 => Request::Cancel,
            6 => Request::Statistics,
            7 => Request::Memory,
            8 => Request::Direct { url: self.text()?, stamp: self.stamp()?, directive: self.directive()? },
            9 => {
                let priority = self.priority()?;
                let policy = PoolPolicy::from_number(self.byte()?);
                Request::Policy { priority, policy: policy.ok_or_else(|| damaged("a policy is none"))? }
            }
            _ => return Err(damaged("a request is none")),
        })
    }

    fn priority(&mut self) -> io::Result<i32> {
        i32::try_from(self.number()?.cast_signed()).map_err(|_| damaged("a priority is none"))
    }

    fn directive(&mut self) -> io::Result<Directive> {
        Ok(match self.byte()? {
            0 => Directive::Priority(self.priority()?),
            1 => {
                let (offset, length) = (self.number()?, self.number()?);
                Directive::TemporaryPriority { offset, length, priority: self.priority()? }
            }
            2 => Directive::DoneWith { offset: self.number()?, length: self.number()? },
            _ => return Err(damaged("a directive is none")),
        })
    }

    /// What is told of the pool's memory.
    pub(crate) fn granted(&mut self) -> io::Result<Granted> {
        let numbers = [self.number()?, self.number()?, self.number()?, self.number()?];
        Granted::from_numbers(numbers).ok_or_else(|| damaged("a memory that cannot be"))
    }

    fn range(&mut self) -> io::Result<(String, Stamp, u64, u64)> {
        Ok((self.text()?, self.stamp()?, self.number()?, self.number()?))
    }

    /// As many as a request may have.
    fn several<T>(&mut self, get: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        let count = self.number()?;
        if count > MOST_RANGES as u64 {
            return Err(damaged("a request is too long"));
        }
        (0..count).map(|_| get(self)).collect()
    }

    pub(crate) fn hello(&mut self) -> io::Result<Hello> {
        if self.array()? != MAGIC {
            return Err(damaged("no greeting"));
        }
        let version = u32::try_from(self.number()?).unwrap_or(u32::MAX);
        let (secret, guest) = (self.array()?, self.number()?);
        // What comes behind is of this version alone.
        let access = if version == VERSION { self.option(Parts::access)? } else { None };
        Ok(Hello { version, secret, guest, access })
    }

    fn access(&mut self) -> io::Result<Access> {
        let mut pairs = || -> io::Result<Vec<(String, String)>> {
            let count = self.number()?;
            if count > MOST_OPTIONS as u64 {
                return Err(damaged("too many options"));
            }
            (0..count).map(|_| Ok((self.text()?, self.text()?))).collect()
        };
        Ok(Access { environment: pairs()?, options: pairs()? })
    }
}

/// Takes any bytes for frames, and those for all that a frame may be: what is understood is what is understood of what is written
/// of it. For a fuzzer.
///
/// # Panics
/// When it is not.
#[doc(hidden)]
pub fn understand(bytes: &[u8]) {
    let mut rest = bytes;
    let received = std::iter::from_fn(|| receive(&mut rest).ok());
    for frame in received.chain([bytes.to_vec()]) {
        if let Ok(hello) = Parts(&frame).hello() {
            let again = Words::default().hello(&hello).0.clone();
            assert_eq!(Parts(&again).hello().ok(), Some(hello));
        }
        if let Ok(request) = Parts(&frame).request() {
            let again = Words::default().request(&request).0.clone();
            assert_eq!(Parts(&again).request().ok(), Some(request));
        }
        if let Ok(Err(error)) = Parts(&frame).outcome(Parts::stamp) {
            let again = Words::default().error(&error).0.clone();
            let came = Parts(&again).error().ok();
            // What has no number of its own is told in words.
            assert!(came.as_ref() == Some(&error) || matches!(came, Some(Error::Host { .. })), "{error:?}");
        }
        if let Ok(Ok(stamp)) = Parts(&frame).outcome(Parts::stamp) {
            let again = Words::default().stamp(&stamp).0.clone();
            assert_eq!(Parts(&again).stamp().ok(), Some(stamp));
        }
        if let Ok(Ok(entries)) = Parts(&frame).outcome(Parts::entries) {
            assert!(entries.len() <= MOST_RANGES);
            let again = Words::default().entries(&entries).0.clone();
            assert_eq!(Parts(&again).entries().ok(), Some(entries));
        }
        if let Ok(Ok(counts)) = Parts(&frame).outcome(Parts::statistics) {
            let again = Words::default().statistics(&counts).0.clone();
            assert_eq!(Parts(&again).statistics().ok(), Some(counts));
        }
        let _ = Parts(&frame).outcome(Parts::granted);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "[a-zß/: ]{0,20}"
    }

    fn stamps() -> impl Strategy<Value = Stamp> {
        let modified = prop::option::of((0..1_u64 << 40, 0..1_000_000_000_u32));
        let checksum = prop::option::of(any::<[u8; 4]>());
        (any::<u64>(), prop::option::of(text()), prop::option::of(text()), modified, checksum).prop_map(
            |(length, etag, version, since, crc)| {
                let modified = since.map(|(s, ns)| UNIX_EPOCH + Duration::new(s, ns));
                let checksum = crc.and_then(|crc| Checksum::from_parts(1, &crc));
                Stamp { length, etag, version, modified, checksum }
            },
        )
    }

    fn accesses() -> impl Strategy<Value = Access> {
        let pairs = || prop::collection::vec((text(), text()), 0..3);
        (pairs(), pairs()).prop_map(|(environment, options)| Access { environment, options })
    }

    fn directives() -> impl Strategy<Value = Directive> {
        prop_oneof![
            any::<i32>().prop_map(Directive::Priority),
            any::<(u64, u64, i32)>().prop_map(|(offset, length, priority)| Directive::TemporaryPriority {
                offset,
                length,
                priority
            }),
            any::<(u64, u64)>().prop_map(|(offset, length)| Directive::DoneWith { offset, length }),
        ]
    }

    fn firsts() -> impl Strategy<Value = First> {
        prop_oneof![
            Just(First::Nothing),
            Just(First::All),
            (any::<u64>(), any::<u64>()).prop_map(|(start, end)| First::Range(start..end)),
            any::<u64>().prop_map(First::End),
        ]
    }

    fn requests() -> impl Strategy<Value = Request> {
        let range = || (text(), stamps(), any::<u64>(), any::<u64>());
        prop_oneof![
            (any::<bool>(), prop::collection::vec(text(), 0..5), firsts())
                .prop_map(|(known, urls, first)| Request::Open { known, urls, first }),
            (text(), any::<bool>()).prop_map(|(url, deep)| Request::List { url, deep }),
            (range(), any::<u64>(), prop::option::of(any::<u64>())).prop_map(
                |(range, reader, compute_ns)| {
                    let ((url, stamp, offset, length), reading) = (range, Reading { reader, compute_ns });
                    Request::Read { url, stamp, offset, length, reading }
                }
            ),
            prop::collection::vec(range(), 0..5).prop_map(Request::Disclose),
            (text(), stamps(), directives()).prop_map(|(url, stamp, directive)| Request::Direct {
                url,
                stamp,
                directive
            }),
            (any::<i32>(), prop::sample::select(PoolPolicy::all().to_vec()))
                .prop_map(|(priority, policy)| Request::Policy { priority, policy }),
            Just(Request::Cancel),
            Just(Request::Statistics),
            Just(Request::Memory),
        ]
    }

    fn errors() -> impl Strategy<Value = Error> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
        (0..13_u8, text(), text(), numbers).prop_map(|(kind, url, why, (one, two, three))| match kind {
            0 => Error::Host { why },
            1 => Error::NotAUrl { url, why },
            2 => Error::UnknownScheme { url },
            3 => Error::UnknownOption { url, name: why },
            4 => Error::Store { url, why },
            5 => Error::NotFound { url },
            6 => Error::Denied { url, why },
            7 => Error::Changed { url },
            8 => Error::Failed { url, why },
            9 => Error::Short { url, sent: one, asked: two },
            10 => Error::TimedOut { url, after: Duration::from_millis(one) },
            12 => Error::Damaged { url, why },
            _ => Error::PastEnd { url, offset: one, length: two, object_bytes: three },
        })
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_comes(request in requests(), error in errors(), secret: [u8; 16], guest: u64, access in prop::option::of(accesses())) {
            let mut words = Words::default();
            let hello = Hello { version: VERSION, secret, guest, access };
            words.hello(&hello).request(&request).error(&error);
            let mut sent = Vec::new();
            words.send(&mut sent).unwrap();
            let frame = receive(&mut &sent[..]).unwrap();
            let mut parts = Parts(&frame);
            prop_assert_eq!(parts.hello().unwrap(), hello);
            prop_assert_eq!(parts.request().unwrap(), request);
            let came = parts.error().unwrap();
            prop_assert_eq!(came, error);
            prop_assert!(parts.0.is_empty());
        }

        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            understand(&bytes);
            let _ = Parts(&bytes).hello();
            let _ = Parts(&bytes).request();
            let _ = Parts(&bytes).error();
            let _ = Parts(&bytes).stamp();
            let _ = receive(&mut &bytes[..]);
        }

        #[test]
        fn a_frame_that_was_damaged_is_taken_apart_or_refused(
            request in requests(), error in errors(), stamp in stamps(), access in prop::option::of(accesses()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let entry = Entry { path: "a/b".to_owned(), stamp: Some(stamp.clone()) };
            let hello = Hello { version: VERSION, secret: [7; 16], guest: 9, access };
            let frames = [
                Words::default().hello(&hello).0.clone(),
                Words::default().request(&request).0.clone(),
                Words::default().byte(0).error(&error).0.clone(),
                Words::default().byte(1).entries(&[entry]).0.clone(),
                Words::default().byte(1).stamp(&stamp).0.clone(),
            ];
            for mut frame in frames {
                understand(&frame);
                for (at, byte) in &changes {
                    let at = at.index(frame.len());
                    frame[at] = *byte;
                }
                frame.truncate(cut.index(2 * frame.len()));
                // Whichever it is taken for.
                understand(&frame);
                let _ = Parts(&frame).hello();
                let _ = Parts(&frame).request();
                let _ = Parts(&frame).error();
                let _ = Parts(&frame).entries();
                let _ = Parts(&frame).statistics();
                let _ = Parts(&frame).granted();
                let _ = Parts(&frame).outcome(Parts::stamp);
                let _ = receive(&mut &frame[..]);
            }
        }
    }
}
