//! Auxo (Jiang et al., 2023): GSS matrices in a prefix embedded tree. If all candidate
//! rooms of an edge in a matrix are taken, it is passed to a child, which the next bit of
//! its fingerprint selects. So the tree grows where it is needed, and the bits of the
//! path need not be stored.
//!
//! With a budget, the tree stops growing when the next matrix would not fit. Then an edge
//! without a room is added to the lightest of its candidates in the leaf, as in
//! [`super::gss`].

use crane_model::{Edge, Error, Result, Weighted};

use super::{Rival, hash_node, too_small};

/// Rows and columns of every matrix.
const WIDTH: usize = 16;
const ROOMS: usize = WIDTH * WIDTH;
/// Rows and columns that an edge can be stored in.
const ADDRESSES: usize = 4;
/// Bytes of a room: two fingerprints of 8 bits, two indices in one byte, a
/// 32-bit weight.
const ROOM: usize = 7;
/// Bytes of a node besides its rooms: two links.
const NODE: usize = 8;
const NONE: u32 = u32::MAX;

type Mark = [u8; 3];

struct Node {
    children: [u32; 2],
    marks: [Mark; ROOMS],
    weights: [u32; ROOMS],
}

/// The tree. Nodes are in order of creation.
pub struct Auxo {
    most: usize,
    seed: u64,
    nodes: Vec<Node>,
}

/// Where an edge can be stored: fingerprint bits for the path, rows, columns, marks.
struct Trail {
    path: u16,
    rows: [usize; ADDRESSES],
    columns: [usize; ADDRESSES],
    marks: [u8; 2],
}

impl Trail {
    fn candidates(&self) -> [(usize, Mark); ADDRESSES * ADDRESSES] {
        std::array::from_fn(|n| {
            let (i, j) = (n / ADDRESSES, n % ADDRESSES);
            (
                self.rows[i] * WIDTH + self.columns[j],
                [self.marks[0], self.marks[1], (i << 4 | j) as u8],
            )
        })
    }
}

impl Auxo {
    /// A tree that grows to as many matrices as fit `bytes`.
    pub fn new(bytes: usize, seed: u64) -> Result<Self> {
        let node = ROOMS * ROOM + NODE;
        match bytes / node {
            0 => Err(too_small(bytes, node)),
            most => Ok(Self {
                most,
                seed,
                nodes: vec![Node::empty()],
            }),
        }
    }

    fn trail(&self, edge: Edge) -> Trail {
        let (src, dst) = (
            hash_node(edge.src, self.seed),
            hash_node(edge.dst, self.seed ^ 1 << 40),
        );
        let lines = |hash: u64| {
            let (base, mut step) = ((hash >> 8) as usize, hash as usize & 0xff);
            std::array::from_fn(|_| {
                step = (step * 5 + 3) % 65_521;
                (base + step) % WIDTH
            })
        };
        Trail {
            path: ((src >> 48) ^ (dst >> 40)) as u16,
            rows: lines(src),
            columns: lines(dst),
            marks: [src as u8, dst as u8],
        }
    }

    /// The room of an edge: the first one along its path that is its own or free, else
    /// the lightest candidate of the last matrix. Also returns whether a child of that
    /// matrix could still take it.
    fn find(&self, trail: &Trail) -> (usize, usize, Mark, Fit) {
        let candidates = trail.candidates();
        let (mut at, mut depth) = (0, 0);
        loop {
            let node = &self.nodes[at];
            for (room, mark) in &candidates {
                if node.weights[*room] == 0 {
                    return (at, *room, *mark, Fit::Free);
                }
                if node.marks[*room] == *mark {
                    return (at, *room, *mark, Fit::Own);
                }
            }
            let child = node.children[usize::from(trail.path >> (depth % 16) & 1)];
            if child == NONE {
                let lightest = candidates
                    .iter()
                    .min_by_key(|(room, _)| node.weights[*room]);
                let (room, mark) = lightest.copied().unwrap_or((0, [0; 3]));
                return (
                    at,
                    room,
                    mark,
                    Fit::Full {
                        bit: usize::from(trail.path >> (depth % 16) & 1),
                    },
                );
            }
            at = child as usize;
            depth += 1;
        }
    }
}

/// The state of a room for an edge.
enum Fit {
    /// The room is free.
    Free,
    /// The room holds the edge, or one with the same fingerprints.
    Own,
    /// The room holds another edge, and the child for `bit` does not exist.
    Full { bit: usize },
}

impl Node {
    fn empty() -> Self {
        Self {
            children: [NONE; 2],
            marks: [[0; 3]; ROOMS],
            weights: [0; ROOMS],
        }
    }
}

impl Rival for Auxo {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        for arrival in batch.iter().filter(|arrival| arrival.weight > 0) {
            let trail = self.trail(arrival.edge);
            let (mut at, mut room, mut mark, mut fit) = self.find(&trail);
            if let Fit::Full { bit } = fit
                && self.nodes.len() < self.most
            {
                self.nodes[at].children[bit] = self.nodes.len() as u32;
                self.nodes.push(Node::empty());
                (at, room, mark, fit) = self.find(&trail);
            }
            let node = &mut self.nodes[at];
            if matches!(fit, Fit::Free) {
                node.marks[room] = mark;
            }
            let weight = u32::try_from(arrival.weight).unwrap_or(u32::MAX);
            node.weights[room] = node.weights[room].saturating_add(weight);
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        let answer = |edge: &Edge| match self.find(&self.trail(*edge)) {
            (_, _, _, Fit::Free) => 0.0,
            (at, room, _, _) => f64::from(self.nodes[at].weights[room]),
        };
        Ok(edges.iter().map(answer).collect())
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.len() * (ROOMS * ROOM + NODE)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let mut state = Vec::with_capacity(self.memory_bytes());
        for node in &self.nodes {
            state.extend(super::to_bytes(&node.children));
            state.extend(node.marks.iter().flatten());
            state.extend(super::to_bytes(&node.weights));
        }
        Ok(state)
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        const BYTES: usize = NODE + ROOM * ROOMS;
        let (nodes, rest) = state.as_chunks::<BYTES>();
        if nodes.is_empty() || nodes.len() > self.most || !rest.is_empty() {
            return Err(Error::State(format!(
                "{} bytes are not a tree of this size",
                state.len()
            )));
        }
        let load = |(at, bytes): (usize, &[u8; BYTES])| -> Result<Node> {
            let mut node = Node::empty();
            super::from_bytes(&mut node.children, &bytes[..NODE])?;
            let (marks, weights) = bytes[NODE..].split_at(3 * ROOMS);
            node.marks.copy_from_slice(marks.as_chunks::<3>().0);
            super::from_bytes(&mut node.weights, weights)?;
            // A child has a higher index than its parent, so that no path has a cycle.
            let leads =
                |child: &u32| *child == NONE || (at + 1..nodes.len()).contains(&(*child as usize));
            match node.children.iter().all(leads) {
                true => Ok(node),
                false => Err(Error::State("a link leads nowhere".into())),
            }
        };
        self.nodes = nodes.iter().enumerate().map(load).collect::<Result<_>>()?;
        Ok(())
    }
}
