//! Commands against a server.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::*;

#[test]
fn what_is_published_is_followed_listed_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let one = server.run(&["pub", "orders/eu/1", "paid"]);
    let first = one.json()[0]["seq"].as_u64().unwrap();
    assert_eq!(one.ok(), format!("{{\"seq\":{first}}}\n"));
    server.run_with_input(&["pub", "orders/eu/2", "--publisher", "shop"], b"\xff\x00").ok();
    server.run(&["pub", "weather/oslo", "rain", "--ack", "sequenced"]).ok();

    let lines = server.run(&["sub", "orders/**", "--from", "start", "--until-end"]).json();
    let told =
        lines.iter().map(|line| [&line["topic"], &line["payload"], &line["enc"]].map(|v| v.as_str().unwrap_or("")));
    assert_eq!(told.collect::<Vec<_>>(), [["orders/eu/1", "paid", ""], ["orders/eu/2", "/wA=", "b64"]]);
    assert_eq!(lines[0]["seq"], first);
    assert!(lines[0]["ts"].as_i64() <= lines[1]["ts"].as_i64());
    let raw = server.run(&["sub", "weather/*", "--from", "start", "--until-end", "--format", "raw"]).ok();
    assert_eq!(raw, "rain\n");

    let topics = server.run(&["topics", "orders/**", "--json"]).json();
    assert_eq!(topics.iter().map(|row| row["messages"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1]);
    assert!(server.run(&["topics"]).ok().starts_with("topic\tmessages\tbytes\tlast\norders/eu/1\t1\t"));

    let publishers = server.run(&["publishers", "list"]).ok();
    assert!(publishers.lines().nth(1).unwrap().starts_with("shop\t"), "{publishers}");
    server.run(&["publishers", "drop", "shop"]).ok();
    assert_eq!(server.run(&["publishers", "list"]).ok().lines().count(), 1);
    server.run(&["publishers", "drop", "shop"]).fails(1, &["shop", &server.address]);
}

#[test]
fn a_subscription_goes_on_with_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let mut following = server.spawn(&["sub", "a/**", "b", "--from", "start", "--count", "3"]);
    for (topic, payload) in [("a/1", "x"), ("b", "y"), ("c", "passed over"), ("a", "z")] {
        server.run(&["pub", topic, payload]).ok();
        if topic != "c" {
            assert_eq!(following.line()["payload"], payload);
        }
    }
    following.end().ok();
}

#[test]
fn progress_marks_say_where_to_resume() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    server.run(&["pub", "a", "1"]).ok();
    server.run(&["pub", "b", "2"]).ok();
    let lines = server.run(&["sub", "a", "--from", "start", "--until-end", "--marks"]).json();
    let through = lines.last().unwrap()["through"].as_u64().unwrap();
    assert!(through >= lines[0]["seq"].as_u64().unwrap(), "{lines:?}");
    server.run(&["pub", "a", "3"]).ok();
    let resumed = server.run(&["sub", "a", "--from", &(through + 1).to_string(), "--until-end", "--format", "raw"]);
    assert_eq!(resumed.ok(), "3\n");
}

