//! What an alarm compares with its threshold: a metric, or one of several queries.

use super::formula::Formula;
use crate::cloudwatch::{
    MetricId, MetricQuery, MetricSource, MetricStat, QuerySource, Statistic, Watched,
};
use std::ops::Range;

/// What an alarm watches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    Metric(Stat),
    Queries(Queries),
}

/// A statistic of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stat {
    pub(crate) metric: MetricId,
    pub(crate) statistic: Statistic,
}

/// Queries that may stand on each other, one of which the alarm watches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queries(Vec<Query>);

/// A metric or an expression, under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) id: String,
    pub(crate) label: Option<String>,
    /// Whether it is the one that the alarm watches.
    pub(crate) return_data: bool,
    pub(crate) source: Source,
}

/// Where the values of a query come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Metric(Stat),
    Expression { text: String, formula: Formula },
}

/// What was measured in one period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    /// How many samples it is of; expressions have none.
    pub(super) sample_count: Option<f64>,
}

impl Subject {
    /// What it measures in these epoch seconds.
    pub(super) fn value(&self, source: &dyn MetricSource, seconds: &Range<u64>) -> Option<Value> {
        match self {
            Self::Metric(stat) => stat.value(source, seconds),
            Self::Queries(queries) => queries.value(queries.watched(), source, seconds),
        }
    }

    /// The statistic of its metric; none where it is an expression.
    pub(super) fn statistic(&self) -> Option<Statistic> {
        match self {
            Self::Metric(stat) => Some(stat.statistic),
            Self::Queries(queries) => match &queries.watched().source {
                Source::Metric(stat) => Some(stat.statistic),
                Source::Expression { .. } => None,
            },
        }
    }

    /// Whether one of its metrics is of that namespace.
    pub(super) fn is_of(&self, namespace: &str) -> bool {
        match self {
            Self::Metric(stat) => stat.metric.namespace == namespace,
            Self::Queries(queries) => queries.0.iter().any(|query| match &query.source {
                Source::Metric(stat) => stat.metric.namespace == namespace,
                Source::Expression { .. } => false,
            }),
        }
    }

    /// The same as the endpoint shows it.
    pub(super) fn describe(&self, period_secs: u64) -> Watched {
        match self {
            Self::Metric(stat) => Watched::Metric(stat.describe(period_secs)),
            Self::Queries(queries) => {
                let queries = queries.0.iter().map(|query| query.describe(period_secs));
                Watched::Queries(queries.collect())
            }
        }
    }
}

impl Stat {
    fn value(&self, source: &dyn MetricSource, seconds: &Range<u64>) -> Option<Value> {
        let values = source.statistics(&self.metric, seconds.clone())?;
        (values.sample_count > 0.0).then(|| Value {
            value: self.statistic.of(&values),
            sample_count: Some(values.sample_count),
        })
    }

    fn describe(&self, period_secs: u64) -> MetricStat {
        MetricStat {
            metric: self.metric.clone(),
            period_secs,
            statistic: self.statistic.as_str().to_owned(),
        }
    }
}

impl Query {
    /// The ids of the queries that its expression names.
    fn stands_on(&self) -> Vec<&str> {
        match &self.source {
            Source::Metric(_) => Vec::new(),
            Source::Expression { formula, .. } => formula.ids(),
        }
    }

    fn describe(&self, period_secs: u64) -> MetricQuery {
        MetricQuery {
            id: self.id.clone(),
            label: self.label.clone(),
            return_data: self.return_data,
            source: match &self.source {
                Source::Metric(stat) => QuerySource::Metric(stat.describe(period_secs)),
                Source::Expression { text, .. } => {
                    QuerySource::Expression { expression: text.clone(), period_secs: None }
                }
            },
        }
    }
}

impl Queries {
    /// The queries, if one of them is watched, their ids differ, and their expressions stand on
    /// other queries and not in a circle. An error says what is wrong.
    pub(crate) fn new(queries: Vec<Query>) -> Result<Self, String> {
        let watched = queries.iter().filter(|query| query.return_data).count();
        if watched != 1 {
            return Err(format!("one query must return data, and {watched} do"));
        }
        let queries = Self(queries);
        for (index, query) in queries.0.iter().enumerate() {
            if queries.0[..index].iter().any(|other| other.id == query.id) {
                return Err(format!("two queries have the id {}", query.id));
            }
            if let Some(id) = query.stands_on().into_iter().find(|id| queries.query(id).is_none()) {
                return Err(format!("the expression {} names {id}, which is no query", query.id));
            }
        }
        match queries.circular() {
            Some(query) => Err(format!("the expression {} stands on itself", query.id)),
            None => Ok(queries),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Query> {
        self.0.iter()
    }

    fn watched(&self) -> &Query {
        let watched = self.0.iter().find(|query| query.return_data);
        watched.expect("Queries::new has seen to it that one returns data")
    }

    fn value(
        &self,
        query: &Query,
        source: &dyn MetricSource,
        seconds: &Range<u64>,
    ) -> Option<Value> {
        match &query.source {
            Source::Metric(stat) => stat.value(source, seconds),
            Source::Expression { formula, .. } => {
                let of = |id: &str| {
                    self.value(self.query(id)?, source, seconds).map(|measured| measured.value)
                };
                formula.value(&of).map(|value| Value { value, sample_count: None })
            }
        }
    }

    fn query(&self, id: &str) -> Option<&Query> {
        self.0.iter().find(|query| query.id == id)
    }

    /// A query that stands on itself, by whatever way.
    fn circular(&self) -> Option<&Query> {
        let mut left: Vec<_> = self.0.iter().collect();
        loop {
            let is_left = |id: &str| left.iter().any(|query| query.id == id);
            let (next, ready): (Vec<_>, Vec<_>) =
                left.iter().copied().partition(|query| query.stands_on().into_iter().any(is_left));
            if ready.is_empty() {
                return next.first().copied();
            }
            left = next;
        }
    }
}
