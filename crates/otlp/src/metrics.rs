//! Metrics: their values in words of no library, and the request that carries them.
//!
//! Invariant: what only grows is told as a sum since the start, never as what came since the last
//! export, so an export that is lost loses no count.

use crate::attributes::{self, Attribute, Sender};
use crate::protobuf::Message;

/// Figures that are counted from the start on, in the terms of the protocol.
const CUMULATIVE: u64 = 2;

/// A metric with all its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The full name.
    pub name: String,
    /// What the figures are.
    pub description: String,
    /// What they are counted in, as UCUM writes it; empty if that is nothing.
    pub unit: &'static str,
    /// The figures.
    pub points: Points,
}

/// The points of a metric, by what they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Points {
    /// Values as they are now.
    Gauge(Vec<NumberPoint>),
    /// Values that only grow.
    Sum(Vec<NumberPoint>),
    /// Counts by size.
    Histogram(Vec<HistogramPoint>),
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPoint {
    /// What tells it from others of its metric.
    pub attributes: Vec<Attribute>,
    /// The value.
    pub value: f64,
}

/// Counts by size.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramPoint {
    /// What tells it from others of its metric.
    pub attributes: Vec<Attribute>,
    /// The highest size of each bucket but the last, which has none.
    pub bounds: Vec<f64>,
    /// How many are in each bucket, one more than there are bounds.
    pub counts: Vec<u64>,
    /// All sizes together.
    pub sum: f64,
}

/// The time that figures are of, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Since when what only grows has grown.
    pub started_ns: u64,
    /// When the figures were read.
    pub read_ns: u64,
}

