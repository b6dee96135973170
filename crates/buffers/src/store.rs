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
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    ObjectStoreScheme, RetryConfig,
};
use url::{Position, Url};

use crate::access::Access;
use crate::error::{Error, SCHEMES};
use crate::options::Options;
use crate::source::{Answer, Entry, Fault, Sink, Source, Stamp};

/// A connection that is not made by then is tried anew: the library's own default.
const CONNECT: Duration = Duration::from_secs(5);
/// One attempt takes no longer than this: the library's own default.
const ATTEMPT: Duration = Duration::from_secs(30);

/// Credentials are there by then: a machine that has some of its own is told them in milliseconds, and a service that gives
/// them out for a secret has answered. The library asks two hosts for Google's, each as long as it repeats requests.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// Bytes before a range that are read past of a server that gives no ranges.
const MOST_SKIPPED: usize = 64 << 20;

/// Where Amazon's, Microsoft's and Google's machines are told their credentials.
const METADATA: [&str; 2] = ["//169.254.169.254/", "//metadata.google.internal/"];

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
        // Lines that differ by the types alone.
        macro_rules! build {
            ($builder:ident, $unsigned:expr) => {{
                let mut builder = match access {
                    None => $builder::from_env(),
                    Some(_) => $builder::new(),
                };
                for (name, value) in access.iter().flat_map(|access| &access.environment) {
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
                let unsigned = builder.get_config_value(&$unsigned).is_some_and(|value| is_true(&value));
                let store = builder.build().map_err(wrong)?;
                let credentials = store.credentials().clone();
                let ask = move || {
                    let credentials = credentials.clone();
                    async move { credentials.get_credential().await.map(drop) }.boxed()
                };
                let mut store = Store::new(Box::new(store));
                store.credentials = (!unsigned).then(|| Credentials::new(longest, Box::new(ask)));
                return Ok(store);
            }};
        }
        let store: Box<dyn ObjectStore> = match self.scheme {
            ObjectStoreScheme::Local => Box::new(LocalFileSystem::new()),
            ObjectStoreScheme::AmazonS3 => {
                build!(AmazonS3Builder, AmazonS3ConfigKey::SkipSignature)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                build!(GoogleCloudStorageBuilder, GoogleConfigKey::SkipSignature)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                build!(MicrosoftAzureBuilder, AzureConfigKey::SkipSignature)
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
                // A server that has no listings says so as often as it is asked.
                let once = RetryConfig { max_retries: 0, ..retry.clone() };
                let lists = builder.clone().with_retry(once).build().map_err(wrong)?;
                let mut store = Store::new(Box::new(builder.with_retry(retry).build().map_err(wrong)?));
                store.lists = Some(Box::new(lists));
                return Ok(store);
            }
            _ => return Err(Error::UnknownScheme { url: self.url.to_string() }),
        };
        Ok(Store::new(store))
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
    /// It answers with whole objects, whatever range is asked for.
    is_whole: AtomicBool,
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
        Store { store, credentials: None, lists: None, is_whole: AtomicBool::new(false) }
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
        Box::pin(async move { self.ready().await?.head(&location(path)?).await.map(stamp).map_err(fault) })
    }

    fn get<'a>(
        &'a self,
        path: &'a str,
        pinned: &'a Stamp,
        range: Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            // A weak ETag never matches in a condition, and listings give dates that are more exact than conditions can
            // say: those are compared with the answer's.
            let strong = pinned.etag.clone().filter(|etag| !etag.starts_with("W/"));
            let options = |range| GetOptions {
                version: pinned.version.clone().filter(|_| pinned.etag.is_none()),
                if_match: strong.clone(),
                range,
                ..GetOptions::default()
            };
            let (store, at) = (self.ready().await?, location(path)?);
            let bounded = (!self.is_whole.load(Ordering::Relaxed)).then(|| GetRange::Bounded(range.clone()));
            let answer = match store.get_opts(&at, options(bounded)).await {
                Err(object_store::Error::NotSupported { .. }) => {
                    self.is_whole.store(true, Ordering::Relaxed);
                    store.get_opts(&at, options(None)).await
                }
                answer => answer,
            };
            let answer = answer.map_err(fault)?;
            if !pinned.is_same(&stamp(answer.meta.clone())) {
                return Err(Fault::Changed);
            }
            let mut before = range.start.saturating_sub(answer.range.start) as usize;
            if before > MOST_SKIPPED {
                let most = MOST_SKIPPED >> 20;
                let why =
                    format!("its server gives no ranges, no request can begin behind the first {most} MiB");
                return Err(Fault::Failed(why));
            }
            let mut left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let mut chunks = answer.into_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(fault)?;
                let skipped = before.min(chunk.len());
                before -= skipped;
                let wanted = &chunk[skipped..chunk.len().min(skipped.saturating_add(left))];
                left -= wanted.len();
                if !wanted.is_empty() && !sink(wanted) || left == 0 {
                    break;
                }
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
                |meta: ObjectMeta| Entry { path: meta.location.to_string(), stamp: Some(stamp(meta)) };
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

