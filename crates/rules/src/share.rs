//! Numbers that may be given as a part of a whole: `3` or `25%`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What becomes of a part that is no whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    Up,
    Down,
}

/// The number that is meant. What is neither a number nor a percentage counts as 0.
pub fn share(value: &IntOrString, whole: i32, round: Round) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
            let product = percent.saturating_mul(i64::from(whole));
            let part = if round == Round::Up { product.saturating_add(99) / 100 } else { product / 100 };
            i32::try_from(part).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_as_asked_and_nothing_overflows() {
        let of = |text: &str, whole: i32, round: Round| share(&IntOrString::String(text.to_owned()), whole, round);
        assert_eq!((of("25%", 10, Round::Up), of("25%", 10, Round::Down)), (3, 2));
        assert_eq!((of("100%", 7, Round::Up), of("0%", 7, Round::Up)), (7, 0));
        assert_eq!(of("9223372036854775807%", 1000, Round::Up), i32::MAX);
        assert_eq!(of("many", 1000, Round::Up), 0);
        assert_eq!(share(&IntOrString::Int(4), 1, Round::Down), 4);
    }
}
