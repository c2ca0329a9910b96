//! Exact numbers: fractions whose numerator and denominator have as many decimal digits as they
//! need, up to a bound. Pure. Beyond the bound an operation is an error, never a rounded value;
//! only what is shown may be rounded.

use std::cmp::Ordering;
use std::fmt;

/// Digits of a numerator or denominator: what an expression of 1024 characters comes to without
/// tricks, and a multiplication stays below some milliseconds on a small machine.
const DIGITS_MOST: usize = 2048;
/// The largest power of ten that a value may reach, up or down.
const POWER_MOST: i64 = 1000;
/// A value that has an end is shown whole up to so many significant digits.
const WHOLE_MOST: usize = 100;
/// Any other value is shown rounded to so many significant digits, half to even.
const ROUNDED: usize = 30;
/// Digits before the point, and zeros behind it, that are written out before an exponent is.
const PLAIN_MOST: i64 = 40;
/// Zeros behind the point that are written out before an exponent is.
const ZEROS_MOST: i64 = 10;

/// Decimal digits, the lowest first, without zeros at the high end; none for zero.
type Digits = Vec<u8>;

/// A number: a sign, `top / bottom`, and a power of ten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fraction {
    negative: bool,
    top: Digits,
    bottom: Digits,
    tens: i64,
}

/// Why an operation has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FractionError {
    /// By zero.
    Division,
    /// More digits than fit, or a magnitude beyond the bound.
    Range,
}

impl Fraction {
    /// The number of these decimal digits (ASCII, the highest first) times a power of ten.
    ///
    /// # Errors
    /// `Range` where it is beyond the bounds.
    pub fn new(digits: &str, tens: i64) -> Result<Fraction, FractionError> {
        let top = digits.bytes().rev().map(|byte| byte - b'0').collect();
        Fraction::of(false, top, vec![1], tens)
    }

    fn of(
        negative: bool,
        mut top: Digits,
        mut bottom: Digits,
        mut tens: i64,
    ) -> Result<Fraction, FractionError> {
        trim(&mut top);
        if top.is_empty() {
            return Ok(Fraction {
                negative: false,
                top,
                bottom: vec![1],
                tens: 0,
            });
        }
        tens = tens.saturating_add(drop_low_zeros(&mut top));
        tens = tens.saturating_sub(drop_low_zeros(&mut bottom));
        let power = tens.saturating_add(length(&top) - length(&bottom));
        if top.len().max(bottom.len()) > DIGITS_MOST || power.saturating_abs() > POWER_MOST {
            return Err(FractionError::Range);
        }
        Ok(Fraction {
            negative,
            top,
            bottom,
            tens,
        })
    }

    /// The same with the other sign.
    #[must_use]
    pub fn negated(mut self) -> Fraction {
        self.negative = !self.negative && !self.top.is_empty();
        self
    }

    /// The sum.
    ///
    /// # Errors
    /// `Range`.
    pub fn plus(&self, other: &Fraction) -> Result<Fraction, FractionError> {
        let tens = match (self.top.is_empty(), other.top.is_empty()) {
            (true, _) => return Ok(other.clone()),
            (_, true) => return Ok(self.clone()),
            _ => self.tens.min(other.tens),
        };
        let (mut a, mut b) = (shifted(self, tens)?, shifted(other, tens)?);
        let bottom = if self.bottom == other.bottom {
            self.bottom.clone()
        } else {
            a = product(&a, &other.bottom)?;
            b = product(&b, &self.bottom)?;
            product(&self.bottom, &other.bottom)?
        };
        let (negative, top) = if self.negative == other.negative {
            (self.negative, sum(&a, &b))
        } else if compare(&a, &b) == Ordering::Less {
            subtract(&mut b, &a);
            (other.negative, b)
        } else {
            subtract(&mut a, &b);
            (self.negative, a)
        };
        Fraction::of(negative, top, bottom, tens)
    }

