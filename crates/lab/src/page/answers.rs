//! What the page asks for, answered.

use super::Lab;
use super::plans::{Curve, Key, Planned, planned};
use super::view::{Size, Viewer};
use crate::planners::{self, NAMES, Over};
use arioso_store::plan::{Aim, NodeId, Reads};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Topics that a search answers with.
const FOUND_MAX: usize = 30;
/// Most stores of a plan on the page.
const STORES_MAX: u32 = 1_000_000;

type Shared = State<Arc<Lab>>;

/// An answer, or why there is none.
pub(super) enum Answer {
    Found(Vec<u8>),
    Bad(String),
}

impl Answer {
    /// Straight to text: sums over all topics may need more than 64 bits, which a JSON value can't hold.
    fn of(value: &impl serde::Serialize) -> Answer {
        match serde_json::to_vec(value) {
            Ok(text) => Answer::Found(text),
            Err(error) => Answer::Bad(error.to_string()),
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        match self {
            Answer::Found(text) => (kind, text).into_response(),
            Answer::Bad(why) => (StatusCode::BAD_REQUEST, kind, json!({ "error": why }).to_string()).into_response(),
        }
    }
}

/// Which plan a request is about.
#[derive(Deserialize)]
pub(super) struct PlanQuery {
    planner: String,
    stores: u32,
    aim: String,
    over: String,
}

impl PlanQuery {
    async fn planned(self, lab: &Arc<Lab>) -> Result<Arc<Planned>, String> {
        let aim = match self.aim.as_str() {
            "sum" => Aim::WastedSum,
            "worst" => Aim::WastedWorst,
            "ratio" => Aim::RatioWorst,
            other => return Err(format!("aim {other:?} is none of sum, worst, ratio")),
        };
        let over = match self.over.as_str() {
            "topics" => Over::Topics,
            "subtrees" => Over::Subtrees,
            "recorded" => Over::Recorded,
            other => {
                return Err(format!("over {other:?} is none of topics, subtrees, recorded"));
            }
        };
        if !(1..=STORES_MAX).contains(&self.stores) {
            return Err(format!("stores {} is not from 1 to {STORES_MAX}", self.stores));
        }
        planned(lab, Key { planner: self.planner, stores: self.stores, aim, over }).await
    }
}

pub(super) async fn info(State(lab): Shared) -> Answer {
    let shown = &lab.shown;
    let tree = &shown.volumes.tree;
    let aim = match shown.question.aim {
        Aim::WastedSum => "sum",
        Aim::WastedWorst => "worst",
        Aim::RatioWorst => "ratio",
    };
    let over = match shown.question.over {
        Over::Topics => "topics",
        Over::Subtrees => "subtrees",
        Over::Recorded => "recorded",
    };
    Answer::of(&json!({
        "name": shown.name,
        "topics": tree.rows(),
        "nodes": tree.len(),
        "messages": tree.messages(NodeId::ROOT),
        "bytes": tree.bytes(NodeId::ROOT),
        "bad_lines": shown.volumes.bad_lines,
        "bad": shown.volumes.bad,
        "planners": NAMES,
        "rules": NAMES.iter().filter(|name| planners::is_rule(name)).collect::<Vec<_>>(),
        "stores": shown.question.budget.stores_max,
        "aim": aim,
        "over": over,
        "recorded": shown.demands.recorded.is_some(),
    }))
}

/// A plan under the lenses, as the page shows it.
#[derive(serde::Serialize)]
struct PlanShown<'a> {
    #[serde(flatten)]
    row: &'a planners::Row,
    curves: BTreeMap<&'static str, &'a Curve>,
    largest_bytes: u64,
    smallest_bytes: u64,
}

pub(super) async fn plan(State(lab): Shared, Query(query): Query<PlanQuery>) -> Answer {
    let planned = match query.planned(&lab).await {
        Ok(planned) => planned,
        Err(why) => return Answer::Bad(why),
    };
    beside(move || {
        let judged = planned.judged(&lab);
        let sizes = || planned.plan.stores().iter().map(|store| store.bytes);
        Answer::of(&PlanShown {
            row: &judged.row,
            curves: judged.curves.iter().map(|(name, curve)| (*name, curve)).collect(),
            largest_bytes: sizes().max().unwrap_or(0),
            smallest_bytes: sizes().min().unwrap_or(0),
        })
    })
    .await
}

