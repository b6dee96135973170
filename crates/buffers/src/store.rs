//! Everything that the crate `object_store` speaks to, as a [`Source`].
//!
//! A URL names the store and the path in it. Options are those that `object_store` knows: from the environment first, then
//! those that the pool was given. Retries are the library's, limited so that all of them together end with the pool's
//! time-out.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreScheme,
    RetryConfig,
};
use url::{Position, Url};

use crate::access::Access;
use crate::begun::Coming;
use crate::checksum::{Content, Listening, Promise, asking, is_of_content};
use crate::error::{Error, SCHEMES};
use crate::faults::{fault, is_of_range, list_fault, one_line};
use crate::first::First;
use crate::held::{Chunks, Held, hold, pass, show};
use crate::options::{Options, REQUEST_BYTES};
use crate::source::{Answer, Begun, Entry, Fault, Sink, Source, Stamp};

/// A connection that is not made by then is tried anew: the library's own default.
const CONNECT: Duration = Duration::from_secs(5);
/// One attempt takes no longer than this: the library's own default.
const ATTEMPT: Duration = Duration::from_secs(30);

/// Credentials are there by then: a machine that has some of its own is told them in milliseconds, and a service that gives
/// them out for a secret has answered. The library asks two hosts for Google's, each as long as it repeats requests.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// Bytes before a range that are read past of a server that gives no ranges.
const MOST_SKIPPED: usize = 64 << 20;

/// An object, or a folder of them, as a URL names it.
pub(crate) struct Place {
    url: Url,
    scheme: ObjectStoreScheme,
    /// What of the URL names the store.
    pub(crate) name: String,
    pub(crate) path: String,
}

