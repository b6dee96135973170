//! Random C programs without undefined behaviour: each opens two files, computes where to read in all the ways
//! that C has, reads, and prints sums of what it read and computed.
//!
//! A program is a function `run_SEED` with helpers and globals of its own, so that many stand in one source,
//! behind one main. All arithmetic is unsigned and of one width (a smaller type would become a signed int); indices are masked, divisors are odd, loops are counted,
//! recursion has a depth; an expression has side effects only where C orders them.

use std::fmt::Write as _;

use super::data::Random;

/// Bytes of the file that the programs read.
pub const FILE_BYTES: usize = 1 << 16;
/// Deepest nesting of statements, and of expressions.
const STATEMENTS_DEEP: u32 = 4;
const EXPRESSIONS_DEEP: u32 = 3;

/// A source with the programs of these seeds, which its main runs one after the other.
pub fn source(seeds: std::ops::Range<u64>) -> String {
    let mut text = String::from(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\n\
         typedef unsigned long number;\n\
         struct pair { number left, right; struct pair *next; };\n\
         typedef number (*step)(number, number *);\n",
    );
    for seed in seeds.clone() {
        text += &Program::new(seed).text();
    }
    text += "\nint main(void)\n{\n";
    for seed in seeds {
        let _ = writeln!(text, "    run_{seed}();");
    }
    text + "    return 0;\n}\n"
}

struct Program {
    seed: u64,
    random: Random,
    /// How many helper functions there are to call at this point.
    helpers: u64,
    text: String,
    indent: usize,
    /// Loops around this point: names of their counters.
    loops: u32,
    counters: u32,
    in_helper: bool,
}

impl Program {
    fn new(seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self {
            seed,
            random,
            helpers: 0,
            text: String::new(),
            indent: 0,
            loops: 0,
            counters: 0,
            in_helper: false,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = self.indent * 4);
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.indent += 1;
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(text);
    }

    fn text(mut self) -> String {
        let s = self.seed;
        self.line(&format!("\n/* program {s} */"));
        self.line(&format!("static number g{s}_0 = {}, g{s}_1, table{s}[8] = {{7, 1, 4}};", s % 1000));
        self.line(&format!("static struct pair pair{s};"));
        self.line(&format!("static unsigned char bytes{s}[512];"));
        for helper in 0..1 + self.below(3) {
            self.helper(helper);
            self.helpers = helper + 1;
        }
        let helpers: Vec<String> = (0..self.helpers).map(|h| format!("help{s}_{h}")).collect();
        self.line(&format!("static const step steps{s}[] = {{{}}};", helpers.join(", ")));
        self.open(&format!("static void run_{s}(void)\n{{"));
        self.line(&format!("number a = {}, b = 1, c = 0, sink = 0, *p = &a;", s % 77));
        self.line("struct pair here = {3, 5, NULL}, *q = &here;");
        self.line("unsigned char buffer[512];");
        self.line("long got = 0;");
        self.line("int byte = 0;");
        self.line(&format!("int fd = open(\"{s}.a\", O_RDONLY);"));
        self.line(&format!("FILE *stream = fopen(\"{s}.b\", \"rb\");"));
        self.line("if (fd < 0 || stream == NULL)");
        self.line("    exit(9);");
        self.line("memset(buffer, 1, sizeof buffer);");
        for _ in 0..6 + self.below(8) {
            self.statement(0);
        }
        self.text += "done:\n";
        self.line("fclose(stream);");
        self.line("close(fd);");
        let globals = format!("g{s}_0, g{s}_1, table{s}[3], pair{s}.left");
        self.line(&format!(
            "printf(\"{s} %lu %lu %lu %lu %ld %d %lu %lu %lu %lu %lu\\n\", a, b, c, sink, got, byte, {globals}, here.right);"
        ));
        self.line("if (sink == 12345 && *p == q->left)");
        self.line("    goto done;");
        self.close("}");
        self.text
    }

    /// A function of a number and a place for another.
    fn helper(&mut self, number: u64) {
        let s = self.seed;
        self.in_helper = true;
        self.open(&format!("static number help{s}_{number}(number a, number *p)\n{{"));
        self.line(&format!("number b = {}, c = a ^ 5, sink = 0;", self.seed % 13));
        self.line("struct pair here = {1, 2, NULL}, *q = &here;");
        if self.one_in(3) {
            // Recursion that ends: a gets smaller.
            self.line("if (a % 64 > 1)");
            self.line(&format!("    b += help{s}_{number}(a % 64 / 2, &c);"));
        }
        for _ in 0..1 + self.below(4) {
            self.statement(2);
        }
        let value = self.expression(0);
        self.line(&format!("*p += {value};"));
        self.line(&format!("g{s}_1 += sink + q->left;"));
        let value = self.expression(0);
        self.line(&format!("return c + b + {value};"));
        self.close("}");
        self.in_helper = false;
    }

