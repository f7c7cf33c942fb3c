//! The page's answers, asked over a real socket.

use super::*;
use crate::planners::Over;
use arioso_store::plan::{Aim, Budget, TopicTree, Volume};
use std::io::Read;

fn shown(volumes: &[(String, u64)]) -> Shown {
    let mut volumes = volumes.to_vec();
    volumes.sort();
    let volume = |(topic, bytes): &(String, u64)| (topic.clone(), *bytes);
    let rows: Vec<(String, u64)> = volumes.iter().map(volume).collect();
    let tree = TopicTree::build(rows.iter().map(|(topic, bytes)| Volume {
        topic: topic.as_bytes(),
        messages: 1,
        bytes: *bytes,
    }))
    .unwrap();
    let demands = Demands::new(&tree, None);
    let question = Question { budget: Budget::stores(8), aim: Aim::WastedSum, over: Over::Topics };
    Shown { name: "v.tsv".into(), volumes: Volumes { tree, bad: Vec::new(), bad_lines: 0 }, demands, question }
}

/// Asks one page for several things; each answer with its status line.
fn ask(shown: Shown, paths: &[&str]) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router(shown)).await });
    let answers = paths.iter().map(|path| {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    });
    answers.collect()
}

fn json(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap()
}

fn many() -> Vec<(String, u64)> {
    (0..5000)
        .map(|number| (format!("t/{number:04}"), 1 + number % 100))
        .chain([("t".into(), 9), ("big".into(), 90_000)])
        .collect()
}

const PLAN: &str = "planner=adaptive&stores=8&aim=sum&over=topics";

#[test]
fn the_page_and_its_files_are_served() {
    let answers = ask(shown(&many()), &["/", "/lab.js", "/draw.js", "/lab.css", "/api/info", "/nothing"]);
    assert!(answers[..5].iter().all(|(status, _)| status.contains("200")), "{answers:?}");
    assert!(answers[0].1.contains("<html"));
    assert_eq!(json(&answers[4].1)["topics"], 5002);
    assert!(answers[5].0.contains("404"));
}

#[test]
fn small_siblings_are_drawn_together_by_store() {
    let answers = ask(shown(&many()), &[&format!("/api/view?{PLAN}&node=0&size=bytes")]);
    let view = json(&answers[0].1);
    let parts = view["shape"]["parts"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| part["label"].as_str().unwrap()).collect::<Vec<_>>(), ["big", "t"]);
    let groups = parts[1]["parts"].as_array().unwrap();
    assert!(groups.len() <= 8, "{} boxes for 5,000 topics", groups.len());
    assert!(groups.iter().all(|group| group["store"].is_number() && group["kind"] == "group"));
    let topics: u64 = groups.iter().map(|group| group["topics"].as_u64().unwrap()).sum();
    assert_eq!(topics, 5001);
}

#[test]
fn a_plan_is_answered_with_its_figures_and_distribution() {
    let answers = ask(shown(&many()), &[&format!("/api/plan?{PLAN}"), &format!("/api/plan?{PLAN}")]);
    assert_eq!(answers[0], answers[1], "the second time it is the kept one, its time included");
    let plan = json(&answers[0].1);
    assert_eq!(plan["stores"], 8);
    let ratio = plan["curves"]["topics"]["ratio"].as_array().unwrap();
    assert_eq!(ratio.len(), 101);
    assert_eq!(ratio[100].as_f64(), plan["topics"]["worst_ratio"].as_f64());
}

#[test]
fn the_cost_of_a_topic_and_of_a_subtree_is_told() {
    let found = ask(shown(&many()), &["/api/find?text=t/00", "/api/find?text=t/**"]);
    let first = json(&found[0].1);
    assert_eq!(first["found"].as_array().unwrap().len(), 30);
    assert_eq!(first["found"][7]["name"], "t/0007");
    let node = json(&found[1].1)["node"].as_u64().unwrap();
    let answers = ask(shown(&many()), &[&format!("/api/cost?{PLAN}&node={node}")]);
    let cost = json(&answers[0].1);
    assert_eq!((cost["topic"]["useful"].as_u64(), cost["subtree"]["topics"].as_u64()), (Some(9), Some(5001)));
    assert_eq!(cost["subtree"]["useful"], cost["subtree"]["read"], "a split subtree is made of whole stores");
}

#[test]
fn bad_requests_are_told_what_would_be_right() {
    let base = "/api/plan?stores=8&aim=sum&over=topics";
    let answers = ask(
        shown(&many()),
        &[
            &format!("{base}&planner=best"),
            "/api/plan?planner=adaptive&stores=0&aim=sum&over=topics",
            "/api/plan?planner=adaptive&stores=8&aim=most&over=topics",
            "/api/plan?planner=adaptive&stores=8&aim=sum&over=recorded",
            &format!("/api/view?{PLAN}&node=999999&size=bytes"),
            &format!("{base}&planner=optimum"),
        ],
    );
    let wants =
        ["adaptive, greedy", "from 1 to", "sum, worst, ratio", "--subscriptions", "is not below", "searched up to"];
    for ((status, body), want) in answers.iter().zip(wants) {
        assert!(status.contains("400") && body.contains(want), "{status} {body}");
    }
}