/// Answers beside the sockets what may take long.
async fn beside(answer: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    tokio::task::spawn_blocking(answer).await.unwrap_or_else(|error| Answer::Bad(error.to_string()))
}

/// Which picture.
#[derive(Deserialize)]
pub(super) struct ViewQuery {
    node: u32,
    size: Size,
}

pub(super) async fn view(State(lab): Shared, Query(plan): Query<PlanQuery>, Query(query): Query<ViewQuery>) -> Answer {
    let node = match known(&lab, query.node) {
        Ok(node) => node,
        Err(why) => return Answer::Bad(why),
    };
    let planned = match plan.planned(&lab).await {
        Ok(planned) => planned,
        Err(why) => return Answer::Bad(why),
    };
    beside(move || {
        let tree = &lab.shown.volumes.tree;
        let shape = Viewer { tree, plan: &planned.plan, size: query.size }.view(node);
        // The way up, the root first.
        let mut above = vec![node];
        while let Some(last) = above.last().filter(|node| **node != NodeId::ROOT) {
            above.push(tree.parent(*last));
        }
        above.reverse();
        let above: Vec<_> = above
            .into_iter()
            .map(|node| json!({ "node": node.0, "label": String::from_utf8_lossy(tree.level(node)) }))
            .collect();
        Answer::of(&json!({ "above": above, "shape": shape }))
    })
    .await
}

/// Which node's cost.
#[derive(Deserialize)]
pub(super) struct CostQuery {
    node: u32,
}

pub(super) async fn cost(State(lab): Shared, Query(plan): Query<PlanQuery>, Query(query): Query<CostQuery>) -> Answer {
    let node = match known(&lab, query.node) {
        Ok(node) => node,
        Err(why) => return Answer::Bad(why),
    };
    let planned = match plan.planned(&lab).await {
        Ok(planned) => planned,
        Err(why) => return Answer::Bad(why),
    };
    beside(move || {
        let tree = &lab.shown.volumes.tree;
        let reads = Reads::again(tree, &planned.plan, &planned.judged(&lab).touched);
        let topic = tree.row(node).map(|row| {
            let (read, store) = reads.topic(row);
            let messages = tree.row_messages(row);
            json!({ "useful": tree.row_bytes(row), "read": read, "store": store.0, "messages": messages })
        });
        let subtree = (tree.topics(node) > 1).then(|| {
            let stores = planned.plan.stores_below(tree, node).len();
            let (useful, topics) = (tree.bytes(node), tree.topics(node));
            json!({ "useful": useful, "read": reads.subtree(node), "stores": stores, "topics": topics })
        });
        let name = String::from_utf8_lossy(tree.name(node));
        Answer::of(&json!({ "name": name, "topic": topic, "subtree": subtree }))
    })
    .await
}

/// What to look for.
#[derive(Deserialize)]
pub(super) struct FindQuery {
    text: String,
}

pub(super) async fn find(State(lab): Shared, Query(query): Query<FindQuery>) -> Answer {
    let tree = &lab.shown.volumes.tree;
    let text = query.text.as_bytes();
    // Rows are in byte order: those that begin with the text follow each other.
    let (mut low, mut high) = (0, tree.rows());
    while low < high {
        let middle = low.midpoint(high);
        if tree.topic(middle) < text { low = middle + 1 } else { high = middle }
    }
    let rows = (low..tree.rows()).take_while(|row| tree.topic(*row).starts_with(text)).take(FOUND_MAX);
    let found: Vec<_> = rows
        .filter_map(|row| {
            let name = String::from_utf8_lossy(tree.topic(row));
            Some(json!({ "node": tree.find(tree.topic(row))?.0, "name": name, "bytes": tree.row_bytes(row) }))
        })
        .collect();
    let node = tree.find(text.strip_suffix(b"/**").unwrap_or(text)).map(|node| node.0);
    Answer::of(&json!({ "found": found, "node": node }))
}

fn known(lab: &Lab, node: u32) -> Result<NodeId, String> {
    let nodes = lab.shown.volumes.tree.len();
    if (node as usize) < nodes { Ok(NodeId(node)) } else { Err(format!("node {node} is not below {nodes}")) }
}
