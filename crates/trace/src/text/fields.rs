//! Numbers and fields inside a line, parsed from bytes.

/// A decimal number that fills the whole field.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value.checked_mul(10)?.checked_add(u64::from(digit)))?
    })
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(field: &[u8]) -> Option<u64> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    let text = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'))
}

/// A number as strace prints it: decimal or `0x…`.
pub(super) fn decimal_or_hexadecimal(field: &[u8]) -> Option<u64> {
    if field.starts_with(b"0x") { hexadecimal(field) } else { number(field) }
}

/// A decimal fraction of a unit of `unit_ns` nanoseconds, in nanoseconds; digits below are dropped.
pub(super) fn nanoseconds(field: &[u8], unit_ns: u64) -> Option<u64> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let whole = number(&field[..point]).or(if point == 0 { Some(0) } else { None });
    let Some(whole) = whole else { return scientific(field, unit_ns) };
    let (mut ns, mut place) = (whole.checked_mul(unit_ns)?, unit_ns);
    let fraction = field.get(point + 1..).unwrap_or_default();
    if point == 0 && fraction.is_empty() {
        return None;
    }
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return scientific(field, unit_ns);
        }
        place /= 10;
        ns = ns.checked_add(u64::from(digit) * place)?;
    }
    Some(ns)
}

/// A number with an exponent, as C's `%g` may print a long time.
fn scientific(field: &[u8], unit_ns: u64) -> Option<u64> {
    if !field.iter().all(|b| b.is_ascii_digit() || b"eE+-.".contains(b)) {
        return None;
    }
    let value: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    let ns = (value * unit_ns as f64).round();
    (0.0..u64::MAX as f64).contains(&ns).then_some(ns as u64)
}

/// The fields of a line that are separated by blanks.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The fields of a line that are separated by `separator`, blanks around them removed.
pub(super) fn separated(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&byte| byte == separator).map(<[u8]>::trim_ascii)
}

/// Time between references: from the end of a process's last one to the start of its next.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// By process number: when its last reference ended.
    ended_ns: Vec<Option<u64>>,
}

impl Gaps {
    /// The time for which `process` did nothing that the trace shows before `start_ns`; zero for its first
    /// reference and where references overlap.
    pub(super) fn before(&mut self, process: u32, start_ns: u64, end_ns: u64) -> u64 {
        let process = process as usize;
        if self.ended_ns.len() <= process {
            self.ended_ns.resize(process + 1, None);
        }
        let ended = &mut self.ended_ns[process];
        let gap = ended.map_or(0, |ended| start_ns.saturating_sub(ended));
        *ended = Some(ended.map_or(end_ns, |ended| ended.max(end_ns)));
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_their_field_and_do_not_wrap() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "1 ", "-1", "+1", "1.0"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(decimal_or_hexadecimal(b"0x1c0000"), Some(0x1c_0000));
        assert_eq!(hexadecimal(b"+1"), None);
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        const S: u64 = 1_000_000_000;
        assert_eq!(nanoseconds(b"1795296018.879342", S), Some(1_795_296_018_879_342_000));
        assert_eq!(nanoseconds(b"0.0000000019", S), Some(1));
        assert_eq!(nanoseconds(b".5", S), Some(S / 2));
        assert_eq!(nanoseconds(b"7", 1_000_000), Some(7_000_000));
        assert_eq!(nanoseconds(b"1.5e3", 1_000_000), Some(1_500_000_000));
        for wrong in ["", ".", "-1", "1.2.3", "x", "nan", "1e300", "99999999999999"] {
            assert_eq!(nanoseconds(wrong.as_bytes(), S), None, "{wrong}");
        }
    }

    #[test]
    fn gaps_are_by_process_and_never_negative() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.before(0, 100, 150), 0);
        assert_eq!(gaps.before(1, 120, 130), 0);
        assert_eq!(gaps.before(0, 170, 175), 20);
        assert_eq!(gaps.before(0, 160, 165), 0);
        assert_eq!(gaps.before(0, 180, 181), 5);
    }
}
