//! What an [`Index`] answers, against a `BTreeSet`; what its nodes look like after every kind of use.

use super::Index;
use super::node::{BRANCH_MAX, LEAF_MAX, Node};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// As large as the keys the engine uses.
type Wide = (i128, u8, i64, u64, u32);

fn wide(place: u64) -> Wide {
    (0, 1, 0, place, 0)
}

/// Numbers without order, each only once.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Panics if the tree is not as it must be; returns its height.
fn check<K: Ord + Copy>(index: &Index<K>) -> usize {
    let mut bytes = 0;
    let height = check_node(&index.root, None, None, &mut bytes);
    if let Node::Branch { branch, .. } = &index.root {
        assert!(branch.children.len() > 1, "a root of one child");
    }
    assert_eq!(index.memory_bytes(), bytes);
    height
}

fn check_node<K: Ord + Copy>(node: &Node<K>, low: Option<&K>, high: Option<&K>, bytes: &mut usize) -> usize {
    *bytes += node.own_bytes();
    match node {
        Node::Leaf(keys) => {
            assert!(keys.capacity() <= LEAF_MAX);
            assert!(keys.is_sorted_by(|a, b| a < b));
            assert!(keys.first() >= low);
            assert!(high.is_none() || keys.last() < high);
            1
        }
        Node::Branch { len, branch } => {
            let children = &branch.children;
            assert!(children.capacity() <= BRANCH_MAX);
            assert_eq!(*len, children.iter().map(|child| child.node.len()).sum::<usize>());
            let mut height = None;
            for (i, child) in children.iter().enumerate() {
                assert!(child.node.width() > 0, "an empty node");
                let low = if i == 0 { low } else { Some(&child.low) };
                let next = children.get(i + 1);
                let below = check_node(&child.node, low, next.map_or(high, |next| Some(&next.low)), bytes);
                assert_eq!(*height.get_or_insert(below), below, "leaves of unequal depth");
                if let Some(next) = next {
                    let half = child.node.width_roomy() / 3 * 2;
                    assert!(child.node.width() + next.node.width() >= half, "two that are half full together");
                }
            }
            height.expect("a branch has children") + 1
        }
    }
}

fn filled(keys: impl Iterator<Item = u64>) -> Index<Wide> {
    let mut index = Index::new();
    for key in keys {
        assert!(index.insert(wide(key)));
    }
    check(&index);
    index
}

/// Allocated bytes for each byte of keys.
fn spread(index: &Index<Wide>) -> f64 {
    let keys = u32::try_from(index.len() * size_of::<Wide>()).expect("a small set");
    f64::from(u32::try_from(index.memory_bytes()).expect("a small set")) / f64::from(keys)
}

#[test]
fn an_empty_set_is_small_and_has_allocated_nothing() {
    static EMPTY: Index<Wide> = Index::new();
    assert_eq!(EMPTY.memory_bytes(), 0);
    assert!(size_of::<Index<Wide>>() <= 32);
    assert!(EMPTY.is_empty());
    assert_eq!(EMPTY.first(), None);
    assert_eq!(EMPTY.iter_from(0).next(), None);
    assert_eq!(EMPTY.iter_from(1).next(), None);
    assert!(!EMPTY.contains(wide(1)));
}

#[test]
fn what_is_there_is_not_added_and_what_is_not_there_is_not_removed() {
    let mut index = Index::new();
    for key in (0..10_000).step_by(2) {
        assert!(index.insert(key));
        assert!(!index.insert(key));
    }
    for key in (1..10_000).step_by(2) {
        assert!(!index.remove(key));
        assert!(!index.contains(key));
        assert!(index.contains(key - 1));
    }
    assert_eq!(index.len(), 5_000);
    assert!(index.iter_from(0).eq((0..10_000).step_by(2)));
    check(&index);
}

