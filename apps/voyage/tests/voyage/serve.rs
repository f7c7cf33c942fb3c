//! The web service, over real sockets.

use arioso_voyage::sea;
use arioso_voyage::sea::router::Router;
use arioso_voyage::sea::sphere::Position;
use std::io::{Read, Write};

use crate::http::{Running, ask, receive, send};

#[test]
fn routes_over_http_are_those_of_the_library() {
    let service = Running::service(&[]);
    let router = Router::new(sea::oceans().unwrap(), 1 << 20);
    let (from, to) = (Position::new(4.05, 51.98), Position::new(103.85, 1.2));
    let want = router.route(from, to, &router.options_with(["suez"], []).unwrap()).unwrap();
    let query = "/api/route?from=4.05,51.98&to=103.85,1.2&avoid=suez&speed_knots=10";
    let (status, got) = ask(&service.address, "GET", query, "");
    assert_eq!(status, 200, "{got}");
    assert!((got["km"].as_f64().unwrap() - want.km).abs() < 0.001);
    assert!((got["hours"].as_f64().unwrap() - want.hours(10.0)).abs() < 0.001);
    let asked = r#"{"from": {"lon": 4.05, "lat": 51.98}, "to": {"lon": 103.85, "lat": 1.2}, "avoid": ["suez"], "speed_knots": 10}"#;
    assert_eq!(ask(&service.address, "POST", "/api/route", asked), (200, got.clone()));
    let many = format!(
        r#"{{"pairs": [{}, {{"from": {{"lon": 0, "lat": 99}}, "to": {{"lon": 0, "lat": 0}}}}], "avoid": ["suez"]}}"#,
        r#"{"from": {"lon": 4.05, "lat": 51.98}, "to": {"lon": 103.85, "lat": 1.2}}"#
    );
    let (status, answers) = ask(&service.address, "POST", "/api/routes", &many);
    assert_eq!((status, &answers[0]["km"]), (200, &got["km"]));
    assert!(answers[1]["error"].as_str().unwrap().contains("latitude -90 to 90"));
}

#[test]
fn a_voyage_is_judged_and_wrong_questions_are_told_what_would_be_right() {
    let service = Running::service(&[]);
    let voyage = |knots: &str| {
        format!(
            r#"{{"position": {{"lon": -9.5, "lat": 39.85}}, "time": 1406851727, "destination": {{"lon": -16.57, "lat": 13.45}},
                "arrival": 1407542400, "max_speed_knots": {knots}}}"#
        )
    };
    let (status, verdict) = ask(&service.address, "POST", "/api/feasible", &voyage("12"));
    assert_eq!((status, &verdict["feasible"]), (200, &true.into()), "{verdict}");
    let rows = [
        ("POST", "/api/feasible", voyage("0"), 400, "must be above 0"),
        ("POST", "/api/feasible", "{}".to_owned(), 422, "missing field"),
        ("POST", "/api/feasible", "nonsense".to_owned(), 400, "JSON"),
        ("GET", "/api/route?from=0,0&to=x", String::new(), 400, "LON,LAT"),
        ("GET", "/api/route?from=4,52&to=0,0&avoid=volga", String::new(), 400, "no passage is called"),
        ("GET", "/api/route?from=25,10&to=0,0", String::new(), 422, "km from water"),
        ("GET", "/nothing", String::new(), 404, "/api tells"),
        ("DELETE", "/api/route", String::new(), 405, "/api tells"),
    ];
    for (method, path, body, want, text) in rows {
        let (status, answer) = ask(&service.address, method, path, &body);
        let told = answer["error"].as_str().unwrap_or_default();
        assert!(status == want && told.contains(text), "{method} {path}: {status} {answer}");
    }
}

#[test]
fn a_request_beyond_the_limit_is_told_when_to_come_again_and_then_answered() {
    let service = Running::service(&["--in-flight", "1"]);
    let body = r#"{"from": {"lon": 4.05, "lat": 51.98}, "to": {"lon": 103.85, "lat": 1.2}}"#;
    // The first request holds its place until its body has come; it is read from when the service says "continue".
    let mut first = send(&service.address, "POST", "/api/route", "", body.len());
    let mut go_on = [0; 25];
    first.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let question = "/api/route?from=4.05,51.98&to=103.85,1.2";
    let refused = receive(send(&service.address, "GET", question, "", 0));
    assert_eq!(refused.0, 503);
    assert!(refused.1.contains("retry-after: 1"), "{}", refused.1);
    assert!(ask(&service.address, "GET", "/healthz", "").0 == 200, "health is told all the same");
    first.write_all(body.as_bytes()).unwrap();
    assert_eq!(receive(first).0, 200);
    assert_eq!(ask(&service.address, "GET", question, "").0, 200);
}

#[test]
fn the_interface_is_described_as_it_is() {
    let service = Running::service(&[]);
    let (_, api) = ask(&service.address, "GET", "/api/openapi.json", "");
    let paths = api["paths"].as_object().unwrap();
    assert!(paths.len() >= 7);
    for (path, methods) in paths {
        for (method, about) in methods.as_object().unwrap() {
            let body = &about["requestBody"]["content"]["application/json"]["example"];
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let query = if about["parameters"].is_null() { "" } else { "?from=4.05,51.98&to=103.85,1.2" };
            let (status, answer) = ask(&service.address, &method.to_uppercase(), &format!("{path}{query}"), &body);
            assert_eq!(status, 200, "{method} {path}: {answer}");
            let example = &about["responses"]["200"]["content"]["application/json"]["example"];
            for name in example.as_object().into_iter().flat_map(|e| e.keys()).filter(|name| *name != "hours") {
                assert!(!answer[name].is_null(), "{path} answers no {name:?}: {answer}");
            }
        }
    }
}
