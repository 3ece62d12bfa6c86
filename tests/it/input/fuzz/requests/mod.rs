//! Requests that are nearly right: each thing in them may be what it should, or something else.

use crate::support::routes::Route;
use crate::support::single_node::KEY;

mod bodies;

use std::sync::Mutex;

const STRANGE_METHODS: [&str; 8] = [
    "HEAD",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "FETCH",
    "get",
    "P\u{f6}ST",
];
/// Instances that are remembered, the last ones.
const REMEMBERED: usize = 200;

/// A generator of numbers that are the same for the same seed (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub(super) fn in_100(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Ids that exist on the node, for requests that name them.
pub(super) struct Known {
    token: String,
    instances: Mutex<Vec<String>>,
}

impl Known {
    pub(super) fn new(token: String) -> Self {
        Self {
            token,
            instances: Mutex::default(),
        }
    }

    pub(super) fn instance(&self, id: &str) {
        let mut instances = self.instances.lock().unwrap();
        if instances.len() == REMEMBERED {
            instances.remove(0);
        }
        instances.push(id.to_owned());
    }

    fn any_instance(&self, random: &mut Random) -> String {
        let instances = self.instances.lock().unwrap();
        if instances.is_empty() {
            "none".to_owned()
        } else {
            random.pick(&instances[..]).clone()
        }
    }
}

/// Bytes to send.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) is_head: bool,
    /// The connection ends before an answer is read.
    pub(super) hangs_up: bool,
    /// Nothing is missing in it: the connection can be used again.
    pub(super) is_whole: bool,
}