#[test]
fn a_full_node_takes_a_key_that_it_has_already() {
    let full = LEAF_MAX as u64 * BRANCH_MAX as u64;
    for keys in [LEAF_MAX as u64, full, full + 1] {
        for again in [0, keys / 2, keys - 1] {
            let mut index = filled(0..keys);
            assert!(!index.insert(wide(again)));
            check(&index);
            assert!(index.iter_from(0).eq((0..keys).map(wide)));
        }
    }
}

#[test]
fn elements_are_passed_over() {
    let index = filled((0..9_000).map(scattered));
    let sorted: Vec<Wide> =
        (0..9_000).map(|number| wide(scattered(number))).collect::<BTreeSet<_>>().into_iter().collect();
    for offset in 0..sorted.len() {
        assert!(index.iter_from(offset).take(70).eq(sorted[offset..].iter().copied().take(70)));
    }
    assert!(index.iter_from(0).eq(sorted.iter().copied()));
    assert_eq!(index.iter_from(sorted.len()).next(), None);
    assert_eq!(index.iter_from(usize::MAX).next(), None);
}

#[test]
fn a_small_set_has_room_for_at_most_twice_its_keys() {
    for keys in 1..=8 {
        let index = filled(0..keys);
        assert!(spread(&index) < 2.0);
    }
}

#[test]
fn keys_that_come_in_order_fill_their_nodes() {
    assert!(spread(&filled(0..100_000)) < 1.05);
    assert!(spread(&filled((0..100_000).rev())) < 1.3);
    assert!(spread(&filled((0..100_000).map(scattered))) < 1.5);
    // Two priorities, each in order: the first one's end is in the middle.
    assert!(spread(&filled((0..100_000).map(|i| i % 2 * 1_000_000 + i))) < 1.3);
    // Everything between two full leaves, from the far end.
    assert!(spread(&filled((0..LEAF_MAX as u64).chain((100..100_000).rev()))) < 1.3);
}

#[test]
fn a_queue_gives_its_memory_back_as_it_is_served() {
    let mut index = filled(0..100_000);
    for served in 0..100_000 {
        if served % 1_000 == 0 {
            check(&index);
            assert!(spread(&index) < 1.2, "{served}");
        }
        assert_eq!(index.first(), Some(wide(served)));
        assert!(index.remove(wide(served)));
    }
    assert_eq!(index.memory_bytes(), 0);
    check(&index);
}

#[test]
fn a_queue_that_stays_short_stays_compact() {
    let mut index = filled(0..1_000);
    for place in 1_000..50_000 {
        assert!(index.insert(wide(place)));
        assert!(index.remove(index.first().expect("it has a thousand")));
    }
    assert!(check(&index) <= 2);
    assert!(spread(&index) < 1.3);
    assert!(index.iter_from(0).eq((49_000..50_000).map(wide)));
}

#[test]
fn thinning_out_merges_what_is_left() {
    for keep in [2, 3, 64, 65, 1_000, 5_000] {
        let mut index = filled(0..100_000);
        for place in (0..100_000).filter(|place| place % keep != 0) {
            assert!(index.remove(wide(place)));
        }
        check(&index);
        // A leaf alone keeps room for up to four times its keys, so that it does not grow and shrink all the time.
        let most = if index.len() <= LEAF_MAX { 4.0 } else { 2.7 };
        assert!(spread(&index) < most, "{keep}");
        assert!(index.iter_from(0).eq((0..100_000).filter(|place| place % keep == 0).map(wide)));
    }
}

/// Two branches, of which the second has lost its first leaf and then got a smaller key than it had left.
fn with_a_stale_bound() -> (Index<u64>, u64) {
    let mut index = Index::new();
    for key in 0..6_000 {
        index.insert(key * 1_000);
    }
    assert_eq!(check(&index), 3);
    let Node::Branch { branch, .. } = &index.root else { unreachable!("three levels") };
    let bound = branch.children[1].low;
    for key in 0..LEAF_MAX as u64 {
        assert!(index.remove(bound + key * 1_000));
    }
    assert!(index.insert(bound + 1));
    check(&index);
    (index, bound)
}