#[test]
fn json_lines_are_read_from_files_compressed_files_and_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let text: String =
        (0..500).map(|n| format!("{{\"topic\":\"t/{}\",\"payload\":\"{n}\",\"ts\":{n}}}\n\n", n % 7)).collect();
    let plain = dir.path().join("in.jsonl");
    fs::write(&plain, &text).unwrap();
    let zst = dir.path().join("in.jsonl.zst");
    fs::write(&zst, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let gz = dir.path().join("in.jsonl.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    fs::write(&gz, encoder.finish().unwrap()).unwrap();
    for file in [&plain, &zst, &gz] {
        let told = &server.run(&["pub", "--jsonl", file.to_str().unwrap()]).json()[0];
        assert_eq!(told["published"], 500);
        assert!(told["last"].as_u64().unwrap() >= told["first"].as_u64().unwrap() + 499);
    }
    assert_eq!(server.run_with_input(&["pub", "--jsonl", "-"], text.as_bytes()).json()[0]["published"], 500);
    let all = server.run(&["sub", "t/**", "--from", "start", "--until-end"]).json();
    let payloads: Vec<u64> = all.iter().map(|line| line["payload"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(payloads, (0..4).flat_map(|_| 0..500).collect::<Vec<u64>>());
    assert_eq!(all[17]["event_ts"], 17);
    server.run(&["pub", "--jsonl", "/no/such/file"]).fails(1, &["/no/such/file"]);
    fs::write(&zst, b"not zstd").unwrap();
    server.run(&["pub", "--jsonl", zst.to_str().unwrap()]).fails(1, &["in.jsonl.zst"]);
}

#[test]
fn a_bad_line_is_named_with_its_number_and_those_before_it_are_published() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let text = b"{\"topic\":\"a\",\"payload\":\"1\"}\n\n{\"topic\":\"a/*\",\"payload\":\"2\"}\n{\"topic\":\"a\"}\n\
                 {\"topic\":\"a\",\"payload\":\"3\",\"color\":1}\n{\"topic\":\"$control\",\"payload\":\"\"}\nnonsense\n\
                 {\"topic\":\"a\",\"payload\":\"4\"}\n";
    let stopped =
        server.run_with_input(&["pub", "--jsonl", "-"], text).fails(1, &["-, line 3: ", "a/*", "1 messages before it"]);
    assert_eq!(stopped.json()[0]["published"], 1);
    let skipped = server.run_with_input(&["pub", "--jsonl", "-", "--skip-bad"], text).json();
    assert_eq!((&skipped[0]["published"], &skipped[0]["bad_lines"]), (&2.into(), &5.into()));
    let ignored = server.run_with_input(&["pub", "--jsonl", "-", "--skip-bad", "--ignore-unknown"], text).json();
    assert_eq!((&ignored[0]["published"], &ignored[0]["bad_lines"]), (&3.into(), &4.into()));
    let kept = server.run(&["sub", "a", "--from", "start", "--until-end", "--format", "raw"]).ok();
    assert_eq!(kept, "1\n1\n4\n1\n3\n4\n");
}

#[test]
fn a_refusal_says_what_was_wrong_and_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&dir.path().join("data"), &["--payload-bytes-max", "100"]);
    for topic in ["a/*", "a/**", "", "$control", "a\tb"] {
        server.run(&["pub", topic, "x"]).fails(2, &["arioso: ", "topic"]);
    }
    server.run(&["pub", "a", &"x".repeat(101)]).fails(1, &["payload"]);
    for filter in ["a/**/b", "!a", "a/b*", ""] {
        server.run(&["sub", filter, "--until-end"]).fails(2, &["filter"]);
        server.run(&["topics", filter]).fails(2, &["filter"]);
    }
    for from in ["yesterday", "-1", "@noon", "1.5"] {
        server.run(&["sub", "a", &format!("--from={from}")]).fails(2, &["--from", from, "is wanted"]);
    }
    server.run(&["pub", "a", "1", "--expect", "a=0"]).ok();
    let newest = server.run(&["sub", "a", "--from", "start", "--until-end"]).json()[0]["seq"].to_string();
    server.run(&["pub", "a", "2", "--expect", "a=0"]).fails(1, &["condition failed", &newest]);
    server.run(&["pub", "a", "2", "--expect", &format!("a={newest}")]).ok();
    server.run(&["pub", "a", "2", "--expect", "a"]).fails(2, &["--expect", "FILTER=SEQ"]);
}

