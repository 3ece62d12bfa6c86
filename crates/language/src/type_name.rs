//! The names of .NET's types.

/// A name without namespace and assembly: `System.Int32, System.Private.CoreLib` is `Int32`.
pub fn short_type_name(text: &str) -> &str {
    let full = text.split(',').next().unwrap_or_default().trim();
    full.rsplit('.').next().unwrap_or_default()
}
