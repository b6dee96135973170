//! Memory for direct reads, which must begin at a multiple of the device's block.

/// Memory that begins at a multiple of an alignment.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// `bytes` of it, at a multiple of `alignment`.
    #[must_use]
    pub fn new(bytes: usize, alignment: usize) -> AlignedBuffer {
        let alignment = alignment.max(1);
        // Written once, so that no page fault is timed later.
        let memory = vec![1; bytes + alignment];
        let start = memory.as_ptr().align_offset(alignment).min(alignment);
        AlignedBuffer { memory, start, bytes }
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_multiple() {
        for alignment in [1, 512, 4096] {
            let mut buffer = AlignedBuffer::new(10_000, alignment);
            assert_eq!(buffer.bytes().as_ptr().addr() % alignment, 0);
            assert_eq!(buffer.bytes().len(), 10_000);
        }
    }
}
