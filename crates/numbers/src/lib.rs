//! Numbers in few bytes, as recordings and logs of inputs have them.
//!
//! Seven bits a byte, lowest first, the highest bit saying that there is more (LEB128). A difference is *folded*, so that
//! small negative ones are short, too: 0, -1, 1, -2 … become 0, 1, 2, 3 …. Differences wrap, in both directions.
//!
//! [`Numbers`] reads them from a stream of any length without believing any of it: it takes a buffer at a time, stops at a
//! limit, and says at which byte something is wrong.

use std::io::{self, Read};

/// What is wrong with a stream of numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// The system's error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Whatever the stream is unpacked from ends too early.
    #[error("cut short")]
    CutShort,
    /// The stream ends where there should be more of it.
    #[error("it ends at byte {byte}")]
    Ended {
        /// The last one.
        byte: u64,
    },
    /// Something that cannot be.
    #[error("damaged at byte {byte}: {what}")]
    Damaged {
        /// Where.
        byte: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// There is more of it than may be.
    #[error("more than {bytes} bytes")]
    Limit {
        /// Bytes at most.
        bytes: u64,
    },
}

/// A stream of numbers, and how far it has been read.
#[derive(Debug)]
pub struct Numbers<R> {
    inner: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// Bytes before the buffer.
    earlier: u64,
    most_bytes: u64,
}

impl<R: Read> Numbers<R> {
    /// Reads at most `most_bytes` of a stream, `buffer_bytes` at a time.
    pub fn new(inner: R, buffer_bytes: usize, most_bytes: u64) -> Numbers<R> {
        let buffer = vec![0; buffer_bytes].into_boxed_slice();
        Numbers { inner, buffer, at: 0, filled: 0, earlier: 0, most_bytes }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.earlier + self.at as u64
    }

    /// The byte read last.
    #[must_use]
    pub fn last_byte(&self) -> u64 {
        self.position().saturating_sub(1)
    }

    fn damaged(&self, what: &'static str) -> NumberError {
        NumberError::Damaged { byte: self.last_byte(), what }
    }

    /// The next byte; `None` at the end of the stream.
    ///
    /// # Errors
    /// It cannot be read.
    #[inline]
    pub fn next_byte(&mut self) -> Result<Option<u8>, NumberError> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(Some(byte))
    }

    /// Takes the next buffer; `false` at the end.
    fn fill(&mut self) -> Result<bool, NumberError> {
        self.earlier += self.filled as u64;
        (self.at, self.filled) = (0, 0);
        self.filled = loop {
            match self.inner.read(&mut self.buffer) {
                Ok(read) => break read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(NumberError::CutShort),
                // What a decompressor says has no number of the system's.
                Err(e) if e.raw_os_error().is_none() => {
                    return Err(self.damaged("the compressed stream is not one"));
                }
                Err(e) => return Err(e.into()),
            }
        };
        if self.earlier + self.filled as u64 > self.most_bytes {
            return Err(NumberError::Limit { bytes: self.most_bytes });
        }
        Ok(self.filled > 0)
    }

    /// The next byte, which must be there.
    ///
    /// # Errors
    /// It is not, or cannot be read.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, NumberError> {
        self.next_byte()?.ok_or(NumberError::Ended { byte: self.last_byte() })
    }

    /// So many bytes.
    ///
    /// # Errors
    /// As [`Numbers::byte`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], NumberError> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// A number.
    ///
    /// # Errors
    /// As [`Numbers::byte`], or it has more than 64 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u64, NumberError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number of more than 64 bits"))
    }

    /// A number of at most 32 bits.
    ///
    /// # Errors
    /// As [`Numbers::number`], or it has more.
    pub fn u32(&mut self) -> Result<u32, NumberError> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| self.damaged("a number of more than 32 bits"))
    }

    /// A number of at most 16 bits.
    ///
    /// # Errors
    /// As [`Numbers::number`], or it has more.
    pub fn u16(&mut self) -> Result<u16, NumberError> {
        let value = self.number()?;
        u16::try_from(value).map_err(|_| self.damaged("a number of more than 16 bits"))
    }

    /// A folded number of at most 32 bits with its sign.
    ///
    /// # Errors
    /// As [`Numbers::number`], or it has more.
    pub fn i32(&mut self) -> Result<i32, NumberError> {
        let value = unfold(self.number()?);
        i32::try_from(value).map_err(|_| self.damaged("a number of more than 32 bits"))
    }

    /// The number that a difference leads to from another one.
    ///
    /// # Errors
    /// As [`Numbers::number`].
    pub fn after(&mut self, from: u64) -> Result<u64, NumberError> {
        Ok(from.wrapping_add(unfold(self.number()?).cast_unsigned()))
    }

    /// The same where it has at most 32 bits.
    ///
    /// # Errors
    /// As [`Numbers::number`], or it has more.
    pub fn u32_after(&mut self, from: u32) -> Result<u32, NumberError> {
        let value = self.after(from.into())?;
        u32::try_from(value).map_err(|_| self.damaged("a number of more than 32 bits"))
    }
}

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference that leads from one number to another.
pub fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, fold(to.wrapping_sub(from).cast_signed()));
}