impl Place {
    pub(crate) fn parse(given: &str) -> Result<Place, Error> {
        let no_url = |why: String| Error::NotAUrl { url: given.to_owned(), why };
        let url = Url::parse(given).map_err(|error| no_url(error.to_string()))?;
        let is_known = SCHEMES.split(", ").any(|scheme| scheme == url.scheme());
        if !is_known {
            return Err(Error::UnknownScheme { url: given.to_owned() });
        }
        if !matches!(url.scheme(), "file" | "http" | "https") && !url.has_host() {
            return Err(no_url("it names no bucket".to_owned()));
        }
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|error| no_url(error.to_string()))?;
        let is_http = matches!(url.scheme(), "http" | "https");
        if !is_http && (url.query().is_some() || url.fragment().is_some()) {
            // Without them it would be another object.
            return Err(no_url("'?' and '#' of a key are written %3F and %23".to_owned()));
        }
        if is_http && let Some(query) = url.query() {
            // Only the server knows what that means: what has another query is in another store.
            let scheme = ObjectStoreScheme::Http;
            let path = Path::from_url_path(url.path()).map_err(|error| no_url(error.to_string()))?;
            let name = format!("{}/?{query}", &url[..Position::BeforePath]);
            return Ok(Place { name, url, scheme, path: path.to_string() });
        }
        // Of an address with the bucket in its path, the bucket names the store as well.
        let segments = |path: &str| path.split('/').filter(|segment| !segment.is_empty()).count();
        let in_path = segments(url.path()).saturating_sub(segments(path.as_ref()));
        let bucket = url.path().split('/').filter(|segment| !segment.is_empty()).take(in_path);
        let name = std::iter::once(&url[..Position::BeforePath]).chain(bucket);
        Ok(Place { name: name.collect::<Vec<_>>().join("/"), url, scheme, path: path.to_string() })
    }

    /// Is it of this machine's files?
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.scheme, ObjectStoreScheme::Local)
    }

    /// With what a guest brings, or with the pool's options and this process's environment.
    pub(crate) fn connect(&self, options: &Options, access: Option<&Access>) -> Result<Store, Error> {
        let given = access.map_or(&options.store, |access| &access.options);
        ensure_cryptography();
        let wrong =
            |error: object_store::Error| Error::Store { url: self.url.to_string(), why: one_line(&error) };
        let unknown = |name: &str| Error::UnknownOption { url: self.url.to_string(), name: name.to_owned() };
        // What the store said last is known before the time-out, which says nothing.
        let usual = BackoffConfig::default();
        let max_backoff = (options.timeout / 8).min(usual.max_backoff);
        let init_backoff = (max_backoff / 4).min(usual.init_backoff);
        let backoff = BackoffConfig { init_backoff, max_backoff, ..usual };
        let retry = RetryConfig { retry_timeout: options.timeout * 3 / 4, backoff, ..RetryConfig::default() };
        // Who is late at the pool's time-out is found out by the pool, which says so.
        let attempt = options.timeout.saturating_add(Duration::from_secs(1)).min(ATTEMPT);
        let attempt = format!("{} ms", attempt.as_millis());
        let connect = format!("{} ms", options.timeout.min(CONNECT).as_millis());
        let longest = (options.timeout / 2).min(CREDENTIALS);
        let brought = access.iter().flat_map(|access| &access.environment);
        // Lines that differ by the types alone.
        macro_rules! build {
            ($begun:expr, $environment:expr, $unsigned:expr, $addresses:expr) => {{
                let mut builder = $begun.with_http_connector(Listening);
                for (name, value) in $environment {
                    // As `from_env` takes them: what it does not know is somebody else's.
                    if let Ok(key) = name.to_ascii_lowercase().parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let limits = [("timeout", &attempt), ("connect_timeout", &connect)];
                let limits = limits.into_iter().map(|(name, value)| (name.to_owned(), value.clone()));
                builder = builder.with_url(self.url.to_string()).with_retry(retry);
                for (name, value) in limits.chain(given.iter().cloned()) {
                    let key = name.to_ascii_lowercase().parse().map_err(|_| unknown(&name))?;
                    builder = builder.with_config(key, value);
                }
                let says = |(name, _): &(String, String)| name.to_ascii_lowercase().ends_with("allow_http");
                for key in $addresses {
                    let Some(address) = builder.get_config_value(&key) else { continue };
                    self.check_address(&address)?;
                    // Who asks for http:// has allowed it, unless it is said that nobody has.
                    if address.starts_with("http://") && !given.iter().any(says) {
                        let key = "allow_http".parse().map_err(|_| unknown("allow_http"))?;
                        builder = builder.with_config(key, "true");
                    }
                }
                let unsigned = builder.get_config_value(&$unsigned).is_some_and(|value| is_true(&value));
                let store = builder.build().map_err(wrong)?;
                let credentials = store.credentials().clone();
                let ask = move || {
                    let credentials = credentials.clone();
                    async move { credentials.get_credential().await.map(drop) }.boxed()
                };
                let mut store = Store::remote(Box::new(store), options);
                store.credentials = (!unsigned).then(|| Credentials::new(longest, Box::new(ask)));
                return Ok(store);
            }};
        }
        let store: Box<dyn ObjectStore> = match self.scheme {
            ObjectStoreScheme::Local => Box::new(LocalFileSystem::new()),
            ObjectStoreScheme::AmazonS3 => {
                // What its environment says goes on top of what is asked for; `from_env` would be in the way of that.
                let own = access.is_none().then(|| Access::of_this_process(Vec::new()));
                let environment = own.iter().flat_map(|access| &access.environment).chain(brought);
                let begun = AmazonS3Builder::new().with_client_options(asking());
                let addresses = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
                build!(begun, environment, AmazonS3ConfigKey::SkipSignature, addresses)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let own = access.is_none().then(GoogleCloudStorageBuilder::from_env);
                let addresses = [GoogleConfigKey::BaseUrl];
                build!(own.unwrap_or_default(), brought, GoogleConfigKey::SkipSignature, addresses)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let own = access.is_none().then(MicrosoftAzureBuilder::from_env);
                let addresses = [AzureConfigKey::Endpoint];
                build!(own.unwrap_or_default(), brought, AzureConfigKey::SkipSignature, addresses)
            }
            ObjectStoreScheme::Http => {
                let mut client = ClientOptions::new()
                    .with_config(ClientConfigKey::Timeout, attempt)
                    .with_config(ClientConfigKey::ConnectTimeout, connect);
                for (name, value) in given {
                    let key = name.to_ascii_lowercase().parse().map_err(|_| unknown(name))?;
                    client = client.with_config(key, value);
                }
                // Who asks for http:// has allowed it.
                let client = client.with_allow_http(self.url.scheme() == "http");
                let query = self.url.query().map(|query| format!("/?{query}")).unwrap_or_default();
                let address = format!("{}{query}", &self.url[..Position::BeforePath]);
                let builder = HttpBuilder::new().with_url(address).with_client_options(client);
                let builder = builder.with_http_connector(Listening);
                // A server that has no listings says so as often as it is asked.
                let once = RetryConfig { max_retries: 0, ..retry.clone() };
                let lists = builder.clone().with_retry(once).build().map_err(wrong)?;
                let store = builder.with_retry(retry).build().map_err(wrong)?;
                let mut store = Store::remote(Box::new(store), options);
                store.lists = Some(Box::new(lists));
                return Ok(store);
            }
            _ => return Err(Error::UnknownScheme { url: self.url.to_string() }),
        };
        Ok(Store::new(store))
    }

    /// The library takes any text for the address of a store, and panics at the first request.
    fn check_address(&self, given: &str) -> Result<(), Error> {
        let is_one = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if Url::parse(given).is_ok_and(|url| is_one(&url)) {
            return Ok(());
        }
        let why = format!("'{given}' is no address of one; http://HOST:PORT or https://HOST is needed");
        Err(Error::Store { url: self.url.to_string(), why })
    }
}

