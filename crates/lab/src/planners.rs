//! All planners under all lenses: the table of the lab.

use crate::Error;
use arioso_store::plan::{
    Adaptive, Aim, Budget, CutPoints, Cuts, Demand, Greedy, Lens, NodeId, Optimum, PerTopic, Plan, Planner, PrefixRule,
    Reads, TopicTree, wasted_sum_bound,
};
use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;

/// The planners by name, the splitter's first.
pub const NAMES: [&str; 8] =
    ["adaptive", "greedy", "cut-best", "cut-heaviest", "three-level", "partition", "per-topic", "optimum"];

/// The planner of a name; the aim matters to those that have a choice.
#[must_use]
pub fn planner(name: &str, aim: Aim) -> Option<Box<dyn Planner + Send + Sync>> {
    Some(match name {
        "adaptive" => Box::new(Adaptive { aim }),
        "greedy" => Box::new(Greedy),
        "cut-best" => Box::new(CutPoints { cuts: Cuts::BestGain }),
        "cut-heaviest" => Box::new(CutPoints { cuts: Cuts::Heaviest }),
        "three-level" => Box::new(PrefixRule::THREE_LEVELS),
        "partition" => Box::new(PrefixRule::PARTITIONS),
        "per-topic" => Box::new(PerTopic),
        "optimum" => Box::new(Optimum { aim }),
        _ => return None,
    })
}

/// Whether a planner makes as many stores as it makes, whatever the budget.
#[must_use]
pub fn is_rule(name: &str) -> bool {
    ["three-level", "partition", "per-topic"].contains(&name)
}

/// Everything that plans are judged by.
#[derive(Clone, Debug)]
pub struct Demands {
    /// Every topic once.
    pub topics: Demand,
    /// Every subtree of two topics or more once.
    pub subtrees: Demand,
    /// What subscribers asked for, if it was recorded.
    pub recorded: Option<Demand>,
}

impl Demands {
    /// Those of a tree.
    #[must_use]
    pub fn new(tree: &TopicTree, recorded: Option<Demand>) -> Demands {
        Demands { topics: Demand::topics(tree), subtrees: Demand::subtrees(tree), recorded }
    }

    /// The one that a planner works for.
    ///
    /// # Errors
    /// If what was recorded is meant and nothing was.
    pub fn of(&self, over: Over) -> Result<&Demand, Error> {
        match over {
            Over::Topics => Ok(&self.topics),
            Over::Subtrees => Ok(&self.subtrees),
            Over::Recorded => self.recorded.as_ref().ok_or(Error::NoSubscriptions),
        }
    }
}

/// What the aim is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Over {
    /// Every topic, once each.
    #[default]
    Topics,
    /// Every subtree of two topics or more, once each.
    Subtrees,
    /// The filters of `--subscriptions`, as often as they were asked for.
    Recorded,
}

/// A lens with its nodes by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Number of reads.
    pub reads: u128,
    /// Bytes wanted by all of them.
    pub useful_bytes: u128,
    /// Bytes read and ignored by all of them.
    pub wasted_bytes: u128,
    /// The most that one read ignores.
    pub worst_wasted_bytes: u64,
    /// Which one.
    pub worst_wasted: String,
    /// The worst ratio of bytes read to bytes useful.
    pub worst_ratio: f64,
    /// Whose.
    pub worst_ratio_of: String,
}

impl Figures {
    /// Names the nodes of a lens.
    #[must_use]
    pub fn of(tree: &TopicTree, lens: &Lens) -> Figures {
        let name = |node: Option<NodeId>| {
            node.map_or(String::new(), |node| String::from_utf8_lossy(tree.name(node)).into_owned())
        };
        Figures {
            reads: lens.reads,
            useful_bytes: lens.useful,
            wasted_bytes: lens.wasted,
            worst_wasted_bytes: lens.wasted_worst.value,
            worst_wasted: name(lens.wasted_worst.node),
            worst_ratio: lens.ratio_worst.value,
            worst_ratio_of: name(lens.ratio_worst.node),
        }
    }
}

/// One plan under all lenses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The planner.
    pub planner: String,
    /// The rule whose number of stores it was given, if not the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stores_of: Option<&'static str>,
    /// Stores it made.
    pub stores: usize,
    /// How long it took, in milliseconds.
    pub plan_ms: f64,
    /// Reading every topic.
    pub topics: Figures,
    /// Reading every subtree.
    pub subtrees: Figures,
    /// Reading what was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Figures>,
}