/// A difference as a number that is small if the difference is.
#[must_use]
pub fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// The difference again.
#[must_use]
pub fn unfold(folded: u64) -> i64 {
    (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn reader(bytes: &[u8]) -> Numbers<&[u8]> {
        Numbers::new(bytes, 3, 1000)
    }

    #[test]
    fn differences_are_folded_so_that_small_ones_are_short() {
        assert_eq!([0, -1, 1, -2].map(fold), [0, 1, 2, 3]);
        assert_eq!([i64::MIN, i64::MAX].map(fold).map(unfold), [i64::MIN, i64::MAX]);
    }

    #[test]
    fn what_is_too_large_or_not_there_is_refused_at_its_byte() {
        let error = |bytes: &[u8], read: fn(&mut Numbers<&[u8]>) -> Option<NumberError>| {
            read(&mut reader(bytes)).map(|error| error.to_string()).unwrap_or_default()
        };
        let mut wide = vec![0xff; 9];
        wide.push(2);
        assert_eq!(error(&wide, |n| n.number().err()), "damaged at byte 9: a number of more than 64 bits");
        assert_eq!(
            error(&[0x80; 30], |n| n.number().err()),
            "damaged at byte 9: a number of more than 64 bits"
        );
        assert_eq!(
            error(&[0xff, 0xff, 0xff, 0xff, 0x7f], |n| n.u32().err()),
            "damaged at byte 4: a number of more than 32 bits"
        );
        assert_eq!(
            error(&[0xff, 0xff, 4], |n| n.u16().err()),
            "damaged at byte 2: a number of more than 16 bits"
        );
        assert_eq!(error(&[1], |n| n.u32_after(0).err()), "damaged at byte 0: a number of more than 32 bits");
        assert_eq!(error(&[0x80, 0x80], |n| n.number().err()), "it ends at byte 1");
        let mut long = Numbers::new(io::repeat(0), 10, 20);
        assert_eq!((0..20).find_map(|_| long.byte().err()).map(|e| e.to_string()), None);
        assert!(matches!(long.byte(), Err(NumberError::Limit { bytes: 20 })));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values: Vec<u64>, smalls: Vec<(u32, i32)>) {
            let mut bytes = Vec::new();
            let mut before = 0;
            for &value in &values {
                put(&mut bytes, value);
                put_difference(&mut bytes, before, value);
                before = value;
            }
            for &(value, signed) in &smalls {
                put_difference(&mut bytes, 7, value.into());
                put(&mut bytes, fold(signed.into()));
            }
            let mut numbers = Numbers::new(&bytes[..], 3, u64::MAX);
            before = 0;
            for value in values {
                prop_assert_eq!((numbers.number().unwrap(), numbers.after(before).unwrap()), (value, value));
                before = value;
            }
            for (value, signed) in smalls {
                prop_assert_eq!((numbers.u32_after(7).unwrap(), numbers.i32().unwrap()), (value, signed));
            }
            prop_assert_eq!(numbers.position(), bytes.len() as u64);
            prop_assert!(numbers.next_byte().unwrap().is_none());
        }
    }
}
