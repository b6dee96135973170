//! Asks the front end for the trees of translation units: `clang -fsyntax-only -Xclang -ast-dump=json`.
//!
//! clang takes longer to start than to read a small unit. So small units that stand next to each other and have the same
//! flags are read by one: its inner command takes several inputs, and says them one after the other.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Output, Stdio};

use super::saved::{self, Saved};
use super::{bodies, tables, unused};
use crate::store::{self, Store};
use crate::{Error, Input};

/// What clang calls the text that it is given without a name.
const UNNAMED: &str = "<stdin>";

/// Most units that one clang is given, and most bytes of their texts: their dumps, some twenty times as many bytes, are
/// held together.
const MOST_TOGETHER: usize = 8;
const MOST_TOGETHER_BYTES: u64 = 512 << 10;

/// Where what is said of a unit is to be kept.
pub(crate) struct Keeping<'s> {
    pub(super) store: &'s Store,
    pub(super) key: u128,
}

/// What the front end has said.
pub(crate) struct Dump {
    pub(super) json: Vec<u8>,
    /// What it calls the text, if that was none of a name.
    pub(super) name: String,
}

/// What is known of a unit.
pub(crate) enum Said<'s> {
    /// What the front end has said, and where that is to be kept.
    Dump(Dump, Option<Keeping<'s>>),
    /// What was kept.
    Kept(Saved),
}

type Accepted<'s> = Result<(Input, Said<'s>), Error>;

/// Runs the front end on the inputs, and gives what it says of each to `take`, in their order. While some are taken the front
/// end is at the next ones: the dump of a unit is some ten MB, so those of no more than two commands are held at a time.
pub(crate) fn for_each<'s>(
    inputs: &[Input],
    clang: &str,
    store: Option<&'s Store>,
    mut take: impl FnMut(Input, Said<'s>) -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let start = |inputs: &[Input]| {
            let inputs = inputs.to_vec();
            scope.spawn(move || all_accepted(clang, inputs, store))
        };
        let sizes = inputs.iter().map(size_together).collect::<Vec<_>>();
        let mut rest = inputs;
        let mut next = || {
            let (group, others) = rest.split_at(together(rest, &sizes[sizes.len() - rest.len()..]));
            rest = others;
            (!group.is_empty()).then(|| start(group))
        };
        let mut running = next();
        while let Some(front_end) = running {
            let said = front_end.join();
            running = next();
            for accepted in said.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                let (input, said) = accepted?;
                take(input, said)?;
            }
        }
        Ok(())
    })
}

/// Bytes of an input that may be read together with others: one that is preprocessed, as a source may be of any flags.
fn size_together(input: &Input) -> Option<u64> {
    input.preprocessed.as_ref()?;
    fs::metadata(&input.path).ok().map(|metadata| metadata.len())
}

/// How many of the first inputs one clang is given.
fn together(inputs: &[Input], sizes: &[Option<u64>]) -> usize {
    let Some(first) = inputs.first() else { return 0 };
    let mut bytes = 0;
    let fits = |(input, size): &(&Input, &Option<u64>)| {
        bytes += size.unwrap_or(MOST_TOGETHER_BYTES + 1);
        bytes <= MOST_TOGETHER_BYTES && input.flags == first.flags && input.folder == first.folder
    };
    inputs.iter().zip(sizes).take(MOST_TOGETHER).take_while(fits).count().max(1)
}

/// Those of which nothing is kept are asked for together, and each by itself if that fails.
fn all_accepted<'s>(clang: &str, inputs: Vec<Input>, store: Option<&'s Store>) -> Vec<Accepted<'s>> {
    let found: Vec<_> = inputs.into_iter().map(|input| found(clang, input, store)).collect();
    let asked = found.iter().filter_map(|found| match found {
        Ok((input, Found::Asked(_))) => Some(input),
        _ => None,
    });
    let asked: Vec<&Input> = asked.collect();
    let mut dumps = dumps(clang, &asked).unwrap_or_default().into_iter();
    let mut said = |(input, found)| match found {
        Found::Kept(kept) => Ok((input, Said::Kept(kept))),
        Found::Asked(keeping) => match dumps.next() {
            Some(dump) => Ok((input, Said::Dump(dump, keeping))),
            None => accepted(clang, input, store, keeping),
        },
    };
    found.into_iter().map(|found| found.and_then(&mut said)).collect()
}

