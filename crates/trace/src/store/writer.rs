//! Writing a trace.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foretell_output::{Output, Writing};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::{LAYOUT, LAYOUT_KEY, META_KEY, ROW_GROUP_ROWS, SCHEMA};
use crate::error::TraceError;
use crate::reference::{FileEntry, Reference, TraceMeta};

/// Level of zstd: higher ones take twice the time for a few percent.
const ZSTD_LEVEL: i32 = 3;

/// Writes a trace in our own format. The file appears under its name only when [`StoreWriter::finish`]
/// succeeds; until then it is a temporary file beside it, which vanishes if the writer is dropped. A device or a
/// pipe is written to at once.
pub struct StoreWriter {
    path: PathBuf,
    writer: SerializedFileWriter<BufWriter<Writing>>,
    rows: Rows,
    references: u64,
    /// Bytes of each file that the references reach.
    extents: Vec<u64>,
}

impl std::fmt::Debug for StoreWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreWriter")
            .field("path", &self.path)
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}

/// The columns of a row group that is being gathered.
#[derive(Default)]
struct Rows {
    process: Vec<i32>,
    file: Vec<i32>,
    offset: Vec<i64>,
    bytes: Vec<i64>,
    compute_ns: Vec<i64>,
    timestamp_ns: Vec<i64>,
    has_timestamp: Vec<i16>,
    write: Vec<bool>,
}

impl StoreWriter {
    /// Begins a trace that will be called `path`.
    ///
    /// # Errors
    /// Nothing can be written under this name.
    pub fn create(path: &Path) -> Result<StoreWriter, TraceError> {
        let file = Output::open(path)?.begin()?;
        let parquet_error = |e| damaged(path, &e);
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(parquet_error)?);
        let writer = SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(properties(path)?))
            .map_err(parquet_error)?;
        Ok(StoreWriter {
            path: path.to_owned(),
            writer,
            rows: Rows::default(),
            references: 0,
            extents: Vec::new(),
        })
    }

    /// Adds a reference.
    ///
    /// # Errors
    /// The disk is full, or refuses otherwise.
    pub fn push(&mut self, reference: &Reference) -> Result<(), TraceError> {
        let file = reference.file as usize;
        if self.extents.len() <= file {
            self.extents.resize(file + 1, 0);
        }
        self.extents[file] = self.extents[file].max(reference.offset.saturating_add(reference.bytes));
        self.references += 1;
        self.rows.push(reference);
        if self.rows.write.len() == ROW_GROUP_ROWS { self.write_rows() } else { Ok(()) }
    }

    /// Writes what is left and the description, and gives the file its name. The sizes of files are the
    /// larger of what `meta` says and what the references reach. Returns the bytes of the file.
    ///
    /// # Errors
    /// The disk is full, the name is taken by a directory, or the system refuses otherwise.
    pub fn finish(mut self, meta: &TraceMeta) -> Result<u64, TraceError> {
        self.write_rows()?;
        let mut meta = meta.clone();
        for (file, reach) in meta.files.iter_mut().zip(&self.extents) {
            file.bytes = Some(file.bytes.map_or(*reach, |bytes| bytes.max(*reach)));
        }
        // References to files without a name get one, so that the stored trace is consistent.
        for file in meta.files.len()..self.extents.len() {
            meta.files.push(FileEntry { name: format!("file {file}"), bytes: Some(self.extents[file]) });
        }
        let json = serde_json::to_string(&meta)
            .map_err(|e| TraceError::Damaged { path: name(&self.path), message: e.to_string().into() })?;
        let path = self.path;
        for (key, value) in [(LAYOUT_KEY, LAYOUT.to_owned()), (META_KEY, json)] {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let io_error = |source| TraceError::Io { path: name(&path), source };
        let buffered = self.writer.into_inner().map_err(|e| damaged(&path, &e))?;
        let file = buffered.into_inner().map_err(|e| io_error(e.into_error()))?;
        file.sync().map_err(io_error)?;
        Ok(file.finish()?)
    }

    fn write_rows(&mut self) -> Result<(), TraceError> {
        if self.rows.write.is_empty() {
            return Ok(());
        }
        self.rows.write_to(&mut self.writer).map_err(|e| damaged(&self.path, &e))?;
        self.rows.clear();
        Ok(())
    }
}

impl Rows {
    fn push(&mut self, reference: &Reference) {
        self.process.push(reference.process.cast_signed());
        self.file.push(reference.file.cast_signed());
        self.offset.push(reference.offset.cast_signed());
        self.bytes.push(reference.bytes.cast_signed());
        self.compute_ns.push(reference.compute_ns.cast_signed());
        self.timestamp_ns.extend(reference.timestamp_ns.map(u64::cast_signed));
        self.has_timestamp.push(i16::from(reference.timestamp_ns.is_some()));
        self.write.push(reference.write);
    }

    fn write_to(&self, writer: &mut SerializedFileWriter<BufWriter<Writing>>) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        column::<Int32Type>(&mut group, &self.process, None)?;
        column::<Int32Type>(&mut group, &self.file, None)?;
        column::<Int64Type>(&mut group, &self.offset, None)?;
        column::<Int64Type>(&mut group, &self.bytes, None)?;
        column::<Int64Type>(&mut group, &self.compute_ns, None)?;
        column::<Int64Type>(&mut group, &self.timestamp_ns, Some(&self.has_timestamp))?;
        column::<BoolType>(&mut group, &self.write, None)?;
        group.close()?;
        Ok(())
    }

    fn clear(&mut self) {
        let Rows { process, file, offset, bytes, compute_ns, timestamp_ns, has_timestamp, write } = self;
        process.clear();
        file.clear();
        [offset, bytes, compute_ns, timestamp_ns].into_iter().for_each(Vec::clear);
        has_timestamp.clear();
        write.clear();
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<Writing>>,
    values: &[T::T],
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("fewer columns than the schema has".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, present, None)?;
    column.close()
}

fn properties(path: &Path) -> Result<WriterProperties, TraceError> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(|e| damaged(path, &e))?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by("foretell".to_owned());
    for column in ["offset", "compute_ns", "timestamp_ns"] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    let write = ColumnPath::from("write");
    Ok(properties
        .set_column_dictionary_enabled(write.clone(), false)
        .set_column_encoding(write, Encoding::RLE)
        .build())
}

fn name(path: &Path) -> Box<str> {
    path.to_string_lossy().into()
}

fn damaged(path: &Path, error: &ParquetError) -> TraceError {
    TraceError::Damaged { path: name(path), message: error.to_string().into() }
}
