//! Metric math on single datapoints: numbers, the ids of other queries, `+ - * /`, parentheses and
//! `FILL(query, number)` ("Using math expressions with `CloudWatch` metrics" in its user guide).

/// An expression that the stack can evaluate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Formula(Term);

impl Formula {
    /// Reads an expression; an error says what in it is not known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text, depth: 0 };
        let term = reader.sum()?;
        match reader.peek() {
            None => Ok(Self(term)),
            Some(_) => Err(reader.unknown()),
        }
    }

    /// The ids of the queries that it stands on.
    pub(crate) fn ids(&self) -> Vec<&str> {
        let mut ids = Vec::new();
        self.0.collect_ids(&mut ids);
        ids
    }

    /// Its value in one period, of the values that `of` gives of the queries. There is none where
    /// one that it takes is missing and not filled, and none of a division by zero.
    pub(super) fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.0.value(of).filter(|value| value.is_finite())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Id(String),
    Negative(Box<Term>),
    Operation(Box<Term>, Operator, Box<Term>),
    /// A term, and the number that stands in where it is missing.
    Fill(Box<Term>, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
        }
    }
}

impl Term {
    fn collect_ids<'a>(&'a self, ids: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Id(id) => ids.push(id),
            Self::Negative(term) | Self::Fill(term, _) => term.collect_ids(ids),
            Self::Operation(left, _, right) => {
                left.collect_ids(ids);
                right.collect_ids(ids);
            }
        }
    }

    fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Id(id) => of(id),
            Self::Negative(term) => Some(-term.value(of)?),
            Self::Operation(left, operator, right) => {
                Some(operator.of(left.value(of)?, right.value(of)?))
            }
            Self::Fill(term, number) => Some(term.value(of).unwrap_or(*number)),
        }
    }
}

/// Deep enough for any expression; without a limit, a hostile one overflows the stack.
const MAX_DEPTH: usize = 32;

/// Reads terms from what is left of an expression.
struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<Term, String> {
        let mut term = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(term),
            };
            self.skip();
            term = Term::Operation(Box::new(term), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Term, String> {
        let mut term = self.factor()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(term),
            };
            self.skip();
            term = Term::Operation(Box::new(term), operator, Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Term, String> {
        if self.depth == MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        self.depth += 1;
        let term = match self.peek() {
            Some('-') => {
                self.skip();
                Term::Negative(Box::new(self.factor()?))
            }
            Some('(') => {
                self.skip();
                let term = self.sum()?;
                self.expect(')')?;
                term
            }
            Some(character) if character.is_ascii_digit() || character == '.' => {
                Term::Number(self.number()?)
            }
            Some(character) if character.is_ascii_lowercase() => Term::Id(self.word().to_owned()),
            _ if self.rest.starts_with("FILL") => {
                self.word();
                self.expect('(')?;
                let term = self.sum()?;
                self.expect(',')?;
                let negative = self.peek() == Some('-');
                if negative {
                    self.skip();
                }
                let number = self.number()?;
                self.expect(')')?;
                Term::Fill(Box::new(term), if negative { -number } else { number })
            }
            _ => return Err(self.unknown()),
        };
        self.depth -= 1;
        Ok(term)
    }

    fn number(&mut self) -> Result<f64, String> {
        self.peek();
        let end =
            self.rest.find(|character: char| !(character.is_ascii_digit() || character == '.'));
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let number = number.parse().map_err(|_| self.unknown())?;
        self.rest = rest;
        Ok(number)
    }

    /// The letters, digits and underscores that stand next.
    fn word(&mut self) -> &str {
        let end = self
            .rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    /// Leaves out the character that was peeked at.
    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    fn expect(&mut self, expected: char) -> Result<(), String> {
        if self.peek() != Some(expected) {
            return Err(self.unknown());
        }
        self.skip();
        Ok(())
    }

    fn unknown(&self) -> String {
        if self.rest.is_empty() {
            return "the expression ends too early".to_owned();
        }
        format!(
            "{:?} is not known; the local stack evaluates numbers, ids, + - * /, parentheses and \
             FILL(query, number)",
            self.rest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let of = |id: &str| match id {
            "m1" => Some(6.0),
            "m2" => Some(4.0),
            "zero" => Some(0.0),
            _ => None,
        };
        Formula::parse(text).expect(text).value(&of)
    }

    #[test]
    fn arithmetic_has_its_usual_order() {
        assert_eq!(value("m1 + m2 * 2"), Some(14.0));
        assert_eq!(value("(m1+m2)*2"), Some(20.0));
        assert_eq!(value("m1 - m2 - 1"), Some(1.0));
        assert_eq!(value("m1 / m2 / 0.5"), Some(3.0));
        assert_eq!(value("-m1 + 100 * -0.5"), Some(-56.0));
        assert_eq!(Formula::parse("a + b_2 * (a)").expect("a formula").ids(), ["a", "b_2", "a"]);
    }

    #[test]
    fn what_is_missing_makes_the_result_missing_unless_it_is_filled() {
        assert_eq!(value("m1 + missing"), None);
        assert_eq!(value("m1 + FILL(missing, 0)"), Some(6.0));
        assert_eq!(value("FILL(m1, 0) + FILL( missing , -1.5 )"), Some(4.5));
        assert_eq!(value("m1 / zero"), None);
        assert_eq!(value("FILL(m1 / missing, 3)"), Some(3.0));
    }

    #[test]
    fn what_cannot_be_evaluated_is_an_error_that_names_it() {
        for (text, expected) in [
            ("", "ends too early"),
            ("m1 +", "ends too early"),
            ("(m1", "ends too early"),
            ("SUM(METRICS())", "\"SUM(METRICS())\" is not known"),
            ("m1 ^ 2", "\"^ 2\" is not known"),
            ("FILL(m1, REPEAT)", "\"REPEAT)\" is not known"),
            ("m1 m2", "\"m2\" is not known"),
            ("1.2.3", "\"1.2.3\" is not known"),
            ("m1 > 2 ? é", "\"> 2 ? é\" is not known"),
            (&"(".repeat(1000), "nested too deeply"),
            (&"-".repeat(1000), "nested too deeply"),
        ] {
            let error = Formula::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