impl Points {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Gauge(points) | Self::Sum(points) => points.len(),
            Self::Histogram(points) => points.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The body of a request for [`Signal::Metrics`](crate::Signal::Metrics).
pub fn encode(sender: &Sender, period: Period, metrics: &[Metric]) -> Vec<u8> {
    sender.request(|scope| {
        for metric in metrics.iter().filter(|metric| !metric.points.is_empty()) {
            scope.message(2, |message| write(message, metric, period));
        }
    })
}

fn write(message: &mut Message, metric: &Metric, period: Period) {
    message.text(1, &metric.name);
    message.text(2, &metric.description);
    message.text(3, metric.unit);
    match &metric.points {
        Points::Gauge(points) => message.message(5, |gauge| {
            let period = Period { started_ns: 0, ..period };
            points.iter().for_each(|point| write_number(gauge, point, period));
        }),
        Points::Sum(points) => message.message(7, |sum| {
            points.iter().for_each(|point| write_number(sum, point, period));
            sum.number(2, CUMULATIVE);
            // What is in it only grows.
            sum.number(3, 1);
        }),
        Points::Histogram(points) => message.message(9, |histogram| {
            points.iter().for_each(|point| write_histogram(histogram, point, period));
            histogram.number(2, CUMULATIVE);
        }),
    }
}

fn write_number(list: &mut Message, point: &NumberPoint, period: Period) {
    list.message(1, |message| {
        message.fixed64(2, period.started_ns);
        message.fixed64(3, period.read_ns);
        message.double(4, point.value);
        attributes::write(message, 7, &point.attributes);
    });
}

fn write_histogram(list: &mut Message, point: &HistogramPoint, period: Period) {
    list.message(1, |message| {
        message.fixed64(2, period.started_ns);
        message.fixed64(3, period.read_ns);
        message.fixed64(4, point.counts.iter().sum());
        message.double(5, point.sum);
        message.packed(6, point.counts.iter().map(|count| count.to_le_bytes()));
        message.packed(7, point.bounds.iter().map(|bound| bound.to_le_bytes()));
        attributes::write(message, 9, &point.attributes);
    });
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
    use opentelemetry_proto::tonic::metrics::v1::{
        AggregationTemporality, NumberDataPoint, metric::Data,
    };
    use prost::Message;

    use super::{HistogramPoint, Metric, NumberPoint, Period, Points, encode};
    use crate::attributes::{Attribute, Sender};

    const PERIOD: Period = Period { started_ns: 1_000, read_ns: 1_796_083_200_000_000_001 };

    fn sender() -> Sender {
        let resource = vec![
            Attribute::text("service.name", "a store"),
            Attribute::integer("process.pid", -1),
            Attribute::text("empty", ""),
        ];
        Sender { resource, scope: "apus", version: "1.2" }
    }

    fn metric(name: &str, unit: &'static str, points: Points) -> Metric {
        Metric { name: name.to_owned(), description: format!("{name}."), unit, points }
    }

    fn text(name: &str, text: &str) -> KeyValue {
        let value = Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) });
        KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
    }

    fn decoded(metrics: &[Metric]) -> ExportMetricsServiceRequest {
        let bytes = encode(&sender(), PERIOD, metrics);
        ExportMetricsServiceRequest::decode(&*bytes).expect("the published types read it")
    }

    /// What is sent is to the published types what was meant, to the last byte.
    #[test]
    fn each_kind_of_metric_is_read_by_the_published_types() {
        let labels = vec![Attribute::text("db", "0"), Attribute::text("user", "\u{e4}\"\n")];
        let point = |value| NumberPoint { attributes: labels.clone(), value };
        let histogram = HistogramPoint {
            attributes: vec![Attribute::text("command", "get")],
            bounds: vec![0.001, 0.5],
            counts: vec![300, 0, 2],
            sum: 1.25,
        };
        let metrics = [
            metric("a", "By", Points::Gauge(vec![point(0.0), point(-2.5)])),
            metric("b", "", Points::Sum(vec![point(1e15)])),
            metric("none", "s", Points::Sum(Vec::new())),
            metric("c", "s", Points::Histogram(vec![histogram])),
        ];
        let request = decoded(&metrics);
        // Nothing is there that the types do not know, or would write in another way.
        let again = request.encode_to_vec().len();
        assert_eq!(again, encode(&sender(), PERIOD, &metrics).len());
        let [of_resource] = &request.resource_metrics[..] else { panic!("one resource") };
        let resource = &of_resource.resource.as_ref().expect("there is one").attributes;
        assert_eq!(resource[0], text("service.name", "a store"));
        let number = resource[1].value.as_ref().and_then(|it| it.value.clone());
        assert_eq!(number, Some(Value::IntValue(-1)));
        assert_eq!(resource[2], text("empty", ""));
        let [of_scope] = &of_resource.scope_metrics[..] else { panic!("one scope") };
        let scope = of_scope.scope.as_ref().expect("there is one");
        assert_eq!((&*scope.name, &*scope.version), ("apus", "1.2"));
        let told: Vec<_> =
            of_scope.metrics.iter().map(|it| (&*it.name, &*it.description, &*it.unit)).collect();
        assert_eq!(told, [("a", "a.", "By"), ("b", "b.", ""), ("c", "c.", "s")]);
        let attributes = vec![text("db", "0"), text("user", "\u{e4}\"\n")];
        let expected = |start_time_unix_nano, value| NumberDataPoint {
            attributes: attributes.clone(),
            start_time_unix_nano,
            time_unix_nano: PERIOD.read_ns,
            value: Some(Number::AsDouble(value)),
            ..NumberDataPoint::default()
        };
        let Some(Data::Gauge(gauge)) = &of_scope.metrics[0].data else { panic!("a gauge") };
        assert_eq!(gauge.data_points, [expected(0, 0.0), expected(0, -2.5)]);
        let Some(Data::Sum(sum)) = &of_scope.metrics[1].data else { panic!("a sum") };
        assert_eq!(sum.data_points, [expected(PERIOD.started_ns, 1e15)]);
        assert!(sum.is_monotonic);
        assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
        let Some(Data::Histogram(all)) = &of_scope.metrics[2].data else { panic!("a histogram") };
        assert_eq!(all.aggregation_temporality(), AggregationTemporality::Cumulative);
        let [point] = &all.data_points[..] else { panic!("one point") };
        assert_eq!((point.count, point.sum), (302, Some(1.25)));
        assert_eq!(point.bucket_counts, [300, 0, 2]);
        assert_eq!(point.explicit_bounds, [0.001, 0.5]);
        assert_eq!(point.attributes, [text("command", "get")]);
        assert_eq!(point.start_time_unix_nano, PERIOD.started_ns);
    }

    #[test]
    fn without_metrics_there_is_a_request_of_none() {
        let request = decoded(&[]);
        assert!(request.resource_metrics[0].scope_metrics[0].metrics.is_empty());
    }
}
