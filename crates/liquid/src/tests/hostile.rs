//! Templates that exceed their limits: each is stopped at its limit, and other templates are not affected.

use std::time::Duration;

use super::{Data, LIMITS};
use crate::{Bounds, ErrorKind, Steps, Stopped, Template};

/// How long the processor works for a template.
const TIME: Duration = Duration::from_millis(100);

/// A caller that stops a template at a time.
struct Deadline(Duration);

impl Steps for Deadline {
    fn check(&self) -> Result<(), Stopped> {
        if thread_time() < self.0 {
            Ok(())
        } else {
            Err(Stopped::OutOfTime)
        }
    }
}

/// How long the processor has worked for this thread.
fn thread_time() -> Duration {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into();
    #[cfg(not(target_os = "linux"))]
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.unwrap()
}

/// A caller that awaits no result.
struct Gone;

impl Steps for Gone {
    fn check(&self) -> Result<(), Stopped> {
        Err(Stopped::Cancelled)
    }
}

/// Growth: twenty loops around it reach any limit.
const DOUBLE: &str = "{% assign x = x | append: x %}";

/// A variable that is doubled some times.
fn doubled(name: &str, start: &str, times: u8, double: &str) -> String {
    format!(
        "{{% assign {name} = {start} %}}{{% for i in (1..{times}) %}}\
         {{% assign {name} = {name} | {double}: {name} %}}{{% endfor %}}"
    )
}

fn forever(body: &str) -> String {
    format!("{{% for i in (1..2000000000) %}}{body}{{% endfor %}}")
}

/// Little work for each of very many characters, items or variables.
fn laborious() -> Vec<String> {
    let text = |start: &str, times: u8, body: &str| doubled("x", start, times, "append") + body;
    let mut all = Vec::new();
    for (start, times, body) in [
        ("'%'", 17, "{{ 'now' | format_date: x }}"),
        ("'zK'", 17, "{{ 'now' | format_date: x }}"),
        ("'%-L'", 16, "{{ '2024-01-01' | date: x }}"),
        ("'%D%+'", 15, "{{ '2024-01-01' | date: x }}"),
        ("'%^'", 16, "{{ '2024-01-01' | date: x }}"),
        ("','", 20, "{% assign f = '0' | append: x %}{{ 0 | format_number: f }}"),
        ("'%'", 20, "{{ 0 | format_number: x }}"),
        ("'%'", 20, "{% assign f = x | append: '0' %}{{ 7 | format_number: f }}"),
        ("'#,'", 20, "{{ 7 | format_number: x }}"),
        ("'E0'", 20, "{% assign f = '0' | append: x %}{{ 7 | format_number: f }}"),
        ("'0;'", 20, "{{ 7 | format_number: x }}"),
        ("' '", 22, "{% if x == blank %}{% endif %}"),
        ("' '", 22, "{% if blank == x %}{% endif %}"),
        ("' '", 22, "{% if 1 == x %}{% endif %}"),
        ("' '", 22, "{{ x | plus: 1 }}"),
        ("' '", 22, "{{ 1 | round: x }}"),
        ("' '", 22, "{{ x | date }}"),
        ("','", 22, "{{ x | date }}"),
        ("'a'", 22, "{{ x | date }}"),
        ("'1 '", 21, "{{ x | time_zone: 'UTC' }}"),
        ("'ab'", 20, "{{ 'a' | split: x }}"),
        ("'0'", 22, "{{ 'a' | slice: x }}"),
        ("'ab'", 20, "{{ 'a' | hmac_sha256: x }}"),
        ("'ab'", 20, "{{ 'a' | truncate: 0, x | size }}"),
        ("'ж'", 20, "{{ x | size }}"),
        ("'ж'", 20, "{{ x.size }}"),
        ("'ж'", 20, "{{ x['size'] }}"),
        ("'ж'", 20, "{% cycle x: 1, 2 %}"),
        ("'ab'", 20, "{{ Variables.Pairs[x] }}{{ Variables[x] }}{{ Input[x] }}"),
        ("'ab'", 20, "{{ 'now' | time_zone: x }}"),
    ] {
        all.push(text(start, times, &forever(body)));
    }
    // A format within the text of another one.
    let formats = "{% assign f = '{0:' | append: x | append: '}' %}{% assign d = 'now' | date %}";
    all.push(text("'%'", 17, formats) + &forever("{{ f | format_string: d }}"));
    let lists = text("'éééééééééé'", 16, "{% assign l = x | split: ',' %}");
    for filter in [
        "map: 'size' | size",
        "sort: 'size' | size",
        "where: 'size', 1 | size",
        "reject: 'size', 1 | size",
        "find: 'size', 1",
        "find_index: 'size', 1",
        "has: 'size', 1",
    ] {
        all.push(lists.clone() + &doubled("l", "l", 17, "concat") + &format!("{{{{ l | {filter} }}}}"));
    }
    let blanks = text("' '", 20, "{% assign l = x | split: ',' %}") + &doubled("l", "l", 10, "concat");
    all.push(blanks + &forever("{% if l contains blank %}{% endif %}{% if l contains 1 %}{% endif %}"));
    for filter in [
        "sort: 'Name'",
        "sort: Variables.Records[0].Name",
        "map: 'Name' | sort",
        "map: 'Name' | sort_natural",
    ] {
        all.push(doubled("l", "Variables.Records", 9, "concat") + &forever(&format!("{{{{ l | {filter} | size }}}}")));
    }
    // A search among many names, and one of long names.
    let names: String = (0..10_000).map(|name| format!("{{%assign v{name}=1%}}")).collect();
    all.push(names.clone() + &forever("{{ z }}"));
    all.push(names + &forever("{% for j in Variables.Words offset: continue %}{% endfor %}"));
    let long = "v".repeat(100_000);
    all.push(format!("{{% assign {long}a = 1 %}}") + &forever(&format!("{{{{ {long}b }}}}")));
    all
}

