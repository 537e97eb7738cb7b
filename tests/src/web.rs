//! A browser that tests look at pages with: Chromium, driven by WebDriver.
//!
//! Invariant: the browser and its driver end with their value.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::base64;
use serde_json::{Value, json};

use crate::server::free_port;
use crate::{environment, http};

/// How long a page may take to show what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Opens a window of this size.
    pub fn open(width: u32, height: u32) -> Self {
        let port = free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the package chromium-driver is installed");
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the driver does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut browser = Self { driver, port, session: String::new() };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            &format!("--window-size={width},{height}"),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let opened = browser.command("POST", "/session", &wanted);
        browser.session = opened["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Goes to a page.
    pub fn go(&self, address: &str) {
        self.ask("POST", "url", &json!({"url": address}));
    }

    /// What a script returns in the page.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.ask("POST", "execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// Clicks, where a person could.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.ask("POST", &format!("element/{element}/click"), &json!({}));
    }

    /// Types into a field. Letters of the private range are keys, as WebDriver has them.
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.ask("POST", &format!("element/{element}/value"), &json!({"text": text}));
    }

    /// The text that is seen of an element.
    pub fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.run(script, &[json!(selector)]);
        text.as_str().expect("a text").to_owned()
    }

    /// Waits until an element shows a text, and returns all that it shows.
    pub fn wait_for(&self, selector: &str, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let shown = self.text(selector);
            if shown.contains(text) {
                return shown;
            }
            let all = || self.text("body");
            assert!(begun.elapsed() < PATIENCE, "no '{text}' in {selector}: {shown}\n{}", all());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Keeps a picture of the window, for people to look at.
    pub fn keep_picture(&self, name: &str) {
        let taken = self.ask("GET", "screenshot", &Value::Null);
        let text = taken.as_str().expect("base64");
        let mut buffer = vec![0; text.len()];
        let bytes = base64::decode(text.as_bytes(), &mut buffer).expect("base64");
        let folder = environment::repository().join("target/pictures");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{name}.png")), bytes).expect("there is room");
    }

    /// What the browser complained of since it was asked last, but for answers that a test wants to
    /// be errors.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "se/log", &json!({"type": "browser"}));
        let lines = log.as_array().expect("a list").iter();
        let texts = lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned());
        texts.filter(|text| !text.contains("Failed to load resource")).collect()
    }

    fn find(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.ask("POST", "element", &wanted);
        let id = found.as_object().and_then(|found| found.values().next());
        id.and_then(Value::as_str).expect("an element").to_owned()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.command(method, &format!("/session/{}/{path}", self.session), body)
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = "Content-Type: application/json\r\n";
        let answer = http::send(self.port, method, path, kind, &body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.json()["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            http::send(self.port, "DELETE", &format!("/session/{}", self.session), "", "");
        }
        // The driver ends its browser when it is asked to end.
        if let Some(pid) = rustix::process::Pid::from_raw(self.driver.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.driver.wait();
    }
}
