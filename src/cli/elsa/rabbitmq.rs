//! The variables that Elsa's documentation and MassTransit's samples use for a RabbitMQ broker.

use super::encoded;
use crate::harness::secret::Secret;

/// Where RabbitMQ is. It is used only if RabbitMQ is selected.
#[derive(Debug, Default)]
pub(super) struct RabbitVariables {
    url: Option<Secret>,
    host: Option<String>,
    port: Option<String>,
    user: Option<String>,
    password: Option<Secret>,
    virtual_host: Option<String>,
    /// The names of the variables that were found.
    pub(super) names: Vec<String>,
}

impl RabbitVariables {
    /// Reads a variable, whose name is `plain` in capitals, if it says where RabbitMQ is.
    pub(super) fn read(&mut self, plain: &str, name: &str, value: &str) {
        let text = || Some(value.to_owned());
        match plain {
            "CONNECTIONSTRINGS__RABBITMQ" | "RABBITMQ__CONNECTIONSTRING" => {
                self.url.get_or_insert(Secret::from(value.to_owned()));
            }
            "RABBITMQ__HOST" | "RABBITMQ__HOSTNAME" => self.host = text(),
            "RABBITMQ__PORT" => self.port = text(),
            "RABBITMQ__USERNAME" | "RABBITMQ__USER" => self.user = text(),
            "RABBITMQ__PASSWORD" => self.password = text().map(Secret::from),
            "RABBITMQ__VIRTUALHOST" | "RABBITMQ__VHOST" => self.virtual_host = text(),
            _ => return,
        }
        self.names.push(name.to_owned());
    }

    /// The URL: the connection string, or the URL that the other variables make together.
    pub(super) fn url(&self) -> Option<Secret> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        let host = self.host.as_ref()?;
        let user = match (&self.user, &self.password) {
            (None, None) => String::new(),
            (user, password) => {
                let password = password.as_ref().map_or("guest", Secret::reveal);
                let user = user.as_deref().unwrap_or("guest");
                format!("{}:{}@", encoded(user), encoded(password))
            }
        };
        let port = self.port.as_ref().map(|port| format!(":{port}")).unwrap_or_default();
        let virtual_host = self.virtual_host.as_deref().map(encoded).unwrap_or_default();
        Some(Secret::from(format!("amqp://{user}{host}{port}/{virtual_host}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<String> {
        let mut found = RabbitVariables::default();
        for (name, value) in variables {
            found.read(name, name, value);
        }
        assert!(!format!("{found:?}").contains("geheim"), "{found:?}");
        found.url().map(|url| url.reveal().to_owned())
    }

    #[test]
    fn a_url_is_made_of_the_parts() {
        let url = |variables: &[(&str, &str)]| of(variables).unwrap();
        assert_eq!(
            of(&[("RABBITMQ__PORT", "1"), ("RABBITMQ__CONCURRENTMESSAGELIMIT", "32")]),
            None
        );
        assert_eq!(url(&[("RABBITMQ__HOST", "rabbitmq")]), "amqp://rabbitmq/");
        let parts = [
            ("RABBITMQ__HOST", "rabbitmq"),
            ("RABBITMQ__PORT", "5673"),
            ("RABBITMQ__USERNAME", "u:1"),
            ("RABBITMQ__PASSWORD", "geheim/@"),
            ("RABBITMQ__VIRTUALHOST", "/elsa"),
        ];
        assert_eq!(url(&parts), "amqp://u%3A1:geheim%2F%40@rabbitmq:5673/%2Felsa");
        for name in ["CONNECTIONSTRINGS__RABBITMQ", "RABBITMQ__CONNECTIONSTRING"] {
            assert_eq!(
                url(&[parts[0], (name, "amqp://u:geheim@other/")]),
                "amqp://u:geheim@other/"
            );
        }
    }
}
