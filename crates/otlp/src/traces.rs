//! Spans: what took from when to when, and the request that carries them.

use crate::attributes::{self, Attribute, Sender};
use crate::protobuf::Message;

/// What took its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which trace the span belongs to; never all zeros.
    pub trace_id: [u8; 16],
    /// Which span this is; never all zeros.
    pub span_id: [u8; 8],
    /// What was done.
    pub name: String,
    /// For whom.
    pub kind: SpanKind,
    /// Nanoseconds since 1970.
    pub started_ns: u64,
    /// Nanoseconds since 1970, at or behind the start.
    pub ended_ns: u64,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
    /// Whether it came to nothing.
    pub has_failed: bool,
}

/// A status that says so, in the terms of the protocol.
const ERROR: u64 = 2;

/// For whom something was done, by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// For nobody outside.
    Internal = 1,
    /// For a client that asked.
    Server = 2,
}

/// The body of a request for [`Signal::Traces`](crate::Signal::Traces).
pub fn encode(sender: &Sender, spans: &[Span]) -> Vec<u8> {
    sender.request(|scope| spans.iter().for_each(|span| scope.message(2, |it| write(it, span))))
}

fn write(message: &mut Message, span: &Span) {
    message.blob(1, &span.trace_id);
    message.blob(2, &span.span_id);
    message.text(5, &span.name);
    message.number(6, span.kind as u64);
    message.fixed64(7, span.started_ns);
    message.fixed64(8, span.ended_ns);
    attributes::write(message, 9, &span.attributes);
    if span.has_failed {
        message.message(15, |status| status.number(3, ERROR));
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::trace::v1::span::SpanKind as PublishedKind;
    use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
    use opentelemetry_proto::tonic::trace::v1::{Span as PublishedSpan, Status};
    use prost::Message;

    use super::{Span, SpanKind, encode};
    use crate::attributes::{Attribute, Sender};

    #[test]
    fn spans_are_read_by_the_published_types() {
        let sender = Sender { resource: Vec::new(), scope: "apus", version: "" };
        let span = |number: u8, kind| Span {
            trace_id: [number; 16],
            span_id: [number; 8],
            name: "GET".to_owned(),
            kind,
            started_ns: 5,
            ended_ns: 1_796_083_200_000_000_001,
            attributes: vec![Attribute::integer("client.port", 6379)],
            has_failed: number == 2,
        };
        let bytes = encode(&sender, &[span(1, SpanKind::Server), span(2, SpanKind::Internal)]);
        let request = ExportTraceServiceRequest::decode(&*bytes).expect("the types read it");
        assert_eq!(request.encode_to_vec().len(), bytes.len());
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        assert_eq!(spans.iter().map(|it| it.trace_id[15]).collect::<Vec<_>>(), [1, 2]);
        let kinds: Vec<_> = spans.iter().map(PublishedSpan::kind).collect();
        assert_eq!(kinds, [PublishedKind::Server, PublishedKind::Internal]);
        let codes: Vec<_> = spans.iter().map(|it| it.status.as_ref().map(Status::code)).collect();
        assert_eq!(codes, [None, Some(StatusCode::Error)]);
        let first = &spans[0];
        assert_eq!((first.trace_id.len(), first.span_id.len()), (16, 8));
        assert_eq!((&*first.name, first.parent_span_id.len()), ("GET", 0));
        let times = (first.start_time_unix_nano, first.end_time_unix_nano);
        assert_eq!(times, (5, 1_796_083_200_000_000_001));
        assert_eq!(first.attributes[0].key, "client.port");
        let value = first.attributes[0].value.as_ref().and_then(|it| it.value.clone());
        assert_eq!(value, Some(Value::IntValue(6379)));
    }
}
