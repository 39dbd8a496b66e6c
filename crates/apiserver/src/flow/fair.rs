//! Whose turn it is: queues in which every flow gets the same, however much it asks for.
//!
//! Time here is virtual: a queue's clock moves by the work (seats × seconds) that was done for it, and the queue that is
//! furthest behind goes next. What a request will take is guessed when it begins and corrected when it ends.
//!
//! ```text
//! queue 3:  clock 0.40  [a] [b]      ← next
//! queue 7:  clock 0.55  [c]
//! ```

use std::collections::{BTreeMap, VecDeque};

/// Seconds that a request is taken to last until it is known.
const GUESS: f64 = 0.003;

pub struct Fair<T> {
    /// Those in which somebody waits or sits, or whose clock is ahead.
    queues: BTreeMap<u32, Queue<T>>,
    /// The clock of the queue that went last.
    now: f64,
    waiting: usize,
    waiting_seats: u32,
}

pub struct Queue<T> {
    pub waiting: VecDeque<(u32, T)>,
    pub seated: u32,
    pub seats: u32,
    pub clock: f64,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Fair { queues: BTreeMap::new(), now: 0.0, waiting: 0, waiting_seats: 0 }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { waiting: VecDeque::new(), seated: 0, seats: 0, clock: 0.0 }
    }
}

impl<T> Queue<T> {
    fn waiting_seats(&self) -> u32 {
        self.waiting.iter().map(|(seats, _)| seats).sum()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.seated == 0
    }
}

impl<T> Fair<T> {
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    pub fn waiting_seats(&self) -> u32 {
        self.waiting_seats
    }

    pub fn queues(&self) -> impl Iterator<Item = (u32, &Queue<T>)> {
        self.queues.iter().map(|(number, queue)| (*number, queue))
    }

    /// The queue of a hand in which the least waits.
    pub fn shortest(&self, hand: &[u32]) -> u32 {
        let load = |number: &u32| self.queues.get(number).map_or((0, 0), |q| (q.waiting_seats(), q.seats));
        hand.iter().copied().min_by_key(load).unwrap_or_default()
    }

    pub fn length(&self, number: u32) -> usize {
        self.queues.get(&number).map_or(0, |queue| queue.waiting.len())
    }

    /// Drops those who gave up.
    pub fn prune(&mut self, number: u32, gone: impl Fn(&T) -> bool) {
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.waiting.retain(|(_, one)| !gone(one));
        }
        self.count();
    }

    fn count(&mut self) {
        self.waiting = self.queues.values().map(|queue| queue.waiting.len()).sum();
        self.waiting_seats = self.queues.values().map(Queue::waiting_seats).sum();
    }

    pub fn push(&mut self, number: u32, seats: u32, one: T) {
        let now = self.now;
        let queue = self.queues.entry(number).or_default();
        if queue.is_idle() {
            // Nobody saves up turns by not asking.
            queue.clock = queue.clock.max(now);
        }
        queue.waiting.push_back((seats, one));
        self.waiting += 1;
        self.waiting_seats += seats;
    }

    /// The seats that the next one needs.
    pub fn next_seats(&self) -> Option<u32> {
        self.next().and_then(|number| Some(self.queues.get(&number)?.waiting.front()?.0))
    }

    fn next(&self) -> Option<u32> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        waiting.min_by(|(_, a), (_, b)| a.clock.total_cmp(&b.clock)).map(|(number, _)| *number)
    }

    /// Takes the next one out of its queue; it still has to [`begin`](Fair::begin).
    pub fn pop(&mut self) -> Option<(u32, u32, T)> {
        let number = self.next()?;
        let (seats, one) = self.queues.get_mut(&number)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.waiting_seats -= seats;
        Some((number, seats, one))
    }

    pub fn begin(&mut self, number: u32, seats: u32) {
        let queue = self.queues.entry(number).or_default();
        if queue.is_idle() {
            queue.clock = queue.clock.max(self.now);
        }
        self.now = self.now.max(queue.clock);
        queue.clock += f64::from(seats) * GUESS;
        queue.seated += 1;
        queue.seats += seats;
    }

    pub fn end(&mut self, number: u32, seats: u32, seconds: f64) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.clock += f64::from(seats) * (seconds - GUESS);
        queue.seated = queue.seated.saturating_sub(1);
        queue.seats = queue.seats.saturating_sub(seats);
        if queue.is_idle() && queue.clock <= self.now {
            self.queues.remove(&number);
        } else if self.queues.len() > 64 {
            // Clocks of idle queues are forgotten when time has come to them.
            let now = self.now;
            self.queues.retain(|_, queue| !queue.is_idle() || queue.clock > now);
        }
    }
}

