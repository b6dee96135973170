//! How objects are opened whose states nobody knows yet.

use std::sync::Arc;

use crate::error::Error;
use crate::first::First;
use crate::pool::{Object, Pool};
use crate::source::{Begun, Fault, Source, Stamp};

impl Pool {
    /// Opens several, whose states are asked for at the same time. When a store fails, those that were not asked for yet
    /// fail as well.
    ///
    /// # Errors
    /// When the pool cannot be used; what is wrong with one of them stands in its place.
    pub fn open_all(&self, urls: &[&str]) -> Result<Vec<Result<Object, Error>>, Error> {
        self.open_some(urls, false, &First::Nothing)
    }

    /// The same, of objects that are read at once: what is read first of each comes with its state, by one request, where the store
    /// has that.
    ///
    /// # Errors
    /// As there.
    pub fn open_first(&self, urls: &[&str], first: &First) -> Result<Vec<Result<Object, Error>>, Error> {
        self.open_some(urls, false, first)
    }

    /// The same; with `known`, an object that is open already, or was listed, is opened in that state.
    pub(crate) fn open_some(
        &self,
        urls: &[&str],
        known: bool,
        first: &First,
    ) -> Result<Vec<Result<Object, Error>>, Error> {
        self.shared().is_ours()?;
        let places: Vec<_> = urls.iter().map(|url| self.store(url)).collect();
        let asked = places.iter().flatten().map(|(store, source, path)| {
            let stamp = if known { self.shared().state().known(*store, path) } else { None };
            (source.clone(), path.clone(), stamp)
        });
        type Asked = (Arc<dyn Source>, String, Option<Stamp>);
        let options = self.options();
        let most = options.request_parts() as u64 * u64::from(options.part_bytes);
        let first = first.clone().in_parts(options.part_bytes.into(), most);
        let stamps = self.shared().ask(asked.collect(), move |(source, path, known): Asked| {
            let first = first.clone();
            async move {
                match known {
                    Some(stamp) => Ok((stamp, None)),
                    None => state_of(&*source, &path, &first).await,
                }
            }
        })?;
        let mut stamps = stamps.into_iter();
        let objects = urls.iter().zip(places).map(|(url, place)| {
            let (number, source, path) = place?;
            let answer = stamps.next().unwrap_or(Err(Fault::NotFound));
            let (stamp, begun) = answer.map_err(|fault| fault.of(url))?;
            let object = self.open_stamped(number, &source, url, &path, stamp)?;
            if let Some(begun) = begun {
                object.begin(begun);
            }
            Ok(object)
        });
        Ok(objects.collect())
    }
}

/// The state of an object, and what is read first of it if that comes with it.
async fn state_of(
    source: &dyn Source,
    path: &str,
    first: &First,
) -> Result<(Stamp, Option<Box<dyn Begun>>), Fault> {
    match source.begin(path, first).await? {
        Some(begun) => Ok((begun.stamp().clone(), Some(begun))),
        None => Ok((source.head(path).await?, None)),
    }
}
