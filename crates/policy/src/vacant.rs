//! Giving up the end of a table whose places are used again.
//!
//! Who has left a place leaves it vacant, and the table stays as long as it ever was: after a flood of a million blocks the
//! one that stays would keep the memory of all. So behind the last place in use the table ends. Of the places before that the
//! first are used first from then on: so the end becomes vacant by and by, and can be given up the next time.

/// How long a table of `len` places has to be; `vacant` keeps those before that, the first one at its end. A table of which
/// half is in use stays as it is: the next blocks would make it grow again.
pub(crate) fn end_of(len: usize, vacant: &mut Vec<u32>) -> usize {
    if vacant.len() <= len / 2 {
        return len;
    }
    let mut is_vacant = vec![false; len];
    for &place in vacant.iter() {
        is_vacant[place as usize] = true;
    }
    let end = is_vacant.iter().rposition(|vacant| !vacant).map_or(0, |last| last + 1);
    vacant.clear();
    vacant.extend((0..end as u32).rev().filter(|&place| is_vacant[place as usize]));
    vacant.shrink_to_fit();
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_ends_behind_what_is_in_use() {
        let mut vacant: Vec<u32> = (0..100).filter(|place| ![3, 40].contains(place)).collect();
        assert_eq!(end_of(100, &mut vacant), 41);
        assert_eq!(vacant.len(), 39);
        assert_eq!((vacant.pop(), vacant.pop(), vacant.first()), (Some(0), Some(1), Some(&39)));
        let mut vacant: Vec<u32> = (0..100).rev().collect();
        assert_eq!((end_of(100, &mut vacant), vacant.capacity()), (0, 0), "nothing is in use");
        let mut vacant: Vec<u32> = (50..100).collect();
        assert_eq!((end_of(100, &mut vacant), vacant.len()), (100, 50), "half of it is");
    }
}
