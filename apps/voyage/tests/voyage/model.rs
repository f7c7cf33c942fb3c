//! The model on recorded tracks: over history, live, with any number of threads.

use std::path::Path;

use arioso::{Begin, Bus};
use arioso_voyage::feed::Feed;
use arioso_voyage::model::Prediction;
use arioso_voyage::model::follow::{Reports, follow};
use arioso_voyage::model::input::{TrackMessage, tracks};
use arioso_voyage::model::judge::{Ports, WEIGHTS};
use arioso_voyage::model::run::Threads;
use arioso_voyage::model::score::Calls;
use arioso_voyage::ports;
use arioso_voyage::sea;
use arioso_voyage::sea::router::Router;

use crate::shared::shared;

/// Reports of one vessel in this part of the recording: a way from Portugal to Banjul.
const VESSEL: &str = "ais/1/538004505";
const REPORTS: usize = 250;

fn recorded(dir: &Path) -> Vec<TrackMessage> {
    let all = tracks(&dir.join("ais_tracks.csv.zst")).unwrap();
    all.into_iter().filter(|(topic, ..)| topic == VESSEL).take(REPORTS).collect()
}

fn publish(bus: &Bus, messages: &[TrackMessage]) {
    let mut feed = Feed::new(bus, None).unwrap();
    for (topic, time, payload) in messages {
        feed.publish(topic, payload, Some(*time)).unwrap();
    }
    feed.finish().unwrap();
}

/// Every prediction on the bus, as it lies there, without the sequences of what they follow from.
fn predictions(bus: &Bus) -> Vec<Prediction> {
    let mut subscription = bus.subscribe(["predictions/**"], Begin::Start, true).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = subscription.next_batch().unwrap() {
        for message in batch.messages() {
            let message = message.unwrap();
            let prediction: Prediction = serde_json::from_slice(message.payload()).unwrap();
            assert_eq!(message.topic(), format!("predictions/{}", prediction.mmsi));
            all.push(Prediction { after: 0, ..prediction });
        }
    }
    all
}

#[test]
fn live_and_history_and_any_number_of_threads_give_the_same_predictions() {
    let Some(dir) = shared("sea") else { return };
    let messages = recorded(&dir);
    let ports = Ports::new(ports::ports().unwrap(), WEIGHTS);
    let finder = Router::new(sea::oceans().unwrap(), 1 << 24);
    let data = tempfile::tempdir().unwrap();

    let bus = Bus::open(data.path().join("history")).unwrap();
    publish(&bus, &messages);
    follow(&bus, true, &ports, &finder, Threads { fleet: 1, judge: 1 }, |_| ()).unwrap();
    let history = predictions(&bus);
    assert!(history.len() > 20, "{}", history.len());
    bus.close().unwrap();

    // Live: the model is there first, the reports come while it runs.
    let bus = Bus::open(data.path().join("live")).unwrap();
    let (count, mut left) = (history.len(), history.len());
    std::thread::scope(|scope| {
        let model = scope.spawn(|| {
            let reports = Reports::new(&bus, false).unwrap().take(REPORTS);
            let mut feed = Feed::new(&bus, None).unwrap();
            let threads = Threads { fleet: 2, judge: 3 };
            arioso_voyage::model::run::run(reports, &ports, &finder, threads, |prediction| {
                let payload = serde_json::to_vec(prediction).unwrap();
                feed.publish(&format!("predictions/{}", prediction.mmsi), &payload, None)?;
                left -= 1;
                Ok(())
            })
            .unwrap();
            feed.finish().unwrap();
        });
        messages.chunks(37).for_each(|some| publish(&bus, some));
        model.join().unwrap();
    });
    assert_eq!(left, 0);
    let live = predictions(&bus);
    assert_eq!(live.len(), count);
    assert_eq!(live, history);
    bus.close().unwrap();
}

#[test]
fn the_model_is_judged_by_the_ports_at_which_vessels_called() {
    let Some(dir) = shared("sea") else { return };
    let data = tempfile::tempdir().unwrap();
    let bus = Bus::open(data.path()).unwrap();
    let all = tracks(&dir.join("ais_tracks.csv.zst")).unwrap();
    publish(&bus, &all.into_iter().filter(|(topic, ..)| topic == VESSEL).collect::<Vec<_>>());
    let list = ports::ports().unwrap();
    let mut calls = Calls::default();
    for report in Reports::new(&bus, true).unwrap() {
        calls.hear(&report.unwrap(), &list);
    }
    let names: Vec<&str> = calls.all().map(|(_, _, name)| name).collect();
    assert_eq!(names, ["Banjul", "Aveiro"]);
    let number = |name: &str| list.iter().find(|p| p.name == name).unwrap().number;
    let guess = |name: &str, time: f64| {
        let text = format!(
            r#"{{"after": 1, "mmsi": 538004505, "time": {time}, "position": {{"lon": 0, "lat": 0}}, "reported": "", "arrival": 0,
               "ports": [{{"port": {}, "name": "{name}", "feasible": true, "km": 1, "earliest_arrival": 1, "score": 1}}]}}"#,
            number(name)
        );
        serde_json::from_str::<Prediction>(&text).unwrap()
    };
    let (outward, home, late) = (1_406_900_000.0, 1_408_900_000.0, 2_000_000_000.0);
    let guesses = [guess("Banjul", outward), guess("Aveiro", outward), guess("Aveiro", home), guess("Aveiro", late)];
    let score = calls.score(&guesses, &list);
    assert_eq!((score.followed, score.first, score.told, score.unknown), (3, 2, 2, 1));
    bus.close().unwrap();
}

#[test]
fn over_http_the_model_says_the_same() {
    let Some(dir) = shared("sea") else { return };
    let service = crate::http::Running::service(&[]);
    let ports = Ports::new(ports::ports().unwrap(), WEIGHTS);
    let near = Router::new(sea::oceans().unwrap(), 1 << 24);
    let remote = arioso_voyage::remote::Remote::new(service.address.parse().unwrap(), Default::default());
    let data = tempfile::tempdir().unwrap();
    let bus = Bus::open(data.path()).unwrap();
    publish(&bus, &recorded(&dir)[..60]);
    let threads = Threads { fleet: 1, judge: 2 };
    let (mut here, mut there) = (Vec::new(), Vec::new());
    follow(&bus, true, &ports, &near, threads, |p| here.push(p.clone())).unwrap();
    follow(&bus, true, &ports, &remote, threads, |p| there.push(p.clone())).unwrap();
    assert!(!here.is_empty());
    assert_eq!(here, there);
    bus.close().unwrap();
}
