//! PLACEHOLDER
use std::collections::BTreeSet;
#[derive(Debug)]
pub(crate) struct Index<K>(BTreeSet<K>);
impl<K: Ord + Copy> Index<K> {
    pub(crate) const fn new() -> Self {
        Index(BTreeSet::new())
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(crate) fn first(&self) -> Option<K> {
        self.0.first().copied()
    }
    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.0.insert(key)
    }
    pub(crate) fn remove(&mut self, key: K) -> bool {
        self.0.remove(&key)
    }
    pub(crate) fn contains(&self, key: K) -> bool {
        self.0.contains(&key)
    }
    pub(crate) fn iter_from(&self, offset: usize) -> impl Iterator<Item = K> + '_ {
        self.0.iter().copied().skip(offset)
    }
}
