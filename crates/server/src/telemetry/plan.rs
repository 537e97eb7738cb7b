//! What is exported, where and how often, as the directives say.
//!
//! Invariant: a plan is checked as a whole before anything goes by it, and what is wrong is told
//! without a header's value.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::time::Clock;
use config::Config;
use config::settings::{
    OTLP_ARGUMENTS, OTLP_ENDPOINT, OTLP_HEADERS, OTLP_INTERVAL, OTLP_SERVICE_INSTANCE_ID,
    OTLP_SERVICE_NAME, OTLP_TRACES,
};
use engine::runtime::version::APUS_VERSION;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use otlp::Signal;
use otlp::attributes::{Attribute, Sender};
use otlp::endpoint::Endpoint;
use otlp::headers;
use tls::NamedContext;
use tls::contexts::FileState;

use crate::net::tls::settings_of;

/// Spans wait no longer than this where the endpoint takes them.
const SPAN_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// What is exported.
pub(crate) struct ExportPlan {
    pub(super) endpoint: Endpoint,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Between two exports of metrics.
    pub(super) interval: Duration,
    pub(super) traces: bool,
    /// Whether keys and arguments are told.
    pub(super) arguments: bool,
    pub(super) sender: Sender,
    /// What connections begin with, if they are encrypted.
    tls: Option<RenewedContext>,
}

/// A context of TLS, which is made anew when its files are others.
struct RenewedContext {
    settings: tls::Settings,
    clock: Clock,
    made: Mutex<(FileState, NamedContext)>,
}

impl ExportPlan {
    /// What the directives ask for, of the process with this id.
    pub(super) fn of(
        config: &Config,
        run_id: &str,
        clock: &Clock,
    ) -> Result<Option<ExportPlan>, String> {
        let url = text(&config.get(OTLP_ENDPOINT));
        let headers = read_headers(&text(&config.get(OTLP_HEADERS)))?;
        if url.is_empty() {
            return Ok(None);
        }
        let endpoint = Endpoint::read(&url).map_err(|why| format!("otlp-endpoint: {why}"))?;
        if [Signal::Metrics, Signal::Traces].iter().any(|it| !is_path(&endpoint.path_of(*it))) {
            return Err("otlp-endpoint: HTTP has no such path".to_owned());
        }
        let tls =
            endpoint.is_encrypted.then(|| RenewedContext::build(config, clock)).transpose()?;
        let instance = text(&config.get(OTLP_SERVICE_INSTANCE_ID));
        let instance = if instance.is_empty() { run_id.to_owned() } else { instance };
        let resource = vec![
            Attribute::text("service.name", text(&config.get(OTLP_SERVICE_NAME))),
            Attribute::text("service.instance.id", instance),
            Attribute::text("service.version", APUS_VERSION),
        ];
        Ok(Some(ExportPlan {
            endpoint,
            headers,
            interval: Duration::from_secs(config.get(OTLP_INTERVAL).into()),
            traces: config.get(OTLP_TRACES),
            arguments: config.get(OTLP_ARGUMENTS),
            sender: Sender { resource, scope: "apus", version: APUS_VERSION },
            tls,
        }))
    }

    /// Between two exports of spans.
    pub(super) fn span_interval(&self) -> Duration {
        self.interval.min(SPAN_INTERVAL_MAX)
    }

    /// What a connection begins with, if it is to be encrypted.
    pub(super) fn tls(&self) -> Option<NamedContext> {
        self.tls.as_ref().map(RenewedContext::get)
    }
}

impl RenewedContext {
    fn build(config: &Config, clock: &Clock) -> Result<Self, String> {
        let settings = settings_of(config);
        let state = settings.state_of_files();
        let context = NamedContext::build(&settings, clock).map_err(|why| why.to_string())?;
        Ok(Self { settings, clock: clock.clone(), made: Mutex::new((state, context)) })
    }

    /// The context of the files as they are; the one before where they are wrong.
    fn get(&self) -> NamedContext {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.settings.state_of_files();
        if state != made.0
            && let Ok(context) = NamedContext::build(&self.settings, &self.clock)
        {
            *made = (state, context);
        }
        made.1.clone()
    }
}

fn is_path(path: &str) -> bool {
    path.parse::<Uri>().is_ok()
}

fn read_headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let read = headers::read(text).map_err(|why| format!("otlp-headers: {why}"))?;
    let pairs = read.into_iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    });
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.ok_or_else(|| "otlp-headers: HTTP has no such header".to_owned())
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