pub(super) fn request(random: &mut Random, route: &Route, known: &Known) -> Request {
    let (mut is_whole, mut hangs_up) = (true, false);
    if random.in_100(1) {
        let length = random.below(300);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
        bytes.extend_from_slice(b"\r\n\r\n");
        return Request {
            bytes,
            is_head: false,
            hangs_up: false,
            is_whole: false,
        };
    }
    let method = if random.in_100(92) {
        random.pick(&route.methods).as_str()
    } else {
        *random.pick(&STRANGE_METHODS)
    };
    let mut target = path(random, route, known);
    if random.in_100(35) || route.path.ends_with("/bookmarks/resume") {
        target.push('?');
        target.push_str(&query(random, known));
    }
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    for header in headers(random) {
        head.push_str(&header);
        head.push_str("\r\n");
    }
    let mut body = Vec::new();
    if matches!(method, "POST" | "PUT") && random.in_100(90) || random.in_100(5) {
        body = bodies::body(random, &route.path, known);
        let kind = if random.in_100(94) {
            "application/json"
        } else {
            *random.pick(&[
                "text/plain",
                "application/json; charset=utf-16",
                "application/x-www-form-urlencoded",
                "",
                "\u{1}",
            ])
        };
        head.push_str(&format!("Content-Type: {kind}\r\n"));
        match random.below(100) {
            0 => {
                is_whole = false;
                head.push_str(&format!("Content-Length: {}\r\n", body.len() + 10));
            }
            1 => {
                is_whole = false;
                hangs_up = true;
                head.push_str("Content-Length: 100000\r\n");
            }
            2 => {
                is_whole = false;
                head.push_str("Content-Length: 99999999999\r\n");
            }
            3 => {
                is_whole = false;
                head.push_str("Transfer-Encoding: chunked\r\n");
            }
            4 => {
                head.push_str("Transfer-Encoding: chunked\r\n");
                let mut chunk = format!("{:x}\r\n", body.len()).into_bytes();
                chunk.append(&mut body);
                chunk.extend_from_slice(b"\r\n0\r\n\r\n");
                // An empty chunk is the end.
                is_whole = !chunk.starts_with(b"0");
                body = chunk;
            }
            _ => head.push_str(&format!("Content-Length: {}\r\n", body.len())),
        }
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    Request {
        bytes,
        is_head: method == "HEAD",
        hangs_up,
        is_whole,
    }
}

/// Text in place of an id, ready for a path.
const STRANGE: [&str; 16] = [
    "",
    "none",
    "..",
    ".",
    "%",
    "%zz",
    "%00",
    "%0A",
    "%1B%5B2J",
    "a%2Fb",
    "%FF%FE",
    "%F0%9F%99%82",
    "'%20OR%201=1--",
    "-1",
    "9223372036854775808",
    "v1.e30.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
];
const DEFINITIONS: [&str; 12] = [
    "hello", "waits", "sleeps", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "none",
];
const EVENTS: [&str; 3] = ["Go", "Other", "e"];

/// Activity types, and the names of their inputs.
const TYPES: [&str; 5] = [
    "Elsa.WriteLine",
    "Elsa.FlowJoin",
    "Elsa.NotFoundActivity",
    "Text",
    "Mode",
];

fn path(random: &mut Random, route: &Route, known: &Known) -> String {
    let mut path = route.path.clone();
    while let Some((before, rest)) = path.split_once('{') {
        let after = rest.split_once('}').unwrap().1;
        let id = if random.in_100(70) {
            if before.contains("definitions") {
                (*random.pick(&DEFINITIONS)).to_owned()
            } else if before.contains("events") {
                (*random.pick(&EVENTS)).to_owned()
            } else if before.contains("descriptors") {
                (*random.pick(&TYPES)).to_owned()
            } else if before.contains("resume") {
                known.token.clone()
            } else {
                known.any_instance(random)
            }
        } else if random.in_100(5) {
            "x".repeat(random.below(3_000))
        } else {
            (*random.pick(&STRANGE)).to_owned()
        };
        path = format!("{before}{id}{after}");
    }
    match random.below(60) {
        0 => path.push('/'),
        1 => path.insert(0, '/'),
        2 => path.truncate(random.below(path.len()).max(1)),
        3 => path = format!("http://evil.example{path}"),
        4 => path.push_str(random.pick::<&str>(&STRANGE)),
        _ => {}
    }
    path
}

const PARAMETERS: [&str; 24] = [
    "page",
    "pageSize",
    "skip",
    "take",
    "versionOptions",
    "searchTerm",
    "definitionIds",
    "definitionId",
    "orderBy",
    "orderDirection",
    "isSystem",
    "correlationId",
    "name",
    "input",
    "variables",
    "t",
    "in",
    "async",
    "status",
    "subStatus",
    "state",
    "workflowInstanceId",
    "triggerActivityId",
    "\u{e4}",
];
const VALUES: [&str; 26] = [
    "",
    "0",
    "1",
    "-1",
    "2147483648",
    "18446744073709551616",
    "1e9",
    "NaN",
    "true",
    "false",
    "Published",
    "Latest",
    "Created",
    "Running",
    "Finished",
    "hello",
    "waits",
    "%7B%7D",
    "%7B%22a%22%3A%5B1%2C2%5D%7D",
    "%7B%22a%22%3A",
    "%5B%5D",
    "%00",
    "%FF",
    "%25_%5C",
    "%0A",
    "null",
];

fn query(random: &mut Random, known: &Known) -> String {
    let count = if random.in_100(1) { 1_200 } else { random.below(5) };
    let mut pairs: Vec<String> = (0..count)
        .map(|_| format!("{}={}", random.pick(&PARAMETERS), random.pick(&VALUES)))
        .collect();
    if random.in_100(20) {
        pairs.push(format!("t={}", known.token));
    }
    if random.in_100(3) {
        pairs.push("&&=&%".to_owned());
    }
    if random.in_100(1) {
        pairs.push(format!("searchTerm={}", "%25".repeat(random.below(15_000))));
    }
    pairs.join("&").replace('\u{e4}', "%C3%A4")
}

fn headers(random: &mut Random) -> Vec<String> {
    let mut headers = Vec::new();
    match random.below(100) {
        0 => headers.push("Host: evil.example".to_owned()),
        1 => {}
        2 => headers.push("Host: \u{1}".to_owned()),
        _ => headers.push("Host: localhost".to_owned()),
    }
    match random.below(100) {
        0..15 => {}
        15..20 => headers.push("Authorization: ApiKey wrong-wrong-wrong".to_owned()),
        20..22 => headers.push(format!("Authorization: Bearer {KEY}")),
        _ => headers.push(format!("Authorization: ApiKey {KEY}")),
    }
    if random.in_100(15) {
        let long = "k".repeat(300);
        let odd = ["", "a b", "\u{e4}", long.as_str()];
        let key = if random.in_100(90) {
            format!("k{}", random.below(20))
        } else {
            (*random.pick(&odd)).to_owned()
        };
        headers.push(format!("Idempotency-Key: {key}"));
    }
    for (percent, header) in [
        (1, "Origin: http://evil.example"),
        (1, "Origin: null"),
        (1, "Sec-Fetch-Site: cross-site"),
        (1, "Content-Encoding: gzip"),
        (1, "Expect: tea"),
        (1, "Idempotency-Key: twice"),
        (1, "Connection: close"),
        (1, "X: y\r\n folded"),
    ] {
        if random.in_100(percent) {
            headers.push(header.to_owned());
        }
    }
    if random.below(300) == 0 {
        headers.push(format!("X-Long: {}", "x".repeat(random.below(100_000))));
    }
    headers
}