#[test]
fn wrong_use_ends_with_status_2() {
    for arguments in [
        &["pub", "a", "b", "--color"][..],
        &["pub"],
        &["sub"],
        &["nonsense"],
        &["pub", "a", "b", "--jsonl", "x"],
        &["pub", "a", "--skip-bad"],
        &["sub", "a", "--format", "xml"],
        &["sub", "a", "--count", "many"],
        &["publishers"],
        &["inspect"],
        &["demo", "--tree"],
        &["serve", "--colour"],
        &["serve", "--journal", "mysql://"],
        &["sub", "a", "--connect-timeout", "0"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
    }
    for help in [&["--help"][..], &["demo", "--help"], &["inspect", "--help"], &["serve", "--help"], &["--version"]] {
        let shown = run(help).ok();
        assert!(!shown.contains("demo-server"), "{shown}");
    }
    assert!(run(&["demo", "--help"]).ok().contains("Examples:"));
    run(&["completions", "bash"]).ok();
}

#[test]
fn a_server_that_is_not_there_is_given_up_after_the_connect_timeout() {
    // Bound and closed again: nobody listens there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for command in [&["pub", "a", "x"][..], &["sub", "a"], &["topics"], &["publishers", "list"]] {
        let mut all = vec![command[0], "--server", &*address, "--connect-timeout", "0.1"];
        all.extend(&command[1..]);
        run(&all).fails(1, &[&address, "arioso serve starts one"]);
    }
}

#[test]
fn a_server_stops_cleanly_on_sigterm_and_the_next_start_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    assert_eq!(server.ready["clean"], true, "a stream made just now has nothing unclean about it");
    let last = server.run(&["pub", "a", "1"]).json()[0]["seq"].as_u64().unwrap();
    assert_eq!(server.stop().code(), Some(0));
    let server = Server::start(&data);
    assert_eq!((&server.ready["clean"], server.ready["next_sequence"].as_u64()), (&true.into(), Some(last + 1)));
    server.run(&["pub", "a", "2"]).ok();
    server.kill();
    let server = Server::start(&data);
    assert_eq!(server.ready["clean"], false);
    assert!(server.ready["next_sequence"].as_u64().unwrap() > last + 2);
    let kept = server.run(&["sub", "a", "--from", "start", "--until-end", "--format", "raw"]).ok();
    assert_eq!(kept, "1\n2\n");
    assert!(server.log().contains("ready"), "{}", server.log());
}

#[test]
fn a_second_server_on_a_directory_is_refused_naming_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    let second = serve(&data, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("lock") && said.contains("process") && said.contains(data.to_str().unwrap()), "{said}");
    server.run(&["pub", "a", "1"]).ok();
    let taken = arioso(&["serve", "--listen", &server.address, "--http", "127.0.0.1:0", "--data"])
        .arg(dir.path().join("other"))
        .output()
        .unwrap();
    let said = String::from_utf8(taken.stderr).unwrap();
    assert_eq!(taken.status.code(), Some(1), "{said}");
    assert!(said.contains("listen") && said.contains(&server.address), "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let text: String =
        (0..2_000).map(|n| format!("{{\"topic\":\"a/{n}\",\"payload\":\"{}\"}}\n", "x".repeat(200))).collect();
    server.run_with_input(&["pub", "--jsonl", "-"], text.as_bytes()).ok();
    for command in [&["sub", "**", "--from", "start"][..], &["topics"]] {
        // Larger than a pipe holds: it writes again after the reader is gone.
        let mut running = server.spawn(command);
        let mut byte = [0];
        std::io::Read::read_exact(running.out.as_mut().unwrap(), &mut byte).unwrap();
        running.out = None;
        assert_eq!(running.end().ok(), "", "{command:?}");
    }
}