    /// The product.
    ///
    /// # Errors
    /// `Range`.
    pub fn times(&self, other: &Fraction) -> Result<Fraction, FractionError> {
        Fraction::of(
            self.negative != other.negative,
            product(&self.top, &other.top)?,
            product(&self.bottom, &other.bottom)?,
            self.tens + other.tens,
        )
    }

    /// The quotient.
    ///
    /// # Errors
    /// `Division` by zero, `Range`.
    pub fn over(&self, other: &Fraction) -> Result<Fraction, FractionError> {
        if other.top.is_empty() {
            return Err(FractionError::Division);
        }
        Fraction::of(
            self.negative != other.negative,
            product(&self.top, &other.bottom)?,
            product(&self.bottom, &other.top)?,
            self.tens - other.tens,
        )
    }

    /// The digits that are shown, the highest first, and the power of ten of the last of them.
    fn decimal(&self) -> (Vec<u8>, i64) {
        let (mut digits, mut tens) = (Vec::new(), self.tens);
        let mut rest = Digits::new();
        let mut next = |rest: &mut Digits, digit: u8| {
            if digit != 0 || !rest.is_empty() {
                rest.insert(0, digit);
            }
            let mut times = 0;
            while compare(rest, &self.bottom) != Ordering::Less {
                subtract(rest, &self.bottom);
                times += 1;
            }
            if times != 0 || !digits.is_empty() {
                digits.push(times);
            }
            digits.len()
        };
        let mut shown = 0;
        for digit in self.top.iter().rev() {
            shown = next(&mut rest, *digit);
        }
        while !rest.is_empty() && shown <= WHOLE_MOST {
            shown = next(&mut rest, 0);
            tens -= 1;
        }
        let end = digits.iter().rposition(|digit| *digit != 0).unwrap_or(0) + 1;
        if !rest.is_empty() || end > WHOLE_MOST {
            tens += round(&mut digits, !rest.is_empty());
        }
        while digits.len() > 1 && digits.last() == Some(&0) {
            digits.pop();
            tens += 1;
        }
        (digits, tens)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.top.is_empty() {
            return f.write_str("0");
        }
        let (digits, tens) = self.decimal();
        let digits: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
        let sign = if self.negative { "-" } else { "" };
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        // Digits before the point.
        let point = i64::try_from(digits.len()).unwrap_or(i64::MAX) + tens;
        if tens == 0 || (tens > 0 && point <= PLAIN_MOST) {
            write!(f, "{sign}{digits}{}", zeros(tens))
        } else if tens < 0 && point > 0 {
            let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or(0));
            write!(f, "{sign}{whole}.{part}")
        } else if tens < 0 && -point <= ZEROS_MOST {
            write!(f, "{sign}0.{}{digits}", zeros(-point))
        } else {
            let (first, part) = digits.split_at(1);
            let dot = if part.is_empty() { "" } else { "." };
            write!(f, "{sign}{first}{dot}{part}e{}", point - 1)
        }
    }
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

fn trim(digits: &mut Digits) {
    while digits.last() == Some(&0) {
        digits.pop();
    }
}

fn drop_low_zeros(digits: &mut Digits) -> i64 {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    i64::try_from(zeros).unwrap_or(i64::MAX)
}

