//! A collector of OpenTelemetry that keeps what it is sent, and answers as a test wants.
//!
//! Invariant: what came is read by the published types, which know nothing of Apus.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::eventually;
use crate::tls::Identity;

/// How a collector answers.
#[derive(Clone, Debug)]
pub enum Conduct {
    /// All is taken.
    Takes,
    /// With this status, and these header lines.
    Says(u16, &'static str),
    /// Not at all, until the other end gives up.
    Hangs,
    /// The connection is closed.
    Closes,
    /// All is taken. in a body without end.
    TakesWithoutEnd,
    /// With a head without end.
    SpeaksWithoutEnd,
}

/// A collector, for as long as its value lives.
pub struct Collector {
    address: String,
    port: u16,
    shared: Arc<Shared>,
}

/// What the collector and the threads of its connections share.
struct Shared {
    exports: Mutex<Vec<Export>>,
    conduct: Mutex<Conduct>,
    tls: Option<Arc<ServerConfig>>,
    is_over: AtomicBool,
}

/// A request that came, whatever was answered.
#[derive(Clone, Debug)]
pub struct Export {
    /// The request line and the headers, as they came.
    pub head: String,
    /// What follows them.
    pub body: Vec<u8>,
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Collector {
    /// One that takes all.
    pub fn start() -> Self {
        Self::start_at("127.0.0.1", None)
    }

    /// One at an address of the loopback, which shows a certificate.
    pub fn start_encrypted(address: &str, own: &Identity) -> Self {
        let chain = CertificateDer::from_pem_file(&own.certificate).expect("it is there");
        let key = PrivateKeyDer::from_pem_file(&own.key).expect("it is there");
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![chain], key).expect("they belong together");
        Self::start_at(address, Some(Arc::new(config)))
    }

    fn start_at(address: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            exports: Mutex::default(),
            conduct: Mutex::new(Conduct::Takes),
            tls,
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (serving, stream) = (Arc::clone(&serving), stream.expect("one has come"));
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Self { address: address.to_owned(), port, shared }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.address, self.port)
    }

    /// Answers so from now on.
    pub fn conduct(&self, conduct: Conduct) {
        *self.shared.conduct() = conduct;
    }

    /// All that came so far.
    pub fn exports(&self) -> Vec<Export> {
        self.shared.exports().clone()
    }

    /// What came for this path.
    pub fn exports_to(&self, path: &str) -> Vec<Export> {
        let line = format!("POST {path} HTTP/1.1\r\n");
        self.exports().into_iter().filter(|export| export.head.starts_with(&line)).collect()
    }

    /// Waits until so many requests came beyond those that are there now.
    #[track_caller]
    pub fn wait_for_more(&self, count: usize) {
        let before = self.exports().len();
        eventually("the collector hears more", || self.exports().len() >= before + count);
    }

    /// The metrics of the latest export of some.
    pub fn latest_metrics(&self) -> Vec<Metric> {
        let exports = self.exports_to("/v1/metrics");
        exports.last().map(Export::metrics).unwrap_or_default()
    }

    /// All spans that came.
    pub fn spans(&self) -> Vec<Span> {
        self.exports_to("/v1/traces").iter().flat_map(Export::spans).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The thread that accepts looks then.
        let _ = TcpStream::connect((&*self.address, self.port));
    }
}

impl Export {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The export of metrics that this is.
    pub fn metrics_request(&self) -> ExportMetricsServiceRequest {
        ExportMetricsServiceRequest::decode(&*self.body).expect("it is an export of metrics")
    }

    fn metrics(&self) -> Vec<Metric> {
        let all = self.metrics_request().resource_metrics.into_iter();
        all.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let request = ExportTraceServiceRequest::decode(&*self.body).expect("one of spans");
        let all = request.resource_spans.into_iter();
        all.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }
}

impl Shared {
    fn serve(&self, socket: TcpStream) {
        // A client that goes, or cannot agree, has sent nothing.
        let _ = match &self.tls {
            None => self.answer(socket),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).expect("a session");
                self.answer(StreamOwned::new(session, socket))
            }
        };
    }

    fn answer(&self, mut stream: impl Stream) -> std::io::Result<()> {
        let export = read(&mut stream)?;
        self.exports().push(export);
        let conduct = self.conduct().clone();
        match conduct {
            Conduct::Takes => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            Conduct::Says(status, lines) => write!(
                stream,
                "HTTP/1.1 {status} So\r\nContent-Length: 4\r\nConnection: close\r\n{lines}\r\nbody"
            ),
            Conduct::Hangs => stream.read_to_end(&mut Vec::new()).map(|_| ()),
            Conduct::Closes => Ok(()),
            Conduct::TakesWithoutEnd => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes())?;
                self.repeat(stream, &format!("400\r\n{}\r\n", "x".repeat(1024)))
            }
            Conduct::SpeaksWithoutEnd => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                self.repeat(stream, &format!("x-{0}: {0}\r\n", "y".repeat(500)))
            }
        }
    }

    /// Says the same until the other end has enough.
    fn repeat(&self, mut stream: impl Stream, text: &str) -> std::io::Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            stream.write_all(text.as_bytes())?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn exports(&self) -> MutexGuard<'_, Vec<Export>> {
        self.exports.lock().expect("no critical section here panics")
    }

    fn conduct(&self) -> MutexGuard<'_, Conduct> {
        self.conduct.lock().expect("no critical section here panics")
    }
}

/// Reads one request.
fn read(stream: &mut impl Stream) -> std::io::Result<Export> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("a head is a text");
    let mut export = Export { head, body: Vec::new() };
    let length = export.header("content-length").expect("the length is told");
    export.body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut export.body)?;
    Ok(export)
}

/// The text of an attribute, or the digits of its number.
pub fn attribute<'a>(attributes: impl IntoIterator<Item = &'a KeyValue>, name: &str) -> String {
    let found = attributes.into_iter().find(|it| it.key == name);
    match found.and_then(|it| it.value.clone()) {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text,
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// The value of a metric's point with these attributes, and whether it only grows.
pub fn value_of(metrics: &[Metric], name: &str, labels: &[(&str, &str)]) -> Option<(f64, bool)> {
    let metric = metrics.iter().find(|metric| metric.name == name)?;
    let (points, grows) = match metric.data.as_ref()? {
        Data::Gauge(gauge) => (&gauge.data_points, false),
        Data::Sum(sum) => (&sum.data_points, sum.is_monotonic),
        _ => return None,
    };
    let is_it = |attributes: &[KeyValue]| {
        labels.iter().all(|(label, value)| attribute(attributes, label) == *value)
    };
    let point = points.iter().find(|point| is_it(&point.attributes))?;
    match point.value? {
        number_data_point::Value::AsDouble(value) => Some((value, grows)),
        number_data_point::Value::AsInt(value) => Some((value as f64, grows)),
    }
}