impl Row {
    /// Judges a plan.
    #[must_use]
    pub fn of(tree: &TopicTree, demands: &Demands, planner: &str, plan: &Plan, plan_ms: f64) -> Row {
        let reads = Reads::new(tree, plan);
        let figures = |demand: &Demand| Figures::of(tree, &reads.lens(demand));
        Row {
            planner: planner.to_owned(),
            stores_of: None,
            stores: plan.stores().len(),
            plan_ms,
            topics: figures(&demands.topics),
            subtrees: figures(&demands.subtrees),
            recorded: demands.recorded.as_ref().map(figures),
        }
    }
}

/// The planners side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Topics in the tree.
    pub topics: usize,
    /// Nodes, the root among them.
    pub nodes: usize,
    /// Messages of all topics.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The common number of stores.
    pub stores: u32,
    /// What reading every topic must waste at least, with that many stores of any shape.
    pub wasted_bound_bytes: f64,
    /// The plans.
    pub rows: Vec<Row>,
    /// Planners that refused, and why.
    pub left_out: Vec<String>,
}

/// What a table is made for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What the planners may use.
    pub budget: Budget,
    /// What they make small.
    pub aim: Aim,
    /// Over which reads.
    pub over: Over,
}

/// Makes a plan and tells how many milliseconds it took.
///
/// # Errors
/// What the planner says.
pub fn plan(
    planner: &dyn Planner,
    tree: &TopicTree,
    demand: &Demand,
    budget: &Budget,
) -> Result<(Plan, f64), arioso_store::plan::Error> {
    let start = Instant::now();
    let plan = planner.plan(tree, demand, budget)?;
    Ok((plan, start.elapsed().as_secs_f64() * 1e3))
}

/// Runs all planners; beside each rule the adaptive planner at the rule's number of stores.
///
/// # Errors
/// If what was recorded is meant and nothing was.
pub fn table(tree: &TopicTree, demands: &Demands, question: &Question) -> Result<Table, Error> {
    let demand = demands.of(question.over)?;
    let mut table = Table {
        topics: tree.rows(),
        nodes: tree.len(),
        messages: tree.messages(NodeId::ROOT),
        bytes: tree.bytes(NodeId::ROOT),
        stores: question.budget.stores_max,
        wasted_bound_bytes: wasted_sum_bound(tree, question.budget.stores_max),
        rows: Vec::new(),
        left_out: Vec::new(),
    };
    let adaptive = Adaptive { aim: question.aim };
    for name in NAMES {
        let Some(planner) = planner(name, question.aim) else {
            continue;
        };
        let (made, ms) = match plan(planner.as_ref(), tree, demand, &question.budget) {
            Ok(made) => made,
            Err(error) => {
                table.left_out.push(format!("{name}: {error}"));
                continue;
            }
        };
        table.rows.push(Row::of(tree, demands, name, &made, ms));
        if is_rule(name) && name != "per-topic" {
            let stores_max = made.stores().len() as u32;
            let (same, ms) = plan(&adaptive, tree, demand, &Budget { stores_max, ..question.budget })?;
            let row = Row::of(tree, demands, "adaptive", &same, ms);
            table.rows.push(Row { stores_of: Some(planner.name()), ..row });
        }
    }
    Ok(table)
}

impl Table {
    /// The table as text, a line for each plan.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{} topics, {} nodes, {} messages, {} bytes; {} stores waste at least {} over all topics\n\n",
            self.topics,
            self.nodes,
            self.messages,
            self.bytes,
            self.stores,
            amount(self.wasted_bound_bytes)
        );
        let recorded = self.rows.iter().any(|row| row.recorded.is_some());
        let heads = ["topics", "subtrees", "recorded"];
        let lenses = &heads[..if recorded { 3 } else { 2 }];
        let _ = write!(text, "{:26}{:>8}{:>10}", "planner", "stores", "ms");
        for lens in lenses {
            let _ = write!(text, "{:>18}{:>11}{:>11}", format!("{lens}: wasted"), "worst", "ratio");
        }
        text.push('\n');
        for row in &self.rows {
            let name = row.stores_of.map_or(row.planner.clone(), |of| format!("{} as {of}", row.planner));
            let _ = write!(text, "{name:26}{:>8}{:>10.1}", row.stores, row.plan_ms);
            for figures in [Some(&row.topics), Some(&row.subtrees), row.recorded.as_ref()].into_iter().flatten() {
                let (wasted, worst) = (amount(figures.wasted_bytes as f64), amount(figures.worst_wasted_bytes as f64));
                let _ = write!(text, "{wasted:>18}{worst:>11}{:>11}", short(figures.worst_ratio));
            }
            text.push('\n');
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "left out: {left_out}");
        }
        text
    }
}

