//! The settings derived from environments.

use clap::FromArgMatches;

use super::super::settings::{Command as Which, ProgramArguments, Serve, command_line};
use super::*;

fn of(variables: &[(&str, &str)]) -> ElsaEnvironment {
    ElsaEnvironment::of(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn serve(environment: &ElsaEnvironment, arguments: &[&str]) -> (String, Serve) {
    let all = ["mainspring", "serve"].iter().chain(arguments);
    let matches = environment.apply(command_line()).try_get_matches_from(all).unwrap();
    let program = ProgramArguments::from_arg_matches(&matches).unwrap();
    match program.command {
        Which::Serve(serve) => (program.common.log, *serve),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_environment_of_the_documented_compose_file_is_read() {
    let found = of(&[
        ("ASPNETCORE_ENVIRONMENT", "Development"),
        (
            "CONNECTIONSTRINGS__POSTGRESQL",
            "Server=postgres;Database=elsa;User Id=elsa;Password=elsa",
        ),
        ("REDIS__CONNECTIONSTRING", "redis:6379"),
        ("RABBITMQ__CONNECTIONSTRING", "amqp://guest:guest@rabbitmq:5672/"),
        ("ELSA__RUNTIME__TYPE", "Distributed"),
        ("QUARTZ__CLUSTERED", "true"),
        ("QUARTZ__INSTANCENAME", "ElsaQuartzCluster"),
        ("QUARTZ__SCHEDULER_INSTANCEID", "AUTO"),
        ("ELSA__LOCKING__PROVIDER", "Postgres"),
        ("ELSA__LOCKING__EXPIRY_SECONDS", "30"),
        ("CONNECTIONSTRINGS__REDIS", "redis-host:6379,password=s3cret"),
        ("ASPNETCORE_HTTP_PORTS", "8080"),
        ("PATH", "/bin"),
    ]);
    assert_eq!(
        found.database_url().unwrap().reveal(),
        "Server=postgres;Database=elsa;User Id=elsa;Password=elsa"
    );
    assert!(found.warnings.is_empty(), "{found:?}");
    assert_eq!(found.ignored.len(), 10, "{found:?}");
    assert!(!format!("{found:?}").contains("s3cret") && !format!("{found:?}").contains("Password=elsa"));
    let (log, serve) = serve(&found, &[]);
    assert_eq!(
        (log.as_str(), serve.listen.to_string().as_str()),
        ("info", "0.0.0.0:8080")
    );
    assert!(found.report(false, false).is_ok());
}

#[test]
fn names_are_case_insensitive_and_values_may_be_quoted() {
    for name in [
        "CONNECTIONSTRINGS__POSTGRESQL",
        "ConnectionStrings__PostgreSql",
        "connectionstrings:postgresql",
    ] {
        let found = of(&[(name, "\"Server=h;Database=d\"")]);
        assert_eq!(found.database_url().unwrap().reveal(), "Server=h;Database=d");
    }
    assert!(of(&[("ConnectionStrings__PostgreSql", "  ")]).database_url().is_none());
}

#[test]
fn a_flag_takes_precedence() {
    let found = of(&[
        ("ASPNETCORE_URLS", "http://+:80"),
        ("Logging__LogLevel__Default", "Warning"),
    ]);
    let (log, settings) = serve(&found, &["--listen", "127.0.0.1:0", "--log", "error"]);
    assert_eq!(
        (log.as_str(), settings.listen.to_string().as_str()),
        ("error", "127.0.0.1:0")
    );
    let (log, settings) = serve(&found, &[]);
    assert_eq!(
        (log.as_str(), settings.listen.to_string().as_str()),
        ("warn", "0.0.0.0:80")
    );
}

#[test]
fn addresses_are_read_as_by_kestrel() {
    let listen = |name: &str, value: &str| {
        of(&[(name, value)])
            .listen
            .map(|(_, address)| address.map(|a| a.to_string()))
    };
    for (urls, address) in [
        ("http://*:8080", "0.0.0.0:8080"),
        ("http://+:8080/", "0.0.0.0:8080"),
        ("http://localhost:5000", "127.0.0.1:5000"),
        ("http://elsa.example:81", "0.0.0.0:81"),
        ("http://10.0.0.7:81", "10.0.0.7:81"),
        ("http://[::]:8080", "[::]:8080"),
        ("http://[::1]", "[::1]:80"),
        ("https://*:443;HTTP://*:80", "0.0.0.0:80"),
    ] {
        assert_eq!(listen("ASPNETCORE_URLS", urls), Some(Ok(address.to_owned())), "{urls}");
    }
    assert_eq!(
        listen("ASPNETCORE_HTTP_PORTS", "8080;8081"),
        Some(Ok("0.0.0.0:8080".to_owned()))
    );
    assert_eq!(listen("HTTP_PORTS", "90"), Some(Ok("0.0.0.0:90".to_owned())));
    assert_eq!(listen("ASPNETCORE_URLS", "https://*:443"), None);
    for (name, bad) in [("ASPNETCORE_URLS", "http://*:http"), ("HTTP_PORTS", "x")] {
        assert_eq!(listen(name, bad), Some(Err(())));
        assert!(of(&[(name, bad)]).report(false, false).is_err());
    }
    assert_eq!(
        of(&[("ASPNETCORE_URLS", "https://*:443;http://*:80")]).warnings.len(),
        1
    );
    let both = of(&[
        ("ASPNETCORE_HTTP_PORTS", "90"),
        ("ASPNETCORE_URLS", "http://*:80"),
        ("HTTP_PORTS", "91"),
    ]);
    assert_eq!(both.listen.unwrap().1.unwrap().port(), 80);
}

#[test]
fn levels_become_filters() {
    let log = |variables: &[(&str, &str)]| of(variables).log;
    assert_eq!(
        log(&[("LOGGING__LOGLEVEL__DEFAULT", "Debug")]).as_deref(),
        Some("debug")
    );
    let resumer = "LOGGING__LOGLEVEL__ELSA_WORKFLOWS_RUNTIME_SERVICES_WORKFLOWRESUMER";
    assert_eq!(
        log(&[(resumer, "Debug")]).as_deref(),
        Some("info,mainspring::runtime=debug,mainspring::lock=debug")
    );
    assert_eq!(
        log(&[
            ("Logging__LogLevel__Elsa.Scheduling", "Trace"),
            ("Logging__LogLevel__Default", "None")
        ])
        .as_deref(),
        Some("off,mainspring=trace")
    );
    assert_eq!(log(&[("LOGGING__LOGLEVEL__QUARTZ", "Warning")]), None);
    let unknown = of(&[("LOGGING__LOGLEVEL__DEFAULT", "loud")]);
    assert!(unknown.log.is_none() && unknown.warnings.len() == 1);
    for filter in [
        "debug",
        "info,mainspring::runtime=debug,mainspring::lock=debug",
        "off,mainspring=trace",
    ] {
        assert!(tracing_subscriber::EnvFilter::try_new(filter).is_ok());
    }
}

#[test]
fn settings_without_effect_are_reported_without_their_values() {
    let found = of(&[
        ("ELSA__LOCKING__PROVIDER", "SqlServer"),
        ("Elsa__Other__Key", "s3cret"),
        ("CONNECTIONSTRINGS__SQLSERVER", "Password=s3cret"),
    ]);
    let warnings = found.warnings.join("\n");
    assert!(
        warnings.contains("ELSA__LOCKING__PROVIDER asks for SqlServer") && warnings.contains("Elsa__Other__Key"),
        "{warnings}"
    );
    assert!(
        warnings.contains("CONNECTIONSTRINGS__SQLSERVER") && !warnings.contains("s3cret"),
        "{warnings}"
    );
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_the_locks_only_where_the_provider_says_so() {
    use crate::cli::settings::LockProviderName;

    let url = ("CONNECTIONSTRINGS__REDIS", "redis-host:6379,password=s3cret");
    let expiry = ("ELSA__LOCKING__EXPIRY_SECONDS", "45");
    let selected = of(&[url, expiry, ("Elsa__Locking__Provider", "Redis")]);
    assert!(
        selected.ignored.is_empty() && selected.warnings.is_empty(),
        "{selected:?}"
    );
    let (_, set) = serve(&selected, &[]);
    assert_eq!(set.services.locks.lock_provider, LockProviderName::Redis);
    assert_eq!(set.services.locks.lock_expiry, std::time::Duration::from_secs(45));
    assert_eq!(selected.redis_url().unwrap().reveal(), url.1);
    assert!(!format!("{selected:?}").contains("s3cret"));
    let (_, set) = serve(&selected, &["--lock-provider", "postgres"]);
    assert_eq!(
        set.services.locks.lock_provider,
        LockProviderName::Postgres,
        "a flag takes precedence"
    );
    let alone = of(&[url, expiry]);
    assert_eq!(alone.ignored.len(), 2);
    for bad in ["0", "-1", "99999999999999999"] {
        let unusable = of(&[url, ("ELSA__LOCKING__EXPIRY_SECONDS", bad)]);
        assert_eq!(unusable.warnings.len(), 1, "{bad}");
        let (_, set) = serve(&unusable, &["--lock-provider", "redis"]);
        assert_eq!(set.services.locks.lock_expiry, std::time::Duration::from_secs(30));
    }
    // A flag that selects Redis has them as well.
    let (_, set) = serve(&alone, &["--lock-provider", "redis"]);
    assert_eq!(set.services.locks.lock_expiry, std::time::Duration::from_secs(45));
    assert_eq!(
        serve(&alone, &[]).1.services.locks.lock_provider,
        LockProviderName::Postgres
    );
}

#[test]
fn the_urls_of_workflows_are_those_of_elsa() {
    let found = of(&[
        ("Http__BasePath", "/flows/"),
        ("HTTP__BASEURL", "https://workflows.example/"),
    ]);
    assert!(found.warnings.is_empty() && found.ignored.is_empty(), "{found:?}");
    let (_, set) = serve(&found, &[]);
    let options = set.http.options(set.public_url.as_deref());
    assert_eq!(
        (options.base_path.as_str(), options.base_url.as_deref()),
        ("/flows", Some("https://workflows.example"))
    );
    let (_, set) = serve(&found, &["--http-base-path", "/other"]);
    assert_eq!(set.http.options(None).base_path, "/other");
    assert_eq!(set.http.options(None).base_url, None);
    let wrong = of(&[("Http:BasePath", "/elsa/api")]);
    let error = format!("{:?}", wrong.report(false, false).unwrap_err());
    assert!(
        error.contains("Http:BasePath") && error.contains("/elsa/api"),
        "{error}"
    );
}
