//! The route of an HTTP endpoint: a template and one method.

#[cfg(feature = "http")]
use mainspring_route::{Methods, Template};
#[cfg(feature = "http")]
use serde_json::{Value, json};

/// The type of the activity that waits for requests, which is the name of its stimuli. `sql` has it, too.
pub(crate) const HTTP_ENDPOINT: &str = "Elsa.HttpEndpoint";

/// The first segment below the base path that belongs to resumes by token.
#[cfg(feature = "http")]
pub(crate) const RESERVED: &str = "resume";

/// The methods that an endpoint can have, in lower case: the registered ones that a server answers. A wrong one would wait for ever.
#[cfg(feature = "http")]
pub(crate) const ENDPOINT_METHODS: [&str; 20] = [
    "get",
    "post",
    "put",
    "patch",
    "delete",
    "head",
    "options",
    "trace",
    "query",
    "copy",
    "link",
    "lock",
    "mkcol",
    "move",
    "propfind",
    "proppatch",
    "report",
    "search",
    "unlink",
    "unlock",
];

/// What an endpoint waits for: paths of a template, with one method.
#[cfg(feature = "http")]
#[derive(Clone, Debug)]
pub(crate) struct EndpointRoute {
    template: Template,
    /// In lower case.
    method: String,
}

#[cfg(feature = "http")]
impl EndpointRoute {
    /// Checks a path and a method, as they are written in an endpoint.
    ///
    /// # Errors
    /// What is wrong with one of them, in a sentence that goes on after the title of the activity and `: `.
    pub(crate) fn new(path: &str, method: &str) -> Result<Self, String> {
        let template = Template::parse(path).map_err(|error| format!("its path is no route template, {error}"))?;
        Methods::of([method]).map_err(|error| format!("one of its methods is none: {error}"))?;
        let shape = template.shape();
        if shape == RESERVED || shape.strip_prefix(RESERVED).is_some_and(|rest| rest.starts_with('/')) {
            return Err(format!(
                "its path begins with {RESERVED}, which is for the tokens of bookmarks; begin it with another segment"
            ));
        }
        Ok(Self {
            template,
            method: method.to_ascii_lowercase(),
        })
    }

    /// The route of a trigger or bookmark, by the options that it keeps.
    pub(crate) fn of_options(options: &Value) -> Option<Self> {
        let text = |name: &str| options.get(name)?.as_str();
        Some(Self {
            template: Template::parse(text("path")?).ok()?,
            method: text("method")?.to_ascii_lowercase(),
        })
    }

    /// What a trigger or bookmark hashes: routes between which requests would be ambiguous have one key.
    pub(crate) fn key(&self) -> Value {
        Self::key_of(&self.template.shape(), &self.method)
    }

    /// The key of a template with this shape, and a method in lower case.
    pub(crate) fn key_of(shape: &str, method: &str) -> Value {
        json!({ "path": shape, "method": method })
    }

    /// What routes have in common that may be ambiguous without having one key; see [`Template::outline`].
    pub(crate) fn outline(&self) -> Option<String> {
        let outline = self.template.outline()?;
        Some(format!("{} {outline}", self.method))
    }

    /// Its template.
    pub(crate) fn template(&self) -> &Template {
        &self.template
    }

    /// Its method, in lower case.
    pub(crate) fn method(&self) -> &str {
        &self.method
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn routes_that_are_ambiguous_have_one_key() {
        let key = |path: &str, method: &str| EndpointRoute::new(path, method).unwrap().key();
        assert_eq!(key("/Orders/{id}/", "Get"), key("orders/{number?}", "GET"));
        assert_ne!(key("orders/{id}", "GET"), key("orders/{id}", "PUT"));
        assert_ne!(key("orders/{id}", "GET"), key("orders/{id:int}", "GET"));
        assert_eq!(key("orders", "GET"), EndpointRoute::key_of("orders", "get"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let problem = |path: &str, method: &str| EndpointRoute::new(path, method).unwrap_err();
        assert!(
            problem("orders/{id", "GET").contains("column"),
            "{}",
            problem("orders/{id", "GET")
        );
        assert!(problem("orders", "GE T").contains("is no HTTP method"));
        assert!(problem("/Resume/{token}", "GET").contains("begins with resume"));
        assert!(problem("resume", "GET").contains("begins with resume"));
        assert!(EndpointRoute::new("resumes", "GET").is_ok());
    }
}
