//! The latest plans of the page, made when they are first asked for.

use super::Lab;
use crate::planners::{self, Over, Row};
use arioso_store::plan::{Aim, Budget, Demand, Plan, Reads};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::Semaphore;

/// Plans kept: two sides of the page and every planner for the cost of a topic. A plan of a million
/// topics takes some 30 MB.
const PLANS_KEPT: usize = 12;

/// Which plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub planner: String,
    pub stores: u32,
    pub aim: Aim,
    pub over: Over,
}

/// A plan, and how it is judged once somebody asks: a picture needs only the plan.
pub(super) struct Planned {
    key: Key,
    pub plan: Plan,
    plan_ms: f64,
    judged: OnceLock<Judged>,
}

/// A plan under the lenses.
pub(super) struct Judged {
    pub touched: Vec<u64>,
    pub row: Row,
    /// For topics, subtrees and what was recorded.
    pub curves: Vec<(&'static str, Curve)>,
}

/// How reads are distributed: at each step, the share of reads that do no worse.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Curve {
    /// Ratio of bytes read to bytes useful, by percent of reads.
    pub ratio: Vec<f64>,
    /// Bytes wasted, by percent of reads.
    pub wasted: Vec<f64>,
}

pub(super) struct Plans {
    kept: Mutex<VecDeque<(Key, Arc<Planned>)>>,
    turns: Semaphore,
}

impl Plans {
    pub fn new(at_once: usize) -> Plans {
        Plans { kept: Mutex::new(VecDeque::new()), turns: Semaphore::new(at_once) }
    }

    fn find(&self, key: &Key) -> Option<Arc<Planned>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(have, _)| have == key)?;
        let found = kept.remove(at)?;
        kept.push_front(found.clone());
        Some(found.1)
    }

    fn keep(&self, key: Key, planned: Arc<Planned>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((key, planned));
        kept.truncate(PLANS_KEPT);
    }
}

/// The plan of a key, made now if it is not kept.
pub(super) async fn planned(lab: &Arc<Lab>, key: Key) -> Result<Arc<Planned>, String> {
    if let Some(found) = lab.plans.find(&key) {
        return Ok(found);
    }
    let _turn = lab.plans.turns.acquire().await.map_err(|error| error.to_string())?;
    // Another request may have made it while this one waited.
    if let Some(found) = lab.plans.find(&key) {
        return Ok(found);
    }
    let work = Arc::clone(lab);
    let wanted = key.clone();
    let made = tokio::task::spawn_blocking(move || make(&work, &wanted)).await;
    let made = Arc::new(made.map_err(|error| error.to_string())??);
    lab.plans.keep(key, Arc::clone(&made));
    Ok(made)
}

fn make(lab: &Lab, key: &Key) -> Result<Planned, String> {
    let (tree, demands) = (&lab.shown.volumes.tree, &lab.shown.demands);
    let planner = planners::planner(&key.planner, key.aim)
        .ok_or_else(|| format!("planner {:?} is none of {}", key.planner, planners::NAMES.join(", ")))?;
    let budget = Budget { stores_max: key.stores, ..lab.shown.question.budget };
    let demand = demands.of(key.over).map_err(|error| error.to_string())?;
    let (plan, ms) = planners::plan(planner.as_ref(), tree, demand, &budget).map_err(|error| error.to_string())?;
    Ok(Planned { key: key.clone(), plan, plan_ms: ms, judged: OnceLock::new() })
}

impl Planned {
    /// Judges the plan, the first time; may take a second at a million topics.
    pub fn judged(&self, lab: &Lab) -> &Judged {
        self.judged.get_or_init(|| {
            let (tree, demands) = (&lab.shown.volumes.tree, &lab.shown.demands);
            let row = Row::of(tree, demands, &self.key.planner, &self.plan, self.plan_ms);
            let reads = Reads::new(tree, &self.plan);
            let lenses = [
                ("topics", Some(&demands.topics)),
                ("subtrees", Some(&demands.subtrees)),
                ("recorded", demands.recorded.as_ref()),
            ];
            let curves = lenses.into_iter().filter_map(|(name, demand)| Some((name, curve(&reads, demand?)))).collect();
            Judged { touched: reads.touched().to_vec(), row, curves }
        })
    }
}

fn curve(reads: &Reads, demand: &Demand) -> Curve {
    let each = |value: fn(&arioso_store::plan::Read) -> f64| {
        let mut values: Vec<(f64, u64)> = reads.of(demand).map(|read| (value(&read), read.times)).collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        percentiles(&values)
    };
    Curve { ratio: each(|read| read.ratio()), wasted: each(|read| read.wasted() as f64) }
}

/// The values at 0, 1, … 100 percent of the weight; empty if there is none.
fn percentiles(values: &[(f64, u64)]) -> Vec<f64> {
    let total: u128 = values.iter().map(|(_, times)| u128::from(*times)).sum();
    let mut steps = Vec::new();
    let mut below = 0u128;
    for (value, times) in values {
        below += u128::from(*times);
        while steps.len() <= 100 && below * 100 >= total * steps.len() as u128 && below > 0 {
            steps.push(*value);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::percentiles;

    #[test]
    fn percentiles_count_each_value_as_often_as_it_is_read() {
        let steps = percentiles(&[(1.0, 90), (5.0, 9), (70.0, 1)]);
        assert_eq!(steps.len(), 101);
        assert_eq!([steps[0], steps[90], steps[91], steps[99], steps[100]], [1.0, 1.0, 5.0, 5.0, 70.0]);
        assert!(percentiles(&[]).is_empty());
    }
}
