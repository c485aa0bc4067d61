//! The nodes of an [`Index`](super::Index): how they are searched, split, evened out and merged.
//!
//! A node makes room on the way down and tidies up on the way back. Of two neighbours under one
//! branch at least one stays more than a quarter full, so the tree stays low and compact: a remove
//! merges what fits into one with room to spare, and a full node that gives to one neighbour keeps
//! half, whatever its other neighbour has.

/// Keys in a leaf at most. Like `BRANCH_MAX` a power of two, because vectors grow by doubling.
pub(super) const LEAF_MAX: usize = 64;
/// Children of a branch at most.
pub(super) const BRANCH_MAX: usize = 64;

/// Two words and a niche: a leaf's length and a branch's count are read without going there.
#[derive(Debug)]
pub(super) enum Node<K> {
    /// Keys, in order. Only a root may have none.
    Leaf(Vec<K>),
    /// Nodes of equal height, and how many keys they have together.
    Branch { len: usize, branch: Box<Branch<K>> },
}

#[derive(Debug)]
pub(super) struct Branch<K> {
    pub(super) children: Vec<Child<K>>,
}

#[derive(Debug)]
pub(super) struct Child<K> {
    /// No key of this child is smaller, and all keys of the children before it are. Of a branch's
    /// first child it says nothing: smaller keys go there too.
    pub(super) low: K,
    pub(super) node: Node<K>,
}

impl<K: Ord + Copy> Node<K> {
    /// How many keys are in and below this node.
    pub(super) fn len(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.len(),
            Node::Branch { len, .. } => *len,
        }
    }

    pub(super) fn first(&self) -> Option<K> {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(keys) => return keys.first().copied(),
                Node::Branch { branch, .. } => node = &branch.children.first()?.node,
            }
        }
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(keys) => return place(keys, key).is_ok(),
                Node::Branch { branch, .. } => node = &branch.children[branch.route(key)].node,
            }
        }
    }

    /// How many keys are smaller than `key`.
    pub(super) fn count_below(&self, key: &K) -> usize {
        let (mut node, mut before) = (self, 0);
        loop {
            match node {
                Node::Leaf(keys) => return before + place(keys, key).unwrap_or_else(|at| at),
                Node::Branch { branch, .. } => {
                    let route = branch.route(key);
                    before += branch.children[..route].iter().map(|child| child.node.len()).sum::<usize>();
                    node = &branch.children[route].node;
                }
            }
        }
    }

    /// Adds `key` to this node, which is not full.
    pub(super) fn insert(&mut self, key: K, bytes: &mut usize) -> bool {
        match self {
            Node::Leaf(keys) => {
                let Err(at) = place(keys, &key) else { return false };
                reserve(keys, 1, bytes);
                keys.insert(at, key);
                true
            }
            Node::Branch { len, branch } => {
                let i = branch.route_with_room(key, bytes);
                let added = branch.children[i].node.insert(key, bytes);
                *len += usize::from(added);
                added
            }
        }
    }

    /// Takes `key` out of this node, which may be left with nothing.
    pub(super) fn remove(&mut self, key: &K, bytes: &mut usize) -> bool {
        match self {
            Node::Leaf(keys) => {
                let Ok(at) = place(keys, key) else { return false };
                keys.remove(at);
                true
            }
            Node::Branch { len, branch } => {
                let i = branch.route(key);
                let removed = branch.children[i].node.remove(key, bytes);
                if removed {
                    *len -= 1;
                    branch.tidy(i, bytes);
                }
                removed
            }
        }
    }

    /// For the root, before an insert: a full one is put under a new root, which can then split it.
    pub(super) fn rise_if_full(&mut self, key: K, bytes: &mut usize) {
        if self.is_full() {
            let mut children = Vec::new();
            reserve(&mut children, 2, bytes);
            let node = std::mem::replace(self, Node::Leaf(Vec::new()));
            let len = node.len();
            children.push(Child { low: key, node });
            *self = Node::branch(len, children, bytes);
        }
    }

    /// For the root, after a remove: an only child takes its place, and a leaf gives spare room back.
    pub(super) fn settle(&mut self, bytes: &mut usize) {
        while let Node::Branch { branch, .. } = self
            && branch.children.len() <= 1
        {
            let child = branch.children.pop();
            *bytes -= self.own_bytes();
            *self = child.map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        if let Node::Leaf(keys) = self {
            give_back(keys, bytes);
        }
    }

    /// A branch of `children`, whose vector is accounted for.
    fn branch(len: usize, children: Vec<Child<K>>, bytes: &mut usize) -> Self {
        *bytes += size_of::<Branch<K>>();
        Node::Branch { len, branch: Box::new(Branch { children }) }
    }

    /// How many keys or children are in this node itself.
    pub(super) fn width(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.len(),
            Node::Branch { branch, .. } => branch.children.len(),
        }
    }

    fn width_max(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF_MAX,
            Node::Branch { .. } => BRANCH_MAX,
        }
    }

    /// Neither splitting what is wider nor merging what is narrower is soon undone by the other.
    pub(super) fn width_roomy(&self) -> usize {
        self.width_max() / 4 * 3
    }

    fn is_full(&self) -> bool {
        self.width() == self.width_max()
    }

    /// What this node itself has allocated, without its children.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.capacity() * size_of::<K>(),
            Node::Branch { branch, .. } => branch.children.capacity() * size_of::<Child<K>>() + size_of::<Branch<K>>(),
        }
    }

    /// Where to split this full node if `key` goes to its end: so that keys which come in order leave
    /// full nodes behind.
    fn append_split(&self, key: &K) -> Option<usize> {
        match self {
            Node::Leaf(keys) => (keys.last()? < key).then_some(LEAF_MAX),
            Node::Branch { branch, .. } => (branch.children.last()?.low <= *key).then_some(BRANCH_MAX - 1),
        }
    }

    /// Takes off everything from `at` on; with the key that is to be its `low`, if that is known here.
    fn split_off(&mut self, at: usize, bytes: &mut usize) -> (Option<K>, Self) {
        match self {
            Node::Leaf(keys) => {
                let right = tail(keys, at, LEAF_MAX, bytes);
                (right.first().copied(), Node::Leaf(right))
            }
            Node::Branch { len, branch } => {
                let right = Branch { children: tail(&mut branch.children, at, BRANCH_MAX, bytes) };
                let right_len = right.count();
                *len -= right_len;
                let low = right.children.first().map(|child| child.low);
                (low, Node::branch(right_len, right.children, bytes))
            }
        }
    }

    /// Takes in all of `right`, the next node, whose keys are not under `low`.
    fn append(&mut self, low: K, right: Self, bytes: &mut usize) {
        *bytes -= right.own_bytes();
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(mut right)) => {
                reserve(left, right.len(), bytes);
                left.append(&mut right);
            }
            (Node::Branch { len, branch: left }, Node::Branch { len: right_len, branch: mut right }) => {
                let seam = left.children.len();
                right.children[0].low = low;
                reserve(&mut left.children, right.children.len(), bytes);
                left.children.append(&mut right.children);
                left.close_seam(seam, bytes);
                *len += right_len;
            }
            _ => unreachable!("neighbours are of equal height"),
        }
    }

    /// Makes this node and the next one, whose keys are not under `low`, equally wide. Returns the new `low`.
    fn even_out(&mut self, low: K, right: &mut Self, bytes: &mut usize) -> K {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                even_out(left, right, bytes);
                right[0]
            }
            (Node::Branch { len, branch: left }, Node::Branch { len: right_len, branch: right }) => {
                let seam = left.children.len();
                right.children[0].low = low;
                even_out(&mut left.children, &mut right.children, bytes);
                match seam.checked_sub(left.children.len()) {
                    Some(moved) => right.close_seam(moved, bytes),
                    None => left.close_seam(seam, bytes),
                }
                let both = *len + *right_len;
                *len = left.count();
                *right_len = both - *len;
                right.children[0].low
            }
            _ => unreachable!("neighbours are of equal height"),
        }
    }
}

