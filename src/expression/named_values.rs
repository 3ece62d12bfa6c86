//! The values of the host that scripts read by name: only settings and secrets that the operator has listed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest name of a secret.
const MAX_NAME: usize = 128;

/// The largest secret, in bytes.
const MAX_SECRET: u64 = 64 << 10;

/// Why `getSecret` refuses in an expression whose result a client sees.
pub(crate) const NO_SECRETS: &str =
    "secrets are not available here: an expression that is evaluated alone reads none; run it in a workflow";

/// Settings by name, and the directory of secrets.
#[derive(Clone, Default)]
pub struct NamedValues {
    /// The settings that `getConfig`, `Configuration` in templates and expressions of that type return.
    pub config: Arc<BTreeMap<String, String>>,
    /// The directory with a file for each secret. It is read at each call, so a rotated secret takes effect at once.
    pub secrets_dir: Option<Arc<PathBuf>>,
}

impl NamedValues {
    /// A setting; as in .NET, the case of its name does not matter.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let in_any_case = || {
            let mut all = self.config.iter();
            all.find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        let found = self.config.get(name).or_else(in_any_case);
        found.map(String::as_str)
    }

    /// Reads a secret, without the end of its last line. The error states why it cannot be read, and never contains a
    /// secret.
    pub(crate) fn secret(&self, name: &str) -> Result<String, String> {
        let Some(directory) = &self.secrets_dir else {
            return Err("this node has no secrets: the setting secrets-dir names their folder".to_owned());
        };
        if let Some(problem) = secret_name_problem(name) {
            return Err(problem);
        }
        let shown = name;
        let path = directory.join(name);
        let missing = || format!("there is no secret {shown:?}: the folder secrets-dir has no such file");
        // A pipe would block, so nothing but a file is opened.
        if !path.metadata().map_err(|_| missing())?.is_file() {
            return Err(missing());
        }
        let file = File::open(&path).map_err(|error| format!("the secret {shown:?} cannot be read: {error}"))?;
        let mut text = String::new();
        file.take(MAX_SECRET + 1)
            .read_to_string(&mut text)
            .map_err(|error| format!("the secret {shown:?} cannot be read as text: {error}"))?;
        if text.len() as u64 > MAX_SECRET {
            return Err(format!("the secret {shown:?} is larger than {} KiB", MAX_SECRET >> 10));
        }
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }
}

/// Why a name can be that of no secret.
pub(crate) fn secret_name_problem(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('.') && name.chars().all(is_plain);
    let shown: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    (!is_name).then(|| {
        format!(
            "{shown:?} cannot name a secret: a name has letters, digits, '.', '_' and '-', at most {MAX_NAME}, and begins \
             with no dot"
        )
    })
}

impl fmt::Debug for NamedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.config.keys().collect();
        f.debug_struct("NamedValues")
            .field("config", &names)
            .field("secrets_dir", &self.secrets_dir)
            .finish()
    }
}
