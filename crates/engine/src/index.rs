//! An ordered set that knows how many elements stand before a place: a B+tree with counts.
//!
//! Made for queues: cheapest at its two ends, and elements added in order fill its nodes.

mod node;
#[cfg(test)]
mod tests;

use node::{Child, Node};
use std::slice;

/// An ordered set that also knows how many elements stand before a place.
///
/// Every operation takes time that grows with the logarithm of the number of elements; the two ends
/// are found without searching. There may be a million of these: an empty one has allocated nothing.
#[derive(Debug)]
pub(crate) struct Index<K> {
    root: Node<K>,
    /// What the vectors and boxes below `root` have allocated. Every function that changes a
    /// capacity keeps it up to date, so that asking costs nothing.
    bytes: usize,
}

impl<K: Ord + Copy> Index<K> {
    /// The empty set.
    pub(crate) const fn new() -> Self {
        Index { root: Node::Leaf(Vec::new()), bytes: 0 }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.root.len()
    }

    /// Whether there is no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest element.
    pub(crate) fn first(&self) -> Option<K> {
        self.root.first()
    }

    /// Adds `key`; false if it was there already.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.root.rise_if_full(key, &mut self.bytes);
        self.root.insert(key, &mut self.bytes)
    }

    /// Takes `key` out; false if it was not there.
    pub(crate) fn remove(&mut self, key: K) -> bool {
        let removed = self.root.remove(&key, &mut self.bytes);
        if removed {
            self.root.settle(&mut self.bytes);
        }
        removed
    }

    /// Whether `key` is an element.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.root.contains(&key)
    }

    /// How many elements are smaller than `key`.
    pub(crate) fn count_below(&self, key: K) -> usize {
        self.root.count_below(&key)
    }

    /// The elements in order, without the first `offset`, which are passed over by their counts.
    pub(crate) fn iter_from(&self, offset: usize) -> impl Iterator<Item = K> + '_ {
        Iter::new(&self.root, offset)
    }

    /// The bytes this has asked of the allocator, which adds its own to each piece.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

/// The rest of a leaf, and for each branch above it the children that come after.
struct Iter<'a, K> {
    keys: slice::Iter<'a, K>,
    above: Vec<slice::Iter<'a, Child<K>>>,
}

impl<'a, K: Ord + Copy> Iter<'a, K> {
    fn new(root: &'a Node<K>, offset: usize) -> Self {
        let mut iter = Iter { keys: [].iter(), above: Vec::new() };
        if offset < root.len() {
            iter.descend(root, offset);
        }
        iter
    }

    /// Goes down from `node` to its element number `offset`, which it must have.
    fn descend(&mut self, mut node: &'a Node<K>, mut offset: usize) {
        while let Node::Branch { branch, .. } = node {
            let mut children = branch.children.iter();
            for child in children.by_ref() {
                node = &child.node;
                if offset < node.len() {
                    break;
                }
                offset -= node.len();
            }
            self.above.push(children);
        }
        if let Node::Leaf(keys) = node {
            self.keys = keys[offset..].iter();
        }
    }
}

impl<K: Ord + Copy> Iterator for Iter<'_, K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            if let Some(key) = self.keys.next() {
                return Some(*key);
            }
            match self.above.last_mut()?.next() {
                Some(child) => self.descend(&child.node, 0),
                None => drop(self.above.pop()),
            }
        }
    }
}