/// Is an object what a console makes for a folder: empty, with a slash at the end of its key, which the library leaves out?
/// In a listing it stands right before what lies in the folder.
fn marks_folder(entry: &Entry, next: &str) -> bool {
    let is_empty = entry.stamp.as_ref().is_some_and(|stamp| stamp.length == 0);
    is_empty && next.strip_prefix(&entry.path).is_some_and(|rest| rest.starts_with('/'))
}

fn location(path: &str) -> Result<Path, Fault> {
    Path::parse(path).map_err(|error| Fault::Failed(error.to_string()))
}

fn stamp(meta: ObjectMeta) -> Stamp {
    let modified = Some(SystemTime::from(meta.last_modified));
    // Some stores send empty ones.
    let etag = meta.e_tag.filter(|etag| !etag.trim_matches('"').is_empty());
    Stamp { length: meta.size, etag, version: meta.version, modified }
}

fn fault(error: object_store::Error) -> Fault {
    match error {
        // The library takes it for a folder.
        object_store::Error::NotFound { .. } if status(&error) == Some(405) => {
            Fault::Failed("its server does not allow what asks for the length (HEAD)".to_owned())
        }
        object_store::Error::NotFound { .. } => Fault::NotFound,
        object_store::Error::Precondition { .. } => Fault::Changed,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            Fault::Denied(one_line(&error))
        }
        error => {
            let why = one_line(&error);
            // Without any, the library asks the machine that this one runs on.
            if METADATA.iter().any(|host| why.contains(host)) {
                return Fault::Denied("none were given, and this machine has none of its own".to_owned());
            }
            let of_files = |cause: &(dyn std::error::Error + 'static)| {
                let error: Option<&std::io::Error> = cause.downcast_ref();
                error.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
            };
            if causes(&error).any(of_files) { Fault::Denied(why) } else { Fault::Failed(why) }
        }
    }
}

/// The same of a listing, of which the library says no more than that it failed.
fn list_fault(error: object_store::Error) -> Fault {
    if !matches!(error, object_store::Error::Generic { .. }) {
        return fault(error);
    }
    match status(&error) {
        Some(401 | 403) => Fault::Denied(one_line(&error)),
        Some(404) => Fault::NotFound,
        // Any server that does not speak WebDAV.
        Some(405 | 501) => Fault::Failed("its server has no listings".to_owned()),
        _ => fault(error),
    }
}

/// What a server's answer was, as the library names it.
fn status(error: &object_store::Error) -> Option<u16> {
    let text = error.to_string();
    let (_, said) = text.split_once("non-2xx status code: ")?;
    said.get(..3)?.parse().ok()
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| cause.source())
}

/// What the library says and the last cause of it, without the line ends of servers' answers, and not without end.
fn one_line(error: &object_store::Error) -> String {
    let said = cut_line(&error.to_string(), 300);
    let cause = causes(error).last().map(|cause| cut_line(&cause.to_string(), 100));
    match cause {
        Some(cause) if !cause.is_empty() && !said.contains(cause.trim_end_matches(" ...")) => {
            format!("{said}: {cause}")
        }
        _ => said,
    }
}

fn cut_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
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

    #[test]
    fn what_a_listing_fails_with_is_told_apart() {
        let said = |status: &str| {
            let source = format!(
                "Error performing GET http://h/b - Server returned non-2xx status code: {status}: <x>"
            );
            list_fault(object_store::Error::Generic { store: "S3", source: source.into() })
        };
        assert_eq!(said("404 Not Found"), Fault::NotFound);
        assert!(matches!(said("403 Forbidden"), Fault::Denied(why) if why.contains("403")));
        assert_eq!(said("501 Not Implemented"), Fault::Failed("its server has no listings".to_owned()));
        assert!(matches!(said("500 Error"), Fault::Failed(why) if why.contains("500 Error")));
    }

    #[test]
    fn the_last_cause_is_told() {
        let refused = std::io::Error::other(std::io::Error::other("connection\nrefused"));
        let error = object_store::Error::Generic { store: "S3", source: refused.into() };
        assert!(one_line(&error).contains("connection refused"), "{}", one_line(&error));
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(matches!(
            fault(object_store::Error::Generic { store: "file", source: denied.into() }),
            Fault::Denied(_)
        ));
    }

    #[test]
    fn who_has_no_credentials_is_told_so() {
        let asked = "Error performing PUT http://169.254.169.254/latest/api/token in 1s - timed out";
        let error = object_store::Error::Generic { store: "S3", source: asked.into() };
        let Fault::Denied(why) = fault(error) else { panic!("a store that failed") };
        assert_eq!(why, "none were given, and this machine has none of its own");
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