impl<K: Ord + Copy> Branch<K> {
    /// The child that has `key` if any has.
    fn route(&self, key: &K) -> usize {
        let [_, rest @ ..] = self.children.as_slice() else { return 0 };
        // The ends first: a queue is served at one and appended to at the other.
        match rest {
            [second, ..] if *key < second.low => 0,
            [.., last] if last.low <= *key => rest.len(),
            _ => count_up_to(rest, key, |child| &child.low),
        }
    }

    /// The child that `key` is to be added to, after seeing to it that it is not full.
    fn route_with_room(&mut self, key: K, bytes: &mut usize) -> usize {
        let i = self.route(&key);
        let child = &self.children[i].node;
        if !child.is_full() {
            return i;
        }
        let roomy = |i: usize| self.children.get(i).is_some_and(|next| next.node.width() <= next.node.width_roomy());
        // Only of the last child: keys between two others that come in falling order would each get a leaf.
        let appended_at = if i + 1 == self.children.len() { child.append_split(&key) } else { None };
        if let Some(at) = appended_at {
            self.split(i, at, key, bytes);
        } else if i > 0 && roomy(i - 1) {
            self.even_out(i - 1, bytes);
        } else if roomy(i + 1) {
            self.even_out(i, bytes);
        } else {
            self.split(i, child.width() / 2, key, bytes);
        }
        self.route(&key)
    }

