//! What the adaptive planner must reach on real volumes, checked on every table there is.
//!
//! The tables lie outside the repository, in the directory that ARIOSO_SHARED names (`../shared` beside
//! the workspace if it is not set). Where they are missing the checks are left out, said so and counted;
//! where CI is set that is an error.

use crate::planners::{self, Demands, Row};
use crate::volumes;
use arioso_store::plan::{Aim, Budget, TopicTree};
use std::path::{Path, PathBuf};

/// Stores of the comparison with cut points.
const STORES: u32 = 64;
/// The three-level rule is compared where it makes this many stores.
const RULE_STORES_MIN: usize = 30;

fn shared() -> PathBuf {
    match std::env::var_os("ARIOSO_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

/// Every volume table, by name.
fn tables() -> Vec<PathBuf> {
    let data = shared().join("data");
    let mut files: Vec<PathBuf> = ["streams", "volumes_only"]
        .iter()
        .flat_map(|dir| std::fs::read_dir(data.join(dir)).into_iter().flatten())
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.to_string_lossy().ends_with(".volumes.tsv.zst"))
        .collect();
    files.sort();
    files
}

fn row(tree: &TopicTree, demands: &Demands, name: &str, stores: u32) -> Row {
    let planner = planners::planner(name, Aim::WastedSum).unwrap();
    let (plan, ms) = planners::plan(planner.as_ref(), tree, &demands.topics, &Budget::stores(stores)).unwrap();
    if name == "adaptive" {
        plan.check(tree).unwrap();
        assert!(plan.stores().len() <= stores as usize);
    }
    Row::of(tree, demands, name, &plan, ms)
}

/// Ratios of one comparison over all tables.
#[derive(Default)]
struct Ratios(Vec<f64>);

impl Ratios {
    /// Adds ours against theirs; where they waste nothing there is no ratio.
    fn add(&mut self, ours: u128, theirs: u128) {
        if theirs > 0 {
            // A byte stands in for no waste at all, which no mean could hold.
            self.0.push(ours.max(1) as f64 / theirs as f64);
        }
    }

    fn mean(&self) -> f64 {
        (self.0.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.0.len() as f64).exp()
    }
}

/// Wasted bytes on one table, the adaptive planner's first.
struct Compared {
    name: String,
    topics: usize,
    rule_stores: usize,
    rule: (u128, u128),
    cuts: (u128, u128),
    below: (u128, u128),
}

fn compare(file: &Path) -> Compared {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let volumes = volumes::read(file).unwrap();
    assert_eq!(volumes.bad_lines, 0, "{name}");
    let tree = &volumes.tree;
    let demands = Demands::new(tree, None);
    let three = row(tree, &demands, "three-level", STORES);
    let same = row(tree, &demands, "adaptive", three.stores as u32);
    let adaptive = row(tree, &demands, "adaptive", STORES);
    // The better kind of cut points for each lens.
    let rivals = ["cut-best", "cut-heaviest"].map(|name| row(tree, &demands, name, STORES));
    let least = |of: fn(&Row) -> u128| rivals.iter().map(of).min().unwrap();
    Compared {
        topics: tree.rows(),
        rule_stores: three.stores,
        rule: (same.topics.wasted_bytes, three.topics.wasted_bytes),
        cuts: (adaptive.topics.wasted_bytes, least(|row| row.topics.wasted_bytes)),
        below: (adaptive.subtrees.wasted_bytes, least(|row| row.subtrees.wasted_bytes)),
        name,
    }
}

#[test]
fn the_adaptive_planner_reaches_its_targets_on_real_volumes() {
    let files = tables();
    if files.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "no volume tables below {}; set ARIOSO_SHARED", shared().display());
        println!("left out: 1 check of planner targets, no volume tables below {}", shared().display());
        return;
    }
    let compared: Vec<Compared> = std::thread::scope(|scope| {
        let running: Vec<_> = files.iter().map(|file| scope.spawn(|| compare(file))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut rule, mut cuts, mut below) = (Ratios::default(), Ratios::default(), Ratios::default());
    for Compared { name, rule_stores, topics, rule: (same, three), cuts: (adaptive, best), below: (ours, least) } in
        compared
    {
        println!(
            "{name}: {topics} topics; {three} by the rule of {rule_stores}, {same} as many bundles; \
             {best} by {STORES} cut points, {adaptive} bundles; over subtrees {least}, {ours}"
        );
        assert!(same <= three, "{name}: {same} is worse than the three-level rule's {three}");
        if rule_stores >= RULE_STORES_MIN {
            rule.add(same, three);
        }
        assert!(adaptive <= best, "{name}: {adaptive} is worse than cut points' {best}");
        cuts.add(adaptive, best);
        below.add(ours, least);
    }
    let means = [rule.mean(), cuts.mean(), below.mean()];
    println!(
        "geometric means: rule {:.4}, cut points {:.4}, cut points over subtrees {:.4}",
        means[0], means[1], means[2]
    );
    assert!(means[0] <= 1.0 / 8.0, "against the three-level rule: {}", means[0]);
    assert!(means[1] <= 1.0 / 4.0, "against cut points: {}", means[1]);
    assert!(means[2] <= 1.0, "against cut points over subtrees: {}", means[2]);
}