/// Bytes in three figures.
#[must_use]
pub fn amount(bytes: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", short(value), units[unit])
}

fn short(value: f64) -> String {
    match value {
        value if value >= 99.95 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arioso_store::plan::Volume;
    use expect_test::expect;

    fn tree() -> TopicTree {
        let volumes: [(&str, u64); 7] = [
            ("ais/big/a", 9_000),
            ("ais/big/b", 8_000),
            ("ais/small/a/1", 10),
            ("ais/small/a/2", 12),
            ("log", 40),
            ("log/disk", 30),
            ("web/x", 500),
        ];
        let volume =
            |(topic, bytes): &(&'static str, u64)| Volume { topic: topic.as_bytes(), messages: 2, bytes: *bytes };
        TopicTree::build(volumes.iter().map(volume)).unwrap()
    }

    fn answer(stores: u32, recorded: Option<&[(&[u8], u64)]>) -> Table {
        let tree = tree();
        let recorded = recorded.map(|filters| Demand::recorded(&tree, filters.iter().copied()).unwrap());
        let demands = Demands::new(&tree, recorded);
        let question = Question { budget: Budget::stores(stores), aim: Aim::WastedSum, over: Over::Topics };
        let mut table = table(&tree, &demands, &question).unwrap();
        table.rows.iter_mut().for_each(|row| row.plan_ms = 0.0);
        table
    }

    #[test]
    fn the_table_has_every_planner_and_the_adaptive_one_beside_each_rule() {
        expect![[r#"
            7 topics, 13 nodes, 14 messages, 17592 bytes; 4 stores waste at least 276 B over all topics

            planner                     stores        ms    topics: wasted      worst      ratio  subtrees: wasted      worst      ratio  recorded: wasted      worst      ratio
            adaptive                         4       0.0           1.16 KB      540 B         19             500 B      500 B       8.14             530 B      530 B       14.2
            greedy                           4       0.0           1.16 KB      540 B         19             500 B      500 B       8.14             530 B      530 B       14.2
            cut-best                         4       0.0             276 B       82 B       9.20             232 B       70 B       4.18             542 B       70 B       2.30
            cut-heaviest                     4       0.0             276 B       82 B       9.20             232 B       70 B       4.18             542 B       70 B       2.30
            three-level                      6       0.0              22 B       12 B       2.20               0 B        0 B          1               0 B        0 B          1
            adaptive as three-level          6       0.0              22 B       12 B       2.20               0 B        0 B          1               0 B        0 B          1
            partition                        5       0.0           17.0 KB       9 KB       2.20               0 B        0 B          1               0 B        0 B          1
            adaptive as partition            5       0.0              92 B       40 B       2.33               0 B        0 B          1              30 B       30 B       1.75
            per-topic                        7       0.0               0 B        0 B          1               0 B        0 B          1               0 B        0 B          1
            optimum                          4       0.0           1.16 KB      540 B         19             500 B      500 B       8.14             530 B      530 B       14.2
        "#]].assert_eq(&answer(4, Some(&[(b"ais/**", 7), (b"log", 1)])).to_text());
    }

    #[test]
    fn the_table_as_json_names_the_worst_reads() {
        let json = serde_json::to_value(answer(3, None)).unwrap();
        assert_eq!(json["rows"][0]["planner"], "adaptive");
        assert_eq!(json["rows"][0]["topics"]["worst_wasted"], "ais/big/b");
        assert!(json["rows"][0].get("recorded").is_none());
    }

    #[test]
    fn every_name_leads_to_the_planner_that_bears_it() {
        for name in NAMES {
            assert_eq!(planner(name, Aim::WastedSum).unwrap().name(), name);
        }
        assert!(planner("best", Aim::WastedSum).is_none());
    }

    #[test]
    fn amounts_have_three_figures() {
        let amounts = [0.0, 7.0, 999.0, 1000.0, 12_345.0, 999_600.0, 2.5e12].map(amount);
        assert_eq!(amounts, ["0 B", "7 B", "999 B", "1 KB", "12.3 KB", "1.00 MB", "2.50 TB"]);
    }
}