/// As the library reads an option that is one of two.
fn is_true(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// TLS gets its cryptography from the process; the first one to say so decides.
fn ensure_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Refused if the program has chosen one: that is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A store of `object_store` as a [`Source`]: what the pool makes of a URL, and what any other store of that crate can be
/// wrapped in.
pub struct Store {
    store: Box<dyn ObjectStore>,
    /// `None` where requests are not signed.
    credentials: Option<Credentials>,
    /// Who is asked for listings, if it is somebody else.
    lists: Option<Box<dyn ObjectStore>>,
    /// It speaks HTTP.
    is_remote: bool,
    /// It answers with whole objects, whatever range is asked for.
    is_whole: AtomicBool,
    /// The checksums that it sends with ranges are of whole objects.
    has_whole_checksums: AtomicBool,
    /// Nothing is shown before it was compared.
    is_strict: bool,
}

/// Asks once for the credentials that requests are signed with, so that who has none is told so in time, and is not told
/// that the store does not answer.
struct Credentials {
    longest: Duration,
    ask: Box<dyn Fn() -> BoxFuture<'static, object_store::Result<()>> + Send + Sync>,
    /// They came.
    are_there: AtomicBool,
    /// When they did not come in time.
    late_at: Mutex<Option<Instant>>,
}

impl Credentials {
    fn new(
        longest: Duration,
        ask: Box<dyn Fn() -> BoxFuture<'static, object_store::Result<()>> + Send + Sync>,
    ) -> Credentials {
        Credentials { longest, ask, are_there: AtomicBool::new(false), late_at: Mutex::default() }
    }

    async fn wait(&self) -> Result<(), Fault> {
        if self.are_there.load(Ordering::Relaxed) {
            return Ok(());
        }
        let late = || {
            let seconds = self.longest.as_secs_f64();
            let why =
                format!("none came within {seconds} s; if none were given, this machine has none of its own");
            Err(Fault::Denied(why))
        };
        // Of many objects one waits, not all of them one after the other.
        let since_late = self.late_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed());
        if since_late.is_some_and(|since| since < self.longest) {
            return late();
        }
        let asked = tokio::time::timeout(self.longest, (self.ask)()).await;
        let Ok(answer) = asked else {
            *self.late_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            return late();
        };
        answer.map_err(fault)?;
        self.are_there.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Store {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: Box<dyn ObjectStore>) -> Store {
        Store {
            store,
            credentials: None,
            lists: None,
            is_remote: false,
            is_whole: AtomicBool::new(false),
            has_whole_checksums: AtomicBool::new(false),
            is_strict: false,
        }
    }

    fn remote(store: Box<dyn ObjectStore>, options: &Options) -> Store {
        Store { is_remote: true, is_strict: options.strict, ..Store::new(store) }
    }

    /// What it says of the state of an object.
    fn stamp(&self, meta: ObjectMeta) -> Stamp {
        // Some stores send empty ones.
        let etag = meta.e_tag.filter(|etag| !etag.trim_matches('"').is_empty());
        // Azure's listings, and some other servers, leave the quotes out, which conditions and answers have (RFC 9110, 8.8.3).
        let is_bare = |etag: &str| self.is_remote && !etag.ends_with('"');
        let etag = etag.map(|etag| if is_bare(&etag) { format!("\"{etag}\"") } else { etag });
        // Nobody said when.
        let modified = Some(SystemTime::from(meta.last_modified)).filter(|&at| at != SystemTime::UNIX_EPOCH);
        Stamp { length: meta.size, etag, version: meta.version, modified, checksum: None }
    }

    /// Is a checksum one of the bytes that come with it?
    fn is_believed(&self, promise: &Promise) -> bool {
        let is_of_more = promise.is_partial && self.has_whole_checksums.load(Ordering::Relaxed);
        !(promise.is_composite || is_of_more)
    }

    /// Shows bytes of which the last ones wait for the checksum of all of them, or all do.
    async fn get_checked(
        &self,
        store: &dyn ObjectStore,
        at: &Path,
        promise: &Promise,
        range: Range<u64>,
        chunks: Chunks,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let (mut sum, length) = (promise.begin(), range.end - range.start);
        let add = &mut |bytes: &[u8]| sum.add(bytes);
        let held = if self.is_strict {
            hold(chunks, length, add, sink).await?
        } else {
            pass(chunks, length, add, sink).await?
        };
        let Some(held) = held else { return Ok(()) };
        if let Err(why) = promise.check(sum, &range) {
            // Some servers send the checksum of the whole object with a range, which says nothing of the range.
            let options = GetOptions { head: true, ..GetOptions::default() };
            let of_all = if promise.is_partial { store.get_opts(at, options).await.ok() } else { None };
            let of_all = of_all.and_then(|answer| answer.extensions.get::<Promise>().cloned());
            if !of_all.is_some_and(|of_all| of_all.is_that_of(promise)) {
                return Err(Fault::Damaged(why));
            }
            self.has_whole_checksums.store(true, Ordering::Relaxed);
        }
        show(held, 0..usize::MAX, sink);
        Ok(())
    }

    /// An object whose server says nothing of its state.
    async fn read_whole(store: &dyn ObjectStore, at: &Path, length: u64) -> Result<Whole, Fault> {
        if length > REQUEST_BYTES {
            let most = REQUEST_BYTES >> 20;
            let why =
                format!("its server gives neither ETag nor Last-Modified, and it is longer than {most} MiB");
            return Err(Fault::Unfit(why));
        }
        let answer = store.get_opts(at, GetOptions::default()).await.map_err(fault)?;
        if answer.meta.size != length {
            return Err(Fault::Changed);
        }
        let promise = answer.extensions.get::<Promise>().cloned().filter(|promise| !promise.is_composite);
        let mut sum = promise.as_ref().map(Promise::begin);
        let mut content = Content::new();
        let mut add = |bytes: &[u8]| {
            content.add(bytes);
            if let Some(sum) = &mut sum {
                sum.add(bytes);
            }
        };
        let chunks = hold(answer.into_stream(), length, &mut add, &mut |_| true).await?.unwrap_or_default();
        if let Some((promise, sum)) = promise.zip(sum) {
            promise.check(sum, &(0..length)).map_err(Fault::Damaged)?;
        }
        Ok(Whole { chunks, tag: content.tag() })
    }

    /// The store, once there is what its requests are signed with.
    async fn ready(&self) -> Result<&dyn ObjectStore, Fault> {
        if let Some(credentials) = &self.credentials {
            credentials.wait().await?;
        }
        Ok(&*self.store)
    }
}

impl Source for Store {
    fn head<'a>(&'a self, path: &'a str) -> Answer<'a, Stamp> {
        Box::pin(async move {
            let (store, at) = (self.ready().await?, location(path)?);
            let asked = GetOptions { head: true, ..GetOptions::default() };
            let answer = store.get_opts(&at, asked).await.map_err(fault)?;
            let checksum = answer.extensions.get::<Promise>().and_then(Promise::of_whole);
            let said = Stamp { checksum, ..self.stamp(answer.meta) };
            if said.says_something() {
                return Ok(said);
            }
            // What was read once tells whether it is still that.
            let content = Self::read_whole(store, &at, said.length).await?;
            Ok(Stamp { etag: Some(content.tag), ..said })
        })
    }

    fn begin<'a>(&'a self, path: &'a str, first: &'a First) -> Answer<'a, Option<Box<dyn Begun>>> {
        Box::pin(async move {
            let range = match first {
                // With the state come checksums of whole objects, without which little could be compared here.
                _ if self.is_strict || !self.is_remote => return Ok(None),
                First::Nothing => return Ok(None),
                First::All => None,
                First::Range(range) => Some(GetRange::Bounded(range.clone())),
                First::End(bytes) => Some(GetRange::Suffix(*bytes)),
            };
            if range.is_some() && self.is_whole.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (store, at) = (self.ready().await?, location(path)?);
            let answer = match store.get_opts(&at, GetOptions { range, ..GetOptions::default() }).await {
                Err(error) if is_of_range(&error) => return Ok(None),
                answer => answer.map_err(fault)?,
            };
            let promise = answer.extensions.get::<Promise>().cloned();
            let checksum = promise.as_ref().and_then(Promise::of_whole);
            let stamp = Stamp { checksum, ..self.stamp(answer.meta.clone()) };
            // Of a state that is not told it is the content that tells.
            if !stamp.says_something() {
                return Ok(None);
            }
            let range = answer.range.clone();
            let coming = Coming::new(stamp, range, promise, answer.into_stream());
            Ok(Some(Box::new(coming) as Box<dyn Begun>))
        })
    }

    fn get<'a>(
        &'a self,
        path: &'a str,
        pinned: &'a Stamp,
        range: Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let (store, at) = (self.ready().await?, location(path)?);
            if pinned.etag.as_deref().is_some_and(is_of_content) {
                let content = Self::read_whole(store, &at, pinned.length).await?;
                if pinned.etag.as_ref() != Some(&content.tag) {
                    return Err(Fault::Changed);
                }
                let range = range.start as usize..range.end as usize;
                show(content.chunks, range, sink);
                return Ok(());
            }
            // A weak ETag never matches in a condition, and listings give dates that are more exact than conditions can
            // say: those are compared with the answer's.
            let strong = pinned.etag.clone().filter(|etag| !etag.starts_with("W/"));
            let options = |range| GetOptions {
                version: pinned.version.clone().filter(|_| pinned.etag.is_none()),
                if_match: strong.clone(),
                range,
                ..GetOptions::default()
            };
            // Without a range checksums are sent that are of whole objects.
            let is_all = range == (0..pinned.length) || self.is_whole.load(Ordering::Relaxed);
            let bounded = (!is_all).then(|| GetRange::Bounded(range.clone()));
            let answer = match store.get_opts(&at, options(bounded)).await {
                Err(object_store::Error::NotSupported { .. }) => {
                    self.is_whole.store(true, Ordering::Relaxed);
                    store.get_opts(&at, options(None)).await
                }
                answer => answer,
            };
            let answer = answer.map_err(fault)?;
            let said = self.stamp(answer.meta.clone());
            if !pinned.is_same(&said) {
                let is_mute = pinned.length == said.length && !said.says_something();
                return Err(if is_mute { mute() } else { Fault::Changed });
            }
            let before = range.start.saturating_sub(answer.range.start) as usize;
            if before > MOST_SKIPPED {
                let most = MOST_SKIPPED >> 20;
                let why =
                    format!("its server gives no ranges, no request can begin behind the first {most} MiB");
                return Err(Fault::Failed(why));
            }
            let promise = answer.extensions.get::<Promise>().cloned();
            let promise = promise.filter(|promise| answer.range == range && self.is_believed(promise));
            let mut chunks = answer.into_stream();
            if let Some(promise) = promise {
                return self.get_checked(store, &at, &promise, range, chunks, sink).await;
            }
            let mut wanted =
                before..before + usize::try_from(range.end - range.start).unwrap_or(usize::MAX - before);
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(fault)?;
                let bytes = &chunk[wanted.start.min(chunk.len())..wanted.end.min(chunk.len())];
                if !bytes.is_empty() && !sink(bytes) || wanted.end <= chunk.len() {
                    break;
                }
                wanted = wanted.start.saturating_sub(chunk.len())..wanted.end - chunk.len();
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, path: &'a str, deep: bool, most: usize) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            let prefix = location(path)?;
            let store = self.ready().await?;
            let store = self.lists.as_deref().unwrap_or(store);
            let object =
                |meta: ObjectMeta| Entry { path: meta.location.to_string(), stamp: Some(self.stamp(meta)) };
            if deep {
                let mut found = store.list(Some(&prefix)).take(most + 1);
                let mut entries = Vec::new();
                while let Some(meta) = found.next().await {
                    let entry = object(meta.map_err(list_fault)?);
                    if entries.last().is_some_and(|last| marks_folder(last, &entry.path)) {
                        entries.pop();
                    }
                    entries.push(entry);
                }
                entries.retain(|entry| entry.path != path);
                return Ok(entries);
            }
            let found = store.list_with_delimiter(Some(&prefix)).await.map_err(list_fault)?;
            let folders = found.common_prefixes.into_iter();
            let folders = folders.map(|path| Entry { path: path.to_string(), stamp: None });
            // The folder is not in itself, but an object that marks it is.
            let objects = found.objects.into_iter().map(object).filter(|entry| entry.path != path);
            Ok(folders.chain(objects).take(most + 1).collect())
        })
    }
}

