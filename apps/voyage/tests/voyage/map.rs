//! The map page in a real browser, told what to do over a pipe: two ports are clicked and the route is told and drawn.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use serde_json::{Value, json};

use crate::http::Running;

/// What it takes, and where it comes from.
const NEEDS: &str = "the map is tested in chromium: apt-get install chromium, or `cargo xtask browser`";

/// Names under which systems know the browser.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser without a window, told what to do over a pipe (Chrome DevTools Protocol: JSON, each ended by a 0).
struct Browser {
    child: Child,
    answers: RefCell<BufReader<std::process::ChildStdout>>,
    asked: RefCell<u64>,
    page: RefCell<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A page of 1,300 by 800 pixels; nothing (told) where there is no browser, a failure under CI.
    fn start() -> Option<Browser> {
        let there = |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        let Some(name) = NAMES.iter().find(there) else {
            assert!(std::env::var_os("CI").is_none(), "{NEEDS}");
            eprintln!("left out: {NEEDS}");
            return None;
        };
        let profile = tempfile::tempdir().expect("a directory");
        let options =
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --window-size=1300,800";
        let start = format!(
            "exec {name} {options} --remote-debugging-pipe --user-data-dir='{}' about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", &start]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let answers = RefCell::new(BufReader::new(child.stdout.take().expect("a pipe")));
        let browser =
            Browser { child, answers, asked: RefCell::new(0), page: RefCell::new(Value::Null), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        browser.page.replace(session);
        let size = json!({ "width": 1300, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    /// Calls a method and waits for its answer; events in between are passed over.
    fn call(&self, method: &str, params: Value) -> Value {
        let id = self.asked.replace_with(|id| *id + 1);
        let mut message = json!({ "id": id, "method": method, "params": params });
        let page = self.page.borrow();
        if !page.is_null() {
            message["sessionId"] = page.clone();
        }
        let mut pipe = self.child.stdin.as_ref().expect("a pipe");
        pipe.write_all(format!("{message}\0").as_bytes()).expect("a browser that listens");
        loop {
            let mut bytes = Vec::new();
            self.answers.borrow_mut().read_until(0, &mut bytes).expect("a browser that answers");
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn go(&self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.readyState !== 'loading' && location.href !== 'about:blank'");
    }

    /// The value of an expression in the page.
    fn value(&self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until `condition` holds: it is looked at again whenever the page changes.
    fn until(&self, condition: &str) {
        let promise = format!(
            "new Promise((done) => {{
               const look = () => {{ if ({condition}) {{ watch.disconnect(); done(true); }} }};
               const watch = new MutationObserver(look);
               watch.observe(document, {{ childList: true, subtree: true, characterData: true }});
               document.addEventListener('readystatechange', look);
               look(); }})"
        );
        assert_eq!(self.value(&promise), true);
    }

    fn click(&self, port: &str) {
        let at = self.value(&format!("whereIs('{port}')"));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    fn text(&self, id: &str) -> String {
        self.value(&format!("document.getElementById('{id}').textContent")).as_str().unwrap_or_default().to_owned()
    }

    /// Keeps what is seen for whoever wants to look.
    fn keep_screenshot(&self, name: &str) {
        let png = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let png = base64::prelude::BASE64_STANDARD.decode(png["data"].as_str().expect("a picture")).expect("base64");
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), png).expect("a picture kept");
    }

    /// How many pixels of the map have this colour.
    fn pixels(&self, red: u8, green: u8, blue: u8) -> u64 {
        let count = format!(
            "(() => {{ const c = document.getElementById('map');
                const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
                for (let i = 0; i < d.length; i += 4) n += d[i] === {red} && d[i + 1] === {green} && d[i + 2] === {blue};
                return n; }})()"
        );
        self.value(&count).as_u64().expect("a count")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_ports_clicked_on_the_map_show_the_route_between_them() {
    let Some(browser) = Browser::start() else { return };
    let service = Running::service(&[]);
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.getElementById('state').textContent === 'ready'");
    let (sea, land, route) =
        (browser.pixels(0xcf, 0xe3, 0xee), browser.pixels(0xf3, 0xef, 0xe2), browser.pixels(0xc2, 0x41, 0x0c));
    assert!(sea > 300_000 && land > 100_000 && route == 0, "sea {sea}, land {land}, route {route}");
    browser.keep_screenshot("voyage-map.png");

    browser.click("Rotterdam");
    assert_eq!(browser.text("from"), "Rotterdam");
    browser.click("Mumbai (Bombay)");
    let answered = "document.getElementById('state').textContent === 'ready' && document.getElementById('distance').textContent !== '–'";
    browser.until(answered);
    let (distance, through) = (browser.text("distance"), browser.text("through"));
    assert!(distance.contains("nm") && through.contains("suez"), "{distance} through {through}");
    assert!(browser.pixels(0xc2, 0x41, 0x0c) > 500, "the route is drawn");
    browser.keep_screenshot("voyage-suez.png");

    browser.value("(() => { const o = [...document.getElementById('avoid').options].find((o) => o.value === 'suez'); o.selected = true; o.parentElement.dispatchEvent(new Event('change')); })()");
    browser.until(&format!("{answered} && !document.getElementById('through').textContent.includes('suez')"));
    assert_ne!(browser.text("distance"), distance);
    browser.keep_screenshot("voyage-cape.png");

    browser.go(&format!("http://{}/api", service.address));
    browser.until("document.querySelectorAll('h2').length >= 8");
    browser.keep_screenshot("voyage-api.png");
}
