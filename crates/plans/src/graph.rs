//! Graphs by number: which parts are cycles, and in which layer each stands.

/// The sets of numbers that reach each other (Tarjan), without recursion: a chain is as long as the document lets it be.
pub(crate) fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut search = Search {
        edges,
        index: vec![UNSEEN; edges.len()],
        low: vec![0; edges.len()],
        on_stack: vec![false; edges.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for start in 0..edges.len() {
        if search.index.get(start) == Some(&UNSEEN) {
            search.from(start);
        }
    }
    search.found
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    index: Vec<usize>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) {
        // What is being looked at, and how many of its edges were.
        let mut work = vec![(start, 0)];
        self.enter(start);
        while let Some((one, seen)) = work.pop() {
            match self.edges.get(one).and_then(|targets| targets.get(seen)).copied() {
                Some(target) => {
                    work.push((one, seen + 1));
                    if self.index.get(target) == Some(&usize::MAX) {
                        self.enter(target);
                        work.push((target, 0));
                    } else if self.on_stack.get(target) == Some(&true) {
                        self.lower(one, self.index.get(target).copied());
                    }
                }
                None => {
                    self.leave(one);
                    if let Some((above, _)) = work.last() {
                        self.lower(*above, self.low.get(one).copied());
                    }
                }
            }
        }
    }

    fn enter(&mut self, one: usize) {
        let next = self.next;
        self.next += 1;
        for list in [&mut self.index, &mut self.low] {
            if let Some(place) = list.get_mut(one) {
                *place = next;
            }
        }
        if let Some(place) = self.on_stack.get_mut(one) {
            *place = true;
        }
        self.stack.push(one);
    }

    fn lower(&mut self, one: usize, to: Option<usize>) {
        if let (Some(place), Some(to)) = (self.low.get_mut(one), to) {
            *place = (*place).min(to);
        }
    }

    fn leave(&mut self, one: usize) {
        if self.low.get(one) != self.index.get(one) {
            return;
        }
        let mut component = Vec::new();
        while let Some(top) = self.stack.pop() {
            if let Some(place) = self.on_stack.get_mut(top) {
                *place = false;
            }
            component.push(top);
            if top == one {
                break;
            }
        }
        self.found.push(component);
    }
}

/// In which layer each stands: one more than the highest that it waits for. For graphs without cycles.
pub(crate) fn layers(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut layers = vec![0; edges.len()];
    // What is waited for comes before what waits for it.
    for component in components(edges) {
        for one in component {
            let of = |target: &usize| layers.get(*target).map_or(0, |layer: &usize| layer + 1);
            let layer = edges.get(one).into_iter().flatten().filter(|target| **target != one).map(of).max();
            if let Some(place) = layers.get_mut(one) {
                *place = layer.unwrap_or(0);
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_each_other_is_one_component() {
        let mut found = components(&[vec![1], vec![2], vec![0], vec![2], vec![4], vec![]]);
        found.iter_mut().for_each(|component| component.sort_unstable());
        found.sort();
        assert_eq!(found, [vec![0, 1, 2], vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn a_long_chain_is_no_deep_call() {
        let edges: Vec<Vec<usize>> =
            (0..200_000).map(|one| if one == 0 { vec![] } else { vec![one - 1] }).collect();
        assert_eq!(components(&edges).len(), edges.len());
        assert_eq!(layers(&edges).last(), Some(&199_999));
    }

    #[test]
    fn layers_are_the_longest_ways() {
        assert_eq!(layers(&[vec![], vec![0], vec![0, 1], vec![], vec![3, 2]]), [0, 1, 2, 0, 3]);
    }
}