#[test]
fn branches_that_merge_keep_their_bounds() {
    let (mut index, bound) = with_a_stale_bound();
    for key in (0..bound).step_by(1_000).skip(LEAF_MAX) {
        assert!(index.remove(key));
        assert!(index.contains(bound + 1));
    }
    assert_eq!(check(&index), 2);
}

#[test]
fn branches_that_are_evened_out_keep_their_bounds() {
    let (mut index, bound) = with_a_stale_bound();
    for key in (0..bound).step_by(1_000) {
        assert!(index.insert(key + 1));
        assert!(index.contains(bound + 1));
    }
    check(&index);
}

#[test]
fn the_tree_stays_low() {
    let mut index = Index::new();
    for number in 0..300_000 {
        index.insert(scattered(number));
    }
    assert!(check(&index) <= 4);
    for number in 20..300_000 {
        index.remove(scattered(number));
    }
    assert_eq!(check(&index), 1);
}

/// A run of changes, long enough that a few of them make and unmake a tree of three levels.
#[derive(Clone, Debug)]
enum Run {
    Insert {
        from: u16,
        step: i16,
        count: u16,
    },
    Remove {
        from: u16,
        step: i16,
        count: u16,
    },
    RemoveFirst {
        count: u16,
    },
    /// As a queue does it: one more at the end, one less at the front.
    Serve {
        count: u16,
    },
}

fn run() -> impl Strategy<Value = Run> {
    let step = prop_oneof![Just(1i16), Just(-1), Just(7), any::<i16>()];
    let count = prop_oneof![1 => 1u16..100, 1 => 1u16..8_000];
    (0..6u8, any::<u16>(), step, count).prop_map(|(kind, from, step, count)| match kind {
        0..3 => Run::Insert { from, step, count },
        3 => Run::Remove { from, step, count },
        4 => Run::RemoveFirst { count },
        _ => Run::Serve { count },
    })
}

fn stepped(from: u16, step: i16, count: u16) -> impl Iterator<Item = u32> {
    (0..count).scan(from, move |at, _| Some(u32::from(std::mem::replace(at, at.wrapping_add_signed(step)))))
}

fn play(run: &Run, index: &mut Index<u32>, model: &mut BTreeSet<u32>) {
    match *run {
        Run::Insert { from, step, count } => {
            stepped(from, step, count).for_each(|key| assert_eq!(index.insert(key), model.insert(key)));
        }
        Run::Remove { from, step, count } => {
            stepped(from, step, count).for_each(|key| assert_eq!(index.remove(key), model.remove(&key)));
        }
        Run::RemoveFirst { count } => (0..count).for_each(|_| remove_first(index, model)),
        Run::Serve { count } => (0..count).for_each(|_| {
            let next = model.last().map_or(0, |last| last + 1);
            assert_eq!(index.insert(next), model.insert(next));
            remove_first(index, model);
        }),
    }
}

fn remove_first(index: &mut Index<u32>, model: &mut BTreeSet<u32>) {
    assert_eq!(index.first(), model.first().copied());
    if let Some(first) = model.pop_first() {
        assert!(index.remove(first));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_is_a_set(runs in prop::collection::vec(run(), 1..24), asked in any::<u16>()) {
        let mut index = Index::new();
        let mut model = BTreeSet::new();
        for run in &runs {
            play(run, &mut index, &mut model);
            check(&index);
            let key = u32::from(asked);
            prop_assert_eq!(index.contains(key), model.contains(&key));
            prop_assert_eq!(index.len(), model.len());
            prop_assert_eq!(index.is_empty(), model.is_empty());
            prop_assert_eq!(index.first(), model.first().copied());
            let offset = usize::from(asked) % (model.len() + 1);
            prop_assert!(index.iter_from(offset).eq(model.iter().copied().skip(offset)));
        }
    }
}
