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
    let mut at = ty.find("(*")?;
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

#[cfg(test)]
mod tests {
    use super::declare;

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
            ("struct __va_list_tag *", "__builtin_va_list x"),
            ("int (*)(struct __va_list_tag *, int)", "int (*x)(__builtin_va_list, int)"),
        ] {
            assert_eq!(declare(ty, "x"), wanted);
        }
    }
}
