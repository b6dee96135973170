//! Declarations: a type as clang spells it, around a name.

/// How clang spells a `va_list` that is a parameter, where that is an array: a structure without a declaration.
const DECAYED_LIST: &str = "struct __va_list_tag *";

/// `char *[4]` and `names` give `char *names[4]`; `int (*)(void)` and `f` give `int (*f)(void)`.
pub(super) fn declare(ty: &str, name: &str) -> String {
    let ty = ty.replace(DECAYED_LIST, "__builtin_va_list");
    let ty = ty.as_str();
    if let Some(at) = pointer_group(ty) {
        let (before, after) = ty.split_at(at);
        let gap = if before.ends_with(|c: char| c.is_alphanumeric()) { " " } else { "" };
        return format!("{before}{gap}{name}{after}");
    }
    let (before, after) = match ty.find('[') {
        Some(at) => ty.split_at(at),
        None => (ty, ""),
    };
    let before = before.trim_end();
    let gap = if before.ends_with('*') { "" } else { " " };
    format!("{before}{gap}{name}{after}")
}

/// Where the name goes in a pointer to a function or an array: after the innermost `(*`.
fn pointer_group(ty: &str) -> Option<usize> {
    // In what a length is computed from there is none.
    let mut at = ty.find("(*").filter(|at| !ty[..*at].contains('['))?;
    while let Some(inner) = ty[at + 1..].find("(*") {
        // A later group that is not inside this one belongs to a parameter.
        if ty[at + 1..at + 1 + inner].contains(')') {
            break;
        }
        at += 1 + inner;
    }
    let group = &ty[at + 1..];
    let end = group.find(['[', ')'])?;
    // `(*const)`, `(*)[4]`, `(*[3])`.
    Some(at + 1 + end)
}

/// Can a type be spelled? One without a name cannot.
pub(super) fn has_name(ty: &str) -> bool {
    !ty.contains("unnamed") && !ty.contains("anonymous")
}

/// The type of an array, with 1 for each length that is computed: `char[n][4]` gives `char[1][4]`.
pub(super) fn of_length_one(ty: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    let mut length = String::new();
    for c in ty.chars() {
        depth -= i32::from(c == ']');
        match depth {
            0 => {
                if c == ']' {
                    let is_number = length.bytes().all(|b| b.is_ascii_digit());
                    text.push_str(if is_number { &length } else { "1" });
                    length.clear();
                }
                text.push(c);
            }
            _ => length.push(c),
        }
        depth += i32::from(c == '[');
    }
    text
}

/// The text with another name in place of one, where that is not a member's.
pub(super) fn renamed(text: &str, name: &str, new: &str) -> String {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut made = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        made.push_str(before);
        let is_part = made.ends_with(is_of_name) || after.starts_with(is_of_name);
        let is_member = made.trim_end().ends_with('.') || made.trim_end().ends_with("->");
        made.push_str(if is_part || is_member { name } else { new });
        rest = after;
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use super::{declare, of_length_one, renamed};

    #[test]
    fn names_go_where_c_wants_them() {
        for (ty, wanted) in [
            ("int", "int x"),
            ("char *", "char *x"),
            ("char *[4]", "char *x[4]"),
            ("int[2][3]", "int x[2][3]"),
            ("int (*)(const char *, int (*)(void))", "int (*x)(const char *, int (*)(void))"),
            ("int (*[3])(void)", "int (*x[3])(void)"),
            ("char (*)[16]", "char (*x)[16]"),
            ("void (*const)(int)", "void (*const x)(int)"),
            ("char[(*size) + 1]", "char x[(*size) + 1]"),
            ("struct __va_list_tag *", "__builtin_va_list x"),
            ("int (*)(struct __va_list_tag *, int)", "int (*x)(__builtin_va_list, int)"),
        ] {
            assert_eq!(declare(ty, "x"), wanted);
        }
    }

    #[test]
    fn lengths_are_told_from_what_is_in_them() {
        assert_eq!(of_length_one("char[n][4]"), "char[1][4]");
        assert_eq!(of_length_one("char[a[i + b[2]]][80]"), "char[1][80]");
    }

    #[test]
    fn a_name_is_replaced_but_not_within_others() {
        assert_eq!(
            renamed("char[n + nn + s.n + p->n * n]", "n", "slice_n"),
            "char[slice_n + nn + s.n + p->n * slice_n]"
        );
    }
}
