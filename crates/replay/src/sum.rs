//! The running sum over actions: 64-bit FNV-1a over a fixed encoding.

use foretell_policy::{Action, Reason};

/// Offset basis and prime of 64-bit FNV-1a (RFC 9923, section 5).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The sum over all actions so far, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    value: u64,
    actions: u64,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { value: BASIS, actions: 0 }
    }
}

impl Sum {
    /// One action more.
    pub fn add(&mut self, action: &Action) {
        self.actions += 1;
        match *action {
            Action::Fetch { block, reason, manager } => {
                let reason = match reason {
                    Reason::Demand => 0,
                    Reason::Prefetch => 1,
                };
                self.bytes(&[0, reason]);
                self.numbers(&[block.file.0, block.index, manager.0]);
            }
            Action::Evict { block } => {
                self.bytes(&[1]);
                self.numbers(&[block.file.0, block.index]);
            }
            Action::CancelPrefetches { manager } => {
                self.bytes(&[2]);
                self.numbers(&[manager.0]);
            }
        }
    }

    /// The sum.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Actions in it.
    #[must_use]
    pub fn actions(&self) -> u64 {
        self.actions
    }

    /// 16 bits of the sum, as they follow every group of actions: the upper ones, which all bits before reach.
    pub(crate) fn short(&self) -> u16 {
        (self.value >> 48) as u16
    }

    fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.bytes(&number.to_le_bytes());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.value = (self.value ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // RFC 9923, appendix C: the 64-bit sums of "" and "foobar".
        let mut sum = Sum::default();
        assert_eq!(sum.value(), 0xcbf2_9ce4_8422_2325);
        sum.bytes(b"foobar");
        assert_eq!(sum.value(), 0x8594_4171_f739_67e8);
    }
}