fn hostile() -> Vec<String> {
    let often = |body: &str| {
        format!(
            "{{% assign x = \"abcdefgh\" %}}{{% assign y = Variables.Many %}}{}",
            forever(body)
        )
    };
    let mut all = vec![
        forever(""),
        forever("x"),
        forever("{{ i }}"),
        forever(&forever("")),
        forever("{% if i == 0 %}{% endif %}"),
        forever("{% continue %}"),
        forever("{% increment n %}"),
        forever("{% cycle 1, 2, 3 %}"),
        forever("{% cycle i: 1, 2 %}"),
        forever("{% assign a = i %}"),
        forever("{% case i %}{% when 1, 2, 3 %}{% endcase %}"),
        forever("{% capture a %}{{ a }}{{ i }}{% endcapture %}"),
        format!("{{% capture a %}}{}{{% endcapture %}}", forever("x")),
        "{{ (1..2000000000) }}".to_owned(),
        "{{ (1..2000000000) | join: \"\" }}".to_owned(),
        "{{ (1..2000000000) | reverse | first }}".to_owned(),
        "{{ (1..2000000000) | sort | size }}".to_owned(),
        "{% assign a = 'aaaaaaaaaa' %}{% for i in (1..14) %}{% assign a = a | append: a %}{% endfor %}\
         {% assign l = a | split: ',' %}{% for i in (1..16) %}{% assign l = l | concat: l %}{% endfor %}\
         {{ l | sort | size }}"
            .to_owned(),
        "{{ (1..2000000000) | uniq | size }}".to_owned(),
        "{{ (1..2000000000) | sum }}".to_owned(),
        "{{ (1..2000000000) | map: \"a\" | size }}".to_owned(),
        "{{ (1..2000000000) | where: \"a\" | size }}".to_owned(),
        "{{ (1..2000000000) | compact | size }}".to_owned(),
        "{{ (1..2000000000) | concat: Variables.Many | size }}".to_owned(),
        "{{ (1..2000000000) | json }}".to_owned(),
        "{{ (1..2000000000) | slice: 0, 2000000000 | size }}".to_owned(),
        "{{ (1..2000000000) | append: \"a\" }}".to_owned(),
        "{{ (1..2000000000) | find: \"a\", 1 }}".to_owned(),
        "{% assign a = (1..2000000000) %}{% if a contains 0 %}{% endif %}".to_owned(),
        "{% assign a = (1..2000000000) %}{% assign b = (1..2000000000) %}{% if a == b %}{% endif %}".to_owned(),
        "{% for i in (1..2000000000) reversed %}{% endfor %}".to_owned(),
        "{{ Variables.Long | replace: \"x\", Variables.Long }}".to_owned(),
        "{{ Variables.Long | split: \"\" | join: Variables.Long }}".to_owned(),
        "{{ Variables.When | date: \"%999999999999Y\" }}".to_owned(),
        "{{ Variables.When | date: \"%999999999t\" }}".to_owned(),
        "{{ Variables.When | date: \"%99999999N\" }}".to_owned(),
        "{{ \"{0,2000000000}\" | format_string: 1 }}".to_owned(),
        // More than may be written, and four times as much on its way there.
        format!(
            "{{{{ Variables.Long{} | escape | json | escape }}}}",
            " | append: Variables.Long".repeat(7)
        ),
    ];
    for body in [
        DOUBLE,
        "{% capture x %}{{ x }}{{ x }}{% endcapture %}",
        "{% assign x = x | prepend: x %}",
        "{% assign x = x | replace: \"a\", x %}",
        "{% assign x = x | json %}",
        "{% assign x = x | url_encode %}",
        "{% assign x = x | escape | append: \"<\" %}",
        "{% assign x = x | base64_encode %}",
        "{% assign y = y | concat: y %}",
        "{% assign z = Variables.Long | split: \"\" %}",
        "{% assign z = Variables.Long | upcase %}",
        "{% assign z = Variables.Long | sha256 %}",
        "{% assign z = Variables.Long | md5 %}",
        "{% assign z = Variables.Long | reverse %}",
        "{% assign z = Variables.Long | strip_html %}",
        "{% assign z = Variables.Long | handleize %}",
        "{% assign z = Variables.Long | truncatewords: 9 %}",
        "{% assign z = y | sort %}",
        "{% assign z = y | uniq %}",
        "{% assign z = y | sum %}",
        "{% assign z = y | json %}",
        "{% assign z = y | join: x %}",
        "{% if Variables.Long contains \"y\" %}{% endif %}",
        "{% if y == Variables.Many %}{% endif %}",
        "{% assign z = \"now\" | date: \"%c %c %c %c\" %}",
    ] {
        all.push(often(body));
    }
    all.extend(laborious());
    all
}

