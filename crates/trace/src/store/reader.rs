//! Reading a trace back, a row group at a time.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::parser::parse_message_type;

use super::{COLUMNS, LAYOUT, LAYOUT_KEY, MAGIC, META_KEY, SCHEMA};
use crate::error::{TraceError, excerpt};
use crate::format::Format;
use crate::reference::{Reference, TraceMeta, TraceReader};

/// Rows that are decoded at a time: large enough that calls do not count, small enough that the columns
/// stay in the processor's cache.
const BATCH_ROWS: usize = 4096;

/// Reads a trace in our own format.
pub struct StoreReader {
    path: Box<str>,
    file: SerializedFileReader<File>,
    meta: TraceMeta,
    next_group: usize,
    group: Option<Group>,
    batch: Batch,
    at: usize,
    left: u64,
    over: bool,
}

impl std::fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreReader")
            .field("path", &self.path)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The columns of the row group that is being read.
struct Group {
    process: ColumnReaderImpl<Int32Type>,
    file: ColumnReaderImpl<Int32Type>,
    offset: ColumnReaderImpl<Int64Type>,
    bytes: ColumnReaderImpl<Int64Type>,
    compute_ns: ColumnReaderImpl<Int64Type>,
    timestamp_ns: ColumnReaderImpl<Int64Type>,
    write: ColumnReaderImpl<BoolType>,
    left: usize,
}

/// Decoded rows, by column.
#[derive(Default)]
struct Batch {
    process: Vec<i32>,
    file: Vec<i32>,
    offset: Vec<i64>,
    bytes: Vec<i64>,
    compute_ns: Vec<i64>,
    timestamp_ns: Vec<i64>,
    has_timestamp: Vec<i16>,
    write: Vec<bool>,
    rows: usize,
    /// Timestamps used so far: rows without one have no value.
    timestamps_used: usize,
}

impl StoreReader {
    /// Opens a trace.
    ///
    /// # Errors
    /// The file cannot be opened, is no Parquet file, was cut off, or holds something else than a trace.
    pub fn open(path: &Path) -> Result<StoreReader, TraceError> {
        let name: Box<str> = path.to_string_lossy().into();
        let io_error = |source| TraceError::Io { path: name.clone(), source };
        let mut file = File::open(path).map_err(io_error)?;
        let mut magic = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(io_error)?;
        if magic != MAGIC {
            return Err(not_ours(&name, "`PAR1` at its beginning", &format!("`{}`", excerpt(&magic))));
        }
        let file = guarded(|| SerializedFileReader::new(file)).map_err(|message| TraceError::Truncated {
            path: name.clone(),
            within: format!("the file, its footer is missing or damaged ({message})").into(),
        })?;
        let meta = meta(&file, &name)?;
        let len = io_len(path).map_err(io_error)?;
        if let Some(column) = misplaced_column(&file, len) {
            let message = format!("{column} lies outside the file; the file is damaged");
            return Err(TraceError::Damaged { path: name, message: message.into() });
        }
        let mut left = 0u64;
        for group in file.metadata().row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            left = left.saturating_add(rows);
        }
        Ok(StoreReader {
            path: name,
            file,
            meta,
            next_group: 0,
            group: None,
            batch: Batch::default(),
            at: 0,
            left,
            over: false,
        })
    }

    fn advance(&mut self) -> Result<Option<Reference>, TraceError> {
        while self.at == self.batch.rows {
            if !self.fill()? {
                return Ok(None);
            }
        }
        let reference = self.batch.row(self.at).ok_or_else(|| self.damaged("columns of unequal length"))?;
        let (files, processes) = (self.meta.files.len(), self.meta.processes.len());
        if reference.file as usize >= files {
            return Err(self.damaged(&format!("a reference to file {} of {files}", reference.file)));
        }
        if reference.process as usize >= processes {
            return Err(self.damaged(&format!("a reference of process {} of {processes}", reference.process)));
        }
        self.at += 1;
        self.left = self.left.saturating_sub(1);
        Ok(Some(reference))
    }

    /// Decodes the next batch; `false` at the end of the trace.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.at = 0;
        self.batch.clear();
        while self.group.as_ref().is_none_or(|group| group.left == 0) {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = guarded(|| open_group(&self.file, self.next_group));
            self.group = Some(group.map_err(|message| self.damaged(&message))?);
            self.next_group += 1;
        }
        let (batch, group) = (&mut self.batch, &mut self.group);
        let read = guarded(|| match group {
            Some(group) => group.read(batch),
            None => Ok(()),
        });
        read.map_err(|message| self.damaged(&message))?;
        Ok(true)
    }

    fn damaged(&self, message: &str) -> TraceError {
        let message = format!("row group {}: {message}; the file is damaged", self.next_group);
        TraceError::Damaged { path: self.path.clone(), message: message.into() }
    }
}

/// Runs code of the Parquet library, which is known to panic on some damaged files.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err("contents that contradict themselves".to_owned()),
    }
}

fn not_ours(path: &str, expected: &str, found: &str) -> TraceError {
    TraceError::NotThisFormat {
        path: path.into(),
        format: Format::Foretell,
        expected: expected.into(),
        found: found.into(),
    }
}

