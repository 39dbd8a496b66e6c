//! The rules of numbers: what their type and format can hold, bounds and steps.
//!
//! As the API has it, bounds and steps of an integer value are themselves cut to integers, and a bound that the type cannot
//! hold refuses every value.

use super::Outcome;
use crate::node::Rules;
use pintle_meta::field::{Error, Path};
use serde_json::{Number, Value};

pub(super) fn check(rules: &Rules, path: &str, number: &Number, outcome: &mut Outcome) {
    let Some(value) = number.as_f64() else { return };
    outcome.matched += 2;
    let check = Check { rules, path, number, value, integer: number.as_i64() };
    let errors = &mut outcome.errors;
    errors.extend(check.fits_type("Checked", check.integer, value));
    if let Some(step) = rules.multiple_of {
        errors.extend(check.step(step));
    }
    if let Some(least) = rules.minimum {
        let words = if rules.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        errors.extend(check.bound("Minimum boundary", least, rules.exclusive_minimum, words, |a, b| a < b));
    }
    if let Some(most) = rules.maximum {
        let words = if rules.exclusive_maximum { "less than" } else { "less than or equal to" };
        errors.extend(check.bound("Maximum boundary", most, rules.exclusive_maximum, words, |a, b| a > b));
    }
}

/// Whether JSON would take a number for an integer.
pub(super) fn is_whole(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    number.abs() <= LARGEST && (number.fract() == 0.0 || (number - number.round()).abs() / number.abs() / 2.0 < 1e-9)
}

struct Check<'a> {
    rules: &'a Rules,
    path: &'a str,
    number: &'a Number,
    value: f64,
    integer: Option<i64>,
}

impl Check<'_> {
    /// What the type and its format cannot hold.
    fn fits_type(&self, what: &str, integer: Option<i64>, value: f64) -> Option<Error> {
        let format = self.rules.format.as_deref();
        let held = match (self.rules.value_type.as_deref(), format) {
            (Some("integer"), format) => {
                // Only a number without a fraction reads as an integer.
                #[expect(clippy::cast_possible_truncation, reason = "in range, and without a fraction")]
                let whole = || (value.fract() == 0.0 && value.abs() < 9.2e18).then_some(value as i64);
                let integer = integer.or_else(whole);
                integer.is_some_and(|integer| format != Some("int32") || i32::try_from(integer).is_ok())
            }
            #[expect(clippy::cast_possible_truncation, reason = "whether it can be narrowed is the question")]
            (Some("number"), Some("float")) => (value as f32).is_finite(),
            _ => true,
        };
        if held {
            return None;
        }
        let wanted = self.rules.value_type.as_deref().unwrap_or_default();
        let format = format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
        let detail = format!("{what} value must be of type {wanted} {format} in {}", self.path);
        Some(Error::invalid(&Path::root(), "", detail))
    }

    fn bound(
        &self,
        what: &str,
        bound: f64,
        exclusive: bool,
        words: &str,
        beyond: impl Fn(f64, f64) -> bool,
    ) -> Vec<Error> {
        let mut errors: Vec<Error> = self.fits_type(what, None, bound).into_iter().collect();
        let bound = if errors.is_empty() && self.integer.is_some() { bound.trunc() } else { bound };
        if beyond(self.value, bound) || (exclusive && self.value == bound) {
            errors.push(self.refused(format!("should be {words} {bound}")));
        }
        errors
    }

    fn step(&self, step: f64) -> Vec<Error> {
        let mut errors: Vec<Error> = self.fits_type("MultipleOf", None, step).into_iter().collect();
        #[expect(clippy::cast_possible_truncation, reason = "a step of integers is an integer")]
        let fits = match self.integer.filter(|_| errors.is_empty()) {
            Some(integer) => {
                let step = step as i64;
                (step > 0).then(|| integer % step == 0).ok_or_else(|| Value::from(step))
            }
            None if step > 0.0 => Ok(is_whole(if step < 1.0 { 1.0 / step * self.value } else { self.value / step })),
            None => Err(Value::from(step)),
        };
        match fits {
            Ok(true) => {}
            Ok(false) => errors.push(self.refused(format!("should be a multiple of {step}"))),
            Err(step) => {
                let detail = format!("factor MultipleOf declared for {} must be positive: {step}", self.path);
                errors.push(Error::invalid(&Path::new(self.path), step, detail));
            }
        }
        errors
    }

    fn refused(&self, detail: String) -> Error {
        let detail = format!("{} in body {detail}", self.path);
        Error::invalid(&Path::new(self.path), Value::Number(self.number.clone()), detail)
    }
}
