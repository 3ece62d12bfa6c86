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

fn hostile() -> Vec<String> {
    let forever = |body: &str| format!("{{% for i in (1..2000000000) %}}{body}{{% endfor %}}");
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
         {% assign l = a | split: ',' %}{% for i in (1..10) %}{% assign l = l | concat: l %}{% endfor %}\
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
        let shown: String = template.chars().take(150).collect();
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