#[test]
fn healthz_and_metrics_answer_while_it_serves() {
    use std::io::Read;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    server.run(&["pub", "a", "1"]).ok();
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(server.ready["http"].as_str().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(get("/metrics").contains("\narioso_publish_messages_total 1\n"));
    assert!(get("/").contains("<title>Arioso"));
}

#[test]
fn a_cursor_outlives_a_kill_and_is_listed_moved_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    for payload in ["1", "2", "3"] {
        server.run(&["pub", "a", payload]).ok();
    }
    let one = server.run(&["sub", "a", "--cursor", "billing", "--count", "1"]).json();
    assert_eq!(one[0]["payload"], "1");
    server.kill();
    let server = Server::start(&data);
    let rest = server.run(&["sub", "a", "--cursor", "billing", "--until-end"]).json();
    assert_eq!(rest.iter().map(|line| line["payload"].as_str().unwrap()).collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(server.run(&["sub", "a", "--cursor", "billing", "--until-end"]).ok(), "");
    server.run(&["sub", "b", "--cursor", "billing", "--until-end"]).fails(1, &["other filters", "billing"]);
    let listed = server.run(&["cursors", "list", "--json"]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["filters"][0]), (&"billing".into(), &"a".into()));
    let first = one[0]["seq"].as_u64().unwrap().to_string();
    server.run(&["cursors", "set", "billing", &first]).ok();
    server.run(&["cursors", "set", "new", "1"]).fails(1, &["no cursor has this name"]);
    assert_eq!(server.run(&["sub", "a", "--cursor", "billing", "--until-end"]).json().len(), 3);
    server.run(&["cursors", "drop", "billing"]).ok();
    assert_eq!(server.run(&["cursors", "list"]).ok().lines().count(), 1);
    server.run(&["cursors", "drop", "billing"]).fails(1, &["billing"]);
}

#[test]
fn the_newest_of_each_topic_come_first_then_live() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    for (topic, payload) in [("t/a", "1"), ("t/b", "2"), ("t/a", "3"), ("u", "4")] {
        server.run(&["pub", topic, payload]).ok();
    }
    let mut following = server.spawn(&["sub", "t/**", "--from", "last", "--count", "3"]);
    assert_eq!([following.line(), following.line()].map(|line| line["payload"].clone()), ["2", "3"]);
    server.run(&["pub", "t/b", "5"]).ok();
    assert_eq!(following.line()["payload"], "5");
    following.end().ok();
}

#[test]
fn conditions_atomic_batches_headers_and_event_times_reach_the_stream_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let publish = ["pub", "o/1", "new", "--expect", "o/**=0", "--header", "trace=7", "--event-time"];
    let first = server.run(&[&publish[..], &["1970-01-01T00:00:05Z"]].concat()).json()[0]["seq"].as_u64().unwrap();
    server.run(&["pub", "o/1", "late", "--expect", "o/**=0"]).fails(1, &["condition failed", &first.to_string()]);
    let lines =
        b"{\"topic\":\"o/1\",\"payload\":\"paid\",\"headers\":{\"k\":\"v\"}}\n{\"topic\":\"o/2\",\"payload\":\"x\"}\n";
    let expect = format!("o/**={first}");
    let batch = ["pub", "--jsonl", "-", "--atomic", "--expect", &expect];
    let told = server.run_with_input(&batch, lines).json();
    assert_eq!(told[0]["published"], 2);
    assert_eq!(told[0]["last"].as_u64(), told[0]["first"].as_u64().map(|first| first + 1));
    server.run_with_input(&batch, lines).fails(1, &["condition failed"]);
    let bad = b"{\"topic\":\"o/1\",\"payload\":\"x\"}\n{\"topic\":\"$o\",\"payload\":\"x\"}\n";
    server.run_with_input(&["pub", "--jsonl", "-", "--atomic"], bad).fails(1, &["line 2", "nothing is published"]);
    let lines = server.run(&["sub", "o/**", "--from", "start", "--until-end"]).json();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["headers"]["trace"], &lines[0]["event_ts"]), (&"7".into(), &5_000_000_000u64.into()));
    assert_eq!(lines[1]["headers"]["k"], "v");
    server.run(&["pub", "--jsonl", "-", "--expect", "a=0"]).fails(2, &["--atomic"]);
}
