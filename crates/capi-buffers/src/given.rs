//! What C gives: pointers and numbers, believed as far as the header asks for it.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use foretell_buffers::Options;

use crate::result::Failure;

/// `struct foretell_store_option`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StoreOption {
    /// Which.
    pub name: *const c_char,
    /// What it is set to.
    pub value: *const c_char,
}

/// `struct foretell_pool_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// Of the caller's struct.
    pub size: usize,
    /// See [`Options`], as all that follow.
    pub budget_bytes: u64,
    /// Bytes.
    pub part_bytes: u32,
    /// Milliseconds.
    pub timeout_ms: u32,
    /// A folder or null.
    pub disk_dir: *const c_char,
    /// Bytes.
    pub disk_bytes: u64,
    /// `n_store` of them.
    pub store: *const StoreOption,
    /// How many.
    pub n_store: usize,
}

/// A text, `None` for null.
///
/// # Safety
/// `text` is null or points to a string of C.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the caller promises a string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::mistake(&format!("{what}: no UTF-8")))
}

/// What `number` things at `first` are.
///
/// # Safety
/// `first` points to so many, or there are none.
pub(crate) unsafe fn slice<'a, T>(what: &str, first: *const T, number: usize) -> Result<&'a [T], Failure> {
    if number == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::mistake(&format!("{what}: a null pointer")));
    }
    // SAFETY: not null; the caller promises that there are as many.
    Ok(unsafe { std::slice::from_raw_parts(first, number) })
}

/// The options of a pool.
///
/// # Safety
/// `given` is null or points to a struct as the header describes it.
pub(crate) unsafe fn options(given: *const PoolOptions) -> Result<Options, Failure> {
    if given.is_null() {
        return Err(Failure::mistake("options: a null pointer"));
    }
    // SAFETY: not null; the size is the first field of every version of the struct.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<PoolOptions>() {
        return Err(Failure::mistake("options: size is not sizeof(struct foretell_pool_options)"));
    }
    // SAFETY: it is as large as this version of the struct at least.
    let given = unsafe { given.read() };
    let mut options = Options::new(given.budget_bytes);
    if given.part_bytes > 0 {
        options.part_bytes = given.part_bytes;
    }
    if given.timeout_ms > 0 {
        options.timeout = Duration::from_millis(given.timeout_ms.into());
    }
    // SAFETY: strings, as the header asks for.
    options.disk_dir = unsafe { text("disk_dir", given.disk_dir) }?.map(Into::into);
    options.disk_bytes = given.disk_bytes;
    // SAFETY: as many as the caller says.
    for option in unsafe { slice("store", given.store, given.n_store) }? {
        // SAFETY: strings, as the header asks for.
        let (name, value) = unsafe { (text("store", option.name)?, text("store", option.value)?) };
        let both =
            name.zip(value).ok_or_else(|| Failure::mistake("store: an option without name or value"))?;
        options.store.push((both.0.to_owned(), both.1.to_owned()));
    }
    Ok(options)
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `to` is null or points to a variable of this type.
pub(crate) unsafe fn give<T>(what: &str, to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::mistake(&format!("{what}: a null pointer")));
    }
    // SAFETY: not null; the caller promises the type.
    unsafe { to.write(value) };
    Ok(())
}