#[test]
fn each_hostile_template_is_stopped_inside_its_limit() {
    let all = hostile();
    assert!(all.len() >= 60, "{}", all.len());
    for template in all {
        let begun = thread_time();
        let caller = Deadline(begun + TIME);
        let bounds = Bounds {
            steps: u64::MAX,
            memory: 16 << 20,
            caller: Some(&caller),
            ..LIMITS
        };
        let result = Template::parse(&template).and_then(|template| template.render(&Data::new(), bounds));
        let shown = template.get(template.len().saturating_sub(150)..).unwrap_or(&template);
        let took = thread_time() - begun;
        assert!(took < TIME + Duration::from_secs(1), "{shown}: {took:?}");
        match result {
            Ok(text) => panic!("{shown} gives {} bytes", text.len()),
            Err(error) => assert!(
                matches!(error.kind, ErrorKind::Timeout | ErrorKind::Memory | ErrorKind::TooLarge),
                "{shown}: {error}"
            ),
        }
    }
}

#[test]
fn a_template_whose_caller_has_gone_ends() {
    let template = Template::parse("{% for i in (1..2000000000) %}{% endfor %}").unwrap();
    let bounds = Bounds {
        caller: Some(&Gone),
        ..LIMITS
    };
    assert_eq!(
        template.render(&Data::new(), bounds).unwrap_err().kind,
        ErrorKind::Cancelled
    );
}
