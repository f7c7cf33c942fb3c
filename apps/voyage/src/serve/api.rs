//! Questions and answers in JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::answer::{Answer, is_speed};
use crate::error::Error;
use crate::sea::network::PassageKind;
use crate::sea::router::{Options, Router, SNAP_KM_MAX, Voyage};
use crate::sea::sphere::Position;

/// Most routes in one request.
pub const ROUTES_MAX: usize = 1000;

/// An error, told.
pub fn problem(status: StatusCode, what: &str) -> (StatusCode, Json<Value>) {
    (status, Json(json!({ "error": what })))
}

/// An answer or a problem.
type Told = Result<Response, (StatusCode, Json<Value>)>;

fn refused(error: &Error) -> (StatusCode, Json<Value>) {
    let status = match error {
        Error::NoRoute { .. } | Error::Inland { .. } | Error::Enclosed { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_REQUEST,
    };
    problem(status, &error.to_string())
}

/// How a route may be.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Wishes {
    avoid: Vec<String>,
    allow: Vec<String>,
    speed_knots: Option<f64>,
    snap_km_max: Option<f64>,
}

impl Wishes {
    fn options(&self, router: &Router) -> crate::error::Result<Options> {
        if let Some(knots) = self.speed_knots.filter(|knots| !is_speed(*knots)) {
            return Err(Error::Speed { knots });
        }
        let snap_km_max = self.snap_km_max.unwrap_or(SNAP_KM_MAX);
        if !(0.0..=1000.0).contains(&snap_km_max) {
            return Err(Error::Ask(format!("snap_km_max is {snap_km_max}; it must be 0 to 1000")));
        }
        let (avoid, allow) = (self.avoid.iter().map(String::as_str), self.allow.iter().map(String::as_str));
        Ok(Options { snap_km_max, ..router.options_with(avoid, allow)? })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteQuery {
    from: String,
    to: String,
    #[serde(default)]
    avoid: String,
    #[serde(default)]
    allow: String,
    speed_knots: Option<f64>,
    snap_km_max: Option<f64>,
}

fn position(text: &str) -> crate::error::Result<Position> {
    let degrees = text.split_once(',').and_then(|(lon, lat)| Some((lon.parse().ok()?, lat.parse().ok()?)));
    let (lon, lat) = degrees.ok_or_else(|| Error::Ask(format!("{text:?} is no position; LON,LAT in degrees is")))?;
    Ok(Position::new(lon, lat))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn tell(router: &Router, from: Position, to: Position, options: &Options, knots: Option<f64>) -> Told {
    let route = router.route(from, to, options).map_err(|e| refused(&e))?;
    Ok(Json(Answer::new(router, &route, knots)).into_response())
}

pub(super) async fn get_route(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<RouteQuery>, QueryRejection>,
) -> Told {
    let Query(q) = query.map_err(|e| problem(StatusCode::BAD_REQUEST, &e.body_text()))?;
    let wishes = Wishes {
        avoid: names(&q.avoid),
        allow: names(&q.allow),
        speed_knots: q.speed_knots,
        snap_km_max: q.snap_km_max,
    };
    let options = wishes.options(&state.router).map_err(|e| refused(&e))?;
    let (from, to) = (position(&q.from).map_err(|e| refused(&e))?, position(&q.to).map_err(|e| refused(&e))?);
    tell(&state.router, from, to, &options, wishes.speed_knots)
}

#[derive(Debug, Deserialize)]
pub(super) struct RouteBody {
    from: Position,
    to: Position,
    #[serde(flatten)]
    wishes: Wishes,
}

fn body<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, (StatusCode, Json<Value>)> {
    body.map(|Json(value)| value).map_err(|e| problem(e.status(), &e.body_text()))
}

pub(super) async fn post_route(
    Shared(state): Shared<Arc<State>>,
    asked: Result<Json<RouteBody>, JsonRejection>,
) -> Told {
    let RouteBody { from, to, wishes } = body(asked)?;
    let options = wishes.options(&state.router).map_err(|e| refused(&e))?;
    tell(&state.router, from, to, &options, wishes.speed_knots)
}

#[derive(Debug, Deserialize)]
pub(super) struct RoutesBody {
    pairs: Vec<Pair>,
    #[serde(flatten)]
    wishes: Wishes,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    from: Position,
    to: Position,
}

/// Distances of many pairs, without their points.
pub(super) async fn post_routes(
    Shared(state): Shared<Arc<State>>,
    asked: Result<Json<RoutesBody>, JsonRejection>,
) -> Told {
    let RoutesBody { pairs, wishes } = body(asked)?;
    if pairs.len() > ROUTES_MAX {
        let many = format!("{} pairs; at most {ROUTES_MAX} in one request", pairs.len());
        return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, &many));
    }
    let options = wishes.options(&state.router).map_err(|e| refused(&e))?;
    let mut answers = Vec::with_capacity(pairs.len());
    for (at, Pair { from, to }) in pairs.into_iter().enumerate() {
        answers.push(match state.router.route(from, to, &options) {
            Ok(route) => {
                let mut answer = Answer::new(&state.router, &route, wishes.speed_knots);
                answer.points.clear();
                serde_json::to_value(answer).unwrap_or_default()
            }
            Err(error) => json!({ "error": error.to_string() }),
        });
        if at % 64 == 63 {
            tokio::task::yield_now().await; // others have their turn
        }
    }
    Ok(Json(answers).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct FeasibleBody {
    position: Position,
    time: f64,
    destination: Position,
    arrival: f64,
    max_speed_knots: f64,
    #[serde(flatten)]
    wishes: Wishes,
}

pub(super) async fn post_feasible(
    Shared(state): Shared<Arc<State>>,
    asked: Result<Json<FeasibleBody>, JsonRejection>,
) -> Told {
    let FeasibleBody { position, time, destination, arrival, max_speed_knots, wishes } = body(asked)?;
    let options = wishes.options(&state.router).map_err(|e| refused(&e))?;
    let voyage = Voyage { position, time, destination, arrival, max_knots: max_speed_knots };
    let verdict = state.router.feasible(&voyage, &options).map_err(|e| refused(&e))?;
    Ok(Json(verdict).into_response())
}

#[derive(Serialize)]
struct PassageTold<'a> {
    name: &'a str,
    kind: PassageKind,
    closed: bool,
    line: Vec<[f64; 2]>,
}

pub(super) async fn passages(Shared(state): Shared<Arc<State>>) -> Response {
    let told = state.router.network().passages.iter().map(|p| PassageTold {
        name: &p.name,
        kind: p.kind,
        closed: p.closed,
        line: p.line.iter().map(|at| [at.lon, at.lat]).collect(),
    });
    Json(told.collect::<Vec<_>>()).into_response()
}

pub(super) async fn not_found() -> Response {
    problem(StatusCode::NOT_FOUND, "there is nothing here; /api tells what there is").into_response()
}

pub(super) async fn not_allowed() -> Response {
    problem(StatusCode::METHOD_NOT_ALLOWED, "not with this method; /api tells which").into_response()
}