/// Deals a hand of queues to a flow: the same flow always gets the same ones, and two flows rarely share all of theirs.
pub fn deal(mut hash: u64, deck: u32, hand: u32) -> Vec<u32> {
    let mut dealt: Vec<u32> = Vec::with_capacity(hand as usize);
    for round in 0..hand.min(deck) {
        let left = u64::from(deck - round);
        let mut card = (hash % left) as u32;
        hash /= left;
        // The card's number among those that are left becomes its number in the whole deck.
        let mut taken: Vec<u32> = dealt.clone();
        taken.sort_unstable();
        for one in taken {
            if one <= card {
                card += 1;
            }
        }
        dealt.push(card);
    }
    dealt
}

/// The bits of a hash that dealing uses up.
pub fn bits_to_deal(deck: i64, hand: i64) -> u32 {
    let hands: f64 = (0..hand).map(|round| ((deck - round) as f64).log2()).sum();
    hands.ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_asks_ten_times_as_much_gets_as_much_as_the_others() {
        let mut fair = Fair::default();
        for i in 0..100 {
            fair.push(1, 1, i);
        }
        for i in 0..10 {
            fair.push(2, 1, i);
        }
        let mut turns = Vec::new();
        while let Some((queue, seats, _)) = fair.pop() {
            fair.begin(queue, seats);
            fair.end(queue, seats, 0.001);
            turns.push(queue);
        }
        let last = turns.iter().rposition(|queue| *queue == 2).unwrap();
        assert!(last <= 20, "the small flow is through after {last} turns");
        assert_eq!((turns.len(), fair.waiting(), fair.waiting_seats()), (110, 0, 0));
    }

    #[test]
    fn long_work_counts_for_more() {
        let mut fair = Fair::default();
        for i in 0..30 {
            fair.push(1, 1, i);
            fair.push(2, 1, i);
        }
        let mut turns = [0, 0];
        for _ in 0..22 {
            let (queue, seats, _) = fair.pop().unwrap();
            fair.begin(queue, seats);
            fair.end(queue, seats, if queue == 1 { 0.1 } else { 0.01 });
            turns[queue as usize - 1] += 1;
        }
        assert_eq!(turns, [2, 20]);
    }

    #[test]
    fn who_was_away_does_not_come_back_with_saved_turns() {
        let mut fair = Fair::default();
        for i in 0..1000 {
            fair.push(1, 1, i);
            let (queue, seats, _) = fair.pop().unwrap();
            fair.begin(queue, seats);
            fair.end(queue, seats, 0.01);
        }
        for i in 0..10 {
            fair.push(1, 1, i);
            fair.push(2, 1, i);
        }
        let turns: Vec<u32> = std::iter::from_fn(|| {
            let (queue, seats, _) = fair.pop()?;
            fair.begin(queue, seats);
            fair.end(queue, seats, 0.01);
            Some(queue)
        })
        .take(10)
        .collect();
        assert!(turns.iter().filter(|queue| **queue == 1).count() >= 4, "{turns:?}");
    }

    #[test]
    fn a_hand_is_of_different_queues_and_stays_the_same() {
        for hash in [0, 1, 0xdead_beef_dead_beef, u64::MAX] {
            let hand = deal(hash, 128, 6);
            assert_eq!(hand, deal(hash, 128, 6));
            let mut sorted = hand.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!((sorted.len(), sorted.iter().all(|card| *card < 128)), (6, true), "{hand:?}");
        }
        assert_eq!(deal(7, 1, 1), [0]);
        assert_eq!(deal(7, 3, 3).len(), 3);
    }

    #[test]
    fn dealing_needs_bits() {
        assert_eq!((bits_to_deal(64, 8), bits_to_deal(128, 6), bits_to_deal(1, 1)), (48, 42, 0));
        assert!(bits_to_deal(10_000_000, 3) > 60);
    }
}
