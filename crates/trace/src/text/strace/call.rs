//! One system call as strace prints it: `name(arguments) = result <duration>`.

use super::super::fields;

/// A complete system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) name: &'a [u8],
    /// What is between the parentheses.
    pub(super) arguments: &'a [u8],
    /// What follows `= `, without the duration.
    pub(super) result: &'a [u8],
    /// Time spent in the call, if it was recorded (`strace -T`).
    pub(super) duration_ns: Option<u64>,
}

impl<'a> Call<'a> {
    /// The call in `text`, if it is one that has returned.
    pub(super) fn parse(text: &'a [u8]) -> Option<Call<'a>> {
        let name = name(text)?;
        let (close, equals) = end_of_arguments(text)?;
        let arguments = text.get(name.len() + 1..close)?;
        let mut result = text[equals + 2..].trim_ascii();
        let mut duration_ns = None;
        if let Some(inner) = result.strip_suffix(b">")
            && let Some(open) = inner.iter().rposition(|&byte| byte == b'<')
            && let Some(ns) = fields::nanoseconds(&inner[open + 1..], 1_000_000_000)
        {
            duration_ns = Some(ns);
            result = inner[..open].trim_ascii();
        }
        Some(Call { name, arguments, result, duration_ns })
    }

    /// The result as a number; `None` for errors and for calls that never returned.
    pub(super) fn returned(&self) -> Option<u64> {
        let end = self.result.iter().position(|byte| b" <".contains(byte)).unwrap_or(self.result.len());
        fields::decimal_or_hexadecimal(&self.result[..end])
    }

    /// The path that `strace -y` prints after a result that is a descriptor.
    pub(super) fn returned_path(&self) -> Option<&'a [u8]> {
        descriptor(self.result).and_then(|(_, path)| path)
    }

    /// The arguments one by one.
    pub(super) fn split(&self) -> Arguments<'a> {
        Arguments { rest: Some(self.arguments) }
    }

    /// The first argument as a descriptor, with the path that `strace -y` prints.
    pub(super) fn descriptor(&self) -> Option<(i32, Option<&'a [u8]>)> {
        descriptor(self.arguments)
    }

    /// The last argument.
    pub(super) fn last(&self) -> &'a [u8] {
        let last = self.arguments.windows(2).rposition(|pair| pair == b", ").map_or(0, |at| at + 2);
        &self.arguments[last..]
    }
}

/// The name before the parenthesis, if `text` begins like a call.
pub(super) fn name(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    (end > 0 && text[end] == b'(').then(|| &text[..end])
}

/// Where the closing parenthesis and the equals sign of the result are: the last ones of the line, since
/// the arguments may contain anything.
fn end_of_arguments(text: &[u8]) -> Option<(usize, usize)> {
    let mut end = text.len();
    loop {
        let equals = text[..end].windows(2).rposition(|pair| pair == b"= ")?;
        let before = text[..equals].trim_ascii_end();
        if before.ends_with(b")") && before.len() < equals {
            return Some((before.len() - 1, equals));
        }
        end = equals + 1;
    }
}

/// The descriptor at the beginning of `text`: its number, -100 for the current directory (`AT_FDCWD`),
/// and the path after it.
fn descriptor(text: &[u8]) -> Option<(i32, Option<&[u8]>)> {
    let end = text.iter().position(|byte| b",<) ".contains(byte)).unwrap_or(text.len());
    let number = match &text[..end] {
        b"AT_FDCWD" => AT_FDCWD,
        digits => i32::try_from(fields::number(digits)?).ok()?,
    };
    let path = text[end..].strip_prefix(b"<").and_then(|rest| {
        let close =
            rest.windows(2).position(|pair| pair == b">,").or(rest.iter().position(|&b| b == b'>'))?;
        Some(&rest[..close])
    });
    Some((number, path.filter(|path| path.starts_with(b"/"))))
}

/// The number that stands for the current directory (`fcntl.h`).
pub(super) const AT_FDCWD: i32 = -100;

/// The descriptor that an argument is.
pub(super) fn descriptor_argument(argument: &[u8]) -> Option<(i32, Option<&[u8]>)> {
    descriptor(argument)
}

/// Arguments, cut at commas that are in no string and in no bracket.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let (mut depth, mut quoted, mut escaped) = (0i32, false, false);
        for (at, &byte) in rest.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' | b'{' | b'(' | b'<' => depth += 1,
                b']' | b'}' | b')' | b'>' => depth -= 1,
                b',' if depth <= 0 => {
                    self.rest = Some(rest[at + 1..].trim_ascii_start());
                    return Some(&rest[..at]);
                }
                _ => {}
            }
        }
        Some(rest)
    }
}

/// The contents of a string argument, its escapes undone; `None` if it is no string.
pub(super) fn string(argument: &[u8]) -> Option<Vec<u8>> {
    let mut rest = argument.strip_prefix(b"\"")?.iter().copied().peekable();
    let mut out = Vec::new();
    loop {
        match rest.next()? {
            b'"' => return Some(out),
            b'\\' => out.push(match rest.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                b'x' => {
                    // `strace -x` and `-xx` print two hexadecimal digits.
                    let digits = [rest.next()?, rest.next()?];
                    u8::try_from(fields::hexadecimal(&digits)?).ok()?
                }
                digit @ b'0'..=b'7' => {
                    let mut value = u32::from(digit - b'0');
                    for _ in 0..2 {
                        let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    value as u8
                }
                other => other,
            }),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_taken_apart() {
        let text = br#"read(3</tmp/a, b>, "x) = 7, \"y\"", 4096) = 832 <0.000012>"#;
        let call = Call::parse(text).unwrap();
        assert_eq!(call.name, b"read");
        assert_eq!(call.returned(), Some(832));
        assert_eq!(call.duration_ns, Some(12_000));
        assert_eq!(call.descriptor(), Some((3, Some(&b"/tmp/a, b"[..]))));
        assert_eq!(call.last(), b"4096");
        let arguments: Vec<&[u8]> = call.split().collect();
        assert_eq!(arguments, [&b"3</tmp/a, b>"[..], br#""x) = 7, \"y\"""#, b"4096"]);
    }

    #[test]
    fn results_that_are_no_numbers_return_nothing() {
        for result in ["-1 ENOENT (No such file or directory)", "?", "? ERESTARTSYS (To be restarted)"] {
            let text = format!("openat(AT_FDCWD, \"x\", O_RDONLY) = {result}");
            let call = Call::parse(text.as_bytes()).unwrap();
            assert_eq!(call.returned(), None, "{result}");
            assert_eq!(call.descriptor(), Some((AT_FDCWD, None)));
        }
        assert_eq!(Call::parse(b"read(3, \"\", 10"), None);
        assert_eq!(Call::parse(b"= 3"), None);
    }

    #[test]
    fn escapes_in_strings_are_undone() {
        assert_eq!(string(br#""a\"\\\n\303\2444""#).unwrap(), b"a\"\\\n\xc3\xa44");
        assert_eq!(string(br#""\x62\x69g""#).unwrap(), b"big");
        assert_eq!(string(b"NULL"), None);
        assert_eq!(string(b"\"open"), None);
    }
}
