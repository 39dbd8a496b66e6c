//! How many seats each level has: its own share, less what it lends, plus what it borrows.

/// What a level may have and wants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wish {
    /// The share that its configuration gives it.
    pub nominal: u32,
    /// What it never goes below, and never above.
    pub least: u32,
    pub most: u32,
    /// The most seats that were wanted at once recently, and how many are wanted usually.
    pub peak: u32,
    pub usual: f64,
}

impl Wish {
    /// What it must get now: what it wants of its own share, also if that was lent.
    fn floor(&self) -> f64 {
        f64::from(self.least.max(self.nominal.min(self.peak)))
    }

    fn ceiling(&self) -> f64 {
        f64::from(self.most).max(self.floor())
    }

    fn target(&self) -> f64 {
        self.usual.max(self.floor()).max(0.001)
    }
}

/// Shares all seats out: each level gets the same multiple of what it wants, within its bounds.
pub fn grant(wishes: &[Wish]) -> Vec<u32> {
    let all: f64 = wishes.iter().map(|wish| f64::from(wish.nominal)).sum();
    let given = |multiple: f64| -> f64 {
        wishes.iter().map(|wish| (wish.target() * multiple).clamp(wish.floor(), wish.ceiling())).sum()
    };
    // What is given grows with the multiple: the right one is found by halves.
    let (mut low, mut high) = (0.0, 1.0);
    while given(high) < all && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if given(middle) < all { low = middle } else { high = middle }
    }
    let seats = |wish: &Wish| (wish.target() * high).clamp(wish.floor(), wish.ceiling()).round() as u32;
    wishes.iter().map(seats).collect()
}

/// How many seats were wanted over time: the most at once, the average, and how far it strayed from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    now: u32,
    peak: u32,
    seconds: f64,
    sum: f64,
    squares: f64,
    /// Falls slowly, rises at once.
    usual: f64,
}

/// How much of the old value is left after each adjustment: half of it after five minutes.
const MEMORY: f64 = 0.977;

impl Demand {
    pub fn set(&mut self, wanted: u32, seconds_since: f64) {
        let now = f64::from(self.now);
        self.seconds += seconds_since;
        self.sum += now * seconds_since;
        self.squares += now * now * seconds_since;
        self.now = wanted;
        self.peak = self.peak.max(wanted);
    }

    /// The end of a period: the peak and the usual value.
    pub fn settle(&mut self) -> (u32, f64) {
        let peak = self.peak;
        let (average, strays) = if self.seconds > 0.0 {
            let average = self.sum / self.seconds;
            (average, (self.squares / self.seconds - average * average).max(0.0).sqrt())
        } else {
            (f64::from(self.now), 0.0)
        };
        let envelope = (average + strays).min(f64::from(peak));
        self.usual = envelope.max(MEMORY * self.usual + (1.0 - MEMORY) * envelope);
        (self.peak, self.seconds, self.sum, self.squares) = (self.now, 0.0, 0.0, 0.0);
        (peak, self.usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(nominal: u32, lends: u32, peak: u32) -> Wish {
        Wish { nominal, least: nominal - lends, most: nominal + 600, peak, usual: f64::from(peak) }
    }

    #[test]
    fn a_busy_level_borrows_what_others_lend_and_no_more() {
        // Nobody wants anything: everybody keeps at least what it does not lend.
        let quiet = grant(&[wish(100, 90, 0), wish(40, 20, 0)]);
        assert_eq!(quiet.iter().sum::<u32>(), 140);
        // One wants everything, the other nothing: it gets what may be lent.
        assert_eq!(grant(&[wish(100, 90, 0), wish(40, 20, 500)]), [10, 130]);
        // The other wants its own back.
        assert_eq!(grant(&[wish(100, 90, 100), wish(40, 20, 500)]), [100, 40]);
        // Nothing is lent.
        assert_eq!(grant(&[wish(100, 0, 0), wish(40, 0, 500)]), [100, 40]);
    }

    #[test]
    fn a_limit_on_borrowing_holds() {
        let limited = Wish { most: 50, ..wish(40, 20, 500) };
        assert_eq!(grant(&[wish(100, 90, 0), limited])[1], 50);
    }

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let mut demand = Demand::default();
        demand.set(10, 0.0);
        demand.set(0, 10.0);
        assert_eq!(demand.settle(), (10, 10.0));
        demand.set(0, 10.0);
        let (peak, usual) = demand.settle();
        assert_eq!(peak, 0);
        assert!(usual > 9.0 && usual < 10.0, "{usual}");
    }
}
