//! Memory on demand: sketches that share a pool take from it as they grow.
//!
//! A sketch starts with little memory, asks for more at every doubling, and returns all
//! of it when it is dropped. No memory is reserved for sketches that never need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A number of bytes that several sketches share.
///
/// ```
/// use crane_model::{Allowance, Pool};
///
/// let pool = Pool::new(1000);
/// let mut sketch = Allowance::new(100, 800, &pool);
/// assert!(sketch.reach(500));
/// assert_eq!((sketch.held(), pool.free()), (500, 600));
/// drop(sketch);
/// assert_eq!(pool.free(), 1000);
/// ```
#[derive(Debug)]
pub struct Pool {
    free: AtomicUsize,
}

impl Pool {
    /// A pool of `bytes` bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(bytes),
        })
    }

    /// Bytes that are not taken.
    pub fn free(&self) -> usize {
        self.free.load(Relaxed)
    }

    /// Takes up to `bytes` bytes. Returns how many were taken.
    fn take_up_to(&self, bytes: usize) -> usize {
        let mut free = self.free();
        loop {
            let taken = bytes.min(free);
            let swapped = self
                .free
                .compare_exchange_weak(free, free - taken, Relaxed, Relaxed);
            match swapped {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Relaxed);
    }
}

/// The memory that one sketch may use. Dropping it returns to the pool what was taken
/// from there.
///
/// ```
/// use crane_model::Allowance;
///
/// let mut allowance = Allowance::alone(100, 800);
/// assert_eq!((allowance.held(), allowance.most()), (100, 800));
/// assert!(!allowance.reach(900));
/// assert_eq!(allowance.reach_most(), 800);
/// ```
#[derive(Debug)]
pub struct Allowance {
    pool: Arc<Pool>,
    start: usize,
    most: usize,
    taken: usize,
}

impl Allowance {
    /// `start` bytes at once, which are not taken from the pool, and up to `most` bytes
    /// in total, as long as the pool has them.
    pub fn new(start: usize, most: usize, pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            start,
            most: most.max(start),
            taken: 0,
        }
    }

    /// `start` bytes at once and up to `most` bytes in total, independent of other
    /// sketches.
    pub fn alone(start: usize, most: usize) -> Self {
        Self::new(start, most, &Pool::new(most.saturating_sub(start)))
    }

    /// Bytes that the sketch has now.
    pub fn held(&self) -> usize {
        self.start + self.taken
    }

    /// Bytes that the sketch can have at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes as much memory as is missing to have `bytes` bytes. Returns false, and takes
    /// nothing, if that exceeds the limit or the pool.
    pub fn reach(&mut self, bytes: usize) -> bool {
        if bytes > self.most {
            return false;
        }
        let missing = bytes.saturating_sub(self.held());
        let taken = self.pool.take_up_to(missing);
        if taken < missing {
            self.pool.give_back(taken);
            return false;
        }
        self.taken += taken;
        true
    }

    /// Takes as much as limit and pool allow. Returns how many bytes the sketch has then.
    pub fn reach_most(&mut self) -> usize {
        self.taken += self.pool.take_up_to(self.most - self.held());
        self.held()
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.pool.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_takes_from_the_pool_and_returns_it_when_dropped() {
        let pool = Pool::new(1000);
        let mut busy = Allowance::new(10, 800, &pool);
        let mut other = Allowance::new(10, 800, &pool);
        assert!(busy.reach(500) && !busy.reach(801));
        assert_eq!((busy.held(), pool.free()), (500, 510));
        assert!(!other.reach(600), "all or nothing");
        assert_eq!(pool.free(), 510);
        assert_eq!(busy.reach_most(), 800);
        assert_eq!(other.reach_most(), 220);
        assert_eq!(pool.free(), 0);
        drop(busy);
        assert_eq!(pool.free(), 790);
        assert!(other.reach(600));
        drop(other);
        assert_eq!(pool.free(), 1000);
        assert_eq!(Allowance::alone(10, 50).reach_most(), 50);
    }
}
