//! What `calc` understands: sums of decimal numbers, worked out exactly. Pure.

use std::fmt;

use super::fraction::{Fraction, FractionError};
use crate::base::text::printable;

/// Characters of an expression (contract 6).
const LENGTH_MOST: usize = 1024;
/// Parentheses within parentheses: more than anybody writes, far less than a stack holds.
const DEPTH_MOST: usize = 64;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalcError {
    /// More than 1024 characters.
    TooLong,
    /// More than 64 parentheses within each other.
    TooDeep,
    /// Something that does not belong there: the character and its place, from 1.
    Unexpected(char, usize),
    /// It ends where something should follow.
    Unfinished,
    /// A division by zero.
    Division,
    /// A number or a result beyond the bounds.
    Range,
}

impl fmt::Display for CalcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CalcError::TooLong => write!(f, "an expression has at most {LENGTH_MOST} characters"),
            CalcError::TooDeep => write!(f, "at most {DEPTH_MOST} parentheses within each other"),
            CalcError::Unexpected(c, place) => write!(
                f,
                "`{}` at character {place} is not expected there; numbers like 1.5 or 2e3, + - * / and parentheses are",
                printable(&c.to_string())
            ),
            CalcError::Unfinished => {
                f.write_str("the expression ends where a number or a parenthesis should follow")
            }
            CalcError::Division => f.write_str("division by zero"),
            CalcError::Range => f.write_str("a number or a result is too large, too small or too long"),
        }
    }
}

impl std::error::Error for CalcError {}

impl From<FractionError> for CalcError {
    fn from(error: FractionError) -> CalcError {
        match error {
            FractionError::Division => CalcError::Division,
            FractionError::Range => CalcError::Range,
        }
    }
}

/// The value of an expression of `+ - * / ( )`, signs, decimals and exponents.
///
/// # Errors
/// A [`CalcError`].
pub fn value(expression: &str) -> Result<Fraction, CalcError> {
    let text: Vec<char> = expression.chars().take(LENGTH_MOST + 1).collect();
    if text.len() > LENGTH_MOST {
        return Err(CalcError::TooLong);
    }
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.unexpected()),
    }
}

struct Reader {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl Reader {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn unexpected(&self) -> CalcError {
        match self.text.get(self.at) {
            Some(c) => CalcError::Unexpected(*c, self.at + 1),
            None => CalcError::Unfinished,
        }
    }

    fn sum(&mut self) -> Result<Fraction, CalcError> {
        let mut value = self.term()?;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            self.at += 1;
            let next = self.term()?;
            value = value.plus(&if sign == '-' { next.negated() } else { next })?;
        }
        Ok(value)
    }

