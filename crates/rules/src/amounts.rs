//! A list of resources with their amounts, such as `cpu: 500m, memory: 1Gi`.

use pintle_meta::quantity::Quantity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Amounts by the name of their resource, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// From the map of an object. What is no amount is left out: validation has refused it.
    pub fn of(map: Option<&Value>) -> Self {
        let map = map.and_then(Value::as_object).into_iter().flatten();
        Amounts(map.filter_map(|(name, value)| Some((name.clone(), parse(value)?))).collect())
    }

    pub fn to_value(&self) -> Value {
        let map: Map<String, Value> =
            self.0.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
        Value::Object(map)
    }

    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn add(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |own| own + amount);
            self.set(name, sum);
        }
    }

    /// Each amount becomes the greater of both.
    pub fn raise_to(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|own| amount > own) {
                self.set(name, amount);
            }
        }
    }

    /// How much more this is; zero where it is less.
    #[must_use]
    pub fn above(&self, other: &Amounts) -> Amounts {
        let mut difference = Amounts::default();
        for (name, amount) in self.iter() {
            let more = other.get(name).map_or(amount, |other| amount - other);
            let nothing = more.is_negative() || more.is_zero();
            difference.set(name, if nothing { Quantity::from_units(0) } else { more });
        }
        difference
    }

    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Amounts {
        Amounts(self.0.iter().filter(|(name, _)| wanted(name)).map(|(name, amount)| (name.clone(), *amount)).collect())
    }

    #[must_use]
    pub fn without_zeros(&self) -> Amounts {
        Amounts(self.0.iter().filter(|(_, a)| !a.is_zero()).map(|(name, amount)| (name.clone(), *amount)).collect())
    }
}

/// `cpu=1,memory=2Gi`, as messages of the API have it.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, amount)) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(pairs: I) -> Self {
        Amounts(pairs.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

/// An amount is written as a text or as a number.
fn parse(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amounts(value: Value) -> Amounts {
        Amounts::of(Some(&value))
    }

    #[test]
    fn amounts_add_up_by_name() {
        let mut sum = amounts(json!({"cpu": "500m", "pods": 1}));
        sum.add(&amounts(json!({"cpu": "1", "memory": "1Gi"})));
        assert_eq!(sum.to_string(), "cpu=1500m,memory=1Gi,pods=1");
        assert_eq!(sum.to_value(), json!({"cpu": "1500m", "memory": "1Gi", "pods": "1"}));
        sum.raise_to(&amounts(json!({"cpu": "1", "pods": "7"})));
        assert_eq!(sum.to_string(), "cpu=1500m,memory=1Gi,pods=7");
    }

    #[test]
    fn what_shrinks_gives_nothing_back() {
        let (new, old) =
            (amounts(json!({"cpu": "2", "memory": "1Gi"})), amounts(json!({"cpu": "1500m", "memory": "2Gi"})));
        assert_eq!(new.above(&old).to_string(), "cpu=500m,memory=0");
        assert_eq!(new.above(&old).without_zeros().to_string(), "cpu=500m");
    }
}