/// What is known of an input before the front end is asked.
enum Found<'s> {
    Kept(Saved),
    Asked(Option<Keeping<'s>>),
}

fn found<'s>(clang: &str, input: Input, store: Option<&'s Store>) -> Result<(Input, Found<'s>), Error> {
    let path = input.folder.as_ref().map_or_else(|| input.path.clone(), |folder| folder.join(&input.path));
    // What is not there the front end says in words of its own.
    fs::metadata(&path).map_err(|reason| Error::File { path: path.clone(), reason })?;
    let input = Input { path, ..input };
    let keeping = store.and_then(|store| Some(Keeping { store, key: key(clang, &input)? }));
    let kept = keeping.as_ref().and_then(|keeping| saved::decode(&keeping.store.get(keeping.key)?));
    Ok((input, kept.map_or(Found::Asked(keeping), Found::Kept)))
}

/// The input, or what is read in place of it, as the front end accepts it.
fn accepted<'s>(
    clang: &str,
    input: Input,
    store: Option<&'s Store>,
    keeping: Option<Keeping<'s>>,
) -> Accepted<'s> {
    match (run(clang, &input), &input.otherwise) {
        (Err(Error::NotC(_)), Some(other)) => match found(clang, (**other).clone(), store)? {
            (other, Found::Kept(kept)) => Ok((other, Said::Kept(kept))),
            (other, Found::Asked(keeping)) => accepted(clang, other, store, keeping),
        },
        (said, _) => said.map(|dump| (input, Said::Dump(dump, keeping))),
    }
}

/// A preprocessed text is all that the front end reads, so it and the flags say what the front end will say.
fn key(clang: &str, input: &Input) -> Option<u128> {
    input.preprocessed.as_ref()?;
    let text = fs::read(&input.path).ok()?;
    let program = store::stamp(clang.as_ref());
    Some(store::key((saved::FORMAT, "tree", clang, program, &input.flags, &input.folder, text)))
}

/// What one clang says of several texts with the same flags. `None` if it does not accept one of them, or there is but one.
fn dumps(clang: &str, inputs: &[&Input]) -> Option<Vec<Dump>> {
    let [first, _, ..] = inputs else { return None };
    // Files without a name, so that nothing of them is left.
    let file = |input: &&Input| {
        let mut file = tempfile::tempfile().ok()?;
        file.write_all(needed(&fs::read_to_string(&input.path).ok()?).as_bytes()).ok()?;
        Some(file)
    };
    let files = inputs.iter().map(file).collect::<Option<Vec<_>>>()?;
    let name = |file: &fs::File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let names: Vec<String> = files.iter().map(name).collect();
    let (last, others) = names.split_last()?;
    let mut command = command(clang, first);
    others.iter().for_each(|name| _ = command.args(["-Xclang", name]));
    let output = command.arg(last).stdin(Stdio::null()).output().ok()?;
    let said = if output.status.success() { parts(output.stdout) } else { Vec::new() };
    let is_of =
        |(json, name): (&Vec<u8>, &String)| json.windows(name.len()).any(|part| part == name.as_bytes());
    let is_whole = said.len() == names.len() && said.iter().zip(&names).all(is_of);
    is_whole.then(|| said.into_iter().zip(names).map(|(json, name)| Dump { json, name }).collect())
}

/// What was said of each text: it ends with the one brace that begins a line.
fn parts(mut said: Vec<u8>) -> Vec<Vec<u8>> {
    const END: &[u8] = b"\n}";
    let mut parts = Vec::new();
    while let Some(at) = said.windows(END.len()).position(|part| part == END) {
        let rest = said.split_off(at + END.len());
        parts.push(std::mem::replace(&mut said, rest));
    }
    parts
}

fn command(clang: &str, input: &Input) -> Command {
    let mut command = Command::new(clang);
    command.args(["-fsyntax-only", "-Xclang", "-ast-dump=json", "-w", "-fno-color-diagnostics"]);
    if let Some(folder) = &input.folder {
        command.current_dir(folder);
    }
    command.args(&input.flags);
    command
}