    fn term(&mut self) -> Result<Fraction, CalcError> {
        let mut value = self.signed()?;
        while let Some(sign @ ('*' | '/')) = self.peek() {
            self.at += 1;
            let next = self.signed()?;
            value = if sign == '*' {
                value.times(&next)?
            } else {
                value.over(&next)?
            };
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<Fraction, CalcError> {
        let mut negative = false;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            self.at += 1;
            negative ^= sign == '-';
        }
        let value = match self.peek() {
            Some('(') => self.inner()?,
            _ => self.number()?,
        };
        Ok(if negative { value.negated() } else { value })
    }

    fn inner(&mut self) -> Result<Fraction, CalcError> {
        if self.depth == DEPTH_MOST {
            return Err(CalcError::TooDeep);
        }
        self.at += 1;
        self.depth += 1;
        let value = self.sum()?;
        if self.peek() != Some(')') {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }

    fn digits(&mut self, into: &mut String) -> usize {
        let from = self.at;
        while let Some(c) = self.text.get(self.at).filter(|c| c.is_ascii_digit()) {
            into.push(*c);
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Fraction, CalcError> {
        let mut digits = String::new();
        let whole = self.digits(&mut digits);
        let mut part = 0;
        if self.text.get(self.at) == Some(&'.') {
            self.at += 1;
            part = self.digits(&mut digits);
        }
        if whole + part == 0 {
            return Err(self.unexpected());
        }
        let mut tens = 0_i64;
        if let Some('e' | 'E') = self.text.get(self.at) {
            self.at += 1;
            let down = match self.text.get(self.at) {
                Some(sign @ ('+' | '-')) => {
                    self.at += 1;
                    *sign == '-'
                }
                _ => false,
            };
            let mut power = String::new();
            if self.digits(&mut power) == 0 {
                return Err(self.unexpected());
            }
            // A power that is no i64 is beyond every bound; of zero it is zero all the same.
            let power = power.parse::<i64>().unwrap_or(i64::MAX);
            tens = if down { -power } else { power };
        }
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        Ok(Fraction::new(&digits, tens.saturating_sub(part))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dice::Dice;

    #[test]
    fn expressions_have_the_value_that_people_expect() {
        for (expression, text) in [
            ("0.1+0.2", "0.3"),
            ("1 - 0.9", "0.1"),
            ("2+3*4", "14"),
            ("(2+3)*4", "20"),
            ("10-4-3", "3"),
            ("100/10/5", "2"),
            ("-2*-3", "6"),
            ("--5", "5"),
            ("+ - + 5", "-5"),
            ("2--3", "5"),
            ("1/3*3", "1"),
            ("1/3+1/6", "0.5"),
            ("1/3-1/3", "0"),
            ("2/3", "0.666666666666666666666666666667"),
            (".5+5.", "5.5"),
            ("1e3 + 2.5E-1", "1000.25"),
            ("1e300*1e300/1e300", "1e300"),
            ("0e999999999999999999999", "0"),
            ("0*1e5", "0"),
            ("19.99*3", "59.97"),
            ("1234.56 * 0.21", "259.2576"),
            (
                "99999999999999999999*99999999999999999999",
                "9999999999999999999800000000000000000001",
            ),
            ("\t( 1 )\n", "1"),
        ] {
            assert_eq!(
                value(expression).map(|n| n.to_string()),
                Ok(text.to_owned()),
                "{expression}"
            );
        }
    }

    #[test]
    fn what_has_no_value_is_told_with_its_place() {
        let deep = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        for (expression, error) in [
            ("", CalcError::Unfinished),
            ("  ", CalcError::Unfinished),
            ("1+", CalcError::Unfinished),
            ("(1", CalcError::Unfinished),
            ("1)", CalcError::Unexpected(')', 2)),
            ("()", CalcError::Unexpected(')', 2)),
            ("1,5", CalcError::Unexpected(',', 2)),
            ("2^3", CalcError::Unexpected('^', 2)),
            ("1 2", CalcError::Unexpected('2', 3)),
            ("2(3)", CalcError::Unexpected('(', 2)),
            (".", CalcError::Unfinished),
            ("1.2.3", CalcError::Unexpected('.', 4)),
            ("2e", CalcError::Unfinished),
            ("2e+x", CalcError::Unexpected('x', 4)),
            ("e5", CalcError::Unexpected('e', 1)),
            ("inf", CalcError::Unexpected('i', 1)),
            ("0x10", CalcError::Unexpected('x', 2)),
            ("1/0", CalcError::Division),
            ("1/(0.1+0.2-0.3)", CalcError::Division),
            ("0/0", CalcError::Division),
            ("1e1001", CalcError::Range),
            ("1e-1002", CalcError::Range),
            ("1e999999999999999999999", CalcError::Range),
            ("1e600*1e600", CalcError::Range),
            ("1e-600/1e600", CalcError::Range),
            (&"9".repeat(1024), CalcError::Range),
            (&"1".repeat(1025), CalcError::TooLong),
            (&deep(65), CalcError::TooDeep),
            (&deep(400), CalcError::TooDeep),
        ] {
            assert_eq!(value(expression), Err(error), "{expression}");
        }
        assert!(value(&deep(64)).is_ok());
        assert!(value(&("-".repeat(1023) + "1")).is_ok());
    }

    /// The most work that can be written in 1024 characters ends at a bound, and soon.
    #[test]
    fn no_expression_is_endless_work() {
        let began = std::time::Instant::now();
        let wide = "(1e400+1e-400)";
        for expression in [
            vec![wide; 68].join("*"),
            vec![wide; 68].join("/"),
            vec![wide; 68].join("+"),
            "1/7+".repeat(255) + "1",
            "9/7*".repeat(255) + "1",
            (2..300)
                .map(|n| format!("1/{n}"))
                .collect::<Vec<_>>()
                .join("+")[..1023]
                .to_owned(),
        ] {
            let _ = value(&expression);
        }
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }

    #[test]
    fn no_text_makes_it_panic() {
        let signs: Vec<char> = "0123456789.eE+-*/() ñ,".chars().collect();
        let mut dice = Dice::new(3);
        for _ in 0..20_000 {
            let text: String = (0..dice.roll(24))
                .map(|_| signs[dice.roll(signs.len())])
                .collect();
            if let Ok(number) = value(&text) {
                let _ = number.to_string();
            }
        }
    }
}