    /// After a remove from child `i`: nothing stays that is empty, or would fit into a neighbour with room to spare.
    fn tidy(&mut self, i: usize, bytes: &mut usize) {
        let child = &self.children[i].node;
        let width = child.width();
        let roomy = child.width_roomy();
        if width > roomy {
            return;
        }
        let fits = |i: usize| self.children.get(i).is_some_and(|next| width + next.node.width() <= roomy);
        if width == 0 {
            *bytes -= child.own_bytes();
            self.children.remove(i);
        } else if fits(i + 1) {
            self.merge(i, bytes);
        } else if i > 0 && fits(i - 1) {
            self.merge(i - 1, bytes);
        } else {
            return;
        }
        give_back(&mut self.children, bytes);
    }

    /// Children `i - 1` and `i` were under different branches: they may fit into one with room to spare.
    fn close_seam(&mut self, i: usize, bytes: &mut usize) {
        if let Some([left, right]) = i.checked_sub(1).and_then(|left| self.children.get(left..=i))
            && left.node.width() + right.node.width() <= left.node.width_roomy()
        {
            self.merge(i - 1, bytes);
        }
    }

    /// Splits child `i`; `key` is to be the first of what comes after, if nothing does yet.
    fn split(&mut self, i: usize, at: usize, key: K, bytes: &mut usize) {
        let (low, node) = self.children[i].node.split_off(at, bytes);
        reserve(&mut self.children, 1, bytes);
        self.children.insert(i + 1, Child { low: low.unwrap_or(key), node });
    }

    /// Moves all of child `i + 1` into child `i`.
    fn merge(&mut self, i: usize, bytes: &mut usize) {
        let right = self.children.remove(i + 1);
        self.children[i].node.append(right.low, right.node, bytes);
    }

    /// Makes children `i` and `i + 1` equally wide.
    fn even_out(&mut self, i: usize, bytes: &mut usize) {
        if let [left, right, ..] = &mut self.children[i..] {
            right.low = left.node.even_out(right.low, &mut right.node, bytes);
        }
    }

    fn count(&self) -> usize {
        self.children.iter().map(|child| child.node.len()).sum()
    }
}

/// Where `key` is, or where it is to be.
fn place<K: Ord>(keys: &[K], key: &K) -> Result<usize, usize> {
    // The ends first, as in `Branch::route`.
    let count = match keys {
        [.., last] if last < key => return Err(keys.len()),
        [first, ..] if key < first => return Err(0),
        [first, ..] if key == first => 1,
        _ => count_up_to(keys, key, |key| key),
    };
    match count.checked_sub(1) {
        Some(at) if keys[at] == *key => Ok(at),
        _ => Err(count),
    }
}

/// How many of the items, which are in order, are not beyond `key`.
///
/// Eight at a time, then one by one: more comparisons than halving, but none waits for the memory
/// that another needs. In a set of five million keys that is twice as fast.
fn count_up_to<T, K: Ord>(items: &[T], key: &K, key_of: impl Fn(&T) -> &K) -> usize {
    const STEP: usize = 8;
    let up_to = |items: &[T], step| items.iter().step_by(step).take_while(|item| key_of(item) <= key).count();
    let steps = up_to(items, STEP);
    let from = steps.saturating_sub(1) * STEP;
    let to = items.len().min(steps * STEP);
    from + up_to(&items[from..to], 1)
}

/// Sees to it that `extra` more fit: one at first, then twice as many each time.
fn reserve<T>(items: &mut Vec<T>, extra: usize, bytes: &mut usize) {
    let before = items.capacity();
    let wanted = items.len() + extra;
    if wanted > before {
        items.reserve_exact(wanted.next_power_of_two() - items.len());
        *bytes += (items.capacity() - before) * size_of::<T>();
    }
}

/// Gives back room that is not needed soon.
fn give_back<T>(items: &mut Vec<T>, bytes: &mut usize) {
    let before = items.capacity();
    if items.len() <= before / 4 {
        items.shrink_to(items.len() * 2);
        *bytes -= (before - items.capacity()) * size_of::<T>();
    }
}

/// Takes off everything from `at` on, into a vector with room for `max`.
fn tail<T>(items: &mut Vec<T>, at: usize, max: usize, bytes: &mut usize) -> Vec<T> {
    let mut tail = Vec::with_capacity(max);
    *bytes += tail.capacity() * size_of::<T>();
    tail.extend(items.drain(at..));
    tail
}

/// Moves items from the longer to the shorter.
fn even_out<T>(left: &mut Vec<T>, right: &mut Vec<T>, bytes: &mut usize) {
    let middle = usize::midpoint(left.len(), right.len());
    if let Some(moved) = middle.checked_sub(left.len()) {
        reserve(left, moved, bytes);
        left.extend(right.drain(..moved));
    } else {
        reserve(right, left.len() - middle, bytes);
        right.splice(..0, left.drain(middle..));
    }
}