/// The description in the footer, after checking that the file is a trace of the layout that we know.
fn meta(file: &SerializedFileReader<File>, path: &str) -> Result<TraceMeta, TraceError> {
    let metadata = file.metadata().file_metadata();
    let value = |key: &str| {
        let entries = metadata.key_value_metadata()?;
        entries.iter().find(|entry| entry.key == key)?.value.as_deref()
    };
    match value(LAYOUT_KEY) {
        Some(LAYOUT) => {}
        Some(other) => {
            return Err(not_ours(
                path,
                &format!("layout {LAYOUT}"),
                &format!("layout `{}`", excerpt(other.as_bytes())),
            ));
        }
        None => {
            return Err(not_ours(path, "`foretell.trace` in the metadata", "another kind of Parquet file"));
        }
    }
    let ours = parse_message_type(SCHEMA)
        .map_err(|e| TraceError::Damaged { path: path.into(), message: e.to_string().into() })?;
    let columns = |schema: &parquet::schema::types::Type| -> Vec<_> {
        let fields = schema.get_fields().iter();
        fields
            .filter(|field| field.is_primitive())
            .map(|f| (f.name().to_owned(), f.get_physical_type(), f.get_basic_info().repetition()))
            .collect()
    };
    if columns(metadata.schema()) != columns(&ours) || metadata.schema_descr().num_columns() != COLUMNS {
        return Err(not_ours(path, "the columns of a trace", "other columns"));
    }
    let json = value(META_KEY).unwrap_or_default();
    serde_json::from_str(json)
        .map_err(|e| not_ours(path, "a description of the trace in `foretell.meta`", &e.to_string()))
}

fn io_len(path: &Path) -> std::io::Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}

/// A column of a row group that does not lie inside a file of `len` bytes.
fn misplaced_column(file: &SerializedFileReader<File>, len: u64) -> Option<String> {
    let inside = |start: i64, bytes: i64| match (u64::try_from(start), u64::try_from(bytes)) {
        (Ok(start), Ok(bytes)) => start.checked_add(bytes).is_some_and(|end| end <= len),
        _ => false,
    };
    for (number, group) in file.metadata().row_groups().iter().enumerate() {
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            if !inside(start, column.compressed_size()) || !inside(column.data_page_offset(), 0) {
                return Some(format!("row group {number}: column `{}`", column.column_path().string()));
            }
        }
    }
    None
}

fn open_group(file: &SerializedFileReader<File>, number: usize) -> Result<Group, ParquetError> {
    let group = file.get_row_group(number)?;
    let rows = group.metadata().num_rows();
    let left = usize::try_from(rows).map_err(|_| ParquetError::General(format!("{rows} rows")))?;
    if group.num_columns() != COLUMNS {
        return Err(ParquetError::General(format!("{} columns", group.num_columns())));
    }
    Ok(Group {
        process: get_typed_column_reader(group.get_column_reader(0)?),
        file: get_typed_column_reader(group.get_column_reader(1)?),
        offset: get_typed_column_reader(group.get_column_reader(2)?),
        bytes: get_typed_column_reader(group.get_column_reader(3)?),
        compute_ns: get_typed_column_reader(group.get_column_reader(4)?),
        timestamp_ns: get_typed_column_reader(group.get_column_reader(5)?),
        write: get_typed_column_reader(group.get_column_reader(6)?),
        left,
    })
}

impl Group {
    fn read(&mut self, batch: &mut Batch) -> Result<(), ParquetError> {
        let rows = self.left.min(BATCH_ROWS);
        read_column(&mut self.process, rows, None, &mut batch.process)?;
        read_column(&mut self.file, rows, None, &mut batch.file)?;
        read_column(&mut self.offset, rows, None, &mut batch.offset)?;
        read_column(&mut self.bytes, rows, None, &mut batch.bytes)?;
        read_column(&mut self.compute_ns, rows, None, &mut batch.compute_ns)?;
        let present = Some(&mut batch.has_timestamp);
        read_column(&mut self.timestamp_ns, rows, present, &mut batch.timestamp_ns)?;
        read_column(&mut self.write, rows, None, &mut batch.write)?;
        batch.rows = rows;
        self.left -= rows;
        Ok(())
    }
}

/// Reads exactly `rows` rows of a column.
fn read_column<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    mut present: Option<&mut Vec<i16>>,
    values: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    let mut read = 0;
    while read < rows {
        let (records, _, _) = column.read_records(rows - read, present.as_deref_mut(), None, values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("{read} rows where there should be {rows}")));
        }
        read += records;
    }
    Ok(())
}

impl Batch {
    fn clear(&mut self) {
        let Batch { process, file, offset, bytes, compute_ns, timestamp_ns, has_timestamp, write, .. } = self;
        process.clear();
        file.clear();
        [offset, bytes, compute_ns, timestamp_ns].into_iter().for_each(Vec::clear);
        has_timestamp.clear();
        write.clear();
        (self.rows, self.timestamps_used) = (0, 0);
    }

    /// The row at `at`; rows must be taken in order.
    fn row(&mut self, at: usize) -> Option<Reference> {
        let mut timestamp_ns = None;
        if *self.has_timestamp.get(at)? > 0 {
            timestamp_ns = Some(self.timestamp_ns.get(self.timestamps_used)?.cast_unsigned());
            self.timestamps_used += 1;
        }
        Some(Reference {
            process: self.process.get(at)?.cast_unsigned(),
            file: self.file.get(at)?.cast_unsigned(),
            offset: self.offset.get(at)?.cast_unsigned(),
            bytes: self.bytes.get(at)?.cast_unsigned(),
            compute_ns: self.compute_ns.get(at)?.cast_unsigned(),
            timestamp_ns,
            write: *self.write.get(at)?,
        })
    }
}

impl Iterator for StoreReader {
    type Item = Result<Reference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An upper bound only: a damaged file may promise more than it has.
        (0, usize::try_from(self.left).ok())
    }
}

impl TraceReader for StoreReader {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }
}