fn run(clang: &str, input: &Input) -> Result<Dump, Error> {
    let output = said_of(command(clang, input), input)
        .map_err(|reason| Error::NoFrontEnd { program: clang.to_owned(), reason })?;
    if output.status.success() {
        return Ok(Dump { json: output.stdout, name: UNNAMED.to_owned() });
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    let first = complaints.lines().find(|line| line.contains("error:")).or(complaints.lines().next());
    let mut message = first.unwrap_or("clang fails without a word").to_owned();
    let path = input.path.to_string_lossy();
    if !message.starts_with(&*path) {
        message = format!("{path}: {message}");
    }
    if message.ends_with("file not found") {
        message += "; give the flags that the program is compiled with";
    }
    if message.ends_with("function definition is not allowed here") {
        message += ": clang knows no functions in functions; move it out of the other, with what it uses as arguments";
    }
    Err(Error::NotC(message))
}

/// What the command says of an input. Of a preprocessed one it is given what it need read, and knows no name of it.
fn said_of(mut command: Command, input: &Input) -> std::io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = input.preprocessed.as_ref().and_then(|_| fs::read_to_string(&input.path).ok());
    let Some(text) = text else {
        return command.arg(&input.path).stdin(Stdio::null()).output();
    };
    let mut child = command.arg("-").stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // It reads all of it before it says anything. If it does not, it says why.
        let _ = stdin.write_all(needed(&text).as_bytes());
    }
    child.wait_with_output()
}

/// What it need read of a preprocessed text. Every byte of it has its place.
fn needed(text: &str) -> String {
    tables::without(unused::without(&bodies::without(text)))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn input(folder: &Path, name: &str, text: &str) -> Input {
        fs::write(folder.join(name), text).unwrap();
        Input {
            path: folder.join(name),
            flags: vec!["-x".to_owned(), "c".to_owned()],
            folder: None,
            preprocessed: Some(String::new()),
            otherwise: None,
        }
    }

    /// Of each input: its name, and what the front end calls its text.
    fn asked(inputs: &[Input]) -> Result<Vec<(PathBuf, String)>, Error> {
        let mut taken = Vec::new();
        for_each(inputs, "clang", None, |input, said| {
            if let Said::Dump(dump, _) = said {
                let json = String::from_utf8_lossy(&dump.json).into_owned();
                assert!(json.contains(&format!("\"of_{}\"", taken.len())), "{json}");
                taken.push((input.path, dump.name));
            }
            Ok(())
        })?;
        Ok(taken)
    }

    #[test]
    fn small_units_are_read_together_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let unit = |number: usize| {
            let text = format!("int of_{number}(void) {{ return {number}; }}\n");
            input(folder.path(), &format!("{number}.i"), &text)
        };
        let mut inputs: Vec<Input> = (0..MOST_TOGETHER + 1).map(unit).collect();
        let taken = asked(&inputs).unwrap();
        assert_eq!(
            taken.iter().map(|(path, _)| path).collect::<Vec<_>>(),
            inputs.iter().map(|i| &i.path).collect::<Vec<_>>()
        );
        let together = taken.iter().filter(|(_, name)| name != UNNAMED).count();
        assert_eq!(together, MOST_TOGETHER, "{taken:?}");
        // Other flags are those of another command.
        inputs[1].flags.push("-std=c99".to_owned());
        let taken = asked(&inputs[..3]).unwrap();
        assert!(taken.iter().all(|(_, name)| name == UNNAMED), "{taken:?}");
        let large = MOST_TOGETHER_BYTES as usize - 100;
        inputs[0] = input(folder.path(), "0.i", &format!("int of_0;{}\n", " ".repeat(large)));
        inputs[1] = input(folder.path(), "1.i", &format!("int of_1;{}\n", " ".repeat(100)));
        let taken = asked(&inputs[..2]).unwrap();
        assert!(taken.iter().all(|(_, name)| name == UNNAMED), "{taken:?}");
    }

    #[test]
    fn the_one_that_is_no_c_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let texts = [("a.i", "int of_0;\n"), ("b.i", "int of_1 = ;\n"), ("c.i", "int of_2;\n")];
        let inputs: Vec<Input> = texts.iter().map(|(name, text)| input(folder.path(), name, text)).collect();
        let said = asked(&inputs).unwrap_err().to_string();
        assert!(said.contains("b.i"), "{said}");
        // Something else may be read in its place.
        let mut inputs = inputs;
        inputs[1].otherwise = Some(Box::new(input(folder.path(), "other.i", "int of_1;\n")));
        let taken = asked(&inputs).unwrap();
        assert!(taken[1].0.ends_with("other.i"), "{taken:?}");
    }
}
