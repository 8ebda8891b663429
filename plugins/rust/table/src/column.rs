//! One column: what its cells are, and their statistics.

use std::collections::HashSet;

use layby_plugin::prelude::*;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Integer,
    Number,
    Boolean,
    Text,
    /// There is no cell with anything in it.
    Empty,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Text => "text",
            Kind::Empty => "empty",
        }
    }
}

/// The smallest, the largest, and the sum of what was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The sum is `sum / unit`; see [`Numbers::add`].
    sum: f64,
    unit: f64,
}

/// Of a sum that is no finite number.
const UNIT: f64 = 1.0 / (1_u128 << 64) as f64;

impl Numbers {
    /// Adds to the sum, which of finite numbers may be none: from where it is too large on, it is kept in units
    /// of 2^64, which is as exact. No table has so many rows that even that ends.
    fn add(&mut self, value: f64) {
        let mut sum = self.sum + value * self.unit;
        if !sum.is_finite() {
            self.unit = UNIT;
            sum = self.sum * UNIT + value * UNIT;
        }
        self.sum = sum;
    }
}

/// A column, as far as it has been read.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) values: u64,
    pub(crate) missing: u64,
    seen: HashSet<Box<str>>,
    /// What all cells so far could be.
    integer: bool,
    number: bool,
    boolean: bool,
    numbers: Numbers,
    /// In characters.
    pub(crate) shortest: usize,
    pub(crate) longest: usize,
}

impl Column {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: 0,
            missing: 0,
            seen: HashSet::new(),
            integer: true,
            number: true,
            boolean: true,
            numbers: Numbers { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, unit: 1.0 },
            shortest: usize::MAX,
            longest: 0,
        }
    }

    /// Takes the next cell, without the blanks around it.
    pub(crate) fn take(&mut self, cell: &str) {
        if cell.is_empty() {
            self.missing += 1;
            return;
        }
        self.values += 1;
        if !self.seen.contains(cell) {
            self.seen.insert(cell.into());
        }
        self.integer = self.integer && is_integer(cell);
        self.boolean =
            self.boolean && (cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false"));
        match number(cell).filter(|_| self.number) {
            Some(value) => {
                self.numbers.min = self.numbers.min.min(value);
                self.numbers.max = self.numbers.max.max(value);
                self.numbers.add(value);
            }
            None => self.number = false,
        }
        let length = cell.chars().count();
        self.shortest = self.shortest.min(length);
        self.longest = self.longest.max(length);
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            _ if self.values == 0 => Kind::Empty,
            _ if self.integer => Kind::Integer,
            _ if self.number => Kind::Number,
            _ if self.boolean => Kind::Boolean,
            _ => Kind::Text,
        }
    }

    pub(crate) fn distinct(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(crate) fn numbers(&self) -> Option<Numbers> {
        matches!(self.kind(), Kind::Integer | Kind::Number).then_some(self.numbers)
    }

    pub(crate) fn mean(&self) -> f64 {
        let Numbers { min, max, sum, unit } = self.numbers;
        let mean = sum / self.values as f64 / unit;
        // What was rounded up could lie beyond all numbers.
        if unit < 1.0 { mean.max(min).min(max) } else { mean }
    }
}

fn without_sign(cell: &str) -> &str {
    cell.strip_prefix(['+', '-']).unwrap_or(cell)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[+-]?[0-9]{1,15}`: what a double holds exactly.
fn is_integer(cell: &str) -> bool {
    let digits = without_sign(cell);
    (1..=15).contains(&digits.len()) && all_digits(digits)
}

/// `[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?`, where it is finite. Rust's own syntax
/// also has `inf`, and exponents of any length.
fn number(cell: &str) -> Option<f64> {
    let unsigned = without_sign(cell);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(without_sign(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.len() + fraction.len() > 0 && all_digits(whole) && all_digits(fraction);
    let exponent = exponent.is_none_or(|e| (1..=3).contains(&e.len()) && all_digits(e));
    let value: f64 = (digits && exponent).then(|| cell.parse().ok()).flatten()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cells: &[&str]) -> Kind {
        let mut column = Column::new("c");
        cells.iter().for_each(|cell| column.take(cell));
        column.kind()
    }

    #[test]
    fn a_column_is_what_all_of_its_cells_are() {
        let cases: [(&[&str], Kind); 11] = [
            (&[], Kind::Empty),
            (&["", ""], Kind::Empty),
            (&["1", "-2", "+003", ""], Kind::Integer),
            (&["999999999999999"], Kind::Integer),
            (&["9999999999999999"], Kind::Number),
            (&["1", ".5", "2.", "1e3", "-1.5E-02"], Kind::Number),
            (&["TRUE", "false", "False"], Kind::Boolean),
            (&["true", "1"], Kind::Text),
            (&["1", "x"], Kind::Text),
            (&["1e999"], Kind::Text),
            (&["1", "true"], Kind::Text),
        ];
        for (cells, expected) in cases {
            assert_eq!(kind(cells), expected, "{cells:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        for cell in ["inf", "NaN", ".", "+", "-.", "1e", "1e+", "1e1234", "1 2", "0x10", "1_000", "--1", "٣"]
        {
            assert_eq!(kind(&[cell]), Kind::Text, "{cell}");
        }
    }

    #[test]
    fn a_sum_too_large_has_a_mean() {
        let cases: [(&[&str], f64); 4] = [
            (&["1e308", "1.7e308"], 1.35e308),
            (&["-1e308", "-1.7e308", "1"], -9e307),
            (&["1.7e308", "1.7e308", "-1.7e308", "-1.7e308"], 0.0),
            (&["1.7976931348623157e308"; 3], f64::MAX),
        ];
        for (cells, mean) in cases {
            let mut column = Column::new("c");
            cells.iter().for_each(|cell| column.take(cell));
            assert_eq!(column.mean(), mean, "{cells:?}");
        }
    }

    #[test]
    fn cells_are_counted_by_their_text() {
        let mut column = Column::new("c");
        ["1", "1.0", "1", "", "01"].iter().for_each(|cell| column.take(cell));
        assert_eq!((column.values, column.missing, column.distinct()), (4, 1, 3));
        assert_eq!((column.shortest, column.longest), (1, 3));
        assert_eq!(column.mean(), 1.0);
    }
}