/// An object, and the tag of its content.
struct Whole {
    chunks: Held,
    tag: String,
}

fn mute() -> Fault {
    Fault::Failed(
        "its answer has neither ETag nor Last-Modified, which say whether it was changed".to_owned(),
    )
}

/// Is an object what a console makes for a folder: empty, with a slash at the end of its key, which the library leaves out?
/// In a listing it stands right before what lies in the folder.
fn marks_folder(entry: &Entry, next: &str) -> bool {
    let is_empty = entry.stamp.as_ref().is_some_and(|stamp| stamp.length == 0);
    is_empty && next.strip_prefix(&entry.path).is_some_and(|rest| rest.starts_with('/'))
}

fn location(path: &str) -> Result<Path, Fault> {
    Path::parse(path).map_err(|error| Fault::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_store_and_a_path_in_it() {
        let parsed = |url: &str| Place::parse(url).map(|place| (place.name, place.path)).unwrap();
        let of = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        assert_eq!(parsed("s3://bucket/a%20b/c"), of("s3://bucket", "a b/c"));
        assert_eq!(parsed("s3://bucket"), of("s3://bucket", ""));
        assert_eq!(parsed("file:///a/b"), of("file://", "a/b"));
        assert_eq!(parsed("http://host:8080/a%25"), of("http://host:8080", "a%"));
        let path_style = "https://s3.eu-west-1.amazonaws.com";
        assert_eq!(parsed(&format!("{path_style}/b/k%20/l")), (format!("{path_style}/b"), "k /l".to_owned()));
        assert_eq!(parsed("gs://bucket/k").0, "gs://bucket");
    }

    #[test]
    fn a_query_is_of_the_server_and_no_key_loses_its_end() {
        let parsed = |url: &str| Place::parse(url).map(|place| (place.name, place.path));
        let (one, other) = (parsed("http://host/a?x=1").unwrap(), parsed("http://host/a?x=2").unwrap());
        assert_eq!((&*one.0, &*one.1, &*other.0), ("http://host/?x=1", "a", "http://host/?x=2"));
        let old = parsed("https://bucket.s3.amazonaws.com/k?versionId=7").unwrap();
        assert_eq!(old, ("https://bucket.s3.amazonaws.com/?versionId=7".to_owned(), "k".to_owned()));
        for url in ["s3://bucket/a#b", "s3://bucket/a?b", "gs://bucket/a#", "file:///a?b"] {
            let error = parsed(url).unwrap_err();
            assert!(matches!(error, Error::NotAUrl { .. }) && error.to_string().contains("%23"), "{error}");
        }
        assert_eq!(parsed("s3://bucket/a%23b%3Fc").unwrap().1, "a#b?c");
    }

    fn waited_for(credentials: &Credentials) -> Result<(), Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(credentials.wait())
    }

    #[test]
    fn credentials_that_nobody_gives_are_not_waited_for_long() {
        let longest = Duration::from_millis(500);
        let never = Credentials::new(longest, Box::new(|| std::future::pending().boxed()));
        let Err(Fault::Denied(why)) = waited_for(&never) else { panic!("credentials of nobody") };
        assert_eq!(why, "none came within 0.5 s; if none were given, this machine has none of its own");
        // A whole list of objects is told at once.
        let patient = Duration::from_secs(1000);
        let late_at = std::sync::Mutex::new(Some(Instant::now()));
        let never = Credentials { longest: patient, late_at, ..never };
        assert!(matches!(waited_for(&never), Err(Fault::Denied(_))));
    }

    #[test]
    fn credentials_that_came_are_asked_for_once() {
        static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let given = || {
            ASKED.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(())).boxed()
        };
        let credentials = Credentials::new(CREDENTIALS, Box::new(given));
        assert!(waited_for(&credentials).is_ok() && waited_for(&credentials).is_ok());
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_no_url_of_a_store_says_why() {
        let said = |url: &str| Place::parse(url).map(|_| ()).unwrap_err().to_string();
        assert_eq!(said("file://host/a").lines().count(), 1);
        assert!(matches!(Place::parse("file://host/a").map(|_| ()), Err(Error::NotAUrl { .. })));
        // The library has no name for such a key, and would read another one.
        for url in ["s3://", "s3:", "gs:///a", "az://"] {
            assert!(said(url).contains("no URL (it names no bucket)"), "{}", said(url));
        }
        for url in ["s3://bucket/a//b", "s3://bucket/a%2F%2Fb", "http://host/a//b?x=1"] {
            assert!(matches!(Place::parse(url).map(|_| ()), Err(Error::NotAUrl { .. })));
            assert!(
                said(url).contains("empty path segment") && said(url).lines().count() == 1,
                "{}",
                said(url)
            );
        }
        assert!(matches!(Place::parse("memory:///a").map(|_| ()), Err(Error::UnknownScheme { .. })));
    }
}
