//! A model of XDataSlice: 25 images of planes at random orientations through a volume of 64 MB.
//!
//! Known (Kimbrel et al. 1996, section 3.1): the above, 10435 reads of 5392 blocks. The volume has 8192
//! blocks of 8 KiB; a plane accounts for 417 reads.
//!
//! Assumed: 512 x 512 x 256 voxels of a byte, x fastest, so that a block is 16 rows of x at one z. A
//! plane goes through a random point with a random normal. Its image is sampled along scan lines; a
//! sample is a read when it lies in another block than the sample before. The scan lines of a plane are
//! as dense as its quota of 417 or 418 reads demands. A last step moves single reads to the nearest
//! block that makes the number of distinct blocks the published one.

use super::compute::Shape;
use super::random::Random;
use super::{Plan, Visit};

const READS: usize = 10_435;
const DISTINCT: usize = 5392;
const PLANES: usize = 25;
const BLOCKS: u32 = 8192;
/// Voxels along x, y, z.
const SIDES: [f64; 3] = [512.0, 512.0, 256.0];
/// Rows of x in a block, blocks in a slice of one z.
const ROWS: u32 = 16;
const SLICE_BLOCKS: u32 = 32;

fn unit_vector(random: &mut Random) -> [f64; 3] {
    let v = [random.normal(), random.normal(), random.normal()];
    let length = v.iter().map(|c| c * c).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    v.map(|c| c / length)
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Blocks read for the image of the plane spanned by `u` and `v` through `centre`, sampled every `step`
/// voxels.
fn image(centre: [f64; 3], u: [f64; 3], v: [f64; 3], step: f64) -> Vec<u32> {
    // Half the diagonal of the volume reaches its farthest corner.
    let reach = (384.0 / step).ceil() as i32;
    let mut reads: Vec<u32> = Vec::new();
    for row in -reach..=reach {
        for column in -reach..=reach {
            let at: [f64; 3] = std::array::from_fn(|axis| {
                centre[axis] + step * (f64::from(row) * u[axis] + f64::from(column) * v[axis])
            });
            if (0..3).all(|axis| (0.0..SIDES[axis]).contains(&at[axis])) {
                let block = at[2] as u32 * SLICE_BLOCKS + at[1] as u32 / ROWS;
                if reads.last() != Some(&block) {
                    reads.push(block);
                }
            }
        }
    }
    reads
}

/// Exactly `quota` reads of one random plane.
fn plane(quota: usize, random: &mut Random) -> Vec<u32> {
    loop {
        let normal = unit_vector(random);
        let u = cross(normal, unit_vector(random));
        let length = u.iter().map(|c| c * c).sum::<f64>().sqrt();
        if length < 1e-3 {
            continue;
        }
        let u = u.map(|c| c / length);
        let v = cross(normal, u);
        let centre = std::array::from_fn(|axis| SIDES[axis] * (0.25 + 0.5 * random.unit()));
        // From coarse to fine: the first image that is large enough, cut to the quota.
        let mut step = 64.0;
        while step > 1.0 {
            let mut reads = image(centre, u, v, step);
            if reads.len() >= quota {
                reads.truncate(quota);
                return reads;
            }
            step *= 0.97;
        }
    }
}

/// Moves reads until exactly [`DISTINCT`] blocks are read: too few, and a read of a block that is read
/// more than once goes to the nearest unread block; too many, and a block that is read once goes to
/// the nearest block that is read as well.
fn fit_distinct(reads: &mut [u32], random: &mut Random) {
    let mut count = vec![0u32; BLOCKS as usize];
    reads.iter().for_each(|&block| count[block as usize] += 1);
    let mut distinct = count.iter().filter(|&&c| c > 0).count();
    while distinct != DISTINCT {
        let read = random.below(READS as u32) as usize;
        let block = reads[read];
        let few = distinct < DISTINCT;
        if (count[block as usize] == 1) == few {
            continue;
        }
        let wanted = |b: &u32| *b != block && (count[*b as usize] == 0) == few;
        let above = (block + 1..BLOCKS).find(wanted);
        let below = (0..block).rev().find(wanted);
        let nearest = match (below, above) {
            (Some(b), Some(a)) => Some(if block - b < a - block { b } else { a }),
            (one, other) => one.or(other),
        };
        if let Some(to) = nearest {
            count[block as usize] -= 1;
            count[to as usize] += 1;
            reads[read] = to;
            distinct = if few { distinct + 1 } else { distinct - 1 };
        }
    }
}

pub(super) fn xds(seed: u64) -> Plan {
    let mut random = Random::new(seed, 2);
    let mut reads: Vec<u32> = Vec::with_capacity(READS);
    for nth in 0..PLANES {
        let quota = READS / PLANES + usize::from(nth < READS % PLANES);
        reads.extend(plane(quota, &mut random));
    }
    fit_distinct(&mut reads, &mut random);
    let visits: Vec<Visit> = reads.into_iter().map(|block| (0, block)).collect();
    Plan {
        files: vec![("volume".to_owned(), BLOCKS)],
        visits: Box::new(visits.into_iter()),
        shape: Shape::Even,
    }
}