    /// Something that can be assigned to, without side effects.
    fn place(&mut self) -> String {
        let s = self.seed;
        match self.below(12) {
            0..3 => "a".into(),
            3..5 => "b".into(),
            5..7 => "c".into(),
            7 => format!("g{s}_{}", self.below(2)),
            8 => format!("table{s}[{} & 7]", self.variable()),
            9 => "*p".into(),
            10 => "q->left".into(),
            _ => format!("pair{s}.{}", if self.one_in(2) { "left" } else { "right" }),
        }
    }

    fn variable(&mut self) -> &'static str {
        ["a", "b", "c"][self.below(3) as usize]
    }

    /// An expression without side effects but calls.
    fn expression(&mut self, depth: u32) -> String {
        if depth >= EXPRESSIONS_DEEP || self.one_in(4) {
            return match self.below(5) {
                0 => format!("{}ul", self.below(5000)),
                1 if !self.in_helper => format!("(number)buffer[{} & 511]", self.variable()),
                _ => self.place(),
            };
        }
        let left = self.expression(depth + 1);
        let right = self.expression(depth + 1);
        match self.below(14) {
            0 | 1 => format!("({left} + {right})"),
            2 => format!("({left} - {right})"),
            3 => format!("({left} * {right})"),
            4 => format!("({left} ^ {right} >> 3)"),
            5 => format!("({left} & {right})"),
            6 => format!("({left} % ({right} | 1))"),
            7 => format!("(number)({left} < {right})"),
            8 => format!("({left} << ({right} & 7))"),
            9 => format!("({left} > 99 ? {right} : ~{left})"),
            10 => format!("(number)({left} % 3 == 1 && {right} != 4)"),
            11 => format!("(number)(unsigned char)({left} + {right})"),
            12 => format!("(number)({left} > 9 || {right} % 5 == 0)"),
            _ => format!("({left} | {right} << 4)"),
        }
    }

    fn statement(&mut self, depth: u32) {
        let nested = depth < STATEMENTS_DEEP;
        match self.below(if nested { 26 } else { 15 }) {
            0..3 => {
                let (place, value) = (self.place(), self.expression(0));
                let operator = ["=", "=", "+=", "^=", "-="][self.below(5) as usize];
                self.line(&format!("{place} {operator} {value};"));
            }
            3 => {
                let variable = self.variable();
                let operator = if self.one_in(2) { "++" } else { "--" };
                self.line(&format!("{variable}{operator};"));
            }
            4 if !self.in_helper => {
                let s = self.seed;
                let target = [
                    "a".to_owned(),
                    "b".to_owned(),
                    "here.right".to_owned(),
                    format!("table{s}[{} & 7]", self.variable()),
                    format!("g{s}_0"),
                ][self.below(5) as usize]
                    .clone();
                self.line(&format!("p = &{target};"));
            }
            5 if !self.in_helper => {
                let s = self.seed;
                let target = if self.one_in(2) { format!("&pair{s}") } else { "&here".to_owned() };
                self.line(&format!("q = {target};"));
            }
            6 => self.heavy(),
            7 if self.helpers > 0 => self.call(),
            4..15 => self.read(),
            15..18 => self.choice(depth),
            18..21 => self.counted_loop(depth),
            21 => self.switch(depth),
            22 => self.ordered_side_effects(depth),
            23 if self.loops > 0 => {
                let condition = self.expression(0);
                let leave = if self.one_in(2) { "break" } else { "continue" };
                self.line(&format!("if ({condition} % 3 == 0)"));
                self.line(&format!("    {leave};"));
            }
            24 if !self.in_helper => {
                let condition = self.expression(0);
                self.line(&format!("if (({condition}) % 101 == 7)"));
                self.line("    goto done;");
            }
            _ => {
                let condition = self.expression(0);
                let (place, value) = (self.place(), self.expression(0));
                self.line(&format!("if ({condition} & 1)"));
                self.line(&format!("    {place} = {value};"));
            }
        }
    }

    /// Computation on data that no access needs.
    fn heavy(&mut self) {
        if self.in_helper {
            let value = self.expression(1);
            self.line(&format!("sink = sink * 31 + {value};"));
            return;
        }
        let counter = self.counter();
        self.line(&format!("for (number {counter} = 0; {counter} < 64; {counter}++)"));
        self.line(&format!("    sink = sink * 31 + buffer[{counter} * 8];"));
    }

    fn call(&mut self) {
        let s = self.seed;
        let (place, argument) = (self.place(), self.expression(1));
        let target =
            if self.in_helper { "&c" } else { ["&c", "&b", "p", "&here.left"][self.below(4) as usize] };
        let number = self.below(self.helpers);
        if self.one_in(3) && !self.in_helper {
            let helpers = self.helpers;
            let index = self.variable();
            self.line(&format!("{place} = steps{s}[{index} % {helpers}]({argument} % 999, {target});"));
        } else {
            self.line(&format!("{place} = help{s}_{number}({argument} % 999, {target});"));
        }
    }

    fn read(&mut self) {
        if self.in_helper {
            let (place, value) = (self.place(), self.expression(0));
            self.line(&format!("{place} = {value};"));
            return;
        }
        let s = self.seed;
        let (offset, bytes) = (self.expression(1), self.expression(2));
        match self.below(9) {
            0..3 => {
                self.line(&format!("got += pread(fd, buffer, {bytes} % 500 + 1, (off_t)({offset} % 66000));"))
            }
            3 => {
                self.line(&format!("lseek(fd, (off_t)({offset} % 60000), SEEK_SET);"));
                self.line(&format!("got += read(fd, buffer, {bytes} % 500);"));
            }
            4 => self.line(&format!("got ^= read(fd, bytes{s}, {bytes} % 512);")),
            5 => {
                self.line(&format!("fseek(stream, (long)({offset} % 60000), SEEK_SET);"));
                self.line(&format!("got += (long)fread(buffer, 1, {bytes} % 512, stream);"));
            }
            6 => {
                let counter = self.counter();
                self.line(&format!("for (number {counter} = 0; {counter} < {bytes} % 40; {counter}++)"));
                self.line("    if ((byte = getc(stream)) == EOF)");
                self.line("        break;");
                self.line("sink += (number)byte;");
            }
            7 => {
                // What was read says where to go on.
                self.line(&format!("if (pread(fd, buffer, 16, (off_t)({offset} % 60000)) == 16)"));
                let place = self.place();
                self.line(&format!("    {place} = buffer[3] * 256u + buffer[9];"));
            }
            _ => {
                self.line(&format!("fseek(stream, (long)({bytes} % 3000), SEEK_CUR);"));
                self.line("sink += (number)ftell(stream);");
            }
        }
    }

    fn counter(&mut self) -> String {
        self.counters += 1;
        format!("i{}", self.counters)
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..1 + self.below(3) {
            self.statement(depth + 1);
        }
    }

    fn choice(&mut self, depth: u32) {
        let condition = self.expression(0);
        self.open(&format!("if ({condition} % 2 == 0) {{"));
        self.block(depth);
        if self.one_in(2) {
            self.indent -= 1;
            self.open("} else {");
            self.block(depth);
        }
        self.close("}");
    }

    fn counted_loop(&mut self, depth: u32) {
        let counter = self.counter();
        let times = 1 + self.below(if depth == 0 { 12 } else { 4 });
        self.loops += 1;
        match self.below(3) {
            0 => {
                self.open(&format!("for (number {counter} = 0; {counter} < {times}; {counter}++) {{"));
                self.block(depth);
                let place = self.place();
                self.line(&format!("{place} += {counter};"));
                self.close("}");
            }
            1 => {
                let condition = self.expression(1);
                self.line(&format!("number {counter} = {times};"));
                self.open(&format!("while ({counter}-- > 0 && {condition} % 7 != 3) {{"));
                self.block(depth);
                self.close("}");
            }
            _ => {
                self.line(&format!("number {counter} = 0;"));
                self.open("do {");
                self.block(depth);
                self.close(&format!("}} while (++{counter} < {times});"));
            }
        }
        self.loops -= 1;
    }

    fn switch(&mut self, depth: u32) {
        let value = self.expression(0);
        self.open(&format!("switch ({value} % 4) {{"));
        let loops = std::mem::take(&mut self.loops); // break would mean the switch
        for case in 0..2 + self.below(2) {
            self.open(&format!("case {case}: {{"));
            self.block(depth);
            self.close("}");
            let way_out = if self.one_in(2) { "    break;" } else { "    /* fall through */" };
            self.line(way_out);
        }
        self.open("default: {");
        self.block(depth);
        self.close("}");
        self.loops = loops;
        self.close("}");
    }

    fn ordered_side_effects(&mut self, depth: u32) {
        let (first, second) = (self.variable(), self.variable());
        let (left, right) = (self.expression(1), self.expression(1));
        let joint = if self.one_in(2) { "&&" } else { "||" };
        self.open(&format!(
            "if (({first} += {left}) % 5 > 1 {joint} ({second} = {right}, {second} % 3 == 0)) {{"
        ));
        self.block(depth);
        self.close("}");
    }
}
