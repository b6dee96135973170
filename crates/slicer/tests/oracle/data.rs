//! Data for the programs of the corpus: `data: NAME KIND SIZE...` in a program's header.

use std::fs;
use std::path::Path;

/// Writes the file that a `data:` line describes.
pub fn make(folder: &Path, line: &str) {
    let (name, rest) = line.split_once(' ').unwrap();
    let (kind, rest) = rest.split_once(' ').unwrap();
    let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    let mut random = Random(0x9e37_79b9 + name.len() as u64);
    let content = match kind {
        "bytes" => (0..numbers[0]).map(|_| random.next() as u8).collect(),
        "text" => rest.replace("\\n", "\n").into_bytes(),
        "numbers" => {
            (0..numbers[0]).map(|_| format!("{}\n", random.below(numbers[1]))).collect::<String>().into()
        }
        "sorted" => {
            sorted(numbers[0], &mut random).iter().map(|n| format!("{n}\n")).collect::<String>().into()
        }
        "words" => words(numbers[0] as usize, &mut random),
        "table" => table(numbers[0], numbers[1], &mut random),
        "chain" => chain(numbers[0], numbers[1], &mut random),
        "records" => records(numbers[0], &mut random),
        "btree" => btree(numbers[0], &mut random),
        other => panic!("data of kind '{other}'"),
    };
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Small numbers from a seed (xorshift64*, Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 24
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

fn sorted(count: u64, random: &mut Random) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).map(|_| random.below(count * 3)).collect();
    numbers.sort_unstable();
    numbers
}

fn words(bytes: usize, random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < bytes {
        for _ in 0..=random.below(9) {
            text.push(b'a' + random.below(26) as u8);
        }
        text.push(if random.below(8) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(bytes);
    text
}

/// Pairs of an offset and a length.
fn table(count: u64, most: u64, random: &mut Random) -> Vec<u8> {
    (0..count)
        .flat_map(|_| [random.below(most) as u32, random.next() as u32])
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// Blocks that form one cycle in random order; each begins with the number of its successor.
fn chain(blocks: u64, block_bytes: u64, random: &mut Random) -> Vec<u8> {
    let mut order: Vec<u64> = (0..blocks).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut content: Vec<u8> = (0..blocks * block_bytes).map(|_| random.next() as u8).collect();
    for (i, block) in order.iter().enumerate() {
        let next = order[(i + 1) % order.len()] as u32;
        let at = (block * block_bytes) as usize;
        content[at..at + 4].copy_from_slice(&next.to_le_bytes());
    }
    content
}

/// Records of 64 bytes with ascending keys.
fn records(count: u64, random: &mut Random) -> Vec<u8> {
    let mut content = Vec::new();
    for key in sorted(count, random) {
        content.extend((key as u32).to_le_bytes());
        content.extend((0..60).map(|_| random.next() as u8));
    }
    content
}

/// What btree.c reads: a header page (magic, root), pages of 4 KiB, and after them records of 256 bytes; keys
/// are the odd numbers.
pub fn btree(keys: u64, random: &mut Random) -> Vec<u8> {
    const FANOUT: usize = 31;
    const PAGE: usize = 4096;
    struct Page {
        level: u32,
        keys: Vec<u32>,
        children: Vec<u32>,
    }
    let keys: Vec<u32> = (0..keys as u32).map(|k| 2 * k + 1).collect();
    let mut pages: Vec<Page> = keys
        .chunks(FANOUT)
        .map(|chunk| Page { level: 0, keys: chunk.to_vec(), children: Vec::new() })
        .collect();
    // (page number, first key) of the level below.
    let mut below: Vec<(u32, u32)> =
        pages.iter().enumerate().map(|(i, p)| (i as u32 + 1, p.keys[0])).collect();
    let mut level = 0;
    while below.len() > 1 {
        level += 1;
        let mut above = Vec::new();
        for group in below.chunks(FANOUT + 1) {
            pages.push(Page {
                level,
                keys: group[1..].iter().map(|(_, first)| *first).collect(),
                children: group.iter().map(|(page, _)| *page).collect(),
            });
            above.push((pages.len() as u32, group[0].1));
        }
        below = above;
    }
    let records_at = (pages.len() + 1) * PAGE;
    let mut content = vec![0; PAGE];
    content[4..8].copy_from_slice(&below[0].0.to_le_bytes());
    // Records lie in random order.
    let mut places: Vec<u32> = (0..keys.len() as u32).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, random.below(i as u64 + 1) as usize);
    }
    for page in &mut pages {
        if page.level == 0 {
            let offset = |key: &u32| records_at as u32 + places[(*key / 2) as usize] * 256;
            page.children = page.keys.iter().map(offset).collect();
        }
        let mut bytes = Vec::with_capacity(PAGE);
        bytes.extend(page.level.to_le_bytes());
        bytes.extend((page.keys.len() as u32).to_le_bytes());
        let padded = |words: &[u32], count: usize| -> Vec<u8> {
            let zeros = std::iter::repeat_n(0, count - words.len());
            words.iter().copied().chain(zeros).flat_map(u32::to_le_bytes).collect()
        };
        bytes.extend(padded(&page.keys, FANOUT));
        bytes.extend(padded(&page.children, FANOUT + 1));
        bytes.resize(PAGE, 0);
        content.extend(bytes);
    }
    let mut records = vec![0; keys.len() * 256];
    for key in &keys {
        let at = places[(*key / 2) as usize] as usize * 256;
        records[at..at + 4].copy_from_slice(&key.to_le_bytes());
        for byte in &mut records[at + 4..at + 256] {
            *byte = random.next() as u8;
        }
    }
    content.extend(records);
    content
}
