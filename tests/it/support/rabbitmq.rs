//! A RabbitMQ broker of the tests, with ports and a folder of its own. It starts in five seconds, so most tests share one.
//!
//! A shell waits for the end of this process, and then ends the broker and removes its folder, also after a kill.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// How long a broker may take to start.
const START: Duration = Duration::from_secs(60);
/// Where Debian has the broker itself; what is in PATH there insists on another user.
const DEBIAN: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// Ends what is in the file of process ids.
const WATCH: &str = r#"read _; kill -9 $(cat "$0/pids") 2>/dev/null; sleep 0.2; rm -rf "$0""#;

pub(crate) struct RabbitProcess {
    broker: Option<Child>,
    /// The name service of Erlang.
    names: Option<Child>,
    watcher: Option<Child>,
    port: u16,
    tls_port: u16,
    distribution_port: u16,
    names_port: u16,
    directory: PathBuf,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl RabbitProcess {
    /// The broker of all tests that leave it as it is.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<RabbitProcess>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::start())))
    }

    pub(crate) fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("mainspring-rabbit-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut server = Self {
            broker: None,
            names: None,
            watcher: None,
            port: free_port(),
            tls_port: free_port(),
            distribution_port: free_port(),
            names_port: free_port(),
            directory,
        };
        server.configure();
        let watcher = Command::new("sh")
            .args(["-c", WATCH])
            .arg(&server.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        server.watcher = Some(watcher);
        let names = Command::new("epmd")
            .args(["-port", &server.names_port.to_string(), "-address", "127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("epmd is missing: scripts/install-missing rabbitmq");
        server.names = Some(names);
        server.restart();
        server
    }

    fn configure(&self) {
        let (tls, file) = (self.tls_port, |name: &str| self.directory.join(name));
        certificates(&self.directory);
        let folder = self.directory.display();
        let settings = format!(
            "disk_free_limit.absolute = 1MB\nlisteners.ssl.default = 127.0.0.1:{tls}\nssl_options.cacertfile = {folder}/ca.pem\n\
             ssl_options.certfile = {folder}/server.pem\nssl_options.keyfile = {folder}/server.key\n\
             ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n"
        );
        std::fs::write(file("rabbitmq.conf"), settings).unwrap();
        std::fs::write(file("plugins"), "[].\n").unwrap();
        std::fs::write(file(".erlang.cookie"), "MAINSPRING").unwrap();
        let only_ours = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        std::fs::set_permissions(file(".erlang.cookie"), only_ours).unwrap();
    }

    /// Starts it on its ports, with what it has stored; kills the one before.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let program = if Path::new(DEBIAN).exists() {
            DEBIAN
        } else {
            "rabbitmq-server"
        };
        let file = |name: &str| self.directory.join(name).into_os_string();
        let mut broker = Command::new(program)
            .arg("-noinput")
            .current_dir(&self.directory)
            .env("HOME", &self.directory)
            .env("RABBITMQ_NODENAME", self.node())
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("ERL_EPMD_PORT", self.names_port.to_string())
            .env("RABBITMQ_MNESIA_BASE", file("mnesia"))
            .env("RABBITMQ_LOG_BASE", file("log"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq.conf"))
            .env("RABBITMQ_LOGS", "-")
            // The script then becomes the broker, so that its process id is known.
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1 +sbwt none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("rabbitmq-server is missing: scripts/install-missing rabbitmq");
        let names = self.names.as_ref().map(Child::id).unwrap_or_default();
        std::fs::write(file("pids"), format!("{} {names}", broker.id())).unwrap();
        let lines = BufReader::new(broker.stdout.take().unwrap());
        self.broker = Some(broker);
        let (started, start) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            for line in lines.lines().map_while(Result::ok) {
                let is_started = line.contains("Server startup complete");
                said.push(line);
                if is_started {
                    let _ = started.send(());
                }
                if said.len() > 20 {
                    said.remove(0);
                }
            }
            said.join("\n")
        });
        start.recv_timeout(START).expect("rabbitmq-server does not start");
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            let _ = broker.kill();
            let _ = broker.wait();
        }
    }

    fn node(&self) -> String {
        format!("mainspring{}@localhost", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/", self.port)
    }

    /// With TLS, its private authority and a certificate of the client.
    pub(crate) fn tls_url(&self) -> String {
        let (port, folder) = (self.tls_port, self.directory.display());
        format!(
            "amqps://guest:guest@localhost:{port}/?cacertfile={folder}/ca.pem&certfile={folder}/client.pem\
             &keyfile={folder}/client.key"
        )
    }

    /// Evaluates Erlang within the broker; returns what it gives.
    pub(crate) fn eval(&self, code: &str) -> String {
        let began = Instant::now();
        loop {
            let said = self.try_eval(code);
            // A busy broker may not answer the handshake in time.
            if said.contains("failed to connect") && began.elapsed() < START {
                continue;
            }
            assert!(said.starts_with("{ok,"), "{code}: {said}");
            return said;
        }
    }

    fn try_eval(&self, code: &str) -> String {
        let mut call = Command::new("erl_call")
            .args(["-sname", &self.node(), "-c", "MAINSPRING", "-e"])
            .env("HOME", &self.directory)
            .env("ERL_EPMD_PORT", self.names_port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("erl_call is missing: scripts/install-missing rabbitmq");
        // It may have given up before it has read.
        let _ = call.stdin.take().unwrap().write_all(format!("{code}\n").as_bytes());
        let output = call.wait_with_output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// An alarm: no message is taken until it ends.
    pub(crate) fn alarm(&self, is_on: bool) {
        let what = match is_on {
            true => "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).",
            false => "rabbit_alarm:clear_alarm({resource_limit, memory, node()}).",
        };
        self.eval(what);
    }
}

impl Drop for RabbitProcess {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut names) = self.names.take() {
            let _ = names.kill();
            let _ = names.wait();
        }
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}

/// An authority, and a certificate of the server and of a client.
fn certificates(directory: &Path) {
    let run = |arguments: &str| {
        let output = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(directory)
            .output()
            .expect("openssl is missing: scripts/install-missing rabbitmq");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    run(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"
    ));
    for (name, host) in [("server", "localhost"), ("client", "guest")] {
        run(&format!(
            "req {key} -keyout {name}.key -out {name}.csr -subj /CN={host}"
        ));
        std::fs::write(directory.join("extensions"), format!("subjectAltName=DNS:{host}\n")).unwrap();
        run(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out {name}.pem"
        ));
    }
}