/// The numerator as it is at a lower power of ten.
fn shifted(number: &Fraction, tens: i64) -> Result<Digits, FractionError> {
    let zeros = usize::try_from(number.tens - tens).map_err(|_| FractionError::Range)?;
    if zeros + number.top.len() > 2 * DIGITS_MOST {
        return Err(FractionError::Range);
    }
    let mut digits = vec![0; zeros];
    digits.extend_from_slice(&number.top);
    Ok(digits)
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.len()
        .cmp(&b.len())
        .then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn sum(a: &[u8], b: &[u8]) -> Digits {
    let mut out = Digits::with_capacity(a.len().max(b.len()) + 1);
    let mut carry = 0;
    for place in 0..a.len().max(b.len()) {
        let at = |digits: &[u8]| digits.get(place).copied().unwrap_or(0);
        let digit = at(a) + at(b) + carry;
        out.push(digit % 10);
        carry = digit / 10;
    }
    if carry > 0 {
        out.push(carry);
    }
    out
}

/// Takes `b` from `a`, which is not smaller.
fn subtract(a: &mut Digits, b: &[u8]) {
    let mut borrow = 0;
    for (place, digit) in a.iter_mut().enumerate() {
        let less = b.get(place).copied().unwrap_or(0) + borrow;
        borrow = u8::from(*digit < less);
        *digit = *digit + 10 * borrow - less;
        if borrow == 0 && place >= b.len() {
            break;
        }
    }
    trim(a);
}

fn product(a: &[u8], b: &[u8]) -> Result<Digits, FractionError> {
    if a.len() + b.len() > 2 * DIGITS_MOST {
        return Err(FractionError::Range);
    }
    // Each place is at most 81 times the digits: far below what the type holds.
    let mut places = vec![0_u32; a.len() + b.len()];
    for (i, x) in a.iter().enumerate() {
        for (place, y) in places[i..].iter_mut().zip(b) {
            *place += u32::from(*x) * u32::from(*y);
        }
    }
    let mut carry = 0;
    let mut out: Digits = places
        .into_iter()
        .map(|place| {
            let all = place + carry;
            carry = all / 10;
            u8::try_from(all % 10).unwrap_or(0)
        })
        .collect();
    trim(&mut out);
    Ok(out)
}

/// Rounds to [`ROUNDED`] digits, half to even, and says by which power of ten that raises the last
/// one. `more` tells whether anything but zeros follows the digits.
fn round(digits: &mut Vec<u8>, more: bool) -> i64 {
    let tail = digits.split_off(ROUNDED.min(digits.len()));
    let Some((first, after)) = tail.split_first() else {
        return 0;
    };
    let beyond_half = more || after.iter().any(|digit| *digit != 0);
    let odd = digits.last().is_some_and(|digit| digit % 2 == 1);
    if *first > 5 || (*first == 5 && (beyond_half || odd)) {
        let mut carried = true;
        for digit in digits.iter_mut().rev() {
            carried = *digit == 9;
            *digit = if carried { 0 } else { *digit + 1 };
            if !carried {
                break;
            }
        }
        if carried {
            digits.insert(0, 1);
        }
    }
    length(&tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dice::Dice;

    fn whole(value: i128) -> Fraction {
        let number = Fraction::new(&value.unsigned_abs().to_string(), 0).unwrap();
        if value < 0 {
            number.negated()
        } else {
            number
        }
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (digits, tens, text) in [
            ("0", 5, "0"),
            ("000120", 0, "120"),
            ("3", -1, "0.3"),
            ("12345", -2, "123.45"),
            ("1", 39, "1000000000000000000000000000000000000000"),
            ("1", 40, "1e40"),
            ("25", 999, "2.5e1000"),
            ("1", -10, "0.0000000001"),
            ("1", -11, "0.00000000001"),
            ("12", -13, "1.2e-12"),
        ] {
            assert_eq!(Fraction::new(digits, tens).unwrap().to_string(), text);
        }
        for (digits, tens) in [("1", 1001), ("1", -1002), ("1", i64::MAX), ("1", i64::MIN)] {
            assert_eq!(Fraction::new(digits, tens), Err(FractionError::Range));
        }
    }

    #[test]
    fn what_has_no_end_is_rounded_half_to_even() {
        for (a, b, text) in [
            (1, 3, "0.333333333333333333333333333333"),
            (2, 3, "0.666666666666666666666666666667"),
            (-200, 3, "-66.6666666666666666666666666667"),
            (1, 8, "0.125"),
            (1, 1024, "0.0009765625"),
        ] {
            assert_eq!(whole(a).over(&whole(b)).unwrap().to_string(), text);
        }
        let rounded = |text: &str, more| {
            let mut digits: Vec<u8> = text.bytes().map(|byte| byte - b'0').collect();
            let tens = round(&mut digits, more);
            let text: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
            (text, tens)
        };
        let (ones, nines) = ("1".repeat(ROUNDED - 1), "9".repeat(ROUNDED));
        for (text, more, shown, tens) in [
            (format!("{ones}25"), false, format!("{ones}2"), 1),
            (format!("{ones}35"), false, format!("{ones}4"), 1),
            (format!("{ones}25"), true, format!("{ones}3"), 1),
            (format!("{ones}2501"), false, format!("{ones}3"), 3),
            (format!("{ones}2499"), true, format!("{ones}2"), 3),
            (
                format!("{nines}5"),
                false,
                format!("1{}", "0".repeat(ROUNDED)),
                1,
            ),
        ] {
            assert_eq!(rounded(&text, more), (shown, tens), "{text}");
        }
    }

    fn gcd(a: i128, b: i128) -> i128 {
        if b == 0 {
            a.abs()
        } else {
            gcd(b, a % b)
        }
    }

    /// Random operations on small numbers, beside the same on 128-bit fractions.
    #[test]
    fn arithmetic_is_that_of_rational_numbers() {
        let mut dice = Dice::new(7);
        let mut judged = 0;
        for _ in 0..4000 {
            let mut ours = whole(0);
            let mut theirs = (0_i128, 1_i128);
            for _ in 0..dice.roll(6) + 1 {
                let value = i128::try_from(dice.roll(41)).unwrap() - 20;
                let (top, bottom) = theirs;
                let (next, mirror) = match dice.roll(4) {
                    0 => (
                        ours.plus(&whole(value)),
                        Some((top + value * bottom, bottom)),
                    ),
                    1 => (
                        ours.plus(&whole(value).negated()),
                        Some((top - value * bottom, bottom)),
                    ),
                    2 => (ours.times(&whole(value)), Some((top * value, bottom))),
                    _ => (
                        ours.over(&whole(value)),
                        (value != 0).then_some((top * value.signum(), bottom * value.abs())),
                    ),
                };
                match (next, mirror) {
                    (Ok(number), Some((top, bottom))) => {
                        let shared = gcd(top, bottom).max(1);
                        ours = number;
                        theirs = (top / shared, bottom / shared);
                    }
                    (Err(FractionError::Division), None) => {}
                    other => panic!("{other:?}"),
                }
            }
            let (top, bottom) = theirs;
            if top.abs() >= 1_000_000 || bottom >= 10_000 {
                continue;
            }
            judged += 1;
            judge(&ours.to_string(), top, bottom);
        }
        assert!(judged > 1000, "{judged}");
    }

    /// Whether a text is `top / bottom`, exactly or to half a unit of its thirtieth digit.
    fn judge(text: &str, top: i128, bottom: i128) {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let shown: i128 = format!("{whole}{part}").parse().unwrap();
        let scale = 10_i128.pow(u32::try_from(part.len()).unwrap());
        let off = (shown * bottom - top * scale).abs();
        let digits = shown.abs().to_string().len();
        let exact_ends = {
            let mut rest = bottom;
            while rest % 2 == 0 {
                rest /= 2;
            }
            while rest % 5 == 0 {
                rest /= 5;
            }
            rest == 1
        };
        if exact_ends {
            assert_eq!(off, 0, "{text} for {top}/{bottom}");
        } else {
            assert!(off * 2 <= bottom, "{text} for {top}/{bottom}");
            // Fewer only where the last ones are zeros.
            assert!(digits <= ROUNDED && digits > ROUNDED - 6, "{text}");
        }
    }

    #[test]
    fn the_bounds_hold() {
        let long = Fraction::new(&"7".repeat(900), 0).unwrap();
        let square = long.times(&long);
        assert_eq!(square, Err(FractionError::Range), "a magnitude of 1800");
        let small = Fraction::new(&"7".repeat(900), -900).unwrap();
        let square = small.times(&small).unwrap();
        assert_eq!(square.times(&small), Err(FractionError::Range));
        let (big, tiny) = (Fraction::new("1", 900), Fraction::new("1", -900));
        assert!(big.unwrap().plus(&tiny.unwrap()).is_ok());
        assert_eq!(whole(1).over(&whole(0)), Err(FractionError::Division));
        assert_eq!(whole(0).negated(), whole(0));
    }
}
